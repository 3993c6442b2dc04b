"""Lexical search: rank memories by the words they share with a question.

The rare words of a question decide. Memories that hold them are found through SQLite's full-text index, up to so many
for each word, and the best of these are then weighed with all words by BM25: a word counts more the rarer it
is, in a name more than in a description, and there more than in the text. So the cost does not grow with how common
the other words are.
"""

import re
import sqlite3
from collections.abc import Iterable
from heapq import nlargest
from math import log
from typing import NamedTuple

from memsheaf.memory import Memory
from memsheaf.text.sections import searched_texts
from memsheaf.text.tokenizer import is_weak, words

MOST_TERMS = 32
QUERY_LIMIT = 2_000  # characters
WEIGHED = 50
POSTINGS = 3_000  # or a hundredth of all memories, if that is more
NAME, DESCRIPTION, BODY = 4, 2, 1
K1, B, USUAL_LENGTH = 0.9, 0.4, 60
WEAK = 0.2
ENOUGH, ENOUGH_MORE, MANY = 0.5, 0.135, 1_000
LITERAL = 10.0  # weight, in telling words, of a literal match in a script without spaces
_LITERALS = "[\u4e00-\u9fff]{2,}さん|[\u3005\u30a1-\u30ff\u3400-\u9fff]{3,}|[\uac00-\ud7af]{4,}"
_TALK = "怎么样 为什么 什么时 么时候 没问题 有没有 是不是 能不能 可不可 不可以 谢谢你 对不起 没关系 今天天"


class WordHit(NamedTuple):
    """One row that shares words with a question.

    `score` is for the order: what they have in common, the more the fewer memories hold it. `common` is for the
    question whether there is anything to it: about 1 for each telling word in common, however many memories hold it.
    `share` is the score as a share of what all words of the question together could give.
    """

    row: int
    score: float
    common: float
    share: float


class Term(NamedTuple):
    """A word of a question: how it stands in a stored text, how it is matched, in how many, and what it says."""

    needle: str
    match: str
    often: int
    weight: float
    tells: float


def rank_by_words(
    db: sqlite3.Connection, question: str, *, total: int, limit: int = WEIGHED, also: Iterable[int] = ()
) -> list[WordHit]:
    """Return the rows that answer best among a `total` of memories, best first.

    The rows of `also` are weighed as well, whatever words they hold, and make the `limit` larger.
    """
    most = max(POSTINGS, total // 100)
    asked = list(dict.fromkeys(words(question[:QUERY_LIMIT])))[:MOST_TERMS]
    terms = [_look_up(db, word, total, most) for word in asked]
    found = _candidates(db, [term for term in terms if term.often], most)
    more = set(also).difference(found)
    return _weighed(db, [*found, *more], terms, _literals(question), _weight(1, total))[: limit + len(more)]


def _look_up(db: sqlite3.Connection, word: str, total: int, most: int) -> Term:
    needle, match = f" {word} ", f'"{word}"'
    count = _count(db, match, most)
    if not count:  # perhaps only the beginning of a word
        needle, match = f" {word}", f'"{word}"*'
        count = _count(db, match, most)
    return Term(needle, match, count, _weight(count, total), WEAK if is_weak(word) else 1.0)


def enough(count: int) -> float:
    """How many telling words a memory must share with a question to be shown, given the number of memories.

    Of many memories, one shares a word with any question. It was set so that 1 unrelated question in 20 finds one.

    >>> [round(enough(count), 2) for count in (1, 10, 100, 1_000, 10_000)]
    [0.5, 0.81, 1.12, 1.43, 1.43]
    """
    return ENOUGH + ENOUGH_MORE * log(max(1, min(count, MANY)))


def put_words(db: sqlite3.Connection, row: int | None, memory: Memory) -> None:
    """Take in the words of a memory."""
    # two blanks between, so that each word is counted with a blank on either side
    texts = ["  ".join(words(text)) for text in searched_texts(memory)]
    db.execute("INSERT OR REPLACE INTO words (rowid, name, description, body) VALUES (?, ?, ?, ?)", (row, *texts))


def _weight(count: int, total: int) -> float:
    """The weight of a word, given how many of all memories have it (BM25)."""
    return log(1 + (max(total, count) - count + 0.5) / (count + 0.5))


def _literals(question: str) -> list[str]:
    """Terms in a question that may stand in a memory literally, as they are stored: pairs of characters in a row."""
    found = []
    for run in () if question.isascii() else re.findall(_LITERALS, question[:QUERY_LIMIT]):
        size = 4 if run[0] >= "\uac00" else 3
        found += [run[at : at + size] for at in range(len(run) - size + 1)]
    return [f" {'  '.join(words(one)[:-1])} " for one in dict.fromkeys(found) if one not in _TALK]


def _count(db: sqlite3.Connection, match: str, most: int) -> int:
    sql = "SELECT count(*) FROM (SELECT 1 FROM words WHERE words MATCH ? LIMIT ?)"
    return int(db.execute(sql, (match, most)).fetchone()[0])


def _candidates(db: sqlite3.Connection, terms: list[Term], most: int) -> list[int]:
    """The rows with the rarest words, few enough to be scored one by one."""
    scores: dict[int, float] = {}
    seen = 0
    for term in sorted(terms, key=lambda term: term.often):
        if seen and seen + term.often > most:
            break
        seen += term.often
        # in name or description it counts twice, so that among many alike the telling ones are weighed
        for match in (term.match, f"{{name description}} : {term.match}"):
            for (row,) in db.execute("SELECT rowid FROM words WHERE words MATCH ? LIMIT ?", (match, most)):
                scores[row] = scores.get(row, 0.0) + term.weight
    return [row for _, row in nlargest(WEIGHED, zip(scores.values(), scores, strict=True))]


def _weighed(
    db: sqlite3.Connection, rows: list[int], terms: list[Term], literals: list[str], rarest: float
) -> list[WordHit]:
    marks = ", ".join("?" * len(rows))
    whole = sum(term.weight for term in terms) or 1.0
    hits = []
    sql = "SELECT rowid, ' ' || name || ' ', ' ' || description || ' ', ' ' || body || ' ' FROM words"
    for row, name, description, body in db.execute(f"{sql} WHERE rowid IN ({marks})", rows):
        long = -1.0
        score = common = 0.0
        for needle, _, _, weight, tells in terms:
            often = BODY * body.count(needle)
            if needle in description:
                often += DESCRIPTION * description.count(needle)
            if needle in name:
                often += NAME * name.count(needle)
            if often:
                if long < 0:
                    length = sum(text.count("  ") + 1 for text in (name, description, body) if len(text) > 2)
                    long = K1 * (1 - B + B * length / USUAL_LENGTH)
                score += weight * often / (often + long)
                common += tells * often / (often + long)
        if any(one in text for one in literals for text in (name, description, body)):
            score, common = score + whole, common + LITERAL
        hits.append(WordHit(row, score / rarest, common, score / whole))
    return sorted(hits, key=lambda hit: (-hit.score, hit.row))
