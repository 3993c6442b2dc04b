"""Sheaf: the API of one scope, for programs, commands and tools."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Sequence
from functools import partial, wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from memsheaf import config, memory_edits
from memsheaf.errors import ScopeRefused, hinted
from memsheaf.index.database import Row, database_for
from memsheaf.index.search import Index
from memsheaf.memory import STRICT, Allow, Memory
from memsheaf.overview import ScopeOverview
from memsheaf.reader import ScopeReader
from memsheaf.scope import Scope, has_hub
from memsheaf.scope_opening import embedder_of, find_ledger, open_store, state_of
from memsheaf.store import Version
from memsheaf.store.folder import FolderStore
from memsheaf.values import utc_time
from memsheaf.writer import Writer

if TYPE_CHECKING:
    from memsheaf.embed import Embedder
    from memsheaf.erasure import Proof
    from memsheaf.hub.replica import Replica
    from memsheaf.hub.replica_state import Synced
    from memsheaf.learn.consolidate import Approve, ConsolidationReport, Progress
    from memsheaf.learn.learner import Distilled, Learner
    from memsheaf.learn.schedule import Gate
    from memsheaf.learning import ScopeLearning
    from memsheaf.llm import Model
    from memsheaf.project_roots import Locations
    from memsheaf.recall.recall import Recall
    from memsheaf.recall.session import Session
    from memsheaf.recall.turns import Turn
    from memsheaf.store.state import State
    from memsheaf.store.trust import TrustLedger
    from memsheaf.transfer import Exported, Imported


P = ParamSpec("P")
R = TypeVar("R")


def _asks(method: Callable[Concatenate[ScopeReader, P], R]) -> Callable[Concatenate[Sheaf, P], R]:
    """A method of `Sheaf` that is one of its reader."""

    @wraps(method)
    def ask(sheaf: Sheaf, /, *given: P.args, **named: P.kwargs) -> R:
        return method(sheaf.reader, *given, **named)

    return ask


def _changes(function: Callable[Concatenate[Writer, P], R]) -> Callable[Concatenate[Sheaf, P], R]:
    """A method of `Sheaf` that changes memories through its writer."""

    @wraps(function)
    def change(sheaf: Sheaf, /, *given: P.args, **named: P.kwargs) -> R:
        return function(sheaf.writer, *given, **named)

    return change


class Sheaf:
    """The memory of one scope.

    `reader` answers questions about its rows, files and journal, `overview` about all of it at a glance; every change
    passes `writer`.

    >>> with Sheaf.open("user") as sheaf:                                        # doctest: +SKIP
    ...     sheaf.remember("Prefers tabs", "Indentation", "user", "Use tabs.")
    ...     print(sheaf.prompt())
    """

    def __init__(
        self,
        scope: Scope,
        store: FolderStore,
        index: Index,
        *,
        by: str = "agent",
        read_only: bool = False,
        tools: bool = True,
        settings: config.Settings | None = None,
        ledger: TrustLedger | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.scope = scope
        self.store = store
        self.index = index
        self.tools = tools
        self._settings = settings
        self.people_only = False  # set where an agent may change nothing even without a hub
        is_reviewed = scope.layer == "team" and self.settings.policy_of(scope) != "auto"
        self.writer = Writer(
            scope,
            store,
            index,
            by=by,
            read_only=read_only,
            clock=clock,
            ledger=ledger,
            own_context=scope.layer == "agent" and bool(settings and settings.agent_context),
            people_only=lambda: self.people_only or (is_reviewed and has_hub(store.root, self.settings.home)),
        )
        self.overview = ScopeOverview(self.writer, clock)
        self.reader = ScopeReader(self.writer, lambda: self.state, tools=tools)
        self._clock = clock
        self._counted: set[tuple[str, str]] = set()

    @classmethod
    def open(
        cls,
        scope: Scope | str,
        *,
        settings: config.Settings | None = None,
        cwd: str = "",
        by: str = "agent",
        read_only: bool = False,
        embedder: Embedder | None = None,
        clock: Callable[[], float] = time.time,
    ) -> Sheaf:
        """Open the memory of a scope: "user", "project", "agent/NAME", "task/SLUG", "session/ID", "team/NAME".

        `by` is who makes the changes: `user`, `agent`, or the name of a program. Nothing is created before the
        first change. A commit that a crash left half done is completed here. The `embedder` is the one that the
        settings name, unless another is given; it is loaded at the first search.
        """
        settings = settings or config.load()
        scope = Scope.parse(scope) if isinstance(scope, str) else scope
        store, ledger = open_store(scope, settings, cwd, read_only=read_only, clock=clock)
        found = (lambda: embedder) if embedder is not None else embedder_of(settings)
        database = database_for(store.root, settings.cache)
        index = Index(store, database, read_only=read_only, embedder=found, clock=clock)
        sheaf = cls(
            scope, store, index, by=by, read_only=read_only, tools=settings.tools, settings=settings, ledger=ledger,
            clock=clock,
        )  # fmt: skip
        if scope.layer == "team":
            sheaf.writer.find_ledger = partial(find_ledger, scope, store.root, settings)
        return sheaf

    @property
    def root(self) -> str:
        """The folder that holds the files."""
        return self.store.root

    @property
    def checkout(self) -> str:
        """The repository that the folder is in, "" when it is in none."""
        return self.store.checkout

    @property
    def settings(self) -> config.Settings:
        """The settings it was opened with, or those of the user."""
        return self._settings or config.load()

    @property
    def state(self) -> State:
        """What is kept about this scope outside of it: the inbox, what waits for review, the gates."""
        return state_of(self.root, self.settings)

    @property
    def by(self) -> str:
        """Who makes the changes."""
        return self.writer.by

    @by.setter
    def by(self, who: str) -> None:
        self.writer.by = who

    @property
    def read_only(self) -> bool:
        """Whether it was opened to be read, and nothing else."""
        return self.writer.read_only

    @property
    def today(self) -> str:
        """The day, as headers have it."""
        return self.writer.today()

    @property
    def replica(self) -> Replica | None:
        """The folder as what several machines share, None for a scope without a hub."""
        return self.store if hasattr(self.store, "hub") else None  # type: ignore[return-value]

    def sync(self, *, again: bool = False) -> Synced:
        """Push what waits here and bring what other machines pushed; `again` as if it were the first time.

        Raises:
            ScopeRefused: the scope has no hub.
            HubUnreachable, HubRefused, HubRestored, Busy.
        """
        from memsheaf.hub_sync import synchronize

        if self.replica is None or not has_hub(self.root, self.settings.home):
            error = ScopeRefused(f"{self.scope} has no hub")
            raise hinted(error, f"`memsheaf hub add {self.scope} URL` gives it one.")
        synced = synchronize(self.writer, self.learning, self.state, clock=self._clock, again=again)
        if synced.pulled and self.writer.ledger:  # look up who saved it, so that no question waits for that
            self.reader.committers(self.writer.index.rows("author IS NULL")[:1])
        return synced

    def close(self, *, wait: bool = True) -> None:
        """Flush everything to disk and release it; a process that ends now need not `wait` for vectors."""
        try:
            if not self.read_only:
                self.store.close()
        finally:
            if wait:
                self.index.close()

    def __enter__(self) -> Sheaf:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self, path: str) -> Memory:
        """Give one memory, as it is on disk now. Raises NotFound, PathRefused."""
        return self.writer.read(path)

    def search(self, query: str, *, limit: int = 10) -> Sequence[Row]:
        """Return the memories that hold a word of the query or clearly mean the same, best first; often none."""
        return [match.row for match in self.matches(query, limit=limit) if match.is_hit]

    def recall(self, message: str, *, model: Model | None = None, ignore: bool = False, tree: str = "") -> Recall:
        """The memories that matter for a message, at most five, ready to stand beside it; and why these."""
        return self.session(model=model, tree=tree).recall(message, ignore=ignore)

    def session(self, *others: Sheaf, model: Model | None = None, deadline: float = 5.0, tree: str = "") -> Session:
        """The memory side of one conversation: this scope, and others that are less near.

        With `tree`, the folder of the work, what memories cite and name is looked up there.
        """
        from memsheaf.recall.session import Session

        sheaves = {str(sheaf.scope): sheaf for sheaf in (self, *others)}
        return Session(
            (self, *others),
            model=self.metered("select", model) if model else None,
            deadline=deadline,
            used=lambda scope, paths, message: sheaves[scope].used(*paths, message=message),
            prompt=lambda: "\n".join(sheaf.prompt(also=sheaf is not self) for sheaf in sheaves.values()),
            learn=self.learn,
            tree=tree,
            memories=self.root,
            clock=self._clock,
        )

    list = _asks(ScopeReader.list)
    part = _asks(ScopeReader.part)
    matches = _asks(ScopeReader.matches)
    best = _asks(ScopeReader.best)
    newer = _asks(ScopeReader.newer)
    changed_by_others = _asks(ScopeReader.changed_by_others)
    catalog = _asks(ScopeReader.catalog)
    page = _asks(ScopeReader.page)
    prompt = _asks(ScopeReader.prompt)
    notices = _asks(ScopeReader.notices)
    recalled = _asks(ScopeReader.recalled)
    committers = _asks(ScopeReader.committers)
    caveats = _asks(ScopeReader.caveats)
    log = _asks(ScopeReader.log)
    diff = _asks(ScopeReader.diff)
    blame = _asks(ScopeReader.blame)

    remember = _changes(memory_edits.remember)
    revise = _changes(memory_edits.revise)
    insert = _changes(memory_edits.insert)
    put = _changes(memory_edits.put)
    forget = _changes(memory_edits.forget)
    forget_many = _changes(memory_edits.forget_many)
    bury = _changes(memory_edits.bury)
    restore = _changes(memory_edits.restore)
    undo = _changes(memory_edits.undo)
    rename = _changes(memory_edits.rename)
    pin = _changes(memory_edits.pin)
    pin_many = _changes(memory_edits.pin_many)
    confirm = _changes(memory_edits.confirm)
    confirm_many = _changes(memory_edits.confirm_many)
    change_many = _changes(Writer.change_many)

    def accept(self, versions: Sequence[tuple[str, Version]]) -> None:
        """Record that a person accepts these versions of files that came with a repository, by path."""
        if self.writer.ledger:
            self.writer.ledger.add(versions, "user")

    def used(self, *paths: str, message: str = "") -> None:
        """Count that an agent read these memories, or was shown them: once a day each. The `message` is logged.

        What was of use lately stays in a full catalog. It moves up when the next memory is saved, and not before:
        a prompt does not change because somebody read.
        """
        today = self.today
        fresh = [path for path in paths if (today, path) not in self._counted]
        if fresh and not self.read_only:
            self.store.add_uses(today, fresh)
            self.index.used()
            self._counted.update((today, path) for path in fresh)
        if message and paths and not self.read_only:
            from memsheaf.recall.recall_log import log_recall

            log_recall(self.state, utc_time(self._clock()), message, paths)

    @property
    def learning(self) -> Learner:
        """The inbox of this scope, and what waits for review."""
        return self._learning.learner

    @property
    def _learning(self) -> ScopeLearning:
        from memsheaf.learning import ScopeLearning

        return ScopeLearning(self, self.reader, self.writer, self.state, self.settings, self._clock)

    def learn(self, turn: Turn) -> bool:
        """Keep a finished turn of a conversation until it is distilled. False when nothing of it is kept.

        `turn.unkept` says whether that is the user's wish. With the policy `log` it goes into the daily log.
        """
        self.writer.require_writable()
        policy = self.settings.policy_of(self.scope)
        if policy == "log":
            from memsheaf.learn.daily_log import DailyLog

            with DailyLog(self.root, self.state, ledger=self.writer.ledger, clock=self._clock) as log:
                return log.append(turn, by=self.by)
        from memsheaf.learn.inbox import Inbox  # and nothing of what reads it: somebody waits for this

        return policy != "manual" and Inbox(self.state, clock=self._clock).append(turn)

    def distil(
        self,
        model: Model | str | None = None,
        *,
        deadline: float = 60.0,
        progress: Progress | None = None,
        learner: Learner | None = None,
    ) -> Distilled:
        """Make memories of the turns that wait: with the model, or the one of the settings, or by rules alone.

        What it may cost is limited by the settings. What fails waits for the next time. Then memories are
        consolidated, if that is due, nobody has to be asked, and the policy is not `log`. `Layers` gives the
        `learner` that keeps each where it belongs; else all is kept here.
        """
        return self._learning.distil(model, deadline=deadline, progress=progress, learner=learner)

    def consolidate(
        self,
        model: Model | str | None = None,
        *,
        apply: bool = False,
        progress: Progress | None = None,
        mine: Approve | None = None,
        only: Collection[str] | None = None,
    ) -> ConsolidationReport:
        """Merge what says the same, retire what is past; with `apply` it is done, else only planned.

        What a person wrote takes part only with `mine`, which is asked before each such group is done. With `only`,
        the ids of groups of a plan, these are done, whoever wrote them; what changed since is left and noted.

        Raises:
            Busy: another process is at it.
        """
        return self._learning.consolidate(model, apply=apply, progress=progress, mine=mine, only=only)

    def dream(
        self, model: Model | str | None = None, *, planning: bool = False, progress: Progress | None = None
    ) -> tuple[tuple[Gate, ...], ConsolidationReport | None]:
        """Consolidate unless a gate is closed or the agent is `planning`; gates and result, or None. Raises Busy."""
        return self._learning.dream(model, planning=planning, progress=progress)

    def gates(self) -> tuple[Gate, ...]:
        """What has to be so before memories are consolidated by themselves, and whether it is."""
        return self._learning.gates()

    def expect(self, question: str, path: str) -> None:
        """Keep that a question is answered by a memory: no consolidation may change that. Raises NotFound."""
        self._learning.expect(question, path)

    def metered(self, purpose: str, model: Model | str | None = None) -> Model | None:
        """The model, or the one that the settings name, with the caps of the settings; None for "none" or without.

        Raises:
            ModelFailed, BadSettings: it cannot be used.
        """
        from memsheaf.learning import metered

        return metered(purpose, model, self.settings, clock=self._clock)

    def erase(self, path: str) -> Proof:
        """Remove a memory and all its versions for good, and prove it; with a hub, from all machines.

        Raises:
            NotFound: neither the files nor the journal know it.
            HubUnreachable, HubRefused: nothing was erased.
        """
        from memsheaf.hub_sync import erase_for_all

        return erase_for_all(path, self.writer, self.learning, self.state, clock=self._clock)

    def restore_lost(self, *, with_git: bool = False, dismiss: bool = False) -> Sequence[str]:
        """Bring back the files that went with the whole folder, or `dismiss` them; give the paths that are back.

        What branches of git have, and the present commit has not, comes back only `with_git`.
        """
        from memsheaf.project_roots import restore_lost

        self.writer.require_writable()
        return restore_lost(self.store, by=self.by, with_git=with_git, dismiss=dismiss)

    def export(self, target: str, *, history: bool = False, only: Collection[str] = ()) -> Exported:
        """Write every file of every layer to a new zip or folder, with `history` the journals, too.

        With `only`, just these files of this scope. What cannot be read whole is left out and named.
        """
        from memsheaf import transfer

        return transfer.export({"": self.locations()}, target, history=history, only=only)

    def locations(self) -> Locations:
        """Return where the files of this scope are, after a look at them, to export them."""
        from memsheaf.project_roots import Locations

        self.index.look(thorough=True)
        state = os.path.dirname(self.state.folder)
        return Locations(self.root, "", self.settings.home, state, self.settings.cache, self.writer.ledger)

    def take_in(
        self,
        source: str,
        *,
        replace: bool = False,
        dry_run: bool = False,
        allow: Allow = STRICT,
        history: bool = False,
        below: str = "",
    ) -> Imported:
        """Import a folder or an archive, or what is `below` a folder of it, one commit a layer.

        What is refused stays out and is named.
        What a memory here says already is refused, too, unless `allow` says otherwise; whether it is worth
        keeping was decided where it comes from. With `history`, the past of what comes in comes along.
        Raises ArchiveRefused when it reaches outside, or is too large; then nothing was imported.
        """
        from memsheaf import transfer

        return transfer.take_in(
            self.writer, source, replace=replace, dry_run=dry_run, allow=allow, history=history, below=below
        )
