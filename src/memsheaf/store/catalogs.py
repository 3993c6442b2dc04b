"""Hashes of the catalogs we published, so that a hand-written MEMORY.md is never replaced unseen.

MEMORY.md is generated, but the name is not ours alone: people and other programs write such a file by hand. A text is
replaced only when its hash is recorded here. Losing the record loses nothing: a text that is not known is kept.
"""

from __future__ import annotations

import os
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count

from memsheaf.errors import Changed, MemsheafError, PathRefused
from memsheaf.guard.paths import CATALOG
from memsheaf.memory import LIMIT
from memsheaf.store import ABSENT, Revision, version_of
from memsheaf.store.safe_dir import WRITE, Folder, append, read_file, stage, write_all
from memsheaf.values import compiled

if sys.platform == "linux":
    import fcntl

try:  # the interpreter's own: `hashlib` takes the whole of OpenSSL
    from _blake2 import blake2b
except ImportError:
    from hashlib import blake2b

NAME = "catalogs"
RECORDED = 4_096  # the newest that are kept when the record is trimmed
_DIGITS = 16
_LARGEST = 64 << 20
_POINTER = rb"\s*[-*+] \[[^\]]*\]\(<?([^()<>]+\.md)>?\).*"
_BLANK = b"\0 \t\r\n"  # a power cut may leave zeros


