"""Every operation at every size, ours and the documents'."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from random import Random

from benchmarks.documents import Documents
from benchmarks.meaning import after_edits, ask_hybrid, new_processes
from benchmarks.measure import NOTHING, Sample, measure
from benchmarks.memories import Made, fill, memory, query
from benchmarks.processes import Unmeasured, environment_of, list_command, resident
from benchmarks.yardstick import Yardstick, yardstick
from memsheaf.config import Settings
from memsheaf.sheaf import Sheaf
from memsheaf.transfer import take_in

SCOPE = "user"
TOP = 5
AGEING = 2.1  # seconds after which no stamp can hide a second edit
SETTLING = 64  # the store flushes the files themselves once in so many saves: a block holds that once


@dataclass(frozen=True, slots=True)
class Effort:
    """How often things are repeated."""

    reads: int = 400
    questions: int = 40
    recalls: int = 100
    rounds: int = 5
    processes: int = 15


QUICK = Effort(reads=40, questions=5, recalls=10, rounds=1, processes=3)
SMOKE = Effort(reads=3, questions=3, recalls=3, rounds=1, processes=1)


@dataclass(frozen=True, slots=True)
class Round:
    """A block of saves, the yardstick right before and after it, and the documents' saves right behind."""

    yardstick: Sample
    saves: Sample
    documents: Sample

    @property
    def times_faster(self) -> float:
        """How many times less CPU a usual save takes than one of the documents' algorithm."""
        return self.documents.cpu_ms / self.saves.cpu_ms

    @property
    def median_ratio(self) -> float:
        """How many yardsticks a usual save waits."""
        return self.saves.wall_ms / self.yardstick.wall_ms

    @property
    def mean_ratio(self) -> float:
        """How many yardsticks a save waits when the flush that one in 64 makes is spread over all."""
        return self.saves.wall_mean_ms / self.yardstick.wall_mean_ms


@dataclass(slots=True)
class Figures:
    """What was measured at one size. A command that could not be run is None, and `problems` says why.

    `unseen_s` is how long an edit went unseen that nothing pointed to, None when it was not seen in time.
    """

    size: int
    ours: dict[str, Sample] = field(default_factory=dict)
    documents: dict[str, Sample] = field(default_factory=dict)
    rounds: list[Round] = field(default_factory=list)
    bulk_per_second: float = 0.0
    resident_mb: float = 0.0
    resident_hybrid_mb: float = 0.0
    embedded_per_second: float = 0.0
    unseen_s: float | None = None
    python: Sample = NOTHING
    command: Sample | None = None
    problems: list[str] = field(default_factory=list)

    @property
    def yardstick(self) -> Sample:
        """The yardstick over all rounds."""
        return sum((each.yardstick for each in self.rounds), NOTHING)

    def add(self, name: str, *, ours: Sample = NOTHING, documents: Sample = NOTHING) -> None:
        """Add repetitions to an operation of either side."""
        for side, sample in ((self.ours, ours), (self.documents, documents)):
            if sample.cpu:
                side[name] = side.get(name, NOTHING) + sample


@dataclass(frozen=True, slots=True)
class Site:
    """Where one size is measured: the documents' folder, our settings, and what was found so far."""

    found: Figures
    source: str
    settings: Settings

    def open(self, embedder: str = "none") -> Sheaf:
        """Open the sheaf that holds these memories."""
        return Sheaf.open(SCOPE, settings=self.settings._replace(embedder=embedder))


def measure_sizes(sizes: Sequence[int], work: str, effort: Effort, say: Callable[[str], None]) -> list[Figures]:
    """Fill a folder for each size and measure everything there.

    Questions come first, so that they are asked of just so many memories. Saves come last and at all sizes in
    turn: on a shared machine the same work costs half as much again a minute later, and sizes measured one
    after another would differ by that.
    """
    sites = []
    for size in sizes:
        site = _prepare(size, os.path.join(work, str(size)), say)
        say(f"{size:,}: asking")
        _ask(site, effort)
        _start(site, effort)
        say(f"{size:,}: asking the documents' algorithm")
        _ask_documents(site, effort)
        say(f"{size:,}: processes")
        _processes(site, effort)
        say(f"{size:,}: asking with vectors")
        ask_hybrid(site, effort, _asked(size, effort.reads)[1])
        new_processes(site, SCOPE, effort)
        say(f"{size:,}: asking after edits")
        after_edits(site, os.path.join(site.settings.home, SCOPE), effort)
        sites.append(site)
    with yardstick(os.path.join(work, "yardstick")) as stick:
        _save(sites, stick, effort, say)
    return [site.found for site in sites]


def _prepare(size: int, folder: str, say: Callable[[str], None]) -> Site:
    settings = Settings(home=os.path.join(folder, "home"), cache=os.path.join(folder, "cache"), embedder="none")
    site = Site(Figures(size), os.path.join(folder, "documents"), settings)
    say(f"{size:,}: writing the files")
    fill(site.source, size)
    say(f"{size:,}: importing")
    _import(site)
    time.sleep(AGEING)
    return site


