"""A conversation in the message format of pydantic-ai."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from memsheaf.llm.talker import Said

# Known to type checkers under this name: a start does not import `typing`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelRequestPart, ModelResponse, ModelResponsePart, ToolCallPart

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_UNFIT, _NAME = re.compile(r"[^A-Za-z0-9_-]"), 64  # letters and the length of a tool's name
_UNANSWERED, _NOTHING = "(no answer: it was interrupted)", "(nothing)"


def sendable(text: str) -> str:
    """The text without half characters, which no server takes."""
    return text.encode("utf-8", "replace").decode()


def messages(conversation: Sequence[Said], kept: Mapping[Said, ModelResponse]) -> list[ModelMessage]:
    """A conversation as requests and responses in turns, and every call with an answer.

    A message of the model that is among the `kept` goes back as it came.
    """
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart

    found: list[ModelMessage] = []
    asking, taken = _Asking({}), set[str]()
    for said in conversation:
        if said.role != "assistant":
            asking.hear(said)
            continue
        parts: list[ModelResponsePart] = [TextPart(sendable(said.text))] if said.text.strip() else []
        calls: dict[str, ToolCallPart] = {}
        for call in said.calls:
            tool = _UNFIT.sub("_", call.tool)[:_NAME] or "_"
            calls[call.id] = ToolCallPart(tool, sendable(call.arguments), _id(call.id, taken))
        if parts or calls:
            found += asking.request()
            as_it_came = kept.get(said) if all(id == call.tool_call_id for id, call in calls.items()) else None
            found.append(as_it_came or ModelResponse(parts=[*parts, *calls.values()]))
            asking = _Asking(calls)
    return found + asking.request()


class _Asking:
    """What users and tools say between two messages of a model, as one request: answers first, then texts."""

    def __init__(self, calls: dict[str, ToolCallPart]) -> None:
        self._open = calls
        self._answers: list[tuple[ToolCallPart, str]] = []
        self._texts: list[str] = []

    def hear(self, said: Said) -> None:
        """Take a message; what answers no call is a text like any other."""
        call = self._open.pop(said.answers, None) if said.role == "tool" else None
        if call:
            self._answers.append((call, said.text))
        else:
            self._texts.append(said.text)
        self._texts.append(said.beside)

    def request(self) -> list[ModelMessage]:
        """All of it; nothing when nothing was said."""
        from pydantic_ai.messages import ModelRequest, ToolReturnPart, UserPromptPart

        answers = [*self._answers, *((call, _UNANSWERED) for call in self._open.values())]
        parts: list[ModelRequestPart] = [
            ToolReturnPart(call.tool_name, sendable(text) or _NOTHING, call.tool_call_id) for call, text in answers
        ]
        if texts := [sendable(text) for text in self._texts if text.strip()]:
            parts.append(UserPromptPart("\n\n".join(texts)))
        return [ModelRequest(parts=parts)] if parts else []


def _id(id: str, taken: set[str]) -> str:
    """An id that every provider takes, and that no other call of the conversation has."""
    fit = id if _ID.fullmatch(id) and id not in taken else f"call_{len(taken)}"
    while fit in taken:
        fit += "_"
    taken.add(fit)
    return fit
