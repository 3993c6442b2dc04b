"""Kills a commit at every one of its system calls, or lets the call fail, and looks at what is left.

    python tests/crash/strike.py                      every work, every fault, every call
    python tests/crash/strike.py --every 5 update batch

Each line of the answer says how many faults were aimed and how many really hit. Needs strace.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from victim import (
    BATCH,
    EDITED,
    NOON,
    PAGE,
    START,
    TIDY,
    UNTIDY,
    WORKS,
    Files,
    change_to,
    changed,
    consolidate,
    state_at,
    store_at,
)

from memsheaf.config import Dream, Settings
from memsheaf.errors import NotFound
from memsheaf.learn.consolidate import LastRun, expectations, gates, load_last_run
from memsheaf.memory import parse
from memsheaf.sheaf import Sheaf
from memsheaf.store import ABSENT, Change, Revision
from memsheaf.store.folder import FolderStore

FAULTS = {"kill": "signal=KILL", "full": "error=ENOSPC", "broken": "error=EIO"}
# All calls that take a file name or a descriptor, but those that only map memory.
TRACED = "trace=%file,%desc,sync,sendto"
NOT_AIMED_AT = {"mmap", "execve", "getcwd", "sync", "sendto"}
# Linux frees a descriptor even if closing it fails; strace can only leave it open, and with it the lock.
CANNOT_FAIL = {"close"}
FAILING_FOR_GOOD = {"write", "pwrite64", "fsync", "fdatasync"}
CALL = re.compile(r"(?:\[pid +\d+\] )?(\w+)\(")


@dataclass(frozen=True, slots=True)
class Fault:
    """One call that shall not come through: the `number`-th `call` of the work, or from there on `all`."""

    kind: str
    call: str
    number: int
    all: bool = False

    def __str__(self) -> str:
        return f"{self.kind} at {self.call} {self.number}{' and all after' if self.all else ''}"

    def option(self) -> str:
        """How strace is told."""
        return f"inject={self.call}:{FAULTS[self.kind]}:when={self.number}{'+' if self.all else ''}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a victim ended: killed or not, what it had said, and the calls that were seen."""

    killed: bool
    said: tuple[str, ...]
    trace: str

    def hit(self, call: str) -> bool:
        """Whether the fault at this call happened at all."""
        return self.killed or any(f" {call}(" in line and "(INJECTED)" in line for line in self.trace.splitlines())

    @property
    def acknowledged(self) -> bool:
        """Whether the caller was told that it is done."""
        return "ok" in self.said


@dataclass(slots=True)
class Report:
    """What came of striking one kind of work with one kind of fault."""

    work: str
    kind: str
    aimed: int = 0
    hit: int = 0
    acknowledged: int = 0
    done_though_failed: int = 0
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.work:9} {self.kind:7} aimed {self.aimed:4}  hit {self.hit:4}  acknowledged "
            f"{self.acknowledged:4}  failed yet done {self.done_though_failed:3}  wrong {len(self.wrong):3}"
        )


class Victims:
    """A parent of processes that may be killed. Close it."""

    def __init__(self) -> None:
        here = os.path.dirname(os.path.abspath(__file__))
        command = [sys.executable, os.path.join(here, "victim.py")]
        self._parent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> Victims:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._parent.stdin
        assert self._parent.stdout
        self._parent.stdin.close()
        self._parent.wait()
        self._parent.stdout.close()

    def run(self, work: str, root: str, *options: str) -> Outcome:
        """Do one piece of work under strace."""
        assert self._parent.stdin
        assert self._parent.stdout
        print(work, root, cache_of(root), sep="\t", file=self._parent.stdin, flush=True)
        child = int(self._parent.stdout.readline())
        log = f"{root}.trace"
        always = [WORKS[work].fault] if WORKS[work].fault else []
        filters = [part for option in (TRACED, *always, *options) for part in ("-e", option)]
        command = ["strace", "-f", "-y", "-xx", "-s", "3000000", "-o", log, *filters, "-p", str(child)]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as tracer:
            assert tracer.stderr
            attached = tracer.stderr.readline()
            os.kill(child, signal.SIGCONT)
            answer = json.loads(self._parent.stdout.readline())
            rest = tracer.stderr.read()
        if "attached" not in attached:
            raise SystemExit(f"strace cannot trace here, so nothing can be proved: {attached}{rest}")
        with open(log, encoding="ascii") as file:
            trace = file.read()
        killed = os.WIFSIGNALED(answer["status"])
        return Outcome(killed, tuple(answer["said"].splitlines()), trace)


