"""Write docs/cli.md, the page of all commands; `make docs` runs it, and a test compares."""

from __future__ import annotations

from pathlib import Path

from memsheaf import config
from memsheaf.cli.command import EVERYWHERE, THEMES, load
from memsheaf.cli.reference import EXIT_CODES, help_text

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "cli.md"

_START = """\
# The command line

<!-- Made from the commands themselves by `make docs`. -->

Reading covers the project you are in and the user; saving goes where a memory belongs. `--scope` names one scope;
`memsheaf scopes` shows which there are and where they live. What is not the project's is shown with its scope, as in
`user:user_prefers-tabs.md`. Commands that take a MEMORY find it by its file, its name or a part of either. Some are
groups of actions, such as `memsheaf task start`; `memsheaf help task start` explains one.

```console
$ memsheaf remember "I prefer pnpm"
Saved user:user_pnpm.md
  I prefer pnpm
Remembered for you, in every project; `memsheaf edit user:user_pnpm.md --move project` moves it.
Undo with `memsheaf undo`.
$ memsheaf search pnpm --json
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
        for name in names.split():
            command = load(name)
            parts.append(f"### {name}\n\n{_fenced(help_text(name, command, everywhere=False))}")
            actions = [(f"{name} {action}", one) for action, one in command.actions.items() if one.arguments]
            parts += [_fenced(help_text(title, one, everywhere=False)) for title, one in actions]
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
    PAGE.write_text(reference(), encoding="utf-8")
