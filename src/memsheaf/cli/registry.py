"""The table of commands: where each is defined. Only the one that runs is imported."""

from __future__ import annotations

from memsheaf.cli.command import Command, Usage

COMMANDS = {
    "add": ("write", "add"),
    "update": ("write", "update"),
    "insert": ("write", "insert"),
    "edit": ("write", "edit"),
    "forget": ("write", "forget"),
    "list": ("read", "list_"),
    "show": ("read", "show"),
    "search": ("read", "search"),
    "recall": ("read", "recall"),
    "why": ("read", "why"),
    "catalog": ("read", "catalog"),
    "prompt": ("read", "prompt"),
    "cite": ("checks", "cite"),
    "verify": ("checks", "verify"),
    "inbox": ("learn", "inbox"),
    "extract": ("learn", "extract"),
    "review": ("learn", "review"),
    "consolidate": ("consolidate", "consolidate"),
    "dream": ("consolidate", "dream"),
    "expect": ("consolidate", "expect"),
    "diary": ("learn", "diary"),
    "compact": ("consolidate", "compact"),
    "promote": ("promote", "promote"),
    "session": ("sessions", "session"),
    "task": ("tasks", "task"),
    "audit": ("checks", "audit"),
    "lint": ("checks", "lint"),
    "notes": ("notes", "notes"),
    "fact": ("notes", "fact"),
    "brief": ("notes", "brief"),
    "log": ("history", "log"),
    "diff": ("history", "diff"),
    "blame": ("history", "blame"),
    "undo": ("history", "undo"),
    "restore": ("history", "restore"),
    "erase": ("history", "erase"),
    "export": ("admin", "export"),
    "import": ("admin", "import_"),
    "scopes": ("admin", "scopes"),
    "init": ("repository", "init"),
    "trust": ("repository", "trust"),
    "doctor": ("checks", "doctor"),
    "index": ("checks", "index"),
    "chat": ("chat", "chat"),
    "conversations": ("chat", "conversations"),
    "mcp": ("mcp", "mcp"),
    "models": ("models", "models"),
    "cost": ("models", "cost"),
    "completion": ("completion", "completion"),
    "help": ("reference", "help_"),
}

HIDDEN = {"complete": ("completion", "complete")}
"""What the completion scripts call; not for people."""

THEMES = {
    "Save and change": ("add", "update", "insert", "edit", "forget"),
    "Look": ("list", "show", "search", "recall", "why", "catalog", "prompt"),
    "Evidence": ("cite", "verify"),
    "Learn": ("inbox", "extract", "review", "consolidate", "dream", "expect"),
    "Layers": ("brief", "notes", "fact", "session", "task", "promote", "audit", "lint", "compact", "diary"),
    "What happened": ("log", "diff", "blame", "undo", "restore", "erase"),
    "Move": ("export", "import"),
    "Talk": ("chat", "conversations"),
    "Serve": ("mcp",),
    "Set up": ("scopes", "init", "trust", "doctor", "index", "models", "cost", "completion", "help"),
}


def load(name: str) -> Command:
    """The command of that name. Raises Usage when there is none."""
    if name not in COMMANDS and name not in HIDDEN:
        close = _closest(name)
        raise Usage(f"there is no command {name!r}" + (f"; did you mean {close!r}?" if close else ""))
    from importlib import import_module

    module, function = COMMANDS.get(name) or HIDDEN[name]
    command = getattr(import_module(f"memsheaf.cli.{module}"), function)
    assert isinstance(command, Command)
    return command


def _closest(name: str) -> str:
    from difflib import get_close_matches

    aliases = {
        "remove": "forget",
        "delete": "forget",
        "rm": "forget",
        "ls": "list",
        "cat": "show",
        "find": "search",
        "history": "log",
        "write": "add",
        "new": "add",
        "read": "show",
        "view": "show",
        "replace": "update",
        "check": "verify",
    }
    return aliases.get(name) or next(iter(get_close_matches(name, COMMANDS, 1)), "")
