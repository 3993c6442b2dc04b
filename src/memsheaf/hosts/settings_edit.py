"""Edits of other programs' settings files: text in, text out, and every byte that is not ours stays.

What is missing of a wanted tree is inserted into the innermost JSON container that is there, in one piece: behind the
opening bracket of an object, behind the last item of an array. TOML gets tables at its end, YAML a block below its
parent key. After each edit both texts are parsed and compared: the file has what it had and what is ours, or the edit
is refused. An `Insertion` holds the pieces, and with it they are taken out again exactly; without it, or after
somebody changed them, what is ours is found by its names.
"""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from typing import Any, NamedTuple

from memsheaf.hosts.formats import as_toml, as_yaml
from memsheaf.hosts.json_edit import Pieces, find_ours, insert_json, merge, read_value, remove_json
from memsheaf.hosts.jsonc import Path, Step
from memsheaf.hosts.own_commands import NAME, OwnCommand, entry_words, read_hook, read_server

Wanted = Mapping[str, Any]
_OWN_YAML = r"""(?mx)
    (?:cmd|command): [ ]* ["']? (?:[^\r\n"']*[\\/])? memsheaf (?:\.exe)? ["']? [ ]* \r?$  # the program
    | ^ [ ]* - [ ] ["']? -m ["']? [ ]* \r?\n [ ]* - [ ] ["']? memsheaf \b"""
_HOOK_MENTION = rf"{NAME}\S*\s+hook\b"
_PLAIN = (bool, int, float, type(None))  # a value that starts nothing, such as a timeout


class NotEditable(Exception):
    """A settings file that cannot be edited without a risk to what is in it; the message says why."""


class Insertion(NamedTuple):
    """What an edit put into a text: pieces with their places, in the order in which they are to be taken out.

    `before` and `after` are hashes of the text. `created` are the ways to the containers and values that were made
    around what is ours.
    """

    before: str
    after: str
    pieces: Sequence[tuple[int, str]]
    created: Sequence[Path]


def insert(text: str, format: str, wanted: Wanted) -> tuple[str, Insertion]:
    """A text with what is missing of `wanted`. Raises NotEditable."""
    rules = _FORMATS[format]
    with _refusing():
        pieces, created = rules.insert(text, wanted)
        after = text
        for at, piece in reversed(pieces):
            after = after[:at] + piece + after[at:]
        if rules.read(after, wanted) != rules.merge(rules.read(text, wanted), wanted):
            raise ValueError("the edited text would not hold the expected value")
    return after, Insertion(hash_text(text), hash_text(after), pieces, created)


def remove(text: str, format: str, ours: Wanted, insertions: Sequence[Insertion] = ()) -> str:
    """The text without our entries: the pieces of an insertion, else entries with our name. Raises NotEditable."""
    for insertion in insertions:
        if insertion.after == hash_text(text):
            for at, piece in insertion.pieces:
                text = text[:at] + text[at + len(piece) :]
            return text
    rules = _FORMATS[format]
    with _refusing():
        created = {path for one in insertions for path in one.created} if insertions else None
        by_name = rules.remove(text, ours, created)
        for insertion in insertions:
            by_piece = text
            for _, piece in insertion.pieces:
                if text.count(piece) == 1:
                    by_piece = by_piece.replace(piece, "")
            with suppress(ValueError):  # somebody wrote around the piece
                if rules.read(by_piece, ours) == rules.read(by_name, ours):
                    return by_piece
    return by_name


def is_installed(text: str, format: str, wanted: Wanted, ours: Wanted) -> bool:
    """Whether a text has all that is wanted, and nothing else that is ours. Raises NotEditable."""
    rules = _FORMATS[format]
    with _refusing():
        found = rules.find(rules.read(text, ours), ours)
        return found == rules.find(rules.merge(rules.read("", ours), wanted), ours)


def list_ours(text: str, format: str, ours: Wanted) -> list[tuple[list[Step], object]]:
    """What is ours in a text, with the keys that lead to it; nothing when it cannot be read."""
    with suppress(ValueError):
        return _FORMATS[format].find(_FORMATS[format].read(text, ours), ours)
    return []


def find_entry(text: str, format: str, ours: Wanted) -> Mapping[str, Any]:
    """Return the server entry under our name, whoever wrote it; {} without one, and always for YAML."""
    with suppress(ValueError, AttributeError):  # not readable, or not of the expected shape
        return _entry_in(_FORMATS[format].read(text, ours), ours)
    return {}


