"""How an agent goes on with a conversation: ask, run what was called, ask again, until nothing more is called."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing

from memsheaf.chat.events import Called, Calling, Event, Noted, Text
from memsheaf.guard.secrets import without_secrets
from memsheaf.llm.talker import Call, Request, Said, Spoken, Step, Talker
from memsheaf.text.neutralize import one_line
from memsheaf.tools import Answer
from memsheaf.values import NamedTuple, Protocol

NOT_RUN = "Error: not run: the turn was stopped."
BROKEN_OFF = "Error: the user stopped this while it ran, or was asked about. Look how far it got before you go on."
STOPPED = "(stopped here)"


class Bill(NamedTuple):
    """What was asked and what it cost; `dollars` is None when the price of a part of it is not known."""

    requests: int = 0
    input: int = 0
    output: int = 0
    cached: int = 0
    dollars: float | None = 0.0

    def plus(self, other: Bill) -> Bill:
        """Both together."""
        dollars = None if self.dollars is None or other.dollars is None else self.dollars + other.dollars
        return Bill(
            self.requests + other.requests,
            self.input + other.input,
            self.output + other.output,
            self.cached + other.cached,
            dollars,
        )


class Hands(Protocol):
    """What runs tools."""

    def line(self, tool: str, arguments: Mapping[str, object]) -> str:
        """What a call will do, in a few words."""
        ...

    def run(self, call: Call, arguments: Mapping[str, object]) -> Generator[Event, None, Answer]:
        """Run it: what happens on the way, and its answer."""
        ...


class Steps:
    """One piece of work in a conversation, which it adds to. `keep` is told each message as soon as it is whole."""

    def __init__(
        self, conversation: list[Said], hands: Hands, *, keep: Callable[[Said], None] = lambda said: None
    ) -> None:
        self.conversation = conversation
        self.bill = Bill()
        self.answer = ""
        self._hands = hands
        self._keep = keep
        self._partial = ""
        self._open: list[Call] = []
        self._runs = False

    def add(self, said: Said) -> None:
        """Put a message into the conversation."""
        self.conversation.append(said)
        self._keep(said)

    def go(
        self, talker: Talker, request: Callable[[], Request], before: Callable[[bool], Iterator[Event]], most: int
    ) -> Generator[Event, None, bool]:
        """Go on until nothing more is called; False when that is not so after `most` requests.

        `before` is called before each request, with whether it is the first.

        Raises:
            ModelFailed, CapReached.
        """
        for number in range(most):
            yield from before(number == 0)
            said = yield from self._ask(talker, request())
            if not said.calls:
                return True
            self._open = list(said.calls)
            while self._open:
                yield from self._run(self._open[0])
        return False

    def leave(self) -> None:
        """Bring the conversation in order after an interruption: calls are answered, what was half said is kept."""
        if self._partial:
            self.add(Said("assistant", f"{self._partial}\n\n{STOPPED}"))
            self.answer += self._partial
            self._partial = ""
        for number, call in enumerate(self._open):
            said = BROKEN_OFF if self._runs and not number else NOT_RUN
            self.add(Said("tool", said, answers=call.id, tool=call.tool))
        self._open, self._runs = [], False

    def _ask(self, talker: Talker, request: Request) -> Generator[Event, None, Said]:
        step = Step(Said("assistant", ""))
        with closing(talker.talk(request)) as stream:
            for piece in stream:
                if isinstance(piece, Spoken):
                    self._partial += "" if piece.aside else piece.text
                    yield Text(piece.text, piece.aside)
                else:
                    step = piece
        self._partial = ""
        self.bill = self.bill.plus(Bill(1, step.input, step.output, step.cached, step.dollars))
        self.answer += step.said.text + ("\n" if step.said.text and step.said.calls else "")
        self.add(step.said)
        if step.cut:
            yield Noted(f"the answer was cut after {request.max_tokens:,} tokens", "Say `go on` to hear the rest.")
        return step.said

    def _run(self, call: Call) -> Iterator[Event]:
        arguments = _arguments(call)
        shown = {
            name: without_secrets(value) if isinstance(value, str) else value
            for name, value in (arguments or {}).items()
        }
        yield Calling(call.id, call.tool, self._hands.line(call.tool, shown), shown)
        began = time.monotonic()
        if arguments is None:
            answer = Answer(f"Error: the arguments of {one_line(call.tool, 60)} must be a JSON object.", failed=True)
        else:
            self._runs = True
            answer = yield from self._hands.run(call, arguments)
        self._open, self._runs = self._open[1:], False
        self.add(Said("tool", answer.text, answers=call.id, tool=call.tool, touched=answer.touched))
        yield Called(call.id, call.tool, answer.text, answer.failed, round(time.monotonic() - began, 3))


def _arguments(call: Call) -> Mapping[str, object] | None:
    """What a model wrote, as an object; None when it is none. Nothing at all counts as no arguments."""
    try:
        value = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
