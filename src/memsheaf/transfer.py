"""Export, import and erasure: how memories leave this machine and come in.

An export writes a zip; an import also reads a folder, and the tar archives that earlier versions wrote. The layout is
that of a project's folder, with the journals in `.history/`; an archive of several scopes has a folder for each.
Names in an archive are hostile until checked, sizes are capped before a byte is unpacked, modes and links are not
taken over.
"""

from __future__ import annotations

import fnmatch
import gzip
import json
import os
import re
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from glob import escape, glob
from shlex import quote
from tempfile import TemporaryFile, gettempdir
from typing import IO, NamedTuple
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

from memsheaf.errors import (
    Exists,
    HubRefused,
    HubUnreachable,
    MemsheafError,
    NotFound,
    PathRefused,
    ReadOnly,
    Refused,
    ScopeRefused,
    SecretFound,
    StoreFailed,
    TextRefused,
    fact_edit_error,
)
from memsheaf.frontmatter import edit_text
from memsheaf.gates import (
    WrittenFile,
    check_import,
    content_of,
    refuse_context,
    refuse_duplicate,
    refuse_personal,
    require_no_secret,
    set_origin,
)
from memsheaf.guard.paths import CATALOG, RESERVED_FOLDERS, check_path, check_stored, fold, is_fact, shown
from memsheaf.guard.secrets import new_secrets, without_secrets
from memsheaf.hub import COPY, Machine
from memsheaf.hub.replica import Replica
from memsheaf.hub.replica_state import Synced
from memsheaf.index.catalog import target
from memsheaf.learn import conversation_file, spill
from memsheaf.learn.consolidate import drop_questions
from memsheaf.learn.daily_log import DailyLog
from memsheaf.learn.erasure_filter import make_erasure_filter
from memsheaf.learn.learner import forget_waiting
from memsheaf.memory import MAX_MEMORY_BYTES, STRICT, Allow, Memory, parse
from memsheaf.open_scope import OpenScope
from memsheaf.recall import recall_log
from memsheaf.scope import (
    INNER_FOLDERS,
    LOGS_FOLDER,
    checkout_of,
    has_hub,
    inside,
    is_log_root,
    list_roots,
    open_plain,
    split_root,
)
from memsheaf.state import DATABASE, DATABASE_FILES, State
from memsheaf.state.trust import TrustLedger
from memsheaf.store import ABSENT, HISTORY, Commit, Erased, version_of
from memsheaf.store.atomic_replace import READ_LIMIT
from memsheaf.store.folder import FolderStore
from memsheaf.store.history import DATABASE as HISTORY_DATABASE
from memsheaf.store.history import DATABASE_FILES as HISTORY_FILES
from memsheaf.store.old_journal import encode, read_lines
from memsheaf.store.safe_dir import Folder, read_file, walk
from memsheaf.store.tombstones import Tombstone, from_lines, to_lines
from memsheaf.worktree import find_in_bare, find_in_checkout, open_root

MAX_MEMBERS = 200_000
MAX_TOTAL_BYTES = 1 << 30
MAX_RATIO = 200  # unpacked to packed, past the first megabyte
MAX_DIRECTORY_BYTES = 32 << 20
MAX_JOURNAL_BYTES = 256 << 20  # of one segment
SEGMENT_PATH = f"{HISTORY}/journal-000001.jsonl"
TOMBSTONES_PATH = f"{HISTORY}/tombstones"
BACKUP_README = (
    "README.md",
    b"# Memories of memsheaf\n\nOne folder for each scope. `memsheaf import` reads this file or folder back.\n",
)  # marks an archive of several scopes
SHARED_LIST = ".shared.json"  # lists the members that came with a repository, and so are not vouched for by the user
LINK_REASON = "it is a link, which is not followed, or no plain file"
NO_MARKDOWN_REASON = "it is no Markdown"
_SCOPE_FOLDER = re.compile(
    r"(user|(?:agents|team|projects)/[^/.][^/]*)/"
)  # the folder of one in an archive of several
_PAST_FILE = re.compile(rf"(?:.*/)?{re.escape(HISTORY)}/(?:journal-[0-9]{{6}}\.jsonl|tombstones)")
_DAMAGE_ERRORS = (
    *(zipfile.BadZipFile, tarfile.TarError, zlib.error, struct.error, EOFError, OSError, ValueError),
    *(LookupError, RuntimeError, NotImplementedError, PathRefused),
)
"""What unpacking raises when an archive is damaged, lies, or is locked with a password."""

MIN_PIECE_BYTES = 12  # a shorter piece of an erased text proves nothing, it is everywhere
MIN_TITLE_WORDS = 5  # nor does a name or a description of fewer, outside of a header
LOCK_SECONDS = 5.0
REPORT_SECONDS = 86_400
HOSTS_FOLDER = "hooks"  # folder of the state directory with what is known of hosts' conversations
_OTHER_INDEX = r"[0-9a-f]{24}-[0-9]+\.[a-z.-]+$|\.float32$"  # indexes of other scopes, and weights
_WORDED_KEYS = (b"name", b"description", b"reason")
_COMMON_KEYS = (b"type:", b"created:", b"updated:", b"source:", b"conversation:", b"trust:", b"pinned:", b"expires:")

Load = Callable[[int], bytes]  # returns the bytes of a member, so many at most


