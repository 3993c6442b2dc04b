"""Write docs/cli.md and a page for each group of commands; `make docs` runs it, and a test compares."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from memsheaf import config
from memsheaf.cli.commands import COMMANDS, GROUPS, load
from memsheaf.cli.pages import EXIT_CODES, THEMES, describe_group
from memsheaf.cli.parser import EVERYWHERE, make_parser

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"

_START = """\
# The command line

<!-- Made from the commands themselves by `make docs`. -->

Reading covers the project you are in and the user; saving goes where a memory belongs. `-s` names one scope;
`memsheaf scopes` shows which there are and where they live. What is not the project's is shown with its scope, as in
`user:user_prefers-tabs.md`. Commands that take a MEMORY find it by its file, its name or a part of either. Some have
two words, such as `memsheaf task start`; `memsheaf help task start` explains one.

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
A value that begins with a dash follows its option with a sign, `--old=-x`; a file or word that does so follows `--`;
a bullet or a negative number, such as `"- one"`, stands for itself.
"""
_MADE = "<!-- Made from the commands themselves by `make docs`. -->"


def pages() -> Iterator[tuple[str, str]]:
    """Yield each page's place below docs, and its text."""
    rows = []
    for title, names in [*_themes()]:
        place = f"cli/{title.lower().replace(' ', '-')}.md"
        listed = ", ".join(f"`{name}`" for name in names)
        rows.append(f"| [{title}]({place}) | {listed} |")
        yield place, _page(title, names)
    table = "\n".join(["| page | commands |", "|---|---|", *rows])
    exit_codes = f"## Exit codes\n\n{_fenced(EXIT_CODES.partition(chr(10))[2])}"
    yield "cli.md", "\n".join([_START, f"## Commands\n\n{table}\n", _everywhere(), exit_codes, _settings()])


def _themes() -> Iterator[tuple[str, list[str]]]:
    for title, names in THEMES.items():
        yield title, names.split()
    for group in GROUPS:
        yield group.capitalize(), [name for name in COMMANDS if COMMANDS[name] == group and " " in name]


def _page(title: str, names: list[str]) -> str:
    parts = [f"# {title}\n\n{_MADE}\n"]
    if title.lower() in GROUPS:
        parts.append(_fenced(describe_group(title.lower())))
    for name in names:
        help, _, rest = make_parser(load(name), width=79).format_help().partition("\nevery command takes:")
        examples = rest.partition("\nexamples:")[2]
        parts.append(f"## {name}\n\n{_fenced(f'{help}{chr(10)}examples:{examples}')}")
    return "\n".join(parts)


def _everywhere() -> str:
    rows = []
    for argument in EVERYWHERE:
        shown = " ".join([", ".join(argument.flags), argument.value]).strip()
        rows.append(f"| `{shown}` | {argument.help} |")
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
    (DOCS / "cli").mkdir(exist_ok=True)
    for place, text in pages():
        (DOCS / place).write_text(text, encoding="utf-8")
