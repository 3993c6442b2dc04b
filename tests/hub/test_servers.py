"""Servers of a hub: any of them may answer, members are kept apart, and what was acknowledged is on the hub."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from command_line import run_command
from hub.postgres_server import Server, Team, shared_server
from hub.servers import HubSite, as_superuser, documents, save, say, service_url, serving, token
from hub.test_contract import push
from hub.test_service import expire, revoke
from memsheaf import config
from memsheaf.hub.postgres import PostgresHub
from memsheaf.hub.postgres_admin import new_token
from memsheaf.hub.server_replicas import ServerReplicas
from memsheaf.hub.service import HubService

PAGE = Path(__file__).resolve().parents[2] / "docs" / "servers.md"
WORDS = ["owl", "elk", "cod", "bee", "ant", "fox", "hen", "yak", "ape", "cat", "dog", "emu"]


@pytest.fixture(scope="session")
def url(postgres: Server) -> str:
    return service_url(postgres)


@pytest.fixture(scope="session")
def first(url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubSite]:
    with serving(url, tmp_path_factory.mktemp("first")) as site:
        yield site


@pytest.fixture(scope="session")
def second(url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubSite]:
    with serving(url, tmp_path_factory.mktemp("second"), "--cache-replicas", "4") as site:
        yield site


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_whichever_server_answers_it_knows_what_was_saved(
    first: HubSite, second: HubSite, team: Team, mode: str
) -> None:
    shown = token(team, "ana")

    async def alternate() -> None:
        async with first.client(shown, mode=mode) as one, second.client(shown, mode=mode) as other:
            for number, word in enumerate(WORDS[:6]):
                writing, reading = (one, other) if number % 2 else (other, one)
                path = await save(writing, f"Likes the {word}", f"Their animal number {number} is the {word}.")
                assert f"is the {word}" in await say(reading, "memory_read", filename=path)
                told = await say(
                    reading, "memory_update", filename=path, old_text=f"the {word}.", new_text=f"a {word}!"
                )
                assert told == f"Memory updated: {path}"
                assert f"is a {word}!" in await say(writing, "memory_read", filename=path)

    asyncio.run(alternate())
    texts = documents(team, "user/ana")
    assert len(texts) == 6
    assert all(any(f"is a {word}!" in text for text in texts.values()) for word in WORDS[:6])


def test_two_servers_at_once_lose_and_double_nothing(first: HubSite, second: HubSite, team: Team) -> None:
    shown = token(team, "ana")

    async def add(site: HubSite, mine: list[str]) -> None:
        async with site.client(shown) as client:
            for word in mine:
                while not (
                    await say(client, "memory_insert", filename="user_animals.md", line=0, text=f"One {word} more.")
                ).startswith("Memory updated"):
                    await asyncio.sleep(0.01)

    async def both() -> None:
        async with first.client(shown) as client:
            await save(client, "Animals", "All animals of the house stand here.")
        await asyncio.gather(add(first, WORDS[:6]), add(second, WORDS[6:]))

    asyncio.run(both())
    text = documents(team, "user/ana")["user_animals.md"]
    assert sorted(re.findall("One (...) more", text)) == sorted(WORDS)


def test_a_token_that_does_not_hold_opens_nothing(first: HubSite, team: Team, postgres: Server) -> None:
    made, other = token(team, "ana"), Team(postgres, f"{team.name}x")
    assert first.post("/turns", made, {}).status_code == 400
    long = {"conversation": "c", "messages": [{"role": "user", "text": str(number)} for number in range(1001)]}
    assert "a request takes 1,000" in first.post("/turns", made, long).json()["error"]
    theirs = token(other, "ana")
    wrong = [made[:-1], new_token(team.name), f"{team.name}.{theirs.partition('.')[2]}", "x", expire(team, made)]
    for shown in [*wrong, revoke(other, theirs)]:
        for path in ("/mcp", "/turns"):
            answer = first.post(path, shown, {})
            assert (answer.status_code, answer.headers["www-authenticate"]) == (401, 'Bearer error="invalid_token"')


def test_members_see_their_own_memories_and_the_teams(first: HubSite, second: HubSite, team: Team) -> None:
    ana, ben = token(team, "ana"), token(team, "ben")
    text = b"---\nname: Deployment\ndescription: When\ntype: project\n---\nWe deploy on Fridays.\n"
    with closing(PostgresHub(team.settings("ana", "m1"))) as hub:
        push(hub, "project_deploy.md", None, text, by="user")

    async def converse() -> None:
        async with first.client(ana) as one, second.client(ben) as other, second.client(ben, Project="shop") as shop:
            await save(one, "Fears spiders", "Ana fears spiders, and nobody else knows.")
            shared = f"team/{team.name}:project_deploy.md"
            told = await say(one, "memory_update", filename=shared, old_text="Fridays", new_text="Mondays")
            assert "waits for review as" in told
            seen = await say(other, "memory_view", target="files")
            assert "deploy" in seen
            assert "spiders" not in seen
            assert (await say(other, "memory_read", filename="user_fears-spiders.md")).startswith("Error")
            assert 'saved by "ana"' in await say(other, "memory_read", filename=shared)
            assert await save(shop, "Till", "The till of the shop opens at nine.", "project") == "project_till.md"
            async with first.client(ana, Project="Shop", Agent="tester") as tester:
                assert "project:project_till.md" in await say(tester, "memory_view", target="files")
                assert (await save(tester, "Docs", "The shop's docs are in the wiki.", "reference")).endswith(".md")

    asyncio.run(converse())
    assert "Ana fears" in documents(team, "user/ana")["user_fears-spiders.md"]
    assert len(documents(team, "project/shop")) == 2
    assert documents(team, "user/ben") == {}
    with closing(PostgresHub(team.settings("ben", "m2"))) as hub:  # the proposal is there for all who may approve
        [(name, proposal, member)] = hub.proposals()
        assert (proposal["content"], proposal["replaces"].rpartition(":")[2]) == (
            "We deploy on Mondays.",
            "project_deploy.md",
        )
        assert member == "ana"
        assert hub.decide(name, "rejected")

        async def propose_again() -> str:
            async with second.client(ana) as client:
                shared = f"team/{team.name}:project_deploy.md"
                return await say(client, "memory_update", filename=shared, old_text="Fridays", new_text="Mondays")

        told = asyncio.run(propose_again())
        assert f"proposed before as {name}, and rejected; it does not wait" in told
        assert hub.proposals() == []
    assert first.post("/mcp", ana, {}, Project="../ben").status_code == 400


def test_what_another_member_told_a_project_or_an_agent_is_theirs(
    first: HubSite, second: HubSite, url: str, team: Team, tmp_path: Path
) -> None:
    ana, ben = token(team, "ana"), token(team, "ben")
    told = {"messages": [{"role": "user", "text": "Remember that we deploy the shop with make ship."}]}
    assert first.post("/turns", ana, {**told, "conversation": "c"}, Project="shop").status_code == 202
    environment = {"MEMSHEAF_HOME": str(tmp_path), "MEMSHEAF_EMBEDDER": "none"}
    run_command(["worker", "--hub", url, "--team", team.name, "--once"], environment)
    [told_path] = documents(team, "project/shop")
    mark = 'saved by "ana"'

    async def look(site: HubSite, shown: str, path: str, **headers: str) -> list[bool]:
        async with site.client(shown, **headers) as client:
            listed = await say(client, "memory_list")
            read = await say(client, "memory_read", filename=path)
            recalled = await say(client, "memory_recall", message="How do we deploy the shop, and ship the desk?")
            catalog = await client.read_resource("memory://catalog")
            prompt = str(catalog.contents[0])
        [line] = [line for line in listed.splitlines() if path in line]
        assert path in recalled
        assert path in prompt
        return ["(shared)" in line, mark in read, mark in recalled, mark in prompt]

    async def converse() -> None:
        for site in (first, second):
            assert await look(site, ben, told_path, Project="shop") == [True] * 4
            assert await look(site, ana, told_path, Project="shop") == [False] * 4
        async with first.client(ana, Agent="clerk") as client:
            saved = await save(client, "Desk", "We ship the desk and deploy with make desk.", "project")
        for site in (first, second):
            assert await look(site, ben, saved, Agent="clerk") == [True] * 4
            assert await look(site, ana, saved, Agent="clerk") == [False] * 4
        async with first.client(ben, Agent="clerk") as client:
            change = {"filename": saved, "old_text": "make desk", "new_text": "make table"}
            assert (await say(client, "memory_update", **change)).startswith("Memory updated")
        for site in (first, second):
            assert (await look(site, ana, saved, Agent="clerk"))[0]  # what was hers is ben's now
            assert (await look(site, ben, saved, Agent="clerk"))[0]  # and his agent made it of her text

    asyncio.run(converse())
    with serving(url, tmp_path / "new") as third:  # it has seen none of that
        assert asyncio.run(look(third, ana, told_path, Project="shop")) == [False] * 4
        assert asyncio.run(look(third, ben, saved_path(team), Agent="clerk"))[0]


def saved_path(team: Team) -> str:
    [path] = documents(team, "agent/clerk")
    return path


def test_a_server_goes_on_after_cut_connections_and_a_restored_hub(first: HubSite, url: str, team: Team) -> None:
    shown = token(team, "ana")

    async def converse() -> None:
        async with first.client(shown) as client:
            path = await save(client, "Tea", "They drink tea at four.")
            as_superuser(
                team, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s", login_of(url)
            )
            assert "tea at four" in await say(client, "memory_read", filename=path)
            as_superuser(
                team, "UPDATE memsheaf.spaces SET epoch = gen_random_uuid() WHERE namespace LIKE %s", f"{team.name}:%"
            )
            assert "tea at four" in await say(client, "memory_read", filename=path)
            assert await save(client, "Milk", "They take milk with it.")
            vague = {"name": "Now", "description": "Now", "type": "project", "content": "Right now we use Redis."}
            told = [await say(client, "memory_write", **vague) for _ in range(2)]
            assert told[0].startswith("Error: this is not worth keeping")
            assert told[1].startswith("Memory saved")  # who says it again means it

    asyncio.run(converse())
    assert len(documents(team, "user/ana")) == 3


def test_a_database_that_is_gone_makes_requests_wait_once(tmp_path: Path) -> None:
    with shared_server(tmp_path) as server:
        team = Team(server, "gone")
        shown = token(team, "ana")
        with serving(service_url(server), tmp_path / "server") as site:
            assert site.tell(shown, "We deploy on Fridays.") == 1
            server.stop()
            assert site.post("/turns", shown, {}).status_code == 503
            began = time.monotonic()
            assert [site.post("/turns", shown, {}).status_code for _ in range(5)] == [503] * 5
            assert time.monotonic() - began < 10  # one that is not known to be gone is waited for as long
            server.start()
            while site.post("/turns", shown, {}).status_code == 503 and time.monotonic() - began < 60:
                time.sleep(0.1)
            assert site.tell(shown, "We deploy on Mondays.") == 1


def login_of(url: str) -> str:
    return url.partition("://")[2].partition(":")[0]


def test_the_cache_is_bounded_and_what_is_dropped_is_gone(second: HubSite, team: Team) -> None:
    left = 2  # views of two replicas each
    members = ["ana", "ben", "cleo", "dan"]
    tokens = [token(team, member) for member in members]

    async def visit(member: str, shown: str) -> None:
        async with second.client(shown) as client:
            await save(client, "Name", f"Their name is {member}, as everybody knows.")

    async def ask(shown: str) -> str:
        async with second.client(shown) as client:
            return await say(client, "memory_read", filename="user_name.md")

    seen: set[str] = set()
    for member, shown in zip(members, tokens, strict=True):
        asyncio.run(visit(member, shown))
        assert len(second.folders()) <= left
        seen.update(second.folders())
    assert len(seen) >= 4
    for member, shown in zip(members, tokens, strict=True):
        assert f"name is {member}," in asyncio.run(ask(shown))
    assert len(second.folders()) <= left


def test_a_proposal_is_on_the_hub_also_when_the_cache_is_full(url: str, team: Team, tmp_path: Path) -> None:
    shown, name = token(team, "ana"), f"team/{team.name}:project_room.md"
    room = {"name": "Room", "description": "Rooms", "type": "project", "content": "Room B is downstairs."}

    async def propose(site: HubSite) -> str:
        async with site.client(shown, Project="shop") as client:
            return await say(client, "memory_write", **room, filename=name)

    with serving(url, tmp_path, "--cache-replicas", "1") as site:
        told = asyncio.run(propose(site))
    with closing(PostgresHub(team.settings("ana", "m1"))) as hub:
        [(name, _, _)] = hub.proposals()
    assert f"waits for review as {name}" in told


def test_a_server_killed_while_it_writes_loses_nothing_that_it_acknowledged(
    first: HubSite, url: str, team: Team, tmp_path_factory: pytest.TempPathFactory
) -> None:
    shown, folder = token(team, "ana"), tmp_path_factory.mktemp("killed")
    saved: list[str] = []

    async def write(site: HubSite) -> None:
        with suppress(BaseException):  # the connection breaks
            async with site.client(shown) as client:
                for number in range(1_000):
                    word = "".join(WORDS[int(digit)] for digit in f"{number:03}")
                    saved.append(await save(client, f"Animal {word}", f"They saw the {word} at the {number}th zoo."))

    async def strike(site: HubSite, after: int) -> None:
        writing = asyncio.create_task(write(site))
        while len(saved) < after and not writing.done():
            await asyncio.sleep(0.002)
        os.kill(site.process.pid, signal.SIGKILL)
        await writing

    with serving(url, folder) as site:
        asyncio.run(strike(site, 5))
        left = site.folders()
    assert left  # nobody was there to remove them
    texts = documents(team, "user/ana")
    assert len(saved) >= 5
    assert set(saved) <= set(texts)
    assert len(texts) - len(saved) <= 1  # the one that was pushed and not acknowledged

    async def look() -> None:
        async with first.client(shown) as client:
            for path in texts:
                assert "They saw the" in await say(client, "memory_read", filename=path)

    asyncio.run(look())
    with closing(HubService(url)) as service:
        settings = config.load({"MEMSHEAF_HOME": str(folder)})
        with closing(ServerReplicas(service, settings)) as replicas:
            assert os.listdir(site.cache) == [os.path.basename(replicas.folder)]
    assert os.listdir(site.cache) == []


def test_a_server_that_only_reads_takes_no_change(
    first: HubSite, url: str, team: Team, tmp_path_factory: pytest.TempPathFactory
) -> None:
    shown = token(team, "ana")

    async def converse(reading: HubSite) -> None:
        async with first.client(shown) as client:
            path = await save(client, "Tea", "They drink tea at four.")
        async with reading.client(shown) as client:
            assert "tea at four" in await say(client, "memory_read", filename=path)
            assert "memory_write" not in [tool.name for tool in (await client.list_tools()).tools]
            assert "reading only" in await say(client, "memory_delete", filename=path)

    with serving(url, tmp_path_factory.mktemp("reading"), "--read-only", "--team", team.name) as site:
        asyncio.run(converse(site))
        assert site.post("/turns", shown, {}).status_code == 404
        assert site.post("/mcp", token(Team(team.server, f"{team.name}y"), "ana"), {}).status_code == 401
        assert site.folders()
        site.process.terminate()
        assert site.process.wait(60) == 0
        assert os.listdir(site.cache) == []


def test_what_is_no_hub_for_servers_is_told(team: Team, tmp_path: Path) -> None:
    def run(*words: str) -> tuple[int, str]:
        code, out, err = run_command(words, {"MEMSHEAF_HOME": str(tmp_path)})
        return code, out + err

    for command in (("mcp", "--http", "--port", "0"), ("worker",)):
        code, told = run(*command, "--hub", team.url("ana"))
        assert code == 1
        assert "is no service login of a hub" in told
        assert "x@" not in told  # its password
    assert run("mcp", "--http", "--hub", team.url("ana"), "-s", "user")[0] == 2


def test_the_page_runs_as_it_is_written(first: HubSite, second: HubSite, team: Team, tmp_path: Path) -> None:
    page = PAGE.read_text().replace("platform", team.name)
    dba = team.server.url("dba", "dba", "hub")

    def run(*words: str) -> str:
        code, out, err = run_command(words, {"MEMSHEAF_HOME": str(tmp_path / "ana")})
        assert code == 0, err
        return out.strip()

    run("team", "create", team.name, dba, "--as", "ana")
    service, member = re.findall(r"^ana\$ memsheaf (.*)\n(.*)", page, re.MULTILINE)
    made = run(*service[0].replace("postgresql://dba:secret@db.example.com/memory", dba).split())
    assert re.sub(":[^:@]*@.*", ":PASSWORD@db.example.com/memory", made) == service[1]
    shown = run(*member[0].split())
    assert re.sub(r"\..*", ".TOKEN", shown) == member[1]
    lines = re.findall(r"^memsheaf (.*)", page, re.MULTILINE)  # the two servers are running
    assert lines == [*(f'mcp --http --port {port} --hub "$HUB"' for port in (8377, 8378)), 'worker --hub "$HUB"']
    [program] = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    for port, site in ((8377, first), (8378, second)):
        program = program.replace(f"http://127.0.0.1:{port}/mcp", site.url)
        program = program.replace(f"http://127.0.0.1:{port}", site.url.removesuffix("/mcp"))
    environment = os.environ | {"TOKEN": shown, "MEMSHEAF_HOME": str(tmp_path / "worker")}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60
    )
    assert "The till opens at nine." in done.stdout, done.stderr
    assert '{"added":1}' in done.stdout
    run("worker", "--hub", made, "--once", "--team", team.name)
    assert "green tea" in str(documents(team, "user/ana")) + str(documents(team, "project/shop"))
    assert [one["member"] for one in json.loads(run("team", "token", "--json"))["tokens"]] == ["ana"]
    assert run("team", "token", "--revoke", "ana") == "Revoked 1 token."
    assert "revoked" in run("team", "token")
    assert first.post("/turns", shown, {}).status_code == 401
