"""Scopes, and the folders they live in.

    user              ~/.memsheaf/user
    agent/NAME        ~/.memsheaf/agents/NAME         no agent sees another's
    team/NAME         ~/.memsheaf/team/NAME
    project           the repository's .memory/, if a person accepted it here; else ~/.memsheaf/projects/NAME-HASH
    task/SLUG         tasks/SLUG inside the project's
    session/ID        sessions/ID inside the project's

A project is found by, in this order: what the caller says, the environment, the user's own settings, the
repository. Worktrees of one repository share a project. A folder in no repository belongs to the project of the
nearest folder around it that has one already, except for the user's home; folders beside each other never share.
Nothing inside a repository can point a scope elsewhere: its links are refused and its settings are not read.

A repository's `.memory/` counts as the project's memory only if a person accepted its checkout on this machine
(`memsheaf init`, `memsheaf trust`), which `repositories.json` in MEMSHEAF_HOME records. A `.git` or `.memory` that
another user owns counts only if it was accepted with that owner.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from itertools import islice
from typing import Any, BinaryIO, NamedTuple

from memsheaf.errors import PathRefused, ScopeRefused

NAMED_LAYERS = ("session", "task", "agent", "team")
SINGLE_LAYERS = ("project", "user")
FOLDER = ".memory"
JOURNALS_FOLDER = "memsheaf"  # folder for journals inside .git: no commit or checkout can write there
HUB_FILE = os.path.join(".history", "hub.json")
REPOSITORIES_FILE = "repositories.json"  # the checkouts that a person accepted; `state/trust.py` writes it
INNER_FOLDERS = ("tasks", "sessions")  # the folders of a project in which each folder is a scope of its own
LOGS_FOLDER = "logs"
MAX_COUNTED_FOLDERS = 1_000  # of a `.memory` that is not used

_LABEL_PATTERN = r"[a-z0-9][a-z0-9-]{0,63}"
_DEVICE_PATTERN = r"(con|prn|aux|nul|com\d|lpt\d)"


class Scope(NamedTuple):
    """One memory: a layer, and for most layers a name."""

    layer: str
    name: str = ""

    @classmethod
    def parse(cls, text: str) -> Scope:
        """Read a scope as people write it. Empty never means everything.

        >>> Scope.parse("agent/researcher")
        Scope(layer='agent', name='researcher')
        """
        layer, _, name = text.partition("/")
        if layer in SINGLE_LAYERS and not name and "/" not in text:
            return cls(layer)
        if layer in NAMED_LAYERS and name:
            return cls(layer, check_label(name, layer))
        raise ScopeRefused(f"{text!r} is not a scope")

    def __str__(self) -> str:
        return f"{self.layer}/{self.name}" if self.name else self.layer


class Places(NamedTuple):
    """The places that decide which folder a scope has. `project` is one that the caller or the environment chose.

    `state` is the directory for what is kept about folders outside of them.
    """

    home: str
    cwd: str
    project: str = ""
    projects: Sequence[tuple[str, str]] = ()
    state: str = ""


def check_label(label: str, what: str) -> str:
    """Let a name through that is letters, digits and hyphens; upper and lower case are one.

    >>> check_label("Researcher", "agent")
    'researcher'
    """
    folded = label.lower() if label.isascii() else label
    if re.fullmatch(_DEVICE_PATTERN, folded):
        raise ScopeRefused(f"the {what} name {label!r} is not allowed: Windows keeps it for a device")
    if not re.fullmatch(_LABEL_PATTERN, folded):
        raise ScopeRefused(f"the {what} name {label[:80]!r} is not allowed: use 1 to 64 letters, digits and hyphens")
    return folded


class KnownScope(NamedTuple):
    """A scope that has a folder. `project` is the folder of the project that it is or belongs to, "" if none.

    Its `key` stands in addresses of the web page:

        user   agent~NAME   team~NAME
        project                              the project of the working directory
        project~NAME-HASH                    another one
        task~SLUG   session~ID               of the present project
        project~NAME-HASH~task~SLUG          of another one
    """

    key: str
    title: str
    layer: str
    root: str
    project: str = ""

    @property
    def name(self) -> str:
        """The scope as commands name it, within its project."""
        return self.layer if self.layer in SINGLE_LAYERS else f"{self.layer}/{os.path.basename(self.root)}"


def list_scopes(places: Places, find_tree: Callable[[KnownScope, Places], str]) -> list[KnownScope]:
    """Return user, the present project, other projects, each with its tasks and sessions; then agents and teams.

    `find_tree` gives the working tree of a project, which tells projects of one name apart.
    """
    present = project_root(places)
    projects = [KnownScope("project", os.path.basename(around(places.cwd)), "project", present, present)]
    for key, root in list_projects(places).items():
        if root != present:
            title = re.sub("-[0-9a-f]{16}$", "", key.partition("~")[2])
            projects.append(KnownScope(key, title, "project", root, root))
    counts = Counter(project.title for project in projects)
    scopes = [KnownScope("user", "user", "user", os.path.join(places.home, "user"))]
    for project in projects:
        if counts[project.title] > 1:
            where = find_tree(project, places) or project.key[-16:]
            project = project._replace(title=f"{project.title} ({where})")
        scopes.append(project)
        for folder in INNER_FOLDERS:
            for inner in _list_named(project.root, folder.removesuffix("s"), folder):
                if project.root != present:
                    key, title = f"{project.key}~{inner.key}", f"{project.title}: {inner.title}"
                    inner = inner._replace(key=key, title=title)
                scopes.append(inner._replace(project=project.root))
    return [*scopes, *_list_named(places.home, "agent", "agents"), *_list_named(places.home, "team", "team")]


def _list_named(root: str, layer: str, folder: str) -> Iterator[KnownScope]:
    """Yield the scopes of a layer that have a folder there; where links lead to is none."""
    parent = os.path.join(root, folder)
    with suppress(ScopeRefused, OSError):
        refuse_links(root, parent)
        for name in named_folders(parent):
            yield KnownScope(f"{layer}~{name}", f"{layer}/{name}", layer, os.path.join(parent, name))


def list_projects(places: Places) -> dict[str, str]:
    """Return the folders of all projects, in MEMSHEAF_HOME or elsewhere, by the keys they have from outside."""
    home = os.path.join(places.home, "projects")
    projects = {f"project~{name}": os.path.join(home, name) for name in named_folders(home)}
    elsewhere = []
    for checkout in read_repositories(places.home) or {}:
        with suppress(ScopeRefused):
            if is_accepted(places.home, checkout):
                root = os.path.join(checkout, FOLDER)
                refuse_links(checkout, root)
                elsewhere.append(root)
    elsewhere += [os.path.abspath(os.path.expanduser(root)) for _, root in places.projects]
    for root in elsewhere:
        if os.path.isdir(root) and root not in projects.values():
            projects[f"project~{project_name(root)}"] = root
    return projects


def inside(root: str, path: str) -> str:
    """Return a path of a root as it is from the project's folder.

    >>> inside("tasks/login", "TASK.md"), inside("", "a.md")
    ('tasks/login/TASK.md', 'a.md')
    """
    return f"{root}/{path}" if root else path


def split_root(name: str) -> tuple[str, str]:
    """Return the root that a file of a project's folder is in, and its path in that. Raises PathRefused.

    Each root has a journal of its own: the project's folder, `tasks/SLUG`, `sessions/ID`, and the `logs` of each.

    >>> split_root("tasks/login/facts/a.md"), split_root("logs/2026/11/2026-11-15.md"), split_root("facts/a.md")
    (('tasks/login', 'facts/a.md'), ('logs', '2026/11/2026-11-15.md'), ('', 'facts/a.md'))
    """
    root, path = "", name
    first, _, rest = name.partition("/")
    label, _, below = rest.partition("/")
    if first in INNER_FOLDERS and below:
        try:
            check_label(label, first)
        except ScopeRefused as error:
            raise PathRefused(name, str(error)) from None
        root, path = f"{first}/{label}", below
    if path.startswith(f"{LOGS_FOLDER}/"):
        return inside(root, LOGS_FOLDER), path.removeprefix(f"{LOGS_FOLDER}/")
    return root, path


def list_roots(folder: str) -> list[str]:
    """Return the roots in a project's folder, "" for its own; no link is followed.

    >>> list_roots("/nowhere")
    ['']
    """
    roots = [""]
    for layer in INNER_FOLDERS:
        if not os.path.islink(os.path.join(folder, layer)):
            roots += [f"{layer}/{name}" for name in named_folders(os.path.join(folder, layer))]
    logs = [inside(root, LOGS_FOLDER) for root in roots]
    places = {log: os.path.join(folder, log) for log in logs}
    return roots + [log for log in logs if os.path.isdir(places[log]) and not os.path.islink(places[log])]


def is_log_root(root: str) -> bool:
    """Return True for the roots of daily logs.

    >>> is_log_root("logs"), is_log_root("tasks/login/logs"), is_log_root("tasks/login")
    (True, True, False)
    """
    return root == LOGS_FOLDER or root.endswith(f"/{LOGS_FOLDER}")


def named_folders(parent: str) -> list[str]:
    """Return the folders in one that are named as scopes may be, in order; links are left out."""
    try:
        with os.scandir(parent) as entries:
            names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return []
    return [name for name in names if re.fullmatch(_LABEL_PATTERN, name) and not re.fullmatch(_DEVICE_PATTERN, name)]


def resolve(scope: Scope, places: Places) -> str:
    """Return the root folder of a scope. Nothing is created."""
    if scope.layer == "user":
        return os.path.join(places.home, "user")
    if scope.layer == "project":
        return project_root(places)
    if scope.layer not in NAMED_LAYERS:
        raise ScopeRefused(f"{str(scope)!r} is not a scope")
    name = check_label(scope.name, scope.layer)
    if scope.layer in ("agent", "team"):
        return os.path.join(places.home, "agents" if scope.layer == "agent" else "team", name)
    project = project_root(places)
    root = os.path.join(project, f"{scope.layer}s", name)
    refuse_links(project, root)
    return root


def around(cwd: str) -> str:
    """Return the working tree that a folder belongs to: the checkout it is in, else the folder itself."""
    here = os.path.realpath(cwd)
    checkout = _with_git(here)
    return checkout if checkout and foreign_owner(os.path.join(checkout, ".git")) is None else here


def _with_git(folder: str, name: str = ".git") -> str:
    """Return the nearest folder, this one or around it, that has a `.git`, or another name; "" when none has."""
    while not os.path.lexists(os.path.join(folder, name)):
        parent = os.path.dirname(folder)
        if parent == folder:
            return ""
        folder = parent
    return folder


def project_root(places: Places) -> str:
    """Return the root folder of the project that the working directory belongs to."""
    if places.project:
        return os.path.abspath(os.path.expanduser(places.project))
    if chosen := _chosen(places):
        return chosen
    checkout, identity = find_repository(places.cwd, places.home)
    if checkout and _has_folder(checkout) and is_accepted(places.home, checkout):
        root = os.path.join(checkout, FOLDER)
        refuse_links(checkout, root)
        return root
    in_repository = identity != os.path.realpath(places.cwd)
    return private_root(places.home, identity if in_repository else _nearest_project(identity, places.home))


def _has_folder(checkout: str) -> bool:
    """Return True if a checkout has a `.memory`, or git's folder its journal: then it was in use, and is gone now."""
    if os.path.lexists(os.path.join(checkout, FOLDER)):
        return True
    git = os.path.join(checkout, ".git")
    if os.path.isfile(git):
        git = os.path.join(checkout, _first_line(git).removeprefix("gitdir: "))
    journals = os.path.join(git, JOURNALS_FOLDER, FOLDER)
    return os.path.isdir(journals) and any(".history" in names for _, names, _ in os.walk(journals))