class Imported(NamedTuple):
    """The result of an import: the paths that were added or replaced, that were the same already, and that were
    refused, with the reason. `commits` is the number of steps of the past that came along.
    """

    added: list[str]
    replaced: list[str]
    same: list[str]
    refused: list[tuple[str, str]]
    commits: int = 0


class Exported(NamedTuple):
    """The result of an export: how many files were written, and which were left out, with the reason."""

    written: int
    left_out: tuple[tuple[str, str], ...]


class Member(NamedTuple):
    """One file of a folder or an archive; with `why` it may not come in.

    `root` is the folder of its layer, "" for the project's own, and `path` is where it is in that.
    """

    path: str
    data: bytes = b""
    why: str = ""
    root: str = ""

    @property
    def name(self) -> str:
        """The path in the archive."""
        return inside(self.root, self.path)


# The files of a project's folder, root by root


class Locations(NamedTuple):
    """The folder of a project, its new place, and the directories beside it; for a team its ledger."""

    source: str
    target: str
    home: str
    state: str
    cache: str
    team: TrustLedger | None = None

    def open_source(self, root: str) -> FolderStore:
        """Open the store of a root where it is."""
        return open_root(self.source, root, checkout_of(self.source, self.home))

    def open_target(self, root: str) -> FolderStore:
        """Open the store of a root where it shall be."""
        return open_root(self.target, root, checkout_of(self.target, self.home))


class RootFiles(NamedTuple):
    """The files of one root with their bytes, and those that cannot be carried, with the reason."""

    files: dict[str, bytes]
    unfit: list[tuple[str, str]]


def list_files(store: FolderStore) -> RootFiles:
    """Read all files of a root; not hidden ones, the catalog, and what is in roots within."""
    files: dict[str, bytes] = {}
    unfit: list[tuple[str, str]] = []
    for place, folders, names in os.walk(store.root):
        prefix = os.path.relpath(place, store.root).replace(os.sep, "/") + "/"
        if prefix == "./":
            prefix = ""
            folders[:] = [name for name in folders if name not in (*INNER_FOLDERS, LOGS_FOLDER)]
        folders[:] = [name for name in folders if not name.startswith(".")]
        links = [name for name in folders if os.path.islink(os.path.join(place, name))]
        for path in (prefix + name for name in (*names, *links) if not name.startswith(".")):
            if path == CATALOG:
                continue
            if not path.endswith((".md", ".ndjson")):
                unfit.append((shown(path), NO_MARKDOWN_REASON))
                continue
            try:
                data = store.read(path).data
            except MemsheafError as error:
                unfit.append((shown(path), str(error)))
                continue
            if len(data) <= READ_LIMIT:
                files[path] = data
            else:
                unfit.append((path, f"it is larger than {READ_LIMIT >> 10} KiB"))
    return RootFiles(dict(sorted(files.items())), sorted(unfit))


def find_ledger(folder: str, root: str, places: Locations) -> TrustLedger | None:
    """Return the ledger of what this machine wrote in a root; None where no other writes."""
    checkout = checkout_of(folder, places.home)
    if not checkout:
        return None if root else places.team
    if not is_log_root(root):
        return TrustLedger(State.of(os.path.join(folder, root), places.state), checkout)
    return TrustLedger(
        State.of(os.path.join(folder, root.removesuffix(LOGS_FOLDER)).rstrip("/"), places.state), checkout
    ).below(f"{LOGS_FOLDER}/")


def select_steps(past: Iterable[Commit], present: Collection[str], names: Mapping[str, str]) -> list[Commit]:
    """Return the steps of texts that are present or were removed for good; under other `names` where they got some.

    A text that the past ends with and that is not there would be taken for one that somebody removed.
    """
    commits = list(past)
    last = {step.path: step.after for commit in commits for step in commit.revisions}
    wanted = {*present, *(path for path, version in last.items() if version == ABSENT)}
    selected = []
    for commit in commits:
        steps = (step for step in commit.revisions if step.path in wanted)
        revisions = tuple(step._replace(path=names.get(step.path, step.path)) for step in steps)
        if revisions:
            selected.append(commit._replace(revisions=revisions))
    return selected


# Export


def export(scopes: Mapping[str, OpenScope], target: str, *, history: bool = False) -> Exported:
    """Write every file of every scope to a new zip; with `history` also the journals.

    Each scope is in the folder by which it is named here; "" for a single one. Files that cannot be read whole are
    left out and named. Those that others wrote are listed for whoever imports it.

    Raises:
        Refused: the target exists already, or its name does not end in .zip.
        StoreFailed: it cannot be written.
    """
    archived: list[tuple[str, bytes]] = []
    left_out: list[tuple[str, str]] = []
    for folder, scope in scopes.items():
        scope.index.look()
        settings = scope.settings
        places = Locations(
            scope.root, "", settings.home, os.path.dirname(scope.state.folder), settings.cache, scope.ledger
        )
        shared = list_shared(places)
        for root in list_roots(places.source):
            place, store = inside(folder, root).removesuffix("/"), places.open_source(root)
            files, unfit = list_files(store)
            left_out += [(inside(place, path), why) for path, why in unfit]
            archived += [(inside(place, path), data) for path, data in files.items()]
            if history and (lines := export_history(store)):
                archived.append((inside(place, SEGMENT_PATH), lines))
            if history and (stones := to_lines(store.buried_all())):
                archived.append((inside(place, TOMBSTONES_PATH), stones))
        if shared:
            archived.append((inside(folder, SHARED_LIST), json.dumps(shared, ensure_ascii=False).encode()))
    count = len(archived)
    if "" not in scopes:
        archived.append(BACKUP_README)
    _write_zip(target, sorted(archived))
    return Exported(count, tuple(left_out))


