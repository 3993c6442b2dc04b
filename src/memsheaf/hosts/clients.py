"""The hosts that memsheaf knows, and what their settings must say.

`hosts.json` has an entry for each: how it is found (`commands` on the PATH, or its `folder`), its settings file for
the user (one, or for Linux, macOS and Windows) and in a `project`, the format, how its settings name an environment
variable ("" when it takes no URL), and templates for a server that the host starts (`local`) and for one that runs
already (`remote`). `more` has further files: what to `add`, and the template of a `hook` with its `events` and their
timeouts, `server_events` those that only our server can answer; `told_by` is a pattern of what starts our hook where
that is no command. A `strict` host ignores a settings file with comments or trailing commas. `own_memory` is the
setting of the host's own memory, on unless it says false. In paths `{NAME:default}` is a variable of the environment.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from memsheaf.errors import Refused
from memsheaf.hosts.formats import RENDER

TOKEN = "MEMSHEAF_MCP_TOKEN"
SYSTEMS = ("Linux", "macOS", "Windows")
PATH_VARIABLE = r"\{(\w+):([^}]*)\}"
TOKEN_NOTE = "{} takes the token from the variable `{}` of its environment."

with open(os.path.join(os.path.dirname(__file__), "hosts.json"), encoding="utf-8") as _file:
    CLIENTS: Mapping[str, Mapping[str, Any]] = json.load(_file)
"""Every client this knows, by the name that `--print-config` takes."""


def describe_client(client: str, *, words: Sequence[str], url: str = "", token: str = TOKEN) -> dict[str, Any]:
    """All there is to say to a client: `config` is the text for `file`.

    Without `url` the client starts the server itself, with `words`. `token` is the variable that holds the token.
    Raises Refused when the client is not known, or cannot do that.

    >>> print(describe_client("codex", words=["memsheaf", "mcp"])["config"])
    [mcp_servers.memsheaf]
    command = "memsheaf"
    args = ["mcp"]
    default_tools_approval_mode = "approve"
    """
    known = find_client(client)
    if url and not known["variable"]:
        raise Refused(
            f"there is no text with a URL for {known['title']}: it starts its servers itself",
            hint=f"Leave the URL out: memsheaf mcp --print-config {client}",
        )
    require_text((*words, url, token))
    bearer = f"Bearer {known['variable'].replace('NAME', token)}"
    values = {**server_values(client, words), "url": url, "token": token, "bearer": bearer}
    file = known["files"] if known.get("by_hand") else settings_path(known["files"], os.environ)
    return {
        "client": client,
        "title": known["title"],
        "file": file,
        "format": known["format"],
        "config": RENDER[known["format"]](fill(known["remote" if url else "local"], values)),
        "note": known.get("token_note", TOKEN_NOTE).format(known["title"], token) if url else "",
    }


def render_client(client: str, *, words: Sequence[str], url: str = "", token: str = TOKEN) -> list[str]:
    """The same as lines for a person: the text to paste, and where."""
    found = describe_client(client, words=words, url=url, token=token)
    lines = [f"For {found['title']}, put this into {found['file']}:", "", *found["config"].split("\n")]
    return [*lines, "", found["note"]] if found["note"] else lines


def find_client(name: str) -> Mapping[str, Any]:
    """The entry of a host. Raises Refused when there is none of that name."""
    if name not in CLIENTS:
        raise Refused(f"unknown client {name[:40]!r}", hint=f"Known are {', '.join(CLIENTS)}.")
    return CLIENTS[name]


def server_values(client: str, words: Sequence[str]) -> dict[str, Any]:
    """The values of `{command}` and `{args}`: the words, and the scope for a host without projects."""
    options = CLIENTS[client].get("options", []) if "--scope" not in words else []
    return {"command": words[0], "args": [*words[1:], *options]}


def settings_path(place: str | Sequence[str], environment: Mapping[str, str]) -> str:
    """Return where a file of the table is on this machine.

    >>> settings_path("{CODEX_HOME:~/.codex}/config.toml", {"CODEX_HOME": "/srv/codex"})
    '/srv/codex/config.toml'
    """
    place = place if isinstance(place, str) else place[SYSTEMS.index(_system())]
    place = re.sub(PATH_VARIABLE, lambda found: environment.get(found[1]) or found[2], place)
    home = environment.get("HOME") or os.path.expanduser("~")
    place = home + place[1:] if place.startswith("~") else place
    return os.path.abspath(os.path.expandvars(place) if os.name == "nt" else place)


def fill(template: Any, values: Mapping[str, Any]) -> Any:
    """A template with its placeholders replaced; "{args}" in a list becomes as many items as there are."""
    if isinstance(template, dict):
        return {key: fill(value, values) for key, value in template.items()}
    if isinstance(template, list):
        filled: list[Any] = []
        for item in template:
            filled += values["args"] if item == "{args}" else [fill(item, values)]
        return filled
    if not isinstance(template, str):
        return template
    before, brace, rest = template.partition("{")
    key, _, after = rest.partition("}")
    if not brace or key not in values:
        return template
    return f"{before}{values[key]}{after}" if before or after else values[key]


def require_text(words: Sequence[str]) -> None:
    """Refuse words that no settings can hold. Raises Refused."""
    for word in words:
        if "\0" in word or any("\ud800" <= char <= "\udfff" for char in word):
            shown = word.encode("ascii", "backslashreplace").decode()
            raise Refused(f"{shown!r} is no text: no settings can hold it", hint="Choose names in valid UTF-8.")


def _system() -> str:
    return "Windows" if os.name == "nt" else "macOS" if sys.platform == "darwin" else "Linux"
