"""A directory handle that no path leaves: locks, flushes and renames without following links.

On POSIX every step of a path is opened relative to the handle of its parent with no-follow, so a link that
is swapped in between check and use leads nowhere. Where Python has no `dir_fd` (Windows) each step is
checked for links and reparse points before it is used; a race with an attacker on the same machine is then
possible.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

from memsheaf.errors import Busy, PathRefused
from memsheaf.store import Stamp

HAS_DIR_FD = os.open in os.supports_dir_fd and os.rename in os.supports_dir_fd

_BASE = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOINHERIT", 0)
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_FOLDER = _BASE | os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)
_LINKS = {errno.ELOOP, errno.EMLINK, errno.ENOTDIR}

READ = _BASE | _NOFOLLOW | os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)
FLUSH = READ if os.name == "posix" else _BASE | os.O_RDWR  # Windows flushes only what it may write
WRITE = _BASE | _NOFOLLOW | os.O_WRONLY
CREATE = WRITE | os.O_CREAT | os.O_EXCL
APPEND = _BASE | _NOFOLLOW | os.O_RDWR | os.O_APPEND
_LATEST = (1 << 63) - 1
_READS = 5  # of a file that is written again and again


class Folder:
    """One open directory. Names are looked up in it and nowhere else. Close it."""

    __slots__ = ("_fd", "path")

    def __init__(self, path: str, fd: int | None) -> None:
        self.path = path
        self._fd = fd

    @classmethod
    def open(cls, path: str, *, create: bool = False, portable: bool = not HAS_DIR_FD) -> Folder:
        """Open a directory named by the user; links on the path to it are followed."""
        try:
            if not portable:
                return cls(path, os.open(path, _FOLDER))
            with os.scandir(path):  # fails as opening would
                return cls(path, None)
        except FileNotFoundError:
            if not create:
                raise
        _make_folders(path, portable)
        return cls.open(path, portable=portable)

    def close(self) -> None:
        """Let the handle go."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def folder(self, name: str, *, create: bool = False) -> Folder:
        """Open a directory inside this one. Raises PathRefused for a link, NotFound errors as OSError."""
        path = f"{self.path}{os.sep}{name}"
        try:
            return Folder(path, self._open_folder(name, path))
        except FileNotFoundError:
            if not create:
                raise
        except OSError as error:
            if error.errno in _LINKS:
                raise PathRefused(path, "a step of it is a link or not a folder") from None
            raise
        with suppress(FileExistsError):
            os.mkdir(self._name(name), 0o700, dir_fd=self._fd)
            self.sync()
        return self.folder(name)

    def open_file(self, name: str, flags: int, mode: int = 0o600) -> int:
        """Open a plain file in this directory. A link, a folder or a device is refused."""
        return self.open_stat(name, flags, mode)[0]

    def open_stat(self, name: str, flags: int, mode: int = 0o600) -> tuple[int, os.stat_result]:
        """As `open_file`, with what there is to know about the file."""
        try:
            self._refuse_link(name)
            fd = os.open(self._name(name), flags, mode, dir_fd=self._fd)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.EMLINK):
                raise PathRefused(name, "it is a link") from None
            if error.errno in (errno.EISDIR, errno.ENXIO):
                raise PathRefused(name, "it is not a plain file") from None
            raise
        try:
            opened = os.fstat(fd)
            if not stat.S_ISREG(opened.st_mode):
                raise PathRefused(name, "it is not a plain file")
        except BaseException:
            os.close(fd)
            raise
        return fd, opened

    def stat(self, name: str) -> os.stat_result:
        """Look at a name without following it."""
        return os.stat(self._name(name), dir_fd=self._fd, follow_symlinks=False)

    def rename(self, name: str, to: Folder, new: str) -> None:
        """Move a file of this directory over a name of another, in one step."""
        os.replace(self._name(name), to._name(new), src_dir_fd=self._fd, dst_dir_fd=to._fd)

    def rename_new(self, name: str, to: Folder, new: str) -> None:
        """Move a file to a new name. Raises FileExistsError when that is taken."""
        if sys.platform == "win32":
            os.rename(self._name(name), to._name(new))  # fails when it exists
        elif not self._rename(name, to, new, _NOREPLACE):
            source, target = self._name(name), to._name(new)
            os.link(source, target, src_dir_fd=self._fd, dst_dir_fd=to._fd, follow_symlinks=False)
            self.unlink(name)

    def swap(self, name: str, to: Folder, new: str) -> bool:
        """Exchange two files in one step, so that what was displaced is at hand; False where that is unknown."""
        return self._rename(name, to, new, _EXCHANGE)

    def _rename(self, name: str, to: Folder, new: str, flag: int) -> bool:
        """Rename with a flag; False where the system or the file system does not know it."""
        call = _renameat2()
        if call is None or self._fd is None:
            return False
        if call(self._fd, os.fsencode(name), to._fd, os.fsencode(new), flag) == 0:
            return True
        import ctypes

        code = ctypes.get_errno()
        if code in (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP):
            return False
        raise OSError(code, os.strerror(code), new)

    def name_for_others(self, name: str) -> str:
        """Return a path by which a library finds a file of this directory, wherever that is by now.

        It does not name the handle: SQLite before 3.39 uses the path when that is another directory's.
        """
        if self._fd is not None:
            with suppress(OSError):
                return os.path.join(os.readlink(f"/proc/self/fd/{self._fd}"), name)
        return os.path.join(self.path, name)

    def unlink(self, name: str) -> None:
        """Remove a name."""
        os.unlink(self._name(name), dir_fd=self._fd)

    def scan(self) -> Iterator[os.DirEntry[str]]:
        """Go through the names of this directory, in no order."""
        with os.scandir(self._rewound()) as entries:
            yield from entries

    def names(self) -> list[str]:
        """Return the names of this directory, in no order."""
        return os.listdir(self._rewound())

    def _rewound(self) -> str | int:
        """Return the handle at its beginning: a listing moves it, and one that failed leaves it there."""
        if self._fd is None:
            return self.path
        os.lseek(self._fd, 0, os.SEEK_SET)
        return self._fd

    def sync(self) -> None:
        """Make names that were added, moved or removed here survive a power cut."""
        if self._fd is not None:
            flush(self._fd)

    def sync_everything(self) -> bool:
        """Flush the whole file system this is on, at once; False where that cannot be asked for."""
        libc = _libc()
        if libc is None or self._fd is None or not hasattr(libc, "syncfs"):
            return False
        return bool(libc.syncfs(self._fd) == 0)

    def _open_folder(self, name: str, path: str) -> int | None:
        if self._fd is not None:
            return os.open(name, _FOLDER | _NOFOLLOW, dir_fd=self._fd)
        self._refuse_link(name)
        if not os.path.exists(path):
            raise FileNotFoundError(errno.ENOENT, "no such folder", path)
        if not os.path.isdir(path):
            raise NotADirectoryError(errno.ENOTDIR, "not a folder", path)
        return None

    def _name(self, name: str) -> str:
        """Return how a system call finds a name: relative to the handle, or without one by its whole path."""
        return os.path.join(self.path, name) if self._fd is None else name

    def _refuse_link(self, name: str) -> None:
        """Raise PathRefused for a link, where there is no handle; with one, opening it does."""
        if self._fd is not None:
            return
        try:
            found = self.stat(name)
        except FileNotFoundError:
            return
        if stat.S_ISLNK(found.st_mode) or getattr(found, "st_reparse_tag", False):
            raise PathRefused(name, "it is a link")


