"""Commands about where memories live and whether all is well there."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from stat import S_ISREG

from memsheaf.cli.call import Call, here, pick, plural
from memsheaf.cli.command import Argument, takes
from memsheaf.errors import MemsheafError, PathRefused, ScopeRefused, StoreFailed, hinted
from memsheaf.values import NamedTuple

# Known to type checkers under this name, so that a command imports only what it uses.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from memsheaf.config import Settings
    from memsheaf.doctor import Finding
    from memsheaf.store.safe_dir import Folder
    from memsheaf.transfer import Moved

_LOOK = "It came with the repository; look at it, and remove it if it is not yours."


class Place(NamedTuple):
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
    settings = call.settings()
    found = list(known(settings, here()))
    if call.console.json:
        values = [pick(each, ("scope", "root", "memories")) for each in found]
        unused = call.unused_folder()
        return call.console.answer(
            {"home": settings.home, "scope": call.scope(), "scopes": values, **({"notice": unused} if unused else {})}
        )
    if call.options.names:
        return call.console.answer(None, [each.scope for each in found if each.scope])
    rows = [(each.scope or "(project)", plural(each.memories, "memory", "memories"), each.root) for each in found]
    call.console.table(rows, ("bold",))
    if unused := call.unused_folder():
        call.console.note(unused, style="yellow")
    return 0


@takes(
    Argument("--undo", "move it back to where it was before, out of the repository"),
    Argument("--dry-run", "say what would be moved, and change nothing"),
)
def init(call: Call) -> int:
    """Keep this project's memory in its repository, in the folder .memory.

    Everything the project has at home moves there with its history: memories, notes, tasks, sessions, logs, and what
    waits to be learned or reviewed. Where the repository has another text under a name, both stay. Memories can then
    be committed with the code; a .gitignore inside leaves out the journal, the catalog, and the notes of single
    conversations. Doing it again changes nothing, or completes what was interrupted.

    --undo moves everything back. What is committed stays in the repository, too.

    examples:
      memsheaf init --dry-run
      memsheaf init
      memsheaf init --undo
    """
    from memsheaf.cli.trust import refuse_journals
    from memsheaf.scope import FOLDER, find_repository, private_root, project_root
    from memsheaf.store.trust import accept

    settings, options = call.settings(), call.options
    checkout, identity = find_repository(here(), settings.home)
    if not checkout:
        raise hinted(ScopeRefused(f"there is no repository around {here()!r}"), "`git init` makes one.")
    root, home = os.path.join(checkout, FOLDER), private_root(settings.home, identity)
    if options.undo:
        return _undo_init(call, settings, checkout, home)
    was_there = os.path.lexists(root)
    if was_there:
        _open_memory(checkout, FOLDER).close()
    if options.dry_run:
        return _say_move(call, {"root": root, "made": not was_there}, home, _planned(home))
    if was_there:  # else the folder at home becomes it, and is prepared then
        refuse_journals(call, checkout, root)
        _prepare(checkout, FOLDER)
    moved = _moved(settings, home, root, lambda: accept(settings.home, checkout))
    made = _prepare(checkout, FOLDER) or not was_there
    said = [f"{'Made' if made else 'There is already'} {root}"]
    if project_root(settings.places(here())) != root:
        said.append("The settings or the environment put this project's memory elsewhere, so it is not used yet.")
    return _say_move(call, {"root": root, "made": made}, home, moved, said)


def _undo_init(call: Call, settings: Settings, checkout: str, home: str) -> int:
    """Move everything that is in a repository's memory home; what git tracks stays there as well."""
    from memsheaf import trusted_repositories
    from memsheaf.scope import FOLDER
    from memsheaf.store.folder import IGNORED
    from memsheaf.store.trust import withdraw
    from memsheaf.worktree import tracked

    root = os.path.join(checkout, FOLDER)
    if not os.path.isdir(root) or not trusted_repositories.is_accepted(settings.home, checkout):
        raise hinted(
            ScopeRefused(f"the memory of {checkout!r} is not in use"), "`memsheaf scopes` shows where it is."
        )
    _open_memory(checkout, FOLDER).close()
    keep = tracked(checkout, root, call.environment)
    if keep is None:
        raise StoreFailed(f"git does not say which files of {root!r} are committed")
    if call.options.dry_run:
        return _say_move(call, {"root": home, "kept": keep}, root, _planned(root))
    ignore = os.path.join(root, ".gitignore")
    with suppress(OSError), open(ignore, encoding="utf-8") as file:
        if ".gitignore" not in keep and file.read() == IGNORED:
            os.unlink(ignore)
    moved = _moved(settings, root, home, lambda: withdraw(settings.home, checkout), keep)
    said = [f"{plural(len(keep), 'committed file')} stayed in {root}, too"] if keep else []
    return _say_move(call, {"root": home, "kept": keep}, root, moved, said)


def _planned(source: str) -> Moved:
    from memsheaf.transfer import Moved, contents

    return Moved(tuple(contents(source)) if os.path.isdir(source) else ())


def _moved(
    settings: Settings, source: str, target: str, switch: Callable[[], None], keep: list[str] | None = None
) -> Moved:
    from memsheaf.sheaf import Sheaf
    from memsheaf.transfer import Places, move

    if os.path.isdir(source):  # what was edited by hand is in its journal before it goes
        with Sheaf.open("project", settings=settings._replace(project=source, embedder="none")) as sheaf:
            sheaf.list()
    places = Places(source, target, settings.home, settings.state, settings.cache)
    return move(places, switch, keep=keep)


