"""Sync a scope with its hub: pull, push, and erase what was erased, here and on all machines."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from memsheaf.erasure import Proof, erase
from memsheaf.errors import HubRefused, HubUnreachable, hinted
from memsheaf.hub.replica import Replica
from memsheaf.hub.replica_state import Synced
from memsheaf.learn.learner import Learner
from memsheaf.store.state import State
from memsheaf.writer import Writer


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
    deferring = store.eraser
    store.eraser = lambda name: erase(name, writer, learner, state, clock=clock).left
    try:
        synced = store.rejoin() if again else store.sync()
    finally:
        store.eraser = deferring
    writer.index.look(thorough=True)
    now = store.state()
    is_other = now.machine != store.settings.machine
    if synced.whole or now.proofs or is_other or clock() - now.reported_at > 86_400:  # once a day
        with suppress(HubUnreachable, HubRefused):  # a later sync reports
            store.erasures.report(clock())
    return synced._replace(is_copy=is_other and now.machine != "")


def erase_for_all(path: str, writer: Writer, learner: Learner, state: State, *, clock: Callable[[], float]) -> Proof:
    """Erase a memory here and on the hub, report it, and tell which machines have done so.

    Raises:
        NotFound, HubUnreachable, HubRefused: nothing was erased.
    """
    writer.require_person()
    store = writer.store
    if not isinstance(store, Replica):
        return erase(path, writer, learner, state, clock=clock)
    try:
        synchronize(writer, learner, state, clock=clock)
        before = store.state().erased
        proof = erase(path, writer, learner, state, clock=clock)
    except HubUnreachable as error:
        raise hinted(error, "Nothing was erased: what all machines forget, the hub has to know.") from None
    now = store.state()
    erased = tuple(one.id for one in now.erased if one not in before)
    try:
        if now.erasing:
            raise HubUnreachable("the hub does not answer")
        store.erasures.report(clock(), dict.fromkeys(erased, ", ".join(proof.left)))
        return proof._replace(erasures=erased, machines=tuple(store.hub.users()[1]))
    except HubUnreachable as error:
        return proof._replace(left=(*proof.left, f"{store.settings.shown} ({error}; the next sync tells it)"))