_NOREPLACE, _EXCHANGE = 1, 2


@cache
def _libc() -> Any:
    """Linux's C library, for the two calls that Python does not offer; None elsewhere."""
    if sys.platform != "linux":
        return None
    import ctypes

    return ctypes.CDLL(None, use_errno=True)


@cache
def _renameat2() -> Any:
    call = getattr(_libc(), "renameat2", None)
    if call:
        from ctypes import c_char_p, c_int, c_uint

        call.argtypes = c_int, c_char_p, c_int, c_char_p, c_uint
    return call


def _make_folders(path: str, portable: bool) -> None:
    """Make a directory and those above it, each of them safe from a power cut."""
    parent = os.path.dirname(path)
    if parent and not os.path.isdir(parent):
        _make_folders(parent, portable)
    with suppress(FileExistsError):
        os.mkdir(path, 0o700)
        with suppress(PermissionError), Folder.open(parent or ".", portable=portable) as above:
            above.sync()


@contextmanager
def walk(root: Folder, path: str, *, create: bool = False) -> Iterator[tuple[Folder, str]]:
    """Open the folder that holds `path`, step by step from `root`, and give it with the last name."""
    *steps, name = path.split("/")
    folder = root
    try:
        for step in steps:
            inner = folder.folder(step, create=create)
            if folder is not root:
                folder.close()
            folder = inner
        yield folder, name
    finally:
        if folder is not root:
            folder.close()


def stamp_at(root: Folder, path: str) -> Stamp | None:
    """Return the stamp of a file or folder now, None if it is not there."""
    try:
        if "/" not in path:  # most of them
            return stamp_of(root.stat(path or "."))
        with walk(root, path.rstrip("/")) as (folder, name):
            return stamp_of(folder.stat(name))
    except (OSError, PathRefused):
        return None


