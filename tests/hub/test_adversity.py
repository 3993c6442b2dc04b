"""What a replica meets that nobody planned: processes that overlap, states that were left behind, hostile members."""

from __future__ import annotations

import io
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from subprocess import PIPE

import psycopg
import pytest

from hub.git_remotes import make_bare
from hub.machines import ScopeOnMachine
from hub.postgres_server import Team
from hub.test_replica import SECRET, Machines, consistent, files, machine, plug, put, save, sync, version_at
from memsheaf.cli import main
from memsheaf.errors import HubRefused, HubRestored, HubUnreachable
from memsheaf.hub import Erasure, HubSettings, Pulled
from memsheaf.hub.git import GitRemote
from memsheaf.hub.postgres import PostgresHub
from memsheaf.hub.replica import Replica
from memsheaf.hub.replica_state import add_ahead, read_ahead, remove_hub, write_settings
from memsheaf.store import ABSENT, HISTORY, Change, version_of
from memsheaf.store.folder import FolderStore
from memsheaf.store.safe_dir import Folder

__all__ = ["machine"]  # the fixture
PUSH = "SELECT * FROM memsheaf.push(%s, %s, %s, %s, %s, %s, %s, %s::text[], %s::text[], %s::text[], %s::bytea[])"


def test_a_file_that_is_held_is_journalled_once(machine: Machines) -> None:
    here = machine("m1")
    save(here, "a.md", SECRET)
    save(here, "b.md", b"plain")
    sync(here)
    before = list(here.history())
    for _ in range(3):
        sync(here)
    assert list(here.history()) == before
    save(here, "a.md", SECRET + b" changed")
    save(here, "c.md", b"in the same commit")
    sync(here)
    assert {*here.state().held} == {"a.md"}
    assert len(here.state().pending) == 1
    other = machine("m2")
    assert files(other) == {"b.md": b"plain", "c.md": b"in the same commit"}


def test_what_a_killed_rejoin_left_does_not_keep_changes_out(machine: Machines) -> None:
    one, two = machine("m1"), machine("m2")
    made = put(one, "a.md", b"one")
    two.sync()
    with Folder.open(one.root) as folder, folder.folder(HISTORY) as history:
        history.unlink("hub-state.json")
        add_ahead(history, made.id, ["a.md"])
    one.sync()
    put(two, "a.md", b"two")
    one.sync()
    assert files(one) == {"a.md": b"two"}


def test_a_text_that_somebody_went_back_to_is_not_replaced_by_a_rejoin(machine: Machines) -> None:
    one, two = machine("m1"), machine("m2")
    put(one, "a.md", b"first")
    put(one, "a.md", b"second")
    sync(two)
    plug(two).out = "all"
    one.undo(by="user")
    save(two, "a.md", b"third")
    plug(two).out = ""
    two.rejoin()
    consistent(one, two)
    assert files(one) == {"a.md": b"first", "a-2.md": b"third"}


@pytest.mark.parametrize("out", ["all", "push"])
@pytest.mark.parametrize("is_edited_first", [False, True])
def test_a_rejoin_keeps_what_was_removed_here_and_waits_whether_it_fails_or_not(
    machine: Machines, out: str, is_edited_first: bool
) -> None:
    one, two = machine("m1", queue=True), machine("m2")
    put(two, "a.md", b"to be removed")
    put(two, "b.md", b"stays")
    sync(one)
    plug(one).out = out
    if is_edited_first:
        put(one, "a.md", b"edited")
    put(one, "a.md", None)
    with pytest.raises(HubUnreachable):
        one.rejoin()
    assert one.unsent() == {"a.md": "waits for the hub"}
    plug(one).out = ""
    one.rejoin()
    consistent(one, two)
    assert files(two) == {"b.md": b"stays"}


def test_what_is_removed_while_a_rejoin_has_failed_stays_removed(machine: Machines) -> None:
    one, two = machine("m1", queue=True), machine("m2")
    put(two, "a.md", b"to be removed")
    sync(one)
    plug(one).out = "all"
    with pytest.raises(HubUnreachable):
        one.rejoin()
    put(one, "a.md", None)
    plug(one).out = ""
    consistent(one, two)
    assert files(two) == {}