def list_shared(places: Locations) -> list[str]:
    """Return the files of all roots of a project's folder that others wrote: not written here, nor accepted."""
    shared = []
    for root in list_roots(places.source):
        if ledger := find_ledger(places.source, root, places):
            files = list_files(places.open_source(root)).files
            unknown = ledger.find_unknown((path, version_of(data)) for path, data in files.items())
            shared += [inside(root, path) for path in sorted(unknown)]
    return shared


def _write_zip(target: str, files: Iterable[tuple[str, bytes]]) -> None:
    """Write a new archive, the same bytes for the same files. If that fails, nothing of it is left behind."""
    why = "" if target.endswith(".zip") else f"{target!r} does not end in .zip"
    if os.path.lexists(target):
        why = f"{target!r} exists already"
    if why:
        raise Refused(why, hint="Choose a name that is not there yet, of a .zip file.")
    part = f"{target}.part-{os.urandom(4).hex()}"
    try:
        with ZipFile(part, "x") as archive:
            for path, data in files:
                info = ZipInfo(path, (1980, 1, 1, 0, 0, 0))
                # what packs too well, as a journal of one text over and over, would look like a bomb
                is_bomb = len(data) > 1 << 20 and len(zlib.compress(data, 1)) * MAX_RATIO // 2 < len(data)
                info.compress_type = ZIP_STORED if is_bomb else ZIP_DEFLATED
                info.external_attr = 0o600 << 16
                archive.writestr(info, data)
        os.rename(part, target)
    except OSError as error:
        with suppress(OSError):
            os.unlink(part)
        raise StoreFailed(f"{target!r} cannot be written: {error.strerror or error}") from error


# Reading archives


def read_archive(source: str, *, history: bool = False, below: str = "") -> Iterator[Member]:
    """Yield the memories and events of a folder, a zip or a tar archive, and with `history` the journals.

    With `below`, such as "user/", only what is in that folder of it. The catalog and hidden files are passed over; a
    link in a folder, and a file that is no Markdown, comes with the reason.

    Raises:
        Refused: a name reaches outside, two names are one file, it is damaged, or it is too large.
    """
    seen: dict[str, str] = {}
    total = 0
    for number, (name, load) in enumerate(_open_source(source)):
        if number >= MAX_MEMBERS:
            raise Refused(f"more than {MAX_MEMBERS:,} members")
        name = _require_inside(name)
        if not name.startswith(below):
            continue
        name = name.removeprefix(below)
        is_past = bool(_PAST_FILE.fullmatch(name))
        is_data = name == SHARED_LIST or (is_past and history)
        steps = name.split("/")
        is_hidden = any(step.startswith(".") for step in steps)
        if not is_data and (is_hidden or fold(steps[-1]) == fold(CATALOG)):  # the catalog is made anew
            continue
        if load is None:
            yield Member(name, why=LINK_REASON)
            continue
        if not is_data and not name.lower().endswith((".md", ".ndjson")):
            yield Member(name, why=NO_MARKDOWN_REASON)
            continue
        try:
            root, path = split_root(name)
            if not is_data:
                path = check_stored(path)
        except PathRefused as error:
            yield Member(name, why=str(error))
            continue
        stored = inside(root, path)
        if other := seen.get(fold(stored)):
            raise Refused(f"{other!r} and {stored!r} are one file on some file systems")
        seen[fold(stored)] = stored
        try:
            data = load(MAX_JOURNAL_BYTES if is_data else MAX_MEMORY_BYTES + 1)
        except _DAMAGE_ERRORS as error:
            raise Refused(f"{name!r} cannot be unpacked: {error}") from None
        total += len(data)
        if total > MAX_TOTAL_BYTES:
            raise Refused(f"more than {MAX_TOTAL_BYTES >> 20} MiB of text")
        yield Member(path, data, root=root)


def list_scopes(source: str) -> list[str]:
    """Return the folders of the scopes in an archive of several, such as "user"; [] for one of a single scope."""
    folders: set[str] = set()
    is_backup = False
    for member in read_archive(source):
        if folder := _SCOPE_FOLDER.match(member.name):
            folders.add(folder[1])
        is_backup |= (member.path, member.data) == BACKUP_README
    return sorted(folders) if is_backup else []


def list_folder(source: str) -> Iterator[tuple[str, Load | None]]:
    """Yield the files of a folder, each readable while the folder it is in is held open.

    No link is followed; None stands for its text. Hidden folders are passed over.

    Raises:
        Refused: a folder cannot be read.
    """
    try:
        with Folder.open(source) as root:
            waiting = [""]
            while waiting:
                prefix = waiting.pop()
                inner: list[str] = []
                with walk(root, f"{prefix}any") as (folder, _):
                    for entry in sorted(folder.scan(), key=lambda entry: entry.name):
                        if entry.is_file(follow_symlinks=False):
                            yield prefix + entry.name, partial(read_file, folder, entry.name)
                        elif not entry.is_dir(follow_symlinks=False):
                            yield prefix + entry.name, None
                        elif entry.name == HISTORY and os.path.lexists(
                            f"{source}/{prefix}{HISTORY}/{HISTORY_DATABASE}"
                        ):
                            yield from _list_history(os.path.join(source, prefix), f"{prefix}{HISTORY}/")
                        elif entry.name == HISTORY or not entry.name.startswith("."):
                            inner.append(f"{prefix}{entry.name}/")
                waiting += reversed(inner)
    except PathRefused as error:
        raise Refused(f"{error.path!r} cannot be read: {error.why}") from None
    except OSError as error:
        raise Refused(f"{error.filename or source!r} cannot be read: {error.strerror}") from None


