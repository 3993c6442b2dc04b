"""Which commands there are, and where each is defined. Only the one that was asked for is imported."""

from __future__ import annotations

from memsheaf.cli.command import Command, Usage

COMMANDS = {
    "add": ("writing", "add"),
    "update": ("writing", "update"),
    "insert": ("writing", "insert"),
    "edit": ("editing", "edit"),
    "forget": ("writing", "forget"),
    "list": ("reading", "list_"),
    "show": ("reading", "show"),
    "search": ("reading", "search"),
    "recall": ("recalling", "recall"),
    "why": ("recalling", "why"),
    "catalog": ("reading", "catalog"),
    "prompt": ("reading", "prompt"),
    "cite": ("citing", "cite"),
    "verify": ("citing", "verify"),
    "inbox": ("inbox", "inbox"),
    "extract": ("learning", "extract"),
    "review": ("learning", "review"),
    "consolidate": ("consolidating", "consolidate"),
    "dream": ("consolidating", "dream"),
    "expect": ("consolidating", "expect"),
    "diary": ("diary", "diary"),
    "compact": ("compacting", "compact"),
    "promote": ("promoting", "promote"),
    "session": ("sessions", "session"),
    "task": ("tasks", "task"),
    "audit": ("auditing", "audit"),
    "lint": ("auditing", "lint"),
    "notes": ("noting", "notes"),
    "fact": ("noting", "fact"),
    "brief": ("briefing", "brief"),
    "log": ("past", "log"),
    "diff": ("past", "diff"),
    "blame": ("past", "blame"),
    "undo": ("past", "undo"),
    "restore": ("past", "restore"),
    "erase": ("past", "erase"),
    "export": ("moving", "export"),
    "import": ("moving", "import_"),
    "scopes": ("places", "scopes"),
    "init": ("places", "init"),
    "trust": ("trusting", "trust"),
    "doctor": ("places", "doctor"),
    "index": ("indexing", "index"),
    "chat": ("chatting", "chat"),
    "conversations": ("conversations", "conversations"),
    "mcp": ("serving", "mcp"),
    "models": ("spending", "models"),
    "cost": ("spending", "cost"),
    "completion": ("completion", "completion"),
    "help": ("overview", "help_"),
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
