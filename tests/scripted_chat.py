"""A scripted chat model: pydantic-ai's own FunctionModel, which says what a script says."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.models import Model
from pydantic_ai.models.function import AgentInfo, DeltaThinkingPart, DeltaToolCall, FunctionModel

from memsheaf.errors import MemsheafError, ModelFailed
from memsheaf.llm.model import Said, ToolCall

Piece = str | DeltaThinkingPart | ToolCall | BaseException
Line = "str | Said | Sequence[Piece] | BaseException | Callable[[Asked], object]"


class Asked(NamedTuple):
    """A request: its system prompt, the names of its tools, and its messages."""

    system: str
    tools: tuple[str, ...]
    messages: list[ModelMessage]

    @property
    def text(self) -> str:
        """All that was sent as one text."""
        return f"{self.system}\n{self.tools}\n" + "\n".join(self.parts)

    @property
    def parts(self) -> list[str]:
        """The content of each part of each message."""
        return [
            str(getattr(part, "content", "") or getattr(part, "args", "")) for m in self.messages for part in m.parts
        ]

    @property
    def last(self) -> str:
        """The last message."""
        return "\n".join(str(getattr(part, "content", "")) for part in self.messages[-1].parts)

    @property
    def prompts(self) -> list[str]:
        """What the user said, each with what stood beside it."""
        found = []
        for message in self.messages:
            for part in message.parts:
                if isinstance(part, UserPromptPart):
                    found.append(part.content if isinstance(part.content, str) else "\n".join(map(str, part.content)))
        return found


class ScriptedChat:
    """Goes on with a conversation as a script says, line by line; when it ends, every further step fails.

    A line is a text, a `Said` with its calls, a list of pieces, an exception to raise, or a function of the request
    that gives one of these. `asked` keeps the requests.
    """

    name = "scripted"

    def __init__(self, lines: Iterable[Any]) -> None:
        self._lines = iter(lines)
        self.asked: list[Asked] = []

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Model]:
        yield FunctionModel(self._answer, stream_function=self._stream)

    def settings(self, model: Model, max_tokens: int) -> dict[str, object]:
        return {"max_tokens": max_tokens}

    def explain(self, error: Exception) -> MemsheafError:
        return error if isinstance(error, MemsheafError) else ModelFailed(f"{type(error).__name__}: {error}")

    async def _answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        pieces = self._next(messages, info)
        calls = [ToolCallPart(each.tool, each.arguments, each.id) for each in pieces if isinstance(each, ToolCall)]
        texts = [TextPart(each) for each in pieces if isinstance(each, str)]
        return ModelResponse(parts=[*texts, *calls])

    def _next(self, messages: list[ModelMessage], info: AgentInfo) -> Sequence[Piece]:
        asked = Asked(info.instructions or "", tuple(tool.name for tool in info.function_tools), list(messages))
        self.asked.append(asked)
        line: Any = next(self._lines, ModelFailed("the script has ended"))
        line = line(asked) if callable(line) else line
        if isinstance(line, str | BaseException):
            line = [line]
        if isinstance(line, Said):
            line = [*([line.text] if line.text else []), *line.calls]
        pieces: Sequence[Piece] = line
        return pieces

    async def _stream(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        for number, piece in enumerate(self._next(messages, info)):
            if isinstance(piece, BaseException):
                raise piece
            if isinstance(piece, ToolCall):
                yield {number: DeltaToolCall(piece.tool, piece.arguments, tool_call_id=piece.id)}
            elif isinstance(piece, DeltaThinkingPart):
                yield {number: piece}
            else:
                yield piece
