"""The scopes around a working directory, opened on demand: which task and session are meant, what belongs where."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Self

from memsheaf import config
from memsheaf.errors import MemsheafError, NotFound, PathRefused, ScopeRefused, hinted
from memsheaf.guard.paths import fold
from memsheaf.memory import Memory
from memsheaf.recall.inject import CONTEXT, NOTES
from memsheaf.scope import Scope, check_label, named_folders, project_root, resolve, shown, unused_folder
from memsheaf.sheaf import Sheaf
from memsheaf.text.sections import SESSION_FILE
from memsheaf.work.project_trees import describe_moved, record_tree

if TYPE_CHECKING:
    from memsheaf.recall.turns import Proposal
    from memsheaf.store import Change, Commit
    from memsheaf.store.tombstones import Tombstone

SCRATCH = ("task", "session")  # layers whose notes are read on demand: in no prompt, and nothing is learned there

OF_EACH = tuple(map(fold, (CONTEXT, NOTES)))  # files that every scope has for itself
CANDIDATES = 10  # memories that are named when several could be meant


class OpenScopes:
    """Scopes that are opened when they are asked for, and closed together."""

    def __init__(
        self,
        settings: config.Settings,
        cwd: str,
        *,
        by: str = "agent",
        scopes: Sequence[str] = (),
        task: str = "",
        session: str = "",
        read_only: bool = False,
        clock: Callable[[], float] = time.time,
        on_open: Callable[[Sheaf], object] | None = None,
    ) -> None:
        self.settings = settings
        self.read_only = read_only
        self._by = by
        self._cwd = cwd
        self.given = tuple(dict.fromkeys(str(Scope.parse(scope)) for scope in scopes))
        self.home = self.given[0] if self.given else "project"
        self._chosen = {"task": task or settings.task, "session": session or settings.session}
        self._lasting = [] if self.given else settings.layers(cwd)
        self.beside = {scope for scope in self._lasting if scope.startswith("team/")}
        self.clock = clock
        self._on_open = on_open
        self._open: dict[str, Sheaf] = {}
        self._by_root: dict[str, Sheaf] = {}
        self._opening = threading.Lock()
        self._stack = ExitStack()

    def close(self, *, wait: bool = True) -> None:
        """Make everything safe on disk and let go; a process that ends now need not `wait` for vectors."""
        if "project" in self._open and not self.read_only:
            record_tree(self.settings, self._cwd)
        if not wait:
            for sheaf in self._open.values():
                sheaf.close(wait=False)
            return
        self._open.clear()
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def sheaf(self, scope: str) -> Sheaf:
        """The memory of a scope, opened once. Raises ScopeRefused."""
        name = str(parsed := Scope.parse(scope))
        if name in self._open:
            return self._open[name]
        with self._opening:
            if name in self._open:
                return self._open[name]
            root = resolve(parsed, self.settings.places(self._cwd))
            if root in self._by_root:
                return self._open.setdefault(name, self._by_root[root])
            is_closed = os.path.isdir(root) and not os.access(root, os.W_OK)
            read_only = self.read_only or is_closed
            opened = Sheaf.open(
                parsed, settings=self.settings, cwd=self._cwd, by=self.by, read_only=read_only, clock=self.clock
            )
            if self.read_only and not is_closed:
                opened.writer.recover()  # what a crash left half done would look as if something were gone
            if self._on_open:
                self._on_open(opened)
            opened.people_only = name in self.beside and self.settings.policy_of(parsed) != "auto"
            opened.writer.around = lambda: (each.writer for each in self.sheaves())
            self._open[name] = self._by_root[root] = self._stack.enter_context(opened)
        return self._open[name]

    def share(self, by_root: dict[str, Sheaf], stack: ExitStack, opening: threading.Lock) -> None:
        """Share what is open with other layers, by its root, from before anything was opened; `stack` closes it."""
        self._by_root, self._stack, self._opening = by_root, stack, opening

    @property
    def project(self) -> Sheaf:
        """The repository's layer."""
        return self.sheaf("project")

    @property
    def user(self) -> Sheaf:
        """What holds everywhere."""
        return self.sheaf("user")

    @property
    def own(self) -> Sheaf:
        """The home scope: its names are bare, and what is said is learned from its inbox."""
        return self.sheaf(self.home)

    def sheaves(self) -> list[Sheaf]:
        """The scopes that are asked, opened, the nearest first."""
        return [self.sheaf(scope) for scope in self.scopes()]

    @property
    def by(self) -> str:
        """Who makes the changes."""
        return self._by

    @by.setter
    def by(self, who: str) -> None:
        self._by = who
        for sheaf in self._open.values():
            sheaf.by = who

    def scopes(self) -> list[str]:
        """The scopes that are asked, in order: a task and a session only where it is clear which one is meant.

        Raises NotFound, ScopeRefused when one was named, and is not there or is no name.
        """
        if self.given:
            return list(self.given)
        found = []
        for layer in SCRATCH:
            if name := self._chosen[layer]:
                if check_label(name, layer) not in self.names(layer):
                    raise NotFound(f"{layer}/{name}")
                found.append(f"{layer}/{check_label(name, layer)}")
            elif len(going := self.going(layer)) == 1:
                found.append(f"{layer}/{going[0]}")
        return [*found, *self._lasting]

    def going(self, layer: str) -> list[str]:
        """The tasks that are active, or the sessions that are open, in order."""
        return list(filter(self._is_active, self.names("task"))) if layer == "task" else self.open_sessions()

    def _is_active(self, slug: str) -> bool:
        """Whether a task has not ended; one that cannot be read has not: what is meant for it goes to no other."""
        from memsheaf.work.task_files import ACTIVE, TASK, read_task

        try:
            return read_task(self.sheaf(f"task/{slug}").read(TASK).text, f"task/{slug}/{TASK}").status == ACTIVE
        except NotFound:
            return False  # a scope that somebody keeps memories in, and no task
        except MemsheafError:
            return True

    def open_sessions(self) -> list[str]:
        """The ids of the sessions that have begun and not ended, in order."""
        return self.sessions_with(SESSION_FILE)

    def sessions_with(self, file: str) -> list[str]:
        """The ids of the sessions that have this file, in order."""
        places = {f"sessions/{name}/{file}": name for name in self.names("session")}
        changed = self.project.reader.modified(places) if places else {}
        return [name for place, name in places.items() if changed[place] is not None]

    def unclear(self) -> list[str]:
        """What is not asked because several could be meant, in words."""
        return [
            f"{len(going)} {layer}s are {word}, and none was asked: name one with --{layer} ({', '.join(going)})"
            for layer, word in (("task", "active"), ("session", "open"))
            if not self.given and not self._chosen[layer] and len(going := self.going(layer)) > 1
        ]

    def notices(self) -> list[str]:
        """What a person should look at first: a `.memory` that was not accepted, files that changed there."""
        found = [
            f"{sheaf.scope}: {said}".removeprefix("project: ") for sheaf in self.sheaves() for said in sheaf.notices()
        ]
        if "project" in self.scopes():
            places = self.settings.places(self._cwd)
            found = [unused_folder(places), describe_moved(self.settings, self._cwd), *found]
        return list(filter(None, found))

    def place(self, name: str) -> tuple[Sheaf, str]:
        """The scope that a shown name is of, and the file's path in it.

        A bare name is of the home scope; where that does not have it, of the nearest scope that does. Every scope has
        a CONTEXT.md and NOTES.md of its own, so these bare names are always of the home scope.
        """
        return self._locate(name)[:2]

    def _locate(self, name: str) -> tuple[Sheaf, str, Memory | None]:
        """As `place`, with the memory if it was read on the way."""
        scope, sign, path = name.partition(":")
        others = [one for one in self.scopes() if one != self.home]
        if sign and scope in (self.home, *others):
            return self.sheaf(scope), path, None
        if name and others and fold(name) not in OF_EACH:
            for sheaf in (self.own, *map(self.sheaf, others)):
                with suppress(NotFound):
                    return sheaf, name, sheaf.read(name)
        return self.own, name, None

    def find(self, given: str) -> str:
        """The shown name of the memory that a person means: by its file, its name, or a part of either.

        Raises:
            NotFound: there is none, or several could be meant, which are named.
            PathRefused: it is a path that leads elsewhere.
        """
        refused: PathRefused | None = None
        try:
            sheaf, path = self.place(given)
            if sheaf.reader.find(path) or fold(path) in OF_EACH:
                return given
            if path.endswith(".md") and any(one.reader.has_history(path) for one in self.sheaves()):
                return given
        except PathRefused as error:  # a name may hold what no path may
            refused = error
        wanted = _plain(given)
        texts = {
            self.name(sheaf, row.path): _plain(f"{row.path}\n{row.name}\n{row.description}")
            for sheaf in self.sheaves()
            for row in sheaf.list()
        }
        matches: Sequence[Callable[[str], bool]] = (
            lambda text: wanted in text.split("\n")[:2],
            lambda text: wanted in text.rpartition("\n")[0],
            lambda text: set(wanted.split()) <= set(text.split()),
        )
        for match in matches if wanted else ():
            if found := [name for name, text in texts.items() if match(text)]:
                break
        else:
            if refused and "/" in given:
                raise refused
            from difflib import get_close_matches

            known = {part: name for name, text in texts.items() for part in text.split("\n") + text.split()}
            close = get_close_matches(wanted, known, 1)
            meant = f"; did you mean {known[close[0]]}?" if close else ""
            raise NotFound(given, f"no memory at {given!r}{meant}")
        if len(found) > 1:
            listed = "".join(f"\n  {name}" for name in found[:CANDIDATES])
            more = f"\n  and {len(found) - CANDIDATES} more" * (len(found) > CANDIDATES)
            why = f"{given!r} could be one of {len(found)} memories:{listed}{more}"
            raise hinted(NotFound(given, why), "Give the file, or more of the name.")
        return found[0]

    def name(self, sheaf: Sheaf, path: str) -> str:
        """The name under which a file of a scope is shown."""
        return shown(str(sheaf.scope), path, self.home)

    @contextmanager
    def naming(self, sheaf: Sheaf) -> Iterator[None]:
        """Errors about a file of this scope call it by the name under which it is shown; hints name the scope."""
        try:
            yield
        except MemsheafError as error:
            error.hint = error.hint.replace(" SCOPE", f" {sheaf.scope}")
            if (path := getattr(error, "path", "")) and str(sheaf.scope) != self.home:
                error.path = self.name(sheaf, path)  # type: ignore[attr-defined]
                error.args = (str(error).replace(repr(path), repr(self.name(sheaf, path))),)
            raise

    def names(self, layer: str) -> list[str]:
        """The names of the tasks, or sessions, that have a folder here, in order."""
        project = self._open.get("project")  # then nobody has to look for the repository again
        root = project.root if project else project_root(self.settings.places(self._cwd))
        return named_folders(os.path.join(root, f"{layer}s"))

    def is_named(self, layer: str) -> bool:
        """Whether a task, or session, was named explicitly."""
        return bool(self._chosen[layer])

    def chosen(self, layer: str, name: str = "") -> str:
        """The task, or session, that is meant: the one named, the one chosen at the start, or the only one going.

        Raises:
            ScopeRefused: several could be meant, or the name is not allowed.
            NotFound: there is none.
        """
        if named := name or self._chosen[layer]:
            return check_label(named, layer)
        found = self.going(layer)
        if len(found) == 1:
            return found[0]
        if not found:
            raise NotFound(f"{layer}/")
        raise ScopeRefused(f"several could be meant: {', '.join(found)}; name one with --{layer} NAME")

    def scope_for(self, kind: str, text: str) -> str:
        """Return the scope that a new memory belongs to.

        The type `user` goes to the user, `project` and a file that is no memory to the project. Of the other types,
        a text about the person goes to the user, a reference only if that is clear. Where the scope is not among
        those that are open, it is the home scope.
        """
        from memsheaf.text.classifier import guess_scope

        wanted = "user" if kind == "user" else "project"
        if kind in ("feedback", "reference"):
            wanted = guess_scope(text, "project" if kind == "reference" else "")
        return wanted if wanted in self.scopes() else self.home

    def paths_in(self, sheaf: Sheaf, names: Iterable[str]) -> tuple[str, ...]:
        """Return the paths of those memories that are in this scope; others cannot be named in its files."""
        return tuple(path for place, path in map(self.place, names) if place is sheaf)

    def wider(self, sheaf: Sheaf) -> list[Sheaf]:
        """The scopes behind one: what they say is known wherever that one is read."""
        scopes = self.scopes()
        return [self.sheaf(scope) for scope in scopes[scopes.index(str(sheaf.scope)) + 1 :]]

    def refuse_known(self, memory: Memory, sheaf: Sheaf) -> None:
        """Raise Duplicate when a wider scope than this one says already what a new memory says."""
        for other in self.wider(sheaf):
            with self.naming(other):
                other.writer.refuse_duplicate(memory._replace(path=""))


