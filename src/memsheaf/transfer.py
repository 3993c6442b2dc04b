"""Export and import: memories as a folder, a zip or a tar archive.

An export writes a folder or a zip; an import also reads the tar archives that earlier versions wrote. The layout is
that of a project's folder, with the journals in `.history/`; an archive of several scopes has a folder for each.
Names in an archive are hostile until checked, sizes are capped before a byte is unpacked, modes and links are not
taken over.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from typing import BinaryIO, NamedTuple
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

from memsheaf.errors import (
    ArchiveRefused,
    CreateOnly,
    Exists,
    MemsheafError,
    NotFound,
    PathRefused,
    SecretFound,
    StoreFailed,
    TextRefused,
    hinted,
)
from memsheaf.frontmatter import edited
from memsheaf.gates import content_of, find_personal, require_no_secret
from memsheaf.guard.paths import CATALOG, check_path, check_stored, fold, is_fact
from memsheaf.guard.secrets import new_secrets, without_secrets
from memsheaf.memory import LIMIT, STRICT, Allow, Memory, parse
from memsheaf.open_scope import OpenScope
from memsheaf.project_roots import LOGS, Locations, apart, inside, ledger_of, list_files, open_root, roots, steps_of
from memsheaf.scope import open_plain
from memsheaf.store import ABSENT, HISTORY, Change, Commit, version_of
from memsheaf.store.journal_lines import decode, encode
from memsheaf.store.safe_dir import Folder, read_file, walk
from memsheaf.store.tombstones import Tombstone, from_lines, to_lines
from memsheaf.text_edits import checked_import, vouched

MAX_MEMBERS = 200_000
MAX_TOTAL_BYTES = 1 << 30
MAX_RATIO = 200  # unpacked to packed, past the first megabyte
MAX_DIRECTORY_BYTES = 32 << 20
MAX_JOURNAL_BYTES = 256 << 20  # of one segment
SEGMENT = f"{HISTORY}/journal-000001.jsonl"
STONES = f"{HISTORY}/tombstones"
BACKUP = (
    "README.md",
    b"# Memories of memsheaf\n\nOne folder for each scope. `memsheaf import` reads this file or folder back.\n",
)  # marks an archive of several scopes
SHARED = ".shared.json"  # lists the members that came with a repository, and so are not vouched for by the user
LINK = "it is a link, which is not followed, or no plain file"
NO_MARKDOWN = "it is no Markdown"
_SCOPE = re.compile(r"(user|(?:agents|team|projects)/[^/.][^/]*)/")  # the folder of one in an archive of several
_PAST = re.compile(r"journal-[0-9]{6}\.jsonl|tombstones")
_DAMAGED = (
    *(zipfile.BadZipFile, tarfile.TarError, zlib.error, struct.error, EOFError, OSError, ValueError),
    *(LookupError, RuntimeError, NotImplementedError, PathRefused),
)
"""What unpacking raises when an archive is damaged, lies, or is locked with a password."""

Load = Callable[[int], bytes]  # gives the bytes of a member, so many at most


class Imported(NamedTuple):
    """What an import did: paths that came in, that were the same already, and that were refused, with why.

    `commits` is how many steps of the past came along.
    """

    added: Sequence[str]
    replaced: Sequence[str]
    same: Sequence[str]
    refused: Sequence[tuple[str, str]]
    commits: int = 0


class Exported(NamedTuple):
    """What an export did: how many files were written, and which were left out, with why."""

    written: int
    left_out: tuple[tuple[str, str], ...]


class Member(NamedTuple):
    """One file of a folder or an archive; with `why` it may not come in. `root` is the folder of its layer, "" for
    the project's own, and `path` is where it is in that."""

    path: str
    data: bytes = b""
    why: str = ""
    root: str = ""

    @property
    def name(self) -> str:
        """The path in the archive."""
        return inside(self.root, self.path)


