"""Make commits in our copy of a git repository: one `git fast-import` looks at the versions and writes."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import IO

from memsheaf.errors import Changed, HubRefused
from memsheaf.guard.paths import check_stored
from memsheaf.hub import HubCommit
from memsheaf.hub.git_program import GitProgram
from memsheaf.store import ABSENT, Revision, Version, version_of
from memsheaf.store.atomic_replace import READ_LIMIT
from memsheaf.text.neutralize import one_line

FORMAT = 1
"""Of the messages of commits. A branch with a newer one is read, and not written."""
MARK = "Memsheaf: "
"""What the line of a message begins with that has the id, the time and the author of a commit."""
MOST_NAMED = 100
"""So many paths are named in the message of a commit; for more, git is asked."""
_MADE, _NOTE = "refs/memsheaf/made", "refs/memsheaf/note"

Entry = tuple[str, str, str]
"""What a tree has at a path: the mode, the object, the path."""


def make_commits(git: GitProgram, head: str, commits: Sequence[HubCommit], author: str) -> list[str]:
    """Make commits on a head, one on the other, and give their names.

    Raises:
        Changed: a path is not at the version that its change was made for; all that was made is for nothing.
        HubRefused: a text is not there, or too large.
    """
    changed, made = "", list[str]()
    for step in (step for one in commits for step in one.commit.revisions):
        check_stored(step.path)
        if step.after != ABSENT and (step.new is None or len(step.new) > READ_LIMIT):
            raise HubRefused(f"the text of {step.path!r} is too large, or no longer kept here")
    with git.talk("fast-import", "--quiet", "--done", "--force") as (given, answers):
        importing = _Import(given, answers, head)
        for commit in commits:
            for step in commit.commit.revisions:
                if not importing.is_at(step.path, step.before):
                    changed = changed or step.path
            if changed:
                break
            importing.add(commit, author)
            made.append(importing.last)
        given.write(b"done\n")
    if changed:
        raise Changed(changed)
    return made


def make_history(
    git: GitProgram,
    said: Mapping[str, object],
    at: str,
    others: Iterable[Entry],
    commits: Sequence[tuple[HubCommit, str]],
) -> str:
    """Make a history whose first commit says why it begins anew, and has what is no memory; give the last one."""
    with git.talk("fast-import", "--quiet", "--done", "--force") as (given, answers):
        importing = _Import(given, answers, "")
        importing.begin(said, at, others, "The history begins anew: a memory was erased")
        for commit, author in commits:
            importing.add(commit, author)
        given.write(b"done\n")
    return importing.last


def make_note(git: GitProgram, subject: str, note: Mapping[str, object]) -> str:
    """Make a commit without files and without a past that says something; give its name."""
    with git.talk("fast-import", "--quiet", "--done", "--force") as (given, answers):
        importing = _Import(given, answers, "", _NOTE)
        importing.begin({"note": note}, "", (), subject)
        given.write(b"done\n")
    return importing.last


class _Import:
    """One run of fast-import: what it reads and what it answers."""

    def __init__(self, given: IO[bytes], answers: IO[bytes], head: str, ref: str = _MADE) -> None:
        self._ref = ref
        self._given = given
        self._answers = answers
        self._head = head
        self._made: dict[str, Version] = {}  # what the commits of this run left, by path
        self.last = head

    def is_at(self, path: str, version: Version) -> bool:
        """Return True if a path is at a version, and no folder of it is a file."""
        if path in self._made or not self._head:
            return version == self._made.get(path, ABSENT)
        folders = [path[:end] for end, letter in enumerate(path) if letter == "/"]
        for name in (*folders, path):
            mode, kind, *rest = self._ask(f"ls {self._head} {name}").split(maxsplit=3)
            if mode == b"missing":
                return version == ABSENT
            if name != path and kind == b"blob":
                return False
        if kind != b"blob" or not mode.startswith(b"100"):
            return False
        size = int(self._ask(f"cat-blob {rest[0].decode()}").split()[2])
        return version_of(self._answers.read(size + 1)[:-1]) == version

    def add(self, hub_commit: HubCommit, author: str) -> None:
        """Make a commit."""
        commit, steps = hub_commit.commit, hub_commit.commit.revisions
        said = {"format": FORMAT, "id": commit.id, "at": commit.at, "by": commit.by, "why": commit.why}
        said |= {"undoes": commit.undoes, "machine": hub_commit.machine}
        named = {"paths": [step.path for step in steps]} if len(steps) <= MOST_NAMED else {}
        subject = f"Change {steps[0].path if len(steps) == 1 else f'{len(steps)} memories'}"
        files = b"".join(map(_file, steps))
        self._made |= {step.path: step.after for step in steps}
        self._commit(author, hub_commit.machine, commit.at, one_line(commit.why, 72) or subject, said | named, files)

    def begin(self, said: Mapping[str, object], at: str, others: Iterable[Entry], subject: str) -> None:
        """Make the first commit of a history."""
        files = b""
        for mode, name, path in others:
            if not {".", "..", ".git"} & {*path.lower().split("/")} and "\n" not in path:
                quoted = path.replace("\\", "\\\\").replace('"', '\\"')
                files += os.fsencode(f'M {mode} {name} "{quoted}"\n')
        self._commit("memsheaf", "memsheaf", at, subject, {"format": FORMAT, "at": at, **said}, files)

    def _commit(
        self, author: str, machine: str, at: str, subject: str, said: Mapping[str, object], files: bytes
    ) -> None:
        author, machine = re.sub("[<>]", "", one_line(author, 60)) or "memsheaf", re.sub(r"[^\w.-]", "", machine)
        message = f"{subject}\n\n{MARK}{json.dumps({**said, 'on': self.last})}\n".encode()
        about = f"commit {self._ref}\nmark :1\ncommitter {author} <{machine}@memsheaf.invalid> {_seconds(at)} +0000\n"
        self._given.write(f"{about}data {len(message)}\n".encode() + message)
        if self._head and self.last == self._head:  # what was made in this run it follows by itself
            self._given.write(f"from {self._head}\n".encode())
        self._given.write(files)
        self.last = self._ask("\nget-mark :1").decode().strip()

    def _ask(self, command: str) -> bytes:
        self._given.write(f"{command}\n".encode())
        self._given.flush()
        return self._answers.readline()


def _file(step: Revision) -> bytes:
    if step.new is None:
        return f"D {step.path}\n".encode()
    return f"M 100644 inline {step.path}\ndata {len(step.new)}\n".encode() + step.new + b"\n"


def _seconds(at: str) -> int:
    try:
        return max(0, int(datetime.fromisoformat(at).timestamp()))
    except (ValueError, OverflowError):
        return 0
