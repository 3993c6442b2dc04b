"""The turn: what memory adds to a message, the model, its tools, and what is kept and learned of it.

    for event in agent.turn("How do we deploy?"):
        …                                       # agent/events.py says what there is

The system prompt and the tools stay the same bytes from turn to turn, so that a provider's cache holds: what changes
in memory meanwhile is told beside the next message.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence

from memsheaf.agent.events import Called, Calling, Event, Failed, Noted
from memsheaf.agent.exchange import Exchange
from memsheaf.agent.mind import PLANNING, Mind, reading
from memsheaf.agent.permission import Permission, Wish
from memsheaf.agent.steps import Bill, Steps
from memsheaf.agent.workshop import Workshop
from memsheaf.errors import CapReached, ModelFailed, Refused
from memsheaf.flow.inject import words
from memsheaf.guard.text import one_line
from memsheaf.llm.talk import MOST_TOKENS, Call, Request, Said, Talker
from memsheaf.tools import READING, Answer

# Known to type checkers under this name: a start does not import `typing`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from memsheaf.flow.chats import Conversation, Conversations

STEPS, DELEGATED = 50, 30
"""So many requests a turn may take, and so many a task that was handed to a sub-agent."""

CONTEXT = 120_000
"""So many tokens a conversation may have before it is made shorter."""

DELEGATE: dict[str, Any] = {
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


class Agent:
    """A conversation with a model that remembers. Close it.

    `chats` is where conversations are kept, if they are, and `load` finds another model by its name. A talker that
    `speaks_for_user` does what the user said in so many words, so nobody is asked again before a memory is deleted.
    """

    def __init__(
        self,
        talker: Talker,
        mind: Mind,
        workshop: Workshop,
        permission: Permission,
        *,
        chats: Conversations | None = None,
        load: Callable[[str], Talker] | None = None,
        folder: str = "",
        context: int = CONTEXT,
        answer_tokens: int = MOST_TOKENS,
        steps: int = STEPS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.talker = talker
        self.mind = mind
        self.workshop = workshop
        self.permission = permission
        self.kept: Conversation | None = None
        self.conversation: list[Said] = []
        self.spent = Bill()
        self._chats = chats
        self._load = load
        self._folder = folder or os.getcwd()
        self.context = context
        self._answer_tokens = answer_tokens
        self._most = steps
        self._clock = clock
        self.used: list[str] = []
        self.clear()

    def clear(self) -> None:
        """Begin a new conversation."""
        self._leave()
        self.kept = self._chats.begin(model=self.talker.name, scope=self.scope) if self._chats else None
        self._go_on([])

    def resume(self, id: str) -> int:
        """Go on with a conversation that was kept; says how many messages it has. Raises NotFound, Refused."""
        if self._chats is None:
            raise Refused("conversations are not kept here")
        kept = self._chats.open(id)
        self._leave()
        self.kept = kept
        self._go_on(kept.said())
        return len(self.conversation)

    def _leave(self) -> None:
        if self.kept:
            self.kept.close()

    def _go_on(self, conversation: Sequence[Said]) -> None:
        """Begin with these messages. What stood beside them was not kept, so it may be recalled again."""
        self.conversation[:] = conversation
        self.spent = Bill()
        self.mind.session.cancel()
        self.mind.session.resume({})
        self.begin()

    def use(self, model: str) -> str:
        """Talk to another model from here on, "offline" for none; gives its name. Raises BadSettings, ModelFailed."""
        if self._load is None:
            raise Refused("there is no other model here")
        self.talker = self._load(model)
        self.mind.by = "user" if speaks_for_user(self.talker) else "agent"
        return self.talker.name

    def begin(self) -> None:
        """Read memory into the system prompt: at the start, and whenever the conversation begins anew."""
        import platform

        today = time.strftime("%Y-%m-%d", time.localtime(self._clock()))
        facts = {"{folder}": self._folder, "{system}": platform.system() or os.name, "{today}": today}
        self._plain, self._delegated = (_filled(words(name), facts) for name in ("agent", "delegated"))
        self._memory = self.mind.prompt()

    def turn(self, message: str, *, ignore: bool = False) -> Generator[Event, None, None]:
        """Answer a message, event by event. Whoever closes the iterator stops the turn: nothing said is lost."""
        turn = Exchange(self)
        failed: Failed | None = None
        try:
            yield from turn.prepare(message, ignore)
            if not (yield from turn.steps.go(self.talker, self._request, turn.before, self._most)):
                yield Noted(f"stopped after {self._most} requests in one turn", "Say `go on` to let it continue.")
        except KeyboardInterrupt:
            turn.interrupted = True
        except (ModelFailed, CapReached) as error:
            failed = Failed(str(error), error.hint)
        finally:
            turn.finish()
        yield from turn.notes
        if failed:
            yield failed
        yield turn.ended()

    def compact(self, *, trigger: str = "task") -> str:
        """Make the conversation shorter; says what became of it. Raises Refused, StoreFailed."""
        from memsheaf.agent.fitting import compacted

        before = len(self.conversation)
        done, left = compacted(self.mind, self.conversation, self.context // 2, trigger=trigger, name=self.id)
        if done.problem and not done.fits:
            raise Refused(done.problem)
        if left == self.conversation:
            return "there is nothing to make shorter yet"
        self.conversation[:] = left
        if self.kept:
            self.kept.compacted(left)
        self.begin()
        sizes = f"{done.before:,} tokens became {done.after:,}"
        return f"the conversation was made shorter: {before} messages became {len(left)}, {sizes}"

    @property
    def id(self) -> str:
        """What the conversation is known by."""
        return self.kept.id if self.kept else ""

    @property
    def scope(self) -> str:
        """The scope that is written to."""
        return str(self.mind.home.scope)

    @property
    def scopes(self) -> list[str]:
        """All scopes, the nearest first."""
        return [str(sheaf.scope) for sheaf in self.mind.sheaves]

    def learned(self, wait: float = 0.0) -> tuple[str, ...]:
        """The names of memories that were learned behind the last turns and not told yet; waits at most so long."""
        if wait:
            self.mind.learning.distiller.wait(wait)
        return self.mind.learning.told().names

    def busy(self) -> bool:
        """Whether something is still being learned."""
        return self.mind.learning.distiller.is_busy

    def close(self, wait: float = 60.0) -> None:
        """Wait so long at most for what is being learned, and let go. What is not learned yet waits in the inbox."""
        try:
            self.mind.learning.distiller.wait(wait)
        finally:
            self._leave()
            self.mind.close()

    # what a request holds

    def _request(self) -> Request:
        own = [*self.workshop.schemas(), DELEGATE]
        if self.mind.ignoring:
            return Request(self._plain, list(_without_memory(self.conversation)), own, self._answer_tokens)
        system, tools = f"{self._plain}\n{self._memory}", [*own, *self.mind.schemas()]
        return Request(system, list(self.conversation), tools, self._answer_tokens)

    # running tools: what `steps.Hands` asks for

    def line(self, tool: str, arguments: Mapping[str, object]) -> str:
        """What a call will do, in a few words."""
        if tool in self.workshop.names:
            return self.workshop.line(tool, arguments)
        first = next((value for value in arguments.values() if isinstance(value, str)), "")
        return one_line(f"{tool} {first}", 100)

    def run(self, call: Call, arguments: Mapping[str, object]) -> Generator[Event, None, Answer]:
        """Run one call of the model, if it may."""
        if call.tool == "agent":
            return (yield from self._delegate(call, arguments))
        self.used = [*self.used, call.tool][-10:]
        return self._answer(call.tool, arguments)

    def _answer(self, tool: str, arguments: Mapping[str, object]) -> Answer:
        if tool in self.workshop.names:
            return self.workshop.answer(tool, arguments)
        if not tool.startswith("memory_"):
            return Answer(f"Error: there is no tool '{one_line(tool, 60)}'.", failed=True)
        try:
            if tool not in READING and self.permission.planning:
                return Answer(PLANNING, failed=True)
            if tool == "memory_delete" and not speaks_for_user(self.talker):
                file = one_line(str(arguments.get("filename", "")), 100)
                self.permission.require(Wish(tool, f"delete the memory {file}", reach="write", key=f"{tool} {file}"))
        except Refused as error:
            return Answer(f"Error: {error}", failed=True)
        return self.mind.answer(tool, arguments)

    def _delegate(self, call: Call, arguments: Mapping[str, object]) -> Generator[Event, None, Answer]:
        """Have a second agent do a task: a context of its own, the same permissions, memory to read only."""
        task = arguments.get("task")
        if not isinstance(task, str) or not task.strip():
            return Answer("Error: agent needs task, a text.", failed=True)
        tools = [*self.workshop.schemas()]
        system = self._delegated
        if not self.mind.ignoring:
            tools += reading(self.mind.schemas())
            system = f"{system}\n{self._memory}"
        steps = Steps([Said("user", task)], _Delegated(self))
        request = lambda: Request(system, list(steps.conversation), tools, self._answer_tokens)  # noqa: E731
        work = steps.go(self.talker, request, lambda first: iter(()), DELEGATED)
        try:
            is_done = False
            while True:
                event = next(work)
                if isinstance(event, Calling | Called):
                    yield event._replace(id=f"{call.id}/{event.id}")
        except StopIteration as stop:
            is_done = stop.value
        except ModelFailed as error:
            return Answer(f"Error: the second agent failed: {error}", failed=True)
        finally:
            work.close()
            self.spent = self.spent.plus(steps.bill)
        last = steps.conversation[-1].text
        return Answer(last) if is_done else Answer(f"Error: no end after {DELEGATED} requests.", failed=True)


class _Delegated:
    """The hands of a second agent: those of the first, without what changes memory or delegates further."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    def line(self, tool: str, arguments: Mapping[str, object]) -> str:
        return self._agent.line(tool, arguments)

    def run(self, call: Call, arguments: Mapping[str, object]) -> Generator[Event, None, Answer]:
        if call.tool == "agent" or (call.tool.startswith("memory_") and call.tool not in READING):
            return Answer(f"Error: there is no tool '{one_line(call.tool, 60)}' here.", failed=True)
        return self._agent._answer(call.tool, arguments)
        yield


def speaks_for_user(talker: Talker) -> bool:
    """Whether a talker only does what the user said in so many words, as the offline one does."""
    return bool(getattr(talker, "speaks_for_user", False))


def _without_memory(conversation: Sequence[Said]) -> Iterator[Said]:
    """What was said, without what memory put beside it, and without the calls of memory tools and their answers."""
    for said in conversation:
        calls = tuple(call for call in said.calls if not call.tool.startswith("memory_"))
        is_of_memory = said.tool.startswith("memory_") or (said.calls and not calls and not said.text)
        if not is_of_memory:
            yield said._replace(calls=calls, beside="")


def _filled(text: str, facts: Mapping[str, str]) -> str:
    for name, value in facts.items():
        text = text.replace(name, value)
    return text
