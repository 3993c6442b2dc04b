"""One scope that is open: its folder, its index, and the ledger of whose texts it holds.

`Sheaf` works over one or several of these. Everything here speaks of paths in this one folder.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from memsheaf.config import Settings
from memsheaf.encode import Encoder, find_encoder
from memsheaf.encode.judge import guess_scope
from memsheaf.errors import (
    BadHeader,
    Busy,
    Changed,
    Exists,
    HubRefused,
    MemsheafError,
    NotFound,
    PathRefused,
    ReadOnly,
    Ref,
    ScopeRefused,
    StoreFailed,
    fact_edit_error,
)
from memsheaf.frontmatter import edit_text
from memsheaf.gates import (
    LAYER_FILES,
    Gate,
    GateContext,
    Near,
    WrittenFile,
    check_commit,
    check_text,
    citations_without_hashes,
    find_retired,
    merge_memory,
    place_memory,
    refuse_duplicate,
    refuse_personal,
    refuse_superseded,
    require_no_secret,
    review_error,
    set_origin,
)
from memsheaf.guard import without_secrets
from memsheaf.guard.paths import CATALOG, FACTS, check_path, check_stored, file_name, fold, is_fact
from memsheaf.index import browse
from memsheaf.index.browse import EVERYTHING, Filter, RowCounts
from memsheaf.index.catalog import MAX_BYTES, Page, apart, listing, with_scope
from memsheaf.index.database import UNUSABLE, Match, Row, database_for
from memsheaf.index.search import Index
from memsheaf.memory import KINDS, STRICT, Allow, Memory, check, parse, utc_time
from memsheaf.recall.inject import CONTEXT, NOTES, caveats, explain_untrusted, outdated_by, render_section
from memsheaf.scope import Scope, checkout_of, has_hub, resolve
from memsheaf.state import State
from memsheaf.state.trust import TrustLedger, list_versions
from memsheaf.store import ABSENT, HISTORY, HUB, Commit, CommitSummary, Version
from memsheaf.store.folder import FolderStore
from memsheaf.store.tombstones import DOUBTED
from memsheaf.text.similarity import SAME, alike, fact
from memsheaf.worktree import bring_journal, find_lost

if TYPE_CHECKING:
    from memsheaf.hub.replica import Replica
    from memsheaf.recall.recall_log import RecallRecord
    from memsheaf.recall.turns import Proposal
    from memsheaf.store.tombstones import Tombstone
    from memsheaf.store.transaction import Transaction

TOGETHER = ", together with "  # in a commit's reason, before what all commits of one command share
MOVE = "move "  # how the reason of a move begins, in both scopes
PAGE_ROWS = 150
MAX_MATCHES = 200  # memories that a search among all can find


T = TypeVar("T")
Look = Callable[[str], str | None]  # gives the text of a file as it is now, None when there is none
Plan = Callable[[Look], Mapping[str, str | None]]  # the new text of each file (None: remove it)


class OpenScope:
    """The memories of one scope. Nothing is created before the first change.

    With `is_reviewed` only people change anything here.
    """

    def __init__(
        self,
        scope: Scope,
        settings: Settings,
        *,
        cwd: str = "",
        by: str = "agent",
        read_only: bool = False,
        embedder: Encoder | None = None,
        clock: Callable[[], float] = time.time,
        is_reviewed: bool = False,
        store: FolderStore | None = None,
    ) -> None:
        """Open the folder of a scope, or this `store`. A commit that a crash left half done is completed."""
        self._ledger: TrustLedger | None = None
        if store is None:
            store, self._ledger = _open_store(scope, settings, cwd, read_only=read_only, clock=clock)
        load_embedder: Callable[[], Encoder | None] | None = None
        if embedder is not None:
            load_embedder = lambda: embedder  # noqa: E731
        elif settings.embedder != "none":
            load_embedder = partial(
                find_encoder, settings.embedder, url=settings.embedder_url, key=settings.embedder_key
            )
        database = database_for(store.root, settings.cache)
        self.scope = scope
        self.store = store
        self.index = Index(store, database, read_only=read_only, embedder=load_embedder, clock=clock)
        self.settings = settings
        self.by = by
        self.read_only = read_only
        self.clock = clock
        self._is_reviewed = is_reviewed
        self._is_team = not store.checkout  # where others write, they are its members
        self._prompt: tuple[tuple[object, ...], str] | None = None
        self._used_today: set[tuple[str, str]] = set()

    def close(self, *, wait: bool = True) -> None:
        """Flush everything to disk and release it; a process that ends now need not `wait` for vectors."""
        try:
            if not self.read_only:
                self.store.close()
        finally:
            if wait:
                self.index.close()

    @property
    def name(self) -> str:
        """The scope as users write it: "user", "agent/shop"."""
        return str(self.scope)

    @property
    def root(self) -> str:
        """The folder that holds the files."""
        return self.store.root

    @property
    def state(self) -> State:
        """The state that is kept about this folder outside of it: inbox, review queue, gates."""
        return self.settings.state_of(self.root)

    @property
    def today(self) -> str:
        """The day, as headers have it."""
        return time.strftime("%Y-%m-%d", time.localtime(self.clock()))

    @property
    def ledger(self) -> TrustLedger | None:
        """The ledger of what this user wrote; the rest came from others. None where nobody else writes."""
        if self._ledger is None and self.scope.layer == "team":  # a team can get a hub at any time
            self._ledger = find_ledger(self.scope, self.root, self.settings)
        return self._ledger

    @property
    def replica(self) -> Replica | None:
        """The folder as what several machines share, None for a scope without a hub."""
        return self.store if hasattr(self.store, "hub") else None  # type: ignore[return-value]

    # Reading

    def read(self, path: str) -> Memory:
        """Return one memory, as it is on disk now. Raises NotFound, PathRefused."""
        try:
            document = self.store.read(path)
        except NotFound:
            others = self.index.same_file(path)
            if len(others) != 1 or others[0] == path:
                raise
            document = self.store.read(others[0])
        return self._with_trust(self.parse(document.path, document.data))

    def find(self, path: str) -> Memory | None:
        """Return one memory as it is now, None when there is none. Raises PathRefused."""
        try:
            return self.read(path)
        except NotFound:
            return None
        except PathRefused as error:
            raise PathRefused(without_secrets(error.path[:1000]), error.why) from None

    def find_name(self, kind: str, name: str) -> Memory | None:
        """Return the memory with exactly this name, to which a correction belongs."""
        self.index.ready()
        name = name.strip()
        for _ in range(2):
            path = self.index.named(kind, name)
            memory = self.find(path) if path else None
            if memory is None or (memory.name, memory.type) == (name, kind):
                return memory
            self.index.look()  # it was given another name meanwhile
        return None

    def spell(self, path: str) -> str:
        """Return the path as the folder spells it, whether or not it is still there."""
        path = check_stored(path)
        others = self.index.same_file(path)
        return others[0] if len(others) == 1 else path

    def parse(self, path: str, data: bytes) -> Memory:
        """Return these bytes as a memory of this scope."""
        return parse(path, data)._replace(scope=self.name)

    def ref(self, path: str) -> Ref:
        """Return the identity of a file of this scope."""
        return Ref(self.name, path)

    def _with_trust(self, memory: Memory) -> Memory:
        """Return the memory as shared unless this machine wrote it or a person accepted it."""
        if self.ledger is None or self.ledger.knows(memory.path, memory.version):
            return memory
        return memory._replace(shared=True)

    def mark(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Return rows of the index with their scope, marked where they are shared, expired or may be outdated."""
        sql = "SELECT path, 'expired on ' || ends FROM entry WHERE ends <> '' AND ends < ?"
        expired = dict(self.index.query(lambda db: db.execute(sql, (self.today,)).fetchall()))
        newest = self._find_newest()
        return [
            row._replace(warning=expired.get(row.path) or outdated_by(newest.get(row.path)))
            for row in self._mark_shared(rows)
        ]

    def _find_newest(self) -> dict[str, Row]:
        """Return by path what supersedes a memory in the end; nothing in a circle, nor what others committed."""
        rows = self._mark_shared(self.index.rows("supersedes <> '' AND state = 'ok'"))
        newest: dict[str, Row] = {}
        for row in sorted(rows, key=lambda row: (row.updated, row.path), reverse=True):
            for path in row.supersedes.split("\n") if row.trust == "confirmed" else ():
                newest.setdefault(path, newest.get(row.path, row))
        return {path: row for path, row in newest.items() if newest.get(row.path) is not row}

    def _mark_shared(self, rows: Sequence[Row]) -> Sequence[Row]:
        rows = [row._replace(scope=self.name) for row in rows]
        if self.ledger is None:
            return rows
        shared = self.ledger.find_unknown((row.path, row.version) for row in rows if row.trust == "confirmed")
        return [row._replace(trust="shared") if row.path in shared else row for row in rows]

    def list(self, *, type: str = "", unconfirmed: bool = False) -> Sequence[Row]:
        """Return every file of this scope, in the order of the paths; `type` and `unconfirmed` narrow it."""
        wanted = Filter(kind=type, trust="unconfirmed" if unconfirmed else "")
        return [row for _, row in self.select(wanted, "path")]

    def changed_by_others(self) -> Sequence[Row]:
        """Return memories that somebody else changed after they were written, and that no person has seen since."""
        self.index.look()
        likely = self.mark(self.index.rows("line LIKE '%(changed by %'"))
        return [row for row in likely if self.read(row.path).changed_by not in ("", "user")]

    def select(self, wanted: Filter, sort: str) -> Sequence[tuple[str | float, Row]]:
        """Return the wanted rows, each with what it is sorted by: the negative score if a text is wanted."""
        self.index.look()
        if wanted.text:
            others = {row.path for _, row in self.select(wanted._replace(text=""), "path")}
            matches = self.matches(wanted.text, limit=MAX_MATCHES, look=False)
            return [(-match.score, match.row) for match in matches if match.is_hit and match.row.path in others]
        # what is shared stands in the index as confirmed
        stored = wanted._replace(trust="confirmed") if wanted.trust == "shared" else wanted
        keyed = self.index.query(lambda db: browse.select(db, stored, sort))
        rows = self.mark([row for _, row in keyed])
        return [(key, row) for (key, _), row in zip(keyed, rows, strict=True) if wanted.trust in ("", row.trust)]

    def record_drift(self, verdicts: Iterable[tuple[str, Version, bool]]) -> None:
        """Record which versions have a citation that does not hold any more, for `Filter.drifted`."""
        if not self.read_only:
            self.index.query(lambda db: browse.set_drift(db, verdicts))

    def best(self, limit: int) -> Sequence[Row]:
        """Return the rows that the catalog lists first."""
        self.index.look()
        return self.mark(self.index.ranked("", limit))

    def newer(self, path: str) -> Row | None:
        """Return the confirmed memory that supersedes this one, in the end; None where none does, or in a circle."""
        return self._find_newest().get(path)

    def count(self) -> int:
        """Return how many memories the catalog may show."""
        self.index.look()
        return self.index.total()

    def rows_under(self, folder: str, *, any_case: bool = False) -> Sequence[Row]:
        """Return the readable files below a folder, however deep, as the last look saw them; "" is the root.

        With `any_case`, another spelling of the folder's name will do where that very name has no files.
        """
        if not folder:
            return self.index.rows("version <> ?", UNUSABLE)
        if not any_case:  # "0" comes right after "/"
            return self.index.rows("path > ? AND path < ? AND version <> ?", f"{folder}/", f"{folder}0", UNUSABLE)
        prefix = fold(f"{folder}/").encode("utf-8", "replace").decode()
        rows = self.index.rows("fold >= ? AND fold < ? AND version <> ?", prefix, f"{prefix[:-1]}0", UNUSABLE)
        return [row for row in rows if row.path.startswith(f"{folder}/")] or rows

    def matches(
        self, query: str, *, limit: int = 10, among: Collection[str] | None = None, look: bool = True
    ) -> Sequence[Match]:
        """Return memories that hold words of the query or mean the same, best first, with the numbers behind it.

        With `among`, only these files are weighed. Without a `look`, what other programs just did is not noticed.
        """
        if look:
            self.index.look()
        matches = self.index.search(query, limit, among=among)
        rows = self.mark([match.row for match in matches])
        return [match._replace(row=row) for match, row in zip(matches, rows, strict=True)]

    def modified(self, paths: Iterable[str]) -> dict[str, float | None]:
        """Return when each file was last changed, in seconds; None for one that is not there."""
        return {path: stamp and stamp[0] / 1e9 for path, stamp in self.store.stamps(paths).items()}

    def count_use(self, paths: Sequence[str], message: str = "") -> None:
        """Count that an agent read these memories, or was shown them: once a day each. The `message` is logged.

        A memory that was of use lately stays in a full catalog. It moves up when the next memory is saved, and not
        before: a prompt does not change because somebody read.
        """
        if self.read_only:
            return
        today = self.today
        fresh = [path for path in paths if (today, path) not in self._used_today]
        if fresh:
            self.store.add_uses(today, fresh)
            self._used_today.update((today, path) for path in fresh)
        if message and paths:
            from memsheaf.recall.recall_log import log_recall

            log_recall(self.state, utc_time(self.clock()), message, paths)

    def recalled(self, path: str = "") -> Sequence[RecallRecord]:
        """Return when a memory was recalled, or any, and for which message, newest first; of the last 500 recalls."""
        from memsheaf.recall.recall_log import recall_records

        path = self.spell(path) if path else ""
        return [record for record in reversed(recall_records(self.state)) if not path or path in record.paths]

    def count_rows(self) -> RowCounts:
        """Count the memories by what a person has to decide about them."""
        self.index.look()
        return self.index.query(browse.count_rows)

    def names(self, paths: Collection[str]) -> dict[str, tuple[str, str]]:
        """Return the name and the type of these files, as far as they are there, by path."""
        rows = self.index.rows("path IN (SELECT value FROM json_each(?))", json.dumps([*paths]))
        known = {row.path: (row.name, row.type) for row in rows}
        return {path: known[path] for path in paths if path in known}

    # Prompt and catalog

    def catalog(self, max_bytes: int = MAX_BYTES) -> Page:
        """Return one line a memory, within a budget: what MEMORY.md holds, with what others wrote apart."""
        self.index.look()
        return self._catalog(max_bytes)

    def _catalog(self, max_bytes: int) -> Page:
        if ledger := self.ledger:
            newest = self._find_newest()
            owners = self.index.query(lambda db: browse.divide(db, ledger, newest))
            if owners.theirs:
                marks = ", ".join("?" * len(owners.theirs))
                rows = self.mark(self.index.rows(f"path IN ({marks})", *owners.theirs))
                return apart(owners, rows, self.committers(rows), max_bytes, team=self._is_team)
        return self.index.catalog(max_bytes)

    def catalog_page(self, number: int = 1, *, kind: str = "") -> Page:
        """Return a page of the whole catalog, most important first."""
        self.index.look()
        rows: Sequence[Row] = []
        if 0 < number < 1_000_000:
            rows = self.mark(self.index.ranked(kind, PAGE_ROWS, (number - 1) * PAGE_ROWS))
        entries = []
        for row in map(Row.masked, rows):
            mark = "(shared) " if row.trust == "shared" else ""
            entries.append((row.name, row.path, mark + (row.problem or f"{row.warning} {row.description}".lstrip())))
        return listing(entries, number, self.index.total(kind), PAGE_ROWS)

    def committers(self, rows: Sequence[Row | Memory]) -> dict[str, str]:
        """Return which member saved the text of these files for the team, by path, as far as is known."""
        files = {(row.path, row.version) for row in rows}
        return browse.find_members(self.store, files) if self._is_team else {}

    def caveats(self, memory: Memory) -> Sequence[str]:
        """Return what a reader must know of a memory: expired, outdated, unconfirmed, shared, changed by others."""
        who = self.committers([memory]).get(memory.path, "") if memory.shared else ""
        notes = caveats(memory, who, team=self._is_team, newer=self.newer(memory.path))
        return [*filter(None, [memory.describe_end(self.today)]), *notes]

    def prompt(self, *, also: bool = False) -> str:
        """Return the section for an agent's system prompt; the same bytes as long as no memory changed.

        The section of a scope that is `also` shown names the scope with each file.
        """
        has_changed = self.index.look()
        stamps = self.store.stamps((CATALOG, CONTEXT, NOTES))
        key = also, *stamps.values(), self.ledger and self.ledger.stamp
        is_published = key[1] and not self.index.publisher.is_foreign
        if has_changed or self._prompt is None or self._prompt[0] != key or not is_published:
            self._prompt = key, self._render_prompt(also=also)
        return self._prompt[1]

    def _render_prompt(self, *, also: bool) -> str:
        if not self.settings.tools:
            offer = "none"
        elif also:
            offer = "also"
        else:
            offer = "reading" if self.read_only else "all"
        catalog = self._catalog(MAX_BYTES).text
        return render_section(
            scope=self.name,
            catalog=with_scope(catalog, self.name) if also else catalog,
            context=self.prompt_file(CONTEXT),
            notes=self.prompt_file(NOTES),
            offer=offer,
        )

    def prompt_file(self, name: str) -> str:
        """Return the text of a file for every prompt, or why it is not shown; "" for an unconfirmed one."""
        data = self.store.published(name)
        memory = self._with_trust(parse(name, data)) if data else parse(name, b" ")
        if memory.trust == "shared":
            return f"({explain_untrusted(name, self.name, team=self._is_team)}.)"
        if memory.state in ("ok", "free"):
            return memory.body if memory.trust == "confirmed" else ""
        return f"({name} is not shown: {memory.problem}.)"

    def notices(self) -> Sequence[str]:
        """Say what went with its whole folder, and which files for every prompt wait for a person's look."""
        notices = list(self.describe_lost())
        if self.ledger:
            for memory in filter(None, map(self.find, (CONTEXT, NOTES))):
                if memory.trust == "shared":
                    notices.append(explain_untrusted(memory.path, self.name, team=self._is_team))
        return notices

    def describe_lost(self) -> Sequence[str]:
        """Say in one line each what went with its whole folder, and how it comes back."""
        if not self.store.may_have_lost():
            return []
        lost = find_lost(self.store)
        option = "" if self.name in ("project", "user") else f" --scope {self.name}"
        lines = []
        count = len(lost.files) - len(lost.in_git)
        if count:
            number, its, it = "1 memory was", "its", "it"
            if count > 1:
                number, its, it = f"{count:,} memories were", "their", "them"
            restore = f"`memsheaf restore{option}` brings {it} back"
            lines.append(f"{number} removed with {its} folder {self.root}; {restore}")
        if lost.in_git and not any(entry.path.endswith(".md") for entry in self.store.scan()):
            elsewhere = f"branches of git have {len(lost.in_git):,}; `git log --branches -- {self.root}` shows them"
            lines.append(f"this commit has no memories in {self.root}: {elsewhere}")
        return lines

    # History

    def log(self, path: str = "", *, limit: int | None = None) -> Iterator[Commit]:
        """Return the commits of this scope or of one memory, also before its renaming, newest first."""
        self.index.look()
        commits = self.store.trail(self.spell(path)) if path else self.store.history()
        return (commit._replace(scope=self.name) for commit in islice(commits, limit))

    def since(self, commit_id: str) -> Iterator[Commit]:
        """Return the commits after one, newest first; edits made outside are not looked for."""
        since = takewhile(lambda commit: commit.id != commit_id, self.store.history())
        return (commit._replace(scope=self.name) for commit in since)

    def summaries(self, day: str, group: str = "") -> Sequence[CommitSummary]:
        """Return the commits that changed memories since a day, newest first, without texts.

        With a `group`, only undos and what may have been made together under that name.
        """
        self.index.look()
        since = datetime.fromisoformat(day).astimezone(UTC).isoformat()
        return self.store.ask_history(lambda past: past.summaries(since, group), [])

    def last_change(self, commit_id: str = "") -> Commit:
        """Return the commit that `undo` would undo: the one named, or the last of ours that is not undone.

        Raises:
            NotInHistory: there is none, or several begin with that id.
        """
        if commit_id:
            commit = self.store.find(commit_id)
        else:
            commit = self.store.last_standing(except_by="outside", events=False)
        return commit._replace(scope=self.name)

    def has_history(self, path: str) -> bool:
        """Return True if the history knows this path."""
        return any(self.store.history(path))

    def diff(self, path: str, older: Version = "", newer: Version = "") -> str:
        """Show how a memory changed between two versions, or with its last commit. Raises NotFound, NotInHistory."""
        self.index.look()
        path = self.spell(path)
        if older:
            texts = self.text_at(path, older), self.text_at(path, newer)
            return diff(path, *texts, labels=(older[:12], newer[:12] or "now"))
        last = next(self.store.trail(path), None)
        if last is None:
            raise NotFound(self.ref(path))
        step = last.revisions[0]
        before = self.text_at(path, step.before) if step.before else ""
        after = self.text_at(path, step.after) if step.after else ""
        return diff(path, before, after, labels=(step.before[:12] or "absent", step.after[:12] or "absent"))

    def blame(self, path: str) -> Sequence[Blamed]:
        """Return the commit that each line of a memory came with."""
        self.index.look()
        memory = self.read(path)
        return blame(memory.text, self.store.trail(memory.path))

    def text_at(self, path: str, version: Version) -> str:
        """Return the text that a memory had at a version; without one, the text it has now."""
        present = self.find(path)
        if present and present.version.startswith(version):
            return present.text
        if not version:
            return ""
        return self.store.version(path, version).decode("utf-8", "replace")

    # Writing

    def require_writable(self) -> None:
        """Raise ReadOnly when nothing may be changed here."""
        if self.read_only:
            raise ReadOnly(f"the scope {self.scope} was opened for reading only")

    def require_person(self) -> None:
        """Raise ReadOnly when only people may change anything here."""
        if self._is_for_people() and not self._is_person(self.by):
            raise review_error(self.name)

    def _is_for_people(self) -> bool:
        if self._is_reviewed:
            return True
        is_automatic = self.settings.policy_of(self.scope) == "auto"
        return self.scope.layer == "team" and not is_automatic and has_hub(self.root, self.settings.home)

    def _is_person(self, by: str) -> bool:
        return by == "user" or (by == "import" and self.by == "user")

    def refuse_twins(self, paths: Iterable[str]) -> None:
        """Raise Exists for a path that is one file with another where case or composition do not count."""
        for path in paths:
            if others := set(self.index.same_file(path)) - {path}:
                raise Exists(self.ref(others.pop()), f"{path!r} would be the same file on some systems")

    def find_near(self, memory: Memory) -> Near:
        """Return the memories that may say the same, likely ones first."""
        return self.index.alike(fact(memory))

    def check_gates(
        self, memory: Memory, *chosen: Gate, was: Memory | None = None, by: str = "user", asked: bool = True
    ) -> None:
        """Raise what these gates, or all, would refuse a change with; what somebody `asked` to keep need not last."""
        context = self._gate_context(by)._replace(is_asked=asked)
        check_commit([WrittenFile(memory.path, memory, was)], context, chosen)

    def doubts(self, memory: Memory, near: Near | None = None) -> bool:
        """Return True if what it says stands here shared or unconfirmed, or was so when it was removed."""
        wanted = fact(memory)
        for path, _ in self.find_near(memory) if near is None else near:
            with suppress(MemsheafError):
                other = self.read(path)
                if path != memory.path and other.trust != "confirmed" and alike(wanted, fact(other)) >= SAME:
                    return True
        return self.store.doubted(wanted, memory.path)

    def facts(self) -> Sequence[Memory]:
        """Return the facts that are here now."""
        self.index.look()
        facts = []
        for row in self.index.rows("path LIKE ?", f"{FACTS}%"):
            with suppress(MemsheafError):
                if memory := self.find(row.path):
                    facts.append(memory)
        return facts

    def store_one(
        self,
        memory: Memory,
        why: str,
        *,
        was: Memory | None = None,
        alone: bool = False,
        allow: Allow = STRICT,
        around: Iterable[OpenScope] = (),
    ) -> Memory:
        """Store one memory, new or in the place of what it `was`, with the trust that its channel gives it.

        A machine that writes what was doubted here, or in a scope `around`, writes an unconfirmed memory.
        """
        memory = set_origin(memory, was, self.by)._replace(scope=self.name)
        near = None
        if was is None and memory.state == "ok":
            near = self.find_near(memory)
            if self.by != "user" and memory.trust != "unconfirmed":
                others = (other for other in around if other is not self)
                elsewhere = memory._replace(path="")
                if self.doubts(memory, near) or any(other.doubts(elsewhere) for other in others):
                    memory = self.parse(memory.path, edit_text(memory.text, fields={"trust": "unconfirmed"}).encode())
        self.commit([WrittenFile(memory.path, memory, was)], why, alone=alone, allow=allow, near=near)
        return memory

    def commit(
        self,
        files: Sequence[WrittenFile],
        why: str,
        *,
        by: str = "",
        alone: bool = False,
        allow: Allow = STRICT,
        rewriting: bool = False,
        near: Near | None = None,
    ) -> Commit:
        """Write files, all or none; `alone` when none of their paths can be the same file as another one.

        Every change of ours passes here, and so every gate, unless `allow` says otherwise. A fact is not edited,
        unless an older text of it comes back by `rewriting`; it is retired by the one that supersedes it. Those that
        are imported come in as they are, whatever they supersede.
        """
        self.require_writable()
        by = by or self.by
        for file in files:
            check_path(file.path)  # a store keeps more than memories
        context = self._gate_context(by, allow=allow, why=why, near=near)
        self.index.ready()
        if present := [file.was.path for file in files if file.was]:
            self.index.notice(present)
        if not rewriting and by != "import":
            retired = find_retired(files)
            removed = map(self.read, sorted(retired - {file.path for file in files}))
            files = [*files, *(WrittenFile(memory.path, None, memory) for memory in removed)]
            context = context._replace(retired=retired)
        if not alone:
            self.refuse_twins(file.path for file in files if file.was is None)
        check_commit(files, context._replace(is_reviewed=self._is_for_people(), is_single=len(files) == 1))
        try:
            commit = self.store.commit([file.change for file in files], by=by, why=why)._replace(scope=self.name)
        except (StoreFailed, HubRefused) as error:  # a move has another scope, too
            error.hint = error.hint.replace(" SCOPE", f" {self.scope}")
            raise
        memories = {file.path: file.memory for file in files if file.memory}
        self.index.follow(commit, memories)
        if rewriting or context.is_asked:  # what is learned in spite of a tombstone was asked for
            self.store.unbury(map(fact, memories.values()))
        if not rewriting:  # an older text is what it was when it was here
            self.record_trust(commit)
        return commit

    def _gate_context(
        self, by: str, *, allow: Allow = STRICT, why: str = "", near: Near | None = None
    ) -> GateContext:
        is_person = self._is_person(by)
        return GateContext(
            scope=self.name,
            is_person=is_person,
            # a person decides what lasts; learning has judged what nobody asked for before it comes here
            is_asked=is_person or by == "extraction",
            allow=allow,
            why=why,
            may_write_context=self.scope.layer == "agent" and self.settings.agent_context,
            near=lambda memory: self.find_near(memory) if near is None else near,
            read=self.read,
            facts=self.facts,
            had=self.has_history,
        )

    def record_trust(self, commit: Commit) -> None:
        """Record what a commit wrote as this machine's own, where others write, too.

        What a machine makes of shared texts stays shared: it may repeat them, and no person has read it.
        """
        ledger = self.ledger
        if ledger is None:
            return
        with suppress(StoreFailed, Busy):  # then it is shared, and the memory is saved all the same
            replaced = (step for step in commit.revisions if step.before != ABSENT)
            if self._is_person(commit.by) or all(ledger.knows(step.path, step.before) for step in replaced):
                ledger.add(list_versions([commit]))

    def change_many(self, files: Sequence[WrittenFile], why: str, *, by: str = "", allow: Allow = STRICT) -> Commit:
        """Change several memories as one commit, all or none; `by` says through which channel.

        Raises:
            Changed: one of them is not what it was.
            TextRefused, SecretFound, Duplicate, NotWorth.
        """
        by = by or self.by
        removed = {file.was.data for file in files if file.was and file.memory is None}
        vouched_for = []
        for file in files:
            if file.memory and file.memory.data not in removed and file.path not in LAYER_FILES:
                file = file._replace(memory=set_origin(file.memory, file.was, by))
            vouched_for.append(file)
        return self.commit(vouched_for, why, by=by, allow=allow)

    # Changing several memories at once, each at the version that is named; "" stands for any

    def read_for_change(self, path: str, expect: Version | None, *, with_header: bool = False) -> Memory:
        """Return one memory that is to be changed, or to be changed in its header.

        Raises:
            NotFound, BadHeader, Changed.
        """
        self.require_writable()
        memory = self.read(path)
        if memory.state not in ("ok", "free"):
            raise BadHeader(memory.ref, memory.problem)
        if expect is not None and expect != memory.version:
            raise Changed(memory.ref)
        if with_header and memory.state != "ok":
            raise BadHeader(memory.ref, "there is none")
        return memory

    def refuse_unreadable(self, memory: Memory) -> None:
        """Raise BadHeader when a machine would rewrite or remove a file that cannot be understood."""
        if memory.state in ("bad", "held") and self.by != "user":
            raise BadHeader(memory.ref, memory.problem)

    def pin(self, wanted: Iterable[tuple[str, Version]], on: bool = True, *, also: str = "") -> Commit | None:
        """Pin or unpin memories as one commit; None without changes. `also` is added to the reason.

        Raises:
            NotFound, BadHeader, Changed.
        """
        memories = [self.read_for_change(path, version or None, with_header=True) for path, version in wanted]
        changing = [memory for memory in memories if memory.pinned != on]
        pinned = "true" if on else None
        return self._set_fields(changing, {"pinned": pinned}, "pin" if on else "unpin", self.by, also)

    def confirm(self, wanted: Iterable[tuple[str, Version]], *, also: str = "") -> Commit | None:
        """Mark memories as read by a person, as one commit; None when nothing was written. Raises as `pin` does."""
        memories = [self.read_for_change(path, version or None) for path, version in wanted]
        self.accept([(memory.path, memory.version) for memory in memories if memory.shared])
        memories = [memory._replace(shared=False) for memory in memories]
        doubted = [memory for memory in memories if memory.trust != "confirmed" or memory.changed_by]
        return self._set_fields(doubted, {"trust": "confirmed", "changed_by": None}, "confirm", "user", also)

    def end_doubt(self, memory: Memory) -> Sequence[Memory]:
        """Have nothing supersede a memory, since it was said again; return those that did. Raises Changed."""
        rows = self.index.rows("supersedes <> '' AND state = 'ok' AND trust = 'confirmed'")
        newer = [self.read(row.path) for row in rows]
        others = [other for other in newer if memory.path in other.supersedes and not other.shared]
        for other in others:
            left = [path for path in other.supersedes if path != memory.path]
            self._set_fields([other], {"supersedes": left or None}, "keep both, with", self.by, "")
        return others

    def _set_fields(
        self, memories: Sequence[Memory], fields: Mapping[str, Any], verb: str, by: str, also: str
    ) -> Commit | None:
        """Set fields in the headers of memories, as one commit; their dates stay."""
        self.require_writable()
        files = []
        for memory in memories:
            changed = check_text(memory.path, edit_text(memory.text, fields=fields), memory, free=False)
            if by != "user":
                changed = set_origin(changed, memory, by)
            files.append(WrittenFile(memory.path, changed, memory))
        return self.commit(files, f"{verb} {_subject(memories)}{also}", by=by) if files else None

    def forget(self, wanted: Iterable[tuple[str, Version]], why: str = "", *, also: str = "") -> Commit:
        """Remove memories as one commit; they are not learned again. `also` ends the reason of the commit.

        Raises:
            NotFound, Changed.
            BadHeader: one cannot be understood, and only a person may remove it.
            ReadOnly: one is a fact, which another one supersedes.
        """
        memories: dict[str, Memory] = {}
        for path, version in wanted:
            memory = self.find(path)
            if memory is None:
                raise NotFound(self.ref(path))
            self.refuse_unreadable(memory)
            if is_fact(memory.path) and self.by != "user":
                raise fact_edit_error(memory.ref)
            if version and version != memory.version:
                raise Changed(memory.ref)
            memories[memory.path] = memory
        self.require_writable()
        self.require_person()
        removed = list(memories.values())
        self.bury(removed)  # first: what is there still is not learned twice
        files = [WrittenFile(memory.path, None, memory) for memory in removed]
        return self.commit(files, (why or f"forget {_subject(removed)}") + also)

    def move(
        self, wanted: Iterable[tuple[str, Version]], target: OpenScope, *, also: str = ""
    ) -> tuple[Commit, Commit]:
        """Move memories to another scope, all or none.

        They are written there first, so that a crash leaves two of them and never none. What came with a repository
        is unconfirmed afterwards. `undo_together` takes both commits back, and all whose reason ends in the same
        `also`.

        Raises:
            NotFound, Changed, BadHeader, SecretFound, Duplicate, NotWorth, ReadOnly.
            ScopeRefused: it is the same scope. ReadOnly: it is a fact, which belongs to its repository.
        """
        if self.root == target.root:
            raise ScopeRefused(f"the memories are in the scope {self.name} already")
        taken: set[str] = set()

        def is_taken(path: str) -> bool:
            return fold(path) in taken or target.find(path) is not None

        memories = [self.read_for_change(path, version or None, with_header=True) for path, version in wanted]
        copies = []
        for memory in memories:
            if is_fact(memory.path):
                raise fact_edit_error(memory.ref)
            target.check_gates(memory._replace(path=""), refuse_personal, refuse_duplicate)
            path = file_name(memory.type, memory.name, is_taken) if is_taken(memory.path) else memory.path
            taken.add(fold(path))
            text = edit_text(memory.text, fields={"trust": "unconfirmed"}) if memory.shared else memory.text
            copies.append(WrittenFile(path, parse(path, text.encode())))
        subject = _subject(memories)
        added = target.change_many(copies, f"{MOVE}{subject} from {self.name}{also}", allow=Allow(anyway=True))
        gone = [WrittenFile(memory.path, None, memory) for memory in memories]
        try:
            return added, self.change_many(gone, f"{MOVE}{subject} to {target.name}{also or TOGETHER + added.id}")
        except MemsheafError:
            target.undo(added.id)  # or it would be in both
            raise

    def change_files(self, plan: Plan, why: str) -> Commit | None:
        """Change files as one commit, all or none; None when the plan changes nothing.

        The plan is asked again when a file that it looked at has changed meanwhile, so that two who note something at
        once both see it there. A file that the plan did not look at must not exist.

        Raises:
            Busy: others are always faster.
            BadHeader: a file that the plan looked at is not understood.
            Exists: one is there under a name that differs in case alone.
            TextRefused, SecretFound, PathRefused: a text may not be stored; nothing was.
        """

        def attempt() -> Commit | None:
            seen: dict[str, Memory | None] = {}

            def look(path: str) -> str | None:
                memory = seen[path] = self.find(path)
                if memory is None:
                    return None
                if check_stored(memory.path) != check_stored(path):
                    raise Exists(memory.ref, f"{path!r} would be the same file on some systems")
                if memory.data and memory.state not in ("ok", "free"):
                    raise BadHeader(memory.ref, memory.problem)  # a machine does not rewrite it
                return memory.text

            files = []
            for path, text in plan(look).items():
                was = seen.get(path)
                memory = None if text is None else check_text(path, text, was, free=True)
                if memory or was:
                    files.append(WrittenFile(path, memory, was))
            if not files:
                return None
            try:
                return self.change_many(files, why, allow=Allow(anyway=True))
            except Exists as error:
                raise Changed(error.ref) from None

        try:
            return attempt()
        except Changed:  # who was too slow once waits for a turn, so that nobody is too slow for ever
            with self.store.lock("turn"):
                busy = f"the files of {self.name} change faster than they can be read"
                return retry(attempt, busy=busy, times=20)

    # Taking back

    def undo(self, commit_id: str) -> Commit:
        """Take a commit back. Raises NotInHistory, Changed."""
        self.require_writable()
        self.require_person()
        self.index.look()
        target = self.last_change(commit_id)
        self.refuse_twins(step.path for step in target.revisions if step.before != ABSENT)
        for step in target.revisions:
            self._refuse_secrets_for_hub(step.path, step.old)
        commit = self.store.undo(target.id, by=self.by)._replace(scope=self.name)
        self.index.follow(commit, {})
        return commit

    def restore(self, path: str, version: Version) -> Commit:
        """Bring a memory back to an older version, whatever it is now.

        Raises:
            NotInHistory: the history no longer holds it.
        """
        path = self.spell(path)
        data = self.store.version(path, version)
        present = self.find(path)
        if present is None and is_fact(path):
            refuse_superseded(self.parse(path, data), self.facts())
        self._refuse_secrets_for_hub(path, data)
        file = WrittenFile(path, self.parse(path, data), present)
        was_here = Allow(secrets=True, anyway=True)
        return self.commit([file], f"restore {version[:12]}", allow=was_here, rewriting=True)

    def _refuse_secrets_for_hub(self, path: str, data: bytes | None) -> None:
        """Raise SecretFound when an older text with a secret would go to a hub: it may never have been there."""
        if data and self.replica:
            require_no_secret(parse(path, data), self.find(path))

    def draft(self, proposal: Proposal, *, by: str = "extraction") -> tuple[Memory, Memory | None]:
        """Return the memory that a proposal makes, and the one that it replaces; nothing is written.

        Only what a proposal names is replaced. Raises TextRefused, BadHeader, NotFound.
        """
        self.index.ready()
        was = self.read(proposal.replaces.path) if proposal.replaces else None
        fact_before = was if was and is_fact(was.path) else None
        citations = tuple(citations_without_hashes(fact_before)) if fact_before else ()
        here = tuple(ref for ref in proposal.supersedes if ref.scope == self.name)  # no file names another scope's
        fresh = proposal._replace(supersedes=here).to_memory(self.today, superseded=fact_before, citations=citations)
        if was is None or fact_before:
            folder = FACTS if fact_before else ""

            def is_taken(name: str) -> bool:
                return bool(self.index.same_file(folder + name))

            path = folder + file_name(proposal.kind, proposal.name, is_taken)
            return place_memory(fresh, path)._replace(scope=self.name), was
        if was.state != "ok":
            raise BadHeader(was.ref, was.problem)
        memory = set_origin(check(was.path, merge_memory(was, fresh), kinds=(*KINDS, was.type)), was, by)
        return memory._replace(scope=self.name), was

    def accept(self, versions: Sequence[tuple[str, Version]]) -> None:
        """Record that a person accepts these versions of files that came with a repository, by path."""
        if self.ledger and versions:
            self.ledger.add(versions)

    def bury(self, memories: Sequence[Memory]) -> None:
        """Record that memories are about to be removed: they are not learned again."""
        self.index.ready()  # what is new to the journal is taken in first: that lifts the tombstone of such a text
        self.index.notice(memory.path for memory in memories)
        sure = [(memory.path, memory.data) for memory in memories if memory.trust == "confirmed"]
        doubted = [(memory.path, memory.data) for memory in memories if memory.trust != "confirmed"]
        if sure:
            self.store.bury(sure, "forgotten")
        if doubted:
            self.store.bury(doubted, DOUBTED)  # what was unconfirmed comes back no better

    def reject(self, memory: Memory, *, undo: bool = False) -> None:
        """Record that a person rejected this: it is not learned again; with `undo` it may be."""
        self.require_writable()
        if undo:
            self.store.unbury([fact(memory)])
        else:
            self.store.bury([("", memory.data)], "rejected")

    def buried(self, memory: Memory) -> Tombstone | None:
        """Return the tombstone that prevents learning this; None without one."""
        return self.store.buried(fact(memory))


