"""Insert into JSON settings and take out again; comments, layout and everything else stay as they are.

What is wanted is a tree. Ours in it are the server named `memsheaf` that starts our program, the hooks that run
`memsheaf hook`, and texts that are as wanted, such as a permission in a list.

Comments and trailing commas are overwritten with spaces before a text is read. What is left is plain JSON, and every
place in it is a place in the text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from memsheaf.hosts.formats import as_json_lines
from memsheaf.hosts.own_commands import NAME, is_own_hook, read_server

Step = str | int
Path = tuple[Step, ...]  # a way into a value: keys of objects and places in arrays
Pieces = list[tuple[int, str]]

_STRING = r'"(?:[^"\\]|\\.)*"'
_COMMENT = rf"({_STRING})|//[^\r\n]*|/\*.*?\*/"
_TRAILING_COMMA = rf"({_STRING})|,(?=\s*[}}\]])"
_LINE_COMMENTS = re.compile(r"(?:[ \t]*/\*[^\r\n]*?\*/)*(?:[ \t]*//[^\r\n]*)?")
_GAP = re.compile(r"\s*")

_decode = json.JSONDecoder().raw_decode


class JsonEntry(NamedTuple):
    """One entry of an object or an array, from its key to the `end` of its value; `comma` is -1 without one."""

    key: Step
    start: int
    value: int
    end: int
    comma: int


class JsonText:
    """A text and its value. `plain` is the text without comments, `strict` also without trailing commas."""

    def __init__(self, text: str) -> None:
        """Read a text, which has the value {} if there is nothing in it. Raises ValueError with the line."""
        self.text = text
        start = " " if text.startswith("\ufeff") else ""
        self.plain = re.sub(_COMMENT, _blank, start + text[len(start) :], flags=re.DOTALL)
        self.strict = re.sub(_TRAILING_COMMA, _blank, self.plain)
        self.is_empty = not self.strict.strip()
        try:
            self.value: Any = {} if self.is_empty else json.loads(self.strict)
        except json.JSONDecodeError as error:
            raise ValueError(f"line {error.lineno} is not JSON") from None
        except RecursionError:
            raise ValueError("it is nested too deeply") from None

    @property
    def root(self) -> int:
        """The place where the value begins."""
        return _skip(self.strict, 0)

    def members(self, at: int) -> list[JsonEntry]:
        """Return the entries of the object or array that begins at a place; [] for any other value."""
        members: list[JsonEntry] = []
        if self.strict[at] not in "{[":
            return members
        place = _skip(self.strict, at + 1)
        while self.strict[place] not in "}]":
            start, key = place, len(members)
            if self.strict[at] == "{":
                key, colon = _decode(self.strict, place)
                place = _skip(self.strict, _skip(self.strict, colon) + 1)
            _, end = _decode(self.strict, place)
            comma = _skip(self.plain, end)
            has_comma = self.plain[comma] == ","
            members.append(JsonEntry(key, start, place, end, comma if has_comma else -1))
            place = _skip(self.strict, comma + has_comma)
        return members

    def lead(self, at: int) -> str:
        """Return what stands before a place in its line."""
        return self.text[self.text.rfind("\n", 0, at) + 1 : at].removeprefix("\ufeff")


def _blank(match: re.Match[str]) -> str:
    return match[1] or re.sub(r"[^\r\n]", " ", match[0])


def _skip(text: str, at: int) -> int:
    gap = _GAP.match(text, at)
    return gap.end() if gap else at


def read_value(text: str) -> Any:
    """Return the value of a text, {} of an empty one. Raises ValueError."""
    return JsonText(text).value


def find_ours(value: object, wanted: object, path: Path = ()) -> Iterator[tuple[Path, object]]:
    """Yield what is ours in a value, with the way to it; `wanted` says where to look."""
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
    """Return a value with what is missing of `wanted`; lists get it at their end. What is there already stays."""
    if isinstance(value, dict) and isinstance(wanted, dict):
        return {**value, **{key: merge(value.get(key, want), want) for key, want in wanted.items()}}
    if isinstance(value, list) and isinstance(wanted, list):
        return [*value, *(item for item in wanted if item not in value)]
    return value


def insert_json(text: str, wanted: dict[str, object]) -> Pieces:
    """Return the pieces to insert, in the order of their places. Raises ValueError."""
    newline = "\r\n" if "\r\n" in text else "\n"
    document = JsonText(text)
    if document.is_empty:
        start = newline if text.strip("\ufeff") and not text.endswith("\n") else ""
        return [(len(text), start + as_json_lines(wanted, "  ").replace("\n", newline) + newline)]
    if not isinstance(document.value, dict):
        raise ValueError("it is not an object")
    members = document.members(document.root)
    unit = document.lead(members[0].start) if members else ""
    unit = "  " if unit.strip(" \t") else unit or "  "
    return sorted(_insert_into(document, document.root, document.value, wanted, (newline, unit)))


def _insert_into(
    document: JsonText, at: int, value: dict[str, Any], wanted: dict[str, Any], layout: tuple[str, str]
) -> Iterator[tuple[int, str]]:
    """Yield a piece for each container that lacks something of `wanted`."""
    places = {member.key: member.value for member in document.members(at)}
    new = []
    for key, want in wanted.items():
        if key not in places:
            new.append((f"{as_json_lines(key, None)}: ", want))
        elif type(want) is not type(value[key]):
            if isinstance(want, dict | list):
                raise ValueError(f"{key} in it is no {'object' if isinstance(want, dict) else 'array'}")
        elif isinstance(want, dict) and key != NAME:
            yield from _insert_into(document, places[key], value[key], want, layout)
        elif isinstance(want, list) and (missing := [item for item in want if item not in value[key]]):
            yield _piece(document, places[key], [("", item) for item in missing], *layout)
    if new:
        yield _piece(document, at, new, *layout)


def _piece(
    document: JsonText, at: int, entries: Sequence[tuple[str, object]], newline: str, unit: str
) -> tuple[int, str]:
    """Return entries, keys included, as a piece behind the last member of a container, and its place.

    Some hosts know the items of an array by their number, so ours never come before those of others.
    """
    text, members = document.text, document.members(at)
    outer = document.lead(at)
    outer = outer[: len(outer) - len(outer.lstrip(" \t"))]
    inner = document.lead(members[0].start) if members else ""
    if not inner or inner.strip(" \t"):
        inner = outer + unit
    is_inline = members and "\n" not in text[at : members[0].start]
    lead = " " if is_inline else newline + inner
    lines = (
        lead + key + as_json_lines(value, None if is_inline else unit).replace("\n", newline + inner)
        for key, value in entries
    )
    body = ",".join(lines)
    if members:
        last = members[-1]
        return (last.comma + 1, f"{body},") if last.comma >= 0 else (last.end, f",{body}")
    comments = _LINE_COMMENTS.match(text, at + 1)
    place = comments.end() if comments else at + 1
    end = re.compile(r"[}\]]").search(document.strict, place)
    has_newline = end and "\n" in text[place : end.start()]
    return place, body + ("" if has_newline else newline + outer)


def remove_json(text: str, wanted: Any, inserted: str | None) -> str:
    """Return the text without our values and the containers that were made for them. Raises ValueError.

    `inserted` is all that the record says was put in, None without a record: then each container goes that is left
    empty. A text in a list, such as a permission, may be the user's own. It goes only if it was inserted or, where
    that is not known, if the file has all of our hooks and nothing else.
    """
    value = read_value(text)
    ours = dict(find_ours(value, wanted))
    texts = {path for path, held in ours.items() if isinstance(held, str) and isinstance(path[-1], int)}
    if inserted is not None:
        for path in texts:
            if as_json_lines(ours[path], None) not in inserted:
                del ours[path]
        for key, held in wanted.items():  # such as the version of a file
            is_value = not isinstance(held, dict | list) and held == value.get(key, [])
            if is_value and f"{as_json_lines(key, None)}: {as_json_lines(held, None)}" in inserted:
                ours[(key,)] = held
    elif texts:
        events = {path[1] for path in ours if path[0] == "hooks"}
        has_all_hooks = bool(events) and events >= wanted["hooks"].keys()
        if not has_all_hooks or read_value(_take_out(text, ours, None)):
            ours = {path: held for path, held in ours.items() if path not in texts}
    return _take_out(text, ours, inserted)


def _take_out(text: str, paths: Collection[Path], inserted: str | None) -> str:
    """Return the text without the members at these paths, and without the containers that this leaves empty.

    A container of the user's own stays: one that a list does not hold, and that does not begin in `inserted`.
    """
    for path in sorted(paths, key=lambda path: [(isinstance(step, int), step) for step in path], reverse=True):
        text = _take_out_member(JsonText(text), path)
        for depth in range(len(path) - 1, 0, -1):
            document = JsonText(text)
            outer = path[:depth]
            held = document.value
            for step in outer:
                held = held[step]
            is_in_list = any(isinstance(step, int) for step in outer)
            if is_in_list and isinstance(held, dict):  # of a group, only its containers count
                held = [item for item in held.values() if isinstance(item, dict | list)]
            begin = f"{as_json_lines(outer[-1], None)}: {'[' if isinstance(held, list) else '{'}"
            if held or not (is_in_list or inserted is None or begin in inserted):
                break
            text = _take_out_member(document, outer)
    return text


def _take_out_member(document: JsonText, path: Path) -> str:
    """Return the text without one member, its comma and its line's beginning or the spaces beside it."""
    text, at = document.text, document.root
    for step in path:
        members = document.members(at)
        number = [member.key for member in members].index(step)
        at = members[number].value
    member, is_last = members[number], number == len(members) - 1
    start, end = member.start, member.end
    if member.comma >= 0:
        end = member.comma + 1
    lead = len(text[:start].rstrip(" \t"))
    if text[lead - 1 : lead] == "\n":
        start = lead - 1 - (text[lead - 2 : lead] == "\r\n")
    elif is_last:
        start = lead
    else:
        end += len(text[end:]) - len(text[end:].lstrip(" \t"))
    before = text[:start]
    if is_last and member.comma < 0 and number:
        comma = members[number - 1].comma
        before = before[:comma] + before[comma + 1 :]
    return before + text[end:]
