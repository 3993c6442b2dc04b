"""Messages, turns and proposals: the values that recall and learning share."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from memsheaf.errors import Ref
from memsheaf.memory import Memory, compose
from memsheaf.text.requests import asks_to_ignore, follow_privacy, is_private, is_silent
from memsheaf.text.spoken import unwrapped

ROLES = ("user", "assistant", "tool")
"""Who speaks: the person, the agent, or something the agent looked at, such as a file, a command or a web page."""


class Message(NamedTuple):
    """One message. `id` is what its host calls it, "" when it has no name."""

    role: str
    text: str
    id: str = ""


class Turn(NamedTuple):
    """A finished turn of a conversation: what the user said, and all that was said and read until the agent stopped.

    `at` is when, as an ISO time; `saved` says that the agent wrote to memory itself in this turn. `number` counts the
    turns of the conversation from 1; 0 where nobody counted.
    """

    conversation: str
    messages: tuple[Message, ...]
    at: str = ""
    saved: bool = False
    number: int = 0

    @property
    def label(self) -> str:
        """Return the conversation and the turn, as the header `conversation` has them.

        >>> Turn("20261115-2241-3f9a", (), number=3).label
        '20261115-2241-3f9a#3'
        """
        return f"{self.conversation}#{self.number}" if self.number else self.conversation

    @property
    def unkept(self) -> str:
        """Return why nothing of it may be kept, "" when the user does not say so.

        >>> Turn("c", (Message("user", "Off the record: Quentin leaves."),)).unkept
        'the user wants it off the record'
        """
        texts = self._user_texts()
        if any(map(is_private, texts)):
            return "the user wants it off the record"
        return "the user wants no memory in it" if any(map(asks_to_ignore, texts)) else ""

    def _user_texts(self) -> list[str]:
        return [unwrapped(message.text) for message in self.messages if message.role == "user"]

    def follow_privacy(self, before: str = "") -> tuple[bool, str]:
        """Return True if nothing of it may be stored, and how far the user's wish for that reaches.

        `before` is how far it reached after the turn before; see `ignore.follow_privacy`.

        >>> Turn("c", (Message("user", "I live in Bergen."),)).follow_privacy("rest")
        (True, 'rest')
        """
        reached = list(accumulate(self._user_texts(), follow_privacy, initial=before))
        return bool(self.unkept) or any(map(is_silent, reached[1:] or reached)), reached[-1]


class Proposal(NamedTuple):
    """A proposed memory, or with `replaces` the new text of an existing one.

    `doubt` says why a person has to see it first, "" when that need not be. `version` is the version of the replaced
    memory that was seen. `explicit` says that the user asked for it. `trust` is "unconfirmed" for
    what came from a tool or a page. `why` says where it comes from. `scope` is where it belongs; "" is the scope that
    learns. `supersedes` are memories that it may correct. `quote` are the words that it was learned from.
    """

    name: str
    description: str
    kind: str
    content: str
    replaces: Ref | None = None
    version: str = ""
    conversation: str = ""
    trust: str = ""
    expires: str = ""
    explicit: bool = False
    why: str = ""
    doubt: str = ""
    scope: str = ""
    supersedes: tuple[Ref, ...] = ()
    quote: str = ""

    def to_memory(self, today: str, *, superseded: Memory | None = None, citations: Sequence[str] = ()) -> Memory:
        """The memory that it makes, without a path yet; `superseded` is the fact that it retires."""
        from memsheaf.gates import add_dates

        return compose(
            name=superseded.name if superseded else self.name,
            description=add_dates(self.description, today),
            kind=self.kind,
            body=add_dates(self.content, today),
            created=today,
            updated=today,
            source="extraction",
            trust=self.trust,
            conversation=self.conversation if self.conversation.isprintable() else "",
            expires=self.expires,
            citations=citations,
            supersedes=(superseded.path,) if superseded else [ref.path for ref in self.supersedes],
            reason=self.why if superseded else "",
        )


class TranscriptEntry(NamedTuple):
    """One message of a conversation, with what its host knows of tools.

    `tool` is the name of the tool that speaks. `calls` are the ids of calls: those that an agent makes with this
    message, or that a tool answers with it.
    """

    role: str
    text: str
    id: str = ""
    tool: str = ""
    calls: tuple[str, ...] = ()
