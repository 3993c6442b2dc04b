"""The journal: append-only lines of commits, in segments.

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

import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

from memsheaf.errors import PathRefused, StoreFailed
from memsheaf.guard.paths import check_journalled
from memsheaf.store import Commit, Revision, Version
from memsheaf.store.journal_lines import (
    CHANGED,
    FOLDED,
    ROTTEN,
    Texts,
    change_in,
    chunks,
    decode,
    decode_step,
    encode,
    find_commit,
    needle_of,
    rewritten,
)
from memsheaf.store.safe_dir import (
    APPEND,
    READ,
    Folder,
    draft_name,
    flush_data,
    read_all,
    read_file,
    replace,
    stage,
    write_all,
)

SEGMENT_BYTES = 1 << 20
FEW = 8  # so many paths are looked for one by one
KEPT, HEADS = "kept", "heads"
_ENDLESS = 1 << 40
_TAIL = 160  # longer than any mark
_STEP = re.compile(CHANGED + rb', "before": "[0-9a-f]*", "after": "([0-9a-f]*)"(?:, "segment": ([0-9]{1,9}))?')
_COMMIT = re.compile(rb'\{"commit": "([0-9a-f]{1,15})"')
THROUGH = rb'\{"through": ([0-9]{1,9})\}\n'
_FILE = re.compile(r"/(journal|archive)-([0-9]{6}|[1-9][0-9]{6,8})\.jsonl(?=/)")
LAST = 999_999_999  # the highest number of a segment, reached by a forged name only; that segment is never sealed
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

    def is_settled(self, boot: str) -> bool:
        """Return False if a crash left something to complete, or to verify in this boot."""
        return self.state == "clean" and (self.safe or self.boot == boot)


class Unsafe(NamedTuple):
    """The commits that a power cut could still undo, oldest first; those not in place yet; and their boot."""

    commits: list[Commit]
    unfinished: list[Commit]
    boot: str


class Head(NamedTuple):
    """The version that the journal left a path at, and the segment that says so, 0 when it is archived."""

    version: Version
    segment: int


class Journal:
    """The journal inside one open `.history` folder. The caller holds the lock to append or rewrite."""

    def __init__(self, folder: Folder, segment: int = 0) -> None:
        self._folder = folder
        self.segment = segment or (self.segments() or [1])[-1]
        self.last = ""
        self._fd = -1
        self._size = 0

    def close(self) -> None:
        """Let the open segment go."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def tail(self) -> Tail:
        """Look at the last line, moving on past sealed segments."""
        self.last = ""
        end = self._end()
        if not end:
            return Tail("clean", safe=True)
        last = end[end.rfind(b"\n", 0, -1) + 1 :]
        if done := _DONE.fullmatch(last):
            self.last = done[1].decode()
            return Tail("clean", boot=done[2].decode("utf-8", "replace"), last=self.last)
        if safe := _SAFE.fullmatch(last):
            self.last = safe[1].decode()
            return Tail("clean", safe=True, last=self.last)
        if last.startswith(b'{"sealed"'):
            if self.segment == LAST:
                return Tail("clean", safe=True)
            self._advance()
            return self.tail()
        return Tail("open" if end.endswith(b"\n") else "torn")

    def append(self, line: bytes, *, durable: bool) -> None:
        """Add a line; if it cannot be written whole, leave no part of it behind."""
        fd = self.open()
        try:
            write_all(fd, line)
            if durable:
                flush_data(fd)
        except OSError:
            os.ftruncate(fd, self._size)
            raise
        self._size += len(line)

    def cut_torn_line(self) -> None:
        """Cut off a line that a crash left unfinished. It was never acknowledged."""
        fd = self.open()
        self._size = read_all(fd, _ENDLESS).rfind(b"\n") + 1
        os.ftruncate(fd, self._size)

    def full(self) -> bool:
        """Whether the segment is large enough to begin another."""
        self.open()
        return self._size >= SEGMENT_BYTES and self.segment < LAST

    def seal(self) -> None:
        """Begin the next segment."""
        self.append(_SEALED + b"\n", durable=True)
        self._advance()
        self._begin_segment()

    def graft(self, commits: Iterable[Commit]) -> None:
        """Add finished commits that another journal had, oldest first: a segment of their own, there whole or not.

        Nothing in it is ever carried out again: the files are somebody else's to place. Raises StoreFailed.
        """
        if self.segment > LAST - 2:
            raise StoreFailed("the journal has no number left for another segment")
        draft = draft_name()
        lines = [encode(one, "") + f'{{"done": "{one.id}", "boot": ""}}\n'.encode() for one in commits]
        lines += [b'{"safe": ""}\n', _SEALED, b"\n"]
        stage(self._folder, draft, b"".join(lines), durable=True)
        self.append(_SEALED + b"\n", durable=True)
        self._advance()
        self._folder.rename(draft, self._folder, segment_name(self.segment))
        self._advance()
        self._begin_segment()

    def _begin_segment(self) -> None:
        """Make the segment, and let it tell the last commit before it has one of its own."""
        self.open()
        self._folder.sync()
        if self.last:
            self.append(f'{{"safe": "{self.last}"}}\n'.encode(), durable=False)

    def ends_with(self, path: str, version: Version) -> bool:
        """Whether the last that the segment says about a path is the text of this version."""
        data, needle = read_all(self.open(), _ENDLESS), needle_of(path)
        with suppress(*ROTTEN):
            shape = change_in(data[max(0, data.rfind(needle)) :].partition(b"\n")[0], needle)
            return shape["after"] == version and any(key.startswith(("new", "append")) for key in shape)
        return False

    def unsafe(self) -> Unsafe:
        """What came after the last `safe` mark."""
        lines = read_all(self.open(), _ENDLESS).split(b"\n")
        texts = Texts(lines)
        last = max((n for n, line in enumerate(lines) if line.startswith(b'{"safe"')), default=-1)
        kept = [(line, commit) for line in lines[last + 1 :] if (commit := decode(line, texts))]
        boot = str(json.loads(kept[-1][0]).get("boot", "")) if kept else ""
        done = {mark[1].decode() for line in lines[last + 1 :] if (mark := _DONE.fullmatch(line + b"\n"))}
        commits = [commit for _, commit in kept]
        return Unsafe(commits, [commit for commit in commits if commit.id not in done], boot)

    def unsettled(self) -> tuple[set[str], str]:
        """The paths that came after the last `safe` mark, and the last commit that is in place, "" without any."""
        data = read_all(self.open(), _ENDLESS)
        news = data[max(0, data.rfind(b'\n{"safe"')) :]
        done = _DONE.findall(news)
        paths = set()
        for found in set(re.findall(CHANGED, news)):
            with suppress(ValueError, PathRefused):  # rotten, or hostile
                path = json.loads(found)
                check_journalled(path)
                paths.add(path)
        return paths, done[-1][0].decode() if done else ""

    def commits(self, needle: bytes = b"") -> Iterator[Commit]:
        """The finished commits, newest first; those whose lines hold `needle`."""
        for line, texts in self.finished(needle):
            if commit := decode(line, texts):
                yield commit

    def history(self, path: str | None = None, /) -> Iterator[Commit]:
        """What happened, newest first; with `path`, to that text only."""
        for commit in self.commits(needle_of(path) if path is not None else b""):
            if path is None:
                yield commit
            elif kept := tuple(step for step in commit.revisions if step.path == path):
                yield commit._replace(revisions=kept)

    def find(self, commit_id: str, /) -> Commit:
        """The commit whose id begins like this. Raises NoSuchCommit when none or several do."""
        return find_commit(self.commits(f'{{"commit": "{commit_id}'.encode("utf-8", "replace")), commit_id)

    def finished(self, needle: bytes) -> Iterator[tuple[bytes, Texts]]:
        """The lines of finished commits that hold `needle`, newest first, and the texts of their segment."""
        read: set[int] = set()

        def lines_of(segment: int) -> Iterator[tuple[bytes, Texts]]:
            data = self.data(segment_name(segment))
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
        found = re.findall(FOLDED, self._end_of(archive_name(archive)))
        return int(found[-1]) if found else 0

    def heads(self, paths: Collection[str] | None = None, *, last: int = 0) -> dict[str, Head]:
        """Where the journal, or with `last` that segment, left each path or these; removed paths have none."""
        through, data = self.checkpoint()
        segments = self.since(through, last or self.segment)
        few = None if paths is None or len(paths) > FEW else [needle_of(path) for path in paths]
        heads: dict[bytes, Head] = {}
        for segment in (0, *segments):
            data = self.data(segment_name(segment)) if segment else data
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
        done = {name for name, _ in _DONE.findall(self.data(segment_name(self.segment)))}
        lines = data.split(b"\n")
        return b"\n".join(line for line in lines if (found := _COMMIT.match(line)) and found[1] in done)

    def checkpoint(self) -> tuple[int, bytes]:
        """The last segment that `heads` was made from, and its lines; without it, those of what is kept."""
        for name in (HEADS, KEPT):
            data = self.data(name)
            found = re.compile(THROUGH).fullmatch(data, data.rfind(b"\n", 0, -1) + 1)
            if found and int(found[1]) < self.segment:
                return int(found[1]), data
        return 0, b""

    def last_step(self, path: str, head: Head) -> Revision | None:
        """The last finished step of a path: from where `head` says that it is, or else from wherever it is."""
        needle = needle_of(path)
        lines = self.data(segment_name(head.segment)).split(b"\n") if head.segment else []
        places = ((line, Texts(lines)) for line in reversed(lines) if needle in line)
        kept = ((line, Texts(())) for line in self.data(KEPT).split(b"\n") if line.startswith(needle))
        for line, texts in (*places, *kept):
            step = decode_step(line, needle, texts)
            if step and step.after == head.version:
                return step
        for line, texts in self.finished(needle):
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
        """Pass every commit whose line holds a needle through `change`; None drops it. Files are replaced whole."""
        self.close()
        for name in self.files():
            data = self.data(name)
            if any(needle in data for needle in needles) and (new := rewritten(data, change, needles)) != data:
                replace(self._folder, name, new)

    def drop_heads(self, paths: Collection[str]) -> None:
        """Take paths out of what is kept about them beside the segments."""
        needles = tuple(map(needle_of, paths))
        for name in (KEPT, HEADS):
            data = self.data(name)
            if any(needle in data for needle in needles):
                lines = data.split(b"\n")[:-1]
                replace(self._folder, name, b"".join(line + b"\n" for line in lines if not line.startswith(needles)))

    def data(self, name: str) -> bytes:
        """A file of the journal, empty when it is not there, or is no plain file and so not ours."""
        with suppress(FileNotFoundError, PathRefused):
            return read_file(self._folder, name, _ENDLESS)
        return b""

    def files(self) -> list[str]:
        """The files that hold commits, oldest first."""
        return [*map(archive_name, self.segments("archive")), *map(segment_name, self.segments())]

    def segments(self, kind: str = "journal") -> list[int]:
        """The numbers of the segments that are there, oldest first; or of the archives."""
        plain = (entry.name for entry in self._folder.scan() if entry.is_file(follow_symlinks=False))
        names = "/".join(("", *plain, ""))  # in one pass: no name has a slash
        return sorted(int(number) for found, number in _FILE.findall(names) if found == kind)

    def since(self, after: int, last: int) -> list[int]:
        """The segments after one, up to the last that is asked for."""
        return [segment for segment in self.segments() if after < segment <= last]

    def open(self) -> int:
        """The open segment; a new one is made safe from a power cut before anything is in it."""
        if self._fd < 0:
            try:
                self._fd, found = self._folder.open_stat(segment_name(self.segment), APPEND)
            except FileNotFoundError:
                self._fd, found = self._folder.open_stat(segment_name(self.segment), APPEND | os.O_CREAT)
                self._folder.sync()
            self._size = found.st_size
        return self._fd  # whoever appends holds the lock, so the size is known from here on

    def _end(self) -> bytes:
        """The last bytes of the segment, without making or opening it for writing."""
        if self._fd < 0:
            return self._end_of(segment_name(self.segment))
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
        finally:
            os.close(fd)

    def _advance(self) -> None:
        self.close()
        self.segment += 1


def segment_name(number: int) -> str:
    """The file of a segment."""
    return f"journal-{number:06}.jsonl"


def archive_name(number: int) -> str:
    """The file of an archive, by its first segment."""
    return f"archive-{number:06}.jsonl"
