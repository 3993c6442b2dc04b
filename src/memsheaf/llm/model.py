"""A language model that answers a question in a shape, and the messages of a conversation as they are kept.

A model is optional everywhere. Whatever asks one has an answer of its own for when there is none, or it fails.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from memsheaf.errors import MemsheafError, ModelFailed


class Question(NamedTuple):
    """A side-query: system prompt, question, and the JSON schema of the answer."""

    system: str
    text: str
    schema: Mapping[str, object]
    max_tokens: int = 256
    temperature: float = 0.0


def object_schema(properties: Mapping[str, object]) -> dict[str, object]:
    """Return the JSON schema of an object that has all of these properties, and no others."""
    return {
        "type": "object", "properties": properties, "required": list(properties), "additionalProperties": False
    }  # fmt: skip


class Answer(NamedTuple):
    """The answer of a model as parsed JSON, and how many tokens it says that took; 0 when it does not say."""

    value: object
    input: int = 0
    output: int = 0


class Model(Protocol):
    """A language model. `name` is how it is called in messages."""

    @property
    def name(self) -> str:
        """Return the name of the model."""

    def ask(self, question: Question, *, deadline: float) -> Answer:
        """Return the answer, in at most `deadline` seconds.

        Raises:
            ModelFailed: there is none, in time and in its shape.
        """


def answer(model: Model, question: Question, deadline: float) -> object:
    """Ask any model, with a time-out. Raises ModelFailed for every error."""
    from memsheaf.limits import TimeUp, within

    try:
        return within(deadline, lambda: model.ask(question, deadline=deadline), name="memsheaf-model").value
    except TimeUp:
        raise ModelFailed(f"no answer within {deadline:g} seconds") from None
    except ModelFailed:
        raise
    except MemsheafError as error:
        raise ModelFailed(str(error)) from None
    except Exception as error:  # noqa: BLE001 - a client library may raise anything
        raise ModelFailed(f"{type(error).__name__}: {error}") from None


def sendable(text: str) -> str:
    """Return the text without half characters, which no server takes."""
    return text.encode("utf-8", "replace").decode()


class ToolCall(NamedTuple):
    """A tool that a model wants to be run: `arguments` is the JSON it wrote, which may be anything."""

    id: str
    tool: str
    arguments: str


class Touched(NamedTuple):
    """A change that a memory tool made: `saved`, `updated` or `deleted`; or why not: `exists`, `same`, `proposed`.

    `path` is the name under which the file is shown; of what is proposed, the id.
    """

    action: str
    scope: str
    path: str


class Said(NamedTuple):
    """One message of a conversation. The `role` is "user", "assistant" or "tool".

    An assistant's message may have `calls`; each is answered by one message of a tool, with the call's id in
    `answers`, the tool's name in `tool`, and what it did to memories in `touched`. `beside` is what memory puts
    beside a message of a user or a tool: it is sent behind its text, and is no part of what was said.
    """

    role: str
    text: str
    calls: tuple[ToolCall, ...] = ()
    answers: str = ""
    tool: str = ""
    beside: str = ""
    touched: tuple[Touched, ...] = ()
