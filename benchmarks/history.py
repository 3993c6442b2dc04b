"""What a long past costs: opening, a first list, the first save of a day, undo and log, by the number of commits.

    python -m benchmarks.history                      # 1,000 and 1,000,000 commits, into results/history.md
    python -m benchmarks.history 1000 20000           # other sizes; nothing is written

The history is written as the store would have left it: the commits are spread evenly over three years, or all lie
within retention (`recent`), and change 200 memories of 600 bytes. Retention is then seen to once, as on every day
before, and each row is measured with everything newly opened, at both sizes in turn. The last row is the longest that
a process holds the lock that sees to retention three days later.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import count
from pathlib import Path

from benchmarks.measure import NOTHING, measure
from benchmarks.memories import memory
from memsheaf.config import Settings
from memsheaf.sheaf import Sheaf
from memsheaf.store import Commit, Revision, version_of
from memsheaf.store.folder import FolderStore

MEMORIES = 200
DAY = 86_400.0
TIMES = 15
RESULTS = Path(__file__).parent / "results" / "history.md"


def write(root: str, commits: int, days: float) -> None:
    """Put memories in a folder, and a history of so many commits that ends a minute ago."""
    begun = time.time() - 60 - days * DAY
    made = [memory(number) for number in range(MEMORIES)]
    texts: dict[str, bytes | None] = {}

    def past() -> Iterator[Commit]:
        for number in range(commits):
            one = made[number % MEMORIES]
            path, new = one.file, f"{one.text}Revision {number // MEMORIES}.\n".encode()
            old = texts.get(path)
            step = Revision(path, version_of(old), version_of(new), old, new)
            at = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(begun + number * days * DAY / commits))
            texts[path] = new
            yield Commit(f"{number:012x}", at, "agent", "update", (step,))

    store = FolderStore(root)
    store.graft(past())
    for path, data in texts.items():
        with open(os.path.join(root, path), "wb") as file:
            file.write(data or b"")
    store.close()


def works(folder: str) -> dict[str, Callable[[int], None]]:
    """The pieces of work, each with everything newly opened."""
    root = os.path.join(folder, "home", "user")
    numbers = count()

    def opened(cache: str = "cache") -> Sheaf:
        settings = Settings(home=os.path.join(folder, "home"), cache=os.path.join(folder, cache), embedder="none")
        return Sheaf.open("user", settings=settings)

    def first_list(_: int) -> None:
        with opened(f"cache-{next(numbers)}") as sheaf:
            assert len(sheaf.list()) >= MEMORIES

    def just_open(_: int) -> None:
        opened().close()

    def first_save(_: int) -> None:
        number = next(numbers)
        with closing(sqlite3.connect(Path(root, ".history", "history.db"), isolation_level=None)) as db:
            db.execute("INSERT OR REPLACE INTO facts VALUES ('pruned', ?)", (str(time.time() - 1.01 * DAY),))
        with opened() as sheaf:
            sheaf.write(f"Save {number}", f"About save {number}", "user", f"Text {number} {os.urandom(9).hex()}.")

    def undo(_: int) -> None:
        with opened() as sheaf:
            sheaf.undo()

    def log(_: int) -> None:
        with opened() as sheaf:
            assert len(list(sheaf.log(limit=20))) == 20

    return {"open": just_open, "first list, no index": first_list, "first save of a day": first_save,
            "undo": undo, "log --limit 20": log}  # fmt: skip


def rows(sizes: Sequence[int], days: float) -> Iterator[str]:
    """A row of the table for each piece of work, measured at both sizes in turn, so that both meet the same noise."""
    with tempfile.TemporaryDirectory() as folder:
        places = [os.path.join(folder, str(size)) for size in sizes]
        roots = [os.path.join(place, "home", "user") for place in places]
        for root, size in zip(roots, sizes, strict=True):
            write(root, size, days)
            FolderStore(root).prune()
        few, many = map(works, places)
        for name in few:
            found = [NOTHING, NOTHING]
            few[name](0), many[name](0)
            for _ in range(TIMES):
                found = [sample + measure(work[name], 1) for sample, work in zip(found, (few, many), strict=True)]
            a, b = found
            yield (
                f"| {name} | {a.wall_ms:.1f} | {b.wall_ms:.1f} | {b.wall_ms / a.wall_ms:.2f} "
                f"| {a.cpu_ms:.1f} | {b.cpu_ms:.1f} | {b.cpu_ms / a.cpu_ms:.2f} |"
            )
        held = [_longest_lock(root) for root in roots]
        yield f"| lock, longest held by retention | {held[0]:.1f} | {held[1]:.1f} | {held[1] / held[0]:.2f} | | | |"


def _longest_lock(root: str) -> float:
    """How long the lock of a folder is held at most, seen from outside, while a process sees to retention."""
    later = "import time; from memsheaf.store import Change; from memsheaf.store.folder import FolderStore; "
    command = f"""{later}store = FolderStore({root!r}, clock=lambda: time.time() + 3 * {DAY})
store.commit([Change('beside.md', b'x', '')], by='user'); store.close()"""
    longest, held = 0.0, 0.0
    with open(os.path.join(root, ".history", "lock"), "rb") as file:
        folding = subprocess.Popen([sys.executable, "-c", command])
        while folding.poll() is None:
            now = time.perf_counter()
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                fcntl.flock(file, fcntl.LOCK_UN)
                held = now
            except BlockingIOError:
                longest = max(longest, now - held)
            time.sleep(0.0005)
    assert not folding.returncode
    return longest * 1000


def main(*sizes: int) -> None:
    """Measure, print a table, and keep it when it was made for the usual sizes."""
    few, many = sizes or (1_000, 1_000_000)
    lines = ["# What a long past costs", "", "Medians in milliseconds.", ""]
    for title, days in (("Commits spread over three years", 1_095.0), ("All commits within retention", 20.0)):
        heads = "".join(f" {size:,} commits |" for size in (few, many))
        heads += " times |" + "".join(f" CPU, {size:,} |" for size in (few, many)) + " times |"
        lines += [f"{title}:", "", f"| |{heads}", "|---|" + "---:|" * 6]
        for row in rows((few, many), days):
            lines.append(row)
            print(row, flush=True)
        lines.append("")
    if not sizes:
        RESULTS.write_text("\n".join(lines[:-1]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
