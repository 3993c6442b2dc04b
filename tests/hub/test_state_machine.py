"""Any order of commits, outside edits, undos, erasures, cuts of the network and crashes on three machines of one hub.

MEMSHEAF_LONG=1 runs many more and longer stories than the short version, which is the same every time.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from hub.ledger import Ledger
from hub.postgres_server import Server
from hub.spaces import GitSpace, PostgresSpace, Space, files_of
from hub.stations import Crash, Station
from memsheaf.errors import Changed, HubUnreachable, NotFound, NotInHistory
from memsheaf.store import Change, version_of

PATHS = ("a.md", "b.md", "sub/c.md")
MACHINES = (0, 1, 2)
machines = st.sampled_from(MACHINES)
paths = st.sampled_from(PATHS)
some_paths = st.lists(paths, min_size=1, max_size=3, unique=True)
CRASHES = ("before push", "after push", "before pull", "after pull")

Texts = dict[str, bytes | None]
LONG = bool(os.environ.get("MEMSHEAF_LONG"))
SERVERS: list[Server] = []


@pytest.fixture(autouse=True, scope="module")
def server(postgres: Server) -> None:
    SERVERS[:] = [postgres]


class Story(RuleBasedStateMachine):
    """Three machines and a hub, and what must be found in the end."""

    def __init__(self) -> None:
        super().__init__()
        self.place = tempfile.mkdtemp(prefix="memsheaf-hub-story-")
        self.ledger = Ledger()
        self.space = self.open_space()
        self.stations = [self.join(number) for number in MACHINES]

    def open_space(self) -> Space:
        return PostgresSpace(SERVERS[0])

    def join(self, number: int) -> Station:
        station = Station(os.path.join(self.place, f"m{number}"), self.space.settings(number), self.space.connect)
        station.sync()
        return station

    def teardown(self) -> None:
        try:
            if sys.exc_info()[0] is None:
                self.everybody_syncs()
        finally:
            for station in self.stations:
                station.close()
            shutil.rmtree(self.place)

    # what programs do

    @rule(machine=machines, chosen=some_paths, removing=st.sets(paths))
    def commit(self, machine: int, chosen: list[str], removing: set[str]) -> None:
        new = {path: None if path in removing else self.ledger.text(path) for path in chosen}
        self.commit_on(self.stations[machine], new)

    def commit_on(self, station: Station, new: Texts) -> bool:
        files, before = station.files(), len(station.line.pushed)
        was_down, failures = station.replica.state().down_at, station.line.failures
        changes = [Change(path, data, version_of(files.get(path))) for path, data in new.items()]
        try:
            station.replica.commit(changes, by="agent")
        except Changed:
            return self.refuse(new)
        except HubUnreachable:
            assert not station.settings.queues
            if not self.was_pushed(station, new, before):
                assert was_down or station.line.failures > failures
                return self.refuse(new)
        except Crash:
            station.open()
            is_here = all(station.files().get(path) == data for path, data in new.items())
            if not is_here and not self.was_pushed(station, new, before):
                return self.refuse(new)
        for path, data in new.items():
            self.ledger.accept(files.get(path), data)
        return True

    def refuse(self, new: Texts) -> bool:
        for data in new.values():
            self.ledger.refuse(data)
        return False

    def was_pushed(self, station: Station, new: Texts, before: int) -> bool:
        """Whether the hub took it, whatever became of the answer."""
        made = {version_of(data) for data in new.values()}
        return any(made >= {step.after for step in one.revisions} for one in station.line.pushed[before:])

    @rule(machine=machines, chosen=some_paths)
    def commit_after_a_sync(self, machine: int, chosen: list[str]) -> None:
        """Whoever has synced, and is not disturbed, is not refused."""
        if self.is_synced(machine):
            assert self.commit_on(self.stations[machine], {path: self.ledger.text(path) for path in chosen})

    @rule(machine=machines, path=paths)
    def commit_for_another_version(self, machine: int, path: str) -> None:
        station, new = self.stations[machine], self.ledger.text(path)
        with pytest.raises(Changed):
            station.replica.commit([Change(path, new, version_of(b"never"))], by="agent")
        self.ledger.refuse(new)

    @rule(machine=machines)
    def undo(self, machine: int) -> None:
        station = self.stations[machine]
        others = [other.files() for other in self.stations]
        try:
            commit = station.replica.undo(by="user")
        except (Changed, NotInHistory):
            return
        except HubUnreachable:
            assert station.line.is_down or station.replica.state().down_at
            return
        for step in commit.revisions:
            self.ledger.accept(step.old, None)
        for step in commit.revisions:
            is_apart = any(version_of(files.get(step.path)) != step.before for files in others)
            was_erased = (
                step.new in self.ledger.erased
            )  # which this machine has not heard of: a rejoin erases it again
            if station.line.is_down or is_apart or was_erased:  # or somebody replaced it, here or on the hub
                self.ledger.doubt(step.new)
            else:
                self.ledger.accept(None, step.new)

    @rule(machine=machines, path=paths)
    def erase(self, machine: int, path: str) -> None:
        station = self.stations[machine]
        others = [other.files() for other in self.stations]
        try:
            erased = station.replica.erase(path, by="user")
        except (NotFound, Changed, HubUnreachable):
            return
        self.ledger.doubt_erased(*(files.get(path) for files in others))
        elsewhere = {text for files in others for name, text in files.items() if name != path}
        self.ledger.forget(set(erased.texts) - elsewhere)  # what has another name now is kept
        self.ledger.doubt_copied(self.unknown_after_erasure())

    def unknown_after_erasure(self) -> set[bytes]:
        """Texts that the hub may have without knowing that it has their commits."""
        return set()

    # what people do

    @rule(machine=machines, path=paths)
    def edit(self, machine: int, path: str) -> None:
        station, new = self.stations[machine], self.ledger.text(path, "person")
        known = next(station.replica.history(path), None)  # a removal that nobody has noticed is none
        self.ledger.accept(station.files().get(path, known and known.revisions[0].new), new)
        station.edit(path, new)

    @rule(machine=machines, path=paths)
    def remove_outside(self, machine: int, path: str) -> None:
        station = self.stations[machine]
        if path in station.files():
            self.ledger.accept(station.files()[path], None)
            station.edit(path, None)

    @rule(machine=machines)
    def look(self, machine: int) -> None:
        self.stations[machine].look()

    # what networks and machines do

    @rule(machine=machines, is_down=st.booleans())
    def cut_or_restore_the_network(self, machine: int, is_down: bool) -> None:
        self.stations[machine].line.is_down = is_down

    @rule(machine=machines, chosen=some_paths)
    def commit_whose_answer_is_lost(self, machine: int, chosen: list[str]) -> None:
        station = self.stations[machine]
        station.line.breaks = "answer lost after push"
        self.commit_on(station, {path: self.ledger.text(path) for path in chosen})
        station.line.breaks = ""

    @rule(machine=machines, chosen=some_paths, where=st.sampled_from(CRASHES))
    def crash_in_a_commit(self, machine: int, chosen: list[str], where: str) -> None:
        station = self.stations[machine]
        station.line.breaks = where
        self.commit_on(station, {path: self.ledger.text(path) for path in chosen})
        station.line.breaks = ""

    @rule(machine=machines, where=st.sampled_from(CRASHES))
    def crash_in_a_sync(self, machine: int, where: str) -> None:
        station = self.stations[machine]
        station.line.breaks = where
        try:
            self.sync(machine)
        except Crash:
            station.open()
        station.line.breaks = ""

    @rule(machine=machines, offline=st.sampled_from(["queue", "refuse"]))
    def reopen(self, machine: int, offline: str) -> None:
        self.stations[machine].open(offline)

    @rule(machine=machines)
    def sync(self, machine: int) -> None:
        self.is_synced(machine)

    def is_synced(self, machine: int) -> bool:
        station = self.stations[machine]
        try:
            station.sync()
        except HubUnreachable:
            assert station.line.is_down
            return False
        return True

    @rule(machine=machines)
    def rejoin(self, machine: int) -> None:
        station = self.stations[machine]
        station.look()
        both = {*station.files().values(), *files_of(station.line.hub).values()}
        self.ledger.doubt_copied(both)  # both sides are kept, as at first
        try:
            station.replica.rejoin()
        except HubUnreachable:
            assert station.line.is_down

    @rule()
    def everybody_syncs(self) -> None:
        """Then all have the same, nothing is lost and nothing doubled."""
        for station in self.stations:
            station.line.is_down = False
        for _ in range(2):
            for station in self.stations:
                station.sync()
        files = self.stations[0].files()
        for station in self.stations:
            assert station.files() == files
            assert station.replica.state().pending == ()
        assert files_of(self.stations[0].line.hub) == files
        wrong = self.ledger.wrong(files)
        assert wrong == [], wrong
        self.ledger.settle(files)

    # what holds at any time

    @invariant()
    def the_journals_end_with_the_files(self) -> None:
        for station in self.stations:
            assert station.wrong() == []


class GitStory(Story):
    """The same with a git remote."""

    def open_space(self) -> Space:
        return GitSpace(self.place)

    def unknown_after_erasure(self) -> set[bytes]:
        waiting = [one for station in self.stations for one in station.replica.waiting()]
        return {step.new for one in waiting for step in one.revisions if step.new}


TestStory = Story.TestCase
TestStory.settings = settings(
    max_examples=600 if LONG else 6,
    stateful_step_count=50 if LONG else 25,
    derandomize=not LONG,
    phases=[Phase.reuse, Phase.generate] if LONG else [Phase.generate],  # to shrink takes minutes
    print_blob=True,
    report_multiple_bugs=False,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestGitStory = pytest.mark.long(GitStory.TestCase)
TestGitStory.settings = settings(TestStory.settings, max_examples=150)