def test_a_rejoin_restores_and_reports_what_was_removed_here_and_changed_on_the_hub(machine: Machines) -> None:
    one, two = machine("m1", queue=True), machine("m2")
    put(two, "a.md", b"first")
    sync(one)
    plug(one).out = "all"
    put(one, "a.md", None)
    put(two, "a.md", b"second")
    plug(one).out = ""
    assert [(told.path, told.copy) for told in one.rejoin().conflicts] == [("a.md", "")]
    consistent(one, two)
    assert files(one) == {"a.md": b"second"}


@pytest.mark.parametrize("is_noted", [True, False])
def test_a_memory_with_a_name_that_was_erased_elsewhere_outlives_the_first_sync(
    machine: Machines, is_noted: bool
) -> None:
    one, two, three = machine("m1"), machine("m2", join=False), machine("m3")
    put(one, "a.md", b"erased")
    sync(three)
    one.erase("a.md", by="user")
    (put if is_noted else save)(two, "a.md", b"another memory")
    sync(two)
    consistent(one, two, three)
    assert files(three) == {"a.md": b"another memory"}


LONG = f"{'é' * 50}.md"  # the longest name there is


@pytest.mark.parametrize("name", ["a.md", LONG])
def test_a_file_that_a_person_made_in_place_of_a_removed_one_outlives_its_erasure_elsewhere(
    machine: Machines, name: str
) -> None:
    one, two = machine("m1"), machine("m2")
    put(one, name, b"erased")
    sync(two)
    put(two, name, None)
    one.erase(name, by="user")
    save(two, name, b"made by hand")
    two.sync()
    consistent(one, two)
    assert files(one) == {name: b"made by hand"}


@pytest.mark.parametrize("queue", [True, False])
def test_a_change_on_an_edit_that_nobody_noted_is_not_told_as_changed_when_the_answer_is_lost(
    machine: Machines, queue: bool
) -> None:
    one, two = machine("m1", queue=queue), machine("m2")
    put(one, "a.md", b"first")
    sync(two)
    two.erase("a.md", by="user")
    save(one, "a.md", None)
    plug(one).out = "after"
    if queue:
        made = put(one, "a.md", b"second")
        assert next(one.history("a.md")).id == made.id
    else:
        with pytest.raises(HubUnreachable):
            put(one, "a.md", b"second")
    plug(one).out = ""
    sync(one)
    consistent(one, two)
    assert files(two) == {"a.md": b"second"}
    assert not one.state().pending


def test_a_change_whose_answer_was_lost_is_not_kept_beside_the_one_that_replaced_it(machine: Machines) -> None:
    one, two = machine("m1", queue=True), machine("m2")
    put(one, "a.md", b"first")
    put(one, "b.md", b"erased: git begins its history anew")
    one.erase("b.md", by="user")
    plug(one).out = "after"
    put(one, "a.md", b"second")
    plug(one).out = ""
    sync(two)
    put(two, "a.md", b"third")
    sync(one)
    consistent(one, two)
    assert files(one) == {"a.md": b"third"}


@pytest.mark.parametrize("news", [b"news", None])
def test_a_text_that_is_as_it_was_again_is_replaced_by_the_hubs(machine: Machines, news: bytes | None) -> None:
    one, two = machine("m1"), machine("m2", queue=True)
    put(one, "a.md", b"text")
    sync(two)
    plug(two).out = "all"
    put(two, "a.md", b"changed")
    two.undo(by="user")
    put(two, "b.md", b"made")
    put(two, "b.md", None)
    put(one, "a.md", b"more")
    put(one, "a.md", news)
    put(one, "b.md", b"b")
    plug(two).out = ""
    sync(two)
    assert not two.state().told
    consistent(one, two)
    assert files(one) == {"a.md": b"news", "b.md": b"b"} if news else {"b.md": b"b"}


def test_a_secret_that_was_taken_out_again_is_not_pushed_with_what_waited(machine: Machines) -> None:
    one, two = machine("m1"), machine("m2", queue=True)
    put(one, "a.md", b"text")
    sync(two)
    plug(two).out = "all"
    for text in (SECRET, b"text without"):
        save(two, "a.md", text)
        two.adopt(["a.md"])
    assert len(two.state().pending) == 2
    plug(two).out = ""
    two.sync()
    texts = [step.new for came in one.sync().pulled for step in came.commit.revisions]
    assert texts == [b"text", b"text without"]


