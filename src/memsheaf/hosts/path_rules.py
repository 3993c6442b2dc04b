"""Rules for paths: the memories that carry a pattern for a file, or that cite it.

    paths: [src/api/**, "*.sql"]

A pattern is read as a line of `.gitignore`. One with a slash before its end begins at the root of the working tree,
any other fits in every folder. What fits a folder fits all below it, and `**` stands for any number of folders. Of
several patterns the last that fits decides, and one that begins with `!` takes out.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from fnmatch import fnmatchcase

from memsheaf.errors import MemsheafError
from memsheaf.guard import citations
from memsheaf.index.database import Row
from memsheaf.open_scope import OpenScope
from memsheaf.sheaf import Sheaf

MAX_PATTERNS = 100  # of one memory


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


def find_rules(layers: Sheaf, path: str, known: dict[tuple[str, str, str], Sequence[str]]) -> list[Row]:
    """Return the memories with a rule for a path below the root of the working tree.

    `known` keeps the patterns of each version of a text from one call to the next.
    """
    found = []
    for scope in layers.open_scopes():
        for row in scope.list():
            key = scope.name, row.path, row.version
            if key not in known:
                known[key] = _read_patterns(scope, row)
            if fits(known[key], path):
                found.append(row)
    return found


def _read_patterns(scope: OpenScope, row: Row) -> Sequence[str]:
    """Return the patterns of a memory, and the files that it cites, from the root."""
    try:
        memory = scope.read(row.path)
    except MemsheafError:
        return ()
    cited = [citations.parse(text) for text in memory.citations]
    files = [f"/{citation.path}" for citation in cited if citation]
    return [*memory.paths[:MAX_PATTERNS], *files]


def path_in(tree: str, file: str) -> str:
    """Return the path of a file below the root of a working tree, "" for any other; nothing is looked up on disk.

    >>> path_in("/work/shop", "/work/shop/src/../app.py"), path_in("/work/shop", "/work/shopping/app.py")
    ('app.py', '')
    """
    inner = os.path.relpath(os.path.join(tree, file), tree) if file and "\0" not in file else ".."
    return "" if inner.split(os.sep)[0] in ("..", ".") else inner.replace(os.sep, "/")
