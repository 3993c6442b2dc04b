"""Tombstones: digests of what was rejected or forgotten, so that it is not learned again.

A row holds no text, only the numbers that its words make (`guard/duplicates.prints`), enough to know it again, and
for a memory that was forgotten its path. It outlives the text in the history, and goes when that memory is erased.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from memsheaf.guard.paths import CATALOG
from memsheaf.memory import parse
from memsheaf.store import ABSENT, Revision, Version
from memsheaf.store.history import History
from memsheaf.text.similarity import RELATED, SAME, denials, fact, likeness, numbers, prints

REMOVED = "removed"  # the reason for a file that somebody removed by hand
DOUBTED = "unconfirmed"  # the reason for what was unconfirmed or shared when it was removed
MASS = 6  # so many files that go at once were not each rejected by somebody


class Tombstone(NamedTuple):
    """That something is not to be learned again: since when, why, and the prints of its words."""

    at: str
    why: str
    path: str
    prints: tuple[int, ...]
    numbers: tuple[int, ...] = ()
    denials: int = 0


_PATH, _WORDS = 2, 3  # where they begin in a tombstone


def of(path: str, data: bytes, at: str, why: str) -> Tombstone:
    """Return the tombstone of a memory, or of a text that was never one, whose path is then ""."""
    return Tombstone(at, why, path, *_marks(fact(parse(path, data))))


def add(history: History, stones: Iterable[Tombstone]) -> None:
    """Write tombstones that are not there yet, before what they stand for is removed."""
    if new := list(stones):
        with history.writing() as db:
            known = {stone[_PATH:] for stone in read(history)}
            lines = {stone[_PATH:]: (_line(stone),) for stone in new}
            wanted = [line for key, line in lines.items() if key not in known]
            db.executemany("INSERT INTO tombstones (line) VALUES (?)", wanted)


def follow(
    history: History, steps: Sequence[Revision], at: str, *, bury: bool, listed: Mapping[str, Version]
) -> None:
    """Bury what others removed, unless many files or all went at once; lift the tombstones of what they brought.

    What is `listed` as lost with its folder was not removed by anybody.
    """
    gone = [step for step in steps if step.after == ABSENT and step.path != CATALOG]
    gone = [step for step in gone if listed.get(step.path) != step.before]
    there = {step.after for step in steps}  # such as after a rename
    if bury and len(gone) < MASS:
        add(history, [of(one.path, one.old, at, REMOVED) for one in gone if one.old and one.before not in there])
    lift(history, [(step.path, step.new) for step in steps if step.new])


def read(history: History) -> Iterator[Tombstone]:
    """Return all that stand, oldest first."""
    rows = history.rows("SELECT CAST(line AS BLOB) FROM tombstones WHERE line IS NOT NULL ORDER BY n")
    return from_lines(b"\n".join(line for (line,) in rows))


def from_lines(data: bytes) -> Iterator[Tombstone]:
    """Yield the tombstones that are written in these lines; one that cannot be understood is left out."""
    for line in filter(None, data.split(b"\n")):
        try:
            found = json.loads(line)
            all_words, numbered = (tuple(map(int, found[key])) for key in ("prints", "numbers"))
            at, why, path = (str(found[key]) for key in ("at", "why", "path"))
            yield Tombstone(at, why, path, all_words, numbered, int(found["denials"]))
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            continue


def to_lines(stones: Iterable[Tombstone]) -> bytes:
    """Tombstones as they are written."""
    return b"".join(_line(stone) + b"\n" for stone in stones)


def match(stones: Iterable[Tombstone], words: Sequence[str]) -> Tombstone | None:
    """Return the newest tombstone of something that says what these words say."""
    return next(filter(_saying(words), reversed(list(stones))), None)


def doubted(history: History, words: Sequence[str], path: str) -> bool:
    """Return True if something related, or of this path, was removed before anybody vouched for it."""
    stones = [stone for stone in read(history) if stone.why == DOUBTED]
    wanted = prints(words) if stones else ()
    return any(stone.path == path or likeness(stone.prints, wanted) >= RELATED for stone in stones)


def _saying(words: Sequence[str]) -> Callable[[Tombstone], bool]:
    wanted, *others = _marks(words)
    return lambda stone: [stone.numbers, stone.denials] == others and likeness(stone.prints, wanted) >= SAME


def _marks(words: Sequence[str]) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Return what words are known again by: all of them, the numbers among them, and how much they deny."""
    return tuple(prints(words)), tuple(prints(numbers(words))), denials(words)


def lift(history: History, texts: Iterable[tuple[str, bytes]]) -> None:
    """Remove the tombstones of texts that are there again."""
    if any(read(history)):
        back = {of(path, data, "", "")[_WORDS:] for path, data in texts}
        remove(history, lambda stone: stone[_WORDS:] in back)


def lift_alike(history: History, facts: Iterable[Sequence[str]]) -> None:
    """Remove the tombstones of what says what these words say."""
    said = list(map(_saying, facts))
    remove(history, lambda stone: any(says(stone) for says in said))


def remove(history: History, is_unwanted: Callable[[Tombstone], bool]) -> None:
    """Remove the tombstones that are not wanted."""
    if gone := [(_line(stone),) for stone in read(history) if is_unwanted(stone)]:
        with history.writing(durable=False) as db:
            db.executemany("DELETE FROM tombstones WHERE line = ?", gone)


def _line(stone: Tombstone) -> bytes:
    return json.dumps(stone._asdict(), separators=(",", ":"), sort_keys=True).encode()