def export(
    scopes: Mapping[str, Locations], target: str, *, history: bool = False, only: Collection[str] = ()
) -> Exported:
    """Write every file of every layer, or `only` some of a scope itself, to a new zip or folder.

    Each scope has a folder in it, by which it is named here; "" for a single one. With `history` also the journals.
    What cannot be read whole is left out and named. What others wrote is named for who imports it.

    Raises:
        ArchiveRefused: the target exists already.
        StoreFailed: it cannot be written.
    """
    files, left_out = [BACKUP], list[tuple[str, str]]()
    for folder, places in scopes.items():
        missing: list[tuple[str, str]] = []
        files += [(inside(folder, name), data) for name, data in _outgoing(places, history, missing, only)]
        left_out += [(inside(folder, path), why) for path, why in missing]
    write_archive(target, files[1:] if "" in scopes else files)
    return Exported(len(files) - 1, tuple(left_out))


def shared(places: Locations) -> Iterator[str]:
    """Yield the files of all roots of a project's folder that others wrote: not written here, nor accepted."""
    for root in roots(places.source):
        if ledger := ledger_of(places.source, root, places):
            files = list_files(places.leaving(root)).files
            yield from (
                inside(root, path) for path, data in files.items() if not ledger.knows(path, version_of(data))
            )


def _outgoing(
    places: Locations, history: bool, left_out: list[tuple[str, str]], only: Collection[str]
) -> Iterator[tuple[str, bytes]]:
    for prefix in roots(places.source) if not only else ("",):
        store = places.leaving(prefix)
        found = list_files(store)
        for path in set(only) - found.files.keys():  # one that was asked for is not left out in silence
            why = dict(found.unfit).get(path)
            raise PathRefused(path, why) if why else NotFound(path)
        left_out += [(inside(prefix, path), why) for path, why in found.unfit if not only]
        yield from ((inside(prefix, path), data) for path, data in found.files.items() if not only or path in only)
        if history:
            if lines := [encode(commit, "") for commit in store.history()]:
                yield inside(prefix, SEGMENT), b"".join(reversed(lines))
            if stones := to_lines(store.buried_all()):
                yield inside(prefix, STONES), stones
    if theirs := [path for path in shared(places) if not only or path in only]:
        yield SHARED, json.dumps(theirs, ensure_ascii=False).encode()


def write_archive(target: str, files: Iterable[tuple[str, bytes]]) -> None:
    """Write memories to a new `.zip` or folder, the same bytes for the same memories.

    Raises:
        ArchiveRefused: the target exists already, or has the name of a tar archive.
        StoreFailed: it cannot be written; nothing of it is left behind.
    """
    if os.path.lexists(target):
        raise ArchiveRefused(f"{target!r} exists already")
    if target.endswith((".tar", ".tar.gz", ".tgz")):
        raise ArchiveRefused("no tar archive is written")
    ordered = sorted(files)
    part = f"{target.rstrip(os.sep)}.part-{os.urandom(4).hex()}"
    try:
        if target.endswith(".zip"):
            with ZipFile(part, "x", ZIP_DEFLATED) as archive:
                for path, data in ordered:
                    info = ZipInfo(path, (1980, 1, 1, 0, 0, 0))
                    # what packs too well, as a journal of one text over and over, would look like a bomb to `read`
                    is_bomb = len(data) > 1 << 20 and len(zlib.compress(data, 1)) * MAX_RATIO // 2 < len(data)
                    info.compress_type = ZIP_STORED if is_bomb else ZIP_DEFLATED
                    info.external_attr = 0o600 << 16
                    archive.writestr(info, data)
        else:
            os.mkdir(part, 0o700)
            for path, data in ordered:
                place = os.path.join(part, *path.split("/"))
                os.makedirs(os.path.dirname(place), 0o700, exist_ok=True)
                with open(place, "xb") as file:
                    file.write(data)
        os.rename(part, target)
    except OSError as error:
        shutil.rmtree(part, ignore_errors=True)
        with suppress(OSError):
            os.unlink(part)  # an archive is a file
        raise StoreFailed(f"{target!r} cannot be written: {error.strerror or error}") from error


