"""What was said, and what is to be remembered of it: the values that learning hands on from step to step."""

from __future__ import annotations

from memsheaf.values import NamedTuple

ROLES = ("user", "assistant", "tool")
"""Who speaks: the person, the agent, or something the agent looked at, such as a file, a command or a web page."""


class Message(NamedTuple):
    """One message. `id` is what its host calls it, "" when it has no name."""

    role: str
    text: str
    id: str = ""


class Turn(NamedTuple):
    """A finished turn of a conversation: what the user said, and all that was said and read until the agent stopped.

    `at` is when, as an ISO time; `saved` says that the agent wrote to memory itself in this turn.
    """

    conversation: str
    messages: tuple[Message, ...]
    at: str = ""
    saved: bool = False


class Proposal(NamedTuple):
    """A memory that somebody proposes, or with `replaces` the new text of one there is.

    `version` is the version of the replaced memory that was seen. `explicit` says that the user asked for it in so
    many words. `trust` is "unconfirmed" for what came from a tool or a page. `why` says where it comes from. `scope`
    is where it belongs; "" is the scope that learns.
    """

    name: str
    description: str
    kind: str
    content: str
    replaces: str = ""
    version: str = ""
    conversation: str = ""
    trust: str = ""
    expires: str = ""
    explicit: bool = False
    why: str = ""
    scope: str = ""
