"""Health checks for a memory folder. No memory is changed by them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from shlex import quote
from shutil import disk_usage
from typing import NamedTuple

from memsheaf.errors import MemsheafError
from memsheaf.guard.paths import CATALOG
from memsheaf.guard.secrets import find_secrets, without_secrets
from memsheaf.index.caches import Cache, abandoned, remove
from memsheaf.index.database import Row
from memsheaf.recall.inject import CONTEXT, NOTES
from memsheaf.sheaf import Sheaf
from memsheaf.store import HISTORY
from memsheaf.store.folder import FolderStore
from memsheaf.text.topics import lists_topics
from memsheaf.values import utc_time
from memsheaf.work.hub_scopes import HubStatus
from memsheaf.worktree import tracked_private

NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "fuse.sshfs", "ncpfs", "ceph", "glusterfs"})

FULL, NEARLY_FULL = 8 << 20, 100 << 20  # free bytes below which the next save may fail, and below which one soon may

CLOCK_SECONDS = 300  # by which clocks may differ


class Finding(NamedTuple):
    """One thing to know. `level` is `error` (something does not work), `warning` or `info`."""

    level: str
    path: str
    problem: str
    advice: str


def examine(sheaf: Sheaf, *, cache: str = "") -> list[Finding]:
    """Look at the files, the journal, the place they are kept in and the `cache` directory; worst first."""
    findings = [*_place(sheaf), *_caches(cache), *_own_files(sheaf), *_journals(sheaf.store)]
    findings += _files(sheaf)
    for said in sheaf.notices():
        path = next((name for name in (CONTEXT, NOTES) if said.startswith(name)), "")
        findings.append(Finding("warning", path or sheaf.root, said, "`memsheaf trust`" if path else ""))
    order = {"error": 0, "warning": 1, "info": 2}
    return sorted(findings, key=lambda finding: (order[finding.level], finding.path))


def examine_hub(one: HubStatus, now: float) -> Iterator[Finding]:
    """What is to be said about a scope that has a hub."""
    state, again = one.state, f"`memsheaf hub sync {one.scope}`"
    if one.problem:
        yield Finding("error", one.scope, one.problem, "what is here can be read; it is tried again by itself")
    if one.notice:
        yield Finding("warning", one.scope, one.notice, "`memsheaf hub status` shows the hub")
    if waiting := len(state.pending) - len(state.held):
        since = one.waiting_since[:16].replace("T", " ")
        yield Finding("warning", one.scope, f"changes that wait for the hub since {since}: {waiting}", again)
    for path, why in state.held.items():
        yield Finding("warning", f"{one.scope}:{path}", f"it is not pushed: {why}", f"mend that, then {again}")
    for path, why in state.left.items():
        yield Finding("warning", f"{one.scope}:{path}", f"the hub's text cannot be placed: {why}", again)
    if undone := len(state.erasing) + len(state.proofs):
        yield Finding("warning", one.scope, f"erasures not sent to the hub yet: {undone}", again)
    for conflict in state.told:
        if conflict.copy and os.path.lexists(os.path.join(one.root, conflict.copy)):
            said = f"two machines changed {conflict.path} on {conflict.at[:10]}; this is the text that was here"
            advice = "compare both, keep what is right in one, and `memsheaf forget` the other"
            yield Finding("info", f"{one.scope}:{conflict.copy}", said, advice)
    if one.latest > utc_time(now + CLOCK_SECONDS):
        said = f"the newest change is of {one.latest}, which is yet to come"
        yield Finding("warning", one.scope, said, "a clock is wrong, on this machine or on another")


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


def _place(sheaf: Sheaf) -> Iterator[Finding]:
    if not os.path.isdir(sheaf.root):
        if not sheaf.notices():
            said = "nothing has been remembered here yet"
            yield Finding("info", sheaf.root, said, "`memsheaf remember TEXT` saves the first")
        return
    if (kind := file_system(sheaf.root)) in NETWORK:
        said = f"it is on a network file system ({kind}), where locks do not hold"
        yield Finding("error", sheaf.root, said, "keep it on a local disk")
    if not os.access(sheaf.root, os.W_OK):
        yield Finding("error", sheaf.root, "this user may not write here", "check the owner and mode of the folder")
    yield from disk(sheaf.root, disk_usage(sheaf.root).free)
    if os.name == "posix" and os.stat(sheaf.root).st_mode & 0o002:
        yield Finding("warning", sheaf.root, "everybody may write here", f"chmod o-w '{sheaf.root}'")


def disk(path: str, free: int) -> Iterator[Finding]:
    """The finding about this many free bytes."""
    if free < FULL:
        said = f"the disk is full: {free:,} bytes are free"
        yield Finding("error", path, said, "make room; until then nothing is saved")
    elif free < NEARLY_FULL:
        yield Finding("warning", path, f"the disk is nearly full: {free >> 20:,} MiB are free", "make room soon")


def _own_files(sheaf: Sheaf) -> Iterator[Finding]:
    """Yield what is wrong with the journal in use, with private files and with the catalog."""
    history = os.path.relpath(os.path.join(sheaf.store.journals, HISTORY), sheaf.root)
    advice = "the memories are not affected; that one change can no longer be undone"
    for place in sheaf.store.damaged():
        yield Finding("warning", f"{history}/{place}", "this line of the journal cannot be read", advice)
    said = "git tracks it: whoever gets the repository can read what was forgotten or said in private"
    for path in tracked_private(sheaf.store.checkout, sheaf.root):
        advice = f"git rm --cached {quote(path)}; if it was pushed, `git filter-repo` takes it out of the history"
        yield Finding("error", path, said, advice)
    if os.path.lexists(os.path.join(sheaf.root, CATALOG)) and not sheaf.store.is_published(CATALOG):
        said = "it was not written by memsheaf, and stays as it is; the catalog is in the prompt, and in no file"
        yield Finding("warning", CATALOG, said, "remove or rename it, and the catalog is written there again")


def _journals(store: FolderStore) -> Iterator[Finding]:
    """Journals in a checkout that are not the ones in use."""
    if store.journals == store.root:
        return
    if os.path.lexists(os.path.join(store.root, HISTORY)):
        said = f"this is not the journal in use, which is in {store.journals}"
        yield Finding("warning", HISTORY, said, "look at it; remove it, and keep it out of the repository")
    below = os.path.relpath(os.path.realpath(store.root), store.checkout)
    top = os.path.normpath(os.path.join(store.journals, os.path.relpath(".", below)))
    for folder, names, _ in os.walk(top):
        root = os.path.join(store.checkout, os.path.relpath(folder, top))
        if HISTORY in names and not os.path.isdir(root) and os.path.isdir(store.root):
            said = f"it is the journal of {os.path.normpath(root)}, which is not there"
            yield Finding("info", folder, said, "bring that folder back to have its history; or remove this one")


def remove_abandoned_indexes(cache: str) -> list[Cache]:
    """Remove the indexes of scopes that are gone, and those of other versions that are not in use."""
    found = abandoned(cache)
    remove(found)
    return found


def _caches(cache: str) -> Iterator[Finding]:
    if found := abandoned(cache) if cache else []:
        size = sum(one.size for one in found)
        said = f"{len(found):,} indexes ({size:,} bytes) are of scopes that are gone, or of other versions"
        yield Finding("info", cache, said, "`memsheaf doctor --fix` removes them")


def _files(sheaf: Sheaf) -> Iterator[Finding]:
    listing = 0
    for row in sheaf.list():
        yield from _row(row)
        if row.state != "held":
            try:
                memory = sheaf.read(row.path)
                listing += lists_topics(memory)
                for secret in find_secrets(memory.text):
                    said = f"line {memory.text.count(chr(10), 0, secret.start) + 1} holds {secret.kind}"
                    advice = (
                        "change it where it is in use; save the rest under another name, "
                        f"then `memsheaf erase {row.path}`"
                    )
                    yield Finding("warning", row.path, said, advice)
                for warning in memory.warnings if row.state in ("ok", "free") else ():
                    yield Finding("warning", row.path, without_secrets(warning), f"`memsheaf edit {row.path}`")
            except MemsheafError as error:
                yield Finding("error", row.path, str(error), error.hint)
    if listing:
        yield Finding(
            "info",
            sheaf.root,
            f"descriptions of an earlier version that list topics; their first sentence is shown: {listing}",
            f"`memsheaf audit --fix-descriptions --scope {sheaf.scope}`",
        )


def _row(row: Row) -> Iterator[Finding]:
    advice = {
        "bad": f"`memsheaf edit {row.path}` to fix the header; until then it is kept as it is",
        "held": "look at the file; it is listed, but neither loaded nor changed",
        "copy": "compare it with the memory of the same name, keep what is right, and remove the copy",
    }
    if row.state in advice:
        problem = without_secrets(row.problem)
        yield Finding("error" if row.state != "copy" else "warning", row.path, problem, advice[row.state])
    if row.trust == "shared" and row.state in ("ok", "free") and row.path not in (CONTEXT, NOTES):
        said = "somebody else wrote it, so it is listed apart and never taken for your word"
        approve = f"`memsheaf review --approve {row.path}` if you have read it and want it as your own"
        yield Finding("info", row.path, said, approve)
    if row.trust == "unconfirmed":
        approve = f"`memsheaf review --approve {row.path}` if it is right; --reject if not"
        yield Finding("info", row.path, "it is not confirmed, so it stays out of the catalog", approve)
