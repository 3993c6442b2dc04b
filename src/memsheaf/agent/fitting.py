"""A conversation of the agent made to fit: as `flow/compact` sees it, and back."""

from __future__ import annotations

from collections.abc import Sequence

from memsheaf.agent.mind import Mind
from memsheaf.flow.compact.talk import Entry, tokens
from memsheaf.llm.talk import Said

# Known to type checkers under this name: a start does not import `typing`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from memsheaf.flow.compact.ladder import Compacted


def size(conversation: Sequence[Said]) -> int:
    """How many tokens a conversation counts as, with what stands beside its messages and what was called."""
    return sum(
        tokens(said.text) + tokens(said.beside) + sum(tokens(call.arguments) for call in said.calls)
        for said in conversation
    )


def compacted(
    mind: Mind, conversation: Sequence[Said], budget: int, *, trigger: str, name: str
) -> tuple[Compacted, list[Said]]:
    """Make a conversation fit so many tokens: what became of it, and what there is to go on with.

    Raises:
        Refused: it failed three times in a row, and waits for a person.
        StoreFailed: what was taken out could not be written.
    """
    entries = [_entry(number, said) for number, said in enumerate(conversation)]
    done = mind.compact(entries, budget, trigger=trigger, name=name)
    left = []
    for entry in done.conversation:
        was = conversation[int(entry.id)] if entry.id else Said(entry.role, entry.text)
        left.append(was._replace(text=entry.text, beside=was.beside if was.text == entry.text else ""))
    return done, left


def _entry(number: int, said: Said) -> Entry:
    calls = tuple(call.id for call in said.calls) or ((said.answers,) if said.answers else ())
    return Entry(said.role, said.text, str(number), said.tool, calls)
