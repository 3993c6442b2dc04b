"""The history of one branch in our copy of a git repository: which commits there are, and what each changed.

The message of a commit that memsheaf made has its id, time and author in a line `Memsheaf: {...}`; the others were
made by people, in a checkout or on a page. Whatever a tree holds that is no memory is not there for us: links,
submodules, names that the path policy refuses, texts that are too large.

The file `known` has a line for each commit, which tells without git whether an id or a cursor is in the history.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime

from memsheaf.errors import Changed, HubRefused, PathRefused
from memsheaf.guard.paths import check_stored
from memsheaf.hub import Erasure, HubCommit, HubSettings
from memsheaf.hub.git_program import GitProgram
from memsheaf.store import ABSENT, Commit, Revision, Version, version_of
from memsheaf.store.atomic_replace import READ_LIMIT
from memsheaf.text.neutralize import one_line
from memsheaf.values import NamedTuple, json

TYPE_CHECKING = False  # known to type checkers by this name; `typing` is slow to import
if TYPE_CHECKING:
    from typing import IO, Any

FORMAT = 1
"""Of the messages of commits. A branch with a newer one is read, and not written."""
MOST_NAMED = 100
"""So many paths are named in the message of a commit; for more, git is asked."""
WITH_STEPS = ("--raw", "--diff-merges=first-parent")
_LOG = (
    "log", "-z", "--topo-order", "--reverse", "--encoding=UTF-8", "--no-renames", "--no-abbrev", "--no-ext-diff",
    "--no-textconv", "--no-color", "--format=%H%x00%P%x00%an%x00%ct%x00%B%x00",
)  # fmt: skip
_MADE = "refs/memsheaf/made"
_MARK = "Memsheaf: "
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z")
_LOOSE_BYTES, _LOOSE_FILES = 64 << 20, 6_000  # more than this is packed


class BlobChange(NamedTuple):
    """What a git commit did to one path: the objects before and after, "" where there was no memory."""

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
    """What is known of a branch. Whoever uses it holds a lock."""

    def __init__(self, git: GitProgram, settings: HubSettings) -> None:
        self._git = git
        self._machine = settings.machine
        self._is_team = settings.namespace.startswith("memsheaf/team/")
        self._file = os.path.join(git.folder, "known")
        self._known = b""

    def load(self) -> None:
        """Read which commits are known; a file that was cut off knows nothing."""
        self._known = b""
        with suppress(FileNotFoundError), open(self._file, "rb") as file:
            self._known = file.read()
        if not self._known.endswith(b"\n"):
            self._known = b""

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
        """Whether a newer memsheaf wrote to it than this one understands."""
        return int(self._last()[2]) > FORMAT

    def has(self, sha: str) -> bool:
        """Whether this git commit is in the history."""
        line = f"{sha} ".encode()
        return self._known.startswith(line) or b"\n" + line in self._known

    def find(self, commit_id: str) -> HubCommit | None:
        """The commit with this id, None when the history has none."""
        at = self._known.find(f" ={commit_id} ".encode())
        if at < 0:
            return None
        [record] = self.log("--no-walk", self._known[at - 40 : at].decode(), *WITH_STEPS)
        return next(iter(self.commits([record])), None) or self._hub_commit(record, ())

    def note(self, sha: str, commit_id: str, parents: Sequence[str], written_as: int = FORMAT) -> bytes:
        """Add a commit that the hub has; gives its line."""
        line = f"{sha} ={commit_id} {max(written_as, int(self._last()[2]))} {'-' if parents else 'root'}\n".encode()
        self._known += line
        return line

    def save(self, lines: bytes) -> None:
        """Keep lines that were noted."""
        with open(self._file, "ab") as file:
            file.write(lines)

    def advance(self, head: str) -> Sequence[GitCommit] | None:
        """Learn the commits up to a head that was fetched, and give them; None when it does not follow the known one.

        They come with their steps, but for the whole of a history.
        """
        old = self.head
        if head == old:
            return []
        if self.has(head):
            return None
        records = self.log(f"{old}..{head}", *WITH_STEPS) if old else self.log(head)
        if old and not any(old in record.parents for record in records):
            return None
        said = ((record, record.said.get("format", 0)) for record in records)
        self.save(b"".join([self.note(one.sha, one.commit_id, one.parents, written_as) for one, written_as in said]))
        return records

    def log(self, *words: str, given: bytes = b"") -> list[GitCommit]:
        """Git commits, oldest first; with steps if asked for."""
        records = []
        fields = iter(self._git.local(*_LOG, *words, "--", given=given).split(b"\0"))
        field = next(fields)
        while field:
            sha, parents = field.decode(), next(fields).decode().split()
            author, at, body = (next(fields).decode("utf-8", "replace") for _ in range(3))
            field, steps = next(fields), []
            while (field := next(fields, b"")).lstrip(b"\n").startswith(b":"):
                before, after, old, new, _ = field.decode().lstrip("\n:").split(" ")
                path = os.fsdecode(next(fields))
                if is_memory_path(path):
                    steps.append(BlobChange(path, old * before.startswith("100"), new * after.startswith("100")))
            subject = one_line(body.partition("\n")[0], 200)
            records.append(
                GitCommit(sha, parents, one_line(author, 60), _iso(at), subject, _said(body, parents), steps)
            )
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
        """What these changed, with the new texts; those that changed no memory are left out."""
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
        tree = {}
        for entry in self._git.local("ls-tree", "-r", "-z", self.head).split(b"\0")[:-1]:
            mode, _, name = entry.partition(b"\t")[0].decode().split(" ")
            path = os.fsdecode(entry.partition(b"\t")[2])
            if mode.startswith("100") and is_memory_path(path):
                tree[path] = name
        chain = self.first_parents(records or self.log(self.head))[::-1]
        unsaid = "".join(f"{record.sha}\n" for record in chain if "paths" not in record.said).encode()
        looked_at = self.log("--no-walk=unsorted", "--stdin", *WITH_STEPS, given=unsaid) if unsaid else ()
        touched = {record.sha: [step.path for step in record.steps] for record in looked_at}
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

    def erasures(self) -> list[tuple[Erasure, Sequence[str]]]:
        """What was erased, oldest first, with the roots of the history that each erasure replaced."""
        found: list[tuple[Erasure, Sequence[str]]] = []
        said = self.log("--no-walk", self.root)[0].said.get("erasures") if self._known else ()
        with suppress(KeyError, TypeError, ValueError):
            for one in said or ():
                names, versions, roots = (tuple(map(str, one[key])) for key in ("names", "versions", "roots"))
                found.append((Erasure(str(one["id"]), names, versions, str(one["member"]), str(one["at"])), roots))
        return found

    @property
    def roots(self) -> list[str]:
        """Every first commit: people can merge histories."""
        return [sha.decode() for sha in re.findall(rb"(?m)^(\w+) \S+ \d+ root$", self._known)]

    def write(self, commits: Sequence[tuple[HubCommit, str]], *, begin: dict[str, object] | None = None) -> str:
        """Make commits, each with its author, on the head that is known, and give the last one's name.

        Each path must be at the version that its change was made for. With `begin`, make them as a new history whose
        first commit says that.

        Raises:
            Changed: a path is at another version; no commit was made.
            HubRefused: a text is not there, or too large.
        """
        for step in (step for hub_commit, _ in commits for step in hub_commit.commit.revisions):
            if step.after != ABSENT and (step.new is None or len(step.new) > READ_LIMIT):
                raise HubRefused(f"the text of {step.path!r} is too large, or no longer kept here")
        parent, changed = "" if begin else self.head, ""
        with self._git.talk("fast-import", "--quiet", "--done", "--force") as (given, answers):
            for hub_commit, _ in () if begin else commits:
                for step in hub_commit.commit.revisions:
                    if not _is_at(given, answers, parent, check_stored(step.path), step.before):
                        changed = changed or step.path
            if begin:
                subject = "The history begins anew: a memory was erased"
                parent = _add(
                    given, answers, "", False, ("memsheaf", "memsheaf", str(begin["at"])), subject, begin, ()
                )
            for hub_commit, author in () if changed else commits:
                commit, steps = hub_commit.commit, hub_commit.commit.revisions
                said: dict[str, object] = {"format": FORMAT, "id": commit.id, "at": commit.at, "by": commit.by}
                said |= {"why": commit.why, "undoes": commit.undoes, "machine": hub_commit.machine}
                said |= {"paths": [step.path for step in steps]} if len(steps) <= MOST_NAMED else {}
                subject = one_line(commit.why, 72) or f"Change {steps[0].path if len(steps) == 1 else len(steps)}"
                parent = _add(
                    given,
                    answers,
                    parent,
                    parent == self.head != "",
                    (author, hub_commit.machine, commit.at),
                    subject,
                    said,
                    steps,
                )
            given.write(b"done\n")
        if changed:
            raise Changed(changed)
        return parent

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
        said = {key: value for key, value in record.said.items() if isinstance(value, str)}
        at = said.get("at", "")
        commit = Commit(
            record.commit_id, at if _TIME.fullmatch(at) else record.at, one_line(said.get("by", record.author), 60),
            said.get("why", record.subject), tuple(revisions), said.get("undoes", ""),
        )  # fmt: skip
        machine = said.get("machine", "")
        own = machine == self._machine or not self._is_team
        return HubCommit(commit, "" if own else record.author or "somebody", machine, own)


def is_memory_path(path: str) -> bool:
    """Whether a path of a tree is one that a memory can have.

    >>> [is_memory_path(path) for path in ("user_tabs.md", "README.txt", "../x.md", "MEMORY.md", ".git/x.md")]
    [True, False, False, False, False]
    """
    try:
        return check_stored(path) == path
    except (PathRefused, ValueError):
        return False


def _said(body: str, parents: Sequence[str]) -> dict[str, Any]:
    """What memsheaf wrote into a message; nothing when it was made for another place in the history."""
    line = next((line for line in reversed(body.split("\n")) if line.startswith(_MARK)), "")
    said = parse_object(line.removeprefix(_MARK))
    is_ours = said.get("on") == (parents[0] if parents else "") and isinstance(said.get("format"), int)
    is_ours = is_ours and re.fullmatch(r"[0-9a-f]{1,15}", str(said.get("id", "0")))
    paths = said.get("paths", [])
    return said if is_ours and isinstance(paths, list) and all(isinstance(one, str) for one in paths) else {}


def parse_object(text: str | bytes) -> dict[str, Any]:
    """The JSON object in a text, an empty one when there is none."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _is_at(given: IO[bytes], answers: IO[bytes], head: str, path: str, version: Version) -> bool:
    """Whether a path of a commit is at a version, and no folder of it is a file."""
    if not head:
        return version == ABSENT
    folders = [path[:end] for end, letter in enumerate(path) if letter == "/"]
    for name in (*folders, path):
        given.write(f"ls {head} {name}\n".encode())
        given.flush()
        mode, kind, *rest = answers.readline().split(b" ", 2)
        if mode == b"missing":
            return version == ABSENT
        if name != path and kind == b"blob":
            return False
    if kind != b"blob" or not mode.startswith(b"100"):
        return False
    given.write(b"cat-blob %s\n" % rest[0].partition(b"\t")[0])
    given.flush()
    size = int(answers.readline().split()[2])
    return version_of(answers.read(size + 1)[:-1]) == version