def test_a_secret_that_somebody_insists_on_is_saved_here_alone(machine: Machines) -> None:
    one, two = machine("m1"), machine("m2")
    put(one, "a.md", SECRET)
    put(one, "b.md", b"plain")
    put(one, "a.md", SECRET + b" again")
    two.sync()
    assert files(two) == {"b.md": b"plain"}
    one.sync()
    assert {*one.state().held} == {"a.md"}
    assert files(one)["a.md"] == SECRET + b" again"


def test_a_commit_that_is_too_large_for_a_hub_is_split(machine: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("exchange", "merge"):
        monkeypatch.setattr(f"memsheaf.hub.{module}.LARGEST", 5)
    monkeypatch.setattr("memsheaf.hub.exchange.PORTION", 3)
    one, two = machine("m1"), machine("m2")
    one.commit([Change(f"{number}.md", b"text %d" % number, ABSENT) for number in range(7)], by="import")
    one.sync()
    put(one, "after.md", b"pushed")
    consistent(one, two)
    assert len(files(two)) == 8


def test_a_memory_that_the_hub_does_not_take_keeps_no_other_back(
    machine: Machines, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    one, two = machine("m1"), machine("m2", queue=True)
    if isinstance(plug(one).hub, GitRemote):
        hook = tmp_path / "hub.git" / "hooks" / "pre-receive"
        hook.parent.mkdir(exist_ok=True)
        look = (
            "while read old new ref; do git rev-list --objects $new | cut -d' ' -f1 | xargs -n1 git cat-file -p; done"
        )
        hook.write_text(f"#!/bin/sh\n{look} | grep -aq FORBIDDEN && exit 1\nexit 0\n")
        hook.chmod(0o755)
    else:
        team: Team = request.getfixturevalue("team")
        with psycopg.connect(team.server.url(database=team.database)) as connection:
            namespace = f"namespace <> '{team.namespace}'"
            refused = (
                f"ALTER TABLE memsheaf.texts ADD CONSTRAINT {team.name} CHECK ({namespace} OR data <> 'FORBIDDEN')"
            )
            connection.execute(refused)
    plug(two).out = "all"
    for number in range(9):
        put(two, f"{number}.md", b"FORBIDDEN" if number == 4 else b"text %d" % number)
    changes = [Change(path, text, ABSENT) for path, text in (("x.md", b"FORBIDDEN"), ("y.md", b"beside it"))]
    two.commit(changes, by="user")
    put(two, "x.md", b"allowed by now")
    plug(two).out = ""
    synced = two.sync()
    assert [*synced.held] == ["4.md"]
    assert "does not take it" in synced.held["4.md"]
    assert (synced.refused, synced.pending) == ("", 0)
    put(two, "later.md", b"later")
    one.sync()
    assert {*files(one)} == {"later.md", "x.md", "y.md", *(f"{number}.md" for number in range(9) if number != 4)}
    put(two, "4.md", b"allowed")
    consistent(two, one)
    assert files(one)["4.md"] == b"allowed"


def test_a_removal_that_comes_while_a_file_cannot_be_read_is_carried_out_later(
    machine: Machines, tmp_path: Path
) -> None:
    one, two = machine("m1"), machine("m2")
    put(one, "a.md", b"text")
    sync(two)
    Path(two.root, "a.md").rename(tmp_path / "aside")
    Path(two.root, "a.md").symlink_to(tmp_path / "aside")
    put(one, "a.md", None)
    assert "a.md" in two.sync().left
    Path(two.root, "a.md").unlink()
    (tmp_path / "aside").rename(Path(two.root, "a.md"))
    consistent(two, one)
    assert not files(two)


@pytest.mark.parametrize("is_replaced", [True, False])
def test_a_memory_is_placed_when_what_stood_in_its_way_is_gone(machine: Machines, is_replaced: bool) -> None:
    one, two = machine("m1"), machine("m2")
    Path(two.root, "a.md").mkdir()
    put(one, "a.md", b"text")
    assert "a.md" in two.sync().left
    assert "a.md" in two.sync().left
    Path(two.root, "a.md").rmdir()
    if is_replaced:
        put(one, "a.md", b"another text")
    assert not two.sync().left
    consistent(one, two)
    assert files(two)


@pytest.mark.parametrize("is_changed", [True, False])
def test_what_waits_is_not_removed_for_all_when_its_file_cannot_be_read(machine: Machines, is_changed: bool) -> None:
    one, two = machine("m1"), machine("m2", queue=True)
    put(one, "a.md", b"a")
    put(one, "b.md", b"b")
    sync(two)
    plug(two).out = "all"
    put(two, "a.md", b"a of two")
    put(two, "b.md", b"b of two")
    save(two, "a.md", b"too large " * 150_000)
    put(one, "b.md", b"b of one")
    if is_changed:
        put(one, "a.md", b"a of one")
    plug(two).out = ""
    sync(two)
    one.sync()
    others = {"a.md": b"a of one", "a-2.md": b"a of two"} if is_changed else {"a.md": b"a of two"}
    assert files(one) == {**others, "b.md": b"b of one", "b-2.md": b"b of two"}
    assert ("a.md" in two.state().left) == is_changed
    save(two, "a.md", b"small again")
    consistent(two, one)
    assert {b"small again", *others.values()} - {b"a of two"} <= {*files(one).values()}


def test_an_erasure_waits_for_what_stands_in_its_way_and_nothing_else_does(machine: Machines, tmp_path: Path) -> None:
    one, two = machine("m1"), machine("m2")
    put(one, "a.md", b"private")
    sync(two)
    place = Path(two.root, "a.md")
    place.unlink()
    place.symlink_to(tmp_path)
    one.erase("a.md", by="user")
    put(one, "b.md", b"news")
    assert "a.md" in two.sync().left
    assert two.read("b.md").data == b"news"
    assert [*two.state().proofs.values()] == ["a.md"]
    place.unlink()
    assert not two.sync().left
    assert [*two.state().proofs.values()] == [""]
    assert not list(two.history("a.md"))


def test_a_memory_that_was_erased_elsewhere_does_not_live_on_under_a_name_it_got_meanwhile(machine: Machines) -> None:
    one, two = machine("m1"), machine("m2", queue=True)
    put(one, "a.md", b"private")
    sync(two)
    plug(two).out = "all"
    at = version_at(two, "a.md")
    two.commit([Change("a.md", None, at), Change("b.md", b"private.", ABSENT)], by="user", why="rename a.md to b.md")
    put(two, "c.md", b"another")
    one.erase("a.md", by="user")
    plug(two).out = ""
    assert "b.md" in two.sync().erased
    consistent(one, two)
    assert files(one) == {"c.md": b"another"}


def test_a_memory_made_anew_and_changed_before_its_erasure_is_heard_of_is_there_once(machine: Machines) -> None:
    one, two = machine("m1"), machine("m2", queue=True)
    put(one, "a.md", b"erased")
    sync(two)
    put(two, "a.md", None)
    one.erase("a.md", by="user")
    put(two, "a.md", b"anew")
    save(two, "a.md", b"changed")
    consistent(two, one)
    earlier = {"a.md": b"anew", "a-2.md": b"changed"}  # with the history, git drops what says that it was replaced
    assert files(one) == (earlier if isinstance(plug(one).hub, GitRemote) else {"a.md": b"changed"})


def test_an_undo_of_what_was_erased_meanwhile_is_journalled_once(machine: Machines) -> None:
    one, two = machine("m1"), machine("m2")
    one.commit([Change("a.md", b"a", ABSENT), Change("b.md", b"b", ABSENT)], by="user")
    two.sync()
    one.commit([Change(path, None, version_at(one, path)) for path in ("a.md", "b.md")], by="user")
    two.sync()
    two.erase("b.md", by="user")
    one.undo(by="user")
    consistent(one, two)
    ids = [commit.id for commit in one.history()]
    assert len(ids) == len({*ids})
    assert files(one) == {"a.md": b"a", "b.md": b"b"}


def test_undo_goes_on_behind_a_change_that_lost_against_another(machine: Machines) -> None:
    one, two = machine("m1"), machine("m2", queue=True)
    put(two, "earlier.md", b"earlier")
    plug(two).out = "all"
    put(two, "a.md", b"of two")
    put(one, "a.md", b"of one")
    plug(two).out = ""
    assert sync(two) == [("a.md", "a-2.md")]
    two.undo(by="user")
    two.undo(by="user")
    assert files(two) == {"a.md": b"of one"}


def test_the_name_that_a_memory_has_while_its_own_is_erased_is_on_no_hub(machine: Machines) -> None:
    one, two = machine("m1"), machine("m2", queue=True)
    put(one, "a.md", b"erased")
    sync(two)
    put(two, "a.md", None)
    plug(two).out = "all"
    put(two, "a.md", b"anew here")
    one.sync()
    one.erase("a.md", by="user")
    put(one, "a.md", b"anew there")
    plug(two).out = ""
    consistent(two, one)
    assert files(one) == {"a.md": b"anew there", "a-2.md": b"anew here"}
    assert {step.path for commit in plug(one).hub.log() for step in commit.commit.revisions} <= {"a.md", "a-2.md"}


def test_a_hub_that_lost_what_was_pushed_since_the_last_pull_is_told(
    machine: Machines, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    one, two = machine("m1"), machine("m2")
    backup = tmp_path / "backup.git"
    is_git = isinstance(plug(one).hub, GitRemote)
    if is_git:
        shutil.copytree(tmp_path / "hub.git", backup)
    made = put(one, "a.md", b"acknowledged")
    if is_git:
        shutil.rmtree(tmp_path / "hub.git")
        shutil.copytree(backup, tmp_path / "hub.git")
    else:
        team: Team = request.getfixturevalue("team")
        with psycopg.connect(team.server.url(database=team.database)) as connection:
            for table, key in (("commits", "id"), ("revisions", "commit"), ("documents", "commit")):
                connection.execute(f"DELETE FROM memsheaf.{table} WHERE {key} = %s", [made.id])
    with pytest.raises(HubRestored):
        one.sync()
    put(two, "a.md", b"of another")
    with pytest.raises(HubRestored):
        one.sync()
    assert "lacks what was" in one.state().failed
    one.rejoin()
    assert not one.state().failed
    consistent(one, two)
    assert {*files(two).values()} == {b"acknowledged", b"of another"}


def test_a_change_whose_answer_was_lost_and_that_was_erased_since_does_not_come_back(machine: Machines) -> None:
    one, two = machine("m1", queue=True), machine("m2")
    plug(one).out = "after"
    put(one, "a.md", b"erased")
    plug(one).out = ""
    sync(two)
    two.erase("a.md", by="user")
    consistent(one, two)
    assert files(one) == {}


def test_a_memory_that_was_removed_here_does_not_come_back_with_the_erasure_of_another_of_its_name(
    machine: Machines,
) -> None:
    one, two = machine("m1"), machine("m2")
    put(one, "a.md", b"erased")
    one.erase("a.md", by="user")
    put(two, "a.md", b"another")
    save(two, "a.md", None)
    two.adopt({"a.md"})
    consistent(two, one)
    assert files(two) == {}


def test_a_removal_of_what_was_pushed_without_an_answer_is_not_taken_back(machine: Machines) -> None:
    one, two = machine("m1", queue=True), machine("m2")
    plug(one).out = "after"
    put(one, "a.md", b"removed")
    plug(one).out = ""
    sync(two)
    put(two, "b.md", b"erased: git begins its history anew, without the ids of commits")
    two.erase("b.md", by="user")
    save(one, "a.md", None)
    consistent(one, two)
    assert files(two) == {}


def test_a_machine_that_joins_again_has_no_older_version_of_what_was_erased(machine: Machines) -> None:
    one, two = machine("m1"), machine("m2")
    put(one, "a.md", b"first")
    sync(two)
    plug(two).out = "all"
    with pytest.raises(HubUnreachable):
        two.rejoin()
    put(one, "a.md", b"second")
    put(one, "b.md", b"erased: git begins its history anew, without the first text")
    one.erase("b.md", by="user")
    one.erase("a.md", by="user")
    plug(two).out = ""
    consistent(two, one)
    assert files(one) == {}


def test_a_name_that_cannot_be_longer_is_cut_for_the_text_beside_it(machine: Machines) -> None:
    one, two = machine("m1"), machine("m2")
    put(one, LONG, b"1")
    sync(two)
    put(one, LONG, b"theirs")
    save(two, LONG, b"ours")
    assert sync(two) == [(LONG, f"{'é' * 49}-2.md")]
    consistent(one, two)


def test_nothing_is_erased_here_alone_while_a_rejoin_waits_for_the_hub(machine: Machines) -> None:
    one, two = machine("m1"), machine("m2")
    put(one, "a.md", b"to be erased")
    sync(two)
    plug(two).out = "all"
    with pytest.raises(HubUnreachable):
        two.rejoin()
    with pytest.raises(HubUnreachable):
        two.erase("a.md", by="user")
    assert files(two) == {"a.md": b"to be erased"}
    plug(two).out = ""
    two.erase("a.md", by="user")
    consistent(one, two)
    assert files(one) == {}


def test_a_text_that_two_machines_keep_beside_the_hubs_is_there_once(machine: Machines) -> None:
    one, two, three = machine("m1"), machine("m2"), machine("m3")
    put(one, "a.md", b"1")
    put(one, "a.md", b"2")
    sync(two)
    sync(three)
    one.undo(by="user")
    for here in (two, three):
        save(here, "a.md", b"the same")
        here.rejoin()
    consistent(one, two, three)
    assert files(one) == {"a.md": b"1", "a-2.md": b"the same"}


@pytest.mark.parametrize("damage", [b"", b"\0" * 300, b"{cut off", b'{"told": [1]}', b"[]"])
def test_a_state_that_is_damaged_is_made_anew(machine: Machines, damage: bytes) -> None:
    one, two = machine("m1", queue=True), machine("m2")
    put(one, "a.md", b"one")
    plug(one).out = "all"
    put(one, "b.md", b"queued")
    plug(one).out = ""
    put(two, "c.md", b"theirs")
    Path(one.root, HISTORY, "hub-state.json").write_bytes(damage)
    assert files(one) == {"a.md": b"one", "b.md": b"queued"}
    put(one, "d.md", b"saved")
    consistent(one, two)
    assert {*files(two)} == {"a.md", "b.md", "c.md", "d.md"}


@pytest.mark.parametrize(
    ("damage", "joined"), [(b"", True), (b"{cut", False), (b'{"url": "x"}', True), (b"[]", False), (None, True)]
)
def test_settings_that_are_damaged_keep_nobody_from_reading(
    tmp_path: Path, bare: Path, damage: bytes | None, joined: bool
) -> None:
    here = ScopeOnMachine(tmp_path / "one", "user", bare)
    here.join()
    path = here.write("Tea", "They drink green tea.")
    file = here.root / HISTORY / "hub.json"
    file.unlink()
    file.mkdir() if damage is None else file.write_bytes(damage)
    if not joined:
        (here.root / HISTORY / "hub-state.json").unlink()
    assert [one["path"] for one in here.json("list")["memories"]] == [path]
    assert str(file) in here.run("list")[1]
    assert "green tea" in here.run("show", path)[1]
    (here.root / path).write_text((here.root / path).read_text().replace("green", "black"))
    assert path in here.run("search", "black")[1]
    for words in (("remember", "They swim on Mondays."), ("forget", path), ("erase", path, "--yes")):
        code, told = here.run(*words)
        assert (code, f"{file}' is damaged" in told, "memsheaf hub add URL -s user" in told) == (1, True, True), words
    assert str(file) in here.run("hub", "status", scoped=False)[1]
    assert str(file) in here.run("doctor", scoped=False)[1]
    if damage is not None:
        here.join()
        here.write("Swimming", "They swim on Mondays.")
        other = ScopeOnMachine(tmp_path / "two", "user", bare)
        other.join()
        assert len(other.trust()) == 2
        assert "black tea" in other.run("show", path)[1]


def test_a_rejoin_waits_for_a_sync_under_way(machine: Machines) -> None:
    one, two = machine("m1"), machine("m2")
    put(one, "a.md", b"one")
    put(one, "b.md", b"bee")
    one.sync()
    put(two, "c.md", b"cee")
    other = machine("m1", join=False)
    rejoining = threading.Thread(target=other.rejoin)

    def answer(pulled: Pulled) -> Pulled:
        if not rejoining.ident:
            rejoining.start()
            rejoining.join(0.3)
        return pulled

    plug(one).answer = answer
    one.sync()
    rejoining.join()
    consistent(one, two)
    assert files(one) == {"a.md": b"one", "b.md": b"bee", "c.md": b"cee"}


def test_an_edit_in_the_moment_of_a_conflict_does_not_replace_the_hubs_text(tmp_path: Path, bare: Path) -> None:
    """The kernel holds the exchange of our file with the hub's until a person has saved it once more."""
    one, two = (ScopeOnMachine(tmp_path / name, "user", bare) for name in ("one", "two"))
    one.join()
    path = one.write("Tea", "They drink black tea.")
    two.join()
    file, trace = one.root / path, tmp_path / "trace"
    for place, word in ((two, "green"), (one, "white")):
        (place.root / path).write_text(file.read_text().replace("black", word))
    assert two.run("hub", "sync", "-s", "user", scoped=False)[0] == 0
    held = [
        "strace",
        "-f",
        "-qq",
        "-o",
        str(trace),
        "-P",
        str(one.root),
        "-e",
        "inject=renameat2:delay_enter=1000000:when=1",
    ]
    command = [*held, sys.executable, "-m", "memsheaf", "hub", "sync", "-s", "user"]
    with subprocess.Popen(command, env=one.environment, cwd=one.work, stdout=PIPE, stderr=PIPE) as process:
        while not trace.exists() or "renameat2(" not in trace.read_text():
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)
        file.write_text(file.read_text().replace("white", "herbal"))
        process.communicate()
    one.sync()
    two.sync()
    texts = sorted(found.read_text().rpartition("---\n")[2] for found in two.root.glob("*Tea*.md".lower()))
    assert texts == ["They drink green tea.\n", "They drink herbal tea.\n"]


def test_what_was_saved_while_all_was_pulled_stays(machine: Machines) -> None:
    one = machine("m1")
    put(one, "a.md", b"one")
    one.sync()
    other = machine("m1", join=False)
    whole = plug(one).hub.pull("")

    def answer(pulled: Pulled) -> Pulled:
        put(other, "b.md", b"two")
        return whole._replace(whole=True)

    plug(one).answer = answer
    one.sync()
    plug(one).answer = None
    assert files(one) == {"a.md": b"one", "b.md": b"two"}
    one.sync()
    with Folder.open(one.root) as folder, folder.folder(HISTORY) as history:
        assert read_ahead(history) == {}


def test_a_commit_with_an_odd_id_or_time_is_journalled_as_any_other(machine: Machines) -> None:
    one, two = machine("m1"), machine("m2")
    put(two, "a.md", b"one")

    def answer(pulled: Pulled) -> Pulled:
        odd = [one._replace(commit=one.commit._replace(id="../" + "a" * 40, at="soon\n")) for one in pulled.commits]
        return pulled._replace(commits=odd)

    plug(one).answer = answer
    one.sync()
    plug(one).answer = None
    assert one.damaged() == []
    assert [len(commit.id) for commit in one.history("a.md")] == [12]
    consistent(one, two)


def test_an_erasure_of_names_that_no_memory_has_stops_no_sync(machine: Machines) -> None:
    one, two = machine("m1"), machine("m2")
    put(two, "a.md", b"one")
    put(two, "b.md", b"two")
    one.sync()
    odd = Erasure("0e0e0e0e0e0e", ("../x", "", "MEMORY.md", "None", "a.md"), ())
    plug(one).answer = lambda pulled: pulled._replace(erasures=[odd])
    one.sync()
    assert files(one) == {"b.md": b"two"}


def test_to_wait_for_another_process_here_is_not_to_wait_for_the_hub(
    machine: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two, held = machine("m1"), machine("m2"), threading.Event()
    for name in ("QUEUE_SECONDS", "REFUSE_SECONDS"):
        monkeypatch.setattr(f"memsheaf.hub.{name}", 2.0)

    def hold() -> None:
        with FolderStore(one.root).locked("lock"):
            held.set()
            time.sleep(3.0)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    one.hub.close()
    put(one, "a.md", b"text")
    thread.join()
    assert (one.state().pending, one.state().down_at) == ((), 0.0)
    two.sync()
    assert files(two) == {"a.md": b"text"}


def test_a_join_that_is_interrupted_leaves_no_hub(tmp_path: Path) -> None:
    environment = os.environ | {"MEMSHEAF_HOME": str(tmp_path), "GIT_SSH_COMMAND": "sleep 60 #"}
    command = [sys.executable, "-m", "memsheaf", "hub", "add", "ssh://silent.invalid/memory.git", "-s", "user"]
    with subprocess.Popen(command, env=environment, stdout=PIPE, stderr=PIPE) as process:
        settings = tmp_path / "user" / HISTORY / "hub.json"
        while not settings.exists() and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        process.communicate()
    assert (process.returncode, settings.exists()) == (130, False)


@pytest.mark.parametrize("odd", [{"id": "a" * 16}, {"at": "nonsense"}, {"at": ""}, {"undoes": "a" * 16}])
def test_a_database_takes_no_commit_that_a_journal_does_not(team: Team, odd: dict[str, str]) -> None:
    given = {"id": os.urandom(6).hex(), "at": "2026-01-01T00:00:00.000Z", "machine": "m", "by": "u", "why": ""}
    values = [*(given | {"undoes": ""} | odd).values()]
    steps = [["b.md"], [""], [version_of(b"text")], [b"text"]]
    with psycopg.connect(team.url("bob")) as connection, pytest.raises(psycopg.errors.CheckViolation):
        connection.execute(PUSH, [team.namespace, *values, *steps])


def test_a_member_who_owns_something_is_removed_all_the_same(team: Team) -> None:
    address = team.url("bob")
    hub = PostgresHub(team.settings("root", "m0", "admin"))
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("CREATE TEMP TABLE mine (x int)")
        connection.execute("SELECT lo_create(0)")
        assert hub.administer("remove", "bob")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("SELECT * FROM memsheaf.hello(%s)", [team.namespace])
    hub.close()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(address)


def test_every_reason_that_a_folder_takes_a_hub_takes(machine: Machines) -> None:
    here = machine("m1")
    for number, why in enumerate(("x" * 20_000, "a NUL \0", "half a pair \ud800")):
        put(here, f"{number}.md", b"text", why=why)
    assert len(files(machine("m2"))) == 3


def test_a_first_sync_pushes_in_portions(machine: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memsheaf.hub.exchange.PORTION", 2)
    monkeypatch.setattr("memsheaf.hub.exchange.PORTION_BYTES", 100)
    here = machine("m1", join=False)
    for number in range(5):
        save(here, f"{number}.md", b"x" * (150 if number == 4 else 10))
    assert [len(one.revisions) for one in here.sync().pushed] == [2, 2, 1]
    assert files(machine("m2")) == files(here)


def test_what_a_running_process_saves_goes_to_the_hub_that_its_scope_has_now(
    machine: Machines, tmp_path: Path
) -> None:
    running, other = machine("m1", queue=True), machine("m2")
    put(running, "a.md", b"one")
    running.sync()
    now = running.settings._replace(namespace="another")
    with Folder.open(running.root) as folder, folder.folder(HISTORY) as history:
        remove_hub(history)
        write_settings(history, now)
    moved = Replica(running.root, now, GitRemote(now._replace(url=str(tmp_path / "new.git")), folder=str(tmp_path)))
    make_bare(tmp_path / "new.git")
    moved.sync()
    put(running, "b.md", b"two")
    with pytest.raises(HubRefused, match="another hub"):
        running.sync()
    assert len(moved.sync().pushed) == 1
    other.sync()
    assert files(other) == {"a.md": b"one"}


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://ana:secret@host:8443/a.git", "https://host:8443/a.git"),
        ("https://secret@host/a.git", "https://host/a.git"),
        ("ssh://git:secret@host:22/a.git", "ssh://git@host:22/a.git"),
        ("postgresql://t.ana:p%40secret@host/db?sslpassword=secret", "postgresql://t.ana@host/db"),
        ("postgresql://db/x?user=ana&password=secret", "postgresql://db/x"),
        ("postgresql://ana:a#secret@host/db", "postgresql://ana@host/db"),
        ("git@host:ana/a@b.git", "git@host:ana/a@b.git"),
        ("file:///srv/a@b/hub.git", "file:///srv/a@b/hub.git"),
    ],
)
def test_an_address_is_shown_without_its_secrets(url: str, shown: str) -> None:
    assert HubSettings(url, "", "", "").check_address() == shown


@pytest.mark.parametrize(
    "url",
    [
        *(f"{scheme}://ana:{password}@host/db" for scheme in ("postgresql", "https", "ssh", "POSTGRESQL")
          for password in ("sec/ret", "sec@ret", "sec?ret", "sec/ret@x", "1/secret", "[secret", "se%cret")),
        "postgresql://host/db?password=sec@ret", "https://host/sec@ret.git", "postgres:/ana:secret@host/db",
        "ana:secret@host:a.git", "host=db password=secret",
    ],
)  # fmt: skip
@pytest.mark.parametrize("command", ["hub add -s team/x", "team create x", "team admin"])
def test_what_may_be_a_password_is_in_no_message(tmp_path: Path, url: str, command: str) -> None:
    told = io.StringIO()
    environment = {"MEMSHEAF_HOME": str(tmp_path)}
    assert main([*command.split(), url], environment=environment, stdout=told, stderr=told) == 1
    assert "ret" not in told.getvalue()
    assert "se%c" not in told.getvalue()
