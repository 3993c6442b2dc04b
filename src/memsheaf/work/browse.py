"""Lists over several scopes, and which memories have citations that no longer hold."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from memsheaf.errors import MemsheafError, NotFound
from memsheaf.guard.citations import Tree, Verdict, check, parse
from memsheaf.guard.evidence import Evidence, examine
from memsheaf.index.database import Row
from memsheaf.memory import Memory
from memsheaf.reader import EVERYTHING, Filter
from memsheaf.sheaf import Sheaf

DRIFTED = ("drifted", "missing")  # verdicts about a citation that does not hold any more


def browse(
    sheaves: Sequence[Sheaf], wanted: Filter = EVERYTHING, *, sort: str = "newest", limit: int = 50, offset: int = 0
) -> tuple[list[tuple[Sheaf, Row]], int]:
    """Some of the memories that are wanted, of all these scopes as if they were one, and how many there are.

    With a text they are in the order of their score, else sorted as `SORTS` has it.
    """
    found, total = [], 0
    for number, sheaf in enumerate(sheaves):
        places, count = sheaf.reader.places(wanted, sort, offset + limit, 0)
        found += [(place, number) for place in places]
        total += count
    found.sort(key=lambda one: (one[0].path, one[1]), reverse=sort == "oldest")
    found.sort(key=lambda one: one[0].key, reverse=sort == "newest" and not wanted.text)
    page = found[offset : offset + limit]
    rows_of = {
        (number, row.path): row
        for number in {number for _, number in page}
        for row in sheaves[number].reader.rows_of([place for place, of in page if of == number])
    }
    shown = [(number, rows_of.get((number, place.path))) for place, number in page]
    return [(sheaves[number], row) for number, row in shown if row], total


def verify_citations(sheaf: Sheaf, tree: Tree) -> tuple[int, int]:
    """Check the citations of a whole scope, and keep the verdicts; how many memories cite, and how many drifted.

    Unlike `verify` it searches nowhere else for what moved, and does not look at what texts name.
    """
    verdicts = []
    for row in sheaf.list():
        with suppress(MemsheafError):  # somebody was faster, or it cannot be read
            memory = sheaf.read(row.path)
            if cited := list(filter(None, map(parse, memory.citations))):
                drifted = any(check(one, tree, elsewhere=False).state in DRIFTED for one in cited)
                verdicts.append((memory.path, memory.version, drifted))
    if not sheaf.read_only:
        sheaf.reader.record_drift(verdicts)
    return len(verdicts), sum(drifted for _, _, drifted in verdicts)


def check_places(sheaf: Sheaf, memory: Memory, tree: Tree) -> list[tuple[str, Verdict]]:
    """What became of each place that a memory cites; the verdict is kept for lists."""
    unchecked = Verdict("unchecked", "It is no place in a working tree.")
    places = [(text, parse(text)) for text in memory.citations]
    found = [(text, check(place, tree) if place else unchecked) for text, place in places]
    if not sheaf.read_only:
        drifted = any(verdict.state in DRIFTED for _, verdict in found)
        sheaf.reader.record_drift([(memory.path, memory.version, drifted)])
    return found


def verify(sheaf: Sheaf, tree: Tree, paths: Sequence[str] = ()) -> list[tuple[Memory, Evidence]]:
    """What a working tree says about memories, or about all that can be understood; verdicts are kept for lists."""
    every = () if paths else (row.path for row in sheaf.list() if row.state in ("ok", "free"))
    examined, verdicts = [], []
    for path in paths or every:
        with suppress(*(() if paths else (NotFound,))):  # somebody was faster
            memory = sheaf.read(path)
            found = examine(memory, tree)
            if found.citations:
                drifted = any(verdict.state in DRIFTED for _, verdict in found.citations)
                verdicts.append((memory.path, memory.version, drifted))
            examined.append((memory, found))
    if not sheaf.read_only:
        sheaf.reader.record_drift(verdicts)
    return examined
