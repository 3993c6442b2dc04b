"""Lets many processes and two editors work on one folder at once, and counts what is lost.

    python tests/race/crowd.py updates                8 processes × 50 updates of one file
    python tests/race/crowd.py editors                the same, with two editors and a reader beside them
    python tests/race/crowd.py memories               8 processes × 25 new memories
    python tests/race/crowd.py twins                  4 processes save the same new name at once, 20 times
    python tests/race/crowd.py looks                  two processes that notice the same outside edit, 50 times

Each prints what it counted, and fails if anything was lost, torn, doubled or refused.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from memsheaf.config import Settings
from memsheaf.errors import Changed, Exists
from memsheaf.open_scope import OpenScope
from memsheaf.scope import Scope
from memsheaf.sheaf import OpenFolders, Sheaf
from memsheaf.store import ABSENT, Change
from memsheaf.store.folder import FolderStore

PATH = "user_log.md"
START = "---\nname: Log\ndescription: d\ntype: user\n---\nbegin\nend\n"
WHOLE = re.compile(r"---\n(?:\w+: [\w-]+\n)+---\nbegin\n(?:[a-z]+\d+\n)*end\n")
MARK = re.compile(r"^[a-z]+\d+$", re.MULTILINE)
PAUSE = 0.002  # how long an editor's file is empty while it saves
PATIENCE = 5.0  # longer than this machine, under this load, lets an editor wait in that pause


def open_sheaf(place: str, cache: str = "cache") -> Sheaf:
    """The memory all work on."""
    root = os.path.join(place, "user")
    store = FolderStore(root, patience=PATIENCE)
    store.recover()
    settings = Settings(place, os.path.join(place, cache), embedder="none")
    scope = OpenScope(Scope("user"), settings, store=store)
    folders = OpenFolders("agent")
    folders.add(scope.root, scope)
    return Sheaf(settings, scopes=["user"], folders=folders)


# what each process does


def update(place: str, who: str, count: int) -> None:
    """Add lines, each on the text as it is then; say which are acknowledged."""
    with open_sheaf(place) as sheaf:
        for number in range(count):
            mark = f"{who}{number}"
            add = _by_revision if number % 2 else _by_commit
            while not add(sheaf, mark):
                pass
            print(mark, flush=True)


def _by_revision(sheaf: Sheaf, mark: str) -> bool:
    try:
        sheaf.revise(PATH, "\nend\n", f"\n{mark}\nend\n")
    except Changed:
        return False
    return True


def _by_commit(sheaf: Sheaf, mark: str) -> bool:
    found = sheaf.own.store.read(PATH)
    _require_whole(found.text)
    try:
        sheaf.own.store.commit([Change(PATH, _marked(found.text, mark).encode(), found.version)], by="agent")
    except Changed:
        return False
    return True


def _marked(text: str, mark: str) -> str:
    return f"{text.removesuffix('end' + chr(10))}{mark}\nend\n"


def _require_whole(text: str) -> None:
    if not WHOLE.fullmatch(text):
        raise SystemExit(f"a torn text was read: {text!r}")


def edit_by_truncating(place: str, who: str, count: int) -> None:
    """Save as simple editors do: empty the file, then write it."""

    def save(path: str, text: str) -> None:
        with open(path, "w", encoding="utf-8") as file:
            time.sleep(PAUSE)
            file.write(text)

    _edit(place, who, count, save)


def edit_by_renaming(place: str, who: str, count: int) -> None:
    """Save as careful editors do: write another file, then rename it."""

    def save(path: str, text: str) -> None:
        with open(f"{path}.swp", "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(f"{path}.swp", path)

    _edit(place, who, count, save)


def _edit(place: str, who: str, count: int, save: Callable[[str, str], None]) -> None:
    path = os.path.join(place, "user", PATH)
    for number in range(count):
        # one person works in one editor at a time, so none of their saves may be missing
        with _one_person(place), open(path, encoding="utf-8") as file:
            text = file.read()
            _require_whole(text)
            save(path, _marked(text, f"{who}{number}"))
        print(f"{who}{number}", flush=True)
        time.sleep(PAUSE * 5)


@contextmanager
def _one_person(place: str) -> Iterator[None]:
    with open(os.path.join(place, "person"), "w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def read(place: str, who: str, count: int) -> None:
    """Read until told to stop; every text is whole."""
    store, number = FolderStore(os.path.join(place, "user"), patience=PATIENCE), 0
    while not os.path.exists(os.path.join(place, "stop")):
        _require_whole(store.read(PATH).text)
        number += 1
    print(number)


def remember(place: str, who: str, count: int) -> None:
    """Save new memories."""
    with open_sheaf(place) as sheaf:
        for number in range(count):
            print(sheaf.write(f"{who} {number}", "d", "user", f"text of {who} {number}").path, flush=True)


def look(place: str, who: str, count: int) -> None:
    """Look each time a line comes in."""
    with open_sheaf(place, cache=who) as sheaf:
        for _ in sys.stdin:
            sheaf.list()
            print("looked", flush=True)


def claim(place: str, who: str, count: int) -> None:
    """Save a memory under each name that comes in, and change it once more."""
    with open_sheaf(place, cache=who.partition("/")[2] or "cache") as sheaf:
        for line in sys.stdin:
            name, said = line.strip(), "saved"
            try:
                sheaf.write(name, f"What {who} says", "user", f"Words of {who} on {name}: {os.urandom(20).hex()}")
            except Exists:
                said = "exists"
            sheaf.revise(f"user_{name}.md", "Words", f"Words, {who[0]}")
            print(said, flush=True)


ROLES = {
    "update": update,
    "truncate": edit_by_truncating,
    "rename": edit_by_renaming,
    "read": read,
    "remember": remember,
    "look": look,
    "claim": claim,
}


# what all of them do together


def start(role: str, place: str, who: str, count: int) -> subprocess.Popen[str]:
    """Let a process of its own play a role."""
    command = [sys.executable, os.path.abspath(__file__), "--role", role, place, who, str(count)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> list[str]:
    """Wait for a process, and give the lines it said."""
    said, _ = process.communicate()
    if process.returncode:
        raise SystemExit(f"a process failed with {process.returncode}")
    return said.split()


def names(count: int) -> list[str]:
    """A letter for each process."""
    return [chr(ord("a") + number) for number in range(count)]


def updates(place: str, processes: int, count: int) -> None:
    """Many processes change one file: every acknowledged line is in it, once."""
    _begin(place)
    crowd = [start("update", place, who, count) for who in names(processes)]
    marks = [mark for process in crowd for mark in finish(process)]
    with open_sheaf(place) as sheaf:
        there = MARK.findall(sheaf.read(PATH).text)
        lost = set(marks) - set(there)
        print(f"{len(marks)} acknowledged, {len(lost)} lost, {len(there) - len(set(there))} doubled")
        assert len(marks) == processes * count
        assert sorted(there) == sorted(marks)
        assert all(commit.by != "outside" for commit in sheaf.log())
        assert len(list(sheaf.own.store.history(PATH))) == len(marks) + 1
        _require_agreement(sheaf)


def editors(place: str, processes: int, count: int) -> None:
    """Two editors save without asking anybody: nothing of theirs or ours is missing from the journal."""
    _begin(place)
    reader = start("read", place, "", 0)
    crowd = [start("update", place, who, count) for who in names(processes)]
    people = [start("truncate", place, "trunc", count), start("rename", place, "ren", count)]
    marks = {mark for process in crowd for mark in finish(process)}
    saves = {mark for process in people for mark in finish(process)}
    with open(os.path.join(place, "stop"), "w", encoding="utf-8"):
        reads = finish(reader)
    with open_sheaf(place) as sheaf:
        sheaf.list()
        kept: set[str] = set()
        for commit in sheaf.own.store.history(PATH):
            for revision in commit.revisions:
                for data in (revision.old, revision.new):
                    kept.update(MARK.findall((data or b"").decode()))
        outside = sum(commit.by == "outside" for commit in sheaf.log())
        print(
            f"{len(marks)} updates acknowledged, {len(marks - kept)} not in the journal; "
            f"{len(saves)} saves of editors, {len(saves - kept)} not in the journal; "
            f"{outside} journalled as outside; {reads[0]} whole reads"
        )
        assert len(marks) == processes * count
        assert not marks - kept, sorted(marks - kept)
        assert not saves - kept, sorted(saves - kept)
        _require_agreement(sheaf)


def memories(place: str, processes: int, count: int) -> None:
    """Many processes save memories of their own: all are there, listed, and journalled once."""
    crowd = [start("remember", place, who, count) for who in names(processes)]
    paths = sorted(path for process in crowd for path in finish(process))
    with open_sheaf(place) as sheaf:
        listed = [row.path for row in sheaf.list()]
        outside = sum(commit.by == "outside" for commit in sheaf.log())
        print(f"{len(paths)} remembered, {len(set(paths) - set(listed))} not listed, {outside} journalled twice")
        assert len(set(paths)) == processes * count
        assert listed == paths
        assert len(list(sheaf.log())) == len(paths)
        _require_agreement(sheaf)


def twins(place: str, processes: int, count: int) -> None:
    """Processes that save one new name at once make one file, the others are told, and no revision is lost."""
    for caches in (["cache"] * processes, names(processes)):
        here = os.path.join(place, "shared" if caches[0] == "cache" else "own")
        crowd = [
            start("claim", here, f"{who}/{cache}", 0) for who, cache in zip(names(processes), caches, strict=True)
        ]
        said = []
        for number in range(count):
            for process in crowd:
                assert process.stdin
                process.stdin.write(f"name{number}\n")
            for process in crowd:
                assert process.stdin
                process.stdin.flush()
            for process in crowd:
                assert process.stdout
                said.append(process.stdout.readline().strip())
        for process in crowd:
            finish(process)
        with open_sheaf(here) as sheaf:
            rows = sheaf.list()
            changed = [sheaf.read(row.path).body.partition(" of ")[0] for row in rows]
            print(f"{count} names, {len(rows)} files, {said.count('saved')} saved, with {len(set(caches))} index(es)")
            assert [row.path for row in rows] == sorted(f"user_name{number}.md" for number in range(count))
            assert (said.count("saved"), said.count("exists")) == (count, count * (processes - 1))
            assert all(sorted(text.split(", ")[1:]) == names(processes) for text in changed), changed
            _require_agreement(sheaf)


def looks(place: str, processes: int, count: int) -> None:
    """Processes that notice the same edit journal it once, with one index or with one each."""
    for caches in (["cache"] * processes, names(processes)):
        here = os.path.join(place, "shared" if caches[0] == "cache" else "own")
        _begin(here)
        crowd = [start("look", here, cache, 0) for cache in caches]
        for number in range(count):
            with open(os.path.join(here, "user", PATH), "a", encoding="utf-8") as file:
                file.write(f"edit {number}\n")
            for process in crowd:
                assert process.stdin
                process.stdin.write("look\n")
                process.stdin.flush()
            for process in crowd:
                assert process.stdout
                process.stdout.readline()
        for process in crowd:
            finish(process)
        with open_sheaf(here) as sheaf:
            found = sum(commit.by == "outside" for commit in sheaf.log())
            print(f"{count} edits, {found} journalled, by {processes} processes with {len(set(caches))} index(es)")
            assert found == count
            _require_agreement(sheaf)


def _begin(place: str) -> None:
    with open_sheaf(place) as sheaf:
        sheaf.own.store.commit([Change(PATH, START.encode(), ABSENT)], by="user")
        sheaf.list()


def _require_agreement(sheaf: Sheaf) -> None:
    """Files, journal, index and catalog say the same."""
    sheaf.list()
    for row in sheaf.list():
        data = sheaf.own.store.read(row.path)
        head = next(sheaf.own.store.history(row.path)).revisions[0]
        assert row.version == data.version == head.after, row.path
    with open(os.path.join(sheaf.root, "MEMORY.md"), encoding="utf-8") as file:
        page = file.read()
    assert page == sheaf.catalog().text
    assert not sheaf.own.store.damaged()
    left = [name for name in os.listdir(os.path.join(sheaf.root, ".history")) if name.startswith("d")]
    assert not left, left
    sheaf.own.index.delete()
    sheaf.list()
    assert sheaf.catalog().text == page


SHOWS = {
    "updates": (updates, 8, 50),
    "editors": (editors, 8, 50),
    "memories": (memories, 8, 25),
    "looks": (looks, 2, 50),
    "twins": (twins, 4, 20),
}


def main() -> None:
    """Play one role, or stage one show."""
    if sys.argv[1] == "--role":
        ROLES[sys.argv[2]](sys.argv[3], sys.argv[4], int(sys.argv[5]))
        return
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("show", choices=SHOWS)
    parser.add_argument("--processes", type=int)
    parser.add_argument("--count", type=int, help="what each process does")
    options = parser.parse_args()
    show, processes, count = SHOWS[options.show]
    with tempfile.TemporaryDirectory() as place:
        began = time.monotonic()
        show(place, options.processes or processes, options.count or count)
        print(f"{options.show}: {time.monotonic() - began:.1f} s")


if __name__ == "__main__":
    main()
