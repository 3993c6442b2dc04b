"""The `MemoryStore` of pydantic-ai-harness over a sheaf: its notebook is plain files, with a journal and an undo.

    agent = Agent("anthropic:claude-sonnet-4-5", capabilities=[Memory(SheafMemoryStore(sheaf))])

A text with a header is a memory, any other a free file. The gates of the sheaf hold: a secret is refused, and the
model is told why.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from hashlib import sha256
from typing import NamedTuple, TypeVar

from memsheaf.adapters import missing
from memsheaf.errors import BadHeader, Changed, Exists, MemsheafError, NotFound, PathRefused, SecretFound
from memsheaf.guard.paths import check_path, is_fact
from memsheaf.guard.secrets import find_secrets
from memsheaf.index.database import Match, Row
from memsheaf.memory import Memory
from memsheaf.recall.inject import text_for_model
from memsheaf.sheaf import Sheaf
from memsheaf.store import ABSENT

try:
    import anyio.to_thread
    from pydantic_ai.exceptions import ToolFailed
    from pydantic_ai_harness.memory import (
        MemoryConflictError,
        MemoryFile,
        MemoryMutation,
        MemoryOperation,
        MemoryOperationConflictError,
        MemorySearchMatch,
        MemorySearchResult,
    )
except ImportError as error:
    raise missing("pydantic-ai-harness", error) from None

RECEIPTS = 1_024  # latest operations remembered, at least, so that a repeated one is done once

AMONG = 10_000  # files of one folder that are weighed one by one
LEAST = 40  # characters of a snippet, as long as there is room

_NAME = "harness.operations"
_LOOK_BACK = 100  # commits of a path, among which one is found whose receipt was not ticked off
_WAIT = 30.0
_PART = re.compile(r"[A-Za-z0-9_.-]{1,200}")
_Given = TypeVar("_Given")


class SheafMemoryStore:
    """A `MemoryStore` and `SearchableMemoryStore` in one sheaf, which its owner opens and closes.

    Any number of processes may use the same scope at once. A version is that of the sheaf, so what a person does in
    an editor counts as a change.
    """

    def __init__(self, sheaf: Sheaf) -> None:
        self._sheaf = sheaf
        self._receipts = _Receipts(sheaf)

    async def read(self, path: str, *, max_chars: int) -> MemoryFile | None:
        """The file at a path, None when there is none."""
        _require_positive(max_chars, "max_chars")
        return await _in_thread(lambda: self._read(path, max_chars))

    async def get_operation(self, operation: MemoryOperation) -> MemoryMutation | None:
        """What an operation did, if it was done. Raises MemoryOperationConflictError when its id is another's."""
        return await _in_thread(lambda: self._done(operation))

    async def write(
        self, path: str, content: str, *, expected_version: str | None, operation: MemoryOperation | None = None
    ) -> MemoryMutation:
        """Put a text at a path, provided that is at a version; None means that there is no file.

        Raises:
            MemoryConflictError: it is not, and nothing was written.
            ToolFailed: the text may not be stored; the message says why, for a model to read.
        """
        return await _in_thread(lambda: self._change(path, content, expected_version, operation))

    async def delete(
        self, path: str, *, expected_version: str | None, operation: MemoryOperation | None = None
    ) -> MemoryMutation:
        """Remove a file, provided it is at a version. A person can bring it back. Raises MemoryConflictError."""
        return await _in_thread(lambda: self._change(path, None, expected_version, operation))

    async def list_paths(self, prefix: str = "", *, limit: int) -> list[str]:
        """The paths that begin with a prefix, in order."""
        _require_positive(limit, "limit")
        if prefix:
            place_of(f"{prefix.removesuffix('/')}/a")  # as theirs, it refuses what no path begins with
        return await _in_thread(lambda: self._paths(prefix)[:limit])

    async def search(
        self, prefix: str, query: str, *, limit: int, max_files: int, max_chars: int, max_file_chars: int
    ) -> MemorySearchResult:
        """The files right below a prefix that share words with a query or mean the same, best first.

        As in the harness's own stores, the first `max_files` paths are searched, of each file the first
        `max_file_chars`, and names and snippets together have at most `max_chars`; `truncated` says that there is
        more. What is unconfirmed or expired is not among them: a piece of it would not say so.
        """
        if not query.split() or min(limit, max_files, max_chars, max_file_chars) <= 0:
            return MemorySearchResult(matches=[], scanned=0, truncated=False)

        def work() -> MemorySearchResult:
            near, found = self._matches(prefix, query, limit + 1, max_files + 1)
            scanned = min(len(near), max_files)
            is_long = any(self._is_longer(row, path, max_file_chars) for row, path in [*near.items()][:scanned])
            begun = [one._replace(text=one.text[:max_file_chars]) for one in found]
            begun = [one for one, whole in zip(begun, found, strict=True) if one == whole or _has_word(one, query)]
            matches = _fit(begun[:limit], prefix, query, max_chars)
            truncated = is_long or len(near) > scanned or len(begun) > len(matches)
            return MemorySearchResult(matches=matches, scanned=scanned, truncated=truncated)

        return await _in_thread(work)

    def _is_longer(self, row: Row, path: str, characters: int) -> bool:
        # its size is in bytes, of which a character has at least one
        return row.size > characters and (found := self._find(path)) is not None and len(found.text) > characters

    def _find(self, path: str) -> Memory | None:
        place = place_of(path)
        try:
            found = self._sheaf.read(place)
        except NotFound:
            return None
        return found if found.path == place else None

    def _read(self, path: str, max_chars: int) -> MemoryFile | None:
        found = self._find(path)
        if found is None:
            return None
        text = text_for_model(found)
        return MemoryFile(
            content=text[:max_chars],
            version=found.version,
            operation_id=self._receipts.writer(path, found.version),
            truncated=len(text) > max_chars,
        )

    def _change(
        self, path: str, content: str | None, expected: str | None, operation: MemoryOperation | None
    ) -> MemoryMutation:
        if operation is None:
            return self._changed(path, content, expected, why="")
        for secret in find_secrets(f"{path}\n{operation.id}") if expected is None else ():
            raise SecretFound(secret.kind, "the path")  # before a receipt has it
        with self._receipts.alone():
            if done := self._done(operation):
                return done
            self._receipts.begin(_Receipt(operation.id, operation.fingerprint, path, bool(expected)))
            mutation = self._changed(path, content, expected, why=_why(operation.id))
            self._receipts.end(operation.id, mutation.version or "")
            return mutation

    def _changed(self, path: str, content: str | None, expected: str | None, *, why: str) -> MemoryMutation:
        place, found = place_of(path), self._find(path)
        if (found.version if found else None) != expected:
            raise MemoryConflictError(f"{path!r} is not at the version that was expected")
        if found and found.state in ("bad", "held"):
            raise BadHeader(place, found.problem)  # a machine neither rewrites nor removes it
        try:
            if content is not None:
                version = self._sheaf.put(place, content, expect=expected or ABSENT, free=True, why=why).version
                return MemoryMutation(version=version, replayed=False, existed=found is not None)
            if found is not None:
                self._sheaf.forget(place, expect=expected, why=why)
            return MemoryMutation(version=None, replayed=False, existed=found is not None)
        except (Changed, NotFound, Exists) as error:
            if error.path != place:  # a file of another spelling stands in the way: to try again would not help
                raise
            raise MemoryConflictError(f"{path!r} changed just now") from error

    def _done(self, operation: MemoryOperation) -> MemoryMutation | None:
        """What an operation did; for one whose process died before it could say so, the journal knows."""
        receipt = self._receipts.find(operation)
        if receipt is None:
            return None
        after = receipt.after
        if after is None:
            commits = self._sheaf.log(place_of(receipt.path), limit=_LOOK_BACK)
            steps = (one.revisions[0] for one in commits if one.why == _why(operation.id))
            after = next((step.after for step in steps), None)
        if after is None:
            return None
        return MemoryMutation(version=after or None, replayed=True, existed=receipt.existed)

    def _paths(self, prefix: str) -> list[str]:
        found = (path_of(row.path) for row in self._sheaf.list())
        return sorted(path for path in found if path and path.startswith(prefix))

    def _matches(self, prefix: str, query: str, most: int, max_files: int) -> tuple[Mapping[Row, str], list[_Found]]:
        """The first files right below a prefix, and the best matches among them, but for the last of them."""
        reader = self._sheaf.reader
        reader.look()
        near: dict[Row, str] = {}

        def search() -> list[tuple[str, Match]]:
            near.clear()
            near.update(sorted(self._near(prefix), key=lambda one: one[1])[:max_files])
            places = {row.path: path for row, path in list(near.items())[: max_files - 1]}
            is_few = len(places) <= AMONG
            limit = most if is_few else 50 * most
            best = reader.matches(query, limit=limit, among=places if is_few else None, look=False)
            return [(places[match.row.path], match) for match in best if match.row.path in places][:most]

        read = reader.until_fresh(search, lambda found: (match.row.path for _, match in found))
        found = (_Found(path, memory.text, match.score) for path, match in read if (memory := self._sound(path)))
        return near, list(found)

    def _near(self, prefix: str) -> Iterator[tuple[Row, str]]:
        """The files right below a prefix that hold, each with its path of the harness."""
        folder = prefix[: prefix.rfind("/") + 1]
        try:
            below = place_of(f"{folder}a").rpartition("/")[0]
        except ValueError:  # no path begins so
            return
        for row in self._sheaf.reader.under(below):
            path = path_of(row.path) if row.trust == "confirmed" else ""
            if path.startswith(prefix) and path and "/" not in path[len(prefix) :]:
                yield row, path

    def _sound(self, path: str) -> Memory | None:
        found = self._find(path)
        return found if found and found.holds(self._sheaf.today) else None


