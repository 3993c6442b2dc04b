"""Where memory is off, and where a hook tells of it.

It is off for this project or everywhere, and for one shell with the variable MEMSHEAF_OFF.
"""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress

from memsheaf.hosts.clients import CLIENTS, settings_path
from memsheaf.hosts.conversation import FOLDER, load, save
from memsheaf.scope import open_plain

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


def is_told_at_start(client: object, project: str, state: str) -> bool:
    """Return True if a hook of ours begins the conversations of an MCP client, by what it says of itself.

    The hook stands in the settings of the user or of the project. In a host that runs it only once a person trusted
    it, it has run before.
    """
    name = str(client.get("name")) if isinstance(client, dict) else ""
    name = name.lower().removeprefix("github-")
    host = next((host for host in CLIENTS if name.startswith(host)), "")
    for more in CLIENTS[host].get("more", ()) if host else ():
        if "told_by" in more:
            for path in (settings_path(more["file"], os.environ), os.path.join(project, more["project"])):
                with suppress(OSError), open_plain(path) as file:
                    if re.search(more["told_by"].encode(), file.read()):
                        return "runs_once_trusted" not in more or os.path.exists(
                            os.path.join(state, FOLDER, more["runs_once_trusted"])
                        )
    return False
