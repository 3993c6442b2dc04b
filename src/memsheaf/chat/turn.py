"""A turn: its events, and the request loop: ask the model, run the tools it calls, ask again.

Events are what a screen draws, and `--json` prints. A second agent has a loop of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from typing import Any, NamedTuple

from memsheaf.chat.memory import conversation_size
from memsheaf.errors import ModelFailed
from memsheaf.guard.secrets import without_secrets
from memsheaf.llm.model import Request, Said, Spoken, Step, Talker, ToolCall, object_schema
from memsheaf.scope import parse_object
from memsheaf.text.neutralize import one_line
from memsheaf.tools import READING, ToolAnswer

NOT_RUN = "Error: not run: the turn was stopped."
BROKEN_OFF = "Error: the user stopped this while it ran, or was asked about. Look how far it got before you go on."
STOPPED = "(stopped here)"
MOST_DELEGATED = 30  # requests that a sub-agent may make

DELEGATE: dict[str, Any] = {
    "name": "agent",
    "description": "Hand a task to a second agent with a context of its own, such as a search through many files. It "
    "cannot ask back. You get its last message.",
    "input_schema": object_schema(
        {"task": {"type": "string", "description": "All it needs to know, and what to report"}}
    ),
}


class Recalled(NamedTuple):
    """Memories came beside the message: the name of each file, with its scope unless that is the chat's own."""

    files: tuple[str, ...]


class Text(NamedTuple):
    """A piece of the answer; with `aside`, of what the model thinks before it."""

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
    """One line that the user should see: a trouble that was got over, a conversation that was made shorter."""

    line: str
    hint: str = ""


class Failed(NamedTuple):
    """The turn ended without an answer. Nothing that was said is lost."""

    line: str
    hint: str = ""


class TurnEnded(NamedTuple):
    """The turn is over. `answer` is all that was said in it; `saved` are the names of files that tools wrote.

    `input`, `output`, `cached` and `dollars` are what the turn cost; `dollars` is None when nobody knows.
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
    """An event as `--json` prints it.

    >>> as_json(Notice("went on without memory"))
    {'event': 'noted', 'line': 'went on without memory', 'hint': ''}
    """
    name = type(event).__name__
    return {"event": _JSON_NAMES.get(name, name.lower()), **event._asdict()}


class Cost(NamedTuple):
    """What was asked and what it cost; `dollars` is None when the price of a part of it is not known."""

    requests: int = 0
    input: int = 0
    output: int = 0
    cached: int = 0
    dollars: float | None = 0.0

    def plus(self, other: Cost) -> Cost:
        """Both together."""
        dollars = None if self.dollars is None or other.dollars is None else self.dollars + other.dollars
        return Cost(
            self.requests + other.requests,
            self.input + other.input,
            self.output + other.output,
            self.cached + other.cached,
            dollars,
        )


Line = Callable[[str, Mapping[str, object]], str]
Run = Callable[[ToolCall, Mapping[str, object]], Generator[Event, None, ToolAnswer]]


class RequestLoop:
    """The requests of one turn, which add to its conversation.

    `line` says what a call will do, `run` runs it; `keep` gets each message as soon as it is whole.
    """

    def __init__(
        self, conversation: list[Said], line: Line, run: Run, *, keep: Callable[[Said], None] = lambda said: None
    ) -> None:
        self.conversation = conversation
        self.cost = Cost()
        self.answer = ""
        self._line = line
        self._runs_call = run
        self._keep = keep
        self._partial = ""
        self._open: list[ToolCall] = []
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
        self._open = []
        self._runs = False

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
        self.cost = self.cost.plus(Cost(1, step.input, step.output, step.cached, step.dollars))
        self.answer += step.said.text + ("\n" if step.said.text and step.said.calls else "")
        self.add(step.said)
        if step.cut:
            yield Notice(f"the answer was cut after {request.max_tokens:,} tokens", "Say `go on` to hear the rest.")
        return step.said

    def _run(self, call: ToolCall) -> Iterator[Event]:
        arguments = parse_object(call.arguments or "{}")
        shown = {
            name: without_secrets(value) if isinstance(value, str) else value
            for name, value in (arguments or {}).items()
        }
        yield Calling(call.id, call.tool, self._line(call.tool, shown), shown)
        began = time.monotonic()
        if arguments is None:
            answer = ToolAnswer(
                f"Error: the arguments of {one_line(call.tool, 60)} must be a JSON object.", failed=True
            )
        else:
            self._runs = True
            answer = yield from self._runs_call(call, arguments)
        self._open = self._open[1:]
        self._runs = False
        self.add(Said("tool", answer.text, answers=call.id, tool=call.tool, touched=answer.touched))
        yield Called(call.id, call.tool, answer.text, answer.failed, round(time.monotonic() - began, 3))


def delegate(
    call: ToolCall,
    task: object,
    talker: Talker,
    blank: Request,
    line: Line,
    answer: Callable[[str, Mapping[str, object]], ToolAnswer],
    *,
    context: int,
    most: int,
) -> Generator[Event, None, tuple[ToolAnswer, Cost]]:
    """Have a second agent do a task in a limited number of requests: its answer, and its cost.

    `blank` is a request without a conversation, `line` and `answer` are how the first agent shows and runs a call.
    It has the tools of the first, without what changes memory or delegates further. Calls are told as events, with
    the id of the call that began it before theirs.
    """
    if not isinstance(task, str) or not task.strip():
        return ToolAnswer("Error: agent needs task, a text.", failed=True), Cost()

    def run(inner: ToolCall, arguments: Mapping[str, object]) -> Generator[Event, None, ToolAnswer]:
        if inner.tool == DELEGATE["name"] or (inner.tool.startswith("memory_") and inner.tool not in READING):
            return ToolAnswer(f"Error: there is no tool '{one_line(inner.tool, 60)}' here.", failed=True)
        return answer(inner.tool, arguments)
        yield

    def request() -> Request:
        if conversation_size(loop.conversation) > context:
            raise ModelFailed(f"its conversation has more than {context:,} tokens")
        return blank._replace(conversation=list(loop.conversation))

    loop = RequestLoop([Said("user", task)], line, run)
    try:
        with closing(loop.go(talker, request, lambda first: iter(()), min(MOST_DELEGATED, most))) as work:
            for event in work:
                if isinstance(event, Calling | Called):
                    yield event._replace(id=f"{call.id}/{event.id}")
    except ModelFailed as error:
        return ToolAnswer(f"Error: the second agent failed: {error}", failed=True), loop.cost
    last = loop.conversation[-1]
    if last.role != "assistant" or last.calls:
        return ToolAnswer(f"Error: no end after {loop.cost.requests} requests.", failed=True), loop.cost
    return ToolAnswer(last.text), loop.cost
