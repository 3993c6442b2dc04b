"""A hub on PostgreSQL: one namespace of it, for one member.

A push and a pull are one call of a function in the database each (`schema/0001.sql`), so one round trip. No call
waits longer than `timeout`, whatever the network does: the connection is given up then, and made anew by the next.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import groupby

import psycopg
from psycopg import errors, sql
from psycopg.rows import TupleRow

from memsheaf.errors import Busy, Changed, HubRefused, HubRestored, HubUnreachable, hinted
from memsheaf.hub import Erasure, HubCommit, HubMember, HubSettings, Machine, Pulled
from memsheaf.store import Commit, Revision
from memsheaf.values import json

TYPE_CHECKING = False  # known to type checkers by this name; `typing` is slow to import
if TYPE_CHECKING:
    from typing import Any, TypeVar

    RV = TypeVar("RV")

CLIENT = 1
"""The version of the schema that this version of memsheaf was made for."""
HINT_EVERY = 0.5  # seconds between two hints of one process: in every push they would cost more than the push
POLL_EVERY = 1.0  # seconds between two looks of whoever waits: hints may be lost
LOCK_EVERY = 0.1


class _Connection(psycopg.Connection[TupleRow]):
    """A connection whose calls end in time, also when the network swallows the answer."""

    patience = 10.0

    def wait(self, gen: Generator[Any, Any, RV], *arguments: Any, **options: Any) -> RV:
        """Wait for an answer; after the time is up, give up the connection."""
        return super().wait(self._bounded(gen), *arguments, **options)

    def _bounded(self, gen: Generator[Any, Any, RV]) -> Generator[Any, Any, RV]:
        deadline = time.monotonic() + self.patience
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if not ready and time.monotonic() > deadline:
                    self.pgconn.finish()
                    raise psycopg.OperationalError("no answer in time")
                wanted = gen.send(ready)
        except StopIteration as stop:
            result: RV = stop.value
            return result


class PostgresHub:
    """One namespace of a database. Threads may share it."""

    def __init__(
        self,
        settings: HubSettings,
        *,
        timeout: float = 10.0,
        member: str = "",
        connect: Callable[[], AbstractContextManager[psycopg.Connection[TupleRow]]] | None = None,
    ) -> None:
        """`member` is whom a server acts for, by their login; `connect` lends it a connection of its pool."""
        self._settings = settings
        self._timeout = timeout
        self._member = member
        self._lend = connect
        self._guard = threading.RLock()
        self._connection: psycopg.Connection[TupleRow] | None = None
        self._listener: psycopg.Connection[TupleRow] | None = None
        self._known: tuple[int, int, str, str, str] | None = None  # of `memsheaf.hello`
        self._cursor = ""
        self._hinted = 0.0
        self._unhinted = False

    @property
    def me(self) -> str:
        """The member that this connection acts for."""
        return self._hello()[2]

    @property
    def role(self) -> str:
        """Reader, writer or admin."""
        return self._hello()[3]

    @property
    def notice(self) -> str:
        """What to tell about versions, "" when they fit."""
        version = self._hello()[0]
        if version > CLIENT:
            return "the hub is of a newer version of memsheaf: upgrade when you can"
        return "the hub is of an older version: an admin runs `memsheaf team migrate`" if version < CLIENT else ""

    def push(self, commit: Commit) -> str:
        """As `Hub.push`."""
        if self._hello()[0] < CLIENT:
            raise hinted(HubRefused("the hub is of an older version"), "An admin runs `memsheaf team migrate`.")
        steps = commit.revisions
        row = self._ask(
            "SELECT * FROM memsheaf.push(%s, %s, %s, %s, %s, %s, %s, %s, %s::text[], %s::text[], %s::text[], "
            "%s::bytea[])",
            [
                self._settings.namespace, CLIENT, commit.id, commit.at, self._settings.machine, commit.by, commit.why,
                commit.undoes, [step.path for step in steps], [step.before for step in steps],
                [step.after for step in steps], [step.new for step in steps],
            ],
        )[0]  # fmt: skip
        if row[1] is not None:
            raise Changed(row[1])
        self._unhinted = True
        if time.monotonic() - self._hinted >= HINT_EVERY:
            self._hint()
        return str(row[0])

    def pull(self, cursor: str = "") -> Pulled:
        """As `Hub.pull`."""
        rows = self._ask("SELECT * FROM memsheaf.pull(%s, %s)", [self._settings.namespace, cursor])
        if not rows:
            self._cursor = cursor
            return Pulled((), cursor)
        head = json.loads(rows[0][5])
        self._cursor = head["cursor"]
        erasures = [Erasure(one[0], tuple(one[1]), tuple(one[2]), *one[3:]) for one in head["erasures"] or ()]
        return Pulled(list(_commits(rows[1:])), self._cursor, not cursor, erasures)

    def wait(self, seconds: float) -> bool:
        """As `Hub.wait`."""
        deadline = time.monotonic() + seconds
        try:
            if self._lend is None and (self._listener is None or self._listener.closed):
                self._listener = self._connect()
                self._listener.execute(sql.SQL("LISTEN {}").format(self._channel()))
            while (left := deadline - time.monotonic()) > 0:
                if self._listener is None:
                    time.sleep(min(left, POLL_EVERY))
                elif any(True for _ in self._listener.notifies(timeout=min(left, POLL_EVERY), stop_after=1)):
                    return True
                if self._cursor and self._ask(*self._something_new()):
                    return True
        except psycopg.Error as error:
            raise self._translated(error) from error
        return False

    def _something_new(self) -> tuple[str, Sequence[object]]:
        return "SELECT FROM memsheaf.pull(%s, %s) LIMIT 1", [self._settings.namespace, self._cursor]

    @contextmanager
    def lock(self, name: str, *, wait: float = 0.0) -> Iterator[None]:
        """As `Hub.lock`; on a connection of its own, with which the lock goes."""
        key = self._ask("SELECT memsheaf.lock_key(%s, %s)", [self._settings.namespace, name])[0][0]
        deadline = time.monotonic() + wait
        connection = self._connect()
        try:
            try:
                while not _first(connection.execute("SELECT pg_try_advisory_lock(%s)", [key])):
                    if time.monotonic() >= deadline:
                        raise Busy(f"another machine is doing {name!r}")
                    time.sleep(LOCK_EVERY)
            except psycopg.Error as error:
                raise self._translated(error) from error
            yield
        finally:
            connection.close()

    def erase(self, erasure: Erasure) -> None:
        """As `Hub.erase`."""
        self._ask(
            "SELECT memsheaf.erase(%s, %s, %s, %s, %s::text[], %s::text[])",
            [
                self._settings.namespace, erasure.id, erasure.at, self._settings.machine, list(erasure.names),
                list(erasure.versions),
            ],
        )  # fmt: skip
        self._hint()

    def report(self, machine: Machine) -> None:
        """As `Hub.report`."""
        self._ask(
            "SELECT memsheaf.report(%s, %s, %s, %s::jsonb)",
            [self._settings.namespace, machine.id, machine.name, json.dumps(machine.erased)],
        )

    def members(self) -> Sequence[HubMember]:
        """As `Hub.members`."""
        rows = self._ask(
            "SELECT name, role, to_char(since AT TIME ZONE 'UTC', 'YYYY-MM-DD') FROM memsheaf.members "
            "WHERE namespace = %s ORDER BY name",
            [self._settings.namespace],
        )
        return [HubMember(*row) for row in rows]

    def machines(self) -> Sequence[Machine]:
        """As `Hub.machines`."""
        rows = self._ask(
            "SELECT m.id, m.name, m.member, to_char(m.seen AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"'), "
            "(SELECT json_agg(json_build_array(p.erasure, p.found) ORDER BY p.at, p.erasure) FROM memsheaf.proofs p "
            "WHERE p.namespace = m.namespace AND p.machine = m.id) "
            "FROM memsheaf.machines m WHERE m.namespace = %s ORDER BY m.name, m.id",
            [self._settings.namespace],
        )
        return [Machine(*row)._replace(erased=tuple(map(tuple, row[4] or ()))) for row in rows]

    def log(self, limit: int = 50) -> Sequence[HubCommit]:
        """As `Hub.log`."""
        rows = self._ask(
            "SELECT c.id, c.at, c.member, c.machine, c.by, c.why, c.undoes, c.member = %s, r.path, r.before, "
            "r.after, NULL::bytea FROM (SELECT * FROM memsheaf.commits WHERE namespace = %s ORDER BY xid DESC, "
            "place DESC LIMIT %s) c LEFT JOIN memsheaf.revisions r ON r.namespace = c.namespace AND r.commit = c.id "
            "ORDER BY c.xid DESC, c.place DESC, c.id, r.path",
            [self.me, self._settings.namespace, limit],
        )
        return list(_commits(rows))

    def close(self) -> None:
        """Let the connections go."""
        with self._guard:
            if self._unhinted and self._connection is not None:
                with suppress(HubUnreachable, HubRefused):
                    self._hint()
            for connection in (self._connection, self._listener):
                if connection is not None:
                    connection.close()
            self._connection = self._listener = None

    # talking to the database

    def _ask(self, query: str, values: Sequence[object]) -> list[TupleRow]:
        """The rows of one statement, in a transaction of its own. Raises HubUnreachable, HubRefused, HubRestored."""
        try:
            with self._lent() as connection:
                if not self._member:
                    return connection.execute(query, values, prepare=True).fetchall()
                with connection.pipeline(), connection.transaction():
                    connection.execute("SELECT set_config('memsheaf.member', %s, true)", [self._member])
                    answer = connection.execute(query, values, prepare=True)
                return answer.fetchall()
        except psycopg.Error as error:
            raise self._translated(error) from error

    @contextmanager
    def _lent(self) -> Iterator[psycopg.Connection[TupleRow]]:
        if self._lend is not None:
            with self._lend() as connection:
                yield connection
            return
        with self._guard:
            if self._connection is None or self._connection.closed:
                self._connection = self._connect()
            yield self._connection

    def _connect(self) -> psycopg.Connection[TupleRow]:
        try:
            connection = _Connection.connect(
                self._settings.url, autocommit=True, connect_timeout=max(2, round(self._timeout)),
                application_name="memsheaf", keepalives=1, keepalives_idle=5, keepalives_interval=2,
                keepalives_count=3, tcp_user_timeout=round(self._timeout * 1000),
            )  # fmt: skip
            connection.patience = self._timeout
            limit = f"{round(self._timeout * 1000)}"
            connection.execute(
                "SELECT set_config('statement_timeout', %s, false), set_config('lock_timeout', %s, false)",
                [limit, limit],
            )
        except psycopg.Error as error:
            raise self._translated(error) from error
        return connection

    def _hello(self) -> tuple[int, int, str, str, str]:
        if self._known is None:
            version, least, name, role, epoch = self._ask(
                "SELECT * FROM memsheaf.hello(%s)", [self._settings.namespace]
            )[0]
            self._known = version, least, name, role, str(epoch)
        return self._known

    def _channel(self) -> sql.Identifier:
        """Where hints are given: a name that only members know."""
        return sql.Identifier(f"memsheaf_{self._hello()[4]}")

    def _hint(self) -> None:
        """Tell whoever waits. The change is made, so that nothing is said when this fails."""
        self._hinted, self._unhinted = time.monotonic(), False
        with suppress(HubUnreachable, HubRefused):
            self._ask("SELECT pg_notify(%s, '')", [f"memsheaf_{self._hello()[4]}"])

    def _translated(self, error: psycopg.Error) -> Exception:
        """What a failure of the database means."""
        hint, message = error.diag.message_hint, error.diag.message_primary or str(error).strip().partition("\n")[0]
        where = self._settings.shown
        if hint == "restored":
            return HubRestored(f"{where} was restored from an older backup")
        if hint == "moved":
            found = HubRefused(f"{where} was moved to another server")
            return hinted(found, "An admin runs `memsheaf team restored`, then each machine `memsheaf hub rejoin`.")
        if isinstance(error, (errors.InvalidSchemaName, errors.UndefinedFunction, errors.UndefinedTable)):
            return hinted(HubRefused(f"{where} has no memsheaf schema, or an older one"), "`memsheaf team create`")
        if isinstance(error, psycopg.OperationalError) or (error.sqlstate or "")[:2] in ("", "53", "57", "58"):
            return HubUnreachable(f"{where} does not answer: {message}")
        return HubRefused(f"{where} refused: {message}")


def _commits(rows: Sequence[TupleRow]) -> Iterator[HubCommit]:
    """Rows of revisions as commits; one with no path is of a commit that has none."""
    for head, group in groupby(rows, key=lambda row: row[:8]):
        steps = tuple(Revision(row[8], row[9], row[10], None, row[11]) for row in group if row[8] is not None)
        identity, at, member, machine, by, why, undoes, own = head
        yield HubCommit(Commit(identity, at, by, why, steps, undoes), member, machine, own)


def _first(cursor: psycopg.Cursor[TupleRow]) -> object:
    row = cursor.fetchone()
    return row[0] if row else None
