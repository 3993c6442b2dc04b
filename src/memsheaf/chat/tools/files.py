"""Read, edit and replace files below one directory, safe against symbolic links.

A path is resolved once, with its links, and is judged by where it leads. What is opened then is that very place, step
by step from the working directory, and no step may be a link.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

from memsheaf.errors import PathRefused, Refused
from memsheaf.guard.secrets import REMOVED
from memsheaf.open_scope import diff
from memsheaf.store import Revision, version_of
from memsheaf.store.atomic_replace import READ_LIMIT, Placing
from memsheaf.store.safe_dir import CREATE, READ, Folder, flush, read_all, walk, write_all
from memsheaf.text.neutralize import one_line

BOM = "\ufeff"
MAX_FILE_BYTES = READ_LIMIT  # of a file that may be read or changed
MAX_COMPARED_CHARS = 100_000**2  # of both texts, multiplied
SAVING_SECONDS = 0.02  # that an empty file is given to be filled by who is just saving it


class ResolvedPath(NamedTuple):
    """The place that a path leads to: `real` is without links; `shown` is its name, from the root if inside."""

    shown: str
    real: str
    outside: bool


class FileContent(NamedTuple):
    """A plain file: its bytes, and what is kept when it is replaced."""

    data: bytes
    mode: int
    owner: tuple[int, int]


def resolve_path(root: str, path: str) -> ResolvedPath:
    """Return where a path leads that a model wrote, from the folder `root`, which has no links in it.

    Raises:
        Refused: it leads nowhere.
    """
    if not path or "\0" in path:
        raise Refused("a path must not be empty" if not path else "a path must not hold a NUL character")
    if path.startswith("~"):
        raise Refused("'~' is not expanded: write the path in full, or './~…' for a file whose name begins so")
    try:
        real = os.path.realpath(os.path.join(root, path))
        os.fsencode(real)
    except (OSError, ValueError):
        raise Refused(f"{quote_path(path)} is no path") from None
    inside = is_within(real, root)
    shown = os.path.relpath(real, root).replace(os.sep, "/") if inside else real
    if not inside and is_within(real, "/proc"):
        raise Refused(f"{quote_path(path)} is not a regular file; read it with the shell, if at all")
    return ResolvedPath(shown, real, not inside)


def quote_path(path: str) -> str:
    """Return a path for a message: whole and in quotes, on one line."""
    return f"'{path}'" if path.isprintable() else one_line(ascii(path), 400)


def is_within(path: str, folder: str) -> bool:
    """Return True if a path is a folder or lies below it; both are without links.

    >>> is_within("/srv/app", "/srv/app"), is_within("/srv/apple", "/srv/app")
    (True, False)
    """
    path = os.path.normcase(path)
    folder = os.path.normcase(folder)
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


@contextmanager
def open_parent(root: str, place: ResolvedPath) -> Iterator[tuple[Folder, str]]:
    """Open the folder that holds a place, without following links, and give it with the last name.

    Raises:
        Refused: somebody has put a link in the way.
    """
    base = os.path.join(os.path.splitdrive(place.real)[0], os.sep) if place.outside else root
    steps = os.path.relpath(place.real, base).replace(os.sep, "/")
    try:
        with Folder.open(base) as anchor, walk(anchor, steps) as found:
            yield found
    except PathRefused as error:
        raise Refused(f"{quote_path(place.shown)} cannot be reached: {error.why}") from None


@contextmanager
def folder_at(root: str, place: ResolvedPath) -> Iterator[Folder]:
    """Open a folder, without following links. Raises Refused, and OSError when it is none."""
    if place.real == root:
        with Folder.open(root) as found:
            yield found
        return
    inner = ResolvedPath(place.shown, os.path.join(place.real, "any"), place.outside)
    with open_parent(root, inner) as (found, _):
        yield found


def fetch(root: str, place: ResolvedPath) -> FileContent | None:
    """Read a file; None when there is none.

    Raises:
        Refused: it is no plain file, or too large.
        OSError: it may not be read.
    """
    try:
        with open_file(root, place) as fd:
            found = os.fstat(fd)
            data = read_all(fd, MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        return None
    if len(data) > MAX_FILE_BYTES:
        raise Refused(f"{quote_path(place.shown)} is larger than {MAX_FILE_BYTES >> 10} KiB; use the shell")
    return FileContent(data, stat.S_IMODE(found.st_mode), (found.st_uid, found.st_gid))


def replace_file(root: str, place: ResolvedPath, data: bytes, old: FileContent | None) -> None:
    """Put a text in the place of what was found there: whole, in one step, with the same mode.

    Folders that are missing are made, inside the root.

    Raises:
        Refused: the file is no longer as it was found, or somebody has put a link in the way. Nothing was written.
        OSError: it may not be written, or the disk is full.
    """
    if old is None and not place.outside:
        _make_folders(root, place)
    with open_parent(root, place) as (folder, name):
        draft = _stage(folder, data, old)
        try:
            before = version_of(None if old is None else old.data)
            after = version_of(data)
            revision = Revision(name, before, after, old.data if old else None, data)
            met = Placing(folder, folder, SAVING_SECONDS).place(revision, draft)
        finally:
            with suppress(OSError):
                folder.unlink(draft)
    if met:
        raise Refused(
            f"{quote_path(place.shown)} was changed by somebody else meanwhile; nothing was written. Read it again"
        )


@contextmanager
def open_file(root: str, place: ResolvedPath) -> Iterator[int]:
    """Open a plain file for reading. Anything else is not opened, as that could block or have effects."""
    with open_parent(root, place) as (folder, name):
        found = folder.stat(name)
        if stat.S_ISDIR(found.st_mode):
            raise Refused(f"{quote_path(place.shown)} is a folder; glob lists what is in it")
        if not stat.S_ISREG(found.st_mode):
            raise Refused(f"{quote_path(place.shown)} is no plain file")
        fd = folder.open_file(name, READ)
        try:
            yield fd
        finally:
            os.close(fd)


def _make_folders(root: str, place: ResolvedPath) -> None:
    """Make the folders above a place as far as they are missing, with the mode that the user's umask gives.

    A folder is made by its path. Should a link be swapped in above it in this very moment, an empty folder is made
    elsewhere, and the next step, which follows no link, refuses to go on.
    """
    above = os.path.relpath(os.path.dirname(place.real), root)
    steps: Sequence[str] = () if above == os.curdir else above.split(os.sep)
    for depth in range(1, len(steps) + 1):
        missing = ResolvedPath(place.shown, os.path.join(root, *steps[:depth]), False)
        with open_parent(root, missing) as (folder, name), suppress(FileExistsError):
            os.mkdir(os.path.join(folder.path, name))


def _stage(folder: Folder, data: bytes, old: FileContent | None) -> str:
    """Write a draft beside the file that it will replace, with that one's mode and owner; give its name."""
    draft = f".memsheaf-{os.getpid()}-{os.urandom(4).hex()}.tmp"
    fd = folder.open_file(draft, CREATE, 0o666 if old is None else 0o600)
    try:
        write_all(fd, data)
        if old is not None and sys.platform != "win32":
            with suppress(OSError):
                os.fchown(fd, *old.owner)  # only root may give a file away
            os.fchmod(fd, old.mode)
        flush(fd)
    except BaseException:
        folder.unlink(draft)
        raise
    finally:
        os.close(fd)
    return draft


