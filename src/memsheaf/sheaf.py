"""Sheaf: everything one can do with memory, over one scope or several.

    task        what one piece of work has found, decided and verified
    session     scratch notes of one conversation
    project     NOTES.md, facts and memories of the repository
    team        what the project's team shares, if the user's settings name one: read here, changed by people
    user        what holds everywhere

Each scope is a folder of plain files with a history of its own (`scope.py`, `open_scope.py`). Reading covers all
scopes of a sheaf, the nearest first; a new memory goes where it belongs (`Sheaf.scope_for`). A memory is identified
by a `Ref`: its scope and its path there. `Sheaf.label` gives the name under which people and models are shown it: the
bare path in the home scope, which is the project unless others were given, else with the scope, as in
`user:user_prefers-tabs.md`; `Sheaf.parse` and `Sheaf.resolve` read such a name. Where a method takes a path instead
of a Ref, it is a file of the home scope, else of the nearest scope that has one; `forget`, `used` and `erase` look in
the home scope alone.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from datetime import date, datetime, timedelta
from itertools import takewhile
from typing import TYPE_CHECKING, Any, NamedTuple

from memsheaf import config
from memsheaf.encode import Encoder
from memsheaf.errors import (
    BadHeader,
    BadSettings,
    Busy,
    Changed,
    CreateOnly,
    Exists,
    MemsheafError,
    ModelFailed,
    NoSuchCommit,
    NotFound,
    PathRefused,
    Ref,
    ScopeRefused,
    hinted,
)
from memsheaf.frontmatter import edit_text
from memsheaf.gates import find_personal, require_no_secret
from memsheaf.guard.paths import check_path, check_stored, file_name, fold, is_fact
from memsheaf.index.browse import EVERYTHING, Filter
from memsheaf.index.catalog import Page, with_scope
from memsheaf.index.database import Match, Row
from memsheaf.limits import retry
from memsheaf.memory import STRICT, Allow, Memory, check, clean_field, compose, parse
from memsheaf.open_scope import OpenScope, list_page
from memsheaf.recall.inject import CONTEXT, NOTES, share_out
from memsheaf.scope import (
    KnownScope,
    Scope,
    check_label,
    has_hub,
    list_projects,
    list_scopes,
    named_folders,
    project_root,
    resolve,
    unused_folder,
)
from memsheaf.store import ABSENT, Change, Commit, Version
from memsheaf.store.commit_queries import find_version, trail
from memsheaf.store.state import State
from memsheaf.text.requests import without_request
from memsheaf.text.sections import SESSION_FILE
from memsheaf.text.tokenizer import words
from memsheaf.text_edits import (
    checked,
    dated,
    inserted,
    merged,
    placed,
    redated,
    revised,
    vouched,
    with_description,
)
from memsheaf.worktree import describe_moved, find_tree, record_tree

if TYPE_CHECKING:
    from memsheaf.history import Blamed
    from memsheaf.hub.replica import Replica
    from memsheaf.hub.replica_state import Synced
    from memsheaf.learn.consolidate import ConsolidationReport, Gate, Progress
    from memsheaf.learn.learner import Distilled, Learner
    from memsheaf.llm import Model
    from memsheaf.recall.recall import Recall
    from memsheaf.recall.session import Session
    from memsheaf.recall.turns import Turn
    from memsheaf.transfer import Exported, Imported, Locations, Proof

TASK_FILE = "TASK.md"
SCRATCH = ("task", "session")  # layers whose notes are read on demand: in no prompt, and nothing is learned there
PROMPT_FILES = tuple(map(fold, (CONTEXT, NOTES)))  # every scope has these for itself
MAX_CANDIDATES = 10  # memories that are named when several could be meant
TOGETHER = ", together with "  # in a commit's reason, before what all commits of one command share
MOVE = "move "  # how the reason of a move begins, in both scopes
MAX_TIME_APART = timedelta(hours=1)  # between commits that were made together

Look = Callable[[str], str | None]  # gives the text of a file as it is now, None when there is none
Plan = Callable[[Look], Mapping[str, str | None]]  # the new text of each file (None: remove it)


class Saved(NamedTuple):
    """A fact that was saved, the memory that it replaced, and similar ones that it may contradict.

    If a memory said it already, `replaced` is that memory, and nothing was changed.
    """

    ref: Ref
    memory: Memory
    replaced: Memory | None
    similar: Sequence[Memory]


class Hit(NamedTuple):
    """A memory that a search found. `row` is how the index knows it."""

    ref: Ref
    memory: Memory
    score: float
    row: Row


class OpenFolders:
    """Folders that are open, each once, and closed together. Sheaves and threads may share it."""

    def __init__(self, by: str) -> None:
        self.by = by
        self.by_root: dict[str, OpenScope] = {}
        self.lock = threading.RLock()
        self.stack = ExitStack()

    def close(self, *, wait: bool = True) -> None:
        """Flush everything to disk; a process that ends now need not `wait` for vectors."""
        if not wait:
            for scope in self.by_root.values():
                scope.close(wait=False)
            return
        self.by_root.clear()
        self.stack.close()


class AllScopes(OpenFolders):
    """Every scope of this person, opened on demand and closed together. Threads may share it."""

    def __init__(self, settings: config.Settings, cwd: str, *, by: str = "user", read_only: bool = False) -> None:
        super().__init__(by)
        self.settings = settings
        self.cwd = cwd
        self.read_only = read_only
        self._sheaves: dict[str, Sheaf] = {}
        if not read_only:
            record_tree(settings, cwd)

    def __enter__(self) -> AllScopes:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def list(self) -> list[KnownScope]:
        """Return the scopes that there are."""
        return list_scopes(self.settings.places(self.cwd), self.tree)

    def find(self, key: str) -> KnownScope:
        """Return the scope with a key. Raises NotFound.

        Scopes of the present project also have the key that they have when another one is present.
        """
        present = project_root(self.settings.places(self.cwd))
        for outside, root in list_projects(self.settings.places(self.cwd)).items():
            if root == present and f"{key}~".startswith(f"{outside}~"):
                key = key[len(outside) + 1 :] or "project"
        for scope in self.list():
            if scope.key == key:
                return scope
        raise NotFound(key, f"there is no scope {key[:200]!r}")

    def around(self, scope: KnownScope) -> Sheaf:
        """Return the memory around a scope: with that of its project, or the scope alone."""
        settings = self.settings
        name = os.path.basename(scope.root)
        if scope.key.startswith("project~"):  # another project than the present one
            settings = settings._replace(project=scope.project, task="", session="", teams=())
        with self.lock:
            if scope.root not in self._sheaves:
                self._sheaves[scope.root] = Sheaf(
                    settings,
                    self.cwd,
                    scopes=() if scope.project else (scope.name,),
                    read_only=self.read_only,
                    folders=self,
                    task=name if scope.layer == "task" else "",
                    session=name if scope.layer == "session" else "",
                )
            return self._sheaves[scope.root]

    def sheaf(self, scope: KnownScope) -> Sheaf:
        """Return the memory of a scope. Each folder is opened once, however many sheaves show it."""
        with self.lock:
            return self.around(scope).only(scope.name)

    def every(self) -> Iterator[Sheaf]:
        """Yield the memory of every scope; those that cannot be opened are left out."""
        for scope in self.list():
            with suppress(MemsheafError, OSError):
                yield self.sheaf(scope)

    def tree(self, scope: KnownScope) -> str:
        """Return the working tree for the citations of a scope, "" when unknown or outside of projects."""
        return find_tree(scope, self.settings, self.cwd)


class WorkScopes:
    """The tasks and sessions of a project: which there are, and which are meant."""

    def __init__(self, sheaf: Sheaf, *, task: str, session: str) -> None:
        self._sheaf = sheaf
        self.chosen = {"task": task, "session": session}

    def scopes(self) -> list[str]:
        """Return the task and the session that are meant, each if that is clear. Raises NotFound, ScopeRefused."""
        scopes = []
        for layer, name in self.chosen.items():
            if name:
                if check_label(name, layer) not in self.names(layer):
                    raise NotFound(f"{layer}/{name}")
                scopes.append(f"{layer}/{check_label(name, layer)}")
            elif len(going := self.going(layer)) == 1:
                scopes.append(f"{layer}/{going[0]}")
        return scopes

    def names(self, layer: str) -> list[str]:
        """Return the names of the tasks, or sessions, that have a folder here, in order."""
        sheaf = self._sheaf
        root = sheaf._roots.get("project") or project_root(sheaf.settings.places(sheaf.cwd))
        return named_folders(os.path.join(root, f"{layer}s"))

    def going(self, layer: str) -> list[str]:
        """Return the tasks that are active, or the sessions that are open, in order."""
        if layer == "session":
            return self.sessions_with(SESSION_FILE)
        return [slug for slug in self.names("task") if self._is_active(slug)]

    def _is_active(self, slug: str) -> bool:
        """Return True unless a task has ended. One that cannot be read has not: its notes must go nowhere else."""
        try:
            task = self._sheaf.open_scope(f"task/{slug}").read(TASK_FILE)
        except NotFound:
            return False  # a scope that somebody keeps memories in, and no task
        except MemsheafError:
            return True
        return task.page.get("status") not in ("done", "dropped")

    def sessions_with(self, file: str) -> list[str]:
        """Return the ids of the sessions that have this file, in order."""
        places = {f"sessions/{name}/{file}": name for name in self.names("session")}
        changed = self._sheaf.open_scope("project").modified(places) if places else {}
        return [name for place, name in places.items() if changed[place] is not None]

    def choose(self, layer: str, name: str = "") -> str:
        """Return the task, or session, that is meant: the one named, the one chosen at the start, or the only one.

        Raises:
            ScopeRefused: several could be meant, or the name is not allowed.
            NotFound: there is none.
        """
        if named := name or self.chosen[layer]:
            return check_label(named, layer)
        going = self.going(layer)
        if len(going) == 1:
            return going[0]
        if not going:
            raise NotFound(f"{layer}/")
        raise ScopeRefused(f"several could be meant: {', '.join(going)}; name one with --{layer} NAME")

    def unclear(self) -> list[str]:
        """Say which tasks or sessions are not asked because several could be meant."""
        lines = []
        for layer, word in (("task", "active"), ("session", "open")):
            if not self._sheaf.given and not self.chosen[layer] and len(going := self.going(layer)) > 1:
                choice = f"name one with --{layer} ({', '.join(going)})"
                lines.append(f"{len(going)} {layer}s are {word}, and none was asked: {choice}")
        return lines


class Sheaf:
    """The memory of the scopes around a working directory, or of those that are given.

    >>> with Sheaf.open() as memory:                                             # doctest: +SKIP
    ...     memory.remember("I prefer pnpm")
    ...     memory.search("package manager")
    ...     memory.recall("set up the repo").text
    ...     memory.prompt()
    """

    def __init__(
        self,
        settings: config.Settings,
        cwd: str = "",
        *,
        by: str = "agent",
        scopes: Sequence[str] = (),
        task: str = "",
        session: str = "",
        read_only: bool = False,
        embedder: Encoder | None = None,
        clock: Callable[[], float] = time.time,
        on_open: Callable[[OpenScope], object] | None = None,
        folders: OpenFolders | None = None,
    ) -> None:
        self.settings = settings
        self.cwd = cwd or os.getcwd()
        self.read_only = read_only
        self.clock = clock
        self.given = tuple(dict.fromkeys(str(Scope.parse(scope)) for scope in scopes))
        self.home = self.given[0] if self.given else "project"
        self.work = WorkScopes(self, task=task or settings.task, session=session or settings.session)
        self._lasting = [] if self.given else settings.layers(self.cwd)
        self.teams = {scope for scope in self._lasting if scope.startswith("team/")}
        self._embedder = embedder
        self._on_open = on_open
        self._folders = folders or OpenFolders(by)
        self._roots: dict[str, str] = {}
        self._parts: dict[str, Sheaf] = {}
        self._whole = self

    @classmethod
    def open(
        cls,
        scope: Scope | str | None = None,
        *,
        scopes: Sequence[str] = (),
        settings: config.Settings | None = None,
        home: str = "",
        cwd: str = "",
        **options: Any,
    ) -> Sheaf:
        """Open project and user of a working directory, or one scope, or several, the home scope first.

        Scopes are "user", "project", "agent/NAME", "task/SLUG", "session/ID", "team/NAME". `by` is who makes the
        changes: `user`, `agent`, or the name of a program. Nothing is created before the first change. The
        `embedder` is the one that the settings name, unless another is given; it is loaded at the first search.
        """
        if settings is None:
            settings = config.load({**os.environ, "MEMSHEAF_HOME": home} if home else os.environ)
        if scope is None:
            return cls(settings, cwd, scopes=scopes, **options)
        sheaf = cls(settings, cwd, scopes=[str(scope)], **options)
        sheaf.open_scope(sheaf.home)
        return sheaf

    @classmethod
    def over(cls, scope: OpenScope) -> Sheaf:
        """Return the sheaf of one scope that is open already, and closed with it."""
        folders = OpenFolders(scope.by)
        folders.by_root[scope.root] = scope
        folders.stack.callback(scope.close)
        sheaf = cls(
            scope.settings, scopes=[scope.name], read_only=scope.read_only, clock=scope.clock, folders=folders
        )
        sheaf._roots[scope.name] = scope.root
        return sheaf

    def close(self, *, wait: bool = True) -> None:
        """Make everything safe on disk and let go; a process that ends now need not `wait` for vectors."""
        if "project" in self._roots and not self.read_only:
            record_tree(self.settings, self.cwd)
        self._folders.close(wait=wait)

    def __enter__(self) -> Sheaf:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Scopes

    def open_scope(self, name: str) -> OpenScope:
        """Return the folder of a scope, opened once. Raises ScopeRefused."""
        scope = Scope.parse(name)
        name = str(scope)
        folders = self._folders
        if name in self._roots and self._roots[name] in folders.by_root:
            return folders.by_root[self._roots[name]]
        with folders.lock:
            root = resolve(scope, self.settings.places(self.cwd))
            if root not in folders.by_root:
                is_closed = os.path.isdir(root) and not os.access(root, os.W_OK)
                opened = OpenScope.open(
                    scope,
                    self.settings,
                    cwd=self.cwd,
                    by=folders.by,
                    read_only=self.read_only or is_closed,
                    embedder=self._embedder,
                    clock=self.clock,
                    is_reviewed=name in self.teams and self.settings.policy_of(scope) != "auto",
                )
                folders.stack.callback(opened.close)
                if self.read_only and not is_closed:
                    opened.store.recover()  # what a crash left half done would look as if something were gone
                if self._on_open:
                    self._on_open(opened)
                folders.by_root[root] = opened
            self._roots[name] = root
            return folders.by_root[root]

    def only(self, scope: str) -> Sheaf:
        """Return the sheaf of one scope, in which all names are bare; it shares what is open."""
        name = str(Scope.parse(scope))
        if self.given == (name,):
            return self
        if name not in self._parts:
            part = self._copy([name], read_only=self.read_only, folders=self._folders)
            part._whole = self._whole
            self.open_scope(name)
            part._roots[name] = self._roots[name]
            self._parts[name] = part
        return self._parts[name]

    def each(self) -> list[Sheaf]:
        """Return the sheaf of each scope, the nearest first."""
        return [self.only(scope) for scope in self.scopes()]

    def open_scopes(self) -> list[OpenScope]:
        """Return the folders of the scopes, the nearest first."""
        return [self.open_scope(scope) for scope in self.scopes()]

    def reopen_read_only(self) -> Sheaf:
        """Open the same scopes once more, for reading only."""
        return self._copy(self.given, read_only=True, folders=None)

    def lasting(self) -> Sheaf:
        """Return the same without tasks and sessions, the home scope first; it shares what is open."""
        scopes = [scope for scope in self.scopes() if scope == self.home or scope.partition("/")[0] not in SCRATCH]
        copy = self._copy([self.home, *scopes], read_only=self.read_only, folders=self._folders)
        copy._roots, copy.teams, copy._whole = self._roots, self.teams, self._whole
        return copy

    def _copy(self, scopes: Sequence[str], *, read_only: bool, folders: OpenFolders | None) -> Sheaf:
        return Sheaf(
            self.settings,
            self.cwd,
            by=self.by,
            scopes=scopes,
            read_only=read_only,
            embedder=self._embedder,
            clock=self.clock,
            on_open=self._on_open,
            folders=folders,
            **self.work.chosen,
        )

    @property
    def own(self) -> OpenScope:
        """The folder of the home scope: its names are bare, and what is said is learned from its inbox."""
        return self.open_scope(self.home)

    @property
    def scope(self) -> Scope:
        """The home scope."""
        return Scope.parse(self.home)

    @property
    def root(self) -> str:
        """The folder of the home scope."""
        return self.own.root

    @property
    def checkout(self) -> str:
        """The repository that the home scope's folder is in, "" when it is in none."""
        return self.own.store.checkout

    @property
    def state(self) -> State:
        """The state that is kept about the home scope outside of it: inbox, review queue, gates."""
        return self.own.state

    @property
    def replica(self) -> Replica | None:
        """The home scope as what several machines share, None for a scope without a hub."""
        return self.own.replica

    @property
    def today(self) -> str:
        """The day, as headers have it."""
        return time.strftime("%Y-%m-%d", time.localtime(self.clock()))

    @property
    def tools(self) -> bool:
        """True if agents have memory tools."""
        return self.settings.tools

    @property
    def by(self) -> str:
        """The author of changes."""
        return self._folders.by

    @by.setter
    def by(self, who: str) -> None:
        self._folders.by = who
        for scope in self._folders.by_root.values():
            scope.by = who

    def scopes(self) -> list[str]:
        """Return the scopes that are asked, in order: a task and a session only where it is clear which one is meant.

        Raises NotFound, ScopeRefused when one was named, and is not there or is no name.
        """
        return list(self.given) or [*self.work.scopes(), *self._lasting]

    def notices(self) -> list[str]:
        """Say what a person should look at first: a `.memory` that was not accepted, files that changed there."""
        lines = [
            f"{scope.name}: {notice}".removeprefix("project: ")
            for scope in self.open_scopes()
            for notice in scope.notices()
        ]
        if self._whole is self and "project" in self.scopes():
            places = self.settings.places(self.cwd)
            lines = [unused_folder(places), describe_moved(self.settings, self.cwd), *lines]
        return list(filter(None, lines))

    def scope_for(self, type: str, text: str) -> str:
        """Return the scope that a new memory belongs to.

        The type `user` goes to the user, `project` and a file that is no memory to the project. Of the other types,
        a text about the person goes to the user, a reference only if that is clear. Where the scope is not among
        those that are open, it is the home scope.
        """
        scopes = self.scopes()
        if len(scopes) == 1:
            return self.home
        from memsheaf.text.classifier import guess_scope

        wanted = "user" if type == "user" else "project"
        if type in ("feedback", "reference"):
            wanted = guess_scope(text, "project" if type == "reference" else "")
        return wanted if wanted in scopes else self.home

    # Names

    def label(self, ref: Ref) -> str:
        """Return the name under which a file is shown: bare in the home scope, else with its scope."""
        return ref.label(self.home)

    def parse(self, name: str) -> Ref | str:
        """Return what a shown name says: a Ref where it names a scope of this sheaf, else the bare path."""
        scope, sign, path = name.partition(":")
        return Ref(scope, path) if sign and scope in (self.home, *self.scopes()) else name

    def resolve(self, name: str) -> Ref:
        """Return the file that a shown name means; it need not exist.

        A bare name is of the home scope; where that does not have it, of the nearest scope that does. Every scope has
        a CONTEXT.md and NOTES.md of its own, so these bare names are always of the home scope.
        """
        where = self.parse(name)
        return where if isinstance(where, Ref) else self._nearest(where)

    def _nearest(self, path: str) -> Ref:
        """Return the file with this path in the home scope, else in the nearest scope that has it."""
        scopes = self.scopes()
        if len(scopes) > 1 and path and fold(path) not in PROMPT_FILES:
            for scope in dict.fromkeys((self.home, *scopes)):
                with suppress(NotFound):
                    self.open_scope(scope).read(path)
                    return Ref(scope, path)
        return Ref(self.home, path)

    def _locate(self, where: Ref | str) -> tuple[OpenScope, str]:
        """Return the scope of a file, and its path in it. Raises ScopeRefused for one that is not of this sheaf."""
        ref = where if isinstance(where, Ref) else self._nearest(where)
        scope = ref.scope or self.home
        if scope not in self._roots and scope not in (self.home, *self.scopes()):
            raise ScopeRefused(
                f"{scope!r} is not among the scopes of this sheaf, which are {', '.join(self.scopes())}"
            )
        return self.open_scope(scope), ref.path

    def find(self, given: str) -> Ref:
        """Return the memory that a person means: by its file, its name, or a part of either.

        Raises:
            NotFound: there is none, or several could be meant, which are named.
            PathRefused: it is a path that leads elsewhere.
        """
        refused: PathRefused | None = None
        try:
            ref = self.resolve(given)
            if self.open_scope(ref.scope).find(ref.path) or fold(ref.path) in PROMPT_FILES:
                return ref
            if ref.path.endswith(".md"):
                for scope in (self.open_scope(ref.scope), *self.open_scopes()):
                    if scope.has_history(ref.path):
                        return Ref(scope.name, ref.path)
        except PathRefused as error:  # a name may hold what no path may
            refused = error
        wanted = _plain(given)
        texts = {row.ref: _plain(f"{row.path}\n{row.name}\n{row.description}") for row in self.list()}
        matches: Sequence[Callable[[str], bool]] = (
            lambda text: wanted in text.split("\n")[:2],
            lambda text: wanted in text.rpartition("\n")[0],
            lambda text: set(wanted.split()) <= set(text.split()),
        )
        candidates: list[Ref] = []
        for match in matches if wanted else ():
            candidates = [ref for ref, text in texts.items() if match(text)]
            if candidates:
                break
        if len(candidates) == 1:
            return candidates[0]
        if candidates:
            listed = "".join(f"\n  {self.label(ref)}" for ref in candidates[:MAX_CANDIDATES])
            rest = len(candidates) - MAX_CANDIDATES
            more = f"\n  and {rest} more" if rest > 0 else ""
            why = f"{given!r} could be one of {len(candidates)} memories:{listed}{more}"
            raise hinted(NotFound(given, why), "Give the file, or more of the name.")
        if refused and "/" in given:
            raise refused
        from difflib import get_close_matches

        known = {part: ref for ref, text in texts.items() for part in text.split("\n") + text.split()}
        close = get_close_matches(wanted, known, 1, cutoff=0.75)
        meant = f"; did you mean {self.label(known[close[0]])}?" if close else ""
        raise NotFound(given, f"no memory at {given!r}{meant}")

    # Reading

    def read(self, where: Ref | str) -> Memory:
        """Return one memory. Raises NotFound, PathRefused."""
        scope, path = self._locate(where)
        return scope.read(path)

    def list(self, *, type: str = "", unconfirmed: bool = False) -> Sequence[Row]:
        """Return every file, scope by scope, in the order of the paths."""
        return [row for scope in self.open_scopes() for row in scope.list(kind=type, unconfirmed=unconfirmed)]

    def browse(
        self, wanted: Filter = EVERYTHING, *, sort: str = "newest", limit: int = 50, offset: int = 0
    ) -> tuple[Sequence[Row], int]:
        """Return some of the wanted memories of all scopes, and how many there are, as `list_page` does."""
        rows, total = list_page(self.open_scopes(), wanted, sort=sort, limit=limit, offset=offset)
        return [row for _, row in rows], total

    def best(self, limit: int, offset: int = 0) -> Sequence[Row]:
        """Return what the catalogs may show, most important first, scope by scope."""
        end = offset + limit
        best = [row for scope in self.open_scopes() for row in scope.best(end)]
        return best[offset:end]

    def search(self, query: str, *, limit: int = 10) -> Sequence[Hit]:
        """Return the memories that hold a word of the query or clearly mean the same, the nearest scope first."""
        hits = []
        for match in self.matches(query, limit=2 * limit):
            if match.is_hit:
                with suppress(MemsheafError):  # somebody removed it meanwhile
                    hits.append(Hit(match.row.ref, self.read(match.row.ref), match.score, match.row))
        wanted = set(words(query))
        # a memory that has only the beginning of a word, or the meaning, comes last
        last = [hit for hit in hits if wanted.isdisjoint(words(hit.memory.text))]
        best = sorted(hits, key=lambda hit: (hit in last, -hit.score))[:limit]
        return sorted(best, key=lambda hit: (hit in last, hits.index(hit)))

    def matches(self, query: str, *, limit: int = 10) -> Sequence[Match]:
        """Return the best matches of all scopes, with the numbers behind the choice, the nearest scope first."""
        every = [match for scope in self.open_scopes() for match in scope.matches(query, limit=limit)]
        best = sorted(range(len(every)), key=lambda number: -every[number].score)[:limit]
        return [every[number] for number in sorted(best)]

    def recall(self, message: str, *, model: Model | None = None, ignore: bool = False, tree: str = "") -> Recall:
        """Return the memories that matter for a message, at most five, ready to stand beside it; and why these."""
        return self.session(model=model, tree=tree).recall(message, ignore=ignore)

    def session(self, *, model: Model | None = None, deadline: float = 5.0, tree: str = "") -> Session:
        """Return the memory side of one conversation over all scopes. The home scope learns from it.

        With `tree`, the folder of the work, what memories cite and name is looked up there.
        """
        from memsheaf.recall.session import Session

        return Session(
            self.open_scopes(),
            home=self.home,
            model=self.metered("select", model) if model else None,
            deadline=deadline,
            count_use=lambda scope, paths, message: self.open_scope(scope).count_use(paths, message),
            make_prompt=self.prompt,
            keep_turn=self.learn,
            tree=tree,
            memories=self.own.root,
            clock=self.clock,
        )

    def used(self, *memories: Ref | str, message: str = "") -> None:
        """Count that an agent read these memories, or was shown them: once a day each. The `message` is logged."""
        by_scope: dict[str, list[str]] = {}
        for where in memories:
            ref = where if isinstance(where, Ref) else Ref(self.home, where)
            by_scope.setdefault(ref.scope, []).append(ref.path)
        for name, paths in by_scope.items():
            self.open_scope(name).count_use(paths, message)

    def catalog(self, page: int = 0, *, type: str = "") -> Page:
        """Return the catalog of the home scope, and those of the others, each under the name of its scope.

        With a `page`, from 1 on, it is that page of the list of all memories, most important first.
        """
        if page:
            return self._joined(lambda scope: scope.catalog_page(page, kind=type))
        return self._joined(lambda scope: scope.catalog())

    def _joined(self, page_of: Callable[[OpenScope], Page]) -> Page:
        others = [scope for scope in self.open_scopes() if scope is not self.own]
        first = page_of(self.own)
        pages = [(scope, page_of(scope)) for scope in others]
        texts = [
            f"In the scope {scope.name}:\n{with_scope(page.text, scope.name)}" for scope, page in pages if page.shown
        ]
        shown = first.shown + sum(page.shown for _, page in pages)
        total = first.total + sum(page.total for _, page in pages)
        return Page("\n".join([first.text, *texts]), shown, total)

    def prompt(self, *, budget: int = 0) -> str:
        """Return the section for a system prompt; the same bytes as long as no memory changed.

        `budget` is a limit in bytes: each scope gets its share, and what one leaves goes to the next. Notes of tasks
        and sessions are not loaded.
        """
        return "\n".join(text for _, text in self.prompts(budget=budget))

    def prompts(self, *, budget: int = 0) -> Sequence[tuple[str, str]]:
        """Return what `prompt` is made of: each scope with its part, the home scope first."""
        scopes = self.lasting().open_scopes()
        texts = [scope.prompt(also=scope.name != self.home) for scope in scopes]
        if budget:
            shares = share_out(budget, [len(text.encode()) + 1 for text in texts])
            texts = [
                scope.render_prompt(also=scope.name != self.home, budget=share - 1)
                for scope, share in zip(scopes, shares, strict=True)
            ]
        return [(scope.name, text) for scope, text in zip(scopes, texts, strict=True)]

    # Saving

    def remember(self, text: str, *, name: str = "", description: str = "", type: str = "", **more: Any) -> Saved:
        """Save a fact as somebody says it: where it belongs, and in the place of the memory that it surely corrects.

        The text is stored as it is, without a request in front of it ("remember that"). Name, description and type
        are derived from it unless they are given. `more` is passed on to `write`, whose errors it raises.
        """
        from memsheaf.learn.corrections import find_corrected
        from memsheaf.learn.sentences import draft_fact

        drafted = draft_fact(without_request(text), date.fromisoformat(self.today), type)._replace(explicit=True)
        drafted = drafted._replace(name=name or drafted.name, description=description or drafted.description)
        proposal = find_corrected(self, drafted)
        old = self.read(proposal.replaces) if proposal.replaces else None
        if old and old.body.strip() == proposal.content.strip():
            return Saved(old.ref, old, old, [])
        if old:
            more |= {"path": old.ref, "replace": True, "expect": old.version}
        name, description, type, content = proposal[:4]
        memory = self.write(name, description, type, content, supersedes=proposal.supersedes, **more)
        return Saved(memory.ref, memory, old, [self.read(ref) for ref in proposal.supersedes])

    def write(
        self,
        name: str,
        description: str,
        type: str,
        content: str,
        *,
        path: Ref | str = "",
        replace: bool = False,
        expect: Version | None = None,
        allow: Allow = STRICT,
        supersedes: Sequence[Ref | str] = (),
        also: str = "",
        **fields: Any,
    ) -> Memory:
        """Save a memory with this name, description, type and content.

        With `replace`, an existing memory of that path or name takes the new text. Days such as "tomorrow" get their
        date beside them. One with a Ref goes there, one with a `path` to the scope that has that file; one that bears
        the name of a memory goes where that is; all else where `scope_for` says. What has the same `also`, which ends
        the reason of the commit, is undone together. `fields` are more of the header: trust, conversation,
        citations, pinned, expires, reason.

        Raises:
            Exists: there is one already, and `replace` was not given.
            TextRefused, PathRefused: it may not be stored; the message says why.
            SecretFound: it holds a secret, and `allow` does not say that it may.
            Duplicate, NotWorth: it is there already, or for the moment only; `allow` stores it all the same.
            Changed: `expect` is not the version that is there.
        """
        today = self.today
        scope, file, is_new = self._target(name, type, content, path)
        fresh = compose(
            name=name,
            description=dated(description, today),
            kind=type,
            body=dated(content, today),
            created=today,
            updated=today,
            source=self.by,
            supersedes=_paths_in(scope, supersedes),
            **fields,
        )
        if is_new and not allow.anyway:
            self.refuse_known(fresh, scope.name)
        scope.index.ready()
        why = f"remember {name}{also}"

        def store() -> Memory:
            found = scope.find(file) if file else scope.find_name(type, name)
            if found is None and not file:
                return self._store_new(scope, fresh, expect or ABSENT, allow, why)
            if found is None:
                new = placed(fresh, check_path(file))
                return self._store(scope, new, expect or ABSENT, why, allow=allow)
            if not replace:
                raise Exists(found.ref)
            _refuse_other_spelling(file or found.path, found)
            if found.state not in ("ok", "free"):
                raise BadHeader(found.ref, found.problem)
            if expect is not None and expect != found.version:
                raise Changed(found.ref)
            new = check(found.path, merged(found, fresh) if found.state == "ok" else fresh.text)
            return self._store(scope, new, found.version, f"replace {name}{also}", was=found, allow=allow)

        return self._retry(scope, store, expect)

    def _target(self, name: str, kind: str, text: str, where: Ref | str) -> tuple[OpenScope, str, bool]:
        """Return where something is to be written: the scope, the path in it, and whether nothing is there yet."""
        if isinstance(where, Ref):
            scope, path = self._locate(where)
            return scope, path, scope.find(path) is None
        if len(self.scopes()) == 1:
            return self.own, where, True
        if not where:
            for scope in self.open_scopes():
                if scope.name not in self.teams and scope.find_name(kind, name):
                    return scope, "", False
        else:
            scope, path = self._locate(where)
            is_new = scope.find(path) is None or scope.name in self.teams
            if not is_new or fold(path) in PROMPT_FILES:
                return scope, path, is_new
        return self.open_scope(self.scope_for(kind, text)), where, True

    def refuse_known(self, memory: Memory, scope: str) -> None:
        """Raise Duplicate when a wider scope than this one says already what a new memory says."""
        scopes = self.scopes()
        for name in scopes[scopes.index(scope) + 1 :]:
            self.open_scope(name).refuse_duplicate(memory._replace(path=""))

    def _store(
        self,
        scope: OpenScope,
        memory: Memory,
        expect: Version,
        why: str,
        *,
        was: Memory | None = None,
        alone: bool = False,
        allow: Allow = STRICT,
    ) -> Memory:
        around = self._whole.open_scopes()
        return scope.store_one(memory, expect, why, was=was, alone=alone, allow=allow, around=around)

    def _store_new(self, scope: OpenScope, fresh: Memory, expect: Version, allow: Allow, why: str) -> Memory:
        """Store a memory under a file name that is free; the index knows which are, the store has the last word.

        Raises Changed when somebody has just made that file, or one that bears this very name.
        """

        def is_taken(path: str) -> bool:
            others = scope.index.same_file(path)
            for other in others:
                found = scope.find(other)
                if found and (found.name, found.type) == (fresh.name, fresh.type):
                    raise Changed(found.ref)  # since the name was asked for
            return bool(others)

        memory = placed(fresh, file_name(fresh.type, fresh.name, is_taken))
        return self._store(scope, memory, expect, why, alone=True, allow=allow)

    def _retry(self, scope: OpenScope, work: Callable[[], Memory], expect: Version | None) -> Memory:
        """Run a read-modify-write; repeat it when the file changed meanwhile, unless a version was expected."""
        if expect is not None:
            return work()
        busy = f"the memories of {scope.scope} change faster than they can be read"
        return retry(work, busy=busy, meanwhile=lambda: scope.index.look())

    # Changing

    def revise(
        self,
        where: Ref | str,
        old: str,
        new: str,
        *,
        count: int = 1,
        expect: Version | None = None,
        allow: Allow = STRICT,
    ) -> Memory:
        """Replace a piece of text that occurs exactly `count` times; without `expect`, also when others are faster.

        Raises:
            NotFound, NoMatch, BadHeader, Changed, TextRefused, SecretFound, NotWorth.
        """

        def change(memory: Memory, today: str) -> str:
            return revised(memory, old, dated(new, today, piece=True), count=count)

        return self._edit(where, change, "update", expect, allow)

    def insert(
        self, where: Ref | str, line: int, text: str, *, expect: Version | None = None, allow: Allow = STRICT
    ) -> Memory:
        """Insert text after a line of the body; 0 puts it first.

        Raises:
            NotFound, BadHeader, Changed, TextRefused, SecretFound, NotWorth.
        """

        def change(memory: Memory, today: str) -> str:
            return inserted(memory, line, dated(text, today, piece=True))

        return self._edit(where, change, "insert", expect, allow)

    def _edit(
        self,
        where: Ref | str,
        change: Callable[[Memory, str], str],
        why: str,
        expect: Version | None,
        allow: Allow,
    ) -> Memory:
        """Store the text that `change` makes of a memory and the day; again when another writer was faster."""
        scope, path = self._locate(where)

        def store() -> Memory:
            memory, today = _for_change(scope, path, expect), self.today
            if is_fact(memory.path):  # before it is searched for a piece that may not be there
                raise CreateOnly(memory.ref)
            changed = redated(memory, change(memory, today), today)
            return self._store(scope, changed, memory.version, why, was=memory, allow=allow)

        return self._retry(scope, store, expect)

    def put(
        self,
        where: Ref | str,
        text: str,
        *,
        expect: Version = ABSENT,
        free: bool = False,
        why: str = "",
        allow: Allow = STRICT,
    ) -> Memory:
        """Store a whole file: a memory with its header, or with `free` any text, such as CONTEXT.md.

        A new one goes where its type belongs.

        Raises:
            Exists, Changed, TextRefused, SecretFound, Duplicate, NotWorth, PathRefused.
            BadHeader: it cannot be understood, and only a person (`by="user"`) may replace it.
        """
        made = parse(where.path if isinstance(where, Ref) else where, text.encode("utf-8", "replace"))
        kind = made.type if made.state == "ok" else ""
        scope, path, is_new = self._target(made.name, kind, made.body, where)
        if is_new and made.state == "ok" and not allow.anyway:
            self.refuse_known(made, scope.name)
        found = scope.find(path)
        if found is not None:
            if expect == ABSENT:
                raise Exists(found.ref)
            _refuse_other_spelling(path, found)
            _refuse_unreadable(scope, found)
        text_file = checked(found.path if found else check_path(path), text, found, free=free)
        memory = with_description(found, text_file)
        why = why or ("edit" if found else "add")
        return self._store(scope, memory, expect, why, was=found, allow=allow)

    def rename(
        self,
        where: Ref | str,
        title: str,
        *,
        text: str = "",
        file: str = "",
        expect: Version | None = None,
        allow: Allow = STRICT,
    ) -> Memory:
        """Give a memory another name, and its file the name that follows from it, or `file`. Links follow.

        With `text`, that takes the place of its whole text by the same commit. Its history goes on: `log`, `diff` and
        `restore` know it under its older names.

        Raises:
            NotFound, BadHeader, Changed, TextRefused, SecretFound, PathRefused, Exists.
            CreateOnly: it is a fact, whose name stays.
        """
        scope, path = self._locate(where)

        def store() -> Memory:
            was = _with_header(scope, path, expect)
            if is_fact(was.path):
                raise CreateOnly(was.ref)
            new_name = clean_field("name", title)
            folder = was.path[: was.path.rfind("/") + 1]

            def is_taken(file: str) -> bool:
                return bool(set(scope.index.same_file(folder + file)) - {was.path})

            scope.index.ready()
            target = check_path(file) if file else folder + file_name(was.type, new_name, is_taken)
            if others := set(scope.index.same_file(target)) - {was.path}:
                raise Exists(scope.ref(others.pop()))
            named = edit_text(text or was.text, fields={"name": new_name, "updated": self.today})
            new = placed(checked(was.path, named, was, free=False), target)
            sure = Allow(allow.secrets, anyway=True)
            return self._store(scope, new, was.version, f"rename {was.name} to {new_name}", was=was, allow=sure)

        return self._retry(scope, store, expect)

    def pin(self, where: Ref | str, on: bool = True, *, expect: Version | None = None) -> Memory:
        """Keep a memory in the catalog however many there are, or no longer. Raises NotFound, BadHeader, Changed."""
        self.pin_many([(where, expect or "")], on)
        return self.read(where)

    def pin_many(
        self, wanted: Iterable[tuple[Ref | str, Version]], on: bool = True, *, also: str = ""
    ) -> Commit | None:
        """Pin or unpin several memories of one scope as one commit; None without changes.

        `also` is added to the reason.
        """
        scope, pairs = self._of_one_scope(wanted)
        memories = [_with_header(scope, path, version or None) for path, version in pairs]
        changing = [memory for memory in memories if memory.pinned != on]
        verb = "pin" if on else "unpin"
        return self._set_fields(scope, changing, {"pinned": "true" if on else None}, verb, self.by, also)

    def confirm(self, where: Ref | str) -> Memory:
        """Mark a memory as confirmed: a person has read it, whoever wrote it. Raises NotFound, BadHeader."""
        self.confirm_many([(where, "")])
        return self.read(where)

    def confirm_many(self, wanted: Iterable[tuple[Ref | str, Version]], *, also: str = "") -> Commit | None:
        """Confirm several memories of one scope as one commit; None when nothing was written. Raises Changed."""
        scope, pairs = self._of_one_scope(wanted)
        memories = [_for_change(scope, path, version or None) for path, version in pairs]
        scope.accept([(memory.path, memory.version) for memory in memories if memory.shared])
        memories = [memory._replace(shared=False) for memory in memories]
        doubted = [memory for memory in memories if memory.trust != "confirmed" or memory.changed_by]
        fields = {"trust": "confirmed", "changed_by": None}
        return self._set_fields(scope, doubted, fields, "confirm", "user", also)

    def _of_one_scope(
        self, wanted: Iterable[tuple[Ref | str, Version]]
    ) -> tuple[OpenScope, Sequence[tuple[str, Version]]]:
        places = [(*self._locate(where), version) for where, version in wanted]
        scopes = {scope.name: scope for scope, _, _ in places}
        if len(scopes) > 1:
            raise ScopeRefused(
                f"the memories are of several scopes: {', '.join(scopes)}; change those of one at a time"
            )
        scope = next(iter(scopes.values()), self.own)
        return scope, [(path, version) for _, path, version in places]

    def _set_fields(
        self,
        scope: OpenScope,
        memories: Sequence[Memory],
        fields: Mapping[str, str | None],
        verb: str,
        by: str,
        also: str,
    ) -> Commit | None:
        """Set fields in the headers of memories, as one commit; their dates stay."""
        scope.require_writable()
        changes = []
        for memory in memories:
            changed = checked(memory.path, edit_text(memory.text, fields=fields), memory, free=False)
            if by != "user":
                changed = vouched(changed, memory, by)
            changes.append(Change(memory.path, changed.data, memory.version))
        if not changes:
            return None
        subject = memories[0].name if len(memories) == 1 else f"{len(memories)} memories"
        was = {memory.path: memory for memory in memories}
        return scope.commit(changes, f"{verb} {subject}{also}", by=by, was=was)

    def change_many(self, changes: Sequence[Change], why: str, *, by: str = "", allow: Allow = STRICT) -> Commit:
        """Change several files of the home scope as one commit, all or none; `by` says through which channel.

        Raises:
            Changed: one of them is not at the version that was expected.
            TextRefused, SecretFound, Duplicate, NotWorth.
        """
        return self.own.change_many(changes, why, by=by, allow=allow)

    def change_files(self, plan: Plan, why: str) -> Commit | None:
        """Change files of the home scope as one commit, all or none; None when the plan changes nothing.

        The plan is asked again when a file that it looked at has changed meanwhile, so that two who note something at
        once both see it there. A file that the plan did not look at must not exist.

        Raises:
            Busy: others are always faster.
            BadHeader: a file that the plan looked at is not understood.
            Exists: one is there under a name that differs in case alone.
            TextRefused, SecretFound, PathRefused: a text may not be stored; nothing was.
        """
        scope = self.own

        def attempt() -> Commit | None:
            seen: dict[str, Memory | None] = {}

            def look(path: str) -> str | None:
                memory = seen[path] = scope.find(path)
                if memory is None:
                    return None
                if check_stored(memory.path) != check_stored(path):
                    raise Exists(memory.ref, f"{path!r} would be the same file on some systems")
                if memory.data and memory.state not in ("ok", "free"):
                    raise BadHeader(memory.ref, memory.problem)  # a machine does not rewrite it
                return memory.text

            changes = []
            for path, text in plan(look).items():
                was = seen.get(path)
                data = None if text is None else checked(path, text, was, free=True).data
                if data is not None or was is not None:
                    changes.append(Change(path, data, was.version if was else ABSENT))
            if not changes:
                return None
            try:
                return scope.change_many(changes, why, allow=Allow(anyway=True))
            except Exists as error:
                raise Changed(error.ref) from None

        try:
            return attempt()
        except Changed:  # who was too slow once waits for a turn, so that nobody is too slow for ever
            with scope.store.lock("turn"):
                busy = f"the files of {scope.name} change faster than they can be read"
                return retry(attempt, busy=busy, times=20)

    def move(
        self, wanted: Iterable[tuple[Ref | str, Version]], target: Sheaf, *, also: str = ""
    ) -> tuple[Commit, Commit]:
        """Move memories of one scope to the home scope of another sheaf, all or none; the version "" stands for any.

        They are written there first, so that a crash leaves two of them and never none. What came with a repository
        is unconfirmed afterwards. `undo` takes both commits back, and all whose reason ends in the same `also`.

        Raises:
            NotFound, Changed, BadHeader, SecretFound, Duplicate, NotWorth, ReadOnly.
            ScopeRefused: it is the same scope. CreateOnly: it is a fact, which belongs to its repository.
        """
        scope, pairs = self._of_one_scope(wanted)
        if scope.root == target.root:
            raise ScopeRefused(f"the memories are in the scope {scope.name} already")
        taken: set[str] = set()

        def is_taken(path: str) -> bool:
            return fold(path) in taken or target.own.find(path) is not None

        memories = [_with_header(scope, path, version or None) for path, version in pairs]
        changes = []
        for memory in memories:
            if is_fact(memory.path):
                raise CreateOnly(memory.ref)
            if error := find_personal(memory, target.home):
                raise error
            target.own.refuse_duplicate(memory._replace(path=""))
            path = file_name(memory.type, memory.name, is_taken) if is_taken(memory.path) else memory.path
            taken.add(fold(path))
            text = edit_text(memory.text, fields={"trust": "unconfirmed"}) if memory.shared else memory.text
            changes.append(Change(path, text.encode(), ABSENT))
        subject = memories[0].name if len(memories) == 1 else f"{len(memories)} memories"
        why = f"{MOVE}{subject} from {scope.name}{also}"
        added = target.change_many(changes, why, allow=Allow(anyway=True))
        gone = [Change(memory.path, None, memory.version) for memory in memories]
        why = f"{MOVE}{subject} to {target.home}{also or TOGETHER + added.id}"
        try:
            return added, scope.change_many(gone, why)
        except MemsheafError:
            target.undo(added.id)  # or it would be in both
            raise

    # Removing and taking back

    def forget(self, where: Ref | str, *, why: str = "", expect: Version | None = None) -> Commit:
        """Remove a memory. `undo` brings it back until retention ends.

        What was forgotten is not learned again from a conversation. A bare path is of the home scope alone: to remove
        one twice does not remove its namesake in another scope.

        Raises:
            NotFound, Changed.
            BadHeader: it cannot be understood, and only a person (`by="user"`) may remove it.
            CreateOnly: it is a fact, which another one supersedes.
        """
        scope, path = self._locate(where if isinstance(where, Ref) else Ref(self.home, where))
        return self._forget_in(scope, [(path, expect or "")], why)

    def forget_many(
        self, wanted: Iterable[tuple[Ref | str, Version]], *, why: str = "", also: str = ""
    ) -> Sequence[Commit]:
        """Remove memories, each at this version ("" for any), as one commit a scope; `undo` takes all back together.

        `also` ends the reason of each commit.

        Raises:
            Changed, NotFound: one is not what it was; nothing is removed in its scope and those after it.
        """
        by_scope: dict[str, list[tuple[str, Version]]] = {}
        for where, version in wanted:
            scope, path = self._locate(where if isinstance(where, Ref) else Ref(self.home, where))
            by_scope.setdefault(scope.name, []).append((path, version))
        if len(by_scope) > 1:
            also = also or new_group()
        return [self._forget_in(self.open_scope(name), pairs, why, also) for name, pairs in by_scope.items()]

    def _forget_in(self, scope: OpenScope, wanted: Sequence[tuple[str, Version]], why: str, also: str = "") -> Commit:
        memories: dict[str, Memory] = {}
        for path, version in wanted:
            memory = scope.find(path)
            if memory is None:
                raise NotFound(scope.ref(path))
            _refuse_unreadable(scope, memory)
            if is_fact(memory.path) and scope.by != "user":
                raise CreateOnly(memory.ref)
            if version and version != memory.version:
                raise Changed(memory.ref)
            memories[memory.path] = memory
        scope.require_writable()
        scope.require_person()
        removed = list(memories.values())
        scope.bury(removed)  # first: what is there still is not learned twice
        changes = [Change(memory.path, None, memory.version) for memory in removed]
        subject = removed[0].name if len(removed) == 1 else f"{len(removed)} memories"
        return scope.commit(changes, (why or f"forget {subject}") + also, was=memories)

    def undo(self, commit_id: str = "", *, others: Callable[[], Iterable[Sheaf]] = tuple) -> Sequence[Commit]:
        """Take a commit back, or the last change, in whichever scope it was made; undo an undo by its id.

        What the same command did in other scopes is taken back with it; `others` are the scopes that a move or an
        import may have reached. What a person did outside, and events of a task, are taken back only by their id.
        Returns one commit for each scope, that of the change itself first.

        Raises:
            NoSuchCommit: there is none, or several begin with that id.
            Changed: a memory was changed again since.
            VersionGone.
        """
        candidates = []
        missing = NoSuchCommit(f"several commits begin with {commit_id!r}")
        for scope in self.open_scopes():
            if not commit_id and scope.name in self.teams:
                continue  # what others did there is theirs
            try:
                candidates.append((scope.last_change(commit_id), scope))
            except NoSuchCommit as error:
                missing = error
        if not candidates or (commit_id and len(candidates) > 1):
            raise missing
        commit, scope = max(candidates, key=lambda candidate: candidate[0].at)
        around = [*self.each(), *(others() if has_parts_elsewhere(scope, commit) else ())]
        return [commit for _, commit in undo_together(self.only(scope.name), commit.id, around)]

    def restore(self, where: Ref | str, version: Version) -> Commit:
        """Bring a memory back to an older version, whatever it is now.

        Raises:
            VersionGone: the history no longer holds it.
        """
        scope, path = self._locate(where)
        path = scope.spell(path)
        data = find_version(trail(scope.store, path), path, version)
        present = scope.find(path)
        if present is None and is_fact(path):
            scope.fact_rules.refuse_superseded(scope.parse(path, data), scope.facts())
        _refuse_secrets_for_hub(scope, path, data)
        change = Change(path, data, present.version if present else ABSENT)
        was_here = Allow(secrets=True, anyway=True)
        return scope.commit([change], f"restore {version[:12]}", allow=was_here, rewriting=True)

    def restore_lost(self, *, with_git: bool = False, dismiss: bool = False) -> Sequence[str]:
        """Bring back the files that went with the whole folder, or `dismiss` them; return the paths that are back.

        What branches of git have, and the present commit has not, comes back only `with_git`.
        """
        from memsheaf.worktree import restore_lost

        self.own.require_writable()
        return restore_lost(self.own.store, by=self.by, with_git=with_git, dismiss=dismiss)

    # History

    def log(self, where: Ref | str = "", *, limit: int | None = None) -> Iterator[Commit]:
        """Return the commits of each scope, or of one memory, newest first, at most `limit` of each scope.

        Those of the home scope come first. What others changed outside is there, too.
        """
        if where:
            scope, path = self._locate(where)
            return scope.log(path, limit=limit)
        scopes = [self.own, *(scope for scope in self.open_scopes() if scope is not self.own)]
        return (commit for scope in scopes for commit in scope.log(limit=limit))

    def diff(self, where: Ref | str, older: Version = "", newer: Version = "") -> str:
        """Show how a memory changed between two versions, or with its last commit. Raises NotFound, VersionGone."""
        scope, path = self._locate(where)
        return scope.diff(path, older, newer)

    def blame(self, where: Ref | str) -> Sequence[Blamed]:
        """Return the commit that each line of a memory came with."""
        scope, path = self._locate(where)
        return scope.blame(path)

    # Learning

    @property
    def learning(self) -> Learner:
        """The inbox and the review queue of the home scope; what comes of them goes where it belongs."""
        from memsheaf.learn.learner import Learner

        return Learner(
            self.lasting(),
            self.state,
            policy=lambda scope: self.settings.policy_of(Scope.parse(scope)),
            ledger=self.own.ledger,
            clock=self.clock,
        )

    @property
    def _policy(self) -> str:
        return self.settings.policy_of(self.scope)

    def learn(self, turn: Turn) -> bool:
        """Keep a finished turn of a conversation until it is distilled. False when nothing of it is kept.

        `turn.unkept` says whether that is the user's wish. With the policy `log` it goes into the daily log.
        """
        self.own.require_writable()
        if self._policy == "log":
            from memsheaf.learn.daily_log import DailyLog

            with DailyLog(self.root, self.state, ledger=self.own.ledger, clock=self.clock) as log:
                return log.append(turn, by=self.by)
        from memsheaf.learn.inbox import Inbox  # and nothing of what reads it: somebody waits for this

        return self._policy != "manual" and Inbox(self.state, clock=self.clock).append(turn)

    def distil(
        self,
        model: Model | str | None = None,
        *,
        deadline: float = 60.0,
        progress: Progress | None = None,
    ) -> Distilled:
        """Make memories of the turns that wait: with the model, or the one of the settings, or by rules alone.

        What it may cost is limited by the settings. What fails waits for the next time. Then memories are
        consolidated, if that is due, nobody has to be asked, and the policy is not `log`.
        """
        self.own.require_writable()
        extracting = self.metered("extract", model)
        distilled = self.learning.distil(extracting, deadline=deadline, progress=progress)
        if distilled.problem or self._policy != "auto":
            return distilled
        with suppress(Busy):
            return distilled._replace(report=self.dream(model)[1])
        return distilled

    def consolidate(
        self,
        model: Model | str | None = None,
        *,
        apply: bool = False,
        progress: Progress | None = None,
    ) -> ConsolidationReport:
        """Merge what says the same, retire what is past, in the home scope; with `apply`, else only plan it.

        Raises:
            Busy: another process is at it.
        """
        asked = self.metered("consolidate", model)
        return self._consolidate(asked, apply=apply, progress=progress)

    def dream(
        self, model: Model | str | None = None, *, planning: bool = False, progress: Progress | None = None
    ) -> tuple[tuple[Gate, ...], ConsolidationReport | None]:
        """Consolidate unless a gate is closed or the agent is `planning`; return gates and result. Raises Busy."""
        self.own.require_writable()
        gates = self.gates(planning=planning)
        if not all(gate.is_open for gate in gates):
            return gates, None
        asked: Model | None = None
        notes: list[str] = []
        try:
            asked = self.metered("consolidate", model)
        except (ModelFailed, BadSettings) as error:
            notes.append(f"no model was asked: {error}")
        report = self._consolidate(asked, apply=True, progress=progress)
        report.notes = notes + report.notes
        return gates, report

    def gates(self, *, planning: bool = False) -> tuple[Gate, ...]:
        """Return what has to be so before memories are consolidated unasked, and whether it is."""
        from memsheaf.learn import consolidate

        own = self.own
        return consolidate.gates(
            self.state,
            self.settings.dream,
            files=own.count(),
            learned=self.learning.inbox.learned(),
            now=self.clock(),
            planning=planning,
            logging=self._policy == "log",
            team=own.ledger is not None and self.scope.layer == "team" and self._policy != "auto",
        )

    def _consolidate(self, model: Model | None, *, apply: bool, progress: Progress | None) -> ConsolidationReport:
        from memsheaf.learn import consolidate

        with ExitStack() as held:
            if apply and self.replica:  # no other machine does the same
                held.enter_context(self.own.store.lock("consolidate", wait=consolidate.WORKER_SECONDS))
            return consolidate.run(
                self.own,
                state=self.state,
                now=self.clock(),
                model=model,
                apply=apply,
                learned=self.learning.inbox.learned(),
                progress=progress,
            )

    def expect(self, question: str, path: str) -> None:
        """Record that a question is answered by a memory: no consolidation may change that. Raises NotFound."""
        from memsheaf.learn.consolidate import expect

        self.own.require_writable()
        expect(self.state, question, self.own.read(path).path)

    def metered(self, purpose: str, model: Model | str | None = None) -> Model | None:
        """Return the model, or the one that the settings name, with the caps of the settings; None for "none".

        Raises:
            ModelFailed, BadSettings: it cannot be used.
        """
        from memsheaf.llm import load_model
        from memsheaf.llm.spend import Ledger, Metered

        settings = self.settings
        model = model or settings.model
        if isinstance(model, str):
            is_own = model == settings.model  # address and key in the settings are for it and for no other
            url, key = (settings.model_url, settings.model_key) if is_own else ("", "")
            model = load_model(model, url=url, key=key) if model and model != "none" else None
        if model is None or isinstance(model, Metered):
            return model
        ledger = Ledger.of(settings.state or os.path.join(settings.home, "state"), clock=self.clock)
        return Metered(model, ledger, settings.spend, purpose)

    # Beyond this folder

    def sync(self, *, again: bool = False) -> Synced:
        """Push what waits here and bring what other machines pushed; `again` as if it were the first time.

        Raises:
            ScopeRefused: the scope has no hub.
            HubUnreachable, HubRefused, HubRestored, Busy.
        """
        from memsheaf.transfer import synchronize

        if self.replica is None or not has_hub(self.root, self.settings.home):
            error = ScopeRefused(f"{self.scope} has no hub")
            raise hinted(error, f"`memsheaf hub add {self.scope} URL` gives it one.")
        own = self.own
        synced = synchronize(own, self.learning, self.state, clock=self.clock, again=again)
        if synced.pulled and own.ledger:  # look up who saved it, so that no question waits for that
            own.committers(own.index.rows("author IS NULL"))
        return synced

    def erase(self, path: str, *, others: Iterable[Sheaf] = ()) -> Proof:
        """Remove a memory of the home scope and all its versions for good, and prove it; with a hub, everywhere.

        It is also erased from the history of the `others`, which it may have been moved from. What has had such a
        text and is there today is another memory: it stays, and the proof names it.

        Raises:
            NotFound: neither the files nor the history know it.
            HubUnreachable, HubRefused: nothing was erased.
        """
        from memsheaf.transfer import erase_for_all

        steps = (step for commit in self.own.log(path) for step in commit.revisions)
        versions = {version for step in steps for version in (step.before, step.after) if version}
        proof = erase_for_all(path, self.own, self.learning, self.state, clock=self.clock)
        for other in others:
            where = self if other.root == self.root else other
            steps = (step for commit in where.own.log() for step in commit.revisions)
            for name in sorted({step.path for step in steps if not versions.isdisjoint((step.before, step.after))}):
                label = f"{where.home}:{name}"
                if where.own.find(name):
                    proof = proof._replace(elsewhere=(*proof.elsewhere, label))
                    continue
                try:
                    proof = proof.join(where.erase(name))
                except MemsheafError as error:
                    proof = proof._replace(left=(*proof.left, f"{label} ({error})"))
        return proof

    def export(self, target: str, *, history: bool = False, only: Collection[str] = ()) -> Exported:
        """Write every file of the home scope to a new zip or folder, with `history` the journals, too.

        With `only`, just these files. What cannot be read whole is left out and named.
        """
        from memsheaf import transfer

        return transfer.export({"": self.locations()}, target, history=history, only=only)

    def locations(self) -> Locations:
        """Return where the files of the home scope are, after a look at them, to export them."""
        from memsheaf.transfer import Locations

        own = self.own
        own.index.look()
        state = os.path.dirname(own.state.folder)
        return Locations(own.root, "", self.settings.home, state, self.settings.cache, own.ledger)

    def take_in(
        self,
        source: str,
        *,
        replace: bool = False,
        dry_run: bool = False,
        allow: Allow = STRICT,
        history: bool = False,
        below: str = "",
        also: str = "",
    ) -> Imported:
        """Import a folder or an archive, or what is `below` a folder of it, into the home scope.

        `also` ends the reason of each commit: `undo` takes back together what has the same one.

        What is refused stays out and is named. What a memory here says already is refused, too, unless `allow` says
        otherwise; whether it is worth keeping was decided where it comes from. With `history`, the past of what comes
        in comes along. Raises ArchiveRefused when it reaches outside, or is too large; then nothing was imported.
        """
        from memsheaf import transfer

        return transfer.take_in(
            self.own,
            source,
            replace=replace,
            dry_run=dry_run,
            allow=allow,
            history=history,
            below=below,
            also=also,
        )


