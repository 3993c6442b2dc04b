"""Settings and sync state of a replica: `.history/hub.json` and `.history/hub-state.json`, written under the lock.

`pending` are the commits of this journal that the hub has not seen; an id is there before the commit's line is, so
that a crash loses none. `.history/hub-ahead.jsonl` are those that the hub took and that no pull has brought back yet,
with their paths: a commit adds a line, so that its cost does not grow with their number.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from memsheaf.errors import MemsheafError, PathRefused, StoreFailed
from memsheaf.hub import Erasure, HubCommit, HubSettings
from memsheaf.store import HISTORY, HUB, Commit
from memsheaf.store.safe_dir import Folder, append, read_file, replace

SETTINGS, STATE, AHEAD = HUB, "hub-state.json", "hub-ahead.jsonl"
_LIMIT = 64 << 20
TOLD = 50  # conflicts that are remembered
ERASED = 500  # erasures that are remembered


class Conflict(NamedTuple):
    """Two machines changed one memory: the hub's text is at `path`, the other one at `copy`, "" if none was kept."""

    at: str
    path: str
    copy: str


class ReplicaState(NamedTuple):
    """The state of a replica. `held` are paths that are not pushed, and why; `left` those that could not be placed.

    `erasing` are erasures that were not sent to the hub yet, `erased` those that were carried out here, and
    `proofs` what was left of those that are not reported yet, "" for nothing.
    `down_at` is when the hub did not answer, 0 when it did; `machine` is the id under which this folder reported;
    `refused` is why this member may not write what waits, `failed` why the last sync ended early.
    """

    joined: bool = False
    cursor: str = ""
    member: str = ""
    pending: tuple[str, ...] = ()
    held: Mapping[str, str] = {}
    left: Mapping[str, str] = {}
    erasing: tuple[Erasure, ...] = ()
    erased: tuple[Erasure, ...] = ()
    proofs: Mapping[str, str] = {}
    told: tuple[Conflict, ...] = ()
    pulled_at: str = ""
    down_at: float = 0.0
    reported_at: float = 0.0
    machine: str = ""
    refused: str = ""
    failed: str = ""


class Synced(NamedTuple):
    """The result of a sync: commits that came, changes that went, what waits, is kept twice, or was erased by others.

    `refused` says why the hub does not take what waits, "" when it does; `lacks_permission` that another role
    could write; `is_copy` that the folder was copied from another machine since the last sync.
    """

    pulled: tuple[HubCommit, ...] = ()
    pushed: tuple[Commit, ...] = ()
    pending: int = 0
    conflicts: tuple[Conflict, ...] = ()
    held: Mapping[str, str] = {}
    left: Mapping[str, str] = {}
    erased: tuple[str, ...] = ()
    whole: bool = False
    refused: str = ""
    lacks_permission: bool = False
    is_copy: bool = False


def read_state(history: Folder) -> ReplicaState:
    """The state; if the file is missing or damaged, that of a replica that never joined: the next sync joins again,
    which loses no text."""
    with suppress(StoreFailed, TypeError, ValueError, LookupError, AttributeError):
        if found := _load(history, STATE):
            return _state(found)
    return ReplicaState()


def note_pending(history: Folder, commit: Commit) -> None:
    """Mark a commit as pending, before its journal line is written. The caller holds the lock."""
    state = read_state(history)
    if state.joined and commit.revisions:
        write_state(history, state._replace(pending=(*state.pending, commit.id)))


def has_pending(root: str) -> bool:
    """Return True if a folder has changes that were not pushed. Raises StoreFailed, OSError."""
    with Folder.open(root) as folder, folder.folder(HISTORY) as history:
        return bool(read_state(history).pending)


def _state(found: dict[str, Any]) -> ReplicaState:
    known = {key: value for key, value in found.items() if key in ReplicaState._fields}
    known["pending"] = tuple(map(str, known.get("pending", ())))
    for key in ("erasing", "erased"):
        known[key] = tuple(Erasure(one[0], tuple(one[1]), tuple(one[2]), *one[3:]) for one in known.get(key, ()))
    known["told"] = tuple(Conflict(*one) for one in known.get("told", ()))
    return ReplicaState(**known)


def write_state(history: Folder, state: ReplicaState, *, durable: bool = True) -> None:
    """Replace the state file. The caller holds the lock. Raises OSError."""
    text = json.dumps(state._asdict(), ensure_ascii=False)
    replace(history, STATE, text.encode("utf-8", "surrogatepass"), durable=durable)


def read_ahead(history: Folder) -> dict[str, list[str]]:
    """The commits that were pushed and not pulled back yet, with their paths. A torn line is ignored."""
    found: dict[str, list[str]] = {}
    with suppress(FileNotFoundError, PathRefused):
        for line in read_file(history, AHEAD, _LIMIT).splitlines():
            with suppress(ValueError, TypeError):
                name, paths = json.loads(line)
                found[name] = paths
    return found


def add_ahead(history: Folder, name: str, paths: list[str]) -> None:
    """Record that a commit was pushed. The caller holds the lock. Raises OSError."""
    line = json.dumps([name, paths], ensure_ascii=False)
    append(history, AHEAD, b"\n" + line.encode("utf-8", "surrogatepass"))


def write_ahead(history: Folder, ahead: Mapping[str, list[str]]) -> None:
    """Keep these alone. The caller holds the lock. Raises OSError."""
    with suppress(FileNotFoundError):
        history.unlink(AHEAD)
    for name, paths in ahead.items():
        add_ahead(history, name, paths)


def has_another_hub(history: Folder, settings: HubSettings) -> bool:
    """Return True if the hub or the password in the file differs from these settings."""
    now = _load(history, SETTINGS)
    return now is not None and (now.get("url"), now.get("namespace")) != (settings.url, settings.namespace)


def settings_of(root: str) -> HubSettings | None:
    """The hub of a folder, None when it has none; without an address when the file is damaged."""
    if not os.path.lexists(file := os.path.join(root, HISTORY, SETTINGS)):
        return None
    try:
        with Folder.open(root) as folder, folder.folder(HISTORY) as history:
            found = _load(history, SETTINGS) or {}
        return HubSettings(*(str(found[key]) for key in ("url", "namespace", "machine", "machine_name", "offline")))
    except (MemsheafError, OSError, LookupError):
        return HubSettings("", "", "", "", "refuse", file)


def write_settings(history: Folder, settings: HubSettings) -> None:
    """Write the settings, with mode 0600. Raises OSError."""
    replace(history, SETTINGS, json.dumps(settings._asdict(), indent=1, ensure_ascii=False).encode())


def remove_hub(history: Folder) -> None:
    """Remove the settings and the state; the memories stay. Raises OSError."""
    for name in (STATE, AHEAD, SETTINGS):  # killed in between, the next sync joins again
        with suppress(FileNotFoundError):
            history.unlink(name)
    history.sync()


def _load(history: Folder, name: str) -> dict[str, Any] | None:
    try:
        found = json.loads(read_file(history, name, _LIMIT))
    except (FileNotFoundError, PathRefused):
        return None
    except (ValueError, RecursionError):
        raise _make_damage_error(history, name) from None
    if not isinstance(found, dict):
        raise _make_damage_error(history, name)
    return found


def _make_damage_error(history: Folder, name: str) -> StoreFailed:
    error = StoreFailed(f"{os.path.join(history.path, name)!r} is damaged")
    error.hint = "`memsheaf hub add URL -s SCOPE` makes it anew; no memory is lost."
    return error