def _plain(text: str) -> str:
    """What a file and its name have in common, line by line.

    >>> _plain("user_prefers-tabs.md\\nPrefers  Tabs")
    'user prefers tabs\\nprefers tabs'
    """
    lines = fold(text).replace("_", " ").replace("-", " ").split("\n")
    return "\n".join(" ".join(line.removesuffix(".md").split()) for line in lines)


class Router:
    """The keepers of several scopes as one, for learning: each proposal goes to its scope. Paths are shown names."""

    def __init__(self, layers: OpenScopes) -> None:
        self._layers = layers

    def policy(self, name: str) -> str:
        """How the scope of a name learns; that of the home scope for ""."""
        return self._layers.settings.policy_of(self._place(name)[0].scope)

    def draft(
        self, proposal: Proposal, taken: Collection[str], *, by: str = "extraction"
    ) -> tuple[Change, Memory, Memory | None]:
        """The change that a proposal makes, the memory after it, and the one before; nothing is written."""
        layers = self._layers
        if proposal.replaces:
            sheaf, path = layers.place(proposal.replaces)
        else:
            is_named = proposal.scope in layers.scopes()
            scope = proposal.scope if is_named else layers.scope_for(proposal.kind, proposal.content)
            sheaf, path = layers.sheaf(scope), ""
        here = [path for place, path in map(self._place, taken) if place is sheaf]
        with layers.naming(sheaf):
            own = proposal._replace(replaces=path, supersedes=layers.paths_in(sheaf, proposal.supersedes))
            change, memory, was = sheaf.writer.draft(own, here, by=by)
        name = layers.name(sheaf, memory.path)
        old = was and was._replace(path=layers.name(sheaf, was.path))
        return change._replace(path=name), memory._replace(path=name), old

    def judge(self, memory: Memory, was: Memory | None, *, asked: bool = False) -> None:
        """Raise what a change would be refused with, a duplicate in a wider scope included."""
        sheaf, path = self._place(memory.path)
        with self._layers.naming(sheaf):
            sheaf.writer.judge(memory._replace(path=path), was and was._replace(path=path), asked=asked)
        if was is None:
            self._layers.refuse_known(memory, sheaf)

    def buried(self, memory: Memory) -> Tombstone | None:
        """The tombstone that stands in the way of learning this."""
        return self._place(memory.path)[0].writer.buried(memory)

    def change_many(self, changes: Sequence[Change], why: str, *, by: str) -> Commit:
        """Make changes of one scope as one commit. Raises Changed."""
        sheaf, _ = self._place(changes[0].path)
        bare = [change._replace(path=self._place(change.path)[1]) for change in changes]
        with self._layers.naming(sheaf):
            return sheaf.writer.change_many(bare, why, by=by)

    def accept(self, change: Change, was: Memory | None, why: str) -> Commit:
        """Make a change that a person has seen and wants. Raises Changed, SecretFound."""
        sheaf, path = self._place(change.path)
        with self._layers.naming(sheaf):
            return sheaf.writer.accept(change._replace(path=path), was and was._replace(path=path), why)

    def bury(self, memory: Memory, *, undo: bool = False) -> None:
        """Note that a person rejected this: it is not learned again; with `undo` it may be."""
        self._place(memory.path)[0].writer.bury(memory, undo=undo)

    def _place(self, name: str) -> tuple[Sheaf, str]:
        """The scope of a name that we made, and the path in it; the file need not be there."""
        scope, sign, path = name.rpartition(":")
        return (self._layers.sheaf(scope), path) if sign else (self._layers.own, path)
