"""Journals of versions before `history.db`: lines of JSON in `.history`, read once, and written for exports.

    {"commit": "5f0c…", "at": "…Z", "by": "user", "why": "…", "boot": "…", "changes": [
        {"path": "user_tabs.md", "before": "<sha256>", "old": "…", "after": "<sha256>", "new": "…"}]}
    {"done": "5f0c…", "boot": "…"}     every file of that commit is in place
    {"safe": "5f0c…"}                  and so flushed that a power cut cannot undo it

`journal-000001.jsonl` and so on have them in order. Where a text was only added to, a line has what was added
("append") and, unless an earlier line of the same file ends with it, the text before. `archive-*.jsonl` has older
commits without texts; a file that it has and that is still there counts.
`kept` has the texts that were current when they were archived. What was read is noted with its size: lines that an
older version appends later are taken in with the next change. The files stay until all of it is past retention.
"""

from __future__ import annotations

import json
import re
from binascii import a2b_base64, b2a_base64
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from memsheaf.errors import Busy, PathRefused
from memsheaf.store import Commit, Revision, Version, tombstones, usage
from memsheaf.store.history import FLUSHED, History, decode_step, is_commit_id
from memsheaf.store.safe_dir import Folder, read_file
from memsheaf.store.sqlite_file import is_in_hook

SEGMENT = "journal-{:06}.jsonl"
_NAME = re.compile(r"(journal|archive)-([0-9]{6}|[1-9][0-9]{6,8})\.jsonl|kept|heads|pruned|tombstones|uses|catalogs")
_USE = r"(?m)^(?:([0-9]{4}-[0-9]{2}-[0-9]{2}) ([^\n]+)|=)$"
_IDS = re.compile(rb'(?m)^\{"commit": "([0-9a-f]{1,15})"')
_INVALID = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
_MAX_BYTES = 1 << 40
MAX_HOOK_BYTES = 4 << 20  # that a hook takes in, in less than a second; more wait for a command or the worker


class Line(NamedTuple):
    """A commit of a journal, in which boot it was made, and where its line begins."""

    commit: Commit
    boot: str
    start: int


