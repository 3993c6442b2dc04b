"""The service login of servers: tokens name members, and nothing is seen without one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path

import psycopg
import pytest

from hub.conftest import OpenHub
from hub.postgres_server import Server, Team
from hub.proxy import Trouble
from hub.servers import as_superuser, service_url, token
from hub.test_contract import push
from hub.test_postgres import between
from memsheaf.config import load
from memsheaf.errors import CapReached, HubRefused, HubUnreachable
from memsheaf.hub import Erasure, Hub, HubSettings, deadline
from memsheaf.hub.jobs import HubWorker, defer_job
from memsheaf.hub.postgres_admin import (
    create_service,
    digest_of,
    invite,
    job_migrations,
    migrate_database,
    new_token,
    scram_verifier,
)
from memsheaf.hub.service import HubService, TokenMember

on_postgres = pytest.mark.parametrize("open_hub", ["postgres"], indirect=True)

TURN = {"conversation": "c", "messages": [["user", "Off we go.", ""]], "at": "", "saved": False, "number": 0}


@pytest.fixture
def service(postgres: Server) -> Iterator[HubService]:
    opened = HubService(service_url(postgres))
    yield opened
    opened.close()


def said(text: str, conversation: str = "c") -> dict[str, object]:
    return {**TURN, "conversation": conversation, "messages": [["user", text, ""]]}


def test_a_token_names_its_member(service: HubService, team: Team) -> None:
    service.check()
    assert service.find_member(token(team, "ana")) == TokenMember(team.name, f"{team.name}.ana", "ana")


def test_the_key_of_all_servers_is_made_of_the_password_wherever_it_is_kept(
    service: HubService, monkeypatch: pytest.MonkeyPatch
) -> None:
    login, _, rest = service.url.partition("://")[2].partition("@")
    name, _, password = login.partition(":")
    monkeypatch.setenv("PGPASSWORD", password)
    other = HubService(f"postgresql://{name}@{rest}")
    assert other.key == service.key
    other.close()


def test_a_database_that_does_not_answer_is_told_in_one_line(postgres: Server) -> None:
    opened = HubService("postgresql://memsheaf-service:secret@/hub?host=/nowhere")
    opened.pool.timeout = 0.5
    with pytest.raises(HubUnreachable) as caught:
        opened.check()
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)
    opened.close()


def test_a_login_that_is_refused_while_a_server_runs_is_told(service: HubService, postgres: Server) -> None:
    service.check()
    login = service.url.partition("://")[2].partition(":")[0]
    create_service(postgres.url("dba", "dba", "hub"), login.removeprefix("memsheaf-"))  # another password
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s", [login])
    with deadline(1.0), pytest.raises(HubUnreachable, match="does not let you in: password authentication") as caught:
        service.ask("", "SELECT 1")
    assert "memsheaf team admin URL" in caught.value.hint


def test_tables_of_an_older_procrastinate_are_told_and_migrated(postgres: Server, team: Team, tmp_path: Path) -> None:
    database, dba = f"hub_{team.name}", postgres.url("dba", "dba", f"hub_{team.name}")
    postgres.create_hub(database)
    older = [(name, text) for name, text in job_migrations("") if name < "03.03"]
    with psycopg.connect(postgres.url("dba", "dba", database), autocommit=True) as connection:
        connection.execute("CREATE SCHEMA memsheaf_jobs AUTHORIZATION memsheaf_owner")
        connection.execute("SET ROLE memsheaf_owner; SET search_path = memsheaf_jobs")
        for _, statements in older:
            connection.execute(statements.encode())
        connection.execute(f"COMMENT ON SCHEMA memsheaf_jobs IS '{older[-1][0]}'")
        connection.execute("RESET ROLE")
        connection.execute("SELECT memsheaf.create_service('memsheaf-old', %s)", [scram_verifier("x")])
    with closing(HubService(postgres.url("memsheaf-old", "x", database))) as service:
        with pytest.raises(HubRefused, match="older procrastinate: run `memsheaf team admin URL`"):
            service.check()
        for _ in range(2):
            migrate_database(dba)
        service.check()
        defer_job(service, "learn", f"{team.name}:team", "ana")
        with closing(HubWorker(service, load({"MEMSHEAF_HOME": str(tmp_path)}))) as worker:
            worker.run(once=True)
        assert service.ask("", "SELECT FROM procrastinate_jobs") == []


def expire(team: Team, made: str) -> str:
    as_superuser(team, "UPDATE memsheaf.tokens SET expires = now() WHERE namespace = %s", team.namespace)
    return made


def revoke(team: Team, made: str) -> str:
    with psycopg.connect(team.url("ana")) as connection:
        found = connection.execute("SELECT memsheaf.revoke_token(%s, 'ana')", [team.namespace]).fetchone()
    assert found == (1,)
    return made


def remove(team: Team, made: str) -> str:
    as_superuser(team, "DELETE FROM memsheaf.members WHERE namespace = %s", team.namespace)
    return made


@pytest.mark.parametrize(
    "spoil",
    [
        expire, revoke, remove, lambda team, made: made + "x", lambda team, made: made[:-1],
        lambda team, made: made.partition(".")[2], lambda team, made: "other." + made.partition(".")[2],
        lambda team, made: "", lambda team, made: team.name + ".", lambda team, made: made + "\0",
        lambda team, made: "\udcff" + made,
    ],
)  # fmt: skip
def test_a_token_that_does_not_hold_names_nobody(
    service: HubService, team: Team, spoil: Callable[[Team, str], str]
) -> None:
    made = token(team, "ana")
    assert service.find_member(made)
    assert service.find_member(spoil(team, made)) is None


def test_a_server_of_one_team_takes_no_token_of_another(service: HubService, team: Team) -> None:
    limited = HubService(service.url, teams=["other"])
    assert limited.find_member(token(team, "ana")) is None
    limited.close()


def test_only_admins_make_tokens_of_others(team: Team) -> None:
    token(team, "ana", role="admin")
    digest = b"x" * 32
    for member, whose, is_done in (("ben", "ana", False), ("ana", "ben", True), ("ana", "nobody", False)):
        with psycopg.connect(team.url(member)) as connection:
            query = "SELECT memsheaf.add_token(%s, %s, %s, 1)"
            if is_done:
                connection.execute(query, [team.namespace, whose, digest])
                continue
            with pytest.raises((psycopg.errors.InsufficientPrivilege, psycopg.errors.CheckViolation)):
                connection.execute(query, [team.namespace, whose, digest])


def test_nobody_reads_tokens_turns_or_spending(service: HubService, team: Team) -> None:
    made = token(team, "ana", role="admin")
    service.add_turns(f"{team.name}.ana", team.namespace, [("1", TURN)])
    for url in (team.url("ana"), service.url):
        for table in ("tokens", "inbox", "spend"):
            with psycopg.connect(url) as connection:
                connection.execute("SELECT set_config('memsheaf.member', %s, true)", [f"{team.name}.ana"])
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute(f"SELECT * FROM memsheaf.{table}".encode())
    with psycopg.connect(team.url("ana")) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("SELECT memsheaf.token_member(%s, %s)", [team.namespace, made.encode()])
    with psycopg.connect(team.url("ana")) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("SELECT * FROM memsheaf_jobs.procrastinate_jobs")


@on_postgres
def test_a_service_sees_nothing_before_it_names_a_member(service: HubService, team: Team, open_hub: OpenHub) -> None:
    push(open_hub(), "user_tabs.md", None, b"tabs")
    with psycopg.connect(service.url) as connection:
        for table in ("spaces", "members", "commits", "revisions", "texts", "documents", "machines", "proposals"):
            assert connection.execute(f"SELECT count(*) FROM memsheaf.{table}".encode()).fetchone() == (0,)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("SELECT * FROM memsheaf.pull(%s, '')", [team.namespace])
    for login, is_seen in ((f"{team.name}.ana", True), ("other.ana", False)):
        hub = service.open_hub(HubSettings(service.url, team.namespace, "s", "s"), login)
        if is_seen:
            assert len(hub.pull().commits) == 1
            assert hub.me == "ana"
            continue
        with pytest.raises(HubRefused):
            hub.pull()


def test_a_server_gives_up_a_database_that_is_silent(service: HubService, team: Team, postgres: Server) -> None:
    team.url("ana")
    settings = HubSettings(service.url, team.namespace, "s", "s")
    with ThreadPoolExecutor(1) as thread, between(settings, postgres) as (through, proxy):
        slow = HubService(through.url)
        hub = slow.open_hub(through, f"{team.name}.ana")
        push(hub, "a.md", None, b"1")
        limits = "SELECT current_setting('statement_timeout'), current_setting('lock_timeout')"
        assert slow.ask("", limits) == [("5min", "8s")]

        def push_within() -> None:
            with deadline(1.0):
                push(hub, "b.md", None, b"2")

        proxy.trouble = Trouble(swallow=True)
        with pytest.raises(HubUnreachable):
            thread.submit(push_within).result(timeout=60)
        proxy.trouble = Trouble()
        assert thread.submit(push_when_it_answers, hub).result(timeout=60)
        slow.close()


def push_when_it_answers(hub: Hub) -> bool:
    """Push once the database answers again: for a moment a server does not ask one that was silent."""
    while True:
        with suppress(HubUnreachable):
            push(hub, "c.md", None, b"3")
            return True


def test_a_member_opens_their_own_memories_and_projects_of_the_team(service: HubService, team: Team) -> None:
    team.url("ana"), team.url("ben", "reader")
    login, name = f"{team.name}.ana", team.name
    for space in (f"{name}:user/ana", f"{name}:project/shop", f"{name}:agent/tester", f"{name}:user/ana"):
        service.join_space(login, space)
        assert service.name_of(login, space) == "ana"
    refused = (f"{name}:user/ben", "other:project/shop", f"{name}:project/a/b", f"{name}:task/x", "other:team")
    for space in refused:
        with pytest.raises(HubRefused):
            service.join_space(login, space) or service.name_of(login, space)  # type: ignore[func-returns-value]
    service.join_space(f"{name}.ben", f"{name}:project/shop")
    with pytest.raises(HubRefused, match="needs writer"):
        service.add_turns(f"{name}.ben", f"{name}:project/shop", [("1", TURN)])


def test_another_role_holds_in_every_namespace_of_the_team(service: HubService, team: Team) -> None:
    team.url("ana", "admin")
    login, spaces = f"{team.name}.ben", [f"{team.name}:project/shop", f"{team.name}:user/ben"]
    for role, taken in (("writer", [1, 1]), ("reader", [0, 1])):
        invite(team.settings("ana", "m1"), "ben", role)
        for space, count in zip(spaces, taken, strict=True):
            if role == "writer":
                service.join_space(login, space)
            if count:
                assert service.add_turns(login, space, [(role, TURN)]) == count
                continue
            with pytest.raises(HubRefused, match="needs writer"):
                service.add_turns(login, space, [(role, TURN)])


def test_a_removed_member_leaves_no_token_and_nothing_that_waits(service: HubService, team: Team) -> None:
    team.url("ana", "admin")
    invite(team.settings("ana", "m1"), "ben", "writer")  # as its drop needs whoever made the role
    space = f"{team.name}:user/ben"
    shown = new_token(team.name)
    service.ask(f"{team.name}.ben", "SELECT memsheaf.add_token(%s, 'ben', %s, 9)", team.namespace, digest_of(shown))
    assert service.find_member(shown)
    service.join_space(f"{team.name}.ben", space)
    service.add_turns(f"{team.name}.ben", space, [("1", TURN)])
    service.add_turns(f"{team.name}.ben", team.namespace, [("2", TURN)])
    for name in (space, team.namespace):
        service.ask(f"{team.name}.ben", "SELECT memsheaf.report(%s, 'm2', 'm2', '[]')", name)
    with psycopg.connect(team.url("ana")) as connection:
        connection.execute("SELECT memsheaf.remove(%s, 'ben')", [team.namespace])
    assert service.find_member(shown) is None
    with psycopg.connect(team.server.url(database=team.database)) as connection:
        for table in ("tokens", "inbox", "members", "joined"):
            query = f"SELECT count(*) FROM memsheaf.{table} WHERE login = %s"
            assert connection.execute(query.encode(), [f"{team.name}.ben"]).fetchone() == (0,)
        awaited = "SELECT count(*) FROM memsheaf.machines WHERE namespace LIKE %s"
        assert connection.execute(awaited, [f"{team.name}:%"]).fetchone() == (0,)


@pytest.mark.parametrize("first", ["join", "remove"])
def test_a_member_who_is_removed_while_they_open_a_namespace_is_in_none(team: Team, first: str) -> None:
    team.url("ana", "admin")
    ben = invite(team.settings("ana", "m1"), "ben", "writer")  # as its drop needs whoever made the role
    space = f"{team.name}:project/shop"
    calls = {
        "join": (ben.url, "SELECT memsheaf.join_space(%s)", [space]),
        "remove": (team.url("ana"), "SELECT memsheaf.remove(%s, 'ben')", [team.namespace]),
    }

    def call(url: str, query: str, values: list[str]) -> bool:
        with psycopg.connect(url) as connection, suppress(psycopg.errors.InsufficientPrivilege):
            connection.execute(query.encode(), values)
            return True
        return False

    url, query, values = calls.pop(first)
    with ThreadPoolExecutor(1) as pool:
        with psycopg.connect(url) as connection, psycopg.connect(team.server.url(), autocommit=True) as watch:
            connection.execute(query.encode(), values)
            [second] = (pool.submit(call, *one) for one in calls.values())
            waits = "SELECT FROM pg_stat_activity WHERE usename LIKE %s AND wait_event_type = 'Lock'"
            while not second.done() and not watch.execute(waits, [f"{team.name}.%"]).fetchall():
                time.sleep(0.01)
            connection.commit()
        assert second.result() == (first == "join")
    with psycopg.connect(team.server.url(database=team.database)) as connection:
        for table in ("members", "joined"):
            query = f"SELECT count(*) FROM memsheaf.{table} WHERE login = %s"
            assert connection.execute(query.encode(), [f"{team.name}.ben"]).fetchone() == (0,)


def test_a_login_of_a_service_is_nobody_elses(postgres: Server, team: Team) -> None:
    url = service_url(postgres)
    login = url.partition("://")[2].partition(":")[0]
    assert "." not in login  # as every member's has
    with psycopg.connect(team.url("ana", "admin")) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("SELECT memsheaf.create_service(%s, 'SCRAM-SHA-256$')", [login])


def test_turns_come_once_in_order_and_again_until_they_are_finished(service: HubService, team: Team) -> None:
    team.url("ana"), team.url("ben")
    ana, ben, space = f"{team.name}.ana", f"{team.name}.ben", team.namespace
    first, second, other = said("one"), said("two"), said("three", "d")
    assert service.add_turns(ana, space, [("1", first), ("2", second), ("3", other)]) == 3
    assert service.add_turns(ana, space, [("2", second)]) == 0
    assert service.take_turns(ben, space, 10_000) is None
    taken = service.take_turns(ana, space, 10_000)
    assert taken
    assert (taken.turns, taken.tries) == ((first, second), 1)
    service.add_turns(ana, space, [("4", said("four"))])
    again = service.take_turns(ana, space, 10_000)
    assert again == taken._replace(tries=2)
    service.finish_turns(ana, space, taken.batch)
    assert service.add_turns(ana, space, [("1", first)]) == 0
    for expected in ((other,), (said("four"),)):
        taken = service.take_turns(ana, space, 10_000)
        assert taken
        assert taken.turns == expected
        service.finish_turns(ana, space, taken.batch)
    assert service.take_turns(ana, space, 10_000) is None


def test_a_large_batch_is_split(service: HubService, team: Team) -> None:
    team.url("ana")
    login, space = f"{team.name}.ana", team.namespace
    service.add_turns(login, space, [(str(number), said(f"{number}" * 100)) for number in range(4)])
    sizes = []
    while taken := service.take_turns(login, space, 500):
        sizes.append(len(taken.turns))
        service.finish_turns(login, space, taken.batch)
    assert sizes == [2, 2]


def test_all_workers_share_one_cap(service: HubService, team: Team) -> None:
    other = HubService(service.url)
    team.url("ana")
    day = service.reserve(team.name, 60, 3, 100)
    with pytest.raises(CapReached):
        other.reserve(team.name, 60, 3, 100)
    service.settle(team.name, day, -50)
    other.reserve(team.name, 60, 3, 100)
    other.reserve(team.name, 1, 3, 100)
    with pytest.raises(CapReached):
        service.reserve(team.name, 1, 3, 100)
    other.close()


TEXT = b"---\nname: Deployment day\ndescription: When we deploy\ntype: project\n---\nWe deploy on Fridays.\n"


@on_postgres
@pytest.mark.parametrize(
    ("told", "is_kept"),
    [
        ("Please remember that we deploy\non  *fridays*!", False), ("We never deploy.", True),
        ("Fridays are for tea.", True),
    ],
)  # fmt: skip
def test_erasing_forgets_what_waits_and_says_the_same(
    service: HubService, team: Team, open_hub: OpenHub, told: str, is_kept: bool
) -> None:
    hub = open_hub()
    made = push(hub, "project_deployment-day.md", None, TEXT)
    login, space = f"{team.name}.ana", team.namespace
    service.add_turns(login, space, [("0", said("Nothing of that", "b"))])
    service.propose(login, space, "", "p", {"content": told, "quote": "", "supersedes": [told]})
    service.add_turns(login, space, [("1", said(told))])
    hub.erase(Erasure(made.id[::-1], ("project_deployment-day.md",), (made.revisions[0].after,)))
    left = []
    while taken := service.take_turns(login, space, 10_000):
        left += [turn["conversation"] for turn in taken.turns]
        service.finish_turns(login, space, taken.batch)
    assert left == (["b", "c"] if is_kept else ["b"])
    proposals = service.ask(login, "SELECT proposal IS NULL FROM memsheaf.proposals WHERE namespace = %s", space)
    assert proposals == [(not is_kept,)]
