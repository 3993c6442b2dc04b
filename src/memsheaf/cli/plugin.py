"""The command that writes the Claude Code plugin."""

from __future__ import annotations

import os
import shlex

from memsheaf.cli.call import Call, plural
from memsheaf.cli.command import Argument, place, takes
from memsheaf.cli.output import Note
from memsheaf.hosts.installing import program_words
from memsheaf.hosts.plugin import NAME, write_plugin


@takes(Argument("folder", "an empty folder, or the plugin's", "DIR", required=True, convert=place), scoped=False)
def plugin(call: Call) -> int:
    """Write the Claude Code plugin, with a marketplace to install it from.

    The plugin has what `memsheaf install claude-code` adds to the settings: the server, hooks, the commands
    /memsheaf:remember, :recall, :why, :review, :forget and :web, and a skill. It runs this program from where it is
    now: write it again when that moves, and after an update.

    examples:
      memsheaf plugin ~/memsheaf-plugin
    """
    folder = os.path.abspath(call.options.folder)
    home = call.options.home or call.environment.get("MEMSHEAF_HOME")
    told = ["env", f"MEMSHEAF_HOME={os.path.abspath(home)}"] if home else []
    files = write_plugin(folder, [*told, *program_words()])
    lines = [f"claude plugin marketplace add {shlex.quote(folder)}", f"claude plugin install {NAME}@{NAME}"]
    said = f"Wrote {plural(len(files), 'file')} to {folder}. To install it:"
    return call.answer(
        {"folder": folder, "files": files, "commands": lines},
        [said, *(f"  {line}" for line in lines)],
        Note("restart Claude Code afterwards"),
    )
