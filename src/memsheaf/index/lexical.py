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

MAX_TERMS = 32
MAX_QUERY_CHARS = 2_000
MAX_WEIGHED_ROWS = 50
MAX_ROWS_READ = 3_000  # for each word; or a hundredth of all memories, if that is more
# BM25: what an occurrence in each column counts, how soon more of them add little, and how much a long text costs
COLUMN_WEIGHTS = (4, 2, 1)  # name, description, text
SATURATION = 0.9
LENGTH_PENALTY = 0.4
USUAL_WORD_COUNT = 60
WEAK_WORD_WEIGHT = 0.2
LITERAL_MATCH_WEIGHT = 10.0  # of a match in a script without spaces, in telling words
_LITERAL_TERMS = "[\u4e00-\u9fff]{2,}さん|[\u3005\u30a1-\u30ff\u3400-\u9fff]{3,}|[\uac00-\ud7af]{4,}"
_SMALL_TALK = "怎么样 为什么 什么时 么时候 没问题 有没有 是不是 能不能 可不可 不可以 谢谢你 对不起 没关系 今天天"


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
    holders: int
    weight: float
    tells: float


def rank_by_words(db: sqlite3.Connection, question: str, *, total: int, also: Iterable[int] = ()) -> list[WordHit]:
    """Return the rows that answer best among a `total` of memories, best first; 50 of them at most.

    The rows of `also` are weighed as well, whatever words they hold.
    """
    max_rows = max(MAX_ROWS_READ, total // 100)
    question = question[:MAX_QUERY_CHARS]
    terms = [_look_up(db, word, total, max_rows) for word in list(dict.fromkeys(words(question)))[:MAX_TERMS]]
    rows = _find_candidates(db, [term for term in terms if term.holders], max_rows)
    return _weigh(db, list({*rows, *also}), terms, _find_literals(question), _weight(1, total))


def _look_up(db: sqlite3.Connection, word: str, total: int, max_rows: int) -> Term:
    needle = f" {word} "
    match = f'"{word}"'
    count = _count(db, match, max_rows)
    if not count:  # perhaps only the beginning of a word
        needle = f" {word}"
        match += "*"
        count = _count(db, match, max_rows)
    return Term(needle, match, count, _weight(count, total), WEAK_WORD_WEIGHT if is_weak(word) else 1.0)


def enough(count: int) -> float:
    """Return how many telling words a memory must share with a question to be shown, given the number of memories.

    Of many memories, one shares a word with any question. It was set so that 1 unrelated question in 20 finds one.

    >>> [round(enough(count), 2) for count in (1, 10, 100, 1_000, 10_000)]
    [0.5, 0.81, 1.12, 1.43, 1.43]
    """
    return 0.5 + 0.135 * log(max(1, min(count, 1_000)))


def put_words(db: sqlite3.Connection, row: int | None, memory: Memory) -> None:
    """Take in the words of a memory."""
    # two blanks between, so that each word is counted with a blank on either side
    texts = ["  ".join(words(text)) for text in searched_texts(memory)]
    db.execute("INSERT OR REPLACE INTO words (rowid, name, description, body) VALUES (?, ?, ?, ?)", (row, *texts))


def _weight(count: int, total: int) -> float:
    """Return the weight of a word, given how many of all memories have it (BM25)."""
    return log(1 + (max(total, count) - count + 0.5) / (count + 0.5))


def _find_literals(question: str) -> list[str]:
    """Return what of a question may stand in a memory literally, as it is stored: pairs of characters in a row."""
    if question.isascii():
        return []
    terms: dict[str, None] = {}
    for run in re.findall(_LITERAL_TERMS, question):
        size = 4 if run[0] >= "\uac00" else 3
        terms.update(dict.fromkeys(run[start : start + size] for start in range(len(run) - size + 1)))
    return [f" {'  '.join(words(term)[:-1])} " for term in terms if term not in _SMALL_TALK]


def _count(db: sqlite3.Connection, match: str, limit: int) -> int:
    sql = "SELECT count(*) FROM (SELECT 1 FROM words WHERE words MATCH ? LIMIT ?)"
    return int(db.execute(sql, (match, limit)).fetchone()[0])


def _find_candidates(db: sqlite3.Connection, terms: list[Term], max_rows: int) -> list[int]:
    """Return the rows with the rarest words, few enough to be weighed one by one."""
    scores: dict[int, float] = {}
    rows_read = 0
    for term in sorted(terms, key=lambda term: term.holders):
        if rows_read and rows_read + term.holders > max_rows:
            break
        rows_read += term.holders
        # in name or description it counts twice, so that among many alike the telling ones are weighed
        for match in (term.match, f"{{name description}} : {term.match}"):
            for (row,) in db.execute("SELECT rowid FROM words WHERE words MATCH ? LIMIT ?", (match, max_rows)):
                scores[row] = scores.get(row, 0.0) + term.weight
    return nlargest(MAX_WEIGHED_ROWS, scores, key=lambda row: (scores[row], row))


def _weigh(
    db: sqlite3.Connection, rows: list[int], terms: list[Term], literals: list[str], rarest: float
) -> list[WordHit]:
    """Return the hits of these rows, best first; `rarest` is the weight of a word that one memory has."""
    whole = sum(term.weight for term in terms) or 1.0
    hits = []
    marks = ", ".join("?" * len(rows))
    sql = "SELECT rowid, ' ' || name || ' ', ' ' || description || ' ', ' ' || body || ' ' FROM words"
    for row, *columns in db.execute(f"{sql} WHERE rowid IN ({marks})", rows):
        length = sum(column.count("  ") + 1 for column in columns if len(column) > 2)
        half = SATURATION * (1 - LENGTH_PENALTY + LENGTH_PENALTY * length / USUAL_WORD_COUNT)
        score = common = 0.0
        for term in terms:
            often = 0
            for weight, column in zip(COLUMN_WEIGHTS, columns, strict=True):
                if term.needle in column:
                    often += weight * column.count(term.needle)
            if often:
                part = often / (often + half)
                score += term.weight * part
                common += term.tells * part
        if any(literal in column for literal in literals for column in columns):
            score += whole
            common += LITERAL_MATCH_WEIGHT
        hits.append(WordHit(row, score / rarest, common, score / whole))
    return sorted(hits, key=lambda hit: (-hit.score, hit.row))
