"""Questions to a coding agent, and which of its memories answer them: see `data/coding/README.md`.

Tune on `half("development")`, report on `half("test")`.
"""

from __future__ import annotations

import json
import os
import re
import unicodedata
from functools import cache
from typing import Literal, NamedTuple

from memsheaf.memory import Memory, parse

Split = Literal["development", "test"]

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "coding")
SPLITS: tuple[Split, ...] = ("development", "test")
ANSWERED = ("paraphrase", "question", "instruction", "symptom", "identifier", "cross_language")
UNRELATED = ("unrelated", "unrelated_hard")

_SUFFIXES = (
    "ations", "ation", "ements", "ement", "ments", "ment", "ings", "ing", "edly", "ers", "ern", "er", "ed", "es",
    "en", "em", "ly", "s",
)  # fmt: skip


class Query(NamedTuple):
    """What somebody types, and the files that should be recalled; none when nothing should be.

    `no_overlap` claims that it shares no content word with the name and description of any of them.
    """

    id: str
    split: Split
    kind: str
    query: str
    gold: tuple[str, ...]
    language: str
    no_overlap: bool

    @property
    def hard(self) -> bool:
        """Whether nothing should be recalled although words of memories occur."""
        return self.kind == "unrelated_hard"


class CodingSet(NamedTuple):
    """All memories, in the order of their files, and all queries, in the order of their ids."""

    memories: tuple[Memory, ...]
    queries: tuple[Query, ...]

    def half(self, split: Split) -> tuple[Query, ...]:
        """The queries of one half. The memories are the same for both."""
        return tuple(query for query in self.queries if query.split == split)


def load(folder: str = FOLDER) -> CodingSet:
    """Read the set; the files are taken as they are, `tests/test_coding_set.py` says what holds for them."""
    place = os.path.join(folder, "memories")
    memories = tuple(_memory(place, name) for name in sorted(os.listdir(place)) if name.endswith(".md"))
    with open(os.path.join(folder, "queries.jsonl"), encoding="utf-8") as file:
        return CodingSet(memories, tuple(_query(line) for line in file))


def content_words(text: str) -> frozenset[str]:
    """What a text is about: stems of its words without the stop words, and pairs of ideographs.

    Crude on purpose, and rather too eager to see two words as one: what shares no stem shares no word.

    >>> sorted(content_words("Where are the deploymentSettings of our deployments?"))
    ['deplo', 'set']
    """
    pairs: set[str] = set()
    for run in re.findall("[\u4e00-\u9fff]+", text):
        pairs.update({run[at : at + 2] for at in range(len(run) - 1)} or {run})
    return frozenset({_stem(word) for word in _words(text)} | (pairs - _stop_words()))


def _memory(folder: str, name: str) -> Memory:
    with open(os.path.join(folder, name), "rb") as file:
        return parse(name, file.read())


def _query(line: str) -> Query:
    fields = json.loads(line)
    return Query(**{**fields, "gold": tuple(fields["gold"])})


def _words(text: str) -> list[str]:
    """Words without accents, in lower case; identifiers are cut where their parts meet."""
    cut = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text)
    plain = "".join(c for c in unicodedata.normalize("NFKD", cut.casefold()) if not unicodedata.combining(c))
    found = re.findall("[a-z]+[0-9]*|[0-9][0-9a-z]*|[\u30a1-\u30fa\u30fc]{2,}", plain)
    return [word for word in found if len(word) > 1 and word not in _stop_words()]


def _stem(word: str) -> str:
    if not word.isascii():
        return word
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= 3:
            word = word[: -len(suffix)]
            break
    if len(word) > 3 and word[-1] in "aeioy":
        word = word[:-1]
    if len(word) > 3 and word[-1] == word[-2]:
        word = word[:-1]
    return word[:6]


@cache
def _stop_words() -> frozenset[str]:
    with open(os.path.join(FOLDER, "stop_words.txt"), encoding="utf-8") as file:
        return frozenset(file.read().split())