def _nearest_project(here: str, home: str) -> str:
    """This folder or the nearest around it that has a project already, below the user's home; else this one."""
    folder, end = here, _real("~")
    while folder != end and os.path.dirname(folder) != folder:
        if os.path.isdir(private_root(home, folder)):
            return folder
        folder = os.path.dirname(folder)
    return here


def project_tree(places: Places) -> str:
    """Return the working tree that the project is named after: the main checkout, or in no repository a folder."""
    checkout, identity = find_repository(places.cwd, places.home)
    if identity != os.path.realpath(places.cwd):
        return checkout or around(places.cwd)
    return _nearest_project(identity, places.home)


def private_root(home: str, identity: str) -> str:
    """Return the folder for a project outside its repository, by the identity that `repository_around` gives."""
    return os.path.join(home, "projects", project_name(identity))


def unused_folder(places: Places) -> str:
    """Return a line about the `.memory` here that is not used, as nobody accepted it or its repository is gone."""
    checkout, identity = repository_around(places.cwd)
    has_git = bool(checkout) or identity != os.path.realpath(places.cwd)
    if not has_git:
        checkout = _with_git(identity, FOLDER)
    if not checkout or not _has_folder(checkout) or (has_git and is_accepted(places.home, checkout)):
        return ""
    if places.project or _chosen(places):
        return ""
    folder = os.path.join(checkout, FOLDER)
    if not os.path.lexists(folder):
        return f"{folder} is gone, and its history is in .git; `memsheaf init` and `memsheaf restore` bring it back"
    files = 0
    if not os.path.islink(folder):
        for _, _, names in islice(os.walk(folder), MAX_COUNTED_FOLDERS):
            files += sum(name.endswith(".md") for name in names)
    if has_git:
        why = "nobody accepted it here; `memsheaf trust` shows it"
    else:
        why = f"{checkout} is no git repository; `git init` there makes it one"
    return f"{folder} (Markdown files: {files:,}) is not used, as {why}" if files or has_git else ""