def retry(
    work: Callable[[], T],
    *,
    busy: str,
    times: int = 100,
    meanwhile: Callable[[], object] = lambda: None,
) -> T:
    """Repeat a read-modify-write while concurrent writes come first. `meanwhile` is called in between.

    Raises:
        Busy: others were faster every time. `busy` says what they changed.
    """
    for _ in range(times):
        try:
            return work()
        except Changed:
            meanwhile()
    raise Busy(busy)


def _subject(memories: Sequence[Memory]) -> str:
    return memories[0].name if len(memories) == 1 else f"{len(memories)} memories"


def new_group() -> str:
    """Return the end of a reason that all commits of one command share, so that one undo takes them back."""
    return f"{TOGETHER}{os.urandom(6).hex()}"


def choose_scope(type: str, text: str, scopes: Sequence[str], home: str) -> str:
    """Return which of these scopes a new memory belongs to.

    The type `user` goes to the user, `project` and a file that is no memory to the project. Of the other types,
    a text about the person goes to the user, a reference only if that is clear. Where the scope is not among
    them, it is the home scope.
    """
    if len(scopes) == 1:
        return home
    wanted = "user" if type == "user" else "project"
    if type in ("feedback", "reference"):
        wanted = guess_scope(text, "project" if type == "reference" else "")
    return wanted if wanted in scopes else home


