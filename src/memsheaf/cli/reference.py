"""Print docs/cli.md: `python -m memsheaf.cli.reference > docs/cli.md`."""

from __future__ import annotations

import sys

from memsheaf import config
from memsheaf.cli.command import EVERYWHERE, help_text
from memsheaf.cli.help import EXIT_CODES
from memsheaf.cli.registry import THEMES, load

_START = """\
# The command line

<!-- Made from the commands themselves by `python -m memsheaf.cli.reference`. -->

`memsheaf COMMAND` works on one scope: the one that `--scope` names, else the one in your settings, else the
project you are in. `memsheaf scopes` shows which there are and where they live. The commands of the layers (`brief`,
`session`, `task`, `notes`, `fact`, `promote`, `compact`) work on the project you are in.

```console
$ memsheaf add "Prefers tabs" "Use tabs, not spaces." --description "Indentation of code" --type user --scope user
Saved user_prefers-tabs.md
$ memsheaf search indentation --scope user --json
```

Answers go to standard output, everything else to standard error. With `--json` the answer is one JSON document
in ASCII; an error is `{"error": {"kind": ..., "message": ..., "hint": ...}}` on standard output, and still in
words on standard error. Colours appear on a terminal only, and not when `NO_COLOR` is set or `TERM` is `dumb`.
A text that begins with a dash can follow its option, `--old -x`; a file or word that does so follows `--`; a bullet
or a negative number, such as `"- one"`, stands for itself.
"""


def reference() -> str:
    """The whole page."""
    parts = [_START, _everywhere(), f"## Exit codes\n\n{_fenced(EXIT_CODES.partition(chr(10))[2])}", _settings()]
    for theme, names in THEMES.items():
        parts.append(f"## {theme}\n")
        parts += [f"### {name}\n\n{_fenced(help_text(name, load(name), everywhere=False))}" for name in names]
    return "\n".join(parts)


def _everywhere() -> str:
    rows = [f"| `{argument.shown}` | {argument.help} |" for argument in EVERYWHERE]
    table = "\n".join(["| option | |", "|---|---|", *rows])
    return f"## What every command takes\n\nBefore or after its name.\n\n{table}\n"


def _settings() -> str:
    said, _, rest = (config.__doc__ or "").removeprefix("Settings: ").partition("\n\n")
    example, _, environment = rest.partition("\n\nEnvironment: ")
    lines = "\n".join(line.removeprefix("    ") for line in example.split("\n"))
    return f"## Settings\n\nThey come {said}\n\n```toml\n{lines}\n```\n\nEnvironment: {environment.strip()}\n"


def _fenced(text: str) -> str:
    return f"```text\n{text.rstrip()}\n```\n"


if __name__ == "__main__":
    sys.stdout.write(reference())
