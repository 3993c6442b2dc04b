"""Sync a scope with its hub: pull, push, and erase here what was erased."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from memsheaf.erasure import erase
from memsheaf.errors import HubUnreachable
from memsheaf.hub.replica import Replica, Synced
from memsheaf.learn.learner import Learner
from memsheaf.store.state import State
from memsheaf.writer import Writer

REPORT_AFTER = 86400.0  # seconds after which a machine says again that it is there


def synchronize(
    writer: Writer, learner: Learner, state: State, *, clock: Callable[[], float], again: bool = False
) -> Synced:
    """Push what waits here and bring what others pushed; `again` as if it were the first time.

    Raises:
        HubUnreachable, HubRefused, HubRestored, Busy.
    """
    store = writer.store
    assert isinstance(store, Replica)
    writer.require_writable()
    writer.index.look(thorough=True)  # what a person edited is in the journal, and so among what waits
    store.eraser = lambda name: erase(name, writer, learner, state, clock=clock).left
    synced = store.rejoin() if again else store.sync()
    writer.index.look(thorough=True)
    now = store.state()
    if synced.whole or now.proofs or clock() - now.reported_at > REPORT_AFTER:
        with suppress(HubUnreachable):  # the next sync reports
            store.report()
    return synced
