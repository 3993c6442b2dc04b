"""Open what a scope is made of: its folder or replica, the ledger of what came from others, state and embedder."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from memsheaf.config import Settings
from memsheaf.embed import Embedder, find
from memsheaf.scope import Scope, checkout_of, resolve
from memsheaf.store import HISTORY, HUB, Commit
from memsheaf.store.folder import FolderStore
from memsheaf.store.state import State

if TYPE_CHECKING:
    from memsheaf.store.transaction import Transaction
    from memsheaf.store.trust import TrustLedger


def open_store(
    scope: Scope, settings: Settings, cwd: str, *, read_only: bool, clock: Callable[[], float]
) -> tuple[FolderStore, TrustLedger | None]:
    """The folder of a scope, what a crash left half done completed; and a ledger where others write, too.

    With a hub it is a replica. Nothing is connected yet.
    """
    root = resolve(scope, settings.places(cwd or os.getcwd()))
    checkout = checkout_of(root, settings.home)
    private = os.path.dirname(root) if scope.layer == "session" else ""
    days = settings.retention_days
    if not checkout and os.path.lexists(os.path.join(root, HISTORY, HUB)):
        from memsheaf.hub.opening import open_replica

        store: FolderStore = open_replica(root, state_of(root, settings), clock, days, settings.hub.offline)
        ledger = find_ledger(scope, root, settings, is_shared=store.settings.is_shared)  # type: ignore[attr-defined]
        store.ledger, store.eraser = ledger, None  # type: ignore[attr-defined]
    else:
        ledger = find_ledger(scope, root, settings)
        announce = None if checkout else partial(_note_unseen, partial(find_ledger, scope, root, settings))
        store = FolderStore(
            root, clock=clock, retention_days=days, checkout=checkout, private=private, announce=announce
        )
    if store.left_journal:
        from memsheaf.worktree import bring_journal

        bring_journal(store)
    if not read_only:
        store.recover()
    return store, ledger


def find_ledger(scope: Scope, root: str, settings: Settings, *, is_shared: bool = False) -> TrustLedger | None:
    """The ledger of what this machine wrote in a shared folder; None where no other writes, which a hub may know.

    What members of a team wrote is theirs also when it has no hub any more.
    """
    checkout = checkout_of(root, settings.home)
    if not (checkout or is_shared or scope.layer == "team"):
        return None
    from memsheaf.store.trust import TrustLedger

    ledger = TrustLedger(state_of(root, settings), checkout)
    has_others = checkout or os.path.lexists(os.path.join(root, HISTORY, HUB)) or ledger.stamp != (0, 0)
    return ledger if has_others else None


def _note_unseen(find_ledger: Callable[[], TrustLedger | None], transaction: Transaction, commit: Commit) -> None:
    """Note what a person saved in a folder that is, or was, a team's; and what is committed to one that got a hub
    since it was opened: it waits for the next sync."""
    if commit.by == "outside" and (ledger := find_ledger()):
        ledger.add_outside(commit)
    try:
        transaction.history.stat(HUB)
    except FileNotFoundError:
        return
    from memsheaf.hub.replica_state import note_pending

    note_pending(transaction.history, commit)


def state_of(root: str, settings: Settings) -> State:
    """What is kept about a folder outside of it."""
    return State.of(root, settings.state or os.path.join(settings.home, "state"))


def embedder_of(settings: Settings) -> Callable[[], Embedder | None] | None:
    """What gives the embedder of the settings when it is needed; None for none."""
    if settings.embedder == "none":
        return None
    folder = settings.weights or settings.cache
    return partial(find, folder, name=settings.embedder, url=settings.embedder_url, key=settings.embedder_key)