def read_archive(source: str, *, history: bool = False, below: str = "") -> Iterator[Member]:
    """Go through the memories and events of a folder, a zip or a tar archive, and with `history` the journals.

    With `below`, such as "user/", only what is in that folder of it.

    The catalog and what is hidden is passed over; a link in a folder, and what is no Markdown, comes with the reason.

    Raises:
        ArchiveRefused: a name reaches outside, two names are one file, it is damaged, or it is too large.
    """
    seen: dict[str, str] = {}
    total = 0
    if os.path.isdir(source):
        members = folder_files(source)
    elif not os.path.exists(source):
        raise hinted(ArchiveRefused(f"there is no {source!r}"), "Name a folder, a zip or a tar archive.")
    else:
        members = _from_file(source)
    for number, (name, load) in enumerate(members):
        if number >= MAX_MEMBERS:
            raise ArchiveRefused(f"more than {MAX_MEMBERS:,} members")
        name = _inside(name)
        if not name.startswith(below):
            continue
        name = name.removeprefix(below)
        folder, _, base = name.rpartition("/")
        is_past = folder.split("/")[-1] == HISTORY and bool(_PAST.fullmatch(base))
        is_data = is_past or name == SHARED
        steps = name.split("/")  # what is hidden is not for us, nor is the catalog, which is made anew
        is_ours = not any(step.startswith(".") for step in steps) and fold(steps[-1]) != fold(CATALOG)
        if not (is_ours or (history and is_past) or name == SHARED):
            continue
        if load is None or not (is_data or name.lower().endswith((".md", ".ndjson"))):
            yield Member(name, why=LINK if load is None else NO_MARKDOWN)
            continue
        try:
            root, path = apart(name)
            path = path if is_data else check_stored(path)
        except PathRefused as error:
            yield Member(name, why=str(error))
            continue
        stored = inside(root, path)
        if other := seen.get(fold(stored)):
            raise ArchiveRefused(f"{other!r} and {stored!r} are one file on some file systems")
        seen[fold(stored)] = stored
        try:
            data = load(MAX_JOURNAL_BYTES if is_data else LIMIT + 1)
        except _DAMAGED as error:
            raise ArchiveRefused(f"{name!r} cannot be unpacked: {error}") from None
        total += len(data)
        if total > MAX_TOTAL_BYTES:
            raise ArchiveRefused(f"more than {MAX_TOTAL_BYTES >> 20} MiB of text")
        yield Member(path, data, root=root)


def list_scopes(source: str) -> list[str]:
    """Return the folders of the scopes in an archive of several, such as "user"; [] for one of a single scope."""
    members = [*read_archive(source)]
    found = {found[1] for member in members if (found := _SCOPE.match(member.name))}
    return sorted(found) if any(member[:2] == BACKUP for member in members) else []


def _inside(name: str) -> str:
    """The name of a member without a leading `./`. Raises ArchiveRefused when it reaches outside."""
    while name.startswith("./"):
        name = name[2:]
    steps = name.split("/")
    drive = len(name) > 1 and name[1] == ":"
    if not name or "\\" in name or "\0" in name or name.startswith("/") or ".." in steps or drive:
        raise ArchiveRefused(f"the member {name[:200]!r} reaches outside")
    return name


def folder_files(source: str) -> Iterator[tuple[str, Load | None]]:
    """The files of a folder, each read while the folder it is in is held open: no link is followed, and None stands
    for one. Hidden folders are passed over.

    Raises:
        ArchiveRefused: a folder cannot be read.
    """
    try:
        with Folder.open(source) as root:
            waiting = [""]
            while waiting:
                prefix = waiting.pop()
                with walk(root, f"{prefix}any") as (folder, _):
                    found = sorted(folder.scan(), key=lambda entry: entry.name)
                    for entry in found:
                        if not entry.is_dir(follow_symlinks=False):
                            is_file = entry.is_file(follow_symlinks=False)
                            yield prefix + entry.name, partial(read_file, folder, entry.name) if is_file else None
                inner = [entry.name for entry in found if entry.is_dir(follow_symlinks=False)]
                shown = (name for name in reversed(inner) if name == HISTORY or not name.startswith("."))
                waiting += [f"{prefix}{name}/" for name in shown]
    except PathRefused as error:
        raise ArchiveRefused(f"{error.path!r} cannot be read: {error.why}") from None
    except OSError as error:
        raise ArchiveRefused(f"{error.filename or source!r} cannot be read: {error.strerror}") from None


