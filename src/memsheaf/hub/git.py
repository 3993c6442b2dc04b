"""A git remote as a hub: one branch for a scope, its memories at their paths, a git commit for each commit.

A push is compare-and-swap: the commit is made on the head that we know, and pushed if the branch still has
it. When others pushed first, their commits are fetched, each path is compared with the version that the change was
made for, and the commit is made again. Nothing is ever merged by line.

After an erasure the history begins anew, with a commit that says what was erased and which histories it replaces. A
cursor is the first commit of a history and the last that was pulled: when the history has no such commit, and none
that replaces it either, the remote was restored from a backup.
"""

from __future__ import annotations

import os
import random
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from typing import TypeVar

from memsheaf.errors import Busy, Changed, HubRefused, HubRestored, HubUnreachable, PathRefused, StoreFailed
from memsheaf.hub import COPY, Erasure, HubCommit, HubMember, HubSettings, Machine, Pulled, time_left
from memsheaf.hub.exchange import versions_made
from memsheaf.hub.git_history import WITH_STEPS, GitCommit, GitHistory, now_iso
from memsheaf.hub.git_import import make_commits, make_history, make_note
from memsheaf.hub.git_program import REMOTE, GitProgram, LocalGitFailed
from memsheaf.store import Commit, Revision
from memsheaf.store.safe_dir import Folder, kernel_lock
from memsheaf.text.neutralize import one_line

T = TypeVar("T")

LOCK_SECONDS = 15 * 60.0
"""Seconds after which a lock that was not released expires."""
_ATTEMPTS, _STUCK = 100, 10  # of a push while others push, and while nobody does
POLL_SECONDS = 1.0
_LOST_RACE = re.compile(
    r"\[rejected\]|failed to update ref|cannot lock ref|failed to lock|incorrect old value|reference already exists"
)


