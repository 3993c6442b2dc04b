"""Commands about where memories live and whether all is well there."""

from __future__ import annotations

import os
from collections.abc import Iterator
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

IGNORED = ".history/\nsessions/\nlogs/\n"
"""What git is told to leave out of a repository's memory: the journal, what lasts one conversation, what you said."""

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


@takes()
def init(call: Call) -> int:
    """Keep this project's memory in its repository, in the folder .memory.

    Memories can then be committed with the code. A .gitignore inside leaves out the journal and the notes of
    single conversations. Doing it again changes nothing.

    examples:
      memsheaf init
    """
    from memsheaf import repositories
    from memsheaf.scope import FOLDER, Places, find_repository, project_root

    settings = call.settings()
    checkout, _ = find_repository(here(), settings.home)
    if not checkout:
        raise hinted(ScopeRefused(f"there is no repository around {here()!r}"), "`git init` makes one.")
    before = project_root(Places(settings.home, here()))
    root = os.path.join(checkout, FOLDER)
    made = _prepare(checkout, FOLDER)
    repositories.accept(settings.home, checkout)
    said = [f"{'Made' if made else 'There is already'} {root}"]
    if before != root and (count := _count(before)):
        said.append(f"This project had {plural(count, 'memory', 'memories')} in {before};")
        from shlex import quote

        said.append(f"`memsheaf import {quote(before)}` brings them in.")
    if project_root(settings.places(here())) != root:
        said.append("The settings or the environment put this project's memory elsewhere, so it is not used yet.")
    return call.console.answer({"root": root, "made": made, "before": before if before != root else ""}, said)


@takes(Argument("--prune", "also drop what is past retention from the journal"))
def doctor(call: Call) -> int:
    """Look for whatever is not as it should be, and say what to do about it.

    Nothing is changed, except with --prune. The exit code is 1 when something does not work.

    examples:
      memsheaf doctor
      memsheaf doctor --scope user --prune
    """
    from memsheaf.doctor import Finding, examine
    from memsheaf.scope import FOLDER

    with call.reading() as sheaf:
        findings = examine(sheaf)
    if unused := call.unused_folder():
        findings.insert(0, Finding("warning", FOLDER, unused, "look at it, then accept it or leave it alone"))
    dropped = _prune(call) if call.options.prune else 0
    value = {
        "scope": str(sheaf.scope),
        "root": sheaf.root,
        "findings": [pick(finding, ("level", "path", "problem", "advice")) for finding in findings],
        "dropped": dropped,
    }
    if call.console.json:
        call.console.answer(value)
    else:
        _report(call, f"{sheaf.scope} in {sheaf.root}", findings)
        if call.options.prune:
            call.console.say(f"Dropped {plural(dropped, 'text')} past retention from the journal.")
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


def _prepare(checkout: str, name: str) -> bool:
    """Make the folder and its .gitignore where they are missing; say whether anything was."""
    from memsheaf.store.confined import Folder, stage

    try:
        new = not os.path.lexists(os.path.join(checkout, name))
        with Folder.open(checkout) as repository, repository.folder(name, create=True) as memory:
            try:
                ignore = memory.stat(".gitignore")
            except FileNotFoundError:
                stage(memory, ".gitignore", IGNORED.encode(), mode=0o644)
                return True
            if S_ISREG(ignore.st_mode):
                return new
            raise hinted(ScopeRefused(f"'{name}/.gitignore' is a link or not a file"), _LOOK)
    except PathRefused as error:
        raise hinted(ScopeRefused(f"{error.path!r} is a link or not a folder"), _LOOK) from None
    except OSError as error:
        raise StoreFailed(f"{checkout!r} cannot be changed: {error.strerror or error}") from None
