"""The interface of a hub, through which several machines share a scope, and the values it uses.

Each machine has a replica of the scope, an ordinary folder (`replica.py`); the hub orders the changes.

- `push(commit)` makes all its changes or none, provided that each path is still at the version `before`. What
  was pushed is durable and reaches every replica. Pushing the same commit again changes nothing.
- `pull(cursor)` returns what was pushed since, oldest first. Every commit is returned at least once, and commits that
  touch one path in the order in which they were made.
- Texts are kept byte for byte, and named by their content (`Version`).

`tests/hub/test_contract.py` checks this contract for `postgres.py` and `git.py`.

Deferred imports, to start quickly: psycopg, subprocess, the two hubs; most commands need none of them.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import NamedTuple, Protocol

from memsheaf.errors import HubRefused
from memsheaf.store import Commit, Version

COPY = os.path.join("hub.git", "repository.git")
"""The local copy of a git remote in the state directory of a scope; it may hold every text that was ever pushed."""
LOST_DAYS = 180
QUEUE_SECONDS = 2.0  # that a change waits for the hub where it can be pushed later
REFUSE_SECONDS, SLOWEST = 5.0, 50_000  # and where it cannot, with so many bytes a second besides

_ends: ContextVar[float] = ContextVar("ends", default=float("inf"))  # the deadline of this thread


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Limit the time that all calls to hubs in this thread may take together; then the hub counts as unreachable."""
    before = _ends.set(min(_ends.get(), time.monotonic() + seconds))
    try:
        yield
    finally:
        _ends.reset(before)


def time_left(most: float) -> float:
    """The timeout for a call to a hub: `most`, or the time until the deadline, at least 0."""
    return min(most, max(0.0, _ends.get() - time.monotonic()))


class HubCommit(NamedTuple):
    """A commit as the hub keeps it: its revisions have the new texts, never the old ones.

    `member` is who pushed it, taken from their login; "" where a hub has no logins. `own` says whether that is the
    caller. A revision with `after` and without `new` is past retention; a later commit replaces it.
    """

    commit: Commit
    member: str = ""
    machine: str = ""
    own: bool = False


class Erasure(NamedTuple):
    """A memory that was erased for all: its names and versions. Each machine erases it, and reports."""

    id: str
    names: tuple[str, ...]
    versions: tuple[Version, ...]
    member: str = ""
    at: str = ""


class Pulled(NamedTuple):
    """The commits since a cursor. When `whole`, they are everything that is there now: at the first pull, and when
    the history since the cursor is no longer kept."""

    commits: Sequence[HubCommit]
    cursor: str
    whole: bool = False
    erasures: Sequence[Erasure] = ()


class HubMember(NamedTuple):
    """A person or machine that may read, write or administer."""

    name: str
    role: str
    since: str = ""


class Machine(NamedTuple):
    """A registered replica; `erased` are the ids of the erasures that it reported, each with what it could not erase,
    "" for nothing."""

    id: str
    name: str
    member: str
    seen: str
    erased: tuple[tuple[str, str], ...] = ()

    @property
    def shown(self) -> str:
        """Its name, whose it is, and when it was last there."""
        return f"{self.name}{f' of {self.member}' if self.member else ''}, last seen {self.last_seen}"

    @property
    def is_lost(self) -> bool:
        """Return True if it was away for so long that no erasure waits for it; it still erases when it comes."""
        return self.seen < time.strftime("%Y-%m-%d", time.gmtime(time.time() - LOST_DAYS * 86_400))

    @property
    def last_seen(self) -> str:
        """The minute in which it was last there, in UTC."""
        return f"{self.seen[:16].replace('T', ' ')}Z"


