"""Who reads the month: a model that is counted, one that knows the gold, and one that keeps whatever it sees.

The last two are not models. They tell what memsheaf itself does with the best and with a bad answer: what its gates
refuse although it is right, and what they let through although it is not.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping

from benchmarks.month_data import Fact, Month
from memsheaf.errors import MemsheafError, ModelFailed
from memsheaf.llm import Answer, Model, Question

MOST = 10
"""So many memories may be in one answer."""

_MESSAGE = re.compile(r"<message-(\w+) number=(\d+) from=(\w+)>\n(.*?)\n</message-\1>", re.DOTALL)
_MEMORY = re.compile(r"<memory-(\w+)>\n(\S+) \[\w+\] (.*?)\n</memory-\1>", re.DOTALL)


class Counted:
    """A model, and what it was asked for."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.requests = self.failures = self.input = self.output = 0
        self.seconds = 0.0

    @property
    def name(self) -> str:
        """Which model this is."""
        return self._model.name

    def ask(self, question: Question, *, deadline: float) -> Answer:
        """Pass the question on, and count."""
        begun = time.perf_counter()
        self.requests += 1
        try:
            answer = self._model.ask(question, deadline=deadline)
        except MemsheafError:
            self.failures += 1
            raise
        finally:
            self.seconds += time.perf_counter() - begun
        self.input += answer.input
        self.output += answer.output
        return answer


class Oracle:
    """Extracts exactly the facts, in the user's words, and updates the memory it is shown of an old value."""

    name = "oracle"

    def __init__(self, month: Month) -> None:
        self._month = month
        self._said = {step.number: step.turn.messages[0].text for each in month.conversations for step in each.steps}

    def ask(self, question: Question, *, deadline: float) -> Answer:
        """The facts of the conversation that the question shows. Raises ModelFailed for other questions."""
        _require_conversation(question)
        heard = [text for _, _, who, text in _MESSAGE.findall(question.text) if who == "user"]
        told = [fact for fact in self._month.facts.values() if self._said[fact.turn] in heard]
        gone = {fact.corrects for fact in told}
        shown = {path: text for _, path, text in _MEMORY.findall(question.text)}
        found = [self._memory(fact, shown) for fact in told if fact.id not in gone]
        return Answer({"memories": found[:MOST]})

    def _memory(self, fact: Fact, shown: Mapping[str, str]) -> Mapping[str, object]:
        old = self._month.facts.get(fact.corrects)
        file = next((path for path, text in shown.items() if old and old.is_in(text)), "")
        return _memory(fact.kind, self._said[fact.turn], file)


class Gullible:
    """Keeps every message as a fact about the user, and what tools and pages say first of all."""

    name = "gullible"

    def ask(self, question: Question, *, deadline: float) -> Answer:
        """A memory for each message, as many as an answer may hold. Raises ModelFailed for other questions."""
        _require_conversation(question)
        messages = [(who != "tool", int(number), text) for _, number, who, text in _MESSAGE.findall(question.text)]
        return Answer({"memories": [_memory("feedback", text, "") for _, _, text in sorted(messages)[:MOST]]})


NAMED: Mapping[str, Callable[[Month], Model]] = {"oracle": Oracle, "gullible": lambda _: Gullible()}


def _require_conversation(question: Question) -> None:
    if not _MESSAGE.search(question.text):
        raise ModelFailed("it reads conversations only")


def _memory(kind: str, text: str, file: str) -> Mapping[str, object]:
    line = " ".join(text.split())
    return {
        "action": "update" if file else "add",
        "file": file,
        "name": " ".join(line.split(" ")[:8])[:60],
        "description": line[:150],
        "type": kind,
        "content": text,
        "scope": "persistent",
        "messages": [1],
    }
