"""Does one piece of work at a time in a process that is there to be killed.

Started once, it forks a child for every order on its input: `work root cache`, parted by tabs. The child stops
itself before the work begins, so that whoever traces it sees the work and nothing of the interpreter. What
the child had said when it ended comes back as a line of JSON.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import datetime
from socket import socket, socketpair

from memsheaf.config import Settings
from memsheaf.errors import MemsheafError
from memsheaf.learn.consolidate import LAST_RUN, LastRun, expect, run
from memsheaf.sheaf import Sheaf
from memsheaf.state import State
from memsheaf.store import ABSENT, Change, version_of
from memsheaf.store.folder import FolderStore
from memsheaf.store.old_journal import encode
from memsheaf.work.sessions import SessionNotes
from memsheaf.work.tasks import Task, new_task

Files = dict[str, bytes]

FIRST = {"a.md": b"a, first\n", "sub/b.md": b"b\r\n", "c.md": b"c \xff\xfe not UTF-8\n", "d.md": b""}
START = {**FIRST, "a.md": b"a, second\n", "sub/b.md": b"b again\n"}
EDITED = b"a, as a person left it\n"
MEMORY = b"---\nname: %s\ndescription: d\ntype: user\nupdated: 2026-11-01\n---\ntext\n"
TWO = {"user_one.md": MEMORY % b"one", "user_two.md": MEMORY % b"two"}
THREE = MEMORY % b"three"
LARGE_BYTES = 1 << 20
LARGE = b"".join(b"%06d\n" % number for number in range(9000))
PAGE = b"# Memory\n\n- a page of its own\n"

_FRIDAYS = "We never deploy on Fridays after 15:00, because the on-call engineer is alone then.\n"


def _fact(body: str, updated: str, source: str, more: str = "") -> bytes:
    header = f"name: Fridays\ndescription: When we deploy\ntype: project\ncreated: 2026-11-01\nupdated: {updated}\n"
    return f"---\n{header}source: {source}\n{more}---\n{body}".encode()


UNTIDY = {
    "project_a.md": _fact(_FRIDAYS, "2026-11-01", "agent"),
    "project_b.md": _fact(_FRIDAYS + "Ask Maria.\n", "2026-11-02", "agent"),
    "project_c.md": _fact("Gone.\n", "2026-11-01", "agent", "expires: 2026-11-03\n"),
    "user_one.md": MEMORY % b"one",
}
TIDY = {
    "project_b.md": _fact(
        _FRIDAYS + "Ask Maria.\n", "2026-11-15", "consolidation", "supersedes:\n  - project_a.md\n"
    ),
    "user_one.md": MEMORY % b"one",
}
NOON = datetime(2026, 11, 15, 12).timestamp()


@dataclass(frozen=True, slots=True)
class Work:
    """One piece of work: the files once it is done, how to lay out those before it, and how it begins.

    `begins` looks at whatever it has to look at, and gives what is then done and acknowledged. What that
    gives back, if it can be called, is done after the acknowledgement. `fault` is one that is always there,
    `said` how it ends then, `also` are other files that may be found after a fault. With `failing`, only these calls
    fail: where a file that cannot be read is passed over, the outcome is another and no less right.
    """

    begins: Callable[[str, str], Callable[[], object]]
    after: Files
    before: Callable[[str], None]
    repeatable: bool = True
    fault: str = ""
    said: str = "ok"
    also: tuple[Files, ...] = ()
    failing: frozenset[str] = frozenset()


def store_at(root: str, *, boot: str | None = None) -> FolderStore:
    """The store, impatient, so that a lock that nobody frees is noticed."""
    return FolderStore(root, wait=0.2, patience=0.001, boot=boot)


def change_to(root: str, files: dict[str, bytes | None]) -> None:
    """Commit these texts, whatever is there now."""
    _commit(files)(root, "")()


def _commit(files: dict[str, bytes | None]) -> Callable[[str, str], Callable[[], object]]:
    def begin(root: str, cache: str) -> Callable[[], object]:
        changes = [Change(path, data, version_of(_present(root, path))) for path, data in files.items()]
        return lambda: store_at(root).commit(changes, by="agent", why="work") and None

    return begin


def _present(root: str, path: str) -> bytes | None:
    try:
        with open(os.path.join(root, path), "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


def _nothing(root: str) -> None:
    """A root that is not there yet."""


def _some_files(root: str) -> None:
    change_to(root, dict(FIRST))
    change_to(root, {"a.md": START["a.md"], "sub/b.md": START["sub/b.md"]})


def _edited_outside(root: str) -> None:
    _some_files(root)
    with open(os.path.join(root, "a.md"), "wb") as file:
        file.write(EDITED)


def _large_texts(root: str) -> None:
    _some_files(root)
    change_to(root, {"c.md": b"x" * LARGE_BYTES})
    change_to(root, {"c.md": FIRST["c.md"]})


def _old_journal(root: str) -> None:
    """A root whose past an earlier version wrote."""
    _large_texts(root)
    with closing(store_at(root)) as store:
        lines = [encode(commit) for commit in store.history()]
    history = os.path.join(root, ".history")
    for name in os.listdir(history):
        if name.startswith("history.db"):
            os.unlink(os.path.join(history, name))
    done = [b'{"done": "%s", "boot": ""}\n' % json.loads(line)["commit"].encode() for line in lines]
    with open(os.path.join(history, "journal-000001.jsonl"), "wb") as file:
        file.writelines(part for pair in zip(lines[::-1], done[::-1], strict=True) for part in pair)
        file.write(b'{"safe": ""}\n')


def _long_page(root: str) -> None:
    """A file that was appended to before."""
    _some_files(root)
    change_to(root, {"log.md": LARGE[:5000]})
    change_to(root, {"log.md": LARGE[:6000]})


def _long_past(root: str) -> None:
    _large_texts(root)
    change_to(root, {"c.md": b"y" * LARGE_BYTES})
    change_to(root, {"c.md": FIRST["c.md"]})
    change_to(root, {"d.md": b"later\n"})
    change_to(root, {"d.md": FIRST["d.md"]})


def _let_go(root: str, cache: str) -> Callable[[], object]:
    """See to retention when everything is past it."""
    store = FolderStore(root, wait=0.2, patience=0.001, clock=lambda: time.time() + 90 * 86_400)
    return lambda: store.prune() and None


def _published(root: str) -> None:
    _some_files(root)
    store_at(root).publish("MEMORY.md", b"# Memory\n\n(empty)\n")


def _sheaf(root: str, cache: str, *, clock: Callable[[], float] = time.time) -> Sheaf:
    settings = Settings(home=os.path.dirname(root), cache=cache, embedder="none")
    return Sheaf.open("user", settings=settings, clock=clock)


def _some_memories(root: str) -> None:
    change_to(root, dict(TWO))
    with _sheaf(root, os.path.join(os.path.dirname(root), "cache")) as sheaf:
        sheaf.list()


def _untidy(root: str) -> None:
    change_to(root, dict(UNTIDY))
    with _sheaf(root, os.path.join(os.path.dirname(root), "cache")) as sheaf:
        sheaf.list()
    state_at(root).save(LAST_RUN, LastRun(NOON - 86_400.0, 3)._asdict())
    expect(state_at(root), "when do we deploy?", "project_a.md")


def state_at(root: str) -> State:
    """What is kept about the root elsewhere."""
    return State(os.path.join(os.path.dirname(root), "state"))


def consolidate(root: str, cache: str) -> None:
    """Consolidate without a model."""
    with closing(_sheaf(root, cache)) as sheaf:
        run(sheaf.own, state=state_at(root), now=NOON, apply=True, learned=9)


def _put(root: str, cache: str) -> Callable[[], object]:
    def put() -> None:
        with closing(_sheaf(root, cache)) as sheaf:
            sheaf.put("user_three.md", THREE.decode(), expect=ABSENT)

    return put


def _report(sheaf: Sheaf) -> None:
    Task(sheaf).report("The schema is there.")


def _supersede(sheaf: Sheaf) -> None:
    sheaf.put("facts/project_port-2.md", NEW_FACT.decode())


def _end_session(sheaf: Sheaf) -> None:
    SessionNotes(sheaf).end()


def _in_layer(work: Callable[[Sheaf], None]) -> Callable[[str, str], Callable[[], object]]:
    """A step of a layer, in a scope that is as good as any."""

    def begin(root: str, cache: str) -> Callable[[], object]:
        def do() -> None:
            with closing(_sheaf(root, cache, clock=lambda: NOON)) as sheaf:
                work(sheaf)

        return do

    return begin


def _layer(files: Files) -> Callable[[str], None]:
    def lay_out(root: str) -> None:
        change_to(root, dict(files))
        with _sheaf(root, os.path.join(os.path.dirname(root), "cache"), clock=lambda: NOON) as sheaf:
            sheaf.list()

    return lay_out


def _settle(root: str, cache: str) -> Callable[[], object]:
    def commit() -> Callable[[], None]:
        store = store_at(root)
        store.commit([Change("new.md", b"new\n", ABSENT)], by="agent", why="work")
        return store.close

    return commit


def _meet_a_person(root: str, cache: str) -> Callable[[], object]:
    """A batch, with a person who saves one of its files between its check and its decision."""
    saved = os.path.join(os.path.dirname(root), "saved by a person")
    with open(saved, "wb") as file:
        file.write(EDITED)

    def clock() -> float:
        if armed:
            with suppress(FileNotFoundError):  # the second time it is saved already
                os.replace(saved, os.path.join(root, "a.md"))
        return time.time()

    armed = False
    changes = [Change(path, data, version_of(_present(root, path))) for path, data in BATCH.items()]

    def work() -> None:
        nonlocal armed
        store = FolderStore(root, wait=0.2, patience=0.001, clock=clock)
        store.adopt([])  # from now on the clock is asked once for each commit, when its versions are checked
        armed = True
        store.commit(changes, by="agent", why="work")

    return work


def _with_store(work: Callable[[FolderStore], object]) -> Callable[[str, str], Callable[[], object]]:
    return lambda root, cache: lambda: work(store_at(root)) and None


WRITING = frozenset(
    ("write", "pwrite64", "fsync", "fdatasync", "ftruncate", "rename", "renameat", "renameat2", "unlink", "unlinkat")
)
BATCH: dict[str, bytes | None] = {
    "new/one.md": b"one\n",
    "two.md": b"two\n",
    "a.md": b"a, third\n",
    "sub/b.md": b"b, third\n",
    "c.md": None,
}


def changed(files: Files, changes: dict[str, bytes | None]) -> Files:
    """The files once the changes are made."""
    return {path: data for path, data in {**files, **changes}.items() if data is not None}


TASK = new_task("Port", "A goal.", today="2026-11-01", by="agent").encode()
REPORTED = {
    "TASK.md": TASK.replace(b"updated: 2026-11-01", b"updated: 2026-11-15").replace(b'phase: "1"', b'phase: "2"'),
    "phases/phase-1.md": b"# Phase 1\n\n## Report, 2026-11-15\n\nThe schema is there.\n",
}
_EVIDENCE = "citations:\n  - app.py:1\nreason: asked often\n"
OLD_FACT = _fact("It listens on port 80.\n", "2026-11-01", "agent", _EVIDENCE)
NEW_FACT = _fact(
    "It listens on port 81.\n", "2026-11-15", "agent", f"{_EVIDENCE}supersedes:\n  - facts/project_port.md\n"
)
SESSION = {"session.md": _fact("## Worklog\n- 12:00 began\n", "2026-11-01", "agent"), **TWO}

WORKS = {
    "first": Work(_commit({"a.md": b"a\n"}), {"a.md": b"a\n"}, _nothing),
    "create": Work(_commit({"deep/er/new.md": b"new\n"}), {**START, "deep/er/new.md": b"new\n"}, _some_files),
    "update": Work(_commit({"a.md": b"a, third\n"}), {**START, "a.md": b"a, third\n"}, _some_files),
    "large": Work(_commit({"a.md": LARGE}), {**START, "a.md": LARGE}, _some_files),
    "delete": Work(_commit({"sub/b.md": None}), changed(START, {"sub/b.md": None}), _some_files),
    "batch": Work(_commit(BATCH), changed(START, BATCH), _some_files),
    "undo": Work(_with_store(lambda store: store.undo(by="agent")), FIRST, _some_files, repeatable=False),
    "import": Work(_commit({"a.md": b"a, third\n"}), {**START, "a.md": b"a, third\n"}, _old_journal),
    "append": Work(_commit({"log.md": LARGE[:7000]}), {**START, "log.md": LARGE[:7000]}, _long_page),
    "prune": Work(_let_go, START, _long_past),
    "settle": Work(_settle, {**START, "new.md": b"new\n"}, _some_files),
    "adopt": Work(_with_store(lambda store: store.adopt(["a.md"])), {**START, "a.md": EDITED}, _edited_outside),
    "publish": Work(_with_store(lambda store: store.publish("MEMORY.md", PAGE)), START, _published),
    "erase": Work(
        _with_store(lambda store: store.erase("a.md", by="agent")), changed(START, {"a.md": None}), _large_texts
    ),
    "recover": Work(_with_store(lambda store: store.recover()), changed(START, BATCH), _some_files),
    "taken": Work(
        _commit(BATCH), changed(START, BATCH), _some_files,
        repeatable=False, fault="inject=unlinkat:error=EIO:when=2", said="StoreFailed",
    ),
    "raced": Work(
        _meet_a_person, START, _some_files, repeatable=False, said="Changed",
        also=({**START, "a.md": EDITED}, {**changed(START, BATCH), "a.md": EDITED}),
    ),
    "tidy": Work(lambda root, cache: lambda: consolidate(root, cache), TIDY, _untidy, failing=WRITING),
    "remember": Work(_put, {**TWO, "user_three.md": THREE}, _some_memories),
    "report": Work(_in_layer(_report), REPORTED, _layer({"TASK.md": TASK}), repeatable=False),
    "supersede": Work(
        _in_layer(_supersede), {"facts/project_port-2.md": NEW_FACT}, _layer({"facts/project_port.md": OLD_FACT}),
        repeatable=False,
    ),
    "end": Work(
        _in_layer(_end_session), {"archive/session.md": SESSION["session.md"], **TWO}, _layer(SESSION),
        repeatable=False, failing=WRITING,
    ),
}  # fmt: skip


def _let_anyone_trace() -> None:
    """Some kernels allow only parents to trace; the tracer here is a stranger."""
    ctypes.CDLL(None).prctl(0x59616D61, ctypes.c_ulong(-1 & (1 << 64) - 1), 0, 0, 0)


def _child(work: str, root: str, cache: str, witness: socket) -> None:
    """Stop, do it, and say how it went; after a failure do it again, as a caller would."""
    do = WORKS[work].begins(root, cache)
    _let_anyone_trace()
    os.kill(os.getpid(), signal.SIGSTOP)
    for _ in range(2 if WORKS[work].repeatable else 1):
        try:
            then = do()
        except MemsheafError as error:
            # by a call that no fault is aimed at
            witness.send(f"{type(error).__name__}\n".encode())
            continue
        witness.send(b"ok\n")
        if callable(then):
            with suppress(MemsheafError):
                then()
        return


def _end(work: str, root: str, cache: str, witness: socket) -> None:
    try:
        _child(work, root, cache, witness)
    except BaseException:  # noqa: BLE001 - what escapes is the finding
        witness.send(traceback.format_exc().encode())
        os._exit(1)
    os._exit(0)


def _warm_up() -> None:
    """Do everything once, so that no fault hits an import."""
    for work in WORKS.values():
        with tempfile.TemporaryDirectory() as place:
            root = os.path.join(place, "user")
            work.before(root)
            with suppress(MemsheafError):
                work.begins(root, os.path.join(place, "cache"))()


def main() -> None:
    """Take orders until there are no more."""
    _warm_up()
    for order in sys.stdin:
        work, root, cache = order.rstrip("\n").split("\t")
        ours, theirs = socketpair()
        child = os.fork()
        if not child:
            _end(work, root, cache, theirs)
        theirs.close()
        os.waitpid(child, os.WUNTRACED)
        print(child, flush=True)
        _, status = os.waitpid(child, 0)
        with ours, ours.makefile(encoding="utf-8") as said:
            print(json.dumps({"status": status, "said": said.read()}), flush=True)


if __name__ == "__main__":
    main()
