"""What every hub promises. A hub is whatever passes this."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress

import pytest

from hub.conftest import OpenHub
from memsheaf.errors import Busy, Changed, HubRefused, PathRefused
from memsheaf.hub import Erasure, Hub, Machine, Pulled
from memsheaf.store import ABSENT, Commit, Revision, version_of

Step = tuple[str, bytes | None, bytes | None]


def commit(*steps: Step, by: str = "user", why: str = "", undoes: str = "") -> Commit:
    """A commit with each path's old and new text."""
    revisions = (Revision(path, version_of(old), version_of(new), old, new) for path, old, new in steps)
    return Commit(os.urandom(6).hex(), "2026-11-17T10:00:00Z", by, why, tuple(revisions), undoes)


def push(hub: Hub, path: str, old: bytes | None, new: bytes | None, **about: str) -> Commit:
    made = commit((path, old, new), **about)
    hub.push(made)
    return made


def state(*pulls: Pulled) -> dict[str, bytes]:
    """What is at each path after these pulls, as a replica goes about it."""
    found: dict[str, bytes] = {}
    for pulled in pulls:
        if pulled.whole:
            found.clear()
        for one in pulled.commits:
            for step in one.commit.revisions:
                assert step.new is None or version_of(step.new) == step.after
                if step.after == ABSENT:
                    found.pop(step.path, None)
                elif step.new is not None:
                    found[step.path] = step.new
    return found


def test_what_one_machine_pushes_another_pulls(open_hub: OpenHub) -> None:
    made = push(open_hub(), "user_tabs.md", None, b"tabs", by="agent", why="said so", undoes="00ff00ff00ff")
    pulled = open_hub("m2").pull()
    assert pulled.whole
    [one] = pulled.commits
    assert (one.commit.id, one.commit.at, one.commit.by, one.commit.why, one.commit.undoes) == made[:4] + made[5:6]
    assert one.commit.revisions == (Revision("user_tabs.md", ABSENT, version_of(b"tabs"), None, b"tabs"),)
    assert one.machine == "m1"


def test_several_commits_are_made_in_their_order_up_to_one_that_is_refused(open_hub: OpenHub) -> None:
    hub, cursor = open_hub(), open_hub("m2").pull().cursor
    first, second = commit(("a.md", None, b"1")), commit(("a.md", b"1", b"2"), ("b.md", None, b"b"))
    third = commit(("b.md", b"b", None))
    hub.push(first, second)
    hub.push(first, second, third)
    pulled = open_hub("m2").pull(cursor)
    assert [one.commit.id for one in pulled.commits] == [first.id, second.id, third.id]
    fits, refused, behind = commit(("c.md", None, b"c")), commit(("a.md", b"1", b"3")), commit(("d.md", None, b"d"))
    with pytest.raises(Changed):
        hub.push(fits, refused, behind)
    hub.push(fits)
    assert state(open_hub("m2").pull()) == {"a.md": b"2", "c.md": b"c"}


def test_texts_and_paths_come_as_they_are(open_hub: OpenHub) -> None:
    texts = [b"", b"\0\x01", b"\xff\xfe", b"a\r\nb\r", b" \n", "ünï 🦉".encode(), b"x" * 300_000]
    paths = ["a b.md", "notes/deep/er/x.md", "ünï/🦉.md", "it's (1) + 2, & @x.md", "a.md", "b.md", "c.md"]
    both = dict(zip(paths, texts, strict=True))
    open_hub().push(commit(*((path, None, text) for path, text in both.items())))
    assert state(open_hub("m2").pull()) == both


def test_an_empty_hub_is_pulled_whole_and_gives_a_cursor(open_hub: OpenHub) -> None:
    first = open_hub().pull()
    assert (list(first.commits), first.whole) == ([], True)
    assert first.cursor
    made = push(open_hub("m2"), "a.md", None, b"1")
    later = open_hub().pull(first.cursor)
    assert ([one.commit.id for one in later.commits], later.whole) == ([made.id], False)