def _paths_in(scope: OpenScope, memories: Iterable[Ref | str]) -> tuple[str, ...]:
    """Return the paths of those memories that are in this scope: no file names one of another scope."""
    refs = (where if isinstance(where, Ref) else scope.ref(where) for where in memories)
    return tuple(ref.path for ref in refs if ref.scope == scope.name)


def undo_together(sheaf: Sheaf, commit_id: str, others: Iterable[Sheaf] = ()) -> list[tuple[Sheaf, Commit]]:
    """Take back a commit of a home scope, and those that still stand of what was made with it in other scopes.

    An undo of them can be undone in the same way, too. `others` may repeat scopes.

    Raises:
        NoSuchCommit: there is none, or several begin with that id.
        Changed: a memory was changed again since.
    """
    commit = sheaf.own.last_change(commit_id)
    group = _group(sheaf.own, commit)
    since = str(datetime.fromisoformat(commit.at) - MAX_TIME_APART).replace(" ", "T")
    wanted = [(sheaf, commit)]
    for other in {**{each.root: each for each in others}, sheaf.root: sheaf}.values():
        recent = takewhile(lambda candidate: candidate.at >= since, other.own.log())
        for candidate in _standing(recent):
            if candidate.id != commit.id and _group(other.own, candidate) == group:
                wanted.append((other, candidate))
    # what was removed comes back before its copy elsewhere goes: whatever fails in between, it is in one place
    wanted.sort(key=lambda pair: any(step.before == ABSENT for step in pair[1].revisions))
    return [(where, _undo_in(where.own, candidate.id)) for where, candidate in wanted]


