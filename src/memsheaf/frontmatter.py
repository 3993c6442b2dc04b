"""Split a text into header fields and a body, and edit it without losing a byte.

The header is a small part of YAML, read strictly: strings, flat lists and one level of nesting, at most
16 KiB. Nothing is guessed, so `NO` stays `NO` and `012` stays `012`. What is not understood is kept as it
is and reported; an edit touches the lines of the fields it names and no others.

>>> page = split("---\\nname: Prefers tabs\\ntags: [code, style]\\n---\\nUse tabs.\\n")
>>> page.get("name"), page.items("tags"), page.body
('Prefers tabs', ('code', 'style'), 'Use tabs.\\n')
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from memsheaf.errors import TextRefused
from memsheaf.yaml_subset import NEST, Value, read_block, read_key, read_value, write_field, write_value

HEADER_LIMIT = 16 * 1024
BOM = "\ufeff"

# Nearly every line of a memory is one of these: a plain value in which nothing needs a decision.
_SIMPLE = re.compile(r"([^\W\d][\w.-]*): +([\w./(+][^:#\t]*+(?:(?:(?<! )#|:(?=\S))[^:#\t]*+)*+)")

# The rest is needed rarely, so it stays text until it is: compiling it costs every start some milliseconds.
_CONTROL = r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]|\r(?!\n)"
_OLD_FENCE, _OLD_END = r"---[ \t]*\r(?!\n)", r"\r(?!\n)"
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


def split(text: str) -> ParsedText:
    """Cut any text into header and body. Never raises; what is wrong stands in `problem`.

    >>> split("---\\nname: &n x\\n---\\nb").problem
    'line 2: anchors are not allowed'
    """
    start = 1 if text.startswith(BOM) else 0
    if not text.startswith("---", start):
        return ParsedText("", text, (), "", _conflict_warning(text))
    if "\r" in text and re.compile(_OLD_FENCE).match(text, start):  # the line ends of another age; as many bytes
        page = split(re.sub(_OLD_END, "\n", text))
        end = len(page.head)
        if "\n" in text[:end]:
            return ParsedText("", text, (), "line 1: the header mixes line ends", page.warnings)
        return ParsedText(text[:end], text[end:], *page[2:])
    opened = text.find("\n", start)
    if _stripped(text[start:] if opened < 0 else text[start:opened]) != "---":
        return ParsedText("", text, (), "", _conflict_warning(text))
    closing, after = _closing_fence(text, opened) if opened >= 0 else (-1, -1)
    if closing < 0:
        return ParsedText("", text, (), "line 1: the header has no closing '---' line", _conflict_warning(text))
    head, body = text[:after], text[after:]
    warnings: list[str] = []
    try:
        if _too_long(head):
            raise TextRefused(f"the header is longer than {HEADER_LIMIT} bytes")
        fields = _read(text[opened + 1 : closing + 1], warnings)
    except TextRefused as problem:
        return ParsedText(head, body, (), str(problem), _conflict_warning(body))
    return ParsedText(head, body, fields, "", (*warnings, *_conflict_warning(body)))


def join(fields: Mapping[str, str | Sequence[str]], body: str) -> str:
    """A new text with these fields in this order.

    >>> join({"name": "issue #42", "tags": ["a", "b"]}, "text\\n")
    '---\\nname: "issue #42"\\ntags:\\n  - a\\n  - b\\n---\\ntext\\n'

    Raises:
        TextRefused: no fields, a key that is not a plain word, or half of a surrogate pair in a value.
    """
    page = written(fields, body)
    return page.head + page.body


def written(fields: Mapping[str, str | Sequence[str]], body: str) -> ParsedText:
    """As `join`, cut into header and body already: what `split` gives for that text, without reading it."""
    if not fields:
        raise TextRefused("a header needs at least one field")
    lines = ["---"]
    read: list[Field] = []
    for key, value in fields.items():
        first = len(lines) + 1
        lines += write_field(key, value)
        read.append(Field(key, value if isinstance(value, str) else tuple(value), first, len(lines)))
    lines.append("---\n")
    head = "\n".join(lines)
    if _too_long(head):
        raise TextRefused(f"the header is longer than {HEADER_LIMIT} bytes")
    return ParsedText(head, body, tuple(read), "", _conflict_warning(body))


_NO_FIELDS: Mapping[str, str | Sequence[str] | None] = {}


def edited(
    text: str, *, fields: Mapping[str, str | Sequence[str] | None] = _NO_FIELDS, body: str | None = None
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


def with_quotes(text: str, page: ParsedText | None = None) -> str:
    """The same text with quotes around plain values that hold ': ', as every YAML reader wants them.

    The `page` is what `split` gave for the text, where that was asked already.

    >>> with_quotes("---\\nname: fix: the parser\\nx: y\\n---\\nb")
    '---\\nname: "fix: the parser"\\nx: y\\n---\\nb'
    """
    page = page or split(text)
    named = [field for field in page.fields if isinstance(field.value, str) and NEST.search(field.value)]
    if not named:
        return text
    lines = _lines_of(page.head)
    for field in named:
        line = lines[field.first - 1]
        if field.first == field.last and line[read_key(line, 0, field.first)[1]] not in "\"'":
            lines[field.first - 1 : field.last] = _rewritten(field, [line], str(field.value), "")
    return _joined(page.head, lines) + page.body


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
    key, start = read_key(line, 0, number)
    value, end = read_value(line, start, number, warnings)
    if end > start:
        return Field(key, value, number, number)
    block, last = read_block(lines, at + 1, warnings)
    return Field(key, block, number, last)


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


def _edited_head(page: ParsedText, fields: Mapping[str, str | Sequence[str] | None]) -> str:
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
            added += [line + carriage for line in write_field(key, wanted)] if wanted is not None else []
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
        _, start = read_key(line, 0, field.first)
        _, end = read_value(line, start, field.first, [])
        before = line[:start] if line[start - 1] in " \t" else line[:start] + " "
        after = " " + line[end:] if line[end : end + 1] == "#" else line[end:]
        return [before + write_value(field.key, value) + after + old[0][len(line) :]]
    new = [line + carriage for line in write_field(field.key, value)]
    return [old[0], *new[1:]] if len(old) > 1 and len(new) > 1 else new
