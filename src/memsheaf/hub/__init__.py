"""The hub of a scope: what several machines share. Values, and the contract that every hub keeps.

Each machine has an ordinary folder, its replica (`replica.py`); the hub decides in which order changes count.

- `push(commit)` makes all its changes or none, provided that each path is still at the version `before`. It is the
  decision: what was pushed is durable and reaches every replica. The same commit pushed again changes nothing.
- `pull(cursor)` gives what was pushed since, oldest first: no commit is left out, those that touch one path come in
  the order in which they were made, and what was pulled once may come again.
- Texts are kept byte for byte, and named by their content (`Version`).

`tests/hub/test_contract.py` is the contract; a hub is whatever passes it. `postgres.py` and `git.py` do.

Deferred imports, to start quickly: psycopg, subprocess, the two hubs; most commands need none of them.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar

from memsheaf.errors import HubRefused, hinted
from memsheaf.store import Commit, Version
from memsheaf.values import NamedTuple, Protocol

COPY = os.path.join("hub.git", "repository.git")
"""Where a scope's state has the copy of a git remote, which may hold every text that was ever pushed."""

_ends: ContextVar[float] = ContextVar("ends", default=float("inf"))  # when whoever asks in this thread stops to wait


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Let every hub that this thread asks meanwhile answer within so many seconds in all, or count as unreachable."""
    before = _ends.set(min(_ends.get(), time.monotonic() + seconds))
    try:
        yield
    finally:
        _ends.reset(before)


def time_left(most: float) -> float:
    """How long to wait for a hub: `most`, or what a deadline leaves, and never less than nothing."""
    return min(most, max(0.0, _ends.get() - time.monotonic()))


class HubCommit(NamedTuple):
    """A commit as the hub keeps it: its revisions have the new texts, never the old ones.

    `member` is who pushed it, as the hub knows from their login and not as they say; "" where a hub cannot tell.
    `own` says whether that is whoever asks. A `new` of None beside an `after` is a text that is past retention, which
    a later commit of the same pull replaces.
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
    """What was pushed since a cursor. When `whole`, `commits` are all that is there now, and what they do not name is
    not there: so it is at first, and when the history that a cursor asks for is no longer kept."""

    commits: Sequence[HubCommit]
    cursor: str
    whole: bool = False
    erasures: Sequence[Erasure] = ()


class HubMember(NamedTuple):
    """Who may read, write or administer."""

    name: str
    role: str
    since: str = ""


class Machine(NamedTuple):
    """A replica as the hub knows it; `erased` are the ids of the erasures that it reported as done, with what it
    found left ("" when nothing)."""

    id: str
    name: str
    member: str
    seen: str
    erased: tuple[tuple[str, str], ...] = ()

    @property
    def shown(self) -> str:
        """Its name, whose it is, and when it was last there."""
        return (
            f"{self.name}{f' of {self.member}' if self.member else ''}, last seen {self.seen[:16].replace('T', ' ')}"
        )


class Hub(Protocol):
    """One namespace of a hub, opened for one machine."""

    @property
    def me(self) -> str:
        """The member that this connection acts for; "" where a hub cannot tell."""

    @property
    def notice(self) -> str:
        """What to tell about the versions of the hub and of this program, "" when they fit."""

    def push(self, commit: Commit) -> str:
        """Make all changes or none; gives the position, after which `pull` from a later cursor no longer gives it.

        A commit whose id the hub has is not made again.

        Raises:
            Changed: a path is not at the version `before`; nothing was changed.
            PathRefused: it would be one file with another where case and composition of names do not count.
            HubUnreachable: no answer; if it was cut in the middle, pushing the same commit again tells.
            HubRefused: not a writer, a client or a schema that is too old, too large.
        """

    def pull(self, cursor: str = "") -> Pulled:
        """What was pushed since; from "" on, all that is there now.

        Raises:
            HubUnreachable, HubRefused.
            HubRestored: the hub does not have what was pulled before: it was restored from an older backup.
        """

    def wait(self, seconds: float) -> bool:
        """Wait for a hint that something was pushed. True when there is one; hints may be lost."""

    def lock(self, name: str, *, wait: float = 0.0) -> AbstractContextManager[object]:
        """Let one machine at a time do the work called `name`. Raises Busy, HubUnreachable."""

    def erase(self, erasure: Erasure) -> None:
        """Forget every text of these names and versions, and tell all machines to. The same erasure again is nothing.

        A version that a path of another name has now is kept.
        """

    def report(self, machine: Machine) -> None:
        """Say that this machine is there, and which erasures it has carried out."""

    def users(self) -> tuple[Sequence[HubMember], Sequence[Machine]]:
        """Who may use it, and the machines that reported."""

    def log(self, limit: int = 50) -> Sequence[HubCommit]:
        """The last commits, newest first, without texts."""

    def close(self) -> None:
        """Let the connection go."""


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
        """Whether a database is the hub; otherwise git is."""
        return self.url.startswith(("postgresql://", "postgres://"))

    @property
    def queues(self) -> bool:
        """Whether changes are kept here while the hub cannot be reached."""
        return (self.offline or ("refuse" if self.is_postgres else "queue")) == "queue"

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
            hint = "`memsheaf hub add SCOPE URL` makes it anew, `memsheaf hub remove SCOPE` goes on without."
            raise hinted(HubRefused(f"{self.unreadable!r} is damaged: memories are read, and not changed"), hint)
        if (shown := self.shown).endswith("***"):
            hint = "Write @ as %40, / as %2F, ? as %3F, # as %23, % as %25 in a password or path."
            raise hinted(HubRefused("the address of the hub cannot be read"), hint)
        return shown
