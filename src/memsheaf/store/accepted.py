"""Record on this machine that a person accepts the memory of a checkout, or no longer does: `repositories.json`."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from memsheaf.errors import StoreFailed, hinted
from memsheaf.store.state import State
from memsheaf.trusted_repositories import NAME, foreign_owners, is_accepted, key, read

_WAIT = 10.0  # seconds


def accept(home: str, checkout: str) -> None:
    """Record that a person accepts the memory of this checkout. Raises StoreFailed, Busy."""
    if not is_accepted(home, checkout):
        entry = {"since": time.strftime("%Y-%m-%d"), "owners": sorted(foreign_owners(checkout))}
        _change(home, lambda known: known | {key(checkout): entry})


def withdraw(home: str, checkout: str) -> None:
    """Take that back; the files stay as they are. Raises StoreFailed, Busy."""
    gone = key(checkout)
    _change(home, lambda known: {name: entry for name, entry in known.items() if name != gone})


def _change(home: str, change: Callable[[dict[str, object]], dict[str, object]]) -> None:
    state = State(home)
    with state.lock("repositories", wait=_WAIT):
        known = read(home)
        if known is None:
            trouble = StoreFailed(f"{NAME} in {home!r} cannot be understood, so it is left as it is")
            raise hinted(trouble, "Fix it, or remove it and accept each repository again.")
        if (new := change(known)) != known:
            state.write(NAME, json.dumps(new, indent=2, sort_keys=True).encode() + b"\n")
