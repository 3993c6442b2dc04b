"""JSON with comments and trailing commas, read with the position of every value, so that a text can be edited."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import NamedTuple

_GAP = re.compile(r"(?:[ \t\r\n]+|//[^\r\n]*|/\*.*?\*/)*", re.DOTALL)
_SCALAR = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null')
Step = str | int
Path = tuple[Step, ...]  # a way into a value: keys of objects and places in arrays


class JsonMember(NamedTuple):
    """One entry of an object or an array, from its key to its value; `comma` is where its comma is, -1 without."""

    key: Step
    start: int
    node: JsonNode
    comma: int


class JsonNode(NamedTuple):
    """One value and where it stands; `members` are those of an object or an array."""

    start: int
    end: int
    value: object
    members: Sequence[JsonMember] = ()

    def find(self, key: Step) -> JsonNode | None:
        """The value of a key: of the last, when it is there twice, as parsers have it."""
        return next((member.node for member in reversed(self.members) if member.key == key), None)


_decode = json.JSONDecoder().raw_decode


def read_jsonc(text: str, wanted: object = None) -> JsonNode | None:
    """The value of a text; None when there is nothing in it but comments. Raises ValueError with the line.

    With a tree of what is wanted, objects have the positions of what is in the tree, and lists and hooks all of them:
    the rest is read many times faster.
    """
    start = skip_gap(text, 1 if text.startswith("\ufeff") else 0)
    if start == len(text):
        return None
    try:
        node = _read(text, start, wanted)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if (end := skip_gap(text, node.end)) != len(text):
        raise _wrong(text, end)
    return node


def skip_gap(text: str, at: int) -> int:
    """The place behind spaces, newlines and comments."""
    found = _GAP.match(text, at)
    return found.end() if found else at


def _read(text: str, at: int, wanted: object = None) -> JsonNode:
    opened = text[at : at + 1]
    if opened not in ("{", "["):
        scalar = _SCALAR.match(text, at)
        if not opened or not scalar:
            raise _wrong(text, at)
        try:
            return JsonNode(at, scalar.end(), json.loads(scalar[0]))
        except ValueError:
            raise _wrong(text, at) from None
    members: list[JsonMember] = []
    place = skip_gap(text, at + 1)
    while text[place : place + 1] != ("}" if opened == "{" else "]"):
        if members and members[-1].comma < 0:
            raise _wrong(text, place)
        start, key = place, len(members)
        if opened == "{":
            named = _read(text, place) if text[place : place + 1] == '"' else None
            colon = skip_gap(text, named.end) if named else place
            if not named or text[colon : colon + 1] != ":":
                raise _wrong(text, colon)
            key, place = str(named.value), skip_gap(text, colon + 1)  # type: ignore[assignment]
        node = _read_member(text, place, key, wanted)
        place = skip_gap(text, node.end)
        has_comma = text[place : place + 1] == ","
        members.append(JsonMember(key, start, node, place if has_comma else -1))
        place = skip_gap(text, place + 1) if has_comma else place
    value = {m.key: m.node.value for m in members} if opened == "{" else [m.node.value for m in members]
    return JsonNode(at, place + 1, value, members)


def _read_member(text: str, at: int, key: Step, wanted: object) -> JsonNode:
    if not isinstance(wanted, dict):
        return _read(text, at)
    if key in wanted:
        return _read(text, at, wanted[key] if key != "hooks" else None)
    try:
        value, end = _decode(text, at)
        return JsonNode(at, end, value)
    except ValueError:
        return _read(text, at)


def _wrong(text: str, at: int) -> ValueError:
    return ValueError(f"line {text.count(chr(10), 0, at) + 1} is not JSON")