def _entry_in(value: Any, ours: Wanted) -> Mapping[str, Any]:
    for parent in _nested(ours):
        entry = value.get(parent, {}).get(NAME)
        if isinstance(entry, dict):
            return entry
    return {}


def find_foreign_entry(text: str, format: str, ours: Wanted) -> str:
    """Return the server entry under our name as text if it starts another program or has a URL, else ""."""
    if format == "yaml":
        with suppress(ValueError):
            lines, _, start, end = _yaml_block(text, ours)
            block = "".join(lines[start:end])  # empty where both are -1
            return "" if re.search(_OWN_YAML, block) else block
    entry = find_entry(text, format, ours)
    if not entry or read_server(entry):
        return ""
    return _show(entry_words(entry), _find_extras(entry, ("command", "args")))


def find_commands(
    text: str, format: str, ours: Wanted, *, is_repository: bool
) -> Iterator[tuple[str, OwnCommand | None]]:
    """Yield the server entry under our name and the hooks that name us, each as text.

    With each goes how it starts memsheaf; None if it starts something else, if other words stand around our command,
    or if a repository adds a setting that `install` does not write, such as `env`. Users may add such to their own.
    """
    if foreign := find_foreign_entry(text, format, ours):
        yield foreign, None
    elif entry := find_entry(text, format, ours):
        extras = _find_extras(entry, _entry_in(_nested(ours), ours))
        yield _show(entry_words(entry), extras), None if extras and is_repository else read_server(entry)
    waiting: list[Any] = []
    with suppress(ValueError, AttributeError):  # not readable, or no object
        waiting.append(_FORMATS[format].read(text, ours).get("hooks"))
    while waiting:
        item = waiting.pop()
        if isinstance(item, list):
            waiting += item
        elif isinstance(item, dict):
            waiting += item.values()
            for key, line in item.items():
                if isinstance(line, str) and re.search(_HOOK_MENTION, line):
                    extras = _find_extras(item, ("type", "name", key))
                    yield line + _show([], extras), None if extras and is_repository else read_hook(line)


