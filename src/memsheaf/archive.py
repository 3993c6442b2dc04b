"""Read and write memories as a folder, a zip or a tar archive.

Names in an archive are hostile until checked, sizes are capped before a byte is unpacked, modes and links
are not taken over. The layout is that of a project's folder: its own files, `tasks/SLUG/`, `sessions/ID/`, and in
each of these `logs/` and `.history/`.
"""

from __future__ import annotations

import gzip
import os
import re
import shutil
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import BinaryIO, NamedTuple
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

from memsheaf.errors import ArchiveRefused, PathRefused, ScopeRefused, StoreFailed, hinted
from memsheaf.guard.paths import CATALOG, check_stored, fold
from memsheaf.memory import LIMIT
from memsheaf.scope import check_label, open_plain
from memsheaf.store.safe_dir import Folder, read_file, walk

MAX_MEMBERS = 200_000
MAX_TOTAL = 1 << 30
MAX_RATIO = 200  # unpacked to packed, past the first megabyte
MAX_DIRECTORY = 32 << 20
MAX_JOURNAL = 256 << 20  # bytes of one segment of a journal
INNER = ("tasks", "sessions")  # the folders of a project in which each folder is a scope of its own
LOGS = "logs"
HISTORY = ".history"
BACKUP = (
    "README.md",
    b"# Memories of memsheaf\n\nOne folder for each scope. `memsheaf import` reads this file or folder back.\n",
)  # marks an archive of several scopes
_SCOPE = re.compile(r"(user|(?:agents|team|projects)/[^/.][^/]*)/")  # the folder of one in it
SHARED = ".shared.json"  # lists the members that came with a repository, and so are not vouched for by the user
_DAMAGED = (
    zipfile.BadZipFile, tarfile.TarError, zlib.error, struct.error, EOFError, OSError, ValueError,
    LookupError, RuntimeError, NotImplementedError, PathRefused,
)  # fmt: skip
"""What unpacking raises when an archive is damaged, lies, or is locked with a password."""
_PAST = re.compile(r"journal-[0-9]{6}\.jsonl|tombstones")

Load = Callable[[int], bytes]  # gives the bytes of a member, so many at most
LINK = "it is a link, which is not followed, or no plain file"
NO_MARKDOWN = "it is no Markdown"


class Member(NamedTuple):
    """One file of a folder or an archive; with `why` it may not come in. `root` is the folder of its layer, "" for
    the project's own, and `path` is where it is in that."""

    path: str
    data: bytes = b""
    why: str = ""
    root: str = ""

    @property
    def name(self) -> str:
        """Where it is in the archive."""
        return inside(self.root, self.path)


def inside(root: str, path: str) -> str:
    """A path of a layer, as it is called from the project's folder.

    >>> inside("tasks/login", "TASK.md"), inside("", "a.md")
    ('tasks/login/TASK.md', 'a.md')
    """
    return f"{root}/{path}" if root else path


def apart(name: str) -> tuple[str, str]:
    """The folder of the layer that a file is in, and where it is in that. Raises PathRefused.

    >>> apart("tasks/login/facts/a.md"), apart("logs/2026/11/2026-11-15.md"), apart("facts/a.md")
    (('tasks/login', 'facts/a.md'), ('logs', '2026/11/2026-11-15.md'), ('', 'facts/a.md'))
    """
    root, path = "", name
    first, _, rest = path.partition("/")
    label, _, below = rest.partition("/")
    if first in INNER and below:
        try:
            check_label(label, first)
        except ScopeRefused as error:
            raise PathRefused(name, str(error)) from None
        root, path = f"{first}/{label}", below
    if path.startswith(f"{LOGS}/"):
        root, path = inside(root, LOGS), path.removeprefix(f"{LOGS}/")
    return root, path


