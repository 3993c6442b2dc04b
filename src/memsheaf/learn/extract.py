"""Extraction: what a conversation says that is worth remembering, and what becomes of each proposal.

A model reads the dialogue as data and answers in a schema; without one, and beside one, rules catch what the user
asked for explicitly. What becomes of a proposal is a `JudgedProposal`, with the reason.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime
from typing import NamedTuple, TypeVar

from memsheaf.errors import BadHeader, Duplicate, MemsheafError, ModelFailed, NotFound, Ref, Refused
from memsheaf.gates import WrittenFile, written_file
from memsheaf.guard.pasted import PASTED_DOUBT, read_own_words
from memsheaf.guard.paths import is_fact
from memsheaf.guard.secrets import REMOVED, without_secrets
from memsheaf.learn.corrections import LearningScopes, drop_retracted, find_corrected
from memsheaf.learn.sentences import CORRECTION, find_stated_facts
from memsheaf.llm import Model, Question, answer, object_schema
from memsheaf.memory import KINDS, Memory
from memsheaf.open_scope import choose_scope, find_matches, refuse_known
from memsheaf.prompts import read_prompt
from memsheaf.recall.turns import Message, Proposal, Turn
from memsheaf.text.dates import absolute
from memsheaf.text.neutralize import cut_bytes, for_prompt, one_line, visible
from memsheaf.text.sentences import current_part, lacks_subject
from memsheaf.text.similarity import LIKELY, RELATED, SAME, coverage, fact, numbers, telling, words
from memsheaf.text.tokenizer import stem

MAX_ANSWER_MEMORIES = 10
MAX_SHOWN_MEMORIES, MAX_SHOWN_BYTES = 12, 700  # of what is known already
MAX_QUERIES = 20  # messages with which related memories are searched
MAX_QUERY_CHARS = 2_000
MAX_MATCHES = 3  # of one message
MAX_ANSWER_TOKENS = 2_000
MAX_QUOTE_BYTES = 600
MAX_TOOL_SHARE = 0.2  # of a confirmed fact's words that only a tool said
BY = "extraction"

T = TypeVar("T")


class JudgedProposal(NamedTuple):
    """A proposal that was judged: `saved` at `ref`, `queued` under an id, or `dropped`; and why.

    `file` is what is saved.
    """

    proposal: Proposal
    outcome: str
    ref: Ref | None = None
    why: str = ""
    id: str = ""
    file: WrittenFile | None = None

    @property
    def path(self) -> str:
        """Return the path of the memory in its scope; "" when there is none."""
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
    memories: LearningScopes, turns: Sequence[Turn], model: Model | None, today: date, *, deadline: float = 60.0
) -> list[Proposal]:
    """Return what is worth remembering of some turns of one conversation.

    Turns in which the agent wrote to memory itself are left out. Without a model rules decide; with one, what the
    user asked for explicitly is there in any case.

    Raises:
        ModelFailed: the model gave no answer.
        BadAnswer: it gave two that cannot be used.
    """
    turns = [turn for turn in turns if not turn.saved]
    stated = []
    before: Sequence[Message] = ()
    for turn in turns:
        stated.append(find_stated_facts(turn, day_of(turn, today), corrections=model is None, before=before))
        before = turn.messages
    ruled = [proposal._replace(quote=proposal.content) for proposal in drop_retracted(stated)]
    if model is None or not turns:
        return ruled
    day = day_of(turns[-1], today)
    proposals = []
    for proposal in _set_trust(_ask_model(memories, turns, model, day, deadline), turns, memories):
        content = absolute(proposal.content, day)
        description = absolute(proposal.description, day)
        proposals.append(proposal._replace(content=content, description=description))
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


def draft(memories: LearningScopes, proposal: Proposal, *, by: str = BY) -> tuple[Memory, Memory | None]:
    """Return the memory that a proposal makes, and the one that it replaces; nothing is written.

    Raises TextRefused, BadHeader, NotFound.
    """
    name = proposal.scope
    if proposal.replaces:
        name = proposal.replaces.scope or memories.home
    elif name not in memories.scopes():
        name = choose_scope(proposal.kind, proposal.content, memories.scopes(), memories.home)
    return memories.open_scope(name).draft(proposal, by=by)


def refuse(memories: LearningScopes, memory: Memory, was: Memory | None, *, asked: bool = False) -> None:
    """Raise Refused for what may not be stored; what the user `asked` for need not be worth keeping."""
    memories.open_scope(memory.scope).check_gates(memory, was=was, by=BY, asked=asked)
    if was is None:
        refuse_known(memory, memory.scope, memories.open_scopes())


def decide(
    memories: LearningScopes,
    proposal: Proposal,
    turns: Sequence[Turn],
    *,
    policy: Callable[[str], str],
    beside: Collection[Ref] = (),
) -> JudgedProposal | None:
    """Judge a proposal: save, queue or drop it, with the reason; None for what is only worth keeping as a correction.

    `policy` gives the policy of a scope. Memories `beside` it come from the same turns, and are not corrected by it.
    """
    try:
        content = proposal.content
        proposal = find_corrected(memories, proposal, beside)
        is_sure = proposal.content == content or lacks_subject(content)  # what lacks its subject keeps the old text
        if proposal.why == CORRECTION and not (proposal.replaces and is_sure):
            return None
        _refuse_unsupported(proposal, turns, memories)
        memory, was = draft(memories, proposal)
        refuse(memories, memory, was, asked=proposal.explicit)
        # one other word may be the whole correction
        if was and was.type == memory.type and fact(memory) == fact(was):
            raise Refused(f"{str(was.ref)!r} says so already")
        stone = memories.open_scope(memory.scope).buried(memory)
        if stone and not proposal.explicit:
            raise Refused(f"it was {stone.why} on {stone.at[:10]}")
    except (Refused, BadHeader, NotFound, ValueError) as error:
        why = without_secrets(str(error))
        if isinstance(error, Duplicate) and proposal.explicit:
            known = memories.read(error.ref)
            if telling(proposal.content) != telling(known.body):  # asked for in other words
                return JudgedProposal(proposal, "queued", known.ref, why)
        return JudgedProposal(proposal, "dropped", None, why)
    proposal = proposal._replace(scope=memory.scope)
    if was:
        proposal = proposal._replace(replaces=was.ref, version=was.version)
    if why := _review_reason(proposal, was, policy(memory.scope)):
        return JudgedProposal(proposal, "queued", memory.ref, why)
    return JudgedProposal(proposal, "saved", memory.ref, file=written_file(memory, was))


# The model's proposals
#
# A model reads the messages as data, between marks that no text can know in advance, beside a few memories that may
# be updated. Its answer is a list of memories, each with the numbers of the messages that it comes from.


def _ask_model(
    memories: LearningScopes, turns: Sequence[Turn], model: Model, today: date, deadline: float
) -> list[Proposal]:
    known = _find_related(memories, turns)
    nonce = os.urandom(8).hex()
    parts = ["Existing memories:"]
    for file, memory in known.items():
        body = cut_bytes(for_prompt(without_secrets(memory.body)).strip(), MAX_SHOWN_BYTES)
        name = one_line(for_prompt(without_secrets(memory.name)), 120)
        parts.append(f"<memory-{nonce}>\n{file} [{memory.type}] {name}\n{body}\n</memory-{nonce}>")
    if not known:
        parts.append("(none)")
    parts += ["", "The conversation:"]
    for number, message in enumerate(_messages(turns), 1):
        text = for_prompt(message.text)
        parts.append(f"<message-{nonce} number={number} from={message.role}>\n{text}\n</message-{nonce}>")
    shape = object_schema(
        {
            "action": {"type": "string", "enum": ["add", "update"] if known else ["add"]},
            "file": {"type": "string", "enum": ["", *known]},
            "type": {"type": "string", "enum": list(KINDS)},
            "scope": {"type": "string", "enum": ["persistent", "current_task"]},
            "name": {"type": "string"},
            "description": {"type": "string"},
            "content": {"type": "string"},
            "messages": {"type": "array", "items": {"type": "integer"}},
        }
    )
    question = Question(
        read_prompt("extract").replace("{today}", today.isoformat()),
        "\n".join(parts),
        object_schema({"memories": {"type": "array", "maxItems": MAX_ANSWER_MEMORIES, "items": shape}}),
        max_tokens=MAX_ANSWER_TOKENS,
    )
    return ask_twice(model, question, deadline, lambda answer: _read_answer(answer, known, turns))


def _find_related(memories: LearningScopes, turns: Sequence[Turn]) -> dict[str, Memory]:
    """Return confirmed memories that are near to what was said last, each under the name that the model sees."""
    related: dict[str, Memory] = {}
    for message in _messages(turns)[: -MAX_QUERIES - 1 : -1]:
        for match in find_matches(memories.open_scopes(), message.text[:MAX_QUERY_CHARS], limit=MAX_MATCHES):
            if (match.row.state, match.row.trust) != ("ok", "confirmed") or len(related) == MAX_SHOWN_MEMORIES:
                continue
            with suppress(MemsheafError):  # deleted meanwhile
                memory = memories.read(match.row.ref)
                if memory.type in KINDS and not memory.is_item:
                    related[memories.label(memory.ref)] = memory
    return related


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
    if isinstance(memory, dict):
        memory = {"file": "", "description": "", "scope": "", **memory}
    match memory:
        case {
            "action": "add" | "update" as action,
            "file": str(file),
            "name": str(name),
            "description": str(description),
            "type": str(kind),
            "content": str(content),
            "scope": str(scope),
            **more,
        }:
            pass
        case _:
            raise ValueError("a memory needs an 'action', add or update, and the texts name, type and content")
    if kind not in KINDS:
        raise ValueError(f"'type' must be one of {', '.join(KINDS)}")
    if not content.strip() or not name.strip():
        raise ValueError("'name' and 'content' must say something")
    if scope == "current_task":
        return None
    # a memory that was not shown cannot be meant: then it is something new, and matched like all that is
    old = known.get(file.strip()) if action == "update" else None
    sources = [(turn.label, message.text) for turn in turns for message in turn.messages]
    numbers = more.get("messages")
    if not isinstance(numbers, list):
        numbers = []
    valid = [number for number in numbers if type(number) is int and 0 < number <= len(sources)]
    label, quote = sources[min(valid, default=1) - 1]
    return Proposal(
        name=one_line(name, 120),
        description=one_line(description, 300) or one_line(content, 200),
        kind=kind,
        content=content.strip(),
        replaces=old.ref if old else None,
        version=old.version if old else "",
        conversation=label,
        why="extracted",
        quote=cut_bytes(quote.strip(), MAX_QUOTE_BYTES),
    )


def _set_trust(proposals: Iterable[Proposal], turns: Sequence[Turn], memories: LearningScopes) -> Iterator[Proposal]:
    """Yield what a model proposes, with the trust that its words deserve: it is the user's when the user said it.

    Most of the content must be in the user's own words. Where those may be pasted, a person is asked. Name and
    description count, too, as they stand in the catalog: a number that only a tool gave, or many words of others,
    make it unconfirmed. What a message holds besides the user's words counts as a tool's.
    """
    texts: dict[str, list[str]] = {"user": [], "assistant": [], "tool": []}
    for message in _messages(turns):
        texts[message.role].append(message.text)
    typed = [read_own_words(text) for text in texts["user"]]
    sure = _stems(*(own.own(sure=True) for own in typed))
    perhaps = _stems(*(own.own(sure=False) for own in typed))
    tools = _stems(*texts["tool"], *texts["user"]) - perhaps
    others = tools | _stems(*texts["assistant"]) - perhaps
    for proposal in proposals:
        content = _stems(current_part(proposal.content)) - {"user"}
        if proposal.replaces:
            content -= _stems(memories.read(proposal.replaces).body)
        claimed = content | _stems(proposal.name, proposal.description)
        heard = claimed & (perhaps | others)
        is_of_tools = numbers(claimed & tools) or coverage(heard, tools) > MAX_TOOL_SHARE
        if is_of_tools or coverage(heard, perhaps) < LIKELY or coverage(content, perhaps) < LIKELY:
            proposal = proposal._replace(trust="unconfirmed", why="it comes from a tool, a page or the agent")
        elif coverage(content, sure) < LIKELY:
            proposal = proposal._replace(doubt=PASTED_DOUBT)
        yield proposal


def _stems(*texts: str) -> set[str]:
    return {stem(word) for text in texts for word in telling(visible(text))}


def _refuse_unsupported(proposal: Proposal, turns: Sequence[Turn], memories: LearningScopes) -> None:
    """Raise Refused for a proposal that lost a secret, is empty, or was not said, unless the user asked for it."""
    if REMOVED in proposal.content:
        raise Refused("a secret was taken out of it")
    if not telling(proposal.content):
        raise Refused("it says nothing")
    texts = [message.text for message in _messages(turns)]
    if proposal.replaces:
        texts.append(memories.read(proposal.replaces).body)
    claimed = _stems(current_part(proposal.content)) - {"user"}  # "I prefer tabs" is told as "the user prefers tabs"
    if not proposal.explicit and coverage(claimed, _stems(*texts)) < RELATED:
        raise Refused("nothing in the conversation says it")


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
    is_users = proposal.explicit or proposal.why.startswith("the user")
    return "it would change what you wrote yourself" if was.source == "user" and not is_users else ""


def covers(proposal: Proposal, asked: Proposal) -> bool:
    """Return True if a model's proposal says what the user asked for."""
    wanted = telling(asked.content)
    if not numbers(wanted) <= numbers(words(proposal.content)):
        return False
    return coverage(wanted, telling(f"{proposal.name} {proposal.content}")) >= SAME
