"""Hub scopes in daily use: known at the next conversation, listened to, and a team's memory beside a project's."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from command_line import run_command
from forks import run_program
from hub.git_remotes import git, make_bare
from hub.machines import ScopeOnMachine
from hub.postgres_server import Team
from mcp_server.mcp_peer import Wire
from memsheaf import Sheaf
from memsheaf.config import HubUse, load
from memsheaf.errors import ReadOnly, Ref, ScopeRefused
from memsheaf.hub import HubSettings
from memsheaf.hub import scopes as hub_scopes
from memsheaf.hub.replica_state import settings_of, write_settings
from memsheaf.hub.upkeep import HubUpkeep, start_upkeep
from memsheaf.scope import Scope
from memsheaf.store.safe_dir import Folder
from memsheaf.tools import Tools
from memsheaf.transfer import synchronize
from web.web_site import csrf_of, serve

EVENT = {"session_id": "s1", "hook_event_name": "SessionStart", "source": "startup"}


class Machine:
    """A home of its own, as another computer has it."""

    def __init__(self, folder: Path, **more: object) -> None:
        self.home, self.work = folder / "home", folder / "work"
        self.work.mkdir(parents=True)
        self.home.mkdir()
        self.configure("[hub]", "start_seconds = 50", "poll_seconds = 0.2")
        self.settings = load(self.environment)._replace(**more)  # type: ignore[arg-type]

    def configure(self, *lines: str) -> None:
        (self.home / "config.toml").write_text("\n".join([*lines, ""]))

    @property
    def environment(self) -> dict[str, str]:
        own = {"MEMSHEAF_HOME": str(self.home), "HOME": str(self.work.parent), "MEMSHEAF_EMBEDDER": "none"}
        return {**os.environ, **own, "XDG_RUNTIME_DIR": str(self.work.parent), "MEMSHEAF_HOOK_MS": "60000"}

    def attach(self, scope: str, url: str, **more: str) -> None:
        hub_scopes.attach(Scope.parse(scope), url, self.settings, str(self.work), **more)

    def open(self, scope: str = "user", by: str = "user") -> Sheaf:
        return Sheaf.open(scope, settings=self.settings, cwd=str(self.work), by=by)

    def save(self, name: str, scope: str = "user") -> None:
        with self.open(scope) as sheaf:
            sheaf.write(name, f"About {name}", "reference", f"The page about {name} is in the wiki.")

    def names(self, scope: str = "user") -> set[str]:
        with self.open(scope) as sheaf:
            return {row.name for row in sheaf.list()}

    def layers(self, by: str = "agent") -> Sheaf:
        return Sheaf.open(settings=self.settings, cwd=str(self.work), by=by)

    def upkeep(self, scope: str = "user") -> HubUpkeep:
        found = start_upkeep(self.settings, str(self.work), [scope])
        assert found
        return found

    def run(self, *words: str, data: str = "", code: int = 0) -> str:
        if words[0] == "hook":
            done, *printed = run_program(words, self.environment, self.work, input=data.encode())
            out, err = (text.decode() for text in printed)
        else:
            done, out, err = run_command(words, self.environment, folder=self.work)
        assert done == code, err
        return out

    def start_conversation(self) -> str:
        out = self.run("hook", "claude-code", "SessionStart", data=json.dumps({**EVENT, "cwd": str(self.work)}))
        return str(json.loads(out)["hookSpecificOutput"]["additionalContext"])


@pytest.fixture
def two(tmp_path: Path, bare: Path) -> tuple[Machine, Machine]:
    """Two machines with one git hub for the scope of the user."""
    machines = Machine(tmp_path / "laptop"), Machine(tmp_path / "desktop")
    for machine in machines:
        machine.attach("user", str(bare))
    return machines


def wait_until(condition: Callable[[], object]) -> float:
    """Wait for it, a minute at most; says how many seconds it took."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() < began + 60, "it did not happen within a minute"
        time.sleep(0.05)
    return time.monotonic() - began