class Hub(Protocol):
    """One namespace of a hub, opened for one machine."""

    @property
    def me(self) -> str:
        """The member that this connection acts for; "" where a hub has no logins."""

    @property
    def notice(self) -> str:
        """A warning when the versions of the hub and of this program differ, else ""."""

    def push(self, *commits: Commit) -> str:
        """Make commits in this order, each whole or not at all; returns the position of the last one.

        A pull from a later cursor does not return them. A commit whose id the hub has is not made again.

        Raises:
            Changed: a path is not at the version `before`; that commit and those after it were not made.
            PathRefused: it would be one file with another where case and composition of names do not count.
            HubUnreachable: no answer. The commits may have been made; pushing them again is safe.
            HubRefused: no permission, a client or a schema that is too old, or a commit that is too large.
        """

    def pull(self, cursor: str = "") -> Pulled:
        """Return what was pushed since a cursor; with "", everything that is there now.

        Raises:
            HubUnreachable, HubRefused.
            HubRestored: the hub does not have what was pulled before: it was restored from an older backup.
        """

    def wait(self, seconds: float) -> bool:
        """Wait for a notification that something was pushed; True when one came. Notifications may be lost."""

    def lock(self, name: str, *, wait: float = 0.0) -> AbstractContextManager[object]:
        """A lock among all machines. Raises Busy, HubUnreachable."""

    def erase(self, erasure: Erasure) -> None:
        """Delete every text of these names and versions, and tell all machines to do so. Idempotent.

        A version that a path of another name has now is kept.
        """

    def report(self, machine: Machine) -> None:
        """Register this machine, and report which erasures it has carried out."""

    def users(self) -> tuple[Sequence[HubMember], Sequence[Machine]]:
        """The members, and the machines that reported."""

    def log(self, limit: int = 50) -> Sequence[HubCommit]:
        """The last commits, newest first, without texts."""

    def close(self) -> None:
        """Close the connection."""


class HubSettings(NamedTuple):
    """The hub of one scope, as this machine keeps it beside the journal.

    `url` may hold a password, so the file is for its owner only; `shown` does not. `offline` is "refuse" or "queue",
    and "" for what is usual: a database refuses, git queues. `unreadable` is the file of these settings when it is
    damaged: the memories can be read, and nothing is saved.
    """

    url: str
    namespace: str
    machine: str
    machine_name: str
    offline: str = ""
    unreadable: str = ""

    @property
    def is_postgres(self) -> bool:
        """Return True if a database is the hub; otherwise git is."""
        return self.url.startswith(("postgresql://", "postgres://"))

    @property
    def is_shared(self) -> bool:
        """Return True if several members write here: all of a database but what is one member's own."""
        return self.is_postgres and ":user/" not in self.namespace

    @property
    def member_login(self) -> str:
        """The login in a database; "" for git."""
        return self.shown.rpartition("@")[0].rpartition("/")[2] if self.is_postgres else ""

    @property
    def queues(self) -> bool:
        """Return True if changes are kept here while the hub cannot be reached."""
        return (self.offline or ("refuse" if self.is_postgres else "queue")) == "queue"

    def time_for(self, size: int) -> float:
        """The seconds that a change of so many bytes waits for the hub."""
        return QUEUE_SECONDS if self.queues else REFUSE_SECONDS + size / SLOWEST

    @property
    def shown(self) -> str:
        """The address without password and options, of a web address also without the name, which may be a token.

        Where it is not clear what belongs to a password, nothing but the scheme.
        """
        if self.unreadable:
            return f"a hub that is not known, as {self.unreadable!r} is damaged"
        scheme, is_url, _ = self.url.partition("://")
        if scheme == "file":
            return self.url
        if not is_url:
            return "***" if re.match(r"[^/@][^@]*:.*@|(?i:.*password *=)", self.url) else self.url
        clear = re.fullmatch(r"\w+://(?:([^][/:@?#]*)(?::[^][/@?]*)?(@))?([^@?#]*)(?:[?#][^@]*)?", self.url)
        if not clear:
            return f"{scheme}://***"
        login = "" if scheme.startswith("http") else f"{clear[1] or ''}{clear[2] or ''}"
        return f"{scheme}://{login}{clear[3]}"

    def check_address(self) -> str:
        """The address as it is shown. Raises HubRefused when there is none, or part of it may be misread."""
        if self.unreadable:
            hint = "`memsheaf hub add URL -s SCOPE` makes it anew, `memsheaf hub remove -s SCOPE` goes on without."
            raise HubRefused(f"{self.unreadable!r} is damaged: memories are read, and not changed", hint=hint)
        if (shown := self.shown).endswith("***"):
            hint = "Write @ as %40, / as %2F, ? as %3F, # as %23, % as %25 in a password or path."
            raise HubRefused("the address of the hub cannot be read", hint=hint)
        return shown
