"""A hub on PostgreSQL: one namespace of it, for one member.

A push and a pull are one call of a function in the database each (`schema/0001.sql`), so one round trip. A
connection that is silent for longer than `timeout` is closed, and the next call opens another.
"""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import TupleRow

from memsheaf.errors import Busy, Changed, HubRefused, HubRestored, HubUnreachable, MemsheafError, PathRefused
from memsheaf.hub import Erasure, HubCommit, HubMember, HubSettings, Machine, Pulled, deadline, time_left
from memsheaf.store import Commit, Revision
from memsheaf.text.neutralize import one_line

if TYPE_CHECKING:
    Connection = psycopg.Connection[TupleRow]

T = TypeVar("T")

CLIENT = 1
"""The version of the schema that this version of memsheaf was made for."""
NAME_MEMBER = (
    "SELECT set_config('memsheaf.member', %s, true), set_config('memsheaf.namespace', %s, true), "
    f"set_config('memsheaf.client', '{CLIENT}', true)"
)
HINT_EVERY = 0.5  # seconds between two NOTIFY of one process: one in every push would cost more than the push
POLL_EVERY = 1.0  # seconds between two polls of a listener: notifications may be lost
LOCK_EVERY = 0.1
MANY = 1000  # rows after which a cursor is not kept, nor what it holds
LOCAL_HOST = re.compile(r"|[/@].*|localhost|127\.[\d.]+|::1")  # a socket, or this machine
QUICKLY = 1.0  # seconds in which an idle connection shows that the server has closed it
_KEPT_OUT = (
    "authentication failed|no password|does not exist|pg_hba|permission denied|not permitted to log in"
    "|does not support SSL|certificate"
)
"""What a server says to somebody it does not let in; there is no code at this point."""


