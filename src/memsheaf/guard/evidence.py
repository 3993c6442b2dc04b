"""Evidence for a memory in a working tree: whether its citations hold, and whether what its text names is there.

Nobody told us what a text names, so this is careful: it takes for a path or a symbol only what can hardly be anything
else, and calls it gone only when the tree was seen whole.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from memsheaf.guard.citations import Tree, Verdict, check, has_suffix, is_domain, is_inside, is_path, parse, parts
from memsheaf.memory import KINDS, Memory
from memsheaf.text.neutralize import one_line
from memsheaf.text.spoken import without_fences

MAX_NAMES = 20  # of a text that are looked up
MAX_WORDS = 200  # of these names that are looked up; the others are not checked

# A URL, the target of a link, a piece of code, a word. Patterns stay text until they are needed: compiling costs
# milliseconds.
_NAMING_TOKEN = (
    r"(?<!\w)[A-Za-z][A-Za-z0-9+.-]{1,15}://[^\s`]+"
    r"|\]\([^()\s]*\)"
    r"|`(?P<code>[^`\n]{1,200})`"
    r"|(?<![\w./\\@~$-])(?P<bare>[\w.@+-]+(?:/[\w.@+-]+)*/?)"
)
_FILE_NAME = (
    r".*\.(?:py|pyi|js|mjs|cjs|jsx|ts|tsx|go|rs|java|kt|cc|cpp|hpp|rb|php|swift|scala|sh|bash|zsh|fish|ps1|md|mdx"
    r"|rst|txt|toml|ya?ml|jsonl|ipynb|scss|vue|svelte|dart|lua|nix|png|jpe?g|gif|pdf)"
)
_CODE_PATH = rf"(?:\./)?(?=[^:]*/|{_FILE_NAME}(?:\Z|:[0-9]))([\w.@+-]+(?:/[\w.@+-]+)*/?)(?::[0-9]+(?:-[0-9]+)?)?"
# An ending of files and of attributes: `package.json` and `response.json`, `Cargo.lock` and `self.lock`.
_FILE_OR_MEMBER = r".*\.(?:json|lock|html?|xml|css|csv|c|h|cs|sql|svg|proto|ini|cfg|conf|tf|mk|tex)"
_MEMORY_FILE = rf"(?:facts/)?(?:MEMORY|CONTEXT|NOTES|TASK|(?:{'|'.join(KINDS)})_.*)\.md"
_SYMBOL_NAME = r"([A-Za-z_$][\w$]*(?:(?:\.|::)[A-Za-z_$][\w$]*)*)(\([^()]*\))?"
_SYMBOL_SIGN = r"\w_\w|[a-z0-9][A-Z]|\.|::|[A-Z]{4}"
_COMMON_NAMES = (
    r"(?:Java|Type)Script|Git(?:Hub|Lab)|PostgreSQL|MySQL|SQLite|macOS|LaTeX|NumPy|PyPI|OpenAI|TODO|FIXME|JSON|YAML"
    r"|TOML|HTML|HTTPS?|NULL|NONE|TRUE|FALSE|POST|HEAD|PATCH|DELETE|PATH|HOME|MUST|SHOULD|README|LICENSE"
)


class Named(NamedTuple):
    """The files and the symbols that a text names."""

    paths: tuple[str, ...]
    symbols: tuple[str, ...]


class Evidence(NamedTuple):
    """Each citation of a memory with its verdict, and what its text names that is not in the tree."""

    citations: tuple[tuple[str, Verdict], ...]
    gone: tuple[str, ...]


def examine(memory: Memory, tree: Tree, *, body: bool = True) -> Evidence:
    """Return what a tree says about a memory. A citation that is no place in a tree, such as a URL, is unchecked.

    With `body`, what the text names is looked up, too.
    """
    verdicts = []
    for text in memory.citations:
        citation = parse(text)
        if citation:
            verdict = check(citation, tree)
        else:
            verdict = Verdict("unchecked", f"{one_line(text, 80)} is no place in a working tree.")
        verdicts.append((text, verdict))
    return Evidence(tuple(verdicts), check_body(memory.body, tree) if body else ())


def named_in(body: str) -> Named:
    """Return the files and symbols that a text names, the first 20.

    A path stands in backticks or has a known ending; a symbol stands in backticks and looks like one.

    >>> named_in("Run `make test`; `Store.put()` in src/store.py and/or `LIMIT_MAX` decide.")
    Named(paths=('src/store.py',), symbols=('Store.put', 'LIMIT_MAX'))
    """
    paths: dict[str, None] = {}
    symbols: dict[str, None] = {}
    for token in re.finditer(_NAMING_TOKEN, without_fences(body)):
        code = (token["code"] or "").strip()
        match = re.fullmatch(_CODE_PATH, code)
        path = match[1] if match else _bare_path(token["bare"] or "")
        if _is_named_path(path):
            paths[path] = None
        elif symbol := _code_symbol(code):
            symbols[symbol] = None
        if len(paths) + len(symbols) == MAX_NAMES:
            break
    return Named(tuple(paths), tuple(symbols))


def check_body(body: str, tree: Tree) -> tuple[str, ...]:
    """Return which of the files and symbols that a text names are not in the tree."""
    names = named_in(body)
    files = tree.files()
    if not any(names) or not files:
        return ()
    listing = "\n" + "".join(f"/{path}\n" for path in files)
    missing = [path for path in names.paths if not _is_somewhere(path, tree, listing)]
    words = sorted({part for symbol in names.symbols for part in parts(symbol)})
    absent = set(tree.absent(words[:MAX_WORDS]))
    for symbol in names.symbols:
        if not absent.isdisjoint(parts(symbol)) and f"/{symbol}\n" not in listing:
            missing.append(symbol)
    return tuple(missing)


def _bare_path(token: str) -> str:
    """Return the path that a word of a sentence is; "" when it may be something else, such as and/or, Node.js."""
    path = token.rstrip(".+-")
    name = path.rpartition("/")[2]
    if not re.fullmatch(f"{_FILE_NAME}|{_FILE_OR_MEMBER}", name) or (name == path and path.endswith(".js")):
        return ""
    return path


def _is_named_path(path: str) -> bool:
    if path.startswith(("@", "path/to/")) or re.fullmatch(_MEMORY_FILE, path):
        return False
    return is_inside(path.rstrip("/")) and is_path(path)


def _code_symbol(code: str) -> str:
    match = re.fullmatch(_SYMBOL_NAME, code)
    if not match or is_domain(match[1]) or re.fullmatch(_COMMON_NAMES, code):
        return ""
    is_call = match[2] is not None
    is_telling = re.search(_SYMBOL_SIGN, code) and all(len(part) > 1 for part in parts(code))
    return match[1] if is_call or is_telling else ""


def _is_somewhere(path: str, tree: Tree, listing: str) -> bool:
    """Return True if a path is in the tree, also when it is named from a folder further in, or if that is unknown."""
    path = path.rstrip("/")
    if f"/{path}\n" in listing or f"/{path}/" in listing or not tree.whole or tree.has(path):
        return True
    first, _, rest = path.partition("/")
    # without an ending it may be a branch, a package or a media type, unless it begins like a folder that is there
    return bool(rest) and not has_suffix(path) and f"\n/{first}/" not in listing
