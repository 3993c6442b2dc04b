"""The turn: what memory adds to a message, the model, its tools, and what is kept and learned of it.

    for event in agent.turn("How do we deploy?"):
        …                                       # chat/events.py says what there is

The system prompt and the tools stay the same bytes from turn to turn, so that a provider's cache holds: what changes
in memory meanwhile is told beside the next message.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence

from memsheaf.chat.delegate import TOOL as DELEGATE
from memsheaf.chat.delegate import delegated
from memsheaf.chat.events import Event, Failed, Noted
from memsheaf.chat.fitting import is_summary
from memsheaf.chat.memory import PLANNING, Mind
from memsheaf.chat.permissions import Permission, Wish
from memsheaf.chat.steps import Bill
from memsheaf.chat.tools import Workshop
from memsheaf.chat.turn import Exchange
from memsheaf.errors import CapReached, ModelFailed, Refused, hinted
from memsheaf.llm.talker import MOST_TOKENS, Call, Request, Said, Talker
from memsheaf.prompts import read_prompt
from memsheaf.text.neutralize import for_terminal, one_line
from memsheaf.tools import READING, Answer

# Known to type checkers under this name: a start does not import `typing`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from memsheaf.chat.conversations import Conversation, Conversations

STEPS = 50
"""So many requests a turn may take, those of a second agent included."""

CONTEXT = 120_000
"""So many tokens a conversation may have before it is made shorter."""


KEPT = "What was said is kept: say `go on`, or choose another model with /model."
"""What is told when a model failed and nothing better is known."""


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
        self.answer_tokens = answer_tokens
        self._most = steps
        self._clock = clock
        self.used: list[str] = []
        self.aside = Bill()  # what second agents cost in this turn
        self._made = 0
        self._erased = b""
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
        self.permission.forget()
        self.workshop.forget()
        self.spent = Bill()
        self._take_up(conversation)

    def _take_up(self, conversation: Sequence[Said]) -> None:
        """Go on from these messages, with memory as it is now."""
        self.conversation[:] = conversation
        self._erased = self._chats.erased() if self._chats else b""
        self.mind.session.cancel()
        self.mind.session.resume({})
        self.begin()

    def heed_erasures(self) -> None:
        """When something was erased since, forget it here, too: what is kept is all there is to go on with."""
        if self._chats and self._chats.erased() != self._erased:
            kept = self.kept.said() if self.kept else []
            self._take_up(kept or [said._replace(beside="") for said in self.conversation])

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
        self._plain, self._delegated = (_filled(read_prompt(name), facts) for name in ("agent", "delegated"))
        self._memory = self.mind.prompt()

    def turn(self, message: str, *, ignore: bool = False) -> Generator[Event, None, None]:
        """Answer a message, event by event. Whoever closes the iterator stops the turn: nothing said is lost."""
        turn = Exchange(self)
        self._made, self.aside = 0, Bill()
        failed: Failed | None = None
        try:
            yield from turn.prepare(message, ignore)
            if not (yield from turn.steps.go(self.talker, self._request, turn.before, self._most)):
                yield Noted(f"stopped after {self._most} requests in one turn", "Say `go on` to let it continue.")
        except KeyboardInterrupt as error:
            if isinstance(error.__context__, GeneratorExit):  # it came while the turn was being stopped already
                raise
            turn.interrupted = True
        except (ModelFailed, CapReached) as error:
            failed = Failed(str(error), KEPT if error.hint == ModelFailed.hint else error.hint)
        finally:
            turn.finish()
        yield from turn.notes
        if failed:
            yield failed
        yield turn.ended()

    def compact(self, *, by_user: bool = True) -> str:
        """Make the conversation shorter; says what became of it. Raises Refused, StoreFailed.

        What a user asks for is done at once, and also when it failed before.
        """
        from memsheaf.chat.fitting import compacted

        before = len(self.conversation)
        done, left = compacted(self.mind, self.conversation, self.context // 2, by_user=by_user, name=self.id)
        if done.problem and not done.fits:
            raise Refused(done.problem)
        if done.after >= done.before:
            return "there is nothing to make shorter yet"
        if self.kept:
            self.kept.compacted(left)
        self._take_up(left)
        sizes = f"{done.before:,} tokens became {done.after:,}"
        return f"the conversation was made shorter: {before} messages became {len(left)}, {sizes}"

    @property
    def id(self) -> str:
        """What the conversation is known by."""
        return self.kept.id if self.kept else ""

    @property
    def scope(self) -> str:
        """The scope that is written to."""
        return self.mind.layers.home

    @property
    def scopes(self) -> list[str]:
        """All scopes, the nearest first."""
        return self.mind.layers.scopes()

    def learned(self, wait: float = 0.0) -> tuple[str, ...]:
        """The names of memories that were learned behind the last turns and not told yet; waits at most so long."""
        if wait:
            self.mind.learning.distiller.wait(wait)
        return self.mind.learning.names()

    def asides(self) -> list[str]:
        """What else came of learning and was not told yet: what waits for a person, and what went wrong."""
        return self.mind.learning.asides()

    def busy(self) -> bool:
        """Whether something is still being learned."""
        return self.mind.learning.distiller.is_busy

    def close(self, wait: float = 0.0) -> None:
        """Wait so long at most for what is being learned, and let go. What is not learned yet waits in the inbox."""
        try:
            self.mind.learning.distiller.wait(wait)
        finally:
            self._leave()
            self.mind.close()

    # what a request holds

    def _request(self) -> Request:
        self._made += 1
        if self._made > self._most:
            raise hinted(
                CapReached(f"stopped after {self._most} requests in one turn"), "Say `go on` to let it continue."
            )
        own = [*self.workshop.schemas(), DELEGATE]
        if self.mind.ignoring:
            return Request(self._plain, list(_without_memory(self.conversation)), own, self.answer_tokens)
        system, tools = f"{self._plain}\n{self._memory}", [*own, *self.mind.schemas()]
        return Request(system, list(self.conversation), tools, self.answer_tokens)

    # running tools: what `steps.Hands` asks for

    def line(self, tool: str, arguments: Mapping[str, object]) -> str:
        """What a call will do, in a few words."""
        if tool in self.workshop.names:
            return self.workshop.line(tool, arguments)
        first = next((value for value in arguments.values() if isinstance(value, str)), "")
        return one_line(f"{tool} {first}", 100)

    def run(self, call: Call, arguments: Mapping[str, object]) -> Generator[Event, None, Answer]:
        """Run one call of the model, if it may."""
        if call.tool == DELEGATE["name"]:
            system = self._delegated if self.mind.ignoring else f"{self._delegated}\n{self._memory}"
            work = delegated(self, call, arguments, system=system, most=self._most - self._made)
            answer, bill = yield from work
            self._made += bill.requests
            self.aside = self.aside.plus(bill)
            return answer
        self.used = [*self.used, call.tool][-10:]
        return self.answer(call.tool, arguments)

    def answer(self, tool: str, arguments: Mapping[str, object]) -> Answer:
        """What a tool answers, if it may run."""
        if tool in self.workshop.names:
            return self.workshop.answer(tool, arguments)
        if not tool.startswith("memory_"):
            return Answer(f"Error: there is no tool '{one_line(tool, 60)}'.", failed=True)
        try:
            if tool not in READING and self.permission.planning:
                return Answer(PLANNING, failed=True)
            if tool == "memory_delete" and not speaks_for_user(self.talker):
                self.permission.require(self._deletion(str(arguments.get("filename", ""))))
        except Refused as error:
            return Answer(f"Error: {error}", failed=True)
        return self.mind.answer(tool, arguments)

    def _deletion(self, name: str) -> Wish:
        """The wish to delete a memory, with what it says."""
        found, text = self.mind.found(name[:1_000])
        file = one_line(found, 200)
        return Wish("memory_delete", f"delete the memory {file}", for_terminal(text), "write", key=f"delete {file}")


def speaks_for_user(talker: Talker) -> bool:
    """Whether a talker only does what the user said in so many words, as the offline one does."""
    return bool(getattr(talker, "speaks_for_user", False))


def _without_memory(conversation: Sequence[Said]) -> Iterator[Said]:
    """What was said, without what memory put beside it or in its place, and without what was asked of it.

    What a second agent answered goes, too: it had the catalog before it.
    """
    for said in conversation:
        calls = tuple(call for call in said.calls if not _is_of_memory(call.tool))
        is_empty = bool(said.calls) and not calls and not said.text
        if not is_empty and not _is_of_memory(said.tool) and not is_summary(said):
            yield said._replace(calls=calls, beside="")


def _is_of_memory(tool: str) -> bool:
    return tool.startswith("memory_") or tool == DELEGATE["name"]


def _filled(text: str, facts: Mapping[str, str]) -> str:
    for name, value in facts.items():
        text = text.replace(name, value)
    return text