def replace_text(text: str, old: str, new: str, *, count: int, name: str) -> str:
    """Return the text with a piece replaced that occurs exactly `count` times. Its line ends stay as they are.

    Raises:
        Refused: the piece does not occur so often, or nothing would change.
    """
    if not old or old == new:
        raise Refused("old_text is empty; give the exact text to replace" if not old else "new_text is old_text")
    refuse_masks(new, old, name)
    ways = ((old, new), *((_with_ends(old, end), _with_ends(new, end)) for end in ("\r\n", "\n")))
    old, new = next((way for way in ways if way[0] in text), ways[0])
    if 2 * text.count("\r\n") > text.count("\n"):
        new = _with_ends(new, "\r\n")
    before = text.split(old)[:-1]
    if not before:
        raise Refused(
            f"old_text is not in {quote_path(name)}. Read it, and copy the text exactly, with spaces and line ends, "
            "but without the numbers of the lines"
        )
    if len(before) != count:
        raise Refused(
            f"old_text occurs {len(before)} times in {quote_path(name)}. "
            f"Give more of the text around it, or say count={len(before)} to change all"
        )
    return text.replace(old, new)


def keep_form(content: str, was: str | None) -> str:
    """Return a new text in the form of the old one: byte order mark and line ends, which a model does not see.

    >>> keep_form("a\\nb\\n", "x\\r\\n")
    'a\\r\\nb\\r\\n'
    """
    if was is None:
        return content
    if was.count("\r\n") == was.count("\n") > 0 and "\r" not in content:
        content = _with_ends(content, "\r\n")
    return BOM + content if was.startswith(BOM) and not content.startswith(BOM) else content


def refuse_masks(new: str, old: str, name: str) -> None:
    """Raise Refused for a text with more places where a secret was hidden: they would replace the secret."""
    if new.count(REMOVED) > old.count(REMOVED):
        raise Refused(
            f"the text holds '{REMOVED}…', which stands where a secret in {quote_path(name)} is hidden from you: "
            "it would be lost. Use edit, and leave those places as they are"
        )


def diff_texts(path: str, old: str, new: str) -> tuple[str, int, int]:
    """Return a change as a unified diff, with the numbers of lines added and removed."""
    if len(old) * len(new) > MAX_COMPARED_CHARS:
        return f"(too large to compare)\n{new}", new.count("\n"), old.count("\n")
    text = diff(path, old, new) if old else f"--- {path}  before\n+++ {path}  new\n{_prefix_lines(new)}"
    lines = text.split("\n")[2:]
    return text, sum(line.startswith("+") for line in lines), sum(line.startswith("-") for line in lines)


def _prefix_lines(text: str) -> str:
    return "\n".join(f"+{line}" for line in text.removesuffix("\n").split("\n"))


def _with_ends(text: str, end: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", end)