# the start of a conversation


def test_what_one_machine_learned_the_other_knows_at_its_next_conversation(two: tuple[Machine, Machine]) -> None:
    laptop, desktop = two
    assert "Dashboards" not in desktop.start_conversation()
    laptop.save("Dashboards")
    assert "Dashboards" in desktop.start_conversation()


def test_a_hub_that_hangs_costs_a_start_no_more_than_the_settings_say(tmp_path: Path) -> None:
    """The process that syncs still waits for the hub when the hook has answered."""
    machine = Machine(tmp_path / "laptop")
    machine.save("Dashboards")
    machine.configure("[hub]", "start_seconds = 2")
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        url = f"postgresql://ana:x@127.0.0.1:{silent.getsockname()[1]}/team"
        with Folder.open(str(machine.home / "user" / ".history")) as history:
            write_settings(history, HubSettings(url, "acme:user", "m1", "laptop"))
        assert "Dashboards" in machine.start_conversation()
        with silent.accept()[0] as connection:
            connection.settimeout(60)
            assert connection.recv(1 << 16)
            connection.setblocking(False)
            with pytest.raises(BlockingIOError):
                connection.recv(1)


def test_an_mcp_server_begins_with_the_news_and_sees_what_comes_later(two: tuple[Machine, Machine]) -> None:
    laptop, desktop = two
    laptop.save("Dashboards")
    words = [sys.executable, "-P", "-m", "memsheaf", "mcp"]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, cwd=desktop.work, env=desktop.environment) as server:
        wire = Wire(server.stdin, server.stdout)  # type: ignore[arg-type]
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        assert "reference_dashboards.md" in str(wire.ask("initialize", hello))
        laptop.save("Tickets")
        wait_until(lambda: "reference_tickets.md" in wire.text("memory_search", query="tickets"))
        assert server.stdin
        server.stdin.close()


def test_the_page_shows_hubs_and_what_comes(two: tuple[Machine, Machine], bare: Path) -> None:
    laptop, desktop = two
    with serve(desktop.home, cwd=desktop.work) as site:
        laptop.save("Dashboards")
        shown = site.ask("GET", "/settings").text
        assert str(bare) in shown
        token = re.search(r'name="csrf" value="([^"]+)"', shown)
        assert token
        assert site.ask("POST", "/settings/hubs", {"csrf": token[1]}).status == 200
        assert "reference_dashboards.md" in site.ask("GET", "/memories?scope=user").text
        bare.rename(bare.with_name("away"))
        assert str(bare) in site.ask("POST", "/settings/hubs", {"csrf": token[1]}).text


# while a process runs


def test_a_listening_process_is_told_by_the_database(tmp_path: Path, team: Team) -> None:
    """With no polling at all; how long it takes is measured by `make bench`."""
    machines = []
    for member in ("ana", "bob"):
        machine = Machine(tmp_path / member, teams=((str(tmp_path), "core"),))
        machine.settings = machine.settings._replace(hub=HubUse(poll_seconds=3600.0))
        hub = team.settings(member, member)
        machine.attach("team/core", hub.url, namespace=hub.namespace)
        machines.append(machine)
    ana, bob = machines
    with closing(bob.upkeep("team/core")) as upkeep, bob.layers() as layers:
        upkeep.wait()
        ana.save("Dashboards", "team/core")
        wait_until(lambda: layers.search("Dashboards"))
        assert upkeep.wait(0.0), "what a listening thread knows is new enough"
        [row] = layers.search("Dashboards")
        assert (str(row.ref), row.row.trust) == ("team/core:reference_dashboards.md", "shared")


