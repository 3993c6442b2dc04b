"""A team's memory through an MCP client and the page: whose words these are, and a hub that is down."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hub.machines import ScopeOnMachine
from hub.postgres_server import Team
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


@pytest.fixture
def ben(tmp_path: Path, team: Team) -> ScopeOnMachine:
    """A member whose team has one memory, and Ana saved it."""
    ana, ben = (ScopeOnMachine(tmp_path / name, TEAM, team, name) for name in ("ana", "ben"))
    ana.join()
    assert ana.write("Deploy day", "We deploy the billing service on Fridays.") == THEIRS
    ben.join()
    return ben


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