def read(source: str, *, history: bool = False, below: str = "") -> Iterator[Member]:
    """Go through the memories and events of a folder, a zip or a tar archive, and with `history` the journals.

    With `below`, such as "user/", only what is in that folder of it.

    The catalog and what is hidden is passed over; a link in a folder, and what is no Markdown, comes with the reason.

    Raises:
        ArchiveRefused: a name reaches outside, two names are one file, it is damaged, or it is too large.
    """
    seen: dict[str, str] = {}
    total = 0
    if os.path.isdir(source):
        members = folder_files(source)
    elif not os.path.exists(source):
        raise hinted(ArchiveRefused(f"there is no {source!r}"), "Name a folder, a zip or a tar archive.")
    else:
        members = _from_file(source)
    for number, (name, load) in enumerate(members):
        if number >= MAX_MEMBERS:
            raise ArchiveRefused(f"more than {MAX_MEMBERS:,} members")
        name = _inside(name)
        if not name.startswith(below):
            continue
        name = name.removeprefix(below)
        folder, _, base = name.rpartition("/")
        is_past = folder.split("/")[-1] == HISTORY and bool(_PAST.fullmatch(base))
        is_data = is_past or name == SHARED
        steps = name.split("/")  # what is hidden is not for us, nor is the catalog, which is made anew
        is_ours = not any(step.startswith(".") for step in steps) and fold(steps[-1]) != fold(CATALOG)
        if not (is_ours or (history and is_past) or name == SHARED):
            continue
        if load is None or not (is_data or name.lower().endswith((".md", ".ndjson"))):
            yield Member(name, why=LINK if load is None else NO_MARKDOWN)
            continue
        try:
            root, path = apart(name)
            path = path if is_data else check_stored(path)
        except PathRefused as error:
            yield Member(name, why=str(error))
            continue
        stored = inside(root, path)
        if other := seen.get(fold(stored)):
            raise ArchiveRefused(f"{other!r} and {stored!r} are one file on some file systems")
        seen[fold(stored)] = stored
        try:
            data = load(MAX_JOURNAL if is_data else LIMIT + 1)
        except _DAMAGED as error:
            raise ArchiveRefused(f"{name!r} cannot be unpacked: {error}") from None
        total += len(data)
        if total > MAX_TOTAL:
            raise ArchiveRefused(f"more than {MAX_TOTAL >> 20} MiB of text")
        yield Member(path, data, root=root)


def list_scopes(source: str) -> list[str]:
    """Return the folders of the scopes in an archive of several, such as "user"; [] for one of a single scope."""
    members = [*read(source)]
    found = {found[1] for member in members if (found := _SCOPE.match(member.name))}
    return sorted(found) if any(member[:2] == BACKUP for member in members) else []


def write(target: str, files: Iterable[tuple[str, bytes]]) -> None:
    """Write memories to a new `.zip` or folder, the same bytes for the same memories.

    Raises:
        ArchiveRefused: the target exists already, or has the name of a tar archive.
        StoreFailed: it cannot be written; nothing of it is left behind.
    """
    if os.path.lexists(target):
        raise ArchiveRefused(f"{target!r} exists already")
    if target.endswith((".tar", ".tar.gz", ".tgz")):
        raise ArchiveRefused("no tar archive is written")
    ordered = sorted(files)
    part = f"{target.rstrip(os.sep)}.part-{os.urandom(4).hex()}"
    try:
        if target.endswith(".zip"):
            with ZipFile(part, "x", ZIP_DEFLATED) as archive:
                for path, data in ordered:
                    info = ZipInfo(path, (1980, 1, 1, 0, 0, 0))
                    # what packs too well, as a journal of one text over and over, would look like a bomb to `read`
                    is_bomb = len(data) > 1 << 20 and len(zlib.compress(data, 1)) * MAX_RATIO // 2 < len(data)
                    info.compress_type = ZIP_STORED if is_bomb else ZIP_DEFLATED
                    info.external_attr = 0o600 << 16
                    archive.writestr(info, data)
        else:
            os.mkdir(part, 0o700)
            for path, data in ordered:
                place = os.path.join(part, *path.split("/"))
                os.makedirs(os.path.dirname(place), 0o700, exist_ok=True)
                with open(place, "xb") as file:
                    file.write(data)
        os.rename(part, target)
    except OSError as error:
        shutil.rmtree(part, ignore_errors=True)
        with suppress(OSError):
            os.unlink(part)  # an archive is a file
        raise StoreFailed(f"{target!r} cannot be written: {error.strerror or error}") from error


def _inside(name: str) -> str:
    """The name of a member without a leading `./`. Raises ArchiveRefused when it reaches outside."""
    while name.startswith("./"):
        name = name[2:]
    steps = name.split("/")
    drive = len(name) > 1 and name[1] == ":"
    if not name or "\\" in name or "\0" in name or name.startswith("/") or ".." in steps or drive:
        raise ArchiveRefused(f"the member {name[:200]!r} reaches outside")
    return name


def folder_files(source: str) -> Iterator[tuple[str, Load | None]]:
    """The files of a folder, each read while the folder it is in is held open: no link is followed, and None stands
    for one. Hidden folders are passed over.

    Raises:
        ArchiveRefused: a folder cannot be read.
    """
    try:
        with Folder.open(source) as root:
            waiting = [""]
            while waiting:
                prefix = waiting.pop()
                with walk(root, f"{prefix}any") as (folder, _):
                    found = sorted(folder.scan(), key=lambda entry: entry.name)
                    for entry in found:
                        if not entry.is_dir(follow_symlinks=False):
                            is_file = entry.is_file(follow_symlinks=False)
                            yield prefix + entry.name, partial(read_file, folder, entry.name) if is_file else None
                inner = [entry.name for entry in found if entry.is_dir(follow_symlinks=False)]
                shown = (name for name in reversed(inner) if name == HISTORY or not name.startswith("."))
                waiting += [f"{prefix}{name}/" for name in shown]
    except PathRefused as error:
        raise ArchiveRefused(f"{error.path!r} cannot be read: {error.why}") from None
    except OSError as error:
        raise ArchiveRefused(f"{error.filename or source!r} cannot be read: {error.strerror}") from None