class BoundedConnection(psycopg.Connection[TupleRow]):
    """A connection that is closed after a silence, as when packets get lost."""

    patience = 10.0

    def limit(self, seconds: float, namespace: str = "") -> None:
        """Let nothing that is silent, or waits for a lock, take longer than this.

        Statements are not compiled (`jit`): with one large namespace the planner expects much of every statement, and
        compiling takes hundreds of times as long as a pull from a small one.
        """
        self.patience = seconds
        whole = str(round(seconds * 30_000))  # a first pull over a slow network takes its time
        self.execute(
            "SELECT set_config('jit', 'off', false), "
            "set_config('statement_timeout', %s, false), set_config('lock_timeout', %s, false), "
            "set_config('memsheaf.namespace', %s, false), set_config('memsheaf.client', %s, false)",
            [whole, _milliseconds(seconds), namespace, str(CLIENT)],
        )

    def wait(self, gen: Generator[Any, Any, T], *arguments: Any, **options: Any) -> T:
        """Wait for an answer."""
        return super().wait(self._until_silent(gen), *arguments, **options)

    def _until_silent(self, gen: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
        heard = time.monotonic()
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if ready:
                    heard = time.monotonic()
                elif time.monotonic() - heard > self.patience or not time_left(1.0):
                    self.pgconn.finish()
                    raise psycopg.OperationalError("no answer in time")
                wanted = gen.send(ready)
        except StopIteration as stop:
            result: T = stop.value
            return result


class Hello(NamedTuple):
    """The hub's first words to a new connection."""

    version: int
    member: str
    role: str
    epoch: str


class PostgresHub:
    """One namespace of a database; thread-safe."""

    def __init__(
        self,
        settings: HubSettings,
        *,
        timeout: float = 10.0,
        member: str = "",
        connect: Callable[[], AbstractContextManager[Connection]] | None = None,
    ) -> None:
        """`member` is whom a server acts for, by their login; `connect` lends it a connection of its pool."""
        settings.check_address()
        self._settings = settings
        self._timeout = timeout
        self._member = member
        self._lend = connect
        self._guard = threading.RLock()
        self._cursor: psycopg.RawCursor[TupleRow] | None = None
        self._listener: Connection | None = None
        self._hello: Hello | None = None
        self._pulled = ""
        self._hinted = 0.0
        self._unhinted = False

    @property
    def hello(self) -> Hello:
        """The member of this connection, and the versions of the hub. Raises HubUnreachable, HubRefused."""
        if self._hello is None:
            found = Hello(*self._ask("SELECT * FROM memsheaf.hello($1)", self._settings.namespace)[0])
            self._hello = found._replace(epoch=str(found.epoch))
        return self._hello

    @property
    def me(self) -> str:
        """The member that this connection acts for."""
        return self.hello.member

    @property
    def notice(self) -> str:
        """A warning when the versions differ, else ""."""
        if self.hello.version > CLIENT:
            return "the hub is of a newer version of memsheaf: upgrade this one when you can"
        return "the hub is of an older version of memsheaf" if self.hello.version < CLIENT else ""

    def push(self, *commits: Commit) -> str:
        """As `Hub.push`."""
        return [self._push(commit) for commit in commits][-1]

    @property
    def _written(self) -> str:
        """The namespace, for what writes. Raises HubRefused when the hub is of an older version."""
        if self.hello.version < CLIENT:
            raise HubRefused(self.notice, hint="Whoever installed it runs `memsheaf team admin URL`.")
        return self._settings.namespace

    def _push(self, commit: Commit) -> str:
        steps = commit.revisions
        [(position, changed)] = self._ask(
            "SELECT * FROM memsheaf.push($1,$2,$3,$4,$5,$6,$7, $8::text[], $9::text[], $10::text[], $11::bytea[])",
            self._written, commit.id, commit.at, _storable(self._settings.machine, 200),
            _storable(commit.by, 200), _storable(commit.why, 10_000), commit.undoes,
            [step.path for step in steps], [step.before for step in steps], [step.after for step in steps],
            [step.new for step in steps],
        )  # fmt: skip
        if changed is not None:
            raise Changed(changed)
        self._unhinted = True
        if time.monotonic() - self._hinted >= HINT_EVERY:
            self._hint()
        return str(position)

    def pull(self, cursor: str = "") -> Pulled:
        """As `Hub.pull`."""
        rows = self._ask("SELECT * FROM memsheaf.pull($1, $2)", self._settings.namespace, cursor)
        if not rows:
            self._pulled = cursor
            return Pulled((), cursor)
        head = json.loads(rows[0][5])
        self._pulled = head["cursor"]
        erasures = [
            Erasure(one[0], tuple(map(str, one[1])), tuple(map(str, one[2])), *one[3:])
            for one in head["erasures"] or ()
        ]
        return Pulled(list(_commits(rows[1:])), self._pulled, not cursor, erasures)

    def wait(self, seconds: float) -> bool:
        """As `Hub.wait`."""
        deadline = time.monotonic() + seconds
        try:
            if self._lend is None and (self._listener is None or self._listener.closed):
                self._listener = self._connect()
                self._listener.execute(f'LISTEN "{self._channel}"'.encode())
            while (left := deadline - time.monotonic()) > 0:
                if self._listener is None:
                    time.sleep(min(left, POLL_EVERY))
                elif any(True for _ in self._listener.notifies(timeout=min(left, POLL_EVERY), stop_after=1)):
                    return True
                if self._pulled and self._ask(
                    "SELECT FROM memsheaf.pull($1, $2) LIMIT 1", self._settings.namespace, self._pulled
                ):
                    return True
        except psycopg.Error as error:
            raise translate_error(error, self._settings.shown) from error
        return False

    @contextmanager
    def lock(self, name: str, *, wait: float = 0.0) -> Iterator[None]:
        """As `Hub.lock`; on a connection of its own, with which the lock goes."""
        [(key,)] = self._ask("SELECT memsheaf.lock_key($1, $2)", self._settings.namespace, name)
        deadline = time.monotonic() + wait
        connection = self._connect()
        try:
            try:
                while connection.execute("SELECT pg_try_advisory_lock(%s)", [key]).fetchall() != [(True,)]:
                    if time.monotonic() >= deadline:
                        raise Busy(f"another machine is doing {name!r}")
                    time.sleep(LOCK_EVERY)
            except psycopg.Error as error:
                raise translate_error(error, self._settings.shown) from error
            yield
        finally:
            connection.close()

    def erase(self, erasure: Erasure) -> None:
        """As `Hub.erase`."""
        query, machine = "SELECT memsheaf.erase($1, $2, $3, $4, $5::text[], $6::text[])", self._settings.machine
        names, versions = list(erasure.names), list(erasure.versions)
        self._ask(query, self._written, erasure.id, erasure.at, machine, names, versions)
        self._hint()

    def report(self, machine: Machine) -> None:
        """As `Hub.report`."""
        erased = json.dumps(machine.erased)
        query = "SELECT memsheaf.report($1, $2, $3, $4::text::jsonb)"
        self._ask(query, self._settings.namespace, machine.id, machine.name, erased)

    def users(self) -> tuple[Sequence[HubMember], Sequence[Machine]]:
        """As `Hub.users`."""
        rows = self._ask(
            "SELECT name, role, to_char(since AT TIME ZONE 'UTC', 'YYYY-MM-DD') FROM memsheaf.members "
            "WHERE namespace = $1 ORDER BY name",
            self._settings.namespace,
        )
        members = [HubMember(*row) for row in rows]
        rows = self._ask(
            "SELECT m.id, m.name, m.member, to_char(m.seen AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"'), "
            "(SELECT json_agg(json_build_array(p.erasure, p.found) ORDER BY p.at, p.erasure) FROM memsheaf.proofs p "
            "WHERE p.namespace = m.namespace AND p.machine = m.id) "
            "FROM memsheaf.machines m WHERE m.namespace = $1 ORDER BY m.name, m.id",
            self._settings.namespace,
        )
        return members, [
            Machine(
                one, one_line(name, 100), member, seen, tuple((of, one_line(left, 500)) for of, left in erased or ())
            )
            for one, name, member, seen, erased in rows
        ]

    def paths_of_others(self) -> set[str]:
        """The paths at which another member ever wrote."""
        query = (
            "SELECT DISTINCT r.path FROM memsheaf.commits c JOIN memsheaf.revisions r "
            "ON r.namespace = c.namespace AND r.commit = c.id WHERE c.namespace = $1 AND c.member <> $2"
        )
        return {path for (path,) in self._ask(query, self._settings.namespace, self.me)}

    def proposals(self) -> list[tuple[str, Any, str]]:
        """Return what waits for a person's review: id, proposal and the member it was made for, the oldest first."""
        query = (
            "SELECT id, proposal, split_part(login, '.', 2) FROM memsheaf.proposals "
            "WHERE namespace = $1 AND outcome = '' ORDER BY at, id"
        )
        return [(row[0], row[1], row[2]) for row in self._ask(query, self._settings.namespace)]

    def propose(self, proposal: str, value: Mapping[str, object]) -> str:
        """Have a proposal wait for a person's review, and return ""; one that was decided before is not asked about
        again, and what was decided is returned."""
        given = json.dumps(value, ensure_ascii=False)
        self._ask("SELECT memsheaf.propose($1, '', $2, $3::text::jsonb)", self._written, proposal, given)
        query = "SELECT outcome FROM memsheaf.proposals WHERE namespace = $1 AND id = $2"
        return str(self._ask(query, self._settings.namespace, proposal)[0][0])

    def decide(self, proposal: str, outcome: str) -> bool:
        """Say what a person decided about a proposal; False when it waits no longer."""
        query = "SELECT memsheaf.decide_proposal($1, $2, $3)"
        return bool(self._ask(query, self._written, proposal, outcome)[0][0])

    def log(self, limit: int = 50) -> Sequence[HubCommit]:
        """As `Hub.log`."""
        return list(_commits(self._ask(
            "SELECT c.id, c.at, c.member, c.machine, c.by, c.why, c.undoes, c.member = $1, r.path, r.before, "
            "r.after, NULL::bytea FROM (SELECT * FROM memsheaf.commits WHERE namespace = $2 ORDER BY xid DESC, "
            "place DESC LIMIT $3) c LEFT JOIN memsheaf.revisions r ON r.namespace = c.namespace AND r.commit = c.id "
            "ORDER BY c.xid DESC, c.place DESC, r.path",
            self.me, self._settings.namespace, limit,
        )))  # fmt: skip

    def tokens(self) -> list[dict[str, str]]:
        """The tokens of the team that one may see, with the days they were made, expire and were revoked."""
        days = ", ".join(f"coalesce(to_char({day}, 'YYYY-MM-DD'), '')" for day in ("made", "expires", "revoked"))
        found = self._ask(f"SELECT id, name, {days} FROM memsheaf.list_tokens($1)", self._settings.namespace)
        return [dict(zip(("id", "member", "made", "expires", "revoked"), row, strict=True)) for row in found]

    def administer(self, function: str, *values: object) -> object:
        """Call a function for admins, such as `prune`, with the namespace first; gives what it gives."""
        places = ", ".join(f"${number}" for number in range(1, len(values) + 2))
        return self._ask(f"SELECT memsheaf.{function}({places})", self._settings.namespace, *values)[0][0]

    def close(self) -> None:
        """Close the connections."""
        with self._guard:
            if self._unhinted:
                with deadline(HINT_EVERY):
                    self._hint()
            for connection in (self._cursor.connection if self._cursor else None, self._listener):
                if connection is not None:
                    connection.close()
            self._cursor = self._listener = None

    # statements

    def _ask(self, query: str, *values: object) -> list[TupleRow]:
        """The rows of one statement, in a transaction of its own. Raises HubUnreachable, HubRefused, HubRestored."""
        try:
            if self._lend is not None:
                with self._lend() as connection:
                    return self._answer(psycopg.RawCursor(connection), query, values)
            with self._guard:
                began, kept = time.monotonic(), self._cursor
                try:
                    return self._answer(self._ready(), query, values)
                except psycopg.OperationalError:
                    if kept is None or not kept.connection.closed or time.monotonic() - began > QUICKLY:
                        raise
                    return self._answer(self._ready(), query, values)  # every call is idempotent
        except psycopg.Error as error:
            raise translate_error(error, self._settings.shown) from error

    def _answer(self, cursor: psycopg.RawCursor[TupleRow], query: str, values: Sequence[object]) -> list[TupleRow]:
        if not self._member:
            return cursor.execute(query.encode(), values, binary=True).fetchall()
        connection = cursor.connection
        with connection.pipeline(), connection.transaction():  # one round trip
            connection.execute(NAME_MEMBER, [self._member, self._settings.namespace])
            cursor.execute(query.encode(), values, binary=True)
        return cursor.fetchall()

    def _ready(self) -> psycopg.RawCursor[TupleRow]:
        """The cursor that calls are made with: to make one takes as long as the database takes for a pull."""
        if self._cursor is None or self._cursor.connection.closed:
            self._cursor, self._hello = psycopg.RawCursor(self._connect()), None
        elif self._cursor.rowcount > MANY:
            self._cursor = psycopg.RawCursor(self._cursor.connection)
        return self._cursor

    def _connect(self) -> Connection:
        if not (left := time_left(self._timeout)):
            raise HubUnreachable(f"{self._settings.shown} does not answer")
        try:
            connection = BoundedConnection.connect(
                self._settings.url,
                autocommit=True,
                application_name="memsheaf",
                **options_for(self._settings.url, self._timeout, left),
            )
            connection.limit(self._timeout, self._settings.namespace)
        except psycopg.Error as error:
            raise translate_error(error, self._settings.shown) from error
        return connection

    @property
    def _channel(self) -> str:
        """The NOTIFY channel: a name that only members know."""
        return f"memsheaf_{self.hello.epoch}"

    def _hint(self) -> None:
        """Notify listening machines. Failures are ignored, as the change is committed."""
        self._hinted, self._unhinted = time.monotonic(), False
        with suppress(MemsheafError):
            self._ask("SELECT pg_notify($1, '')", self._channel)


def _milliseconds(seconds: float) -> str:
    return str(round(seconds * 800))  # the server gives up first, and the connection stays


def options_for(url: str, seconds: float, left: float) -> dict[str, Any]:
    """The options of a connection that is given up after a silence, and `left` seconds to connect.

    An address of another machine that says nothing about TLS needs it: libpq alone would go on without.
    """
    options = {
        "connect_timeout": max(2, round(left)),
        "keepalives": 1,
        "keepalives_idle": 5,
        "keepalives_interval": 2,
        "keepalives_count": 3,
        "tcp_user_timeout": _milliseconds(seconds),
    }
    with suppress(psycopg.ProgrammingError):  # whoever connects tells that it cannot be read
        given = conninfo_to_dict(url)
        hosts = str(given.get("host") or given.get("hostaddr") or os.environ.get("PGHOST", "")).split(",")
        if not (all(map(LOCAL_HOST.fullmatch, hosts)) or "sslmode" in given or "PGSSLMODE" in os.environ):
            options["sslmode"] = "require"
    return options


def translate_error(error: psycopg.Error, where: str) -> MemsheafError:
    """The error of ours that stands for one of psycopg."""
    message = one_line(error.diag.message_primary or str(error), 300)
    message = re.sub("^connection (failed|is bad): | Is the server running.*", "", message)
    if isinstance(error, psycopg.ProgrammingError) and not error.sqlstate:  # it quotes what it cannot read
        return HubRefused(
            f"{where} cannot be read as the address of a database",
            hint="It begins with postgresql://; in a password % is written as %25.",
        )
    if error.diag.message_hint == "restored":
        return HubRestored(f"{where} was restored from an older backup")
    if error.diag.message_hint == "path":
        return PathRefused(error.diag.message_detail or "", message)
    if error.diag.message_hint == "moved":
        hint = "An admin runs `memsheaf team admin --restored`, then each machine `memsheaf team join LINE`."
        return HubRestored(f"{where} was moved to another server", hint=hint)
    if isinstance(error, (errors.InvalidSchemaName, errors.UndefinedFunction, errors.UndefinedTable)):
        return HubRefused(
            f"{where} has no schema of memsheaf, or one of another version",
            hint="Whoever installs it runs `memsheaf team create` or `memsheaf team admin URL`.",
        )
    if not error.sqlstate and re.search(_KEPT_OUT, message):
        why = message.rpartition("FATAL:")[2].strip()
        hint = "Check the address, its password, and for TLS its sslmode and sslrootcert (?sslmode=disable where the "
        hint += "network is safe). `memsheaf team invite MEMBER` gives a member another password, and"
        hint += " `memsheaf team admin URL` a server."
        return HubRefused(f"{where} does not let you in: {why}", hint=hint)
    if isinstance(error, psycopg.OperationalError):
        return HubUnreachable(f"{where} does not answer: {message}")
    found = HubRefused(f"{where} refused: {message}")
    found.lacks_permission = isinstance(error, errors.InsufficientPrivilege)
    found.is_of_commit = isinstance(error, psycopg.IntegrityError)
    return found


def explain_connection(error: psycopg.Error, where: str) -> MemsheafError:
    """As `translate_error`, for whoever has just named the address."""
    found = translate_error(error, where)
    if isinstance(found, HubUnreachable):
        found.hint = "Nothing was changed. Check the address, and that this machine reaches the server."
    return found


def _storable(text: str, limit: int) -> str:
    """A text for the database: without NUL and lone surrogates, at most `limit` bytes."""
    return text.encode("utf-8", "replace").replace(b"\0", b"")[:limit].decode("utf-8", "ignore")


def _commits(rows: Sequence[TupleRow]) -> Iterator[HubCommit]:
    """Rows of revisions as commits; one with no path is of a commit that has none."""
    for head, group in groupby(rows, key=lambda row: row[:8]):
        steps = tuple(Revision(row[8], row[9], row[10], None, row[11]) for row in group if row[8] is not None)
        identity, at, member, machine, by, why, undoes, own = head
        commit = Commit(identity, at, one_line(by, 200), why, steps, undoes)
        yield HubCommit(commit, member, one_line(machine, 200), own)
