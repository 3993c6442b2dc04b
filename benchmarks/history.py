"""What a long past costs: opening, a list, saves, undo, log and blame, by the number of commits.

    python -m benchmarks.history                      # 1,000 and 1,000,000 commits, into results/history.md
    python -m benchmarks.history 1000 20000           # other sizes; nothing is written

The history is filled by rows in the schema of the store: commits spread evenly over twenty days, within retention,
which change 200 memories of 600 bytes; one memory has five versions. Each row is measured with everything newly
opened, but the one that says otherwise, at both sizes in turn. The last rows are about retention: a process that ends
when half of the past is beyond it, and the longest that such a process holds the lock.
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
from contextlib import ExitStack, closing
from itertools import count
from pathlib import Path

from benchmarks.measure import NOTHING, Sample, measure
from benchmarks.memories import memory
from memsheaf.config import Settings
from memsheaf.sheaf import Sheaf
from memsheaf.store import ABSENT, Change, version_of
from memsheaf.store.folder import FolderStore
from memsheaf.store.history import FLUSHED

MEMORIES = 200
VERSIONS = 5  # of the memory that is asked for by blame
BLAMED = "project_blamed.md"
DAYS = 20.0
DAY = 86_400.0
TIMES = 15
RESULTS = Path(__file__).parent / "results" / "history.md"

Step = tuple[str, bytes, bytes]  # a path, its text and the text before, "" where there was none


def past(commits: int) -> Iterator[Step]:
    """Yield the changes of a past of so many commits, and write nothing."""
    made = [memory(number) for number in range(MEMORIES)]
    files = [(one.file, one.text) for one in made]
    last: dict[str, bytes] = {}
    for number in range(commits):
        path, text = files[number % MEMORIES]
        if number % (commits // VERSIONS) == 0:
            path, text = BLAMED, made[0].text
        new = f"{text}Revision {number}.\n".encode()
        yield path, new, last.get(path, b"")
        last[path] = new


def fill(root: str, commits: int) -> None:
    """Put memories in a folder, and a history of so many commits that ends a minute ago."""
    store = FolderStore(root)
    store.commit([Change("first.md", b"---\nname: First\ndescription: First\ntype: user\n---\n", ABSENT)], by="agent")
    store.close()
    begun = time.time() - 60 - DAYS * DAY
    texts: dict[str, bytes] = {}
    with closing(sqlite3.connect(Path(root, ".history", "history.db"), isolation_level=None)) as db:
        db.execute("PRAGMA synchronous = OFF")
        db.execute("BEGIN")
        for number, (path, new, old) in enumerate(past(commits), 2):
            at = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(begun + number * DAYS * DAY / commits))
            version = version_of(new)
            row = number, f"{number:012x}", at, "agent", "update", "", "", FLUSHED
            db.execute("INSERT INTO commits VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
            before = version_of(old or None)
            db.execute("INSERT INTO changes VALUES (?, 0, ?, ?, ?)", (number, path, before, version))
            db.execute("INSERT INTO texts VALUES (?, ?)", (version, new))
            texts[path] = new
        db.execute("UPDATE commits SET at = '2026-01-01T00:00:00.000Z' WHERE n = 1")
        db.execute("INSERT OR REPLACE INTO facts VALUES ('flushed', ?)", (commits + 1,))
        db.execute("COMMIT")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for path, data in texts.items():
        Path(root, path).write_bytes(data)


class Place:
    """One folder with a past, and the work that is measured in it."""

    def __init__(self, folder: str, commits: int) -> None:
        self.folder = folder
        self.root = os.path.join(folder, "home", "user")
        self._numbers = count()
        fill(self.root, commits)
        with self.open() as sheaf:
            sheaf.list()
        self._kept = ExitStack()
        self._sheaf = self._kept.enter_context(self.open())
        self._save(self._sheaf)

    def open(self) -> Sheaf:
        """Open the sheaf as a new process would."""
        settings = Settings(
            home=os.path.join(self.folder, "home"), cache=os.path.join(self.folder, "cache"), embedder="none"
        )
        return Sheaf.open("user", settings=settings)

    def close(self) -> None:
        """Close what is kept open."""
        self._kept.close()

    def works(self) -> dict[str, Callable[[int], object]]:
        """Return the pieces of work by their names."""
        return {
            "open": lambda _: self.open().close(),
            "list": self._list,
            "save": self._open_and_save,
            "save, in an open sheaf": lambda _: self._save(self._sheaf),
            "undo": self._undo,
            "log --limit 20": self._log,
            "blame of a memory with 5 versions": self._blame,
        }

    def _save(self, sheaf: Sheaf) -> None:
        number = next(self._numbers)
        sheaf.write(f"Save {number}", f"About save {number}", "user", f"Text {number} {os.urandom(9).hex()}.")

    def _list(self, _: int) -> None:
        with self.open() as sheaf:
            assert len(sheaf.list()) >= MEMORIES

    def _open_and_save(self, _: int) -> None:
        with self.open() as sheaf:
            self._save(sheaf)

    def _undo(self, _: int) -> None:
        with self.open() as sheaf:
            sheaf.undo()

    def _log(self, _: int) -> None:
        with self.open() as sheaf:
            assert len(list(sheaf.log(limit=20))) == 20

    def _blame(self, _: int) -> None:
        with self.open() as sheaf:
            assert all(line.commit for line in sheaf.own.blame(BLAMED))

    def retire(self) -> tuple[Sample, float]:
        """Measure the end of a process when half of the past is beyond retention, and how long one holds the lock."""
        with closing(sqlite3.connect(Path(self.root, ".history", "history.db"), isolation_level=None)) as db:
            db.execute("INSERT OR REPLACE INTO facts VALUES ('pruned', ?)", (str(time.time() + 19 * DAY),))
        later = lambda: time.time() + 20 * DAY  # noqa: E731

        def end(number: int) -> None:
            store = FolderStore(self.root, clock=later)
            store.commit([Change(f"beside-{number}.md", b"x", ABSENT)], by="user")
            store.close()

        return measure(end, 1, at_least=1), longest_lock(self.root)


def longest_lock(root: str) -> float:
    """Return the longest that a process which sees to retention holds the lock of a folder, in milliseconds."""
    command = f"""import time; from memsheaf.store import Change; from memsheaf.store.folder import FolderStore
