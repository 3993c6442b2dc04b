"""One turn at work: what memory puts beside the message, and what is kept and learned when it is over."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from memsheaf.chat.events import Ended, Event, Noted, Recalled
from memsheaf.chat.fitting import size
from memsheaf.chat.steps import Bill, Steps
from memsheaf.errors import MemsheafError, Refused, StoreFailed
from memsheaf.llm.talker import Said, Touched
from memsheaf.recall.ignore import is_private
from memsheaf.recall.recall import Recall
from memsheaf.recall.turns import Message, Turn

# Known to type checkers under this name: an agent has turns, and not the other way round.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from memsheaf.chat.agent import Agent
    from memsheaf.chat.conversations import Conversation


class Exchange:
    """One turn of an agent, from the message to what is learned of it."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self.steps = Steps(agent.conversation, agent, keep=self._keep)
        self.interrupted = False
        self.notes: list[Noted] = []
        self._recalled: list[str] = []
        self._begin = len(agent.conversation)
        self._late: list[Recall] = []
        self._unfit = False
        self._is_finished = False

    def prepare(self, message: str, ignore: bool) -> Iterator[Event]:
        """Take the message in: what memory has to say about it begins to be looked for."""
        agent = self._agent
        agent.heed_erasures()
        self._begin = len(agent.conversation)
        if is_private(message):
            yield Noted("this turn is off the record: neither what you said nor the answer is kept or learned from")
        self.steps.add(Said("user", message))
        yield from self._fit()
        late = agent.mind.begin(message, ignore=ignore, tools=agent.used)
        self._late = [late] if late else []

    def _fit(self) -> Iterator[Event]:
        """Make the conversation shorter when it is too long; the message that is being answered stays."""
        agent = self._agent
        if self._unfit or size(agent.conversation) <= agent.context:
            return
        try:
            yield Noted(agent.compact(by_user=False))
        except (Refused, StoreFailed) as error:
            self._unfit = True
            yield Noted(f"the conversation is long, and was not made shorter: {error}", "/compact tries again.")
        users = [place for place, said in enumerate(agent.conversation) if said.role == "user"]
        self._begin = users[-1] if users else 0

    def before(self, first: bool) -> Iterator[Event]:
        """Put beside the last message what was recalled meanwhile, and what changed in the catalog."""
        mind, conversation = self._agent.mind, self._agent.conversation
        if not first:
            yield from self._fit()
        if mind.ignoring:
            return
        texts = []
        try:
            texts = [mind.news()] if first else []
        except MemsheafError as error:
            yield Noted(f"memory cannot be read, and the turn goes on without it: {error}", error.hint)
        found = [*self._late, mind.recalled(first=first)]
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
        if self._is_finished:
            return
        self._is_finished = True
        agent = self._agent
        self.steps.leave()
        agent.spent = agent.spent.plus(self.bill)
        said = agent.conversation[self._begin :]
        if not said:
            return
        turn = Turn(agent.id, tuple(_messages(said, self._begin)), saved=bool(self._done()))
        self._note(lambda kept: kept.mark(model=agent.talker.name))
        try:
            agent.mind.learn(turn, later=agent.permission.planning)
        except MemsheafError as error:
            self.notes.append(Noted(f"nothing is learned from this turn: {error}", error.hint))

    @property
    def bill(self) -> Bill:
        """What the turn cost so far, second agents included."""
        return self.steps.bill.plus(self._agent.aside)

    @property
    def saved(self) -> tuple[str, ...]:
        """The files that tools wrote in this turn."""
        return tuple(dict.fromkeys(one.path for one in self._done() if one.action != "deleted"))

    def _done(self) -> list[Touched]:
        """What memory tools changed in this turn."""
        told = (one for said in self._agent.conversation[self._begin :] for one in said.touched)
        return [one for one in told if one.action in ("saved", "updated", "deleted")]

    def ended(self) -> Ended:
        """What the turn came to."""
        bill = self.bill
        return Ended(
            self.steps.answer,
            recalled=tuple(self._recalled),
            saved=self.saved,
            interrupted=self.interrupted,
            ignored=self._agent.mind.ignoring,
            input=bill.input,
            output=bill.output,
            cached=bill.cached,
            dollars=bill.dollars,
        )

    def _keep(self, said: Said) -> None:
        self._note(lambda kept: kept.add(said))

    def _note(self, write: Callable[[Conversation], None]) -> None:
        """Write something of the conversation down; what the disk refuses is told once."""
        try:
            if self._agent.kept:
                write(self._agent.kept)
        except StoreFailed as error:
            note = Noted(f"this conversation cannot be kept: {error}", error.hint)
            if note not in self.notes:
                self.notes.append(note)


def _messages(said: Sequence[Said], begin: int) -> Iterator[Message]:
    """A turn as learning reads it: what was said and looked at, without what memory itself answered."""
    for number, one in enumerate(said, begin):
        if one.text and not one.tool.startswith("memory_"):
            yield Message(one.role, one.text, str(number))
