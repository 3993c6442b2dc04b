"""Extraction: what a conversation says that is worth remembering, and what becomes of each proposal.

A model reads the dialogue as data and answers in a schema; without one, and beside one, rules catch what the user
asked for explicitly. What becomes of a proposal is a `JudgedProposal`, with the reason.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import NamedTuple, Protocol, TypeVar

from memsheaf.errors import BadHeader, Duplicate, Exists, MemsheafError, ModelFailed, NotFound, Refused
from memsheaf.guard.paths import is_fact
from memsheaf.guard.secrets import REMOVED, without_secrets
from memsheaf.learn.corrections import Memories, drop_retracted, find_corrected
from memsheaf.learn.pasted import PASTED, read_own_words
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

MOST = 10  # memories that one answer may hold
NEAR, NEAR_BYTES = 12, 700  # memories that the model is shown, and how much of each
QUERY_MESSAGES = 20  # messages of the user that related memories are searched with
ANSWER_TOKENS = 2_000
MAX_TOOL_SHARE = 0.2  # of a confirmed fact's words that only a tool said

T = TypeVar("T")
Decided = tuple["JudgedProposal", Change | None]  # what became of a proposal, and the change that saves it


class ProposalWriter(Protocol):
    """Saves proposals; `Sheaf.learning` has one."""

    def draft(
        self, proposal: Proposal, taken: Collection[str], *, by: str = "extraction"
    ) -> tuple[Change, Memory, Memory | None]:
        """The change a proposal makes, under a name that is not taken; the memory after it, and the one before."""

    def judge(self, memory: Memory, was: Memory | None, *, asked: bool = False) -> None:
        """Raise Refused for what may not be stored; what the user `asked` for need not be worth keeping."""

    def buried(self, memory: Memory) -> Tombstone | None:
        """The tombstone of a memory that a person does not want."""

    def change_many(self, changes: Sequence[Change], why: str, *, by: str) -> Commit:
        """Make changes as one commit. Raises Changed."""

    def accept(self, change: Change, was: Memory | None, why: str) -> Commit:
        """Make a change that a person wants. Raises Changed."""

    def bury(self, memory: Memory, *, undo: bool = False) -> None:
        """Note that a person does not want this, or with `undo` that they do not mind it after all."""


class JudgedProposal(NamedTuple):
    """What became of a proposal: `saved` at a path, `queued` under an id, or `dropped`; and why."""

    proposal: Proposal
    outcome: str
    path: str = ""
    why: str = ""


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
    """What is worth remembering of some turns of one conversation.

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
    found = [
        one._replace(content=absolute(one.content, day), description=absolute(one.description, day))
        for one in _set_trust(_ask_model(target, turns, model, day, deadline), turns, target)
    ]
    return [*found, *(one for one in ruled if one.explicit)]


def day_of(turn: Turn, today: date) -> date:
    """The day of a turn, from which "tomorrow" is counted."""
    try:
        return min(today, datetime.fromisoformat(turn.at).astimezone().date()) if turn.at else today
    except (ValueError, OverflowError, OSError):
        return today


def scope_of(path: str) -> str:
    """The scope that stands before a path, "" for the one that learns.

    >>> scope_of("user:user_tabs.md"), scope_of("project_x.md")
    ('user', '')
    """
    return path.rpartition(":")[0]


