"""Memories renamed, pinned, confirmed, moved to another scope, and all of it taken back."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from memsheaf import Sheaf
from memsheaf.errors import Changed, Duplicate, MemsheafError, NotWorth, ScopeRefused
from memsheaf.memory import Allow
from memsheaf.open_scope import TOGETHER
from memsheaf.sheaf import undo_together
from memsheaf.state.trust import accept
from memsheaf.transfer import erase, export, take_in
from memsheaf.web.memories import change_together
from renaming import rename


@pytest.fixture
def tabs(layers: Sheaf) -> str:
    return layers.only("project").write("Tabs", "indentation", "project", "Use tabs here.").path


def test_a_file_with_another_name_keeps_its_history(layers: Sheaf, tabs: str) -> None:
    sheaf = layers.only("project")
    first = sheaf.revise(tabs, "Use tabs", "We use tabs")
    path = rename(sheaf, tabs, "project_indentation.md")
    last = sheaf.revise(path, "We use", "All of us use")
    assert [commit.why.split()[0] for commit in sheaf.log(path)] == ["update", "rename", "update", "remember"]
    assert "+We use tabs here." in sheaf.own.diff(path, last.version, first.version)
    sheaf.own.restore(path, first.version)
    assert sheaf.read(path).body == "We use tabs here.\n"
    sheaf.write("Browser", "another one", "project", "Browsers are closed at night.", path=tabs)
    assert len(list(sheaf.log(path))) == 5  # what is new under an old name is not its history
    erase(sheaf.own, path)
    texts = [text for commit in sheaf.log() for step in commit.revisions for text in (step.old, step.new)]
    assert not any(b"se tabs here" in text for text in texts if text)
    assert [commit.why for commit in sheaf.log(tabs)] == ["remember Browser"]
    assert sheaf.read(tabs).name == "Browser"


def test_what_is_moved_comes_back_in_both_scopes_by_one_undo(layers: Sheaf, tabs: str) -> None:
    source, target = layers.only("project"), layers.only("user")
    other = source.write("Deploys", "when", "project", "We deploy on Fridays.").path
    target.write("Tabs", "in browsers", "project", "Close browser tabs at night.")
    added, removed = source.own.move([(tabs, source.read(tabs).version), (other, "")], target.own)
    assert [step.path for step in added.revisions] == ["project_tabs-2.md", other]
    assert removed.why.endswith(TOGETHER + added.id)
    assert not source.list()
    layers.undo()
    assert [row.path for row in source.list()] == [other, tabs]
    assert len(target.list()) == 1
    for which in (0, 1):
        both = source.own.move([(tabs, "")], target.own)
        undo_together((target, source)[which].own, both[which].id, layers.open_scopes())
        assert source.read(tabs).body == "Use tabs here.\n"
        assert len(target.list()) == 1


def test_what_is_about_one_person_goes_to_no_team_unless_they_insist(layers: Sheaf, tabs: str) -> None:
    path = layers.only("user").write("Tea", "which tea", "user", "They drink green tea.").path
    with Sheaf.open("team/blue", settings=layers.settings) as team:
        with pytest.raises(NotWorth, match="team/blue"):
            layers.only("user").own.move([(path, "")], team.own)
        with pytest.raises(NotWorth):
            team.write("Coffee", "which coffee", "user", "They drink no coffee.")
        export({"": layers.only("user").own}, exported := f"{layers.settings.home}/exported.zip")
        assert [why for _, why in take_in(team.own, exported).refused if "about one person" in why]
        assert (team.list(), len(layers.only("user").list())) == ([], 1)
        layers.only("project").own.move([(tabs, "")], team.own)
        coffee = team.write("Coffee", "when", "user", "They drink no coffee.", allow=Allow(anyway=True)).path
        assert team.revise(coffee, "no coffee", "coffee at noon").type == "user"  # it is there already


def test_what_is_done_in_several_scopes_is_taken_back_together(layers: Sheaf, tabs: str) -> None:
    mood = layers.only("user").write("Mood", "how to answer", "feedback", "Answer briefly.", trust="unconfirmed").path
    chosen = {layers.open_scope("project"): [(tabs, "")], layers.open_scope("user"): [(mood, "")]}

    def state() -> list[tuple[str, str, str, bool]]:
        return [
            (str(one.scope), row.path, row.trust, row.pinned) for one in layers.open_scopes() for row in one.list()
        ]

    before = state()
    for do in ("forget", "confirm", "pin", "unpin", "move"):
        done = change_together(chosen, do, layers.open_scope("user"))
        assert (done is None) == (do == "unpin")
        assert (state() == before) == (do == "unpin")
        if done:
            undo_together(done[0], done[1].id, layers.open_scopes())
        assert state() == before
    agent = layers.open_scope("agent/writer")
    done = change_together(chosen, "move", agent)
    assert done is not None
    assert (state(), len(agent.list())) == ([], 2)
    assert len(undo_together(agent, done[1].id, [*layers.open_scopes(), agent])) == 4
    assert (state(), len(agent.list())) == (before, 0)


def test_a_move_is_taken_back_and_done_again_and_is_always_in_one_place(layers: Sheaf, tabs: str) -> None:
    source, target = layers.open_scope("project"), layers.open_scope("user")
    other = layers.only("user").write("Mood", "how to answer", "feedback", "Answer briefly.").path
    agent = layers.open_scope("agent/writer")
    done = change_together({source: [(tabs, "")], target: [(other, "")]}, "move", agent)
    assert done is not None
    commits = [done[1].id]
    for count in (0, 2, 0, 2):
        undone = undo_together(agent, commits[-1], [source, target, agent, agent])
        assert len(undone) == 4
        commits.append(next(commit.id for where, commit in undone if where is agent))
        assert (len(agent.list()), len(source.list()) + len(target.list())) == (count, 2 - count)
    layers.only("user").write("Mood", "another one", "feedback", "Something else is here by now.", path=other)
    with pytest.raises(Changed):
        undo_together(agent, commits[-1], [source, target])
    assert {"Answer briefly.", "Use tabs here."} <= {
        one.read(row.path).body.strip() for one in (agent, source, target) for row in one.list()
    }


def test_an_undo_in_one_scope_alone_takes_back_both_sides(layers: Sheaf, tabs: str) -> None:
    layers.only("project").own.move([(tabs, "")], layers.only("user").own)
    with Sheaf(layers.settings, layers.cwd, by="user", scopes=("user",)) as alone:
        folder = os.path.basename(layers.only("project").root)  # that scope is not open here
        assert [commit.scope for commit in alone.undo(others=layers.open_scopes)] == [folder, "user"]
    assert layers.only("project").read(tabs).body == "Use tabs here.\n"
    assert not layers.only("user").list()


@pytest.mark.parametrize("do", ["forget", "confirm", "pin", "move"])
def test_what_fails_in_one_scope_is_done_in_none(layers: Sheaf, tabs: str, do: str) -> None:
    mood = layers.only("user").write("Mood", "how to answer", "feedback", "Answer briefly.", trust="unconfirmed").path
    agent = layers.open_scope("agent/writer")
    before = {
        one.root: [row[:8] for row in one.list()] for one in (layers.only("user"), layers.only("project"), agent)
    }
    chosen = {layers.open_scope("user"): [(mood, "")], layers.open_scope("project"): [(tabs, "0" * 64)]}
    with pytest.raises(Changed):
        change_together(chosen, do, agent)
    assert before == {
        one.root: [row[:8] for row in one.list()] for one in (layers.only("user"), layers.only("project"), agent)
    }


def test_a_move_that_cannot_remove_leaves_no_copy(layers: Sheaf, tabs: str) -> None:
    with pytest.raises(MemsheafError):
        layers.only("project").own.move([(tabs, ""), (tabs, "")], layers.only("user").own)
    assert (len(layers.only("project").list()), layers.only("user").list()) == (1, [])


def test_what_was_moved_is_erased_where_it_was_before(layers: Sheaf, tabs: str) -> None:
    def holds() -> list[str]:
        texts = [
            (str(one.scope), step.new or b"")
            for one in layers.open_scopes()
            for commit in one.store.history()
            for step in commit.revisions
        ]
        return list(dict.fromkeys(scope for scope, text in texts if b"se tabs here" in text))

    copy = layers.only("user").write("Copy", "kept", "user", "Something else.").path
    other = layers.only("user").write("Tabs", "x", "project", "Browser tabs.", path=tabs).path
    layers.only("project").revise(tabs, "Use", "We use")
    added, _ = layers.only("project").own.move([(tabs, "")], layers.only("user").own)
    back, _ = layers.only("user").own.move([(added.revisions[0].path, "")], layers.only("project").own)
    assert holds() == ["project", "user"]
    proof = erase(layers.only("project").own, back.revisions[0].path, others=layers.open_scopes())
    assert holds() == []
    assert (proof.gone, proof.versions) == (True, 3)
    assert [row.path for row in layers.only("user").list()] == sorted([other, copy])


def test_what_may_not_be_moved(layers: Sheaf, tabs: str, work: Path) -> None:
    source, target = layers.only("project"), layers.only("user")
    with pytest.raises(ScopeRefused):
        source.own.move([(tabs, "")], source.own)
    with pytest.raises(Changed):
        source.own.move([(tabs, "0" * 64)], target.own)
    fact = (
        "Deploys",
        "when we deploy",
        "project",
        "We deploy on Friday mornings, after the standup, from the blue box.",
    )
    path = source.write(*fact).path
    target.write(*fact)
    with pytest.raises(Duplicate):
        source.own.move([(path, "")], target.own)
    assert source.own.find(path)


def test_what_came_with_a_repository_is_unconfirmed_where_it_goes(layers: Sheaf, work: Path) -> None:
    (work / ".git").mkdir()
    (work / ".memory").mkdir()
    accept(layers.settings.home, str(work))
    theirs = "---\nname: Theirs\ndescription: came along\ntype: project\n---\nSomething that they say.\n"
    (work / ".memory" / "project_theirs.md").write_text(theirs)
    with Sheaf.open(settings=layers.settings, cwd=str(work), by="user") as here:
        assert here.only("project").read("project_theirs.md").trust == "shared"
        here.only("project").own.move([("project_theirs.md", "")], here.only("user").own)
        assert here.only("user").read("project_theirs.md").trust == "unconfirmed"