def refuse_known(memory: Memory, name: str, scopes: Sequence[OpenScope]) -> None:
    """Raise Duplicate when one of these scopes that is wider than the one named says what a new memory says."""
    names = [scope.name for scope in scopes]
    for scope in scopes[names.index(name) + 1 :]:
        scope.check_gates(memory._replace(path=""), refuse_duplicate)


def find_matches(scopes: Sequence[OpenScope], query: str, *, limit: int = 10) -> Sequence[Match]:
    """Return the best matches of several scopes, with the numbers behind the choice, the nearest scope first."""
    every = [match for scope in scopes for match in scope.matches(query, limit=limit)]
    best = sorted(range(len(every)), key=lambda number: -every[number].score)[:limit]
    return [every[number] for number in sorted(best)]


def list_best(scopes: Sequence[OpenScope], limit: int) -> list[Row]:
    """Return what the catalogs of these scopes may show, most important first, scope by scope."""
    return [row for scope in scopes for row in scope.best(limit)]


def prompt_sections(scopes: Sequence[OpenScope], home: str) -> list[tuple[str, str]]:
    """Return the name of each scope with its section of a system prompt."""
    return [(scope.name, scope.prompt(also=scope.name != home)) for scope in scopes]


def list_page(
    scopes: Sequence[OpenScope],
    wanted: Filter = EVERYTHING,
    *,
    sort: str = "newest",
    limit: int | None = None,
    offset: int = 0,
) -> tuple[list[tuple[OpenScope, Row]], int]:
    """Return some of the wanted memories of all these scopes as if they were one, and how many there are.

    With a text they are in the order of their score, else sorted as `SORTS` has it; by path, scope after scope.
    """
    entries = [(key, scope, row) for scope in scopes for key, row in scope.select(wanted, sort)]
    if wanted.text or sort != "path":
        entries.sort(key=lambda entry: entry[0], reverse=sort == "newest" and not wanted.text)
    page = entries[offset:][:limit]
    return [(scope, row) for _, scope, row in page], len(entries)


