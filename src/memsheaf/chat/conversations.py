"""The store of conversations: list, find, resume, delete.

Nothing expires: a conversation stays until somebody removes it. One process at a time adds to it; whoever wants to go
on with one that another process has open is told, and may read it. Its format: `learn/conversation_file.py`.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from functools import reduce
from typing import NamedTuple

from memsheaf.errors import Busy, NotFound, Refused, StoreFailed
from memsheaf.guard.secrets import without_secrets
from memsheaf.learn import conversation_file
from memsheaf.learn.conversation_file import FILE_PREFIX, FILE_SUFFIX, HISTORY_FILE, ConversationLine
from memsheaf.llm.model import Said
from memsheaf.memory import utc_time
from memsheaf.state import State
from memsheaf.text.neutralize import one_line
from memsheaf.text.requests import follow_privacy, is_silent

MAX_TITLE_CHARS = 80
MAX_TYPED_LINES = 1_000
MAX_UNSWEPT_LINES = 200  # beyond these, until they are removed
LIST_HINT = "`memsheaf chat --list` lists them."

_ID = re.compile(rf"{FILE_PREFIX}([0-9]{{8}}-[0-9]{{4}}-[0-9a-f]{{4}}){re.escape(FILE_SUFFIX)}")


class ConversationSummary(NamedTuple):
    """A kept conversation: when it began and was last gone on with (UTC), and its first words as `title`.

    `turns` is how often the user said something. `model` and `scope` are the last ones, "" when nobody said.
    """

    id: str
    began: str
    last: str
    title: str
    turns: int
    model: str
    scope: str


Summaries = list[ConversationSummary]


class Conversation:
    """One conversation, kept line by line. It is held from the first line on, until it is closed."""

    def __init__(self, state: State, id: str, *, clock: Callable[[], float], new: bool = False) -> None:
        self.id = id
        self._state = state
        self._clock = clock
        self._is_new = new
        self._noted: dict[str, object] = {}
        self._waiting: dict[str, object] = {}  # facts that are written with the next message
        self._privacy: str | None = "" if new else None
        self._held: ExitStack | None = None
        self._turns: int | None = 0 if new else None

    @property
    def turns(self) -> int:
        """The number of the user's messages in it."""
        if self._turns is None:
            self._turns = sum(1 for line in self.lines() if line.said and line.said.role == "user")
        return self._turns

    @property
    def name(self) -> str:
        """The name of its file."""
        return f"{FILE_PREFIX}{self.id}{FILE_SUFFIX}"

    def add(self, *said: Said) -> None:
        """Keep messages, durably, all or none; secrets and what stands beside them are left out.

        Raises:
            StoreFailed: the disk refused. What was there is still there, and nothing was added.
            Refused: another process has the conversation open.
        """
        if not said:
            return
        self.hold()
        if self._privacy is None:
            users = (line.said.text for line in self.lines() if line.said and line.said.role == "user")
            self._privacy = reduce(follow_privacy, users, "")
        # first: when this cannot be written, what comes after it is silent all the same
        cleaned, self._privacy = _clean(said, self._privacy)
        turns = self.turns
        self._write([ConversationLine(self._now(), one) for one in cleaned])
        self._turns = turns + sum(one.role == "user" for one in cleaned)

    def mark(self, **facts: str) -> None:
        """Note facts about the conversation, which are written with the next message; the last of each counts."""
        news = {key: without_secrets(value) for key, value in facts.items() if self._noted.get(key, "") != value}
        self._noted |= facts
        self._waiting |= news

    def replace_messages(self, said: Sequence[Said]) -> None:
        """From here on the conversation is this; what was said before stays in the file. Raises as `add`."""
        self.hold()
        cleaned, reach = _clean(said, "")
        if self._privacy in ("rest", "asked") and reach not in ("rest", "asked"):  # the request itself is left out
            cleaned, _ = _clean(said, "rest")
        self._write([ConversationLine(self._now(), compacted=tuple(cleaned))])

    def messages(self) -> list[Said]:
        """Return the messages since it was made shorter, the short form first."""
        said: list[Said] = []
        for line in self.lines():
            if line.compacted is not None:
                said = [*line.compacted]
            elif line.said:
                said.append(line.said)
        return said

    def lines(self) -> Iterator[ConversationLine]:
        """Yield all lines of its file."""
        return conversation_file.read_lines(self._state, self.name)

    def summarize(self) -> ConversationSummary:
        """Return a summary for a listing."""
        began = last = title = ""
        turns = 0
        facts = self._waiting
        for line in self.lines():
            began = began or line.at
            last = line.at or last
            facts = {**facts, **(line.facts or {})}
            if line.said and line.said.role == "user":
                turns += 1
                title = title or one_line(line.said.text, MAX_TITLE_CHARS)
        model, scope = (one if isinstance(one := facts.get(key), str) else "" for key in ("model", "scope"))
        at = _at(self.id)
        return ConversationSummary(self.id, began or at, last or at, title, turns, model, scope)

    def hold(self) -> None:
        """Be the only one who adds to it, until it is closed. Raises Refused, StoreFailed."""
        while self._held is None:
            with ExitStack() as held:
                try:
                    held.enter_context(self._state.lock(f"{FILE_PREFIX}{self.id}"))
                except Busy:
                    if not self._is_new:
                        why = f"the conversation {self.id} is open already, here or in another process"
                        raise Refused(why, hint="Close it there, or begin another one here.") from None
                else:
                    if not (self._is_new and os.path.lexists(os.path.join(self._state.folder, self.name))):
                        self._held = held.pop_all()
                        return
            self.id = _fresh(self._state, self._clock())  # somebody began one in the same minute, and got the same

    def close(self) -> None:
        """Let other processes go on with it."""
        if self._held is not None:
            self._held.close()
            self._held = None

    def __enter__(self) -> Conversation:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write(self, lines: Sequence[ConversationLine]) -> None:
        before = [ConversationLine(self._now(), facts=self._waiting)] if self._waiting else []
        try:
            conversation_file.append_lines(self._state, self.name, [*before, *lines])
        except Busy as error:
            raise StoreFailed(f"{self.name} cannot be written: {error}", hint=error.hint) from None
        self._is_new = False
        self._waiting = {}

    def _now(self) -> str:
        return utc_time(self._clock(), milliseconds=True)


