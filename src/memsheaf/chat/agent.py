"""The chat agent. A turn: what memory adds to a message, the model's requests, its tools, what is learned of it.

    for event in agent.turn("How do we deploy?"):
        …                                       # chat/turn.py says what there is

The system prompt and the tools stay the same bytes from turn to turn, so that a provider's cache holds: what changes
in memory meanwhile is told beside the next message.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import reduce

from memsheaf.chat.conversations import Conversation, Conversations
from memsheaf.chat.memory import ChatMemory, conversation_size, is_summary
from memsheaf.chat.offline.requests import deletes_all
from memsheaf.chat.permissions import Permission, PermissionRequest
from memsheaf.chat.tools import FolderTools
from memsheaf.chat.turn import DELEGATE, Cost, Event, Failed, Notice, Recalled, RequestLoop, TurnEnded, delegate
from memsheaf.errors import CapReached, MemsheafError, ModelFailed, Refused, StoreFailed
from memsheaf.llm.model import MOST_TOKENS, Request, Said, Talker, ToolCall, Touched
from memsheaf.prompts import read_prompt
from memsheaf.recall.recall import Recall
from memsheaf.recall.turns import Message, Turn
from memsheaf.text.neutralize import for_terminal, one_line
from memsheaf.text.requests import follow_privacy, is_silent
from memsheaf.tools import READING, ToolAnswer

STEPS = 50  # requests that a turn may make, those of a sub-agent included
CONTEXT = 120_000  # tokens of a conversation, above which it is compacted
PLANNING = "Error: plan mode: nothing is written, memory included. Say what you would save."
KEPT = "What was said is kept: say `go on`, or choose another model with /model."
"""What is told when a model failed and nothing better is known."""


class Agent:
    """A conversation with a model that remembers. Close it.

    `chats` is where conversations are kept, if they are, and `load` finds another model by its name. A talker that
    `speaks_for_user` does what the user said in so many words: what it saves is the user's.
    """

    def __init__(
        self,
        talker: Talker,
        memory: ChatMemory,
        tools: FolderTools,
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
        self.memory = memory
        self.tools = tools
        self.permission = permission
        self.kept: Conversation | None = None
        self.conversation: list[Said] = []
        self.spent = Cost()
        self._chats = chats
        self._load = load
        self._folder = folder or os.getcwd()
        self.context = context
        self.answer_tokens = answer_tokens
        self._most = steps
        self._clock = clock
        self.used: list[str] = []
        self.aside = Cost()  # what second agents cost in this turn
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
        self._go_on(kept.messages())
        return len(self.conversation)

    def _leave(self) -> None:
        if self.kept:
            self.kept.close()

    def _go_on(self, conversation: Sequence[Said]) -> None:
        """Begin with these messages, and with nothing allowed, read or spent yet."""
        self.permission.forget()
        self.tools.forget()
        self.spent = Cost()
        users = (said.text for said in conversation if said.role == "user")
        self.memory.session.privacy = reduce(follow_privacy, users, "")
        self._take_up(conversation)

    def _take_up(self, conversation: Sequence[Said]) -> None:
        """Go on from these messages, with memory as it is now in the system prompt. All may be recalled again."""
        self.conversation[:] = conversation
        self._erased = self._chats.erased() if self._chats else b""
        self.memory.session.cancel()
        self.memory.session.resume({"privacy": self.memory.session.privacy})
        today = time.strftime("%Y-%m-%d", time.localtime(self._clock()))
        facts = {"{folder}": self._folder, "{system}": platform.system() or os.name, "{today}": today}
        self._plain = read_prompt("agent")
        self._delegated = read_prompt("delegated")
        for name, value in facts.items():
            self._plain = self._plain.replace(name, value)
            self._delegated = self._delegated.replace(name, value)
        self._memory_prompt = self.memory.prompt()

    def heed_erasures(self) -> None:
        """When something was erased since, forget it here, too: what is kept is all there is to go on with."""
        if self._chats and self._chats.erased() != self._erased:
            kept = self.kept.messages() if self.kept else []
            self._take_up(kept or [said._replace(beside="") for said in self.conversation])

    def use(self, model: str) -> str:
        """Talk to another model from here on, "offline" for none; gives its name. Raises BadSettings, ModelFailed."""
        if self._load is None:
            raise Refused("there is no other model here")
        self.talker = self._load(model)
        self.memory.layers.by = "user" if speaks_for_user(self.talker) else "agent"
        return self.talker.name

    def turn(self, message: str, *, ignore: bool = False) -> Generator[Event, None, None]:
        """Answer a message, event by event. Closing the iterator stops the turn; nothing said is lost."""
        turn = _RunningTurn(self)
        self._made = 0
        self.aside = Cost()
        failed: Failed | None = None
        try:
            yield from turn.prepare(message, ignore)
            if not (yield from turn.loop.go(self._talker(), self._request, turn.before, self._most)):
                yield Notice(f"stopped after {self._most} requests in one turn", "Say `go on` to let it continue.")
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

    def make_turn(self, text: str) -> Turn:
        """Return the turn that is being answered as a text of the user, for what is learned before the answer."""
        return Turn(self.id, (Message("user", text),), number=self.kept.turns if self.kept else 0)

    def _talker(self) -> Talker:
        """Who answers: to delete everything is previewed and asked about, and never left to a model."""
        said = ["", *(one.text for one in self.conversation if one.role == "user")]
        if self._load and not speaks_for_user(self.talker) and deletes_all(*reversed(said[-2:])):
            return self._load("offline")
        return self.talker

    def compact(self, *, by_user: bool = True) -> str:
        """Make the conversation shorter at once, and say what became of it. Raises Refused, StoreFailed."""
        before = len(self.conversation)
        done, left = self.memory.compact(self.conversation, self.context // 2, by_user=by_user, name=self.id)
        if done.problem and not done.fits:
            raise Refused(done.problem)
        if done.after >= done.before:
            return "there is nothing to compact yet"
        if self.kept:
            self.kept.compacted(left)
        self._take_up(left)
        sizes = f"{done.before:,} tokens became {done.after:,}"
        return f"the conversation was compacted: {before} messages became {len(left)}, {sizes}"

    @property
    def id(self) -> str:
        """What the conversation is known by."""
        return self.kept.id if self.kept else ""

    @property
    def scope(self) -> str:
        """The scope that is written to."""
        return self.memory.layers.home

    def learned(self, wait: float = 0.0) -> tuple[str, ...]:
        """The names of memories that were learned behind the last turns and not told yet; waits at most so long."""
        if wait:
            self.memory.learning.distiller.wait(wait)
        return self.memory.learning.names()

    def asides(self) -> list[str]:
        """What else came of learning and was not told yet: what waits for a person, and what went wrong."""
        return self.memory.learning.asides()

    def busy(self) -> bool:
        """Whether something is still being learned."""
        return self.memory.learning.distiller.is_busy

    def close(self, wait: float = 0.0) -> None:
        """Wait at most this long for learning, then close. What is not learned yet stays in the inbox."""
        try:
            self.memory.learning.distiller.wait(wait)
        finally:
            self._leave()
            self.memory.close()

    def _request(self) -> Request:
        self._made += 1
        if self._made > self._most:
            raise CapReached(
                f"stopped after {self._most} requests in one turn", hint="Say `go on` to let it continue."
            )
        own = [*self.tools.schemas(), DELEGATE]
        if self.memory.session.ignoring:
            return Request(self._plain, list(_without_memory(self.conversation)), own, self.answer_tokens)
        system = f"{self._plain}\n{self._memory_prompt}"
        tools = [*own, *self.memory.tools.schemas()]
        return Request(system, list(self.conversation), tools, self.answer_tokens)

    def line(self, tool: str, arguments: Mapping[str, object]) -> str:
        """What a call will do, in a few words."""
        if tool in self.tools.names:
            return self.tools.line(tool, arguments)
        first = next((value for value in arguments.values() if isinstance(value, str)), "")
        return one_line(f"{tool} {first}", 100)

    def run(self, call: ToolCall, arguments: Mapping[str, object]) -> Generator[Event, None, ToolAnswer]:
        """Run one call of the model, if it may."""
        if call.tool != DELEGATE["name"]:
            self.used = [*self.used, call.tool][-10:]
            return self.answer(call.tool, arguments)
        system = self._delegated
        tools = self.tools.schemas()
        if not self.memory.session.ignoring:
            system = f"{system}\n{self._memory_prompt}"
            tools += [one for one in self.memory.tools.schemas() if one["name"] in READING]
        blank = Request(system, (), tools, self.answer_tokens)
        left = self._most - self._made
        answer, cost = yield from delegate(
            call, arguments.get("task"), self.talker, blank, self.line, self.answer, context=self.context, most=left
        )
        self._made += cost.requests
        self.aside = self.aside.plus(cost)
        return answer

    def answer(self, tool: str, arguments: Mapping[str, object]) -> ToolAnswer:
        """What a tool answers, if it may run."""
        if tool in self.tools.names:
            return self.tools.answer(tool, arguments)
        if not tool.startswith("memory_"):
            return ToolAnswer(f"Error: there is no tool '{one_line(tool, 60)}'.", failed=True)
        try:
            if tool not in READING and self.permission.planning:
                return ToolAnswer(PLANNING, failed=True)
            if tool == "memory_delete":
                found, text, _ = self.memory.find(str(arguments.get("filename", ""))[:1_000])
                line = f"delete the memory {one_line(found, 200)}"
                detail = for_terminal(text)
                self.permission.require(PermissionRequest(tool, line, detail, "write", key=line))
        except Refused as error:
            return ToolAnswer(f"Error: {error}", failed=True)
        return self.memory.tools.answer(tool, arguments)


class _RunningTurn:
    """One turn of an agent, from the message to what is learned of it."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self.loop = RequestLoop(agent.conversation, agent.line, agent.run, keep=self._keep)
        self.interrupted = False
        self.notes: list[Notice] = []
        self._recalled: list[str] = []
        self._begin = len(agent.conversation)
        self._late: list[Recall] = []
        self._unfit = False
        self.cost = Cost()

    def prepare(self, message: str, ignore: bool) -> Iterator[Event]:
        """Take the message in: what memory has to say about it begins to be looked for."""
        agent = self._agent
        agent.heed_erasures()
        self._begin = len(agent.conversation)
        privacy = follow_privacy(agent.memory.session.privacy, message)
        if is_silent(privacy):
            end = ", until you say “you can remember again”" if privacy == "rest" else ""
            yield Notice(f"off the record: neither what you said nor the answer is kept or learned from{end}")
        self.loop.add(Said("user", message))
        yield from self._fit()
        late = agent.memory.begin(message, ignore=ignore, tools=agent.used)
        self._late = [late] if late else []

    def _fit(self) -> Iterator[Event]:
        """Make the conversation shorter when it is too long; the message that is being answered stays."""
        agent = self._agent
        if self._unfit or conversation_size(agent.conversation) <= agent.context:
            return
        try:
            yield Notice(agent.compact(by_user=False))
        except (Refused, StoreFailed) as error:
            self._unfit = True
            yield Notice(f"the conversation is long, and could not be compacted: {error}", "/compact tries again.")
        users = [place for place, said in enumerate(agent.conversation) if said.role == "user"]
        self._begin = users[-1] if users else 0

    def before(self, first: bool) -> Iterator[Event]:
        """Put beside the last message what was recalled meanwhile, and what changed in the catalog."""
        memory = self._agent.memory
        conversation = self._agent.conversation
        if not first:
            yield from self._fit()
        if memory.session.ignoring:
            return
        texts = []
        try:
            texts = [memory.news()] if first else []
        except MemsheafError as error:
            yield Notice(f"memory cannot be read, and the turn goes on without it: {error}", error.hint)
        found = [*self._late, memory.recalled(first=first)]
        self._late = []
        for recall in found:
            if recall and recall.text:
                files = tuple(one.name for one in recall.memories)
                self._recalled += files
                texts.append(recall.text)
                yield Recalled(files)
        if said := "\n\n".join(text.strip("\n") for text in texts if text):
            last = conversation[-1]
            conversation[-1] = last._replace(beside=f"{last.beside}\n\n{said}" if last.beside else said)

    def finish(self) -> None:
        """Keep and learn what there is, however the turn ended."""
        agent = self._agent
        self.loop.leave()
        self.cost = self.loop.cost.plus(agent.aside)
        agent.spent = agent.spent.plus(self.cost)
        said = agent.conversation[self._begin :]
        if not said:
            return
        number = agent.kept.turns if agent.kept else 0
        messages = tuple(  # without what memory itself answered
            Message(one.role, one.text, str(at))
            for at, one in enumerate(said, self._begin)
            if one.text and not one.tool.startswith("memory_")
        )
        has_saved = agent.memory.has_learned or bool(self._changes())
        turn = Turn(agent.id, messages, saved=has_saved, number=number)
        try:
            agent.memory.learn(turn, later=agent.permission.planning)
        except MemsheafError as error:
            self.notes.append(Notice(f"nothing is learned from this turn: {error}", error.hint))

    def _changes(self) -> list[Touched]:
        """What memory tools changed in this turn."""
        told = (one for said in self._agent.conversation[self._begin :] for one in said.touched)
        return [one for one in told if one.action in ("saved", "updated", "deleted", "proposed")]

    def ended(self) -> TurnEnded:
        """What the turn came to."""
        return TurnEnded(
            self.loop.answer,
            recalled=tuple(self._recalled),
            saved=tuple(dict.fromkeys(one.path for one in self._changes() if one.action in ("saved", "updated"))),
            interrupted=self.interrupted,
            ignored=self._agent.memory.session.ignoring,
            input=self.cost.input,
            output=self.cost.output,
            cached=self.cost.cached,
            dollars=self.cost.dollars,
        )

    def _keep(self, said: Said) -> None:
        """Store a message; a disk error is reported once."""
        kept = self._agent.kept
        try:
            if kept:
                kept.mark(model=self._agent.talker.name)
                kept.add(said)
        except StoreFailed as error:
            note = Notice(f"this conversation cannot be kept: {error}", error.hint)
            if note not in self.notes:
                self.notes.append(note)


def speaks_for_user(talker: Talker) -> bool:
    """Whether a talker only does what the user explicitly said, as the offline one does."""
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
