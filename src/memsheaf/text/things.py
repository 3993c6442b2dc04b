"""What a text is about, where that has a name of its own: the commands to run and the addresses that stand in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

LONGEST = 20_000
"""How many characters of a text are read."""
MOST = 20
"""So many commands and addresses of a text count."""

# Programs whose names are hardly anything else; those that are words, such as `make`, count inside code only.
_PROGRAMS = (
    "npm|npx|pnpm|yarn|pytest|tox|nox|uv|uvx|pip3?|pipx|python3?|cargo|kubectl|helm|docker|podman|git|terraform"
    r"|\./gradlew|gradle|mvn|dotnet|ruff|mypy|eslint|tsc|bundle|composer|deno|psql|redis-cli|curl|ssh|rsync|systemctl"
)
_JOINED = " && "
_PLACE = r"[\w.~/@-]+"
_MORE = r"(?: (?:--?\w[\w-]*(?:=\S+)?|[\w.@-]*[/=][\w./:@=-]*|[\w-]+\.[a-z]{1,5}(?!\w)))*"
_SUB = r"(?: (?:run|exec|compose|-m) [\w:.-]+| [a-z][\w:-]*)"
_STEP = rf"(?:cd {_PLACE}|(?:{_PROGRAMS}){_SUB}{_MORE})"
_NEXT = rf"(?:cd {_PLACE}|[a-z./][\w./-]*{_SUB}?{_MORE})"
_SPOKEN = rf"(?<![\w./-]){_STEP}(?: ?&& ?{_NEXT})*"
_CODE = r"`([^`\n]{2,200})`"
_QUOTED = r"\"([^\"\n]{2,200})\"|“([^”\n]{2,200})”|(?<!\w)'([^'\n]{2,200})'(?!\w)"
_ADDRESS = r"(?<!\w)[a-z][a-z0-9+.-]{1,12}://[^\s`\"'<>()（）、。，「」]+"
_SMALL = r"(?:and|are|as|at|but|does|for|from|has|history|in|is|it|not|of|on|or|so|sure|the|then|to|was|with)"


def things(text: str) -> frozenset[str]:
    """The commands and the addresses that a text names, each in one spelling; no step of one that is there whole.

    >>> sorted(things("Tests: `cd ./evals;  npm test`, or cd evals && npm test in CI. See https://ci.example/a."))
    ['cd evals && npm test', 'https://ci.example/a']
    """
    text = text[:LONGEST].replace("\r\n", "\n")
    found: dict[str, None] = {}
    for thing in _things(text):
        found[thing] = None
        if len(found) == MOST:
            break
    steps = {step for thing in found if _JOINED in thing for step in thing.split(_JOINED)}
    return frozenset(found) - steps


def _things(text: str) -> Iterator[str]:
    for match in _compiled(_ADDRESS).finditer(text):
        yield match[0].rstrip(".,;:!?*_/")
    prose, code = _apart(text)
    shown = [*filter(_is_command, (*code, *_compiled(_CODE).findall(prose)))]
    prose = _compiled(_ADDRESS).sub("\n", _compiled(_CODE).sub("\n", prose))
    quoted = ("".join(pieces).strip() for pieces in _compiled(_QUOTED).findall(prose))
    shown += [one for one in quoted if _compiled(rf"(?:{_PROGRAMS}|make|cd) (?!{_SMALL}\b).*").fullmatch(one)]
    # who marks commands marks all of them: the rest is prose
    yield from map(_spelled, shown or _said(_compiled(_QUOTED).sub("\n", prose)))


def _said(prose: str) -> Iterator[str]:
    """The commands that stand in sentences, unmarked; beside `npm test`, "the npm tests" are none."""
    found = [match[0] for match in _compiled(_SPOKEN).finditer(prose)]
    steps = {step for one in found for step in _spelled(one).split(_JOINED)}
    for one in found:
        is_plural = one.endswith("s") and one[:-1] in steps
        is_words = "&&" not in one and _compiled(rf"cd .*|\S+ {_SMALL}\b.*").fullmatch(one)
        if not (is_plural or is_words):
            yield one


def _apart(text: str) -> tuple[str, list[str]]:
    """A text without its blocks of code, and the lines of these."""
    kept: list[str] = []
    code: list[str] = []
    fence = ""
    for line in text.split("\n"):
        mark = line.lstrip()[:3]
        if fence and mark == fence:
            fence = ""
        elif fence:
            code.append(line)
        elif mark in ("```", "~~~"):
            fence = mark
        else:
            kept.append(line)
    return "\n".join(kept), code


def _is_command(code: str) -> bool:
    """Whether a piece of code is something to run: a program that is known, or a word with what it is told."""
    code = code.strip().removeprefix("$ ").removeprefix("(")
    first, _, rest = code.partition(" ")
    if not rest:
        return bool(_compiled(f"{_PROGRAMS}|make|tox").fullmatch(first))
    return bool(_compiled(r"[a-z./][\w./-]*|[A-Z_]+=\S*").fullmatch(first)) and not code.startswith(("#", "//"))


def _spelled(command: str) -> str:
    """A command in one spelling, however it is joined, indented or put in brackets."""
    command = " ".join(command.split()).removeprefix("$ ").rstrip(".,;:!?")
    if command.startswith("(") and command.endswith(")"):
        command = command[1:-1]
    steps = []
    for step in _compiled(r" ?(?:&&|;) ?").split(command):
        if step.startswith("cd "):
            place = step[3:].strip().rstrip("/") or "/"
            step = f"cd {place.removeprefix('./')}"
        steps.append(step)
    return _JOINED.join(filter(None, steps))


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)
