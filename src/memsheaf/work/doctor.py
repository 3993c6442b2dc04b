"""Health checks for a memory folder: a list of functions. No memory is changed by them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from shutil import disk_usage

from memsheaf.errors import MemsheafError
from memsheaf.guard.paths import CATALOG
from memsheaf.guard.secrets import find_secrets, without_secrets
from memsheaf.index.caches import abandoned, remove
from memsheaf.index.database import Row
from memsheaf.memory import utc_time
from memsheaf.recall.inject import CONTEXT, NOTES
from memsheaf.sheaf import Sheaf
from memsheaf.store import HISTORY
from memsheaf.text.topics import lists_topics
from memsheaf.work.audit import ERROR, INFO, LEVELS, WARNING, check_tracked
from memsheaf.work.audit import Finding as Finding
from memsheaf.work.hub_scopes import HubStatus

MIN_FREE_BYTES, LOW_FREE_BYTES = 8 << 20, 100 << 20  # below which the next save may fail, or one soon may
MAX_CLOCK_SECONDS = 300  # by which clocks may differ
NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "fuse.sshfs", "ncpfs", "ceph", "glusterfs"})


def examine(sheaf: Sheaf) -> list[Finding]:
    """Look at the files, the journal and the place they are kept in; worst first."""
    findings = [finding for check in HEALTH_CHECKS for finding in check(sheaf)]
    return sorted(findings, key=lambda finding: (LEVELS.index(finding.level), finding.path))


def examine_cache(cache: str, *, fix: bool) -> Iterator[Finding]:
    """Look for indexes that nobody uses any more, and with `fix` remove them."""
    if indexes := abandoned(cache):
        problem = f"{len(indexes):,} indexes in the cache are of scopes that are gone, or of other versions"
        if fix:
            remove(indexes)
        yield Finding(INFO, cache, problem, "they were removed" if fix else "`memsheaf doctor --fix` removes them")


def examine_hub(one: HubStatus, now: float) -> Iterator[Finding]:
    """What is to be said about a scope that has a hub."""
    state, again = one.state, f"`memsheaf hub sync {one.scope}`"
    if one.problem:
        yield Finding(ERROR, one.scope, one.problem, "what is here can be read; it is tried again by itself")
    if one.notice:
        yield Finding(WARNING, one.scope, one.notice, "`memsheaf hub status` shows the hub")
    if waiting := len(state.pending) - len(state.held):
        since = one.waiting_since[:16].replace("T", " ")
        yield Finding(WARNING, one.scope, f"changes that wait for the hub since {since}: {waiting}", again)
    for path, why in state.held.items():
        yield Finding(WARNING, f"{one.scope}:{path}", f"it is not pushed: {why}", f"mend that, then {again}")
    for path, why in state.left.items():
        yield Finding(WARNING, f"{one.scope}:{path}", f"the hub's text cannot be placed: {why}", again)
    if undone := len(state.erasing) + len(state.proofs):
        yield Finding(WARNING, one.scope, f"erasures not sent to the hub yet: {undone}", again)
    for conflict in state.told:
        if conflict.copy and os.path.lexists(os.path.join(one.root, conflict.copy)):
            said = f"two machines changed {conflict.path} on {conflict.at[:10]}; this is the text that was here"
            advice = "compare both, keep what is right in one, and `memsheaf forget` the other"
            yield Finding(INFO, f"{one.scope}:{conflict.copy}", said, advice)
    if one.latest > utc_time(now + MAX_CLOCK_SECONDS):
        said = f"the newest change is of {one.latest}, which is yet to come"
        yield Finding(WARNING, one.scope, said, "a clock is wrong, on this machine or on another")


def file_system(path: str, mounts: str = "/proc/self/mounts") -> str:
    """The type of file system a path is on, "" where the system does not say."""
    real, types = os.path.realpath(path), {"": ""}
    with suppress(OSError), open(mounts, encoding="utf-8", errors="replace") as file:
        for line in file:
            _, point, kind, *_ = line.split()
            point = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), point)
            if f"{real}/".startswith(f"{point.rstrip('/')}/"):
                types[point] = kind
    return types[max(types, key=len)]


def _check_place(sheaf: Sheaf) -> Iterator[Finding]:
    if not os.path.isdir(sheaf.root):
        if not sheaf.notices():
            said = "nothing has been remembered here yet"
            yield Finding(INFO, sheaf.root, said, "`memsheaf remember TEXT` saves the first")
        return
    if (kind := file_system(sheaf.root)) in NETWORK:
        said = f"it is on a network file system ({kind}), where locks do not hold"
        yield Finding(ERROR, sheaf.root, said, "keep it on a local disk")
    if not os.access(sheaf.root, os.W_OK):
        yield Finding(ERROR, sheaf.root, "this user may not write here", "check the owner and mode of the folder")
    yield from disk(sheaf.root, disk_usage(sheaf.root).free)
    if os.name == "posix" and os.stat(sheaf.root).st_mode & 0o002:
        yield Finding(WARNING, sheaf.root, "everybody may write here", f"chmod o-w '{sheaf.root}'")


def disk(path: str, free: int) -> Iterator[Finding]:
    """The finding about this many free bytes."""
    if free < MIN_FREE_BYTES:
        said = f"the disk is full: {free:,} bytes are free"
        yield Finding(ERROR, path, said, "make room; until then nothing is saved")
    elif free < LOW_FREE_BYTES:
        yield Finding(WARNING, path, f"the disk is nearly full: {free >> 20:,} MiB are free", "make room soon")


def _check_own_files(sheaf: Sheaf) -> Iterator[Finding]:
    """Yield what is wrong with the journal in use and with the catalog."""
    history = os.path.relpath(os.path.join(sheaf.own.store.journals, HISTORY), sheaf.root)
    advice = "the memories are not affected; that one change can no longer be undone"
    for place in sheaf.own.store.damaged():
        yield Finding(WARNING, f"{history}/{place}", "this line of the journal cannot be read", advice)
    if os.path.lexists(os.path.join(sheaf.root, CATALOG)) and not sheaf.own.store.is_published(CATALOG):
        said = "it was not written by memsheaf, and stays as it is; the catalog is in the prompt, and in no file"
        yield Finding(WARNING, CATALOG, said, "remove or rename it, and the catalog is written there again")


def _check_journals(sheaf: Sheaf) -> Iterator[Finding]:
    """Yield journals in a checkout that are not the ones in use."""
    store = sheaf.own.store
    if store.journals == store.root:
        return
    if os.path.lexists(os.path.join(store.root, HISTORY)):
        said = f"this is not the journal in use, which is in {store.journals}"
        yield Finding(WARNING, HISTORY, said, "look at it; remove it, and keep it out of the repository")
    below = os.path.relpath(os.path.realpath(store.root), store.checkout)
    top = os.path.normpath(os.path.join(store.journals, os.path.relpath(".", below)))
    for folder, names, _ in os.walk(top):
        root = os.path.join(store.checkout, os.path.relpath(folder, top))
        if HISTORY in names and not os.path.isdir(root) and os.path.isdir(store.root):
            said = f"it is the journal of {os.path.normpath(root)}, which is not there"
            yield Finding(INFO, folder, said, "bring that folder back to have its history; or remove this one")


def _check_files(sheaf: Sheaf) -> Iterator[Finding]:
    outdated = 0
    for row in sheaf.list():
        yield from _check_row(row)
        if row.state != "held":
            try:
                memory = sheaf.read(row.path)
                outdated += lists_topics(memory)
                for secret in find_secrets(memory.text):
                    problem = f"line {memory.text.count(chr(10), 0, secret.start) + 1} holds {secret.kind}"
                    advice = (
                        "change it where it is in use; save the rest under another name, "
                        f"then `memsheaf erase {row.path}`"
                    )
                    yield Finding(WARNING, row.path, problem, advice)
                for warning in memory.warnings if row.state in ("ok", "free") else ():
                    yield Finding(WARNING, row.path, without_secrets(warning), f"`memsheaf edit {row.path}`")
            except MemsheafError as error:
                yield Finding(ERROR, row.path, str(error), error.hint)
    if outdated:
        problem = f"descriptions of an earlier version that list topics; their first sentence is shown: {outdated}"
        yield Finding(INFO, sheaf.root, problem, f"`memsheaf audit --fix-descriptions --scope {sheaf.scope}`")


def _check_row(row: Row) -> Iterator[Finding]:
    advice = {
        "bad": f"`memsheaf edit {row.path}` to fix the header; until then it is kept as it is",
        "held": "look at the file; it is listed, but neither loaded nor changed",
        "copy": "compare it with the memory of the same name, keep what is right, and remove the copy",
    }
    if row.state in advice:
        problem = without_secrets(row.problem)
        yield Finding(ERROR if row.state != "copy" else WARNING, row.path, problem, advice[row.state])
    if row.trust == "shared" and row.state in ("ok", "free") and row.path not in (CONTEXT, NOTES):
        said = "somebody else wrote it, so it is listed apart and never taken for your word"
        approve = f"`memsheaf review --approve {row.path}` if you have read it and want it as your own"
        yield Finding(INFO, row.path, said, approve)
    if row.trust == "unconfirmed":
        approve = f"`memsheaf review --approve {row.path}` if it is right; --reject if not"
        yield Finding(INFO, row.path, "it is not confirmed, so it stays out of the catalog", approve)


def _check_notices(sheaf: Sheaf) -> Iterator[Finding]:
    for notice in sheaf.notices():
        path = next((name for name in (CONTEXT, NOTES) if notice.startswith(name)), "")
        yield Finding(WARNING, path or sheaf.root, notice, "`memsheaf trust`" if path else "")


HEALTH_CHECKS: tuple[Callable[[Sheaf], Iterable[Finding]], ...] = (
    _check_place,
    _check_own_files,
    check_tracked,
    _check_journals,
    _check_files,
    _check_notices,
)
