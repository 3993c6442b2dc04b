"""Commands for where memory lives: `init` keeps it in the repository, `trust` accepts what came along."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from stat import S_ISREG
from typing import NamedTuple

from memsheaf.cli.call import Call, Result, here, pick, plural
from memsheaf.cli.output import Note, Table
from memsheaf.cli.parser import Usage
from memsheaf.config import Settings
from memsheaf.errors import MemsheafError, PathRefused, ScopeRefused, StoreFailed
from memsheaf.hub.replica_state import settings_of
from memsheaf.index.database import Row
from memsheaf.memory import Memory
from memsheaf.recall.inject import CONTEXT, NOTES
from memsheaf.scope import (
    FOLDER,
    KnownScope,
    Scope,
    find_repository,
    foreign_owners,
    has_hub,
    is_accepted,
    list_scopes,
    private_root,
    project_root,
    refuse_links,
    repository_around,
    split_root,
)
from memsheaf.sheaf import Sheaf, list_notices
from memsheaf.state.trust import accept
from memsheaf.state.trust import withdraw as withdraw_trust
from memsheaf.store import HISTORY
from memsheaf.store.git_checkout import IGNORED, keep_out_of_git
from memsheaf.store.safe_dir import Folder
from memsheaf.transfer import Locations, list_shared
from memsheaf.work.relocate import MovedProject, contents, move, refuse_hub
from memsheaf.worktree import count_memories, find_tree, list_tracked

_FIELDS = ("path", "name", "description", "trust", "version")
_ORDER = ("project", "user", "agent", "team", "task", "session", "")


class ScopeFolder(NamedTuple):
    """A scope and the folder it lives in. A project that is not the present one has no scope to call it by."""

    scope: str
    root: str
    memories: int
    key: str
    title: str
    hub: str


def scopes(call: Call) -> Result:
    """List which scopes there are, where each lives, how many memories it has, and its hub.

    Projects other than the present one are in brackets; `--project DIR` with their folder reaches them.

    examples:
      memsheaf scopes
      memsheaf scopes --json
    """
    settings = call.settings()
    with call.memory() as memory:
        notices = list_notices(memory)
    found = []
    for scope in list_scopes(settings.places(here()), find_tree):
        name = "" if scope.key.startswith("project~") else scope.name
        count = count_memories(scope.root)
        found.append(ScopeFolder(name, scope.root, count, scope.key, scope.title, _hub_of(scope, settings)))
    found.sort(key=lambda folder: _ORDER.index(folder.scope.partition("/")[0]))
    rows = [
        (one.scope or f"({one.title})", plural(one.memories, "memory", "memories"), one.root, one.hub)
        for one in found
    ]
    value = {"home": settings.home, "scope": call.scope(), "scopes": found}
    if notices:
        value["notices"] = notices
    return Result(value, Table(rows, ("bold",)), [Note(notice, "yellow") for notice in notices])


def _hub_of(scope: KnownScope, settings: Settings) -> str:
    """Return the address of a scope's hub, "" when it has none."""
    with suppress(MemsheafError, OSError):
        hub = settings_of(scope.root) if has_hub(scope.root, settings.home) else None
        return hub.shown if hub else ""
    return ""


def init(call: Call, *, undo: bool = False, dry_run: bool = False) -> Result:
    """Keep this project's memory in its repository, in the folder .memory.

    Everything the project has at home moves there with its history: memories, notes, tasks, sessions, logs, and what
    waits to be learned or reviewed. It is shown first, and you are asked; --yes answers where nobody can. Where the
    repository has another text under a name, both stay. Memories can then be committed with the code; a .gitignore
    inside leaves out the journal, the catalog, and the notes of single conversations. Doing it again changes nothing,
    or completes what was interrupted.

    --undo moves everything back. What is committed stays in the repository, too.

    arguments:
      --undo: move it back to where it was before, out of the repository
      --dry-run: show what would be done, and change nothing

    examples:
      memsheaf init --dry-run
      memsheaf init
      memsheaf init --undo
    """
    settings = call.settings()
    checkout, identity = find_repository(here(), settings.home)
    if not checkout:
        raise ScopeRefused(f"there is no repository around {here()!r}", hint="`git init` makes one.")
    root, home = os.path.join(checkout, FOLDER), private_root(settings.home, identity)
    refuse_hub(Locations(home, root, settings.home, settings.state, settings.cache))
    if undo:
        return _undo_init(call, checkout, home, is_trial=dry_run)
    was_there = os.path.lexists(root)
    if was_there:
        _open_memory(checkout).close()
    plan = _plan_move(home)
    if dry_run:
        value = {"root": root, "made": not was_there}
        return _answer_move(value, home, plan, ["There is nothing to move."], is_trial=True)
    if plan.files:
        if call.console.interactive and not call.yes:
            call.console.show([f"  {path}" for path in plan.files])
        count = plural(len(plan.files), "file")
        call.confirm(
            f"Move {count} into {root}, where they can be committed with the code?",
            without=f"init moves {count} into the repository, and `memsheaf init --dry-run` shows which",
            left="Nothing was moved.",
        )
    if was_there:  # else the folder at home becomes it, and is prepared then
        _refuse_journals(checkout, root)
        _prepare(checkout)
    moved = _move(settings, home, root, lambda: accept(settings.home, checkout))
    made = _prepare(checkout) or not was_there
    said = [f"{'Made' if made else 'There is already'} {root}"]
    if project_root(settings.places(here())) != root:
        said.append("The settings or the environment put this project's memory elsewhere, so it is not used yet.")
    last = "Undo with `memsheaf init --undo`." if moved.files else ""
    return _answer_move({"root": root, "made": made}, home, moved, said, last=last)


