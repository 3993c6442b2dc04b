"""Settings as JSON, TOML or YAML.

Letters stay as they are, whatever their script, and what cannot be seen becomes an escape, so that a file name
neither breaks the text nor fools the reader.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any


def as_json_lines(value: object, indent: str | None) -> str:
    """JSON with a line for each key and item, as most programs write it; with None in one line.

    >>> as_json_lines({"args": ["\\u674e", "\\u202e"]}, None)
    '{"args": ["\u674e", "\\\\u202e"]}'
    """
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return "".join(char if char.isprintable() or char in "\t\n" else json.dumps(char)[1:-1] for char in text)


def as_toml(value: Mapping[str, Mapping[str, Any]]) -> str:
    """Tables, by their names.

    >>> print(as_toml({"servers.a": {"args": ["x"]}}))
    [servers.a]
    args = ["x"]
    """
    lines = []
    for name, table in value.items():
        lines += [f"[{name}]", *(f"{key} = {_inline(item, ' = ')}" for key, item in table.items())]
    return "\n".join(lines)


def as_yaml(value: Mapping[str, Any]) -> str:
    """YAML with a line for each entry below a key, and every text in quotes, so that none is taken for anything else.

    >>> print(as_yaml({"servers": [{"name": "yes", "on": True, "env": {}}]}))
    servers:
      - {"name": "yes", "on": true, "env": {}}
    """
    lines = []
    for key, entries in value.items():
        lines.append(f"{key}:")
        if isinstance(entries, list):
            lines += [f"  - {_inline(entry, ': ')}" for entry in entries]
        else:
            lines += [f"  {name}: {_inline(entry, ': ')}" for name, entry in entries.items()]
    return "\n".join(lines)


def _inline(value: object, sign: str) -> str:
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_quote(key)}{sign}{_inline(item, sign)}' for key, item in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(_inline(item, sign) for item in value)}]"
    return _quote(value) if isinstance(value, str) else str(value).lower()


def _quote(text: str) -> str:
    """A text between double quotes, as TOML and YAML both read it."""
    return f'"{"".join(map(_escape, text))}"'


def _escape(char: str) -> str:
    if char in '"\\':
        return f"\\{char}"
    return char if char.isprintable() else f"\\U{ord(char):08x}"


RENDER: dict[str, Callable[[Any], str]] = {
    "json": partial(as_json_lines, indent="  "),
    "toml": as_toml,
    "yaml": as_yaml,
}