def test_a_pull_gives_only_what_is_new_and_the_same_cursor_the_same_again(open_hub: OpenHub) -> None:
    one, two = open_hub(), open_hub("m2")
    push(one, "a.md", None, b"1")
    first = two.pull()
    made = [push(one, "a.md", b"1", b"2"), push(one, "b.md", None, b"3"), push(one, "a.md", b"2", None)]
    for _ in range(2):
        later = two.pull(first.cursor)
        assert [found.commit.id for found in later.commits] == [one.id for one in made]
        assert state(first, later) == {"b.md": b"3"}
    nothing = two.pull(later.cursor)
    assert (list(nothing.commits), nothing.whole) == ([], False)
    assert state(two.pull()) == {"b.md": b"3"}


@pytest.mark.parametrize(
    "stale",
    [("a.md", b"0", b"2"), ("a.md", None, b"2"), ("a.md", b"0", None), ("b.md", b"1", b"2"), ("b.md", b"1", None)],
)
def test_a_push_on_a_version_that_is_not_there_changes_nothing(open_hub: OpenHub, stale: Step) -> None:
    hub = open_hub()
    push(hub, "a.md", None, b"1")
    cursor = hub.pull().cursor
    with pytest.raises(Changed) as caught:
        hub.push(commit(("c.md", None, b"beside"), stale))
    assert caught.value.ref.path == stale[0]
    assert list(hub.pull(cursor).commits) == []
    assert state(open_hub("m2").pull()) == {"a.md": b"1"}


def test_a_commit_of_many_texts_is_made_as_one(open_hub: OpenHub) -> None:
    hub = open_hub()
    steps = [(f"many/{number:03}.md", None, str(number).encode()) for number in range(300)]
    hub.push(commit(*steps))
    pulled = open_hub("m2").pull()
    assert len(pulled.commits) == 1
    assert state(pulled) == {path: new for path, _, new in steps}
    hub.push(commit(*((path, new, None) for path, _, new in steps)))
    assert state(open_hub("m2").pull()) == {}


def test_a_text_that_moved_is_pulled_at_its_new_path(open_hub: OpenHub) -> None:
    hub = open_hub()
    push(hub, "old.md", None, b"text")
    hub.push(commit(("old.md", b"text", None), ("new.md", None, b"text")))
    assert state(open_hub("m2").pull()) == {"new.md": b"text"}


def test_the_same_commit_is_made_once(open_hub: OpenHub) -> None:
    hub = open_hub()
    cursor = hub.pull().cursor
    made = push(hub, "a.md", None, b"1")
    later = push(hub, "a.md", b"1", b"2")
    hub.push(made)
    open_hub("m2").push(later)
    assert [one.commit.id for one in hub.pull(cursor).commits] == [made.id, later.id]
    assert state(hub.pull()) == {"a.md": b"2"}


def test_another_commit_with_an_id_that_is_taken_is_refused(open_hub: OpenHub) -> None:
    hub = open_hub()
    made = push(hub, "a.md", None, b"1")
    with pytest.raises(HubRefused):
        hub.push(commit(("b.md", None, b"2"))._replace(id=made.id))
    assert state(hub.pull()) == {"a.md": b"1"}


