"""No byte is read or written outside the root, whatever is in it and whoever swaps what meanwhile."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from cases import each_case
from databases import leave_unplaced
from memsheaf.config import Settings
from memsheaf.errors import MemsheafError, NotFound, PathRefused, StoreFailed
from memsheaf.sheaf import Sheaf
from memsheaf.store import ABSENT, Change, version_of
from memsheaf.store.folder import FolderStore
from memsheaf.store.old_journal import encode

CORPUS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "corpora", "traversal.json")
SECRET = b"a private key\n"


def cases() -> dict[str, dict[str, object]]:
    with open(CORPUS, encoding="utf-8") as file:
        found = json.load(file)["cases"]
    return {case["id"]: case for case in found if case["surface"] == "fs_fixture"}


CASES = cases()


class Place:
    """A root with one good memory, and beside it files that nobody may touch."""

    def __init__(self, place: str, *, portable: bool) -> None:
        self.outside = os.path.join(place, "outside")
        self.root = os.path.join(place, "home", "user")
        os.mkdir(self.outside)
        self.write_outside()
        self.store = FolderStore(self.root, portable=portable, patience=0)
        self.store.commit([Change("good.md", b"good\n", ABSENT)], by="user")
        self.before = self.seen_outside()

    def write_outside(self) -> None:
        for name in ("x.md", "hosts", "passwd", "OUTSIDE.md"):
            with open(os.path.join(self.outside, name), "wb") as file:
                file.write(SECRET)

    def seen_outside(self) -> dict[str, bytes]:
        found = {}
        for folder, _, names in os.walk(os.path.dirname(self.outside)):
            for name in names:
                if not folder.startswith(self.root):
                    with open(os.path.join(folder, name), "rb") as file:
                        found[os.path.join(folder, name)] = file.read()
        return found

    def link(self, name: str, target: str) -> None:
        os.symlink(target, os.path.join(self.root, name))

    def require_untouched(self) -> None:
        """Nothing outside was changed, and nothing of it came in."""
        assert self.seen_outside() == self.before
        for folder, _, names in os.walk(self.root):
            for name in names:
                place = os.path.join(folder, name)
                if os.path.isfile(place) and not os.path.islink(place) and os.stat(place).st_nlink == 1:
                    with open(place, "rb") as file:
                        assert SECRET.strip() not in file.read(), place
        assert self.store.read("good.md").data == b"good\n"


@pytest.fixture(params=[False, True], ids=["handles", "portable"])
def place(request: pytest.FixtureRequest, tmp_path: object) -> Iterator[Place]:
    place = Place(str(tmp_path), portable=request.param)
    yield place
    place.require_untouched()


@contextmanager
def untouched_place(portable: bool) -> Iterator[Place]:
    """The same for one case of many."""
    with tempfile.TemporaryDirectory() as folder:
        place = Place(folder, portable=portable)
        yield place
        place.require_untouched()


def on_either_store(*choices: Sequence[object]) -> Iterator[tuple[object, ...]]:
    """Every combination, on the two kinds of store in turn; with MEMSHEAF_LONG on both."""
    for places in itertools.product(*map(enumerate, choices)):
        turn = sum(number for number, _ in places) % 2
        for portable in (False, True):
            if portable == turn or os.environ.get("MEMSHEAF_LONG"):
                yield portable, *(value for _, value in places)


def open_sheaf(place: Place) -> Sheaf:
    home = os.path.dirname(place.root)
    return Sheaf.open("user", settings=Settings(home=home, cache=os.path.join(place.root, ".cache"), embedder="none"))


def refused(work: Callable[[], object]) -> None:
    with pytest.raises((PathRefused, NotFound)):
        work()


def every_use_is_refused(place: Place, path: str) -> None:
    store = place.store
    refused(lambda: store.read(path))
    for change in (
        Change(path, b"new\n", ABSENT),
        Change(path, None, version_of(SECRET)),
        Change(path, b"new\n", version_of(SECRET)),
    ):
        with pytest.raises(MemsheafError):
            store.commit([change], by="agent")
        with pytest.raises(MemsheafError):
            store.commit([Change("other.md", b"other\n", ABSENT), change], by="agent")
    assert store.adopt([path]) is None
    refused(lambda: store.erase(path, by="agent"))
    refused(lambda: store.read("other.md"))


def test_f01_a_link_to_a_file_outside_is_refused(place: Place) -> None:
    place.link("link.md", os.path.join(place.outside, "passwd"))

    every_use_is_refused(place, "link.md")

    assert os.path.islink(os.path.join(place.root, "link.md"))


def test_f02_a_linked_folder_is_refused(place: Place) -> None:
    place.link("dir", place.outside)

    every_use_is_refused(place, "dir/x.md")
    every_use_is_refused(place, "dir/new.md")

    assert [entry.path for entry in place.store.scan() if entry.path.startswith("dir")] == []


def test_f04_writing_to_a_dangling_link_does_not_create_its_target(place: Place) -> None:
    place.link("link.md", os.path.join(place.outside, "nowhere"))

    with suppress(MemsheafError):
        place.store.commit([Change("link.md", b"new\n", ABSENT)], by="agent")

    assert not os.path.exists(os.path.join(place.outside, "nowhere"))


def test_f05_writing_to_a_hard_link_leaves_the_other_name_alone(place: Place) -> None:
    os.link(os.path.join(place.outside, "OUTSIDE.md"), os.path.join(place.root, "hl.md"))

    place.store.commit([Change("hl.md", b"new\n", version_of(SECRET))], by="agent")

    assert place.store.read("hl.md").data == b"new\n"
    assert place.seen_outside() == place.before
    place.store.erase("hl.md", by="agent")


def test_f07_a_folder_named_like_a_memory_is_refused(place: Place) -> None:
    os.mkdir(os.path.join(place.root, "folder.md"))

    every_use_is_refused(place, "folder.md")


@pytest.mark.parametrize("portable", [False, True], ids=["handles", "portable"])
def test_f08_a_history_that_is_a_link_is_refused(tmp_path: object, portable: bool) -> None:
    root, other = os.path.join(str(tmp_path), "root"), os.path.join(str(tmp_path), "other")
    os.mkdir(root)
    os.mkdir(other)
    os.symlink(other, os.path.join(root, ".history"))
    store = FolderStore(root, portable=portable)

    uses: list[Callable[[], object]] = [
        store.recover,
        lambda: store.commit([Change("a.md", b"a", ABSENT)], by="agent"),
        lambda: store.publish("MEMORY.md", b"# Memory\n"),
        lambda: list(store.history()),
        lambda: store.lock("work").__enter__(),
    ]
    for work in uses:
        with pytest.raises(PathRefused):
            work()

    assert os.listdir(other) == []


@pytest.mark.parametrize("name", ["lock", "history.db"])
@pytest.mark.parametrize("portable", [False, True], ids=["handles", "portable"])
def test_f08_a_file_of_the_history_that_is_a_link_is_refused(tmp_path: object, portable: bool, name: str) -> None:
    root, other = os.path.join(str(tmp_path), "root"), os.path.join(str(tmp_path), "other")
    os.makedirs(os.path.join(root, ".history"))
    os.symlink(other, os.path.join(root, ".history", name))

    with pytest.raises(PathRefused):
        FolderStore(root, portable=portable).commit([Change("a.md", b"a", ABSENT)], by="agent")

    assert not os.path.exists(other)


def test_f10_a_link_to_itself_is_refused(place: Place) -> None:
    place.link("loop.md", "loop.md")
    place.link("loop", "loop")

    every_use_is_refused(place, "loop.md")
    every_use_is_refused(place, "loop/a.md")


SWAP = """
import ctypes, os, sys
folder, link, swaps = os.fsencode(sys.argv[1]), os.fsencode(sys.argv[2]), int(sys.argv[3])
libc, here, exchange = ctypes.CDLL(None, use_errno=True), -100, 2
for _ in range(2 * swaps):
    if libc.renameat2(here, folder, here, link, exchange):
        sys.exit(os.strerror(ctypes.get_errno()))
