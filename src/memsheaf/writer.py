"""The writer: every change of a scope, the checks before it, and the commit.

The gates stand at one place, `Writer.commit`: a new secret, what another memory says already, and what is not worth
keeping go no further, whichever way they come; only a person decides what is worth it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from types import MappingProxyType
from typing import TYPE_CHECKING

from memsheaf.errors import (
    BadHeader,
    Busy,
    Duplicate,
    Exists,
    MemsheafError,
    NotFound,
    NotWorth,
    PathRefused,
    ReadOnly,
    ReviewRequired,
    StoreFailed,
    TextRefused,
    hinted,
)
from memsheaf.frontmatter import edited
from memsheaf.guard import without_secrets
from memsheaf.guard.paths import CATALOG, FACTS, check_path, check_stored, file_name, fold, is_fact
from memsheaf.index.search import Index
from memsheaf.memory import KINDS, STRICT, Allow, Memory, check, parse
from memsheaf.recall.inject import CONTEXT
from memsheaf.scope import Scope
from memsheaf.store import ABSENT, Change, Commit, Version
from memsheaf.store.folder import FolderStore
from memsheaf.text.similarity import LIKE, alike, fact
from memsheaf.text_edits import merged, placed, refuse_empty_talk, refuse_secrets, refuse_unworthy, relinked, vouched

if TYPE_CHECKING:
    from memsheaf.fact_rules import FactRules
    from memsheaf.index.database import Row
    from memsheaf.recall.turns import Proposal
    from memsheaf.store.tombstones import Tombstone
    from memsheaf.store.trust import TrustLedger

Near = Sequence[tuple[str, Version]]  # memories that may say the same, from `Index.alike`
LINKS = 50  # memories that may name a file which gets another name


class Writer:
    """Writes the memories of one scope. `by` is who does, unless a change says otherwise.

    `own_context` says whether an agent may write CONTEXT.md here, `people_only` that only people may change anything.
    """

    def __init__(
        self,
        scope: Scope,
        store: FolderStore,
        index: Index,
        *,
        by: str,
        read_only: bool,
        clock: Callable[[], float],
        ledger: TrustLedger | None,
        own_context: bool,
        people_only: Callable[[], bool],
    ) -> None:
        self.scope = scope
        self.store = store
        self.index = index
        self.by = by
        self.read_only = read_only
        self._clock = clock
        self._ledger = ledger
        self.find_ledger: Callable[[], TrustLedger | None] = lambda: None  # a team can get a hub at any time
        self._own_context = own_context
        self.people_only = people_only  # asked each time, for this reason, too
        self.around: Callable[[], Iterable[Writer]] = lambda: ()  # the keepers of scopes that are seen with this one

    def read(self, path: str) -> Memory:
        """Give one memory, as it is on disk now. Raises NotFound, PathRefused."""
        try:
            document = self.store.read(path)
        except NotFound:
            others = self.index.same_file(path)
            if len(others) != 1 or others[0] == path:
                raise
            document = self.store.read(others[0])
        return self.judged(parse(document.path, document.data))

    def judged(self, memory: Memory) -> Memory:
        """The memory, shared unless this machine wrote it or a person accepted it."""
        if self.ledger is None or self.ledger.knows(memory.path, memory.version):
            return memory
        return memory._replace(shared=True)

    def marked(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Rows of the index, with what is shared marked as such."""
        if self.ledger is None:
            return rows
        shared = self.ledger.find_unknown((row.path, row.version) for row in rows if row.trust == "confirmed")
        return [row._replace(trust="shared") if row.path in shared else row for row in rows]

    def today(self) -> str:
        """The day, as headers have it."""
        return time.strftime("%Y-%m-%d", time.localtime(self._clock()))

    @property
    def ledger(self) -> TrustLedger | None:
        """The ledger of what this user wrote; the rest came from others. None where no other writes."""
        self._ledger = self._ledger or self.find_ledger()
        return self._ledger

    def require_writable(self) -> None:
        """Raise ReadOnly when nothing may be changed here."""
        if self.read_only:
            raise ReadOnly(f"the scope {self.scope} was opened for reading only")

    def require_person(self, by: str = "", made: Memory | None = None, was: Memory | None = None) -> None:
        """Raise ReviewRequired, with what was to be `made`, when an agent would change what only people change."""
        if self.people_only() and not self._is_person(by or self.by):
            raise ReviewRequired(str(self.scope), made if made and made.state == "ok" else None, was)

    def spelled(self, path: str) -> str:
        """The path as the folder spells it, whether or not it is still there."""
        path = check_stored(path)
        others = self.index.same_file(path)
        return others[0] if len(others) == 1 else path

    def refuse_other_spelling(self, path: str, found: Memory) -> None:
        """Raise Exists when a whole text would go to a file that only some systems call by this name."""
        if check_path(path) != check_path(found.path):
            raise Exists(found.path, f"{path!r} would be the same file on some systems")

    def find(self, path: str) -> Memory | None:
        """One memory as it is now, None when there is none. Raises PathRefused."""
        try:
            return self.read(path)
        except NotFound:
            return None
        except PathRefused as error:
            raise PathRefused(without_secrets(error.path[:1000]), error.why) from None

    def same_name(self, kind: str, name: str) -> Memory | None:
        """The memory with exactly this name, to which a correction belongs."""
        for _ in range(2):
            path = self.index.named(kind, name.strip())
            found = self.find(path) if path else None
            if found is None or (found.name, found.kind) == (name.strip(), kind):
                return found
            self.index.look(thorough=True)  # it was given another name meanwhile
        return None

    def store_one(
        self,
        memory: Memory,
        expect: Version,
        why: str,
        *,
        was: Memory | None = None,
        alone: bool = False,
        allow: Allow = STRICT,
    ) -> Memory:
        """Store one memory, new or in the place of what it was, with the trust that its channel gives it."""
        memory, near = vouched(memory, was, self.by), None
        if was is None and memory.state == "ok":
            near = self.index.alike(fact(memory))
            memory = self._doubted(memory, near)
        moves = was.path if was and was.path != memory.path else ""
        change, before = Change(memory.path, memory.data, expect, moves), {memory.path: was} if was else {}
        self.commit([change], why, parsed={memory.path: memory}, was=before, alone=alone, allow=allow, near=near)
        return memory

    def _doubted(self, memory: Memory, near: Near) -> Memory:
        """A new memory, unconfirmed when a machine writes what was doubted here or in a wider scope."""
        if self.by == "user" or memory.trust == "unconfirmed":
            return memory
        others = (one for one in self.around() if one is not self)
        if not self.doubts(memory, near) and not any(one.doubts(memory._replace(path="")) for one in others):
            return memory
        return parse(memory.path, edited(memory.text, fields={"trust": "unconfirmed"}).encode())

    def doubts(self, memory: Memory, near: Near | None = None) -> bool:
        """Whether what it says stands here shared or unconfirmed, or was so when it was removed."""
        wanted = fact(memory)
        for path, _ in self.index.alike(wanted) if near is None else near:
            with suppress(MemsheafError):
                other = self.read(path)
                if path != memory.path and other.trust != "confirmed" and alike(wanted, fact(other)) >= LIKE:
                    return True
        return self.store.doubted(wanted, memory.path)

    def commit(
        self,
        changes: Sequence[Change],
        why: str,
        *,
        by: str = "",
        parsed: Mapping[str, Memory] = MappingProxyType({}),
        was: Mapping[str, Memory] = MappingProxyType({}),
        alone: bool = False,
        allow: Allow = STRICT,
        rewriting: bool = False,
        near: Near | None = None,
    ) -> Commit:
        """Make changes; `alone` when none of their paths can be the same file as another one.

        Every change of ours passes here. What holds a new secret goes no further, nor does what is there already or
        what an agent saves and is not worth keeping, unless `allow` says so. A fact is not edited, unless an older
        text of it comes back by `rewriting`; it is retired by the one that supersedes it.
        """
        self.require_writable()
        by = by or self.by
        for change in changes:
            check_path(change.path)  # a store keeps more than memories
            self.refuse_context(change.path, by)
        made = {
            one.path: parsed.get(one.path) or parse(one.path, one.data) for one in changes if one.data is not None
        }
        for change in changes if not allow.secrets else ():
            refuse_secrets(made.get(change.path), was.get(change.path), why)
        if any(is_fact(change.path) for change in changes) and not rewriting:
            changes = self.fact_rules.with_retired(changes, made, by)
        self.index.ready()
        if present := [change.moves or change.path for change in changes if change.expect != ABSENT]:
            self.index.notice(present)
        if not alone:
            self.refuse_twins(change.path for change in changes if change.expect == ABSENT)
        # a person decides what lasts; learning has judged what nobody asked for before it comes here
        is_meant = self._is_person(by) or by == "extraction"
        for path, memory in made.items() if not allow.anyway else ():
            if memory.state == "ok":
                if not is_meant:
                    refuse_unworthy(memory, was.get(path))
                if path not in was:
                    refuse_empty_talk(memory)
                    self.refuse_personal(memory)
                    self.refuse_duplicate(memory, near)
        only = changes[0].path if len(changes) == 1 else ""
        self.require_person(by, made.get(only), was.get(only))
        changes = [one for change in changes for one in (self._moved(change) if change.moves else (change,))]
        try:
            commit = self.follow(
                lambda: self.store.commit(changes, by=by, why=why), [change.path for change in changes], parsed
            )
        except StoreFailed as error:  # a move has another scope, too
            error.hint = error.hint.replace(" SCOPE", f" {self.scope}")
            raise
        # what is learned in spite of a tombstone was asked for
        if rewriting or is_meant:
            self.store.unbury(map(fact, made.values()))
        if not rewriting:  # an older text is what it was when it was here
            self.record(commit)
        return commit

    def record(self, commit: Commit) -> None:
        """Record what a commit wrote as this machine's own, where others write, too.

        What a machine makes of shared texts stays shared: it may repeat them, and no person has read it.
        """
        if (ledger := self.ledger) is None:
            return
        with suppress(StoreFailed, Busy):  # then it is shared, and the memory is saved all the same
            taken = (step for step in commit.revisions if step.before != ABSENT)
            if self._is_person(commit.by) or all(ledger.knows(step.path, step.before) for step in taken):
                written = [(step.path, step.after) for step in commit.revisions if step.after != ABSENT]
                ledger.add(written, commit.by)

    def _is_person(self, by: str) -> bool:
        return by == "user" or (by == "import" and self.by == "user")

    def refuse_context(self, path: str, by: str) -> None:
        """Raise TextRefused when an agent would change what stands in every later system prompt."""
        if fold(path) == fold(CONTEXT) and not self._is_person(by) and not self._own_context:
            how = f"ask the user to run `memsheaf edit {CONTEXT}`, and tell them what to put there"
            raise TextRefused(f"{CONTEXT} stands in every system prompt, so only a person writes it; {how}")

    @property
    def fact_rules(self) -> FactRules:
        """What holds for the facts of this scope."""
        from memsheaf.fact_rules import FactRules

        return FactRules(self.store, self.index, self.find)

    def refuse_personal(self, memory: Memory) -> None:
        """Raise NotWorth for a memory about one person in a team's scope."""
        if self.scope.layer == "team" and memory.kind == "user":
            error = NotWorth(f"it is about one person, and all of {self.scope} would read it")
            raise hinted(error, "Keep it in the scope user; what holds for all in the team has another type.")

    def refuse_duplicate(self, memory: Memory, near: Near | None = None) -> None:
        """Raise Duplicate when another memory, one of those `near`, says the same in almost the same words.

        A fact may differ in a word alone from the one that it supersedes.
        """
        wanted = fact(memory)
        itself = {memory.path, *(memory.supersedes if is_fact(memory.path) else ())}
        for path, _ in self.index.alike(wanted) if near is None else near:
            with suppress(MemsheafError):
                other = self.read(path)
                if path in itself or other.state != "ok" or other.trust == "shared":
                    continue  # what others committed does not stand in for what is said here
                if (found := alike(wanted, fact(other))) >= LIKE:
                    break
        else:
            return
        raise Duplicate(path, found)

    def refuse_twins(self, paths: Iterable[str]) -> None:
        """Raise Exists for a path that is one file with another where case or composition do not count."""
        for path in paths:
            if others := set(self.index.same_file(path)) - {path}:
                raise Exists(others.pop(), f"{path!r} would be the same file on some systems")

    def follow(
        self, work: Callable[[], Commit], paths: Sequence[str], parsed: Mapping[str, Memory] = MappingProxyType({})
    ) -> Commit:
        """Do what makes a commit that touches these paths, and take it over into the index."""
        with self.index.committing():
            before = self.index.folders_of([CATALOG, *paths])  # the catalog follows, in the root
            commit = work()
            self.index.follow(commit, before, parsed)
        return commit

    def change_many(self, changes: Sequence[Change], why: str, *, by: str, allow: Allow = STRICT) -> Commit:
        """Change several memories as one commit, all or none; `by` says through which channel.

        Raises:
            Changed: one of them is not at the version that was expected.
            TextRefused, SecretFound, Duplicate, NotWorth.
        """
        from memsheaf.recall.recall import LAYER_FILES

        was = {change.path: found for change in changes if (found := self.find(change.moves or change.path))}
        removed = {was[change.path].data for change in changes if change.data is None and change.path in was}
        changes = [
            change._replace(data=vouched(parse(change.path, change.data), was.get(change.path), by).data)
            if change.data is not None and change.data not in removed and change.path not in LAYER_FILES
            else change
            for change in changes
        ]
        return self.commit(changes, why, by=by, was=was, allow=allow)

    def put_events(self, change: Change, why: str) -> Commit:
        """Store a file of events, which is no memory. Raises Changed, ReadOnly."""
        self.require_writable()
        return self.store.commit([change], by=self.by, why=why)

    def turn(self) -> AbstractContextManager[object]:
        """The lock for those who lost a race once and wait for their turn."""
        return self.store.lock("turn")

    def prune(self) -> int:
        """Drop from the journal what is past retention; gives how many texts that were."""
        return self.store.prune()

    def recover(self) -> None:
        """Complete what a crash left half done, also in a scope that was opened to be read."""
        self.store.recover()

    def draft(
        self, proposal: Proposal, taken: Collection[str], *, by: str = "extraction"
    ) -> tuple[Change, Memory, Memory | None]:
        """The change that a proposal makes, the memory after it, and the one before; nothing is written.

        Only what a proposal names is replaced. Raises TextRefused, BadHeader, NotFound.
        """
        self.index.ready()
        was = self.read(proposal.replaces) if proposal.replaces else None
        supersedes = bool(was and is_fact(was.path))
        citations = self.fact_rules.without_hashes(was) if was and supersedes else ()
        fresh = proposal.to_memory(self.today(), superseded=was if supersedes else None, citations=citations)
        others, folder = {fold(path) for path in taken}, FACTS if supersedes else ""
        is_taken = lambda one: fold(folder + one) in others or bool(self.index.same_file(folder + one))  # noqa: E731
        if was is None or supersedes:
            path = folder + file_name(proposal.kind, proposal.name, is_taken)
            return Change(path, fresh.data, ABSENT), placed(fresh, path), was
        if was.state != "ok":
            raise BadHeader(was.path, was.problem)
        memory = vouched(check(was.path, merged(was, fresh), kinds=(*KINDS, was.kind)), was, by)
        return Change(memory.path, memory.data, was.version), memory, was

    def _moved(self, change: Change) -> Iterable[Change]:
        """The changes that put a text under another name: the old file goes, and what names it names the new one."""
        found = self.index.search(change.moves.replace("_", " "), LINKS)
        others = (self.read(one.row.path) for one in found if not is_fact(one.row.path))
        return (Change(change.moves, None, change.expect), change._replace(expect=ABSENT), *relinked(change, others))

    def accept(self, change: Change, was: Memory | None, why: str) -> Commit:
        """Make a change that a person has seen and wants. Raises Changed, SecretFound."""
        return self.commit([change], why, by="user", was={change.path: was} if was else {}, allow=Allow(anyway=True))

    def bury(self, memory: Memory, *, undo: bool = False) -> None:
        """Note that a person rejected this: it is not learned again; with `undo` it may be."""
        self.require_writable()
        if undo:
            self.store.unbury([fact(memory)])
        else:
            self.store.bury([("", memory.data)], "rejected")

    def judge(self, memory: Memory, was: Memory | None, *, asked: bool = False) -> None:
        """Raise what a change would be refused with: TextRefused, SecretFound, NotWorth, Duplicate.

        What the user `asked` to remember is kept whether it lasts or not.
        """
        refuse_secrets(memory, was)
        if not asked:
            refuse_unworthy(memory, was)
        if was is None:
            refuse_empty_talk(memory)
            self.refuse_duplicate(memory)

    def buried(self, memory: Memory) -> Tombstone | None:
        """The tombstone that prevents learning this; None without one."""
        return self.store.buried(fact(memory))
