from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cases import NOON, Clock
from databases import contents
from memsheaf.config import Settings
from memsheaf.errors import Changed, Exists, MemsheafError, NotFound, NotInHistory
from memsheaf.open_scope import blame
from memsheaf.sheaf import Sheaf
from memsheaf.store import ABSENT, Commit, Revision, version_of

DAY = 86_400.0
PLAIN = "---\nname: n\ndescription: d\ntype: user\n---\n"


@pytest.fixture
def sheaf(settings: Settings, clock: Clock) -> Iterator[Sheaf]:
    with Sheaf.open("user", settings=settings, clock=clock) as sheaf:
        yield sheaf


def write(sheaf: Sheaf, path: str, data: bytes) -> None:
    os.makedirs(sheaf.root, exist_ok=True)
    Path(sheaf.root, path).write_bytes(data)


def data_of(sheaf: Sheaf, path: str) -> bytes:
    return Path(sheaf.root, path).read_bytes()


ODD = [
    PLAIN.encode() + b"body\n",
    PLAIN.replace("\n", "\r\n").encode() + b"b\r\n",
    b"\xef\xbb\xbf" + PLAIN.encode() + b"no end",
    b"---\nname: [broken\n---\n",
    b"caf\xe9 \xff\xfe",
    b"a\0b\nc",
    "日本語 👩‍💻 \u2028 \u0085".encode(),
    b"x" * 300_000,
]


@pytest.mark.parametrize("data", ODD, ids=range(len(ODD)))
def test_what_was_forgotten_comes_back_byte_for_byte(data: bytes, sheaf: Sheaf) -> None:
    write(sheaf, "n.md", data)
    sheaf.list()
    sheaf.by = "user"  # what cannot be understood, only a person removes

    sheaf.forget("n.md", why="not needed")
    assert not os.path.exists(os.path.join(sheaf.root, "n.md"))
    assert sheaf.list() == []
    with pytest.raises(NotFound):
        sheaf.read("n.md")
    sheaf.undo()

    assert data_of(sheaf, "n.md") == data
    assert [row.path for row in sheaf.list()] == ["n.md"]


def test_forgetting_what_is_not_there_or_changed_since_is_refused(sheaf: Sheaf) -> None:
    memory = sheaf.write("Editor", "D", "user", "vim")
    write(sheaf, memory.path, memory.data.replace(b"vim", b"helix"))

    with pytest.raises(Changed):
        sheaf.forget(memory.path, expect=memory.version)
    with pytest.raises(NotFound):
        sheaf.forget("user_other.md")

    assert sheaf.read(memory.path).body == "helix\n"


def test_undoing_again_goes_one_step_further_back(sheaf: Sheaf) -> None:
    memory = sheaf.write("Editor", "D", "user", "vim")
    sheaf.revise(memory.path, "vim", "helix")
    sheaf.revise(memory.path, "helix", "emacs")

    sheaf.undo()
    assert sheaf.read(memory.path).body == "helix\n"
    sheaf.undo()
    assert sheaf.read(memory.path) == memory
    sheaf.undo()
    assert sheaf.list() == []
    with pytest.raises(NotInHistory):
        sheaf.undo()


def test_an_undo_can_be_undone_by_its_id(sheaf: Sheaf) -> None:
    memory = sheaf.write("Editor", "D", "user", "vim")
    after = sheaf.revise(memory.path, "vim", "helix")

    taken_back = sheaf.undo()
    sheaf.undo(taken_back[0].id)

    assert sheaf.read(memory.path) == after


def test_a_commit_in_the_middle_can_be_undone_when_nothing_touched_it_since(sheaf: Sheaf) -> None:
    first = sheaf.write("First", "D", "user", "one")
    sheaf.write("Second", "D", "user", "two")
    target = next(sheaf.log(first.path))

    sheaf.undo(target.id)

    assert [row.name for row in sheaf.list()] == ["Second"]


def test_undoing_what_was_changed_again_since_changes_nothing(sheaf: Sheaf) -> None:
    first = sheaf.write("First", "D", "user", "one")
    target = next(sheaf.log(first.path))
    sheaf.revise(first.path, "one", "two")

    with pytest.raises(Changed):
        sheaf.undo(target.id)
    write(sheaf, first.path, first.data.replace(b"one", b"three"))
    with pytest.raises(Changed):
        sheaf.undo(target.id)

    assert sheaf.read(first.path).body == "three\n"


def test_an_undo_does_not_bring_back_a_twin_that_differs_only_in_case(sheaf: Sheaf) -> None:
    sheaf.put("Notes.md", PLAIN + "one\n")
    gone = sheaf.forget("Notes.md")
    sheaf.put("notes.md", PLAIN + "two\n")

    with pytest.raises(MemsheafError):
        sheaf.undo(gone.id)

    assert [row.path for row in sheaf.list()] == ["notes.md"]


def test_a_file_removed_outside_can_be_brought_back(sheaf: Sheaf) -> None:
    memory = sheaf.write("First", "D", "user", "one")
    os.unlink(os.path.join(sheaf.root, memory.path))

    sheaf.undo(next(sheaf.log(memory.path)).id)

    assert data_of(sheaf, memory.path) == memory.data


