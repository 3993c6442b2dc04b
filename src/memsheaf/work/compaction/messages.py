"""A conversation as compaction sees it: the size of each message, where it may be cut, and which tail stays whole.

Tokens are counted as bytes of UTF-8 divided by four, rounded up, message by message: no tokenizer is asked, so the
same conversation has the same size everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence

from memsheaf.recall.turns import Message, TranscriptEntry
from memsheaf.values import NamedTuple

TAIL_LEAST, TAIL_MOST = 10_000, 40_000
"""The tail grows until it has the first number of tokens, and never beyond the second."""

TAIL_TEXTS = 5
"""So many messages with text, of the user and the agent, the tail has at least."""


class MeasuredConversation(NamedTuple):
    """A conversation and the size of each message.

    `starts` are the places where it may be cut, the first is 0. `asked` is the user's last
    message, -1 without one. `most` is how many tokens a tail may have, `tail` where the one begins that stays whole.
    """

    entries: tuple[TranscriptEntry, ...]
    sizes: tuple[int, ...]
    starts: tuple[int, ...]
    asked: int
    most: int
    tail: int

    @classmethod
    def of(cls, conversation: Sequence[TranscriptEntry | Message], budget: int) -> MeasuredConversation:
        """Measure a conversation. The tail takes at most three quarters of the budget."""
        entries = tuple(TranscriptEntry(*message) for message in conversation)
        sizes = tuple(tokens(entry.text) for entry in entries)
        starts = _starts(entries)
        asked = max((at for at, one in enumerate(entries) if one.role == "user" and one.text.strip()), default=-1)
        most = min(TAIL_MOST, 3 * budget // 4)
        return cls(entries, sizes, starts, asked, most, _tail(entries, sizes, starts, most))

    @property
    def last(self) -> int:
        """Where the last piece begins that cannot be cut: a message with the answers of its tools."""
        return self.starts[-1] if self.starts else 0

    def older(self, tail: int) -> list[int]:
        """What stands before a tail, without the user's last message: that stays wherever it stands."""
        return [at for at in range(tail) if at != self.asked]


def tokens(text: str) -> int:
    """How many tokens a text counts as.

    >>> tokens("abcde"), tokens("日本語"), tokens("")
    (2, 3, 0)
    """
    return (size(text) + 3) // 4


def size(text: str) -> int:
    """How many bytes a text has."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def is_text(entry: TranscriptEntry) -> bool:
    """Whether the user or the agent says something in it."""
    return entry.role != "tool" and bool(entry.text.strip())


def _starts(entries: Sequence[TranscriptEntry]) -> tuple[int, ...]:
    """Where it may be cut: never before a tool's answer, and never between a call and the answer to it."""
    open_calls = [0] * (len(entries) + 1)  # +1 behind a call, -1 behind its answer; the sum tells what is pending
    made: dict[str, int] = {}
    for at, entry in enumerate(entries):
        for call in entry.calls:
            if entry.role != "tool":
                made[call] = at
            elif call in made:
                open_calls[made[call] + 1] += 1
                open_calls[at + 1] -= 1
    starts, pending = [], 0
    for at, entry in enumerate(entries):
        pending += open_calls[at]
        if at == 0 or (entry.role != "tool" and not pending):
            starts.append(at)
    return tuple(starts)


def _tail(entries: Sequence[TranscriptEntry], sizes: Sequence[int], starts: Sequence[int], most: int) -> int:
    """Where the tail begins: piece by piece from the end, until it is enough, or the next piece would be too much."""
    end, taken, texts = len(entries), 0, 0
    for start in reversed(starts):
        piece = sum(sizes[start:end])
        if end < len(entries) and (taken + piece > most or (taken >= TAIL_LEAST and texts >= TAIL_TEXTS)):
            return end
        taken, texts = taken + piece, texts + sum(map(is_text, entries[start:end]))
        end = start
    return 0
