"""No statement crosses a namespace, and none reads more of it than it needs: what lets a hub be divided."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from hub.postgres_server import Server, Team
from memsheaf.hub import Erasure, Machine
from memsheaf.hub import postgres as postgres_hub
from memsheaf.hub.postgres import PostgresHub
from memsheaf.hub.postgres_admin import migrations
from memsheaf.store import Commit, Revision, version_of

_USE = re.compile(r"\b(FROM|JOIN|UPDATE|INTO|USING) memsheaf\.(\w+)\b(?! ?\()(?: AS)?(?: ([a-z]\w*)\b)?")


def statements(sql: str) -> Iterator[str]:
    for one in re.sub(r"--[^\n]*|'[^']*'", "''", sql).split(";"):
        yield " ".join(one.split())


def crossing(sql: str, tables: set[str]) -> list[str]:
    """The statements that use a table and do not say of which namespace."""
    found = []
    for one in statements(sql):
        for verb, table, alias in _USE.findall(one):
            if table not in tables:
                continue
            if verb == "INTO":
                is_named = re.search(
                    r"\((?:VALUES \()?namespace\b|VALUES \(ns\b|SELECT (?:DISTINCT ON \(\S+\) )?ns\b", one
                )
            else:
                is_named = re.search(rf"\b{alias}\.namespace = " if alias else r"\bnamespace = ", one)
            if not is_named:
                found.append(one)
    return found


def test_every_statement_on_a_table_of_namespaces_names_one() -> None:
    schema = "".join(sql for _, sql in migrations())
    sources = sorted(Path(postgres_hub.__file__).parent.glob("*.py"))
    client = re.sub(r'"\s*\n\s*f?"', "", "".join(one.read_text() for one in sources))
    tables = set(re.findall(r"CREATE TABLE memsheaf\.(\w+)", schema)) - {"about"}

    assert schema.count(") PARTITION BY HASH (namespace);") == len(tables) >= 14
    assert not re.search(r"(?:PRIMARY KEY|UNIQUE|ON memsheaf\.\w+) \((?!namespace\b)", schema)
    assert crossing(schema, tables) == crossing(client.replace('"', ";"), tables) == []
    assert crossing("DELETE FROM memsheaf.texts t WHERE t.version = 'x'", tables)
    assert crossing("SELECT FROM memsheaf.texts t, memsheaf.commits WHERE t.version = 'x'", tables)


def made(path: str, before: bytes | None, after: bytes | None) -> Commit:
    step = Revision(path, version_of(before), version_of(after), None, after)
    return Commit(os.urandom(6).hex(), "2026-11-17T10:00:00Z", "user", "why", (step,))


class Counters:
    """What was read in each table of a database of one's own."""

    def __init__(self, server: Server) -> None:
        self._server, self.database = server, f"counted_{os.urandom(4).hex()}"
        server.create_hub(self.database)

    def ask(self, query: str) -> list[tuple[object, ...]]:
        with psycopg.connect(self._server.url(database=self.database), autocommit=True) as connection:
            return connection.execute(query.encode()).fetchall()

    def read(self) -> dict[str, tuple[int, int]]:
        """Scans and rows by table, once all members have gone: that is when theirs are counted."""
        deadline = time.monotonic() + 30
        while self.ask(f"SELECT FROM pg_stat_activity WHERE datname = '{self.database}' AND usename LIKE 't%.%'"):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        rows = self.ask(
            "SELECT relname, seq_scan + coalesce(idx_scan, 0), seq_tup_read + coalesce(idx_tup_fetch, 0) "
            "FROM pg_stat_all_tables WHERE schemaname = 'memsheaf'"
        )
        return {str(name): (int(str(scans)), int(str(read))) for name, scans, read in rows}


@pytest.fixture
def counters(postgres: Server) -> Iterator[Counters]:
    counted = Counters(postgres)
    yield counted
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {counted.database} WITH (FORCE)".encode())


def test_other_namespaces_are_not_looked_at_and_a_push_does_not_read_its_own(
    postgres: Server, counters: Counters
) -> None:
    team = Team(postgres, f"t{os.urandom(5).hex()}", counters.database)
    hub = PostgresHub(team.settings("ana", "m1"))
    for number in range(60):
        hub.push(made(f"{number}.md", None, b"%d" % number))
    hub.close()
    [(partition,)] = counters.ask("SELECT DISTINCT tableoid::regclass::text FROM memsheaf.commits")
    mine = str(partition).rpartition("_")[2]

    before = counters.read()
    for number in range(60, 120):
        hub.push(made(f"{number}.md", None, b"%d" % number))
    hub.close()
    pushed = counters.read()
    cursor = hub.pull().cursor
    hub.push(made("0.md", b"0", b"other"))
    hub.push(made("1.md", b"1", None))
    assert len(hub.pull(cursor).commits) == 2
    hub.erase(Erasure("e" * 12, ("2.md",), (version_of(b"2"),), at="2026-11-17T10:00:00Z"))
    hub.report(Machine("m1", "m1", "ana", "", (("e" * 12, ""),)))
    assert hub.log()
    assert hub.users()[0]
    assert hub.users()[1]
    assert hub.proposals() == []
    with hub.lock("work"):
        pass
    hub.close()
    after = counters.read()

    rows = sum(pushed[name][1] - before[name][1] for name in before)
    assert rows <= 60 * 6  # who it is, which hub, which version: for each push
    partitions = [name for name in after if re.search(r"_\d+$", name)]
    assert len(partitions) == 4 * 14
    elsewhere = [name for name in partitions if not name.endswith(f"_{mine}") and after[name][0] > before[name][0]]
    assert elsewhere == []
