"""Which catalogs we published, and what is kept of one that we did not: `.history/catalogs`, a hash a line.

MEMORY.md is generated, but the name is not ours alone: people and other programs write such a file by hand. A text is
replaced only when its hash is recorded here. Losing the record loses nothing: a text that is not known is kept.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count

from memsheaf.errors import MemsheafError
from memsheaf.guard.paths import CATALOG
from memsheaf.memory import LIMIT
from memsheaf.store import ABSENT, Revision, version_of
from memsheaf.store.safe_dir import APPEND, Folder, read_file, stage, write_all
from memsheaf.values import blake2b

NAME = "catalogs"
RECORDED = 4_096  # the newest that are kept when the record is trimmed
_DIGITS = 16
_LARGEST = 64 << 20
_BLANK = b"\0 \t\r\n"  # a power cut may leave zeros


def record(history: Folder, data: bytes) -> None:
    """Note that a text is ours, before it is published."""
    fd = history.open_file(NAME, APPEND | os.O_CREAT)
    try:
        write_all(fd, _line(data))
    finally:
        os.close(fd)


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


def kept(found: bytes, shown: bytes, present: Callable[[str], bytes | None]) -> Revision | None:
    """How the file beside the catalog changes so that it has what `found` says and `shown` does not; None if nothing.

    A text that somebody wrote is kept whole. Of our catalog with lines added by hand, these lines are kept, in the
    file that the last ones went to.
    """
    lines = [line for line in found.splitlines() if line.strip()]
    known = set(shown.splitlines())
    fresh = [line for line in lines if line not in known]
    for path in _names():
        try:
            old = present(path)
        except MemsheafError:  # a link, or too large: not ours to change
            continue
        fresh = [line for line in fresh if line not in set((old or b"").splitlines())]
        if not fresh:
            return None
        whole = old is None and 2 * len(fresh) > len(lines)
        text = found if whole else (old.rstrip() + b"\n\n" if old else b"") + b"\n".join(fresh) + b"\n"
        if old is None or len(text) <= LIMIT:
            return Revision(path, version_of(old) if old is not None else ABSENT, version_of(text), old, text)
    raise AssertionError("counting does not end")


def _names() -> Iterator[str]:
    stem = CATALOG.removesuffix(".md")
    yield from (f"{stem}-kept.md" if number == 1 else f"{stem}-kept-{number}.md" for number in count(1))


def _line(data: bytes) -> bytes:
    return blake2b(data, digest_size=_DIGITS // 2).hexdigest().encode() + b"\n"


def _older_line(data: bytes) -> bytes:
    """How catalogs were recorded before: by a hash that takes three times as long."""
    return version_of(data)[:_DIGITS].encode() + b"\n"
