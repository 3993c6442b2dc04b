"""The daily log: what was said, day by day, in Markdown files.

    logs/2026/11/2026-11-15.md      # 2026-11-15

                                    - 14:32 user: Remember that our releases go out on Fridays.
                                    - 14:32 agent: Noted.
                                    - 15:10 note: The migration is through.
                                      Nothing was lost.

A page is append-only, one commit an append, in a store of its own inside the scope's folder. It is for people to
read: what is logged goes into the inbox, too, and is learned from there. What a person writes into a page stays as it
is.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from typing import NamedTuple

from memsheaf.errors import Busy, NotFound, PathRefused, SecretFound, StoreFailed, TextRefused
from memsheaf.guard.secrets import new_secrets
from memsheaf.learn.inbox import Inbox, cut_message
from memsheaf.memory import STRICT, Allow
from memsheaf.open_scope import retry
from memsheaf.recall.turns import Message, Turn
from memsheaf.state import State
from memsheaf.state.trust import TrustLedger, list_versions
from memsheaf.store import ABSENT, Change, Commit, Document, Version
from memsheaf.store.folder import FolderStore
from memsheaf.text.neutralize import for_terminal
from memsheaf.worktree import bring_journal

LOGS = "logs"
MAX_PAGE_BYTES = 32 * 1024  # a page is read and written whole: a longer day goes on in another file
MAX_NOTE_BYTES = 16_384  # as much as is read of a message
MAX_AGENT_BYTES = 600
LOCK_SECONDS = 10.0
RETENTION_DAYS = 1.0  # a page holds all that its older texts held, so the journal need not keep them for long
_NO_RETENTION_DAYS = -36_500.0  # days: whatever the clock said, it was written before

_PAGE_NAME = r"([0-9]{4})/([0-9]{2})/(\1-\2-[0-9]{2})(?:-([1-9][0-9]{0,5}))?\.md"
_TIME_PATTERN = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]"
# an entry with the lines below it that are indented or blank; or one line that is none
_BLOCK_PATTERN = (
    rf"- ({_TIME_PATTERN})(?: (user|agent|note)(?: \(saved\))?:)?(?:[ \t]+([^\n]*))?(?:\r*\n|\Z)"
    r"((?:(?:  |\t)[^\n]*\n?|\s*\n)*)"
    r"|[^\n]*\n|[^\n]+"
)


class LogEntry(NamedTuple):
    """One entry of a day. `source` is `user`, `agent`, or `note` for what somebody noted on purpose."""

    time: str
    source: str
    text: str


class Day(NamedTuple):
    """A day as its pages have it: the text, with all that a person wrote there."""

    day: str
    text: str

    @property
    def entries(self) -> list[LogEntry]:
        """Return the entries in it."""
        return entries(self.text)


class DailyLog:
    """The log of one scope. Nothing is created before something is written; any number of processes may append.

    Unless it `learns`, notes are kept but not learned from. In a repository, the `ledger` tells our pages from
    others, which git may track, so that nothing is added to those.
    """

    def __init__(
        self,
        root: str,
        state: State,
        *,
        ledger: TrustLedger | None = None,
        learns: bool = True,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.root = os.path.join(root, LOGS)
        self._ledger = ledger and ledger.below(f"{LOGS}/")
        self._learns = learns
        self._clock = clock
        self._inbox = Inbox(state, clock=clock)
        self._pages = self._store(RETENTION_DAYS)
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
        """Queue a turn, and log what the user said in it and the agent's last message; False when nothing is new.

        What may not be stored in the inbox is not logged, and what a host sends again is not logged again.

        Raises:
            PathRefused: the folder or the page is a link.
            StoreFailed, Busy: nothing was logged.
        """
        users = [message for message in turn.messages if message.role == "user"]
        answers = [message for message in turn.messages if message.role == "assistant"]
        turn = turn._replace(messages=(*users, *answers[-1:]))
        return self._inbox.append(turn, log=lambda fresh: self._log(fresh, by))

    def note(self, text: str, *, by: str = "user", allow: Allow = STRICT) -> str:
        """Log a note, as it is, and queue it to be learned from; return its page.

        Raises:
            SecretFound: it holds a secret, and nobody said to allow it.
            TextRefused: it is empty, or too long for a note.
            PathRefused, StoreFailed, Busy: as `append`.
        """
        for secret in new_secrets(text, "") if not allow.secrets else ():
            line = text.count("\n", 0, secret.start) + 1
            raise SecretFound(secret.kind, f"line {line} of the note")
        if not text.strip() or len(text.encode("utf-8", "replace")) > MAX_NOTE_BYTES:
            raise TextRefused(
                f"a note has 1 to {MAX_NOTE_BYTES:,} bytes; nothing was logged",
                hint="Say it in a few sentences; what is longer belongs in a file that the note names.",
            )
        path = self._add_entries([("note", text)], by=by)
        if self._learns:  # under an id of its own: the same may be noted twice
            self._inbox.append(Turn(f"{LOGS}/{path}", (Message("user", text, os.urandom(16).hex()),)))
        return path

    def undo(self, *, by: str = "user") -> str:
        """Undo what was logged last, as long as its page is as it was then; return the page. It is not learned.

        Raises:
            NotInHistory: nothing is left to take back.
            Changed: the page was changed since.
        """
        self._refuse_link()
        revision = self._pages.undo(self._pages.last_standing(except_by="outside").id, by=by).revisions[0]
        texts = {entry.text for entry in entries((revision.old or b"").decode("utf-8", "replace"))}
        texts -= {entry.text for entry in entries((revision.new or b"").decode("utf-8", "replace"))}
        self._inbox.purge(lambda text: entries(_render("00:00", "note", text))[0].text not in texts)
        return revision.path

    def days(self, first: str = "", last: str = "") -> list[Day]:
        """Return the days that were logged, from `first` to `last` if they are given (as "2026-11-15")."""
        texts: dict[str, str] = {}
        for path, day in self._list_pages():
            if first <= day <= (last or day) and (page := self._read(path)):
                texts[day] = f"{texts[day]}\n{page.text}" if day in texts else page.text
        return [Day(day, text) for day, text in texts.items()]

    def purge(self, keep: Callable[[str], bool]) -> None:
        """Take out what is not to be kept, of the pages and of all their older texts.

        After a crash it is done again as a whole. Raises StoreFailed, Busy.
        """
        if not self._is_there() and (os.path.lexists(self.root) or not os.path.isdir(self._pages.journals)):
            return
        # what a person took out by hand is then not the last that the journal knows
        self._pages.adopt(None)
        paths = [path for path, _ in self._list_pages()]
        self._pages.adopt(paths)
        for path in paths:
            retry(partial(self._purge_page, path, keep), busy=f"{path!r} changes faster than it can be read")
        self._store(_NO_RETENTION_DAYS).prune()

    def files(self) -> list[str]:
        """Return the files it is kept in: pages and journal."""
        folders = {self._pages.journals, self.root}
        if not self._is_there():
            folders.remove(self.root)
        return [
            os.path.join(folder, name) for start in folders for folder, _, names in os.walk(start) for name in names
        ]

    def _log(self, turn: Turn, by: str) -> None:
        texts = []
        for message in turn.messages:
            is_user = message.role == "user"
            texts.append(("user", message.text) if is_user else ("agent", cut_message(message.text, MAX_AGENT_BYTES)))
        self._add_entries(texts, by=by)

    def _add_entries(self, texts: Sequence[tuple[str, str]], *, by: str) -> str:
        """Add entries, each a source and a text, to the page of today; return its path."""
        self._refuse_link()
        now = time.localtime(self._clock())
        day, moment = time.strftime("%Y-%m-%d", now), time.strftime("%H:%M", now)
        added = "".join(_render(moment, source, text) for source, text in texts)

        def add() -> str:
            path, data, version = self._find_page(day)
            gap = "" if data else f"# {day}\n\n"
            if data and not data.endswith(b"\n"):
                gap = "\n"
            change = Change(path, data + gap.encode() + added.encode(), version)
            self._record(self._pages.commit([change], by=by, why="log"))
            return path

        return retry(add, busy=f"the log of {day} changes faster than it can be added to")

    def _find_page(self, day: str) -> tuple[str, bytes, Version]:
        """Return the page that a day goes on in: its path, and its text if it is there yet.

        It is the first that is not full, and did not go with the folder: that one can be restored.
        """
        lost = self._pages.lost()
        for number in count(1):
            suffix = f"-{number}" if number > 1 else ""
            path = f"{day[:4]}/{day[5:7]}/{day}{suffix}.md"
            if path in lost:
                continue
            try:
                page = self._pages.read(path)
            except NotFound:
                return path, b"", ABSENT
            if len(page.data) < MAX_PAGE_BYTES and self._is_ours(page):
                return path, page.data, page.version
        raise AssertionError

    def _record(self, commit: Commit) -> None:
        """Note in the ledger of a repository that this machine wrote these pages."""
        if self._ledger:
            with suppress(StoreFailed, Busy):  # then the next entry goes to another page
                self._ledger.add(list_versions([commit]))

    def _is_ours(self, page: Document) -> bool:
        """Return True if this machine wrote the page."""
        return self._ledger is None or self._ledger.knows(page.path, page.version)

    def _purge_page(self, path: str, keep: Callable[[str], bool]) -> None:
        if (page := self._read(path)) is None:
            return
        blocks = list(_find_blocks(page.data.decode("utf-8", "surrogateescape")))
        left = [block for block, entry in blocks if keep(entry.text if entry else block)]
        if len(left) == len(blocks):
            return
        change = Change(path, "".join(left).encode("utf-8", "surrogateescape"), page.version)
        with suppress(TextRefused):  # only a person can change a file of that size; the proof will name it
            commit = self._pages.commit([change], by="user", why="erase")
            if self._is_ours(page):
                self._record(commit)

    def _list_pages(self) -> list[tuple[str, str]]:
        """Return the path and the day of every page, in the order in which they were written."""
        if not self._is_there():
            return []
        pages = []
        for entry in self._pages.scan():
            name = re.fullmatch(_PAGE_NAME, entry.path)
            if name and not entry.problem:
                pages.append((name[3], int(name[4] or 1), entry.path))
        return [(path, day) for day, _, path in sorted(pages)]

    def _read(self, path: str) -> Document | None:
        """Return a page as it is now; None when it is gone, or not ours to read."""
        try:
            return self._pages.read(path)
        except (NotFound, PathRefused, StoreFailed):
            return None

    def _is_there(self) -> bool:
        """Return True if there is a log: a folder, and no link to one."""
        return os.path.isdir(self.root) and not os.path.islink(self.root)

    def _refuse_link(self) -> None:
        """Raise PathRefused when the folder leads elsewhere: it may have come with a repository."""
        if os.path.lexists(self.root) and not self._is_there():
            raise PathRefused(LOGS, "it is a link or not a folder")


def entries(text: str) -> list[LogEntry]:
    """Return the entries of a page.

    >>> page = "# 2026-11-15\\n\\n- 14:32 user: Ship it.\\n  On Friday.\\n\\nby hand\\n- 15:00 Lunch."
    >>> [(entry.time, entry.source, entry.text) for entry in entries(page)]
    [('14:32', 'user', 'Ship it.\\nOn Friday.'), ('15:00', 'note', 'Lunch.')]
    """
    return [entry for _, entry in _find_blocks(text) if entry]


def _find_blocks(page: str) -> Iterator[tuple[str, LogEntry | None]]:
    """Yield a page in parts: an entry with its lines, or a line that is none."""
    for block in re.finditer(_BLOCK_PATTERN, page):
        time, source, first, below = block.groups(default="")
        entry = None
        if time:
            lines = f"{first}\n{below}".replace("\r\n", "\n")
            text = re.sub(r"\n(?:  |[ \t])", "\n", lines).strip()
            entry = LogEntry(time, source or "note", text)
        yield block[0], entry


def _render(time: str, source: str, text: str) -> str:
    """Return an entry as its lines, as any program may show them: nothing in it acts or hides."""
    plain = for_terminal(re.sub(r"\r\n?", "\n", text.encode("utf-8", "replace").decode()).strip())
    lines = re.sub(r"\n(?!\n|$)", "\n  ", re.sub(r"(?m)^\s+$", "", plain))
    return f"- {time} {source}: {lines}\n"
