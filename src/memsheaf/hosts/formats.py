"""Settings as JSON, TOML or YAML.

Letters stay as they are, whatever their script, and what cannot be seen becomes an escape, so that a file name
neither breaks the text nor fools the reader.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
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
        lines += [f"[{name}]", *(f"{key} = {_toml_value(item)}" for key, item in table.items())]
    return "\n".join(lines)


def _toml_value(value: object) -> str:
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{_quote(key)} = {_toml_value(item)}' for key, item in value.items())} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml_value, value))}]"
    return _quote(value) if isinstance(value, str) else str(value).lower()


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
        yield _quote(value)
    else:
        yield {"[]": "[]", "{}": "{}"}.get(str(value), str(value).lower())


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