def _list_history(root: str, prefix: str) -> Iterator[tuple[str, Load]]:
    """Yield the history of a folder as it is exported: a file that SQLite has open may not be read as it is."""
    store = FolderStore(root)
    with closing(store):
        yield f"{prefix}journal-000001.jsonl", lambda _: export_history(store)
        yield f"{prefix}tombstones", lambda _: to_lines(store.buried_all())


def export_history(store: FolderStore) -> bytes:
    """Return the commits of a store as lines, oldest first."""
    return b"".join(reversed([encode(commit) for commit in store.history()]))


def _require_inside(name: str) -> str:
    """Return the name of a member without a leading `./`. Raises Refused if it reaches outside."""
    while name.startswith("./"):
        name = name[2:]
    if not name or re.match(r"/|.:", name) or re.search(r"[\\\0]", name) or ".." in name.split("/"):
        raise Refused(f"the member {name[:200]!r} reaches outside")
    return name


def _open_source(source: str) -> Iterator[tuple[str, Load | None]]:
    if os.path.isdir(source):
        yield from list_folder(source)
        return
    if not os.path.exists(source):
        raise Refused(f"there is no {source!r}", hint="Name a folder, a zip or a tar archive.")
    try:
        with open_plain(source) as file:
            yield from _list_zip(file) if zipfile.is_zipfile(file) else _list_tar(file)
    except _DAMAGE_ERRORS as error:
        raise Refused(f"{source!r} cannot be read: {getattr(error, 'strerror', '') or error}") from None


def _list_zip(file: IO[bytes]) -> Iterator[tuple[str, Load]]:
    if _size_of_directory(file) > MAX_DIRECTORY_BYTES:
        raise Refused("its list of members is too large")
    with ZipFile(file) as archive:
        members = archive.infolist()
        unpacked = sum(member.file_size for member in members)
        if unpacked > _unpacked_limit(sum(member.compress_size for member in members)):
            raise Refused(f"it would unpack to {unpacked:,} bytes")
        for member in members:
            if not member.filename:
                raise Refused("a member has no name")
            if stat.S_ISLNK(member.external_attr >> 16):
                raise Refused(f"{member.filename!r} is a link")
            if not member.is_dir():
                yield member.orig_filename, partial(_read_zipped, archive, member)


def _read_zipped(archive: ZipFile, member: ZipInfo, limit: int) -> bytes:
    with archive.open(member) as file:
        return file.read(limit)


def _unpacked_limit(packed: int) -> int:
    return min(MAX_TOTAL_BYTES, max(1 << 20, MAX_RATIO * packed))