def decide(
    target: Memories,
    keeper: ProposalWriter,
    proposals: Iterable[Proposal],
    turns: Sequence[Turn],
    *,
    policy: Callable[[str], str],
) -> list[Decided]:
    """Judge proposals: save, queue or drop each, with the reason. `policy` gives the policy for a path."""
    decided: list[Decided] = []
    taken: dict[str, Memory] = {}
    for proposal in proposals:
        others = (other.proposal for other, _ in decided if other.path and not other.proposal.explicit)
        if proposal.explicit and any(_covers(other, proposal) for other in others):
            continue  # a model has said it, and it was taken
        try:
            proposal = find_corrected(target, proposal)
            if proposal.why == CORRECTION and not proposal.replaces:
                continue
            if proposal.replaces in taken:
                proposal = proposal._replace(replaces="", version="")
            _refuse_unsupported(proposal, turns, target)
            change, memory, was = keeper.draft(proposal, taken.keys())
            keeper.judge(memory, was, asked=proposal.explicit)
            _refuse_repeated(memory, taken.values(), was)
            if not proposal.explicit and (stone := keeper.buried(memory)):
                raise Refused(f"it was {stone.why} on {stone.at[:10]}")
        except Duplicate as error:
            # what the user asked for is not dropped for one word of difference: that a person decides
            asks = proposal.explicit and telling(proposal.content) != telling(target.read(error.path).body)
            outcome, path = ("queued", error.path) if asks else ("dropped", "")
            decided.append((JudgedProposal(proposal, outcome, path, str(error)), None))
            continue
        except (Refused, BadHeader, NotFound, ValueError) as error:
            decided.append((JudgedProposal(proposal, "dropped", "", without_secrets(str(error))), None))
            continue
        taken |= {memory.path: memory, **({was.path: memory} if was else {})}
        replaces, version = (was.path, was.version) if was else ("", "")
        proposal = proposal._replace(replaces=replaces, version=version, scope=scope_of(memory.path))
        if why := _review_reason(proposal, was, policy(memory.path)):
            decided.append((JudgedProposal(proposal, "queued", memory.path, why), None))
        else:
            decided.append((JudgedProposal(proposal, "saved", memory.path), change))
    return decided


def save(keeper: ProposalWriter, decided: Sequence[Decided], why: str) -> list[JudgedProposal]:
    """Commit what is to be saved in one scope as one; or one by one, when something in it is refused after all.

    Raises:
        Changed, Exists: somebody changed one of them meanwhile; decide again.
    """
    changes = [change for _, change in decided if change]
    try:
        if changes:
            keeper.change_many(changes, why, by="extraction")
        return [verdict for verdict, _ in decided]
    except Refused:
        pass
    done = []
    for verdict, change in decided:
        try:
            if change:
                keeper.change_many([change], f"{why}, in part", by="extraction")
            done.append(verdict)
        except (Refused, Exists) as error:
            done.append(verdict._replace(outcome="dropped", path="", why=without_secrets(str(error))))
    return done


def _ask_model(target: Memories, turns: Sequence[Turn], model: Model, today: date, deadline: float) -> list[Proposal]:
    near = _find_related(target, turns)
    nonce = os.urandom(8).hex()
    asked = f"Existing memories:\n{_render_memories(near, nonce)}\n\nThe conversation:\n{_render_turns(turns, nonce)}"
    prompt = read_prompt("extract").replace("{today}", today.isoformat())
    question = Question(prompt, asked, _schema(near), max_tokens=ANSWER_TOKENS)
    return ask_twice(model, question, deadline, lambda given: _read_answer(given, near, turns))


def _schema(near: Collection[str]) -> dict[str, object]:
    """The shape of an answer: it may name only memories that were shown, and without any nothing can be updated."""
    choices = {
        "action": ["add", "update"] if near else ["add"],
        "file": ["", *near],
        "type": list(KINDS),
        "scope": ["persistent", "current_task"],
    }
    properties: dict[str, object] = {name: {"type": "string", "enum": values} for name, values in choices.items()}
    properties |= {name: {"type": "string"} for name in ("name", "description", "content")}
    properties["messages"] = {"type": "array", "items": {"type": "integer"}}
    return object_schema({"memories": {"type": "array", "maxItems": MOST, "items": object_schema(properties)}})


