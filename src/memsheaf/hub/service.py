"""The database of a hub as servers and workers use it: one pool of connections as a service role.

The role sees nothing by itself. Each transaction names the member that it acts for, whom a token named; what a member
may not do, no server can do for them.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from typing import NamedTuple

import psycopg
from psycopg.rows import TupleRow
from psycopg_pool import ConnectionPool, PoolTimeout

from memsheaf.errors import CapReached, HubRefused, HubUnreachable
from memsheaf.hub import HubSettings, time_left
from memsheaf.hub.postgres import (
    NAME_MEMBER,
    BoundedConnection,
    PostgresHub,
    explain_connection,
    options_for,
    translate_error,
)
from memsheaf.hub.postgres_admin import JOBS, JOBS_ARE_AT, digest_of, job_migrations, team_of

POOL = 8  # connections of one process
WAIT_SECONDS = 10.0
ASK_SECONDS = 2.0  # without a connection, after which it is found out whether the database answers
REFUSE_SECONDS = 0.1  # for one that did not answer


class TokenMember(NamedTuple):
    """Whom a server acts for: the team, the login in the database, and the name in the team."""

    team: str
    login: str
    name: str


class TakenTurns(NamedTuple):
    """Turns of one conversation that are to be learned from, as JSON; `tries` counts this time."""

    batch: str
    tries: int
    turns: tuple[Mapping[str, object], ...]


class HubService:
    """A connection pool that acts for members; thread-safe. It serves `teams`, or all."""

    def __init__(self, url: str, *, teams: Sequence[str] = ()) -> None:
        self.url = url
        self.teams = tuple(teams)
        settings = HubSettings(url, "", "", "")
        if not settings.is_postgres:
            raise HubRefused("that is no address of a database", hint="It begins with postgresql://.")
        self.shown = settings.check_address()
        logging.getLogger("psycopg.pool").setLevel(logging.CRITICAL)  # what fails is told by whoever needed it
        self.options = options_for(url, WAIT_SECONDS, WAIT_SECONDS)
        self.options["options"] = f"-c search_path={JOBS} -c jit=off"
        self.pool = ConnectionPool(
            url, connection_class=BoundedConnection, min_size=1, max_size=POOL, timeout=WAIT_SECONDS, open=False,
            check=ConnectionPool.check_connection, configure=lambda made: made.limit(WAIT_SECONDS),
            reconnect_timeout=ASK_SECONDS,  # then the next request has it try again
            kwargs={**self.options, "autocommit": True, "application_name": "memsheaf server"},
        )  # fmt: skip
        self.pool.open()
        self._failure: HubUnreachable | None = None  # why it did not answer the last time

    @contextmanager
    def lend(self) -> Iterator[BoundedConnection]:
        """A connection of the pool; until the deadline of this thread. Raises HubUnreachable, psycopg.Error.

        A database that did not answer is not waited for until a connection is there, which the pool tries to make.
        """
        with ExitStack() as lent:
            try:
                wait = REFUSE_SECONDS if self._failure else ASK_SECONDS
                connection = lent.enter_context(self.pool.connection(time_left(wait)))
            except PoolTimeout as error:
                self._failure = self._failure or self.find_failure()
                if self._failure:
                    raise HubUnreachable(str(self._failure), hint=self._failure.hint) from error
                connection = lent.enter_context(self.pool.connection(time_left(WAIT_SECONDS)))  # all are in use
            self._failure = None
            yield connection

    def find_failure(self, seconds: int = 2) -> HubUnreachable | None:
        """Return why no connection can be made, which a pool does not say; None when one can."""
        try:
            psycopg.connect(self.url, **{**self.options, "connect_timeout": seconds}).close()
        except psycopg.Error as error:
            found = explain_connection(error, self.shown)
            return HubUnreachable(str(found), hint=found.hint)
        return None

    def close(self) -> None:
        """Close the connections."""
        self.pool.close(timeout=1)

    def check(self) -> None:
        """Raise HubRefused when this login is no service role of a hub, HubUnreachable."""
        query = (
            "SELECT to_regrole('memsheaf_service') IS NOT NULL AND pg_has_role('memsheaf_service', 'USAGE') "
            f"AND to_regclass('memsheaf.inbox') IS NOT NULL AND {JOBS_ARE_AT} IS NOT NULL, {JOBS_ARE_AT}"
        )
        if failure := self.find_failure(10):
            raise failure
        [(is_service, last)] = self.ask("", query)
        if not is_service:
            raise HubRefused(f"{self.shown} is no service login of a hub: `memsheaf team admin URL` makes one")
        if job_migrations(last):
            raise HubRefused(f"{self.shown} has tables of an older procrastinate: run `memsheaf team admin URL`")

    @property
    def key(self) -> bytes:
        """A secret that all servers with this login share, derived from its password."""
        try:
            with self.lend() as connection:
                about = connection.info
                password = about.password or os.urandom(32).hex()  # without one, each server has its own
                return sha256(f"{about.user}:{password}:{about.dbname}".encode()).digest()
        except psycopg.Error as error:
            raise translate_error(error, self.shown) from error

    def find_member(self, token: str) -> TokenMember | None:
        """The member whose token this is; None when it is wrong, expired or revoked. Raises HubUnreachable."""
        team = team_of(token)
        if not team or (self.teams and team not in self.teams):
            return None
        query = "SELECT login, name FROM memsheaf.token_member(%s, %s) WHERE login IS NOT NULL"
        found = self.ask("", query, f"{team}:team", digest_of(token))
        return TokenMember(team, *found[0]) if found else None

    def open_hub(self, settings: HubSettings, login: str) -> PostgresHub:
        """A namespace, for a member; the connections are those of the pool."""
        return PostgresHub(settings, member=login, connect=self.lend)

    def join_space(self, login: str, namespace: str) -> None:
        """Give a member access to a namespace, and create it if needed. Raises HubRefused, HubUnreachable."""
        if not namespace.endswith(":team"):
            self.ask(login, "SELECT memsheaf.join_space(%s)", namespace)

    def ask(self, login: str, query: str, namespace: str = "", *values: object) -> list[TupleRow]:
        """Run one statement, for a member or for none, and return its rows; the namespace, if given, is its first
        parameter. Raises HubRefused, HubUnreachable."""
        try:
            with self.lend() as connection:
                with connection.pipeline(), connection.transaction():
                    connection.execute(NAME_MEMBER, [login, namespace])
                    given = (namespace, *values) if namespace else ()
                    answer = connection.execute(query.encode(), given, prepare=True)
                return answer.fetchall()
        except psycopg.Error as error:
            raise translate_error(error, self.shown) from error

    def name_of(self, login: str, namespace: str) -> str:
        """The name of a member in a namespace. Raises HubRefused."""
        return str(self.ask(login, "SELECT name FROM memsheaf.hello(%s)", namespace)[0][0])

    # turns that wait for a worker

    def add_turns(self, login: str, namespace: str, turns: Sequence[tuple[str, object]]) -> int:
        """Keep turns until they are learned from; gives how many are new."""
        given = json.dumps([{"id": name, "turn": turn} for name, turn in turns], ensure_ascii=False)
        return int(self.ask(login, "SELECT memsheaf.add_turns(%s, %s::jsonb)", namespace, given)[0][0])

    def take_turns(self, login: str, namespace: str, most: int) -> TakenTurns | None:
        """The next turns of a member in a namespace; the same until they are finished."""
        rows = self.ask(login, "SELECT batch, tries, turn FROM memsheaf.take_turns(%s, %s)", namespace, most)
        return TakenTurns(rows[0][0], rows[0][1], tuple(row[2] for row in rows)) if rows else None

    def propose(self, login: str, namespace: str, batch: str, name: str, value: Mapping[str, object]) -> None:
        """Save what was learned from turns for review, unless something of them was erased meanwhile."""
        given = json.dumps(value, ensure_ascii=False)
        self.ask(login, "SELECT memsheaf.propose(%s, %s, %s, %s::jsonb)", namespace, batch, name, given)

    def finish_turns(self, login: str, namespace: str, batch: str) -> None:
        """Delete turns that were learned from."""
        self.ask(login, "SELECT memsheaf.finish_turns(%s, %s)", namespace, batch)

    def saved_texts(self, login: str, namespace: str, why: str) -> list[bytes]:
        """Return the texts that commits with this reason saved."""
        query = (
            "SELECT t.data FROM memsheaf.commits c"
            " JOIN memsheaf.revisions r ON r.namespace = c.namespace AND r.commit = c.id"
            " JOIN memsheaf.texts t ON t.namespace = r.namespace AND t.version = r.after"
            " WHERE c.namespace = %s AND c.why = %s"
        )
        return [bytes(data) for (data,) in self.ask(login, query, namespace, why)]

    # the cost of models

    def reserve(self, team: str, tokens: int, most_requests: int, most_tokens: int) -> str:
        """Reserve a model request from a team's daily cap; returns the day. Raises CapReached, HubUnreachable."""
        query = "SELECT memsheaf.reserve_spend(%s, %s, %s, %s)::text"
        [(day,)] = self.ask("", query, f"{team}:team", tokens, most_requests, most_tokens)
        if day is None:
            caps = f"{most_requests:,} requests, {most_tokens:,} tokens"
            raise CapReached(f"what {team} may spend in a day is spent: {caps}")
        return str(day)

    def settle(self, team: str, day: str, more: int) -> None:
        """Correct the cost of a reserved request."""
        self.ask("", "SELECT memsheaf.settle_spend(%s, %s::date, %s)", f"{team}:team", day, more)