def cache_of(root: str) -> str:
    """Where the index of a root is kept."""
    return os.path.join(os.path.dirname(root), "cache")


def files_of(root: str) -> Files:
    """Every Markdown file of a root, but for the catalog."""
    found = {}
    for folder, _, names in os.walk(root):
        for name in names:
            path = os.path.relpath(os.path.join(folder, name), root)
            if name.endswith(".md") and name != "MEMORY.md":
                with open(os.path.join(root, path), "rb") as file:
                    found[path] = file.read()
    return found


def prepare(work: str, place: str, victims: Victims) -> str:
    """Lay out what the work begins with, and give its root."""
    root = os.path.join(place, "user")
    WORKS[work].before(root)
    if work == "recover":
        # a batch of five that died with two files in place
        victims.run("batch", root, "inject=rename,renameat,renameat2:signal=KILL:when=3")
        assert files_of(root) not in (START, changed(START, BATCH)), "the batch did not die half-way"
    _make_older(place)
    return root


def _make_older(place: str) -> None:
    """Date files back, so that none is looked at twice because it is new: each run makes the same calls."""
    for folder, _, names in os.walk(place):
        for name in names:
            os.utime(os.path.join(folder, name), (1_700_000_000, 1_700_000_000))


def faults_of(kind: str, trace: str, never: str) -> Iterator[Fault]:
    """Every call of a trace that ran well, one fault each, and for the disk also all calls from there on.

    A call that fails in any case is left out: strace takes one fault for each.
    """
    calls = Counter(found[1] for line in trace.splitlines() if (found := CALL.search(line)))
    for call, count in sorted(calls.items()):
        if call in NOT_AIMED_AT or f"inject={call}:" in never or (kind != "kill" and call in CANNOT_FAIL):
            continue
        for number in range(1, count + 1):
            yield Fault(kind, call, number)
            if kind != "kill" and call in FAILING_FOR_GOOD:
                yield Fault(kind, call, number, all=True)


def strike(work: str, kind: str, place: str, victims: Victims, *, every: int = 1) -> Report:
    """Aim one kind of fault at every call of one kind of work."""
    report = Report(work, kind)
    template = os.path.join(place, "template")
    os.makedirs(template)
    prepare(work, template, victims)
    clean = os.path.join(place, "clean")
    shutil.copytree(template, clean)
    before, old = files_of(os.path.join(clean, "user")), told(os.path.join(clean, "user"))
    well = victims.run(work, os.path.join(clean, "user"))
    assert well.said == (WORKS[work].said,), f"{work} goes wrong without any fault: {well.said}"
    if work == "taken":  # what is found after a fault may also be the batch as it was meant
        shutil.rmtree(clean)
        shutil.copytree(template, clean)
        victims.run("batch", os.path.join(clean, "user"))
    seen = Witness(work, before, old, told(os.path.join(clean, "user")))
    failing = WORKS[work].failing if kind != "kill" else ()
    faults = [one for one in faults_of(kind, well.trace, WORKS[work].fault) if not failing or one.call in failing]
    first = list(WORKS).index(work) % every  # so that not each work is struck at the same calls
    for number, fault in enumerate(faults[first::every]):
        copy = os.path.join(place, f"{number}")
        shutil.copytree(template, copy)
        outcome = victims.run(work, os.path.join(copy, "user"), fault.option())
        report.aimed += 1
        report.hit += outcome.hit(fault.call)
        report.acknowledged += outcome.acknowledged
        report.wrong += [f"{work}, {fault}: {what}" for what in seen.examine(os.path.join(copy, "user"), outcome)]
        report.done_though_failed += outcome.said[:2] in (("StoreFailed", "Changed"), ("StoreFailed", "Exists"))
        shutil.rmtree(copy)
    return report


Told = list[tuple[str, tuple[Revision, ...]]]


