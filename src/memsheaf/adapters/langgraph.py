"""LangGraph's long-term memory as Markdown files: a `BaseStore` over one sheaf.

>>> with Sheaf.open("agent/assistant") as sheaf:                                  # doctest: +SKIP
...     graph = builder.compile(store=MemsheafStore(sheaf))
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import Any

from memsheaf.adapters import missing
from memsheaf.adapters.items import FOLDER, StoredItem, folder_of, passes, place, read, refuse_hidden, until, write
from memsheaf.errors import BadHeader, MemsheafError, NotFound
from memsheaf.index.database import Match, Row
from memsheaf.memory import Allow, Memory
from memsheaf.sheaf import Sheaf
from memsheaf.store import ABSENT, Change
from memsheaf.timeouts import retry

try:
    from langgraph.store.base import (
        BaseStore,
        GetOp,
        Item,
        ListNamespacesOp,
        MatchCondition,
        Op,
        PutOp,
        Result,
        SearchItem,
        SearchOp,
        TTLConfig,
        validate_op_namespace,
    )
except ImportError as error:
    raise missing("langgraph", error) from None

REFRESH = 0.05  # a read moves an item's end when so much of its time is over: not every read is a write
LOOKS = 20  # a look for what people did to the files takes one part in so many of the time
MATCHES = 50  # asked for at first when searching by words
AMONG = 10_000  # items of one search that are weighed one by one
_BELOW = f"{FOLDER}/"
_log = logging.getLogger(__name__)

ItemFilter = Callable[[StoredItem], bool]
ScoredItems = list[tuple[StoredItem, float | None]]


class MemsheafStore(BaseStore):
    """Items below `langgraph/` in a sheaf, one file each. Threads and processes may share them.

    A batch answers what was before it, then stores all it has to store as one commit, or nothing of it. A file that
    holds no item (any more) is an error for who asks for that key, and passed over with a warning in a search.
    """

    supports_ttl = True

    def __init__(self, sheaf: Sheaf, *, ttl: TTLConfig | None = None, clock: Callable[[], float] = time.time) -> None:
        self.ttl_config = ttl
        self._sheaf = sheaf
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[str, tuple[str, StoredItem | None]] = {}  # by path, with the version that was read
        self._next_look = 0.0
        self._sweeper: tuple[threading.Thread, Future[None]] | None = None

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Do several things at once.

        Raises:
            SecretFound, TextRefused: a value may not be stored, or no person has vouched for what is there; nothing
                of the batch was stored.
            BadHeader: the file of an item was edited into something else; nothing is changed then.
        """
        wanted = list(ops)
        for op in wanted:
            validate_op_namespace(op)
        puts = {(tuple(op.namespace), op.key): op for op in wanted if isinstance(op, PutOp)}
        with self._lock:
            results = [self._answer(op) for op in wanted]
            if puts:
                self._insist(lambda: list(self._stored(puts.values())), "put")
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """As `batch`, in a thread."""
        return await asyncio.to_thread(self.batch, list(ops))

    def sweep_ttl(self) -> int:
        """Forget the items whose time is over, as one commit that can be undone; gives how many."""
        with self._lock:
            return self._insist(self._overdue, "expired")

    def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> Future[None]:
        """Sweep now and then in a thread, until the future is cancelled or `stop_ttl_sweeper` is called."""
        self.stop_ttl_sweeper()
        minutes = sweep_interval_minutes or (self.ttl_config or {}).get("sweep_interval_minutes") or 5
        ended, future = threading.Event(), Future[None]()
        future.add_done_callback(lambda _: ended.set())

        def sweep() -> None:
            while not ended.wait(minutes * 60):
                try:
                    self.sweep_ttl()
                except MemsheafError as error:  # the next round may succeed
                    _log.warning("expired items were not swept: %s", error)

        thread = threading.Thread(target=sweep, name="memsheaf-ttl", daemon=True)
        self._sweeper = thread, future
        thread.start()
        return future

    def stop_ttl_sweeper(self, timeout: float | None = None) -> bool:
        """End the sweeper; False when it did not end in time."""
        if self._sweeper is None:
            return True
        thread, future = self._sweeper
        with suppress(InvalidStateError):
            future.set_result(None)
        thread.join(timeout)
        return not thread.is_alive()

    def _answer(self, op: Op) -> Result:
        match op:
            case GetOp():
                found = self._find(tuple(op.namespace), op.key)
                kept = found[1] if found and self._is_live(found[1]) else None
                self._prolong([kept] if kept and op.refresh_ttl else [])
                return Item(**_said(kept)) if kept else None
            case SearchOp():
                page = self._search(op)
                self._prolong([kept for kept, _ in page] if op.refresh_ttl else [])
                return [SearchItem(**_said(kept), score=score) for kept, score in page]
            case ListNamespacesOp():
                return self._namespaces(op)
            case PutOp():
                return None
        raise ValueError(f"{type(op).__name__} is not an operation of a store")

    def _find(self, namespace: tuple[str, ...], key: str) -> tuple[Memory, StoredItem] | None:
        """The file of an item as it is on disk now. Raises BadHeader."""
        try:
            memory = self._sheaf.read(place(namespace, key))
        except NotFound:
            return None
        kept = read(memory)
        if (kept.namespace, kept.key) != (namespace, key):
            raise BadHeader(memory.path, "it is about another item")
        return memory, kept

    def _search(self, op: SearchOp) -> ScoredItems:
        prefix, last = tuple(op.namespace_prefix), op.offset + op.limit

        def fits(kept: StoredItem) -> bool:
            below = kept.namespace[: len(prefix)] == prefix
            return below and self._is_live(kept) and passes(kept.value, op.filter or {})

        def search() -> ScoredItems:
            if op.query:
                return self._matching(op, op.query, fits)[op.offset : last]
            found = [kept for _, kept in self._items(prefix) if fits(kept)]
            found.sort(key=lambda kept: kept.updated, reverse=True)
            return [(kept, None) for kept in found[op.offset : last]]

        def paths(found: ScoredItems) -> Iterable[str]:
            return (place(kept.namespace, kept.key) for kept, _ in found)

        return self._sheaf.reader.until_fresh(search, paths)

    def _matching(self, op: SearchOp, query: str, fits: ItemFilter) -> ScoredItems:
        """The items that match a query, best first, enough to fill a page."""
        self._look()
        last = op.offset + op.limit
        found = self._wanted(self._sheaf.reader.matches(query, limit=max(MATCHES, last), look=False), fits)
        if len(found) < last:  # others stand before them, in other namespaces; so look at none but these
            paths = [
                row.path for row, kept in self._items(tuple(op.namespace_prefix)) if kept.searched and fits(kept)
            ]
            if len(paths) <= AMONG:
                found = self._wanted(self._sheaf.reader.matches(query, limit=last, among=paths, look=False), fits)
        return found

    def _wanted(self, matches: Iterable[Match], fits: ItemFilter) -> ScoredItems:
        ours = [(self._kept(match.row), match.score) for match in matches if match.row.path.startswith(_BELOW)]
        return [(kept, score) for kept, score in ours if kept and kept.searched and fits(kept)]

    def _namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        conditions = op.match_conditions or ()
        live = {kept.namespace for _, kept in self._items(()) if self._is_live(kept)}
        found = {one[: op.max_depth] for one in live if all(_is_like(one, condition) for condition in conditions)}
        return sorted(found)[op.offset : op.offset + op.limit]

    def _items(self, namespace: tuple[str, ...]) -> Iterator[tuple[Row, StoredItem]]:
        """All items in the folder of a namespace, in the order of their paths; those whose time is over, too."""
        self._look()
        folder = folder_of(namespace)
        for row in self._sheaf.reader.under(folder):
            if kept := self._kept(row):
                yield row, kept

    def _look(self) -> None:
        """Notice what people did to the files. (What programs put, of whatever process, is known without.)"""
        started = time.perf_counter()
        if started >= self._next_look:
            self._sheaf.reader.look()
            self._next_look = started + LOOKS * (time.perf_counter() - started)

    def _kept(self, row: Row) -> StoredItem | None:
        """The item of a file that the index knows; it is read only when it is another than last time."""
        version, kept = self._known.get(row.path, ("", None))
        if version != row.version:
            try:
                kept = read(self._sheaf.read(row.path))
            except NotFound:  # somebody has just removed it
                kept = None
            except MemsheafError as error:
                kept = None
                _log.warning("passed over: %s", error)
            self._known[row.path] = row.version, kept
        return kept

    def _is_live(self, kept: StoredItem) -> bool:
        return kept.expires is None or kept.expires > self._now()

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock(), UTC)

    def _insist(self, plan: Callable[[], list[Change]], why: str) -> int:
        """Make planned changes as one commit, planned again after a concurrent write; gives their number."""

        def attempt() -> list[Change]:
            if changes := plan():
                self._sheaf.change_many(changes, f"langgraph: {why}", by=self._sheaf.by, allow=Allow(anyway=True))
            return changes

        changes = retry(attempt, busy="the items change faster than they can be stored")
        for change in changes:
            self._known.pop(change.path, None)
        return len(changes)

    def _stored(self, ops: Iterable[PutOp]) -> Iterator[Change]:
        """What to change so that these are kept, or forgotten."""
        now = self._now()
        for op in ops:
            namespace = tuple(op.namespace)
            was, kept = self._find(namespace, op.key) or (None, None)
            if op.value is not None:
                created = kept.created if kept and self._is_live(kept) else now
                updated = max(now, created)  # another process may have made it since
                fresh = StoredItem(
                    namespace, op.key, dict(op.value), created, updated, searched=op.index is not False
                )
                if op.ttl is not None:
                    fresh = fresh._replace(ttl=float(op.ttl), expires=now + timedelta(minutes=op.ttl))
                memory = write(fresh, was, source=self._sheaf.by)
                refuse_hidden(fresh.value, kept.value if kept else {})
                yield Change(memory.path, memory.data, was.version if was else ABSENT)
            elif was:
                if was.known:
                    self._sheaf.bury([was])  # so that it is not learned again
                yield Change(was.path, None, was.version)

    def _overdue(self) -> list[Change]:
        """What to change so that the items whose time is over are forgotten."""
        return [Change(row.path, None, row.version) for row, kept in self._items(()) if not self._is_live(kept)]

    def _prolong(self, items: Iterable[StoredItem]) -> None:
        """Let the time of items that were read begin anew."""
        now = self._now()
        due = [one for one in items if one.ttl and one.expires and one.expires - now < _most(one.ttl)]
        if not due or self._sheaf.read_only:
            return

        def later() -> list[Change]:
            found = (self._find(one.namespace, one.key) for one in due)
            files = (
                (memory, until(memory, now + timedelta(minutes=kept.ttl or 0)))
                for memory, kept in filter(None, found)
            )
            return [Change(new.path, new.data, memory.version) for memory, new in files]

        try:
            self._insist(later, "read")
        except MemsheafError as error:  # whoever reads gets an answer
            _log.warning("the TTL of items that were read was not refreshed: %s", error)


def _most(ttl: float) -> timedelta:
    """How long an item may have to live and still get more by being read."""
    return timedelta(minutes=ttl * (1 - REFRESH))


def _said(kept: StoredItem) -> dict[str, Any]:
    """What the framework calls the parts of an item; the caller may change the value."""
    return {
        "namespace": kept.namespace,
        "key": kept.key,
        "value": deepcopy(kept.value),
        "created_at": kept.created,
        "updated_at": kept.updated,
    }


def _is_like(namespace: tuple[str, ...], condition: MatchCondition) -> bool:
    """Whether a namespace begins or ends like this; `*` matches any one label."""
    path = tuple(condition.path)
    if condition.match_type == "suffix":
        namespace, path = namespace[::-1], path[::-1]
    elif condition.match_type != "prefix":
        raise ValueError(f"a namespace is matched by prefix or suffix, not by {condition.match_type!r}")
    return len(namespace) >= len(path) and all(
        want in ("*", label) for want, label in zip(path, namespace, strict=False)
    )