class GitRemote:
    """One branch of a git remote, for one machine. The local copy in the folder may be deleted at any time."""

    def __init__(self, settings: HubSettings, *, folder: str, timeout: float = 10.0) -> None:
        self._settings = settings
        self._name = ref_name(settings.namespace)
        self._branch = f"refs/heads/{self._name}"
        self._machines = f"refs/memsheaf/machines/{self._name}/"
        self._folder = folder = os.path.abspath(folder)
        self._timeout = timeout
        copy = os.path.join(folder, os.path.basename(COPY))
        self._git = GitProgram(copy, settings.url, settings.check_address(), timeout)
        self._history = GitHistory(self._git, settings)
        self._pulled = ""  # the head, when it was last pulled
        self._me: str | None = None

    @property
    def me(self) -> str:
        """On a team's branch the name that this person's git settings have, else the machine's; "" on one's own."""
        if self._me is None:
            self._me = ""
            if self._history.is_team:
                name = self._work(lambda: self._git.local("config", "--get", "--default", "", "user.name"))
                self._me = one_line(name.decode("utf-8", "replace"), 60) or self._settings.machine_name
        return self._me

    @property
    def notice(self) -> str:
        """A warning when a newer version of memsheaf wrote to the branch, else ""."""
        return f"{self._settings.shown} was written by a newer memsheaf: update this one" * self._history.is_newer

    def push(self, *commits: Commit) -> str:
        """Make all commits or none; see `Hub.push`."""
        author = self.me or self._settings.machine_name
        made: dict[str, str] = {}  # by id

        def make() -> str:
            fresh = []
            made.clear()  # of an attempt before
            for commit in commits:
                there = self._history.find(commit.id)
                if there is None:
                    fresh.append(HubCommit(commit, machine=self._settings.machine))
                elif versions_made([there.commit]) != versions_made([commit]):
                    raise HubRefused(f"the hub has another commit with the id {commit.id}")
            self._history.check_new([one.commit for one in fresh])
            names = make_commits(self._git, self._history.head, fresh, author) if fresh else [""]
            made.update(zip((one.commit.id for one in fresh), names, strict=False))
            return names[-1]

        def work() -> str:
            if self._swap(make):
                lines = [self._history.note(name, commit_id) for commit_id, name in made.items()]
                self._history.save(b"".join(lines))
            return self._cursor

        return self._work(work)

    def pull(self, cursor: str = "") -> Pulled:
        """Return what was pushed since; see `Hub.pull`."""
        pulled = self._work(lambda: self._pull(cursor))
        self._pulled = self._history.head
        return pulled

    def wait(self, seconds: float) -> bool:
        """Poll the remote."""
        deadline = time.monotonic() + seconds
        known = self._pulled or self._work(lambda: self._history.head)
        while (left := deadline - time.monotonic()) > 0:
            time.sleep(min(POLL_SECONDS, left))
            with suppress(HubUnreachable, LocalGitFailed):  # without the lock: nobody is to wait for this
                lines = self._ask("ls-remote", REMOTE, self._branch).decode("utf-8", "replace").splitlines()
                if f"{known}\t{self._branch}" not in lines and (known or lines):
                    return True
        return False

    @contextmanager
    def lock(self, name: str, *, wait: float = 0.0) -> Iterator[object]:
        """A lock, held as a ref of the remote for LOCK_SECONDS at most. Raises Busy, HubUnreachable."""
        ref = f"refs/memsheaf/locks/{self._name}/{sha256(name.encode()).hexdigest()[:16]}"
        deadline = time.monotonic() + wait
        mine = ""

        def take() -> str:
            """Take the lock, or give the name of the machine that has it."""
            nonlocal mine
            said = {"work": name, "machine": self._settings.machine_name, "until": time.time() + LOCK_SECONDS}
            mine = make_note(self._git, "Whose turn it is", said | {"turn": os.urandom(8).hex()})
            held, holder = next(iter(self._notes(ref)), ("", {}))
            until = holder.get("until")
            is_held = held and isinstance(until, int | float) and time.time() < until < time.time() + 2 * LOCK_SECONDS
            why = "held" if is_held else self._send(mine, ref, held)
            if not why or not (is_held or _LOST_RACE.search(why)):
                return ""  # it is ours; or the host has no locks, and work may be done twice
            return one_line(str(holder.get("machine", "")), 60) or "another machine"

        while holder := self._work(take):
            if time.monotonic() > deadline:
                raise Busy(f"{holder} does the work {name!r} now")
            time.sleep(min(1.0, max(0.05, deadline - time.monotonic())))
        try:
            yield None
        finally:
            with suppress(HubUnreachable, HubRefused):  # then it ends by itself
                self._work(lambda: self._send("", ref, mine))

    def erase(self, erasure: Erasure) -> None:
        """Replace the history by one without these names; see `Hub.erase`."""
        erasure = erasure._replace(at=erasure.at or now_iso())

        def make() -> str:
            past = self._history.erasures()
            if any(one.id == erasure.id for one, _ in past):
                return ""
            records = self._history.log(self._history.head) if self._history.head else ()
            versions = {*erasure.versions, *self._history.versions_of(erasure.names, records)}
            whole = erasure._replace(versions=tuple(sorted(versions)))
            replaced = (*past, (whole, self._history.last_commits()))
            said = [one._asdict() | {"commits": commits} for one, commits in replaced]
            kept: dict[tuple[str, str, str], list[Revision]] = {}
            for one, author in self._history.snapshot(records) if records else ():
                rest = [step for step in one.commit.revisions if step.path not in erasure.names]
                kept.setdefault((one.commit.by, one.machine, author), []).extend(rest)
            commits = []
            for (by, machine, author), steps in kept.items():
                why = "kept when the history began anew"
                commit = Commit(os.urandom(6).hex(), erasure.at, by, why, tuple(steps))
                commits += [(HubCommit(commit, machine=machine), author)] if steps else []
            begin = {"turn": os.urandom(8).hex(), "erasures": said}
            gone = {*erasure.names, *(step.path for steps in kept.values() for step in steps)}
            others = [entry for entry in self._history.entries() if entry[2] not in gone]
            return make_history(self._git, begin, erasure.at, others, commits)

        def work() -> None:
            try:
                self._swap(make)
            finally:
                self._git.remove_repository()  # and every copy of the text with it; the rest is fetched again

        self._work(work)

    def report(self, machine: Machine) -> None:
        """Register this machine in a ref of its own; erasures that it reported before are kept.

        Not possible on a host that takes only branches.
        """
        ref = self._machines + sha256(machine.id.encode()).hexdigest()[:16]

        def work() -> str:
            past = (_machine(note) for _, note in self._notes(ref))
            erased = dict(pair for one in (*past, machine) for pair in one.erased)
            now = machine._replace(seen=machine.seen or now_iso(), erased=tuple(erased.items()))
            return self._send(make_note(self._git, "A machine", now._asdict()), ref, None)

        self._work(work)

    def users(self) -> tuple[Sequence[HubMember], Sequence[Machine]]:
        """Return who committed, and since when; and the machines that reported. The remote is asked once."""
        first: dict[str, str] = {}

        def work() -> Sequence[Machine]:
            self._fetch(f"+{self._machines}*:{self._machines}*")
            for record in self._history.log(self._history.head) if self._history.head else ():
                first.setdefault(record.author, record.at)
            known = {erasure.id for erasure, _ in self._history.erasures()}  # not those of a hub that was lost
            machines = [_machine(note) for _, note in self._kept_notes(self._machines)]
            return sorted(one._replace(erased=tuple(p for p in one.erased if p[0] in known)) for one in machines)

        machines = self._work(work)
        return [HubMember(name, "writer", since) for name, since in sorted(first.items())], machines

    def log(self, limit: int = 50) -> Sequence[HubCommit]:
        """The last commits, newest first, without texts."""
        words = (*WITH_STEPS, "--first-parent", f"--max-count={limit}")

        def work() -> list[HubCommit]:
            self._fetch()
            return self._history.commits(self._history.log(self._history.head, *words) if self._history.head else ())

        log = []
        for one in reversed(self._work(work)):
            steps = tuple(step._replace(new=None) for step in one.commit.revisions)
            log.append(one._replace(commit=one.commit._replace(revisions=steps)))
        return log

    def close(self) -> None:
        """Nothing is held between two calls."""

    @property
    def _cursor(self) -> str:
        return f"{self._history.root}.{self._history.head}"

    def _work(self, work: Callable[[], T]) -> T:
        """Work on the local copy under a lock; a damaged copy is removed and fetched again."""
        try:
            with (
                Folder.open(self._folder, create=True) as folder,
                kernel_lock(folder, "lock", wait=time_left(6 * self._timeout)),
            ):
                try:
                    return self._with_copy(work)
                except LocalGitFailed:
                    self._git.remove_repository()
                    return self._with_copy(work)
        except LocalGitFailed as error:
            raise StoreFailed(f"git cannot work in {self._git.folder!r}: {error}") from None
        except OSError as error:
            raise StoreFailed(f"{self._folder!r} cannot be used: {error.strerror}") from error

    def _with_copy(self, work: Callable[[], T]) -> T:
        self._git.make_repository()
        self._history.load()
        return work()

    def _fetch(self, *also: str) -> Sequence[GitCommit]:
        """Fetch the branch, and `also` other refs; returns the new commits.

        Raises HubUnreachable, HubRefused.
        """
        words = ("fetch", "--prune", "--no-tags", "--no-write-fetch-head", "--progress", REMOTE)
        # at first there may be much to come, and a pack says how it goes on
        limit = () if self._history.head else ("-c", "fetch.unpackLimit=1")
        code, _, why = self._git.ask(*limit, *words, f"+{self._branch}:{self._branch}", *also)
        if (code and "couldn't find remote ref" not in why) or "shallow roots" in why:
            raise self._git.failure(why)
        if code and also:
            self._ask(*words, *also)
        try:
            with open(os.path.join(self._git.folder, self._branch), encoding="ascii") as file:
                fetched = file.read().strip()
        except (FileNotFoundError, ValueError):
            if not code:
                raise LocalGitFailed("the branch was fetched and is not there") from None
        records = None if code else self._history.advance(fetched)
        if records is None and self._history.head:  # another history, or none: nothing of the old one is kept
            self._git.remove_repository()
            self._with_copy(lambda: None)
            records = None if code else self._fetch(*also)
        self._history.pack()
        return records or ()

    def _pull(self, cursor: str) -> Pulled:
        known = self._history.head
        records = self._fetch()
        history, head = self._history, self._history.head
        root, _, last = cursor.partition(".")
        if cursor and last == head:
            return Pulled((), cursor)
        if cursor and last and history.has(last):
            records = records if known == last else history.log(f"{last}..{head}", *WITH_STEPS)
            return Pulled(history.commits(history.first_parents(records)), self._cursor)
        erased = history.erasures()
        since = [number for number, (_, commits) in enumerate(erased) if last[:12] in commits] if root else [0]
        if cursor and not root and not erased:  # it was empty
            return Pulled(history.commits(history.first_parents(history.log(head, *WITH_STEPS))), self._cursor)
        if not since:
            raise HubRestored(f"{self._settings.shown} lacks what was pulled from it before")
        whole = [one for one, _ in history.snapshot(() if known else records)] if head else []
        return Pulled(whole, self._cursor, True, [one for one, _ in erased[since[0] :]])

    def _swap(self, make: Callable[[], str]) -> str:
        """Push a commit made on the known head; when others pushed first, make it again on the new head.

        `make` gives "" when there is nothing to push, and so does this.
        """
        why, tried = "", list[str]()
        for attempt in range(_ATTEMPTS):
            is_fresh = bool(attempt) or not self._history.head
            if is_fresh:
                self._fetch()
            if self._history.is_newer:
                raise HubRefused(self.notice)
            try:
                made = make()
            except (Changed, PathRefused):
                if is_fresh:
                    raise
                continue
            if not made and not is_fresh:
                continue
            why = self._send(made, self._branch, self._history.head) if made else ""
            if not why:
                return made
            tried.append(self._history.head)
            if not _LOST_RACE.search(why) or tried[-_STUCK:] == [tried[-1]] * _STUCK:
                raise self._git.failure(why, refused=True)
            time.sleep(random.uniform(0, 0.02 * min(attempt + 1, 10)))
        raise HubUnreachable(f"{self._settings.shown}: others were faster {_ATTEMPTS} times in a row: {why}")

    def _send(self, made: str, ref: str, expected: str | None) -> str:
        """Compare-and-swap a ref: set or delete it if it has the expected value; with None unconditionally.

        Returns "", or the reason for the failure. Raises HubUnreachable, HubRefused.
        """
        lease = [] if expected is None else [f"--force-with-lease={ref}:{expected}"]
        words = ("push", "--porcelain", "--progress", "--no-verify", "--no-signed", *lease, REMOTE)
        code, answer, why = self._git.ask(*words, f"{'' if lease else '+'}{made}:{ref}")
        if code == 0:
            return ""
        refused = [line for line in answer.decode("utf-8", "replace").split("\n") if line.startswith("!")]
        if not refused or "[remote failure]" in refused[0]:
            raise self._git.failure(why)
        return ": ".join(filter(None, (one_line(refused[0].rpartition("\t")[2], 200), self._git.heard)))

    def _ask(self, *words: str) -> bytes:
        code, answer, why = self._git.ask(*words)
        if code:
            raise self._git.failure(why)
        return answer

    def _notes(self, ref: str) -> list[tuple[str, dict[str, object]]]:
        """The notes at the refs of the remote that begin like this: their names, and what they say."""
        words = ("fetch", "--prune", "--no-tags", "--no-write-fetch-head", "--progress", REMOTE)
        self._ask(*words, f"+{ref}*:{ref}*")
        return self._kept_notes(ref)

    def _kept_notes(self, ref: str) -> list[tuple[str, dict[str, object]]]:
        """The notes in the local copy."""
        found = ((record.sha, record.said.get("note")) for record in self._history.log("--no-walk", f"--glob={ref}*"))
        return [(sha, note if isinstance(note, dict) else {}) for sha, note in found]


def ref_name(namespace: str) -> str:
    """A namespace as a part of the name of a ref, which may not have every character.

    >>> ref_name("memsheaf/agent/x"), ref_name("memsheaf/project/.my shop~2..lock")
    ('memsheaf/agent/x', 'memsheaf/project/%2Emy%20shop%7E2%2E%2Elock')
    """
    bad = re.compile(r"[^\w./-]|(?<![^/])[.-]|[.](?=[.]|/|$|lock(/|$))")
    return bad.sub(lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), namespace)


def _machine(said: dict[str, object]) -> Machine:
    """A machine from its report; damaged fields are left empty."""
    name, shown, member, seen = (one_line(str(said.get(key, "")), 100) for key in ("id", "name", "member", "seen"))
    erased = said.get("erased")
    pairs = [pair for pair in erased if isinstance(pair, list) and len(pair) == 2] if isinstance(erased, list) else ()
    return Machine(name, shown, member, seen, tuple((str(one), one_line(str(left), 500)) for one, left in pairs))
