"""The chat agent: conversation, memory, tools and permissions around a model, or around none.

    ended = agent.turn("How do we deploy?", screen.draw)

The system prompt and the tools stay the same bytes from turn to turn, so that a provider's cache holds: changes of
memory meanwhile are told beside the next message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import reduce

from memsheaf.chat.conversations import Conversation, Conversations
from memsheaf.chat.events import Cost, Event, Failed, Notice, Text, TurnEnded, TurnLimits
from memsheaf.chat.memory import ChatMemory, conversation_size, is_summary
from memsheaf.chat.offline import Offline
from memsheaf.chat.permissions import Permission
from memsheaf.chat.tools import FolderTools
from memsheaf.chat.workbench import Workbench
from memsheaf.errors import CapReached, MemsheafError, ModelFailed, Refused, StoreFailed
from memsheaf.llm.model import Said
from memsheaf.llm.served import ChatModel
from memsheaf.recall.turns import Message, Turn
from memsheaf.text.requests import follow_privacy, is_silent

MAX_REQUESTS = 50  # of a turn, those of a second agent included
MAX_CONTEXT_TOKENS = 120_000  # of a conversation, above which it is compacted
MAX_ANSWER_TOKENS = 8_192
CHANGES = ("saved", "updated", "deleted", "proposed")
NOTHING_LOST = "Nothing that was said is lost: say `go on`, or choose another model with /model."


class Agent:
    """A conversation with a model that remembers, or without a model. Close it.

    `chats` is where conversations are kept, if they are, and `load` finds a model by its name; None is no model.
    """

    def __init__(
        self,
        model: ChatModel | None,
        memory: ChatMemory,
        tools: FolderTools,
        permission: Permission,
        *,
        chats: Conversations | None = None,
        load: Callable[[str], ChatModel | None] = lambda name: None,
        context_tokens: int = MAX_CONTEXT_TOKENS,
        answer_tokens: int = MAX_ANSWER_TOKENS,
        max_requests: int = MAX_REQUESTS,
    ) -> None:
        self.model = model
        self.bench = Workbench(memory, tools, permission)
        self.memory = memory
        self.tools = tools
        self.permission = permission
        self.kept: Conversation | None = None
        self.conversation: list[Said] = []
        self.spent = Cost()
        self._context_tokens = context_tokens
        self._limits = TurnLimits(max_requests, answer_tokens)
        self._chats = chats
        self._load = load
        self._erased = b""
        self._is_unkept = False
        self.clear()

    # One turn

    def turn(self, message: str, draw: Callable[[Event], None]) -> TurnEnded:
        """Answer a message and draw each event. Ctrl-C stops the turn; nothing said is lost."""
        self.bench.draw = draw
        self.heed_erasures()
        self._announce_privacy(message)
        self._fit(message)
        began = len(self.conversation)
        self.bench.begin(message, draw)
        ended = self._ask_model(self.model, message) if self.model else self._answer_offline(message)
        changes = [each for said in self.conversation[began:] for each in said.touched if each.action in CHANGES]
        self._learn(began, has_saved=bool(changes) or self.memory.has_learned)
        saved = dict.fromkeys(each.path for each in changes if each.action in ("saved", "updated"))
        ended = ended._replace(
            saved=tuple(saved), recalled=tuple(self.bench.recalled), ignored=self.memory.session.ignoring
        )
        draw(ended)
        return ended

    def _answer_offline(self, message: str) -> TurnEnded:
        self.add(Said("user", message))
        try:
            answer = self._offline.answer(message)
        except KeyboardInterrupt:
            return TurnEnded("", interrupted=True)
        self.add(Said("assistant", answer, touched=tuple(self._offline.touched)))
        self.bench.draw(Text(answer))
        return TurnEnded(answer, dollars=0.0)

    def _ask_model(self, model: ChatModel, message: str) -> TurnEnded:
        from memsheaf.chat.model_turn import ModelTurn

        self.add(Said("user", message, beside=self.bench.gather_beside()))
        conversation = list(_without_memory(self.conversation)) if self.memory.session.ignoring else self.conversation
        turn = ModelTurn(self.bench, model, conversation, self.add, self._limits)
        try:
            turn.run()
        except (ModelFailed, CapReached) as error:
            hint = NOTHING_LOST if error.hint == ModelFailed.hint else error.hint
            self.bench.draw(Failed(str(error), hint))
        cost = turn.cost()
        self.spent = self.spent.plus(cost)
        return TurnEnded(turn.answer, (), (), turn.is_interrupted, False, *cost[1:])

    def _announce_privacy(self, message: str) -> None:
        privacy = follow_privacy(self.memory.session.privacy, message)
        if is_silent(privacy) and self.model:
            end = ", until you say “you can remember again”" if privacy == "rest" else ""
            line = f"off the record: neither what you said nor the answer is kept or learned from{end}"
            self.bench.draw(Notice(line))

    def _fit(self, message: str) -> None:
        """Make the conversation shorter when it is too long."""
        if conversation_size([*self.conversation, Said("user", message)]) <= self._context_tokens:
            return
        try:
            self.bench.draw(Notice(self.compact(by_user=False)))
        except (Refused, StoreFailed) as error:
            line = f"the conversation is long, and could not be compacted: {error}"
            self.bench.draw(Notice(line, "/compact tries again."))

    def _learn(self, began: int, *, has_saved: bool) -> None:
        """Keep what was said in a turn, however it ended, and learn from it behind the prompt."""
        messages = tuple(  # without what memory itself answered
            Message(said.role, said.text, str(number))
            for number, said in enumerate(self.conversation[began:], began)
            if said.text and not said.tool.startswith("memory_")
        )
        turn = Turn(self.id, messages, saved=has_saved, number=self._count_turns())
        try:
            self.memory.learn(turn, later=self.permission.planning)
        except MemsheafError as error:
            self.bench.draw(Notice(f"nothing is learned from this turn: {error}", error.hint))

    def add(self, said: Said) -> None:
        """Add a message to the conversation, and keep it. That the disk refuses it is told once."""
        self.conversation.append(said)
        if self.kept is None:
            return
        try:
            self.kept.mark(model=self.model_name)
            self.kept.add(said)
        except StoreFailed as error:
            if not self._is_unkept:
                self.bench.draw(Notice(f"this conversation cannot be kept: {error}", error.hint))
            self._is_unkept = True

    # Conversations

    def clear(self) -> None:
        """Begin a new conversation."""
        self._release()
        self.kept = self._chats.begin(model=self.model_name, scope=self.scope) if self._chats else None
        self._go_on([])

    def resume(self, id: str) -> int:
        """Go on with a conversation that was kept, and return how many messages it has. Raises NotFound, Refused."""
        if self._chats is None:
            raise Refused("conversations are not kept here")
        kept = self._chats.open(id)
        self._release()
        self.kept = kept
        self._go_on(kept.messages())
        return len(self.conversation)

    def _release(self) -> None:
        if self.kept:
            self.kept.close()

    def _go_on(self, conversation: Sequence[Said]) -> None:
        """Begin with these messages, and with nothing allowed, read or spent yet."""
        self._is_unkept = False
        self._offline = Offline(self.memory, self.permission, self.tools, make_turn=self._make_turn)
        self.permission.forget()
        self.tools.forget()
        self.spent = Cost()
        users = (said.text for said in conversation if said.role == "user")
        self.memory.session.privacy = reduce(follow_privacy, users, "")
        self._take_up(conversation)

    def _take_up(self, conversation: Sequence[Said]) -> None:
        """Go on from these messages, with memory as it is now in the system prompt. All may be recalled again."""
        self.conversation[:] = conversation
        self._erased = self._chats.read_erasure_stamp() if self._chats else b""
        self.memory.session.cancel()
        self.memory.session.resume({"privacy": self.memory.session.privacy})
        self.bench.renew_prompts()

    def heed_erasures(self) -> None:
        """Forget here, too, what was erased since: only what is kept is left to go on with."""
        if self._chats and self._chats.read_erasure_stamp() != self._erased:
            kept = self.kept.messages() if self.kept else []
            self._take_up(kept or [said._replace(beside="") for said in self.conversation])

    def compact(self, *, by_user: bool = True) -> str:
        """Make the conversation shorter, and say how much. Raises Refused, StoreFailed."""
        before = len(self.conversation)
        done, left = self.memory.compact(self.conversation, self._context_tokens // 2, by_user=by_user, name=self.id)
        if done.problem and not done.fits:
            raise Refused(done.problem)
        if done.after >= done.before:
            return "there is nothing to compact yet"
        if self.kept:
            self.kept.replace_messages(left)
        self._take_up(left)
        sizes = f"{done.before:,} tokens became {done.after:,}"
        return f"the conversation was compacted: {before} messages became {len(left)}, {sizes}"

    def use(self, name: str) -> str:
        """Talk to another model from here on, or to none; return its name. Raises BadSettings, ModelFailed."""
        self.model = self._load(name)
        self.memory.layers.by = "agent" if self.model else "user"
        return self.model_name

    @property
    def model_name(self) -> str:
        """The name of the model, "offline" without one."""
        return self.model.name if self.model else "offline"

    @property
    def id(self) -> str:
        """The id of the conversation, "" when it is not kept."""
        return self.kept.id if self.kept else ""

    @property
    def scope(self) -> str:
        """The scope that is written to."""
        return self.memory.layers.home

    def _count_turns(self) -> int:
        return self.kept.turns if self.kept else 0

    def _make_turn(self, text: str) -> Turn:
        """Return the turn that is being answered as a text of the user, to learn from before the answer."""
        return Turn(self.id, (Message("user", text),), number=self._count_turns())

    def close(self, wait: float = 0.0) -> None:
        """Wait at most this long for learning, then close. What is not learned yet stays in the inbox."""
        try:
            self.memory.learning.distiller.wait(wait)
        finally:
            self._release()
            self.memory.close()


def _without_memory(conversation: Sequence[Said]) -> Iterator[Said]:
    """Yield what was said, without what memory put beside it or in its place, and without what was asked of it.

    The answer of a second agent goes, too: it had the catalog before it.
    """
    for said in conversation:
        calls = tuple(call for call in said.calls if not _is_of_memory(call.tool))
        is_empty = bool(said.calls) and not calls and not said.text
        if not is_empty and not _is_of_memory(said.tool) and not is_summary(said):
            yield said._replace(calls=calls, beside="")


def _is_of_memory(tool: str) -> bool:
    return tool.startswith("memory_") or tool == "agent"
