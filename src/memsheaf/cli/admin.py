"""Commands for where memories live: scopes, the folder in a repository, and archives."""

from __future__ import annotations

import os
from collections.abc import Iterator

from memsheaf.cli.call import Call, here, pick, plural
from memsheaf.cli.command import ALLOW_SECRET, ANYWAY, DRY_RUN, Argument, place, takes
from memsheaf.cli.output import Note, Table
from memsheaf.errors import ArchiveRefused, MemsheafError, StoreFailed, hinted
from memsheaf.scope import Scope, project_root, resolve
from memsheaf.store.folder import FolderStore
from memsheaf.values import NamedTuple

# Known to type checkers under this name, so that a command imports only what it uses.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from memsheaf.config import Settings
    from memsheaf.sheaf import Sheaf
    from memsheaf.transfer import Imported

EMBEDDING_TIME = 5.0  # seconds that an import goes on to embed what came in
_LOOK = "It came with the repository; look at it, and remove it if it is not yours."


class ScopeFolder(NamedTuple):
    """A scope and the folder it lives in. A project that is not the present one has no scope to call it by."""

    scope: str
    root: str
    memories: int


@takes(Argument("--names", "print the names of the scopes alone"))
def scopes(call: Call) -> int:
    """List which scopes there are, where each lives, and how many memories it has.

    Projects other than the present one have no name here; `--project DIR` reaches them.

    examples:
      memsheaf scopes
      memsheaf scopes --json
    """
    settings, unused = call.settings(), call.unused_folder()
    found = list(known(settings, here()))
    value = {"home": settings.home, "scope": call.scope(), "scopes": found, **({"notice": unused} if unused else {})}
    if call.options.names:
        return call.answer(value, (each.scope for each in found if each.scope))
    rows = [(each.scope or "(project)", plural(each.memories, "memory", "memories"), each.root) for each in found]
    return call.answer(value, Table(rows, ("bold",)), Note(unused, "yellow") if unused else None)


def known(settings: Settings, cwd: str) -> Iterator[ScopeFolder]:
    """Every scope that can be seen from here: the usual two, and each that has a folder."""
    places = settings.places(cwd)
    project = project_root(places)
    for name in ("project", "user"):
        root = resolve(Scope(name), places)
        yield ScopeFolder(name, root, count_memories(root))
    parents = {
        "agent": os.path.join(settings.home, "agents"),
        "team": os.path.join(settings.home, "team"),
        "task": os.path.join(project, "tasks"),
        "session": os.path.join(project, "sessions"),
    }
    for layer, parent in parents.items():
        for name in _folders(parent):
            try:
                scope = Scope.parse(f"{layer}/{name}")
                root = resolve(scope, places)
            except MemsheafError:
                continue
            yield ScopeFolder(str(scope), root, count_memories(root))
    for name in _folders(os.path.join(settings.home, "projects")):
        root = os.path.join(settings.home, "projects", name)
        if root != project:
            yield ScopeFolder("", root, count_memories(root))


def _folders(parent: str) -> list[str]:
    try:
        with os.scandir(parent) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return []


def count_memories(root: str) -> int:
    """How many Markdown files a store holds, without opening its index."""
    return sum(1 for entry in FolderStore(root).scan() if entry.path and not entry.path.endswith("/"))


@takes(
    Argument(
        "target",
        "a new folder, or a new file in .zip, .tar, .tar.gz or .tgz",
        "TARGET",
        required=True,
        convert=place,
        complete="paths",
    ),
    Argument("--history", "also the journals: what each file was before, and what was forgotten"),
)
def export(call: Call) -> int:
    """Write every file of a scope to a new archive or folder.

    A project's tasks, sessions and daily log go along. The same files give the same bytes. What cannot be read whole,
    or is no Markdown, is left out and named, and the exit code is 1. What waits to be learned or reviewed, and
    conversations, stay at home.

    examples:
      memsheaf export memories.zip
      memsheaf export project.tar.gz --history
      memsheaf export --scope user ./memories
    """
    target = call.options.target
    with call.reading() as sheaf, call.console.waiting("exporting"):
        try:
            done = sheaf.export(target, history=call.options.history)
        except ArchiveRefused as error:
            raise hinted(error, "Choose a name that is not there yet.") from None
        except OSError as error:
            raise StoreFailed(f"{target!r} cannot be written: {error.strerror or error}") from None
    left_out = [{"path": path, "why": why} for path, why in done.left_out]
    if done.written and not call.options.history:
        call.console.note("the journal stays here; --history takes it along")
    return call.answer(
        {"target": target, "files": done.written, "left_out": left_out},
        f"Exported {plural(done.written, 'file')} to {target}",
        (f"  left out {path}: {why}" for path, why in done.left_out),
        code=1 if left_out else 0,
    )


@takes(
    Argument("source", "a folder, a zip or a tar archive", "SOURCE", required=True, convert=place, complete="paths"),
    Argument("--replace", "let what comes in take the place of what is there"),
    DRY_RUN,
    Argument("--history", "also what each file was before, if the source has a journal"),
    ALLOW_SECRET,
    ANYWAY,
)
def import_(call: Call) -> int:
    """Bring in the memories of a folder or an archive, as one commit for each scope in it.

    It may be what `export` wrote, any folder of Markdown files, or a whole project's folder with its tasks, sessions
    and log, which come into a project. What is refused stays out and is named, and the exit code is 1; so does a file
    with a password or a key in it, and one that says what a memory here says already. What had come with a repository
    where it was exported comes in unconfirmed, and stays out if it has no header to say so.
    An archive that reaches outside, or is too large, is refused as a whole.

    examples:
      memsheaf import memories.zip --dry-run
      memsheaf import ./memories --replace
    """
    options = call.options
    with call.changing() as sheaf:
        try:
            with call.console.waiting("importing"):
                done = sheaf.take_in(
                    options.source,
                    replace=options.replace,
                    dry_run=options.dry_run,
                    allow=call.allow(),
                    history=options.history,
                )
        except OSError as error:
            raise StoreFailed(f"{options.source!r} cannot be imported: {error.strerror or error}") from None
        if done.added and not options.dry_run:
            _embed(call, sheaf)
    value = {
        **pick(done, ("added", "replaced", "same", "commits")),
        "refused": [{"path": path, "why": why} for path, why in done.refused],
        "dry_run": options.dry_run,
    }
    return call.answer(value, _imported_lines(done, options.dry_run), code=1 if done.refused else 0)


def _embed(call: Call, sheaf: Sheaf) -> None:
    """Make what came in findable by meaning, for a while."""
    with call.console.progress("Embedding") as progress:
        made = sheaf.reader.embed_all(progress, seconds=EMBEDDING_TIME)
    if made.embedder and made.done < made.total:
        left = plural(made.total - made.done, "memory", "memories")
        call.console.note(f"{left} can be found by words only so far; `memsheaf index` sees to the rest now")


def _imported_lines(done: Imported, dry_run: bool) -> Iterator[str]:
    counts = [
        f"{len(done.added):,} {'to add' if dry_run else 'added'}",
        f"{len(done.replaced):,} {'to replace' if dry_run else 'replaced'}",
        f"{len(done.same):,} the same already",
        f"{len(done.refused):,} refused",
    ]
    yield ", ".join(counts)
    if done.commits:
        yield f"{plural(done.commits, 'commit')} of their past came along"
    if dry_run:
        yield from (f"  + {path}" for path in done.added)
        yield from (f"  ~ {path}" for path in done.replaced)
    yield from (f"  refused {path}: {why}" for path, why in done.refused)