class Conversations:
    """The kept conversations of one scope."""

    def __init__(self, state: State, *, clock: Callable[[], float] = time.time) -> None:
        self._state = state
        self._clock = clock

    def begin(self, *, model: str = "", scope: str = "") -> Conversation:
        """A new conversation. Nothing is written before the first message."""
        id = _fresh(self._state, self._clock())
        begun = Conversation(self._state, id, clock=self._clock, new=True)
        begun.mark(model=model, scope=scope)
        return begun

    def open(self, id: str = "", *, reading: bool = False) -> Conversation:
        """One that is kept: the beginning of its id is enough, and "" or "last" is the one gone on with last.

        Unless it is for `reading`, it is held until it is closed.

        Raises:
            NotFound: there is none.
            Refused: several begin so, or another process has it open.
        """
        wanted = id.strip().lower()
        ids = _ids(self._state)
        found = self._newest()[:1] if wanted in ("", "last") else [id for id in ids if id.startswith(wanted)]
        if len(found) > 1:
            raise Refused(
                f"{len(found)} conversations begin with {wanted!r}", hint=f"Give more of the id; {LIST_HINT}"
            )
        if not found:
            raise _missing(id)
        conversation = Conversation(self._state, found[0], clock=self._clock)
        if not reading:
            conversation.hold()
            if found[0] not in _ids(self._state):  # it was removed in this moment
                conversation.close()
                raise _missing(id)
        return conversation

    def read_erasure_stamp(self) -> bytes:
        """Return a stamp that changes whenever something is erased from conversations here."""
        return self._state.read(conversation_file.STAMP_FILE) or b""

    def list(self, *, limit: int = 50) -> Summaries:
        """Return the kept conversations, the last used first; 0 lists all."""
        return [self._reading(id).summarize() for id in self._newest()[: limit or None]]

    def remove(self, id: str) -> None:
        """Remove one for good. Raises NotFound, Refused, StoreFailed."""
        with self.open(id) as conversation, conversation_file.lock_conversations(self._state):
            self._state.remove(conversation.name)
            with suppress(StoreFailed):  # some systems remove no file that is open
                self._state.remove(f"{FILE_PREFIX}{conversation.id}.lock")

    def older(self, days: float) -> Summaries:
        """The conversations without a message for this many days."""
        before = utc_time(self._clock() - days * 86_400, milliseconds=True)
        return [self._reading(id).summarize() for id in self._newest() if self._last(id) < before]

    def prune(self, days: float) -> int:
        """Remove those without a message for this many days, except open ones; gives how many."""
        removed = 0
        for kept in self.older(days):
            with suppress(NotFound, Refused):
                self.remove(kept.id)
                removed += 1
        return removed

    def _reading(self, id: str) -> Conversation:
        return Conversation(self._state, id, clock=self._clock)

    def _newest(self) -> Sequence[str]:
        return sorted(_ids(self._state), key=lambda id: (self._last(id), id), reverse=True)

    def _last(self, id: str) -> str:
        return conversation_file.read_last_time(self._state, f"{FILE_PREFIX}{id}{FILE_SUFFIX}") or _at(id)


