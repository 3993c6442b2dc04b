"""A conversation as compaction sees it: the size of each message, where it may be cut, and what the user ruled in it.

Tokens are counted as bytes of UTF-8 divided by four, rounded up, message by message: no tokenizer is asked, so the
same conversation has the same size everywhere.

The user's decisions and constraints are sentences found by the words in `prompts/rulings.md`. Only what the user says
is read; what is pasted, quoted or asked is left out. A sentence is quoted as it stands, on one line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

from memsheaf.guard.secrets import without_secrets
from memsheaf.prompts import read_prompt
from memsheaf.recall.turns import Message, TranscriptEntry
from memsheaf.text.neutralize import for_prompt, one_line
from memsheaf.text.phrases import Dialect, any_of, compiled
from memsheaf.text.spoken import SHOWN, spoken

TAIL_LEAST, TAIL_MOST = 10_000, 40_000  # tokens: the tail grows until it has the first, and never beyond the second
TAIL_TEXTS = 5  # messages with text, of the user and the agent, that the tail has at least
LINE = 400  # bytes: output with no more is no longer than the line that would stand for it
QUOTED = 240  # characters of a sentence that are quoted at most
_KINDS = {"decided": "The user decided", "bound": "The user asked"}
_ENDS = 4_000  # characters that are read at the beginning of a message, and at its end
_LONGEST = 400  # characters of a sentence; what is longer was pasted
_DIALECT = Dialect(gap=".{0,80}?", gap_unspaced=".{0,80}?")
_SENTENCE = r"[^\n.!?。！？；;]*(?:[.!?；;](?!\s|$)[^\n.!?。！？；;]*)*[.!?。！？；;]?"
_PASTED = (
    r"(?m)^(?:[|$+]|    |\t|\[?\d{4}-\d\d-\d\d[T ]\d|\[?\d\d?:\d\d:\d\d"
    r"|\[?(?:trace|debug|info|warn|warning|error|fatal) ?[]:])[^\n]*"
)
_ASKED = r"[?？]\W*$|(?:[吗呢嗎]|ですか|ますか|でしょうか)\W*$"
_BULLET = r"^(?:[-*•–]|\d{1,2}[.)])\s+"


class MeasuredConversation(NamedTuple):
    """A conversation and the size of each message.

    `starts` are the places where it may be cut, the first is 0. `asked` is the user's last message, -1 without one.
    `tail` is where the tail begins that stays whole; `near` is before it where that has too few texts.
    """

    entries: tuple[TranscriptEntry, ...]
    sizes: tuple[int, ...]
    starts: tuple[int, ...]
    asked: int
    tail: int
    near: int

    @classmethod
    def of(cls, conversation: Sequence[TranscriptEntry | Message], budget: int) -> MeasuredConversation:
        """Measure a conversation. The tail takes at most three quarters of the budget."""
        entries = tuple(TranscriptEntry(*message) for message in conversation)
        sizes = tuple(tokens(entry.text) for entry in entries)
        starts = _starts(entries)
        asked = max((at for at, one in enumerate(entries) if one.role == "user" and one.text.strip()), default=-1)
        most = min(TAIL_MOST, 3 * budget // 4)
        tail = _tail(entries, sizes, starts, most, TAIL_LEAST)
        short = [
            min(size, LINE // 4) if one.role == "tool" else size for one, size in zip(entries, sizes, strict=True)
        ]
        near = _tail(entries, [*short[:tail], *sizes[tail:]], starts, most, 0)
        return cls(entries, sizes, starts, asked, tail, min(tail, near))


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


def _tail(
    entries: Sequence[TranscriptEntry], sizes: Sequence[int], starts: Sequence[int], most: int, least: int
) -> int:
    """Where the tail begins: piece by piece from the end, until it is enough, or the next piece would be too much."""
    end, taken, texts = len(entries), 0, 0
    for start in reversed(starts):
        piece = sum(sizes[start:end])
        if end < len(entries) and (taken + piece > most or (taken >= least and texts >= TAIL_TEXTS)):
            return end
        taken, texts = taken + piece, texts + sum(map(is_text, entries[start:end]))
        end = start
    return 0


class Ruling(NamedTuple):
    """A sentence of the user: `decided` or `bound`, in which message it stands, and how it reads."""

    kind: str
    at: int
    quote: str

    @property
    def bullet(self) -> str:
        """The sentence as it stands in a compacted conversation."""
        return f'{_KINDS[self.kind]}: "{self.quote}" (message {self.at + 1})'


def find_rulings(entries: Sequence[TranscriptEntry]) -> list[Ruling]:
    """The user's decisions and constraints, in the order in which they were said; what was said twice, once.

    >>> find_rulings([TranscriptEntry("user", "We decided to use SQLite. Does it scale? Never touch migrations.")])[1]
    Ruling(kind='bound', at=0, quote='Never touch migrations.')
    """
    found: dict[str, Ruling] = {}
    for at, entry in enumerate(entries):
        for kind, quote in _in_message(entry.text) if entry.role == "user" else ():
            key = " ".join(re.findall(r"\w+", quote.casefold()))
            found.pop(key, None)  # the last time counts: it is the one that is seen longest
            found[key] = Ruling(kind, at, quote)
    return list(found.values())


def _in_message(text: str) -> Iterator[tuple[str, str]]:
    if text.startswith(read_prompt("compacted").partition("\n")[0]):  # what was quoted before is not lost now
        bullets = text.partition("\n<")[0]  # behind that are notes or a model's words, and not the user's
        for name, quote in re.findall(r'(?m)^- ([^:]+): "(.+)" \(message [0-9]+\)$', bullets):
            yield from ((kind, one_line(quote, QUOTED)) for kind, begins in _KINDS.items() if name == begins)
        return
    if len(text) > 2 * _ENDS:
        text = f"{text[:_ENDS]}\n{text[-_ENDS:]}"
    text = without_secrets(text).replace("’", "'")
    said = re.sub(_PASTED, lambda line: SHOWN * len(line[0]), spoken(text))
    for found in re.finditer(_SENTENCE, said):
        if kind := _kind(found[0]):
            start, end = found.span()
            yield kind, one_line(for_prompt(re.sub(_BULLET, "", text[start:end].strip())), QUOTED)


def _kind(sentence: str) -> str:
    sentence = re.sub(_BULLET, "", sentence.strip())
    if not 4 <= len(sentence) <= _LONGEST or re.search(_ASKED, sentence):
        return ""
    if not sentence.strip(f"{SHOWN} .") or _pattern("neither").search(sentence):
        return ""
    return next((kind for kind in _KINDS if _pattern(kind).search(sentence)), "")


@cache
def _pattern(kind: str) -> re.Pattern[str]:
    """What makes a sentence of a kind: phrases anywhere in it, and phrases that begin it or a clause of it."""
    before = any_of("rulings", "before", _DIALECT)
    begins = rf"(?:^|[,;:，、：–—(]\s*|(?<!\w){before}[\s,:，]*)"
    first, anywhere = any_of("rulings", f"{kind} first", _DIALECT), any_of("rulings", kind, _DIALECT)
    return compiled(rf"{begins}{first}|{anywhere}")
