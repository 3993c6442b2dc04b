"""A scripted model for tests and demonstrations."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from memsheaf.errors import ModelFailed
from memsheaf.llm.model import Answer, Question

Line = object | Exception | Callable[[Question], object]


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
        """Return the next line of the script. Raises ModelFailed when it ended, or takes longer than the deadline."""
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
