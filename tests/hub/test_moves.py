"""A scope with a hub is moved, exported, gated and consolidated only in ways that the hub knows of."""

from __future__ import annotations

import json
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from hub.machines import ScopeOnMachine, replica_of
from hub.postgres_server import Team
from memsheaf.errors import Busy, SecretFound, StoreFailed
from memsheaf.recall.turns import Message, Turn
from memsheaf.scope import Scope
from memsheaf.sheaf import Consolidation, Sheaf
from memsheaf.store import ABSENT, Change, Commit, Revision, version_of
from memsheaf.store.folder import FolderStore
from memsheaf.tools import Tools
from memsheaf.transfer import export, take_in
from renaming import rename

TEAM = "team/acme"
TOKEN = "ghp_" + "x7Kq9LmN2pRs4TuV6wYz8AbCdEfGhJ1k3M5n"


@pytest.fixture
def join(tmp_path: Path, team: Team) -> Callable[..., ScopeOnMachine]:
    """A machine that joined the team, by the name of its member."""

    def join(member: str, *, offline: str = "") -> ScopeOnMachine:
        machine = ScopeOnMachine(tmp_path / member, TEAM, team, member, offline=offline)
        machine.join()
        return machine

    return join


@pytest.fixture
def own(tmp_path: Path, bare: Path) -> Callable[..., ScopeOnMachine]:
    """A machine of a person whose scope is on git."""

    def own(name: str, scope: str = "user") -> ScopeOnMachine:
        machine = ScopeOnMachine(tmp_path / name, scope, bare)
        machine.join()
        return machine

    return own


def agree(*machines: ScopeOnMachine) -> None:
    """Let all sync, and check that all have the same files and nothing waits."""
    for one in (*machines, *machines):
        one.sync()
    texts = []
    for one in machines:
        with one.open() as sheaf:
            texts.append({row.path: sheaf.read(row.path).text for row in sheaf.list()})
            assert replica_of(sheaf).state().pending == ()
    assert all(found == texts[0] for found in texts)


def test_a_project_with_a_hub_is_not_moved_into_its_repository(own: Callable[..., ScopeOnMachine]) -> None:
    laptop = own("laptop", "project")
    work = laptop.folder / "work"
    laptop.run("hub", "remove", "-s", "project", scoped=False)
    added = laptop.run("hub", "add", str(laptop.place), "-s", "project", "--name", "shop", scoped=False)
    assert (added[0], "/hub.git as shop: 0 memories" in added[1]) == (0, True), added
    laptop.run("hub", "remove", "-s", "project", scoped=False)
    subprocess.run(["git", "init", "-q"], cwd=work, check=True)
    laptop.join()  # the project of the repository
    laptop.write("Deploy day", "We deploy on Fridays.")
    before = sorted(str(path) for path in laptop.folder.rglob("*.md"))
    for words in (("init",), ("init", "--dry-run"), ("init", "--undo")):
        code, said = laptop.run(*words, scoped=False)
        assert (code, "memsheaf hub remove -s project" in said) == (1, True), (words, said)
    assert sorted(str(path) for path in laptop.folder.rglob("*.md")) == before
    assert laptop.run("hub", "remove", "-s", "project", scoped=False)[0] == 0
    code, said = laptop.run("init", "--yes", scoped=False)
    assert code == 0, said
    assert (work / ".memory/project_deploy-day.md").exists()
    assert "has no hub" in laptop.run("hub", "sync", "-s", "project", scoped=False)[1]


def test_a_project_that_is_renamed_keeps_its_hub_and_what_waits_for_it(own: Callable[..., ScopeOnMachine]) -> None:
    laptop = own("laptop", "project")
    removed = laptop.write("Deploy day", "We deploy on Fridays.")
    laptop.write("Tests", "The tests need Postgres 16.")
    bare = laptop.place
    assert isinstance(bare, Path)
    away = bare.rename(bare.with_name("away.git"))
    assert laptop.run("forget", removed)[0] == 0
    laptop.write("Port", "The proxy listens on port 9090.")
    away.rename(bare)
    before = laptop.work
    laptop.rename_work("other")

    code, said = laptop.run("restore", "--from", str(before), scoped=False)

    assert (code, "Restored 2 files" in said) == (0, True), said
    assert laptop.run("hub", "sync", "-s", "project", scoped=False)[0] == 0
    desktop = ScopeOnMachine(laptop.folder.with_name("desktop"), "project", bare)
    desktop.join()
    agree(laptop, desktop)
    with desktop.open() as sheaf:
        assert {row.name for row in sheaf.list()} == {"Tests", "Port"}
    assert laptop.run("hub", "remove", "-s", "project", scoped=False)[0] == 0


