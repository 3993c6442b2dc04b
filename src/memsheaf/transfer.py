"""Export and import of a scope; of a project with its tasks, sessions and logs."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from memsheaf import archive
from memsheaf.archive import HISTORY, LOGS, Member, inside
from memsheaf.errors import (
    ArchiveRefused,
    CreateOnly,
    Exists,
    MemsheafError,
    NotFound,
    PathRefused,
    SecretFound,
    TextRefused,
)
from memsheaf.frontmatter import edited
from memsheaf.gates import content_of, find_personal, require_no_secret
from memsheaf.guard.paths import check_path, fold, is_fact
from memsheaf.guard.secrets import new_secrets, without_secrets
from memsheaf.memory import STRICT, Allow, Memory, parse
from memsheaf.open_scope import OpenScope
from memsheaf.project_roots import Locations, ledger_of, list_files, open_root, roots, steps_of
from memsheaf.store import ABSENT, Change, Commit, version_of
from memsheaf.store.journal_lines import decode, encode
from memsheaf.store.tombstones import Tombstone, from_lines, to_lines
from memsheaf.text_edits import checked_import, vouched

SEGMENT = f"{HISTORY}/journal-000001.jsonl"
STONES = f"{HISTORY}/tombstones"


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
    files, left_out = [archive.BACKUP], list[tuple[str, str]]()
    for folder, places in scopes.items():
        missing: list[tuple[str, str]] = []
        files += [(inside(folder, name), data) for name, data in _outgoing(places, history, missing, only)]
        left_out += [(inside(folder, path), why) for path, why in missing]
    archive.write(target, files[1:] if "" in scopes else files)
    return Exported(len(files) - 1, tuple(left_out))


def shared(places: Locations) -> Iterator[str]:
    """The files of all roots of a project's folder that others wrote: not written here, nor accepted."""
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
        yield archive.SHARED, json.dumps(theirs, ensure_ascii=False).encode()


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

    What is refused stays out and is named.

    What a memory of the scope says already is refused, too, unless `allow` says otherwise; whether it is worth
    keeping was decided where it comes from. With `history`, the past of what comes in comes along.

    Raises:
        ArchiveRefused: it reaches outside, or is too large; nothing was imported.
    """
    why = f"import {os.path.basename(os.path.abspath(source))}{also}"
    if not allow.secrets:
        require_no_secret(None, None, why)
    by_root: dict[str, list[Member]] = {"": []}
    for member in archive.read(source, history=history, below=below):
        by_root.setdefault(member.root, []).append(member)
    theirs = _taken_out(by_root[""])
    importing = [_Import(keeper, root, replace=replace, allow=allow) for root in by_root]
    for one in importing:
        one.shared = theirs
        one.plan(by_root[one.root])
    commits = sum(one.carry_out(why) for one in importing) if not dry_run else 0
    outcome = ([inside(one.root, path) for one in importing for path in one.outcome[what]] for what in _OUTCOMES)
    added, replaced, same = map(tuple, outcome)
    refused = tuple(pair for one in importing for pair in one.refused)
    return Imported(added, replaced, same, refused, commits)


_OUTCOMES = ("added", "replaced", "same")


def _taken_out(members: list[Member]) -> frozenset[str]:
    """The names of what came with a repository, from the member that lists them, which is taken out."""
    listed = [member for member in members if member.path == archive.SHARED]
    try:
        members[:] = [member for member in members if member not in listed]
        return frozenset(name for member in listed for name in json.loads(member.data))
    except (ValueError, TypeError, RecursionError):
        raise ArchiveRefused(f"its {archive.SHARED} cannot be understood") from None


class _Import:
    """What an import does to one root: the scope's own, where every gate of its memories stands, or one inside it."""

    def __init__(self, keeper: OpenScope, root: str, *, replace: bool, allow: Allow) -> None:
        self.root = root
        self.outcome: dict[str, list[str]] = {what: [] for what in _OUTCOMES}
        self.refused: list[tuple[str, str]] = []
        self.shared: Collection[str] = ()
        self._keeper = keeper
        own = keeper.store
        self._store = open_root(own.root, root, own.checkout) if root else own
        if root and not keeper.read_only:
            self._store.recover()
        self._replace, self._allow = replace, allow
        self._known: set[str] = set()
        self._changes: list[Change] = []
        self._parsed: dict[str, Memory] = {}
        self._past: list[Commit] = []
        self._stones: list[Tombstone] = []

    def plan(self, members: Sequence[Member]) -> None:
        """Look at each file, and decide."""
        keeper, facts = self._keeper, None
        keeper.index.look()
        self._known = {fold(row.path) for row in keeper.index.rows()}
        has_some = bool(keeper.index.total() or keeper.index.rows("trust = 'unconfirmed'"))
        for member in members:
            path, data = member.path, member.data
            try:
                if member.why:
                    raise TextRefused(member.why)
                if path.startswith(f"{HISTORY}/"):
                    self._take_past(member)
                    continue
                if not self.root.startswith(LOGS) and self.root and keeper.scope.layer != "project":
                    raise TextRefused(f"{member.name!r} belongs to a project; import it into one")
                found = self._find(path)
                known = found or parse(path, data)  # what it lacks, it lacked where it was made
                memory = checked_import(known.path, data, known)
                if member.name in self.shared and not (found and found.data == data):
                    if memory.state != "ok":
                        why = "was somebody else's where it was exported, and has no header to say so"
                        raise TextRefused(f"{memory.path!r} {why}")
                    memory = parse(memory.path, edited(memory.text, fields={"trust": "unconfirmed"}).encode())
                data = memory.data if found is None or found.data != data else data
                if not self.root:
                    keeper.refuse_context(memory, "import")
                if memory.source == "user" and not (found and found.data == data):  # nobody can say that for you
                    memory = vouched(memory, None, "import")
                    data = memory.data
                if found and found.data != data:
                    if not self._replace:
                        raise Exists(found.path)
                    if not self.root:
                        if check_path(path) != check_path(found.path):
                            raise Exists(found.path, f"{path!r} would be the same file on some systems")
                        if is_fact(found.path) and content_of(memory) != content_of(found):
                            raise CreateOnly(found.path)
                retired: list[str] = []
                if not self.root and found is None:
                    if is_fact(memory.path):
                        facts = keeper.facts() if facts is None else facts
                        others = [one for one in facts if one.path not in memory.supersedes]
                        keeper.fact_rules.refuse_superseded(memory, others)
                        retired = keeper.fact_rules.find_superseded(memory)
                    if retired and not self._replace:
                        raise Exists(retired[0], f"{memory.path!r} would retire it")
                if not self._allow.secrets:
                    require_no_secret(memory, found)
                if not (self.root or found or self._allow.anyway) and memory.state == "ok":
                    if error := find_personal(memory, keeper.name):
                        raise error
                    if has_some:
                        keeper.refuse_duplicate(memory)
            except (TextRefused, Exists, CreateOnly, PathRefused) as error:
                name = without_secrets(member.name) if isinstance(error, SecretFound) else member.name
                self.refused.append((name, str(error)))
                continue
            self.outcome["same" if found and found.data == data else "replaced" if found else "added"].append(path)
            self.outcome["replaced"] += retired
            self._changes.append(Change(memory.path, data, found.version if found else ABSENT))
            self._parsed[memory.path] = memory
        self._drop_superseded()

    def carry_out(self, why: str) -> int:
        """Do it; gives how many steps of the past came along."""
        self._keeper.require_writable()
        if not self._changes and not self._stones:
            return 0
        there = {change.path for change in self._changes}
        commits = (
            self._store.graft(steps_of(self._past, there, {}), self._stones) if self._past or self._stones else 0
        )
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
        found = [commit for line in lines if (commit := decode(line))]
        self._past += found if self._allow.secrets else map(_without_secrets, found)
        if len(found) < len(lines):
            self.refused.append((member.name, f"{len(lines) - len(found)} lines of it cannot be read"))

    def _drop_superseded(self) -> None:
        """Leave out the facts that others of this import supersede."""
        facts = [one for one in self._parsed.values() if is_fact(one.path)]
        superseded = {path for one in facts for path in one.supersedes if is_fact(path)}
        for change in [one for one in self._changes if one.path in superseded]:
            self._changes.remove(change)
            for paths in self.outcome.values():
                paths[:] = [path for path in paths if path != change.path]
            self.refused.append((inside(self.root, change.path), "another fact of this import supersedes it"))


def _without_secrets(commit: Commit) -> Commit:
    """A commit of another journal without the texts that hold secrets: as if they were past retention."""

    def clean(data: bytes | None) -> bytes | None:
        return None if data and any(new_secrets(data.decode("utf-8", "replace"), "")) else data

    steps = tuple(step._replace(old=clean(step.old), new=clean(step.new)) for step in commit.revisions)
    return commit._replace(why="" if any(new_secrets(commit.why, "")) else commit.why, revisions=steps)
