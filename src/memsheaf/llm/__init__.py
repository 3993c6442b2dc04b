"""What memsheaf asks of a language model: one question, one answer in a shape, within a time.

A model is optional everywhere. Whatever asks one has an answer of its own for when there is none, or it fails.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol


class Question(NamedTuple):
    """A side-query: what the model is told, what it is asked, and the JSON schema that its answer follows."""

    system: str
    text: str
    schema: Mapping[str, object]
    max_tokens: int = 256
    temperature: float = 0.0


class Model(Protocol):
    """A language model. `name` is how it is called in messages."""

    @property
    def name(self) -> str:
        """Which model this is."""
        ...

    def ask(self, question: Question, *, deadline: float) -> object:
        """Give the answer as parsed JSON, in at most `deadline` seconds.

        Raises:
            ModelFailed: there is none, in time and in its shape.
        """
        ...