def told(root: str) -> Told:
    """The history as it tells what happened, without ids and times, and without what it took back at once."""
    commits = list(FolderStore(root).history())
    taken_back = {commit.undoes for commit in commits if commit.by == "outside" or "taken back" in commit.why} - {""}
    return [
        (commit.by, commit.revisions)
        for commit in commits
        if commit.id not in taken_back and commit.undoes not in taken_back
    ]


def bare(history: Told) -> list[tuple[str, list[tuple[object, ...]]]]:
    """What the history tells, without the texts."""
    return [(by, [revision[:3] for revision in revisions]) for by, revisions in history]


@dataclass(frozen=True, slots=True)
class Witness:
    """Knows what was there before a piece of work, and what would be there after it."""

    work: str
    before: Files
    old: Told
    new: Told

    def examine(self, root: str, outcome: Outcome) -> Iterator[str]:
        """Say all that is wrong with what a fault left."""
        yield from self._said(outcome)
        yield from self._torn(files_of(root))
        try:
            yield from self._reopened(root, outcome)
        except Exception as error:  # noqa: BLE001 - whatever is raised here is a finding
            yield f"reopening raised {error!r}"

    @property
    def after(self) -> Files:
        """The files once the work is done."""
        return WORKS[self.work].after

    def _states(self) -> tuple[Files, ...]:
        return self.before, self.after, *WORKS[self.work].also

    def _said(self, outcome: Outcome) -> Iterator[str]:
        known = {"ok", "StoreFailed", "Changed", "Busy", "NotFound", "Exists", "NotInHistory"}
        if not outcome.killed and (not outcome.said or not set(outcome.said) <= known):
            yield "it said " + " / ".join(outcome.said[-3:])
        if outcome.said and outcome.said[0] in known - {"ok", "StoreFailed", WORKS[self.work].said}:
            yield f"the fault came out as {outcome.said[0]}"

    def _torn(self, files: Files) -> Iterator[str]:
        for path in {*self.before, *self.after, *files}:
            # for a moment our text stands where a person's was, until that is looked at
            passing = [changed(START, BATCH)] if self.work == "raced" else []
            if files.get(path) not in [state.get(path) for state in (*self._states(), *passing)]:
                yield f"{path} is neither old nor new before recovery: {files.get(path)!r:.60}"

    def _reopened(self, root: str, outcome: Outcome) -> Iterator[str]:
        store = store_at(root)
        store.recover()
        files = files_of(root)
        if outcome.acknowledged and files != self.after:
            yield "it was acknowledged, and is not there"
        if files not in self._states():
            yield f"half done: {files!s:.200}"
        if self.work == "raced" and EDITED not in files.values() and not _is_saved_later(root):
            yield "what a person saved was overwritten"
        if self.work == "recover" and files != self.after:
            yield "the decided commit was not completed"
        if damaged := store.damaged():
            yield f"the history is damaged at {damaged}"
        yield from self._history(root, files, outcome)
        if self.work == "publish":
            yield from _page(root, outcome)
        yield from _goes_on(root, files)
        if self.work == "erase":
            yield from self._erased(root, outcome)
        if self.work in ("remember", "report", "supersede", "end"):
            yield from _index_heals(root, files)
        if self.work == "tidy":
            yield from _consolidates(root, files)

    def _history(self, root: str, files: Files, outcome: Outcome) -> Iterator[str]:
        history = told(root)
        if self.work == "raced":
            return
        if self.work == "erase":
            kept = [story for story in history if any(r.path != "a.md" for r in story[1])]
            if len(kept) < len([story for story in self.new if story[1]]):
                yield "the history of another memory was lost"
            return
        if self.work == "prune":
            if bare(history) != bare(self.old):
                yield "the log has changed"
            if store_at(root).adopt(None):
                yield "the history lost where a path was left"
            return
        if history not in (self.old, self.new):
            yield f"the history tells neither the old nor the new story: {[(by, len(r)) for by, r in history]}"
        elif files != self.before and self.work != "adopt" and history != self.new:
            yield "the files are new and the history is old"
        elif files != self.after and history != self.old:
            yield "the files are old and the history is new"
        elif outcome.acknowledged and history != self.new:
            yield "it was acknowledged, and the history does not know it"

    def _erased(self, root: str, outcome: Outcome) -> Iterator[str]:
        """An erasure that was cut short can be done again; one that was acknowledged left nothing."""
        if not outcome.acknowledged:
            try:
                store_at(root).erase("a.md", by="agent")
            except NotFound:
                if not outcome.said or outcome.said[0] == "ok":
                    return
        for folder, _, names in os.walk(root):
            for name in names:
                with open(os.path.join(folder, name), "rb") as file:
                    if b"a, second" in file.read():
                        yield f"the erased text is still in {name}"


