"""Edits of other programs' settings files: text in, text out, and every byte that is not ours stays.

What is missing of a wanted tree is inserted as text: into the innermost JSON container that is there, behind its last
entry; as tables at the end of TOML; as a block below its parent key of YAML. After each edit the text is read again,
and the edit is refused unless all that is wanted is in it. An `Insertion` holds the pieces, and with it they are
taken out again exactly; without it, or after somebody changed them, what is ours is found by its names.
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

from memsheaf.hosts.formats import RENDER, as_toml, as_yaml
from memsheaf.hosts.json_edit import Pieces, Step, find_ours, insert_json, merge, read_value, remove_json
from memsheaf.hosts.own_commands import NAME, entry_words, read_server

Wanted = Mapping[str, Any]
Found = list[tuple[list[Step], object]]
_OWN_YAML = r"""(?mx)
    \b (?:cmd|command) ["']?: [ ]* ["']? (?:[^\r\n"']*[\\/])? memsheaf (?:\.exe)? ["']? [ ]* (?:,|\r?$)  # the program
    | ["' ] -m ["']? (?: ,[ ] | [ ]* \r?\n [ ]* -[ ] ) ["']? memsheaf \b"""
_HOOK_MENTION = rf"{NAME}\S*\s+hook\b"
_PLAIN = (bool, int, float, type(None))  # a value that starts nothing, such as a timeout


class NotEditable(Exception):
    """A settings file that cannot be edited without a risk to what is in it; the message says why."""


class Insertion(NamedTuple):
    """The pieces that an edit put into a text, with their places, in the order in which they are to be taken out.

    `after` is a hash of the edited text.
    """

    after: str
    pieces: Sequence[tuple[int, str]]


def insert(text: str, format: str, wanted: Wanted) -> tuple[str, Insertion]:
    """Return a text with what is missing of `wanted`. Raises NotEditable."""
    with _refusing():
        pieces = _FORMATS[format].insert(text, wanted)
    after = text
    for at, piece in reversed(pieces):
        after = after[:at] + piece + after[at:]
    if not is_installed(after, format, wanted, wanted):
        raise NotEditable("the edited text would not hold the expected value")
    return after, Insertion(_hash(after), pieces)


def remove(text: str, format: str, ours: Wanted, insertions: Sequence[Insertion] = ()) -> str:
    """Return the text without our entries: without the pieces of an insertion, else without what has our name.

    Raises NotEditable.
    """
    for insertion in insertions:
        if insertion.after == _hash(text):
            for at, piece in insertion.pieces:
                text = text[:at] + text[at + len(piece) :]
            return text
    rules = _FORMATS[format]
    inserted = "".join(piece for insertion in insertions for _, piece in insertion.pieces)
    with _refusing():
        by_name = rules.remove(text, ours, inserted if insertions else None)
        left = rules.find(by_name, ours)
    for insertion in insertions:
        by_piece = text
        for _, piece in insertion.pieces:
            if text.count(piece) == 1:
                by_piece = by_piece.replace(piece, "")
        with suppress(ValueError):  # somebody wrote around the piece
            if rules.find(by_piece, ours) == left:
                return by_piece
    return by_name


def is_installed(text: str, format: str, wanted: Wanted, ours: Wanted) -> bool:
    """Return True if a text has all that is wanted, and nothing else that is ours. Raises NotEditable."""
    rules = _FORMATS[format]
    with _refusing():
        return rules.find(text, ours) == rules.find(rules.render(wanted), ours)


def list_ours(text: str, format: str, ours: Wanted) -> Found:
    """Return what is ours in a text, with the keys that lead to it; nothing when it cannot be read."""
    with suppress(ValueError):
        return _FORMATS[format].find(text, ours)
    return []


def find_entry(text: str, format: str, ours: Wanted) -> Mapping[str, Any]:
    """Return the server entry under our name, whoever wrote it; {} without one, and always for YAML."""
    with suppress(ValueError, AttributeError):  # not readable, or not of the expected shape
        return _entry_in(_read(text, format), ours)
    return {}


def _entry_in(value: Any, ours: Wanted) -> Mapping[str, Any]:
    for parent in _nest(ours):
        servers = value.get(parent)
        entry = servers.get(NAME) if isinstance(servers, dict) else None
        if isinstance(entry, dict):
            return entry
    return {}


def find_foreign_entry(text: str, format: str, ours: Wanted) -> str:
    """Return the server entry under our name as text if it starts another program or has a URL, else ""."""
    if format == "yaml":
        with suppress(ValueError):
            block = _yaml_block(text, ours)[1]
            return block[0] if block and not re.search(_OWN_YAML, block[0]) else ""
    entry = find_entry(text, format, ours)
    if not entry or read_server(entry):
        return ""
    return _show(entry_words(entry), _find_extras(entry, ("command", "args")))


def find_strangers(text: str, format: str, wanted: Wanted) -> list[str]:
    """Return the server and the hooks under our name that are not as wanted, each as text."""
    if format == "text":
        return [line for line in re.findall(r"(?m)^const PROGRAM = .*$", text) if line not in wanted.get("text", "")]
    foreign = find_foreign_entry(text, format, wanted)
    known = {*_list_commands(_nest(wanted), wanted)} - {foreign} | {""}
    strangers = {foreign: None}
    with suppress(ValueError):
        strangers |= dict.fromkeys(_list_commands(_read(text, format), wanted))
    return [line for line in strangers if line not in known]


def _list_commands(value: Any, wanted: Wanted) -> Iterator[str]:
    """Yield our server's entry and the hooks that name us, with all settings that may change what they start."""
    if not isinstance(value, dict):
        return
    if entry := _entry_in(value, wanted):
        yield _show(entry_words(entry), _find_extras(entry, ("command", "args")))
    waiting = [value.get("hooks")]
    while waiting:
        item = waiting.pop()
        if isinstance(item, list):
            waiting += item
        elif isinstance(item, dict):
            waiting += item.values()
            for key, line in item.items():
                if isinstance(line, str) and re.search(_HOOK_MENTION, line):
                    yield line + _show([], _find_extras(item, ("type", "name", key)))


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
    """Return what is wanted, with what a person chose in the server's entry that is there.

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
        words += earlier[1:]
    kept = {key: held for key, held in entry.items() if key not in ("command", "args")}
    is_list = isinstance(ours["command"], list)
    return {**ours, **kept, **({"command": words} if is_list else {"command": words[0], "args": words[1:]})}


@contextmanager
def _refusing() -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise NotEditable(str(error)) from None


def _read(text: str, format: str) -> Any:
    """Return the value of a text; {} of YAML and of other texts. Raises ValueError."""
    if format == "toml":
        return tomllib.loads(text.removeprefix("\ufeff"))
    return read_value(text) if format == "json" else {}


def _hash(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def _find_in_json(text: str, ours: Wanted) -> Found:
    return _find(_read(text, "json"), ours)


def _find(value: object, ours: Wanted) -> Found:
    """Return what is ours in a value, in an order of its own, without the places in lists."""
    found: Found = [([step for step in path if isinstance(step, str)], held) for path, held in find_ours(value, ours)]
    return sorted(found, key=repr)


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _append(text: str, block: str, *, apart: bool) -> Pieces:
    """Return a block of lines as a piece for the end of a text."""
    newline = _newline(text)
    start = newline if text.strip("\ufeff") and not text.endswith("\n") else ""
    if apart and text.strip("\ufeff \t\r\n"):
        start += newline
    return [(len(text), start + block.replace("\n", newline) + newline)]


def _nest(wanted: Wanted) -> dict[str, Any]:
    """Return tables by their dotted names as a tree."""
    tree: dict[str, Any] = {}
    for name, table in wanted.items():
        *parents, last = name.split(".")
        inner = tree
        for parent in parents:
            inner = inner.setdefault(parent, {})
        inner[last] = table
    return tree


def _find_in_toml(text: str, ours: Wanted) -> Found:
    return _find(_read(text, "toml"), _nest(ours))


def _insert_toml(text: str, wanted: Wanted) -> Pieces:
    held = _read(text, "toml")
    missing = {name: table for name, table in wanted.items() if merge(held, _nest({name: table})) != held}
    return _append(text, as_toml(missing), apart=True) if missing else []


def _remove_toml(text: str, ours: Wanted, inserted: str | None) -> str:
    """Return the text without our tables. Comments behind their last line belong to the next table."""
    names = "|".join(map(re.escape, ours))
    table = rf"(?m)^\s*?\[\s*(?:{names})\s*[].].*\n?((?:[ \t]*(?:\#.*)?\r?\n)*(?![ \t]*[\[\#\r\n])[^\n]+\n?)*"
    after = re.sub(table, "", text) if _find_in_toml(text, ours) else text
    if _find_in_toml(after, ours):
        raise ValueError("our tables in it were rewritten by somebody else")
    return after


def _yaml_block(text: str, ours: Wanted) -> tuple[re.Match[str] | None, re.Match[str] | None]:
    """Return where the parent key with its lines is, and our entry in them. Raises ValueError."""
    [parent] = ours
    if re.search(r"(?m)^\ufeff?(?:---|\.\.\.|[{\[&*!?%]|\t)", text.removeprefix("---")):
        raise ValueError("it is more than one document, or no plain mapping")
    key = rf"^\ufeff?([\"']?){parent}\1[ ]*:"
    block = re.search(rf"(?m){key}[ ]*(?:\#.*)?\r?(?:\n|\Z)((?:[ \#-].*(?:\n|\Z)|\r?\n)*)", text)
    if len(re.findall(f"(?m){key}", text)) > bool(block):
        raise ValueError(f"{parent} in it is not a block of lines")
    if not block:
        return None, None
    child = _child_indent(block[2])
    first_line = rf"(?m)^{child}(?:- (?:{{ *)?[\"']?name[\"']?: *)?([\"']?){NAME}\1[ ]*(?:[:,].*|\#.*)?\r?(?:\n|\Z)"
    deeper_lines = rf"((?:[ ]*(?:\#.*)?\r?\n)*{child}[ ]+[^\s\#].*(?:\n|\Z))*"
    entry = re.compile(first_line + deeper_lines)
    return block, entry.search(text, block.start(2), block.end(2))


def _child_indent(lines: str) -> str:
    """Return how far the entries below a parent key are indented."""
    first = re.search(r"(?m)^( *)[^\s#]", lines)
    return first[1] if first else "  "


def _find_in_yaml(text: str, ours: Wanted) -> Found:
    """Return our key if there is an entry under it, whoever wrote it."""
    return [([NAME], None)] if _yaml_block(text, ours)[1] else []


def _insert_yaml(text: str, wanted: Wanted) -> Pieces:
    block, entry = _yaml_block(text, wanted)
    if entry:
        return []
    if not block:
        return _append(text, as_yaml(wanted), apart=False)
    newline = _newline(text)
    lines = newline.join(_child_indent(block[2]) + line.strip() for line in as_yaml(wanted).split("\n")[1:])
    has_line_end = text[: block.start(2)].endswith("\n")
    return [(block.start(2), lines + newline if has_line_end else newline + lines)]


def _remove_yaml(text: str, ours: Wanted, inserted: str | None) -> str:
    """Return the text without our entry, and without its parent key if that was inserted and is left empty."""
    block, entry = _yaml_block(text, ours)
    if not block or not entry or not re.search(_OWN_YAML, entry[0]):
        return text
    start, end = entry.span()
    head = text[block.start() : block.start(2)]
    others = text[block.start(2) : start] + text[end : block.end(2)]
    if not re.search(r"(?m)^ *[^\s#]", others) and (inserted is None or head.strip() in inserted):
        text = text[: block.start()] + text[block.start(2) :]
        start, end = start - len(head), end - len(head)
    return text[:start] + text[end:]


def _insert_text(text: str, wanted: Wanted) -> Pieces:
    if text:
        raise ValueError("it is there already, and not as it was installed")
    return [(0, wanted["text"])]


def _remove_text(text: str, ours: Wanted, inserted: str | None) -> str:
    if text and text != ours["text"]:
        raise ValueError("it was changed since it was installed; remove it by hand if you do not need it")
    return ""


def _find_in_text(text: str, ours: Wanted) -> Found:
    return [([], text)] if text else []


class _Format(NamedTuple):
    """The functions that read and change one format of settings. Each raises ValueError for what it does not know."""

    render: Callable[[Any], str]
    find: Callable[[str, Wanted], Found]
    insert: Callable[[str, Any], Pieces]
    remove: Callable[[str, Wanted, str | None], str]


_FORMATS = {
    "json": _Format(RENDER["json"], _find_in_json, insert_json, remove_json),
    "toml": _Format(RENDER["toml"], _find_in_toml, _insert_toml, _remove_toml),
    "yaml": _Format(RENDER["yaml"], _find_in_yaml, _insert_yaml, _remove_yaml),
    "text": _Format(lambda wanted: wanted["text"], _find_in_text, _insert_text, _remove_text),
}