"""


def test_f11_a_folder_swapped_for_a_link_meanwhile_leads_nowhere(tmp_path: object) -> None:
    place = Place(str(tmp_path), portable=False)
    place.store.commit([Change("d/x.md", b"inside\n", ABSENT)], by="user")
    link = os.path.join(place.root, "link")
    os.symlink(place.outside, link)
    swaps = 1_000_000 if os.environ.get("MEMSHEAF_LONG") else 20_000
    command = [sys.executable, "-c", SWAP, os.path.join(place.root, "d"), link, str(swaps)]

    done = refusals = 0
    with subprocess.Popen(command) as swapper:
        while swapper.poll() is None:
            try:
                text = place.store.read("d/x.md").data
                assert text != SECRET
                place.store.commit([Change("d/x.md", b"inside %d\n" % done, version_of(text))], by="agent")
                done += 1
            except MemsheafError:
                refusals += 1

    print(f"{swaps} swaps, {done} commits, {refusals} refused")
    assert swapper.returncode == 0
    assert done > 5
    assert refusals > 5
    place.store.commit([Change("next.md", b"next\n", ABSENT)], by="user")
    os.unlink(link)
    place.require_untouched()


LIST_AS_NOBODY = """
import json, os, sys
from memsheaf.config import Settings
from memsheaf.errors import MemsheafError
from memsheaf.guard import secrets
from memsheaf.sheaf import Sheaf
from memsheaf.store import ABSENT, Change

