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
from memsheaf.hosts.own_commands import NAME, OwnCommand, entry_words, read_hook, read_server

Wanted = Mapping[str, Any]
Found = list[tuple[list[Step], object]]
_OWN_YAML = r"""(?mx)
    (?:cmd|command): [ ]* ["']? (?:[^\r\n"']*[\\/])? memsheaf (?:\.exe)? ["']? [ ]* \r?$  # the program
    | ^ [ ]* - [ ] ["']? -m ["']? [ ]* \r?\n [ ]* - [ ] ["']? memsheaf \b"""
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
        extras = _find_extras(entry, _entry_in(_nest(ours), ours))
        yield _show(entry_words(entry), extras), None if extras and is_repository else read_server(entry)
    waiting: list[Any] = []
    with suppress(ValueError, AttributeError):  # not readable, or no object
        waiting.append(_read(text, format).get("hooks"))
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
    if not _find_in_toml(text, ours):
        return text
    header = re.compile(rf"\s*\[\s*(?:{'|'.join(map(re.escape, ours))})\s*[].]")
    is_ours = False
    kept: list[str] = []
    comments: list[str] = []
    for line in text.splitlines(keepends=True):
        if line.lstrip().startswith("["):
            is_ours = bool(header.match(line))
            kept += comments  # they are in front of the next table
            comments = []
        if not is_ours:
            kept.append(line)
        elif _is_blank(line):
            comments.append(line)
        else:
            comments = []
    after = "".join(kept + comments)
    if _find_in_toml(after, ours):
        raise ValueError("our tables in it were rewritten by somebody else")
    return after


def _parent(ours: Wanted) -> tuple[str, object]:
    [(parent, held)] = ours.items()
    return parent, held


def _yaml_block(text: str, ours: Wanted) -> tuple[list[str], int, int, int]:
    """Return the lines, where the parent key is (-1: nowhere), where our entry begins and ends. Raises ValueError."""
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
    """Return how far the entries below a parent key are indented."""
    line = next((line for line in lines[parent + 1 :] if not _is_blank(line)), "")
    return line[: len(line) - len(line.lstrip(" "))] or ("" if line.startswith("- ") else "  ")


def _block_end(lines: Sequence[str], at: int, child: str) -> int:
    """Return where an entry ends: before the next line that is not deeper, and the comments in front of that."""
    end = at + 1
    for place in range(at + 1, len(lines)):
        if not _is_blank(lines[place]):
            if len(lines[place]) - len(lines[place].lstrip(" ")) <= len(child):
                break
            end = place + 1
    return end


def _find_in_yaml(text: str, ours: Wanted) -> Found:
    """Return our key if there is an entry under it, whoever wrote it."""
    return [([NAME], None)] if _yaml_block(text, ours)[2] >= 0 else []


def _insert_yaml(text: str, wanted: Wanted) -> Pieces:
    lines, parent, entry, _ = _yaml_block(text, wanted)
    if entry >= 0:
        return []
    if parent < 0:
        return _append(text, as_yaml(wanted), apart=False)
    child, newline = _child_indent(lines, parent), _newline(text)
    block = "".join(f"{child}{line}{newline}" for line in as_yaml(_parent(wanted)[1]).split("\n"))
    at = sum(map(len, lines[: parent + 1]))
    is_last = not lines[parent].endswith("\n")
    return [(at, newline + block.removesuffix(newline) if is_last else block)]


def _remove_yaml(text: str, ours: Wanted, inserted: str | None) -> str:
    """Return the text without our entry, and without its parent key if that was inserted and is left empty."""
    lines, parent, start, end = _yaml_block(text, ours)
    if start < 0 or not re.search(_OWN_YAML, "".join(lines[start:end])):
        return text
    del lines[start:end]
    following = next((line for line in lines[parent + 1 :] if not _is_blank(line)), "")
    if not following.startswith((" ", "- ")) and (inserted is None or lines[parent].strip() in inserted):
        del lines[parent]
    return "".join(lines)


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
