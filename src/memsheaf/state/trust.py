"""Trust in what others can write, as recorded on this machine: accepted checkouts and known file versions.

A root inside a git working tree also holds what others committed, a team's what other members saved, and no header
can tell that apart. So each path and content version that came through our own commits is added to an append-only
file in the state directory of that root, outside of the repository. What is not listed is shared. A line that gets
lost makes a memory shared, never trusted.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Collection, Iterable

from memsheaf.errors import StoreFailed, hinted
from memsheaf.scope import REPOSITORIES_FILE, foreign_owners, is_accepted, read_repositories, repository_key
from memsheaf.state import State, line
from memsheaf.store import ABSENT, Commit, Version

NAME = "ledger"
FOLD_AT = 20_000  # lines
VERSIONS = 8  # of each path that stay when it is folded, so that `undo` comes back to what is known
_WAIT = 10.0  # seconds for a lock
_LINE = r'"path": (".*"\})\n'
_VERSION = '", "version": "'


class TrustLedger:
    """The ledger of one root in a checkout, or of a team; `prefix` is put before each path."""

    def __init__(self, state: State, checkout: str = "", prefix: str = "") -> None:
        self.state = state
        self.checkout = checkout
        self._prefix = prefix
        self._file = os.path.join(state.folder, NAME)
        self._inode = self._end = 0  # how far the file was read
        self._known: dict[str, None] = {}  # the lines from the path on, oldest first
        self._is_long = False

    def below(self, prefix: str) -> TrustLedger:
        """The same ledger, for a store that lies in a folder of the root."""
        return TrustLedger(self.state, self.checkout, self._prefix + prefix)

    @property
    def stamp(self) -> tuple[int, int]:
        """Differs when something was added."""
        try:
            found = os.stat(self._file)
        except OSError:
            return 0, 0
        return found.st_ino, found.st_size

    def knows(self, path: str, version: Version) -> bool:
        """Whether this machine wrote this version, or a person accepted it."""
        return not self.find_unknown([(path, version)])

    def find_unknown(self, files: Iterable[tuple[str, Version]]) -> set[str]:
        """The paths of the files that were not written here."""
        if self.stamp != (self._inode, self._end):
            self._read()
        known, prefix = self._known, self._prefix
        return {path for path, version in files if f'"{prefix}{path}{_VERSION}{version}"}}' not in known}

    def add(self, versions: Iterable[tuple[str, Version]], by: str) -> None:
        """Record versions. Raises StoreFailed, Busy."""
        found = list(versions)
        unknown = self.find_unknown(found)
        fresh = [(path, version) for path, version in found if path in unknown]
        if not fresh:
            return
        lines = [line({"path": self._prefix + path, "version": version, "by": by}) for path, version in fresh]
        with self.state.lock(NAME, wait=_WAIT):
            self.state.add(NAME, b"\n" + b"".join(lines), durably=False)
            if self._is_long:
                self._read()
                self._fold()

    def add_outside(self, commit: Commit) -> None:
        """Record what a person saved in the folder, if this commit is of that. Raises StoreFailed, Busy."""
        if commit.by == "outside" and not commit.undoes:
            self.add(written([commit]), commit.by)

    def forget(self, paths: Collection[str]) -> None:
        """Remove every line about these paths. Raises StoreFailed, Busy."""
        gone = {f'"{self._prefix}{path}' for path in paths}
        with self.state.lock(NAME, wait=_WAIT):
            self._read()
            kept = {one: None for one in self._known if one.partition(_VERSION)[0] not in gone}
            if kept != self._known:
                self._known = kept
                self._fold()

    def _read(self) -> None:
        """Take in what was added since the last time, or all of it when the file is another one."""
        try:
            with open(self._file, "rb") as file:
                inode = os.fstat(file.fileno()).st_ino
                begun_again = inode != self._inode or os.fstat(file.fileno()).st_size < self._end
                if begun_again:
                    self._known, self._end = {}, 0
                file.seek(self._end)
                data = file.read()
                data = data[: data.rfind(b"\n") + 1]  # a line that is being written is read the next time
                self._inode, self._end = inode, self._end + len(data)
        except OSError:
            self._known, self._inode, self._end = {}, 0, 0
            return
        # no name has a character that JSON escapes, so that a line need not be parsed
        self._known |= dict.fromkeys(re.findall(_LINE, data.decode("utf-8", "surrogateescape")))
        if begun_again and len(self._known) > FOLD_AT:
            self._is_long = len(self._known) > VERSIONS // 2 * len(
                {one.partition(_VERSION)[0] for one in self._known}
            )

    def _fold(self) -> None:
        """Keep the last versions of each path that is known. The caller holds the lock."""
        kept: dict[str, list[str]] = {}
        for one in self._known:
            kept.setdefault(one.partition(_VERSION)[0], []).append(f'{{"by": "fold", "path": {one}\n')
        lines = (one for lines in kept.values() for one in lines[-VERSIONS:])
        self.state.write(NAME, "".join(lines).encode("utf-8", "surrogateescape"))
        self._is_long = False


def written(commits: Iterable[Commit]) -> list[tuple[str, Version]]:
    """The versions that commits brought, by path."""
    return [(step.path, step.after) for one in commits for step in one.revisions if step.after != ABSENT]


def accept(home: str, checkout: str) -> None:
    """Record that a person accepts the memory of this checkout. Raises StoreFailed, Busy."""
    if not is_accepted(home, checkout):
        entry = {"since": time.strftime("%Y-%m-%d"), "owners": sorted(foreign_owners(checkout))}
        _change_accepted(home, lambda known: known | {repository_key(checkout): entry})


def withdraw(home: str, checkout: str) -> None:
    """Remove that record; the files stay as they are. Raises StoreFailed, Busy."""
    gone = repository_key(checkout)
    _change_accepted(home, lambda known: {name: entry for name, entry in known.items() if name != gone})


def _change_accepted(home: str, change: Callable[[dict[str, object]], dict[str, object]]) -> None:
    state = State(home)
    with state.lock("repositories", wait=_WAIT):
        known = read_repositories(home)
        if known is None:
            error = StoreFailed(f"{REPOSITORIES_FILE} in {home!r} is not valid JSON, so it is left unchanged")
            raise hinted(error, "Fix it, or remove it and accept each repository again.")
        if (new := change(known)) != known:
            state.write(REPOSITORIES_FILE, json.dumps(new, indent=2, sort_keys=True).encode() + b"\n")
