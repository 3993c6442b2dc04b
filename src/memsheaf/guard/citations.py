"""Citations: the places in a working tree that show a memory to be true, checked without a model.

    path[:line[-line]][#symbol][@hash]

`src/app.py:10-12@5f0c2a91` are three lines and the first digits of their SHA-256. A check says whether they are
still there, and where they went if they moved. Nothing here opens a file: a `Tree` does, `memsheaf.worktree` has one.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from hashlib import sha256
from typing import Literal, NamedTuple, Protocol

from memsheaf.errors import CitationRefused
from memsheaf.frontmatter import edited
from memsheaf.guard.symbols import defining, holding, parts, word
from memsheaf.memory import Memory

State = Literal["verified", "drifted", "missing", "unchecked"]

PATH_LIMIT = 400

# These stay text until they are needed: compiling costs milliseconds.
_CITATION = (
    r"(?P<path>[^:#]+?)"
    r"(?:(?::|#L)(?P<first>[1-9][0-9]{0,6})(?:-L?(?P<last>[1-9][0-9]{0,6}))?)?"
    r"(?:#(?P<symbol>[\w$]+(?:(?:\.|::|-+)[\w$]+)*))?"
    r"(?:@(?P<hash>[0-9a-f]{8}))?"
)
_MISHASHED = r".*\.\w+@\w*"
_FORBIDDEN = frozenset(':#\\`"<>|*?')
_SUFFIXED = r"[^/]*\.[A-Za-z]\w{0,14}"
_UNSUFFIXED = (
    r"(?:GNU)?[Mm]akefile|[Jj]ustfile|(?:Docker|Container|Jenkins|Vagrant|Proc|Gem|Rake)file"
    r"|LICENSE|NOTICE|README|CHANGELOG|CONTRIBUTING|AUTHORS|CODEOWNERS|VERSION|BUILD|WORKSPACE"
)
_DOMAIN = r"(?i)[\w-]+(?:\.[\w-]+)*\.(?:com|org|net|io|dev|edu|gov|ai)(?:/.*)?"
_BOM = b"\xef\xbb\xbf"
# What one search for something that moved may cost, in steps of about a nanosecond: to look at a line, and to hash a
# window of lines besides its bytes. A tree of 2,000 files is seen whole.
_PATIENCE = 1 << 28
_PER_LINE = 200
_PER_WINDOW = 1000


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
        """How many lines are cited by number."""
        return max(self.last, self.first) - self.first + 1 if self.first else 0

    @property
    def place(self) -> Citation:
        """The same without its hash."""
        return self._replace(hash="")

    def __str__(self) -> str:
        lines = f":{self.first}-{self.last}" if self.last else f":{self.first}" if self.first else ""
        symbol = f"#{self.symbol}" if self.symbol else ""
        return f"{self.path}{lines}{symbol}" + (f"@{self.hash}" if self.hash else "")


class Verdict(NamedTuple):
    """What became of a cited place.

    `verified`: it is there, and the same where there was something to compare. `drifted`: it changed or moved, and
    `place` is where it is now, if that is known. `missing`: it is gone. `unchecked`: nobody can tell.
    """

    state: State
    said: str
    place: str = ""


class Tree(Protocol):
    """The files that are checked against, each as it is when it is first asked for."""

    def lines(self, path: str) -> Sequence[bytes] | None:
        """The lines of a file, as `lines_of` gives them; None when no text can be read there."""

    def has(self, path: str) -> bool:
        """Whether something is there, be it a file, a folder or a link."""

    def files(self) -> Sequence[str]:
        """The paths of all files, in order."""

    def absent(self, words: Collection[str]) -> Collection[str]:
        """Those of the words that are in no text of the tree; none when that cannot be told."""

    @property
    def whole(self) -> bool:
        """Whether `files` are all there are."""


def parse(text: str, *, typed: bool = False) -> Citation | None:
    """The place a text cites; None when it cites none: a URL, an absolute path, words. Never raises.

    What could be words, such as `notes` or `My notes.txt`, is a path when it has a hash, or was `typed` as one.

    >>> parse("src/app.py:12"), parse("https://example.com/a"), parse("what Kim said")
    (Citation(path='src/app.py', first=12, last=0, symbol='', hash=''), None, None)
    """
    found = re.fullmatch(_CITATION, text) if len(text) <= 2 * PATH_LIMIT else None
    if found is None or not is_inside(found["path"]):
        return None
    path, symbol, hashed = found["path"], found["symbol"] or "", found["hash"] or ""
    known = typed or bool(hashed)
    if not is_path(path, known=known) or (" " in path and not known) or re.fullmatch(_MISHASHED, path):
        return None
    first, last = int(found["first"] or 0), int(found["last"] or 0)
    return Citation(path, first, last, symbol, hashed) if first <= last or not last else None


def is_inside(path: str) -> bool:
    """Whether a path can be cited: it stays below its root, can be seen, and is not git's own.

    >>> [is_inside(path) for path in ("src/app.py", "../app.py", "/etc/passwd", "C:/app.py", ".git/config")]
    [True, False, False, False, False]
    """
    if not 0 < len(path) <= PATH_LIMIT or not path.isprintable() or not _FORBIDDEN.isdisjoint(path):
        return False
    steps = path.lower().split("/")
    return path.strip() == path and path[0] not in "~-$" and {"", ".", "..", ".git"}.isdisjoint(steps)


def is_path(path: str, *, known: bool = False) -> bool:
    """Whether people would take this for a path, rather than for a word, a date, a domain or an address.

    >>> [is_path(text) for text in ("app.py", "src/app", "Makefile", "Kim", "2026/01/02", "example.com/a", "n/a")]
    [True, True, True, False, False, False, False]
    """
    if is_domain(path) or not any(map(str.isalpha, path)):
        return False
    if "/" in path or known:
        return path.lower() != "n/a"
    return "@" not in path and bool(re.fullmatch(_UNSUFFIXED, path) or has_suffix(path))


def is_domain(text: str) -> bool:
    """Whether a text begins as addresses in the web do, when people leave out the start."""
    return bool(re.fullmatch(_DOMAIN, text))


def has_suffix(path: str) -> bool:
    """Whether the last name of a path has an ending such as `.py`."""
    return bool(re.fullmatch(_SUFFIXED, path.rpartition("/")[2]))


def lines_of(data: bytes) -> list[bytes] | None:
    r"""The lines of a text without line ends and the spaces before them; None for what is no text.

    >>> lines_of(b"a \r\n\tb"), lines_of(b"\x00")
    ([b'a', b'\tb'], None)
    """
    if b"\0" in data:
        return None
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    lines = [line.rstrip(b" \t") for line in data.removeprefix(_BOM).split(b"\n")]
    return lines if lines[-1] else lines[:-1]


def digest(lines: Sequence[bytes]) -> str:
    """The hash of cited lines."""
    return sha256(b"\n".join(lines)).hexdigest()[:8]


def make(tree: Tree, text: str) -> Citation:
    """The citation a person typed, with the hash of what is there now.

    Raises:
        CitationRefused: there is no such place.
    """
    citation = parse(text, typed=True)
    if citation is None:
        raise CitationRefused(f"{text[:PATH_LIMIT]!r} is not a place in a working tree")
    path, symbol = citation.path, citation.symbol
    lines = tree.lines(path)
    if lines is None:
        if not tree.has(path):
            raise CitationRefused(f"there is no {path!r} in the working tree")
        if citation.first or symbol:
            raise CitationRefused(f"{path!r} is no text that has lines")
        return _checked(citation.place)
    if _is_short(lines, citation):
        raise CitationRefused(f"{path!r} has only {len(lines)} lines")
    if symbol and not (at := _lines_of_symbol(lines, citation)):
        raise CitationRefused(f"there is no {symbol!r} in {path!r}")
    if symbol and citation.first and not _shows_symbol(lines, citation):
        raise CitationRefused(f"{symbol!r} is not at those lines of {path!r}, but at line {at[0]}")
    return _checked(citation._replace(hash=digest(_cited(lines, citation))))


def check(citation: Citation, tree: Tree, *, elsewhere: bool = True) -> Verdict:
    """Check a cited place. Without `elsewhere`, other files are not searched, which can be slow."""
    path = citation.path
    lines = tree.lines(path)
    if lines is not None:
        verdict = _check_lines(citation, lines)
    elif not tree.has(path):
        verdict = Verdict("missing", f"{path} no longer exists.")
    elif citation == Citation(path):
        verdict = Verdict("verified", f"{path} is there.")
    else:
        verdict = Verdict("unchecked", f"{path} cannot be compared: it is no text, too large, or behind a link.")
    if verdict.state in ("verified", "unchecked") or verdict.place or not elsewhere:
        return verdict
    if place := _elsewhere(citation, tree):
        return Verdict("drifted", f"{citation.place} is now at {place}.", place)
    return verdict if lines is not None else verdict._replace(said=verdict.said + _namesake(path, tree))


def cited(memory: Memory, citation: Citation, instead: str = "") -> str:
    """The text of a memory with one more citation; one of the same place, and the one named, give way.

    Raises:
        TextRefused: it has no header, or one that is not understood.
    """
    others = [(text, parse(text)) for text in memory.citations]
    kept = [text for text, other in others if text != instead and (not other or other.place != citation.place)]
    return edited(memory.text, fields={"citations": [*kept, str(citation)]})


def _checked(citation: Citation) -> Citation:
    if parse(str(citation)) != citation:
        raise CitationRefused(f"{citation.path!r} cannot be told from other words when it is cited")
    return citation


def _check_lines(citation: Citation, lines: Sequence[bytes]) -> Verdict:
    path, symbol = citation.path, citation.symbol
    at = _lines_of_symbol(lines, citation)
    if symbol and not at:
        return Verdict("missing", f"`{symbol}` is no longer in {path}.")
    if citation.hash:
        return _compare(citation, lines, f"{path}:{at[0]}" if at else "")
    if symbol and citation.first and not _shows_symbol(lines, citation):
        return Verdict("drifted", f"`{symbol}` is now at {path}:{at[0]}.", f"{path}:{at[0]}")
    if _is_short(lines, citation):
        return Verdict("drifted", f"{path} has only {len(lines)} lines.")
    if symbol:
        defined = defining(lines, path, symbol)
        said = f"is defined in {path}" if defined else f"occurs in {path}, though nothing there defines it"
        return Verdict("verified", f"`{symbol}` {said}.")
    if citation.first:
        return Verdict("unchecked", f"{citation} is there; without a hash nobody can tell if it is the same.")
    return Verdict("verified", f"{path} is there.")


def _compare(citation: Citation, lines: Sequence[bytes], symbol_at: str) -> Verdict:
    """What became of cited lines, judged by their hash; a symbol that is still there tells where they were."""
    if not _is_short(lines, citation) and digest(_cited(lines, citation)) == citation.hash:
        return Verdict("verified", f"{citation.place} is as it was cited.")
    if citation.first and (same := _same_lines(lines, citation)):
        place = _moved(citation, citation.path, min(same, key=lambda line: abs(line - citation.first)))
        others = f", or at {len(same) - 1} more places" if len(same) > 1 else ""
        return Verdict("drifted", f"{citation.place} is now at {place}{others}.", place)
    still = f"; `{citation.symbol}` is at {symbol_at}" if symbol_at else ""
    return Verdict("drifted", f"{citation.place} is not as it was cited{still}.", symbol_at)


def _is_short(lines: Sequence[bytes], citation: Citation) -> bool:
    return citation.first > 0 and max(citation.first, citation.last) > len(lines)


def _cited(lines: Sequence[bytes], citation: Citation) -> Sequence[bytes]:
    """The lines a hash is made of: those with the numbers, or those that define the symbol, or all."""
    if citation.first:
        return lines[citation.first - 1 : citation.first - 1 + citation.size]
    if citation.symbol:
        return [lines[number - 1] for number in _lines_of_symbol(lines, citation)]
    return lines


def _lines_of_symbol(lines: Sequence[bytes], citation: Citation) -> list[int]:
    """Those that define it; if none do, the first that holds it."""
    if not citation.symbol:
        return []
    return defining(lines, citation.path, citation.symbol) or holding(lines, citation.symbol)[:1]


def _shows_symbol(lines: Sequence[bytes], citation: Citation) -> bool:
    name = word(parts(citation.symbol)[-1])
    return any(name.search(line) for line in _cited(lines, citation))


def _moved(citation: Citation, path: str, line: int) -> str:
    return str(Citation(path, line, line + citation.size - 1 if citation.last else 0))


def _same_lines(lines: Sequence[bytes], citation: Citation) -> list[int]:
    """Where lines of the cited hash begin, as far around the cited place as patience reaches."""
    size, near = citation.size, min(citation.first, len(lines))
    reach = _PATIENCE // _price(lines, size)
    starts = range(max(0, near - reach), min(len(lines) - size + 1, near + reach))
    wanted = bytes.fromhex(citation.hash)
    return [at + 1 for at in starts if sha256(b"\n".join(lines[at : at + size])).digest().startswith(wanted)]


def _price(lines: Sequence[bytes], size: int) -> int:
    """The average cost of hashing this many lines."""
    return _PER_WINDOW + size * (sum(map(len, lines)) // max(1, len(lines)) + 1)


def _elsewhere(citation: Citation, tree: Tree) -> str:
    """The one place in another file that a citation can mean by now; "" when there is none, or several."""
    if not citation.symbol and not citation.hash:
        return ""
    same: list[str] = []
    alike: list[str] = []
    for path, lines in _candidates(citation, tree):
        moved = citation._replace(path=path)
        at = defining(lines, path, citation.symbol) if citation.symbol else []
        if citation.symbol and not at:
            continue
        alike += [f"{path}:{line}" for line in at[:1]]
        if citation.hash and citation.first:
            same += [_moved(citation, path, line) for line in _same_lines(lines, moved)[:1]]
        elif citation.hash and digest(_cited(lines, moved)) == citation.hash:
            same.append(alike[-1] if at else path)
    return next((found[0] for found in (same, alike) if len(found) == 1), "")


def _candidates(citation: Citation, tree: Tree) -> Iterator[tuple[str, Sequence[bytes]]]:
    """The other files that may hold what was cited, until patience ends; lines stay in files of their kind."""
    name = citation.path.rpartition("/")[2]
    kind = "" if citation.symbol else name[max(0, name.rfind(".")) :]
    patience = _PATIENCE
    for path in tree.files():
        if path == citation.path or not path.endswith(kind):
            continue
        lines = tree.lines(path)
        if lines is None:
            continue
        windows = max(0, len(lines) - citation.size + 1) if citation.hash and citation.first else 1
        patience -= len(lines) * _PER_LINE + windows * _price(lines, citation.size or len(lines))
        if patience < 0:
            return
        yield path, lines


def _namesake(path: str, tree: Tree) -> str:
    """A sentence about the only file with the name of one that is gone; "" when there is none, or several."""
    name = "/" + path.rpartition("/")[2]
    others = [other for other in tree.files() if f"/{other}".endswith(name)]
    return f" {others[0]} bears its name." if len(others) == 1 else ""