def with_hub(scopes: Sequence[str], places: Places) -> list[str]:
    """Return those of these scopes that have a hub. A file in a repository gives none: it came with it."""
    return [scope for scope in scopes if has_hub(resolve(Scope.parse(scope), places), places.home)]


def has_hub(root: str, home: str) -> bool:
    """Return True if the folder of a scope has a hub."""
    return os.path.lexists(os.path.join(root, HUB_FILE)) and not checkout_of(root, home)


def checkout_of(root: str, home: str) -> str:
    """Return the git working tree around a root, where others may write; "" in none, or below MEMSHEAF_HOME."""
    folder = os.path.realpath(root)
    return "" if _within(folder, os.path.realpath(home)) else _with_git(folder)


def _chosen(places: Places) -> str:
    """Return the root that the user's settings name for the working directory, "" if they name none."""
    root = find_nearest(places.projects, places)
    return os.path.abspath(os.path.expanduser(root)) if root else ""


def find_nearest(table: Sequence[tuple[str, str]], places: Places) -> str:
    """Return what a table says for the most specific folder around the working directory or its repository, or ""."""
    if not table:
        return ""
    checkout, _ = find_repository(places.cwd, places.home)
    here = [places.cwd, checkout] if checkout else [places.cwd]
    nearest = longest = ""
    for folder, value in table:
        folder = _real(folder)
        if len(folder) > len(longest) and any(_within(place, folder) for place in here):
            nearest, longest = value, folder
    return nearest


