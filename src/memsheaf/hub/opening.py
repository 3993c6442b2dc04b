"""Open the hub of a scope, and the replica of it on this machine."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from weakref import WeakValueDictionary

from memsheaf.errors import StoreFailed
from memsheaf.hub import COPY, Hub, HubSettings
from memsheaf.hub.replica import Replica
from memsheaf.hub.replica_state import settings_of
from memsheaf.store.state import State

_lent: WeakValueDictionary[str, Hub] = WeakValueDictionary()

MACHINE = "machine"
"""The file in the state directory that holds the id of this machine."""


def open_hub(settings: HubSettings, *, folder: str, timeout: float = 10.0) -> Hub:
    """The hub of these settings; nothing is connected before it is asked. `folder` is for what it keeps here.

    Raises HubRefused when what it needs is not installed.
    """
    if settings.is_postgres:
        from memsheaf.hub.postgres import PostgresHub

        return PostgresHub(settings, timeout=timeout)
    from memsheaf.hub.git import GitRemote

    return GitRemote(settings, folder=folder, timeout=timeout)


def open_replica(root: str, state: State, clock: Callable[[], float], days: float, offline: str) -> Replica:
    """The folder of a scope that has a hub; `offline` holds for one that says nothing itself. Raises StoreFailed."""
    settings = settings_of(root)
    if settings is None:
        raise StoreFailed(f"the hub of {root!r} was removed in this moment")
    hub = _lent.get(root) or open_hub(settings, folder=os.path.join(state.folder, os.path.dirname(COPY)))
    settings = settings._replace(offline=settings.offline or offline)
    return Replica(root, settings, hub, clock=clock, retention_days=days)


def lend_hub(root: str, hub: Hub) -> None:
    """Have a folder use this hub instead of opening one, as long as the caller or the folder's replica keeps it."""
    _lent[root] = hub


def this_machine(state: str) -> tuple[str, str]:
    """The id of this machine, made when it has none, and its name. Raises StoreFailed."""
    kept = State(state)
    found = kept.read(MACHINE)
    if not found:
        with kept.lock(MACHINE, wait=10.0):
            found = kept.read(MACHINE)
            if not found:
                found = os.urandom(8).hex().encode()
                kept.write(MACHINE, found)
    return found.decode("ascii", "replace").strip(), socket.gethostname()[:64]