def test_undo_takes_back_the_last_command_and_not_what_a_person_did_in_an_editor(sheaf: Sheaf) -> None:
    sheaf.write("First", "D", "user", "one")
    write(sheaf, "notes.md", b"written in an editor just now")

    sheaf.undo()

    assert [row.path for row in sheaf.list()] == ["notes.md"]


def test_an_older_version_comes_back_whatever_is_there_now(sheaf: Sheaf) -> None:
    first = sheaf.write("Editor", "D", "user", "vim")
    sheaf.revise(first.path, "vim", "helix")
    write(sheaf, first.path, b"scribbled over by hand")

    sheaf.own.restore(first.path, first.version)
    assert data_of(sheaf, first.path) == first.data
    sheaf.undo()
    assert data_of(sheaf, first.path) == b"scribbled over by hand"
    sheaf.forget(first.path)
    sheaf.own.restore(first.path, first.version[:12])
    assert data_of(sheaf, first.path) == first.data


def test_a_version_of_another_memory_cannot_be_restored_here(sheaf: Sheaf) -> None:
    first = sheaf.write("First", "D", "user", "one")
    other = sheaf.write("Other", "D", "user", "two")

    with pytest.raises(NotInHistory):
        sheaf.own.restore(first.path, other.version)


def test_the_log_tells_who_did_what_when_and_why_newest_first(sheaf: Sheaf, clock: Clock) -> None:
    memory = sheaf.write("Editor", "D", "user", "vim")
    clock.now += DAY
    write(sheaf, memory.path, memory.data.replace(b"vim", b"helix"))
    write(sheaf, "other.md", b"free")
    sheaf.list()
    clock.now += DAY
    sheaf.forget(memory.path, why="wrong")

    commits = list(sheaf.log(memory.path))

    assert [(commit.by, commit.why, commit.at[:10]) for commit in commits] == [
        ("agent", "wrong", "2026-03-16"),
        ("outside", "", "2026-03-15"),
        ("agent", "remember Editor", "2026-03-14"),
    ]
    assert [[step.path for step in commit.revisions] for commit in commits] == [[memory.path]] * 3
    steps = [commit.revisions[0] for commit in commits]
    assert [step.before for step in steps] == [step.after for step in steps[1:]] + [ABSENT]
    assert [commit.id for commit in sheaf.log(limit=1)] == [commits[0].id]
    assert len(list(sheaf.log())) == 3
    assert list(sheaf.log("user_unknown.md")) == []


def test_a_difference_shows_the_lines_that_went_and_came(sheaf: Sheaf) -> None:
    first = sheaf.write("Editor", "D", "user", "vim\nstays")
    second = sheaf.revise(first.path, "vim", "helix")
    write(sheaf, first.path, second.data.replace(b"helix", b"emacs"))

    last = sheaf.own.diff(first.path).split("\n")
    assert ("-helix" in last, "+emacs" in last, " stays" in last) == (True, True, True)
    between = sheaf.own.diff(first.path, first.version, second.version).split("\n")
    assert ("-vim" in between, "+helix" in between) == (True, True)
    since = sheaf.own.diff(first.path, first.version).split("\n")
    assert ("-vim" in since, "+emacs" in since) == (True, True)
    assert sheaf.own.diff(first.path, second.version, second.version) == ""


def test_the_difference_of_a_new_and_of_a_removed_memory_is_its_whole_text(sheaf: Sheaf) -> None:
    memory = sheaf.write("Editor", "D", "user", "vim")
    assert "+vim" in sheaf.own.diff(memory.path).split("\n")

    sheaf.forget(memory.path)

    gone = sheaf.own.diff(memory.path).split("\n")
    assert ("-vim" in gone, "-name: Editor" in gone) == (True, True)


def test_blame_names_the_commit_each_line_came_with(sheaf: Sheaf, settings: Settings) -> None:
    memory = sheaf.write("Editor", "D", "user", "one\ntwo\nthree")
    with Sheaf.open("user", settings=settings, by="user", clock=lambda: NOON) as person:
        person.revise(memory.path, "two", "TWO")
    write(sheaf, memory.path, data_of(sheaf, memory.path).replace(b"three\n", b"three\nfour\n"))

    owners = {blamed.line: blamed.by for blamed in sheaf.own.blame(memory.path)}
    commits = {blamed.line: blamed.commit for blamed in sheaf.own.blame(memory.path)}

    assert owners == {
        "---": "agent", "name: Editor": "agent", "description: D": "agent", "type: user": "agent",
        "created: 2026-03-14": "agent", "updated: 2026-03-14": "agent", "source: agent": "agent",
        "changed_by: user": "user", "one": "agent", "TWO": "user", "three": "agent", "four": "outside",
    }  # fmt: skip
    log = {commit.by: commit.id for commit in sheaf.log(memory.path)}
    assert (commits["one"], commits["TWO"], commits["four"]) == (log["agent"], log["user"], log["outside"])
    assert "\n".join(blamed.line for blamed in sheaf.own.blame(memory.path)) + "\n" == sheaf.read(memory.path).text