def find_repository(cwd: str, home: str = "") -> tuple[str, str]:
    """Return what `repository_around` does; a `.git` of another user counts only if it was accepted in `home`.

    Anybody may put a `.git` into a folder that all can write to, such as /tmp: what is below is not their project.
    """
    checkout, identity = repository_around(cwd)
    here = os.path.realpath(cwd)
    owned = [identity, *([os.path.join(checkout, ".git")] if checkout else [])]
    if identity == here or all(foreign_owner(path) is None for path in owned):
        return checkout, identity
    return (checkout, identity) if home and checkout and is_accepted(home, checkout) else ("", here)


def repository_around(cwd: str) -> tuple[str, str]:
    """Return the main checkout of the repository around `cwd` ("" if none), and what identifies the project.

    A linked worktree counts as its repository only when that repository knows it: anyone can write a
    `.git` file that points at somebody else's.
    """
    here = os.path.realpath(cwd)
    folder = here
    while True:
        git = os.path.join(folder, ".git")
        if os.path.isdir(git) and not os.path.islink(git):
            return folder, git
        if os.path.isfile(git) and not os.path.islink(git):
            common = _common_directory(git)
            if not common:
                return folder, git
            main = os.path.dirname(common) if os.path.basename(common) == ".git" else ""
            return main, common
        parent = os.path.dirname(folder)
        if parent == folder:
            return "", here
        folder = parent