def _undo_init(call: Call, checkout: str, home: str, *, is_trial: bool) -> Result:
    """Move everything that is in a repository's memory home; what git tracks stays there as well."""
    settings, root = call.settings(), os.path.join(checkout, FOLDER)
    nothing = [f"There is nothing to move from {root}"]
    is_in_use = is_accepted(settings.home, checkout)
    if not is_in_use and not os.path.lexists(root):
        return _answer_move({"root": home, "kept": []}, root, MovedProject(()), nothing)
    if not is_in_use or not os.path.isdir(root):
        error = ScopeRefused(f"the memory of {checkout!r} is not in use")
        error.hint = "`memsheaf scopes` shows where it is."
        raise error
    _open_memory(checkout).close()
    keep = list_tracked(checkout, root)
    if keep is None:
        raise StoreFailed(f"git does not say which files of {root!r} are committed")
    if is_trial:
        return _answer_move({"root": home, "kept": keep}, root, _plan_move(root), nothing, is_trial=True)
    ignore = os.path.join(root, ".gitignore")
    with suppress(OSError), open(ignore, encoding="utf-8") as file:
        if ".gitignore" not in keep and file.read() == IGNORED:
            os.unlink(ignore)
    moved = _move(settings, root, home, lambda: withdraw_trust(settings.home, checkout), keep)
    said = [f"{plural(len(keep), 'committed file')} stayed in {root}, too"] if keep else []
    if not moved.files and not os.path.lexists(root):
        said.append(f"Removed {root}, which held no memories")
    return _answer_move({"root": home, "kept": keep}, root, moved, said or nothing)


def _plan_move(source: str) -> MovedProject:
    return MovedProject(tuple(contents(source)) if os.path.isdir(source) else ())


def _move(
    settings: Settings, source: str, target: str, switch: Callable[[], None], keep: Sequence[str] = ()
) -> MovedProject:
    if os.path.isdir(source):  # what was edited by hand is in its journal before it goes
        with Sheaf.open("project", settings=settings._replace(project=source, embedder="none")) as sheaf:
            sheaf.list()
    return move(Locations(source, target, settings.home, settings.state, settings.cache), switch, keep=keep)


def _answer_move(
    value: dict[str, object],
    source: str,
    moved: MovedProject,
    said: Sequence[str],
    *,
    is_trial: bool = False,
    last: str = "",
) -> Result:
    """Report what was moved, or would be."""
    count = plural(len(moved.files), "file")
    lines = [] if moved.files and (is_trial or said[:1] == [f"There is nothing to move from {source}"]) else [*said]
    if moved.files:
        lines.append(f"{'Would move' if is_trial else 'Moved'} {count} from {source}, with the history")
    if is_trial:
        lines += [f"  {path}" for path in moved.files]
    lines += [f"  {old} is now {new}: another text has its name" for old, new in moved.renamed]
    lines += [f"  left {path}: {why}" for path, why in moved.left]
    value |= {
        "from": source if moved.files or moved.left else "",
        "files": moved.files,
        "renamed": [{"path": old, "as": new} for old, new in moved.renamed],
        "left": [{"path": path, "why": why} for path, why in moved.left],
        "dry_run": is_trial,
    }
    return Result(value, lines, last or None, code=1 if moved.left else 0)