def _is_saved_later(root: str) -> bool:
    """Whether the victim died before its person saved."""
    return os.path.exists(os.path.join(os.path.dirname(root), "saved by a person"))


def _page(root: str, outcome: Outcome) -> Iterator[str]:
    page = FolderStore(root).published("MEMORY.md")
    if page not in (PAGE, b"# Memory\n\n(empty)\n") or (outcome.acknowledged and page != PAGE):
        yield f"the catalog is torn: {page!r:.60}"


def _goes_on(root: str, files: Files) -> Iterator[str]:
    """The next commit comes through, sweeps what the dead one left, and can be taken back."""
    store = store_at(root)
    store.commit([Change("next.md", b"next\n", ABSENT)], by="user")
    if left := [name for name in os.listdir(os.path.join(root, ".history")) if name.startswith("draft-")]:
        yield f"drafts stay behind: {left}"
    if files_of(root) != {**files, "next.md": b"next\n"}:
        yield "the next commit changed something else"
    store.undo(by="user")
    store.close()
    if files_of(root) != files:
        yield "the next commit could not be taken back"
    change_to(root, {"next.md": b"next\n"})
    change_to(root, {"next.md": None})


def _index_heals(root: str, files: Files) -> Iterator[str]:
    with Sheaf.open(
        "user", settings=Settings(home=os.path.dirname(root), cache=cache_of(root), embedder="none")
    ) as sheaf:
        listed = [row.path for row in sheaf.list()]
        if listed != sorted(files):
            yield f"the index lists {listed}"
        with open(os.path.join(root, "MEMORY.md"), encoding="utf-8") as file:
            page = file.read()
        if any(f"]({path})" not in page for path in files) or page != sheaf.catalog().text:
            yield f"MEMORY.md did not heal: {page}"
        if outside := [commit for commit in sheaf.log() if commit.by == "outside"]:
            yield f"our own commit was journalled again as an outside edit: {len(outside)}"


def _consolidates(root: str, files: Files) -> Iterator[str]:
    """The gates know of none that was not done, nobody seems to be at it, and the next one completes it."""
    state, settings = state_at(root), Dream(files=1, hours=1, conversations=1)
    if load_last_run(state).at == NOON and files == UNTIDY:
        yield "the gates think that it was done"
    listed = gates(state, settings, files=4, learned=99, now=NOON + 3600 * 25)
    if closed := [gate.name for gate in listed if not gate.is_open]:
        yield f"gates are shut for ever: {closed}"
    consolidate(root, cache_of(root))
    if files_of(root) != TIDY:
        yield f"a second consolidation does not complete it: {sorted(files_of(root))}"
    if load_last_run(state) != LastRun(NOON, 9, looked=NOON):
        yield f"the gates remember {load_last_run(state)}"
    memories = {path: parse(path, data) for path, data in TIDY.items()}
    (pair,) = expectations(state)
    if pair.path != "project_b.md" and pair.path not in memories["project_b.md"].supersedes:
        yield f"the stored question lost its answer: {pair}"


def main() -> int:
    """Strike, print what was found, and fail if anything was wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("works", nargs="*", metavar="WORK", help=f"of {', '.join(WORKS)}; all unless named")
    parser.add_argument("--fault", action="append", choices=FAULTS, help="all unless named")
    parser.add_argument("--every", type=int, default=1, help="strike every n-th call only")
    options = parser.parse_args()
    failed = missed = 0
    with Victims() as victims:
        for work in options.works or WORKS:
            for kind in options.fault or FAULTS:
                with tempfile.TemporaryDirectory() as place:
                    report = strike(work, kind, place, victims, every=options.every)
                print(report, flush=True)
                for wrong in report.wrong:
                    print(f"  {wrong}")
                failed += len(report.wrong)
                missed += report.aimed - report.hit
    return 1 if failed or missed else 0


if __name__ == "__main__":
    sys.exit(main())
