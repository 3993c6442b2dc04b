"""A task handed to a second agent: a context of its own, the same permissions, and memory to read only."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping

from memsheaf.chat.events import Called, Calling, Event
from memsheaf.chat.fitting import size
from memsheaf.chat.memory import reading
from memsheaf.chat.steps import Bill, Steps
from memsheaf.errors import ModelFailed
from memsheaf.llm.talker import Call, Request, Said
from memsheaf.text.neutralize import one_line
from memsheaf.tools import READING, Answer

# Known to type checkers under this name: an agent delegates, and not the other way round.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from memsheaf.chat.agent import Agent

MOST = 30
"""So many requests a second agent may make."""

TOOL: dict[str, Any] = {
    "name": "agent",
    "description": "Hand a task to a second agent with a context of its own, such as a search through many files. It "
    "cannot ask back. You get its last message.",
    "input_schema": {
        "type": "object",
        "properties": {"task": {"type": "string", "description": "All it needs to know, and what to report"}},
        "required": ["task"],
        "additionalProperties": False,
    },
}


def delegated(
    agent: Agent, call: Call, arguments: Mapping[str, object], *, system: str, most: int
) -> Generator[Event, None, tuple[Answer, Bill]]:
    """Have a second agent do a task, in at most so many requests: its answer, and what it cost.

    Its calls are told as events, with the id of the call that began it before theirs.
    """
    task = arguments.get("task")
    if not isinstance(task, str) or not task.strip():
        return Answer("Error: agent needs task, a text.", failed=True), Bill()
    tools = [*agent.workshop.schemas(), *([] if agent.mind.ignoring else reading(agent.mind.schemas()))]
    steps = Steps([Said("user", task)], _Hands(agent))

    def request() -> Request:
        if size(steps.conversation) > agent.context:
            raise ModelFailed(f"its conversation has more than {agent.context:,} tokens")
        return Request(system, list(steps.conversation), tools, agent.answer_tokens)

    work = steps.go(agent.talker, request, _nothing, min(MOST, most))
    try:
        while True:
            event = next(work)
            if isinstance(event, Calling | Called):
                yield event._replace(id=f"{call.id}/{event.id}")
    except StopIteration as stop:
        is_done = bool(stop.value)
    except ModelFailed as error:
        return Answer(f"Error: the second agent failed: {error}", failed=True), steps.bill
    finally:
        work.close()
    if not is_done:
        return Answer(f"Error: no end after {steps.bill.requests} requests.", failed=True), steps.bill
    return Answer(steps.conversation[-1].text), steps.bill


class _Hands:
    """What a second agent works with: what the first has, without what changes memory or delegates further."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    def line(self, tool: str, arguments: Mapping[str, object]) -> str:
        return self._agent.line(tool, arguments)

    def run(self, call: Call, arguments: Mapping[str, object]) -> Generator[Event, None, Answer]:
        if call.tool == TOOL["name"] or (call.tool.startswith("memory_") and call.tool not in READING):
            return Answer(f"Error: there is no tool '{one_line(call.tool, 60)}' here.", failed=True)
        return self._agent.answer(call.tool, arguments)
        yield


def _nothing(first: bool) -> Iterator[Event]:
    return iter(())