def _find_related(target: Memories, turns: Sequence[Turn]) -> dict[str, Memory]:
    """The confirmed memories that have to do with the dialogue."""
    texts = [message.text[:2_000] for message in _messages(turns) if message.role == "user"][-QUERY_MESSAGES:]
    texts += [message.text[:1_000] for message in _messages(turns) if message.role != "user"][-6:]
    scores: dict[str, float] = {}
    for text in [*texts, "\n".join(texts)[:4_000]]:
        for match in target.matches(text, limit=NEAR) if text.strip() else ():
            scores[match.row.path] = max(scores.get(match.row.path, 0.0), match.score)
    near = {}
    for path in sorted(scores, key=lambda one: -scores[one])[:NEAR]:
        try:
            memory = target.read(path)
        except MemsheafError:
            continue
        is_sound = memory.state == "ok" and memory.kind in KINDS and not memory.is_item
        if is_sound and memory.trust == "confirmed":
            near[path] = memory
    return near


def _render_memories(near: Mapping[str, Memory], nonce: str) -> str:
    shown = []
    for path, memory in near.items():
        body = cut_bytes(for_prompt(without_secrets(memory.body)).strip(), NEAR_BYTES)
        head = f"{path} [{memory.kind}] {one_line(for_prompt(without_secrets(memory.name)), 120)}"
        shown.append(f"<memory-{nonce}>\n{head}\n{body}\n</memory-{nonce}>")
    return "\n".join(shown) or "(none)"


def _render_turns(turns: Sequence[Turn], nonce: str) -> str:
    return "\n".join(
        f"<message-{nonce} number={number} from={message.role}>\n{for_prompt(message.text)}\n</message-{nonce}>"
        for number, message in enumerate(_messages(turns), 1)
    )


def _messages(turns: Sequence[Turn]) -> list[Message]:
    return [message for turn in turns for message in turn.messages]


def _read_answer(given: object, near: Mapping[str, Memory], turns: Sequence[Turn]) -> list[Proposal]:
    """The proposals in an answer. Raises ValueError, in words that the model can act on."""
    memories = given.get("memories") if isinstance(given, dict) else None
    if not isinstance(memories, list):
        raise ValueError("it is not an object with a list 'memories'")
    if len(memories) > MOST:
        raise ValueError(f"it holds {len(memories)} memories; {MOST} are the most")
    return [proposal for memory in memories if (proposal := _read_proposal(memory, near, turns))]


def _read_proposal(given: object, near: Mapping[str, Memory], turns: Sequence[Turn]) -> Proposal | None:
    """One proposal of an answer; None for what matters to the current task alone."""
    if not isinstance(given, dict):
        raise ValueError("a memory is not an object")
    keys = ("action", "file", "name", "description", "type", "content", "scope")
    for key in keys:
        if not isinstance(given.get(key, ""), str):
            raise ValueError(f"'{key}' is not a text")
    action, file, name, description, kind, content, scope = (given.get(key, "") for key in keys)
    if kind not in KINDS:
        raise ValueError(f"'type' must be one of {', '.join(KINDS)}")
    if not content.strip() or not name.strip():
        raise ValueError("'name' and 'content' must say something")
    if scope == "current_task":
        return None
    if action not in ("add", "update"):
        raise ValueError("'action' must be add or update")
    # a memory that was not shown cannot be meant: then it is something new, and matched like all that is
    replaced = near.get(file.strip()) if action == "update" else None
    return Proposal(
        name=one_line(name, 120),
        description=one_line(description, 300) or one_line(content, 200),
        kind=kind,
        content=content.strip(),
        replaces=replaced.path if replaced else "",
        version=replaced.version if replaced else "",
        conversation=_find_turn(turns, given.get("messages")),
        why="extracted",
    )


def _find_turn(turns: Sequence[Turn], numbers: object) -> str:
    """The turn of the first of these messages, as the header `conversation` has it."""
    given = numbers if isinstance(numbers, list) else []
    at = min((one for one in given if type(one) is int and one > 0), default=1)
    for turn in turns:
        at -= len(turn.messages)
        if at <= 0:
            return turn.label
    return turns[-1].conversation


