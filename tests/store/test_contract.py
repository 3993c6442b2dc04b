"""What every store promises. A backend is whatever passes this."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from memsheaf.errors import (
    Busy,
    Changed,
    NotFound,
    NotInHistory,
    PathRefused,
    ScopeRefused,
    StoreFailed,
    TextRefused,
)
from memsheaf.store import ABSENT, Change, Commit, Document, Revision, folder, version_of
from memsheaf.store.folder import FolderStore

Open = Callable[..., FolderStore]

BACKENDS: dict[str, dict[str, object]] = {
    "folder": {},
    "folder, without directory handles": {"portable": True},
    "folder, where a reboot cannot be told": {"boot": ""},
}
HOUR = 3600.0
DAY = 24 * HOUR


@pytest.fixture(params=BACKENDS.values(), ids=list(BACKENDS))
def open_store(request: pytest.FixtureRequest, tmp_path: object) -> Open:
    """Open the same store once more, as another process would."""
    root = os.path.join(str(tmp_path), "root")

    def opened(**options: object) -> FolderStore:
        return FolderStore(root, **{"patience": 0.0, "wait": 0.2, **request.param, **options})

    return opened


@pytest.fixture
def store(open_store: Open) -> Iterator[FolderStore]:
    opened = open_store()
    yield opened
    opened.close()


def put(store: FolderStore, path: str, data: bytes | None, *, by: str = "user", why: str = "") -> Commit:
    """Commit one text, whatever is there."""
    return store.commit([Change(path, data, version_at(store, path))], by=by, why=why)


def version_at(store: FolderStore, path: str) -> str:
    try:
        return store.read(path).version
    except NotFound:
        return ABSENT


def outside(store: FolderStore, path: str, data: bytes | None) -> None:
    """Change a file as a person does, with no word to the store."""
    place = os.path.join(store.root, path)
    if data is None:
        os.unlink(place)
        return
    os.makedirs(os.path.dirname(place), exist_ok=True)
    with open(place, "wb") as file:
        file.write(data)


def listed(store: FolderStore) -> list[str]:
    return sorted(entry.path for entry in store.scan())


def texts(store: FolderStore, path: str) -> list[tuple[bytes | None, bytes | None]]:
    return [(r.old, r.new) for commit in store.history(path) for r in commit.revisions]


# reading


def test_a_committed_text_is_read_back_byte_for_byte(store: FolderStore) -> None:
    data = b"\xef\xbb\xbf---\r\nname: x\r\n---\r\nno newline at the end \xff\x00"

    put(store, "a.md", data)

    assert store.read("a.md") == Document("a.md", data)


def test_a_text_that_is_not_there_is_not_found(store: FolderStore) -> None:
    with pytest.raises(NotFound):
        store.read("a.md")
    with pytest.raises(NotFound):
        store.read("folder/a.md")
    put(store, "b.md", b"b")
    with pytest.raises(NotFound):
        store.read("a.md")


def test_reading_and_asking_create_nothing(store: FolderStore) -> None:
    assert list(store.scan()) == []
    assert list(store.history()) == []
    store.recover()
    with pytest.raises(NotFound):
        store.read("a.md")
    with pytest.raises(NotInHistory):
        store.undo(by="user")

    assert not os.path.exists(store.root)


def test_the_version_is_the_content_and_nothing_else(store: FolderStore) -> None:
    put(store, "a.md", b"same")
    put(store, "b.md", b"same")

    assert store.read("a.md").version == store.read("b.md").version == version_of(b"same")


def test_an_empty_text_is_a_text(store: FolderStore) -> None:
    put(store, "a.md", b"")

    assert store.read("a.md").data == b""
    assert version_of(b"") != ABSENT


# committing


def test_second_writer_is_refused_and_the_first_text_stays(store: FolderStore, open_store: Open) -> None:
    seen = put(store, "a.md", b"vim").revisions[0].after
    open_store().commit([Change("a.md", b"helix", seen)], by="agent")

    with pytest.raises(Changed) as error:
        store.commit([Change("a.md", b"emacs", seen)], by="agent")

    assert error.value.ref.path == "a.md"
    assert store.read("a.md").data == b"helix"


def test_creating_what_is_there_and_changing_what_is_not_are_refused(store: FolderStore) -> None:
    put(store, "a.md", b"one")

    with pytest.raises(Changed):
        store.commit([Change("a.md", b"two", ABSENT)], by="agent")
    with pytest.raises(Changed):
        store.commit([Change("b.md", b"two", version_of(b"one"))], by="agent")
    with pytest.raises(Changed):
        store.commit([Change("b.md", None, version_of(b"one"))], by="agent")

    assert listed(store) == ["a.md"]
    assert len(list(store.history())) == 1


def test_an_edit_from_outside_is_never_overwritten(store: FolderStore) -> None:
    seen = put(store, "a.md", b"ours").revisions[0].after
    outside(store, "a.md", b"theirs")

    with pytest.raises(Changed):
        store.commit([Change("a.md", b"ours again", seen)], by="agent")
    with pytest.raises(Changed):
        store.commit([Change("a.md", None, seen)], by="agent")

    assert store.read("a.md").data == b"theirs"


def test_a_batch_is_made_whole(store: FolderStore) -> None:
    put(store, "a.md", b"a")
    put(store, "b.md", b"b")

    commit = store.commit(
        [
            Change("a.md", b"a2", version_of(b"a")),
            Change("b.md", None, version_of(b"b")),
            Change("new/c.md", b"c", ABSENT),
        ],
        by="agent",
        why="all at once",
    )

    assert listed(store) == ["a.md", "new/c.md"]
    assert next(store.history()) == commit
    assert (commit.by, commit.why) == ("agent", "all at once")
    assert commit.revisions == (
        Revision("a.md", version_of(b"a"), version_of(b"a2"), b"a", b"a2"),
        Revision("b.md", version_of(b"b"), ABSENT, b"b", None),
        Revision("new/c.md", ABSENT, version_of(b"c"), None, b"c"),
    )


@pytest.mark.parametrize("wrong", range(3))
def test_a_batch_with_one_wrong_expectation_changes_nothing(store: FolderStore, wrong: int) -> None:
    put(store, "a.md", b"a")
    put(store, "b.md", b"b")
    changes = [
        Change("a.md", b"a2", version_of(b"a")),
        Change("b.md", None, version_of(b"b")),
        Change("new/c.md", b"c", ABSENT),
    ]
    changes[wrong] = Change(changes[wrong].path, changes[wrong].data, version_of(b"something else"))

    with pytest.raises(Changed):
        store.commit(changes, by="agent")

    assert listed(store) == ["a.md", "b.md"]
    assert (store.read("a.md").data, store.read("b.md").data) == (b"a", b"b")
    assert len(list(store.history())) == 2
    assert [name for name in os.listdir(os.path.join(store.root, ".history")) if name.startswith("draft")] == []


def test_a_batch_that_names_one_file_twice_is_refused(store: FolderStore) -> None:
    for other in ("a.md", "A.md"):
        with pytest.raises(PathRefused):
            store.commit([Change("a.md", b"1", ABSENT), Change(other, b"2", ABSENT)], by="agent")

    assert listed(store) == []


def test_a_change_to_what_is_there_already_is_no_commit(store: FolderStore) -> None:
    put(store, "a.md", b"same")

    nothing = store.commit([Change("a.md", b"same", version_of(b"same"))], by="agent")

    assert nothing.revisions == ()
    assert len(list(store.history())) == 1


def test_a_deleted_text_is_gone_and_can_be_made_again(store: FolderStore) -> None:
    put(store, "folder/a.md", b"one")
    put(store, "folder/a.md", None)

    with pytest.raises(NotFound):
        store.read("folder/a.md")
    put(store, "folder/a.md", b"two")

    assert texts(store, "folder/a.md") == [(None, b"two"), (b"one", None), (None, b"one")]


def test_words_that_no_file_can_hold_do_not_keep_a_commit_from_being_told(store: FolderStore) -> None:
    store.commit([Change("a.md", b"a", ABSENT)], by="agent \udcff", why="half a character: \ud800")

    assert texts(store, "a.md") == [(None, b"a")]
    assert store.damaged() == []


def test_a_file_keeps_its_mode_and_a_new_one_is_private(store: FolderStore) -> None:
    put(store, "a.md", b"one")
    assert os.stat(os.path.join(store.root, "a.md")).st_mode & 0o777 == 0o600
    os.chmod(os.path.join(store.root, "a.md"), 0o664)

    put(store, "a.md", b"two")

    assert os.stat(os.path.join(store.root, "a.md")).st_mode & 0o777 == 0o664


def test_two_stores_on_one_folder_see_each_other(store: FolderStore, open_store: Open) -> None:
    other = open_store()
    for number in range(5):
        put(store, "a.md", b"ours %d" % number)
        put(other, "a.md", b"theirs %d" % number)

    assert store.read("a.md").data == b"theirs 4"
    assert len(list(store.history("a.md"))) == len(list(other.history("a.md"))) == 10


# scanning


def test_a_scan_lists_files_of_nested_folders(store: FolderStore) -> None:
    for path in ("a.md", "one/b.md", "one/two/c.md", "one/two/three/four/d.md"):
        put(store, path, b"x")

    assert listed(store) == ["a.md", "one/b.md", "one/two/c.md", "one/two/three/four/d.md"]


def test_a_scan_leaves_out_what_is_not_a_memory(store: FolderStore) -> None:
    put(store, "a.md", b"x")
    store.publish("MEMORY.md", b"# Memory\n")
    for path in (".hidden.md", "notes.txt", "tasks/t.md", "sessions/s.md", "logs/l.md", ".git/g.md", "~$a.md"):
        outside(store, path, b"x")

    assert listed(store) == ["a.md"]


def test_one_bad_entry_never_hides_another(store: FolderStore) -> None:
    put(store, "a.md", b"x")
    os.symlink("/etc/passwd", os.path.join(store.root, "link.md"))
    os.mkdir(os.path.join(store.root, "folder.md"))
    os.mkfifo(os.path.join(store.root, "pipe.md"))
    outside(store, "CON.md", b"x")
    outside(store, "z.md", b"x")

    found = {entry.path: entry.problem for entry in store.scan() if entry.path}

    assert {path for path, problem in found.items() if not problem} == {"a.md", "z.md"}
    assert {path for path, problem in found.items() if problem} >= {"link.md", "pipe.md", "CON.md"}


def test_a_stamp_changes_with_the_file_and_only_then(store: FolderStore) -> None:
    put(store, "a.md", b"one")
    put(store, "folder/b.md", b"one")
    first = store.stamps(["a.md", "folder/", "folder/b.md", "", "none.md"])

    assert store.stamps(first) == first
    assert first["none.md"] is None
    assert first["a.md"] == next(entry.stamp for entry in store.scan() if entry.path == "a.md")
    put(store, "a.md", b"two")
    outside(store, "folder/b.md", b"longer")
    later = store.stamps(first)
    assert later["a.md"] != first["a.md"]
    assert later["folder/b.md"] != first["folder/b.md"]


# history


def test_history_is_newest_first_with_both_texts(store: FolderStore, open_store: Open) -> None:
    put(store, "a.md", b"one", by="user", why="begin")
    put(store, "b.md", b"other")
    put(store, "a.md", "zwei \U0001f600".encode(), by="agent", why="go on")
    put(store, "a.md", None, by="agent")

    told = [(commit.by, commit.why) for commit in open_store().history("a.md")]

    assert told == [("agent", ""), ("agent", "go on"), ("user", "begin")]
    assert texts(store, "a.md") == [
        ("zwei \U0001f600".encode(), None),
        (b"one", "zwei \U0001f600".encode()),
        (None, b"one"),
    ]
    assert len(list(store.history())) == 4


def test_the_times_of_history_come_from_the_clock(open_store: Open) -> None:
    store = open_store(clock=lambda: 1_800_000_000.25)

    assert put(store, "a.md", b"one").at == "2027-01-15T08:00:00.250Z"


def test_history_of_a_path_tells_of_that_path_alone(store: FolderStore) -> None:
    store.commit([Change("a.md", b"a", ABSENT), Change("b.md", b"b", ABSENT)], by="agent")

    assert [r.path for commit in store.history("a.md") for r in commit.revisions] == ["a.md"]


def test_a_commit_is_found_by_the_beginning_of_its_id(store: FolderStore) -> None:
    commit = put(store, "a.md", b"one")
    put(store, "b.md", b"two")

    assert store.find(commit.id) == store.find(commit.id[:8]) == commit
    with pytest.raises(NotInHistory):
        store.find("no such")
    with pytest.raises(NotInHistory):
        store.find("")


def test_an_older_text_is_found_by_the_beginning_of_its_version(store: FolderStore) -> None:
    put(store, "a.md", b"one")
    put(store, "a.md", b"two")
    put(store, "a.md", None)

    assert store.version("a.md", version_of(b"one")) == b"one"
    assert store.version("a.md", version_of(b"two")[:12]) == b"two"
    with pytest.raises(NotInHistory):
        store.version("a.md", version_of(b"never"))
    with pytest.raises(NotInHistory):
        store.version("b.md", version_of(b"one"))


def test_a_long_history_is_one_story(store: FolderStore, open_store: Open) -> None:
    texts_in_order = [b"text %d" % number for number in range(50)]
    for data in texts_in_order:
        put(store, "a.md", data)
    store.close()

    assert [new for _, new in texts(open_store(), "a.md")] == texts_in_order[::-1]
    for _ in texts_in_order[1:]:
        store.undo(by="user")
    assert store.read("a.md").data == texts_in_order[0]


def test_rot_in_one_text_harms_no_other(store: FolderStore, open_store: Open) -> None:
    put(store, "a.md", b"one")
    put(store, "b.md", b"a text that will rot")
    put(store, "a.md", b"two")
    store.close()
    change_bytes(store.root, b"will rot", b"w\xffll rot")

    reopened = open_store()

    assert texts(reopened, "a.md") == [(b"one", b"two"), (None, b"one")]
    assert texts(reopened, "b.md") == [(None, None)]
    put(reopened, "c.md", b"three")
    assert reopened.read("b.md").data == b"a text that will rot"


def change_bytes(root: str, old: bytes, new: bytes) -> None:
    """Change what is in a database that nobody has open."""
    place = os.path.join(root, ".history", "history.db")
    with open(place, "rb") as file:
        data = file.read()
    with open(place, "wb") as file:
        file.write(data.replace(old, new[: len(old)]))


@pytest.mark.parametrize("damage", ["truncated", "overwritten", "no database", "empty"])
def test_a_damaged_history_hides_no_memory_and_is_begun_anew(
    store: FolderStore, open_store: Open, damage: str
) -> None:
    for number in range(30):
        put(store, f"{number}.md", b"text %d" % number * 50)
    store.close()
    place = os.path.join(store.root, ".history", "history.db")
    size = os.path.getsize(place)
    with open(place, "rb+") as file:
        if damage in ("truncated", "empty"):
            file.truncate(0 if damage == "empty" else size // 2)
        else:
            file.seek(4096 if damage == "overwritten" else 0)
            file.write(b"\xff" * (size // 2))

    reopened = open_store()
    reopened.recover()

    assert len(list(reopened.scan())) == 30
    assert reopened.last_id() in ("", store.last_id())
    for attempt in range(2):  # a save that meets the damage may fail; the next one does not
        with suppress(StoreFailed):
            put(reopened, "new.md", b"new %d" % attempt)
    put(reopened, "new.md", b"newest")
    assert reopened.read("new.md").data == b"newest"
    assert texts(reopened, "new.md")[0][1] == b"newest"
    assert reopened.read("7.md").data == b"text 7" * 50


# undoing


def test_undo_takes_back_the_last_commit_and_again_the_one_before(store: FolderStore) -> None:
    put(store, "a.md", b"one")
    put(store, "a.md", b"two")
    put(store, "b.md", b"other")

    store.undo(by="user")
    assert listed(store) == ["a.md"]
    store.undo(by="user")
    assert store.read("a.md").data == b"one"
    store.undo(by="user")
    assert listed(store) == []
    with pytest.raises(NotInHistory):
        store.undo(by="user")


def test_undo_of_a_deletion_brings_the_text_back(store: FolderStore) -> None:
    put(store, "folder/a.md", b"one")
    put(store, "folder/a.md", None)

    commit = store.undo(by="user")

    assert store.read("folder/a.md").data == b"one"
    assert commit.by == "user"
    assert next(store.history()) == commit


def test_an_undo_is_undone_by_its_id(store: FolderStore) -> None:
    put(store, "a.md", b"one")
    put(store, "a.md", b"two")
    undone = store.undo(by="user")

    store.undo(undone.id, by="user")

    assert store.read("a.md").data == b"two"


def test_a_commit_whose_undo_was_undone_stands_and_is_undone_next(store: FolderStore) -> None:
    put(store, "a.md", b"one")
    put(store, "a.md", b"two")
    store.undo(store.undo(by="user").id, by="user")

    store.undo(by="user")

    assert store.read("a.md").data == b"one"


def test_undo_by_id_takes_back_an_older_commit_of_another_path(store: FolderStore) -> None:
    older = put(store, "a.md", b"one")
    put(store, "b.md", b"two")

    store.undo(older.id, by="user")

    assert listed(store) == ["b.md"]


def test_undo_of_a_batch_is_all_or_nothing(store: FolderStore) -> None:
    put(store, "a.md", b"a")
    batch = store.commit([Change("a.md", b"a2", version_of(b"a")), Change("b.md", b"b", ABSENT)], by="agent")
    put(store, "b.md", b"b2")

    with pytest.raises(Changed):
        store.undo(batch.id, by="user")
    assert store.read("a.md").data == b"a2"
    store.undo(by="user")
    store.undo(by="user")

    assert listed(store) == ["a.md"]
    assert store.read("a.md").data == b"a"


def test_undo_does_not_overwrite_an_edit_from_outside(store: FolderStore) -> None:
    put(store, "a.md", b"one")
    put(store, "a.md", b"two")
    outside(store, "a.md", b"theirs")

    with pytest.raises(Changed):
        store.undo(by="user")

    assert store.read("a.md").data == b"theirs"


# what others did


def test_an_edit_from_outside_is_adopted_once_and_can_be_undone(store: FolderStore, open_store: Open) -> None:
    put(store, "a.md", b"ours")
    outside(store, "a.md", b"theirs, \xff not UTF-8")

    commit = store.adopt(["a.md"])

    assert commit is not None
    assert (commit.by, [r.path for r in commit.revisions]) == ("outside", ["a.md"])
    assert open_store().adopt(["a.md"]) is None
    assert store.adopt(None) is None
    store.undo(by="user")
    assert store.read("a.md").data == b"ours"
    store.undo(next(store.history()).id, by="user")
    assert store.read("a.md").data == b"theirs, \xff not UTF-8"


def test_a_file_made_or_removed_outside_is_adopted(store: FolderStore) -> None:
    put(store, "gone.md", b"text")
    outside(store, "gone.md", None)
    outside(store, "new/folder/made.md", b"\r\n")

    store.adopt(["gone.md", "new/folder/made.md"])

    assert texts(store, "gone.md")[0] == (b"text", None)
    assert texts(store, "new/folder/made.md") == [(None, b"\r\n")]
    store.undo(by="user")
    assert listed(store) == ["gone.md"]


def test_our_own_commit_is_never_adopted(store: FolderStore) -> None:
    put(store, "a.md", b"one")
    put(store, "a.md", b"two")
    put(store, "b.md", b"b")
    put(store, "b.md", None)

    assert store.adopt(["a.md", "b.md", "never.md"]) is None
    assert store.adopt(None) is None


def test_a_file_too_large_for_the_journal_is_left_alone(store: FolderStore) -> None:
    large = b"x" * 3_000_000
    outside(store, "a.md", large)

    with pytest.raises(TextRefused):
        store.commit([Change("a.md", None, store.read("a.md").version)], by="agent")
    store.adopt(["a.md"])

    assert os.path.getsize(os.path.join(store.root, "a.md")) == len(large)


# forgetting


def test_erasing_removes_every_version_and_leaves_the_others(store: FolderStore, open_store: Open) -> None:
    put(store, "a.md", b"first secret\n")
    put(store, "a.md", b"second secret\n")
    store.commit(
        [Change("a.md", b"third secret\n", version_of(b"second secret\n")), Change("b.md", b"b", ABSENT)], by="agent"
    )
    put(store, "c.md", b"c")

    erased = store.erase("a.md", by="user")

    assert sorted(erased.texts) == [b"first secret\n", b"second secret\n", b"third secret\n"]
    assert listed(store) == ["b.md", "c.md"]
    assert list(store.history("a.md")) == []
    assert [new for _, new in texts(open_store(), "b.md")] == [b"b"]
    assert not any(b"secret" in data for data in every_byte(store.root))
    with pytest.raises(NotFound):
        store.erase("a.md", by="user")
    store.undo(by="user")
    assert listed(store) == ["b.md"]


def test_erasing_what_was_deleted_before_removes_its_history(store: FolderStore) -> None:
    put(store, "a.md", b"a secret\n")
    put(store, "a.md", None)

    store.erase("a.md", by="user")

    assert not any(b"secret" in data for data in every_byte(store.root))


def test_erasing_removes_what_a_dead_writer_left(store: FolderStore) -> None:
    put(store, "a.md", b"a secret\n")
    with open(os.path.join(store.root, ".history", "draft-0011223344556677"), "wb") as file:
        file.write(b"another secret\n")

    store.erase("a.md", by="user")

    assert not any(b"secret" in data for data in every_byte(store.root))


def every_byte(root: str) -> Iterator[bytes]:
    for place, _, names in os.walk(root):
        for name in names:
            with open(os.path.join(place, name), "rb") as file:
                yield file.read()


def test_retention_drops_retired_texts_and_keeps_the_present_one_and_the_log(open_store: Open) -> None:
    now = [1_700_000_000.0]
    store = open_store(clock=lambda: now[0], retention_days=30)
    for data in (b"first text", b"second text", b"third text"):
        put(store, "a.md", data)
    now[0] += 31 * DAY

    assert store.prune() > 0

    assert len(list(store.history("a.md"))) == 3
    assert store.version("a.md", version_of(b"third text")) == b"third text"
    for data in (b"first text", b"second text"):
        with pytest.raises(NotInHistory):
            store.version("a.md", version_of(data))
    with pytest.raises(NotInHistory):
        store.undo(by="user")
    assert store.read("a.md").data == b"third text"
    assert store.prune() == 0


@pytest.mark.parametrize("by_hand", [False, True], ids=["by a commit", "outside"])
@pytest.mark.parametrize("then", [b"new text", None], ids=["replaced", "removed"])
def test_retention_counts_from_when_a_text_was_retired(open_store: Open, by_hand: bool, then: bytes | None) -> None:
    now = [1_700_000_000.0]
    store = open_store(clock=lambda: now[0], retention_days=30)
    put(store, "a.md", b"an old text")
    now[0] += 40 * DAY
    if by_hand:
        outside(store, "a.md", then)
        store.adopt(["a.md"])
    else:
        put(store, "a.md", then)
    now[0] += 29 * DAY

    store.prune()
    store.undo(by="user")

    assert store.read("a.md").data == b"an old text"


def test_closing_prunes_for_a_moment_and_the_next_process_goes_on(
    open_store: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder, "PRUNE_SECONDS", 0.0)
    now = [1_000_000.0]
    store = open_store(clock=lambda: now[0], retention_days=30)
    store.close()
    commits = []
    for number in range(1_200):
        old, new = f"{number}\n".encode(), f"{number + 1}\n".encode()
        step = Revision("a.md", version_of(old), version_of(new), old, new)
        commits.append(Commit(f"{number:012x}", "1970-01-12T13:46:40.000Z", "agent", "", (step,)))
    store.graft(commits)

    left = []
    for day in range(40, 44):
        now[0] = 1_000_000.0 + day * DAY
        store.commit([Change(f"{day}.md", b"new\n", ABSENT)], by="agent")
        store.close()
        left.append(sum(step.new is not None for commit in store.history("a.md") for step in commit.revisions))

    assert left == [1_200, 701, 201, 1]


def test_closing_prunes_once_a_day(open_store: Open) -> None:
    now = [time.time()]
    store = open_store(clock=lambda: now[0], retention_days=0.001)
    put(store, "a.md", b"first text")
    put(store, "a.md", b"second text")
    store.close()
    now[0] += 2 * DAY
    put(store, "b.md", b"b")
    store.close()

    with pytest.raises(NotInHistory):
        store.version("a.md", version_of(b"first text"))
    assert store.version("a.md", version_of(b"second text")) == b"second text"


# derived texts


def test_a_published_text_is_whole_replaced_and_not_journalled(store: FolderStore) -> None:
    assert store.published("MEMORY.md") is None
    store.publish("MEMORY.md", b"# one\n")
    store.publish("MEMORY.md", b"# two\n")

    assert store.published("MEMORY.md") == b"# two\n"
    assert list(store.history()) == []
    store.close()
    assert [name for name in os.listdir(os.path.join(store.root, ".history")) if name.startswith("derived")] == []


# locks

HOLD = """
import sys
from memsheaf.store.folder import FolderStore
with FolderStore(sys.argv[1]).lock("work"):
    print("held", flush=True)
    sys.stdin.readline()
