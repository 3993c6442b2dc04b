"""The table of commands: where each is defined. Only the one that runs is imported."""

from __future__ import annotations

from memsheaf.cli.command import Command, Usage

MODULES = {
    "write": ("add", "update", "insert", "edit", "forget"),
    "read": ("list", "show", "search", "recall", "why", "catalog", "prompt"),
    "checks": ("cite", "verify", "audit", "lint", "doctor", "index"),
    "learn": ("inbox", "extract", "review", "diary"),
    "consolidate": ("consolidate", "dream", "expect", "compact"),
    "notes": ("brief", "notes", "fact"),
    "sessions": ("session",),
    "tasks": ("task",),
    "promote": ("promote",),
    "history": ("log", "diff", "blame", "undo", "restore", "erase"),
    "admin": ("export", "import", "scopes"),
    "repository": ("init", "trust"),
    "chat": ("chat", "conversations"),
    "mcp": ("mcp",),
    "models": ("models", "cost"),
    "completion": ("completion",),
    "reference": ("help",),
}
COMMANDS = {name: module for module, names in MODULES.items() for name in names}
HIDDEN = {"complete": "completion"}
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


ALIASES = {
    **dict.fromkeys(("remove", "delete", "rm"), "forget"),
    **dict.fromkeys(("cat", "read", "view"), "show"),
    **dict.fromkeys(("write", "new"), "add"),
    "ls": "list",
    "find": "search",
    "history": "log",
    "replace": "update",
    "check": "verify",
}
"""What people type who are used to other programs."""


def load(name: str) -> Command:
    """The command of that name. Raises Usage when there is none."""
    if name not in COMMANDS and name not in HIDDEN:
        close = _closest(name)
        raise Usage(f"there is no command {name!r}" + (f"; did you mean {close!r}?" if close else ""))
    from importlib import import_module

    module = import_module(f"memsheaf.cli.{COMMANDS.get(name) or HIDDEN[name]}")
    command = getattr(module, f"{name}_", None) or getattr(module, name)  # `list_`, where Python has the name
    assert isinstance(command, Command)
    return command


def _closest(name: str) -> str:
    from difflib import get_close_matches

    return ALIASES.get(name) or next(iter(get_close_matches(name, COMMANDS, 1)), "")
