"""A folder with a hub: what one machine commits reaches the others, and nothing is lost when they meet."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from hub.conftest import OpenHub
from hub.stations import Line
from memsheaf.errors import Changed, HubUnreachable, NotFound
from memsheaf.hub import HubCommit, HubSettings, Pulled
from memsheaf.hub.replica import Replica
from memsheaf.store import ABSENT, Change, Commit, Revision, version_of

Machines = Callable[..., Replica]
SECRET = b"The key is AKIA" + b"Z7QX4WVUTSRQPONM"


@pytest.fixture
def machine(open_hub: OpenHub, tmp_path: Path) -> Machines:
    """machine("m1", member="ana", queue=False): the replica of a machine, opened once more."""

    def opened(name: str = "m1", member: str = "ana", *, queue: bool = False, join: bool = True) -> Replica:
        settings = HubSettings("test", "test", name, name, "queue" if queue else "refuse")
        plug = Line(open_hub(name, member))
        replica = Replica(str(tmp_path / name), settings, plug, patience=0.0)
        if join:
            replica.sync()
        return replica

    return opened


def plug(replica: Replica) -> Line:
    assert isinstance(replica.hub, Line)
    return replica.hub


def files(replica: Replica) -> dict[str, bytes]:
    return {
        entry.path: replica.read(entry.path).data
        for entry in replica.scan()
        if entry.path and not entry.path.endswith("/")
    }


def put(replica: Replica, path: str, data: bytes | None, *, by: str = "user", why: str = "") -> Commit:
    return replica.commit([Change(path, data, version_at(replica, path))], by=by, why=why)


def version_at(replica: Replica, path: str) -> str:
    try:
        return replica.read(path).version
    except NotFound:
        return ABSENT


def save(replica: Replica, path: str, data: bytes | None) -> None:
    """What a person does with an editor."""
    place = Path(replica.root, path)
    if data is None:
        place.unlink()
    else:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)


def sync(replica: Replica) -> Sequence[tuple[str, str]]:
    """Look as an index does, then sync; gives what was kept twice."""
    replica.adopt({entry.path for entry in replica.scan() if entry.path and not entry.path.endswith("/")})
    replica.adopt(None)
    return [(one.path, one.copy) for one in replica.sync().conflicts]


def consistent(*replicas: Replica) -> None:
    """All have the same files, and each history ends with what its folder has."""
    for replica in replicas:
        sync(replica)
    for replica in replicas:
        assert files(replica) == files(replicas[0])
        nothing: dict[str, str] = {}
        heads = replica.ask_history(lambda past: past.heads(), nothing)
        assert heads == {path: version_at(replica, path) for path in files(replica)}
        assert not replica.state().pending


def test_another_members_commits_come_under_their_name_and_are_not_undone_unasked(machine: Machines) -> None:
    one, two = machine(), machine("m2", "ben")
    mine = put(one, "a.md", b"1")
    put(two, "b.md", b"2", by="user")
    one.sync()
    knows_members = bool(one.hub.me)  # git does not, for a scope of one person
    assert [commit.by for commit in one.history()] == ["@ben" if knows_members else "user", "user"]
    assert (one.last_standing().id == mine.id) == knows_members


def test_offline_changes_are_refused_and_reading_goes_on(machine: Machines) -> None:
    one = machine()
    put(one, "a.md", b"1")
    plug(one).out = "all"
    for _ in range(3):
        with pytest.raises(HubUnreachable):
            put(one, "a.md", b"2")
    assert files(one) == {"a.md": b"1"}
    assert plug(one).pushes == 2  # a hub that did not answer a moment ago is not asked again


def test_offline_changes_are_queued_where_that_is_wanted_and_pushed_later_in_order(machine: Machines) -> None:
    one, two = machine(queue=True), machine("m2")
    plug(one).out = "all"
    put(one, "a.md", b"1", by="agent")
    put(one, "a.md", b"2", by="user", why="better")
    put(one, "b.md", b"x")
    put(one, "b.md", None)
    assert len(one.waiting()) == 4
    reopened = machine(queue=True, join=False)
    reopened.sync()
    assert plug(reopened).pushes == 1
    two.sync()
    assert files(two) == {"a.md": b"2"}
    assert [(commit.by, commit.why) for commit in two.history("a.md")] == [("user", "better"), ("agent", "")]
    consistent(reopened, two)


def test_of_queued_changes_those_before_a_refused_one_are_made_as_they_were(machine: Machines) -> None:
    one, two = machine(queue=True), machine("m2")
    plug(one).out = "all"
    queued = [put(one, f"{name}.md", b"mine") for name in "abcd"]
    plug(one).out = ""
    plug(one).meanwhile = lambda: put(two, "c.md", b"theirs")
    [conflict] = one.sync().conflicts
    two.sync()
    assert [commit.id for name in "ab" for commit in two.history(f"{name}.md")] == [one.id for one in queued[:2]]
    others = {f"{name}.md": b"mine" for name in "abd"}
    assert files(one) == files(two) == {"c.md": b"theirs", conflict.copy: b"mine", **others}
    consistent(one, two)


def test_a_change_of_a_version_that_is_not_here_is_refused_without_asking_the_hub(machine: Machines) -> None:
    replica = machine()
    plug(replica).out = "all"
    with pytest.raises(Changed):
        replica.commit([Change("a.md", b"two", "0" * 64)], by="user")
    assert replica.state().down_at == 0


def test_a_commit_on_top_of_an_edit_pushes_the_edit_first(machine: Machines) -> None:
    one, two = machine(), machine("m2")
    put(one, "a.md", b"1")
    save(one, "a.md", b"edited")
    put(one, "a.md", b"2")
    two.sync()
    texts = [step.new for commit in one.history("a.md") for step in commit.revisions]
    assert texts == [b"2", b"edited", b"1"]
    consistent(one, two)


def test_a_file_with_a_secret_stays_here_until_that_is_gone(machine: Machines) -> None:
    one, two = machine(), machine("m2")
    save(one, "key.md", SECRET)
    save(one, "good.md", b"good")
    sync(one)
    assert list(one.state().held) == ["key.md"]
    put(one, "more.md", b"more")
    two.sync()
    assert files(two) == {"good.md": b"good", "more.md": b"more"}
    save(one, "key.md", b"The key is in the safe")
    sync(one)
    assert one.state().held == {}
    consistent(one, two)
    assert files(two)["key.md"] == b"The key is in the safe"


def test_what_is_erased_on_one_machine_is_gone_from_the_hub_and_told_to_the_others(machine: Machines) -> None:
    one, two = machine(), machine("m2")
    put(one, "a.md", b"private words")
    put(one, "a.md", b"private words, more")
    put(one, "b.md", b"stays")
    two.sync()
    one.erase("a.md", by="user")
    assert [hit for hit in Path(one.root).rglob("*") if hit.is_file() and b"private" in hit.read_bytes()] == []
    assert files(machine("m3")) == {"b.md": b"stays"}
    assert two.sync().erased == ("a.md",)
    [erasure] = two.state().erased
    two.erasures.report(0.0)
    assert [hit for hit in Path(two.root).rglob("*") if hit.is_file() and b"private" in hit.read_bytes()] == []
    assert {found.name: dict(found.erased) for found in two.hub.users()[1]}["m2"] == {erasure.id: ""}
    consistent(one, two)


def test_a_new_memory_of_an_erased_name_outlives_a_machine_that_dies_at_the_erasure(machine: Machines) -> None:
    one, two = machine(queue=True), machine("m2")
    put(one, "a.md", b"private words")
    two.sync()
    two.erase("a.md", by="user")
    plug(one).out = "all"
    put(one, "a.md", None)
    put(one, "a.md", b"other words")
    plug(one).out = ""
    erase = one.eraser
    assert erase

    def erase_and_die(name: str) -> Sequence[str]:
        erase(name)
        raise KeyboardInterrupt

    one.eraser = erase_and_die
    with pytest.raises(KeyboardInterrupt):
        one.sync()
    one = machine(queue=True)
    one.sync()
    two.sync()
    assert list(files(one).values()) == [b"other words"]
    assert files(one) == files(two)


def test_a_link_that_stands_in_the_way_is_not_followed(machine: Machines, tmp_path: Path) -> None:
    one = machine()
    put(one, "a.md", b"1")
    os.unlink(os.path.join(one.root, "a.md"))
    os.symlink(tmp_path / "elsewhere", os.path.join(one.root, "a.md"))
    put(machine("m2"), "a.md", b"2")
    one.sync()
    assert not (tmp_path / "elsewhere").exists()
    assert list(one.state().left) == ["a.md"]


def test_hostile_paths_and_texts_from_a_hub_are_left_out(machine: Machines, tmp_path: Path) -> None:
    one = machine()
    put(one, "a.md", b"1")
    one.sync()
    before = sorted(tmp_path.rglob("*"))
    paths = ("../x.md", "/x.md", ".history/x.md", "MEMORY.md", "x\0.md", "con.md", "a/../../x.md", "good.md")
    steps = [Revision(path, ABSENT, version_of(b"evil"), None, b"evil") for path in paths]
    steps.append(Revision("a.md", version_of(b"1"), version_of(b"2"), None, b"not what it says"))
    evil = HubCommit(Commit("0123456789ab", "2026-11-17T10:00:00Z", "user", "", tuple(steps)), "eve")
    plug(one).hub.pull = lambda cursor="": Pulled([evil], "next")  # type: ignore[method-assign]
    one.sync()
    assert files(one) == {"a.md": b"1", "good.md": b"evil"}
    assert {path.name for path in {*tmp_path.rglob("*")} - {*before}} == {"good.md"}


def test_what_was_removed_before_an_erasure_stays_removed_however_much_it_is(machine: Machines) -> None:
    one, two = machine(), machine("m2")
    one.commit([Change(f"{number}.md", b"%d" % number, ABSENT) for number in range(30)], by="user")
    two.sync()
    one.commit([Change(f"{number}.md", None, version_of(b"%d" % number)) for number in range(25)], by="user")
    one.erase("25.md", by="user")
    two.sync()
    assert sorted(files(two)) == ["26.md", "27.md", "28.md", "29.md"]
    consistent(one, two)
