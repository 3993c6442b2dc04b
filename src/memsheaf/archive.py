"""Memories as a folder or an archive: what goes out comes back the same, and nothing comes in sideways.

Names in an archive are hostile until checked, sizes are capped before a byte is unpacked, modes and links
are not taken over.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from memsheaf.errors import ArchiveRefused, PathRefused, StoreFailed
from memsheaf.guard.names import RESERVED_FILES, check_path, fold
from memsheaf.memory import LIMIT

MAX_MEMBERS = 200_000
MAX_TOTAL = 1 << 30
MAX_RATIO = 200  # unpacked to packed, past the first megabyte


@dataclass(frozen=True, slots=True)
class Member:
    """One Markdown file of a folder or an archive; with `why` it may not come in."""

    path: str
    data: bytes = b""
    why: str = ""


def read(source: str) -> Iterator[Member]:
    """Go through the Markdown files of a folder, a zip or a tar archive; the catalog and hidden ones are passed over.

    Raises:
        ArchiveRefused: a name reaches outside, two names are one file, it is damaged, or it is too large.
    """
    if os.path.isdir(source):
        members = _from_folder(source)
    elif not os.path.exists(source):
        raise _missing(source)
    else:
        members = _from_file(source)
    seen: dict[str, str] = {}
    total = 0
    for number, (name, load) in enumerate(members):
        if number >= MAX_MEMBERS:
            raise ArchiveRefused(f"more than {MAX_MEMBERS:,} members")
        name = _inside(name)
        if _is_passed_over(name):
            continue
        try:
            path = check_path(name)
        except PathRefused as error:
            yield Member(name, why=str(error))
            continue
        if other := seen.get(fold(path)):
            raise ArchiveRefused(f"{other!r} and {path!r} are one file on some file systems")
        seen[fold(path)] = path
        try:
            data = load()
        except _broken() as error:
            raise ArchiveRefused(f"{name!r} cannot be unpacked: {error}") from None
        total += len(data)
        if total > MAX_TOTAL:
            raise ArchiveRefused(f"more than {MAX_TOTAL >> 20} MiB of text")
        yield Member(path, data)


def _missing(source: str) -> ArchiveRefused:
    error = ArchiveRefused(f"there is no {source!r}")
    error.hint = "Name a folder, a zip or a tar archive."
    return error


def write(target: str, files: Iterator[tuple[str, bytes]]) -> int:
    """Write memories to a new `.zip`, `.tar.gz` or folder, the same bytes for the same memories; say how many.

    Raises:
        ArchiveRefused: the target exists already.
        StoreFailed: it cannot be written; nothing of it is left behind.
    """
    if os.path.lexists(target):
        raise ArchiveRefused(f"{target!r} exists already")
    ordered = sorted(files)
    part = f"{target.rstrip(os.sep)}.part-{os.urandom(4).hex()}"
    try:
        if target.endswith(".zip"):
            _write_zip(part, ordered)
        elif target.endswith((".tar.gz", ".tgz", ".tar")):
            _write_tar(part, ordered, packed=not target.endswith(".tar"))
        else:
            _write_folder(part, ordered)
        os.rename(part, target)
    except OSError as error:
        _remove(part)
        raise StoreFailed(f"{target!r} cannot be written: {error.strerror or error}") from error
    return len(ordered)


def _write_folder(target: str, files: list[tuple[str, bytes]]) -> None:
    os.mkdir(target, 0o700)
    for path, data in files:
        place = os.path.join(target, *path.split("/"))
        os.makedirs(os.path.dirname(place), 0o700, exist_ok=True)
        with open(place, "xb") as file:
            file.write(data)


def _remove(part: str) -> None:
    import shutil

    if os.path.isdir(part):
        shutil.rmtree(part, ignore_errors=True)
    else:
        with suppress(OSError):
            os.unlink(part)


def _broken() -> tuple[type[Exception], ...]:
    """What unpacking raises when an archive is damaged, lies, or is locked with a password."""
    import tarfile
    import zipfile
    import zlib

    return zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, OSError, RuntimeError, NotImplementedError


def _inside(name: str) -> str:
    """The name of a member without a leading `./`. Raises ArchiveRefused when it reaches outside."""
    while name.startswith("./"):
        name = name[2:]
    steps = name.split("/")
    drive = len(name) > 1 and name[1] == ":"
    if not name or "\\" in name or "\0" in name or name.startswith("/") or ".." in steps or drive:
        raise ArchiveRefused(f"the member {name[:200]!r} reaches outside")
    return name


def _is_passed_over(name: str) -> bool:
    """Whether a member is nothing for us: hidden, not Markdown, or made by machines."""
    *folders, base = name.split("/")
    hidden = any(part.startswith(".") for part in (*folders, base))
    return hidden or not base.lower().endswith(".md") or base.casefold() in RESERVED_FILES


def _from_folder(folder: str) -> Iterator[tuple[str, Callable[[], bytes]]]:
    def fail(error: OSError) -> None:
        raise ArchiveRefused(f"{error.filename!r} cannot be read: {error.strerror}")

    for here, folders, names in os.walk(folder, followlinks=False, onerror=fail):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            place = os.path.join(here, name)
            if stat.S_ISREG(os.lstat(place).st_mode):
                yield os.path.relpath(place, folder).replace(os.sep, "/"), _loader(place)


def _loader(place: str) -> Callable[[], bytes]:
    def load() -> bytes:
        with open(place, "rb") as file:
            return file.read(LIMIT + 1)

    return load


def _from_file(source: str) -> Iterator[tuple[str, Callable[[], bytes]]]:
    import tarfile
    import zipfile

    try:
        if zipfile.is_zipfile(source):
            yield from _from_zip(source)
        elif tarfile.is_tarfile(source):
            yield from _from_tar(source)
        else:
            raise ArchiveRefused(f"{source!r} is not a folder, a zip or a tar archive")
    except _broken() as error:
        raise ArchiveRefused(f"{source!r} cannot be read: {error}") from None


def _from_zip(source: str) -> Iterator[tuple[str, Callable[[], bytes]]]:
    from zipfile import ZipFile

    with ZipFile(source) as archive:
        members = archive.infolist()
        if len(members) > MAX_MEMBERS:
            raise ArchiveRefused(f"more than {MAX_MEMBERS:,} members")
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

            def load(member=member) -> bytes:  # type: ignore[no-untyped-def]
                with archive.open(member) as file:
                    return file.read(LIMIT + 1)

            yield member.orig_filename, load


def _from_tar(source: str) -> Iterator[tuple[str, Callable[[], bytes]]]:
    import tarfile

    with tarfile.open(source) as archive:
        for member in archive:
            if member.isdir():
                continue
            if not member.isreg():
                raise ArchiveRefused(f"{member.name!r} is a link or a device")

            def load(member=member) -> bytes:  # type: ignore[no-untyped-def]
                file = archive.extractfile(member)
                data = file.read(LIMIT + 1) if file else b""
                if len(data) < min(member.size, LIMIT + 1):
                    raise EOFError("it was cut short")
                return data

            yield member.name, load
        while archive.fileobj and archive.fileobj.read(1 << 20):
            pass  # the checksum of a packed archive stands at its very end


def _write_zip(target: str, files: list[tuple[str, bytes]]) -> None:
    from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

    with ZipFile(target, "x", ZIP_DEFLATED) as archive:
        for path, data in files:
            info = ZipInfo(path, (1980, 1, 1, 0, 0, 0))
            info.compress_type = ZIP_DEFLATED
            info.external_attr = 0o600 << 16
            archive.writestr(info, data)


def _write_tar(target: str, files: list[tuple[str, bytes]], *, packed: bool) -> None:
    import gzip
    import tarfile
    from io import BytesIO

    content = BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path, data in files:
            info = tarfile.TarInfo(path)
            info.size, info.mode = len(data), 0o600
            archive.addfile(info, BytesIO(data))
    with open(target, "xb") as file:
        file.write(gzip.compress(content.getvalue(), mtime=0) if packed else content.getvalue())
