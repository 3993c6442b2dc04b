"""The lines of the journal: commits and heads as JSON, written and read.

A line that bit rot reached, or that a hostile repository brought, is None and never an error.
"""

from __future__ import annotations

import json
import re
from binascii import a2b_base64, b2a_base64  # base64 is these two and much else
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress

from memsheaf.errors import NoSuchCommit, PathRefused
from memsheaf.guard.paths import check_journalled
from memsheaf.store import ABSENT, Commit, Revision, Version, version_of

APPENDED_FROM = 512  # bytes; a shorter text is journalled whole
_ID = re.compile(r"[0-9a-f]{1,15}")
_VERSION = re.compile(r"([0-9a-f]{64})?")
# where a change begins, and nowhere else: inside a text the quotes would be escaped
CHANGED = rb'\{"path": ("[^"\\]*+(?:\\.[^"\\]*+)*+")'
FOLDED = rb'\{"folded": ([0-9]{1,9})\}'

Text = Callable[[str, Version], bytes | None]  # gives a text of a path by its version, as far as it is known


def encode(commit: Commit, boot: str, is_known: Callable[[str, Version], bool] = lambda *_: False) -> bytes:
    """Write a commit as its line. A text that `is_known` from earlier lines of the segment is left out."""
    line = {"commit": commit.id, "at": commit.at, "by": commit.by, "why": commit.why, "boot": boot}
    if commit.undoes:
        line["undoes"] = commit.undoes
    changes = [_encode_revision(revision, is_known) for revision in commit.revisions]
    # half a surrogate pair in `why` is kept as the escape it would be in JSON
    return json.dumps({**line, "changes": changes}, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"


def _encode_revision(revision: Revision, is_known: Callable[[str, Version], bool]) -> dict[str, str]:
    shape = {"path": revision.path, "before": revision.before, "after": revision.after}
    old, new = revision.old, revision.new
    texts = {"old": old, "new": new}
    if old and new and len(old) >= APPENDED_FROM and new.startswith(old):
        known = is_known(revision.path, revision.before)
        texts = {"old": None if known else old, "append": new[len(old) :]}
    for key, data in texts.items():
        if data is not None:
            try:
                shape[key] = data.decode()
            except UnicodeDecodeError:
                shape[key + "64"] = b2a_base64(data, newline=False).decode()
    return shape


def encode_head(path: str, version: Version, text: bytes | None = None, segment: int = 0) -> bytes:
    """Write where a path was left as a line, with its text or with the segment that has it."""
    shape: dict[str, object] = {**_encode_revision(Revision(path, ABSENT, version, None, text), lambda *_: False)}
    return json.dumps(shape | {"segment": segment} if segment else shape, ensure_ascii=False).encode() + b"\n"


def decode(line: bytes, text: Text = lambda path, version: None) -> Commit | None:
    """Read a commit's line; None for a mark, a torn line, or one that bit rot reached.

    What was appended to is given whole where `text` knows what was there before.
    """
    if not line.startswith(b'{"commit"'):
        return None
    try:
        shape = json.loads(line)
        revisions = tuple(_decode_revision(change, text) for change in shape["changes"])
        words = [shape["commit"], shape["at"], shape["by"], shape["why"], shape.get("undoes", "")]
        if not all(isinstance(word, str) for word in words) or not is_commit_id(words[0]):
            return None
        return Commit(words[0], words[1], words[2], words[3], revisions, words[4])
    except ROTTEN:
        return None


ROTTEN = (ValueError, KeyError, TypeError, AttributeError, RecursionError, PathRefused)


def is_commit_id(name: str) -> bool:
    """Whether a commit can have this id."""
    return _ID.fullmatch(name) is not None


def find_commit(commits: Iterable[Commit], commit_id: str) -> Commit:
    """The commit with this id, or the only one of these. Raises NoSuchCommit."""
    found: list[Commit] = []
    for commit in commits:
        if commit.id == commit_id:
            return commit
        found.append(commit)
    if len(found) == 1:
        return found[0]
    raise NoSuchCommit(f"{len(found) or 'no'} commits begin with {commit_id!r}")


def needle_of(path: str) -> bytes:
    """How a change of this path begins, and nothing else in a journal."""
    return b'{"path": ' + json.dumps(path, ensure_ascii=False).encode("utf-8", "surrogatepass") + b","


def change_in(line: bytes, needle: bytes) -> dict[str, str]:
    """The JSON of one change of a line, by how it begins. Raises one of `ROTTEN` when it is damaged."""
    begin = line.find(needle)
    following = re.compile(CHANGED).search(line, begin + len(needle))
    shape: dict[str, str] = json.JSONDecoder().raw_decode(
        line[begin : following.start() if following else None].decode()
    )[0]
    return shape


def decode_step(line: bytes, needle: bytes, text: Text = lambda path, version: None) -> Revision | None:
    """One change of a line, by how it begins; None when it does not hold."""
    try:
        return _decode_revision(change_in(line, needle), text)
    except ROTTEN:
        return None


def _text_in(shape: dict[str, str], key: str) -> bytes | None:
    if key in shape:
        return shape[key].encode()
    return a2b_base64(shape[key + "64"]) if key + "64" in shape else None


def _decode_revision(shape: dict[str, str], text: Text) -> Revision:
    check_journalled(shape["path"])  # a journal that came with a repository may be hostile
    if not _VERSION.fullmatch(shape["before"]) or not _VERSION.fullmatch(shape["after"]):
        raise ValueError("a version is not one")
    old, new, tail = (_text_in(shape, key) for key in ("old", "new", "append"))
    if tail is not None:
        old = text(shape["path"], shape["before"]) if old is None else old
        new = None if old is None else old + tail
    revision = Revision(shape["path"], shape["before"], shape["after"], old, new)
    for version, data in ((revision.before, revision.old), (revision.after, revision.new)):
        if data is not None and version_of(data) != version:
            raise ValueError("a text does not match its version")
    return revision


class Texts:
    """The texts of one segment, for changes that say only what was appended. Each is a part of the longest."""

    def __init__(self, lines: Sequence[bytes]) -> None:
        self._lines = lines
        self._known: dict[str, dict[Version, tuple[bytearray, int]]] = {}

    def __call__(self, path: str, version: Version) -> bytes | None:
        """A text by its version, None when no line up to the last has it."""
        if path not in self._known:
            self._known[path] = self._read(path)
        found = self._known[path].get(version)
        return bytes(found[0][: found[1]]) if found else None

    def _read(self, path: str) -> dict[Version, tuple[bytearray, int]]:
        needle = needle_of(path)
        known: dict[Version, tuple[bytearray, int]] = {}
        for line in self._lines:
            if needle not in line:
                continue
            with suppress(*ROTTEN):
                shape = change_in(line, needle)
                old, new, tail = (_text_in(shape, key) for key in ("old", "new", "append"))
                if old is not None:
                    known[shape["before"]] = bytearray(old), len(old)
                if new is not None:
                    known[shape["after"]] = bytearray(new), len(new)
                elif tail is not None and (base := known.get(shape["before"])):
                    text, size = base
                    text = text if len(text) == size else text[:size]
                    text += tail
                    known[shape["after"]] = text, len(text)
        return known


def chunks(data: bytes) -> list[tuple[int, list[bytes]]]:
    """The lines of an archive, segment by segment."""
    found = []
    lines: list[bytes] = []
    for line in data.split(b"\n")[:-1]:
        if mark := re.fullmatch(FOLDED, line):
            found.append((int(mark[1]), lines))
            lines = []
        else:
            lines.append(line)
    return found


def rewritten(data: bytes, change: Callable[[Commit], Commit | None], needles: Collection[bytes] = (b"",)) -> bytes:
    """The lines of a file with every commit whose line holds a needle passed through `change`; None drops it.

    What the other lines build on must stay.
    """
    lines = data.split(b"\n")[:-1]
    texts = Texts(lines)
    ends: dict[str, Version] = {}  # where each path was left, by a line that has the text
    result = []
    for line in lines:
        commit = decode(line, texts) if any(needle in line for needle in needles) else None
        changed = change(commit) if commit else None
        if commit and changed and (changed is not commit or b'", "append' in line):
            boot = str(json.loads(line).get("boot", ""))
            if changed is not commit or all(step.new is not None for step in changed.revisions if step.after):
                line = encode(changed, boot, lambda path, version: ends.get(path) == version)[:-1]
        if changed or not commit:
            result.append(line + b"\n")
        for step in changed.revisions if changed else ():
            ends[step.path] = step.after if step.new is not None else ""
    return b"".join(result)
