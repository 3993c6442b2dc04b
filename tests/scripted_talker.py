"""A scripted talker: an agent that says what a script says."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence

from memsheaf.errors import ModelFailed
from memsheaf.llm.model import Request, Said, Spoken, Step, ToolCall

Piece = str | Spoken | ToolCall | Step | Exception
Told = str | Said | Sequence[Piece] | Exception
TalkerLine = Told | Callable[[Request], Told]


class ScriptedTalker:
    """Goes on with a conversation as a script says, line by line; when it ends, every further step fails.

    A line is a text, a `Said` with its calls, a list of pieces, an exception to raise, or a function of the request
    that gives one of these. Pieces are texts, `Spoken`, calls, an exception where the answer breaks off, and a `Step`
    where it matters what the step cost; what it says is what was spoken, unless it says something itself. `asked`
    keeps the requests.
    """

    name = "scripted"

    def __init__(self, lines: Iterable[TalkerLine]) -> None:
        self._lines = iter(lines)
        self.asked: list[Request] = []

    def talk(self, request: Request) -> Generator[Spoken | Step, None, None]:
        """The next line of the script. Raises ModelFailed when it ended."""
        self.asked.append(request._replace(conversation=tuple(request.conversation)))
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
