"""The user's decisions and constraints in a conversation: sentences found by rules and quoted.

The words are in `prompts/rulings.md`. Only what the user says is read, never what a tool or the agent says; what is
pasted, quoted or asked is left out. A sentence is quoted as it stands, on one line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache

from memsheaf.guard.secrets import without_secrets
from memsheaf.prompts import read_prompt
from memsheaf.recall.turns import TranscriptEntry
from memsheaf.text.neutralize import for_prompt, one_line
from memsheaf.text.phrases import Dialect, any_of, compiled
from memsheaf.text.spoken import SHOWN, spoken
from memsheaf.values import NamedTuple

KINDS = {"decided": "The user decided", "bound": "The user asked"}
"""What a sentence may be, and how a bullet with it begins."""

QUOTED = 240
"""How many characters of a sentence are quoted at most."""

ENDS = 4_000
"""How many characters are read at the beginning of a message, and at its end."""

LONGEST = 400
"""How long a sentence may be, in characters; what is longer was pasted."""

DIALECT = Dialect(gap=".{0,80}?", gap_unspaced=".{0,80}?")

_SENTENCE = r"[^\n.!?。！？；;]*(?:[.!?；;](?!\s|$)[^\n.!?。！？；;]*)*[.!?。！？；;]?"
_PASTED = (
    r"(?m)^(?:[|$+]|    |\t|\[?\d{4}-\d\d-\d\d[T ]\d|\[?\d\d?:\d\d:\d\d"
    r"|\[?(?:trace|debug|info|warn|warning|error|fatal) ?[]:])[^\n]*"
)
_ASKED = r"[?？]\W*$|(?:[吗呢嗎]|ですか|ますか|でしょうか)\W*$"
_BULLET = r"^(?:[-*•–]|\d{1,2}[.)])\s+"


class Ruling(NamedTuple):
    """A sentence of the user: what kind it is, in which message it stands, and how it reads."""

    kind: str
    at: int
    quote: str

    @property
    def bullet(self) -> str:
        """The sentence as it stands in a compacted conversation."""
        return f'{KINDS[self.kind]}: "{self.quote}" (message {self.at + 1})'


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
    if text.startswith(read_prompt("compacted").partition("\n")[0]):
        yield from _again(text)
        return
    if len(text) > 2 * ENDS:
        text = f"{text[:ENDS]}\n{text[-ENDS:]}"
    text = without_secrets(text).replace("’", "'")
    said = re.sub(_PASTED, lambda line: SHOWN * len(line[0]), spoken(text))
    for found in re.finditer(_SENTENCE, said):
        if kind := _kind(found[0]):
            start, end = found.span()
            yield kind, one_line(for_prompt(re.sub(_BULLET, "", text[start:end].strip())), QUOTED)


def _again(text: str) -> Iterator[tuple[str, str]]:
    """What was quoted when this conversation was compacted before: it must not get lost the second time."""
    bullets = text.partition("\n<")[0]  # behind that are notes or a model's words, and not the user's
    for found in re.finditer(r'(?m)^- ([^:]+): "(.+)" \(message [0-9]+\)$', bullets):
        for kind, name in KINDS.items():
            if found[1] == name:
                yield kind, one_line(found[2], QUOTED)


def _kind(sentence: str) -> str:
    """Which of the two a sentence is, "" for neither."""
    sentence = re.sub(_BULLET, "", sentence.strip())
    if not 4 <= len(sentence) <= LONGEST or re.search(_ASKED, sentence):
        return ""
    if not sentence.strip(f"{SHOWN} .") or _pattern("neither").search(sentence):
        return ""
    return next((kind for kind in KINDS if _pattern(kind).search(sentence)), "")


@cache
def _pattern(kind: str) -> re.Pattern[str]:
    """What makes a sentence of a kind: phrases anywhere in it, and phrases that begin it or a clause of it."""
    before = any_of("rulings", "before", DIALECT)
    begins = rf"(?:^|[,;:，、：–—(]\s*|(?<!\w){before}[\s,:，]*)"
    return compiled(rf"{begins}{any_of('rulings', f'{kind} first', DIALECT)}|{any_of('rulings', kind, DIALECT)}")
