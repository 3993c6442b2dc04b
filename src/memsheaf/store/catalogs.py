"""Hashes of the catalogs we published, so that a hand-written MEMORY.md is never replaced unseen.

MEMORY.md is generated, but the name is not ours alone: people and other programs write such a file by hand. A text is
replaced only when its hash is recorded here. Losing the record loses nothing: a text that is not known is kept.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import suppress
from hashlib import blake2b
from itertools import count

from memsheaf.errors import Changed, MemsheafError, PathRefused
from memsheaf.guard.paths import CATALOG
from memsheaf.memory import MAX_MEMORY_BYTES
from memsheaf.store import ABSENT, Revision, version_of
from memsheaf.store.history import History
from memsheaf.store.safe_dir import Folder, read_file, stage

RECORDED = 4_096  # the newest that are kept when the record is trimmed
_DIGITS = 16
_LARGEST = 64 << 20
_POINTER = rb"\s*[-*+] \[[^\]]*\]\(<?([^()<>]+\.md)>?\).*"
_BLANK = b"\0 \t\r\n"  # a power cut may leave zeros


def publish(root: Folder, drafts: Folder, history: History, name: str, data: bytes, *, sure: bool) -> None:
    """Put a derived text in the root: whole for every reader, over nothing but what is ours.

    The caller may be `sure` that what stands there is ours. The draft and what stands there change places, and what
    came out is looked at once more.

    Raises:
        Changed: what stands there was not published by us; it stays.
    """
    if not sure and not _may_replace(root, history, name, data):
        raise Changed(name)
    record(history, data)
    draft = f"derived-{os.urandom(8).hex()}"
    stage(drafts, draft, data)
    try:
        is_displaced = drafts.swap(draft, root, name)
        if is_displaced and not _may_replace(drafts, history, draft, data):
            drafts.swap(draft, root, name)  # saved since we looked: it goes back
            raise Changed(name)
        if not is_displaced:
            drafts.rename(draft, root, name)
    except FileNotFoundError:  # it is the first one
        try:
            drafts.rename_new(draft, root, name)
        except FileExistsError:
            raise Changed(name) from None
    finally:
        with suppress(FileNotFoundError):
            drafts.unlink(draft)


def _may_replace(folder: Folder, history: History, name: str, data: bytes) -> bool:
    """Return True if what has this name is nothing, what is about to be published, or what we published before."""
    try:
        found = read_file(folder, name, _LARGEST)
    except FileNotFoundError:
        return True
    except PathRefused:
        return False
    return found == data or is_ours(history, found)


def record(history: History, data: bytes) -> None:
    """Note that a text is ours, before it is published."""
    with history.writing(durable=False) as db:
        db.execute("INSERT OR REPLACE INTO catalogs (hash) VALUES (?)", (_hash(data),))


def is_ours(history: History | None, data: bytes) -> bool:
    """Return True for a text that we published, or that says nothing at all."""
    if not data.strip(_BLANK):
        return True
    older = version_of(data)[:_DIGITS]  # as catalogs were recorded before
    return bool(history and history.rows("SELECT 1 FROM catalogs WHERE hash IN (?, ?)", _hash(data), older))


def trim(history: History) -> None:
    """Forget all but the newest."""
    with history.writing(durable=False) as db:
        db.execute("DELETE FROM catalogs WHERE n <= (SELECT max(n) FROM catalogs) - ?", (RECORDED,))


def keep_lines(found: bytes, shown: bytes, present: Callable[[str], bytes | None]) -> Revision | None:
    """Return the change of the file beside the catalog that adds what `found` says and `shown` does not, or None.

    A text that somebody wrote is kept whole. Of our catalog with lines added by hand, these lines are kept, in the
    file that the last ones went to. A line that only points to a file that is there is not: the catalog lists it.
    """
    lines = [line for line in found.splitlines() if line.strip()]
    known = set(shown.splitlines())
    telling = [line for line in lines if line not in known and not _points_to_file(line, present)]
    for number in count(1):
        path = CATALOG.replace(".md", f"-kept-{number}.md" if number > 1 else "-kept.md")
        try:
            old = present(path)
        except MemsheafError:  # a link, or too large: not ours to change
            continue
        telling = [line for line in telling if line not in set((old or b"").splitlines())]
        if not telling:
            return None
        whole = old is None and 2 * len(telling) > len(lines)
        text = found if whole else (old.rstrip() + b"\n\n" if old else b"") + b"\n".join(telling) + b"\n"
        if old is None or len(text) <= MAX_MEMORY_BYTES:
            return Revision(path, version_of(old) if old is not None else ABSENT, version_of(text), old, text)
    raise AssertionError("counting does not end")


def _points_to_file(line: bytes, present: Callable[[str], bytes | None]) -> bool:
    """Return True for a line of a list that points to a file, as a catalog has them, if that file is there."""
    found = re.fullmatch(_POINTER, line)
    with suppress(MemsheafError, UnicodeDecodeError):
        return found is not None and present(found[1].decode()) is not None
    return False


def _hash(data: bytes) -> str:
    return blake2b(data, digest_size=_DIGITS // 2).hexdigest()