def _size_of_directory(file: IO[bytes]) -> int:
    """Return the size of a zip's list of members, as its last record gives it: `ZipFile` reads that list whole."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - (1 << 16) - 22))
    end = file.read()
    record = end.rfind(b"PK\5\6")
    return int.from_bytes(end[record + 12 : record + 16], "little")


def _list_tar(packed: IO[bytes]) -> Iterator[tuple[str, Load]]:
    packed.seek(0)
    is_packed = packed.read(2) == b"\x1f\x8b"
    packed.seek(0)
    with TemporaryFile() if is_packed else packed as file:
        if is_packed:
            _unpack(packed, file)
        try:
            archive = tarfile.TarFile(fileobj=file)
        except tarfile.ReadError:
            raise Refused("it is not a folder, a zip, a tar or a tar.gz archive") from None
        for member in archive:
            if member.isdir():
                continue
            if not member.isreg():
                raise Refused(f"{member.name!r} is a link or a device")
            yield member.name, partial(_read_tarred, archive, member)


def _unpack(packed: IO[bytes], unpacked: IO[bytes]) -> None:
    """Write what is in a gzip file to another. Raises Refused if that is too much."""
    limit = _unpacked_limit(os.fstat(packed.fileno()).st_size)
    with gzip.open(packed) as file:
        while data := file.read(1 << 20):
            unpacked.write(data)
            if unpacked.tell() > limit:
                raise Refused(f"it would unpack to more than {limit:,} bytes")
    unpacked.seek(0)


def _read_tarred(archive: tarfile.TarFile, member: tarfile.TarInfo, limit: int) -> bytes:
    file = archive.extractfile(member)
    data = file.read(limit) if file else b""
    if len(data) < min(member.size, limit):
        raise EOFError("it was cut short")
    return data


# Import


def take_in(
    keeper: OpenScope,
    source: str,
    *,
    replace: bool = False,
    dry_run: bool = False,
    allow: Allow = STRICT,
    history: bool = False,
    below: str = "",
    also: str = "",
) -> Imported:
    """Import a folder or an archive, or what is `below` a folder of it, one commit a root.

    Files that are refused stay out and are named. So does one that says what a memory of the scope says already,
    unless `allow` says otherwise. With `history`, the past of what comes in comes along. `also` ends the reason of
    each commit.

    Raises:
        Refused: it reaches outside, or is too large; nothing was imported.
    """
    why = f"import {os.path.basename(os.path.abspath(source))}{also}"
    if not allow.secrets:
        require_no_secret(None, None, why)
    by_root: dict[str, list[Member]] = {"": []}
    shared: frozenset[str] = frozenset()
    for member in read_archive(source, history=history, below=below):
        if member.name == SHARED_LIST:
            try:
                shared = frozenset(json.loads(member.data))
            except (ValueError, TypeError, RecursionError):
                raise Refused(f"its {SHARED_LIST} cannot be understood") from None
        else:
            by_root.setdefault(member.root, []).append(member)
    done = Imported([], [], [], [])
    imports = [_RootImport(keeper, root, shared, done, replace=replace, allow=allow) for root in by_root]
    for part in imports:
        part.plan(by_root[part.root])
    if dry_run:
        return done
    return done._replace(commits=sum(part.carry_out(why) for part in imports))


class _RootImport:
    """The import into one root: the scope's own, where every gate of its memories stands, or one inside it.

    What becomes of each file is added to `done`.
    """

    def __init__(
        self,
        keeper: OpenScope,
        root: str,
        shared: Collection[str],
        done: Imported,
        *,
        replace: bool,
        allow: Allow,
    ) -> None:
        self.root = root
        self._done = done
        self._keeper = keeper
        self._shared = shared
        self._replace = replace
        self._allow = allow
        self._store = keeper.store
        if root:
            self._store = open_root(keeper.store.root, root, keeper.store.checkout)
            if not keeper.read_only:
                self._store.recover()
        self._is_empty = False
        self._files: list[WrittenFile] = []
        self._past: list[Commit] = []
        self._stones: list[Tombstone] = []

    def plan(self, members: Sequence[Member]) -> None:
        """Decide about each file."""
        self._keeper.index.look()
        self._is_empty = not self._keeper.index.rows()
        for member in members:
            try:
                if member.why:
                    raise TextRefused(member.why)
                if member.path.startswith(f"{HISTORY}/"):
                    self._take_past(member)
                    continue
                if self.root and not self.root.startswith(LOGS_FOLDER) and self._keeper.scope.layer != "project":
                    raise TextRefused(f"{member.name!r} belongs to a project; import it into one")
                self._take(member)
            except (TextRefused, Exists, ReadOnly, PathRefused) as error:
                name = without_secrets(member.name) if isinstance(error, SecretFound) else member.name
                self._done.refused.append((name, str(error)))

    def _take(self, member: Member) -> None:
        """Plan the change that a file makes. Raises TextRefused, Exists, ReadOnly, PathRefused."""
        present = None
        if self._is_of_scope(member.path):
            present = self._keeper.find(member.path)
        else:
            with suppress(MemsheafError):
                present = parse(member.path, self._store.read(member.path).data)
        memory = self._mark(member, present)
        if present is None:
            names = self._done.added
        elif present.data == memory.data:
            names = self._done.same
        else:
            names = self._done.replaced
            self._refuse_replacing(present, memory, member.path)
        if not self._allow.secrets:
            require_no_secret(memory, present)
        if present is None and memory.state == "ok" and not self.root and not self._allow.anyway:
            self._keeper.check_gates(memory, refuse_personal)
            if not self._is_empty:
                self._keeper.check_gates(memory, refuse_duplicate)
        names.append(member.name)
        self._files.append(WrittenFile(memory.path, memory, present))

    def _mark(self, member: Member, present: Memory | None) -> Memory:
        """Return the memory that a file makes here: unconfirmed if others wrote it, and never the user's own word."""
        known = present or parse(member.path, member.data)  # what it lacks, it lacked where it was made
        memory = check_import(known.path, member.data, known)
        is_new = present is None or present.data != member.data
        if is_new and member.name in self._shared:
            if memory.state != "ok":
                why = "was somebody else's where it was exported, and has no header to say so"
                raise TextRefused(f"{memory.path!r} {why}")
            memory = parse(memory.path, edit_text(memory.text, fields={"trust": "unconfirmed"}).encode())
        if not self.root:
            self._keeper.check_gates(memory, refuse_context, by="import")
        if is_new and memory.source == "user":  # nobody can say that for you
            memory = set_origin(memory, None, "import")
        return memory

    def _refuse_replacing(self, present: Memory, memory: Memory, path: str) -> None:
        if not self._replace:
            raise Exists(present.path)
        if self.root:
            return
        if check_path(path) != check_path(present.path):
            raise Exists(present.path, f"{path!r} would be the same file on some systems")
        if is_fact(present.path) and content_of(memory) != content_of(present):
            raise fact_edit_error(present.path)

    def carry_out(self, why: str) -> int:
        """Carry out the plan; return how many steps of the past came along."""
        self._keeper.require_writable()
        if not self._files and not self._stones:
            return 0
        commits = 0
        if self._past or self._stones:
            present = {file.path for file in self._files}
            commits = self._store.graft(select_steps(self._past, present, {}), self._stones)
        own = [file for file in self._files if self._is_of_scope(file.path)]
        others = [file.change for file in self._files if not self._is_of_scope(file.path)]
        if own:
            self._keeper.commit(own, why, by="import", allow=Allow(secrets=True, anyway=True))
        if others:
            self._store.commit(others, by="import", why=why)
        return commits

    def _is_of_scope(self, path: str) -> bool:
        """Return True for a memory of the scope itself, rather than an event or a file of a root inside it."""
        return not self.root and path.endswith(".md")

    def _take_past(self, member: Member) -> None:
        if member.path == TOMBSTONES_PATH:
            self._stones += from_lines(member.data)
            return
        commits, unreadable = read_lines(member.data)
        if unreadable:
            self._done.refused.append((member.name, f"{unreadable} lines of it cannot be read"))
        if not self._allow.secrets:
            commits = [_without_secrets(commit) for commit in commits]
        self._past += commits


