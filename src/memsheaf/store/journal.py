"""The journal of a folder: what happened to it, in plain lines, oldest first.

`.history/journal-000001.jsonl`, `-000002` and so on, about 1 MiB each. One line is one JSON object:

    {"commit": "5f0c…", "at": "…Z", "by": "user", "why": "…", "boot": "…", "changes": [
        {"path": "user_tabs.md", "before": "<sha256>", "old": "…", "after": "<sha256>", "new": "…"}]}
    {"done": "5f0c…", "boot": "…"}     every file of that commit is in place
    {"safe": "5f0c…"}                  and so flushed that a power cut cannot undo it
    {"sealed": true}                   the next segment goes on from here

A commit is decided when its line is on the medium. The line holds both texts, so that it can be carried out
again after a crash, and undone. Where a text was only added to, it holds what was added ("append") and, unless an
earlier line of the same segment ends with it, the text before: a segment needs no other.

`store/journal_folding.py` keeps what else is here: `archive-*.jsonl`, commits past retention without their texts,
`kept`, the texts that were current when their commits were archived, and `heads`, where the sealed segments left
each path.
"""

from __future__ import annotations

import json
import os
import re
from binascii import a2b_base64, b2a_base64  # base64 is these two and much else
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress

from memsheaf.errors import PathRefused, StoreFailed
from memsheaf.guard.paths import check_journalled
from memsheaf.store import ABSENT, Commit, Revision, Version, version_of
from memsheaf.store.safe_dir import APPEND, CREATE, READ, Folder, flush, flush_data, read_all, read_file, write_all
from memsheaf.values import NamedTuple

SEGMENT_BYTES = 1 << 20
FEW = 8  # so many paths are looked for one by one
APPENDED_FROM = 512  # bytes; a shorter text is journalled whole
KEPT, HEADS = "kept", "heads"
_ENDLESS = 1 << 40
_JSON = json.JSONEncoder(ensure_ascii=False)
_READ = json.JSONDecoder()
_TAIL = 160  # longer than any mark
_ID = re.compile(r"[0-9a-f]{1,15}")
_VERSION = re.compile(r"([0-9a-f]{64})?")
# where a change begins, and nowhere else: inside a text the quotes would be escaped
CHANGED = re.compile(rb'\{"path": ("[^"\\]*+(?:\\.[^"\\]*+)*+")')
_STEP = re.compile(
    CHANGED.pattern + rb', "before": "[0-9a-f]*", "after": "([0-9a-f]*)"(?:, "segment": ([0-9]{1,9}))?'
)
_COMMIT = re.compile(rb'\{"commit": "([0-9a-f]{1,15})"')
THROUGH = re.compile(rb'\{"through": ([0-9]{1,9})\}\n')
_FOLDED = re.compile(rb'\{"folded": ([0-9]{1,9})\}')
_FILE = re.compile(r"/(journal|archive)-([0-9]{6}|[1-9][0-9]{6,8})\.jsonl(?=/)")
LAST = 999_999_999
"""The highest number of a segment, which only a made-up name leads to: it grows, as the next would not be found."""
_SAFE = re.compile(rb'\{"safe": "([0-9a-f]{0,15})"\}\n')
_SEALED = b'{"sealed": true}'
_IN_A_ROW = 100  # so many segments are looked for by their numbers, without a list of all
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


class Head(NamedTuple):
    """The version that the journal left a path at, and the segment that says so, 0 when it is archived."""

    version: Version
    segment: int


Text = Callable[[str, Version], bytes | None]
"""Gives a text of a path by its version, as far as it is known."""


def encode(commit: Commit, boot: str, is_known: Callable[[str, Version], bool] = lambda *_: False) -> bytes:
    """Write a commit as its line. What `is_known` from earlier lines of the segment is not said again."""
    line = {"commit": commit.id, "at": commit.at, "by": commit.by, "why": commit.why, "boot": boot}
    if commit.undoes:
        line["undoes"] = commit.undoes
    changes = [_encode_revision(revision, is_known) for revision in commit.revisions]
    # half a surrogate pair in `why` is kept as the escape it would be in JSON
    return _JSON.encode({**line, "changes": changes}).encode("utf-8", "backslashreplace") + b"\n"


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
    return _JSON.encode(shape | {"segment": segment} if segment else shape).encode() + b"\n"


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
        if not all(isinstance(word, str) for word in words) or not _ID.fullmatch(words[0]):
            return None
        return Commit(words[0], words[1], words[2], words[3], revisions, words[4])
    except _ROTTEN:
        return None


