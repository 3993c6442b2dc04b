"""The subset of YAML that headers are written in: keys, texts, lists in brackets, and one level of nesting.

Nothing is guessed, so `NO` stays `NO` and `012` stays `012`. What is not understood raises TextRefused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from memsheaf.errors import TextRefused

Pairs = tuple[tuple[str, str], ...]
Value = str | tuple[str, ...] | Pairs

NEST = re.compile(r":(?:[ \t]|$)")
_COMMENT = re.compile(r"[ \t]#")

# The rest is needed rarely, so it stays text until it is: compiling it costs every start some milliseconds.
_SET_APART = r"[ \t]{2,}#[ \t]"
_DOUBLE = r'"([^"\\]*+(?:\\.[^"\\]*+)*+)"'
_SINGLE = r"'([^']*+(?:''[^']*+)*+)'"
_FLOW_ITEM = r"[^,\[\]{}]*"
_ESCAPE = r"(?s)\\(x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)"
_NUMBER = r"(?i)[-+.]?[0-9][0-9a-fxo_.,:+\-tz ]*|[-+]?\.(?:inf|nan)"

_SIMPLE_ESCAPES = {
    "0": "\0", "a": "\a", "b": "\b", "t": "\t", "\t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r",
    "e": "\x1b", " ": " ", '"': '"', "/": "/", "\\": "\\",
    "N": "\x85", "_": "\xa0", "L": "\u2028", "P": "\u2029",
}  # fmt: skip
_LEADING = {
    "&": "anchors are not allowed",
    "*": "aliases are not allowed",
    "!": "tags are not allowed",
    "|": "block texts are not allowed; write one line",
    ">": "block texts are not allowed; write one line",
    "{": "maps in braces are not allowed",
    "[": "a list inside a list is not allowed",
} | dict.fromkeys("@`%,]}#", "a value may not begin with this character; quote it")

# What a YAML reader would take for a truth value or nothing; with `_NUMBER`, all that is not a text to it.
# Dates are the one exception: by convention such files write them bare.
_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "y", "n", "null"})
_BARE = re.compile(r"[A-Za-z][ -\"$-9;-~]*")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
# Keys that are yes or no to every reader, so that their value is written bare.
_SWITCHES = frozenset({"pinned"})
_WRITTEN_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "\\": "\\\\"}
_KEY_MARKS = str.maketrans("- ./", "____")


def read_key(line: str, start: int, number: int) -> tuple[str, int]:
    """The key that begins at `start`, and where its value begins."""
    colon = line.find(":", start)
    key = line[start:colon].rstrip(" ")
    if colon < 0 or not _is_key(key):
        raise TextRefused(f"line {number}: not `key: value`, where a key begins with a letter")
    after = colon + 1
    while after < len(line) and line[after] in " \t":
        after += 1
    if after == colon + 1 and after < len(line):
        raise TextRefused(f"line {number}: a space is missing after the colon")
    return key, after


def read_value(line: str, start: int, number: int, warnings: list[str]) -> tuple[str | tuple[str, ...], int]:
    """The text or list in brackets at `start`, and where it ends."""
    if line.startswith("[", start):
        return _flow(line, start + 1, number)
    return _scalar(line, start, number, warnings)


def _scalar(line: str, start: int, number: int, warnings: list[str]) -> tuple[str, int]:
    """The text at `start`, and where it ends; both ends equal when nothing stands there."""
    if start >= len(line) or (line[start] == "#" and line[start - 1] in " \t"):
        return "", start
    if line[start] in "\"'":
        value, end = _quote(line, start, number)
        _require_only_comment(line[end:], number)
        return value, end
    comment = _COMMENT.search(line, start)
    value = line[start : comment.start() if comment else len(line)].rstrip(" \t")
    _require_plain(value, number)
    end = start + len(value)
    # A comment set well apart is meant as one; `issue #42` is probably a value that lost its end.
    if comment and not re.compile(_SET_APART).match(line, end):
        warnings.append(f"line {number}: ' #' starts a comment; quote the value to keep it")
    return value, end


def _require_plain(value: str, number: int) -> None:
    reason = _LEADING.get(value[0], "")
    if reason:
        raise TextRefused(f"line {number}: {reason}")
    if value[0] in "-?:" and (len(value) == 1 or value[1] in " \t"):
        raise TextRefused(f"line {number}: a value may not begin with {value[0]!r}; quote it")


def _refuse_pair(value: str, number: int) -> None:
    """Refuse in a list what YAML reads as a key with its value; after a key it can only be a text."""
    if NEST.search(value):
        raise TextRefused(f"line {number}: a value with ': ' in it must be quoted")


def _quote(line: str, start: int, number: int) -> tuple[str, int]:
    """The quoted text at `start` without its quotes, and where it ends."""
    double = line[start] == '"'
    found = re.compile(_DOUBLE if double else _SINGLE).match(line, start)
    if not found:
        raise TextRefused(f"line {number}: a quote is not closed")
    raw, end = found[1], found.end()
    if not double:
        return raw.replace("''", "'"), end
    if "\\" not in raw:
        return raw, end
    try:
        value = re.sub(_ESCAPE, _character, raw)
        # Two escapes may be the halves of one character, as JSON writes it; a half alone is none.
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le"), end
    except (KeyError, ValueError, OverflowError):
        raise TextRefused(f"line {number}: an escape that stands for no character") from None


def _character(escape: re.Match[str]) -> str:
    code = escape[1]
    return chr(int(code[1:], 16)) if len(code) > 1 else _SIMPLE_ESCAPES[code]


def _flow(line: str, at: int, number: int) -> tuple[tuple[str, ...], int]:
    """The list in brackets whose first item begins at `at`, and where it ends."""
    items: list[str] = []
    at = _skip_blanks(line, at)
    while not line.startswith("]", at):
        item, at = _flow_item(line, at, number)
        items.append(item)
        at = _skip_blanks(line, at)
        if line.startswith(",", at):
            at = _skip_blanks(line, at + 1)
        elif not line.startswith("]", at):
            raise TextRefused(f"line {number}: a list is one line of plain or quoted texts in brackets")
    at += 1
    _require_only_comment(line[at:], number)
    return tuple(items), at


def _flow_item(line: str, at: int, number: int) -> tuple[str, int]:
    if line.startswith(('"', "'"), at):
        return _quote(line, at, number)
    found = re.compile(_FLOW_ITEM).match(line, at)
    item = found[0].rstrip(" \t") if found else ""
    if not item:
        raise TextRefused(f"line {number}: {_LEADING.get(line[at : at + 1], 'a list is not closed')}")
    _require_plain(item, number)
    _refuse_pair(item, number)
    if _COMMENT.search(item):
        raise TextRefused(f"line {number}: a comment inside a list is not allowed")
    return item, at + len(item)


def _require_only_comment(rest: str, number: int) -> None:
    bare = rest.lstrip(" \t")
    if bare and not (bare[0] == "#" and len(bare) < len(rest)):
        raise TextRefused(f"line {number}: text after a closing quote or bracket")


def _skip_blanks(line: str, at: int) -> int:
    while at < len(line) and line[at] in " \t":
        at += 1
    return at


def read_block(lines: list[str], at: int, warnings: list[str]) -> tuple[Value, int]:
    """The `- item` or `inner: value` lines that follow a key, and the number of the last of them."""
    items: list[str] = []
    pairs: dict[str, str] = {}
    indent, last = -1, at + 1
    for index in range(at, len(lines)):
        line, number = lines[index], index + 2
        bare = line.lstrip(" ")
        if not bare.strip(" \t") or bare[0] == "#":
            continue
        depth = len(line) - len(bare)
        dash = bare[0] == "-" and (len(bare) == 1 or bare[1] in " \t")
        if bare[0] == "\t":
            raise TextRefused(f"line {number}: tabs may not indent a header")
        if depth == 0 and not dash:
            break
        if indent < 0:
            indent = depth
        elif depth != indent or dash == bool(pairs):
            raise TextRefused(f"line {number}: a header has one level of nesting, indented alike")
        if dash:
            start = _skip_blanks(line, depth + 1)
            items.append(_scalar(line, start, number, warnings)[0])
            if line[start : start + 1] not in ("", '"', "'"):
                _refuse_pair(items[-1], number)
        else:
            key, start = read_key(line, depth, number)
            if key in pairs:
                raise TextRefused(f"line {number}: {key!r} stands twice")
            pairs[key] = _scalar(line, start, number, warnings)[0]
        last = number
    return tuple(pairs.items()) if pairs else tuple(items) if items else "", last


def _is_key(key: str) -> bool:
    """Whether it begins with a letter or underscore and goes on with letters, digits and `- ./`."""
    return key.isidentifier() or (
        key[:1] not in "- ./" and key[-1:] != " " and key.translate(_KEY_MARKS).isidentifier()
    )


def quoted(value: str) -> str:
    """The value as it is written in a header: bare where every YAML reader sees the same string.

    >>> [quoted(value) for value in ("Prefers tabs", "NO", "a: b", "2026-11-15")]
    ['Prefers tabs', '"NO"', '"a: b"', '2026-11-15']

    Raises:
        TextRefused: half of a surrogate pair, which no file can hold.
    """
    if _BARE.fullmatch(value) and value[-1] != " ":
        return f'"{value}"' if value.lower() in _WORDS else value
    if _DATE.fullmatch(value) or _reads_as_text(value):
        return value
    return '"' + "".join(map(_escaped, value)) + '"'


def write_field(key: str, value: str | Sequence[str]) -> list[str]:
    """The lines that say this field, without line ends."""
    if not _is_key(key):
        raise TextRefused(f"{key!r} cannot be a key; begin with a letter, then letters, digits and ' ._/-'")
    if isinstance(value, str):
        return [f"{key}: {write_value(key, value)}"]
    return [f"{key}:", *(f"  - {quoted(item)}" for item in value)] if value else [f"{key}: []"]


def write_value(key: str, value: str) -> str:
    """A value as it stands after its key."""
    return value if key in _SWITCHES and value in ("true", "false") else quoted(value)


def _reads_as_text(value: str) -> bool:
    """Whether any YAML reader takes these bare characters for this very string."""
    if not value or not (value[0].isalnum() or value[0] in "_./(") or value != value.strip():
        return False
    if not value.isprintable() and any(map(_must_escape, value)):
        return False
    if value.lower() in _WORDS or " #" in value or NEST.search(value):
        return False
    return not re.fullmatch(_NUMBER, value)


def _must_escape(character: str) -> bool:
    """Whether YAML forbids the character in a file, or breaks the line at it."""
    return not character.isprintable() and (
        character < " "
        or "\x7f" <= character < "\xa0"
        or character in "\u2028\u2029\ufeff\ufffe\uffff"
        or "\ud800" <= character < "\ue000"
    )


def _escaped(character: str) -> str:
    code = ord(character)
    if 0xD800 <= code < 0xE000:
        raise TextRefused(f"half of a surrogate pair (U+{code:04X}) cannot be stored; remove it")
    if character in _WRITTEN_ESCAPES:
        return _WRITTEN_ESCAPES[character]
    if not _must_escape(character):
        return character
    return f"\\x{code:02X}" if code < 0x100 else f"\\u{code:04X}"