def _find_extras(item: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """Return the settings that are not known and may change what is started; a number or a switch does not."""
    return {key: held for key, held in item.items() if key not in known and not isinstance(held, _PLAIN)}


def _show(words: Sequence[Any], settings: Mapping[str, Any]) -> str:
    line = shlex.join(map(str, words))
    try:
        return f"{line} {json.dumps(settings, ensure_ascii=False)}" if settings else line
    except RecursionError:
        return f"{line} {', '.join(settings)}"


def keep_choices(text: str, format: str, wanted: Wanted) -> Wanted:
    """What is wanted, with what a person chose in the server's entry that is there.

    Our program takes the place of an earlier path of ours; its options stay unless there are new ones, and so do
    other settings. An entry that starts something else, or holds a URL, stays as it is.
    """
    changed = dict(wanted)
    if entry := find_entry(text, format, wanted):
        for key, held in wanted.items():
            if key.endswith(f".{NAME}"):  # a table of TOML
                changed[key] = _merge_entry(held, entry)
            elif isinstance(held, dict) and NAME in held:
                changed[key] = {**held, NAME: _merge_entry(held[NAME], entry)}
    return changed


def _merge_entry(ours: Mapping[str, Any], entry: Mapping[str, Any]) -> Mapping[str, Any]:
    words, earlier = entry_words(ours), read_server(entry)
    if not earlier:
        return entry
    if words[-1] == "mcp":
        words += earlier.arguments[1:]
    kept = {key: held for key, held in entry.items() if key not in ("command", "args")}
    is_list = isinstance(ours["command"], list)
    return {**ours, **kept, **({"command": words} if is_list else {"command": words[0], "args": words[1:]})}


@contextmanager
def _refusing() -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise NotEditable(str(error)) from None


def hash_text(text: str) -> str:
    """The hash that tells whether a text is still the one that was written."""
    return sha256(text.encode()).hexdigest()


def _find(value: object, ours: Wanted) -> list[tuple[list[Step], object]]:
    """What is ours in a value, in an order of its own, without the places in lists."""
    found: list[tuple[list[Step], object]] = [
        ([step for step in path if isinstance(step, str)], held) for path, held in find_ours(value, ours)
    ]
    return sorted(found, key=repr)


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _append(text: str, block: str, *, apart: bool) -> Pieces:
    """A block of lines as a piece for the end of a text."""
    newline = _newline(text)
    has_text = text.strip("\ufeff \t\r\n")
    start = newline * (bool(text.strip("\ufeff")) and not text.endswith("\n")) + newline * bool(has_text and apart)
    return [(len(text), start + block.replace("\n", newline) + newline)]


def _read_toml(text: str, ours: Wanted) -> dict[str, Any]:
    return tomllib.loads(text.removeprefix("\ufeff"))


def _nested(wanted: Wanted) -> dict[str, Any]:
    """Tables by their dotted names as a tree."""
    tree: dict[str, Any] = {}
    for name, table in wanted.items():
        *parents, last = name.split(".")
        inner = tree
        for parent in parents:
            inner = inner.setdefault(parent, {})
        inner[last] = table
    return tree


def _insert_toml(text: str, wanted: Wanted) -> tuple[Pieces, list[Path]]:
    held = _read_toml(text, wanted)
    missing = {name: table for name, table in wanted.items() if merge(held, _nested({name: table})) != held}
    return (_append(text, as_toml(missing), apart=True) if missing else []), []


def _remove_toml(text: str, ours: Wanted, created: Collection[Path] | None) -> str:
    [name] = ours  # one table, such as mcp_servers.memsheaf
    parent, _, last = name.rpartition(".")
    old = _read_toml(text, ours)
    tables = old.get(parent, {})
    if not isinstance(tables, dict):
        raise ValueError(f"{parent} in it is no table")
    if not read_server(tables.get(last)):
        return text
    header, inside = re.compile(rf"\s*\[\s*{re.escape(name)}\s*[].]"), False
    kept: list[str] = []
    ending: list[str] = []
    for line in text.splitlines(keepends=True):
        if line.lstrip().startswith("["):
            inside = bool(header.match(line))
            kept += ending  # comments in front of the next table
            ending = []
        if not inside:
            kept.append(line)
        elif not line.strip() or line.lstrip().startswith("#"):
            ending.append(line)
        else:
            ending = []
    after = "".join(kept + ending)
    del tables[last]
    if _without_empty(old) != _without_empty(_read_toml(after, ours)):
        raise ValueError("our tables in it were rewritten by somebody else")
    return after


def _without_empty(value: dict[str, Any]) -> dict[str, Any]:
    return {key: held for key, held in value.items() if held != {}}


def _parent(ours: Wanted) -> tuple[str, object]:
    [(parent, held)] = ours.items()
    return parent, held


def _yaml_block(text: str, ours: Wanted) -> tuple[list[str], int, int, int]:
    """The lines, where the parent key is (-1: nowhere), and where our entry begins and ends. Raises ValueError."""
    lines = text.splitlines(keepends=True)
    parent, _ = _parent(ours)
    odd = re.compile(r"\ufeff?(?:---|\.\.\.|[{\[&*!?%]|\t)")
    if any(map(odd.match, lines[text.startswith("---") :])):
        raise ValueError("it is more than one document, or no plain mapping")
    found = [at for at, line in enumerate(lines) if re.match(rf"\ufeff?([\"']?){parent}\1\s*:", line)]
    if not found:
        return lines, -1, -1, -1
    if len(found) > 1 or not re.fullmatch(r"[^:]*:\s*(?:#.*)?", lines[found[0]].rstrip("\r\n")):
        raise ValueError(f"{parent} in it is not a block of lines")
    child = _child_indent(lines, found[0])
    entry = re.compile(rf"{child}(?:- name: *)?([\"']?){NAME}\1\s*(?::|#|$)")
    for at in range(found[0] + 1, len(lines)):
        if not _is_blank(lines[at]) and not lines[at].startswith((" ", "-")):
            break
        if entry.match(lines[at]):
            return lines, found[0], at, _block_end(lines, at, child)
    return lines, found[0], -1, -1


def _is_blank(line: str) -> bool:
    return not line.strip() or line.lstrip().startswith("#")


def _child_indent(lines: Sequence[str], parent: int) -> str:
    """How far the entries below a parent key are indented."""
    line = next((line for line in lines[parent + 1 :] if not _is_blank(line)), "")
    return line[: len(line) - len(line.lstrip(" "))] or ("" if line.startswith("- ") else "  ")


def _block_end(lines: Sequence[str], at: int, child: str) -> int:
    """Where an entry ends: before the next line that is not deeper, and the comments in front of that."""
    end = at + 1
    for place in range(at + 1, len(lines)):
        if not _is_blank(lines[place]):
            if len(lines[place]) - len(lines[place].lstrip(" ")) <= len(child):
                break
            end = place + 1
    return end


def _insert_yaml(text: str, wanted: Wanted) -> tuple[Pieces, list[Path]]:
    lines, parent, entry, _ = _yaml_block(text, wanted)
    if entry >= 0:
        return [], []
    if parent < 0:
        return _append(text, as_yaml(wanted), apart=False), [(_parent(wanted)[0],)]
    child, newline = _child_indent(lines, parent), _newline(text)
    block = [f"{child}{line}{newline}" for line in as_yaml(_parent(wanted)[1]).split("\n")]
    at = sum(map(len, lines[: parent + 1]))
    if not lines[parent].endswith("\n"):
        return [(at, newline + "".join(block).removesuffix(newline))], []
    return [(at, "".join(block))], []


def _remove_yaml(text: str, ours: Wanted, created: Collection[Path] | None) -> str:
    lines, _, start, end = _yaml_block(text, ours)
    is_own = start >= 0 and re.search(_OWN_YAML, "".join(lines[start:end]))
    return _cut_yaml(text, ours, created) if is_own else text


def _cut_yaml(text: str, ours: Wanted, created: Collection[Path] | None) -> str:
    """Return the text without the entry of our name, whoever wrote it."""
    lines, parent, start, end = _yaml_block(text, ours)
    if start < 0:
        return text
    del lines[start:end]
    following = next((line for line in lines[parent + 1 :] if not _is_blank(line)), "")
    if not following.startswith((" ", "- ")) and (created is None or (_parent(ours)[0],) in created):
        del lines[parent]
    return "".join(lines)


def _read_yaml(text: str, ours: Wanted) -> tuple[bool, list[str]]:
    """Whether our entry is there, and the other lines that are not empty."""
    rest = _cut_yaml(text, ours, ())
    return rest != text, [line.rstrip() for line in rest.split("\n") if line.strip("\ufeff \r")]


def _merge_yaml(read: tuple[bool, list[str]], wanted: Wanted) -> tuple[bool, list[str]]:
    parent = _parent(wanted)[0]
    has_parent = any(line.lstrip("\ufeff\"'").startswith(parent) for line in read[1])
    return True, read[1] if has_parent else [*read[1], f"{parent}:"]


def _insert_text(text: str, wanted: Wanted) -> tuple[Pieces, list[Path]]:
    if text:
        raise ValueError("it is there already, and not as it was installed")
    return [(0, wanted["text"])], []


def _remove_text(text: str, ours: Wanted, created: Collection[Path] | None) -> str:
    if text and text != ours["text"]:
        raise ValueError("it was changed since it was installed; remove it by hand if you do not need it")
    return ""


class _Format(NamedTuple):
    """How settings of one format are read and changed. Each function raises ValueError for what it does not know."""

    read: Callable[[str, Wanted], Any]
    merge: Callable[[Any, Any], Any]
    find: Callable[[Any, Wanted], list[tuple[list[Step], object]]]
    insert: Callable[[str, Any], tuple[Pieces, list[Path]]]
    remove: Callable[[str, Wanted, Collection[Path] | None], str]


_FORMATS = {
    "json": _Format(lambda text, ours: read_value(text), merge, _find, insert_json, remove_json),
    "toml": _Format(
        _read_toml,
        lambda value, wanted: merge(value, _nested(wanted)),
        lambda value, ours: _find(value, _nested(ours)),
        _insert_toml,
        _remove_toml,
    ),
    "yaml": _Format(
        _read_yaml, _merge_yaml, lambda read, ours: [([NAME], None)] if read[0] else [], _insert_yaml, _remove_yaml
    ),
    "text": _Format(
        lambda text, ours: text,
        lambda text, wanted: wanted["text"],
        lambda text, ours: [([], text)] if text else [],
        _insert_text,
        _remove_text,
    ),
}
