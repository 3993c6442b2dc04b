"""Split a text into header fields and a body, and edit it without losing a byte.

The header is a small part of YAML, read strictly: keys, texts, flat lists and one level of nesting, at most 16 KiB.
Nothing is guessed, so `NO` stays `NO` and `012` stays `012`. What is not understood is kept as it is and reported; an
edit touches the lines of the fields it names and no others.

>>> page = split("---\\nname: Prefers tabs\\ntags: [code, style]\\n---\\nUse tabs.\\n")
>>> page.get("name"), page.items("tags"), page.body
('Prefers tabs', ('code', 'style'), 'Use tabs.\\n')
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from memsheaf.errors import TextRefused

Pairs = tuple[tuple[str, str], ...]
Value = str | tuple[str, ...] | Pairs
Fields = Mapping[str, str | Sequence[str]]

HEADER_LIMIT = 16 * 1024
BOM = "\ufeff"

_OPENING = re.compile(rf"{BOM}?---[ \t]*\r?(?:\n|\Z)")
_CLOSING = re.compile(r"\n---[ \t]*\r?(?:\n|\Z)")
_CONFLICT_MARKS = (r"(?m)^<{7}(?:[ \r]|$)", r"(?m)^={7}\r?$", r"(?m)^>{7}(?:[ \r]|$)")


class Field(NamedTuple):
    """One key of a header and the lines it stands on; the opening fence is line 1."""

    key: str
    value: Value
    first: int
    last: int


class ParsedText(NamedTuple):
    """A text cut into header and body; `head + body` is the text, byte for byte."""

    head: str
    body: str
    fields: tuple[Field, ...] = ()
    problem: str = ""
    warnings: tuple[str, ...] = ()

    def value(self, key: str) -> Value:
        """Return what stands under `key`, in whatever shape; "" when the key is absent."""
        for field in self.fields:
            if field.key == key:
                return field.value
        return ""

    def get(self, key: str, default: str = "") -> str:
        """Return the text under `key`; a list or a nested block is not a text, so it gives `default`."""
        for field in self.fields:
            if field.key == key and isinstance(field.value, str):
                return field.value
        return default

    def items(self, key: str) -> tuple[str, ...]:
        """Return the list under `key`; a plain text counts as a list of one."""
        value = self.value(key)
        if isinstance(value, str):
            return (value,) if value else ()
        return tuple(item for item in value if isinstance(item, str))

    def get_nested(self, key: str, inner: str) -> str:
        """Return the text at `key`, `inner`, such as `metadata`, `type`; "" when it is not there."""
        pairs = dict(pair for pair in self.value(key) if isinstance(pair, tuple))
        return pairs.get(inner, "")


def split(text: str) -> ParsedText:
    """Cut any text into header and body. Never raises; what is wrong stands in `problem`.

    >>> split("---\\nname: &n x\\n---\\nb").problem
    'line 2: anchors are not allowed'
    """
    if _has_old_line_ends(text):
        page = split(text.replace("\r", "\n"))
        end = len(page.head)
        return page._replace(head=text[:end], body=text[end:])
    opening = _OPENING.match(text)
    if not opening:
        is_mixed = re.match(rf"{BOM}?---[ \t]*\r", text)
        problem = "line 1: the header mixes line ends" if is_mixed else ""
        return ParsedText("", text, (), problem, _warn_of_conflict(text))
    closing = _CLOSING.search(text, opening.end() - 1)
    if not closing:
        return ParsedText("", text, (), "line 1: the header has no closing '---' line", _warn_of_conflict(text))
    head, body = text[: closing.end()], text[closing.end() :]
    reader = _HeaderReader(text[opening.end() : closing.start() + 1])
    warnings = _warn_of_conflict(body)
    try:
        _require_size(head)
        return ParsedText(head, body, reader.read(), "", (*reader.warnings, *warnings))
    except TextRefused as problem:
        return ParsedText(head, body, (), str(problem), warnings)


def join(fields: Fields, body: str) -> str:
    """Return a new text with these fields in this order.

    >>> join({"name": "issue #42", "tags": ["a", "b"]}, "text\\n")
    '---\\nname: "issue #42"\\ntags:\\n  - a\\n  - b\\n---\\ntext\\n'

    Raises:
        TextRefused: no fields, a key that is not a plain word, or half of a surrogate pair in a value.
    """
    if not fields:
        raise TextRefused("a header needs at least one field")
    lines = ["---"]
    for key, value in fields.items():
        lines += _write_field(key, value)
    head = "\n".join([*lines, "---\n"])
    _require_size(head)
    return head + body


def edit_text(
    text: str, *, fields: Mapping[str, str | Sequence[str] | None] | None = None, body: str | None = None
) -> str:
    """Return the same text with these fields set (None removes one) and this body; all else byte for byte.

    >>> edit_text("---\\nname: a  # mine\\nx: 'y'\\n---\\nb", fields={"name": "c"})
    "---\\nname: c  # mine\\nx: 'y'\\n---\\nb"

    Raises:
        TextRefused: there is no header, it is not understood, or it would no longer be after the edit.
    """
    if _has_old_line_ends(text):
        return edit_text(text.replace("\r", "\n"), fields=fields, body=body).replace("\n", "\r")
    page = split(text)
    if page.problem or not page.head:
        raise TextRefused(f"the header cannot be edited: {page.problem or 'there is none'}")
    head = _edit_head(page, fields or {})
    if body and not head.endswith("\n"):
        head += _carriage(head) + "\n"
    if head != page.head and (problem := split(head).problem):
        raise TextRefused(f"the edit would leave a header that cannot be read: {problem}")
    return head + (page.body if body is None else body)


def with_quotes(text: str, page: ParsedText | None = None) -> str:
    """Return the same text with quotes around plain values that hold ': ', as every YAML reader wants them.

    The `page` is what `split` gave for the text, where that was asked already.

    >>> with_quotes("---\\nname: fix: the parser\\nx: y\\n---\\nb")
    '---\\nname: "fix: the parser"\\nx: y\\n---\\nb'
    """
    if _has_old_line_ends(text):
        return with_quotes(text.replace("\r", "\n")).replace("\n", "\r")
    page = page or split(text)
    lines = page.head.split("\n")
    for field in page.fields:
        line = lines[field.first - 1]
        if isinstance(field.value, str) and _PAIR.search(field.value) and field.first == field.last:
            _, start = _read_key(line, 0)
            if line[start] not in "\"'":
                lines[field.first - 1] = _rewrite_line(field, line, field.value)
    return "\n".join(lines) + page.body


def _has_old_line_ends(text: str) -> bool:
    """Return True if all lines end with a carriage return alone, as on computers of another age."""
    return "\r" in text and "\n" not in text


def has_conflict_marks(text: str) -> bool:
    """Return True if a merge left its marks: lines that open, divide and close two versions."""
    return "<<<<<<<" in text and all(re.search(mark, text) for mark in _CONFLICT_MARKS)


def _warn_of_conflict(body: str) -> tuple[str, ...]:
    return ("the text holds git conflict marks; choose one side",) if has_conflict_marks(body) else ()


def _require_size(head: str) -> None:
    if len(head.encode("utf-8", "surrogatepass")) > HEADER_LIMIT:
        raise TextRefused(f"the header is longer than {HEADER_LIMIT} bytes")


# Reading. Each function raises TextRefused for what it does not understand; `_HeaderReader` adds the line.

_CONTROL_PATTERN = r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]|\r(?!\n)"
# Nearly every line of a memory is one of these: a plain value in which nothing needs a decision.
_SIMPLE_LINE = re.compile(r"([^\W\d][\w.-]*): +([\w./(+][^:#\t]*+(?:(?:(?<! )#|:(?=\S))[^:#\t]*+)*+)")
_PAIR = re.compile(r":(?:[ \t]|$)")
_COMMENT = re.compile(r"[ \t]#")
_QUOTED = re.compile(r'"([^"\\]*+(?:\\.[^"\\]*+)*+)"|' + r"'([^']*+(?:''[^']*+)*+)'")
_PLAIN_ITEM = re.compile(r"[^,\[\]{}]+")
_ESCAPE_PATTERN = r"(?s)\\(x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)"
_SIMPLE_ESCAPES = dict(zip('0abt\tnvfre "/\\N_LP', '\0\a\b\t\t\n\v\f\r\x1b "/\\\x85\xa0\u2028\u2029', strict=True))
_FORBIDDEN_STARTS = {
    "&": "anchors are not allowed",
    "*": "aliases are not allowed",
    "!": "tags are not allowed",
    "|": "block texts are not allowed; write one line",
    ">": "block texts are not allowed; write one line",
    "{": "maps in braces are not allowed",
    "[": "a list inside a list is not allowed",
} | dict.fromkeys("@`%,]}#", "a value may not begin with this character; quote it")
_KEY_MARKS = str.maketrans("- ./", "____")


class _HeaderReader:
    """The lines between the fences, and how far they are read."""

    def __init__(self, header: str) -> None:
        self._header = header
        self._lines = [line.removesuffix("\r") for line in header.split("\n")]
        self._at = 0
        self.warnings: list[str] = []

    def read(self) -> tuple[Field, ...]:
        """Return the fields. Raises TextRefused at the first thing that is not understood."""
        fields: dict[str, Field] = {}
        is_plain = self._header.replace("\n", "").isprintable()
        if not is_plain and (control := re.search(_CONTROL_PATTERN, self._header)):
            self._at = self._header.count("\n", 0, control.start())
            raise self._refuse("control characters are not allowed")
        try:
            while self._at < len(self._lines):
                line = self._lines[self._at]
                simple = _SIMPLE_LINE.fullmatch(line)
                if not simple and _is_blank(line):
                    self._at += 1
                    continue
                if simple:
                    field = Field(simple[1], simple[2].rstrip(" "), self._at + 2, self._at + 2)
                else:
                    field = self._read_field()
                if field.key in fields:
                    self._at = field.first - 2
                    raise TextRefused(f"{field.key!r} stands twice")
                fields[field.key] = field
                self._at = field.last - 1
        except TextRefused as problem:
            raise self._refuse(str(problem)) from None
        if not fields:
            self._at = 0
            raise self._refuse("the header is empty")
        return tuple(fields.values())

    def _refuse(self, problem: str) -> TextRefused:
        return TextRefused(f"line {self._at + 2}: {problem}")

    def _read_field(self) -> Field:
        """Return the field that begins at this line, with its block when it has one."""
        line, number = self._lines[self._at], self._at + 2
        if line[0] in " \t":
            raise TextRefused("an indented line that belongs to no key; a value is one line")
        key, start = _read_key(line, 0)
        value, end = _read_list(line, start + 1) if line.startswith("[", start) else self._read_text(line, start)
        if end > start:
            return Field(key, value, number, number)
        return Field(key, *self._read_block(number))

    def _read_block(self, first: int) -> tuple[Value, int, int]:
        """Return the `- item` or `inner: value` lines that follow a key, with the lines that the field stands on."""
        items: list[str] = []
        pairs: dict[str, str] = {}
        indent = last = 0
        for at, line in enumerate(self._lines[self._at + 1 :], self._at + 1):
            self._at = at
            if _is_blank(line):
                continue
            bare = line.lstrip(" ")
            depth = len(line) - len(bare)
            is_item = bool(re.match(r"-(?:[ \t]|$)", bare))
            if bare[0] == "\t":
                raise TextRefused("tabs may not indent a header")
            if depth == 0 and not is_item:
                break
            if last and (depth != indent or is_item == bool(pairs)):
                raise TextRefused("a header has one level of nesting, indented alike")
            indent, last = depth, at + 2
            if is_item:
                start = _skip_blanks(line, depth + 1)
                item, _ = self._read_text(line, start)
                if line[start : start + 1] not in ('"', "'"):
                    _require_no_pair(item)
                items.append(item)
            else:
                key, start = _read_key(line, depth)
                if key in pairs:
                    raise TextRefused(f"{key!r} stands twice")
                pairs[key], _ = self._read_text(line, start)
        return tuple(pairs.items()) or tuple(items) or "", first, last or first

    def _read_text(self, line: str, start: int) -> tuple[str, int]:
        """Return the text at `start`, and where it ends: there, when there is none."""
        if start >= len(line) or (line[start] == "#" and line[start - 1] in " \t"):
            return "", start
        if line[start] in "\"'":
            value, end = _read_quoted(line, start)
            _require_only_comment(line, end)
            return value, end
        comment = _COMMENT.search(line, start)
        value = line[start : comment.start() if comment else len(line)].rstrip(" \t")
        _require_plain(value)
        end = start + len(value)
        # A comment set well apart is meant as one; `issue #42` is probably a value that lost its end.
        if comment and not re.match(r"[ \t]{2,}#[ \t]", line[end:]):
            self.warnings.append(f"line {self._at + 2}: ' #' starts a comment; quote the value to keep it")
        return value, end


def _is_blank(line: str) -> bool:
    """Return True if there is nothing in a line but a comment."""
    return re.match(r"[ \t]*(?:#|$)", line) is not None


def _read_key(line: str, start: int) -> tuple[str, int]:
    """Return the key that begins at `start`, and where its value begins."""
    colon = line.find(":", start)
    key = line[start:colon].rstrip(" ")
    if colon < 0 or not _is_key(key):
        raise TextRefused("not `key: value`, where a key begins with a letter")
    after = _skip_blanks(line, colon + 1)
    if after == colon + 1 and after < len(line):
        raise TextRefused("a space is missing after the colon")
    return key, after


def _is_key(key: str) -> bool:
    """Return True if a key begins with a letter or underscore and goes on with letters, digits and `- ./`."""
    return key[:1] not in "- ./" and key[-1:] != " " and key.translate(_KEY_MARKS).isidentifier()


def _require_plain(value: str) -> None:
    if value[0] in _FORBIDDEN_STARTS:
        raise TextRefused(_FORBIDDEN_STARTS[value[0]])
    if re.match(r"[-?:](?:[ \t]|$)", value):
        raise TextRefused(f"a value may not begin with {value[0]!r}; quote it")


def _require_no_pair(value: str) -> None:
    """Refuse in a list what YAML reads as a key with its value; after a key it can only be a text."""
    if _PAIR.search(value):
        raise TextRefused("a value with ': ' in it must be quoted")


def _require_only_comment(line: str, end: int) -> None:
    if not re.match(r"[ \t]*$|[ \t]+#", line[end:]):
        raise TextRefused("text after a closing quote or bracket")


def _skip_blanks(line: str, at: int) -> int:
    while line.startswith((" ", "\t"), at):
        at += 1
    return at


def _read_quoted(line: str, start: int) -> tuple[str, int]:
    """Return the quoted text at `start` without its quotes, and where it ends."""
    match = _QUOTED.match(line, start)
    if not match:
        raise TextRefused("a quote is not closed")
    double, single = match.groups()
    if double is None:
        return single.replace("''", "'"), match.end()
    try:
        value = re.sub(_ESCAPE_PATTERN, _read_escape, double)
        # Two escapes may be the halves of one character, as JSON writes it; a half alone is none.
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le"), match.end()
    except (KeyError, ValueError, OverflowError):
        raise TextRefused("an escape that stands for no character") from None


def _read_escape(escape: re.Match[str]) -> str:
    code = escape[1]
    return chr(int(code[1:], 16)) if len(code) > 1 else _SIMPLE_ESCAPES[code]


def _read_list(line: str, at: int) -> tuple[tuple[str, ...], int]:
    """Return the list in brackets whose first item begins at `at`, and where it ends."""
    items: list[str] = []
    at = _skip_blanks(line, at)
    while not line.startswith("]", at):
        if line.startswith(('"', "'"), at):
            item, at = _read_quoted(line, at)
        else:
            plain = _PLAIN_ITEM.match(line, at)
            item = plain[0].rstrip(" \t") if plain else ""
            if not item:
                raise TextRefused(_FORBIDDEN_STARTS.get(line[at : at + 1], "a list is not closed"))
            _require_plain(item)
            _require_no_pair(item)
            if _COMMENT.search(item):
                raise TextRefused("a comment inside a list is not allowed")
            at += len(item)
        items.append(item)
        at = _skip_blanks(line, at)
        if line.startswith(",", at):
            at = _skip_blanks(line, at + 1)
        elif not line.startswith("]", at):
            raise TextRefused("a list is one line of plain or quoted texts in brackets")
    _require_only_comment(line, at + 1)
    return tuple(items), at + 1


# Writing

# What a YAML reader would take for a truth value, nothing or a number, and so not for a text. Dates are the one
# exception: by convention such files write them bare.
_NO_TEXT = r"(?i)true|false|yes|no|on|off|y|n|null|[-+.]?[0-9][0-9a-fxo_.,:+\-tz ]*|[-+]?\.(?:inf|nan)"
_DATE_PATTERN = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_UNWRITABLE_CHARS = r"\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff"
_SWITCHES = frozenset({"pinned"})  # keys that are yes or no to every reader, so that their value is written bare
_WRITTEN_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "\\": "\\\\"}


def quote_value(value: str) -> str:
    """Return the value as it is written in a header: bare where every YAML reader sees the same string.

    >>> [quote_value(value) for value in ("Prefers tabs", "NO", "a: b", "2026-11-15")]
    ['Prefers tabs', '"NO"', '"a: b"', '2026-11-15']

    Raises:
        TextRefused: half of a surrogate pair, which no file can hold.
    """
    is_date = re.fullmatch(_DATE_PATTERN, value)
    if is_date or (_reads_as_text(value) and not re.fullmatch(_NO_TEXT, value)):
        return value
    return '"' + re.sub(rf"[{_UNWRITABLE_CHARS}\"\\]", _write_escape, value) + '"'


def _reads_as_text(value: str) -> bool:
    if not value or not (value[0].isalnum() or value[0] in "_./(") or value != value.strip():
        return False
    return not re.search(f"[{_UNWRITABLE_CHARS}]", value) and " #" not in value and not _PAIR.search(value)


def _write_escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    if 0xD800 <= code < 0xE000:
        raise TextRefused(f"half of a surrogate pair (U+{code:04X}) cannot be stored; remove it")
    return _WRITTEN_ESCAPES.get(match[0]) or (f"\\x{code:02X}" if code < 0x100 else f"\\u{code:04X}")


def _write_field(key: str, value: str | Sequence[str]) -> list[str]:
    """Return the lines that say this field, without line ends."""
    if not _is_key(key):
        raise TextRefused(f"{key!r} cannot be a key; begin with a letter, then letters, digits and ' ._/-'")
    if isinstance(value, str):
        return [f"{key}: {_write_value(key, value)}"]
    return [f"{key}:", *(f"  - {quote_value(item)}" for item in value)] if value else [f"{key}: []"]


def _write_value(key: str, value: str) -> str:
    return value if key in _SWITCHES and value in ("true", "false") else quote_value(value)


def _carriage(head: str) -> str:
    """Return what stands before the line feed in most lines of a header."""
    return "\r" if head.count("\r\n") * 2 > head.count("\n") else ""


def _edit_head(page: ParsedText, fields: Mapping[str, str | Sequence[str] | None]) -> str:
    lines = page.head.split("\n")
    carriage = _carriage(page.head)
    closing = len(lines) - (1 if lines[-1] else 2)
    for key, value in fields.items():
        if value is not None and all(field.key != key for field in page.fields):
            lines[closing:closing] = added = [line + carriage for line in _write_field(key, value)]
            closing += len(added)
    for field in reversed(page.fields):  # from the end, so that the lines of the others stay where they are
        if field.key not in fields:
            continue
        value = fields[field.key]
        wanted = value if value is None or isinstance(value, str) else tuple(value)
        if wanted == field.value:
            continue
        old = lines[field.first - 1 : field.last]
        if wanted is None:
            new = []
        elif len(old) == 1 and isinstance(wanted, str):
            new = [_rewrite_line(field, old[0], wanted)]
        else:
            new = [line + carriage for line in _write_field(field.key, wanted)]
            if len(old) > 1 and len(new) > 1:
                new[0] = old[0]
        lines[field.first - 1 : field.last] = new
    return "\n".join(lines)


def _rewrite_line(field: Field, old: str, value: str) -> str:
    """Return the line of a field with another value; its comment, spacing and line end stay."""
    line = old.removesuffix("\r")
    _, start = _read_key(line, 0)
    if line.startswith("[", start):
        _, end = _read_list(line, start + 1)
    else:
        _, end = _HeaderReader("")._read_text(line, start)
    before = line[:start] if line[start - 1] in " \t" else line[:start] + " "
    after = " " + line[end:] if line[end : end + 1] == "#" else line[end:]
    return before + _write_value(field.key, value) + after + old[len(line) :]
