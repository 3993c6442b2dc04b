"""Open the hub of a scope, and the replica of it on this machine."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from typing import Any
from weakref import WeakValueDictionary

from memsheaf.errors import HubRefused, StoreFailed
from memsheaf.hub import COPY, Hub, HubSettings
from memsheaf.hub.replica import Replica
from memsheaf.hub.replica_state import settings_of
from memsheaf.state import State
from memsheaf.store import HISTORY

_lent: WeakValueDictionary[str, Hub] = WeakValueDictionary()

SILENT_SECONDS = 5.0
"""Seconds without any data after which a hub counts as unreachable."""


class _DeferredHub:
    """A hub that is opened at the first call, so that reading loads no driver."""

    def __init__(self, settings: HubSettings, folder: str) -> None:
        self._settings = settings
        self._folder = folder
        self._hub: Hub | None = None

    def __getattr__(self, name: str) -> Any:
        if self._hub is None:
            self._hub = open_hub(self._settings, folder=self._folder, timeout=SILENT_SECONDS)
        return getattr(self._hub, name)

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._hub is not None:
            self._hub.close()


def open_hub(settings: HubSettings, *, folder: str, timeout: float = SILENT_SECONDS) -> Hub:
    """The hub of these settings; it connects at the first call. `folder` is for its local files.

    Raises HubRefused when what it needs is not installed.
    """
    if settings.is_postgres:
        try:
            from memsheaf.hub.postgres import PostgresHub
        except ImportError:
            raise HubRefused(
                "a hub on PostgreSQL needs psycopg, which is not installed here; reading goes on",
                hint="pip install 'memsheaf[team]'",
            ) from None
        return PostgresHub(settings, timeout=timeout)
    from memsheaf.hub.git import GitRemote

    return GitRemote(settings, folder=folder, timeout=timeout)


def open_replica(
    root: str, state: State, clock: Callable[[], float], days: float, offline: str, scope: str
) -> Replica:
    """The folder of a scope that has a hub; `offline` holds for one that says nothing itself. Raises StoreFailed."""
    settings = settings_of(root)
    if settings is None:
        raise StoreFailed(f"the hub of {root!r} was removed in this moment")
    settings = settings._replace(offline=settings.offline or offline)
    hub = _lent.get(root)
    if hub is None:
        settings = settings._replace(machine=id_of_copy(settings, root))
        hub = _DeferredHub(settings, os.path.join(state.folder, os.path.dirname(COPY)))
    return Replica(root, settings, hub, clock=clock, retention_days=days, scope=scope)


def lend_hub(root: str, hub: Hub) -> None:
    """Let the replica of a folder use this hub instead of opening one; only a weak reference is kept."""
    _lent[root] = hub


def id_of_copy(settings: HubSettings, root: str) -> str:
    """The id of a machine, made from the one it was given, from the login in a database, as it is one member's, and
    from where a folder is: a folder that was copied, with or to a whole disk, does not speak for the one it was
    copied from."""
    place = settings.member_login + str(os.stat(os.path.join(root, HISTORY)).st_ino)
    with suppress(OSError), open("/etc/machine-id", encoding="ascii", errors="replace") as file:
        place += file.read()
    return sha256(f"{settings.machine} {place}".encode()).hexdigest()[:16]