def test_one_of_many_writers_of_a_path_wins_and_all_agree(open_hub: OpenHub) -> None:
    machines = [open_hub(f"m{number}") for number in range(4)]
    start = threading.Barrier(len(machines))
    cursor = machines[0].pull().cursor
    push(machines[0], "a.md", None, b"0")

    def write(hub: Hub) -> list[str]:
        start.wait()
        won, seen = [], b"0"
        for number in range(3):
            mine = commit(("a.md", seen, f"{hub!r} {number}".encode()), ("own.md", None, None))
            mine = mine._replace(revisions=mine.revisions[:1])
            try:
                hub.push(mine)
                won.append(mine.id)
            except Changed:
                pass
            seen = state(hub.pull())["a.md"]
        return won

    with ThreadPoolExecutor(len(machines)) as pool:
        won = [one for found in pool.map(write, machines) for one in found]
    pulled = machines[0].pull(cursor)
    assert sorted(one.commit.id for one in pulled.commits[1:]) == sorted(won)
    steps = [step for one in pulled.commits for step in one.commit.revisions]
    assert [step.before for step in steps] == [ABSENT, *(step.after for step in steps[:-1])]
    assert len({tuple(state(hub.pull()).items()) for hub in machines}) == 1


def test_many_writers_of_different_paths_lose_nothing(open_hub: OpenHub) -> None:
    machines = [open_hub(f"m{number}") for number in range(4)]
    reader, found = open_hub("reader"), dict[str, bytes]()
    cursor, done = reader.pull().cursor, threading.Event()

    def follow() -> None:
        nonlocal cursor
        while True:
            last = done.is_set()
            pulled = reader.pull(cursor)
            cursor = pulled.cursor
            found.update(state(pulled))
            if last:
                return

    def write(number: int) -> None:
        for count in range(5):
            push(machines[number], f"{number}-{count}.md", None, b"text")

    follower = threading.Thread(target=follow)
    follower.start()
    with ThreadPoolExecutor(len(machines)) as pool:
        list(pool.map(write, range(len(machines))))
    done.set()
    follower.join()
    assert sorted(found) == sorted(f"{number}-{count}.md" for number in range(4) for count in range(5))


def test_a_name_that_is_one_file_with_another_on_some_machines_is_refused(open_hub: OpenHub) -> None:
    one, two = open_hub(), open_hub("m2")
    push(one, "Notes.md", None, b"1")
    push(one, "caf\xe9.md", None, b"2")
    for name in ("notes.md", "CAF\xc9.md", "cafe\u0301.md"):
        with pytest.raises(PathRefused, match=r"same file as '(Notes|caf\xe9)\.md'"):
            push(two, name, None, b"3")
        assert len(two.log()) == 2
    for name in ("i.md", "\u0130.md"):  # two files, as `fold` has it
        push(one, name, None, b"4")
    one.push(commit(("i.md", b"4", None), ("\u0130.md", b"4", None)))
    renamed = commit(("Notes.md", b"1", None), ("notes.md", None, b"1"), ("x.md", None, b"4"))
    for hub in (two, one):
        hub.push(renamed)
    assert state(two.pull()) == {"notes.md": b"1", "caf\xe9.md": b"2", "x.md": b"4"}

    def attempt(hub: Hub, path: str) -> bool:
        with suppress(PathRefused):
            return bool(push(hub, path, None, b"5"))
        return False

    for number in range(3):
        with ThreadPoolExecutor(2) as pool:
            done = list(pool.map(attempt, (one, two), (f"same-{number}.md", f"Same-{number}.md")))
        assert sorted(done) == [False, True]


def test_an_erased_memory_is_gone_from_the_hub_and_told_to_all(open_hub: OpenHub) -> None:
    one, two = open_hub(), open_hub("m2")
    old = two.pull().cursor
    push(one, "a.md", None, b"secret 1")
    push(one, "a.md", b"secret 1", b"secret 2")
    push(one, "twin.md", None, b"secret 1")
    push(one, "other.md", None, b"other")
    cursor = two.pull().cursor
    erasure = Erasure("0e0e0e0e0e0e", ("a.md",), (version_of(b"secret 1"), version_of(b"secret 2")), at="2026-11-17")
    one.erase(erasure)
    one.erase(erasure)
    told = two.pull(cursor)
    assert [(found.id, found.names) for found in told.erasures] == [("0e0e0e0e0e0e", ("a.md",))]
    assert version_of(b"secret 2") in told.erasures[0].versions
    assert list(two.pull(told.cursor).erasures) == []
    for pulled in (two.pull(), two.pull(old)):
        texts = {step.new for found in pulled.commits for step in found.commit.revisions}
        assert b"secret 2" not in texts
        assert state(pulled) == {"twin.md": b"secret 1", "other.md": b"other"}
        assert [found.id for found in pulled.erasures] == ["0e0e0e0e0e0e"]
    push(one, "a.md", None, b"something else")
    assert state(two.pull())["a.md"] == b"something else"


