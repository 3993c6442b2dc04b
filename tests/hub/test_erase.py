"""Erase for all: the hub forgets, each machine at its next sync, and everybody sees who has not yet."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import psycopg
import pytest

from hub.machines import ScopeOnMachine, replica_of
from hub.postgres_server import Team
from hub.servers import as_superuser
from memsheaf.errors import HubUnreachable
from memsheaf.hub import Machine
from memsheaf.recall.turns import Message, Turn
from memsheaf.transfer import erase
from renaming import rename

SECRET = "The merger with Pelikan is announced in spring."
SAID = Turn("c1", (Message("user", f"Remember: {SECRET}"), Message("assistant", "I will.")))


@pytest.fixture(params=["postgres", "git"])
def machines(request: pytest.FixtureRequest, tmp_path: Path) -> Sequence[ScopeOnMachine]:
    """Three machines: of three members of a team, or of one person."""
    place = request.getfixturevalue("team" if request.param == "postgres" else "bare")
    scope = "team/acme" if isinstance(place, Team) else "user"
    found = [ScopeOnMachine(tmp_path / name, scope, place, name) for name in ("ana", "ben", "cid")]
    for one in found:
        one.join()
    return found


both = pytest.mark.parametrize("machines", ["postgres", pytest.param("git", marks=pytest.mark.long)], indirect=True)
"""For what is much the same on git, which takes longer."""


def on_hub(machine: ScopeOnMachine, text: str) -> bool:
    """Whether the hub holds a text: any row of the database, any commit that the remote has."""
    if isinstance(machine.place, Team):
        server = machine.place.server
        with psycopg.connect(server.url(database=machine.place.database)) as connection:
            rows = connection.execute(
                "SELECT data FROM memsheaf.texts WHERE namespace = %s UNION ALL "
                "SELECT convert_to(why, 'UTF8') FROM memsheaf.commits WHERE namespace = %s",
                [machine.place.namespace] * 2,
            )
            return any(text.encode() in row[0] for row in rows)
    command = ["git", "-C", str(machine.place), "log", "--all", "--format=%H", f"-S{text}"]
    return bool(subprocess.run(command, capture_output=True, check=True).stdout)


def test_a_memory_is_erased_on_every_machine_and_each_reports(machines: Sequence[ScopeOnMachine]) -> None:
    ana, ben, cid = machines
    path = ana.write("Merger", SECRET)
    ben.sync()
    cid.sync()
    with ben.open() as sheaf:  # more than the folder has the text
        sheaf.recall("When is the merger with Pelikan announced?")
        sheaf.learn(SAID)
    (cid.root / path).write_text((cid.root / path).read_text().replace("spring", "autumn"))  # and waits to be pushed
    cid.trust()
    assert all(one.files_with("Pelikan") for one in machines)

    told = ana.json("erase", path, "--yes")
    assert (told["code"], told["gone"], told["left"]) == (0, True, [])
    assert len(told["machines"]) == 3
    assert len(told["waiting"]) == 2
    assert ana.files_with("Pelikan") == []
    assert not on_hub(ana, "Pelikan")
    assert ana.run("hub", "status", scoped=False)[1].count(f"{path} was erased for all; not yet on ") == 2

    ben.sync()
    cid.sync()
    ana.sync()
    for one in machines:
        assert one.files_with("Pelikan") == []
        assert path not in one.trust()
    assert not on_hub(ana, "Pelikan")
    status = ana.json("hub", "status", scoped=False)["scopes"][0]
    assert status["open_erasures"] == {}
    assert {left for machine in status["machines"] for _, left in machine["erased"]} == {""}
    assert "not yet on" not in ben.run("hub", "status", scoped=False)[1]


@both
def test_what_others_erased_is_told_also_when_it_was_changed_here(machines: Sequence[ScopeOnMachine]) -> None:
    ana, ben, _ = machines
    path = ana.write("Merger", SECRET)
    ben.sync()
    (ben.root / path).write_text((ben.root / path).read_text() + "And in autumn.\n")
    assert ana.run("erase", path, "--yes")[0] == 0
    code, said = ben.run("hub", "sync", scoped=False)
    assert (code, f"{path} was erased for all: here, too" in said) == (0, True), said
    assert "erased" not in ben.run("hub", "sync", scoped=False)[1]


@both
def test_a_machine_that_was_not_there_for_half_a_year_is_not_waited_for(machines: Sequence[ScopeOnMachine]) -> None:
    ana, ben, cid = machines
    path = ana.write("Merger", SECRET)
    ben.sync()
    cid.sync()
    with cid.open() as sheaf:
        replica = replica_of(sheaf)
        replica.hub.report(Machine(replica.settings.machine, "attic", "cid", "2020-01-01T00:00:00Z"))
    if isinstance(cid.place, Team):
        as_superuser(
            cid.place, "UPDATE memsheaf.machines SET seen = '2020-01-01' WHERE id = %s", replica.settings.machine
        )
    said = ana.run("erase", path, "--yes")[1]
    assert "1 of 2 machines reported the same." in said
    assert "not waited for: attic of cid, last seen 2020-01-01" in said
    said = ana.run("hub", "status", scoped=False)[1]
    assert said.count("not yet on") == 1
    assert re.search("attic .*2020-01-01 00:00Z +not waited for", said)
    cid.sync()  # should it come back
    assert cid.files_with("Pelikan") == []


@both
def test_a_home_that_was_copied_does_not_report_for_the_machine_it_was_copied_from(
    machines: Sequence[ScopeOnMachine], tmp_path: Path
) -> None:
    ana, ben, cid = machines
    first, second = ana.write("Merger", SECRET), ana.write("Launch", "The launch is in May.")
    ben.sync()
    ana.run("erase", first, "--yes")
    for one in (ben, cid):
        one.sync()
    shutil.copytree(ben.folder, tmp_path / "copy", symlinks=True)
    copy = ScopeOnMachine(tmp_path / "copy", ben.scope, ben.place, "ben")
    told = [copy.run("hub", "sync", scoped=False)[1] for _ in "12"]
    assert ["was copied from another machine" in said for said in told] == [True, False]
    assert "copied" not in ben.run("hub", "sync", scoped=False)[1]
    status = ana.json("hub", "status", scoped=False)["scopes"][0]
    assert (len(status["machines"]), status["open_erasures"]) == (4, {})

    ana.run("erase", second, "--yes")
    for one in (ben, cid):
        one.sync()
    [waiting] = ana.json("hub", "status", scoped=False)["scopes"][0]["open_erasures"].values()
    assert waiting == [copy.json("hub", "status", scoped=False)["scopes"][0]["machine"]]
    copy.sync()
    assert ana.json("hub", "status", scoped=False)["scopes"][0]["open_erasures"] == {}


@both
def test_what_another_machine_erased_is_not_half_erased_by_a_save(machines: Sequence[ScopeOnMachine]) -> None:
    ana, ben, _ = machines
    path = ana.write("Merger", SECRET)
    ben.sync()
    with ben.open() as sheaf:
        sheaf.learn(SAID)
    ana.run("erase", path, "--yes")
    (ben.root / "note.md").write_text("Something to push first.")
    with ben.open() as sheaf:
        sheaf.list()
        sheaf.write("Staging", "Where staging is", "project", "Staging is on port 8080.")
        assert replica_of(sheaf).state().proofs == {}  # or all of it would be gone
    ben.sync()
    assert ben.files_with("Pelikan") == []


@both
def test_what_was_forgotten_on_one_machine_is_not_learned_again_on_another(
    machines: Sequence[ScopeOnMachine],
) -> None:
    ana, ben, _ = machines
    path = ana.write("Merger", SECRET)
    ben.sync()
    with ana.open() as sheaf:
        memory = sheaf.read(path)
        sheaf.forget(path)
    with ben.open() as sheaf:
        assert sheaf.own.buried(memory) is None
    ben.sync()
    with ben.open() as sheaf:
        assert sheaf.own.buried(memory) is not None
    with ana.open() as sheaf:
        sheaf.undo()
    ben.sync()
    with ben.open() as sheaf:
        assert sheaf.own.buried(memory) is None


@both
def test_a_hub_that_fails_when_it_is_told_leaves_all_as_it_was(machines: Sequence[ScopeOnMachine]) -> None:
    ana, _, _ = machines
    path = ana.write("Merger", SECRET)
    with ana.open() as sheaf:

        def fail(erasure: object) -> None:
            raise HubUnreachable("the hub does not answer")

        replica_of(sheaf).hub.erase = fail  # type: ignore[method-assign]
        with pytest.raises(HubUnreachable) as refused:
            erase(sheaf.own, path)
        assert refused.value.hint.startswith("Nothing was erased")
    assert ana.trust() == {path: "confirmed"}
    assert on_hub(ana, "Pelikan")


@both
def test_a_memory_that_was_renamed_is_erased_under_all_its_names(machines: Sequence[ScopeOnMachine]) -> None:
    ana, ben, cid = machines
    path = ana.write("Merger", SECRET)
    ben.sync()
    with ana.open() as sheaf:
        renamed = rename(sheaf, path, "project_acquisition.md")
    cid.sync()
    told = ana.json("erase", renamed, "--yes")
    assert (told["code"], len(told["waiting"])) == (0, 2)
    ben.sync()
    cid.sync()
    assert [one.files_with("Pelikan") for one in machines] == [[], [], []]
    assert ana.json("hub", "status", scoped=False)["scopes"][0]["open_erasures"] == {}
    assert not on_hub(ana, "Pelikan")
