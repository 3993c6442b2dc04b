"""The journal of a folder: what happened to it, in plain lines, oldest first.

`.history/journal-000001.jsonl`, `-000002` and so on, about 1 MiB each. One line is one JSON object:

    {"commit": "5f0c…", "at": "…Z", "by": "user", "why": "…", "boot": "…", "changes": [
        {"path": "user_tabs.md", "before": "<sha256>", "old": "…", "after": "<sha256>", "new": "…"}]}
    {"done": "5f0c…", "boot": "…"}     every file of that commit is in place
    {"safe": "5f0c…"}                  and so flushed that a power cut cannot undo it
    {"sealed": true}                   the next segment goes on from here

A commit is decided when its line is on the medium. The line holds both texts, so that it can be carried out
again after a crash, and undone, without any other line: losing or trimming one never harms another.
"""

from __future__ import annotations

import json
import os
import re
from binascii import a2b_base64, b2a_base64  # base64 is these two and much else
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress

from memsheaf.errors import PathRefused
from memsheaf.guard.names import check_stored
from memsheaf.store import Commit, Revision, version_of
from memsheaf.store.confined import APPEND, CREATE, READ, Folder, flush, flush_data, read_all, read_file, write_all
from memsheaf.values import NamedTuple

SEGMENT_BYTES = 1 << 20
FEW = 8  # so many paths are looked for one by one
_ENDLESS = 1 << 40
_JSON = json.JSONEncoder(ensure_ascii=False)
_READ = json.JSONDecoder()
_TAIL = 160  # longer than any mark
_ID = re.compile(r"[0-9a-f]{1,15}")
_VERSION = re.compile(r"([0-9a-f]{64})?")
# where a change begins, and nowhere else: inside a text the quotes would be escaped
_CHANGED = re.compile(rb'\{"path": ("[^"\\]*+(?:\\.[^"\\]*+)*+")')
_COMMIT = re.compile(rb'\{"commit": "([0-9a-f]{1,15})"')
_SAFE = re.compile(rb'\{"safe": "([0-9a-f]{0,15})"\}\n')
_SEALED = b'{"sealed": true}'
_DONE = re.compile(rb'\{"done": "([0-9a-f]{0,15})", "boot": "([^"\\\\]*)"\}\n')


class Tail(NamedTuple):
    """How a journal ends: `clean` (nothing to do), `open` (a commit to complete) or `torn`; `last` is the id of the
    last commit, "" when the segment does not say."""

    state: str
    boot: str = ""
    safe: bool = False
    last: str = ""


class Unsafe(NamedTuple):
    """The commits that a power cut could still undo, oldest first; those not in place yet; and their boot."""

    commits: list[Commit]
    unfinished: list[Commit]
    boot: str


def encode(commit: Commit, boot: str) -> bytes:
    """Write a commit as its line."""
    line = {"commit": commit.id, "at": commit.at, "by": commit.by, "why": commit.why, "boot": boot}
    if commit.undoes:
        line["undoes"] = commit.undoes
    changes = [_encode_revision(revision) for revision in commit.revisions]
    # half a surrogate pair in `why` is kept as the escape it would be in JSON
    return _JSON.encode({**line, "changes": changes}).encode("utf-8", "backslashreplace") + b"\n"


def _encode_revision(revision: Revision) -> dict[str, str]:
    shape = {"path": revision.path, "before": revision.before, "after": revision.after}
    for key, data in (("old", revision.old), ("new", revision.new)):
        if data is not None:
            try:
                shape[key] = data.decode()
            except UnicodeDecodeError:
                shape[key + "64"] = b2a_base64(data, newline=False).decode()
    return shape


def decode(line: bytes) -> Commit | None:
    """Read a commit's line; None for a mark, a torn line, or one that bit rot reached."""
    if not line.startswith(b'{"commit"'):
        return None
    try:
        shape = json.loads(line)
        revisions = tuple(_decode_revision(change) for change in shape["changes"])
        words = [shape["commit"], shape["at"], shape["by"], shape["why"], shape.get("undoes", "")]
        if not all(isinstance(word, str) for word in words) or not _ID.fullmatch(words[0]):
            return None
        return Commit(words[0], words[1], words[2], words[3], revisions, words[4])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, PathRefused):
        return None


def _decode_step(line: bytes, needle: bytes) -> Revision | None:
    """One change of a commit's line, by how it begins; None when it does not hold."""
    begin = line.find(needle)
    following = _CHANGED.search(line, begin + len(needle))
    try:
        text = line[begin : following.start() if following else None].decode()
        return _decode_revision(_READ.raw_decode(text)[0])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, PathRefused):
        return None