def stamp_of(found: os.stat_result) -> Stamp:
    """Return the stamp in what the system says of a file."""
    modified, changed = found.st_mtime_ns, found.st_ctime_ns
    if modified > _LATEST or changed > _LATEST:  # no database keeps more than 63 bits, and no honest clock needs them
        modified, changed = min(modified, _LATEST), min(changed, _LATEST)
    return modified, changed, found.st_size, found.st_ino & _LATEST


def flush(fd: int) -> None:
    """Wait until what was written to `fd` is on the medium, the drive's cache included."""
    if sys.platform == "darwin":
        with suppress(OSError):
            fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
            return
    os.fsync(fd)


def stage(folder: Folder, name: str, data: bytes, *, mode: int = 0o600, durable: bool = False) -> None:
    """Write a new file under an unused name."""
    fd = folder.open_file(name, CREATE, mode)
    try:
        write_all(fd, data)
        if mode != 0o600 and hasattr(os, "fchmod"):
            os.fchmod(fd, mode)  # the umask must not narrow what the replaced file allowed
        if durable:
            flush(fd)
    except BaseException:
        with suppress(OSError):
            folder.unlink(name)
        raise
    finally:
        os.close(fd)


def append(folder: Folder, name: str, data: bytes, *, durable: bool = False) -> int:
    """Append to a file, in one write, and give the size that it had."""
    fd, found = folder.open_stat(name, APPEND | os.O_CREAT)
    try:
        write_all(fd, data)
        if durable:
            flush(fd)
    finally:
        os.close(fd)
    return found.st_size


def replace(folder: Folder, name: str, data: bytes, *, durable: bool = True) -> None:
    """Put a whole file in place: a reader sees the old or the new one."""
    draft = f"draft-{name}-{os.urandom(8).hex()}"  # whoever tidies up knows whose it is
    try:
        stage(folder, draft, data, durable=durable)
        folder.rename(draft, folder, name)
    except BaseException:
        with suppress(OSError):
            folder.unlink(draft)
        raise
    if durable:
        folder.sync()


def read_file(folder: Folder, name: str, limit: int) -> bytes:
    """Read a plain file, `limit` bytes at most."""
    fd, found = folder.open_stat(name, READ)
    try:
        return _read_from(fd, found, limit)
    finally:
        os.close(fd)


def write_all(fd: int, data: bytes) -> None:
    """Write every byte, however often the kernel stops half-way."""
    written = os.write(fd, data)
    while written < len(data):
        written += os.write(fd, memoryview(data)[written:])


def read_all(fd: int, limit: int) -> bytes:
    """Read an open file from its start, `limit` bytes at most."""
    os.lseek(fd, 0, os.SEEK_SET)
    return _read_from(fd, os.fstat(fd), limit)


def _read_from(fd: int, found: os.stat_result, limit: int) -> bytes:
    """Read to the end; again when the file was written meanwhile: even a single read may mix two texts (tmpfs)."""
    for _ in range(_READS):
        expected = min(limit, found.st_size)
        data = os.read(fd, expected + 1)  # one more: it grew if we get it
        while expected < len(data) < limit and (more := os.read(fd, min(limit - len(data), 1 << 20))):
            data += more
        before, found = found, os.fstat(fd)
        if (found.st_size, found.st_mtime_ns) == (before.st_size, before.st_mtime_ns):
            break
        os.lseek(fd, 0, os.SEEK_SET)
    return data[:limit]


@contextmanager
def kernel_lock(folder: Folder, name: str, *, wait: float) -> Iterator[None]:
    """Hold a lock that the kernel frees when its holder dies; the file is never removed.

    Raises:
        Busy: another process kept it longer than `wait` seconds.
    """
    fd = folder.open_file(name, _BASE | _NOFOLLOW | os.O_RDWR | os.O_CREAT)
    try:
        if not _try_lock(fd):
            _wait_for_lock(fd, name, wait)
        yield
    finally:
        with suppress(OSError):
            _unlock(fd)  # a child that was forked meanwhile holds the same open file: closing ours is not enough
        os.close(fd)


def _wait_for_lock(fd: int, name: str, wait: float) -> None:
    deadline, pause = time.monotonic() + wait, 0.0005
    while not _try_lock(fd):
        if time.monotonic() > deadline:
            raise Busy(f"another process has held the lock {name!r} for more than {wait:g} seconds")
        time.sleep(pause)
        pause = min(pause * 1.5, 0.02)


if sys.platform == "win32":
    import msvcrt

    def _try_lock(fd: int) -> bool:
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _unlock(fd: int) -> None:
        with suppress(OSError):
            msvcrt.locking(fd, msvcrt.LK_UNLCK, 1)
else:
    import fcntl

    def _try_lock(fd: int) -> bool:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _unlock(fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_UN)