class _Found(NamedTuple):
    """A file that was found: its path, its whole text, and how good a match it is."""

    path: str
    text: str
    score: float


class _Receipt(NamedTuple):
    """An operation on a path, and what came of it: a version, "" for a deletion, None before it is known."""

    id: str
    fingerprint: str
    path: str
    existed: bool
    after: str | None = None


class _Receipts:
    """The latest operations, kept beside the scope: a line when one begins, and a line when it is done."""

    def __init__(self, sheaf: Sheaf) -> None:
        self._sheaf = sheaf

    def alone(self) -> AbstractContextManager[None]:
        """Let one process at a time look for a receipt and make one."""
        return self._sheaf.state.lock(_NAME, wait=_WAIT)

    def find(self, operation: MemoryOperation) -> _Receipt | None:
        """The receipt of an operation. Raises MemoryOperationConflictError."""
        found = self._all().get(operation.id)
        if found and found.fingerprint != operation.fingerprint:
            raise MemoryOperationConflictError(f"the operation {operation.id!r} was another one")
        return found

    def writer(self, path: str, version: str) -> str | None:
        """The id of the operation that wrote a version, if one did."""
        known = reversed(self._all().values())
        return next((one.id for one in known if (one.path, one.after) == (path, version)), None)

    def begin(self, receipt: _Receipt) -> None:
        """Note an operation, durably, before it is done."""
        known = self._all()
        if len(known) < 2 * RECEIPTS:
            self._sheaf.state.append(_NAME, receipt)
            return
        kept = [*list(known.values())[-RECEIPTS:], receipt]
        self._sheaf.state.write(_NAME, "\n".join(map(json.dumps, kept)).encode())

    def end(self, id: str, after: str) -> None:
        """Note what came of it. Should this be lost, the journal has it."""
        self._sheaf.state.append(_NAME, (id, after))

    def _all(self) -> dict[str, _Receipt]:
        """What is known, the oldest first; what cannot be understood is left out."""
        found: dict[str, _Receipt] = {}
        for line in self._sheaf.state.lines(_NAME):
            match line:
                case [str(id), str(fingerprint), str(path), bool(existed), (str() | None) as after]:
                    found[id] = _Receipt(id, fingerprint, path, existed, after)
                case [str(id), str(after)] if id in found:
                    found[id] = found[id]._replace(after=after)
        return found