def _open_store(
    scope: Scope, settings: Settings, cwd: str, *, read_only: bool, clock: Callable[[], float]
) -> tuple[FolderStore, TrustLedger | None]:
    """Open the folder of a scope, with a hub as a replica; and a ledger where others write, too.

    What a crash left half done is completed. Nothing is connected yet.
    """
    root = resolve(scope, settings.places(cwd or os.getcwd()))
    checkout = checkout_of(root, settings.home)
    days = settings.retention_days
    store: FolderStore
    if not checkout and os.path.lexists(os.path.join(root, HISTORY, HUB)):
        from memsheaf.hub.opening import open_replica

        store = open_replica(root, settings.state_of(root), clock, days, settings.hub.offline, str(scope))
        ledger = find_ledger(scope, root, settings, is_shared=store.settings.is_shared)
        store.ledger, store.eraser = ledger, None
    else:
        find = partial(find_ledger, scope, root, settings)
        ledger = find()
        store = FolderStore(
            root,
            clock=clock,
            retention_days=days,
            checkout=checkout,
            scope=str(scope),
            private=os.path.dirname(root) if scope.layer == "session" else "",
            announce=None if checkout else partial(_note_unseen, find),
        )
    bring_journal(store)
    if not read_only:
        store.recover()
    return store, ledger