def _open_memory(checkout: str, *, create: bool = False) -> Folder:
    """The folder of a repository's memory; it is no link, nor is its .gitignore. Raises ScopeRefused, StoreFailed."""
    look = "It came with the repository; look at it, and remove it if it is not yours."
    try:
        with Folder.open(checkout) as repository:
            memory = repository.folder(FOLDER, create=create)
        with suppress(FileNotFoundError):
            if not S_ISREG(memory.stat(".gitignore").st_mode):
                memory.close()
                raise ScopeRefused(f"'{FOLDER}/.gitignore' is a link or not a file", hint=look)
        return memory
    except PathRefused as error:
        raise ScopeRefused(f"{error.path!r} is a link or not a folder", hint=look) from None
    except OSError as error:
        raise StoreFailed(f"{checkout!r} cannot be changed: {error.strerror or error}") from None


def _prepare(checkout: str) -> bool:
    """Make the folder and its .gitignore where they are missing; say whether the .gitignore was."""
    with _open_memory(checkout, create=True) as memory:
        try:
            return keep_out_of_git(memory, IGNORED)
        except OSError as error:
            raise StoreFailed(f"{checkout!r} cannot be changed: {error.strerror or error}") from None


def trust(call: Call, *, memories: bool = False, withdraw: bool = False) -> Result:
    """Show the memory that came with this repository, and use it once you accept it.

    It shows CONTEXT.md and NOTES.md, which are loaded into every prompt, and lists the memories.
    Accepting is recorded on this machine, never in the repository: the folder .memory is used from then on,
    and the two files are loaded in the version that was shown; when they change, look again. What others committed
    stays listed apart, as data from this repository, unless you confirm it (`memsheaf review --approve FILE`, or
    --memories for all). Files of tasks, sessions and logs are counted; what a task or a session has is shown and
    accepted with -s. A journal that git tracks is not accepted. Without --yes, and where nobody can be asked,
    it is only shown, and the exit code is 1.

    With -s team/NAME it does the same for what other members of the team saved.

    arguments:
      --memories: also take every memory that is listed as your own, as if you had confirmed each
      --withdraw: use the folder no longer; its files stay as they are

    examples:
      memsheaf trust
      memsheaf trust -s team/acme
      memsheaf trust --yes
      memsheaf trust --withdraw
    """
    settings = call.settings()
    scope = call.scope()
    layer = Scope.parse(scope).layer
    if layer == "team":
        if withdraw:
            raise Usage("--withdraw is about a repository; `memsheaf hub remove` takes the hub from a team's memory")
        return _trust_team(call, take_all=memories)
    checkout, identity = repository_around(here())
    root = os.path.join(checkout, FOLDER) if checkout else ""
    owners = sorted(foreign_owners(checkout)) if checkout else []
    if not root or not (os.path.lexists(root) or owners):
        raise ScopeRefused(f"there is no {FOLDER} around {here()!r}", hint="`memsheaf init` makes one.")
    if withdraw:
        withdraw_trust(settings.home, checkout)
        said = f"{root} is not used any more; its files are as they were."
        return Result({"root": root, "accepted": False}, said)
    refuse_links(checkout, root)
    if layer not in ("project", "task", "session"):
        raise ScopeRefused(f"the scope {scope!r} is in no repository")

    own = settings._replace(project=root)
    with Sheaf.open(scope, settings=own, cwd=here(), by="user", read_only=True) as sheaf:
        found = [row for row in sheaf.list() if row.state in ("ok", "free")]
        loaded, rows = _loaded_apart(sheaf, found)
        layers = _count_layers(settings, root) if scope == "project" else {}
        before = is_accepted(settings.home, checkout)
        call.console.show(f"{sheaf.root}: {plural(len(rows), 'memory', 'memories')}")
        call.console.show(list(_shown_lines(loaded, rows, {}, owners, layers)))
        accepted = _accepts(call)
        if accepted:
            _refuse_journals(checkout, root)
            accept(settings.home, checkout)
            _take(sheaf, loaded, rows if memories else ())
    private = private_root(settings.home, identity)
    waiting = count_memories(private)
    nothing = "It was accepted before." if before else "Nothing was accepted; --yes does."
    count = plural(waiting, "memory is", "memories are")
    return Result(
        {
            "root": root,
            "accepted": accepted or before,
            "owners": owners,
            "files": {memory.path: memory.text for memory in loaded},
            "memories": [pick(row, _FIELDS) for row in rows],
            "layers": layers,
            "private": {"root": private, "memories": waiting},
        },
        f"Accepted on this machine: {root} is used." if accepted else nothing,
        f"{count} still in {private}, the old place; `memsheaf init` moves them." if accepted and waiting else None,
        code=0 if accepted else 1,
    )


