"""Extraction: what a conversation says that is worth remembering, and what becomes of each proposal.

A model reads the dialogue as data and answers in a schema; without one, and beside one, rules catch what the user
asked for explicitly. What becomes of a proposal is a `JudgedProposal`, with the reason.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from typing import NamedTuple, Protocol, TypeVar

from memsheaf.errors import BadHeader, Duplicate, Exists, MemsheafError, ModelFailed, NotFound, Ref, Refused
from memsheaf.guard.pasted import PASTED, read_own_words
from memsheaf.guard.paths import is_fact
from memsheaf.guard.secrets import REMOVED, without_secrets
from memsheaf.learn.corrections import Memories, drop_retracted, find_corrected
from memsheaf.learn.sentences import CORRECTION, find_stated_facts
from memsheaf.llm import Model, Question, answer, object_schema
from memsheaf.memory import KINDS, Memory
from memsheaf.prompts import read_prompt
from memsheaf.recall.turns import Message, Proposal, Turn
from memsheaf.store import Change, Commit
from memsheaf.store.tombstones import Tombstone
from memsheaf.text.dates import absolute
from memsheaf.text.neutralize import cut_bytes, for_prompt, one_line, visible
from memsheaf.text.similarity import LIKELY, RELATED, SAME, alike, coverage, fact, numbers, telling, words
from memsheaf.text.tokenizer import stem

MAX_ANSWER_MEMORIES = 10
MAX_SHOWN_MEMORIES, MAX_SHOWN_BYTES = 12, 700  # of what is known already
MAX_QUERIES = 20  # messages with which related memories are searched
MAX_ANSWER_TOKENS = 2_000
MAX_TOOL_SHARE = 0.2  # of a confirmed fact's words that only a tool said

T = TypeVar("T")
Decided = tuple["JudgedProposal", Change | None]  # what became of a proposal, and the change that saves it


class ProposalWriter(Protocol):
    """Saves proposals; `Sheaf.learning` has one."""

    def draft(
        self, proposal: Proposal, taken: Collection[Ref], *, by: str = "extraction"
    ) -> tuple[Change, Memory, Memory | None]:
        """The change a proposal makes, under a name that is not taken; the memory after it, and the one before."""

    def judge(self, memory: Memory, was: Memory | None, *, asked: bool = False) -> None:
        """Raise Refused for what may not be stored; what the user `asked` for need not be worth keeping."""

    def buried(self, memory: Memory) -> Tombstone | None:
        """The tombstone of a memory that a person does not want."""

    def change_many(self, scope: str, changes: Sequence[Change], why: str, *, by: str) -> Commit:
        """Make changes as one commit. Raises Changed."""

    def accept(self, scope: str, change: Change, was: Memory | None, why: str) -> Commit:
        """Make a change that a person wants. Raises Changed."""

    def bury(self, memory: Memory, *, undo: bool = False) -> None:
        """Note that a person does not want this, or with `undo` that they do not mind it after all."""


class JudgedProposal(NamedTuple):
    """What became of a proposal: `saved` at a path, `queued` under an id, or `dropped`; and why."""

    proposal: Proposal
    outcome: str
    ref: Ref | None = None
    why: str = ""
    id: str = ""

    @property
    def path(self) -> str:
        """The path of the memory in its scope; "" when there is none."""
        return self.ref.path if self.ref else ""


class BadAnswer(ModelFailed):
    """A model answered twice in a shape that cannot be used."""


def ask_twice(model: Model, question: Question, deadline: float, read: Callable[[object], list[T]]) -> list[T]:
    """Return what `read` makes of a model's answer. If it raises ValueError, the model is asked once more.

    Raises:
        BadAnswer: both answers could not be used.
        ModelFailed: the model did not answer.
    """
    trouble = ""
    for _ in range(2):
        retry = f"\n\nYour last answer could not be used: {trouble}. Answer again." if trouble else ""
        try:
            return read(answer(model, question._replace(text=question.text + retry), deadline))
        except ValueError as error:
            trouble = str(error)
    raise BadAnswer(f"its answer cannot be used: {trouble}")


def propose(
    target: Memories, turns: Sequence[Turn], model: Model | None, today: date, *, deadline: float = 60.0
) -> list[Proposal]:
    """Return what is worth remembering of some turns of one conversation.

    Turns in which the agent wrote to memory itself are left out. Without a model rules decide; with one, what the
    user asked for explicitly is there in any case.

    Raises:
        ModelFailed: the model gave no answer.
        BadAnswer: it gave two that cannot be used.
    """
    turns = [turn for turn in turns if not turn.saved]
    ruled = drop_retracted(find_stated_facts(turn, day_of(turn, today), corrections=model is None) for turn in turns)
    if model is None or not turns:
        return ruled
    day = day_of(turns[-1], today)
    proposals = [
        proposal._replace(content=absolute(proposal.content, day), description=absolute(proposal.description, day))
        for proposal in _set_trust(_ask_model(target, turns, model, day, deadline), turns, target)
    ]
    return proposals + [proposal for proposal in ruled if proposal.explicit]


def time_of(turn: Turn) -> float:
    """Return when a turn was, in seconds since 1970; infinity if it does not say."""
    try:
        return datetime.fromisoformat(turn.at).timestamp()
    except (ValueError, OverflowError, OSError):
        return math.inf


def day_of(turn: Turn, today: date) -> date:
    """Return the day of a turn, from which "tomorrow" is counted."""
    try:
        return min(today, date.fromtimestamp(time_of(turn)))
    except (ValueError, OverflowError, OSError):
        return today


def decide(
    target: Memories,
    keeper: ProposalWriter,
    proposals: Iterable[Proposal],
    turns: Sequence[Turn],
    *,
    policy: Callable[[str], str],
) -> list[Decided]:
    """Judge proposals: save, queue or drop each, with the reason. `policy` gives the policy of a scope."""
    decided: list[Decided] = []
    taken: dict[Ref, Memory] = {}
    for proposal in proposals:
        others = (other.proposal for other, _ in decided if other.ref and not other.proposal.explicit)
        if proposal.explicit and any(_covers(other, proposal) for other in others):
            continue  # a model has said it, and it was taken
        try:
            proposal = find_corrected(target, proposal)
            if proposal.why == CORRECTION and not proposal.replaces:
                continue
            if proposal.replaces in taken:
                proposal = proposal._replace(replaces=None, version="")
            _refuse_unsupported(proposal, turns, target)
            change, memory, was = keeper.draft(proposal, taken.keys())
            keeper.judge(memory, was, asked=proposal.explicit)
            _refuse_repeated(memory, taken.values(), was)
            if not proposal.explicit and (stone := keeper.buried(memory)):
                raise Refused(f"it was {stone.why} on {stone.at[:10]}")
        except (Refused, BadHeader, NotFound, ValueError) as error:
            verdict = JudgedProposal(proposal, "dropped", None, without_secrets(str(error)))
            # what the user asked for is not dropped for one word of difference: that a person decides
            if (
                isinstance(error, Duplicate)
                and proposal.explicit
                and telling(proposal.content) != telling(target.read(error.ref).body)
            ):
                verdict = verdict._replace(outcome="queued", ref=error.ref)
            decided.append((verdict, None))
            continue
        taken[memory.ref] = memory
        if was:
            taken[was.ref] = memory
        proposal = proposal._replace(replaces=None, version="", scope=memory.scope)
        if was:
            proposal = proposal._replace(replaces=was.ref, version=was.version)
        if why := _review_reason(proposal, was, policy(memory.scope)):
            decided.append((JudgedProposal(proposal, "queued", memory.ref, why), None))
        else:
            decided.append((JudgedProposal(proposal, "saved", memory.ref), change))
    return decided


def save(keeper: ProposalWriter, scope: str, decided: Sequence[Decided], why: str) -> list[JudgedProposal]:
    """Commit what is to be saved in one scope as one; or one by one, when something in it is refused after all.

    Raises:
        Changed, Exists: somebody changed one of them meanwhile; decide again.
    """
    changes = [change for _, change in decided if change]
    try:
        if changes:
            keeper.change_many(scope, changes, why, by="extraction")
        return [verdict for verdict, _ in decided]
    except Refused:
        pass
    verdicts = []
    for verdict, change in decided:
        try:
            if change:
                keeper.change_many(scope, [change], f"{why}, in part", by="extraction")
        except (Refused, Exists) as error:
            verdict = verdict._replace(outcome="dropped", ref=None, why=without_secrets(str(error)))
        verdicts.append(verdict)
    return verdicts


def _ask_model(target: Memories, turns: Sequence[Turn], model: Model, today: date, deadline: float) -> list[Proposal]:
    known = _find_related(target, turns)
    nonce = os.urandom(8).hex()
    messages = [
        f"<message-{nonce} number={number} from={message.role}>\n{for_prompt(message.text)}\n</message-{nonce}>"
        for number, message in enumerate(_messages(turns), 1)
    ]
    memories = [
        f"<memory-{nonce}>\n{_render(file, memory)}\n</memory-{nonce}>" for file, memory in known.items()
    ] or ["(none)"]
    parts = ["Existing memories:", *memories, "", "The conversation:", *messages]
    choices = {
        "action": ["add", "update"] if known else ["add"],
        "file": ["", *known],
        "type": list(KINDS),
        "scope": ["persistent", "current_task"],
    }
    properties: dict[str, object] = {name: {"type": "string", "enum": values} for name, values in choices.items()}
    properties |= {name: {"type": "string"} for name in ("name", "description", "content")}
    properties["messages"] = {"type": "array", "items": {"type": "integer"}}
    items = {"type": "array", "maxItems": MAX_ANSWER_MEMORIES, "items": object_schema(properties)}
    question = Question(
        read_prompt("extract").replace("{today}", today.isoformat()),
        "\n".join(parts),
        object_schema({"memories": items}),
        max_tokens=MAX_ANSWER_TOKENS,
    )
    return ask_twice(model, question, deadline, lambda answer: _read_answer(answer, known, turns))


def _find_related(target: Memories, turns: Sequence[Turn]) -> dict[str, Memory]:
    """Return the confirmed memories that have to do with the dialogue."""
    texts = [message.text[:2_000] for message in _messages(turns) if message.text.strip()][-MAX_QUERIES:]
    scores: dict[Ref, float] = {}
    for text in [*texts, "\n".join(texts)[:4_000]]:
        for match in target.matches(text, limit=MAX_SHOWN_MEMORIES):
            scores[match.row.ref] = max(scores.get(match.row.ref, 0.0), match.score)
    related = {}
    for ref in sorted(scores, key=lambda ref: -scores[ref])[:MAX_SHOWN_MEMORIES]:
        try:
            memory = target.read(ref)
        except MemsheafError:
            continue
        if (memory.state, memory.trust) == ("ok", "confirmed") and memory.type in KINDS and not memory.is_item:
            related[target.label(ref)] = memory
    return related


def _render(file: str, memory: Memory) -> str:
    body = cut_bytes(for_prompt(without_secrets(memory.body)).strip(), MAX_SHOWN_BYTES)
    return f"{file} [{memory.type}] {one_line(for_prompt(without_secrets(memory.name)), 120)}\n{body}"


def _messages(turns: Sequence[Turn]) -> list[Message]:
    return [message for turn in turns for message in turn.messages]


def _read_answer(answer: object, known: Mapping[str, Memory], turns: Sequence[Turn]) -> list[Proposal]:
    """Return the proposals in an answer. Raises ValueError, in words that the model can act on."""
    memories = answer.get("memories") if isinstance(answer, dict) else None
    if not isinstance(memories, list):
        raise ValueError("it is not an object with a list 'memories'")
    if len(memories) > MAX_ANSWER_MEMORIES:
        raise ValueError(f"it holds {len(memories)} memories; {MAX_ANSWER_MEMORIES} are the most")
    return [proposal for memory in memories if (proposal := _read_proposal(memory, known, turns))]


def _read_proposal(memory: object, known: Mapping[str, Memory], turns: Sequence[Turn]) -> Proposal | None:
    """Return one proposal of an answer; None for what matters to the current task alone. Raises ValueError."""
    if not isinstance(memory, dict):
        raise ValueError("a memory is not an object")
    fields = {
        key: memory.get(key, "") for key in ("action", "file", "name", "description", "type", "content", "scope")
    }
    for key, value in fields.items():
        if not isinstance(value, str):
            raise ValueError(f"'{key}' is not a text")
    if fields["type"] not in KINDS:
        raise ValueError(f"'type' must be one of {', '.join(KINDS)}")
    if not fields["content"].strip() or not fields["name"].strip():
        raise ValueError("'name' and 'content' must say something")
    if fields["scope"] == "current_task":
        return None
    if fields["action"] not in ("add", "update"):
        raise ValueError("'action' must be add or update")
    # a memory that was not shown cannot be meant: then it is something new, and matched like all that is
    old = known.get(fields["file"].strip()) if fields["action"] == "update" else None
    return Proposal(
        name=one_line(fields["name"], 120),
        description=one_line(fields["description"], 300) or one_line(fields["content"], 200),
        kind=fields["type"],
        content=fields["content"].strip(),
        replaces=old.ref if old else None,
        version=old.version if old else "",
        conversation=_find_turn(turns, memory.get("messages")),
        why="extracted",
    )


def _find_turn(turns: Sequence[Turn], numbers: object) -> str:
    """Return the turn of the first of these messages, as the header `conversation` has it."""
    labels = [turn.label for turn in turns for _ in turn.messages]
    given = numbers if isinstance(numbers, list) else []
    places = [number - 1 for number in given if type(number) is int and 0 < number <= len(labels)]
    return labels[min(places, default=0)]


def _set_trust(proposals: Iterable[Proposal], turns: Sequence[Turn], target: Memories) -> Iterator[Proposal]:
    """Yield what a model proposes, with the trust that its words deserve: it is the user's when the user said it.

    Most of the content must be in the user's own words. Where those may be pasted, a person is asked. Name and
    description count, too, as they stand in the catalog: a number that only a tool gave, or many words of others,
    make it unconfirmed. What a message holds besides the user's words counts as a tool's.
    """
    texts: dict[str, list[str]] = {"user": [], "assistant": [], "tool": []}
    for message in _messages(turns):
        texts[message.role].append(message.text)
    typed = [read_own_words(text) for text in texts["user"]]
    sure, perhaps = (_stems(*(own.own(sure=sure) for own in typed)) for sure in (True, False))
    tools = _stems(*texts["tool"], *texts["user"]) - perhaps
    others = tools | _stems(*texts["assistant"]) - perhaps
    for proposal in proposals:
        content = _stems(proposal.content) - {"user"}
        if proposal.replaces:
            content -= _stems(target.read(proposal.replaces).body)
        claimed = content | _stems(proposal.name, proposal.description)
        said = claimed & (perhaps | others)
        is_of_tools = numbers(claimed & tools) or coverage(said, tools) > MAX_TOOL_SHARE
        if is_of_tools or coverage(said, perhaps) < LIKELY or coverage(content, perhaps) < LIKELY:
            proposal = proposal._replace(trust="unconfirmed", why="it comes from a tool, a page or the agent")
        elif coverage(content, sure) < LIKELY:
            proposal = proposal._replace(doubt=PASTED)
        yield proposal


def _stems(*texts: str) -> set[str]:
    return {stem(word) for text in texts for word in telling(visible(text))}


def _refuse_unsupported(proposal: Proposal, turns: Sequence[Turn], target: Memories) -> None:
    """Raise Refused for a proposal that lost a secret, is empty, or was not said, unless the user asked for it."""
    if REMOVED in proposal.content:
        raise Refused("a secret was taken out of it")
    if not telling(proposal.content):
        raise Refused("it says nothing")
    texts = [message.text for message in _messages(turns)]
    if proposal.replaces:
        texts.append(target.read(proposal.replaces).body)
    claimed = _stems(proposal.content) - {"user"}  # "I prefer tabs" is told as "the user prefers tabs"
    if not proposal.explicit and coverage(claimed, _stems(*texts)) < RELATED:
        raise Refused("nothing in the conversation says it")


def _refuse_repeated(memory: Memory, others: Iterable[Memory], was: Memory | None) -> None:
    """Raise Refused for what another proposal says, or the memory that it would replace."""
    wanted = fact(memory)
    if any(alike(wanted, fact(other)) >= SAME for other in others):
        raise Refused("it was proposed twice")
    if was and was.type == memory.type and wanted == fact(was):  # one other word may be the whole correction
        raise Refused(f"{str(was.ref)!r} says so already")


def _review_reason(proposal: Proposal, was: Memory | None, policy: str) -> str:
    """Return why a person has to see a proposal first, "" if that need not be."""
    if policy not in ("auto", "log"):
        return "the policy of this scope is to ask"
    if proposal.doubt or was is None:
        return proposal.doubt
    if proposal.trust == "unconfirmed":
        return "it would replace a memory, and comes from a tool or a page"
    if is_fact(was.path):
        return "it would supersede a fact"
    if was.pinned:
        return "it would change a pinned memory"
    is_said = proposal.explicit or proposal.why.startswith("the user")
    return "it would change what you wrote yourself" if was.source == "user" and not is_said else ""


def _covers(proposal: Proposal, asked: Proposal) -> bool:
    """Return True if a model's proposal says what the user asked for."""
    wanted = telling(asked.content)
    if not numbers(wanted) <= numbers(words(proposal.content)):
        return False
    return coverage(wanted, telling(f"{proposal.name} {proposal.content}")) >= SAME
