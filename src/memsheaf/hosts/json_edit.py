"""Insert into JSON settings and take out again; comments, layout and everything else stay as they are.

What is wanted is a tree. Ours in it are the server named `memsheaf` that starts our program, the hooks that run
`memsheaf hook`, and texts that are as wanted, such as a permission in a list.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from memsheaf.hosts.formats import as_json_lines
from memsheaf.hosts.jsonc import JsonMember, JsonNode, Path, read_jsonc
from memsheaf.hosts.own_commands import NAME, is_own_hook, read_server

_COMMENTS = re.compile(r"(?:[ \t]*/\*[^\r\n]*?\*/)*(?:[ \t]*//[^\r\n]*)?")
_SPACES = re.compile(r"[ \t]*")

Pieces = list[tuple[int, str]]


def read_value(text: str) -> object:
    """The value of a text, {} of an empty one. Raises ValueError."""
    try:
        return json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError):  # there may be comments in it
        node = read_jsonc(text)
        return node.value if node else {}


def find_ours(value: object, wanted: object, path: Path = ()) -> Iterator[tuple[Path, object]]:
    """What is ours in a value, with the way to it; `wanted` says where to look."""
    if isinstance(value, dict) and isinstance(wanted, dict):
        for key, held in value.items():
            if key in wanted and (
                read_server(held) if key == NAME else isinstance(held, str) and held == wanted[key]
            ):
                yield (*path, key), held
            elif key == NAME:  # the user's own
                continue
            elif key in wanted or path[-1:] == ("hooks",):  # an older version may have had other hooks
                yield from find_ours(held, wanted.get(key, []), (*path, key))
    elif isinstance(value, list) and isinstance(wanted, list):
        for place, item in enumerate(value):
            if (isinstance(item, str) and item in wanted) or is_own_hook(item):
                yield (*path, place), item
            elif isinstance(item, dict):  # hooks of several in one group
                for key, held in item.items():
                    yield from find_ours(held, [], (*path, place, key))


def merge(value: Any, wanted: Any) -> Any:
    """A value with what is missing of `wanted`; lists get it at their end. What is there already stays."""
    if isinstance(value, dict) and isinstance(wanted, dict):
        return {**value, **{key: merge(value.get(key, want), want) for key, want in wanted.items()}}
    if isinstance(value, list) and isinstance(wanted, list):
        return [*value, *(item for item in wanted if item not in value)]
    return value


def insert_json(text: str, wanted: dict[str, object]) -> tuple[Pieces, list[Path]]:
    """The pieces to insert, in the order of their places, and the ways to all that is new. Raises ValueError."""
    newline = "\r\n" if "\r\n" in text else "\n"
    node = read_jsonc(text, wanted)
    if node is None:
        start = newline if text.strip("\ufeff") and not text.endswith("\n") else ""
        body = as_json_lines(wanted, "  ").replace("\n", newline)
        return [(len(text), start + body + newline)], [
            made for key, want in wanted.items() for made in _made(want, (key,))
        ]
    if not isinstance(node.value, dict):
        raise ValueError("it is not an object")
    unit = _line_indent(text, node.members[0].start) if node.members else None
    layout = _Layout(text, newline, unit or "  ")
    pieces: Pieces = []
    created: list[Path] = []
    _insert_into(node, wanted, (), layout, pieces, created)
    return sorted(pieces), created


class _Layout(NamedTuple):
    """The layout of a text: how its lines end, and the indentation of one level."""

    text: str
    newline: str
    unit: str

    def piece(self, node: JsonNode, entries: Sequence[tuple[str, object]]) -> tuple[int, str]:
        """Return entries, keys included, as a piece behind the last member of a container, and its place.

        Some hosts know the items of an array by their number, so ours never come before those of others.
        """
        text, members = self.text, node.members
        outer = _line_indent(text, node.start, whole=False) or ""
        inner = (_line_indent(text, members[0].start) if members else None) or outer + self.unit
        is_inline = members and "\n" not in text[node.start : members[0].start]
        lead, unit = (" ", None) if is_inline else (self.newline + inner, self.unit)
        lines = (
            lead + key + as_json_lines(value, unit).replace("\n", self.newline + inner) for key, value in entries
        )
        body = ",".join(lines)
        if members:
            last = members[-1]
            return (last.comma + 1, f"{body},") if last.comma >= 0 else (last.node.end, f",{body}")
        comments = _COMMENTS.match(text, node.start + 1)
        place = comments.end() if comments else node.start + 1
        return place, body + ("" if "\n" in text[place : node.end] else self.newline + outer)


def _line_indent(text: str, at: int, *, whole: bool = True) -> str | None:
    """The spaces that the line of a place begins with; None, with `whole`, when more stands between them and it."""
    start = text.rfind("\n", 0, at) + 1
    found = _SPACES.match(text, start + text.startswith("\ufeff", start))
    indent = found[0] if found else ""
    return indent if not whole or start + len(indent) == at else None


def _insert_into(
    node: JsonNode, wanted: dict[str, object], path: Path, layout: _Layout, pieces: Pieces, created: list[Path]
) -> None:
    new = []
    for key, want in wanted.items():
        at, held = (*path, key), node.find(key)
        if held is None:
            new.append((f"{as_json_lines(key, None)}: ", want))
            created += _made(want, at)
        elif isinstance(want, dict) and isinstance(held.value, dict):
            if key != NAME:
                _insert_into(held, want, at, layout, pieces, created)
        elif isinstance(want, list) and isinstance(held.value, list):
            if missing := [item for item in want if item not in held.value]:
                pieces.append(layout.piece(held, [("", item) for item in missing]))
                created += [(*at, item) for item in missing if isinstance(item, str)]
        elif isinstance(want, dict | list):
            raise ValueError(
                f"{'.'.join(map(str, at))} in it is no {'object' if isinstance(want, dict) else 'array'}"
            )
    if new:
        pieces.append(layout.piece(node, new))


def _made(value: object, path: Path) -> Iterator[Path]:
    """Yield the paths of the containers and values around what is ours; a text in a list is a path's last step."""
    if path[-1] != NAME:
        yield path
        if isinstance(value, list):
            yield from ((*path, item) for item in value if isinstance(item, str))
        elif isinstance(value, dict):
            for key, held in value.items():
                yield from _made(held, (*path, key))


