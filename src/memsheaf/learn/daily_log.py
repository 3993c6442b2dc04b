"""The daily log: what was said, day by day, in Markdown files.

    logs/2026/11/2026-11-15.md      # 2026-11-15

                                    - 14:32 user: Remember that our releases go out on Fridays.
                                    - 14:32 agent: Noted.
                                    - 15:10 note: The migration is through.
                                      Nothing was lost.

A page is append-only, one commit an append, in a store of its own inside the scope's folder. It is learned from
later: `hand_over` puts what is new into the inbox, which recognizes what it has had. What a person writes into a page
stays as it is, and is read as far as it is entries.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import count
from typing import NamedTuple

from memsheaf.errors import Busy, NotFound, PathRefused, SecretFound, StoreFailed, TextRefused, hinted
from memsheaf.guard.secrets import new_secrets
from memsheaf.learn.inbox import Inbox
from memsheaf.limits import retry
from memsheaf.memory import STRICT, Allow
from memsheaf.recall.turns import Message, Turn
from memsheaf.store import ABSENT, Change, Commit, Document, Stamp, Version
from memsheaf.store.folder import FolderStore
from memsheaf.store.state import State
from memsheaf.store.trust import TrustLedger
from memsheaf.text.neutralize import cut_bytes, for_terminal
from memsheaf.worktree import bring_journal

LOGS = "logs"
PAGE_BYTES = 32 * 1024  # a page is read and written whole: a longer day goes on in another file
NOTE_BYTES = 16_384  # as much as is read of a message
AGENT_BYTES = 600
LOCK_SECONDS = 10.0
RETENTION_DAYS = 1.0  # a page holds all that its older texts held, so the journal need not keep them for long
_NEVER = -36_500.0  # days: whatever the clock said, it was written before

_CURSOR = "log.json"
_ROLES = {"user": "user", "note": "user", "agent": "assistant"}
_NAME = r"([0-9]{4})/([0-9]{2})/(\1-\2-[0-9]{2})(?:-([1-9][0-9]{0,5}))?\.md"
_ENTRY = r"- ((?:[01][0-9]|2[0-3]):[0-5][0-9])(?: (user|agent|note)( \(saved\))?:)?(?:[ \t]+(.*))?"
_LINES = rb"[^\n]*\n|[^\n]+"


class LogEntry(NamedTuple):
    """One entry of a day. `source` is `user`, `agent`, or `note` for what somebody noted on purpose.

    `saved` says that the agent wrote to memory itself in that turn: nothing more is learned from it.
    """

    time: str
    source: str
    text: str
    saved: bool = False


class Day(NamedTuple):
    """A day as its pages have it: the text, with all that a person wrote there, and the entries in it."""

    day: str
    text: str
    entries: tuple[LogEntry, ...]


class _Block(NamedTuple):
    """An entry of a page with its lines, or one line that is none."""

    data: bytes
    entry: LogEntry | None

    @property
    def text(self) -> str:
        """What it says."""
        return self.entry.text if self.entry else self.data.decode("utf-8", "replace")


class DailyLog:
    """The log of one scope. Nothing is created before something is written; any number of processes may append."""

    def __init__(
        self, root: str, state: State, *, ledger: TrustLedger | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        self.root = os.path.join(root, LOGS)
        self._ledger = ledger and ledger.below(f"{LOGS}/")
        self._state = state
        self._clock = clock
        self._inbox = Inbox(state, clock=clock)
        self._pages = self._store(RETENTION_DAYS)
        if self._pages.left_journal:
            bring_journal(self._pages)

    def _store(self, retention_days: float) -> FolderStore:
        return FolderStore(
            self.root,
            clock=self._clock,
            wait=LOCK_SECONDS,
            retention_days=retention_days,
            checkout=self._ledger.checkout if self._ledger else "",
            private=self.root,
        )

    def __enter__(self) -> DailyLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Flush everything to disk and release it."""
        self._pages.close()

    def append(self, turn: Turn, *, by: str = "agent") -> bool:
        """Log what the user said in a turn, and the agent's last message; False when nothing of it is new.

        What may not be stored in the inbox is not logged, and what a host sends again is not logged again.

        Raises:
            PathRefused: the folder or the page is a link.
            StoreFailed, Busy: nothing was logged.
        """
        return self._inbox.append(turn, store=lambda fresh: self._append(fresh, by))

    def note(self, text: str, *, by: str = "user", allow: Allow = STRICT) -> str:
        """Log a note, as it is; returns its page.

        Raises:
            SecretFound: it holds a secret, and nobody said to allow it.
            TextRefused: it is empty, or too long for a note.
            PathRefused, StoreFailed, Busy: as `append`.
        """
        for secret in new_secrets(text, "") if not allow.secrets else ():
            line = text.count("\n", 0, secret.start) + 1
            raise SecretFound(secret.kind, f"line {line} of the note")
        size = len(text.encode("utf-8", "replace"))
        if not text.strip() or size > NOTE_BYTES:
            why = f"it has {size:,} bytes, {NOTE_BYTES:,} are the most" if text.strip() else "it is empty"
            error = TextRefused(f"this is no note: {why}; nothing was logged")
            raise hinted(error, "Say it in a few sentences; what is longer belongs in a file that the note names.")
        return self._add_entries([("note", text)], by=by, saved=False)

    def undo(self, *, by: str = "user") -> str:
        """Undo what was logged last, as long as its page is as it was then; returns the page.

        Raises:
            NoSuchCommit: nothing is left to take back.
            Changed: the page was changed since.
        """
        self._refuse_link()
        return self._pages.undo(self._pages.last_standing(except_by="outside").id, by=by).revisions[0].path

    def days(self, first: str = "", last: str = "") -> list[Day]:
        """The days that were logged, oldest first, from `first` to `last` if they are given (as "2026-11-15")."""
        found: dict[str, list[str]] = {}
        for path, day, _ in self._pages_in_order():
            if first <= day <= (last or day) and (page := self._read(path)):
                found.setdefault(day, []).append(page.text)
        return [
            Day(day, "\n".join(texts), tuple(entry for text in texts for entry in entries(text)))
            for day, texts in found.items()
        ]

    def waiting(self) -> list[Turn]:
        """What was not handed over yet, as turns. Nothing is changed."""
        return [turn for _, _, turns in self._changed_pages() if turns for turn in self._inbox.unseen(turns)]

    def hand_over(self) -> int:
        """Put what was logged since the last time into the inbox; returns how many turns were new to it.

        A page that changed is handed over as a whole, and the inbox recognizes what it has had. Only one process at
        a time may do this. Raises StoreFailed, Busy.
        """
        pages = list(self._changed_pages())
        added = sum(self._inbox.extend(turns) for _, _, turns in pages if turns)
        if any(turns is not None for _, _, turns in pages):
            self._state.save(_CURSOR, {path: stamp for path, stamp, _ in pages})
        return added

    def purge(self, keep: Callable[[str], bool]) -> int:
        """Take out what is not to be kept, of the pages and of all their older texts; returns how many entries.

        After a crash it is done again as a whole. Raises StoreFailed, Busy.
        """
        if not self._is_there() and (os.path.lexists(self.root) or not os.path.isdir(self._pages.journals)):
            return 0
        # what a person took out by hand is then not the last that the journal knows
        self._pages.adopt(None)
        paths = [path for path, _, _ in self._pages_in_order()]
        self._pages.adopt(paths)
        dropped = sum(self._purge_page(path, keep) for path in paths)
        self._store(_NEVER).prune()
        return dropped

    def files(self) -> list[str]:
        """The files it is kept in: pages and journal."""
        places = {self._pages.journals, self.root} if self._is_there() else {self._pages.journals} - {self.root}
        walked = (found for place in places for found in os.walk(place))
        return [os.path.join(folder, name) for folder, _, names in walked for name in names]

    def _append(self, turn: Turn, by: str) -> bool:
        texts = [("user", message.text) for message in turn.messages if message.role == "user"]
        texts += [("agent", _shorten(message.text)) for message in turn.messages if message.role == "assistant"][-1:]
        return bool(texts and self._add_entries(texts, by=by, saved=turn.saved))

    def _add_entries(self, texts: Sequence[tuple[str, str]], *, by: str, saved: bool) -> str:
        """Add entries, each a source and a text, to the page of today; returns its path."""
        self._refuse_link()
        now = time.localtime(self._clock())
        day, moment = time.strftime("%Y-%m-%d", now), time.strftime("%H:%M", now)
        added = "".join(_render(LogEntry(moment, source, _plain(text), saved)) for source, text in texts).encode()

        def add() -> str:
            path, data, version = self._page(day)
            gap = b"" if data.endswith(b"\n") else b"\n" if data else f"# {day}\n\n".encode()
            self._record(self._pages.commit([Change(path, data + gap + added, version)], by=by, why="log"))
            return path

        return retry(add, busy=f"the log of {day} changes faster than it can be added to")

    def _page(self, day: str) -> tuple[str, bytes, Version]:
        """Return the page that a day goes on in: its path, and its text if it is there yet.

        It is the first that is not full, and did not go with the folder: that one can be restored.
        """
        lost = self._pages.lost()
        for number in count(1):
            path = f"{day[:4]}/{day[5:7]}/{day}{f'-{number}' if number > 1 else ''}.md"
            stamp = self._pages.stamps([path])[path]
            if path not in lost and (stamp is None or stamp[2] < PAGE_BYTES):
                try:
                    page = self._pages.read(path)
                except NotFound:
                    return path, b"", ABSENT
                if self._is_ours(page):
                    return path, page.data, page.version
        raise AssertionError("counting does not end")

    def _record(self, commit: Commit) -> None:
        """Note in the ledger of a repository that this machine wrote these pages."""
        if self._ledger:
            with suppress(StoreFailed, Busy):  # then it is not learned from
                self._ledger.add([(step.path, step.after) for step in commit.revisions if step.after], commit.by)

    def _is_ours(self, page: Document) -> bool:
        """Whether this machine wrote the page; what came with a repository is neither learned from nor added to."""
        return self._ledger is None or self._ledger.knows(page.path, page.version)

    def _purge_page(self, path: str, keep: Callable[[str], bool]) -> int:
        def purge() -> int:
            if (page := self._read(path)) is None:
                return 0
            blocks = list(_blocks(page.data))
            kept = [block for block in blocks if keep(block.text)]
            if len(kept) == len(blocks):
                return 0
            change = Change(path, b"".join(block.data for block in kept), page.version)
            try:
                done = self._pages.commit([change], by="user", why="erase")
            except TextRefused:  # only a person can change a file of that size; the proof will name it
                return 0
            if self._is_ours(page):
                self._record(done)
            return len(blocks) - len(kept)

        return retry(purge, busy=f"{path!r} changes faster than it can be read")

    def _pages_in_order(self) -> list[tuple[str, str, Stamp]]:
        """The path, the day and the stamp of every page, in the order in which they were written."""
        if not self._is_there():
            return []
        found = []
        for entry in self._pages.scan():
            if not entry.problem and (name := re.fullmatch(_NAME, entry.path)):
                found.append((name[3], int(name[4] or 1), entry.path, entry.stamp))
        return [(path, day, stamp) for day, _, path, stamp in sorted(found)]

    def _read(self, path: str) -> Document | None:
        """A page as it is now; None when it is gone, or not ours to read."""
        try:
            return self._pages.read(path)
        except (NotFound, PathRefused, StoreFailed):
            return None

    def _changed_pages(self) -> Iterator[tuple[str, Stamp, list[Turn] | None]]:
        """Yield each page that may be read, its stamp, and what it says if it changed since it was handed over."""
        saved = self._state.load(_CURSOR)
        handed_over = saved if isinstance(saved, dict) else {}
        for path, day, stamp in self._pages_in_order():
            if handed_over.get(path) == list(stamp):
                yield path, stamp, None
            elif (page := self._read(path)) and self._is_ours(page):
                yield path, stamp, _turns(path, day, page.data)

    def _is_there(self) -> bool:
        """Whether there is a log: a folder, and no link to one."""
        return os.path.isdir(self.root) and not os.path.islink(self.root)

    def _refuse_link(self) -> None:
        """Raise PathRefused when the folder leads elsewhere: it may have come with a repository."""
        if os.path.lexists(self.root) and not self._is_there():
            raise PathRefused(LOGS, "it is a link or not a folder")