def find_ledger(scope: Scope, root: str, settings: Settings, *, is_shared: bool = False) -> TrustLedger | None:
    """Return the ledger of what this machine wrote in a shared folder; None where nobody else writes.

    What members of a team wrote is theirs also when it has no hub any more.
    """
    checkout = checkout_of(root, settings.home)
    if not (checkout or is_shared or scope.layer == "team"):
        return None
    ledger = TrustLedger(settings.state_of(root), checkout)
    has_others = checkout or os.path.lexists(os.path.join(root, HISTORY, HUB)) or ledger.stamp
    return ledger if has_others else None


def _note_unseen(find: Callable[[], TrustLedger | None], transaction: Transaction, commit: Commit) -> None:
    """Record what a person saved in a folder that is, or was, a team's; and what is committed to one that got a hub
    since it was opened: it waits for the next sync."""
    if commit.by == "outside" and (ledger := find()):
        ledger.add_outside(commit)
    try:
        transaction.history.stat(HUB)
    except FileNotFoundError:
        return
    from memsheaf.hub.replica_state import note_pending

    note_pending(transaction.history, commit)


# What commits did


class Blamed(NamedTuple):
    """One line of a memory and the commit it came with; an empty `commit` is older than the journal."""

    line: str
    commit: str
    at: str
    by: str


