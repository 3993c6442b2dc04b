"""The names of the commands, and where each is. Only the command that runs is imported."""

from collections.abc import Sequence
from importlib import import_module

from memsheaf.cli.parser import Command, Usage, describe, split_first, suggest

MODULES = {
    "read": "recall list search show",
    "changes": "remember edit forget",
    "history": "log diff undo restore erase",
    "learning": "learn review",
    "consolidation": "consolidate compact",
    "promotion": "promote",
    "checks": "audit doctor",
    "transfer": "export import",
    "repository": "init trust scopes",
    "install": "install uninstall on off",
    "serving": "mcp worker web",
    "chat": "chat",
    "demo": "demo",
    "settings": "config completion",
}
GROUPS = {
    "notes": "show set diary",
    "task": "status start note revise verify phase event end",
    "session": "show start note end",
    "hub": "status add sync remove",
    "team": "members create invite join token admin",
}
"""Modules whose functions are commands of two words; a line with one word means the first."""
COMMANDS = {
    **{name: module for module, names in MODULES.items() for name in names.split()},
    **{f"{group} {name}": group for group, names in GROUPS.items() for name in names.split()},
}

STILL_RUN = {"why": ["recall", "--why"]}
"""What the plugin of an earlier version has in its commands."""
RENAMED = {
    "add": "remember TEXT --name NAME",
    "update": "edit MEMORY --old TEXT --new TEXT",
    "insert": "edit MEMORY",
    "catalog": "show",
    "prompt": "show --prompt",
    "cite": "audit --cite PLACE",
    "verify": "audit MEMORY",
    "lint": "audit",
    "inbox": "learn --waiting",
    "inbox add": "learn FILE --later",
    "inbox clear": "learn --drop",
    "extract": "learn",
    "dream": "consolidate --if-due",
    "dream run": "consolidate --if-due --apply",
    "expect": "consolidate --expect QUESTION MEMORY",
    "index": "doctor",
    "models": "doctor",
    "cost": "doctor --cost DAYS",
    "link": "install claude-code --link",
    "unlink": "uninstall claude-code",
    "plugin": "install --plugin DIR",
    "brief": "notes",
    "notes prune": "notes set --prune",
    "fact": "remember TEXT --reason TEXT --cite PLACE",
    "fact supersede": "remember TEXT --reason TEXT --replaces MEMORY",
    "diary": "notes diary TEXT",
    "diary show": "notes diary --since DAY",
    "diary undo": "notes diary --undo",
    "conversations": "chat --list",
    "conversations remove": "chat --remove ID",
    "redo": "undo --redo",
    "blame": "diff MEMORY --blame",
    "config get": "config KEY",
    "config set": "config KEY VALUE",
    "config unset": 'config KEY ""',
    "config show": "config",
    "task list": "task status --all",
    "task deliver": "task note TEXT --file NAME",
    "task done": "task end",
    "task drop": "task end --drop REASON",
    "session list": "session show --all",
    "hub join": "hub add URL -s SCOPE",
    "hub rejoin": "hub sync --again -s SCOPE",
    "hub set": "hub add -s SCOPE --offline refuse",
    "team remove": "team members --remove MEMBER",
    "team log": "team members",
    "team tokens": "team token",
    "team revoke": "team token --revoke ID",
    "team service": "team admin URL",
    "team migrate": "team admin URL",
    "team prune": "team admin --days N",
    "team restored": "team admin --restored",
}
"""Names that commands once had, and what is typed instead."""
_OTHER_PROGRAMS = {
    "forget": "remove delete rm",
    "show": "cat read view",
    "remember": "save note store write new",
    "config": "settings set",
    "edit": "correct change fix pin unpin rename move mv replace",
    "list": "ls",
    "search": "find",
    "log": "history",
    "audit": "check",
}
MEANT = {alias: name for name, aliases in _OTHER_PROGRAMS.items() for alias in aliases.split()}
"""What people type who are used to other programs."""


def load(name: str) -> Command:
    """Return a command by its full name."""
    module = import_module(f"memsheaf.cli.{COMMANDS[name]}")
    function = name.rpartition(" ")[2]
    return describe(name, getattr(module, function, None) or getattr(module, f"{function}_"))


def find_command(words: Sequence[str]) -> tuple[str, list[str]]:
    """Return the full name of the command that a line is about, and the words that are left.

    Raises Usage for an old name, with the new command, and for no name at all.
    """
    name, rest = split_first(words)
    if name in STILL_RUN:
        name, *more = STILL_RUN[name]
        rest = [*more, *rest]
    second, behind = split_first(rest)
    for old in (f"{name} {second}", name):
        if old in RENAMED:
            raise Usage(f"`memsheaf {old}` is now `memsheaf {RENAMED[old]}`; nothing was done")
    if name in GROUPS:
        actions = GROUPS[name].split()
        if second and second not in actions:
            known = f"; `memsheaf {name}` has {', '.join(actions)}"
            raise Usage(f"there is no command `{name} {second[:80]}`{suggest(second, actions)}{known}")
        return f"{name} {second or actions[0]}", behind if second else rest
    if name not in COMMANDS:
        meant = f"; did you mean {MEANT[name]}?" if name in MEANT else suggest(name, [*COMMANDS, *GROUPS])
        raise Usage(f"there is no command {name[:80]!r}{meant}")
    return name, rest
