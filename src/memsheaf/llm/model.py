"""The protocol of a language model: a question, an answer that follows a JSON schema, a deadline.

A model is optional everywhere. Whatever asks one has an answer of its own for when there is none, or it fails.
"""

from __future__ import annotations

from collections.abc import Mapping

from memsheaf.errors import MemsheafError, ModelFailed
from memsheaf.values import NamedTuple, Protocol


class Question(NamedTuple):
    """A side-query: what the model is told, what it is asked, and the JSON schema that its answer follows."""

    system: str
    text: str
    schema: Mapping[str, object]
    max_tokens: int = 256
    temperature: float = 0.0


class Answer(NamedTuple):
    """What a model said, as parsed JSON, and how many tokens it says that took; 0 when it does not say."""

    value: object
    input: int = 0
    output: int = 0


class Model(Protocol):
    """A language model. `name` is how it is called in messages."""

    @property
    def name(self) -> str:
        """Which model this is."""
        ...

    def ask(self, question: Question, *, deadline: float) -> Answer:
        """Give the answer, in at most `deadline` seconds.

        Raises:
            ModelFailed: there is none, in time and in its shape.
        """
        ...


def answer(model: Model, question: Question, deadline: float) -> object:
    """What a model says, whoever made it: in time, or ModelFailed, whatever went wrong."""
    from memsheaf.timeouts import TimeUp, within

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


def failed(message: str, hint: str = "") -> ModelFailed:
    """A failure, with a hint of its own where there is something to do about it."""
    error = ModelFailed(message)
    error.hint = hint or error.hint
    return error
