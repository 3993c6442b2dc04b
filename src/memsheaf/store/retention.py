"""Retention: fold the journal, note its heads, and drop what is past its time."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial

from memsheaf.errors import Busy, PathRefused, StoreFailed
from memsheaf.store import catalogs, journal_folding, tombstones, usage
from memsheaf.store.access import StoreAccess
from memsheaf.store.journal import Journal
from memsheaf.store.journal_folding import FoldPlan, put_in_place
from memsheaf.store.safe_dir import Folder, read_file, stage

PRUNED = "pruned"  # when retention was last seen to


def prune(access: StoreAccess, cutoff: str, now: float, *, locked: bool = False) -> int:
    """Drop retired texts from before `cutoff` from the journal, and say how many; the log itself stays."""
    dropped = 0
    for work in (journal_folding.fold, journal_folding.trim):
        while plan := _fold(access, partial(work, cutoff=cutoff), locked=locked):
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
        _fold(access, journal_folding.note_heads)


def _fold(
    access: StoreAccess, work: Callable[[Folder, Journal], FoldPlan | None], *, locked: bool = False
) -> FoldPlan | None:
    """Plan without the lock, and put in place with it; None when nothing was to do, or others were at it.

    What has to be done now is planned with the lock held as well.
    """
    if locked:
        with access.transaction() as transaction:
            plan = work(transaction.history, transaction.journal)
            transaction.journal.close()
            return plan if plan and put_in_place(transaction.history, plan) else None
    with suppress(Busy), access.locked("lock-fold", 0.0) as history, access.reading() as journal:
        plan = work(history, journal) if journal else None
        if plan:
            with access.transaction() as transaction:
                return plan if put_in_place(transaction.history, plan) else None
    return None