def remove_json(text: str, wanted: object, created: Collection[Path] | None) -> str:
    """The text without our values and containers made for them (any, if None), now empty. Raises ValueError."""
    node = read_jsonc(text, wanted)
    if node is None:
        return text
    ours = dict(find_ours(node.value, wanted))
    # A text in a list, such as a permission, may be the user's own. It goes only if the record says that it was
    # inserted or, with no record, if all of our hooks and nothing else are in the file.
    dropped = set(ours)
    is_own_file = False
    if created is None and isinstance(wanted, dict):
        _add_emptied(node, (), dropped, None)
        has_all_hooks = {path[1] for path in ours if path[0] == "hooks"} >= set(wanted.get("hooks", [""]))
        is_own_file = has_all_hooks and _drop(node, (), dropped) == {}
        dropped = set(ours)
    for path, held in ours.items():
        if isinstance(held, str) and isinstance(path[-1], int):
            is_inserted = is_own_file if created is None else (*path[:-1], held) in created
            dropped -= set() if is_inserted else {path}
    if not dropped:
        return text
    _add_emptied(node, (), dropped, created)
    end = 0
    kept = []
    for start, stop in sorted(_cuts(text, node, (), dropped)):
        kept.append(text[end : max(start, end)])
        end = max(stop, end)
    after = "".join(kept) + text[end:]
    if read_value(after) != _drop(node, (), dropped):
        raise ValueError("the edited text would not hold the expected value")
    return after


def _add_emptied(node: JsonNode, path: Path, dropped: set[Path], created: Collection[Path] | None) -> bool:
    """Whether a value goes: it is ours, or all that was in it goes; those are added to what is dropped."""
    if path in dropped:
        return True
    gone = {one.key: _add_emptied(one.node, (*path, one.key), dropped, created) for one in node.members}
    ours = [one for one in node.members if (*path, one.key) in (created or ())]
    if all(gone[one.key] for one in ours if one.node.members):  # a value beside our containers goes with the last
        dropped |= {(*path, one.key) for one in ours}
        gone |= {one.key: True for one in ours}
    if not any(gone.values()):
        return False
    is_group = any(isinstance(step, int) for step in path)  # in an item such as {"matcher": "", "hooks": [...]}
    is_empty = all(gone[one.key] for one in node.members if one.node.members or not is_group)
    if path and is_empty and (is_group or created is None or path in created):
        dropped.add(path)
        return True
    return False


def _drop(node: JsonNode, path: Path, dropped: Collection[Path]) -> object:
    """The value without what is dropped."""
    if not node.members:
        return node.value
    places = [(one.key, one.node, (*path, one.key)) for one in node.members]
    kept = [(key, _drop(inner, place, dropped)) for key, inner, place in places if place not in dropped]
    return dict(kept) if isinstance(node.value, dict) else [value for _, value in kept]


def _cuts(text: str, node: JsonNode, path: Path, dropped: Collection[Path]) -> Iterator[tuple[int, int]]:
    """The spans to take out."""
    kept = [one for one in node.members if (*path, one.key) not in dropped]
    for one in node.members:
        if one in kept:
            yield from _cuts(text, one.node, (*path, one.key), dropped)
        else:
            yield _span(text, one, is_last=one is node.members[-1])
    if kept and kept[-1] is not node.members[-1] and node.members[-1].comma < 0:
        yield kept[-1].comma, kept[-1].comma + 1


def _span(text: str, member: JsonMember, *, is_last: bool) -> tuple[int, int]:
    """A member with its comma and its line's beginning, or with the spaces that part it from its neighbour."""
    start, end = member.start, member.comma + 1 if member.comma >= 0 else member.node.end
    lead = len(text[:start].rstrip(" \t"))
    if text[lead - 1 : lead] == "\n":
        return lead - 1 - (text[lead - 2 : lead] == "\r\n"), end
    spaces = _SPACES.match(text, end)
    return (lead if is_last else start), (spaces.end() if spaces and not is_last else end)