def test_what_was_queued_goes_once_the_hub_is_back(two: tuple[Machine, Machine], bare: Path) -> None:
    laptop, desktop = two
    with closing(laptop.upkeep()) as upkeep:
        upkeep.wait()
        bare.rename(bare.with_name("away"))
        laptop.save("Dashboards")
        upkeep.wait()
        assert "Dashboards" not in desktop.names()
        bare.with_name("away").rename(bare)
    with desktop.open() as sheaf:
        synchronize(sheaf.own)
    assert "Dashboards" in desktop.names(), "the end of a process pushes what waits"


def test_a_hub_that_moved_is_used_at_its_new_address_and_no_other_is(
    two: tuple[Machine, Machine], bare: Path, tmp_path: Path
) -> None:
    laptop, desktop = two
    laptop.save("Dashboards")
    moved, other = bare.rename(tmp_path / "moved.git"), tmp_path / "other.git"
    laptop.save("Runbook")
    make_bare(other)
    somebody = Machine(tmp_path / "somebody")
    somebody.save("Grafana")
    for _ in range(2):  # an empty one, and one of somebody else
        with pytest.raises(ScopeRefused, match=f"has a hub already: {bare}") as caught:
            laptop.attach("user", str(other))
        assert "hub remove -s user" in caught.value.hint
        somebody.attach("user", str(other))
    for machine in two:
        machine.attach("user", str(moved))
    assert desktop.names() == laptop.names() == {"Dashboards", "Runbook"}
    assert git(other, "ls-tree", "-r", "--name-only", "memsheaf/user") == "reference_grafana.md"


def test_another_member_does_not_take_over_a_machine(tmp_path: Path, team: Team) -> None:
    machine = Machine(tmp_path / "laptop")
    machine.attach("team/acme", team.url("ana"), namespace=team.namespace)
    with pytest.raises(ScopeRefused, match="has a hub already"):
        machine.attach("team/acme", team.url("ben"), namespace=team.namespace)


def test_the_worker_pushes_at_the_end_of_a_conversation(two: tuple[Machine, Machine]) -> None:
    laptop, desktop = two
    (laptop.home / "user" / "reference_desk.md").write_text("The desk is on the second floor.\n")
    laptop.run("hook", "work", str(laptop.work))
    with desktop.open() as sheaf:
        synchronize(sheaf.own)
        assert "second floor" in sheaf.read("reference_desk.md").text


def test_a_hub_that_was_removed_is_left_alone(two: tuple[Machine, Machine], bare: Path) -> None:
    laptop, desktop = two
    with closing(desktop.upkeep()) as upkeep, desktop.open() as opened:
        upkeep.wait()
        hub_scopes.detach(Scope("user"), desktop.settings, str(desktop.work))
        laptop.save("Dashboards")
        upkeep.wait()
        upkeep.wait()
        opened.write("Grafana", "Where", "reference", "Grafana is at the second address.")
        assert "Dashboards" not in desktop.names()
    assert settings_of(opened.root) is None
    assert not (Path(opened.root) / ".history" / "hub-state.json").exists()


def test_a_process_that_runs_when_a_scope_gets_a_hub_shares_what_it_saves(tmp_path: Path, bare: Path) -> None:
    laptop, desktop = Machine(tmp_path / "laptop"), Machine(tmp_path / "desktop")
    desktop.attach("user", str(bare))
    laptop.save("Dashboards")
    with laptop.open() as running:
        assert running.list()
        laptop.attach("user", str(bare))
        running.write("Tickets", "Where", "reference", "Tickets are in the second tracker.")
        running.revise("reference_dashboards.md", "wiki", "attic")
    for machine in (laptop, desktop):
        with machine.open() as sheaf:
            synchronize(sheaf.own)
    assert desktop.names() == {"Dashboards", "Tickets"}
    with desktop.open() as sheaf:
        assert "attic" in sheaf.read("reference_dashboards.md").text