def _set_trust(proposals: Iterable[Proposal], turns: Sequence[Turn], target: Memories) -> list[Proposal]:
    """What a model proposes, with the trust that its words deserve: it is the user's when the user said it.

    Most of the content must be in the user's own words. Where those may be pasted, a person is asked. Name and
    description count, too, as they stand in the catalog: a number that only a tool gave, or many words of others,
    make it unconfirmed. What a message holds besides the user's words counts as a tool's.
    """
    listened = [read_own_words(text) for text in _texts(turns, "user")]
    sure, perhaps = (_stems(*(each.own(sure=sure) for each in listened)) for sure in (True, False))
    tools = _stems(*_texts(turns, "tool"), *(each.text for each in listened)) - perhaps
    others = tools | _stems(*_texts(turns, "assistant")) - perhaps
    judged = []
    for one in proposals:
        content = _stems(one.content) - {"user"}
        if one.replaces:
            content -= _stems(target.read(one.replaces).body)
        claimed = content | _stems(one.name, one.description)
        said = claimed & (perhaps | others)
        is_of_tools = numbers(claimed & tools) or coverage(said, tools) > MAX_TOOL_SHARE
        if is_of_tools or coverage(said, perhaps) < LIKELY or coverage(content, perhaps) < LIKELY:
            one = one._replace(trust="unconfirmed", why="it comes from a tool, a page or the agent")
        elif coverage(content, sure) < LIKELY:
            one = one._replace(doubt=PASTED)
        judged.append(one)
    return judged


def _stems(*texts: str) -> set[str]:
    return {stem(word) for text in texts for word in telling(visible(text))}


def _texts(turns: Sequence[Turn], role: str) -> list[str]:
    return [message.text for message in _messages(turns) if message.role == role]


def _refuse_unsupported(proposal: Proposal, turns: Sequence[Turn], target: Memories) -> None:
    """Raise Refused for a proposal that lost a secret, is empty, or was not said, unless the user asked for it."""
    if REMOVED in proposal.content:
        raise Refused("a secret was taken out of it")
    claimed = telling(proposal.content)
    if not claimed:
        raise Refused("it says nothing")
    if proposal.explicit:
        return
    known = frozenset(word for message in _messages(turns) for word in words(message.text))
    if proposal.replaces:
        known |= telling(target.read(proposal.replaces).body)
    # "I prefer tabs" is told as "the user prefers tabs"
    stems = set(map(stem, claimed - {"user"}))
    if coverage(stems, set(map(stem, known))) < RELATED:
        raise Refused("nothing in the conversation says it")


def _refuse_repeated(memory: Memory, others: Iterable[Memory], was: Memory | None) -> None:
    """Raise Refused for what another proposal says, or the memory that it would replace."""
    wanted = fact(memory)
    if any(alike(wanted, fact(other)) >= SAME for other in others):
        raise Refused("it was proposed twice")
    if was and was.kind == memory.kind and wanted == fact(was):  # one other word may be the whole correction
        raise Refused(f"{was.path!r} says so already")


def _review_reason(proposal: Proposal, was: Memory | None, policy: str) -> str:
    """Why a person has to see a proposal first; "" when that need not be."""
    if policy not in ("auto", "log"):
        return "the policy of this scope is to ask"
    if proposal.doubt or was is None:
        return proposal.doubt
    if proposal.trust == "unconfirmed":
        return "it would replace a memory, and comes from a tool or a page"
    if is_fact(was.path.rpartition(":")[2]):
        return "it would supersede a fact"
    if was.pinned:
        return "it would change a pinned memory"
    is_said = proposal.explicit or proposal.why.startswith("the user")
    return "it would change what you wrote yourself" if was.source == "user" and not is_said else ""


def _covers(found: Proposal, ruled: Proposal) -> bool:
    """Whether a proposal says what a rule caught."""
    asked = telling(ruled.content)
    if not numbers(asked) <= numbers(words(found.content)):
        return False
    return coverage(asked, telling(f"{found.name} {found.content}")) >= SAME