def _without_secrets(commit: Commit) -> Commit:
    """Return a commit of another journal without the texts that hold secrets: as if they were past retention."""

    def clean(data: bytes | None) -> bytes | None:
        return None if data and any(new_secrets(data.decode("utf-8", "replace"), "")) else data

    steps = tuple(step._replace(old=clean(step.old), new=clean(step.new)) for step in commit.revisions)
    return commit._replace(why="" if any(new_secrets(commit.why, "")) else commit.why, revisions=steps)


# Erasure


class Proof(NamedTuple):
    """The result of an erasure: what was erased, where we looked, and what is left. `left` is empty when it is gone.

    `names` are those the memory has had: the journal of former ones is erased with it.
    `elsewhere` names other memories that say the same words, and files of tasks and sessions inside: they are not
    this one's to erase. `git` says where the repository around it has the text still, and `remedy` how to remove it.
    With a hub, `erasures` are the ids under which its `machines` report that they erased it, too.
    """

    path: str
    names: tuple[str, ...]
    versions: int
    files: int
    bytes: int
    left: tuple[str, ...]
    elsewhere: tuple[str, ...]
    git: tuple[str, ...] = ()
    remedy: tuple[str, ...] = ()
    erasures: tuple[str, ...] = ()
    machines: tuple[Machine, ...] = ()

    def join(self, other: Proof) -> Proof:
        """Return one proof of two erasures, under the path of this one."""
        sums = {field: getattr(self, field) + getattr(other, field) for field in self._fields[2:]}
        return self._replace(names=tuple(dict.fromkeys(self.names + other.names)), **sums)

    @property
    def waiting(self) -> tuple[Machine, ...]:
        """The machines of the hub that have not reported yet that they erased it, and are not lost."""
        waiting = []
        for machine in self.machines:
            reported = {name for name, _ in machine.erased}
            if not machine.is_lost and not reported.issuperset(self.erasures):
                waiting.append(machine)
        return tuple(waiting)

    @property
    def gone(self) -> bool:
        """True if no trace was found."""
        return not self.left and not self.git


def erase(scope: OpenScope, path: str, *, others: Iterable[OpenScope] = ()) -> Proof:
    """Remove a memory of a scope and all its versions for good, and prove it; with a hub, everywhere.

    It is also erased from the history of the `others`, which it may have been moved from. What has had such a
    text and is there today is another memory: it stays, and the proof names it.

    Raises:
        NotFound: neither the files nor the history know it.
        HubUnreachable, HubRefused: nothing was erased.
    """
    steps = (step for commit in scope.log(path) for step in commit.revisions)
    versions = {version for step in steps for version in (step.before, step.after) if version}
    proof = _erase_on_hub(scope, path)
    for other in others:
        where = scope if other.root == scope.root else other
        steps = (step for commit in where.log() for step in commit.revisions)
        for name in sorted({step.path for step in steps if not versions.isdisjoint((step.before, step.after))}):
            label = f"{where.name}:{name}"
            if where.find(name):
                proof = proof._replace(elsewhere=(*proof.elsewhere, label))
                continue
            try:
                proof = proof.join(erase(where, name))
            except MemsheafError as error:
                proof = proof._replace(left=(*proof.left, f"{label} ({error})"))
    return proof


def _erase_on_hub(scope: OpenScope, path: str) -> Proof:
    """Erase a memory here and on the hub, report it, and tell which machines have done so."""
    scope.require_person()
    store = scope.store
    if not isinstance(store, Replica):
        return _erase_here(scope, path)
    try:
        _synchronize(scope, store)
        before = store.state().erased
        proof = _erase_here(scope, path)
    except HubUnreachable as error:
        error.hint = "Nothing was erased: what all machines forget, the hub has to know."
        raise
    now = store.state()
    erasures = tuple(erasure.id for erasure in now.erased if erasure not in before)
    try:
        if now.erasing:
            raise HubUnreachable("the hub does not answer")
        store.erasures.report(scope.clock(), dict.fromkeys(erasures, ", ".join(proof.left)))
        return proof._replace(erasures=erasures, machines=tuple(store.hub.users()[1]))
    except HubUnreachable as error:
        return proof._replace(left=(*proof.left, f"{store.settings.shown} ({error}; the next sync tells it)"))


