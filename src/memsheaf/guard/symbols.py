"""Find where a file defines a symbol, by the look of its lines.

One pattern for many languages: it knows no grammar, costs a millisecond a file, and is right about code that is laid
out as people do. Markdown defines its headings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

_MODIFIER_WORDS = (
    rb"export|default|declare|abstract|async|pub(?:\([a-z: ]*\))?|unsafe|extern(?:\s+\"[^\"]*\")?|public|private"
    rb"|protected|internal|static|final|sealed|open|data|inline|const|virtual|override|partial|case|typedef|suspend"
)
_DEFINING_WORDS = (
    rb"def|class|function\*?|fn|func|fun|struct|enum|union|trait|interface|type|typedef|record|object|module|mod"
    rb"|namespace|protocol|extension|const|let|var|val|static|impl|macro_rules!|local|readonly|alias|export|\#\s*define"
    rb"|(?i:create\s+(?:or\s+replace\s+)?(?:table|view|function|procedure|type)(?:\s+if\s+not\s+exists)?)"
)
# A line that begins with one of these uses a name and does not define it.
_USING_WORDS = (
    rb"return|new|else|await|throw|yield|assert|del|delete|raise|print|echo|import|from|use|using|package|include"
    rb"|goto|go|defer|not|and|or|in|is|if|elif|while|for|with|case|call|exec|sudo|the|a|an|see"
)
_WORD_CHAR = rb"[\w$\x80-\xff]"
_TYPE_NAME = rb"(?:[\w$<>\[\],.?*&]|::)*\s+"
_DEFINING_FORMS = (
    # behind a keyword: `export async function NAME`, `func (s *Server) NAME`, `CREATE TABLE NAME`
    rb"(?:(?:" + _MODIFIER_WORDS + rb")\s+){0,6}(?:" + _DEFINING_WORDS + rb")\s+"
    rb"(?:\([^()]*\)\s*|mut\s+)?(?:[\w$]+(?:\.|::))*NAME",
    # a value, a key, a field, a target: `NAME = 1`, `self.NAME: int`, `"NAME": 1`
    rb"(?:[\w$]+(?:\.|::))*[\"']?NAME[\"']?\s*(?:[:?+]?=(?![=>])|\??:(?!:))",
    # a method in braces, a function of a shell, the end of a typedef
    rb"(?:(?:async|static|get|set)\s+)*NAME\s*\([^;]*\{$",
    rb"\}\s*NAME\s*;",
    # behind a type: `static int *NAME(`, `private List<Item> NAME;`
    rb"(?!(?:" + _USING_WORDS + rb")\b)[\w$@]" + _TYPE_NAME + rb"(?:[\w$@<]" + _TYPE_NAME + rb"){0,7}"
    rb"[*&]*(?:[\w$]+::)*NAME\s*(?:\(|=(?!=)|;|\[)",
)
_DEFINING_LINE = rb"\s*+(?:" + b"|".join(_DEFINING_FORMS) + rb")"
_PROSE_SUFFIXES = (".md", ".markdown", ".mdx", ".txt", ".rst")
MAX_LINE_BYTES = 2000
MAX_DEFINITIONS = 100


def parts(symbol: str) -> list[str]:
    """Return the names a symbol is made of.

    >>> parts("Store.put"), parts("fmt::Display")
    (['Store', 'put'], ['fmt', 'Display'])
    """
    return re.split(r"\.|::", symbol)


def holding(lines: Sequence[bytes], symbol: str) -> list[int]:
    """Return the lines that hold a symbol as a word; none unless the name before its dot is in the file, too.

    >>> holding([b"total = sum(a)", b"subtotal = 1"], "total")
    [1]
    """
    *outer, name = parts(symbol)
    if outer and not any(_lines_with(lines, outer[-1])):
        return []
    return [number for number, _ in _lines_with(lines, name)]


def defining(lines: Sequence[bytes], path: str, symbol: str) -> list[int]:
    """Return the lines that define a symbol, as far as their look tells.

    >>> defining([b"class Store:", b"    def put(self):", b"put(store)"], "store.py", "Store.put")
    [2]
    """
    if path.endswith(_PROSE_SUFFIXES):
        return [number for number, line in enumerate(lines, 1) if line[:1] == b"#" and _slug(line) == symbol.lower()]
    *outer, name = parts(symbol)
    definition = _definition(name)
    numbers: list[int] = []
    for number, line in _lines_with(lines, name):
        if len(line) < MAX_LINE_BYTES and definition.match(line) and len(numbers) < MAX_DEFINITIONS:
            numbers.append(number)
    if outer:
        return [number for number in numbers if _is_within(lines, number, outer[-1])]
    return numbers


@lru_cache(maxsize=256)
def word(name: str) -> re.Pattern[bytes]:
    """Return the pattern that finds a name where it is a word of its own."""
    return re.compile(rb"(?<!%b)%b(?!%b)" % (_WORD_CHAR, re.escape(name.encode("utf-8", "replace")), _WORD_CHAR))


@lru_cache(maxsize=64)
def _definition(name: str) -> re.Pattern[bytes]:
    return re.compile(_DEFINING_LINE.replace(b"NAME", word(name).pattern))


def _lines_with(lines: Sequence[bytes], name: str) -> Iterator[tuple[int, bytes]]:
    data, alone = name.encode("utf-8", "replace"), word(name)
    return ((number, line) for number, line in enumerate(lines, 1) if data in line and alone.search(line))


def _is_within(lines: Sequence[bytes], number: int, outer: str) -> bool:
    """Return True if a line, or one that it is indented below, holds the name of a class or the like."""
    margin = 1 << 30
    for line in reversed(lines[:number]):
        indent = len(line) - len(line.lstrip())
        if line and indent < margin:
            if word(outer).search(line):
                return True
            margin = indent
            if not margin:
                break
    return False


def _slug(heading: bytes) -> str:
    """Return a heading as links name it.

    >>> _slug(b"## What may be stored?")
    'what-may-be-stored'
    """
    text = heading.decode("utf-8", "replace").strip("# \t").lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
