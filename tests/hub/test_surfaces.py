"""A team's memory through an MCP client and the page: whose words these are, and a hub that is down."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters

from hub.machines import ScopeOnMachine
from hub.postgres_server import Team
from hub.servers import say
from memsheaf.tools import Tools
from web.web_site import csrf_of, serve

TEAM = "team/acme"
FACT = {
    "name": "Staging",
    "description": "Where staging runs",
    "type": "project",
    "content": "Staging is on port 8080.",
}
THEIRS = "project_deploy-day.md"
SAVED_BY = 'saved by "ana"'


@pytest.fixture
def ben(tmp_path: Path, team: Team) -> ScopeOnMachine:
    """A member whose team has one memory, and Ana saved it."""
    ana, ben = (ScopeOnMachine(tmp_path / name, TEAM, team, name) for name in ("ana", "ben"))
    ana.join()
    assert ana.write("Deploy day", "We deploy the billing service on Fridays.") == THEIRS
    ben.join()
    return ben


def let_agents_write(ben: ScopeOnMachine) -> None:
    """So that a change asks the hub, and does not wait for review."""
    (ben.folder / "home" / "config.toml").write_text('[learning.scopes]\nteam = "auto"\n')
    ben.settings = ben.settings._replace(policies=(("team", "auto"),))


def is_one_line(text: str) -> bool:
    return "\n" not in text.strip() and "Traceback" not in text and "nothing was saved here" in text


def test_an_mcp_client_sees_whose_memories_these_are_and_proposes(ben: ScopeOnMachine) -> None:
    words = ["-m", "memsheaf", "mcp", "--scope", TEAM]
    server = StdioServerParameters(
        command=sys.executable, args=words, env={**os.environ, **ben.environment}, cwd=ben.folder / "work"
    )

    async def converse() -> tuple[str, str]:
        async with Client(server) as client:
            assert "Deploy day" not in (client.instructions or "")  # where nothing says whose it is
            for name, given in [
                ("memory_view", {}), ("memory_view", {"target": "context"}), ("memory_read", {"filename": THEIRS}),
                ("memory_recall", {"message": "On which day do we deploy the billing service?"}),
            ]:  # fmt: skip
                assert SAVED_BY in await say(client, name, **given), name
            assert "(empty)" not in await say(client, "memory_view")
            for name, given in [("memory_list", {}), ("memory_search", {"query": "deploy billing"})]:
                assert "(shared)" in await say(client, name, **given), name
            contents = (await client.read_resource(f"memory://file/{THEIRS}")).contents
            assert SAVED_BY in contents[0].text  # type: ignore[union-attr]
            told = await say(client, "memory_write", **FACT)
            gone = await say(client, "memory_delete", filename=THEIRS)
            return told, gone

    told, gone = asyncio.run(converse())
    assert "Not saved yet" in told
    assert gone.startswith("Error: team/acme is a team's memory")
    assert list(ben.trust()) == [THEIRS]
    found = re.search(r"waits for review as (\w+)", told)
    assert found
    assert found[1] in ben.run("review")[1]
    assert ben.run("review", "--approve", found[1])[0] == 0
    assert ben.trust() == {THEIRS: "shared", "project_staging.md": "confirmed"}

    let_agents_write(ben)
    ben.cut()

    async def go_on() -> str:
        async with Client(server) as client:
            assert SAVED_BY in await say(client, "memory_read", filename=THEIRS)
            return await say(client, "memory_update", filename=THEIRS, old_text="Fridays", new_text="Mondays")

    assert is_one_line(said := asyncio.run(go_on())), said


def test_the_page_shows_whose_memories_these_are_and_what_the_hub_says(ben: ScopeOnMachine) -> None:
    with ben.open(by="agent") as sheaf:
        Tools(sheaf).call("memory_write", FACT)
    with serve(ben.folder / "home", cwd=ben.folder / "work") as site:
        address = f"/memory/team~acme/{THEIRS}"
        assert '<span class="badge warn">from others<' in site.ask("GET", "/memories?scope=team~acme").text
        shown = site.ask("GET", address)
        assert (shown.status, "saved by &#34;ana&#34;" in shown.text) == (200, True), shown.text
        assert "An agent asks to save it" in site.ask("GET", "/review").text
    ben.cut()
    with serve(ben.folder / "home", cwd=ben.folder / "work") as site:
        assert "saved by &#34;ana&#34;" in site.ask("GET", address).text
        form = site.ask("GET", f"{address}/edit").text
        version = re.search(r'name="version" value="(\w+)"', form)
        assert version
        given = {"csrf": csrf_of(site), "name": "Deploy day", "description": "About deploy day", "kind": "project"}
        answer = site.ask(
            "POST", f"{address}/edit", {**given, "body": "On Mondays.", "version": version[1], "do": "save"}
        )
        said = re.findall(r"<[^>]*>([^<]*nothing was saved here[^<]*)<", answer.text)
        assert (answer.status, len(said)) == (422, 1), answer.text
        assert "On Mondays." in answer.text  # what was typed is still there
