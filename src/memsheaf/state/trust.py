"""Trust in what others can write, as recorded on this machine: accepted checkouts and known file versions.

A root inside a git working tree also holds what others committed, a team's what other members saved, and no header
can tell that apart. So each path and content version that came through our own commits is recorded in `state.db`,
outside of the repository. What is not recorded is shared. A record that gets lost makes a memory shared, never
trusted.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterable

from memsheaf.errors import StoreFailed
from memsheaf.scope import REPOSITORIES_FILE, foreign_owners, is_accepted, read_repositories, repository_key
from memsheaf.state import State
from memsheaf.store import ABSENT, Commit, Version

MAX_VERSIONS = 100  # of each path that stay, so that `undo` comes back to what is known
LOCK_SECONDS = 10.0
_PATH = "folder = ?1 AND path = ?2"


class TrustLedger:
    """The ledger of one root in a checkout, or of a team; `prefix` is put before each path."""

    def __init__(self, state: State, checkout: str = "", prefix: str = "") -> None:
        self.state = state
        self.checkout = checkout
        self._prefix = prefix

    def below(self, prefix: str) -> TrustLedger:
        """Return the same ledger, for a store that lies in a folder of the root."""
        return TrustLedger(self.state, self.checkout, self._prefix + prefix)

    @property
    def stamp(self) -> int:
        """A number that grows when something is added, 0 for an empty ledger."""
        rows = self.state.query("SELECT max(id) FROM trusted WHERE folder = ?", self.state.name)
        return (rows and rows[0][0]) or 0

    def knows(self, path: str, version: Version) -> bool:
        """Return True if this machine wrote this version, or a person accepted it."""
        return not self.find_unknown([(path, version)])

    def find_unknown(self, files: Iterable[tuple[str, Version]]) -> set[str]:
        """Return the paths of the files that were not written here."""
        wanted = list(files)
        rows = self.state.query(
            "SELECT trusted.path, version FROM json_each(?2) CROSS JOIN trusted"
            " ON folder = ?1 AND trusted.path = value ->> 0 AND version = value ->> 1",
            self.state.name,
            json.dumps([(self._prefix + path, version) for path, version in wanted]),
        )
        known = set(rows)
        return {path for path, version in wanted if (self._prefix + path, version) not in known}

    def add(self, versions: Iterable[tuple[str, Version]]) -> None:
        """Record versions. Raises StoreFailed, Busy."""
        wanted = list(versions)
        unknown = self.find_unknown(wanted)
        fresh = [(self.state.name, self._prefix + path, version) for path, version in wanted if path in unknown]
        if not fresh:
            return
        with self.state.writing(durable=False, wait=LOCK_SECONDS) as db:
            db.executemany("INSERT OR IGNORE INTO trusted (folder, path, version) VALUES (?, ?, ?)", fresh)
            # the sign keeps SQLite to the index of paths, which are few
            newest = f"SELECT id FROM trusted WHERE {_PATH} ORDER BY +id DESC LIMIT {MAX_VERSIONS}"
            db.executemany(f"DELETE FROM trusted WHERE {_PATH} AND id NOT IN ({newest})", [row[:2] for row in fresh])

    def add_outside(self, commit: Commit) -> None:
        """Record what a person saved in the folder, if this commit is of that. Raises StoreFailed, Busy."""
        if commit.by == "outside" and not commit.undoes:
            self.add(list_versions([commit]))

    def forget(self, paths: Collection[str]) -> None:
        """Remove all that is recorded of these paths. Raises StoreFailed, Busy."""
        with self.state.writing() as db:
            rows = [(self.state.name, self._prefix + path) for path in paths]
            db.executemany(f"DELETE FROM trusted WHERE {_PATH}", rows)


def list_versions(commits: Iterable[Commit]) -> list[tuple[str, Version]]:
    """Return the versions that commits brought, by path."""
    return [(step.path, step.after) for commit in commits for step in commit.revisions if step.after != ABSENT]


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
    with state.lock("repositories", wait=LOCK_SECONDS):
        known = read_repositories(home)
        if known is None:
            raise StoreFailed(
                f"{REPOSITORIES_FILE} in {home!r} is not valid JSON, so it is left unchanged",
                hint="Fix it, or remove it and accept each repository again.",
            )
        if (new := change(known)) != known:
            state.write(REPOSITORIES_FILE, json.dumps(new, indent=2, sort_keys=True).encode() + b"\n")
