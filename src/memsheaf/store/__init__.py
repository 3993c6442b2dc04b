"""The store's values: Document, Change, Commit, Version.

A store keeps texts at relative paths and promises, whatever it is made of:

- `read(path)` gives a whole old or a whole new text, without a lock.
- `scan()` lists what is there, one bad entry never hiding another.
- `commit(changes, by=…, why=…)` changes one or many texts, all or nothing, durably, provided that each
  is still at the version the caller saw. The loser gets `Changed`, and nothing is written.
- `history(path)` tells what happened, newest first, with the texts.
- `lock(name)` lets one process at a time do a named piece of work.

`tests/store/test_contract.py` is the contract; a backend is whatever passes it.

Deferred imports, to start quickly: ctypes and signals, for the system calls that Python lacks; shutil.
"""

from hashlib import sha256
from typing import NamedTuple

Version = str  # the SHA-256 of a text, in hex: two texts are the same version when they are the same bytes
ABSENT: Version = ""  # the version of a text that is not there
HISTORY = ".history"  # the folder of a journal, beside the texts or among git's own files
HUB = "hub.json"  # the file beside a journal that names the hub of a scope, if it has one
Stamp = tuple[int, int, int, int]  # mtime_ns, ctime_ns, size, inode: any edit changes it, unless in the same instant


def version_of(data: bytes | None) -> Version:
    """Name a text by its content.

    >>> version_of(b"tabs")[:12], version_of(None)
    ('32d3fedad4cf', '')
    """
    return ABSENT if data is None else sha256(data).hexdigest()


class Document(NamedTuple):
    """One text as it was read."""

    path: str
    data: bytes

    @property
    def version(self) -> Version:
        """The name of this text; pass it as `expect` to change just this one."""
        return version_of(self.data)

    @property
    def text(self) -> str:
        """The text, with replacement characters where the bytes are not UTF-8."""
        return self.data.decode("utf-8", "replace")


class ScanEntry(NamedTuple):
    """One file that a scan met. With a `problem` it is there but cannot be used."""

    path: str
    stamp: Stamp
    problem: str = ""


class Change(NamedTuple):
    """A text for `path` (None: no file), provided that `expect` is there now; with `moves`, at that path."""

    path: str
    data: bytes | None
    expect: Version
    moves: str = ""


class Revision(NamedTuple):
    """A step of one commit at one path. A text is None when absent, past retention, or erased."""

    path: str
    before: Version
    after: Version
    old: bytes | None = None
    new: bytes | None = None


class Commit(NamedTuple):
    """One change of one or many texts, as the journal keeps it.

    Only a commit that was just made knows `follows`, the commit before it, and `placed`, the time by which all its
    texts were written and none was in place yet: a file that is older has not been touched since. `scope` is
    where it was made, as far as a sheaf says it; several are joined by commas where changes were undone together.
    """

    id: str
    at: str
    by: str
    why: str
    revisions: tuple[Revision, ...]
    undoes: str = ""
    follows: str = ""
    placed: float = 0.0
    scope: str = ""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Commit) and self[:-3] == other[:-3]

    def __ne__(self, other: object) -> bool:
        return not self == other


class CommitStep(NamedTuple):
    """A step of a commit at one path; `has_text` is False past retention."""

    path: str
    before: Version
    after: Version
    has_text: bool

    @property
    def what(self) -> str:
        """`added`, `changed` or `removed`."""
        return "added" if not self.before else "changed" if self.after else "removed"


class CommitSummary(NamedTuple):
    """A commit without texts."""

    id: str
    at: str
    by: str
    why: str
    undoes: str
    steps: tuple[CommitStep, ...]


class Erased(NamedTuple):
    """The names and texts that an erasure removed; with the texts the caller can prove them gone."""

    path: str
    names: tuple[str, ...]
    versions: tuple[Version, ...]
    texts: tuple[bytes, ...]
