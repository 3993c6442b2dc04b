"""A conversation of the agent made to fit: as `work/compaction` sees it, and back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from memsheaf.chat.memory import Mind
from memsheaf.learn.conversation_file import UNRECORDED
from memsheaf.llm.talker import Said
from memsheaf.prompts import read_prompt
from memsheaf.recall.ignore import is_private
from memsheaf.recall.turns import TranscriptEntry
from memsheaf.work.compaction.messages import tokens

# Known to type checkers under this name: a start does not import `typing`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from memsheaf.work.compaction.levels import Compacted


def size(conversation: Sequence[Said]) -> int:
    """How many tokens a conversation counts as, with what stands beside its messages and what was called."""
    return sum(
        tokens(said.text) + tokens(said.beside) + sum(tokens(call.arguments) for call in said.calls)
        for said in conversation
    )


def compacted(
    mind: Mind, conversation: Sequence[Said], budget: int, *, by_user: bool, name: str
) -> tuple[Compacted, list[Said]]:
    """Make a conversation fit so many tokens: what became of it, and what there is to go on with.

    What stood beside messages is left out: what matters is recalled again. Nothing of a turn that is off the record
    gets into what stands for the rest.

    Raises:
        Refused: it failed three times in a row, and waits for the user to ask for it.
        StoreFailed: what was taken out could not be written.
    """
    silent = _silent(conversation)
    entries = [_entry(number, said, silent=number in silent) for number, said in enumerate(conversation)]
    done = mind.compact(entries, budget, by_user=by_user, name=name)
    left = []
    for entry in done.conversation:
        number = int(entry.id) if entry.id else -1
        was = conversation[number] if entry.id else Said(entry.role, entry.text)
        left.append(was._replace(text=was.text if number in silent else entry.text, beside=""))
    return done, [said for said in _paired(left) if said.text or said.calls]


def is_summary(said: Said) -> bool:
    """Whether a message is what stands for an earlier part of the conversation."""
    return said.role == "user" and said.text.startswith(read_prompt("compacted").partition("\n")[0])


def _paired(conversation: Sequence[Said]) -> Iterator[Said]:
    """Messages without calls that nobody answers any more, and without answers to nothing."""
    answered = {said.answers for said in conversation if said.answers}
    called = {call.id for said in conversation for call in said.calls}
    for said in conversation:
        if not said.answers or said.answers in called:
            yield said._replace(calls=tuple(call for call in said.calls if call.id in answered))


def _silent(conversation: Sequence[Said]) -> set[int]:
    """The messages of turns that the user wants off the record."""
    found, is_silent = set(), False
    for number, said in enumerate(conversation):
        is_silent = is_private(said.text) if said.role == "user" else is_silent
        if is_silent:
            found.add(number)
    return found


def _entry(number: int, said: Said, *, silent: bool) -> TranscriptEntry:
    calls = tuple(call.id for call in said.calls) or ((said.answers,) if said.answers else ())
    return TranscriptEntry(said.role, UNRECORDED if silent else said.text, str(number), said.tool, calls)
