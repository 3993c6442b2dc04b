"""The command that shows what came with a repository, and records that a person accepts it."""

from __future__ import annotations

import os
from collections.abc import Iterator

from memsheaf.cli.call import Call, here, pick, plural
from memsheaf.cli.command import Argument, takes
from memsheaf.errors import ScopeRefused, hinted

# Known to type checkers under this name, so that a command imports only what it uses.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from memsheaf.config import Settings
    from memsheaf.sheaf import Sheaf


@takes(
    Argument("--yes", "accept it without asking"),
    Argument("--memories", "also take every memory that is listed as your own, as if you had confirmed each"),
    Argument("--withdraw", "use the folder no longer; its files stay as they are"),
)
def trust(call: Call) -> int:
    """Show the memory that came with this repository, and use it once you accept it.

    It shows CONTEXT.md and NOTES.md, which are loaded into every prompt, and lists the memories with who committed
    them. Accepting is recorded on this machine, never in the repository: the folder .memory is used from then on,
    and the two files are loaded in the version that was shown; when they change, look again. What others committed
    stays listed apart, as data from this repository, unless you confirm it (`memsheaf review --approve FILE`, or
    --memories for all). Files of tasks, sessions and logs are counted; what a task or a session has is shown and
    accepted with --scope. A journal that git tracks is not accepted. Without --yes, and where nobody can be asked,
    it is only shown, and the exit code is 1.

    examples:
      memsheaf trust
      memsheaf trust --yes
      memsheaf trust --withdraw
    """
    from memsheaf import trusted_repositories
    from memsheaf.scope import FOLDER, Scope, private_root, refuse_links, repository_around
    from memsheaf.store.trust import accept, withdraw

    settings, options, console = call.settings(), call.options, call.console
    checkout, identity = repository_around(here())
    root = os.path.join(checkout, FOLDER) if checkout else ""
    owners = sorted(trusted_repositories.foreign_owners(checkout)) if checkout else []
    if not root or not (os.path.lexists(root) or owners):
        raise hinted(ScopeRefused(f"there is no {FOLDER} around {here()!r}"), "`memsheaf init` makes one.")
    if options.withdraw:
        withdraw(settings.home, checkout)
        said = [f"{root} is not used any more; its files are as they were."]
        return console.answer({"root": root, "accepted": False}, said)
    refuse_links(checkout, root)
    scope = call.scope()
    if Scope.parse(scope).layer not in ("project", "task", "session"):
        raise ScopeRefused(f"the scope {scope!r} is in no repository")
    from memsheaf.sheaf import Sheaf

    own = settings._replace(project=root)
    with Sheaf.open(scope, settings=own, cwd=here(), by="user", read_only=True) as sheaf:
        shown, layers = _Shown(sheaf), _layers(settings, root) if scope == "project" else {}
        before = trusted_repositories.is_accepted(settings.home, checkout)
        if not console.json:
            for line in (*shown.lines(sheaf.root, owners), *_told(layers)):
                console.say(line)
        accepted = options.yes or (console.interactive and not console.json and console.confirm("Accept it?"))
        if accepted:
            refuse_journals(call, checkout, root)
            accept(settings.home, checkout)
            sheaf.accept(shown.versions(memories=options.memories))
    private = private_root(settings.home, identity)
    waiting = _count(private)
    value = {
        "root": root,
        "accepted": accepted or before,
        "owners": owners,
        "files": {name: text for name, (text, _) in shown.loaded.items()},
        "memories": [
            {**pick(row, ("path", "name", "description", "trust", "version")), "by": shown.by(row.path)}
            for row in shown.rows
        ],
        "layers": layers,
        "private": {"root": private, "memories": waiting},
    }
    nothing = "It was accepted before." if before else "Nothing was accepted; --yes does."
    said = [f"Accepted on this machine: {root} is used." if accepted else nothing]
    if accepted and waiting:
        count = plural(waiting, "memory waits", "memories wait")
        said.append(f"{count} in {private}, where this project's were; `memsheaf init` moves them.")
    console.answer(value, said)
    return 0 if accepted else 1


def refuse_journals(call: Call, checkout: str, root: str) -> None:
    """Accept no folder whose journals came with the repository: they bring texts back, and block learning."""
    from memsheaf.store.folder import HISTORY
    from memsheaf.worktree import tracked

    folders = (path.rpartition("/")[0] for path in tracked(checkout, root, call.environment) or ())
    if found := sorted({folder for folder in folders if HISTORY in folder.split("/")}):
        places = " ".join(os.path.join(root, folder) for folder in found)
        raise hinted(
            ScopeRefused(f"git tracks a journal, which is no file of a repository: {places}"),
            "`git rm -r` removes it; `git rm -r --cached` if this machine made it, which keeps the files.",
        )


class _Shown:
    """What a person is shown of a folder, and which versions of it these are."""

    def __init__(self, sheaf: Sheaf) -> None:
        from memsheaf.recall.inject import CONTEXT, NOTES

        found = [row for row in sheaf.list() if row.state in ("ok", "free")]
        self.committers = sheaf.committers(found)
        self.loaded = {}
        for row in found:
            if row.path in (CONTEXT, NOTES):
                memory = sheaf.read(row.path)
                self.loaded[row.path] = memory.text, memory.version
        self.rows = [row for row in found if row.path not in (CONTEXT, NOTES)]

    def by(self, path: str) -> str:
        """Who committed a file, "" when git cannot tell."""
        return self.committers.get(path, "")

    def versions(self, *, memories: bool) -> list[tuple[str, str]]:
        """The paths and versions that are accepted."""
        rows = [(row.path, row.version) for row in self.rows] if memories else []
        return [*((name, version) for name, (_, version) in self.loaded.items()), *rows]

    def lines(self, root: str, owners: list[int]) -> Iterator[str]:
        """All of it, for a terminal."""
        yield f"{root}: {plural(len(self.rows), 'memory', 'memories')}"
        if owners:
            yield f"It belongs to another user of this machine (number {', '.join(map(str, owners))})."
        for name, (text, _) in self.loaded.items():
            by = self.by(name)
            yield f"\n{name}{f', committed by {by}' if by else ''}, loaded into every prompt:"
            yield from (f"  | {line}" for line in text.rstrip("\n").split("\n"))
        if self.rows:
            yield "\nMemories:"
        for row in self.rows:
            by = self.by(row.path)
            yield f"  {row.path} [{row.kind or 'free'}, {row.trust}{f', {by}' if by else ''}] {row.description}"


def _layers(settings: Settings, root: str) -> dict[str, int]:
    """How many files of tasks, sessions and logs came with the repository."""
    from memsheaf.archive import apart
    from memsheaf.transfer import Places, shared

    counts = dict.fromkeys(("tasks", "sessions", "logs"), 0)
    for path in shared(Places(root, "", settings.home, settings.state, "")):
        layer = apart(path)[0].split("/")  # such as tasks/login, or tasks/login/logs
        if kind := layer[0] if len(layer) == 2 else layer[-1]:
            counts[kind] += 1
    return {kind: count for kind, count in counts.items() if count}


def _told(layers: dict[str, int]) -> Iterator[str]:
    if layers:
        counts = ", ".join(f"{kind} ({plural(count, 'file')})" for kind, count in layers.items())
        yield f"\nIt also brings {counts}: marked as data from this repository, never learned from."


def _count(root: str) -> int:
    from memsheaf.store.folder import FolderStore

    return sum(1 for entry in FolderStore(root).scan() if entry.path and not entry.path.endswith("/"))