def commit(identity: str, old: bytes | None, new: bytes | None, *, kept: bool = True) -> Commit:
    step = Revision("n.md", version_of(old), version_of(new), old if kept else None, new if kept else None)
    return Commit(identity, "2026-03-14T00:00:00.000Z", identity, "", (step,))


def test_a_line_whose_older_text_is_past_retention_is_not_put_on_a_later_commit() -> None:
    newest = commit("c", b"old\nb\n", b"old\nb\nc\n")
    trimmed = commit("b", b"old\n", b"old\nb\n", kept=False)

    owners = {blamed.line: blamed.commit for blamed in blame("old\nb\nc\n", [newest, trimmed])}

    assert owners["c"] == "c"
    assert owners["old"] == ""


def test_a_line_that_a_person_saved_while_we_wrote_is_theirs() -> None:
    ours = commit("ours", b"a\n", b"a\nours\n")
    step = Revision("n.md", version_of(b"a\nours\n"), version_of(b"a\ntheirs\n"), b"a\nours\n", b"a\ntheirs\n")
    theirs = Commit("theirs", "2026-03-14T00:00:00.000Z", "outside", "", (step,), undoes="ours")

    lines = blame("a\ntheirs\n", [theirs, ours, commit("first", None, b"a\n")])

    assert [(blamed.line, blamed.commit) for blamed in lines] == [("a", "first"), ("theirs", "theirs")]


def test_a_refused_change_leaves_no_trace_in_the_journal(sheaf: Sheaf) -> None:
    sheaf.write("Editor", "D", "user", "vim")
    before = contents(sheaf.root)

    for act in (
        lambda: sheaf.write("Editor", "D", "user", "x"),
        lambda: sheaf.revise("user_editor.md", "absent", "x"),
        lambda: sheaf.own.restore("user_editor.md", "0" * 64),
        lambda: sheaf.own.diff("user_editor.md", "0" * 64),
        lambda: sheaf.own.diff("user_unknown.md"),
        lambda: sheaf.undo("0" * 12),
        lambda: sheaf.undo("nonsense"),
        lambda: sheaf.forget("user_other.md"),
        lambda: sheaf.put("user_editor.md", PLAIN + "x\n"),
    ):
        with pytest.raises(MemsheafError) as caught:
            act()
        assert isinstance(caught.value, Exists) or caught.value.hint

    assert contents(sheaf.root) == before


def test_what_was_replaced_longer_ago_than_retention_is_let_go_and_what_is_there_stays(
    settings: Settings, clock: Clock
) -> None:
    clock.now = time.time()  # retention is seen to once a day of the file system's clock
    with Sheaf.open("user", settings=settings, clock=clock) as sheaf:
        first = sheaf.write("Editor", "D", "user", "vim")
        sheaf.revise(first.path, "vim", "helix")
    for later in (40 * DAY, 2 * DAY):
        clock.now += later
        with Sheaf.open("user", settings=settings, clock=clock) as sheaf:
            sheaf.write(f"Other {later}", "D", "user", f"x {later}")
    with Sheaf.open("user", settings=settings, clock=clock) as sheaf:
        with pytest.raises(NotInHistory):
            sheaf.own.restore(first.path, first.version)
        assert sheaf.read(first.path).body == "helix\n"
        assert len(list(sheaf.log(first.path))) == 2, "the log itself stays"


def test_a_clock_that_ran_ahead_for_once_lets_nothing_go(settings: Settings, clock: Clock) -> None:
    clock.now = time.time()
    with Sheaf.open("user", settings=settings, clock=clock) as sheaf:
        first = sheaf.write("Editor", "D", "user", "vim")
        sheaf.revise(first.path, "vim", "helix")
    for ahead in (400 * DAY, DAY, 2 * DAY):
        other = Clock()
        other.now = clock.now + ahead
        with Sheaf.open("user", settings=settings, clock=other) as sheaf:
            sheaf.write(f"Other {ahead}", "D", "user", f"x {ahead}")

    with Sheaf.open("user", settings=settings, clock=clock) as sheaf:
        sheaf.own.restore(first.path, first.version)
        assert sheaf.read(first.path).body == "vim\n"


def test_what_was_removed_today_can_be_brought_back_however_old_it_was(settings: Settings, clock: Clock) -> None:
    clock.now = time.time()  # retention is seen to once a day of the file system's clock
    with Sheaf.open("user", settings=settings, clock=clock) as sheaf:
        memory = sheaf.write("Editor", "D", "user", "vim")
    clock.now += 40 * DAY
    with Sheaf.open("user", settings=settings, clock=clock) as sheaf:
        os.unlink(os.path.join(sheaf.root, memory.path))
        sheaf.list()
    clock.now += 2 * DAY
    with Sheaf.open("user", settings=settings, clock=clock) as sheaf:
        sheaf.write("Other", "D", "user", "x")
    with Sheaf.open("user", settings=settings, clock=clock) as sheaf:
        sheaf.own.restore(memory.path, memory.version)
        assert data_of(sheaf, memory.path) == memory.data
