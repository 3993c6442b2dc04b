"""The history of one branch in our copy of a git repository: which commits there are, and what each changed.

The message of a commit that memsheaf made has its id, time and author in a line `Memsheaf: {...}`; the others were
made by people, in a checkout or on a page. Files that are no memories are ignored: links,
submodules, names that the path policy refuses, texts that are too large.

The file `known` has a line for each commit, so that ids and cursors are looked up without running git.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple

from memsheaf.errors import PathRefused
from memsheaf.guard.paths import fold, is_memory_path
from memsheaf.hub import Erasure, HubCommit, HubSettings
from memsheaf.hub.git_import import FORMAT, MARK
from memsheaf.hub.git_program import GitProgram
from memsheaf.store import ABSENT, Commit, Revision, Version, version_of
from memsheaf.store.atomic_replace import READ_LIMIT
from memsheaf.text.neutralize import one_line

WITH_STEPS = ("--raw", "--diff-merges=first-parent")
_LOG = (
    "log", "-z", "--topo-order", "--reverse", "--encoding=UTF-8", "--no-renames", "--no-abbrev", "--no-ext-diff",
    "--no-textconv", "--no-color", "--format=%H%x00%P%x00%an%x00%ct%x00%B%x00",
)  # fmt: skip
_ID = re.compile("[0-9a-f]{1,15}")
_LINE = re.compile(rb"[0-9a-f]{40} =[0-9a-f]{1,15} \d{1,9}\n")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z")
_LOOSE_BYTES, _LOOSE_FILES = 64 << 20, 6_000  # more than this is packed
MOST_REPLACED = 10_000  # commits by which machines know that an erasure replaced the history they had


class BlobChange(NamedTuple):
    """The change of one path by a git commit: the objects before and after, "" where there was no memory."""

    path: str
    old: str
    new: str


class GitCommit(NamedTuple):
    """A git commit, and what its message says when memsheaf made it."""

    sha: str
    parents: Sequence[str]
    author: str
    at: str
    subject: str
    said: dict[str, Any]
    steps: Sequence[BlobChange]

    @property
    def commit_id(self) -> str:
        """Its id here: memsheaf's, or for a commit by hand the beginning of git's."""
        return self.said.get("id") or self.sha[:12]


class GitHistory:
    """The known history of a branch. The caller holds the lock."""

    def __init__(self, git: GitProgram, settings: HubSettings) -> None:
        self._git = git
        self._machine = settings.machine
        self.is_team = settings.namespace.startswith("memsheaf/team/")
        self._file = os.path.join(git.folder, "known")
        self._known = b""

    def load(self) -> None:
        """Read the known commits; a truncated file is removed."""
        self._known = b""
        with suppress(FileNotFoundError):
            with open(self._file, "rb") as file:
                found = file.read()
            if _LINE.fullmatch(found[found.rfind(b"\n", 0, -1) + 1 :]):
                self._known = found
            else:
                os.unlink(self._file)

    @property
    def head(self) -> str:
        """The last commit that the hub is known to have, "" when there is none."""
        return self._last()[0]

    @property
    def root(self) -> str:
        """The first commit."""
        return self._known.partition(b" ")[0].decode()

    @property
    def is_newer(self) -> bool:
        """Return True if a newer version of memsheaf wrote to the branch."""
        return int(self._last()[2]) > FORMAT

    def has(self, sha: str) -> bool:
        """Return True if this git commit is in the history."""
        line = f"{sha} ".encode()
        return self._known.startswith(line) or b"\n" + line in self._known

    def find(self, commit_id: str) -> HubCommit | None:
        """The commit with this id, None when the history has none."""
        at = self._known.find(f" ={commit_id} ".encode())
        if at < 0:
            return None
        [record] = self.log("--no-walk", self._known[at - 40 : at].decode(), *WITH_STEPS)
        return next(iter(self.commits([record])), None) or self._hub_commit(record, ())

    def note(self, sha: str, commit_id: str, written_as: int = FORMAT) -> bytes:
        """Add a commit that the hub has; gives its line."""
        newest = max(min(written_as, 10**6), int(self._last()[2]))
        line = f"{sha} ={commit_id} {newest}\n".encode()
        self._known += line
        return line

    def save(self, lines: bytes) -> None:
        """Append lines to the file."""
        with open(self._file, "ab") as file:
            file.write(lines)

    def advance(self, head: str) -> Sequence[GitCommit] | None:
        """Add the commits up to a fetched head, and return them; None when it is not a descendant of the known head.

        They come with their steps, but for the whole of a history.
        """
        old = self.head
        if head == old:
            return []
        records = self.log(f"{old}..{head}", *WITH_STEPS) if old else self.log(head)
        if old and not any(old in record.parents for record in records):
            return None
        said = ((record, record.said.get("format", 0)) for record in records)
        self.save(b"".join([self.note(one.sha, one.commit_id, written_as) for one, written_as in said]))
        return records

    def log(self, *words: str, given: bytes = b"") -> list[GitCommit]:
        """Git commits, oldest first; with steps if asked for."""
        fields = self._git.local(*_LOG, *words, "--", given=given).split(b"\0")
        records, at = [], 0
        while at + 6 < len(fields):
            sha, parents = fields[at].decode(), fields[at + 1].decode().split()
            author, seconds, body = (field.decode("utf-8", "replace") for field in fields[at + 2 : at + 5])
            at, steps = at + 6, []
            while fields[at].lstrip(b"\n").startswith(b":"):
                before, after, old, new, _ = fields[at].decode().lstrip("\n:").split(" ")
                path = os.fsdecode(fields[at + 1])
                if is_memory_path(path):
                    steps.append(BlobChange(path, old * before.startswith("100"), new * after.startswith("100")))
                at += 2
            who, subject = one_line(author, 60), one_line(body.partition("\n")[0], 200)
            records.append(GitCommit(sha, parents, who, _iso(seconds), subject, _said(body, parents), steps))
        return records

    def first_parents(self, records: Sequence[GitCommit]) -> list[GitCommit]:
        """Those on the line of the branch itself, oldest first: what was merged into it comes with the merge."""
        chain, expected = [], self.head
        for record in reversed(records):
            if record.sha == expected:
                chain.append(record)
                expected = record.parents[0] if record.parents else ""
        return chain[::-1]

    def commits(self, records: Sequence[GitCommit]) -> list[HubCommit]:
        """Return what these changed, with the new texts; those that changed no memory are left out."""
        texts = self._texts(name for record in records for step in record.steps for name in (step.old, step.new))
        found = []
        for record in records:
            each = ((step.path, texts[step.old], texts[step.new]) for step in record.steps)
            revisions = [
                Revision(path, version_of(old), version_of(new), None, new) for path, old, new in each if old != new
            ]
            if revisions:
                found.append(self._hub_commit(record, revisions))
        return found

    def snapshot(self, records: Sequence[GitCommit] = ()) -> list[tuple[HubCommit, str]]:
        """All memories that are there now, by the commits that last touched them, oldest first; each with its author.

        `records` are those of the whole history, if the caller has them.
        """
        tree = {path: name for mode, name, path in self.entries() if mode.startswith("100") and is_memory_path(path)}
        chain = self.first_parents(records or self.log(self.head))[::-1]
        unsaid = self._with_steps(record for record in chain if "paths" not in record.said)
        touched = {record.sha: [step.path for step in record.steps] for record in unsaid}
        texts = self._texts(tree.values())
        left = {path for path, name in tree.items() if texts[name] is not None}
        found = []
        for record in chain:
            mine = left.intersection(touched.get(record.sha) or record.said.get("paths", ()))
            mine = left if record is chain[-1] else mine
            left = left - mine
            if mine:
                revisions = [
                    Revision(path, ABSENT, version_of(texts[tree[path]]), None, texts[tree[path]])
                    for path in sorted(mine)
                ]
                found.append((self._hub_commit(record, revisions), record.author))
        return found[::-1]

    def versions_of(self, names: Collection[str], records: Sequence[GitCommit]) -> set[Version]:
        """Every version that memories of these names have had; `records` are those of the whole history.

        To compare trees takes git long, so it is not asked for what the messages tell.
        """
        touching = (one for one in records if "paths" not in one.said or {*names} & {*one.said["paths"]})
        steps = (step for record in self._with_steps(touching) for step in record.steps)
        blobs = {name for step in steps if step.path in names for name in (step.old, step.new)}
        return {version_of(text) for text in self._texts(blobs).values() if text is not None}

    def _with_steps(self, records: Iterable[GitCommit]) -> Sequence[GitCommit]:
        shas = "".join(f"{record.sha}\n" for record in records).encode()
        return self.log("--no-walk=unsorted", "--stdin", *WITH_STEPS, given=shas) if shas else ()

    def check_new(self, commits: Sequence[Commit]) -> None:
        """Raise PathRefused for a new path that some file systems take for another one of the tree."""
        steps = [step for one in commits for step in sorted(one.revisions, key=lambda step: step.after != ABSENT)]
        is_needed = any(step.before == ABSENT for step in steps)
        paths = {fold(path): path for _, _, path in self.entries()} if is_needed else {}
        for step in steps:
            if step.after == ABSENT:
                paths.pop(fold(step.path), None)
            elif step.before == ABSENT and (other := paths.setdefault(fold(step.path), step.path)) != step.path:
                raise PathRefused(step.path, f"it is the same file as {other!r} on some file systems")

    def entries(self) -> Iterator[tuple[str, str, str]]:
        """The mode, the object and the path of all that the tree has."""
        for entry in self._git.local("ls-tree", "-r", "-z", self.head).split(b"\0")[:-1] if self.head else ():
            about, _, path = entry.partition(b"\t")
            mode, _, name = about.decode().split(" ")
            yield mode, name, os.fsdecode(path)

    def erasures(self) -> list[tuple[Erasure, Sequence[str]]]:
        """Return what was erased, oldest first, with the commits of the history that each erasure replaced."""
        found: list[tuple[Erasure, Sequence[str]]] = []
        said = self.log("--no-walk", self.root)[0].said.get("erasures") if self._known else ()
        with suppress(KeyError, TypeError, ValueError):
            for one in said or ():
                names, versions, commits = (tuple(map(str, one[key])) for key in ("names", "versions", "commits"))
                found.append((Erasure(str(one["id"]), names, versions, str(one["member"]), str(one["at"])), commits))
        return found

    def last_commits(self) -> list[str]:
        """The last commits, by the first 12 digits of their names."""
        return re.findall(r"(?m)^\w{12}", self._known.decode())[-MOST_REPLACED:]

    def pack(self) -> None:
        """Pack loose objects when there are many, as git itself would."""
        with suppress(FileNotFoundError), os.scandir(os.path.join(self._git.folder, "objects", "17")) as found:
            sizes = [entry.stat().st_size for entry in found]
            if 256 * sum(sizes) > _LOOSE_BYTES or 256 * len(sizes) > _LOOSE_FILES:
                self._git.local("gc", "--quiet")

    def _last(self) -> Sequence[str]:
        """The parts of the last line."""
        return (b"\n" + self._known[-200:]).rsplit(b"\n", 2)[-2].decode().split(" ") if self._known else ("", "", "0")

    def _texts(self, names: Iterable[str]) -> dict[str, bytes | None]:
        return {"": None} | dict(self._git.blobs(list(dict.fromkeys(filter(None, names))), READ_LIMIT))

    def _hub_commit(self, record: GitCommit, revisions: Sequence[Revision]) -> HubCommit:
        # JSON can contain lone surrogates
        said = {
            key: value.encode("utf-8", "replace").decode()
            for key, value in record.said.items()
            if isinstance(value, str)
        }
        at, undoes = said.get("at", ""), said.get("undoes", "")
        commit = Commit(
            record.commit_id, at if _TIME.fullmatch(at) else record.at, one_line(said.get("by", record.author), 60),
            said.get("why", record.subject), tuple(revisions), undoes if _ID.fullmatch(undoes) else "",
        )  # fmt: skip
        machine = said.get("machine", "")
        member = (record.author or "somebody") if self.is_team else ""
        return HubCommit(commit, member, machine, machine == self._machine or not self.is_team)


def _said(body: str, parents: Sequence[str]) -> dict[str, Any]:
    """Return what memsheaf wrote into a message; nothing when it was made for another place in the history."""
    line = next((line for line in reversed(body.split("\n")) if line.startswith(MARK)), "")
    said: Any = None
    with suppress(ValueError, RecursionError):
        said = json.loads(line.removeprefix(MARK))
    if not isinstance(said, dict):
        return {}
    is_ours = said.get("on") == (parents[0] if parents else "") and type(said.get("format")) is int
    paths = said.get("paths", [])
    is_ours = is_ours and said["format"] >= 0 and isinstance(paths, list)
    texts = [said.get("id", "0"), *paths] if is_ours else []
    return said if texts and all(isinstance(one, str) for one in texts) and _ID.fullmatch(texts[0]) else {}


def now_iso() -> str:
    """The time as commits say it."""
    return _iso(time.time())


def _iso(seconds: str | float) -> str:
    try:
        found = datetime.fromtimestamp(float(seconds), UTC)
    except (ValueError, OverflowError, OSError):  # whoever commits can say anything
        found = datetime.fromtimestamp(0, UTC)
    return found.isoformat(timespec="milliseconds")[:23] + "Z"