class InputHistory:
    """The lines that were typed at a prompt, the latest 1,000. Secrets, and what is off the record, are not kept."""

    def __init__(self, state: State) -> None:
        self._state = state

    def add(self, text: str, privacy: str = "") -> None:
        """Keep what was typed, which may be several lines; when it cannot be written, it is let go.

        `privacy` is how far a wish not to store anything reached before it.
        """
        typed = without_secrets(text.strip())
        if not typed or len(typed) > conversation_file.MAX_MESSAGE_CHARS or is_silent(follow_privacy(privacy, text)):
            return
        with suppress(StoreFailed, Busy), conversation_file.lock_conversations(self._state):
            known = conversation_file.read_history(self._state)
            if known[-1:] == [typed]:
                return
            if len(known) >= MAX_TYPED_LINES + MAX_UNSWEPT_LINES:
                self._state.write(
                    HISTORY_FILE, conversation_file.encode_history([*known[1 - MAX_TYPED_LINES :], typed])
                )
            else:
                self._state.add(HISTORY_FILE, b"\n" + conversation_file.encode_history([typed]), durably=False)

    def all(self) -> list[str]:
        """Return the typed lines, the oldest first."""
        return conversation_file.read_history(self._state)[-MAX_TYPED_LINES:]


def _ids(state: State) -> list[str]:
    return [found[1] for name in state.names() if (found := _ID.fullmatch(name))]


def _fresh(state: State, now: float) -> str:
    """A free id: the minute in UTC, and a number."""
    taken = set(_ids(state))
    while True:
        id = f"{time.strftime('%Y%m%d-%H%M', time.gmtime(now))}-{os.urandom(2).hex()}"
        if id not in taken:
            return id


def _clean(said: Sequence[Said], privacy: str) -> tuple[list[Said], str]:
    """Messages as they may be kept, and how far a wish not to keep them reaches behind the last."""
    cleaned = []
    for one in said:
        privacy = follow_privacy(privacy, one.text) if one.role == "user" else privacy
        cleaned.append(conversation_file.clean_message(one, privacy=privacy))
    return cleaned, privacy


def _missing(id: str) -> NotFound:
    is_any = id in ("", "last")
    why = "no conversation is kept here yet" if is_any else f"no conversation {one_line(id, 60)!r} is kept"
    return NotFound(id, why, hint=LIST_HINT if id else "`memsheaf chat` begins one.")


def _at(id: str) -> str:
    """Return the time when a conversation began, by its id.

    >>> _at("20261115-2241-3f9a")
    '2026-11-15T22:41:00.000Z'
    """
    return f"{id[:4]}-{id[4:6]}-{id[6:8]}T{id[9:11]}:{id[11:13]}:00.000Z"
