"""Rules for paths: the memories that carry a pattern for a file, or that cite it.

    paths: [src/api/**, "*.sql"]

A pattern is read as a line of `.gitignore`. One with a slash before its end begins at the root of the working tree,
any other fits in every folder. What fits a folder fits all below it, and `**` stands for any number of folders. Of
several patterns the last that fits decides, and one that begins with `!` takes out.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from fnmatch import fnmatchcase

from memsheaf.errors import MemsheafError
from memsheaf.guard import citations
from memsheaf.index.database import Row
from memsheaf.open_scope import OpenScope
from memsheaf.sheaf import Sheaf

LOOK_SECONDS = 2.0  # between two looks for edits by hand
READ_SECONDS = 0.3  # for new files at once: an agent waits for it, and the rest is read with the next look


def fits(patterns: Sequence[str], path: str) -> bool:
    """Return True if a path below the root is one of those that the patterns name.

    >>> fits(["src/api/**"], "src/api/v1/users.py"), fits(["src/api"], "lib/src/api/x.py"), fits(["*.sql"], "a/b.sql")
    (True, False, True)
    >>> fits(["*.py", "!tests/"], "tests/test_api.py"), fits(["a/**/z.py"], "a/z.py")
    (False, True)
    """
    is_fitting = False
    for pattern in patterns:
        steps = pattern.removeprefix("!").rstrip("/").split("/")
        is_anywhere = len(steps) == 1
        steps = [step for step in steps if step]
        if steps and _fits_steps(["**", *steps] if is_anywhere else steps, path.split("/")):
            is_fitting = not pattern.startswith("!")
    return is_fitting


def _fits_steps(steps: Sequence[str], names: Sequence[str]) -> bool:
    """Return True if the steps lead to these names or to a folder above them.

    `places` are the steps that may come next. It costs a multiple of steps and names, whatever a pattern says.
    """
    places = {0}
    for name in names:
        following = set()
        for place in sorted(places):
            while place < len(steps) and steps[place] == "**":
                following.add(place)
                place += 1
            if place < len(steps) and fnmatchcase(name, steps[place]):
                following.add(place + 1)
        if not following or len(steps) in following:
            return bool(following)
        places = following
    return all(step == "**" for step in steps[max(places) :])


class PathRules:
    """The rules of all memories, for one process. The files are looked at only now and then, and read once."""

    def __init__(self) -> None:
        self._patterns: dict[tuple[str, str, str], Sequence[str]] = {}
        self._rules: dict[str, tuple[str, float, list[tuple[Row, Sequence[str]]]]] = {}

    def find(self, layers: Sheaf, path: str) -> list[Row]:
        """Return the memories with a rule for a path below the root of the working tree."""
        found = []
        for scope in layers.open_scopes():
            last, looked_at, rules = self._rules.get(scope.name, ("", 0.0, []))
            if last != scope.store.last_id() or time.monotonic() > looked_at + LOOK_SECONDS:
                rules = self._read(scope)
                self._rules[scope.name] = scope.store.last_id(), time.monotonic(), rules
            found += [row for row, patterns in rules if fits(patterns, path)]
        return found

    def _read(self, scope: OpenScope) -> list[tuple[Row, Sequence[str]]]:
        scope.index.look()
        rules = []
        end = time.monotonic() + READ_SECONDS
        for row in scope.rows_under(""):
            key = scope.name, row.path, row.version
            if key not in self._patterns and time.monotonic() < end:
                self._patterns[key] = _read_patterns(scope, row)
            if patterns := self._patterns.get(key):
                rules.append((row._replace(scope=scope.name), patterns))
        return rules


def _read_patterns(scope: OpenScope, row: Row) -> Sequence[str]:
    """Return the patterns of a memory, and the files that it cites, from the root."""
    try:
        memory = scope.read(row.path)
    except MemsheafError:
        return ()
    cited = [citations.parse(text) for text in memory.citations]
    files = [f"/{citation.path}" for citation in cited if citation]
    return [*memory.paths, *files]


def path_in(tree: str, file: str) -> str:
    """Return the path of a file below the root of a working tree, "" for any other; nothing is looked up on disk.

    >>> path_in("/repo/shop", "/repo/shop/src/../app.py"), path_in("/repo/shop", "/repo/shopping/app.py")
    ('app.py', '')
    """
    inner = os.path.relpath(os.path.join(tree, file), tree) if file and "\0" not in file else ".."
    return "" if inner.split(os.sep)[0] in ("..", ".") else inner.replace(os.sep, "/")