def _erase_here(scope: OpenScope, path: str) -> Proof:
    """Remove a memory and all its versions, wherever this machine has them, and search what is left.

    Raises:
        NotFound: neither the files nor the journal know it.
    """
    scope.require_writable()
    store, index, path, state = scope.store, scope.index, scope.spell(path), scope.state
    cache = os.path.dirname(index.files()[0])
    steps = (step for commit in store.trail(path) for step in commit.revisions)
    texts = {data for step in steps for data in (step.old, step.new) if data}
    if present := scope.find(path):
        texts.add(present.data)
    for place in glob(f"{escape(cache)}/start-*.json"):  # an earlier version wrote these
        with suppress(FileNotFoundError):
            os.unlink(place)
    # first what is kept beside the memories: once the journal is clean, nobody knows what to look for
    _forget_elsewhere(scope, sorted(texts), [path] if texts else ())
    index.ready()
    try:
        erased = store.erase(path, by=scope.by)
    except NotFound:  # or it was erased, and something kept us from seeing to the rest
        index.purge([path])
        raise
    _forget_elsewhere(scope, erased.texts, erased.names)
    if scope.ledger:
        scope.ledger.forget(erased.names)
    index.purge(erased.names)
    index.look()
    index.close()  # to read the files of an open database would end the locks that SQLite has on them
    directory = os.path.dirname(state.folder)
    drafts = (place for folder in glob(f"{escape(gettempdir())}/memsheaf-*") for place in _walk_files(folder))
    caches = (place for place in _walk_files(cache) if not re.search(_OTHER_INDEX, place))
    kept = (place for place in _walk_files(directory) if os.path.basename(place) not in DATABASE_FILES)
    others = {*index.files(), *_daily_log(scope).files(), *kept, *caches, *drafts}
    naming = {*_walk_files(state.folder), *glob(f"{escape(directory)}/*.log")}
    return _search_traces(store, erased, others, naming, state=state)


def synchronize(scope: OpenScope, *, again: bool = False) -> Synced:
    """Push what waits here and bring what other machines pushed; `again` as if it were the first time.

    Raises:
        ScopeRefused: the scope has no hub.
        HubUnreachable, HubRefused, HubRestored, Busy.
    """
    store = scope.store
    if not isinstance(store, Replica) or not has_hub(scope.root, scope.settings.home):
        error = ScopeRefused(f"{scope.scope} has no hub")
        error.hint = f"`memsheaf hub add URL -s {scope.scope}` gives it one."
        raise error
    return _synchronize(scope, store, again=again)


def _synchronize(scope: OpenScope, store: Replica, *, again: bool = False) -> Synced:
    scope.require_writable()
    scope.index.look()  # what a person edited is in the journal, and so among what waits
    eraser = store.eraser
    store.eraser = lambda name: _erase_here(scope, name).left
    try:
        synced = store.rejoin() if again else store.sync()
    finally:
        store.eraser = eraser
    scope.index.look()
    now = store.state()
    is_other = now.machine != store.settings.machine
    if synced.whole or now.proofs or is_other or scope.clock() - now.reported_at > REPORT_SECONDS:
        with suppress(HubUnreachable, HubRefused):  # a later sync reports
            store.erasures.report(scope.clock())
    return synced._replace(is_copy=is_other and now.machine != "")


def _daily_log(scope: OpenScope) -> DailyLog:
    return DailyLog(scope.root, scope.state, ledger=scope.ledger, clock=scope.clock)


def _forget_elsewhere(scope: OpenScope, texts: Sequence[bytes], names: Sequence[str]) -> None:
    """Take what an erased memory said, and its names, out of what is kept beside the memories of all scopes."""
    keep = make_erasure_filter(texts)
    state = scope.state
    _daily_log(scope).purge(keep)
    _forget_in_hosts(os.path.dirname(state.folder), keep, names)
    for other in state.beside():
        other.drop_old_files()
        spill.forget(other, texts)
        conversation_file.forget(other, texts, names)
        forget_waiting(other, texts, names, clock=scope.clock)
        own_names = names if other.folder == state.folder else ()
        recall_log.forget(other, texts, keep, own_names)
        drop_questions(other, own_names, keep)


def _forget_in_hosts(directory: str, keep: Callable[[str], bool], names: Sequence[str]) -> None:
    """Take an erased memory out of what is known of hosts' conversations, and out of the log of failures."""

    def may_stay(text: object) -> bool:
        return keep(str(text)) and not any(name in str(text) for name in names)

    conversations = State(os.path.join(directory, HOSTS_FOLDER))
    conversations.drop_old_files()
    conversations.purge_notes(may_stay)
    logs = State(directory)
    for name in fnmatch.filter(logs.names(), "*.log"):
        lines = (logs.read(name) or b"").decode("utf-8", "replace").split("\n")
        if not all(map(may_stay, lines)):
            logs.write(name, "\n".join(filter(may_stay, lines)).encode())


# The search for traces of an erased memory. Its texts are cut into lines; those that are long enough to prove
# something, and that no other memory says, may be in no file.