def _add(
    given: IO[bytes],
    answers: IO[bytes],
    parent: str,
    follows: bool,
    who: tuple[str, str, str],
    subject: str,
    said: dict[str, object],
    steps: Sequence[Revision],
) -> str:
    """Make one commit by an author on a machine at a time, and give its name.

    Where it `follows` a parent that was made before, git is told; one that was just made it follows by itself.
    """
    author, machine, at = who
    author, machine = re.sub("[<>]", "", one_line(author, 60)) or "memsheaf", re.sub(r"[^\w.-]", "", machine)
    person = f"{author} <{machine}@memsheaf.invalid>"
    message = f"{subject}\n\n{_MARK}{json.dumps(said | {'on': parent})}\n".encode()
    given.write(f"commit {_MADE}\nmark :1\ncommitter {person} {_seconds(at)} +0000\ndata {len(message)}\n".encode())
    given.write(message + (f"from {parent}\n".encode() if follows else b""))
    for step in steps:
        if step.new is None:
            given.write(f"D {step.path}\n".encode())
        else:
            given.write(f"M 100644 inline {step.path}\ndata {len(step.new)}\n".encode() + step.new + b"\n")
    given.write(b"\nget-mark :1\n")
    given.flush()
    return answers.readline().decode().strip()


def now_iso() -> str:
    """The time as commits say it."""
    return _iso(time.time())


def _iso(seconds: str | float) -> str:
    try:
        found = datetime.fromtimestamp(float(seconds), UTC)
    except (ValueError, OverflowError, OSError):  # whoever commits can say anything
        found = datetime.fromtimestamp(0, UTC)
    return found.isoformat(timespec="milliseconds")[:23] + "Z"


def _seconds(at: str) -> int:
    try:
        return max(0, int(datetime.fromisoformat(at).timestamp()))
    except (ValueError, OverflowError):
        return 0