def test_machines_report_and_prove_erasures(open_hub: OpenHub) -> None:
    one, two = open_hub(), open_hub("m2")
    push(one, "a.md", None, b"1")
    one.erase(Erasure("0e0e0e0e0e0e", ("a.md",), (version_of(b"1"),), at="2026-11-17"))
    one.report(Machine("m1", "laptop", "", ""))
    two.report(Machine("m2", "desktop", "", "", (("0e0e0e0e0e0e", ""),)))
    two.report(Machine("m2", "desk", "", ""))
    found = {machine.id: machine for machine in open_hub("m3").users()[1]}
    assert {(machine.id, machine.name, machine.erased) for machine in found.values()} == {
        ("m1", "laptop", ()),
        ("m2", "desk", (("0e0e0e0e0e0e", ""),)),
    }
    assert all(machine.seen for machine in found.values())


def test_one_machine_at_a_time_holds_a_lock(open_hub: OpenHub) -> None:
    one, two = open_hub(), open_hub("m2")
    push(one, "a.md", None, b"1")
    with one.lock("consolidate"):
        with pytest.raises(Busy), two.lock("consolidate"):
            raise AssertionError
        with two.lock("another"):
            pass
        push(two, "b.md", None, b"1")
    with two.lock("consolidate", wait=10):
        pass


def test_the_log_has_the_last_commits_newest_first(open_hub: OpenHub) -> None:
    hub = open_hub()
    made = [push(hub, f"{number}.md", None, b"text", why=str(number)) for number in range(4)]
    found = open_hub("m2").log(3)
    assert [one.commit.id for one in found] == [one.id for one in reversed(made[1:])]
    assert found[0].commit.why == "3"
    assert [step._replace(new=None) for step in made[3].revisions] == list(found[0].commit.revisions)


def test_whoever_waits_is_told_soon(open_hub: OpenHub) -> None:
    one, two = open_hub(), open_hub("m2")
    push(one, "a.md", None, b"1")
    two.pull()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(two.wait, 30)
        for number in range(100):
            if not waiting.done():
                push(one, f"{number}.md", None, b"1")
                wait([waiting], timeout=0.3)
        assert waiting.result() is True
    two.pull()


def test_a_wait_ends_when_nothing_comes(open_hub: OpenHub) -> None:
    hub = open_hub()
    push(hub, "a.md", None, b"1")
    hub.pull()
    began = time.monotonic()
    assert hub.wait(0.2) is False
    assert time.monotonic() - began >= 0.2


def test_who_pushed_is_told_as_the_hub_knows_it(open_hub: OpenHub) -> None:
    ana, bob = open_hub("m1", "ana"), open_hub("m2", "bob")
    push(ana, "a.md", None, b"1", by="user")
    [found] = bob.pull().commits
    if ana.me:
        assert (ana.me, bob.me, found.member, found.own) == ("ana", "bob", "ana", False)
        assert ana.pull().commits[0].own
        assert {member.name for member in bob.users()[0]} == {"ana", "bob"}
    else:
        assert found.commit.by == "user"


def test_a_hub_can_be_closed_twice_and_goes_on_where_it_was(open_hub: OpenHub) -> None:
    hub = open_hub()
    push(hub, "a.md", None, b"1")
    hub.close()
    hub.close()
    assert state(hub.pull()) == {"a.md": b"1"}
