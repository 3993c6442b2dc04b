"""Any order of commits, outside edits, looks, undos, erasures and reopenings, against a plain dictionary.

MEMSHEAF_LONG=1 runs many more and longer stories than the short version, which is the same every time.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass, replace
from itertools import count

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from memsheaf.config import Settings
from memsheaf.errors import Changed, NotFound, NotInHistory
from memsheaf.open_scope import OpenScope
from memsheaf.scope import Scope
from memsheaf.sheaf import OpenFolders, Sheaf
from memsheaf.store import ABSENT, Change, Commit, version_of
from memsheaf.store.folder import FolderStore
from memsheaf.transfer import erase

PATHS = ("a.md", "b.md", "sub/c.md", "sub/deep/d.md")
paths = st.sampled_from(PATHS)
some_paths = st.lists(paths, min_size=1, max_size=4, unique=True)
boots = st.sampled_from(["one", "two", "", None])

Step = tuple[bytes | None, bytes | None]


@dataclass(frozen=True, slots=True)
class Told:
    """One commit as it should be told."""

    id: str
    by: str
    steps: dict[str, Step]
    undoes: str = ""


def told(commit: Commit) -> Told:
    return Told(commit.id, commit.by, {r.path: (r.old, r.new) for r in commit.revisions}, commit.undoes)


class Story(RuleBasedStateMachine):
    """A folder, and what it should hold."""

    def __init__(self) -> None:
        super().__init__()
        self.place = tempfile.mkdtemp(prefix="memsheaf-story-")
        self.root = os.path.join(self.place, "root")
        self.files: dict[str, bytes] = {}
        self.story: list[Told] = []
        self.numbers = count()
        self.open(None)

    def teardown(self) -> None:
        self.sheaf.close()
        shutil.rmtree(self.place)

    def open(self, boot: str | None) -> None:
        self.boot = boot
        store = FolderStore(self.root, patience=0, boot=boot)
        store.recover()
        settings = Settings(self.place, os.path.join(self.place, "cache"), embedder="none")
        scope = OpenScope(Scope("user"), settings, store=store)
        folders = OpenFolders("agent")
        folders.add(os.path.join(self.place, "user"), scope)
        self.sheaf = Sheaf(settings, scopes=["user"], folders=folders)

    # what is, and what should be

    def text(self, path: str, by: str) -> bytes:
        """A memory that nobody has written before, always of the same length."""
        name, number = path[-4], next(self.numbers)
        header = f"---\nname: {name}\ndescription: all about {name}\ntype: user\nsource: agent\n---\n"
        return f"{header}{by:6} {number:06}\n".encode()

    def head(self, path: str) -> bytes | None:
        for told in reversed(self.story):
            if path in told.steps:
                return told.steps[path][1]
        return None

    def unnoticed(self) -> dict[str, Step]:
        """What others did since the journal last heard of it."""
        known = {path: self.head(path) for path in PATHS}
        return {path: (old, self.files.get(path)) for path, old in known.items() if old != self.files.get(path)}

    def commits(self) -> list[Told]:
        """What the journal tells, oldest first, but for the marks that erasures leave."""
        return [told(commit) for commit in self.sheaf.own.store.history() if commit.revisions][::-1]

    def new_commits(self) -> list[Told]:
        return self.commits()[len(self.story) :]

    def take_over_outside(self, expected: dict[str, Step]) -> None:
        """What was noticed is told as one or several commits; together they are exactly what happened."""
        new = self.new_commits()
        steps: dict[str, Step] = {}
        for commit in new:
            assert commit.by == "outside"
            assert not steps.keys() & commit.steps.keys()
            steps |= commit.steps
        assert steps == expected
        self.story += new

    def record(self, commit: Commit, steps: dict[str, Step], *, undoes: str = "") -> None:
        assert told(commit).steps == steps
        assert commit.undoes == undoes
        self.story.append(told(commit))
        for path, (_, new) in steps.items():
            self.set_file(path, new)

    def set_file(self, path: str, data: bytes | None) -> None:
        self.files.pop(path, None)
        if data is not None:
            self.files[path] = data

    def last_standing(self) -> Told | None:
        """The last of our commits that was not undone, or whose undo was undone."""
        undone: set[str] = set()
        for told in reversed(self.story):
            if told.id in undone:
                continue
            if told.undoes:
                undone.add(told.undoes)
            elif told.by != "outside":
                return told
        return None

    # what we do

    @rule(chosen=some_paths, removing=st.sets(paths))
    def commit(self, chosen: list[str], removing: set[str]) -> None:
        """As another process does it: our index hears nothing of it."""
        new = {path: None if path in removing else self.text(path, "ours") for path in chosen}
        changes = [Change(path, data, version_of(self.files.get(path))) for path, data in new.items()]
        steps = {path: (self.files.get(path), data) for path, data in new.items() if self.files.get(path) != data}

        commit = self.sheaf.own.store.commit(changes, by="agent")

        if steps:
            self.record(commit, steps)
        else:
            assert commit.revisions == ()

    @rule(chosen=some_paths, wrong=st.integers(0, 3))
    def commit_for_another_version(self, chosen: list[str], wrong: int) -> None:
        changes = [Change(path, self.text(path, "ours"), version_of(self.files.get(path))) for path in chosen]
        number = wrong % len(changes)
        stale = ABSENT if changes[number].expect else version_of(b"never")
        changes[number] = changes[number]._replace(expect=stale)

        with pytest.raises(Changed):
            self.sheaf.own.store.commit(changes, by="agent")

    @rule(path=paths)
    def put(self, path: str) -> None:
        """Through the front door: what a person did to that file is told first."""
        data, old = self.text(path, "put"), self.files.get(path)

        self.sheaf.put(path, data.decode(), expect=version_of(old))

        mine = next(self.sheaf.own.store.history())
        self.take_over_before(mine)
        self.record(mine, {path: (old, data)})

    @rule(path=paths)
    def forget(self, path: str) -> None:
        if path not in self.files:
            with pytest.raises(NotFound):
                self.sheaf.forget(path)
            return
        old = self.files[path]

        commit = self.sheaf.forget(path)

        self.take_over_before(commit)
        self.record(commit, {path: (old, None)})

    def take_over_before(self, mine: Commit) -> None:
        """An edit of the same file may be told on its own before ours, or stand in ours as what was there."""
        commits = self.new_commits()
        assert commits[-1].id == mine.id
        possible = self.unnoticed()
        for commit in commits[:-1]:
            assert commit.by == "outside"
            assert commit.steps.items() <= possible.items()
            self.story.append(commit)

    @rule()
    def undo(self) -> None:
        expected = self.unnoticed()
        self.sheaf.list()
        self.take_over_outside(expected)
        target = self.last_standing()
        if target is None:
            with pytest.raises(NotInHistory):
                self.sheaf.undo()
            return
        self.undo_it(target, "")

    @precondition(lambda self: self.story)
    @rule(data=st.data())
    def undo_by_id(self, data: st.DataObject) -> None:
        expected = self.unnoticed()
        self.sheaf.list()
        self.take_over_outside(expected)
        target = data.draw(st.sampled_from(self.story), "a commit")
        self.undo_it(target, target.id)

    def undo_it(self, target: Told, named: str) -> None:
        back = {path: (new, old) for path, (old, new) in target.steps.items()}
        if any(self.files.get(path) != now for path, (now, _) in back.items()):
            with pytest.raises(Changed):
                self.sheaf.undo(named)
            return
        self.record(self.sheaf.undo(named)[0], back, undoes=target.id)

    @rule(path=paths)
    def erase(self, path: str) -> None:
        expected = self.unnoticed()
        self.sheaf.list()
        self.take_over_outside(expected)
        if not any(path in told.steps for told in self.story):
            with pytest.raises(NotFound):
                erase(self.sheaf.own, path)
            return
        proof = erase(self.sheaf.own, path)
        assert proof.gone, proof
        self.set_file(path, None)
        kept = [(told, {at: step for at, step in told.steps.items() if at != path}) for told in self.story]
        self.story = [replace(told, steps=steps) for told, steps in kept if steps]

    # what others do

    def at(self, path: str) -> str:
        place = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        return place

    @rule(path=paths)
    def save_by_renaming(self, path: str) -> None:
        data = self.text(path, "theirs")
        with open(self.at(path) + ".swp", "wb") as file:
            file.write(data)
        os.replace(self.at(path) + ".swp", self.at(path))
        self.files[path] = data

    @rule(path=paths)
    def save_in_place_and_hide_the_time(self, path: str) -> None:
        """The same length, the same inode, the same modification time."""
        if path not in self.files:
            return
        before, data = os.stat(self.at(path)), self.text(path, "hidden")
        with open(self.at(path), "r+b") as file:
            file.truncate(0)
            file.write(data)
        os.utime(self.at(path), ns=(before.st_atime_ns, before.st_mtime_ns))
        self.files[path] = data

    @rule(path=paths)
    def remove_outside(self, path: str) -> None:
        if path in self.files:
            os.unlink(self.at(path))
            del self.files[path]

    @rule()
    def spoil_the_catalog(self) -> None:
        with open(self.at("MEMORY.md"), "wb") as file:
            file.write(bytes(4096))

    # looking, losing, reopening

    @rule()
    def look(self) -> None:
        expected = self.unnoticed()

        rows = self.sheaf.list()

        self.take_over_outside(expected)
        assert {row.path: row.version for row in rows} == {
            path: version_of(data) for path, data in self.files.items()
        }
        page = self.sheaf.catalog()
        assert all(f"]({path})" in page.text for path in self.files)
        assert page.shown == page.total == len(self.files)
        if self.files:
            assert self.sheaf.own.store.published("MEMORY.md") == page.text.encode()
        self.look_again_after_losing_the_index(page.text)

    def look_again_after_losing_the_index(self, page: str) -> None:
        self.sheaf.own.index.delete()
        assert self.sheaf.catalog().text == page
        assert not self.unnoticed()
        self.take_over_outside({})

    @rule()
    def lose_the_index(self) -> None:
        self.sheaf.own.index.close()
        shutil.rmtree(os.path.join(self.place, "cache"), ignore_errors=True)

    @rule(closing=st.booleans())
    def reopen(self, closing: bool) -> None:
        if closing:
            self.sheaf.close()
        else:
            self.sheaf.own.index.close()
        self.open(self.boot)

    @precondition(lambda self: not any(new is None for _, new in self.unnoticed().values()))
    @rule(boot=boots)
    def reboot(self, boot: str | None) -> None:
        """What was removed by hand and never noticed may come back after a power cut; all else is as it was."""
        self.sheaf.own.index.close()
        self.open(boot)

    @rule()
    def prune(self) -> None:
        assert self.sheaf.own.store.prune() == 0

    # what holds at any time

    @invariant()
    def the_folder_holds_what_it_should(self) -> None:
        found = {entry.path for entry in self.sheaf.own.store.scan() if entry.path and not entry.path.endswith("/")}
        assert found == set(self.files)
        assert {path: self.sheaf.own.store.read(path).data for path in found} == self.files

    @invariant()
    def the_journal_tells_what_happened(self) -> None:
        assert self.commits() == self.story
        for path in PATHS:
            mine = [told.steps[path] for told in reversed(self.story) if path in told.steps]
            assert [told(commit).steps[path] for commit in self.sheaf.own.store.history(path)] == mine
        assert self.sheaf.own.store.damaged() == []


LONG = bool(os.environ.get("MEMSHEAF_LONG"))

TestStory = Story.TestCase
TestStory.settings = settings(
    max_examples=800 if LONG else 8,
    stateful_step_count=50 if LONG else 30,
    derandomize=not LONG,
    print_blob=True,
    report_multiple_bugs=False,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


def test_what_another_process_made_and_a_person_removed_is_told_as_removed() -> None:
    story = Story()
    try:
        story.put("a.md")
        story.look()
        story.commit(["b.md"], set())
        story.forget("a.md")
        story.remove_outside("b.md")
        story.look()
    finally:
        story.teardown()
