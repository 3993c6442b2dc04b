"""Retention: fold old journal segments, note where each path was left, drop what is past its time.

- `archive-*.jsonl` has the commits of segments that are past retention, without their texts. The lines of each end
  with `{"folded": 12}`. A segment that is still there itself counts, and not what an archive says of it.
- `kept` has each path as the last archived commit left it, with its text until that was retired before the cutoff.
- `heads` has the version of each path as a sealed segment left it. Both end with that segment: `{"through": 12}`.

They are made without the lock, from files that only a holder of the lock changes, and are put in place under it if
none of those has changed meanwhile: the lock is held for a few renames. Losing `heads` costs a look at all segments.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from memsheaf.errors import Busy, PathRefused, StoreFailed
from memsheaf.store import ABSENT, Commit, Revision, catalogs, tombstones, usage
from memsheaf.store.access import StoreAccess
from memsheaf.store.journal import HEADS, KEPT, SEGMENT_BYTES, THROUGH, Journal, archive_name, segment_name
from memsheaf.store.journal_lines import (
    CHANGED,
    Texts,
    chunks,
    decode,
    decode_step,
    encode,
    encode_head,
    needle_of,
    rewritten,
)
from memsheaf.store.safe_dir import Folder, read_file, stage

PRUNED = "pruned"  # when retention was last seen to
ARCHIVE_BYTES = 8 << 20
FOLDED_AT_ONCE = 8  # segments
_BEGINNING = 256  # bytes that hold the time of a segment's first commit
_AT = rb'(?m)^\{"commit": "[0-9a-f]+", "at": "([^"\\]*)"'


class FoldPlan(NamedTuple):
    """Files that wait to be put in place, by name; those that are needless then; and all that was read for it."""

    drafts: dict[str, str]
    needless: list[str]
    read: dict[str, tuple[int, ...]]
    dropped: int = 0


def prune(access: StoreAccess, cutoff: str, now: float) -> int:
    """Drop retired texts from before `cutoff` from the journal, and say how many; the log itself stays."""
    dropped = 0
    for work in (fold, trim):
        while plan := _carry_out(access, partial(work, cutoff=cutoff)):
            dropped += plan.dropped
    note_heads(access)
    with access.transaction() as transaction:
        tombstones.prune(transaction.history, cutoff)
        transaction.drop_derived()
        usage.bring_together(transaction.history)
        catalogs.trim(transaction.history)
        with suppress(FileNotFoundError):
            transaction.history.unlink(PRUNED)
        stage(transaction.history, PRUNED, f"{now}\n".encode())
    return dropped


def last_pruned(history: Folder) -> float:
    """When retention was last seen to, 0.0 when it never was."""
    try:
        return float(read_file(history, PRUNED, 64) or history.stat(PRUNED).st_mtime)
    except (FileNotFoundError, ValueError, PathRefused):
        return 0.0


def note_heads(access: StoreAccess) -> None:
    """Note where the journal left each path, when that has become worth it."""
    with suppress(StoreFailed, OSError):  # derived: the next one will do
        _carry_out(access, plan_heads)


def _carry_out(access: StoreAccess, work: Callable[[Folder, Journal], FoldPlan | None]) -> FoldPlan | None:
    """Plan without the lock, and put in place with it; None when nothing was to do, or others were at it."""
    with suppress(Busy), access.locked("lock-fold", 0.0) as history, access.reading() as journal:
        plan = work(history, journal) if journal else None
        if plan:
            with access.transaction() as transaction:
                return plan if _put_in_place(transaction.history, plan) else None
    return None


def plan_heads(history: Folder, journal: Journal) -> FoldPlan | None:
    """Note where the sealed segments left each path, once more stands behind the last note than in it."""
    through, known = journal.checkpoint()
    later = journal.since(through, journal.segment - 1)
    if not later or (through and len(later) * SEGMENT_BYTES < len(known)):
        return None
    read = _stamps(history, [HEADS, KEPT, *map(segment_name, later)])
    heads = journal.heads(last=later[-1])
    lines = [encode_head(path, head.version, segment=head.segment) for path, head in heads.items()]
    return FoldPlan({HEADS: _draft(history, [*lines, b'{"through": %d}\n' % later[-1]])}, [], read)


def fold(history: Folder, journal: Journal, cutoff: str) -> FoldPlan | None:
    """Archive the oldest segments, a few at a time, as long as all their commits are older than `cutoff`."""
    old: dict[int, bytes] = {}
    for number in journal.segments()[:-1][:FOLDED_AT_ONCE]:
        if not _begins_before(history, segment_name(number), cutoff):
            break
        data = journal.data(segment_name(number))
        if max(re.findall(_AT, data), default=b"").decode("utf-8", "replace") >= cutoff:
            break
        old[number] = data
    if not old:
        return None
    names = [segment_name(number) for number in old]
    archive = archive_name((journal.segments("archive") or [min(old)])[-1])
    parts = dict(chunks(journal.data(archive)))
    if len(journal.data(archive)) >= ARCHIVE_BYTES and old.keys().isdisjoint(parts):
        archive, parts = archive_name(min(old)), {}
    read = _stamps(history, [KEPT, archive, *names])
    kept = {_path_of(line): line for line in journal.data(KEPT).splitlines(keepends=True)}
    found = re.fullmatch(THROUGH, kept.pop("", b""))
    done = int(found[1]) if found else 0  # more than that, if a crash came before the segments were removed
    dropped = 0
    for number, data in old.items():
        parts[number], steps = _without_texts(data)
        for step in steps if number > done else ():
            dropped += step.old is not None
            kept.pop(step.path, None)
            if step.after != ABSENT:
                kept[step.path] = encode_head(step.path, step.after, step.new)
    joined = (b"\n".join([*parts[number], b'{"folded": %d}\n' % number]) for number in sorted(parts))
    lines = [*kept.values(), b'{"through": %d}\n' % max(done, *old)]
    return FoldPlan({KEPT: _draft(history, lines), archive: _draft(history, joined)}, names, read, dropped)


def _put_in_place(history: Folder, plan: FoldPlan) -> bool:
    """Take over what was planned; False when what it was made from has changed. The caller holds the lock."""
    try:
        if _stamps(history, plan.read) != plan.read:
            return False
        for name, draft in plan.drafts.items():  # each alone leaves the journal sound
            history.rename(draft, history, name)
        history.sync()
        for name in plan.needless:
            history.unlink(name)
        if plan.needless:
            history.sync()
        return True
    except FileNotFoundError:  # whoever erases removes all that waits
        return False
    finally:
        for draft in plan.drafts.values():
            with suppress(OSError):
                history.unlink(draft)


def trim(history: Folder, journal: Journal, cutoff: str) -> FoldPlan | None:
    """Drop what was retired before `cutoff` from the two segments that may hold newer commits as well."""
    segments = journal.segments()
    for name in dict.fromkeys(map(segment_name, (*segments[:1], *segments[-1:]))):
        if _begins_before(history, name, cutoff):
            read = _stamps(history, [KEPT, name])
            before = {KEPT: journal.data(KEPT), name: journal.data(name)}
            after, dropped = _trimmed(before[name], before[KEPT], cutoff)
            if changed := {one: data for one, data in zip((name, KEPT), after, strict=True) if data != before[one]}:
                return FoldPlan({one: _draft(history, [data]) for one, data in changed.items()}, [], read, dropped)
    return None


def _begins_before(history: Folder, name: str, cutoff: str) -> bool:
    first = re.search(_AT, read_file(history, name, _BEGINNING))
    return not first or first[1].decode("utf-8", "replace") < cutoff


def _is_before(line: bytes, cutoff: str) -> bool:
    found = re.match(_AT, line)
    return found is not None and found[1].decode("utf-8", "replace") < cutoff


def _trimmed(data: bytes, kept: bytes, cutoff: str) -> tuple[tuple[bytes, bytes], int]:
    """A segment and what is kept of those before, without what was retired before `cutoff`; and how much that was."""
    last: dict[str, str] = {}
    texts = Texts(data.split(b"\n"))
    for line in data.split(b"\n"):
        if _is_before(line, cutoff) and (commit := decode(line, texts)):
            last |= {step.path: commit.id for step in commit.revisions}
    dropped = 0

    def trimmed(commit: Commit) -> Commit:
        nonlocal dropped
        if commit.at >= cutoff:
            return commit
        steps = tuple(
            step._replace(old=None, new=step.new if last[step.path] == commit.id else None)
            for step in commit.revisions
        )
        dropped += sum(a != b for a, b in zip(steps, commit.revisions, strict=True))
        return commit if steps == commit.revisions else commit._replace(revisions=steps)

    lines = kept.splitlines(keepends=True)
    left = b"".join(_without_text(line) if _path_of(line) in last else line for line in lines)
    return (rewritten(data, trimmed), left), dropped


def _without_texts(data: bytes) -> tuple[list[bytes], list[Revision]]:
    """The commits of a segment without texts, as their lines; and their steps, which have them."""
    lines: list[bytes] = []
    steps: list[Revision] = []
    segment = data.split(b"\n")[:-1]
    texts = Texts(segment)
    for line in segment:
        if not line.startswith(b'{"commit"'):
            continue
        if commit := decode(line, texts):
            steps += commit.revisions
            bare = tuple(step._replace(old=None, new=None) for step in commit.revisions)
            line = encode(commit._replace(revisions=bare), "")[:-1]
        lines.append(line)
    return lines, steps


def _path_of(line: bytes) -> str:
    found = re.match(CHANGED, line)
    with suppress(ValueError):
        return str(json.loads(found[1])) if found else ""
    return ""


def _without_text(line: bytes) -> bytes:
    step = decode_step(line, needle_of(_path_of(line)))
    return encode_head(step.path, step.after) if step else line


def _draft(history: Folder, parts: Iterable[bytes]) -> str:
    name = f"derived-{os.urandom(8).hex()}"  # which whoever erases removes, and after an hour whoever sweeps
    stage(history, name, b"".join(parts), durable=True)
    return name


def _stamps(history: Folder, names: Iterable[str]) -> dict[str, tuple[int, ...]]:
    stamps: dict[str, tuple[int, ...]] = {}
    for name in names:
        stamps[name] = ()
        with suppress(FileNotFoundError):
            found = history.stat(name)
            stamps[name] = found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino
    return stamps