def entries(text: str) -> list[LogEntry]:
    """The entries of a page.

    >>> found = entries("# 2026-11-15\\n\\n- 14:32 user: Ship it.\\n  On Friday.\\n\\nby hand\\n- 15:00 Lunch.")
    >>> [(entry.time, entry.source, entry.text) for entry in found]
    [('14:32', 'user', 'Ship it.\\nOn Friday.'), ('15:00', 'note', 'Lunch.')]
    """
    return [block.entry for block in _blocks(text.encode("utf-8", "replace")) if block.entry]


def _blocks(data: bytes) -> Iterator[_Block]:
    """A page in blocks. To an entry belong the lines below it that are indented or empty."""
    begun: list[bytes] = []  # an entry that may go on
    for line in re.findall(_LINES, data):
        if begun and (not line.strip() or line.startswith((b"  ", b"\t"))):
            begun.append(line)
            continue
        if begun:
            yield _Block(b"".join(begun), _entry(begun))
        begun = [line] if re.fullmatch(_ENTRY, _decoded(line)) else []
        if not begun:
            yield _Block(line, None)
    if begun:
        yield _Block(b"".join(begun), _entry(begun))


def _entry(lines: Sequence[bytes]) -> LogEntry:
    first, *more = map(_decoded, lines)
    found = re.fullmatch(_ENTRY, first)
    assert found
    below = (line[2:] if line.startswith("  ") else line[1:] for line in more)
    return LogEntry(found[1], found[2] or "note", "\n".join([found[4] or "", *below]).strip(), bool(found[3]))