def _from_file(source: str) -> Iterator[tuple[str, Load]]:
    try:
        with open_plain(source) as file:
            yield from _from_zip(file) if zipfile.is_zipfile(file) else _from_tar(file)
    except _DAMAGED as error:
        raise ArchiveRefused(f"{source!r} cannot be read: {getattr(error, 'strerror', '') or error}") from None


def _from_zip(file: BinaryIO) -> Iterator[tuple[str, Load]]:
    if _size_of_directory(file) > MAX_DIRECTORY_BYTES:
        raise ArchiveRefused("its list of members is too large")
    with ZipFile(file) as archive:
        members = archive.infolist()
        unpacked, packed = sum(m.file_size for m in members), sum(m.compress_size for m in members)
        if unpacked > MAX_TOTAL_BYTES or unpacked > max(1 << 20, MAX_RATIO * packed):
            raise ArchiveRefused(f"it would unpack to {unpacked:,} bytes")
        for member in members:
            if not member.filename:
                raise ArchiveRefused("a member has no name")
            if member.is_dir():
                continue
            if stat.S_ISLNK(member.external_attr >> 16):
                raise ArchiveRefused(f"{member.filename!r} is a link")

            def load(limit: int, member=member) -> bytes:  # type: ignore[no-untyped-def]
                with archive.open(member) as file:
                    return file.read(limit)

            yield member.orig_filename, load


def _size_of_directory(file: BinaryIO) -> int:
    """The bytes of a zip's list of members, as its last record gives them: `ZipFile` reads that list whole."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - (1 << 16) - 22))
    end = file.read()
    at = end.rfind(b"PK\5\6")
    listed = int.from_bytes(end[at + 12 : at + 16], "little")
    if listed == 0xFFFF_FFFF and (wide := end.rfind(b"PK\6\6", 0, at)) >= 0:
        listed = int.from_bytes(end[wide + 40 : wide + 48], "little")
    return listed


class _Metered:
    """A file as `tarfile` reads it, unpacked, that ends with an error before it gets too large."""

    def __init__(self, file: BinaryIO, packed: int) -> None:
        self._file = file
        self._limit = min(MAX_TOTAL_BYTES, max(1 << 20, MAX_RATIO * packed))

    def read(self, size: int = -1) -> bytes:
        """At most `size` bytes, and never many at once: only headers and memories are read."""
        if not 0 <= size <= 2 * LIMIT:
            raise ArchiveRefused("a member has a header that is too large")
        data = self._file.read(size)
        self._require(self._file.tell())
        return data

    def seek(self, position: int) -> int:
        """Go to a place, which unpacks all that is before it."""
        self._require(position)
        return self._file.seek(position)

    def tell(self) -> int:
        """Where the next byte is read."""
        return self._file.tell()

    def _require(self, position: int) -> None:
        if position > self._limit:
            raise ArchiveRefused(f"it would unpack to more than {self._limit:,} bytes")


def _from_tar(packed: BinaryIO) -> Iterator[tuple[str, Load]]:
    packed.seek(0)
    is_packed = packed.read(2) == b"\x1f\x8b"
    packed.seek(0)
    with gzip.open(packed) if is_packed else packed as file:
        try:
            metered = _Metered(file, os.fstat(packed.fileno()).st_size)  # type: ignore[arg-type]
            archive = tarfile.TarFile(fileobj=metered)  # type: ignore[arg-type]
        except tarfile.ReadError:
            raise ArchiveRefused("it is not a folder, a zip, a tar or a tar.gz archive") from None
        for member in archive:
            if member.isdir():
                continue
            if not member.isreg():
                raise ArchiveRefused(f"{member.name!r} is a link or a device")

            def load(limit: int, member=member) -> bytes:  # type: ignore[no-untyped-def]
                file, data = archive.extractfile(member), bytearray()
                while file and len(data) < limit and (piece := file.read(min(limit - len(data), LIMIT + 1))):
                    data += piece
                if len(data) < min(member.size, limit):
                    raise EOFError("it was cut short")
                return bytes(data)

            yield member.name, load
        while archive.fileobj and archive.fileobj.read(LIMIT):
            pass  # the checksum of a packed archive stands at its very end


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

    What is refused stays out and is named. What a memory of the scope says already is refused, too, unless `allow`
    says otherwise; whether it is worth keeping was decided where it comes from. With `history`, the past of what
    comes in comes along.

    Raises:
        ArchiveRefused: it reaches outside, or is too large; nothing was imported.
    """
    why = f"import {os.path.basename(os.path.abspath(source))}{also}"
    if not allow.secrets:
        require_no_secret(None, None, why)
    by_root: dict[str, list[Member]] = {"": []}
    shared_names: frozenset[str] = frozenset()
    for member in read_archive(source, history=history, below=below):
        if member.name == SHARED:
            shared_names = _read_shared(member.data)
        else:
            by_root.setdefault(member.root, []).append(member)
    imports = [_RootImport(keeper, root, shared_names, replace=replace, allow=allow) for root in by_root]
    for each in imports:
        each.plan(by_root[each.root])
    commits = 0 if dry_run else sum(each.carry_out(why) for each in imports)
    return Imported(
        tuple(path for each in imports for path in each.added),
        tuple(path for each in imports for path in each.replaced),
        tuple(path for each in imports for path in each.same),
        tuple(pair for each in imports for pair in each.refused),
        commits,
    )


