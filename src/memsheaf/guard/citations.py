"""Citations: the places in a working tree that show a memory to be true, checked without a model.

    path[:line[-line]][#symbol][@hash]

`src/app.py:10-12@5f0c2a91` are three lines and the first digits of their SHA-256. A check says whether they are
still there, and where in their file they went if they moved. Nothing here opens a file: a `Tree` does,
`memsheaf.worktree` has one.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Literal, NamedTuple, Protocol

from memsheaf.errors import Refused
from memsheaf.frontmatter import edit_text
from memsheaf.memory import Memory

State = Literal["verified", "drifted", "missing", "unchecked"]

MAX_PATH_CHARS = 400

# These stay text until they are needed: compiling costs milliseconds.
_CITATION_FORM = (
    r"(?P<path>[^:#]+?)"
    r"(?:(?::|#L)(?P<first>[1-9][0-9]{0,6})(?:-L?(?P<last>[1-9][0-9]{0,6}))?)?"
    r"(?:#(?P<symbol>[\w$]+(?:(?:\.|::|-+)[\w$]+)*))?"
    r"(?:@(?P<hash>[0-9a-f]{8}))?"
)
_BAD_HASH = r".*\.\w+@\w*"
_FORBIDDEN_SIGNS = frozenset(':#\\`"<>|*?')
_FILE_WITH_SUFFIX = r"[^/]*\.[A-Za-z]\w{0,14}"
_FILE_WITHOUT_SUFFIX = (
    r"(?:GNU)?[Mm]akefile|[Jj]ustfile|(?:Docker|Container|Jenkins|Vagrant|Proc|Gem|Rake)file"
    r"|LICENSE|NOTICE|README|CHANGELOG|CONTRIBUTING|AUTHORS|CODEOWNERS|VERSION|BUILD|WORKSPACE"
)
_WEB_DOMAIN = r"(?i)[\w-]+(?:\.[\w-]+)*\.(?:com|org|net|io|dev|edu|gov|ai)(?:/.*)?"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
MAX_REHASHED_LINES = 1_000_000  # in the search for lines that moved


class Citation(NamedTuple):
    """A place in a working tree; 0 and "" where it says nothing. `last` is 0 when one line is meant.

    >>> str(Citation("src/app.py", 10, 12, "Server.start"))
    'src/app.py:10-12#Server.start'
    """

    path: str
    first: int = 0
    last: int = 0
    symbol: str = ""
    hash: str = ""

    @property
    def size(self) -> int:
        """Return the number of lines that are cited by number."""
        if not self.first:
            return 0
        return max(self.last, self.first) - self.first + 1

    @property
    def place(self) -> Citation:
        """Return the same without its hash."""
        return self._replace(hash="")

    def __str__(self) -> str:
        text = self.path
        if self.first:
            text += f":{self.first}"
        if self.last:
            text += f"-{self.last}"
        if self.symbol:
            text += f"#{self.symbol}"
        return f"{text}@{self.hash}" if self.hash else text


class Verdict(NamedTuple):
    """The state of a cited place.

    `verified`: it is there, and the same where there was something to compare. `drifted`: it changed or moved in its
    file, and `place` is where it is now, if that is known. `missing`: it is gone. `unchecked`: nobody can tell.
    """

    state: State
    said: str
    place: str = ""


class Tree(Protocol):
    """The files that are checked against, each as it is when it is first asked for."""

    def lines(self, path: str) -> Sequence[bytes] | None:
        """Return the lines of a file, as `lines_of` gives them; None when no text can be read there."""

    def has(self, path: str) -> bool:
        """Return True if something is there, be it a file, a folder or a link."""

    def files(self) -> Sequence[str]:
        """Return the paths of all files, in order."""

    def absent(self, words: Collection[str]) -> Collection[str]:
        """Return those of the words that are in no text of the tree; none when that cannot be told."""

    @property
    def whole(self) -> bool:
        """Return True if `files` are all there are."""


def parse(text: str, *, typed: bool = False) -> Citation | None:
    """Return the place a text cites; None when it cites none: a URL, an absolute path, words. Never raises.

    What could be words, such as `notes` or `My notes.txt`, is a path when it has a hash, or was `typed` as one.

    >>> parse("src/app.py:12"), parse("https://example.com/a"), parse("what Kim said")
    (Citation(path='src/app.py', first=12, last=0, symbol='', hash=''), None, None)
    """
    match = re.fullmatch(_CITATION_FORM, text) if len(text) <= 2 * MAX_PATH_CHARS else None
    if match is None:
        return None
    path, first, last = match["path"], int(match["first"] or 0), int(match["last"] or 0)
    known = typed or match["hash"] is not None
    if not is_inside(path) or not is_path(path, known=known) or re.fullmatch(_BAD_HASH, path):
        return None
    if (" " in path and not known) or 0 < last < first:
        return None
    return Citation(path, first, last, match["symbol"] or "", match["hash"] or "")


def is_inside(path: str) -> bool:
    """Return True if a path can be cited: it stays below its root, can be seen, and is not git's own.

    >>> [is_inside(path) for path in ("src/app.py", "../app.py", "/etc/passwd", "C:/app.py", ".git/config")]
    [True, False, False, False, False]
    """
    if not 0 < len(path) <= MAX_PATH_CHARS or not path.isprintable() or not _FORBIDDEN_SIGNS.isdisjoint(path):
        return False
    steps = path.lower().split("/")
    return path.strip() == path and path[0] not in "~-$" and {"", ".", "..", ".git"}.isdisjoint(steps)


def is_path(path: str, *, known: bool = False) -> bool:
    """Return True if people would take this for a path, rather than for a word, a date, a domain or an address.

    >>> [is_path(text) for text in ("app.py", "src/app", "Makefile", "Kim", "2026/01/02", "example.com/a", "n/a")]
    [True, True, True, False, False, False, False]
    """
    if is_domain(path) or not any(map(str.isalpha, path)):
        return False
    if "/" in path or known:
        return path.lower() != "n/a"
    return "@" not in path and bool(re.fullmatch(f"{_FILE_WITHOUT_SUFFIX}|{_FILE_WITH_SUFFIX}", path))


def is_domain(text: str) -> bool:
    """Return True if a text begins as addresses in the web do, when people leave out the start."""
    return bool(re.fullmatch(_WEB_DOMAIN, text))


def has_suffix(path: str) -> bool:
    """Return True if the last name of a path has an ending such as `.py`."""
    return bool(re.fullmatch(_FILE_WITH_SUFFIX, path.rpartition("/")[2]))


def lines_of(data: bytes) -> list[bytes] | None:
    r"""Return the lines of a text without line ends and the spaces before them; None for what is no text.

    >>> lines_of(b"a \r\n\tb"), lines_of(b"\x00")
    ([b'a', b'\tb'], None)
    """
    if b"\0" in data:
        return None
    data = data.removeprefix(_BYTE_ORDER_MARK).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    lines = [line.rstrip(b" \t") for line in data.split(b"\n")]
    return lines if lines[-1] else lines[:-1]


def digest(lines: Sequence[bytes]) -> str:
    """Return the hash of cited lines."""
    return sha256(b"\n".join(lines)).hexdigest()[:8]


def make(tree: Tree, text: str) -> Citation:
    """Return the citation a person typed, with the hash of what is there now.

    Raises:
        Refused: there is no such place.
    """
    citation = parse(text, typed=True)
    if citation is None:
        raise _refused(f"{text[:MAX_PATH_CHARS]!r} is not a place in a working tree")
    path = citation.path
    lines = tree.lines(path)
    if lines is not None:
        _require_place(citation, lines)
        hashed = citation._replace(hash=digest(_cited_lines(lines, citation)))
    elif not tree.has(path):
        raise _refused(f"there is no {path!r} in the working tree")
    elif citation.first or citation.symbol:
        raise _refused(f"{path!r} is no text that has lines")
    else:
        hashed = citation.place
    if parse(str(hashed)) != hashed:
        raise _refused(f"{path!r} cannot be told from other words when it is cited")
    return hashed


def _require_place(citation: Citation, lines: Sequence[bytes]) -> None:
    """Raise Refused unless a file has the cited lines, and the symbol in them."""
    path = citation.path
    symbol = citation.symbol
    if _is_short(lines, citation):
        raise _refused(f"{path!r} has only {len(lines)} lines")
    numbers = _lines_of_symbol(lines, citation)
    if symbol and not numbers:
        raise _refused(f"there is no {symbol!r} in {path!r}")
    if not _shows_symbol(lines, citation):
        raise _refused(f"{symbol!r} is not at those lines of {path!r}, but at line {numbers[0]}")


def _refused(why: str) -> Refused:
    hint = "Give a path inside the working tree, with a line or a symbol: src/app.py:10-12, src/app.py#Server.start."
    return Refused(why, hint=hint)


def check(citation: Citation, tree: Tree) -> Verdict:
    """Check a cited place: one file is read."""
    path = citation.path
    lines = tree.lines(path)
    if lines is not None:
        return _check_lines(citation, lines)
    if tree.has(path):
        if citation == Citation(path):
            return Verdict("verified", f"{path} is there.")
        return Verdict("unchecked", f"{path} cannot be compared: it is no text, too large, or behind a link.")
    return Verdict("missing", f"{path} no longer exists.")


def cited(memory: Memory, citation: Citation, instead: str = "") -> str:
    """Return the text of a memory with one more citation; one of the same place, and the one named, give way.

    Raises:
        TextRefused: it has no header, or one that is not understood.
    """
    others = []
    for text in memory.citations:
        other = parse(text)
        if text != instead and (not other or other.place != citation.place):
            others.append(text)
    return edit_text(memory.text, fields={"citations": [*others, str(citation)]})


def _check_lines(citation: Citation, lines: Sequence[bytes]) -> Verdict:
    path, symbol = citation.path, citation.symbol
    at = _lines_of_symbol(lines, citation)
    symbol_at = f"{path}:{at[0]}" if at else ""
    if symbol and not at:
        return Verdict("missing", f"`{symbol}` is no longer in {path}.")
    if citation.hash:
        return _compare(citation, lines, symbol_at)
    if not _shows_symbol(lines, citation):
        return Verdict("drifted", f"`{symbol}` is now at {symbol_at}.", symbol_at)
    if _is_short(lines, citation):
        return Verdict("drifted", f"{path} has only {len(lines)} lines.")
    if symbol:
        is_defined = defining(lines, path, symbol)
        where = f"is defined in {path}" if is_defined else f"occurs in {path}, though nothing there defines it"
        return Verdict("verified", f"`{symbol}` {where}.")
    if citation.first:
        return Verdict("unchecked", f"{citation} is there; without a hash nobody can tell if it is the same.")
    return Verdict("verified", f"{path} is there.")


def _compare(citation: Citation, lines: Sequence[bytes], symbol_at: str) -> Verdict:
    """Return what became of cited lines, judged by their hash; a symbol that is still there tells where they were."""
    if not _is_short(lines, citation) and digest(_cited_lines(lines, citation)) == citation.hash:
        return Verdict("verified", f"{citation.place} is as it was cited.")
    same = _same_lines(lines, citation)
    if same:
        first = min(same, key=lambda line: abs(line - citation.first))
        last = first + citation.size - 1 if citation.last else 0
        place = str(Citation(citation.path, first, last))
        return Verdict("drifted", f"{citation.place} is now at {place}.", place)
    still = f"; `{citation.symbol}` is at {symbol_at}" if symbol_at else ""
    return Verdict("drifted", f"{citation.place} is not as it was cited{still}.", symbol_at)


def _same_lines(lines: Sequence[bytes], citation: Citation) -> list[int]:
    """Return where lines of the cited hash begin, near the cited place first of all in a large file."""
    size = citation.size
    if not size:
        return []
    near, reach = min(citation.first, len(lines)), MAX_REHASHED_LINES // size
    starts = range(max(0, near - reach), min(len(lines) - size + 1, near + reach))
    return [start + 1 for start in starts if digest(lines[start : start + size]) == citation.hash]


def _is_short(lines: Sequence[bytes], citation: Citation) -> bool:
    return citation.first > 0 and max(citation.first, citation.last) > len(lines)


def _cited_lines(lines: Sequence[bytes], citation: Citation) -> Sequence[bytes]:
    """Return the lines a hash is made of: those with the numbers, or those that define the symbol, or all."""
    if citation.first:
        return lines[citation.first - 1 : citation.first - 1 + citation.size]
    if citation.symbol:
        return [lines[number - 1] for number in _lines_of_symbol(lines, citation)]
    return lines


def _lines_of_symbol(lines: Sequence[bytes], citation: Citation) -> list[int]:
    """Return those that define the cited symbol; if none do, the first that holds it."""
    if not citation.symbol:
        return []
    return defining(lines, citation.path, citation.symbol) or holding(lines, citation.symbol)[:1]


def _shows_symbol(lines: Sequence[bytes], citation: Citation) -> bool:
    """Return False if lines are cited for a symbol that is not in them."""
    if not citation.symbol or not citation.first:
        return True
    name = word(parts(citation.symbol)[-1])
    return any(name.search(line) for line in _cited_lines(lines, citation))


# Where a file defines a symbol, by the look of its lines. One pattern for many languages: it knows no grammar, costs
# a millisecond a file, and is right about code that is laid out as people do. Markdown defines its headings.

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
_NAME_CHAR = rb"[\w$\x80-\xff]"
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
    definition = re.compile(_DEFINING_LINE.replace(b"NAME", word(name).pattern))
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
    return re.compile(rb"(?<!%b)%b(?!%b)" % (_NAME_CHAR, re.escape(name.encode("utf-8", "replace")), _NAME_CHAR))


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
