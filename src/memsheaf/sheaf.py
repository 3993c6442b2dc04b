"""Sheaf: everything an agent remembers in one scope. The one way in for programs, commands and tools."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice

from memsheaf import config
from memsheaf.editing import (
    checked,
    dated,
    inserted,
    merged,
    placed,
    redated,
    revised,
)
from memsheaf.errors import (
    BadHeader,
    Busy,
    Changed,
    CreateOnly,
    EmbedderFailed,
    Exists,
    NotFound,
)
from memsheaf.guard.paths import CATALOG, check_path, is_fact
from memsheaf.index.catalog import SHARED_LINES, Page, apart, listing, with_scope
from memsheaf.index.database import Row
from memsheaf.index.search import Index, Match, database_for
from memsheaf.memory import STRICT, Allow, Memory, check, compose, parse
from memsheaf.recall.inject import CONTEXT, NOTES, caveats, stable, waits
from memsheaf.scope import Scope, checkout_of, resolve
from memsheaf.store import ABSENT, Change, Commit, Version
from memsheaf.store.folder import FolderStore
from memsheaf.writer import Writer

# Known to type checkers under this name: embedders are looked for when somebody searches, what learns when it does.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from memsheaf.embed import Embedder
    from memsheaf.erasure import Proof
    from memsheaf.history import Blamed
    from memsheaf.learn.consolidate import ConsolidationReport
    from memsheaf.learn.learner import Distilled, Learner
    from memsheaf.learn.merge_plan import PlanGroup
    from memsheaf.learn.schedule import Gate
    from memsheaf.llm import Model
    from memsheaf.recall.recall import Recall
    from memsheaf.recall.session import Session
    from memsheaf.recall.turns import Turn
    from memsheaf.store.state import State
    from memsheaf.store.trust import TrustLedger
    from memsheaf.transfer import Exported, Imported

PAGE = 150
ROUNDS = 5  # searches until all that is found is as the files are


class Sheaf:
    """The memory of one scope.

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
        self._keeper = Writer(
            scope,
            store,
            index,
            by=by,
            read_only=read_only,
            clock=clock,
            ledger=ledger,
            own_context=scope.layer == "agent" and bool(settings and settings.agent_context),
        )
        self._settings = settings
        self._clock = clock
        self._prompt: tuple[tuple[object, ...], str] | None = None
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
        first change. A crash that left a commit half done is mended here. The `embedder` is the one that the
        settings name, unless another is given; it is looked for at the first search.
        """
        settings = settings or config.load()
        scope = Scope.parse(scope) if isinstance(scope, str) else scope
        root = resolve(scope, settings.places(cwd or os.getcwd()))
        checkout = checkout_of(root, settings.home)
        store = FolderStore(
            root,
            clock=clock,
            retention_days=settings.retention_days,
            checkout=checkout,
            private=os.path.dirname(root) if scope.layer == "session" else "",
        )
        if store.left_journal:
            from memsheaf.worktree import bring_journal

            bring_journal(store)
        if not read_only:
            store.recover()
        found = (lambda: embedder) if embedder is not None else _embedder_of(settings)
        database = database_for(root, settings.cache)
        index = Index(store, database, read_only=read_only, embedder=found, clock=clock)
        ledger = None
        if checkout:
            from memsheaf.store.trust import TrustLedger

            ledger = TrustLedger(_state_of(root, settings), checkout)
        return cls(
            scope, store, index, by=by, read_only=read_only, tools=settings.tools, settings=settings, ledger=ledger,
            clock=clock,
        )  # fmt: skip

    @property
    def root(self) -> str:
        """The folder that holds the files."""
        return self.store.root

    def close(self) -> None:
        """Make everything safe on disk and let go."""
        try:
            if not self.read_only:
                self.store.close()
        finally:
            self.index.close()

    def __enter__(self) -> Sheaf:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def keeper(self) -> Writer:
        """What every change of this scope passes."""
        return self._keeper

    @property
    def settings(self) -> config.Settings:
        """The settings it was opened with, or those of the user."""
        return self._settings or config.load()

    @property
    def by(self) -> str:
        """Who makes the changes."""
        return self._keeper.by

    @by.setter
    def by(self, who: str) -> None:
        self._keeper.by = who

    @property
    def read_only(self) -> bool:
        """Whether it was opened to be read, and nothing else."""
        return self._keeper.read_only

    @property
    def today(self) -> str:
        """The day, as headers have it."""
        return self._keeper.today()

    # asking

    def read(self, path: str) -> Memory:
        """Give one memory, as it is on disk now. Raises NotFound, PathRefused."""
        return self._keeper.read(path)

    def list(self, *, kind: str = "", unconfirmed: bool = False) -> Sequence[Row]:
        """Every file of this scope, in the order of the paths; `kind` and `unconfirmed` narrow it."""
        self.index.look(thorough=True)
        kind = kind.encode("utf-8", "replace").decode()
        where = ["1"] + ["kind = ?"] * bool(kind) + ["trust = 'unconfirmed'"] * unconfirmed
        return self._keeper.marked(self.index.rows(" AND ".join(where), *([kind] if kind else [])))

    def changed_by_others(self) -> Sequence[Row]:
        """Memories that an agent or a program changed after somebody else wrote them, not seen by a person since."""
        self.index.look(thorough=True)
        likely = self._keeper.marked(self.index.rows("line LIKE '%(changed by %'"))
        return [row for row in likely if self.read(row.path).changed_by not in ("", "user")]

    def part(self, *, kind: str = "", limit: int = 200, offset: int = 0) -> tuple[Sequence[Row], int]:
        """Some of what `list` gives, and how many there are; the `kind` "other" stands for all unknown ones."""
        self.index.look(thorough=True)
        rows, total = self.index.part(kind.encode("utf-8", "replace").decode(), limit, offset)
        return self._keeper.marked(rows), total

    def search(self, query: str, *, limit: int = 10) -> Sequence[Row]:
        """Memories that hold words of the query or mean the same, best first."""
        return [match.row for match in self.matches(query, limit=limit)]

    def matches(self, query: str, *, limit: int = 10) -> Sequence[Match]:
        """As `search`, with the numbers behind the order."""
        self.index.look()
        for _ in range(ROUNDS):
            found = self.index.search(query, limit)
            # an answer is never stale: what was found is looked at
            if not self.index.notice(match.row.path for match in found):
                break
        rows = self._keeper.marked([match.row for match in found])
        return [match._replace(row=row) for match, row in zip(found, rows, strict=True)]

    def best(self, limit: int) -> Sequence[Row]:
        """What the catalog would show first."""
        self.index.look()
        return self._keeper.marked(self.index.ranked("", limit, 0))

    def recall(self, message: str, *, model: Model | None = None, ignore: bool = False, tree: str = "") -> Recall:
        """The memories that matter for a message, at most five, ready to stand beside it; and why these."""
        return self.session(model=model, tree=tree).recall(message, ignore=ignore)

    def session(self, *others: Sheaf, model: Model | None = None, deadline: float = 5.0, tree: str = "") -> Session:
        """The memory side of one conversation: this scope, and others that are less near.

        With `tree`, the folder of the work, what memories cite and name is looked up there.
        """
        from memsheaf.recall.session import Session

        sheaves = {str(sheaf.scope): sheaf for sheaf in (self, *others)}

        def used(scope: str, paths: Sequence[str]) -> None:
            sheaves[scope].used(*paths)

        return Session(
            (self, *others),
            model=self.metered("select", model) if model else None,
            deadline=deadline,
            used=used,
            prompt=lambda: "\n".join(sheaf.prompt(also=sheaf is not self) for sheaf in sheaves.values()),
            learn=self.learn,
            tree=tree,
            memories=self.root,
            clock=self._clock,
        )

    def catalog(self) -> Page:
        """One line a memory, within its budget: what MEMORY.md holds, with what others committed apart."""
        self.index.look()
        rows = self._keeper.marked(self.index.ranked("", -1, 0)) if self._keeper.ledger else ()
        shared = [row for row in rows if row.trust == "shared"]
        if not shared:
            return self.index.catalog()
        own = [row for row in rows if row.trust != "shared"]
        texts, waiting = self.index.lines()
        return apart(own, shared, texts, self.committers(shared[:SHARED_LINES]), waiting)

    def committers(self, rows: Sequence[Row | Memory]) -> dict[str, str]:
        """Who committed the text that these files have now, by path, as far as git can tell in time."""
        from memsheaf.worktree import committers

        return committers(self.root, [(row.path, row.version) for row in rows], self.state)

    def caveats(self, memory: Memory) -> Sequence[str]:
        """What a reader must know of a memory's origin: unconfirmed, shared and by whom, changed by somebody else."""
        who = self.committers([memory]).get(memory.path, "") if memory.trust == "shared" else ""
        return caveats(memory, who)

    def page(self, number: int = 1, *, kind: str = "") -> Page:
        """A page of the whole catalog, most important first: nothing is out of reach."""
        self.index.look()
        rows = self.index.ranked(kind, PAGE, (number - 1) * PAGE) if 0 < number < 1_000_000 else []
        entries = [
            (row.name, row.path, "(shared) " * (row.trust == "shared") + (row.problem or row.description))
            for row in self._keeper.marked(rows)
        ]
        return listing(entries, number, self.index.total(kind), PAGE)

    def prompt(self, *, also: bool = False) -> str:
        """The section for an agent's system prompt; the same bytes as long as no memory changed.

        With `also`, it follows that of another scope, which says already how memory is used; names have their scope.
        """
        changed = self.index.look()
        stamps = self.store.stamps((CATALOG, CONTEXT, NOTES))
        ledger = self._keeper.ledger
        key = also, *stamps.values(), ledger and ledger.stamp
        if changed or self._prompt is None or self._prompt[0] != key or not (key[1] and self.index.publishes):
            catalog = self.catalog().text if ledger else self.index.catalog().text
            text = stable(
                scope=str(self.scope),
                catalog=with_scope(catalog, str(self.scope)) if also else catalog,
                context=self._loaded(CONTEXT),
                notes=self._loaded(NOTES),
                offer="none" if not self.tools else "also" if also else "reading" if self.read_only else "all",
            )
            self._prompt = key, text
        return self._prompt[1]

    def _loaded(self, name: str) -> str:
        """A file that stands in every prompt, unless it is unconfirmed, shared or cannot be read."""
        data = self.store.published(name)
        memory = self._keeper.judged(parse(name, data)) if data else parse(name, b" ")
        if memory.trust == "shared":
            return f"({waits(name, str(self.scope))}.)"
        if memory.state in ("ok", "free"):
            return memory.body if memory.trust == "confirmed" else ""
        return f"({name} is not shown: {memory.problem}.)"

    def notices(self) -> Sequence[str]:
        """Files for every prompt that are not loaded before a person has looked at them, in words."""
        if self._keeper.ledger is None:
            return []
        waiting = [name for name in (CONTEXT, NOTES) if (one := self._keeper.find(name)) and one.trust == "shared"]
        return [waits(name, str(self.scope)) for name in waiting]

    # changing

    def remember(
        self,
        name: str,
        description: str,
        kind: str,
        content: str,
        *,
        path: str = "",
        replace: bool = False,
        expect: Version | None = None,
        trust: str = "",
        conversation: str = "",
        citations: Sequence[str] = (),
        pinned: bool = False,
        expires: str = "",
        supersedes: Sequence[str] = (),
        reason: str = "",
        allow: Allow = STRICT,
    ) -> Memory:
        """Save one fact. With `replace`, an existing memory of that path or name takes the new text.

        Days such as "tomorrow" get their date beside them.

        Raises:
            Exists: there is one already, and `replace` was not given.
            TextRefused, PathRefused: it may not be stored; the message says why.
            SecretFound: it holds a secret, and `allow` does not say that it may.
            Duplicate, NotWorth: it is there already, or for the moment only; `allow` stores it all the same.
            Changed: `expect` is not the version that is there.
        """
        today = self._keeper.today()
        fresh = compose(
            name=name,
            description=dated(description, today),
            kind=kind,
            body=dated(content, today),
            created=today,
            updated=today,
            source=self.by,
            trust=trust,
            conversation=conversation,
            citations=citations,
            pinned=pinned,
            expires=expires,
            supersedes=supersedes,
            reason=reason,
        )
        self.index.ready()

        def stored() -> Memory:
            found = self._keeper.find(path) if path else self._keeper.same_name(kind, name)
            if found is None and not path:
                return self._keeper.store_new(fresh, kind, name, expect or ABSENT, allow=allow)
            if found is None:
                target = placed(fresh, check_path(path))
                return self._keeper.store_one(target, expect or ABSENT, f"remember {name}", allow=allow)
            if not replace:
                raise Exists(found.path)
            self._keeper.refuse_other_spelling(path or found.path, found)
            if found.state not in ("ok", "free"):
                raise BadHeader(found.path, found.problem)
            if expect is not None and expect != found.version:
                raise Changed(found.path)
            text = merged(found, fresh) if found.state == "ok" else fresh.text
            return self._keeper.store_one(
                check(found.path, text),
                found.version,
                f"replace {name}",
                was=found,
                allow=allow,
            )

        return self._keeper.again(stored, expect)

    def revise(
        self,
        path: str,
        old: str,
        new: str,
        *,
        count: int = 1,
        expect: Version | None = None,
        allow: Allow = STRICT,
    ) -> Memory:
        """Replace a piece of text that occurs exactly `count` times; without `expect`, also when others are faster.

        Raises:
            NotFound, NoMatch, ManyMatches, BadHeader, Changed, TextRefused, SecretFound, NotWorth.
        """

        def stored() -> Memory:
            memory, today = self._keeper.for_change(path, expect), self._keeper.today()
            changed = redated(memory, revised(memory, old, dated(new, today, piece=True), count=count), today)
            return self._keeper.store_one(changed, memory.version, "update", was=memory, allow=allow)

        return self._keeper.again(stored, expect)

    def insert(
        self,
        path: str,
        line: int,
        text: str,
        *,
        expect: Version | None = None,
        allow: Allow = STRICT,
    ) -> Memory:
        """Insert text after a line of the body; 0 puts it first.

        Raises:
            NotFound, OutOfRange, BadHeader, Changed, TextRefused, SecretFound, NotWorth.
        """

        def stored() -> Memory:
            memory, today = self._keeper.for_change(path, expect), self._keeper.today()
            changed = redated(memory, inserted(memory, line, dated(text, today, piece=True)), today)
            return self._keeper.store_one(changed, memory.version, "insert", was=memory, allow=allow)

        return self._keeper.again(stored, expect)

    def put(
        self,
        path: str,
        text: str,
        *,
        expect: Version = ABSENT,
        free: bool = False,
        why: str = "",
        allow: Allow = STRICT,
    ) -> Memory:
        """Store a whole file: a memory with its header, or with `free` any text, such as CONTEXT.md.

        Raises:
            Exists, Changed, TextRefused, SecretFound, Duplicate, NotWorth, PathRefused.
            BadHeader: it cannot be understood, and only a person (`by="user"`) may replace it.
        """
        found = self._keeper.find(path)
        if found is not None and expect == ABSENT:
            raise Exists(found.path)
        if found is not None:
            self._keeper.refuse_other_spelling(path, found)
            if found.state in ("bad", "held") and self.by != "user":
                raise BadHeader(found.path, found.problem)  # a machine neither rewrites nor removes it
        target = found.path if found else check_path(path)
        memory = checked(target, text, found, free=free)
        why = why or ("edit" if found else "add")
        return self._keeper.store_one(memory, expect, why, was=found, allow=allow)

    def forget(self, path: str, *, why: str = "", expect: Version | None = None) -> Commit:
        """Remove a memory. The journal keeps it until retention ends: `undo` brings it back.

        What was forgotten is not learned again from a conversation.

        Raises:
            NotFound, Changed.
            BadHeader: it cannot be understood, and only a person (`by="user"`) may remove it.
            CreateOnly: it is a fact, which another one supersedes.
        """
        found = self._keeper.find(path)
        if found is None:
            raise NotFound(path)
        if found.state in ("bad", "held") and self.by != "user":
            raise BadHeader(found.path, found.problem)  # a machine neither rewrites nor removes it
        if is_fact(found.path) and self.by != "user":
            raise CreateOnly(found.path)
        if expect and expect != found.version:
            raise Changed(found.path)
        change = Change(found.path, None, expect or found.version)
        self._keeper.require_writable()
        self.bury([found])  # first: what is there still is not learned twice
        return self._keeper.commit([change], why or f"forget {found.name}", was={found.path: found})

    def bury(self, memories: Sequence[Memory]) -> None:
        """Note that memories are about to be removed: they are not learned again from a conversation."""
        self.index.ready()  # what is new to the journal is taken in first: that lifts the tombstone of such a text
        self.index.notice(one.path for one in memories)
        self._keeper.bury_removed(memories)

    def confirm(self, path: str) -> Memory:
        """Mark an unconfirmed or shared memory as confirmed: a person has read it. Raises NotFound, BadHeader."""
        return self._keeper.confirm(path)

    def accept(self, versions: Sequence[tuple[str, Version]]) -> None:
        """Record that a person accepts these versions of files that came with a repository, by path."""
        if self._keeper.ledger:
            self._keeper.ledger.add(versions, "user")

    def change_many(self, changes: Sequence[Change], why: str, *, by: str, allow: Allow = STRICT) -> Commit:
        """Change several memories as one commit, all or none; `by` says through which channel.

        Raises:
            Changed: one of them is not at the version that was expected.
            TextRefused, SecretFound, Duplicate, NotWorth.
        """
        return self._keeper.change_many(changes, why, by=by, allow=allow)

    def used(self, *paths: str) -> None:
        """Count that an agent read these memories, or was shown them: once a day each.

        What was of use lately stays in a full catalog. It moves up when the next memory is saved, and not before:
        a prompt does not change because somebody read.
        """
        today = self._keeper.today()
        fresh = [path for path in paths if (today, path) not in self._counted]
        if fresh and not self.read_only:
            self.store.add_uses(today, fresh)
            self.index.used()
            self._counted.update((today, path) for path in fresh)

    # learning

    @property
    def state(self) -> State:
        """What is kept about this scope outside of it: the inbox, what waits for review, the gates."""
        return _state_of(self.root, self.settings)

    @property
    def learning(self) -> Learner:
        """The inbox of this scope, and what waits for review."""
        from memsheaf.learn.learner import Learner

        policy, ledger = self.settings.policy_of(self.scope), self._keeper.ledger
        return Learner(self, self._keeper, self.state, policy=lambda path: policy, ledger=ledger, clock=self._clock)

    def _quick_embedder(self) -> Embedder | None:
        """What tells in no time how near two texts are: the table in the package, unless there is to be none."""
        from memsheaf.embed import find

        settings = self.settings
        with suppress(EmbedderFailed):
            return None if settings.embedder == "none" else find(settings.cache, name="static")
        return None

    def learn(self, turn: Turn) -> bool:
        """Keep a finished turn of a conversation until it is distilled. False when nothing of it is kept.

        `turn.unkept` says whether that is the user's wish. With the policy `log` it goes into the daily log.
        """
        self._keeper.require_writable()
        policy = self.settings.policy_of(self.scope)
        if policy == "log":
            from memsheaf.learn.daily_log import DailyLog

            with DailyLog(self.root, self.state, ledger=self._keeper.ledger, clock=self._clock) as log:
                return log.append(turn, by=self.by)
        from memsheaf.learn.inbox import Inbox  # and nothing of what reads it: somebody waits for this

        return policy != "manual" and Inbox(self.state, clock=self._clock).append(turn)

    def distil(
        self,
        model: Model | str | None = None,
        *,
        deadline: float = 60.0,
        progress: Callable[[int, int], None] | None = None,
        learner: Learner | None = None,
    ) -> Distilled:
        """Make memories of the turns that wait: with the model, or the one of the settings, or by rules alone.

        What it may cost is limited by the settings. What fails waits for the next time. Then memories are
        consolidated, if that is due, nobody has to be asked, and the policy is not `log`. `Layers` gives the
        `learner` that keeps each where it belongs; else all is kept here.
        """
        self._keeper.require_writable()
        done = (learner or self.learning).distil(self.metered("extract", model), deadline=deadline, progress=progress)
        if done.problem or self.settings.policy_of(self.scope) != "auto":
            return done
        with suppress(Busy):
            return done._replace(report=self.dream(model)[1])
        return done

    def consolidate(
        self,
        model: Model | str | None = None,
        *,
        apply: bool = False,
        progress: Callable[[int, int], None] | None = None,
        mine: Callable[[PlanGroup], bool] | None = None,
    ) -> ConsolidationReport:
        """Merge what says the same, retire what is past; with `apply` it is done, else only planned.

        What a person wrote takes part only with `mine`, which is asked before each such group is done.

        Raises:
            Busy: another process is at it.
        """
        from memsheaf.learn import consolidate

        return consolidate.run(
            self,
            state=self.state,
            now=self._clock(),
            model=self.metered("consolidate", model),
            apply=apply,
            learned=self.learning.inbox.learned(),
            embedder=self._quick_embedder(),
            progress=progress,
            mine=mine,
        )

    def dream(
        self,
        model: Model | str | None = None,
        *,
        planning: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> tuple[tuple[Gate, ...], ConsolidationReport | None]:
        """Consolidate if every gate is open: gives the gates, and None when nothing was done. Raises Busy.

        While the agent is `planning` nothing is.
        """
        from memsheaf.learn import consolidate

        self._keeper.require_writable()
        return consolidate.when_due(
            self,
            state=self.state,
            settings=self.settings.dream,
            now=self._clock(),
            files=self._memories(),
            learned=self.learning.inbox.learned(),
            planning=planning,
            logging=self.settings.policy_of(self.scope) == "log",
            model=lambda: self.metered("consolidate", model),
            embedder=self._quick_embedder(),
            progress=progress,
        )

    def gates(self) -> tuple[Gate, ...]:
        """What has to be so before memories are consolidated by themselves, and whether it is."""
        from memsheaf.learn import schedule

        files, learned = self._memories(), self.learning.inbox.learned()
        settings = self.settings
        logging = settings.policy_of(self.scope) == "log"
        return schedule.gates(
            self.state, settings.dream, files=files, learned=learned, now=self._clock(), logging=logging
        )

    def _memories(self) -> int:
        """How many memories there are, without reading what the index knows about each."""
        self.index.look()
        return self.index.total()

    def expect(self, question: str, path: str) -> None:
        """Keep that a question is answered by a memory: no consolidation may change that. Raises NotFound."""
        from memsheaf.learn import rehearsal

        self._keeper.require_writable()
        rehearsal.expect(self.state, question, self.read(path).path)

    def metered(self, purpose: str, model: Model | str | None = None) -> Model | None:
        """The model, or the one that the settings name, with the caps of the settings; None for "none" or without.

        Raises:
            ModelFailed, BadSettings: it cannot be used.
        """
        from memsheaf.llm import load_model
        from memsheaf.llm.spend import Ledger, Metered

        settings = self.settings
        model = model or settings.model
        if isinstance(model, str):
            own = model == settings.model  # address and key in the settings are for it and for no other
            url, key = (settings.model_url, settings.model_key) if own else ("", "")
            model = load_model(model, url=url, key=key) if model and model != "none" else None
        if model is None or isinstance(model, Metered):
            return model
        ledger = Ledger.of(settings.state or os.path.join(settings.home, "state"), clock=self._clock)
        return Metered(model, ledger, settings.caps, purpose)

    # what happened

    def log(self, path: str = "", *, limit: int | None = None) -> Iterator[Commit]:
        """The commits of this scope or of one path, newest first; edits made outside are noticed first."""
        self.index.look(thorough=True)
        return islice(self.store.history(self._keeper.spelled(path) if path else None), limit)

    def diff(self, path: str, older: Version = "", newer: Version = "") -> str:
        """How a memory changed: from an older version to a newer one or to what it is now, or by its last commit.

        Raises:
            NotFound: there is no such memory, and never was.
            VersionGone: the journal no longer holds a text that is needed.
        """
        from memsheaf import history

        self.index.look(thorough=True)
        path = self._keeper.spelled(path)
        if older:
            texts = self._text_at(path, older), self._text_at(path, newer)
            return history.diff(path, *texts, labels=(older[:12], newer[:12] or "now"))
        last = next(self.store.history(path), None)
        if last is None:
            raise NotFound(path)
        step = last.revisions[0]
        before, after = (self._text_at(path, version) if version else "" for version in (step.before, step.after))
        return history.diff(path, before, after, labels=(step.before[:12] or "absent", step.after[:12] or "absent"))

    def blame(self, path: str) -> Sequence[Blamed]:
        """Which commit each line of a memory came with."""
        from memsheaf import history

        self.index.look(thorough=True)
        memory = self.read(path)
        return history.blame(memory.text, self.store.history(memory.path))

    def undo(self, commit: str = "") -> Commit:
        """Take back a commit: the one named, or the last of ours that stands. Undo an undo by its id.

        What a person did outside, and events of a task, are taken back only when they are named.

        Raises:
            NoSuchCommit, Changed, VersionGone.
        """
        self._keeper.require_writable()
        self.index.look(thorough=True)
        target = self.store.find(commit) if commit else self.store.last_standing(except_by="outside", events=False)
        self._keeper.refuse_twins(step.path for step in target.revisions if step.before != ABSENT)
        return self._keeper.follow(lambda: self.store.undo(target.id, by=self.by), [CATALOG])

    def restore(self, path: str, version: Version) -> Commit:
        """Bring a memory back to an older version, whatever it is now.

        Raises:
            VersionGone: the journal no longer holds it.
        """
        path = self._keeper.spelled(path)
        data = self.store.version(path, version)
        found = self._keeper.find(path)
        if found is None and is_fact(path):
            self._keeper.refuse_superseded(parse(path, data), self._keeper.facts())
        change = Change(path, data, found.version if found else ABSENT)
        # it was here before
        why = f"restore {version[:12]}"
        return self._keeper.commit([change], why, allow=Allow(secrets=True, anyway=True), rewriting=True)

    def erase(self, path: str) -> Proof:
        """Remove a memory and all its versions for good, and prove it.

        Raises:
            NotFound: neither the files nor the journal know it.
        """
        from memsheaf.erasure import examine
        from memsheaf.learn import rehearsal

        self._keeper.require_writable()
        learning, path = self.learning, self._keeper.spelled(path)
        texts = self._texts_of(path)  # first: afterwards nobody knows what to look for
        self._forget_elsewhere(learning, texts, [path] if texts else ())
        self.index.ready()
        before = self.index.folders_of([CATALOG, path])
        try:
            erased = self.store.erase(path, by=self.by)
        except NotFound:  # or it was erased, and something kept us from seeing to the rest
            self.index.purge([path], ())
            raise
        self._forget_elsewhere(learning, erased.texts, erased.names)
        for name in erased.names:
            rehearsal.disregard(self.state, name)
        if self._keeper.ledger:
            from memsheaf.worktree import COMMITTERS

            self._keeper.ledger.forget(erased.names)
            self.state.remove(COMMITTERS)
        self.index.purge(erased.names, erased.texts, before)
        self.index.look()
        self.index.close()  # to read the files of an open database would end the locks that SQLite has on them
        kept = (os.path.join(one.folder, name) for one in self.state.beside() for name in one.names(drafts=True))
        others = {*self.index.files(), *learning.files(), *kept}
        return examine(self.root, erased, others, journals=self.store.journals, checkout=self.store.checkout)

    def _forget_elsewhere(self, learning: Learner, texts: Sequence[bytes], names: Sequence[str]) -> None:
        """Take what an erased memory said out of what is kept beside the memories."""
        from memsheaf.learn import conversation_file, spill
        from memsheaf.learn.learner import forget_waiting

        learning.forget(texts)
        for state in self.state.beside():  # what was said waits in one scope, and is spilled in one, whatever it says
            spill.forget(state, texts)
            conversation_file.forget(state, texts, names)
            forget_waiting(state, texts, clock=self._clock)

    def _texts_of(self, path: str) -> Sequence[bytes]:
        """Every text that a memory has or had, as far as the journal still holds them."""
        steps = (step for commit in self.store.history(path) for step in commit.revisions if step.path == path)
        known = {data for step in steps for data in (step.old, step.new) if data}
        present = self._keeper.find(path)
        return sorted(known | ({present.data} if present else set()))

    # moving

    def export(self, target: str, *, history: bool = False) -> Exported:
        """Write every file of every layer to a new zip, tar or folder, with `history` the journals, too.

        What cannot be read whole is left out and named.
        """
        from memsheaf import transfer

        self.index.look(thorough=True)
        state = os.path.dirname(self.state.folder)
        places = transfer.Places(self.root, "", self.settings.home, state, self.settings.cache)
        return transfer.export(places, target, history=history)

    def take_in(
        self,
        source: str,
        *,
        replace: bool = False,
        dry_run: bool = False,
        allow: Allow = STRICT,
        history: bool = False,
    ) -> Imported:
        """Import a folder or an archive, one commit a layer. What is refused stays out and is named.

        What a memory here says already is refused, too, unless `allow` says otherwise; whether it is worth
        keeping was decided where it comes from. With `history`, the past of what comes in comes along.

        Raises:
            ArchiveRefused: it reaches outside, or is too large; nothing was imported.
        """
        from memsheaf import transfer

        return transfer.take_in(
            self._keeper,
            source,
            replace=replace,
            dry_run=dry_run,
            allow=allow,
            history=history,
        )

    def _text_at(self, path: str, version: Version) -> str:
        """The text a memory had at a version; without one, the text it has now."""
        found = self._keeper.find(path)
        if found and found.version.startswith(version):
            return found.text
        return self.store.version(path, version).decode("utf-8", "replace") if version else ""


def _state_of(root: str, settings: config.Settings) -> State:
    from memsheaf.store.state import State

    return State.of(root, settings.state or os.path.join(settings.home, "state"))


def _embedder_of(settings: config.Settings) -> Callable[[], Embedder | None] | None:
    if settings.embedder == "none":
        return None

    def found() -> Embedder | None:
        from memsheaf.embed import find

        return find(settings.cache, name=settings.embedder, url=settings.embedder_url, key=settings.embedder_key)

    return found
