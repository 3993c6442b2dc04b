"""The memories around a working directory straight from indexes that are up to date, for `memsheaf list`."""

from __future__ import annotations

import os
from collections.abc import Sequence

from memsheaf.config import Settings
from memsheaf.errors import MemsheafError
from memsheaf.index.database import Row, unchanged_rows
from memsheaf.scope import Scope, checkout_of, has_hub, project_root, resolve, shown
from memsheaf.values import sqlite3


def list_unchanged(settings: Settings, cwd: str, scopes: Sequence[str] = ()) -> list[Row] | None:
    """What `Layers.list` gives; None when it has to look: a file changed, or a task, checkout or hub takes part."""
    try:
        return _list(settings, cwd, [Scope.parse(scope) for scope in scopes])
    except (MemsheafError, sqlite3.DatabaseError, OSError):
        return None  # it will come up again


def _list(settings: Settings, cwd: str, given: Sequence[Scope]) -> list[Row] | None:
    places = settings.places(cwd)
    if not given:
        project = project_root(places)
        folders = (os.path.join(project, name) for name in ("tasks", "sessions"))
        if settings.task or settings.session or any(map(os.path.lexists, folders)):
            return None
    scopes = list(dict.fromkeys(given or map(Scope.parse, settings.layers(cwd))))
    found: list[Row] = []
    for scope in scopes:
        root = resolve(scope, places)
        is_closed = os.path.exists(root) and not os.access(root, os.W_OK)
        is_shared = scope.layer == "team" or bool(checkout_of(root, settings.home))
        if not is_shared and has_hub(root, settings.home):
            from memsheaf.hub.replica_state import has_pending, settings_of

            hub = settings_of(root)
            is_shared = not hub or bool(hub.unreadable) or has_pending(root)
        if scope.layer in ("task", "session") or is_closed or is_shared:
            return None
        rows = unchanged_rows(root, settings.cache, prefix=shown(str(scope), "", str(scopes[0])))
        if rows is None:
            return None
        found += rows
    return found
