"""Scripted models for tests and demonstrations."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Sequence

from memsheaf.errors import ModelFailed
from memsheaf.llm.model import Answer, Question, Request, Said, Spoken, Step, ToolCall

Line = object | Exception | Callable[[Question], object]
Piece = str | Spoken | ToolCall | Step | Exception
Told = str | Said | Sequence[Piece] | Exception
TalkerLine = Told | Callable[[Request], Told]


class Scripted:
    """Answers from a script, line by line; when it ends, every further question fails.

    A line is the answer's value, an `Answer`, an exception to raise, or a function of the question that gives one.
    `takes` is how long each answer needs, in seconds. `asked` keeps the questions.

    >>> model = Scripted([{"selected_memories": []}])
    >>> model.ask(Question("", "what do we know?", {}), deadline=1.0).value
    {'selected_memories': []}
    """

    name = "scripted"

    def __init__(self, script: Iterable[Line], *, takes: float = 0.0) -> None:
        self._script = iter(script)
        self._takes = takes
        self.asked: list[Question] = []

    def ask(self, question: Question, *, deadline: float) -> Answer:
        """The next line of the script. Raises ModelFailed when it ended, or takes longer than the deadline."""
        self.asked.append(question)
        time.sleep(min(self._takes, deadline))
        if self._takes > deadline:
            raise ModelFailed(f"no answer within {deadline:g} seconds")
        try:
            line = next(self._script)
        except StopIteration:
            raise ModelFailed("the script has ended") from None
        if isinstance(line, Exception):
            raise line
        said = line(question) if callable(line) else line
        return said if isinstance(said, Answer) else Answer(said)


class ScriptedTalker:
    """Goes on with a conversation as a script says, line by line; when it ends, every further step fails.

    A line is a text, a `Said` with its calls, a list of pieces, an exception to raise, or a function of the request
    that gives one of these. Pieces are texts, `Spoken`, calls, an exception where the answer breaks off, and a `Step`
    where it matters what the step cost; what it says is what was spoken, unless it says something itself. `takes` is
    how long each answer needs before its first piece, in seconds. `asked` keeps the requests.

    >>> talker = ScriptedTalker([["Tabs", ", as ever."]])
    >>> [piece.text for piece in talker.talk(Request("", [Said("user", "tabs?")])) if isinstance(piece, Spoken)]
    ['Tabs', ', as ever.']
    """

    name = "scripted"

    def __init__(self, lines: Iterable[TalkerLine], *, takes: float = 0.0) -> None:
        self._lines = iter(lines)
        self._takes = takes
        self.asked: list[Request] = []

    def talk(self, request: Request) -> Generator[Spoken | Step, None, None]:
        """The next line of the script. Raises ModelFailed when it ended."""
        self.asked.append(request._replace(conversation=tuple(request.conversation)))
        time.sleep(self._takes)
        try:
            line = next(self._lines)
        except StopIteration:
            raise ModelFailed("the script has ended") from None
        text, step = "", Step(Said("assistant", ""))
        calls: list[ToolCall] = []
        for piece in _pieces(line(request) if callable(line) else line):
            if isinstance(piece, Exception):
                raise piece
            if isinstance(piece, ToolCall):
                calls.append(piece)
            elif isinstance(piece, Step):
                step = piece
            else:
                spoken = Spoken(piece) if isinstance(piece, str) else piece
                text += "" if spoken.aside else spoken.text
                yield spoken
        said = Said("assistant", text, tuple(calls))
        yield step if step.said.text or step.said.calls else step._replace(said=said)


def _pieces(told: Told) -> Sequence[Piece]:
    """A line of a script, as pieces."""
    if isinstance(told, Exception):
        return [told]
    if isinstance(told, str):
        return [told]
    if isinstance(told, Said):
        return [*([told.text] if told.text else []), *told.calls]
    return told