"""


def holder(store: FolderStore) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", HOLD, store.root]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    assert process.stdout.readline() == "held\n"
    return process


def test_a_lock_is_held_by_one_process_and_free_when_it_is_killed(store: FolderStore) -> None:
    with holder(store) as process:
        with pytest.raises(Busy), store.lock("work", wait=0.05):
            pytest.fail("two processes held one lock")
        with store.lock("other-work", wait=0):
            put(store, "a.md", b"a lock of that name stops no commit")
        process.kill()
        process.wait()

        with store.lock("work", wait=5):
            pass


def test_a_lock_is_not_entered_twice(store: FolderStore, open_store: Open) -> None:
    with store.lock("work"), pytest.raises(Busy), open_store().lock("work", wait=0):
        pytest.fail("one lock was held twice")
    with store.lock("work", wait=0):
        pass


def test_a_lock_has_a_plain_name(store: FolderStore) -> None:
    with pytest.raises(ScopeRefused):
        store.lock("../work")


# failing


def test_a_store_where_nothing_can_be_written_says_so(tmp_path: object) -> None:
    place = os.path.join(str(tmp_path), "file")
    with open(place, "w", encoding="utf-8"):
        pass

    with pytest.raises((StoreFailed, PathRefused)):
        FolderStore(place).commit([Change("a.md", b"a", ABSENT)], by="agent")
    with pytest.raises((StoreFailed, PathRefused)):
        FolderStore(os.path.join(place, "root")).commit([Change("a.md", b"a", ABSENT)], by="agent")


@pytest.mark.parametrize(
    "path", ["../a.md", "/etc/a.md", "a", "MEMORY.md", ".history/a.md", "a\0.md", "", "a/../b.md"]
)
def test_a_path_that_is_not_allowed_is_refused_everywhere(store: FolderStore, path: str) -> None:
    for work in (
        lambda: store.read(path),
        lambda: store.commit([Change(path, b"a", ABSENT)], by="agent"),
        lambda: store.commit([Change("good.md", b"a", ABSENT), Change(path, b"a", ABSENT)], by="agent"),
        lambda: store.erase(path, by="agent"),
    ):
        with pytest.raises(PathRefused):
            work()

    assert listed(store) == []
