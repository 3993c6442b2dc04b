"""Who makes the vectors, and when: a few in the search that needs them, many beside it, and none without an embedder.

Nothing here is needed for an answer. Whatever fails, search goes on by words, and `problem` says why.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from math import inf

from memsheaf.embed import Embedder, Usual
from memsheaf.errors import Busy, EmbedderFailed, MemsheafError
from memsheaf.index import vector_rows
from memsheaf.index.database import Stale, base_of, connect, is_kept, locked
from memsheaf.index.vector_file import EMPTY, LONGEST, Mapped, Small, small
from memsheaf.index.vector_rows import Claims, Kind, Lost, Made, State
from memsheaf.index.vectors import DIGITS, MOST, NEAREST, USUAL, drawn, enough, key_of, passages
from memsheaf.memory import parse
from memsheaf.store.folder import FolderStore
from memsheaf.timeouts import TimeUp, within
from memsheaf.values import NamedTuple, sha256

# Known to type checkers under this name: a start does not import `typing`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    from numpy import float32
    from numpy.typing import NDArray

    T = TypeVar("T")

FEW = 8  # so many memories a search embeds before it answers
BATCH = 32  # memories that become findable at once
QUICK = 3  # batches that a search makes first with an embedder that says it is quick: 30 ms
PIECE = 16  # texts between two looks whether to stop
PAUSE = 300.0  # seconds until an embedder that failed is asked again
UNUSED = 30 * 86_400.0  # seconds that the file of another embedder stays
STOP = 2.0  # seconds to wait for the thread; it ends by itself after the text it is at
REFUSAL = 2.0  # seconds; what takes longer is no refusal of a text
HARMLESS = "memory"  # a text that no embedder refuses
ASKED = 64  # so many questions whose vectors are kept
QUESTION = 5.0  # seconds that a search waits for the vector of its question
GIVE_WAY = 0.05  # seconds that the thread lets a question go first, before each text
WAIT = 0.2  # seconds between two looks whether another process is ready
_DAY = 86_400.0
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)

Progress = Callable[[int, int], None]


class Embedding(NamedTuple):
    """How far the vectors are: of which embedder ("" for none), how many memories of all, and what is in the way."""

    embedder: str
    done: int
    total: int
    running: bool
    problem: str


class Near(NamedTuple):
    """What a question is near to: the cosine of each slot, what is usual and what is enough, the nearest entries."""

    number: int
    cosines: NDArray[float32]
    usual: Usual
    enough: float
    nearest: Sequence[int]
    version: int

    def of(self, db: sqlite3.Connection, entries: Sequence[int]) -> dict[int, float] | None:
        """The cosine of the best passage of each of these entries that has any; None when a vector may have moved."""
        marks = ", ".join("?" * len(entries))
        sql = f"SELECT entry, slot FROM place WHERE embedder = ? AND entry IN ({marks})"
        found: dict[int, float] = {}
        for entry, slot in db.execute(sql, (self.number, *entries)):
            if slot < len(self.cosines):
                found[entry] = max(found.get(entry, EMPTY), round(float(self.cosines[slot]), DIGITS))
        if _version(db) != self.version:
            return None
        return {entry: cosine for entry, cosine in found.items() if cosine > EMPTY}


class _Until:
    """Says when time is up, as an event would."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def is_set(self) -> bool:
        return time.monotonic() >= self._end


