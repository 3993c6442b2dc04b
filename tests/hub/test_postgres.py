"""What only a hub on PostgreSQL has: cursors over transactions, cut connections, moved and pruned hubs, versions."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
import pytest

from hub.postgres_server import Server, Team
from hub.proxy import Proxy, Trouble
from hub.servers import as_superuser, service_url
from hub.test_contract import commit, push, state
from memsheaf.errors import HubRefused, HubRestored, HubUnreachable
from memsheaf.guard.paths import fold
from memsheaf.hub import Erasure, HubSettings, Machine, postgres_admin
from memsheaf.hub.postgres import CLIENT, PostgresHub
from memsheaf.hub.postgres_admin import migrate_database, migrations
from memsheaf.hub.service import HubService
from memsheaf.store import Commit, version_of

Open = Callable[..., PostgresHub]
PUSH = "SELECT * FROM memsheaf.push(%s, %s, '2026-11-17T10:00:00Z', 'm9', 'user', '', '', %s, %s, %s, %s)"


@pytest.fixture
def opened(team: Team) -> Iterator[Open]:
    """Open the namespace of the team; all are closed in the end."""
    hubs: list[PostgresHub] = []

    def opened(member: str = "ana", machine: str = "m1", role: str = "writer", timeout: float = 10.0) -> PostgresHub:
        hubs.append(PostgresHub(team.settings(member, machine, role), timeout=timeout))
        return hubs[-1]

    yield opened
    for hub in hubs:
        hub.close()


def push_by_hand(connection: psycopg.Connection, team: Team, made: Commit) -> None:
    """Push in a transaction that is still open after."""
    [step] = made.revisions
    values = [[step.path], [step.before], [step.after], [step.new]]
    connection.execute(PUSH, [team.namespace, made.id, *values])


# cursors


def test_what_is_committed_late_is_pulled_and_nobody_waits_for_it(opened: Open, team: Team) -> None:
    hub, reader = opened(), opened("bob", "m2")
    start = reader.pull().cursor
    with psycopg.connect(team.url("carl")) as slow:
        late = commit(("late.md", None, b"late"))
        push_by_hand(slow, team, late)
        early = push(hub, "early.md", None, b"early")
        first = reader.pull(start)
        assert [one.commit.id for one in first.commits] == [early.id]
        assert list(reader.pull(first.cursor).commits) == []
        slow.commit()
    second = reader.pull(first.cursor)
    assert [one.commit.id for one in second.commits] == [late.id]
    assert list(reader.pull(second.cursor).commits) == []
    third = push(hub, "early.md", b"early", b"earlier")
    assert [one.commit.id for one in reader.pull(second.cursor).commits] == [third.id]
    assert state(reader.pull()) == {"late.md": b"late", "early.md": b"earlier"}


def test_a_push_that_was_rolled_back_is_not_there_and_can_be_made_again(opened: Open, team: Team) -> None:
    hub, made = opened(), commit(("a.md", None, b"1"))
    cursor = hub.pull().cursor
    with psycopg.connect(team.url("ana")) as connection:
        push_by_hand(connection, team, made)
        connection.rollback()
    assert hub.pull(cursor).cursor == cursor
    hub.push(made)
    assert len(hub.pull(cursor).commits) == 1


def test_threads_share_a_hub(opened: Open) -> None:
    hub = opened()
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda n: push(hub, f"{n}.md", None, b"text"), range(24)))
    assert len(hub.pull().commits) == 24


# connections


@contextmanager
def between(settings: HubSettings, server: Server) -> Iterator[tuple[HubSettings, Proxy]]:
    with closing(Proxy(f"{server.socket}/.s.PGSQL.5432")) as proxy:
        here = f"host=127.0.0.1&port={proxy.port}"
        yield settings._replace(url=settings.url.replace(f"host={server.socket}", here)), proxy


@pytest.mark.parametrize("trouble", [{"down": 0}, {"swallow": True}], ids=["cut", "swallow"])
def test_a_push_whose_answer_is_lost_is_told_and_made_once(
    opened: Open, team: Team, postgres: Server, trouble: dict[str, int]
) -> None:
    other, made = opened("bob", "m2"), commit(("a.md", None, b"1"))
    with between(team.settings("ana", "m1"), postgres) as (settings, proxy):
        hub = PostgresHub(settings, timeout=1.0)
        assert hub.me == "ana"
        proxy.trouble = Trouble(**trouble)  # type: ignore[arg-type]
        began = time.monotonic()
        with pytest.raises(HubUnreachable):
            hub.push(made)
        assert time.monotonic() - began < 10
        assert len(other.pull().commits) == 1, "the server had it"
        proxy.trouble = Trouble()
        hub.push(made)
        assert [one.commit.id for one in hub.log()] == [made.id]
        hub.close()


def test_an_answer_that_takes_longer_than_the_limit_but_keeps_coming_is_waited_for(
    opened: Open, team: Team, postgres: Server
) -> None:
    data = os.urandom(1_000_000)
    opened().push(commit(*((f"{number}.md", None, data[number:]) for number in range(3))))
    with between(team.settings("ana", "m1"), postgres) as (settings, proxy):
        hub = PostgresHub(settings, timeout=0.5)
        assert hub.me == "ana"
        proxy.trouble, began = Trouble(delay=0.04), time.monotonic()
        assert len(state(hub.pull())) == 3
        assert time.monotonic() - began > 0.5
        hub.close()


def test_a_connection_that_the_server_closed_is_made_anew(opened: Open, team: Team) -> None:
    hub = opened()
    push(hub, "a.md", None, b"1")
    kill = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE usename = %s"
    as_superuser(team, kill, f"{team.name}.ana")
    push(hub, "b.md", None, b"2")
    as_superuser(team, kill, f"{team.name}.ana")
    assert len(hub.pull().commits) == 2


def test_a_lock_that_somebody_keeps_does_not_hang_a_push(opened: Open, team: Team) -> None:
    hub = opened(timeout=0.5)
    push(hub, "a.md", None, b"1")
    with psycopg.connect(team.url("bob")) as slow:
        push_by_hand(slow, team, commit(("a.md", b"1", b"2")))
        with pytest.raises(HubUnreachable, match="timeout"):
            push(hub, "a.md", b"1", b"3")
        push(hub, "b.md", None, b"in parallel")
        slow.rollback()
    push(hub, "a.md", b"1", b"3")


@pytest.mark.parametrize(
    ("place", "error", "says"),
    [
        ("ana:x@/hub?host=/nowhere", HubUnreachable, "does not answer: .*No such file"),
        ("ana:x@127.0.0.1:1/hub", HubUnreachable, "does not answer: .*refused"),
        ("T.ana:wrong@/hub?host=S", HubRefused, "does not let you in: password authentication failed"),
        ("T.ana@/hub?host=S", HubRefused, "does not let you in: .*no password supplied"),
        ("T.ana:x@/nothing?host=S", HubRefused, 'does not let you in: database "nothing" does not exist'),
        ("postgres@/postgres?host=S", HubRefused, "no schema of memsheaf"),
    ],
)
def test_why_a_hub_cannot_be_used_is_said_in_one_line_without_the_password(
    team: Team, postgres: Server, place: str, error: type[Exception], says: str
) -> None:
    settings = team.settings("ana", "m1")
    place = place.replace("T.", f"{team.name}.").replace("host=S", f"host={postgres.socket}")
    with closing(PostgresHub(settings._replace(url=f"postgresql://{place}"), timeout=2.0)) as hub:
        with pytest.raises(error, match=says) as caught:
            hub.pull()
        assert "\n" not in str(caught.value)
        assert "wrong" not in str(caught.value)


def test_the_hub_takes_no_two_names_for_one_that_a_replica_does_not(postgres: Server) -> None:
    letters = [one for one in map(chr, range(0x110000)) if one.lower() != one or one.upper() != one]
    with psycopg.connect(postgres.url(database="hub")) as connection:
        rows = connection.execute("SELECT one, memsheaf.fold(one) FROM unnest(%s::text[]) one", [letters]).fetchall()
    assert len({folded for _, folded in rows}) < len(rows) / 1.9
    first = {folded: one for one, folded in reversed(rows)}
    assert [one for one, folded in rows if fold(one) != fold(first[folded])] == []


# a hub that goes back in time, or moves


def test_a_hub_that_lacks_what_was_pulled_says_so_and_others_go_on(opened: Open, team: Team) -> None:
    hub, other = opened(), opened("bob", "m2")
    push(hub, "a.md", None, b"1")
    before = other.pull().cursor
    lost = push(hub, "b.md", None, b"2")
    cursor = hub.pull().cursor
    for table, column in (("commits", "id"), ("revisions", "commit"), ("documents", "commit")):
        as_superuser(
            team, f"DELETE FROM memsheaf.{table} WHERE namespace = %s AND {column} = %s", team.namespace, lost.id
        )
    with pytest.raises(HubRestored):
        hub.pull(cursor)
    assert other.pull(before).cursor == before
    made = push(other, "c.md", None, b"3")
    assert [one.commit.id for one in other.pull(before).commits] == [made.id]
    with pytest.raises(HubRestored):
        hub.pull(cursor)
    assert state(hub.pull()) == {"a.md": b"1", "c.md": b"3"}


def test_a_hub_that_was_moved_to_a_younger_server_takes_nothing_until_an_admin_says_so(
    opened: Open, team: Team
) -> None:
    hub = opened()
    empty = hub.pull().cursor
    made = [push(hub, f"{number}.md", None, b"text") for number in range(3)]
    cursor = hub.pull().cursor
    as_superuser(
        team,
        "UPDATE memsheaf.commits SET xid = (xid::text::bigint + 1000000000)::text::xid8 WHERE namespace = %s",
        team.namespace,
    )
    with pytest.raises(HubRestored, match="moved to another server"):
        push(opened("ana", "m2"), "new.md", None, b"lost for others")
    opened("root", "m3", "admin").administer("restored")
    fresh = opened("ana", "m4")
    for one in (cursor, empty):
        with pytest.raises(HubRestored):
            fresh.pull(one)
    assert [one.commit.id for one in reversed(fresh.log())] == [one.id for one in made]
    snapshot = fresh.pull()
    made.append(push(fresh, "new.md", None, b"seen"))
    assert [one.commit.id for one in fresh.pull(snapshot.cursor).commits] == [made[-1].id]


# retention and versions


def test_pruning_drops_older_texts_but_never_one_that_a_path_has(opened: Open, team: Team) -> None:
    hub, root = opened(), opened("root", "m2", "admin")
    start = hub.pull().cursor
    push(hub, "a.md", None, b"old")
    push(hub, "a.md", b"old", b"new")
    push(hub, "gone.md", None, b"gone")
    push(hub, "gone.md", b"gone", None)
    push(hub, "twin.md", None, b"older")
    assert root.administer("prune", 30) == 0
    as_superuser(
        team,
        "UPDATE memsheaf.commits SET received = received - interval '31 days' WHERE namespace = %s",
        team.namespace,
    )
    push(hub, "b.md", None, b"young")
    push(hub, "b.md", b"young", b"younger")
    assert root.administer("prune", None) == 2
    pulled = hub.pull(start)
    kept = {step.new for one in pulled.commits for step in one.commit.revisions if step.after}
    assert kept == {None, b"new", b"older", b"young", b"younger"}
    assert state(pulled) == {"a.md": b"new", "twin.md": b"older", "b.md": b"younger"}
    assert len(hub.log()) == 7


def test_names_of_an_erasure_go_when_every_machine_has_carried_it_out(opened: Open) -> None:
    hub, root = opened(), opened("root", "m2", "admin")
    push(hub, "a.md", None, b"1")
    hub.erase(Erasure("0e0e0e0e0e0e", ("a.md",), (version_of(b"1"),), at="2026"))
    hub.report(Machine("m1", "laptop", "", "", (("0e0e0e0e0e0e", ""),)))
    root.report(Machine("m2", "desk", "", "", (("0e0e0e0e0e0e", "in a backup"),)))
    root.administer("prune", None)
    assert hub.pull().erasures[0].names == ("a.md",)
    root.report(Machine("m2", "desk", "", "", (("0e0e0e0e0e0e", ""),)))
    root.administer("prune", None)
    assert hub.pull().erasures[0].names == ()


def test_a_schema_is_brought_forward_with_what_is_in_it(
    postgres: Server, team: Team, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = f"hub_{team.name}"
    postgres.create_hub(database)
    with closing(PostgresHub(Team(postgres, f"{team.name}v", database).settings("ana", "m1"))) as hub:
        push(hub, "a.md", None, b"text")
        shutil.copytree(postgres_admin.SCHEMA, tmp_path / "schema")
        (tmp_path / "schema" / f"{CLIENT + 1:04}.sql").write_text("ALTER TABLE memsheaf.texts ADD COLUMN more int;")
        monkeypatch.setattr(postgres_admin, "SCHEMA", str(tmp_path / "schema"))
        url = postgres.url("dba", "dba", database)
        assert [migrate_database(url), migrate_database(url)] == [(CLIENT, CLIENT + 1), (CLIENT + 1, CLIENT + 1)]
        assert state(hub.pull()) == {"a.md": b"text"}


def test_versions_that_do_not_fit_are_told_or_refused(postgres: Server, team: Team) -> None:
    database = f"hub_{team.name}"
    postgres.create_hub(database)
    other = Team(postgres, f"{team.name}v", database)

    def attempt(number: int) -> str:
        with closing(PostgresHub(other.settings("ana", "m1"))) as hub:
            push(hub, f"{number}.md", None, b"text")
            return hub.notice

    writes: list[Callable[[PostgresHub], object]] = [
        lambda hub: push(hub, "3.md", None, b"text"),
        lambda hub: hub.erase(Erasure("e" * 12, ("1.md",), ())),
        lambda hub: hub.propose("aa", {}),
        lambda hub: hub.decide("aa", "approved"),
        lambda hub: hub.administer("prune"),
        lambda hub: hub.administer("add_turns", "[]"),
        lambda hub: hub.lock("dream").__enter__(),
    ]
    assert max(number for number, _ in migrations()) == CLIENT
    assert attempt(1) == ""
    as_superuser(other, "UPDATE memsheaf.about SET version = version + 1000")
    assert "newer version" in attempt(2)
    allow = "CREATE OR REPLACE FUNCTION memsheaf.min_client() RETURNS int LANGUAGE sql STABLE RETURN "
    as_superuser(other, allow + str(CLIENT + 1))
    with closing(HubService(service_url(postgres, database))) as service:
        settings = other.settings("ana", "m1")
        for hub in (PostgresHub(settings), service.open_hub(settings, f"{other.name}.ana")):
            for write in writes:
                with pytest.raises(HubRefused, match="too old for the hub: upgrade it"):
                    write(hub)
            assert "1.md" in state(hub.pull())
            hub.report(Machine("m1", "laptop", "", ""))
            hub.close()
    as_superuser(other, f"{allow} 1; UPDATE memsheaf.about SET version = {CLIENT - 1}")
    with pytest.raises(HubRefused, match="older version"):
        attempt(4)
    with closing(PostgresHub(other.settings("ana", "m1"))) as hub:
        for write in writes[:4]:
            with pytest.raises(HubRefused, match="older version"):
                write(hub)
        assert "1.md" in state(hub.pull())
    as_superuser(other, "UPDATE memsheaf.about SET version = 99")
    assert migrate_database(postgres.url("dba", "dba", database)) == (99, 99)
    with closing(PostgresHub(other.settings("ana", "m1"))) as hub:
        assert len(hub.pull().commits) == 2, "reading goes on"