def _read_shared(data: bytes) -> frozenset[str]:
    try:
        return frozenset(json.loads(data))
    except (ValueError, TypeError, RecursionError):
        raise ArchiveRefused(f"its {SHARED} cannot be understood") from None


class _RootImport:
    """The import into one root: the scope's own, where every gate of its memories stands, or one inside it."""

    def __init__(
        self,
        keeper: OpenScope,
        root: str,
        shared_names: Collection[str],
        *,
        replace: bool,
        allow: Allow,
    ) -> None:
        self.root = root
        self._keeper = keeper
        self.added: list[str] = []
        self.replaced: list[str] = []
        self.same: list[str] = []
        self.refused: list[tuple[str, str]] = []
        self._shared_names = shared_names
        self._replace = replace
        self._allow = allow
        own = keeper.store
        self._store = open_root(own.root, root, own.checkout) if root else own
        if root and not keeper.read_only:
            self._store.recover()
        self._known: set[str] = set()
        self._has_some = False
        self._changes: list[Change] = []
        self._parsed: dict[str, Memory] = {}
        self._past: list[Commit] = []
        self._stones: list[Tombstone] = []

    def plan(self, members: Sequence[Member]) -> None:
        """Decide about each file."""
        index = self._keeper.index
        index.look()
        self._known = {fold(row.path) for row in index.rows()}
        self._has_some = bool(index.total() or index.rows("trust = 'unconfirmed'"))
        for member in members:
            try:
                if member.why:
                    raise TextRefused(member.why)
                if member.path.startswith(f"{HISTORY}/"):
                    self._take_past(member)
                    continue
                if self.root and not self.root.startswith(LOGS) and self._keeper.scope.layer != "project":
                    raise TextRefused(f"{member.name!r} belongs to a project; import it into one")
                self._take(member)
            except (TextRefused, Exists, CreateOnly, PathRefused) as error:
                name = without_secrets(member.name) if isinstance(error, SecretFound) else member.name
                self.refused.append((name, str(error)))
        self._drop_superseded()

    def _drop_superseded(self) -> None:
        """Leave out the facts that others of this import supersede."""
        facts = {path: memory for path, memory in self._parsed.items() if is_fact(path)}
        for path in sorted(facts.keys() & {path for memory in facts.values() for path in memory.supersedes}):
            name = inside(self.root, path)
            self._changes = [change for change in self._changes if change.path != path]
            for names in (self.added, self.replaced, self.same):
                names[:] = [other for other in names if other != name]
            self.refused.append((name, "another fact of this import supersedes it"))

    def _take(self, member: Member) -> None:
        """Plan the change that a file makes. Raises TextRefused, Exists, CreateOnly, PathRefused."""
        present = self._find(member.path)
        memory = self._mark(member, present)
        retired: list[str] = []
        outcome = self.added
        if present and present.data == memory.data:
            outcome = self.same
        elif present:
            self._refuse_replacing(present, memory, member.path)
            outcome = self.replaced
        elif not self.root and is_fact(memory.path):
            rules = self._keeper.fact_rules
            others = [other for other in self._facts if other.path not in memory.supersedes]
            rules.refuse_superseded(memory, others)
            retired = rules.find_superseded(memory)
            if retired and not self._replace:
                raise Exists(retired[0], f"{memory.path!r} would retire it")
        if not self._allow.secrets:
            require_no_secret(memory, present)
        if not (self.root or present or self._allow.anyway) and memory.state == "ok":
            if error := find_personal(memory, self._keeper.name):
                raise error
            if self._has_some:
                self._keeper.refuse_duplicate(memory)
        outcome.append(member.name)
        self.replaced += retired
        self._changes.append(Change(memory.path, memory.data, present.version if present else ABSENT))
        self._parsed[memory.path] = memory

    def _mark(self, member: Member, present: Memory | None) -> Memory:
        """Return the memory that a file makes here: unconfirmed if others wrote it, and never the user's own word."""
        known = present or parse(member.path, member.data)  # what it lacks, it lacked where it was made
        memory = checked_import(known.path, member.data, known)
        is_new = present is None or present.data != member.data
        if is_new and member.name in self._shared_names:
            if memory.state != "ok":
                why = "was somebody else's where it was exported, and has no header to say so"
                raise TextRefused(f"{memory.path!r} {why}")
            memory = parse(memory.path, edited(memory.text, fields={"trust": "unconfirmed"}).encode())
        if not self.root:
            self._keeper.refuse_context(memory, "import")
        if is_new and memory.source == "user":  # nobody can say that for you
            memory = vouched(memory, None, "import")
        return memory

    @cached_property
    def _facts(self) -> Sequence[Memory]:
        return self._keeper.facts()

    def _refuse_replacing(self, present: Memory, memory: Memory, path: str) -> None:
        if not self._replace:
            raise Exists(present.path)
        if self.root:
            return
        if check_path(path) != check_path(present.path):
            raise Exists(present.path, f"{path!r} would be the same file on some systems")
        if is_fact(present.path) and content_of(memory) != content_of(present):
            raise CreateOnly(present.path)

    def carry_out(self, why: str) -> int:
        """Carry out the plan; return how many steps of the past came along."""
        self._keeper.require_writable()
        if not self._changes and not self._stones:
            return 0
        commits = 0
        if self._past or self._stones:
            there = {change.path for change in self._changes}
            commits = self._store.graft(steps_of(self._past, there, {}), self._stones)
        own = [change for change in self._changes if not self.root and change.path.endswith(".md")]
        others = [change for change in self._changes if self.root or not change.path.endswith(".md")]
        if own:
            were_looked_at = Allow(secrets=True, anyway=True)
            alone = self._known.isdisjoint(fold(change.path) for change in own)
            self._keeper.commit(own, why, by="import", parsed=self._parsed, alone=alone, allow=were_looked_at)
        if others:
            self._store.commit(others, by="import", why=why)
        return commits

    def _find(self, path: str) -> Memory | None:
        if not self.root and path.endswith(".md"):
            return self._keeper.find(path) if fold(path) in self._known else None
        with suppress(MemsheafError):
            return parse(path, self._store.read(path).data)
        return None

    def _take_past(self, member: Member) -> None:
        if member.path == STONES:
            self._stones += from_lines(member.data)
            return
        lines = [line for line in member.data.split(b"\n") if line.startswith(b'{"commit"')]
        commits = [commit for line in lines if (commit := decode(line))]
        self._past += commits if self._allow.secrets else map(_without_secrets, commits)
        if len(commits) < len(lines):
            self.refused.append((member.name, f"{len(lines) - len(commits)} lines of it cannot be read"))


def _without_secrets(commit: Commit) -> Commit:
    """Return a commit of another journal without the texts that hold secrets: as if they were past retention."""

    def clean(data: bytes | None) -> bytes | None:
        return None if data and any(new_secrets(data.decode("utf-8", "replace"), "")) else data

    steps = tuple(step._replace(old=clean(step.old), new=clean(step.new)) for step in commit.revisions)
    return commit._replace(why="" if any(new_secrets(commit.why, "")) else commit.why, revisions=steps)