def test_where_a_renamed_project_with_a_hub_cannot_move_the_hint_is_a_way_out(
    own: Callable[..., ScopeOnMachine],
) -> None:
    laptop = own("laptop", "project")
    laptop.write("Tests", "The tests need Postgres 16.")
    assert laptop.run("list")[0] == 0
    before = laptop.work
    laptop.rename_work("other")
    laptop.write("Port", "The proxy listens on port 9090.")
    code, said = laptop.run("restore", "--from", str(before), scoped=False)
    assert (code, "`memsheaf hub remove -s project`" in said, "under the old name" in said) == (1, True, True), said
    laptop.rename_work("work")
    assert laptop.run("hub", "remove", "-s", "project", scoped=False)[0] == 0
    laptop.rename_work("other")
    assert laptop.run("restore", "--from", str(before), scoped=False)[0] == 0
    with laptop.open() as sheaf:
        assert {row.name for row in sheaf.list()} == {"Tests", "Port"}


def test_no_plain_folder_is_written_behind_the_back_of_a_hub(own: Callable[..., ScopeOnMachine]) -> None:
    laptop = own("laptop")
    path = laptop.write("Deploy day", "We deploy on Fridays.")
    plain, change = FolderStore(str(laptop.root)), Change("a.md", b"text", ABSENT)
    (laptop.root / path).unlink()
    for work in (
        lambda: plain.commit([change], by="user"),
        lambda: plain.adopt(None),
        lambda: plain.erase(path, by="user"),
        lambda: plain.undo(by="user"),
        plain.prune,
    ):
        with pytest.raises(StoreFailed, match="has got a hub since it was opened"):
            work()
    assert laptop.sync().pushed[0].by == "outside"


def test_an_export_names_what_is_others_and_has_no_password(join: Callable[..., ScopeOnMachine]) -> None:
    ana, ben = join("ana"), join("ben")
    theirs, mine = ana.write("Deploy day", "We deploy on Fridays."), ben.write("Staging", "It is on port 8080.")
    ben.sync()
    target = ben.folder / "all.zip"
    assert ben.run("export", str(target), "--history")[0] == 0
    with zipfile.ZipFile(target) as archive:
        names = archive.namelist()
        assert not [name for name in names if "hub" in name]
        listed = next(name for name in names if "shared" in name.lower())
        assert json.loads(archive.read(listed)) == [theirs]
        assert b"postgresql" not in b"".join(map(archive.read, names))
    with ben.open(scope="user") as user:
        assert {theirs, mine} <= {*take_in(user.own, str(target), history=True).added}
        assert {row.path: row.trust for row in user.list()} == {theirs: "unconfirmed", mine: "confirmed"}


def test_edits_of_all_kinds_go_through_the_hub(own: Callable[..., ScopeOnMachine], tmp_path: Path) -> None:
    laptop, desktop = own("laptop"), own("desktop")
    path = laptop.write("Deploy day", "We deploy on Fridays.")
    with laptop.open() as sheaf:
        first = sheaf.read(path).version
        sheaf.revise(path, "Fridays", "Mondays")
        sheaf.own.restore(path, first)
        renamed = rename(sheaf, path, "project_release-day.md")
        sheaf.own.pin([(renamed, "")])
        export({"": sheaf.own}, str(tmp_path / "out.zip"), history=True)
    agree(laptop, desktop)
    with desktop.open() as sheaf:
        sheaf.forget(renamed)
        take_in(sheaf.own, str(tmp_path / "out.zip"), history=True)
    agree(laptop, desktop)
    with laptop.open() as sheaf:
        memory = sheaf.read(renamed)
        sheaf.put(renamed, memory.text.replace("Fridays", "Sundays"), expect=memory.version)
        assert renamed in take_in(sheaf.own, str(tmp_path / "out.zip"), replace=True).replaced
    agree(laptop, desktop)
    with desktop.open() as sheaf, desktop.open(scope="agent/bot") as bot:
        sheaf.own.move([(renamed, "")], bot.own)
        moved = {row.path for row in bot.list()}
    assert moved == {renamed}
    agree(laptop, desktop)
    assert laptop.trust() == {}
    assert laptop.run("undo")[0] == 0  # the import
    agree(laptop, desktop)


def test_a_journal_that_is_wrong_about_the_hub_is_brought_in_line(own: Callable[..., ScopeOnMachine]) -> None:
    laptop, desktop = own("laptop"), own("desktop")
    path = laptop.write("Deploy day", "We deploy on Fridays.")
    ghost = Revision("ghost.md", ABSENT, version_of(b"boo"), None, b"boo")
    with laptop.open() as sheaf:  # a past that no machine had
        replica_of(sheaf).graft([Commit("abcdef", "2026-11-17T10:00:00Z", "user", "", (ghost,))])
        replica_of(sheaf).adopt(None)
        assert replica_of(sheaf).state().pending
    agree(laptop, desktop)
    assert desktop.trust() == {path: "confirmed"}


def test_a_move_out_of_a_team_leaves_others_words_unconfirmed(join: Callable[..., ScopeOnMachine]) -> None:
    ana, ben = join("ana"), join("ben")
    path = ana.write("Deploy day", "We deploy on Fridays.")
    ben.sync()
    with ben.open() as sheaf, ben.open(scope="user") as user:
        sheaf.own.move([(path, "")], user.own)
        assert [row.trust for row in user.list()] == ["unconfirmed"]
    ana.sync()
    assert ana.trust() == {}


