"""A text as header fields and a body, and back, without losing a byte.

The header is a small part of YAML, read strictly: strings, flat lists and one level of nesting, at most
16 KiB. Nothing is guessed, so `NO` stays `NO` and `012` stays `012`. What is not understood is kept as it
is and reported; an edit touches the lines of the fields it names and no others.

>>> page = split("---\\nname: Prefers tabs\\ntags: [code, style]\\n---\\nUse tabs.\\n")
>>> page.get("name"), page.items("tags"), page.body
('Prefers tabs', ('code', 'style'), 'Use tabs.\\n')
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from memsheaf.errors import TextRefused
from memsheaf.values import NamedTuple

HEADER_LIMIT = 16 * 1024
BOM = "\ufeff"

Pairs = tuple[tuple[str, str], ...]
Value = str | tuple[str, ...] | Pairs

# Nearly every line of a memory is one of these: a plain value in which nothing needs a decision.
_SIMPLE = re.compile(r"([^\W\d][\w.-]*): +([\w./(+][^:#\t]*+(?:(?:(?<! )#|:(?=\S))[^:#\t]*+)*+)")
_COMMENT = re.compile(r"[ \t]#")
_NEST = re.compile(r":(?:[ \t]|$)")

# The rest is needed rarely, so it stays text until it is: compiling it costs every start some milliseconds.
_CONTROL = r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]|\r(?!\n)"
_OLD_FENCE, _OLD_END = r"---[ \t]*\r(?!\n)", r"\r(?!\n)"
_SET_APART = r"[ \t]{2,}#[ \t]"
_DOUBLE = r'"([^"\\]*+(?:\\.[^"\\]*+)*+)"'
_SINGLE = r"'([^']*+(?:''[^']*+)*+)'"
_FLOW_ITEM = r"[^,\[\]{}]*"
_ESCAPE = r"(?s)\\(x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)"
_CONFLICT_MARKS = (r"(?m)^<{7}(?:[ \r]|$)", r"(?m)^={7}\r?$", r"(?m)^>{7}(?:[ \r]|$)")
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


class Field(NamedTuple):
    """One key of a header and the lines it stands on; the opening fence is line 1."""

    key: str
    value: Value
    first: int
    last: int


class Page(NamedTuple):
    """A text cut into header and body; `head + body` is the text, byte for byte."""

    head: str
    body: str
    fields: tuple[Field, ...] = ()
    problem: str = ""
    warnings: tuple[str, ...] = ()

    def value(self, key: str) -> Value:
        """What stands under `key`, in whatever shape; "" when the key is absent."""
        for field in self.fields:
            if field.key == key:
                return field.value
        return ""

    def get(self, key: str, default: str = "") -> str:
        """The text under `key`; a list or a nested block is not a text, so it gives `default`."""
        for field in self.fields:
            if field.key == key:
                return field.value if isinstance(field.value, str) else default
        return default

    def items(self, key: str) -> tuple[str, ...]:
        """The list under `key`; a plain text counts as a list of one."""
        value = self.value(key)
        if isinstance(value, str):
            return (value,) if value else ()
        return tuple(item for item in value if isinstance(item, str))

    def nested(self, key: str, inner: str) -> str:
        """The text at `key`, `inner`, such as `metadata`, `type`; "" when it is not there."""
        value = self.value(key)
        if not isinstance(value, str):
            for pair in value:
                if not isinstance(pair, str) and pair[0] == inner:
                    return pair[1]
        return ""


def split(text: str) -> Page:
    """Cut any text into header and body. Never raises; what is wrong stands in `problem`.

    >>> split("---\\nname: &n x\\n---\\nb").problem
    'line 2: anchors are not allowed'
    """
    start = 1 if text.startswith(BOM) else 0
    if not text.startswith("---", start):
        return Page("", text, (), "", _conflict_warning(text))
    if "\r" in text and re.compile(_OLD_FENCE).match(text, start):  # the line ends of another age; as many bytes
        page = split(re.sub(_OLD_END, "\n", text))
        end = len(page.head)
        if "\n" in text[:end]:
            return Page("", text, (), "line 1: the header mixes line ends", page.warnings)
        return Page(text[:end], text[end:], *page[2:])
    opened = text.find("\n", start)
    if _stripped(text[start:] if opened < 0 else text[start:opened]) != "---":
        return Page("", text, (), "", _conflict_warning(text))
    closing, after = _closing_fence(text, opened) if opened >= 0 else (-1, -1)
    if closing < 0:
        return Page("", text, (), "line 1: the header has no closing '---' line", _conflict_warning(text))
    head, body = text[:after], text[after:]
    warnings: list[str] = []
    try:
        if _too_long(head):
            raise TextRefused(f"the header is longer than {HEADER_LIMIT} bytes")
        fields = _read(text[opened + 1 : closing + 1], warnings)
    except TextRefused as problem:
        return Page(head, body, (), str(problem), _conflict_warning(body))
    return Page(head, body, fields, "", (*warnings, *_conflict_warning(body)))


def join(fields: Mapping[str, str | Sequence[str]], body: str) -> str:
    """A new text with these fields in this order.

    >>> join({"name": "issue #42", "tags": ["a", "b"]}, "text\\n")
    '---\\nname: "issue #42"\\ntags:\\n  - a\\n  - b\\n---\\ntext\\n'

    Raises:
        TextRefused: no fields, a key that is not a plain word, or half of a surrogate pair in a value.
    """
    page = written(fields, body)
    return page.head + page.body


def written(fields: Mapping[str, str | Sequence[str]], body: str) -> Page:
    """As `join`, cut into header and body already: what `split` gives for that text, without reading it."""
    if not fields:
        raise TextRefused("a header needs at least one field")
    lines = ["---"]
    read: list[Field] = []
    for key, value in fields.items():
        first = len(lines) + 1
        lines += _written(key, value)
        read.append(Field(key, value if isinstance(value, str) else tuple(value), first, len(lines)))
    lines.append("---\n")
    head = "\n".join(lines)
    if _too_long(head):
        raise TextRefused(f"the header is longer than {HEADER_LIMIT} bytes")
    return Page(head, body, tuple(read), "", _conflict_warning(body))


_NO_FIELDS: Mapping[str, str | Sequence[str] | None] = {}


def edited(
    text: str,
    *,
    fields: Mapping[str, str | Sequence[str] | None] = _NO_FIELDS,
    body: str | None = None,
) -> str:
    """The same text with these fields set (None removes one) and this body; all else byte for byte.

    >>> edited("---\\nname: a  # mine\\nx: 'y'\\n---\\nb", fields={"name": "c"})
    "---\\nname: c  # mine\\nx: 'y'\\n---\\nb"

    Raises:
        TextRefused: there is no header, it is not understood, or it would no longer be after the edit.
    """
    page = split(text)
    if page.problem or not page.head:
        raise TextRefused(f"the header cannot be edited: {page.problem or 'there is none'}")
    head = _edited_head(page, fields) if fields else page.head
    if body is None:
        body = page.body
    elif body and not head.endswith("\n"):
        head += _line_end(head)
    if head != page.head and (problem := split(head).problem):
        raise TextRefused(f"the edit would leave a header that cannot be read: {problem}")
    return head + body


def with_quotes(text: str) -> str:
    """The same text with quotes around plain values that hold ': ', as every YAML reader wants them.

    >>> with_quotes("---\\nname: fix: the parser\\nx: y\\n---\\nb")
    '---\\nname: "fix: the parser"\\nx: y\\n---\\nb'
    """
    page = split(text)
    named = [field for field in page.fields if isinstance(field.value, str) and _NEST.search(field.value)]
    if not named:
        return text
    lines = _lines_of(page.head)
    for field in named:
        line = lines[field.first - 1]
        if field.first == field.last and line[_key(line, 0, field.first)[1]] not in "\"'":
            lines[field.first - 1 : field.last] = _rewritten(field, [line], str(field.value), "")
    return _joined(page.head, lines) + page.body


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


def conflicted(text: str) -> bool:
    """Whether a merge left its marks: lines that open, divide and close two versions."""
    if "<<<<<<<" not in text or "=======" not in text or ">>>>>>>" not in text:
        return False
    return all(re.search(mark, text) for mark in _CONFLICT_MARKS)


def _conflict_warning(body: str) -> tuple[str, ...]:
    return ("the text holds git conflict marks; choose one side",) if conflicted(body) else ()


def _stripped(line: str) -> str:
    return line.removesuffix("\r").rstrip(" \t")


def _closing_fence(text: str, at: int) -> tuple[int, int]:
    """Where the line break before the closing fence is, and where the body begins; -1 when there is none."""
    while (at := text.find("\n---", at)) >= 0:
        end = text.find("\n", at + 4)
        after = len(text) if end < 0 else end + 1
        if _stripped(text[at + 1 : after].removesuffix("\n")) == "---":
            return at, after
        at += 1
    return -1, -1


def _too_long(head: str) -> bool:
    if len(head) * 4 <= HEADER_LIMIT:
        return False
    return len(head) > HEADER_LIMIT or len(head.encode("utf-8", "surrogatepass")) > HEADER_LIMIT


def _read(header: str, warnings: list[str]) -> tuple[Field, ...]:
    """The fields of the lines between the fences; raises TextRefused at the first thing not understood."""
    if not header.replace("\n", "").isprintable() and (bad := re.search(_CONTROL, header)):
        number = header.count("\n", 0, bad.start()) + 2
        raise TextRefused(f"line {number}: control characters are not allowed")
    lines = header.split("\n")
    if "\r" in header:
        lines = [line.removesuffix("\r") for line in lines]
    fields: list[Field] = []
    seen: set[str] = set()
    at, count = 0, len(lines)
    while at < count:
        line = lines[at]
        if simple := _SIMPLE.fullmatch(line):
            key, value = simple.groups()
            field = Field(key, value.rstrip(" "), at + 2, at + 2)
        elif not (bare := line.lstrip(" \t")) or bare[0] == "#":
            at += 1
            continue
        else:
            field = _field(lines, at, warnings)
        if field.key in seen:
            raise TextRefused(f"line {at + 2}: {field.key!r} stands twice")
        seen.add(field.key)
        fields.append(field)
        at = field.last - 1
    if not fields:
        raise TextRefused("line 2: the header is empty")
    return tuple(fields)


def _field(lines: list[str], at: int, warnings: list[str]) -> Field:
    """The field that begins at this line, with its block when it has one."""
    line, number = lines[at], at + 2
    if line[0] in " \t":
        raise TextRefused(f"line {number}: an indented line that belongs to no key; a value is one line")
    key, start = _key(line, 0, number)
    value, end = _value(line, start, number, warnings)
    if end > start:
        return Field(key, value, number, number)
    block, last = _block(lines, at + 1, warnings)
    return Field(key, block, number, last)


def _key(line: str, start: int, number: int) -> tuple[str, int]:
    """The key that begins at `start`, and where its value begins."""
    colon = line.find(":", start)
    key = line[start:colon].rstrip(" ")
    if colon < 0 or not _is_key(key):
        raise TextRefused(f"line {number}: not `key: value`, where a key begins with a letter")
    after = colon + 1
    while after < len(line) and line[after] in " \t":
        after += 1
    if after == colon + 1 and after < len(line):
        raise TextRefused(f"line {number}: a blank is missing after the colon")
    return key, after


def _value(line: str, start: int, number: int, warnings: list[str]) -> tuple[str | tuple[str, ...], int]:
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
    if _NEST.search(value):
        raise TextRefused(f"line {number}: a value with ': ' in it must be quoted")


def _quote(line: str, start: int, number: int) -> tuple[str, int]:
    """The quoted text at `start` without its quotes, and where it ends."""
    double = line[start] == '"'
    found = re.compile(_DOUBLE if double else _SINGLE).match(line, start)
    if not found:
        raise TextRefused(f"line {number}: a quote is not closed")
    raw = found[1]
    return (_unescaped(raw, number) if double else raw.replace("''", "'")), found.end()


def _unescaped(raw: str, number: int) -> str:
    if "\\" not in raw:
        return raw
    try:
        value = re.sub(_ESCAPE, _character, raw)
        # Two escapes may be the halves of one character, as JSON writes it; a half alone is none.
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
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


def _block(lines: list[str], at: int, warnings: list[str]) -> tuple[Value, int]:
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
            key, start = _key(line, depth, number)
            if key in pairs:
                raise TextRefused(f"line {number}: {key!r} stands twice")
            pairs[key] = _scalar(line, start, number, warnings)[0]
        last = number
    return tuple(pairs.items()) if pairs else tuple(items) if items else "", last


def _written(key: str, value: str | Sequence[str]) -> list[str]:
    """The lines that say this field, without line ends."""
    if not _is_key(key):
        raise TextRefused(f"{key!r} cannot be a key; begin with a letter, then letters, digits and ' ._/-'")
    if isinstance(value, str):
        return [f"{key}: {_written_value(key, value)}"]
    return [f"{key}:", *(f"  - {quoted(item)}" for item in value)] if value else [f"{key}: []"]


def _written_value(key: str, value: str) -> str:
    return value if key in _SWITCHES and value in ("true", "false") else quoted(value)


def _is_key(key: str) -> bool:
    """Whether it begins with a letter or underscore and goes on with letters, digits and `- ./`."""
    return key.isidentifier() or (
        key[:1] not in "- ./" and key[-1:] != " " and key.translate(_KEY_MARKS).isidentifier()
    )


def _reads_as_text(value: str) -> bool:
    """Whether any YAML reader takes these bare characters for this very string."""
    if not value or not (value[0].isalnum() or value[0] in "_./(") or value != value.strip():
        return False
    if not value.isprintable() and any(map(_must_escape, value)):
        return False
    if value.lower() in _WORDS or " #" in value or _NEST.search(value):
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


def _lines_of(head: str) -> list[str]:
    """The lines of a header, each with what stands before its line feed."""
    return (head if "\n" in head else head.replace("\r", "\n")).split("\n")


def _joined(head: str, lines: Sequence[str]) -> str:
    """These lines as a header with the line ends of that one."""
    return ("\n" if "\n" in head or "\r" not in head else "\r").join(lines)


def _line_end(head: str) -> str:
    """The line end that most lines of this header have."""
    if "\n" not in head and "\r" in head:
        return "\r"
    return "\r\n" if head.count("\r\n") * 2 > head.count("\n") else "\n"


def _edited_head(page: Page, fields: Mapping[str, str | Sequence[str] | None]) -> str:
    lines = _lines_of(page.head)
    carriage = _line_end(page.head)[:-1]
    closing = len(lines) - (1 if lines[-1] else 2)
    present = {field.key: field for field in page.fields}
    added: list[str] = []
    changes: list[tuple[int, int, list[str]]] = []
    for key, value in fields.items():
        field = present.get(key)
        wanted = value if value is None or isinstance(value, str) else tuple(value)
        if field is None:
            added += [line + carriage for line in _written(key, wanted)] if wanted is not None else []
        elif wanted is None:
            changes.append((field.first, field.last, []))
        elif wanted != field.value:
            old = lines[field.first - 1 : field.last]
            changes.append((field.first, field.last, _rewritten(field, old, wanted, carriage)))
    lines[closing:closing] = added
    for first, last, new in sorted(changes, reverse=True):
        lines[first - 1 : last] = new
    return _joined(page.head, lines)


def _rewritten(field: Field, old: list[str], value: str | tuple[str, ...], carriage: str) -> list[str]:
    """The lines of a field with another value; its comment, spacing and line end stay where they can."""
    if len(old) == 1 and isinstance(value, str):
        line = old[0].removesuffix("\r")
        _, start = _key(line, 0, field.first)
        _, end = _value(line, start, field.first, [])
        before = line[:start] if line[start - 1] in " \t" else line[:start] + " "
        after = " " + line[end:] if line[end : end + 1] == "#" else line[end:]
        return [before + _written_value(field.key, value) + after + old[0][len(line) :]]
    new = [line + carriage for line in _written(field.key, value)]
    return [old[0], *new[1:]] if len(old) > 1 and len(new) > 1 else new