def _fit(found: Sequence[_Found], prefix: str, query: str, room: int) -> list[MemorySearchMatch]:
    """As many matches as there is room for, each with its share: from a little before the first word of the query."""
    matches: list[MemorySearchMatch] = []
    for left, one in zip(range(len(found), 0, -1), found, strict=True):
        name = len(one.path.removeprefix(prefix))
        share = max(room // left, min(room, name + LEAST)) - name
        if share <= 0:
            break
        text = one.text.lower()
        places = [place for word in query.lower().split() if (place := text.find(word)) >= 0]
        begin = max(0, min(places, default=0) - share // 4)
        matches.append(MemorySearchMatch(one.path, one.text[begin : begin + share], one.score))
        room -= name + len(matches[-1].snippet)
    return matches


def _has_word(found: _Found, query: str) -> bool:
    """Whether a word of the query is in this part of a file, or in its name."""
    text = f"{found.path}\n{found.text}".lower()
    return any(word in text for word in query.lower().split())


def place_of(path: str) -> str:
    """Where a sheaf keeps what the harness has at a path. No two paths share a place, on any file system.

    `@` stands before and after capitals, `+` before a part that we could not keep as it is, and behind one that does
    not end as ours do.

    >>> place_of("main/MEMORY.md"), place_of("Alice/notes.txt"), place_of("tasks/.hidden.md")
    ('main/@memory@.md', '@a@lice/notes.txt+.md', '+tasks/+.hidden.md')

    Raises:
        ValueError: it is no path of the harness, or too long or too deep for us.
    """
    parts = path.split("/")
    if not all(_PART.fullmatch(part) and ".." not in part and part != "." for part in parts):
        raise ValueError(f"invalid memory path: {path!r}")
    *folders, name = (re.sub("[A-Z]+", lambda capitals: f"@{capitals[0].lower()}@", part) for part in parts)
    folders = [_fitting(f"{folder}+" if folder.endswith(".") else folder, "{}/a.md") for folder in folders]
    name = _fitting(name if name.endswith(".md") and name != ".md" else f"{name}+.md", "{}")
    try:
        return check_path("/".join([*folders, name]))
    except PathRefused as error:
        raise ValueError(f"invalid memory path: {path!r}: {error.why}") from None


def path_of(place: str) -> str:
    """The path of the harness that has this place; "" when none has.

    >>> path_of("main/@memory@.md"), path_of("Notes of mine.md")
    ('main/MEMORY.md', '')
    """
    pieces = place.removesuffix("+.md") if place.endswith("+.md") else place
    parts = (part.removeprefix("+").removesuffix("+").split("@") for part in pieces.split("/"))
    path = "/".join(
        "".join(piece.upper() if number % 2 else piece for number, piece in enumerate(part)) for part in parts
    )
    try:
        return path if place_of(path) == place else ""
    except ValueError:
        return ""


def _fitting(part: str, place: str) -> str:
    """A part of a path as it is, or marked when it is reserved among us."""
    try:
        is_free = not is_fact(check_path(place.format(part)))
    except PathRefused:
        is_free = False
    return part if is_free else f"+{part}"


def _why(operation: str) -> str:
    """What the journal says of an operation, by which it is known again."""
    return f"memory operation {sha256(operation.encode('utf-8', 'replace')).hexdigest()[:12]}"


def _require_positive(number: int, name: str) -> None:
    if number <= 0:
        raise ValueError(f"{name} must be positive")


async def _in_thread(work: Callable[[], _Given]) -> _Given:
    """Do something with the disk beside the event loop; what we refuse is a tool that failed, in our words."""
    try:
        return await anyio.to_thread.run_sync(work)
    except MemsheafError as error:
        raise ToolFailed(f"{error}. {error.hint}".strip()) from error