def encode(commit: Commit) -> bytes:
    """Write a commit as its line."""
    line = {"commit": commit.id, "at": commit.at, "by": commit.by, "why": commit.why, "boot": ""}
    if commit.undoes:
        line["undoes"] = commit.undoes
    changes = []
    for step in commit.revisions:
        shape = {"path": step.path, "before": step.before, "after": step.after}
        for key, data in (("old", step.old), ("new", step.new)):
            if data is not None:
                try:
                    shape[key] = data.decode()
                except UnicodeDecodeError:
                    shape[key + "64"] = b2a_base64(data, newline=False).decode()
        changes.append(shape)
    return json.dumps({**line, "changes": changes}, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"


def decode(data: bytes) -> Iterator[Line | None]:
    """Read the commits in lines; None for one that bit rot reached, or that a hostile repository brought."""
    last: dict[str, tuple[Version, bytes]] = {}  # where each path was left, for lines that add to it
    start = 0
    for line in data.split(b"\n")[:-1]:
        if line.startswith(b'{"commit"'):
            try:
                shape = json.loads(line)
                words = [shape["commit"], shape["at"], shape["by"], shape["why"], shape.get("undoes", "")]
                if not all(isinstance(word, str) for word in words) or not is_commit_id(words[0]):
                    raise ValueError("not the words of a commit")
                steps = tuple(_decode_step(change, last) for change in shape["changes"])
                id, at, by, why, undoes = words
                yield Line(Commit(id, at, by, why, steps, undoes), str(shape.get("boot", "")), start)
            except _INVALID:
                yield None
        start += len(line) + 1


def _decode_step(shape: dict[str, str], last: dict[str, tuple[Version, bytes]]) -> Revision:
    path, before, after = shape["path"], shape["before"], shape["after"]
    old, new, added = (_decode_text(shape, key) for key in ("old", "new", "append"))
    if added is not None:
        if old is None and last.get(path, ("",))[0] == before:
            old = last[path][1]
        new = None if old is None else old + added
    step = decode_step(path, before, after, old, new)
    if step is None or step[3:] != (old, new):
        raise ValueError("not a change, or a text does not match its version")
    last.pop(path, None)
    if new is not None:
        last[path] = after, new
    return step


def _decode_text(shape: dict[str, str], key: str) -> bytes | None:
    if key in shape:
        return shape[key].encode()
    return a2b_base64(shape[key + "64"]) if key + "64" in shape else None


class OldFiles:
    """The files of an earlier version in an open `.history`, as they are now."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self.sizes = {
            entry.name: entry.stat(follow_symlinks=False).st_size
            for entry in folder.scan()
            if _NAME.fullmatch(entry.name) and entry.is_file(follow_symlinks=False)
        }

    def find_new(self, history: History | None) -> list[str]:
        """Return the files that have something which was not taken in."""
        if not self.sizes:
            return []
        known = dict(history.rows("SELECT name, size FROM old_files")) if history else {}
        return [name for name in sorted(self.sizes, key=_order) if known.get(name) != self.sizes[name]]

    def must_wait(self, history: History | None) -> bool:
        """Return True in a hook that has no time to take in what is new in them."""
        return is_in_hook() and sum(map(self.sizes.__getitem__, self.find_new(history))) > MAX_HOOK_BYTES

    def take_in(self, history: History) -> None:
        """Add what is new in them, in one transaction. Raises Busy in a hook, if that would take long."""
        if self.must_wait(history):
            raise Busy("what an earlier version wrote is taken in by the next command")
        new = self.find_new(history)
        if not new:
            return
        with history.writing() as db:
            known = {id for (id,) in db.execute("SELECT id FROM commits")}
            for name in new:
                skipped = self._take_in_file(history, name, known)
                db.execute("INSERT OR REPLACE INTO old_files VALUES (?, ?, ?)", (name, self.sizes[name], skipped))

    def remove(self, history: History) -> None:
        """Remove the files: what they have is in the history, or was erased."""
        for name in self.sizes:
            with suppress(FileNotFoundError):
                self._folder.unlink(name)
        with history.writing() as db:
            db.execute("DELETE FROM old_files")
        self._folder.sync()

    def _read(self, name: str) -> bytes:
        with suppress(FileNotFoundError, PathRefused):
            return read_file(self._folder, name, _MAX_BYTES)
        return b""

    def _take_in_file(self, history: History, name: str, known: set[str]) -> int:
        """Add what is in one file, but for known commits, and return how many of its lines cannot be read."""
        data = self._read(name)
        journals = [name for name in self.sizes if name.startswith("journal-")]
        match name.partition("-")[0]:
            case "archive":  # a crash may have left a journal that is in it; that has the texts as well
                in_journals = {id.decode() for journal in journals for id in _IDS.findall(self._read(journal))}
                return _add(history, data, known | in_journals)
            case "journal":
                return _add(history, data, known, is_newest=name == max(journals))
            case "kept":
                steps = filter(None, map(_decode_kept, data.split(b"\n")))
                with history.writing() as db:
                    db.executemany(
                        "INSERT OR IGNORE INTO texts SELECT ?1, ?2 WHERE ?2 NOTNULL", [step[2::2] for step in steps]
                    )
            case "tombstones":
                tombstones.add(history, tombstones.from_lines(data))
            case "uses":
                usage.add(history, re.findall(_USE, data.decode("utf-8", "replace")))
            case "catalogs":
                with history.writing() as db:
                    hashes = [(line,) for line in data.decode("ascii", "replace").split()]
                    db.executemany("INSERT OR IGNORE INTO catalogs (hash) VALUES (?)", hashes)
        return 0


def _order(name: str) -> tuple[bool, str]:
    """Return a key to sort the files by: the journals come last, as they are numbered."""
    return name.startswith("journal-"), name


def _add(history: History, data: bytes, known: set[str], *, is_newest: bool = False) -> int:
    """Add the commits in lines. In the newest file those behind the last mark may not be flushed, or not in place.

    The latter are verified as after a reboot.
    """
    done = {found.decode() for found in re.findall(rb'(?m)^\{"done": "([0-9a-f]{0,15})"', data)}
    safe = data.rfind(b'\n{"safe"') if is_newest else len(data)
    skipped = 0
    for line in decode(data):
        if line is None:
            skipped += 1
        elif line.commit.id not in known:
            known.add(line.commit.id)
            boot = line.boot if line.commit.id in done else ""
            history.add(line.commit, boot, FLUSHED if line.start <= safe else 0)
    return skipped


def _decode_kept(line: bytes) -> Revision | None:
    with suppress(*_INVALID):
        return _decode_step(json.loads(line), {})
    return None


def read_lines(data: bytes) -> tuple[list[Commit], int]:
    """Return the commits in lines, oldest first, and how many lines cannot be read."""
    lines = list(decode(data))
    return [line.commit for line in lines if line], lines.count(None)
