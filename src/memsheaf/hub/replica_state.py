"""What a replica remembers of its hub: `.history/hub.json` and `.history/hub-state.json`, written under the lock.

`pending` are the commits of this journal that the hub has not seen; an id is there before the commit's line is, so
that a crash loses none. `ahead` are those that the hub took and that no pull has brought back yet, with their paths.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress

from memsheaf.errors import PathRefused, StoreFailed, hinted
from memsheaf.hub import Erasure, HubSettings
from memsheaf.store import HISTORY, HUB
from memsheaf.store.safe_dir import CREATE, Folder, flush, read_file, write_all
from memsheaf.values import NamedTuple, json

TYPE_CHECKING = False  # known to type checkers by this name; `typing` is slow to import
if TYPE_CHECKING:
    from typing import Any

SETTINGS, STATE = HUB, "hub-state.json"
_LIMIT = 64 << 20
TOLD = 50  # conflicts that are remembered


class Conflict(NamedTuple):
    """Two machines changed one memory: the hub's text is at `path`, the other one at `copy`, "" if none was kept."""

    at: str
    path: str
    copy: str


class ReplicaState(NamedTuple):
    """The state of a replica. `held` are paths that are not pushed, and why; `left` those that could not be placed.

    `erasing` are erasures that the hub has still to be told of, `erasures` those that this machine has still to do.
    `down_at` is when the hub did not answer, 0 when it did.
    """

    joined: bool = False
    cursor: str = ""
    member: str = ""
    pending: tuple[str, ...] = ()
    ahead: Mapping[str, list[str]] = {}
    held: Mapping[str, str] = {}
    left: Mapping[str, str] = {}
    erasing: tuple[Erasure, ...] = ()
    erasures: tuple[Erasure, ...] = ()
    told: tuple[Conflict, ...] = ()
    pulled_at: str = ""
    down_at: float = 0.0
    reported_at: float = 0.0


def read_state(history: Folder) -> ReplicaState:
    """The state, that of a replica which never joined when there is none. Raises StoreFailed when it is damaged."""
    found = _load(history, STATE)
    if found is None:
        return ReplicaState()
    try:
        return _state(found)
    except (TypeError, ValueError, KeyError, AttributeError):
        raise _damaged(history, STATE) from None


def _state(found: dict[str, Any]) -> ReplicaState:
    known = {key: value for key, value in found.items() if key in ReplicaState._fields}
    known["pending"] = tuple(map(str, known["pending"]))
    for key in ("erasing", "erasures"):
        known[key] = tuple(Erasure(one[0], tuple(one[1]), tuple(one[2]), *one[3:]) for one in known[key])
    known["told"] = tuple(Conflict(*one) for one in known["told"])
    return ReplicaState(**known)


def write_state(history: Folder, state: ReplicaState, *, durable: bool = True) -> None:
    """Put the state in place, whole. The caller holds the lock. Raises OSError."""
    _write(history, STATE, json.dumps(state._asdict(), ensure_ascii=False).encode("utf-8", "surrogatepass"), durable)


def settings_of(root: str) -> HubSettings | None:
    """The hub of a folder, None when it has none. Raises StoreFailed when the file is damaged."""
    if not os.path.lexists(os.path.join(root, HISTORY, SETTINGS)):
        return None
    with Folder.open(root) as folder, folder.folder(HISTORY) as history:
        found = _load(history, SETTINGS)
        try:
            return HubSettings(**{key: str(value) for key, value in found.items()}) if found else None
        except TypeError:
            raise _damaged(history, SETTINGS) from None


def write_settings(history: Folder, settings: HubSettings) -> None:
    """Put the settings in place, for their owner only. Raises OSError."""
    _write(history, SETTINGS, json.dumps(settings._asdict(), indent=1, ensure_ascii=False).encode(), True)


def remove_hub(history: Folder) -> None:
    """Forget the hub; the memories stay. Raises OSError."""
    for name in (SETTINGS, STATE):
        with suppress(FileNotFoundError):
            history.unlink(name)
    history.sync()


def _load(history: Folder, name: str) -> dict[str, Any] | None:
    try:
        found = json.loads(read_file(history, name, _LIMIT))
    except (FileNotFoundError, PathRefused):
        return None
    except (ValueError, RecursionError):
        raise _damaged(history, name) from None
    if not isinstance(found, dict):
        raise _damaged(history, name)
    return found


def _damaged(history: Folder, name: str) -> StoreFailed:
    error = StoreFailed(f"{name} in {history.path!r} cannot be read as what memsheaf wrote")
    return hinted(error, "`memsheaf hub rejoin SCOPE` makes it anew; no memory is lost.")


def _write(history: Folder, name: str, data: bytes, durable: bool) -> None:
    draft = f"draft-{os.urandom(8).hex()}"
    fd = history.open_file(draft, CREATE)
    try:
        write_all(fd, data)
        if durable:
            flush(fd)
    finally:
        os.close(fd)
    history.rename(draft, history, name)
    if durable:
        history.sync()