_ROTTEN = (ValueError, KeyError, TypeError, AttributeError, RecursionError, PathRefused)


def needle_of(path: str) -> bytes:
    """How a change of this path begins, and nothing else in a journal."""
    return b'{"path": ' + json.dumps(path, ensure_ascii=False).encode("utf-8", "surrogatepass") + b","


def _shape_of(line: bytes, needle: bytes) -> dict[str, str]:
    """One change of a line, by how it begins. Raises what `_ROTTEN` names when it does not hold."""
    begin = line.find(needle)
    following = CHANGED.search(line, begin + len(needle))
    shape: dict[str, str] = _READ.raw_decode(line[begin : following.start() if following else None].decode())[0]
    return shape


def decode_step(line: bytes, needle: bytes, text: Text = lambda path, version: None) -> Revision | None:
    """One change of a line, by how it begins; None when it does not hold."""
    try:
        return _decode_revision(_shape_of(line, needle), text)
    except _ROTTEN:
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
            with suppress(*_ROTTEN):
                shape = _shape_of(line, needle)
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


class Journal:
    """The journal inside one open `.history` folder. The caller holds the lock to append or rewrite."""

    def __init__(self, folder: Folder, segment: int = 0) -> None:
        self._folder = folder
        self.segment = segment or self._newest()
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
            if self.segment == LAST:
                return Tail("clean", safe=True)
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
        return self._size >= SEGMENT_BYTES and self.segment < LAST

    def seal(self) -> None:
        """Begin the next segment."""
        self.append(_SEALED + b"\n", durable=True)
        self._advance()
        self._open()
        self._folder.sync()
        if self.last:  # so that it can tell the last commit before it has one of its own
            self.append(f'{{"safe": "{self.last}"}}\n'.encode(), durable=False)

    def graft(self, commits: Iterable[Commit]) -> None:
        """Add finished commits that another journal had, oldest first: a segment of their own, there whole or not.

        Nothing in it is ever carried out again: the files are somebody else's to place. Raises StoreFailed.
        """
        if self.segment > LAST - 2:
            raise StoreFailed("the journal has no number left for another segment")
        draft = draft_name()
        lines = [line for commit in commits for line in (encode(commit, "")[:-1], _done(commit.id))]
        self.write(draft, b"".join(line + b"\n" for line in [*lines, b'{"safe": ""}', _SEALED]))
        self.append(_SEALED + b"\n", durable=True)
        self._advance()
        self._folder.rename(draft, self._folder, _name(self.segment))
        self._advance()
        self._open()
        self._folder.sync()
        if self.last:  # so that it can tell the last commit before it has one of its own
            self.append(f'{{"safe": "{self.last}"}}\n'.encode(), durable=False)

    def ends_with(self, path: str, version: Version) -> bool:
        """Whether the last that the segment says about a path is the text of this version."""
        data, needle = read_all(self._open(), _ENDLESS), needle_of(path)
        with suppress(*_ROTTEN):
            shape = _shape_of(data[max(0, data.rfind(needle)) :].partition(b"\n")[0], needle)
            return shape["after"] == version and any(key.startswith(("new", "append")) for key in shape)
        return False

    def unsafe(self) -> Unsafe:
        """What came after the last `safe` mark."""
        lines = read_all(self._open(), _ENDLESS).split(b"\n")
        texts = Texts(lines)
        last = max((n for n, line in enumerate(lines) if line.startswith(b'{"safe"')), default=-1)
        kept = [(line, commit) for line in lines[last + 1 :] if (commit := decode(line, texts))]
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
        for found in set(CHANGED.findall(news)):
            with suppress(ValueError, PathRefused):  # rotten, or hostile
                path = json.loads(found)
                check_journalled(path)
                paths.add(path)
        return paths, done[-1][0].decode() if done else ""

    def commits(self, needle: bytes = b"") -> Iterator[Commit]:
        """The finished commits, newest first; those whose lines hold `needle`."""
        for line, texts in self._finished(needle):
            if commit := decode(line, texts):
                yield commit

    def _finished(self, needle: bytes) -> Iterator[tuple[bytes, Texts]]:
        """The lines of finished commits that hold `needle`, newest first, and the texts of their segment."""
        read: set[int] = set()

        def lines_of(segment: int) -> Iterator[tuple[bytes, Texts]]:
            data = self.data(_name(segment))
            lines = data.split(b"\n")[:-1] if needle in data else []
            texts = Texts(lines)
            if data:
                read.add(segment)
            done: set[bytes] = set()
            for line in reversed(lines):
                if line.startswith(b'{"done"'):
                    done.update(name for name, _ in _DONE.findall(line + b"\n"))
                elif needle not in line or not (found := _COMMIT.match(line)):
                    continue
                elif segment != self.segment or found[1] in done:
                    yield line, texts

        yield from lines_of(self.segment)  # the recent past costs no list of all files
        archives, segments = self.segments("archive"), [one for one in self.segments() if one < self.segment]
        folded = self._folded(archives[-1]) if archives else 0
        while segments and segments[-1] > folded:
            yield from lines_of(segments.pop())
        for number in reversed(archives):
            data = self.data(archive_name(number))
            for chunk, lines in reversed(chunks(data)) if segments or needle in data else ():
                while segments and segments[-1] >= chunk:  # a crash came before they were removed
                    yield from lines_of(segments.pop())
                if chunk not in read:
                    yield from ((line, Texts(())) for line in reversed(lines) if needle in line)
        for segment in reversed(segments):
            yield from lines_of(segment)

    def _folded(self, archive: int) -> int:
        """The last segment in an archive."""
        found = _FOLDED.findall(self._end_of(archive_name(archive)))
        return int(found[-1]) if found else 0

    def heads(self, paths: Collection[str] | None = None, *, last: int = 0) -> dict[str, Head]:
        """Where the journal left every path that it knows, or these; a path that was removed has none.

        With `last`, where that segment left them.
        """
        through, data = self.checkpoint()
        segments = self.since(through, last or self.segment)
        few = None if paths is None or len(paths) > FEW else [needle_of(path) for path in paths]
        heads: dict[bytes, Head] = {}
        for segment in (0, *segments):
            data = self.data(_name(segment)) if segment else data
            if few is not None:
                data = b"\n".join(line for line in data.split(b"\n") if any(one in line for one in few))
            if segment == self.segment:
                data = self._in_place(data)
            for raw, after, place in _STEP.findall(data):
                heads[raw] = Head(after.decode(), int(place or segment))
        found = {}
        for raw, head in heads.items():
            with suppress(ValueError, PathRefused):  # rotten, or hostile
                path = json.loads(raw)
                if head.version and (paths is None or path in paths):
                    check_journalled(path)
                    found[path] = head
        return found

    def _in_place(self, data: bytes) -> bytes:
        """The lines of the last segment whose commits are in place."""
        done = {name for name, _ in _DONE.findall(self.data(_name(self.segment)))}
        lines = data.split(b"\n")
        return b"\n".join(line for line in lines if (found := _COMMIT.match(line)) and found[1] in done)

    def checkpoint(self) -> tuple[int, bytes]:
        """The last segment that `heads` was made from, and its lines; without it, those of what is kept."""
        for name in (HEADS, KEPT):
            data = self.data(name)
            found = THROUGH.fullmatch(data, data.rfind(b"\n", 0, -1) + 1)
            if found and int(found[1]) < self.segment:
                return int(found[1]), data
        return 0, b""

    def last_step(self, path: str, head: Head) -> Revision | None:
        """The last finished step of a path: from where `head` says that it is, or else from wherever it is."""
        needle = needle_of(path)
        lines = self.data(_name(head.segment)).split(b"\n") if head.segment else []
        places = ((line, Texts(lines)) for line in reversed(lines) if needle in line)
        kept = ((line, Texts(())) for line in self.data(KEPT).split(b"\n") if line.startswith(needle))
        for line, texts in (*places, *kept):
            step = decode_step(line, needle, texts)
            if step and step.after == head.version:
                return step
        for line, texts in self._finished(needle):
            if step := decode_step(line, needle, texts):
                return step
        return None

    def damaged(self) -> list[str]:
        """Lines that can no longer be read, as `segment:line`; what surrounds them still can."""
        marks = (b'{"done"', b'{"safe"', b'{"sealed"', b'{"folded"')
        found = []
        for name in self.files():
            for number, line in enumerate(self.data(name).split(b"\n")[:-1], 1):
                if line and not line.startswith(marks) and not decode(line):
                    found.append(f"{name}:{number}")
        return found

    def rewrite(self, change: Callable[[Commit], Commit | None], needles: Collection[bytes]) -> None:
        """Pass every commit whose line holds a needle through `change`; None drops it.

        A file is replaced whole or not at all.
        """
        self.close()
        for name in self.files():
            data = self.data(name)
            if any(needle in data for needle in needles) and (new := rewritten(data, change, needles)) != data:
                self.replace(name, new)

    def drop_heads(self, paths: Collection[str]) -> None:
        """Take paths out of what is kept about them beside the segments."""
        needles = tuple(map(needle_of, paths))
        for name in (KEPT, HEADS):
            data = self.data(name)
            if any(needle in data for needle in needles):
                lines = data.split(b"\n")[:-1]
                self.replace(name, b"".join(line + b"\n" for line in lines if not line.startswith(needles)))

    def replace(self, name: str, data: bytes) -> None:
        """Put a whole file in place, durably."""
        draft = draft_name()
        self.write(draft, data)
        self._folder.rename(draft, self._folder, name)
        self._folder.sync()

    def write(self, name: str, data: bytes) -> None:
        """Write a new file and flush it."""
        fd = self._folder.open_file(name, CREATE)
        try:
            write_all(fd, data)
            flush(fd)
        except OSError:
            self._folder.unlink(name)
            raise
        finally:
            os.close(fd)

    def data(self, name: str) -> bytes:
        """A file of the journal, empty when it is not there, or is no plain file and so not ours."""
        with suppress(FileNotFoundError, PathRefused):
            return read_file(self._folder, name, _ENDLESS)
        return b""

    def files(self) -> list[str]:
        """The files that hold commits, oldest first."""
        return [*map(archive_name, self.segments("archive")), *map(_name, self.segments())]

    def segments(self, kind: str = "journal") -> list[int]:
        """The numbers of the segments that are there, oldest first; or of the archives."""
        plain = (entry.name for entry in self._folder.scan() if entry.is_file(follow_symlinks=False))
        names = "/".join(("", *plain, ""))  # in one pass: no name has a slash
        return sorted(int(number) for found, number in _FILE.findall(names) if found == kind)

    def since(self, after: int, last: int) -> list[int]:
        """The segments after one, up to the last that is asked for; some of them may not be there."""
        if last - after <= _IN_A_ROW:
            return list(range(after + 1, last + 1))
        return [segment for segment in self.segments() if after < segment <= last]

    def _newest(self) -> int:
        """The last segment: the first behind what `heads` was made from that is not sealed; or else of all."""
        found = THROUGH.search(self._end_of(HEADS))
        segment = int(found[1]) + 1 if found else 0
        while end := self._end_of(_name(segment)):
            if not end.endswith(_SEALED + b"\n"):
                if self._end_of(_name(segment + 1)):
                    break  # it was, and its mark is lost
                return segment
            segment += 1
        return (self.segments() or [1])[-1]

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
        if self._fd < 0:
            return self._end_of(_name(self.segment))
        os.lseek(self._fd, max(0, self._size - _TAIL), os.SEEK_SET)
        return os.read(self._fd, _TAIL)

    def _end_of(self, name: str) -> bytes:
        """The last bytes of a file, none when it is not there, or is no plain file and so not ours."""
        try:
            fd = self._folder.open_file(name, READ)
        except (FileNotFoundError, PathRefused):
            return b""
        try:
            os.lseek(fd, max(0, os.fstat(fd).st_size - _TAIL), os.SEEK_SET)
            return os.read(fd, _TAIL)
        except IsADirectoryError:
            return b""
        finally:
            os.close(fd)

    def _advance(self) -> None:
        self.close()
        self.segment += 1


def draft_name() -> str:
    """A name no two writers share."""
    return f"draft-{os.urandom(8).hex()}"


def _done(commit_id: str) -> bytes:
    return f'{{"done": "{commit_id}", "boot": ""}}'.encode()


def _name(number: int, kind: str = "journal") -> str:
    return f"{kind}-{number:06}.jsonl"


def segment_name(number: int) -> str:
    """The file of a segment."""
    return _name(number)


def archive_name(number: int) -> str:
    """The file of an archive, by its first segment."""
    return _name(number, "archive")


def chunks(data: bytes) -> list[tuple[int, list[bytes]]]:
    """The lines of an archive, segment by segment."""
    found = []
    lines: list[bytes] = []
    for line in data.split(b"\n")[:-1]:
        if mark := _FOLDED.fullmatch(line):
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
