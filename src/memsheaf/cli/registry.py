"""Which commands there are, and where each is defined. Only the one that was asked for is imported."""

from __future__ import annotations

from memsheaf.cli.command import Command, Usage

COMMANDS = {
    "add": ("write", "add"),
    "update": ("write", "update"),
    "insert": ("write", "insert"),
    "edit": ("edit", "edit"),
    "forget": ("write", "forget"),
    "list": ("read", "list_"),
    "show": ("read", "show"),
    "search": ("read", "search"),
    "recall": ("recall", "recall"),
    "why": ("recall", "why"),
    "catalog": ("read", "catalog"),
    "prompt": ("read", "prompt"),
    "cite": ("citations", "cite"),
    "verify": ("citations", "verify"),
    "inbox": ("inbox", "inbox"),
    "extract": ("learn", "extract"),
    "review": ("learn", "review"),
    "consolidate": ("consolidate", "consolidate"),
    "dream": ("consolidate", "dream"),
    "expect": ("consolidate", "expect"),
    "diary": ("daily_log", "diary"),
    "compact": ("compact", "compact"),
    "promote": ("promote", "promote"),
    "session": ("sessions", "session"),
    "task": ("tasks", "task"),
    "audit": ("audit", "audit"),
    "lint": ("audit", "lint"),
    "notes": ("notes", "notes"),
    "fact": ("notes", "fact"),
    "brief": ("brief", "brief"),
    "log": ("history", "log"),
    "diff": ("history", "diff"),
    "blame": ("history", "blame"),
    "undo": ("history", "undo"),
    "restore": ("history", "restore"),
    "erase": ("history", "erase"),
    "export": ("transfer", "export"),
    "import": ("transfer", "import_"),
    "scopes": ("admin", "scopes"),
    "init": ("admin", "init"),
    "trust": ("trust", "trust"),
    "doctor": ("admin", "doctor"),
    "index": ("index", "index"),
    "chat": ("chat", "chat"),
    "conversations": ("conversations", "conversations"),
    "mcp": ("mcp", "mcp"),
    "models": ("spend", "models"),
    "cost": ("spend", "cost"),
    "completion": ("completion", "completion"),
    "help": ("help", "help_"),
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
