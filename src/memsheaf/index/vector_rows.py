"""Which slot holds a vector of which entry: the part of the vectors that SQLite keeps.

    entry > 0       the slot holds a passage of this entry
    entry = 0       the slot is free, and holds zeros
    entry < 0       its entry is gone; the slot is to be wiped
    entry is null   nobody knows yet whose it is: the file is older than the database. A memory whose text has the
                    same key takes it over; what nobody took is wiped in the end

A note `vectors:NUMBER` holds the last entry that was seen to, the owner, and the boot in which the file was checked.
The owner stands in the file, too: slots are given out by one database, and one that was deleted while a process had
it open gives out no more. Slots are written inside a write transaction and under a kernel lock, taken in this order.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress

from memsheaf.errors import Busy
from memsheaf.index.database import UNUSABLE, Stale, base_of, locked, notes, writing
from memsheaf.index.vector_file import Header, SlotFile, Small
from memsheaf.values import NamedTuple

SUFFIX = ".vectors"
MANY = 100

_NOBODY = -(1 << 62)
_FIT = f"state IN ('ok', 'free') AND version NOT IN ('', '{UNUSABLE}')"

_WAITING = f"id > ? AND {_FIT} AND NOT EXISTS (SELECT 1 FROM place WHERE place.entry = entry.id AND embedder = ?)"

Claims = dict[bytes, list[int]]
"""Slots that can be taken over, by the key of their text."""


class Lost(Exception):
    """A slot that was to be taken over is not there any more; its text must be embedded after all."""


class Kind(NamedTuple):
    """The vectors of one embedder in one index: where they are, and what their file must say."""

    database: str
    digest: bytes
    dimensions: int
    boot: int

    @property
    def base(self) -> str:
        """What the names of its files begin with."""
        return base_of(self.database)

    @property
    def number(self) -> int:
        """How the tables call it."""
        return int.from_bytes(self.digest[:6], "big")

    @property
    def path(self) -> str:
        """The file."""
        return file_of(self.base, self.number)


class State(NamedTuple):
    """How far the vectors are: the last entry that was seen to, and who gives out the slots."""

    last: int
    owner: int


class Made(NamedTuple):
    """The vectors of one entry: the keys of its passages."""

    entry: int
    keys: Sequence[bytes]


def file_of(base: str, number: int) -> str:
    """The file of an embedder, by its number."""
    return f"{base}.{number:012x}{SUFFIX}"


def files(base: str) -> dict[int, str]:
    """The files of vectors that are there, by the number of their embedder."""
    folder, start = os.path.split(f"{base}.")
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return {}
    found = {name[len(start) : -len(SUFFIX)]: name for name in names if name.startswith(start)}
    return {
        int(middle, 16): os.path.join(folder, name)
        for middle, name in found.items()
        if name == f"{start}{middle}{SUFFIX}" and len(middle) == 12 and not middle.strip("0123456789abcdef")
        if not os.path.isdir(os.path.join(folder, name))
    }


def known(db: sqlite3.Connection, kind: Kind) -> State | None:
    """How far the vectors are; None when the file must be adopted first.

    Raises:
        Stale: the file belongs to the database that has taken this one's place.
    """
    state = _state(db, kind.number)
    try:
        with SlotFile(kind.path) as file:
            header, count = file.header, file.count
    except (OSError, ValueError):
        return None
    if state is None or header != (kind.dimensions, kind.digest, state.owner):
        if state is not None and header.owner != state.owner and not _is_current(kind, state):
            raise Stale
        return None
    return state if count >= _slots(db, kind.number) else None


def adopt(db: sqlite3.Connection, kind: Kind) -> State:
    """Take over the file of an earlier database, as far as it holds; make it when it is not there or not sound."""
    with writing(db), locked(kind.base, "slots"):
        owner = int.from_bytes(os.urandom(7), "big") + 1
        rows: list[tuple[int, int, int | None]] = []
        try:
            file = SlotFile(kind.path)
            if file.header[:2] != (kind.dimensions, kind.digest):
                file.close()
                raise ValueError("another embedder's")
        except (OSError, ValueError):
            file = SlotFile.create(kind.path, Header(kind.dimensions, kind.digest, owner))
        with file:
            torn = []
            for slot, (key, empty) in enumerate(file.scan()):
                rows.append((kind.number, slot, None if key else 0))
                if not key and not empty:
                    torn.append(slot)
            file.wipe(torn)
            file.own(owner)
        db.execute("DELETE FROM place WHERE embedder = ?", (kind.number,))
        db.executemany("INSERT INTO place VALUES (?, ?, ?)", rows)
        _note(db, kind, 0, owner)
    return State(0, owner)


def inspect(db: sqlite3.Connection, kind: Kind) -> bool:
    """Look at the file once: free slots must be zeros, and after a reboot all others must hold. False if not."""
    with SlotFile(kind.path) as file:
        if _checked_in(db, kind.number) == kind.boot and not any(_leftovers(db, kind.number, file)):
            return True
    with writing(db), locked(kind.base, "slots"), SlotFile(kind.path) as file:
        free, behind = _leftovers(db, kind.number, file)
        file.wipe(free)
        db.executemany("INSERT INTO place VALUES (?, ?, NULL)", [(kind.number, slot) for slot in behind])
        if _checked_in(db, kind.number) != kind.boot:
            sql = "SELECT slot FROM place WHERE embedder = ? AND entry > 0"
            held = {slot for (slot,) in db.execute(sql, (kind.number,))}
            if any(slot in held and not key for slot, (key, _) in enumerate(file.scan())):
                return False
            db.execute("UPDATE note SET c = ? WHERE name = ?", (kind.boot, _name(kind.number)))
    return True


def waiting(db: sqlite3.Connection, kind: Kind, last: int, limit: int) -> list[tuple[int, str]]:
    """Entries behind `last` that have no vectors, oldest first."""
    sql = f"SELECT id, path FROM entry WHERE {_WAITING} ORDER BY id LIMIT ?"
    return db.execute(sql, (last, kind.number, limit)).fetchall()


def count_waiting(db: sqlite3.Connection, kind: Kind, last: int, limit: int = -1) -> int:
    """How many entries wait, counted up to `limit`."""
    sql = f"SELECT count(*) FROM (SELECT 1 FROM entry WHERE {_WAITING} LIMIT ?)"
    return int(db.execute(sql, (last, kind.number, limit)).fetchone()[0])


def count(db: sqlite3.Connection) -> int:
    """How many entries can have vectors."""
    return int(db.execute(f"SELECT count(*) FROM entry WHERE {_FIT}").fetchone()[0])


def has_half(db: sqlite3.Connection, kind: Kind) -> bool:
    """Whether at least half of the files have vectors."""
    half = notes(db).rows / 2
    sql = "SELECT count({}) FROM place WHERE embedder = ? AND entry > 0"
    counts = ("*", "DISTINCT entry")  # the first is never less, and quicker
    return all(db.execute(sql.format(what), (kind.number,)).fetchone()[0] >= half for what in counts)


def advance(db: sqlite3.Connection, kind: Kind, state: State) -> None:
    """Pass over entries that have vectors already, once they are many: such as files that were only touched."""
    last = db.execute("SELECT max(id) FROM entry").fetchone()[0] or 0
    if last - state.last > MANY and not waiting(db, kind, state.last, 1):
        settle(db, kind, state, [], {}, {}, last)


def claims(db: sqlite3.Connection, kind: Kind) -> Claims:
    """What can be taken over: slots nobody has claimed yet, and those whose entry is gone."""
    # in two halves, since SQLite would go through all for an OR
    start = "SELECT slot FROM place WHERE embedder = ?1 AND entry"
    slots = {slot for (slot,) in db.execute(f"{start} IS NULL UNION ALL {start} < 0", (kind.number,))}
    found: Claims = {}
    if slots:
        with SlotFile(kind.path) as file:
            every = enumerate(file.scan()) if len(slots) > 100 else ((slot, (file.key(slot), True)) for slot in slots)
            for slot, (key, _) in every:
                if key and slot in slots:
                    found.setdefault(key, []).append(slot)
    return found


def settle(
    db: sqlite3.Connection, kind: Kind, state: State, made: Sequence[Made], vectors: Mapping[bytes, Small],
    claimed: Claims, last: int,
) -> State:  # fmt: skip
    """Give slots to the passages of some entries: those that hold them already, else free ones, else new ones.

    Raises:
        Stale: the slots are given out by somebody else by now.
        Lost: a slot was taken by somebody else.
    """
    with writing(db), locked(kind.base, "slots"), _opened(kind.path) as file:
        now = _state(db, kind.number)
        if now is None or state.owner != now.owner or file.header.owner != now.owner:
            raise Stale
        entries = [one.entry for one in made]
        sql = f"SELECT id FROM entry WHERE id IN ({_marks(entries)}) AND {_WAITING}"
        alive = {entry for (entry,) in db.execute(sql, (*entries, 0, kind.number))}
        spare = _spare(db, kind.number)
        rows, vectors = [], dict(vectors)
        for one in made:
            for key in one.keys if one.entry in alive else ():
                if found := _claim(db, kind.number, file, key, claimed, one.entry):
                    vectors[key] = found
                elif key in vectors:
                    slot = next(spare)
                    file.write(slot, key, vectors[key])
                    rows.append((kind.number, slot, one.entry))
                else:
                    raise Lost
        db.executemany("INSERT OR REPLACE INTO place VALUES (?, ?, ?)", rows)
        last = max(now.last, last)
        db.execute("UPDATE note SET a = ? WHERE name = ?", (last, _name(kind.number)))
    return State(last, now.owner)


def wipe(db: sqlite3.Connection, base: str, *, unclaimed: Kind | None = None) -> None:
    """Write zeros over every vector whose entry is gone, and over what nobody claimed when all are seen to."""
    gone = db.execute("SELECT 1 FROM place WHERE entry < 0 LIMIT 1").fetchone()
    if not gone and not (unclaimed and _has_unclaimed(db, unclaimed.number)):
        return
    with writing(db), locked(base, "slots"):
        if unclaimed and _nobody_waits(db, unclaimed):
            sql = "UPDATE place SET entry = ? WHERE embedder = ? AND entry IS NULL"
            db.execute(sql, (_NOBODY, unclaimed.number))
        slots: dict[int, list[int]] = {}
        for number, slot in db.execute("SELECT embedder, slot FROM place WHERE entry < 0"):
            slots.setdefault(number, []).append(slot)
        for number, found in slots.items():
            now = _state(db, number)
            with suppress(FileNotFoundError, ValueError), SlotFile(file_of(base, number)) as file:
                if now and now.owner == file.header.owner:  # otherwise they are not ours to give out
                    file.wipe(found)
        db.execute("UPDATE place SET entry = 0 WHERE entry < 0")


def _nobody_waits(db: sqlite3.Connection, kind: Kind) -> bool:
    """Whether all memories have their vectors. A database that has not seen the folder yet knows of none."""
    state = _state(db, kind.number)
    return bool(state and notes(db).fact("swept") and not waiting(db, kind, state.last, 1))


def forget(db: sqlite3.Connection | None, base: str, keys: Collection[bytes]) -> None:
    """Wipe every vector of some texts, whoever gives out the slots.

    A memory that says the very same is embedded again: the file is adopted anew.
    """
    if not files(base):
        return
    with writing(db) if db else nullcontext(), locked(base, "slots"):
        for number, path in files(base).items():
            try:
                with SlotFile(path) as file:
                    found = enumerate(file.scan())
                    slots = [slot for slot, (key, empty) in found if not empty and (not key or key in keys)]
                    file.wipe(slots)
                    file.flush()
            except ValueError:
                os.unlink(path)
                continue
            if db and slots:
                db.execute("DELETE FROM note WHERE name = ?", (_name(number),))


def remove_all(base: str) -> None:
    """Remove every file of vectors."""
    if files(base):
        with locked(base, "slots"):
            for path in files(base).values():
                with suppress(FileNotFoundError):
                    os.unlink(path)


def remove_others(db: sqlite3.Connection, kind: Kind, *, older_than: float) -> None:
    """Remove the files of other embedders that nobody used for long, or that this database knows nothing of.

    What it does not know, it could not wipe when a memory is removed.
    """

    def is_unused(number: int, path: str) -> bool:
        unknown = _state(db, number) is None or _has_unclaimed(db, number)
        return number != kind.number and (unknown or os.stat(path).st_mtime < older_than)

    for number, path in files(kind.base).items():
        with suppress(FileNotFoundError):
            if not is_unused(number, path):
                continue
            with writing(db), locked(kind.base, "slots"):
                if is_unused(number, path):
                    os.unlink(path)
                    db.execute("DELETE FROM place WHERE embedder = ?", (number,))
                    db.execute("DELETE FROM note WHERE name = ?", (_name(number),))


def _leftovers(db: sqlite3.Connection, number: int, file: SlotFile) -> tuple[list[int], list[int]]:
    """What a process left that died between its writes and its commit: in free slots, and behind the last."""
    sql = "SELECT slot FROM place WHERE embedder = ? AND entry = 0"
    free = [slot for (slot,) in db.execute(sql, (number,)) if not file.is_empty(slot)]
    return free, list(range(_slots(db, number), file.count))


@contextmanager
def _opened(path: str) -> Iterator[SlotFile]:
    try:
        file = SlotFile(path)
    except (FileNotFoundError, ValueError):
        raise Stale from None
    with file:
        yield file


def _claim(
    db: sqlite3.Connection, number: int, file: SlotFile, key: bytes, claimed: Claims, entry: int
) -> Small | None:
    """Give an entry a slot that holds this very text and nobody has, and what it holds; None when there is none."""
    sql = "UPDATE place SET entry = ? WHERE embedder = ? AND slot = ? AND (entry IS NULL OR entry < 0)"
    while slots := claimed.get(key):
        slot = slots.pop()
        if file.key(slot) == key and db.execute(sql, (entry, number, slot)).rowcount:
            return file.read(slot)
    return None


def _spare(db: sqlite3.Connection, number: int) -> Iterator[int]:
    """Free slots, then those behind the last."""
    sql = "SELECT slot FROM place WHERE embedder = ? AND entry = 0"
    yield from [slot for (slot,) in db.execute(sql, (number,)).fetchall()]
    following = _slots(db, number)
    while True:
        yield following
        following += 1


def _has_unclaimed(db: sqlite3.Connection, number: int) -> bool:
    sql = "SELECT 1 FROM place WHERE embedder = ? AND entry IS NULL LIMIT 1"
    return db.execute(sql, (number,)).fetchone() is not None


def _slots(db: sqlite3.Connection, number: int) -> int:
    """How many slots the database knows."""
    last = db.execute("SELECT max(slot) FROM place WHERE embedder = ?", (number,)).fetchone()[0]
    return 0 if last is None else int(last) + 1


def _name(number: int) -> str:
    return f"vectors:{number:012x}"


def _state(db: sqlite3.Connection, number: int) -> State | None:
    found = db.execute("SELECT a, b FROM note WHERE name = ?", (_name(number),)).fetchone()
    return State(*found) if found else None


def _is_current(kind: Kind, state: State) -> bool:
    """Whether the database is still the one that others find under its name."""
    try:
        with locked(kind.base, "opening"):
            if not os.path.exists(kind.database):
                return False
            with closing(sqlite3.connect(kind.database)) as other:
                theirs = _state(other, kind.number)
    except (sqlite3.DatabaseError, OSError, Busy):
        return False
    return theirs is not None and theirs.owner == state.owner


def _checked_in(db: sqlite3.Connection, number: int) -> int:
    return int(db.execute("SELECT c FROM note WHERE name = ?", (_name(number),)).fetchone()[0])


def _note(db: sqlite3.Connection, kind: Kind, last: int, owner: int) -> None:
    row = (_name(kind.number), last, owner, kind.boot, 0)
    db.execute("INSERT OR REPLACE INTO note VALUES (?, ?, ?, ?, ?)", row)


def _marks(values: Collection[object]) -> str:
    return ", ".join("?" * len(values))