def _search_traces(
    store: FolderStore, erased: Erased, others: Collection[str], naming: Collection[str], *, state: State
) -> Proof:
    """Read every file of a scope and each of `others` once, and look for the erased memory in them.

    In the files that are `naming` memories its bare name is a trace, too. When the scope lies in a checkout, the
    objects of git are searched, too. So are those of the copy of a hub, and the database of the `state`.
    """
    sizes: list[int] = []
    left: list[str] = []
    elsewhere: set[str] = set()

    def name_of(place: str) -> str:
        root = store.journals if place.startswith(store.journals + os.sep) else store.root
        return os.path.relpath(place, root).replace(os.sep, "/")

    def read(place: str) -> bytes:
        """Return the bytes of a file; not of a history: to read it would end the locks that SQLite has on it."""
        if os.path.basename(place) in HISTORY_FILES:
            return b""
        try:
            with open(place, "rb") as file:
                data = file.read()
        except FileNotFoundError:
            return b""
        except OSError:
            left.append(f"{name_of(place)} (cannot be read)")
            return b""
        sizes.append(len(data))
        return data

    def is_memory(name: str) -> bool:
        folder = name.partition("/")[0].casefold()
        is_file = name.endswith(".md") and not name.startswith(".") and name != CATALOG
        return is_file and folder not in RESERVED_FOLDERS

    folders = dict.fromkeys((store.journals, store.root))
    places = {place for place in others if f"{os.sep}{COPY}{os.sep}" not in place}
    places.update(place for folder in folders for place in _walk_files(folder, RESERVED_FOLDERS))
    memories = sorted(place for place in places if is_memory(name_of(place)))
    pieces = _find_pieces(erased)
    names = {form for name in erased.names if len(name) >= MIN_PIECE_BYTES for form in _spell(name.encode())}
    for place in memories:
        data = read(place)
        if shared := {piece for piece in pieces if piece in data}:
            elsewhere.add(name_of(place))
            pieces -= shared
    for place in sorted(places.difference(memories)):
        data = read(place)
        if (place in naming and any(form in data for form in names)) or any(piece in data for piece in pieces):
            left.append(name_of(place))
    for place in (place for folder in folders for name in INNER_FOLDERS for place in _walk_files(f"{folder}/{name}")):
        data = read(place)
        if any(piece in data for piece in pieces):
            elsewhere.add(name_of(place))
    for root in list_roots(store.journals):
        inner = open_root(store.root, root, store.checkout) if root else store
        why, others = inner.find_traces(() if root else erased.versions, pieces)
        place = f"{root}/{HISTORY}/{HISTORY_DATABASE}".lstrip("/")
        if root not in ("", LOGS_FOLDER):
            elsewhere.update([place] if why or others else [])
        elif why or (root and others):
            left.append(f"{place} ({why or 'it has the text'})")
        else:
            elsewhere.update(others)
    if why := state.find_traces(pieces):
        left.append(f"{DATABASE} ({why})")
    copy = os.path.join(state.folder, COPY)
    if why := find_in_bare(copy, pieces):
        left.append(f"{name_of(copy)} ({why})")
    git = find_in_checkout(store.checkout, pieces) if store.checkout else []
    return Proof(
        erased.path,
        erased.names,
        len(erased.versions),
        len(sizes),
        sum(sizes),
        tuple(left),
        tuple(sorted(elsewhere)),
        tuple(git),
        _describe_remedy(store, erased) if git else (),
    )


def _describe_remedy(store: FolderStore, erased: Erased) -> tuple[str, ...]:
    """Return how the text is removed from a repository."""
    root = os.path.realpath(store.root)
    places = sorted(os.path.relpath(os.path.join(root, name), store.checkout) for name in erased.names)
    paths = " ".join(f"--path {quote(place)}" for place in places)
    return (
        f"git filter-repo --invert-paths {paths}   # rewrites every commit that had the file",
        "git filter-repo --replace-text FILE   # for the text in other files and in messages; FILE has its lines",
        "git reflog expire --expire=now --all && git gc --prune=now",
        "git push --force --all && git push --force --tags   # and everybody who has a clone makes it anew",
        "If it was a secret, change it where it is in use: whoever had a copy has it still.",
    )


def _find_pieces(erased: Erased) -> set[bytes]:
    """Return the lines of the erased texts that are long enough to be telling, in all spellings.

    Of a header line with words it is the value without its key. Links to the memory are pieces, too.
    """
    links = {f"]({target(name)})".encode() for name in erased.names}
    pieces: set[bytes] = set()
    for line in {line.strip() for text in erased.texts for line in text.split(b"\n")}:
        key, _, value = line.partition(b": ")
        if key in _WORDED_KEYS and len(value.split()) >= MIN_TITLE_WORDS:
            pieces.add(value)
        if not line.startswith((b"```", b"~~~", b"#")) and not line.endswith(b":**"):
            pieces.add(line)
    telling = (piece for piece in pieces if len(piece) >= MIN_PIECE_BYTES and not piece.startswith(_COMMON_KEYS))
    return links.union(*map(_spell, telling))


def _spell(piece: bytes) -> set[bytes]:
    """Return a piece of text as it is, as JSON spells it with and without escapes, and as JSON in JSON does."""
    texts = {piece.decode("utf-8", "replace")}
    for _ in range(2):  # a call's arguments are JSON in a line of JSON
        texts |= {json.dumps(text, ensure_ascii=ascii)[1:-1] for text in texts for ascii in (True, False)}
    return {text.encode("utf-8", "replace") for text in texts} | {piece}


def _walk_files(root: str, skip: Collection[str] = ()) -> Iterator[str]:
    """Yield the files below a folder, except in those of its folders that are to `skip`, and sockets and pipes."""
    for folder, folders, names in os.walk(root):
        if folder == root:
            folders[:] = [name for name in folders if name.casefold() not in skip]
        places = (os.path.join(folder, name) for name in names)
        yield from (place for place in places if os.path.isfile(place) or not os.path.exists(place))