def _accepts(call: Call) -> bool:
    """Return True if --yes was given or a person agrees."""
    console = call.console
    return call.yes or (console.interactive and not console.json and console.confirm("Accept it?"))


def _take(sheaf: Sheaf, loaded: Sequence[Memory], rows: Sequence[Row]) -> None:
    sheaf.own.accept([(one.path, one.version) for one in loaded] + [(row.path, row.version) for row in rows])


def _trust_team(call: Call, *, take_all: bool) -> Result:
    """Show what other members of a team saved, and accept it once a person agrees."""
    with call.reading() as sheaf:
        found = [row for row in sheaf.list() if row.state in ("ok", "free") and row.trust == "shared"]
        by = sheaf.own.committers(found)
        loaded, rows = _loaded_apart(sheaf, found)
        call.console.show(f"{sheaf.scope}: {plural(len(rows), 'memory', 'memories')} of other members")
        call.console.show(list(_shown_lines(loaded, rows, by, [], {})))
        accepted = bool(found) and _accepts(call)
        if accepted:
            _take(sheaf, loaded, rows if take_all else ())
    said = "Nothing was accepted; --yes does." if found else "Nothing here is another member's."
    if accepted:
        files = ", ".join(one.path for one in loaded) or "nothing"
        said = "Accepted: all." if take_all else f"Accepted on this machine: {files}"
    value = {
        "scope": str(sheaf.scope),
        "accepted": accepted,
        "files": {memory.path: memory.text for memory in loaded},
        "memories": [{**pick(row, _FIELDS), "by": by.get(row.path, "")} for row in rows],
    }
    return Result(value, said, code=0 if accepted or not found else 1)


def _loaded_apart(sheaf: Sheaf, found: Sequence[Row]) -> tuple[list[Memory], list[Row]]:
    """The files that every prompt has, and the memories beside them."""
    loaded = [sheaf.read(row.path) for row in found if row.path in (CONTEXT, NOTES)]
    return loaded, [row for row in found if row.path not in (CONTEXT, NOTES)]


def _refuse_journals(checkout: str, root: str) -> None:
    """Accept no folder whose journals came with the repository: they bring texts back, and block learning."""
    folders = (path.rpartition("/")[0] for path in list_tracked(checkout, root) or ())
    if found := sorted({folder for folder in folders if HISTORY in folder.split("/")}):
        places = " ".join(os.path.join(root, folder) for folder in found)
        raise ScopeRefused(
            f"git tracks a journal, which is no file of a repository: {places}",
            hint="`git rm -r` removes it; `git rm -r --cached` if this machine made it, which keeps the files.",
        )


def _shown_lines(
    loaded: Sequence[Memory],
    rows: Sequence[Row],
    by: Mapping[str, str],
    owners: list[int],
    layers: dict[str, int],
) -> Iterator[str]:
    """What a person is shown of a folder before it is accepted; `by` says who saved what for a team."""
    if owners:
        yield f"It belongs to another user of this machine (number {', '.join(map(str, owners))})."
    for memory in loaded:
        author = f", saved by {by[memory.path]}" if by.get(memory.path) else ""
        yield f"\n{memory.path}{author}, loaded into every prompt:"
        yield from (f"  | {line}" for line in memory.text.rstrip("\n").split("\n"))
    if rows:
        yield "\nMemories:"
    for row in rows:
        about = ", ".join(filter(None, (row.type or "free", row.trust, by.get(row.path))))
        yield f"  {row.path} [{about}] {row.description}"
    if layers:
        counts = ", ".join(f"{kind} ({plural(count, 'file')})" for kind, count in layers.items())
        yield f"\nIt also brings {counts}: marked as data from this repository, never learned from."


def _count_layers(settings: Settings, root: str) -> dict[str, int]:
    """How many files of tasks, sessions and logs came with the repository."""
    counts = dict.fromkeys(("tasks", "sessions", "logs"), 0)
    for path in list_shared(Locations(root, "", settings.home, settings.state, "")):
        layer = split_root(path)[0].split("/")  # such as tasks/login, or tasks/login/logs
        if kind := layer[0] if len(layer) == 2 else layer[-1]:
            counts[kind] += 1
    return {kind: count for kind, count in counts.items() if count}
