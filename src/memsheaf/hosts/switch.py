"""Memory on and off, for this project or everywhere. For one shell there is the variable MEMSHEAF_OFF."""

from __future__ import annotations

import json
import os

from memsheaf.hosts.conversation import load, save

FILE = "off.json"
EVERYWHERE = "everywhere"


def read_switch(state: str) -> list[str]:
    """The project roots for which memory is off, and `everywhere`."""
    return [where for where, off in load(os.path.join(state, FILE)).items() if off]


def is_off(state: str, root: str) -> bool:
    """Return True if hooks, tools and resources leave memory alone in a project, or in this shell."""
    if os.environ.get("MEMSHEAF_OFF"):
        return True
    off = read_switch(state)
    return EVERYWHERE in off or root in off


def set_switch(state: str, where: str, *, off: bool) -> None:
    """Turn memory off or on for a project's root, or `everywhere`."""
    places = {**dict.fromkeys(read_switch(state), True), where: off}
    save(os.path.join(state, FILE), json.dumps(places).encode(), durable=True)