def _import(site: Site) -> None:
    """Take the whole folder in, and stop the clock when it is closed, with everything flushed."""
    size = site.found.size

    def work(_: int) -> None:
        with site.open() as sheaf:
            done = take_in(sheaf.own, site.source)
        if len(done.added) != size or done.refused:
            raise SystemExit(f"only {len(done.added)} of {size} memories were imported: {done.refused[:3]}")

    taken = measure(work, 1)
    site.found.ours["bulk import"] = taken
    site.found.bulk_per_second = size / taken.wall[0]


def _asked(size: int, count: int) -> tuple[list[str], list[str]]:
    """Files to read and queries to search for: the same for both sides."""
    random = Random(size)
    numbers = [random.randrange(size) for _ in range(count)]
    return [memory(number).file for number in numbers], [query(number) for number in numbers]


def _ask(site: Site, effort: Effort) -> None:
    files, queries = _asked(site.found.size, effort.reads)
    ours = site.found.ours
    with site.open() as sheaf:
        if (total := sheaf.catalog().total) != site.found.size:
            raise SystemExit(f"the catalog counts {total} memories, not {site.found.size}")
        ours["first search"] = measure(lambda _: sheaf.search(queries[-1], limit=TOP), 1)
        ours["search"] = measure(lambda n: sheaf.search(queries[n], limit=TOP), effort.questions)
        ours["recall"] = measure(lambda n: sheaf.recall(f"what do we know of {queries[n]}?"), effort.recalls)
        ours["list"] = measure(lambda _: sheaf.list(), effort.questions)
        ours["catalog"] = measure(lambda _: sheaf.catalog(), effort.questions)
        ours["read"] = measure(lambda n: sheaf.read(files[n]), effort.reads)


def _start(site: Site, effort: Effort) -> None:
    """The start context when nothing changed: of a sheaf that stays open, and of one opened for it."""
    with site.open() as sheaf:
        before = sheaf.prompt()
        site.found.ours["start"] = measure(lambda _: sheaf.prompt(), effort.questions)
        if sheaf.prompt() != before:
            raise SystemExit("the prompt changed although no memory did")

    def anew(_: int) -> None:
        with site.open() as other:
            other.prompt()

    site.found.ours["start, newly opened"] = measure(anew, effort.questions)

    def recall_anew(n: int) -> None:
        with site.open() as other:
            other.recall(f"what do we know of {query(n)}?")

    site.found.ours["first recall, newly opened"] = measure(recall_anew, effort.questions)


def _ask_documents(site: Site, effort: Effort) -> None:
    files, queries = _asked(site.found.size, effort.reads)
    theirs, documents = Documents(site.source), site.found.documents
    documents["catalog"] = measure(lambda _: theirs.rebuild(), effort.questions)
    documents["start"] = measure(lambda _: theirs.start(), effort.questions)
    documents["read"] = measure(lambda n: theirs.read(files[n]), effort.reads)
    documents["list"] = measure(lambda _: theirs.files(), effort.questions)
    documents["search"] = measure(lambda n: theirs.search(queries[n], TOP), effort.questions)


def _processes(site: Site, effort: Effort) -> None:
    environment, found = environment_of(site.settings, SCOPE), site.found
    found.resident_mb = resident(environment)
    try:
        found.python, found.command = list_command(environment, found.size, effort.processes)
    except Unmeasured as problem:
        found.problems.append(f"`memsheaf list` was not measured: {problem}")


def _save(sites: Sequence[Site], stick: Yardstick, effort: Effort, say: Callable[[str], None]) -> None:
    """Rounds over all sizes: the yardstick, a block of saves, the yardstick, the documents' saves."""
    with ExitStack() as stack:
        writers = [_Writer(site, stack.enter_context(site.open())) for site in sites]
        for writer in writers:
            writer.block()  # begins a segment of the journal, and evens out what the import left behind
        for number in range(effort.rounds):
            say(f"saving at every size, round {number + 1} of {effort.rounds}")
            for writer in writers:
                found = writer.site.found
                os.sync()  # so that no flush on the clock carries what the documents' saves left behind
                before = stick.times(SETTLING // 2)
                saves = writer.block()
                after = stick.times(SETTLING // 2)
                documents = writer.documents_block()
                found.rounds.append(Round(before + after, saves, documents))
                found.add("save", ours=saves, documents=documents)
        for writer in writers:
            for _ in range(min(10, effort.questions)):
                writer.save()
                writer.site.found.add("start, after a save", ours=writer.prompt())


class _Writer:
    """Saves memories that are not there yet, at one size, on both sides."""

    def __init__(self, site: Site, sheaf: Sheaf) -> None:
        self.site = site
        self._sheaf = sheaf
        self._documents = Documents(site.source)
        self._numbers = count(site.found.size)

    def save(self, made: Made | None = None) -> None:
        one = made or self._new()
        self._sheaf.write(one.name, one.description, one.kind, one.content)

    def block(self) -> Sample:
        made = [self._new() for _ in range(SETTLING)]
        return measure(lambda n: self.save(made[n]), SETTLING, budget=600)

    def documents_block(self) -> Sample:
        made = [self._new() for _ in range(7)]
        return measure(lambda n: self._documents.save(made[n]), len(made), at_least=1, budget=2)

    def prompt(self) -> Sample:
        return measure(lambda _: self._sheaf.prompt(), 1)

    def _new(self) -> Made:
        return memory(next(self._numbers))