def _decode_revision(shape: dict[str, str]) -> Revision:
    texts = [
        shape[key].encode() if key in shape else a2b_base64(shape[key + "64"]) if key + "64" in shape else None
        for key in ("old", "new")
    ]
    check_stored(shape["path"])  # a journal that came with a repository may be hostile
    if not _VERSION.fullmatch(shape["before"]) or not _VERSION.fullmatch(shape["after"]):
        raise ValueError("a version is not one")
    revision = Revision(shape["path"], shape["before"], shape["after"], *texts)
    for version, data in ((revision.before, revision.old), (revision.after, revision.new)):
        if data is not None and version_of(data) != version:
            raise ValueError("a text does not match its version")
    return revision


class Journal:
    """The journal inside one open `.history` folder. The caller holds the lock to append or rewrite."""

    def __init__(self, folder: Folder, segment: int = 0) -> None:
        self._folder = folder
        self.segment = segment or self._last_segment()
        self.last = ""
        self._fd = -1
        self._size = 0

    def open_to_append(self) -> None:
        """Open the segment at once, instead of first for reading."""
        self._open()

    def close(self) -> None:
        """Let the open segment go."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def tail(self) -> Tail:
        """Look at the last line, moving on past sealed segments."""
        tail = self._tail()
        self.last = tail.last
        return tail

    def _tail(self) -> Tail:
        end = self._end()
        if not end:
            return Tail("clean", safe=True)
        last = end[end.rfind(b"\n", 0, -1) + 1 :]
        if done := _DONE.fullmatch(last):
            return Tail("clean", boot=done[2].decode("utf-8", "replace"), last=done[1].decode())
        if safe := _SAFE.fullmatch(last):
            return Tail("clean", safe=True, last=safe[1].decode())
        if last.startswith(b'{"sealed"'):
            self._advance()
            return self._tail()
        return Tail("open" if end.endswith(b"\n") else "torn")

    def append(self, line: bytes, *, durable: bool) -> None:
        """Add a line; if it cannot be written whole, leave no part of it behind."""
        fd = self._open()
        try:
            write_all(fd, line)
            if durable:
                flush_data(fd)
        except OSError:
            os.ftruncate(fd, self._size)
            raise
        self._size += len(line)

    def mend(self) -> None:
        """Cut off a line that a crash left unfinished. It was never acknowledged."""
        fd = self._open()
        self._size = read_all(fd, _ENDLESS).rfind(b"\n") + 1
        os.ftruncate(fd, self._size)

    def full(self) -> bool:
        """Whether the segment is large enough to begin another."""
        self._open()
        return self._size >= SEGMENT_BYTES

    def seal(self) -> None:
        """Begin the next segment."""
        self.append(_SEALED + b"\n", durable=True)
        self._advance()
        self._open()
        self._folder.sync()

    def graft(self, commits: Iterable[Commit]) -> None:
        """Add finished commits that another journal had, oldest first: a segment of their own, there whole or not.

        Nothing in it is ever carried out again: the files are somebody else's to place.
        """
        draft = draft_name()
        lines = [line for commit in commits for line in (encode(commit, "")[:-1], _done(commit.id))]
        self._write(draft, [*lines, b'{"safe": ""}', _SEALED])
        self.append(_SEALED + b"\n", durable=True)
        self._advance()
        self._folder.rename(draft, self._folder, _name(self.segment))
        self._advance()
        self._open()
        self._folder.sync()

    def unsafe(self) -> Unsafe:
        """What came after the last `safe` mark."""
        lines = read_all(self._open(), _ENDLESS).split(b"\n")
        last = max((n for n, line in enumerate(lines) if line.startswith(b'{"safe"')), default=-1)
        kept = [(line, commit) for line in lines[last + 1 :] if (commit := decode(line))]
        boot = str(json.loads(kept[-1][0]).get("boot", "")) if kept else ""
        done = {mark[1].decode() for line in lines[last + 1 :] if (mark := _DONE.fullmatch(line + b"\n"))}
        commits = [commit for _, commit in kept]
        return Unsafe(commits, [commit for commit in commits if commit.id not in done], boot)

    def unsettled(self) -> tuple[set[str], str]:
        """The paths that came after the last `safe` mark, and the last commit that is in place, "" without any."""
        data = read_all(self._open(), _ENDLESS)
        news = data[max(0, data.rfind(b'\n{"safe"')) :]
        done = _DONE.findall(news)
        paths = set()
        for found in set(_CHANGED.findall(news)):
            with suppress(ValueError, PathRefused):  # rotten, or hostile
                path = json.loads(found)
                check_stored(path)
                paths.add(path)
        return paths, done[-1][0].decode() if done else ""

    def commits(self, path: str | None = None) -> Iterator[Commit]:
        """The finished commits, newest first; with `path`, those that touched it."""
        needle = json.dumps(path, ensure_ascii=False).encode() if path is not None else b""
        for segment in range(self.segment, 0, -1):
            newest = segment == self.segment
            done: set[str] = set()
            for line in reversed(self._lines(segment)):
                if newest and (mark := _DONE.fullmatch(line + b"\n")):
                    done.add(mark[1].decode())
                elif needle in line and (commit := decode(line)) and (not newest or commit.id in done):
                    yield commit

    def heads(self, paths: Collection[str] | None = None) -> dict[str, Revision]:
        """The last step of every path that the journal knows, or of these; a removed one ends at ABSENT."""
        if paths is not None and len(paths) <= FEW:
            return {path: step for path in paths if (step := self._last_step(path))}
        heads: dict[str, Revision] = {}
        for commit in self.commits():
            for revision in commit.revisions:
                if paths is None or revision.path in paths:
                    heads.setdefault(revision.path, revision)
        return heads

    def _last_step(self, path: str) -> Revision | None:
        """The last finished step of a path. Of a commit of thousands, only this one is decoded."""
        needle = b'{"path": ' + json.dumps(path, ensure_ascii=False).encode() + b","
        for segment in range(self.segment, 0, -1):
            newest = segment == self.segment
            done: set[bytes] = set()
            for line in reversed(self._lines(segment)):
                if newest and (mark := _DONE.fullmatch(line + b"\n")):
                    done.add(mark[1])
                elif needle in line and (found := _COMMIT.match(line)) and (not newest or found[1] in done):
                    step = _decode_step(line, needle)
                    if step is not None:
                        return step
        return None

    def damaged(self) -> list[str]:
        """Lines that can no longer be read, as `segment:line`; what surrounds them still can."""
        found = []
        for segment in range(1, self.segment + 1):
            for number, line in enumerate(self._lines(segment), 1):
                if line and not line.startswith((b'{"done"', b'{"safe"', b'{"sealed"')) and not decode(line):
                    found.append(f"{_name(segment)}:{number}")
        return found

    def rewrite(self, change: Callable[[Commit], Commit | None]) -> None:
        """Pass every commit through `change`; None drops it. A segment is replaced whole or not at all."""
        self.close()
        for segment in range(1, self.segment + 1):
            lines = self._lines(segment)
            new = [_rewritten(line, change) for line in lines]
            if new != lines:
                self._replace(segment, (line for line in new if line))

    def _replace(self, segment: int, lines: Iterable[bytes]) -> None:
        draft = draft_name()
        self._write(draft, lines)
        self._folder.rename(draft, self._folder, _name(segment))
        self._folder.sync()

    def _write(self, draft: str, lines: Iterable[bytes]) -> None:
        fd = self._folder.open_file(draft, CREATE)
        try:
            write_all(fd, b"".join(line + b"\n" for line in lines))
            flush(fd)
        finally:
            os.close(fd)

    def _lines(self, segment: int) -> list[bytes]:
        try:
            return read_file(self._folder, _name(segment), _ENDLESS).split(b"\n")[:-1]
        except FileNotFoundError:
            return []

    def _open(self) -> int:
        """The open segment; a new one is made safe from a power cut before anything is in it."""
        if self._fd < 0:
            try:
                self._fd = self._folder.open_file(_name(self.segment), APPEND)
            except FileNotFoundError:
                self._fd = self._folder.open_file(_name(self.segment), APPEND | os.O_CREAT)
                self._folder.sync()
            self._size = os.fstat(self._fd).st_size  # whoever appends holds the lock, so it is known from here on
        return self._fd

    def _end(self) -> bytes:
        """The last bytes of the segment, without making or opening it for writing."""
        try:
            fd = self._fd if self._fd >= 0 else self._folder.open_file(_name(self.segment), READ)
        except FileNotFoundError:
            return b""
        try:
            size = self._size if fd == self._fd else os.fstat(fd).st_size
            os.lseek(fd, max(0, size - _TAIL), os.SEEK_SET)
            return os.read(fd, _TAIL)
        finally:
            if fd != self._fd:
                os.close(fd)

    def _advance(self) -> None:
        self.close()
        self.segment += 1

    def _last_segment(self) -> int:
        numbers = [
            int(entry.name[8:14])
            for entry in self._folder.scan()
            if entry.name.startswith("journal-") and entry.name[8:14].isdigit()
        ]
        return max(numbers, default=1)


def draft_name() -> str:
    """A name no two writers share."""
    return f"draft-{os.urandom(8).hex()}"


def _done(commit_id: str) -> bytes:
    return f'{{"done": "{commit_id}", "boot": ""}}'.encode()


def _name(segment: int) -> str:
    return f"journal-{segment:06}.jsonl"


def _rewritten(line: bytes, change: Callable[[Commit], Commit | None]) -> bytes:
    commit = decode(line)
    if commit is None:
        return line
    changed = change(commit)
    if changed is commit:
        return line
    return b"" if changed is None else encode(changed, str(json.loads(line).get("boot", "")))[:-1]