def test_what_holds_a_secret_is_not_sent_whichever_way_it_comes(join: Callable[..., ScopeOnMachine]) -> None:
    ana, ben = join("ana"), join("ben")
    path = ana.write("Deploy day", "We deploy on Fridays.")
    file = ana.root / path
    clean = file.read_text()
    file.write_text(clean.replace("Fridays", f"Fridays with {TOKEN}"))
    assert ana.sync().held.keys() == {path}
    assert "not sent to the hub: it holds" in ana.run("list")[1]
    assert "not sent to the hub: it holds" in ana.run("show", path)[1]
    assert "not sent to the hub" in ana.json("list")["unsent"][path]
    ben.sync()
    assert ben.files_with(TOKEN) == []
    with ana.open() as sheaf:
        held = sheaf.read(path).version
    file.write_text(clean.replace("Fridays", "Mondays"))
    assert ana.sync().held == {}
    with ana.open() as sheaf:
        with pytest.raises(SecretFound):
            sheaf.own.restore(path, held)  # it never was on the hub
        edit = next(one.id for one in sheaf.log(path) if TOKEN.encode() in (one.revisions[0].old or b""))
        with pytest.raises(SecretFound):
            sheaf.undo(edit)
    ben.sync()
    assert ben.files_with(TOKEN) == []
    assert "Mondays" in (ben.root / path).read_text()
    assert ana.run("list")[1].count("hub") == 0


def test_without_the_hub_each_says_whether_something_was_saved(join: Callable[..., ScopeOnMachine]) -> None:
    ana, ben = join("ana"), join("ben", offline="queue")
    ana.cut()
    words = ("remember", "We deploy on Fridays, always.", "--name", "Deploy day", "--type", "project")
    code, said = ana.run(*words)
    assert (code, "nothing was saved here" in said, "memsheaf hub status" in said) == (1, True, True), said
    assert ana.trust() == {}
    settings = ana.settings._replace(policies=((TEAM, "auto"),))
    with Sheaf.open(settings=settings, cwd=str(ana.folder / "work"), by="agent", scopes=[TEAM]) as memory:
        about = {"name": "Deploy day", "description": "When we deploy", "type": "project"}
        told = Tools(memory).call("memory_write", {"content": "We deploy on Fridays.", **about})
    assert "nothing was saved here" in told
    assert "Reading goes on." in told

    ben.cut()
    code, said = ben.run(*words)
    assert (code, "changes wait here for " in said) == (0, True), said
    assert "(waits for the hub)" in ben.run("list")[1]
    [path] = ben.trust()
    assert "waits for the hub" in ben.run("show", path)[1]
    assert ben.json("show", path)["unsent"] == "waits for the hub"
    ben.mend()
    ben.sync()
    assert "hub" not in ben.run("list")[1]
    ana.mend()
    ana.sync()
    assert ana.trust() == {path: "shared"}


def test_a_team_is_consolidated_by_a_person_and_by_one_machine_at_a_time(join: Callable[..., ScopeOnMachine]) -> None:
    ana, ben = join("ana"), join("ben")
    ana.write("Deploy day", "We deploy on Fridays.")
    with ana.open() as sheaf:
        gates = {gate.name: gate for gate in Consolidation(sheaf).gates()}
        assert not gates["enabled"].is_open
        assert "by a person" in gates["enabled"].why
        assert Consolidation(sheaf).run_if_due()[1] is None
        chosen = ana.settings._replace(policies=((TEAM, "auto"),))
        with Sheaf.open(TEAM, settings=chosen, cwd=str(ana.folder), by="user") as other:
            assert {gate.name: gate for gate in Consolidation(other).gates()}["enabled"].is_open
        with ben.open() as there, replica_of(there).lock("consolidate"):
            with pytest.raises(Busy):
                Consolidation(sheaf).run(apply=True)
            Consolidation(sheaf).run()  # a plan disturbs nobody
        Consolidation(sheaf).run(apply=True)


def test_nothing_goes_to_a_team_by_itself(join: Callable[..., ScopeOnMachine]) -> None:
    ana = join("ana")
    assert ana.settings.policy_of(Scope.parse(TEAM)) == "suggest"
    ana.run("session", "start", "Move the login", scoped=False)
    ana.run("session", "note", "Deploy day: billing goes out on Fridays", "--section", "key", scoped=False)
    [item] = ana.json("promote", scoped=False)["items"]
    code, said = ana.run("promote", item["id"], "--to", TEAM, scoped=False)
    assert (code, ana.trust()) == (1, {}), said
    with ana.open(by="extraction") as sheaf:
        sheaf.learn(
            Turn("c1", (Message("user", "Remember that we deploy on Fridays."), Message("assistant", "Yes.")))
        )
        sheaf.distil("none")
        assert ana.trust() == {}
        assert sheaf.learning.queue.all()  # a person decides