def _common_directory(git_file: str) -> str:
    """Return the repository that a worktree's `.git` file names, if that repository names it back; else ""."""
    target = _first_line(git_file)
    if not target.startswith("gitdir: ") or "\0" in target:
        return ""
    private = os.path.realpath(os.path.join(os.path.dirname(git_file), target[8:]))
    common = os.path.realpath(os.path.join(private, _first_line(os.path.join(private, "commondir")) or "."))
    back = _first_line(os.path.join(private, "gitdir"))
    known = back and os.path.realpath(os.path.join(private, back)) == os.path.realpath(git_file)
    return common if known and os.path.dirname(private) == os.path.join(common, "worktrees") else ""


def _first_line(path: str) -> str:
    try:
        with open_plain(path) as file:
            return os.fsdecode(file.readline(4096)).strip()
    except (OSError, ValueError):
        return ""


def project_name(identity: str) -> str:
    """Return a name for a project that no other has: what people call it, and a hash of what identifies it."""
    folder = os.path.dirname(identity) if os.path.basename(identity) in (".git", FOLDER) else identity
    name = re.sub(r"[^a-z0-9]+", "-", os.path.basename(folder).lower()).strip("-")[:40] or "project"
    return f"{name}-{sha256(os.fsencode(os.path.normcase(identity))).hexdigest()[:16]}"


def _real(folder: str) -> str:
    return os.path.realpath(os.path.expanduser(folder))


def _within(path: str, folder: str) -> bool:
    path = os.path.realpath(path)
    return path == folder or path.startswith(os.path.join(folder, ""))


def refuse_links(trusted: str, path: str) -> None:
    """Refuse a path whose steps below `trusted` are links: they came with the repository."""
    step = trusted
    for name in os.path.relpath(path, trusted).split(os.sep):
        step = os.path.join(step, name)
        try:
            mode = os.lstat(step).st_mode
        except FileNotFoundError:
            return
        if not stat.S_ISDIR(mode):
            raise ScopeRefused(f"{step!r} is a link or not a folder; a repository may not choose where memory lives")


def is_accepted(home: str, checkout: str) -> bool:
    """Return True if a person accepted the memory of this checkout, and its owners are those of then."""
    entry = (read_repositories(home) or {}).get(repository_key(checkout))
    owners = entry.get("owners") if isinstance(entry, dict) else None
    return isinstance(owners, list) and foreign_owners(checkout) <= set(owners)


def foreign_owners(checkout: str) -> set[int]:
    """Return the users, other than this one, who own the checkout's `.git` or `.memory`."""
    return {owner for name in (".git", FOLDER) if (owner := foreign_owner(os.path.join(checkout, name))) is not None}


def foreign_owner(path: str) -> int | None:
    """Return the owner of this path if that is another user, else None; None also if it is missing or unknown."""
    if not hasattr(os, "geteuid"):
        return None
    try:
        owner = os.lstat(path).st_uid
    except OSError:
        return None
    return None if owner == os.geteuid() else owner


def repository_key(checkout: str) -> str:
    """Return the key under which a checkout is recorded."""
    return os.path.normcase(os.path.realpath(checkout)).encode("utf-8", "backslashreplace").decode()


def read_repositories(home: str) -> dict[str, object] | None:
    """Return the accepted checkouts, or None if the file cannot be understood, which accepts nothing."""
    try:
        with open(os.path.join(home, REPOSITORIES_FILE), "rb") as file:
            return parse_object(file.read())
    except FileNotFoundError:
        return {}
    except OSError:
        return None


def file_stamp(path: str) -> tuple[int, int, int, int] | None:
    """Return the times, size and inode of a file, which an edit changes, or None if it does not exist."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino


def open_plain(path: str) -> BinaryIO:
    """Open a file that somebody names. Raises OSError for a pipe or a device, which could be read forever."""
    fd = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return open(fd, "rb")
    os.close(fd)
    raise OSError(errno.EINVAL, "it is not a plain file", path)


def parse_json(text: str | bytes) -> object:
    """Return the value of a JSON text, or None if it is not valid JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def parse_object(text: str | bytes) -> dict[str, Any] | None:
    """Return the JSON object that a text is, or None if it is not one."""
    value = parse_json(text)
    return value if isinstance(value, dict) else None