def _decoded(line: bytes) -> str:
    return line.decode("utf-8", "replace").rstrip("\r\n")


def _turns(path: str, day: str, data: bytes) -> list[Turn]:
    """What a page holds, as turns: what an agent said belongs to what stands before it.

    A message's id is its page and time: it stays the same whatever happens to the rest of the page, and what was
    logged twice because of a crash is read once.
    """
    turns: list[Turn] = []
    for block in _blocks(data):
        entry = block.entry
        if entry is None or not entry.text:
            continue
        message = Message(_ROLES[entry.source], entry.text, f"{LOGS}/{path} {entry.time}")
        if entry.source == "agent" and turns:
            turns[-1] = turns[-1]._replace(messages=(*turns[-1].messages, message))
        else:
            turns.append(Turn(f"{LOGS}/{path}", (message,), f"{day}T{entry.time}", entry.saved))
    return turns


def _render(entry: LogEntry) -> str:
    """An entry as its lines."""
    first, *more = entry.text.split("\n")
    who = f"{entry.source} (saved)" if entry.saved else entry.source
    below = (f"  {line}\n" if line.strip() else "\n" for line in more)
    return f"- {entry.time} {who}: {first}\n{''.join(below)}"


def _plain(text: str) -> str:
    """A text that a person may look at in any program: one kind of line end, and nothing that acts or hides."""
    return for_terminal(re.sub(r"\r\n?", "\n", text.encode("utf-8", "replace").decode()).strip())


def _shorten(text: str) -> str:
    kept = cut_bytes(text, AGENT_BYTES)
    if kept == text:
        return text
    return f"{kept.rstrip()} … (cut here: {len(kept.encode()):,} of {len(text.encode()):,} bytes were kept)"
