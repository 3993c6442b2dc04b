"""Recall with words and with meaning at one size, and what an edit by somebody else costs the next search."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from hashlib import sha256
from typing import TYPE_CHECKING

from benchmarks.measure import Sample, measure, measure_processes
from benchmarks.memories import memory, query
from benchmarks.processes import environment_of, resident
from memsheaf.sheaf import Sheaf

if TYPE_CHECKING:
    from benchmarks.sizes import Effort, Site

TOP = 5
EDITS = 10
PATIENCE = 30.0  # seconds to wait until an edit is seen that nothing points to

_FIRST = """
import os
from memsheaf.sheaf import Sheaf
with Sheaf.open(os.environ["MEMSHEAF_SCOPE"]) as sheaf:
    sheaf.recall("what do we know of {words}?")
"""


def ask_hybrid(site: Site, effort: Effort, queries: Sequence[str]) -> None:
    """Make all vectors with the built-in encoder, then search and recall with them."""
    ours, size = site.found.ours, site.found.size
    with site.open("auto") as sheaf:
        sheaf.own.index.look()
        made = measure(lambda _: sheaf.own.index.embed_all(), 1)
        state = sheaf.own.index.embedding()
        if state.done != size or state.problem:
            raise SystemExit(f"only {state.done} of {size} memories have vectors: {state.problem}")
        site.found.embedded_per_second = size / made.wall[0]
        ours["first search, hybrid"] = measure(lambda _: sheaf.search(queries[-1], limit=TOP), 1)
        ours["search, hybrid"] = measure(lambda n: sheaf.search(queries[n], limit=TOP), effort.questions)
        ours["recall, hybrid"] = measure(lambda n: sheaf.recall(f"what do we know of {queries[n]}?"), effort.recalls)


def new_processes(site: Site, scope: str, effort: Effort) -> None:
    """From the start of a process to the end of its first recall, by words and with vectors; and its memory."""
    found = site.found
    for name, kind in (("none", "words"), ("auto", "hybrid")):
        environment = environment_of(site.settings._replace(embedder=name), scope)
        command = [sys.executable, "-c", _FIRST.format(words=query(1))]
        [found.ours[f"first recall, a new process, {kind}"]] = measure_processes(
            [command], effort.processes, environment=environment
        )
    found.resident_hybrid_mb = resident(environment_of(site.settings._replace(embedder="auto"), scope))


def after_edits(site: Site, root: str, effort: Effort) -> None:
    """The first search after a file was edited by another program, and a bare stat of all files beside it."""
    found = site.found
    found.ours["stat of all files"] = measure(lambda _: stat_all(root), min(EDITS, effort.questions))
    with site.open() as sheaf:
        sheaf.search("one word")
        edits = min(EDITS, effort.questions, found.size // 4)
        for number in range(edits):
            found.add("search, after an edit of what it finds", ours=_edit(sheaf, root, number))
        for number in range(edits, 2 * edits):
            found.add("search, after a file was replaced", ours=_replace(sheaf, root, number))
        found.unseen_s = _until_seen(sheaf, root, found.size)


def stat_all(root: str) -> int:
    """The least that tells whether any file changed."""
    with os.scandir(root) as entries:
        return sum(entry.stat(follow_symlinks=False).st_mtime_ns > 0 for entry in entries)


def _edit(sheaf: Sheaf, root: str, number: int) -> Sample:
    made = memory(number)
    path = os.path.join(root, made.file)
    with open(path, "a", encoding="utf-8") as file:
        file.write("And one more line.\n")
    taken = measure(lambda _: sheaf.search(made.name, limit=TOP), 1)
    with open(path, "rb") as file:
        version = sha256(file.read()).hexdigest()
    if version not in [row.memory.version for row in sheaf.search(made.name, limit=TOP)]:
        raise SystemExit(f"{made.file} was edited, and search does not know")
    return taken


def _replace(sheaf: Sheaf, root: str, number: int) -> Sample:
    made, word = memory(number), f"replaced{number}x"
    path = os.path.join(root, made.file)
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        file.write(f"{made.text}{word}\n")
    os.replace(f"{path}.new", path)
    taken = measure(lambda _: sheaf.search(word, limit=TOP), 1)
    if [row.ref.path for row in sheaf.search(word, limit=TOP)] != [made.file]:
        raise SystemExit(f"{made.file} was replaced, and search does not find it")
    return taken


def _until_seen(sheaf: Sheaf, root: str, size: int) -> float | None:
    """Seconds until a word is found that was written into a file like any other; None when patience ends."""
    shown = {row.path for row in sheaf.own.best(200)}
    made = next((each for each in map(memory, range(size // 2, size)) if each.file not in shown), memory(size - 1))
    with open(os.path.join(root, made.file), "a", encoding="utf-8") as file:
        file.write("hidden0word\n")
    started = time.monotonic()
    while time.monotonic() - started < PATIENCE:
        if sheaf.search("hidden0word", limit=1):
            return time.monotonic() - started
        time.sleep(0.02)
    return None