def _undo_in(scope: OpenScope, commit_id: str) -> Commit:
    scope.require_writable()
    scope.require_person()
    scope.index.look()
    target = scope.last_change(commit_id)
    scope.refuse_twins(step.path for step in target.revisions if step.before != ABSENT)
    for step in target.revisions:
        _refuse_secrets_for_hub(scope, step.path, step.old)
    commit = scope.store.undo(target.id, by=scope.by)._replace(scope=scope.name)
    scope.index.follow(commit, {})
    return commit


def has_parts_elsewhere(scope: OpenScope, commit: Commit) -> bool:
    """Return True if a commit, or the one that it undoes, is of a command that may have changed any scope."""
    return _origin(scope, commit)[0].why.startswith((MOVE, "import "))


def new_group() -> str:
    """Return the end of a reason that all commits of one command share, so that one undo takes them back."""
    return f"{TOGETHER}{os.urandom(6).hex()}"


def _standing(commits: Iterable[Commit]) -> Iterator[Commit]:
    """Yield those of the commits, newest first, that were not undone since."""
    undone: set[str] = set()
    for commit in commits:
        if commit.id not in undone:
            undone.add(commit.undoes)
            yield commit


def _group(scope: OpenScope, commit: Commit) -> tuple[str, int]:
    """Return what commits of one command share, a token or the id of the first, and how often it was undone."""
    origin, times = _origin(scope, commit)
    _, sign, first = origin.why.rpartition(TOGETHER)
    if origin.by == "extraction":
        return origin.why, times  # it names the turns, whose facts may be of several scopes
    return first if sign else origin.id, times