class Vectors:
    """The vectors of one index. Its owner calls it from one thread at a time; one more thread works beside it."""

    def __init__(
        self,
        store: FolderStore,
        database: str,
        embedder: Callable[[], Embedder | None] | None,
        *,
        boot: int,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._database = database
        self._base = base_of(database)
        self._ask = embedder
        self._boot = boot
        self._clock = clock
        self._embedder: Embedder | None = None
        self._off_until = 0.0
        self._problem = ""
        self._mapped: Mapped | None = None
        self._shape: tuple[bytes, int] | None = None
        self._asked: dict[str, NDArray[float32]] = {}
        self._asking = threading.Lock()
        self._inspected = False
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._is_calm = threading.Event()
        self._is_calm.set()

    @contextmanager
    def hushed(self) -> Iterator[None]:
        """Let the thread rest meanwhile: of two that work, one waits 5 ms for the other at every look at a file."""
        self._is_calm.clear()
        try:
            yield
        finally:
            self._is_calm.set()

    def prepare(self, question: str) -> None:
        """Ask an embedder that is remote, before anybody holds the index: a save does not wait for its answer."""
        with self._asking, suppress(Busy, Stale, sqlite3.DatabaseError), self._tolerant():
            embedder = self._ready() if any(map(str.isalnum, question)) else None
            if embedder is None or not getattr(embedder, "remote", False):
                return
            kind = self._kind(embedder)
            with closing(connect(self._database)) as db:
                state = vector_rows.known(db, kind)
                behind = vector_rows.count_waiting(db, kind, state.last if state else 0, FEW + 1)
                if behind > FEW and not (state and vector_rows.has_half(db, kind)):
                    return
                self._vector_of(embedder, question)  # first: one that hangs is not asked for more
                if behind <= FEW:
                    self._catch_up(db, embedder, kind, most=1)

    def near(self, db: sqlite3.Connection, question: str) -> Near | None:
        """What a question is near to; None when words must do. One that is remote was asked by `prepare`.

        Raises:
            Stale: the database was deleted, and another one is in its place.
        """
        with suppress(Busy), self._tolerant():
            if not is_kept(db) or not any(map(str.isalnum, question)):  # signs alone mean nothing
                return None
            embedder = self._ready()
            if embedder is None:
                vector_rows.wipe(db, self._base)
                return None
            kind = self._kind(embedder)
            state = vector_rows.known(db, kind)
            behind = vector_rows.count_waiting(db, kind, state.last if state else 0, FEW + 1)
            if behind > FEW and getattr(embedder, "quick", False) and not self._is_alive():
                # so that even commands, which end before the thread gets far, have it done after some
                state = self._catch_up(db, embedder, kind, most=QUICK)
                behind = vector_rows.count_waiting(db, kind, state.last, FEW + 1)
            if behind > FEW:
                vector_rows.wipe(db, self._base)
                self._start()
                if state is None or not vector_rows.has_half(db, kind):
                    return None
            if getattr(embedder, "remote", False):
                vector = self._asked.get(question)
                return self._look(db, embedder, kind, state, vector) if state and vector is not None else None
            vector = self._vector_of(embedder, question)
            if behind <= FEW:
                state = self._catch_up(db, embedder, kind, most=1)
            return self._look(db, embedder, kind, state, vector) if state else None
        return None

    def status(self, db: sqlite3.Connection) -> Embedding:
        """How far the vectors are."""
        total, done, name = vector_rows.count(db), 0, ""
        with suppress(Stale, Busy), self._tolerant():
            if not is_kept(db):
                return Embedding("", 0, total, running=False, problem="there is no place to keep vectors")
            if embedder := self._ready() or self._embedder:
                kind = self._kind(embedder)
                name = embedder.identity
                state = vector_rows.known(db, kind)
                done = total - vector_rows.count_waiting(db, kind, state.last) if state else 0
        return Embedding(name, done, total, self._is_running(), self._problem)

    def embed_all(self, progress: Progress | None = None, *, seconds: float = inf) -> None:
        """Make every vector that is missing, in this thread, as far as it gets in so many seconds.

        When another process is at it, wait for it.
        """
        self.stop()
        self._off_until = 0.0
        until = _Until(seconds)
        while not until.is_set():
            try:
                with self._tolerant(), closing(connect(self._database)) as db:
                    if embedder := self._ready():
                        with locked(self._base, "embedding", wait=0):
                            self._catch_up(db, embedder, self._kind(embedder), progress, stop=until)
                return
            except Stale:
                continue
            except Busy:
                time.sleep(WAIT)

    def stop(self) -> None:
        """Let the thread end, and what it has made so far be kept."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(STOP)
        self._thread = self._mapped = None
        self._inspected = False

    def _start(self) -> None:
        if not self._is_alive():
            self._stop = threading.Event()
            thread = threading.Thread(target=self._run, args=(self._stop,), name="memsheaf-vectors", daemon=True)
            with suppress(RuntimeError):  # there are too many, or the process ends
                thread.start()
                self._thread = thread

    def _run(self, stop: threading.Event) -> None:
        embedder = self._embedder
        if embedder is None:
            return
        # if this one cannot go on, the next search starts another
        with (
            suppress(Stale, Busy, sqlite3.DatabaseError),
            self._tolerant(),
            closing(connect(self._database)) as db,
            locked(self._base, "embedding", wait=0),
        ):
            self._catch_up(db, embedder, self._kind(embedder), stop=stop)

    def _is_alive(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _is_running(self) -> bool:
        """Whether this process or another makes vectors now."""
        if self._is_alive():
            return True
        try:
            with locked(self._base, "embedding", wait=0):
                return False
        except Busy:
            return True
        except (OSError, MemsheafError):
            return False

    def _ready(self) -> Embedder | None:
        """The embedder; None when there is none, or it failed a short while ago."""
        if (self._ask is None and self._embedder is None) or self._clock() < self._off_until:
            return None
        if self._embedder is None and self._ask is not None:
            ask, self._ask = self._ask, None
            try:
                self._embedder = ask()
            except Exception as error:  # noqa: BLE001 - a library that is broken may raise anything
                self._ask = ask
                raise EmbedderFailed(_said(error)) from None
        return self._embedder

    def _kind(self, embedder: Embedder) -> Kind:
        if self._shape is None:

            def ask() -> tuple[bytes, int]:
                try:
                    return sha256(embedder.identity.encode()).digest(), int(embedder.dimensions)
                except EmbedderFailed:
                    raise
                except Exception as error:  # noqa: BLE001 - an embedder may be anybody's
                    raise EmbedderFailed(_said(error)) from None

            self._shape = _in_time(embedder, ask)
        return Kind(self._database, *self._shape, self._boot)

    def _catch_up(
        self,
        db: sqlite3.Connection,
        embedder: Embedder,
        kind: Kind,
        progress: Progress | None = None,
        *,
        stop: threading.Event | _Until | None = None,
        most: int = sys.maxsize,
    ) -> State:
        """Make the vectors that are missing, batch by batch and so many at most, and wipe those that nobody needs."""
        state = self._adopted(db, kind)
        claims: Claims | None = None
        while most and (behind := vector_rows.waiting(db, kind, state.last, BATCH)):
            most -= 1
            if claims is None:
                claims = vector_rows.claims(db, kind)
            if stop and stop.is_set():
                return state
            state = self._batch(db, embedder, kind, state, behind, claims, stop)
            if progress:
                total = vector_rows.count(db)
                progress(total - vector_rows.count_waiting(db, kind, state.last), total)
        vector_rows.advance(db, kind, state)
        vector_rows.wipe(db, self._base, unclaimed=kind)
        return state

    def _adopted(self, db: sqlite3.Connection, kind: Kind) -> State:
        state = vector_rows.known(db, kind)
        if state is not None and not self._inspected and not vector_rows.inspect(db, kind):
            state = None
        if state is None:
            state = vector_rows.adopt(db, kind)
        if not self._inspected:
            now = self._clock()
            vector_rows.remove_others(db, kind, older_than=now - UNUSED)
            if os.stat(kind.path).st_mtime < now - _DAY:
                os.utime(kind.path, (now, now))
        self._inspected = True
        return state

    def _batch(
        self,
        db: sqlite3.Connection,
        embedder: Embedder,
        kind: Kind,
        state: State,
        behind: Sequence[tuple[int, str]],
        claims: Claims,
        stop: threading.Event | _Until | None,
    ) -> State:
        """Embed some memories; those that are done when we are stopped are kept."""
        texts: dict[int, dict[bytes, str]] = {}
        for entry, path in behind:
            self._give_way(stop)
            with suppress(MemsheafError):
                found = passages(parse(path, self._store.read(path).data))
                texts[entry] = {key_of(text): text for text in found}
        missing = {key: text for each in texts.values() for key, text in each.items() if not claims.get(key)}
        vectors: dict[bytes, Small] = {}
        refused: set[bytes] = set()
        for piece in _pieces(list(missing), PIECE):
            self._give_way(stop)
            if stop and stop.is_set():
                break
            embedded = self._embedded(embedder, {key: missing[key] for key in piece})
            vectors |= embedded
            refused.update(key for key in piece if key not in embedded)
        made, last = [], state.last
        for entry, _ in behind:
            keys = [key for key in texts.get(entry, ()) if key not in refused]
            if any(key in missing and key not in vectors for key in keys):
                break
            made.append(Made(entry, keys))
            last = entry
        try:
            return vector_rows.settle(db, kind, state, made, vectors, claims, last)
        except Lost:  # it is embedded in the next round
            return state

    def _embedded(self, embedder: Embedder, texts: Mapping[bytes, str]) -> dict[bytes, Small]:
        """The vectors of some texts, but for those that are refused while others are taken: one must not stop all."""
        started = time.monotonic()
        try:
            return dict(zip(texts, small(self._encode(embedder, list(texts.values()))), strict=True))
        except EmbedderFailed:
            if time.monotonic() - started > REFUSAL or not self._takes(embedder, HARMLESS):
                raise
        single = ({key: text} for key, text in texts.items() if len(texts) > 1)
        return {key: vector for each in single for key, vector in self._embedded(embedder, each).items()}

    def _takes(self, embedder: Embedder, text: str) -> bool:
        try:
            return bool(len(self._encode(embedder, [text])))
        except EmbedderFailed:
            return False

    def _give_way(self, stop: threading.Event | _Until | None) -> None:
        if stop and not stop.is_set():
            self._is_calm.wait(GIVE_WAY)

    def _vector_of(self, embedder: Embedder, question: str) -> NDArray[float32]:
        """The vector of a question. Raises EmbedderFailed, also when it takes so long that nobody would wait."""
        if (known := self._asked.get(question)) is not None:
            return known
        rows = _in_time(embedder, lambda: self._encode(embedder, [question]))
        if len(self._asked) >= ASKED:
            self._asked = {}
        vector: NDArray[float32] = rows[0]
        self._asked[question] = vector
        return vector

    def _look(
        self, db: sqlite3.Connection, embedder: Embedder, kind: Kind, state: State, question: NDArray[float32]
    ) -> Near | None:
        for _ in range(3):
            before = _version(db)
            if self._mapped is None or not self._mapped.is_current():
                self._mapped = Mapped(kind.path)
            cosines = self._mapped.cosines(question)
            alive = cosines[cosines > EMPTY]
            given = Usual(*getattr(embedder, "usual", USUAL))
            usual = drawn(len(alive), *_mean_and_spread(alive), given)
            least = enough(len(alive), given if hasattr(embedder, "usual") else usual)
            nearest = _nearest(db, kind.number, cosines)
            if self._mapped.owner() != state.owner:  # the slots are another database's by now
                return None
            if _version(db) == before:  # nobody moved a vector while we looked
                return Near(kind.number, cosines, usual, least, nearest, before)
        return None

    def _encode(self, embedder: Embedder, texts: Sequence[str]) -> NDArray[float32]:
        """The vectors of some texts. Raises EmbedderFailed, whatever else went wrong."""
        try:
            import numpy

            rows = numpy.asarray(embedder.encode(texts), numpy.float32)
        except EmbedderFailed:
            raise
        except Exception as error:  # noqa: BLE001 - an embedder may be anybody's
            raise EmbedderFailed(_said(error)) from None
        if rows.shape != (len(texts), embedder.dimensions) or not (numpy.linalg.norm(rows, axis=1) < LONGEST).all():
            raise EmbedderFailed(f"{embedder.identity} gave other vectors than it should")
        return rows

    @contextmanager
    def _tolerant(self) -> Iterator[None]:
        """Go on without vectors when they fail, and remember why."""
        try:
            yield
            self._problem = "" if self._clock() >= self._off_until else self._problem
        except (Busy, Stale):
            self._inspected = False
            raise
        except sqlite3.DatabaseError as error:
            self._inspected = False
            if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _BUSY:
                raise
        except (FileNotFoundError, ValueError) as error:  # the file is being made anew; the next search sees to it
            self._inspected = False
            self._problem = _said(error)
        except (MemsheafError, OSError) as error:
            self._inspected = False
            self._problem = _said(error)
            self._off_until = self._clock() + PAUSE


def _in_time(embedder: Embedder, work: Callable[[], T]) -> T:
    """Do it; with an embedder that is `remote`, stop waiting when nobody would wait longer. Raises EmbedderFailed."""
    if not getattr(embedder, "remote", False):
        return work()
    try:
        return within(QUESTION, work, name="memsheaf-question")
    except TimeUp:
        raise EmbedderFailed(f"the embedder gave no vector for the question within {QUESTION:g} seconds") from None


def _version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA data_version").fetchone()[0])


def _mean_and_spread(cosines: NDArray[float32]) -> tuple[float, float]:
    if not len(cosines):
        return 0.0, 0.0
    return float(cosines.mean(dtype=float)), float(cosines.std(dtype=float))


def _nearest(db: sqlite3.Connection, number: int, cosines: NDArray[float32]) -> list[int]:
    """The entries with the nearest passages, nearest first."""
    import numpy

    found: list[int] = []
    for take in (4 * NEAREST, MOST * NEAREST):  # the second is enough even if all are as long as can be
        slots = numpy.arange(len(cosines))
        if take < len(cosines):
            slots = numpy.argpartition(cosines, len(cosines) - take)[len(cosines) - take :]
        slots = slots[numpy.argsort(-cosines[slots], kind="stable")][:take]
        found = _entries(db, number, slots.tolist())[:NEAREST]
        if len(found) == NEAREST or take >= len(cosines):
            break
    return found


def _entries(db: sqlite3.Connection, number: int, slots: Sequence[int]) -> list[int]:
    """The entries that these slots belong to, in the order of the slots."""
    marks = ", ".join("?" * len(slots))
    sql = f"SELECT slot, entry FROM place WHERE embedder = ? AND slot IN ({marks}) AND entry > 0"
    owners = dict(db.execute(sql, (number, *slots)))
    return list(dict.fromkeys(owners[slot] for slot in slots if slot in owners))


def _pieces(keys: list[bytes], size: int) -> Iterator[list[bytes]]:
    for start in range(0, len(keys), size):
        yield keys[start : start + size]


def _said(error: Exception) -> str:
    return str(error) if isinstance(error, MemsheafError) else f"{type(error).__name__}: {error}"