def test_doctor_and_scopes_tell_how_a_scope_stands_with_its_hub(two: tuple[Machine, Machine], bare: Path) -> None:
    laptop, desktop = two
    scopes = {one["scope"]: one["hub"] for one in json.loads(laptop.run("scopes", "--json"))["scopes"]}
    assert scopes == {"user": str(bare), "project": ""}
    assert [one for one in findings_of(laptop) if one["path"].startswith("user")] == []
    laptop.save("Dashboards")
    (desktop.home / "user" / "reference_dashboards.md").write_text("They are in Grafana, in the folder app.\n")
    with desktop.open() as sheaf:
        synchronize(sheaf.own)
    told = {one["path"]: one for one in findings_of(desktop)}
    assert "two machines changed reference_dashboards.md" in told["user:reference_dashboards-2.md"]["problem"]
    bare.rename(bare.with_name("away"))
    laptop.save("Tickets")
    problems = [one["problem"] for one in findings_of(laptop, code=1) if one["path"] == "user"]
    assert len(problems) == 2
    assert str(bare) in problems[0]
    assert re.fullmatch(r"changes that wait for the hub since 20\d\d-\d\d-\d\d \d\d:\d\d: 1", problems[1])


def findings_of(machine: Machine, code: int = 0) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads(machine.run("doctor", "--json", code=code))["findings"]
    return found


# a team's memory beside a project's


@pytest.fixture
def member(tmp_path: Path) -> Machine:
    """A machine whose project names a team in the settings, each with a memory."""
    machine = Machine(tmp_path / "laptop", teams=((str(tmp_path), "core"),))
    machine.save("Dashboards", "team/core")
    machine.save("Tickets", "project")
    return machine


def test_the_team_of_a_project_is_read_with_it(member: Machine) -> None:
    with member.layers() as layers:
        assert layers.scopes() == ["project", "team/core", "user"]
        assert [str(row.ref) for row in layers.list()] == [
            "reference_tickets.md",
            "team/core:reference_dashboards.md",
        ]
        assert [str(row.ref) for row in layers.search("dashboards")] == ["team/core:reference_dashboards.md"]
        assert "team/core:reference_dashboards.md" in layers.prompt()
        assert layers.recall("Where are the dashboards?").memories
    member.configure("[teams]", f'"{member.work}" = "core"')
    assert "team/core:reference_dashboards.md" in member.run("list")
    elsewhere = member.settings._replace(teams=((str(member.home), "core"),))
    with Sheaf.open(settings=elsewhere, cwd=str(member.work)) as layers:
        assert layers.scopes() == ["project", "user"]


def test_what_is_saved_beside_a_team_stays_in_the_project(member: Machine) -> None:
    with member.layers() as layers:
        made = layers.write("Alerts", "Where", "reference", "Alerts go to the channel ops.")
        same = layers.write("Dashboards", "Ours", "reference", "Those of this project are in Grafana, folder app.")
        assert (made.path, same.path) == ("reference_alerts.md", "reference_dashboards.md")
        for change in (
            lambda: layers.revise(Ref("team/core", "reference_dashboards.md"), "wiki", "attic"),
            lambda: layers.forget(Ref("team/core", "reference_dashboards.md")),
            lambda: layers.put(Ref("team/core", "reference_new.md"), made.text),
        ):
            with pytest.raises(ReadOnly, match="only a person changes"):
                change()
    with member.layers(by="user") as layers:
        assert "attic" in layers.revise(Ref("team/core", "reference_dashboards.md"), "wiki", "attic").text


def test_an_undo_takes_nothing_back_that_a_team_did(member: Machine) -> None:
    with member.open("team/core") as team:
        team.write("Later", "Later", "reference", "The wiki of the team has moved to the second floor.")
    with member.layers(by="user") as layers:
        [undone] = layers.undo()
        assert (undone.scope, [step.path for step in undone.revisions]) == ("project", ["reference_tickets.md"])
        assert layers.undo(team.own.last_change().id)[0].scope == "team/core"


# whose memories these are, on the page

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
