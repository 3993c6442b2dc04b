"""The settings that tell an MCP client where the server is, and the shell command that does the same.

`clients.json` has an entry a client: the settings file on Linux, macOS and Windows, its format, how its settings name
an environment variable ("" when it takes no URL), and templates for a server that the client starts (`local`) and for
one that runs already (`remote`).
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from memsheaf.errors import Refused, hinted

TOKEN = "MEMSHEAF_MCP_TOKEN"
SYSTEMS = ("Linux", "macOS", "Windows")
PASTED = "TOKEN"  # where a client reads no variable, and the token itself has to stand
_CMD_SPECIAL = frozenset("%^&|<>!")

with open(os.path.join(os.path.dirname(__file__), "clients.json"), encoding="utf-8") as _file:
    CLIENTS: Mapping[str, Mapping[str, Any]] = json.load(_file)
"""Every client this knows, by the name that `--print-config` takes."""


def describe_client(
    client: str, *, words: Sequence[str], url: str = "", token: str = TOKEN, system: str = ""
) -> dict[str, Any]:
    """All there is to say to a client: `config` is the text for `file`, `command` the line that does the same.

    Without `url` the client starts the server itself, with `words`. `token` is the variable that holds the token.
    `system` is Linux, macOS or Windows, by default the one this runs on. Raises Refused when the client is not
    known, or cannot do that.

    >>> print(describe_client("codex", words=["memsheaf", "mcp"])["config"])
    [mcp_servers.memsheaf]
    command = "memsheaf"
    args = ["mcp"]
    """
    if client not in CLIENTS:
        raise hinted(Refused(f"unknown client {client[:40]!r}"), f"Known are {', '.join(CLIENTS)}.")
    known = CLIENTS[client]
    if url and not known["variable"]:
        error = Refused(f"there is no text with a URL for {known['title']}: it starts its servers itself")
        raise hinted(error, f"Leave the URL out: memsheaf mcp --print-config {client}")
    _require_text((*words, url, token))
    system = system or _system()
    bearer = f"Bearer {known['variable'].replace('NAME', token)}"
    values = {"command": words[0], "args": list(words[1:]), "url": url, "token": token, "bearer": bearer}
    kind = "remote" if url else "local"
    line = [
        as_json_line(word) if isinstance(word, dict) else word
        for word in _fill(known.get(f"{kind}_command", []), values)
    ]
    return {
        "client": client,
        "title": known["title"],
        "file": known["files"][SYSTEMS.index(system)],
        "files": dict(zip(SYSTEMS, known["files"], strict=True)),
        "format": known["format"],
        "config": _RENDER[known["format"]](_fill(known[kind], values)),
        "command": as_line(line, windows=system == "Windows"),
        "note": _note(known, token) if url else "",
    }


def render_client(
    client: str, *, words: Sequence[str], url: str = "", token: str = TOKEN, system: str = ""
) -> list[str]:
    """The same as lines for a person: the command first, then the text to paste, and where."""
    found = describe_client(client, words=words, url=url, token=token, system=system)
    lines = [f"For {found['title']}, run", "", f"    {found['command']}", ""] if found["command"] else []
    begin = "or put" if lines else f"For {found['title']}, put"
    lines += [f"{begin} this into {found['file']}:", "", *found["config"].split("\n")]
    return [*lines, "", found["note"]] if found["note"] else lines


def _fill(template: Any, values: Mapping[str, Any]) -> Any:
    """A template with its placeholders replaced; "{args}" in a list becomes as many items as there are."""
    if isinstance(template, dict):
        return {key: _fill(value, values) for key, value in template.items()}
    if isinstance(template, list):
        filled: list[Any] = []
        for item in template:
            filled += values["args"] if item == "{args}" else [_fill(item, values)]
        return filled
    if not isinstance(template, str):
        return template
    before, brace, rest = template.partition("{")
    key, _, after = rest.partition("}")
    return f"{before}{values[key]}{after}" if brace and key in values else template


def _require_text(words: Sequence[str]) -> None:
    for word in words:
        if "\0" in word or any("\ud800" <= char <= "\udfff" for char in word):
            shown = word.encode("ascii", "backslashreplace").decode()
            raise hinted(Refused(f"{shown!r} is no text: no settings can hold it"), "Choose names in valid UTF-8.")


def _note(client: Mapping[str, Any], token: str) -> str:
    if client["variable"] == PASTED:
        return f"Put the token itself where {PASTED} stands: {client['title']} reads no variable there."
    if client["variable"].startswith("${input:"):
        return f"{client['title']} asks for the token when it starts the server, and keeps it."
    return f"{client['title']} takes the token from the variable `{token}` of its environment."


def _system() -> str:
    return "Windows" if os.name == "nt" else "macOS" if sys.platform == "darwin" else "Linux"


# settings as JSON, TOML or YAML, and words as a shell command: letters stay as they are, whatever their script, and
# what cannot be seen becomes an escape, so that a file name neither breaks the text nor fools the reader


def as_json(value: object, indent: str = "") -> str:
    """JSON with a line for each key, and lists in one line.

    >>> print(as_json({"args": ["mcp", "C:\\\\a b"]}))
    {
      "args": ["mcp", "C:\\\\a b"]
    }
    """
    if isinstance(value, dict) and value:
        inner = f"{indent}  "
        items = (f"{inner}{as_json(key)}: {as_json(item, inner)}" for key, item in value.items())
        return "{\n" + ",\n".join(items) + f"\n{indent}}}"
    if isinstance(value, list):
        return f"[{', '.join(as_json(item, indent) for item in value)}]"
    return as_json_line(value)


def as_json_line(value: object) -> str:
    """JSON in one line.

    >>> as_json_line({"args": ["\\u674e", "\\u202e"]})
    '{"args": ["\u674e", "\\\\u202e"]}'
    """
    text = json.dumps(value, ensure_ascii=False)
    return "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in text)


def as_toml(value: Mapping[str, Mapping[str, Any]]) -> str:
    """Tables, by their names, of texts and lists of texts.

    >>> print(as_toml({"servers.a": {"args": ["x"]}}))
    [servers.a]
    args = ["x"]
    """
    return "\n".join(line for name, table in value.items() for line in (f"[{name}]", *_toml_lines(table)))


def _toml_lines(table: Mapping[str, Any]) -> Iterator[str]:
    for key, value in table.items():
        yield (
            f"{key} = [{', '.join(map(_quoted, value))}]" if isinstance(value, list) else f"{key} = {_quoted(value)}"
        )


def as_yaml(value: object) -> str:
    """YAML in blocks, with every text in quotes, so that none is taken for anything else.

    >>> print(as_yaml({"servers": [{"name": "yes", "on": True, "env": {}}]}))
    servers:
      - name: "yes"
        on: true
        env: {}
    """
    return "\n".join(_yaml_lines(value))


def _yaml_lines(value: object) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            held = list(_yaml_lines(item))
            alone = not isinstance(item, dict | list) or not item
            yield from [f"{key}: {held[0]}"] if alone else [f"{key}:", *(f"  {line}" for line in held)]
    elif isinstance(value, list) and value:
        for item in value:
            first, *rest = _yaml_lines(item)
            yield from (f"- {first}", *(f"  {line}" for line in rest))
    elif isinstance(value, str):
        yield _quoted(value)
    else:
        yield {"[]": "[]", "{}": "{}"}.get(str(value), str(value).lower())


def _quoted(text: str) -> str:
    """A text between double quotes, as TOML and YAML both read it."""
    return f'"{"".join(map(_escaped, text))}"'


def _escaped(char: str) -> str:
    if char in '"\\':
        return f"\\{char}"
    return char if char.isprintable() else f"\\U{ord(char):08x}"


def as_line(words: list[str], *, windows: bool) -> str:
    """Words as a line for the user's shell; "" when they cannot be seen, or Windows' shell would read more into them.

    >>> as_line(["code", "a b"], windows=False), as_line(["code", "a b"], windows=True)
    ("code 'a b'", 'code "a b"')
    """
    line = subprocess.list2cmdline(words) if windows else shlex.join(words)
    return "" if not line.isprintable() or (windows and _CMD_SPECIAL & set(line)) else line


_RENDER = {"json": as_json, "toml": as_toml, "yaml": as_yaml}