def _say_move(call: Call, value: dict[str, object], source: str, moved: Moved, said: Sequence[str] = ()) -> int:
    """Tell what was moved, or would be."""
    trial = call.options.dry_run
    lines = list(said)
    if moved.files:
        count = plural(len(moved.files), "file")
        lines.append(f"{'Would move' if trial else 'Moved'} {count} from {source}, with their history")
    elif trial or call.options.undo:
        lines.append(f"There is nothing to move from {source}")
    lines += [f"  {path}" for path in moved.files if trial]
    lines += [f"  {old} is now {new}: another text has its name" for old, new in moved.renamed]
    lines += [f"  left {path}: {why}" for path, why in moved.left]
    if moved.files and not trial and not call.options.undo:
        lines.append("`memsheaf init --undo` moves it back.")
    call.console.answer(
        {
            **value,
            "from": source if moved.files or moved.left else "",
            "files": list(moved.files),
            "renamed": [{"path": old, "as": new} for old, new in moved.renamed],
            "left": [{"path": path, "why": why} for path, why in moved.left],
            "dry_run": trial,
        },
        lines,
    )
    return 1 if moved.left else 0


@takes(
    Argument("--prune", "also drop what is past retention from the journal"),
    Argument("--fix", "also remove the indexes of scopes that are gone, and of other versions, from the cache"),
)
def doctor(call: Call) -> int:
    """Look for whatever is not as it should be, and say what to do about it.

    Nothing is changed, except with --prune and --fix. The exit code is 1 when something does not work.

    examples:
      memsheaf doctor
      memsheaf doctor --scope user --prune
      memsheaf doctor --fix
    """
    from memsheaf.doctor import Finding, examine
    from memsheaf.index import caches
    from memsheaf.scope import FOLDER

    removed = caches.abandoned(call.settings().cache) if call.options.fix else []
    caches.remove(removed)
    with call.reading() as sheaf:
        findings = examine(sheaf, cache=call.settings().cache)
    if unused := call.unused_folder():
        findings.insert(0, Finding("warning", FOLDER, unused, "look at it, then accept it or leave it alone"))
    dropped = _prune(call) if call.options.prune else 0
    value = {
        "scope": str(sheaf.scope),
        "root": sheaf.root,
        "findings": [pick(finding, ("level", "path", "problem", "advice")) for finding in findings],
        "dropped": dropped,
        "removed": [one.base for one in removed],
    }
    if call.console.json:
        call.console.answer(value)
    else:
        _report(call, f"{sheaf.scope} in {sheaf.root}", findings)
        if call.options.prune:
            call.console.say(f"Dropped {plural(dropped, 'text')} past retention from the journal.")
        if call.options.fix:
            size, indexes = sum(one.size for one in removed), plural(len(removed), "index", "indexes")
            call.console.say(f"Removed {indexes} ({plural(size, 'byte')}) from the cache.")
    return 1 if any(finding.level == "error" for finding in findings) else 0


def _report(call: Call, what: str, findings: list[Finding]) -> None:
    colours = {"error": "red", "warning": "yellow"}
    for finding in findings:
        call.console.say(f"{finding.level}: {finding.path}: {finding.problem}", style=colours.get(finding.level, ""))
        if finding.advice:
            call.console.say(f"    {finding.advice}")
    if not any(finding.level != "info" for finding in findings):
        call.console.say(f"All is well: {what}")


def _prune(call: Call) -> int:
    with call.changing() as sheaf:
        return sheaf.store.prune() if os.path.isdir(sheaf.root) else 0


def known(settings: Settings, cwd: str) -> Iterator[Place]:
    """Every scope that can be seen from here: the usual two, and each that has a folder."""
    from memsheaf.scope import Scope, project_root, resolve

    places = settings.places(cwd)
    project = project_root(places)
    for name in ("project", "user"):
        root = resolve(Scope(name), places)
        yield Place(name, root, _count(root))
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
            yield Place(str(scope), root, _count(root))
    for name in _folders(os.path.join(settings.home, "projects")):
        root = os.path.join(settings.home, "projects", name)
        if root != project:
            yield Place("", root, _count(root))


def _folders(parent: str) -> list[str]:
    try:
        with os.scandir(parent) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return []


def _count(root: str) -> int:
    """How many Markdown files a store holds, without opening its index."""
    from memsheaf.store.folder import FolderStore

    return sum(1 for entry in FolderStore(root).scan() if entry.path and not entry.path.endswith("/"))


def _open_memory(checkout: str, name: str, *, create: bool = False) -> Folder:
    """The folder of a repository's memory; it is no link, nor is its .gitignore. Raises ScopeRefused, StoreFailed."""
    from memsheaf.store.safe_dir import Folder

    try:
        with Folder.open(checkout) as repository:
            memory = repository.folder(name, create=create)
        with suppress(FileNotFoundError):
            if not S_ISREG(memory.stat(".gitignore").st_mode):
                memory.close()
                raise hinted(ScopeRefused(f"'{name}/.gitignore' is a link or not a file"), _LOOK)
        return memory
    except PathRefused as error:
        raise hinted(ScopeRefused(f"{error.path!r} is a link or not a folder"), _LOOK) from None
    except OSError as error:
        raise StoreFailed(f"{checkout!r} cannot be changed: {error.strerror or error}") from None


def _prepare(checkout: str, name: str) -> bool:
    """Make the folder and its .gitignore where they are missing; say whether the .gitignore was."""
    from memsheaf.store.folder import IGNORED, keep_out_of_git

    with _open_memory(checkout, name, create=True) as memory:
        try:
            return keep_out_of_git(memory, IGNORED)
        except OSError as error:
            raise StoreFailed(f"{checkout!r} cannot be changed: {error.strerror or error}") from None
