"""Queries about one scope: rows, files, search, the prompt, and the journal."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import islice, takewhile
from typing import TYPE_CHECKING, TypeVar

from memsheaf.errors import NotFound
from memsheaf.guard.paths import CATALOG, fold
from memsheaf.index import browse
from memsheaf.index.browse import EVERYTHING, SORTS, Filter, Place
from memsheaf.index.catalog import MAX_BYTES, Page, apart, listing, with_scope
from memsheaf.index.database import UNUSABLE, Match, Row, existing_vectors
from memsheaf.index.search import asked_at
from memsheaf.memory import Memory, parse
from memsheaf.recall.inject import CONTEXT, NOTES, caveats, explain_untrusted, render_section
from memsheaf.store import Commit, Version
from memsheaf.store.commit_queries import find_version, trail
from memsheaf.writer import Writer

if TYPE_CHECKING:
    from memsheaf.history import Blamed
    from memsheaf.index.embedding import Embedding
    from memsheaf.recall.recall_log import RecallRecord
    from memsheaf.store.state import State


T = TypeVar("T")

__all__ = ["EVERYTHING", "SORTS", "Filter", "Place", "ScopeReader", "asked_at", "existing_vectors"]

PAGE = 150
MATCHES = 200  # memories that a search among all can find
AT_ONCE = 500  # rows that are read at once

LEAST_CATALOG = 600  # bytes of a catalog in a prompt, however small its budget
LEAST_FILE = 200  # the same for CONTEXT.md and NOTES.md


class ScopeReader:
    """Answers questions about one scope."""

    def __init__(self, writer: Writer, state: Callable[[], State], *, tools: bool) -> None:
        self._writer = writer
        self._store = writer.store
        self._index = writer.index
        self._state = state
        self._tools = tools
        self._prompt: tuple[tuple[object, ...], str] | None = None
        self._counts, self._owners = browse.Counts(), browse.Owners()
        self._is_team = not writer.store.checkout  # where others write, they are its members

    def look(self, *, thorough: bool = False, sweep: bool = False) -> None:
        """Notice what other programs did to the files; `thorough` as `list` does, with `sweep` in every file."""
        self._index.look(thorough=thorough, sweep=sweep)

    def leave_sweeps_to_others(self) -> None:
        """Examine all files of a large scope only in `look(sweep=True)`, which some thread calls now and then."""
        self._index.leave_sweeps_to_others()

    def report_to(self, report: Callable[[int], None]) -> None:
        """Tell `report` how many files were read, whenever this thread looks at many."""
        self._index.report_to(report)

    def reporting(self, report: Callable[[int], None]) -> AbstractContextManager[None]:
        """As `report_to`, for the length of a `with` block; what `report` raises ends the look."""
        return self._index.reporting(report)

    def list(self, *, kind: str = "", unconfirmed: bool = False) -> Sequence[Row]:
        """Every file of this scope, in the order of the paths; `kind` and `unconfirmed` narrow it."""
        self._index.look(thorough=True)
        kind = _text(kind)
        where = ["1"] + ["kind = ?"] * bool(kind) + ["trust = 'unconfirmed'"] * unconfirmed
        return self._writer.marked(self._index.rows(" AND ".join(where), *([kind] if kind else [])))

    def changed_by_others(self) -> Sequence[Row]:
        """Memories that an agent or a program changed after somebody else wrote them, not seen by a person since."""
        self._index.look()
        likely = self._writer.marked(self._index.rows("line LIKE '%(changed by %'"))
        return [row for row in likely if self._writer.read(row.path).changed_by not in ("", "user")]

    def part(self, *, kind: str = "", limit: int = 200, offset: int = 0) -> tuple[Sequence[Row], int]:
        """Some of what `list` gives, and how many there are; the `kind` "other" stands for all unknown ones."""
        self._index.look(thorough=True)
        places, total = self._in_order(Filter(kind=kind), "path", limit, offset)
        return self.rows_of(places), total

    def places(self, wanted: Filter, sort: str, limit: int, offset: int) -> tuple[Sequence[Place], int]:
        """Return the places of some of the wanted memories, in an order of `SORTS`, and how many there are."""
        if not wanted.text:
            self._index.look()
            return self._in_order(wanted, sort, limit, offset)
        found = [one for one in self.matches(wanted.text, limit=MATCHES) if one.is_hit]
        best = [Place(-one.score, one.row.path, one.row.version) for one in found]
        if wanted._replace(text="") != EVERYTHING:
            trusted = [one.row.path for one in found if wanted.trust in ("", one.row.trust)]
            others = wanted._replace(trust="")
            passed = self._index.query(lambda db: browse.places(db, others, "path", -1, 0, trusted))
            paths = {one.path for one in passed}
            best = [one for one in best if one.path in paths]
        return best[offset : offset + limit], len(best)

    def _in_order(self, wanted: Filter, sort: str, limit: int, offset: int) -> tuple[Sequence[Place], int]:
        ledger = self._writer.ledger
        if ledger is None or wanted.trust not in ("confirmed", "shared"):
            return self._index.query(
                lambda db: (browse.places(db, wanted, sort, limit, offset), self._counts.count(db, wanted))
            )
        sure = wanted._replace(trust="confirmed")
        every = self._index.query(lambda db: browse.places(db, sure, sort, -1, 0))
        shared = ledger.find_unknown((one.path, one.version) for one in every)
        found = [one for one in every if (one.path in shared) == (wanted.trust == "shared")]
        return found[offset : offset + limit], len(found)

    def rows_of(self, places: Sequence[Place]) -> Sequence[Row]:
        """The rows at some places, in that order; those that are gone meanwhile are left out."""
        paths, rows = [one.path for one in places], dict[str, Row]()
        for start in range(0, len(paths), AT_ONCE):
            some = paths[start : start + AT_ONCE]
            rows |= {row.path: row for row in self._index.rows(f"path IN ({', '.join('?' * len(some))})", *some)}
        return self._writer.marked([rows[path] for path in paths if path in rows])

    def record_drift(self, found: Iterable[tuple[str, Version, bool]]) -> None:
        """Keep which versions had a citation that did not hold, for `Filter.drifted`."""
        self._index.query(lambda db: browse.set_drift(db, found))

    def best(self, limit: int, offset: int = 0) -> Sequence[Row]:
        """What the catalog would show first."""
        self._index.look()
        return self._writer.marked(self._index.ranked("", limit, offset))

    def newer(self, path: str) -> Row | None:
        """The confirmed memory that supersedes this one, in the end; None where none does, or in a circle."""
        seen, found = {path}, None
        while rows := self._index.rows("supersedes <> '' AND instr(supersedes, ?)", f"\n{path}\n"):
            usable = [row for row in self._writer.marked(rows) if (row.trust, row.state) == ("confirmed", "ok")]
            if not usable:  # what others committed hides nothing
                break
            found = max(usable, key=lambda row: (row.updated, row.path))
            path = found.path
            if path in seen:
                return None
            seen.add(path)
        return found

    def count(self) -> int:
        """How many memories the catalog may show."""
        self._index.look()
        return self._index.total()

    def under(self, folder: str, *, any_case: bool = False) -> Sequence[Row]:
        """The readable files below a folder, however deep, as the last look found them; "" is the root.

        With `any_case`, another spelling of the folder's name will do where that very name has no files.
        """
        if not folder:
            return self._index.rows("version <> ?", UNUSABLE)
        if not any_case:  # "0" comes right after "/"
            return self._index.rows("path > ? AND path < ? AND version <> ?", f"{folder}/", f"{folder}0", UNUSABLE)
        prefix = _text(fold(f"{folder}/"))
        rows = self._index.rows("fold >= ? AND fold < ? AND version <> ?", prefix, f"{prefix[:-1]}0", UNUSABLE)
        return [row for row in rows if row.path.startswith(f"{folder}/")] or rows

    def matches(
        self, query: str, *, limit: int = 10, among: Collection[str] | None = None, look: bool = True
    ) -> Sequence[Match]:
        """Memories that hold words of the query or mean the same, best first, with the numbers behind the order.

        With `among`, only these files are weighed. Without a `look`, what other programs just did is not noticed.
        """

        def search() -> Sequence[Match]:
            return self._index.search(query, limit, among=among)

        if look:
            self._index.look()
            found = self.until_fresh(search, lambda found: (match.row.path for match in found))
        else:
            found = search()
        rows = self._writer.marked([match.row for match in found])
        return [match._replace(row=row) for match, row in zip(found, rows, strict=True)]

    def until_fresh(self, search: Callable[[], T], paths: Callable[[T], Iterable[str]]) -> T:
        """Search again while the files that were found have changed: an answer is never stale."""
        for _ in range(5):
            found = search()
            if not self._index.notice(paths(found)):
                break
        return found

    def similar(self, words: Collection[str]) -> Sequence[str]:
        """The files that may be near-duplicates of these words, likely ones first."""
        return [path for path, _ in self._index.alike(words)]

    def embedding(self) -> Embedding:
        """How many memories can be found by meaning so far."""
        return self._index.embedding()

    def embed_all(
        self, progress: Callable[[int, int], None] | None = None, *, seconds: float = float("inf")
    ) -> Embedding:
        """Embed what is not embedded yet, for about this many seconds; may be interrupted at any time."""
        return self._index.embed_all(progress, seconds=seconds)

    def delete_index(self) -> None:
        """Delete the index with its vectors; the next question builds it again. Raises StoreFailed, Busy."""
        self._index.delete()

    def index_files(self) -> Sequence[str]:
        """The files of the index, there or not."""
        return self._index.files()

    def set_aside(self) -> Sequence[str]:
        """The files that a foreign MEMORY.md was moved to since this was opened."""
        return self._index.kept

    def find(self, path: str) -> Memory | None:
        """One memory as it is on disk now, None when there is none. Raises PathRefused."""
        return self._writer.find(path)

    def named(self, kind: str, name: str) -> Memory | None:
        """The memory with exactly this name."""
        self._index.ready()
        return self._writer.same_name(kind, name)

    def read_bytes(self, path: str) -> bytes:
        """The bytes of a file, events included, without opening the index. Raises NotFound, PathRefused."""
        return self._store.read(path).data

    def published(self, name: str) -> bytes | None:
        """The bytes of a file for every prompt, None when there is none or it cannot be read."""
        return self._store.published(name)

    def modified(self, paths: Iterable[str]) -> dict[str, float | None]:
        """When each file was last changed, in seconds; None for one that is not there."""
        return {path: stamp and stamp[0] / 1e9 for path, stamp in self._store.stamps(paths).items()}

    def files(self, folder: str) -> Sequence[str]:
        """The Markdown files below a folder, without opening the index."""
        entries = (entry for entry in self._store.scan() if entry.path.startswith(folder) and not entry.problem)
        return sorted(entry.path for entry in entries if entry.path.endswith(".md"))

    def events(self) -> Sequence[str]:
        """The files of events, which are no memories."""
        return self._store.events()

    def is_taken(self, path: str) -> bool:
        """Whether a file has this name, or had it as far as the journal goes back."""
        return bool(self._index.same_file(path)) or self.has_history(path)

    def uses(self) -> tuple[dict[str, str], str]:
        """The day on which each memory was last of use, and the day since which that is counted."""
        return self._store.uses_noted()

    def recalled(self, path: str = "") -> Sequence[RecallRecord]:
        """When a memory was recalled, or any, and for which message, newest first; of the last 500 recalls."""
        from memsheaf.recall.recall_log import recall_records

        path = self._writer.spelled(path) if path else ""
        return [one for one in reversed(recall_records(self._state())) if not path or path in one.paths]

    def catalog(self, max_bytes: int = MAX_BYTES) -> Page:
        """One line a memory, within its budget: what MEMORY.md holds, with what others wrote apart."""
        self._index.look()
        if ledger := self._writer.ledger:
            best, theirs, owned, others = self._index.query(lambda db: self._owners.divide(db, ledger))
            if others:
                lines, waiting = self._index.lines(best)
                rows = self.rows_of(theirs)
                counts = owned, others, waiting
                return apart(lines, rows, self.committers(rows), counts, max_bytes, team=self._is_team)
        return self._index.catalog(max_bytes)

    def committers(self, rows: Sequence[Row | Memory]) -> dict[str, str]:
        """Who committed the text that these files have, or saved it for the team, by path, as far as is known."""
        files = {(row.path, row.version) for row in rows}
        if self._is_team:
            return browse.find_members(self._index, self._store, files)
        from memsheaf import worktree

        return browse.find_authors(self._index, files, lambda asked: worktree.committers(self._store.root, asked))

    def caveats(self, memory: Memory) -> Sequence[str]:
        """What a reader must know of a memory's origin: unconfirmed, shared and by whom, changed by somebody else."""
        who = self.committers([memory]).get(memory.path, "") if memory.shared else ""
        return caveats(memory, who, team=self._is_team)

    def page(self, number: int = 1, *, kind: str = "") -> Page:
        """A page of the whole catalog, most important first."""
        self._index.look()
        rows = self._index.ranked(kind, PAGE, (number - 1) * PAGE) if 0 < number < 1_000_000 else []
        entries = [
            (row.name, row.path, "(shared) " * (row.trust == "shared") + (row.problem or row.description))
            for row in map(Row.masked, self._writer.marked(rows))
        ]
        return listing(entries, number, self._index.total(kind), PAGE)

    def prompt(self, *, also: bool = False, budget: int = 0) -> str:
        """The section for an agent's system prompt; the same bytes as long as no memory changed.

        `budget` is a limit in bytes: CONTEXT.md, NOTES.md and then the catalog are cut to fit.
        """
        changed = self._index.look()
        stamps = self._store.stamps((CATALOG, CONTEXT, NOTES))
        ledger, scope = self._writer.ledger, str(self._writer.scope)
        key = also, *stamps.values(), ledger and ledger.stamp, budget
        if changed or self._prompt is None or self._prompt[0] != key or not (key[1] and self._index.publishes):
            reading = "reading" if self._writer.read_only else "all"
            offer = "none" if not self._tools else "also" if also else reading
            context, notes = self._loaded(CONTEXT), self._loaded(NOTES)
            room, limit = MAX_BYTES, budget // 3
            for _ in range(8):
                catalog = self.catalog(room).text if ledger else self._index.catalog(room).text
                text = render_section(
                    scope=scope,
                    catalog=with_scope(catalog, scope) if also else catalog,
                    context=context,
                    notes=notes,
                    offer=offer,
                    limit=limit,
                )
                over = len(text.encode()) - budget
                if not budget or over <= 0:
                    break
                had = min(room, len(catalog.encode()))
                room = max(LEAST_CATALOG, had - over)
                limit = max(LEAST_FILE, limit - max(0, (over - had + room + 1) // 2))  # what the catalog cannot give
            self._prompt = key, text
        return self._prompt[1]

    def _loaded(self, name: str) -> str:
        """A file that stands in every prompt, unless it is unconfirmed, shared or cannot be read."""
        data = self._store.published(name)
        memory = self._writer.judged(parse(name, data)) if data else parse(name, b" ")
        if memory.trust == "shared":
            return f"({explain_untrusted(name, str(self._writer.scope), team=self._is_team)}.)"
        if memory.state in ("ok", "free"):
            return memory.body if memory.trust == "confirmed" else ""
        return f"({name} is not shown: {memory.problem}.)"

    def notices(self) -> Sequence[str]:
        """Say what went with its whole folder, and which files for every prompt wait for a person's look."""
        lost = self.describe_lost()
        if self._writer.ledger is None:
            return lost
        found = filter(None, map(self._writer.find, (CONTEXT, NOTES)))
        scope, team = str(self._writer.scope), self._is_team
        shared = (explain_untrusted(one.path, scope, team=team) for one in found if one.trust == "shared")
        return [*lost, *shared]

    def describe_lost(self) -> Sequence[str]:
        """Say in one line each what went with its whole folder, and how it comes back."""
        store, scope = self._store, str(self._writer.scope)
        if not store.may_have_lost():
            return []
        from memsheaf.project_roots import find_lost

        lost = find_lost(store)
        named = "" if scope in ("project", "user") else f" --scope {scope}"
        lines = []
        if count := len(lost.files) - len(lost.in_git):
            number, its, it = (
                ("1 memory was", "its", "it") if count == 1 else (f"{count:,} memories were", "their", "them")
            )
            restore = f"`memsheaf restore{named}` brings {it} back"
            lines.append(f"{number} removed with {its} folder {store.root}; {restore}")
        if lost.in_git and not any(entry.path.endswith(".md") for entry in store.scan()):
            elsewhere = f"branches of git have {len(lost.in_git):,}; `git log --branches -- {store.root}` shows them"
            lines.append(f"this commit has no memories in {store.root}: {elsewhere}")
        return lines

    def log(self, path: str = "", *, limit: int | None = None) -> Iterator[Commit]:
        """The commits of this scope or of one memory, also before its renaming, newest first, with outside edits."""
        self._index.look(thorough=True)
        commits = trail(self._store, self._writer.spelled(path)) if path else self._store.history()
        return islice(commits, limit)

    def since(self, commit_id: str) -> Iterator[Commit]:
        """The commits after one, newest first; edits made outside are not looked for."""
        return takewhile(lambda commit: commit.id != commit_id, self._store.history())

    def last_id(self) -> str:
        """The id of the newest commit, "" when there is none."""
        return self._store.last_id() or ""

    def last_change(self, commit: str = "") -> Commit:
        """The commit that `undo` would undo: the one named, or the last of ours that is not undone.

        Raises:
            NoSuchCommit: there is none, or several begin with that id.
        """
        if commit:
            return self._store.find(commit)
        return self._store.last_standing(except_by="outside", events=False)

    def has_history(self, path: str) -> bool:
        """Whether the journal knows this path."""
        return any(self._store.history(path))

    def diff(self, path: str, older: Version = "", newer: Version = "") -> str:
        """How a memory changed, as `Sheaf.diff` says. Raises NotFound, VersionGone."""
        from memsheaf import history

        self._index.look(thorough=True)
        path = self._writer.spelled(path)
        if older:
            texts = self.text_at(path, older), self.text_at(path, newer)
            return history.diff(path, *texts, labels=(older[:12], newer[:12] or "now"))
        last = next(trail(self._store, path), None)
        if last is None:
            raise NotFound(path)
        step = last.revisions[0]
        before, after = (self.text_at(path, version) if version else "" for version in (step.before, step.after))
        return history.diff(path, before, after, labels=(step.before[:12] or "absent", step.after[:12] or "absent"))

    def blame(self, path: str) -> Sequence[Blamed]:
        """Which commit each line of a memory came with."""
        from memsheaf import history

        self._index.look(thorough=True)
        memory = self._writer.read(path)
        return history.blame(memory.text, trail(self._store, memory.path))

    def text_at(self, path: str, version: Version) -> str:
        """The text a memory had at a version; without one, the text it has now."""
        found = self._writer.find(path)
        if found and found.version.startswith(version):
            return found.text
        return find_version(trail(self._store, path), path, version).decode("utf-8", "replace") if version else ""


def _text(text: str) -> str:
    """A text that a database takes: without halves of surrogate pairs."""
    return text.encode("utf-8", "replace").decode()
