"""One size: a folder of so many memories, and every operation on it, ours and the documents'."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count, islice
from random import Random

from benchmarks.documents import Documents
from benchmarks.measure import NOTHING, Sample, installed, measure, measure_processes
from benchmarks.memories import fill, memory, query
from benchmarks.yardstick import yardstick
from memsheaf.config import Settings
from memsheaf.sheaf import Sheaf

SCOPE = "user"
TOP = 5
AGEING = 2.1  # seconds after which no stamp can hide a second edit
SETTLING = 64  # the store flushes the files themselves once in so many saves: a block holds that once


@dataclass(frozen=True, slots=True)
class Effort:
    """How often things are repeated."""

    reads: int = 400
    questions: int = 40
    blocks: int = 3
    processes: int = 15


QUICK = Effort(reads=40, questions=5, blocks=1, processes=3)


@dataclass(slots=True)
class Figures:
    """What was measured at one size. A command that could not be run is None, and `problems` says why."""

    size: int
    ours: dict[str, Sample] = field(default_factory=dict)
    documents: dict[str, Sample] = field(default_factory=dict)
    yardstick: Sample = NOTHING
    bulk_per_second: float = 0.0
    resident_mb: float = 0.0
    python: Sample = NOTHING
    command: Sample | None = None
    problems: list[str] = field(default_factory=list)


def measure_size(size: int, folder: str, effort: Effort, say: Callable[[str], None]) -> Figures:
    """Fill a folder with `size` memories and measure everything there.

    Questions come before saves, so that they are asked of just so many memories.
    """
    found = Figures(size)
    source = os.path.join(folder, "documents")
    settings = Settings(home=os.path.join(folder, "home"), cache=os.path.join(folder, "cache"))
    say(f"{size:,}: writing the files")
    fill(source, size)
    say(f"{size:,}: importing")
    _import(found, source, settings)
    time.sleep(AGEING)
    say(f"{size:,}: asking")
    _ask(found, settings, effort)
    _start(found, settings, effort)
    say(f"{size:,}: processes")
    _processes(found, settings, effort)
    say(f"{size:,}: saving")
    _save(found, settings, folder, effort)
    say(f"{size:,}: the documents' algorithm")
    _documents(found, source, effort)
    return found


def _open(settings: Settings) -> Sheaf:
    return Sheaf.open(SCOPE, settings=settings)


def _import(found: Figures, source: str, settings: Settings) -> None:
    """Take the whole folder in, and stop the clock when it is closed, with everything flushed."""

    def work(_: int) -> None:
        with _open(settings) as sheaf:
            done = sheaf.take_in(source)
        if len(done.added) != found.size or done.refused:
            raise SystemExit(
                f"only {len(done.added)} of {found.size} memories were imported: {done.refused[:3]}"
            )

    taken = measure(work, 1)
    found.ours["bulk import"] = taken
    found.bulk_per_second = found.size / taken.wall[0]


def _ask(found: Figures, settings: Settings, effort: Effort) -> None:
    random = Random(found.size)
    numbers = [random.randrange(found.size) for _ in range(effort.reads)]
    files = [memory(number).file for number in numbers]
    queries = [query(number) for number in numbers]
    with _open(settings) as sheaf:
        if sheaf.catalog().total != found.size:
            raise SystemExit(f"the catalog counts {sheaf.catalog().total} memories, not {found.size}")
        found.ours["first search"] = measure(lambda n: sheaf.search(queries[n], limit=TOP), 1)
        found.ours["search"] = measure(
            lambda n: sheaf.search(queries[n], limit=TOP), effort.questions, first=1
        )
        found.ours["list"] = measure(lambda _: sheaf.list(), effort.questions)
        found.ours["catalog"] = measure(lambda _: sheaf.catalog(), effort.questions)
        found.ours["read"] = measure(lambda n: sheaf.read(files[n]), effort.reads)


def _start(found: Figures, settings: Settings, effort: Effort) -> None:
    """The start context when nothing changed: of a sheaf that stays open, and of one opened for it."""
    with _open(settings) as sheaf:
        before = sheaf.prompt()
        found.ours["start"] = measure(lambda _: sheaf.prompt(), effort.questions)
        if sheaf.prompt() != before:
            raise SystemExit("the prompt changed although no memory did")

    def anew(_: int) -> None:
        with _open(settings) as other:
            other.prompt()

    found.ours["start, newly opened"] = measure(anew, effort.questions)


def _save(found: Figures, settings: Settings, folder: str, effort: Effort) -> None:
    """Blocks of saves with a run of the yardstick before and after each; then prompts that follow a save."""
    saves = after = NOTHING
    numbers = count(found.size)
    with _open(settings) as sheaf, yardstick(os.path.join(folder, "yardstick")) as stick:
        _saves(
            sheaf, numbers, SETTLING
        )  # begins a segment of the journal, evens out what the import left behind
        for block in range(effort.blocks):
            found.yardstick += stick.times(SETTLING // 2, first=2 * block * SETTLING)
            saves += _saves(sheaf, numbers, SETTLING)
            found.yardstick += stick.times(SETTLING // 2, first=(2 * block + 1) * SETTLING)
        for _ in range(min(10, effort.questions)):
            _saves(sheaf, numbers, 1)
            after += measure(lambda _: sheaf.prompt(), 1)
    found.ours["save"] = saves
    found.ours["start, after a save"] = after


def _saves(sheaf: Sheaf, numbers: Iterator[int], times: int) -> Sample:
    made = [memory(number) for number in islice(numbers, times)]

    def save(place: int) -> None:
        one = made[place]
        sheaf.remember(one.name, one.description, one.kind, one.content)

    return measure(save, times, budget=600)


def _documents(found: Figures, source: str, effort: Effort) -> None:
    theirs = Documents(source)
    random = Random(found.size)
    numbers = [random.randrange(found.size) for _ in range(effort.reads)]
    files = [memory(number).file for number in numbers]
    queries = [query(number) for number in numbers]
    made = [memory(found.size + number) for number in range(effort.questions)]
    found.documents["catalog"] = measure(lambda _: theirs.rebuild(), effort.questions)
    found.documents["start"] = measure(lambda _: theirs.start(), effort.questions)
    found.documents["read"] = measure(lambda n: theirs.read(files[n]), effort.reads)
    found.documents["list"] = measure(lambda _: theirs.files(), effort.questions)
    found.documents["search"] = measure(lambda n: theirs.search(queries[n], TOP), effort.questions)
    found.documents["save"] = measure(lambda n: theirs.save(made[n]), effort.questions)


def _processes(found: Figures, settings: Settings, effort: Effort) -> None:
    environment = installed(
        os.path.join(settings.home, "bytecode"),
        MEMSHEAF_HOME=settings.home,
        MEMSHEAF_CACHE=settings.cache,
        MEMSHEAF_SCOPE=SCOPE,
    )
    found.resident_mb = _resident(environment)
    command = [os.path.join(os.path.dirname(sys.executable), "memsheaf"), "list"]
    bare = [sys.executable, "-c", "pass"]
    try:
        shown = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
        if shown.count("\n") < found.size:
            raise ValueError(f"it printed {shown.count(chr(10))} lines")
        found.python, found.command = measure_processes(
            [bare, command], effort.processes, environment=environment
        )
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        found.problems.append(f"`memsheaf list` was not measured: {_reason(error)}")


def _reason(error: Exception) -> str:
    """Why a command could not be measured, without a path of this machine."""
    if isinstance(error, subprocess.CalledProcessError):
        return f"it ended with status {error.returncode}"
    return (error.strerror or "") if isinstance(error, OSError) else str(error)


_USE = """
from memsheaf.sheaf import Sheaf
with Sheaf.open("user") as sheaf:
    sheaf.prompt(); sheaf.search("one word", limit=5); rows = sheaf.list(); sheaf.read(rows[0].path)
# not ru_maxrss, which a child starts with at the size of the parent that made it
try:
    with open("/proc/self/status") as file:
        print(next(line.split()[1] for line in file if line.startswith("VmHWM")))
except OSError:
    import resource, sys
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (1024 if sys.platform == "darwin" else 1))
"""


def _resident(environment: dict[str, str]) -> float:
    """The most memory that a process held which prompted, searched, listed and read, in MB."""
    command = [sys.executable, "-c", _USE]
    shown = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    return int(shown) / 1024
