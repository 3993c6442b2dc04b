"""The events of a turn: what a screen draws, and `--json` prints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Recalled(NamedTuple):
    """Memories came beside the message: the name of each file, with its scope unless that is the chat's own."""

    files: tuple[str, ...]


class Text(NamedTuple):
    """A piece of the answer; with `aside`, of the model's thoughts before it."""

    text: str
    aside: bool = False


class Calling(NamedTuple):
    """A tool is about to run. `line` says in a few words what it will do."""

    id: str
    tool: str
    line: str
    arguments: Mapping[str, object]


class Called(NamedTuple):
    """A tool has answered; `failed` covers what was refused, too."""

    id: str
    tool: str
    answer: str
    failed: bool
    seconds: float


class Notice(NamedTuple):
    """One line for the user: a trouble that was got over, a conversation that was made shorter."""

    line: str
    hint: str = ""


class Failed(NamedTuple):
    """The turn ended without an answer. Nothing that was said is lost."""

    line: str
    hint: str = ""


class TurnEnded(NamedTuple):
    """The turn is over. `answer` is all that was said in it; `saved` are the names of files that tools wrote.

    `input`, `output`, `cached` and `dollars` are the cost of the turn; `dollars` is None when nobody knows.
    """

    answer: str
    recalled: tuple[str, ...] = ()
    saved: tuple[str, ...] = ()
    interrupted: bool = False
    ignored: bool = False
    input: int = 0
    output: int = 0
    cached: int = 0
    dollars: float | None = None


Event = Recalled | Text | Calling | Called | Notice | Failed | TurnEnded

_JSON_NAMES = {"Notice": "noted", "TurnEnded": "ended"}


def as_json(event: Event) -> dict[str, object]:
    """Return an event as `--json` prints it.

    >>> as_json(Notice("went on without memory"))
    {'event': 'noted', 'line': 'went on without memory', 'hint': ''}
    """
    name = type(event).__name__
    return {"event": _JSON_NAMES.get(name, name.lower()), **event._asdict()}


class Cost(NamedTuple):
    """Requests, tokens and dollars; `dollars` is None when the price of a part is not known."""

    requests: int = 0
    input: int = 0
    output: int = 0
    cached: int = 0
    dollars: float | None = 0.0

    def plus(self, other: Cost) -> Cost:
        """Return both together."""
        dollars = None
        if self.dollars is not None and other.dollars is not None:
            dollars = self.dollars + other.dollars
        requests, input, output, cached = (mine + theirs for mine, theirs in zip(self[:4], other[:4], strict=True))
        return Cost(requests, input, output, cached, dollars)


class TurnLimits(NamedTuple):
    """The requests that a turn may make, those of a second agent included, and the tokens of one answer."""

    requests: int
    answer_tokens: int
