"""Patterns of paths, such as `src/**/*.{py,md}`, followed name by name, so that none takes for ever."""

from __future__ import annotations

import os
from collections.abc import Iterator
from fnmatch import fnmatchcase

from memsheaf.errors import Refused

LONGEST = 1_000
"""How many characters a pattern may have."""

_MOST_WAYS = 64  # to read one with braces

State = frozenset[tuple[int, int]]
"""Where in a pattern one can be: places in each of the ways to read its braces."""


class Pattern:
    """A pattern that is followed along a path. `*` stands for a part of a name, `**` for any folders, or none."""

    def __init__(self, text: str) -> None:
        if len(text) > LONGEST:
            raise Refused(f"a pattern has at most {LONGEST} characters")
        ways = [way.split("/") for way in _unfolded(text)]
        self.lists = "**" not in text  # then it asks what is in a folder, and other folders are, too
        self._ways = [[step for step in way if step not in ("", ".")] for way in ways]
        if any(".." in way for way in self._ways):
            raise Refused("a pattern must not hold '..' behind a wildcard; say in path where to look")
        self.begin = self._reached((number, 0) for number in range(len(ways)))

    def step(self, state: State, name: str) -> State:
        """Where one is after one more name; nowhere, if the path does not fit."""
        return self._reached(self._next(state, name))

    def is_end(self, state: State) -> bool:
        """Whether a path that led here fits as a whole."""
        return any(at == len(self._ways[way]) for way, at in state)

    def _next(self, state: State, name: str) -> Iterator[tuple[int, int]]:
        for way, at in state:
            steps = self._ways[way]
            if at < len(steps):
                if steps[at] == "**":
                    yield way, at
                elif fnmatchcase(name, steps[at]):
                    yield way, at + 1

    def _reached(self, places: Iterator[tuple[int, int]]) -> State:
        """The places, and those behind each `**`, which may stand for nothing."""
        found: set[tuple[int, int]] = set()
        for way, at in places:
            found.add((way, at))
            while at < len(self._ways[way]) and self._ways[way][at] == "**":
                at += 1
                found.add((way, at))
        return frozenset(found)


def divided(pattern: str) -> tuple[str, str]:
    """A pattern as the folder that it names for certain, and the rest.

    >>> divided("src/lib/**/*.py"), divided("*.py"), divided("/etc/hosts")
    (('src/lib', '**/*.py'), ('', '*.py'), ('/etc', 'hosts'))
    """
    steps = pattern.replace("\\", "/").split("/") if os.sep == "\\" else pattern.split("/")
    plain = 0
    while plain < len(steps) - 1 and not set(steps[plain]) & set("*?[{"):
        plain += 1
    return "/".join(steps[:plain]) or ("/" if plain else ""), "/".join(steps[plain:])


def _unfolded(text: str) -> list[str]:
    """The ways to read a pattern with braces, innermost first. Raises Refused for too many.

    >>> _unfolded("*.{py,md}")
    ['*.py', '*.md']
    """
    ways = [text]
    while True:
        found = []
        for way in ways:
            stop = way.find("}")
            start = way.rfind("{", 0, max(stop, 0))
            if start < 0:
                found.append(way)
            else:
                found += [way[:start] + choice + way[stop + 1 :] for choice in way[start + 1 : stop].split(",")]
        if len(found) > _MOST_WAYS:
            raise Refused(f"a pattern has at most {_MOST_WAYS} ways to be read; use fewer braces")
        if found == ways:
            return ways
        ways = found