store = FolderStore({root!r}, clock=lambda: time.time() + 20 * {DAY})
store.commit([Change('last.md', b'x', '')], by='user'); store.close()"""
    longest, held = 0.0, 0.0
    with open(os.path.join(root, ".history", "lock"), "rb") as file:
        process = subprocess.Popen([sys.executable, "-c", command])
        while process.poll() is None:
            now = time.perf_counter()
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                fcntl.flock(file, fcntl.LOCK_UN)
                held = now
            except BlockingIOError:
                longest = max(longest, now - held)
            time.sleep(0.0005)
    assert not process.returncode
    return longest * 1000


def rows(sizes: Sequence[int]) -> Iterator[str]:
    """Yield a row of the table for each piece of work, measured at both sizes in turn: both meet the same noise."""
    with tempfile.TemporaryDirectory() as folder:
        places = [Place(os.path.join(folder, str(size)), size) for size in sizes]
        few, many = (place.works() for place in places)
        for name in few:
            samples = [NOTHING, NOTHING]
            for _ in range(TIMES):
                samples = [
                    sample + measure(works[name], 1, at_least=1)
                    for sample, works in zip(samples, (few, many), strict=True)
                ]
            yield row(name, *samples)
        for place in places:
            place.close()
        (first, held), (second, also_held) = (place.retire() for place in places)
        yield row("end of a process that sees to retention", first, second)
        yield f"| the same, lock held | {held:.1f} | {also_held:.1f} | {also_held / held:.2f} | | | |"


def row(name: str, few: Sample, many: Sample) -> str:
    """Return the row of a table with the medians of both sizes, and how many times as long the larger one took."""
    return (
        f"| {name} | {few.wall_ms:.1f} | {many.wall_ms:.1f} | {many.wall_ms / few.wall_ms:.2f} "
        f"| {few.cpu_ms:.1f} | {many.cpu_ms:.1f} | {many.cpu_ms / few.cpu_ms:.2f} |"
    )


def main(*sizes: int) -> None:
    """Measure, print a table, and keep it when it was made for the usual sizes."""
    few, many = sizes or (1_000, 1_000_000)
    heads = "".join(f" {size:,} commits |" for size in (few, many))
    heads += " times |" + "".join(f" CPU, {size:,} |" for size in (few, many)) + " times |"
    lines = [
        "# What a long past costs",
        "",
        f"Medians of {TIMES} in milliseconds, both sizes measured in turn: `python -m benchmarks.history`.",
        "Seeing to retention is limited to about 100 ms for each process, however much is due.",
        "",
        f"| |{heads}",
        "|---|" + "---:|" * 6,
    ]
    for line in rows((few, many)):
        lines.append(line)
        print(line, flush=True)
    if not sizes:
        RESULTS.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
