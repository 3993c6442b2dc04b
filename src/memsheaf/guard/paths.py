"""File names: which are allowed, so that a store means the same everywhere, and that of a new memory.

>>> check_path("feedback/testing.md")
'feedback/testing.md'
>>> file_name("user", "Prefers tabs", taken=lambda path: False)
'user_prefers-tabs.md'
>>> file_name("project", "We deploy on Fridays, after the standup", taken=lambda path: False)
'project_deploy-fridays-after-standup.md'
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from hashlib import sha256
from itertools import pairwise

from memsheaf.errors import PathRefused
from memsheaf.memory import DRAWS_NOTHING
from memsheaf.text.common_words import common_words

CATALOG = "MEMORY.md"
MAX_STEM_BYTES = 100
PATH_LIMIT = 400
FOLDER_LIMIT = 4
MAX_SLUG_CHARS = 40
MAX_SLUG_BYTES = 85
MAX_TITLE_WORDS = 2
_DO_NOT = r"(?i)\b\w+n['’]t\b|\bdo not\b|\bcannot\b"
_NO_WORD = (  # of a file name
    r"(?i)(?:\b(?:i|you|we|they|he|she|it|that))?['’](?:s|re|ve|ll|d|m)\b|\b(?:[cdjlmnst]|qu)['’](?=\w)"
    r"|\bhttps?://(?:www\.)?"
)
_HOUR_END = r"(?i)(?<=\d)\s(?=[ap]m\b)"
_NO_END = r"\d+|ask|call|tell|give|make|let|check"  # of a name that is cut
_PROPER_NAME = r"\b[A-Z]{2,}\b|(?<=\w )[A-Z]\w+"  # "US" and "Go" are no common words

# Programs load these as instructions from any folder, or we derive them.
RESERVED_FILES = frozenset(
    {"memory.md", "agents.md", "claude.md", "gemini.md", "skill.md", "copilot-instructions.md"}
)
RESERVED_FOLDERS = frozenset({"tasks", "sessions", "logs"})
FACTS = "facts/"  # the folder of facts that are never edited: one is corrected by another that supersedes it
_EVENTS_FILE = r"observability/[a-z0-9][a-z0-9-]{0,79}\.ndjson"
_DEVICE_NAMES = frozenset(
    {"con", "prn", "aux", "nul", "conin$", "conout$", "clock$"}
    | {f"{port}{digit}" for port in ("com", "lpt") for digit in range(10)}
)
_FORBIDDEN_SIGNS = r"[\x00-\x1f!-%*:-?\[-^`{-\x7f]"
_GENERATED_NAME = re.compile(
    "(?:user|feedback|project|reference)_[a-z0-9](?:[a-z0-9-]{0,60}[a-z0-9])?[.]md"
)  # most are
_EMOJI_SELECTOR = "\ufe0f"  # draws nothing, and keyboards put it behind an emoji
_SKIN_TONES = frozenset(map(chr, range(0x1F3FB, 0x1F400)))


@lru_cache(maxsize=1 << 12)
def check_path(path: str) -> str:
    """Return the path as it is stored: relative, `/` between folders, NFC.

    Raises:
        PathRefused: it could leave its root, collide with another, or act as something else than a memory.
    """
    if _GENERATED_NAME.fullmatch(path):
        return path
    stored = unicodedata.normalize("NFC", path)
    compatible = unicodedata.normalize("NFKC", path)
    if re.search(_FORBIDDEN_SIGNS, compatible) or not _is_written(stored):
        raise PathRefused(path, "only letters, digits, spaces and - _ . , ( ) ' + & @ may stand in a name")
    if compatible.count("/") != stored.count("/"):
        raise PathRefused(path, "a character in it can be read as '/'")
    if ".." in compatible:
        raise PathRefused(path, "'..' may not stand in it")
    segments = stored.split("/")
    for segment in segments:
        _check_segment(path, segment)
    _check_file(path, segments[-1])
    if len(segments) > FOLDER_LIMIT + 1:
        raise PathRefused(path, f"it is more than {FOLDER_LIMIT} folders deep")
    if len(stored.encode()) > PATH_LIMIT:
        raise PathRefused(path, f"it is longer than {PATH_LIMIT} bytes")
    if len(segments) > 1 and _compatible_fold(segments[0]) in RESERVED_FOLDERS:
        raise PathRefused(path, f"the folder {segments[0]!r} belongs to another scope")
    return stored


def check_stored(path: str) -> str:
    """Check a path as `check_path` does, for all that a store keeps: memories, and the events of a task.

    >>> check_stored("observability/feature-x.ndjson")
    'observability/feature-x.ndjson'
    """
    return path if re.fullmatch(_EVENTS_FILE, path) else check_path(path)


def is_memory_path(path: str) -> bool:
    """Return True if a path is one that a memory can have.

    >>> [is_memory_path(path) for path in ("user_tabs.md", "README.txt", "../x.md", "MEMORY.md", ".git/x.md")]
    [True, False, False, False, False]
    """
    try:
        return check_stored(path) == path
    except (PathRefused, ValueError):
        return False


def with_suffix(path: str, suffix: str) -> str:
    """Return a path with something at the end of its name, which is cut where it would be too long.

    >>> with_suffix("notes/tea.md", "-2"), len(with_suffix("x" * 100 + ".md", "-2"))
    ('notes/tea-2.md', 103)
    """
    stem, dot, ending = path.rpartition(".")
    folder, slash, name = stem.rpartition("/")
    room = min(MAX_STEM_BYTES, PATH_LIMIT - len(f"{folder}{slash}{dot}{ending}".encode())) - len(suffix)
    return f"{folder}{slash}{name.encode()[:room].decode('utf-8', 'ignore')}{suffix}{dot}{ending}"


def is_fact(path: str) -> bool:
    """Return True if a memory is corrected only by another that supersedes it.

    >>> is_fact("facts/project_test-command.md"), is_fact("project_facts.md")
    (True, False)
    """
    return fold(path).startswith(FACTS)


def is_reserved(name: str) -> bool:
    """Return True if a file name, however spelled, is that of a generated file or one loaded as instructions.

    >>> is_reserved("Memory.MD"), is_reserved("my-memory.md")
    (True, False)
    """
    return _compatible_fold(name) in RESERVED_FILES


@lru_cache(maxsize=1 << 12)
def fold(path: str) -> str:
    """Return what two paths share when a file system that ignores case and composition sees one file.

    >>> fold("Cafe\\u0301.md") == fold("caf\\u00e9.md")
    True
    """
    if path.isascii():
        return path.lower()
    composed = unicodedata.normalize("NFC", path).casefold()
    return unicodedata.normalize("NFC", composed)


def slug(name: str, limit: int = MAX_SLUG_BYTES) -> str:
    """Return a readable piece of a file name: letters and digits of any script, hyphens between.

    >>> slug("Prefers tabs, not spaces!"), slug("日本語のメモ")
    ('prefers-tabs-not-spaces', '日本語のメモ')
    """
    readable = _readable(name)[:MAX_SLUG_CHARS].encode()[:limit].decode("utf-8", "ignore").rstrip("-")
    return (
        readable
        or f"memory-{sha256(unicodedata.normalize('NFC', name).encode('utf-8', 'surrogatepass')).hexdigest()[:6]}"
    )


def file_name(kind: str, name: str, taken: Callable[[str], bool]) -> str:
    """Return a free file name for a new memory; `taken` says which are not free.

    >>> file_name("user", "Tabs", taken={"user_tabs.md"}.__contains__)
    'user_tabs-2.md'
    """
    stem = f"{slug(kind, 20)}_{_telling_slug(kind, name)}"
    path = f"{stem}.md"
    number = 1
    while taken(path):
        number += 1
        path = f"{stem}-{number}.md"
    return check_path(path)


def listable(name: str) -> bool:
    """Return True if a file found on disk is looked at at all.

    >>> listable("notes.md"), listable(".notes.md"), listable("notes.txt")
    (True, False, False)
    """
    return name.endswith(".md") and not name.startswith((".", "~$"))


def shown(path: str) -> str:
    """Return a name found on disk, whatever bytes it has, as something that can be printed and sent as JSON.

    >>> shown("a\\x1b\\udcff.md")
    'a\\\\x1b\\\\xff.md'
    """
    text = re.sub("[\udc80-\udcff]", lambda byte: f"\\x{ord(byte[0]) - 0xDC00:02x}", path)  # bytes that are not UTF-8
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def _is_written(name: str) -> bool:
    """Return True if every character is a letter, mark, digit, punctuation or emoji that people write and see."""
    if name.isascii():
        return True
    if re.search(DRAWS_NOTHING, name.replace(_EMOJI_SELECTOR, "")):
        return False
    categories = {unicodedata.category(each) for each in name if not each.isascii() and each not in _SKIN_TONES}
    return all(category[0] in "LMNP" or category == "So" for category in categories)


def _compatible_fold(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold()


def _check_segment(path: str, segment: str) -> None:
    if not segment:
        raise PathRefused(path, "it is empty, absolute, or ends in '/'")
    if segment[0] in ".- " or segment[-1] in ". ":
        raise PathRefused(path, "a part may not begin with '.', '-' or a space, nor end with '.' or a space")
    stem = segment.removesuffix(".md")
    if len(stem.encode()) > MAX_STEM_BYTES:
        raise PathRefused(path, f"a part of it is longer than {MAX_STEM_BYTES} bytes")
    if _compatible_fold(segment.partition(".")[0]).rstrip() in _DEVICE_NAMES:
        raise PathRefused(path, "Windows keeps that name for a device")


def _check_file(path: str, name: str) -> None:
    if not name.endswith(".md"):
        raise PathRefused(path, "a memory's file name ends in '.md'")
    if name[-4] in " .":
        raise PathRefused(path, "no space or dot may stand before '.md'")
    if is_reserved(name):
        raise PathRefused(path, f"{name} is not a memory: it is generated, or loaded as instructions")


def _readable(name: str) -> str:
    name = name.lower()
    if name.isascii():
        return "-".join(re.findall("[a-z0-9]+", name))
    name = re.sub(DRAWS_NOTHING, "", unicodedata.normalize("NFKC", name).lower())
    readable = ""
    for character in name:
        # A mark belongs to the letter before it; anything else separates.
        is_mark = readable and not character.isascii() and unicodedata.category(character) in ("Mn", "Mc")
        if character.isalnum() or (is_mark and readable[-1] != "-"):
            readable += character
        elif readable and readable[-1] != "-":
            readable += "-"
    return unicodedata.normalize("NFC", readable.rstrip("-"))


def _telling_slug(kind: str, name: str) -> str:
    """Return the words of a name that tell it from others, in their order, as many as there is room for.

    A word is what stands between blanks, so that an address or a place in the code is there as a whole or not at all.
    A negation stays: "Don't use Redis" is `no-redis`. A condition that is cut off leaves its first word, or else
    "Never deploy … without asking" would be `never-deploy`. All words of a title stay, and of a name without telling
    words.
    """
    plain_name = re.sub(_HOUR_END, "", re.sub(_NO_WORD, " ", re.sub(_DO_NOT, " no ", name)))
    groups = common_words(plain_name).copy()
    for word in re.findall(_PROPER_NAME, plain_name):
        groups.pop(word.lower(), None)
    pieces = [piece for piece in map(_readable, plain_name.split()) if piece]
    telling = [piece for piece in pieces if any(groups.get(part, "w") in "wnlc" for part in piece.split("-"))]
    if len(pieces) <= MAX_TITLE_WORDS or not set(telling).difference(groups):
        telling = pieces
    telling = [piece for piece, following in pairwise([*telling, ""]) if not f"{following}-".startswith(f"{piece}-")]
    if telling[:1] == [kind]:
        telling = telling[1:] or telling
    whole = telling.copy()
    while len(telling) > 1 and slug("-".join(telling)) != "-".join(telling):
        telling.pop()
        # Without what is cut off, a number says nothing, nor does "ask", and "unless I …" says the wrong thing.
        while len(telling) > 2 and (re.fullmatch(_NO_END, telling[-1]) or not groups.keys().isdisjoint(telling[-2:])):
            telling.pop()
    restricting = "nlc" if "n" in map(groups.get, telling) else "lc"
    lost = [piece for piece in whole[len(telling) :] if groups.get(piece, "w") in restricting]
    marked = "-".join([*telling, *lost[:1]])
    if slug(marked) == marked:
        return marked
    return slug("-".join(telling) or name)