class CatalogFile:
    """How this process puts a derived text in the root: whole for every reader, over nothing but what is ours.

    The file that the text before last was in is kept as a spare, to be written over: making one costs far more.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spare = ""
        self._spare_of = 0  # the process
        self._has_spare = False
        self._last = b""

    def publish(self, root: Folder, history: Folder, name: str, data: bytes, *, sure: bool) -> None:
        """Put a text in place; the caller may be `sure` that what stands there is ours.

        Raises:
            Changed: what stands there was not published by us; it stays.
        """
        with self._lock:
            if not sure and not self._may_replace(root, history, name, data):
                raise Changed(name)
            try:
                record(history, data)
                self._stage(history, data)
            except OSError:
                self.drop_spare(history)
                raise
            self._put(root, history, name, data)
            self._last = data

    @property
    def has_spare(self) -> bool:
        """Whether this very process, and not its parent, keeps a spare file."""
        return self._has_spare and self._spare_of == os.getpid()

    def _put(self, root: Folder, history: Folder, name: str, data: bytes) -> None:
        """Bring the draft and what stands there to change places, and look at what came out."""
        if not (self._last and self._swap(root, history, name)):
            try:
                history.rename_new(self._spare, root, name)
                self._has_spare = False
                return
            except FileExistsError:
                if not self._swap(root, history, name):
                    history.rename(self._spare, root, name)
                    self._has_spare = False
                    return
        is_ours = False
        try:
            is_ours = self._may_replace(history, history, self._spare, data)
        finally:
            if not is_ours:
                history.swap(self._spare, root, name)  # saved since we looked: it goes back
        if not is_ours:
            raise Changed(name)

    def _swap(self, root: Folder, history: Folder, name: str) -> bool:
        """Exchange the draft and what stands there; False where nothing does, or the system cannot."""
        with suppress(FileNotFoundError):
            return history.swap(self._spare, root, name)
        return False

    def _may_replace(self, folder: Folder, history: Folder, name: str, data: bytes) -> bool:
        """Whether what has this name is nothing, what is about to be published, or what we published before."""
        try:
            found = read_file(folder, name, _LARGEST)
        except FileNotFoundError:
            return True
        except PathRefused:
            return False
        return found in (data, self._last) or is_ours(history, found)

    def _stage(self, history: Folder, data: bytes) -> None:
        """Write a derived text as a draft, in the file that the one before last was in, when that is free."""
        if self._spare_of != os.getpid():  # this is the first one, or a child that was forked
            self._spare, self._spare_of, self._has_spare = f"derived-{os.urandom(8).hex()}", os.getpid(), False
        if self._has_spare:
            if _rewrite(history, self._spare, data):
                return
            self.drop_spare(history)
        stage(history, self._spare, data)
        self._has_spare = True

    def drop_spare(self, history: Folder) -> None:
        """Remove the spare file, if it is there."""
        with suppress(OSError):
            history.unlink(self._spare)
        self._has_spare = False


def record(history: Folder, data: bytes) -> None:
    """Note that a text is ours, before it is published."""
    append(history, NAME, _line(data))


def is_ours(history: Folder, data: bytes) -> bool:
    """Whether a text is one that we published, or says nothing at all."""
    if not data.strip(_BLANK):
        return True
    with suppress(FileNotFoundError):
        known = read_file(history, NAME, _LARGEST)
        return _line(data) in known or _older_line(data) in known
    return False


def trim(history: Folder) -> None:
    """Forget all but the newest. The caller holds the lock of the folder."""
    with suppress(FileNotFoundError):
        lines = read_file(history, NAME, _LARGEST).splitlines(keepends=True)
        if len(lines) > 2 * RECORDED:
            draft = f"draft-{os.urandom(8).hex()}"
            stage(history, draft, b"".join(lines[-RECORDED:]))
            history.rename(draft, history, NAME)


def keep_lines(found: bytes, shown: bytes, present: Callable[[str], bytes | None]) -> Revision | None:
    """How the file beside the catalog changes so that it has what `found` says and `shown` does not; None if nothing.

    A text that somebody wrote is kept whole. Of our catalog with lines added by hand, these lines are kept, in the
    file that the last ones went to. A line that only points to a file that is there is not: the catalog lists it.
    """
    lines = [line for line in found.splitlines() if line.strip()]
    known = set(shown.splitlines())
    fresh = [line for line in lines if line not in known]
    pointers = {line for line in fresh if _points_to_file(line, present)}
    for path in _names():
        try:
            old = present(path)
        except MemsheafError:  # a link, or too large: not ours to change
            continue
        fresh = [line for line in fresh if line not in set((old or b"").splitlines())]
        telling = [line for line in fresh if line not in pointers]
        if not telling:
            return None
        whole = old is None and 2 * len(fresh) > len(lines)
        text = found if whole else (old.rstrip() + b"\n\n" if old else b"") + b"\n".join(telling) + b"\n"
        if old is None or len(text) <= LIMIT:
            return Revision(path, version_of(old) if old is not None else ABSENT, version_of(text), old, text)
    raise AssertionError("counting does not end")


def _points_to_file(line: bytes, present: Callable[[str], bytes | None]) -> bool:
    """Whether a line is one of a list that points to a file, as a catalog has them, and that file is there."""
    found = compiled(_POINTER).fullmatch(line)
    with suppress(MemsheafError, UnicodeDecodeError):
        return found is not None and present(found[1].decode()) is not None
    return False


def _names() -> Iterator[str]:
    stem = CATALOG.removesuffix(".md")
    yield from (f"{stem}-kept.md" if number == 1 else f"{stem}-kept-{number}.md" for number in count(1))


def _line(data: bytes) -> bytes:
    return blake2b(data, digest_size=_DIGITS // 2).hexdigest().encode() + b"\n"


def _older_line(data: bytes) -> bytes:
    """How catalogs were recorded before: by a hash that takes three times as long."""
    return version_of(data)[:_DIGITS].encode() + b"\n"


def _rewrite(folder: Folder, name: str, data: bytes) -> bool:
    """Write over a private file, provided that nothing else holds it: no other name, and no reader's handle.

    Making and freeing a file costs many times what this does. False, and nothing written, where the system
    cannot tell that nobody reads it.
    """
    fd = -1
    try:
        fd, found = folder.open_stat(name, WRITE)
        if found.st_nlink != 1 or stat.S_IMODE(found.st_mode) != 0o600 or not _is_held_by_us_alone(fd):
            return False
        write_all(fd, data)
        if found.st_size > len(data):
            os.ftruncate(fd, len(data))
        return True
    except (PathRefused, FileNotFoundError):
        return False
    finally:
        if fd >= 0:
            os.close(fd)


def _is_held_by_us_alone(fd: int) -> bool:
    """Whether the kernel grants a lease of the file, which means that it is not open elsewhere."""
    if sys.platform != "linux":
        return False
    from signal import SIGURG

    try:
        fcntl.fcntl(fd, fcntl.F_SETSIG, SIGURG)  # sent if it is opened in this moment, and ignored by default
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError:
        return False
    return True