def diff(path: str, old: str, new: str, *, labels: tuple[str, str] = ("before", "after")) -> str:
    """Show how one text became another, as `diff -u` does; "" when they are the same."""
    from difflib import unified_diff

    lines = unified_diff(
        old.split("\n"), new.split("\n"), f"{path}  {labels[0]}", f"{path}  {labels[1]}", lineterm=""
    )
    return "\n".join(lines)


def blame(present: str, commits: Iterable[Commit]) -> list[Blamed]:
    """Say for each line of the present text which commit brought it. `commits` come newest first.

    The versions are gone through from the oldest on: a line that stays keeps its commit. A line is nobody's if it is
    older than the texts that are kept.
    """
    from difflib import SequenceMatcher

    lines: list[str] = []
    owners: list[Commit | None] = []

    def go_on(data: bytes | None, commit: Commit | None) -> None:
        nonlocal lines, owners
        older, older_owners, lines = lines, owners, _lines(data)
        owners = [commit] * len(lines)
        for block in SequenceMatcher(None, older, lines, autojunk=False).get_matching_blocks():
            owners[block.b : block.b + block.size] = older_owners[block.a : block.a + block.size]

    for commit in reversed(list(commits)):
        for step in commit.revisions:
            if step.old is not None and _lines(step.old) != lines:
                go_on(step.old, None)
            if step.new is not None:
                go_on(step.new, commit if step.old is not None or step.before == ABSENT else None)
    go_on(present.encode(), None)
    return [
        Blamed(line, owner.id, owner.at, owner.by) if owner else Blamed(line, "", "", "")
        for line, owner in zip(lines, owners, strict=True)
    ]


def _lines(data: bytes | None) -> list[str]:
    lines = (data or b"").decode("utf-8", "replace").split("\n")
    return lines if lines[-1] else lines[:-1]
