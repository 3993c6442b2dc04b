"""What there is: all commands at a glance, or the help of one."""

from __future__ import annotations

from memsheaf.cli.call import Call
from memsheaf.cli.command import Argument, help_text, takes
from memsheaf.cli.registry import COMMANDS, THEMES, load

EXIT_CODES = """\
exit codes:
  0    done
  1    refused or failed, and said why; for `doctor` an error was found, for `erase` a trace,
       for `import` and `export` something was left out, for `verify` a citation drifted or is missing,
       for `lint` and `notes check` there are findings, for `compact` it does not fit
  2    the line was written wrongly; nothing was done
  130  interrupted
"""


@takes(Argument("command", "the command to explain; without one, all are listed", "COMMAND", complete="commands"))
def help_(call: Call) -> int:
    """Explain a command, or list them all.

    examples:
      memsheaf help
      memsheaf help add
    """
    name = call.options.command
    text = help_text(name, load(name)) if name else overview()
    known = [name] if name else sorted(COMMANDS)
    value = {"commands": [{"name": each, "summary": load(each).summary} for each in known], "text": text}
    return call.console.answer(value, [text.removesuffix("\n")])


def overview() -> str:
    """Every command with its sentence, by theme."""
    lines = ["usage: memsheaf COMMAND ...", "", "Memory that AI agents keep as plain files.", ""]
    for theme, names in THEMES.items():
        lines.append(f"{theme}:")
        lines += [f"  {name:<15}{load(name).summary}" for name in names]
        lines.append("")
    lines += ["`memsheaf help COMMAND` explains one and has examples; `memsheaf --version` prints the version.", ""]
    return "\n".join(lines) + "\n" + EXIT_CODES