def work(home):
    with Sheaf.open("user", settings=Settings(home=home, cache=home + "/cache", embedder="none")) as sheaf:
        rows = {row.path: row.problem for row in sheaf.list()}
        try:
            sheaf.own.store.read("secret.md")
        except MemsheafError as error:
            rows["refused"] = str(error)
        sheaf.own.store.commit([Change("new.md", b"new", ABSENT)], by="user")
        return rows

work(sys.argv[2])  # imports all it needs, while it may
if os.getuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
print(json.dumps(work(sys.argv[1])))
"""


def test_f13_a_file_that_may_not_be_read_is_listed_and_hides_no_other(tmp_path: object) -> None:
    home = os.path.join(str(tmp_path), "home")
    store = FolderStore(os.path.join(home, "user"))
    for name in ("a.md", "secret.md", "z.md"):
        store.commit([Change(name, b"text of " + name.encode(), ABSENT)], by="user")
    store.close()
    open_to_nobody(str(tmp_path))
    os.chmod(os.path.join(home, "user", "secret.md"), 0)

    command = [sys.executable, "-c", LIST_AS_NOBODY, home, os.path.join(str(tmp_path), "rehearsal")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert sorted(rows) == ["a.md", "refused", "secret.md", "z.md"]
    assert rows["secret.md"]
    assert not rows["a.md"]
    assert "may not be read" in rows["refused"]


def open_to_nobody(place: str) -> None:
    """When root runs the tests, root may read everything: hand the files to a user who may not."""
    if os.getuid() != 0:
        return
    for folder, _, names in os.walk(place):
        for path in (folder, *(os.path.join(folder, name) for name in names)):
            os.chown(path, 65534, 65534)
    above = os.path.dirname(place)
    while above.startswith(os.path.join(tempfile.gettempdir(), "")):
        os.chmod(above, os.stat(above).st_mode | 0o711)
        above = os.path.dirname(above)


def test_f14_a_name_that_is_not_utf8_is_shown_escaped(place: Place) -> None:
    with open(os.path.join(os.fsencode(place.root), b"\xff\xfe.md"), "wb") as file:
        file.write(b"bytes that are not UTF-8")

    found = {entry.path: entry.problem for entry in place.store.scan() if entry.path}

    assert set(found) == {"good.md", "\\xff\\xfe.md"}
    assert found["\\xff\\xfe.md"]
    with open_sheaf(place) as sheaf:
        rows = [row.path for row in sheaf.list()]
        assert rows == ["\\xff\\xfe.md", "good.md"]
        json.dumps([rows, sheaf.catalog().text, sheaf.prompt()]).encode()


def test_every_file_system_case_of_the_corpus_has_its_test() -> None:
    here = {name.split("_")[1].upper() for name in globals() if name.startswith("test_f")}

    assert here == set(CASES)


# what a journal that came with a repository may say

ESCAPES = [
    "../x.md", "../../x.md", "../../outside/x.md", "/x.md", "d/../../x.md", "./x.md", "..", "", "d/", "d//x.md",
    ".history/lock", ".history/journal-000002.jsonl", "MEMORY.md", "a\0.md", "good.md/x.md", "link/x.md", "..\\x.md",
]  # fmt: skip


def journal(place: Place, lines: list[str]) -> None:
    """Leave what an earlier version would have written, and no more."""
    for path in Path(place.root, ".history").glob("history.db*"):
        path.unlink()
    with open(os.path.join(place.root, ".history", "journal-000001.jsonl"), "w", encoding="utf-8") as file:
        file.writelines(line + "\n" for line in lines)


def sound_lines(place: Place) -> list[str]:
    place.store.close()
    commits = list(FolderStore(place.root).history())[::-1]
    lines = [part for one in commits for part in (encode(one).decode()[:-1], f'{{"done": "{one.id}", "boot": ""}}')]
    return [*lines, '{"safe": ""}']


def commit_line(path: object, *, before: str = ABSENT, new: str | None = "evil\n", boot: object = "theirs") -> str:
    after = version_of(None if new is None else new.encode())
    change = {"path": path, "before": before, "after": after} | ({} if new is None else {"new": new})
    return json.dumps(
        {
            "commit": "0" * 12,
            "at": "2026-11-15T00:00:00.000Z",
            "by": "x",
            "why": "",
            "boot": boot,
            "changes": [change],
        }
    )


def of_every_kind() -> Iterator[tuple[object, ...]]:
    """Each path in half of the four ways, by turns; with MEMSHEAF_LONG in all."""
    for number, (portable, path, is_done, removing) in enumerate(
        on_either_store(ESCAPES, [False, True], [False, True])
    ):
        if (number + number // 4) % 2 or os.environ.get("MEMSHEAF_LONG"):
            yield portable, path, is_done, removing


@each_case("portable, path, is_done, removing", of_every_kind())
def test_a_hostile_journal_writes_reads_and_removes_nothing_outside(
    portable: bool, path: str, is_done: bool, removing: bool
) -> None:
    end = ['{"done": "000000000000", "boot": "theirs"}'] if is_done else []
    with untouched_place(portable) as place:
        place.link("link", place.outside)
        line = commit_line(path, before=version_of(SECRET), new=None) if removing else commit_line(path)
        journal(place, [*sound_lines(place), line, *end])

        place.store.recover()
        with open_sheaf(place) as sheaf:
            sheaf.list()
            with suppress(MemsheafError):
                sheaf.undo("0" * 12)
            list(sheaf.log())
        place.store.commit([Change("next.md", b"next\n", ABSENT)], by="user")

        assert place.seen_outside() == place.before


ODD_LINES = [
    "null", "[]", '""', "{}", '{"commit"', '{"commit": ' + "[" * 100_000, '{"commit": {}, "changes": {}}',
    '{"commit": "a", "changes": "x"}', '{"commit": "a", "changes": [[]]}', '{"commit": "a", "changes": [{}]}',
    '{"done": "', '{"done": "x"}', '{"done": 1, "boot": 2}', '{"safe": "', '{"safe": []}', '{"sealed"', "\0" * 200,
    commit_line(3), commit_line(None), commit_line(["a.md"]), commit_line("q.md", boot=None),
    commit_line("q.md", boot=[]),
    commit_line("q.md").replace(', "boot": "theirs"', ""), commit_line("q.md", before="not a version"),
    commit_line("q.md").replace('"evil\\n"', "7"), commit_line("q.md").replace('"new"', '"new64"'),
    commit_line("q.md").replace('"by": "x"', '"by": 7'), commit_line("q.md").replace('"at"', '"not at"'),
    commit_line("q\ud800.md"), '{"done": "\u00ff", "boot": "\u00ff"}', "x" * 5000, '{"done": "' + "x" * 5000 + '"}',
]  # fmt: skip


@each_case("portable, line, last", on_either_store(ODD_LINES, [True, False]))
def test_an_odd_journal_line_stops_nobody(portable: bool, line: str, last: bool) -> None:
    with untouched_place(portable) as place:
        sound = sound_lines(place)
        journal(place, [*sound, line] if last else [line, *sound])
        store = FolderStore(place.root, patience=0)

        store.recover()
        assert [new for commit in store.history("good.md") for new in (commit.revisions[0].new,)] == [b"good\n"]
        store.commit([Change("next.md", b"next\n", ABSENT)], by="user")
        store.damaged()
        store.adopt(None)
        store.erase("next.md", by="user")
        store.prune()
        store.close()

        assert FolderStore(place.root).read("good.md").data == b"good\n"


# what stands in the way of recovery stays where it is, and nothing else waits for it


@pytest.mark.parametrize("boot", ["other", None], ids=["after a reboot", "after a crash"])
@pytest.mark.parametrize("obstacle", ["link", "folder", "linked folder", "file for a folder", "too large"])
def test_what_cannot_be_recovered_holds_up_nothing_else(place: Place, obstacle: str, boot: str | None) -> None:
    changes = [Change("d/a.md", b"a\n", ABSENT), Change("b.md", b"b\n", ABSENT)]
    place.store.commit(changes, by="agent")
    if boot is None:
        place.store.close()
        leave_unplaced(place.root)
    a, b, folder = (os.path.join(place.root, name) for name in ("d/a.md", "b.md", "d"))
    os.unlink(a)
    os.unlink(b)
    if obstacle == "link":
        os.symlink(os.path.join(place.outside, "x.md"), a)
    elif obstacle == "folder":
        os.mkdir(a)
    elif obstacle == "too large":
        with open(a, "wb") as file:
            file.write(b"x" * 3_000_000)
    else:
        os.rmdir(folder)
        if obstacle == "linked folder":
            os.symlink(place.outside, folder)
        else:
            with open(folder, "wb"):
                pass

    reopened = FolderStore(place.root, boot=boot, patience=0)
    reopened.recover()
    reopened.commit([Change("next.md", b"next\n", ABSENT)], by="user")
    reopened.close()

    assert reopened.read("b.md").data == b"b\n"
    assert reopened.read("next.md").data == b"next\n"
    if obstacle == "link":
        os.unlink(a)


def test_a_root_that_is_a_link_is_the_owners_choice(tmp_path: object) -> None:
    real, link = os.path.join(str(tmp_path), "real"), os.path.join(str(tmp_path), "link")
    os.mkdir(real)
    os.symlink(real, link)

    FolderStore(link).commit([Change("a.md", b"a", ABSENT)], by="user")

    assert FolderStore(real).read("a.md").data == b"a"


def test_a_pipe_or_a_device_is_refused_at_once(place: Place) -> None:
    os.mkfifo(os.path.join(place.root, "pipe.md"))

    with pytest.raises((PathRefused, StoreFailed)):
        place.store.read("pipe.md")
    with pytest.raises((PathRefused, StoreFailed)):
        place.store.commit([Change("pipe.md", b"x", ABSENT)], by="agent")
