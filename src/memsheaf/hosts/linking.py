"""A link: Claude Code keeps its own memory in the folder of this project, so that both read and write the same files.

It is the setting `autoMemoryDirectory` in `.claude/settings.local.json` of the working tree, which is the person's
own and not committed.
"""

from __future__ import annotations

import os

from memsheaf.hosts.json_edit import read_value
from memsheaf.hosts.settings_files import FileChange, SettingsFiles, SettingsTarget
from memsheaf.scope import around

KEY = "autoMemoryDirectory"
FILE = os.path.join(".claude", "settings.local.json")
_HOST = "claude-code link"


def plan_link(files: SettingsFiles, cwd: str, folder: str, *, wanted: bool) -> FileChange:
    """The change that links the client of a working tree to a folder, or that takes the link out."""
    tree, value = around(cwd), {KEY: folder}
    file = os.path.join(tree, FILE)
    target = SettingsTarget(_HOST, file, "json", value, value if wanted else None, tree, "Claude Code")
    change = files.plan(target)
    found = read_value(change.before or "") if wanted and not change.problem else {}
    other = found.get(KEY, folder)
    return change if other == folder else change._replace(problem=f"its {KEY} is {other!r}")