def _from_file(source: str) -> Iterator[tuple[str, Load]]:
    try:
        with open_plain(source) as file:
            yield from _from_zip(file) if zipfile.is_zipfile(file) else _from_tar(file)
    except _DAMAGED as error:
        raise ArchiveRefused(f"{source!r} cannot be read: {getattr(error, 'strerror', '') or error}") from None


def _from_zip(file: BinaryIO) -> Iterator[tuple[str, Load]]:
    if _size_of_directory(file) > MAX_DIRECTORY:
        raise ArchiveRefused("its list of members is too large")
    with ZipFile(file) as archive:
        members = archive.infolist()
        unpacked, packed = sum(m.file_size for m in members), sum(m.compress_size for m in members)
        if unpacked > MAX_TOTAL or unpacked > max(1 << 20, MAX_RATIO * packed):
            raise ArchiveRefused(f"it would unpack to {unpacked:,} bytes")
        for member in members:
            if not member.filename:
                raise ArchiveRefused("a member has no name")
            if member.is_dir():
                continue
            if stat.S_ISLNK(member.external_attr >> 16):
                raise ArchiveRefused(f"{member.filename!r} is a link")

            def load(limit: int, member=member) -> bytes:  # type: ignore[no-untyped-def]
                with archive.open(member) as file:
                    return file.read(limit)

            yield member.orig_filename, load


def _size_of_directory(file: BinaryIO) -> int:
    """The bytes of a zip's list of members, as its last record gives them: `ZipFile` reads that list whole."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - (1 << 16) - 22))
    end = file.read()
    at = end.rfind(b"PK\5\6")
    listed = int.from_bytes(end[at + 12 : at + 16], "little")
    if listed == 0xFFFF_FFFF and (wide := end.rfind(b"PK\6\6", 0, at)) >= 0:
        listed = int.from_bytes(end[wide + 40 : wide + 48], "little")
    return listed


class _Metered:
    """A file as `tarfile` reads it, unpacked, that ends with an error before it gets too large."""

    def __init__(self, file: BinaryIO, packed: int) -> None:
        self._file = file
        self._limit = min(MAX_TOTAL, max(1 << 20, MAX_RATIO * packed))

    def read(self, size: int = -1) -> bytes:
        """At most `size` bytes, and never many at once: only headers and memories are read."""
        if not 0 <= size <= 2 * LIMIT:
            raise ArchiveRefused("a member has a header that is too large")
        data = self._file.read(size)
        self._require(self._file.tell())
        return data

    def seek(self, position: int) -> int:
        """Go to a place, which unpacks all that is before it."""
        self._require(position)
        return self._file.seek(position)

    def tell(self) -> int:
        """Where the next byte is read."""
        return self._file.tell()

    def _require(self, position: int) -> None:
        if position > self._limit:
            raise ArchiveRefused(f"it would unpack to more than {self._limit:,} bytes")


def _from_tar(packed: BinaryIO) -> Iterator[tuple[str, Load]]:
    packed.seek(0)
    is_packed = packed.read(2) == b"\x1f\x8b"
    packed.seek(0)
    with gzip.open(packed) if is_packed else packed as file:
        try:
            metered = _Metered(file, os.fstat(packed.fileno()).st_size)  # type: ignore[arg-type]
            archive = tarfile.TarFile(fileobj=metered)  # type: ignore[arg-type]
        except tarfile.ReadError:
            raise ArchiveRefused("it is not a folder, a zip, a tar or a tar.gz archive") from None
        for member in archive:
            if member.isdir():
                continue
            if not member.isreg():
                raise ArchiveRefused(f"{member.name!r} is a link or a device")

            def load(limit: int, member=member) -> bytes:  # type: ignore[no-untyped-def]
                file, data = archive.extractfile(member), bytearray()
                while file and len(data) < limit and (piece := file.read(min(limit - len(data), LIMIT + 1))):
                    data += piece
                if len(data) < min(member.size, limit):
                    raise EOFError("it was cut short")
                return bytes(data)

            yield member.name, load
        while archive.fileobj and archive.fileobj.read(LIMIT):
            pass  # the checksum of a packed archive stands at its very end