def _origin(scope: OpenScope, commit: Commit) -> tuple[Commit, int]:
    """Return the commit that an undo, or an undo of that, goes back to."""
    times = 0
    with suppress(NoSuchCommit):
        while commit.undoes:
            commit, times = scope.last_change(commit.undoes), times + 1
    return commit, times


def _for_change(scope: OpenScope, path: str, expect: Version | None) -> Memory:
    """Return one memory that is to be changed. Raises NotFound, BadHeader, Changed."""
    scope.require_writable()
    memory = scope.read(path)
    if memory.state not in ("ok", "free"):
        raise BadHeader(memory.ref, memory.problem)
    if expect is not None and expect != memory.version:
        raise Changed(memory.ref)
    return memory


def _with_header(scope: OpenScope, path: str, expect: Version | None) -> Memory:
    """Return a memory that is to be changed in its header. Raises NotFound, BadHeader, Changed."""
    memory = _for_change(scope, path, expect)
    if memory.state != "ok":
        raise BadHeader(memory.ref, "there is none")
    return memory


def _refuse_other_spelling(path: str, found: Memory) -> None:
    """Raise Exists when a whole text would go to a file that only some systems call by this name."""
    if check_path(path) != check_path(found.path):
        raise Exists(found.ref, f"{path!r} would be the same file on some systems")


def _refuse_unreadable(scope: OpenScope, found: Memory) -> None:
    """Raise BadHeader when a machine would rewrite or remove a file that cannot be understood."""
    if found.state in ("bad", "held") and scope.by != "user":
        raise BadHeader(found.ref, found.problem)


def _refuse_secrets_for_hub(scope: OpenScope, path: str, data: bytes | None) -> None:
    """Raise SecretFound when an older text with a secret would go to a hub: it may never have been there."""
    if data and scope.replica:
        require_no_secret(parse(path, data), scope.find(path))


def _plain(text: str) -> str:
    """Return what a file and its name have in common, line by line.

    >>> _plain("user_prefers-tabs.md\\nPrefers  Tabs")
    'user prefers tabs\\nprefers tabs'
    """
    lines = fold(text).replace("_", " ").replace("-", " ").split("\n")
    return "\n".join(" ".join(line.removesuffix(".md").split()) for line in lines)
