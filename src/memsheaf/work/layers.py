"""Layers: the API over several scopes at once, for agents.

    task        what one piece of work has found, decided and verified
    session     scratch notes of one conversation
    project     NOTES.md, facts and memories of the repository
    team        what the project's team shares, if the user's settings name one: read here, changed by people
    user        what holds everywhere

Each layer is a scope of its own (`scope.py`): plain files, a journal, undo. Reading covers all of them, the nearest
first; writing goes where it belongs (`Layers.scope_for`). A file of the home scope, which is the project unless other
scopes were given, is shown by its bare name, any other with its scope: `user:user_prefers-tabs.md`. By that name it
is read, changed and deleted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import date
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from memsheaf import config
from memsheaf.errors import NoSuchCommit, NotFound, hinted
from memsheaf.guard.paths import fold
from memsheaf.index.catalog import Page, with_scope
from memsheaf.memory import STRICT, compose, parse
from memsheaf.recall.inject import share_out
from memsheaf.sheaf import Sheaf
from memsheaf.store import ABSENT
from memsheaf.text.requests import without_request
from memsheaf.work.scopes import OF_EACH, SCRATCH, OpenScopes, Router
from memsheaf.work.undo import TOGETHER, is_move, undo_together

if TYPE_CHECKING:
    from memsheaf.index.database import Match, Row
    from memsheaf.learn.learner import Distilled, Learner
    from memsheaf.llm import Model
    from memsheaf.memory import Memory
    from memsheaf.recall.recall import Recall
    from memsheaf.recall.session import Session
    from memsheaf.recall.turns import Message, TranscriptEntry, Turn
    from memsheaf.store import Commit, Version
    from memsheaf.work.compaction import Compacted


class SavedFact(NamedTuple):
    """A memory that was saved, its scope, the memory that it replaced, and those that it may contradict."""

    memory: Memory
    scope: str
    replaced: Memory | None
    linked: list[Memory]


class Layers(OpenScopes):
    """The layers around a working directory, or the scopes that are given. What is opened is closed with it.

    >>> with Layers.open() as layers:                                            # doctest: +SKIP
    ...     layers.remember("Prefers tabs", "Indentation", "user", "Use tabs.").path
    'user:user_prefers-tabs.md'
    """

    @classmethod
    def open(cls, *, settings: config.Settings | None = None, cwd: str = "", **more: Any) -> Layers:
        """The layers around a working directory, or with `scopes` these, of which the first is the home scope."""
        return cls(settings or config.load(), cwd or os.getcwd(), **more)

    @classmethod
    def of(cls, sheaf: Sheaf) -> Layers:
        """One scope that is open already, and nothing else: all its names are bare."""
        made = cls(sheaf.settings, "", by=sheaf.by, scopes=[str(sheaf.scope)], read_only=sheaf.read_only)
        made._open[made.home] = made._stack.enter_context(sheaf)
        return made

    def looking(self) -> Layers:
        """The same layers once more, for reading only."""
        return self._copy(self.given, read_only=True)

    def lasting(self) -> Layers:
        """The same without tasks and sessions, the home scope first; it shares what is open."""
        lasting = [one for one in self.scopes() if one == self.home or one.partition("/")[0] not in SCRATCH]
        copy = self._copy([self.home, *lasting], read_only=self.read_only)
        copy._open, copy._stack, copy._opening = self._open, self._stack, self._opening
        copy.beside = self.beside
        return copy

    def _copy(self, scopes: Sequence[str], *, read_only: bool) -> Layers:
        return Layers(
            self.settings, self._cwd, by=self.by, scopes=scopes, read_only=read_only, clock=self.clock,
            on_open=self._on_open, **self._chosen,
        )  # fmt: skip

    def _matches(self, query: str, limit: int) -> Sequence[tuple[Sheaf, Match]]:
        found = [(sheaf, match) for sheaf in self.sheaves() for match in sheaf.matches(query, limit=limit)]
        best = sorted(range(len(found)), key=lambda at: -found[at][1].score)[:limit]  # of equals the nearer one
        return [found[at] for at in sorted(best)]

    def session(self, *, model: Model | None = None, deadline: float = 5.0, tree: str = "") -> Session:
        """The memory side of one conversation over all layers, the nearest first. The home scope learns from it."""
        from memsheaf.recall.session import Session

        return Session(
            self.sheaves(),
            home=self.home,
            model=self.metered("select", model) if model else None,
            deadline=deadline,
            used=lambda scope, paths, message: self.sheaf(scope).used(*paths, message=message),
            prompt=self.prompt,
            learn=self.learn,
            tree=tree,
            memories=self.own.root,
            clock=self.clock,
        )

    def read(self, name: str) -> Memory:
        """Give one memory by the name under which it is shown. Raises NotFound, PathRefused."""
        sheaf, path, memory = self._locate(name)
        with self.naming(sheaf):
            return self._shown(sheaf, memory or sheaf.read(path))

    def _shown(self, sheaf: Sheaf, memory: Memory) -> Memory:
        return memory._replace(path=self.name(sheaf, memory.path))

    def _rows(self, sheaf: Sheaf, rows: Sequence[Row]) -> Sequence[Row]:
        return [row._replace(path=self.name(sheaf, row.path)) for row in rows]

    def list(self, *, kind: str = "", unconfirmed: bool = False) -> Sequence[Row]:
        """Every file, scope by scope."""
        return [
            row
            for sheaf in self.sheaves()
            for row in self._rows(sheaf, sheaf.list(kind=kind, unconfirmed=unconfirmed))
        ]

    def select(self, kinds: Collection[str] = (), matching: str = "") -> Sequence[Row]:
        """The memories of these types, or of any, that have all words of a text somewhere in them, in any case."""
        wanted = matching.casefold().split()
        found = [row for row in self.list() if row.state == "ok" and (not kinds or row.kind in kinds)]
        texts = [f"{row.path}\n{self.read(row.path).text}".casefold() if wanted else "" for row in found]
        return [row for row, text in zip(found, texts, strict=True) if all(word in text for word in wanted)]

    def caveats(self, memory: Memory) -> Sequence[str]:
        """What a reader must know of a memory's origin."""
        sheaf, path = self.place(memory.path)
        return sheaf.caveats(memory._replace(path=path))

    def part(self, *, kind: str = "", limit: int = 200, offset: int = 0) -> tuple[Sequence[Row], int]:
        """Some of what `list` gives, and how many there are; the `kind` "other" stands for all unknown ones."""
        return self._paged(limit, offset, lambda sheaf, most, at: sheaf.part(kind=kind, limit=most, offset=at))

    def ranked(self, limit: int, offset: int = 0) -> Sequence[Row]:
        """What the catalogs may show, most important first, scope by scope."""

        def ranked(sheaf: Sheaf, most: int, at: int) -> tuple[Sequence[Row], int]:
            return sheaf.best(most, at), sheaf.reader.count()

        return self._paged(limit, offset, ranked)[0]

    def _paged(
        self, limit: int, offset: int, page: Callable[[Sheaf, int, int], tuple[Sequence[Row], int]]
    ) -> tuple[Sequence[Row], int]:
        """Rows of all scopes as if they were one, and how many there are."""
        rows: list[Row] = []
        total = 0
        for sheaf in self.sheaves():
            found, count = page(sheaf, limit - len(rows), max(0, offset - total))
            rows += self._rows(sheaf, found)
            total += count
        return rows, total

    def search(self, query: str, *, limit: int = 10) -> Sequence[Row]:
        """Return the memories that hold a word of the query or clearly mean the same, the nearest scope first."""
        return [match.row for match in self.matches(query, limit=limit) if match.is_hit]

    def matches(self, query: str, *, limit: int = 10) -> Sequence[Match]:
        """As `search`, with the numbers behind the choice."""
        return [one._replace(row=self._rows(at, [one.row])[0]) for at, one in self._matches(query, limit)]

    def recall(self, message: str, *, model: Model | None = None, ignore: bool = False, tree: str = "") -> Recall:
        """The memories that matter for a message, at most five, ready to stand beside it; and why these."""
        return self.session(model=model, tree=tree).recall(message, ignore=ignore)

    def catalog(self) -> Page:
        """The catalog of the home scope, and those of the others, each under the name of its scope."""
        return self._joined(Sheaf.catalog)

    def page(self, number: int = 1, *, kind: str = "") -> Page:
        """A page of each whole catalog, most important first."""
        return self._joined(lambda sheaf: sheaf.page(number, kind=kind))

    def _joined(self, page_of: Callable[[Sheaf], Page]) -> Page:
        others = [sheaf for sheaf in self.sheaves() if sheaf is not self.own]
        pages = [page_of(self.own), *(page_of(sheaf) for sheaf in others)]
        texts = [
            f"In the scope {sheaf.scope}:\n{with_scope(page.text, str(sheaf.scope))}"
            for sheaf, page in zip(others, pages[1:], strict=True)
            if page.shown
        ]
        text = "\n".join([pages[0].text, *texts])
        return Page(text, sum(page.shown for page in pages), sum(page.total for page in pages))

    def prompt(self, *, budget: int = 0) -> str:
        """The section for a system prompt: of each scope, except that notes of tasks and sessions are not loaded.

        `budget` is a limit in bytes: each scope gets its share, and what one leaves goes to the next.
        """
        return "\n".join(text for _, text in self.prompts(budget=budget))

    def prompts(self, *, budget: int = 0) -> Sequence[tuple[str, str]]:
        """What `prompt` is made of: each scope with its part, the home scope first."""
        sheaves = self.lasting().sheaves()
        texts = [sheaf.prompt(also=sheaf is not self.own) for sheaf in sheaves]
        if budget:
            shares = share_out(budget, [len(text.encode()) + 1 for text in texts])
            given = zip(sheaves, shares, strict=True)
            texts = [sheaf.prompt(also=sheaf is not self.own, budget=share - 1) for sheaf, share in given]
        return [(str(sheaf.scope), text) for sheaf, text in zip(sheaves, texts, strict=True)]

    @property
    def tools(self) -> bool:
        """Whether agents have memory tools."""
        return self.own.tools

    @property
    def today(self) -> str:
        """The day, as headers have it."""
        return self.own.today

    def remember(
        self,
        name: str,
        description: str = "",
        kind: str = "",
        content: str | None = None,
        *,
        path: str = "",
        **more: Any,
    ) -> Memory:
        """Save one fact as `Sheaf.remember` does, where it belongs: `remember("I prefer pnpm")`.

        One with a `path` goes to the scope that the path names, or to the one that has that file; one that bears the
        name of a memory goes where that is; all else where `scope_for` says.
        """
        if content is None:
            return self.save_fact(without_request(name), description=description, kind=kind, **more).memory
        sheaf, path, is_new = self._target(name, kind, content, path)
        if is_new and not more.get("allow", STRICT).anyway and self.wider(sheaf):
            made = compose(name=name, description=description, kind=kind, body=content, created="", updated="")
            self.refuse_known(made, sheaf)
        more["supersedes"] = self.paths_in(sheaf, more.get("supersedes", ()))
        with self.naming(sheaf):
            return self._shown(sheaf, sheaf.remember(name, description, kind, content, path=path, **more))

    def save_fact(
        self, text: str, *, name: str = "", description: str = "", kind: str = "", **more: Any
    ) -> SavedFact:
        """Save a fact as somebody says it: where it belongs, and in the place of the memory that it surely corrects.

        What is given stays; the rest is made from the text. `more` is passed on to `remember`.
        """
        from memsheaf.learn.corrections import find_corrected
        from memsheaf.learn.sentences import draft_fact

        drafted = draft_fact(text, date.fromisoformat(self.today), kind)._replace(explicit=True)
        drafted = drafted._replace(name=name or drafted.name, description=description or drafted.description)
        proposal = find_corrected(self, drafted)
        old = self.read(proposal.replaces) if proposal.replaces else None
        if old and old.body.strip() == proposal.content.strip():
            return SavedFact(old, self._scope_of(old), old, [])
        place: dict[str, Any] = {"path": old.path, "replace": True, "expect": old.version} if old else {}
        name, description, kind, content = proposal[:4]
        memory = self.remember(name, description, kind, content, supersedes=proposal.supersedes, **place, **more)
        return SavedFact(memory, self._scope_of(memory), old, [self.read(path) for path in proposal.supersedes])

    def _scope_of(self, memory: Memory) -> str:
        return memory.path.rpartition(":")[0] or self.home

    def _target(self, name: str, kind: str, text: str, path: str) -> tuple[Sheaf, str, bool]:
        """Where something is to be written: the scope, the path in it, and whether nothing is there yet."""
        if len(self.scopes()) == 1:
            return self.own, self.place(path)[1], True
        if not path:
            for sheaf in self.sheaves():
                if str(sheaf.scope) not in self.beside and sheaf.reader.named(kind, name):
                    return sheaf, "", False
        else:
            sheaf, own = self.place(path)
            is_new = sheaf.reader.find(own) is None or (own == path and str(sheaf.scope) in self.beside)
            if own != path or not is_new or fold(path) in OF_EACH:
                return sheaf, own, is_new
        return self.sheaf(self.scope_for(kind, text)), path, True

    def revise(self, name: str, old: str, new: str, **more: Any) -> Memory:
        """Replace a piece of a memory's text, as `Sheaf.revise` does."""
        return self._change(name, lambda sheaf, path: sheaf.revise(path, old, new, **more))

    def insert(self, name: str, line: int, text: str, **more: Any) -> Memory:
        """Insert text in a memory, as `Sheaf.insert` does."""
        return self._change(name, lambda sheaf, path: sheaf.insert(path, line, text, **more))

    def put(self, name: str, text: str, *, expect: Version = ABSENT, **more: Any) -> Memory:
        """Store a whole file, as `Sheaf.put` does; a new one goes where its type belongs."""
        made = parse(name.rpartition(":")[2], text.encode("utf-8", "replace"))
        sheaf, path, is_new = self._target(made.name, made.kind if made.state == "ok" else "", made.body, name)
        if is_new and made.state == "ok" and not more.get("allow", STRICT).anyway:
            self.refuse_known(made, sheaf)
        with self.naming(sheaf):
            return self._shown(sheaf, sheaf.put(path, text, expect=expect, **more))

    def forget(self, name: str, **more: Any) -> Commit:
        """Remove a memory by the very name under which it is shown, as `Sheaf.forget` does.

        A bare name is of the home scope alone: to remove one twice does not remove its namesake in another scope.
        """
        sheaf, path = self.place(name)
        if sheaf is not self.own and path == name:
            raise hinted(NotFound(name), f"Another scope has one of that name: {self.name(sheaf, path)!r}.")
        with self.naming(sheaf):
            return self._shown_commit(sheaf, sheaf.forget(path, **more))

    def forget_many(self, rows: Sequence[Row], *, why: str = "") -> Sequence[Commit]:
        """Remove what `select` gave, as one commit a scope, which one `undo` takes back together.

        Raises Changed or NotFound when one is not what it was: nothing is removed in its scope and those after it.
        """
        made: list[Commit] = []
        for sheaf in self.sheaves():
            here = [(path, row.version) for row in rows for place, path in [self.place(row.path)] if place is sheaf]
            if here:
                said = f"{why or 'forget'}{TOGETHER}{made[0].id}" if made else why
                with self.naming(sheaf):
                    made.append(self._shown_commit(sheaf, sheaf.forget_many(here, why=said)))
        return made

    def confirm(self, name: str) -> Memory:
        """Mark an unconfirmed memory as confirmed: a person has read it. Raises NotFound, BadHeader."""
        return self._change(name, Sheaf.confirm)

    def _change(self, name: str, change: Callable[[Sheaf, str], Memory]) -> Memory:
        sheaf, path = self.place(name)
        with self.naming(sheaf):
            return self._shown(sheaf, change(sheaf, path))

    def used(self, *names: str) -> None:
        """Count that an agent read these memories, or was shown them: once a day each."""
        for name in names:
            scope, _, path = name.rpartition(":")
            self.sheaf(scope or self.home).used(path)

    def log(self, *, limit: int | None = None) -> Iterator[Commit]:
        """The commits of each scope, newest first, at most `limit` of each; the home scope comes first."""
        sheaves = [self.own, *(sheaf for sheaf in self.sheaves() if sheaf is not self.own)]
        commits = ((one, commit) for one in sheaves for commit in one.log(limit=limit))
        return (self._shown_commit(one, commit) for one, commit in commits)

    def undo(self, commit_id: str = "", *, others: Callable[[], Iterable[Sheaf]] = tuple) -> tuple[str, Commit]:
        """Take a commit back, or the last change, in whichever scope it was made; says in which.

        Without an id, what `forget_many` removed in other scopes comes back with it. A move is taken back on both
        sides; `others` are scopes where the other side may be.

        Raises:
            NoSuchCommit: there is none, or several begin with that id.
            Changed: a memory was changed again since.
        """
        found = []
        missing = NoSuchCommit(f"several commits begin with {commit_id!r}")
        for sheaf in self.sheaves():
            if not commit_id and str(sheaf.scope) in self.beside:
                continue  # what others did there is theirs
            try:
                found.append((sheaf.reader.last_change(commit_id), sheaf))
            except NoSuchCommit as error:
                missing = error
        if not found or (commit_id and len(found) > 1):
            raise missing
        commit, sheaf = max(found, key=lambda one: one[0].at)
        moved = is_move(sheaf, commit)
        around = [*self.sheaves(), *(others() if moved else ())]
        with self.naming(sheaf):
            undone = undo_together(sheaf, commit.id, around)
        scopes = ", ".join(dict.fromkeys(str(where.scope) for where, _ in undone))
        shown = [self._shown_commit(*one) for one in undone]
        return scopes, shown[0]._replace(revisions=tuple(chain.from_iterable(one.revisions for one in shown)))

    def _shown_commit(self, sheaf: Sheaf, commit: Commit) -> Commit:
        revisions = (one._replace(path=self.name(sheaf, one.path)) for one in commit.revisions)
        return commit._replace(revisions=tuple(revisions))

    @property
    def root(self) -> str:
        """The folder of the home scope."""
        return self.own.root

    @property
    def learning(self) -> Learner:
        """The inbox of the home scope; what comes of it goes where it belongs."""
        from memsheaf.learn.learner import Learner

        lasting = self.lasting()
        router = Router(lasting)
        ledger = self.own.writer.ledger
        return Learner(lasting, router, self.own.state, policy=router.policy, ledger=ledger, clock=self.clock)

    def learn(self, turn: Turn) -> bool:
        """Keep a finished turn until it is distilled. False when nothing of it is kept: see `turn.unkept`."""
        return self.own.learn(turn)

    def distil(self, model: Model | str | None = None, **more: Any) -> Distilled:
        """Make memories of the turns that wait, as `Sheaf.distil` does, each where it belongs."""
        return self.own.distil(model, learner=self.learning, **more)

    def metered(self, purpose: str, model: Model | str | None = None) -> Model | None:
        """The model, or the one that the settings name, with the caps of the settings; None without one."""
        return self.own.metered(purpose, model)

    def brief(self) -> str:
        """Where the work stands, from the files alone: NOTES.md, the task, the session; "" when there is nothing."""
        from memsheaf.work import brief

        return brief.brief(self)

    def standing(self) -> dict[str, object]:
        """As `brief`, for programs."""
        from memsheaf.work import brief

        return brief.standing(self)

    def compact(
        self,
        conversation: Sequence[TranscriptEntry | Message],
        budget: int = 50_000,
        *,
        trigger: str = "budget",
        notes: str = "",
        model: Model | str | None = None,
        name: str = "",
        approve: bool = False,
        dry_run: bool = False,
    ) -> Compacted:
        """Make a conversation fit this many tokens; phase, blockers and decisions of the layers are kept.

        The session's notes serve as the summary, unless others are given. With `dry_run` nothing is written; with
        `approve` a conversation that failed three times in a row is tried again. Raises Refused, StoreFailed.
        """
        from memsheaf.work import brief, compaction

        survives, noted = (compaction.NOTHING, "") if self.given else brief.surviving(self)
        metered, state, days = self.metered("compact", model), self.own.state, self.settings.retention_days
        how: dict[str, Any] = {
            "standing": survives, "trigger": trigger, "notes": notes or noted, "model": metered,
        }  # fmt: skip
        if dry_run:
            return compaction.compact(conversation, budget, where=state.folder, **how)
        if approve:
            compaction.approve(conversation, state=state, name=name)
        return compaction.run(conversation, budget, state=state, now=self.clock(), name=name, days=days, **how)
