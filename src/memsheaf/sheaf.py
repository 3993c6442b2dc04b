"""Sheaf: everything one can do with memory, over one scope or several.

    task        what one piece of work has found, decided and verified
    session     scratch notes of one conversation
    project     NOTES.md, facts and memories of the repository
    team        what the project's team shares, if the user's settings name one: read here, changed by people
    user        what holds everywhere

Each scope is a folder of plain files with a history of its own (`scope.py`, `open_scope.py`). Reading covers all
scopes of a sheaf, the nearest first; a new memory goes where it belongs (`choose_scope`). A memory is identified by a
`Ref`: its scope and its path there. `Sheaf.label` gives the name under which people and models are shown it: the bare
path in the home scope, which is the project unless others were given, else with the scope, as in
`user:user_prefers-tabs.md`. Every method that takes a Ref takes such a name, too. A bare name is a file of the home
scope, else of the nearest scope that has one; `forget` looks in the home scope alone.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from copy import copy
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from memsheaf.config import Settings, load
from memsheaf.encode import Encoder
from memsheaf.errors import (
    BadHeader,
    BadSettings,
    Busy,
    Changed,
    Exists,
    MemsheafError,
    ModelFailed,
    NotFound,
    NotInHistory,
    PathRefused,
    Ref,
    ScopeRefused,
    fact_edit_error,
)
from memsheaf.gates import (
    add_dates,
    check_text,
    insert_lines,
    merge_memory,
    place_memory,
    replace_piece,
    update_memory,
    with_description,
)
from memsheaf.guard.paths import check_path, file_name, fold, is_fact
from memsheaf.index.catalog import Page, with_scope
from memsheaf.index.database import Row
from memsheaf.memory import STRICT, Allow, Memory, check, compose, parse
from memsheaf.open_scope import (
    MOVE,
    TOGETHER,
    OpenScope,
    choose_scope,
    find_matches,
    new_group,
    prompt_sections,
    refuse_known,
    retry,
)
from memsheaf.recall.inject import CONTEXT, NOTES
from memsheaf.scope import (
    KnownScope,
    Scope,
    check_label,
    list_projects,
    list_scopes,
    named_folders,
    project_root,
    resolve,
    unused_folder,
)
from memsheaf.store import ABSENT, Commit, CommitSummary, Version
from memsheaf.text.sections import SESSION_FILE
from memsheaf.text.tokenizer import words
from memsheaf.worktree import describe_moved, find_tree, record_tree

if TYPE_CHECKING:
    from memsheaf.learn.consolidate import ConsolidationReport, Gate, Progress
    from memsheaf.learn.learner import Distilled, Learner
    from memsheaf.llm import Model
    from memsheaf.recall.recall import Recall
    from memsheaf.recall.session import Session
    from memsheaf.recall.turns import Turn

TASK_FILE = "TASK.md"
SCRATCH = ("task", "session")  # layers whose notes are read on demand: in no prompt, and nothing is learned there
PROMPT_FILES = tuple(map(fold, (CONTEXT, NOTES)))  # every scope has these for itself
MAX_CANDIDATES = 10  # memories that are named when several could be meant
AnyCommit = Commit | CommitSummary
MAX_TIME_APART = timedelta(hours=1)  # between commits that were made together


class Saved(NamedTuple):
    """A fact that was saved, the memory that it replaced, and similar ones that it may contradict.

    If a memory said it already, `replaced` is that memory, and all that was changed is that no longer is it doubted
    because of the `similar` ones.
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

    def add(self, root: str, scope: OpenScope) -> None:
        """Hold a folder that was opened, and close it with the others."""
        self.by_root[root] = scope
        self.stack.callback(scope.close)

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

    def __init__(self, settings: Settings, cwd: str, *, by: str = "user", read_only: bool = False) -> None:
        super().__init__(by)
        self.settings = settings
        self.cwd = cwd
        self.read_only = read_only
        self._sheaves: dict[str, Sheaf] = {}
        if not read_only:
            record_tree(settings.places(cwd))

    def __enter__(self) -> AllScopes:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def list(self) -> list[KnownScope]:
        """Return the scopes that there are."""
        return list_scopes(self.settings.places(self.cwd), find_tree)

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

    def every(self) -> Iterator[OpenScope]:
        """Yield every scope; those that cannot be opened are left out."""
        for scope in self.list():
            with suppress(MemsheafError, OSError):
                yield self.sheaf(scope).own

    def choose(self, type: str, text: str) -> str:
        """Return the scope that a new memory belongs to, in the present project or outside of it."""
        sheaf = self.around(self.find("project"))
        return choose_scope(type, text, sheaf.scopes(), sheaf.home)

    def tree(self, scope: KnownScope) -> str:
        """Return the working tree for the citations of a scope, "" when unknown or outside of projects."""
        return find_tree(scope, self.settings.places(self.cwd))


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
        root = self._sheaf._find_root("project")
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
                choice = f"name one with -s {layer}/NAME ({', '.join(going)})"
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
        settings: Settings,
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
        self.scope = Scope.parse(self.home)
        self.work = WorkScopes(self, task=task or settings.task, session=session or settings.session)
        self._lasting = [] if self.given else settings.layers(self.cwd)
        self.teams = {scope for scope in self._lasting if scope.startswith("team/")}
        self._embedder = embedder
        self._on_open = on_open
        self._folders = folders or OpenFolders(by)
        self._roots: dict[str, str] = {}
        self._said_together: dict[str, list[Ref]] = {}
        self._whole = self  # what `only` made this from
        self.is_part = False

    @classmethod
    def open(
        cls,
        scope: Scope | str | None = None,
        *,
        scopes: Sequence[str] = (),
        settings: Settings | None = None,
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
            settings = load({**os.environ, "MEMSHEAF_HOME": home} if home else os.environ)
        if scope is None:
            return cls(settings, cwd, scopes=scopes, **options)
        sheaf = cls(settings, cwd, scopes=[str(scope)], **options)
        sheaf.open_scope(sheaf.home)
        return sheaf

    def close(self, *, wait: bool = True) -> None:
        """Make everything safe on disk and let go; a process that ends now need not `wait` for vectors."""
        if os.path.isdir(self._roots.get("project", "")) and not self.read_only:
            record_tree(self.settings.places(self.cwd))
        self._folders.close(wait=wait)

    def __enter__(self) -> Sheaf:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Scopes

    def scopes(self, *, lasting: bool = False) -> list[str]:
        """Return the scopes that are asked, in order: a task and a session only where it is clear which one is meant.

        With `lasting`, those other than the home scope are left out.

        Raises NotFound, ScopeRefused when one was named, and is not there or is no name.
        """
        scopes = list(self.given) or [*self.work.scopes(), *self._lasting]
        if lasting:
            scopes = [scope for scope in scopes if scope == self.home or scope.partition("/")[0] not in SCRATCH]
        return scopes

    def _find_root(self, name: str) -> str:
        """Return the folder of a scope, open or not."""
        return self._roots.get(name) or resolve(Scope.parse(name), self.settings.places(self.cwd))

    def open_scope(self, name: str) -> OpenScope:
        """Return the folder of a scope, opened once. Raises ScopeRefused."""
        scope = Scope.parse(name)
        name = str(scope)
        folders = self._folders
        root = self._find_root(name)
        with folders.lock:
            if root not in folders.by_root:
                is_closed = os.path.isdir(root) and not os.access(root, os.W_OK)
                opened = OpenScope(
                    scope,
                    self.settings,
                    cwd=self.cwd,
                    by=folders.by,
                    read_only=self.read_only or is_closed,
                    embedder=self._embedder,
                    clock=self.clock,
                    is_reviewed=name in self._whole.teams and self.settings.policy_of(scope) != "auto",
                )
                folders.add(root, opened)
                if self.read_only and not is_closed:
                    opened.store.recover()  # what a crash left half done would look as if something were gone
                if self._on_open:
                    self._on_open(opened)
            self._roots[name] = root
            return folders.by_root[root]

    def open_scopes(self, *, lasting: bool = False) -> list[OpenScope]:
        """Return the folders of the scopes, the nearest first; with `lasting` without tasks and sessions."""
        return [self.open_scope(scope) for scope in self.scopes(lasting=lasting)]

    def only(self, *scopes: str) -> Sheaf:
        """Return the memory of some scopes alone, the home scope first; it shares what is open."""
        given = tuple(dict.fromkeys(str(Scope.parse(scope)) for scope in scopes))
        if given == self.given:
            return self
        part = copy(self)
        part.given = given
        part.is_part = True
        part.home = given[0]
        part.scope = Scope.parse(part.home)
        part.teams = self.teams - {part.home}
        part.open_scope(part.home)
        return part

    @property
    def own(self) -> OpenScope:
        """The folder of the home scope: its names are bare, and what is said is learned from its inbox."""
        return self.open_scope(self.home)

    @property
    def root(self) -> str:
        """The folder of the home scope."""
        return self.own.root

    @property
    def today(self) -> str:
        """The day, as headers have it."""
        return time.strftime("%Y-%m-%d", time.localtime(self.clock()))

    @property
    def by(self) -> str:
        """The author of changes."""
        return self._folders.by

    @by.setter
    def by(self, who: str) -> None:
        self._folders.by = who
        for scope in self._folders.by_root.values():
            scope.by = who

    # Names

    def label(self, ref: Ref) -> str:
        """Return the name under which a file is shown: bare in the home scope, else with its scope."""
        return ref.label(self.home)

    def _parse(self, name: Ref | str) -> Ref | str:
        """Return a Ref where a shown name has a scope of this sheaf, else the bare path."""
        if isinstance(name, Ref):
            return name
        scope, sign, path = name.partition(":")
        return Ref(scope, path) if sign and scope in (self.home, *self.scopes()) else name

    def resolve(self, name: Ref | str) -> Ref:
        """Return the file that a shown name means; it need not exist.

        A bare name is of the home scope; where that does not have it, of the nearest scope that does. Every scope has
        a CONTEXT.md and NOTES.md of its own, so these bare names are always of the home scope.
        """
        where = self._parse(name)
        if isinstance(where, Ref):
            return where
        scopes = self.scopes()
        if len(scopes) > 1 and where and fold(where) not in PROMPT_FILES:
            for scope in dict.fromkeys((self.home, *scopes)):
                with suppress(NotFound):
                    self.open_scope(scope).read(where)
                    return Ref(scope, where)
        return Ref(self.home, where)

    def _locate(self, where: Ref | str) -> tuple[OpenScope, str]:
        """Return the scope of a file, and its path in it. Raises ScopeRefused for one that is not of this sheaf."""
        ref = self.resolve(where)
        scope = ref.scope or self.home
        if scope not in self._roots and scope not in (self.home, *self.scopes()):
            raise ScopeRefused(
                f"{scope!r} is not among the scopes of this sheaf, which are {', '.join(self.scopes())}"
            )
        return self.open_scope(scope), ref.path

    # Reading

    def read(self, where: Ref | str) -> Memory:
        """Return one memory. Raises NotFound, PathRefused."""
        scope, path = self._locate(where)
        return scope.read(path)

    def list(self, *, type: str = "", unconfirmed: bool = False) -> Sequence[Row]:
        """Return every file, scope by scope, in the order of the paths."""
        return [row for scope in self.open_scopes() for row in scope.list(type=type, unconfirmed=unconfirmed)]

    def search(self, query: str, *, limit: int = 10) -> Sequence[Hit]:
        """Return the memories that hold a word of the query or clearly mean the same, the nearest scope first."""
        hits = []
        for match in find_matches(self.open_scopes(), query, limit=2 * limit):
            if match.is_hit:
                with suppress(MemsheafError):  # somebody removed it meanwhile
                    hits.append(Hit(match.row.ref, self.read(match.row.ref), match.score, match.row))
        wanted = set(words(query))
        # a memory that has only the beginning of a word, or the meaning, comes last
        last = [hit for hit in hits if wanted.isdisjoint(words(hit.memory.text))]
        best = sorted(hits, key=lambda hit: (hit in last, -hit.score))[:limit]
        return sorted(best, key=lambda hit: (hit in last, hits.index(hit)))

    def recall(self, message: str, *, model: Model | None = None, ignore: bool = False, tree: str = "") -> Recall:
        """Return the memories that matter for a message, at most five, ready to stand beside it; and why these."""
        return self.session(model=model, tree=tree).recall(message, ignore=ignore)

    def session(self, *, model: Model | None = None, deadline: float = 5.0, tree: str = "") -> Session:
        """Return the memory side of one conversation over all scopes. The home scope learns from it.

        With `tree`, the folder of the work, what memories cite and name is looked up there.
        """
        from memsheaf.recall.session import Session

        metered = load_metered_model(self.settings, "select", model, clock=self.clock) if model else None
        return Session(self, model=metered, deadline=deadline, tree=tree)

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

    def prompt(self) -> str:
        """Return the section for a system prompt; the same bytes as long as no memory changed.

        Notes of tasks and sessions are not loaded.
        """
        sections = prompt_sections(self.open_scopes(lasting=True), self.home)
        return "\n".join(text for _, text in sections)

    # Saving

    def remember(
        self,
        /,
        text: str,
        *,
        name: str = "",
        description: str = "",
        type: str = "",
        corrects: Ref | None = None,
        **more: Any,
    ) -> Saved:
        """Save a fact as somebody says it: where it belongs, and in the place of the memory that it surely corrects.

        The text is stored as it is, without a request in front of it ("remember that"). Name, description and type
        are derived from it unless they are given. `corrects` names the memory that it corrects. A sentence that says
        nothing without that ("it's 10 MB now") stands above the old text. Of facts that are saved with the same
        `also`, none corrects another. `more` is passed on to `write`, whose errors it raises.
        """
        from memsheaf.learn.corrections import find_corrected
        from memsheaf.learn.sentences import draft_fact, without_request

        drafted = draft_fact(without_request(text), date.fromisoformat(self.today), type)
        drafted = drafted._replace(name=name or drafted.name, description=description or drafted.description)
        beside = self._said_together.setdefault(more["also"], []) if "also" in more else []
        proposal = find_corrected(self, drafted._replace(explicit=True, replaces=corrects), beside)
        old = self.read(proposal.replaces) if proposal.replaces else None
        if old and old.body.strip() == proposal.content.strip():
            return Saved(old.ref, old, old, self.open_scope(old.scope).end_doubt(old))
        if old:
            more |= {"path": old.ref, "replace": True, "expect": old.version}
        memory = self.write(*proposal[:4], supersedes=proposal.supersedes, **more)
        beside.append(memory.ref)
        return Saved(memory.ref, memory, old, [self.read(ref) for ref in proposal.supersedes])

    def write(
        self,
        /,
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
        the name of a memory goes where that is; all else where `choose_scope` says. What has the same `also`, which
        ends the reason of the commit, is undone together. It supersedes memories of its own scope alone:
        no file names one of another. `fields` are more of the header: trust, conversation, citations, pinned,
        expires, reason.

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
            description=add_dates(description, today),
            kind=type,
            body=add_dates(content, today),
            created=today,
            updated=today,
            source=self.by,
            supersedes=[ref.path for ref in map(self.resolve, supersedes) if ref.scope == scope.name],
            **fields,
        )
        if is_new and not allow.anyway:
            refuse_known(fresh, scope.name, self.open_scopes())
        scope.index.ready()
        why = f"remember {name}{also}"

        def store() -> Memory:
            found = scope.find(file) if file else scope.find_name(type, name)
            if found is None and expect:
                raise Changed(scope.ref(file))
            if found is None and not file:
                return self._store_new(scope, fresh, allow, why)
            if found is None:
                return self._store(scope, place_memory(fresh, check_path(file)), why, allow=allow)
            if not replace:
                raise Exists(found.ref)
            _refuse_other_spelling(file or found.path, found)
            if found.state not in ("ok", "free"):
                raise BadHeader(found.ref, found.problem)
            if expect is not None and expect != found.version:
                raise Changed(found.ref)
            new = check(found.path, merge_memory(found, fresh) if found.state == "ok" else fresh.text)
            return self._store(scope, new, f"replace {name}{also}", was=found, allow=allow)

        return self._retry(scope, store, expect)

    def _target(self, name: str, kind: str, text: str, where: Ref | str) -> tuple[OpenScope, str, bool]:
        """Return where something is to be written: the scope, the path in it, and whether nothing is there yet."""
        where = self._parse(where)
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
        return self.open_scope(choose_scope(kind, text, self.scopes(), self.home)), where, True

    def _store(
        self,
        scope: OpenScope,
        memory: Memory,
        why: str,
        *,
        was: Memory | None = None,
        alone: bool = False,
        allow: Allow = STRICT,
    ) -> Memory:
        around = self._whole.open_scopes()
        return scope.store_one(memory, why, was=was, alone=alone, allow=allow, around=around)

    def _store_new(self, scope: OpenScope, fresh: Memory, allow: Allow, why: str) -> Memory:
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

        memory = place_memory(fresh, file_name(fresh.type, fresh.name, is_taken))
        return self._store(scope, memory, why, alone=True, allow=allow)

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
            return replace_piece(memory, old, add_dates(new, today, piece=True), count=count)

        return self._edit(where, change, "update", expect, allow)

    def insert(
        self, where: Ref | str, line: int, text: str, *, expect: Version | None = None, allow: Allow = STRICT
    ) -> Memory:
        """Insert text after a line of the body; 0 puts it first.

        Raises:
            NotFound, BadHeader, Changed, TextRefused, SecretFound, NotWorth.
        """

        def change(memory: Memory, today: str) -> str:
            return insert_lines(memory, line, add_dates(text, today, piece=True))

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
            memory, today = scope.read_for_change(path, expect), self.today
            if is_fact(memory.path):  # before it is searched for a piece that may not be there
                raise fact_edit_error(memory.ref)
            changed = update_memory(memory, change(memory, today), today)
            return self._store(scope, changed, why, was=memory, allow=allow)

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
        where = self._parse(where)
        made = parse(where.path if isinstance(where, Ref) else where, text.encode("utf-8", "replace"))
        kind = made.type if made.state == "ok" else ""
        scope, path, is_new = self._target(made.name, kind, made.body, where)
        if is_new and made.state == "ok" and not allow.anyway:
            refuse_known(made, scope.name, self.open_scopes())
        found = scope.find(path)
        if found is not None:
            if expect == ABSENT:
                raise Exists(found.ref)
            _refuse_other_spelling(path, found)
            scope.refuse_unreadable(found)
        if expect != (found.version if found else ABSENT):
            raise Changed(found.ref if found else scope.ref(path))
        text_file = check_text(found.path if found else check_path(path), text, found, free=free)
        memory = with_description(found, text_file)
        return self._store(scope, memory, why or ("edit" if found else "add"), was=found, allow=allow)

    # Removing and taking back

    def forget(self, where: Ref | str, *, why: str = "", expect: Version | None = None) -> Commit:
        """Remove a memory. `undo` brings it back until retention ends.

        What was forgotten is not learned again from a conversation. A bare path is of the home scope alone: to remove
        one twice does not remove its namesake in another scope.

        Raises:
            NotFound, Changed.
            BadHeader: it cannot be understood, and only a person (`by="user"`) may remove it.
            ReadOnly: it is a fact, which another one supersedes.
        """
        named = self._parse(where)
        scope, path = self._locate(named if isinstance(named, Ref) else Ref(self.home, named))
        return scope.forget([(path, expect or "")], why)

    def undo(self, commit_id: str = "", *, others: Callable[[], Iterable[OpenScope]] = tuple) -> Sequence[Commit]:
        """Take a commit back, or the last change, in whichever scope it was made; undo an undo by its id.

        What the same command did in other scopes is taken back with it; `others` are the scopes that a move or an
        import may have reached. What a person did outside, and events of a task, are taken back only by their id.
        Returns one commit for each scope, that of the change itself first; a scope that is not open here is named by
        its folder.

        Raises:
            NotInHistory: there is no such commit, several begin with that id, or a text is past retention.
            Changed: a memory was changed again since.
        """
        candidates = []
        missing = NotInHistory(f"several commits begin with {commit_id!r}")
        for scope in self.open_scopes():
            if not commit_id and scope.name in self.teams:
                continue  # what others did there is theirs
            try:
                candidates.append((scope.last_change(commit_id), scope))
            except NotInHistory as error:
                missing = error
        if not candidates or (commit_id and len(candidates) > 1):
            raise missing
        commit, scope = max(candidates, key=lambda candidate: candidate[0].at)
        around = self.open_scopes()
        names = {each.root: each.name for each in around}
        if _origin(scope, commit)[0].why.startswith((MOVE, "import ")):  # these may have changed any scope
            around += others()
        return [
            undone._replace(scope=names.get(where.root, os.path.basename(where.root)))
            for where, undone in undo_together(scope, commit.id, around)
        ]

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

    # Learning

    @property
    def learning(self) -> Learner:
        """The inbox and the review queue of the home scope; what comes of them goes where it belongs."""
        from memsheaf.learn.learner import Learner

        return Learner(
            self.only(*self.scopes(lasting=True)),
            self.own.state,
            policy=lambda scope: self.settings.policy_of(Scope.parse(scope)),
            ledger=self.own.ledger,
            clock=self.clock,
        )

    def learn(self, turn: Turn) -> bool:
        """Keep a finished turn of a conversation until it is distilled. False when nothing of it is kept.

        `turn.unkept` says whether that is the user's wish. With the policy `log` it is in the daily log, too.
        """
        self.own.require_writable()
        policy = self.settings.policy_of(self.scope)
        if policy == "log":
            from memsheaf.learn.daily_log import DailyLog

            with DailyLog(self.root, self.own.state, ledger=self.own.ledger, clock=self.clock) as log:
                return log.append(turn, by=self.by)
        from memsheaf.learn.inbox import Inbox  # and nothing of what reads it: somebody waits for this

        return policy != "manual" and Inbox(self.own.state, clock=self.clock).append(turn)

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
        extracting = load_metered_model(self.settings, "extract", model, clock=self.clock)
        distilled = self.learning.distil(extracting, deadline=deadline, progress=progress)
        if distilled.problem or self.settings.policy_of(self.scope) != "auto":
            return distilled
        with suppress(Busy):
            return distilled._replace(report=Consolidation(self).run_if_due(model)[1])
        return distilled


def list_notices(sheaf: Sheaf) -> list[str]:
    """Say what a person should look at first: a `.memory` that was not accepted, files that changed there."""
    lines = [
        f"{scope.name}: {notice}".removeprefix("project: ")
        for scope in sheaf.open_scopes()
        for notice in scope.notices()
    ]
    if not sheaf.is_part and "project" in sheaf.scopes():
        places = sheaf.settings.places(sheaf.cwd)
        lines = [unused_folder(places), describe_moved(places), *lines]
    return list(filter(None, lines))


def load_metered_model(
    settings: Settings,
    purpose: str,
    model: Model | str | None = None,
    *,
    clock: Callable[[], float] = time.time,
) -> Model | None:
    """Return the model, or the one that the settings name, with the caps of the settings; None for "none".

    Raises:
        ModelFailed, BadSettings: it cannot be used.
    """
    from memsheaf.llm import load_model
    from memsheaf.llm.spend import Ledger, Metered

    model = model or settings.model
    if isinstance(model, str):
        is_own = model == settings.model  # address and key in the settings are for it and for no other
        url, key = (settings.model_url, settings.model_key) if is_own else ("", "")
        model = load_model(model, url=url, key=key) if model and model != "none" else None
    if model is None or isinstance(model, Metered):
        return model
    ledger = Ledger.of(settings.state or os.path.join(settings.home, "state"), clock=clock)
    return Metered(model, ledger, settings.spend, purpose)


class Consolidation:
    """The consolidation of a sheaf's home scope: what it would do, what it does, and when it is due."""

    def __init__(self, sheaf: Sheaf) -> None:
        self._sheaf = sheaf

    def run(
        self,
        model: Model | str | None = None,
        *,
        apply: bool = False,
        only_changed: bool = False,
        progress: Progress | None = None,
    ) -> ConsolidationReport:
        """Merge what says the same, retire what is past; with `apply`, else only plan it.

        With `only_changed`, memories that did not change since the last time are not looked at.

        Raises:
            Busy: another process is at it.
            ModelFailed, BadSettings: the model cannot be used.
        """
        from memsheaf.learn import consolidate
        from memsheaf.learn.inbox import Inbox

        sheaf, own = self._sheaf, self._sheaf.own
        loaded = load_metered_model(sheaf.settings, "consolidate", model, clock=sheaf.clock)
        with ExitStack() as stack:
            if apply and own.replica:  # no other machine does the same
                stack.enter_context(own.store.lock("consolidate", wait=consolidate.WORKER_SECONDS))
            return consolidate.run(
                own,
                state=own.state,
                now=sheaf.clock(),
                model=loaded,
                apply=apply,
                learned=Inbox(own.state).count_learned(),
                changed_since=consolidate.load_last_run(own.state).at if only_changed else 0.0,
                progress=progress,
            )

    def run_if_due(
        self, model: Model | str | None = None, *, planning: bool = False, progress: Progress | None = None
    ) -> tuple[tuple[Gate, ...], ConsolidationReport | None]:
        """Consolidate unless a gate is closed or the agent is `planning`; return gates and result. Raises Busy."""
        self._sheaf.own.require_writable()
        gates = self.gates(planning=planning)
        if not all(gate.is_open for gate in gates):
            return gates, None
        try:
            return gates, self.run(model, apply=True, only_changed=True, progress=progress)
        except (ModelFailed, BadSettings) as error:
            report = self.run("none", apply=True, only_changed=True, progress=progress)
            report.notes.insert(0, f"no model was asked: {error}")
            return gates, report

    def gates(self, *, planning: bool = False) -> tuple[Gate, ...]:
        """Return what has to be so before memories are consolidated unasked, and whether it is."""
        from memsheaf.learn import consolidate
        from memsheaf.learn.inbox import Inbox

        sheaf, own = self._sheaf, self._sheaf.own
        policy = sheaf.settings.policy_of(sheaf.scope)
        return consolidate.gates(
            own.state,
            sheaf.settings.dream,
            files=own.count(),
            learned=Inbox(own.state).count_learned(),
            now=sheaf.clock(),
            planning=planning,
            logging=policy == "log",
            team=own.ledger is not None and sheaf.scope.layer == "team" and policy != "auto",
        )


def forget_together(
    sheaf: Sheaf, wanted: Iterable[tuple[Ref, Version]], *, why: str = "", also: str = ""
) -> Sequence[Commit]:
    """Remove memories, each at this version ("" for any), as one commit a scope; `undo` takes all back together.

    `also` ends the reason of each commit.

    Raises:
        Changed, NotFound: one is not what it was; nothing is removed in its scope and those after it.
    """
    by_scope: dict[str, list[tuple[str, Version]]] = {}
    for ref, version in wanted:
        by_scope.setdefault(ref.scope, []).append((ref.path, version))
    if len(by_scope) > 1:
        also = also or new_group()
    return [sheaf.open_scope(name).forget(pairs, why, also=also) for name, pairs in by_scope.items()]


def undo_together(
    scope: OpenScope, commit_id: str, others: Iterable[OpenScope] = ()
) -> list[tuple[OpenScope, Commit]]:
    """Take back a commit of a scope, and those that still stand of what was made with it in the other scopes.

    An undo of them can be undone in the same way, too. `others` may repeat scopes.

    Raises:
        NotInHistory: there is none, or several begin with that id.
        Changed: a memory was changed again since.
    """
    commit = scope.last_change(commit_id)
    group = _group(scope, commit)
    since = str(datetime.fromisoformat(commit.at) - MAX_TIME_APART)
    wanted = [(scope, commit)]
    for other in {**{each.root: each for each in others}, scope.root: scope}.values():
        undone: set[str] = set()
        for candidate in other.summaries(since, group[0]):
            if candidate.id in undone:
                continue
            undone.add(candidate.undoes)
            if candidate.id != commit.id and _group(other, candidate) == group:
                wanted.append((other, other.last_change(candidate.id)))
    # what was removed comes back before its copy elsewhere goes: whatever fails in between, it is in one place
    wanted.sort(key=lambda pair: any(step.before == ABSENT for step in pair[1].revisions))
    return [(where, where.undo(candidate.id)) for where, candidate in wanted]


def _group(scope: OpenScope, commit: AnyCommit) -> tuple[str, int]:
    """Return what commits of one command share, a token or the id of the first, and how often it was undone."""
    origin, times = _origin(scope, commit)
    _, sign, first = origin.why.rpartition(TOGETHER)
    if origin.by == "extraction":
        return origin.why, times  # it names the turns, whose facts may be of several scopes
    return first if sign else origin.id, times


def _origin(scope: OpenScope, commit: AnyCommit) -> tuple[AnyCommit, int]:
    """Return the commit that an undo, or an undo of that, goes back to."""
    times = 0
    with suppress(NotInHistory):
        while commit.undoes:
            commit, times = scope.last_change(commit.undoes), times + 1
    return commit, times


def _refuse_other_spelling(path: str, found: Memory) -> None:
    """Raise Exists when a whole text would go to a file that only some systems call by this name."""
    if check_path(path) != check_path(found.path):
        raise Exists(found.ref, f"{path!r} would be the same file on some systems")


def find_memory(sheaf: Sheaf, given: str) -> Ref:
    """Return the memory that a person means: by its file, its name, or a part of either.

    Raises:
        NotFound: there is none, or several could be meant, which are named.
        PathRefused: it is a path that leads elsewhere.
    """
    refused: PathRefused | None = None
    try:
        ref = sheaf.resolve(given)
        if sheaf.open_scope(ref.scope).find(ref.path) or fold(ref.path) in PROMPT_FILES:
            return ref
        for scope in (sheaf.open_scope(ref.scope), *sheaf.open_scopes()):
            if scope.has_history(ref.path):
                return Ref(scope.name, ref.path)
    except PathRefused as error:  # a name may hold what no path may
        refused = error
    wanted = _plain(given)
    texts = {row.ref: [_plain(row.path), _plain(row.name), _plain(row.description)] for row in sheaf.list()}
    by_name = [ref for ref, text in texts.items() if wanted in text[:2]]
    by_part = [ref for ref, text in texts.items() if wanted in "\n".join(text[:2])]
    by_words = [ref for ref, text in texts.items() if set(wanted.split()) <= set(" ".join(text).split())]
    candidates = (by_name or by_part or by_words) if wanted else []
    if len(candidates) == 1:
        return candidates[0]
    if candidates:
        listed = "".join(f"\n  {sheaf.label(ref)}" for ref in candidates[:MAX_CANDIDATES])
        why = f"{given!r} could be one of {len(candidates)} memories:{listed}"
        raise NotFound(given, why, hint="Give the file, or more of the name.")
    if refused and "/" in given:
        raise refused
    raise NotFound(given)


def _plain(text: str) -> str:
    """Return what a file and its name have in common.

    >>> _plain("user_prefers-tabs.md"), _plain("User  prefers tabs")
    ('user prefers tabs', 'user prefers tabs')
    """
    return " ".join(fold(text.removesuffix(".md")).replace("_", " ").replace("-", " ").split())
