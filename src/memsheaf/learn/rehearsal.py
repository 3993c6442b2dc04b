"""Regression test of a consolidation: questions that were answered before must still be answered after it.

The questions are those that somebody stored with the memory that answers them, and the description of every memory
that would be retired. They are asked twice of an in-memory index, once with the memories as they are and once as they
would be: by words, and by meaning where the embedder is quick. Nothing touches the disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing

import numpy

from memsheaf.errors import EmbedderFailed, SecretFound, StoreFailed
from memsheaf.guard.secrets import find_secrets
from memsheaf.index.database import connect_alone, notes, writing
from memsheaf.index.lexical import Lexicon
from memsheaf.index.rows import put
from memsheaf.index.vectors import passages
from memsheaf.learn.merge_plan import PlanGroup
from memsheaf.memory import Memory
from memsheaf.store.state import State
from memsheaf.values import NamedTuple

# Known to type checkers under this name: a start does not import `typing`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from numpy import float32, intp
    from numpy.typing import NDArray

    from memsheaf.embed import Embedder

FIRST = 5  # an answer counts among the first so many
ALL = 2_000  # memories up to which all take part; above, the affected ones and their rivals
RIVALS = 50
MOST = 500  # questions that are kept
NAME = "expected.json"


class Expectation(NamedTuple):
    """A question, and the path of the memory that answers it."""

    question: str
    path: str


def expectations(state: State) -> list[Expectation]:
    """The questions that somebody stored, oldest first."""
    found = state.load(NAME)
    pairs = found if isinstance(found, list) else []
    return [
        Expectation(*pair)
        for pair in pairs
        if isinstance(pair, list) and len(pair) == 2 and all(isinstance(part, str) for part in pair)
    ]


def expect(state: State, question: str, path: str) -> None:
    """Store a question with the memory that answers it; the same question again takes the new answer.

    Raises:
        SecretFound: the question holds one.
    """
    for secret in find_secrets(question):
        raise SecretFound(secret.kind, "the question")
    question = " ".join(question.split())

    def stored(pairs: list[Expectation]) -> list[Expectation]:
        return [*(pair for pair in pairs if pair.question != question), Expectation(question, path)][-MOST:]

    _change(state, stored)


def unexpect(state: State, question: str) -> bool:
    """Drop a stored question; False when there is none such."""
    question = " ".join(question.split())
    if all(pair.question != question for pair in expectations(state)):
        return False
    _change(state, lambda pairs: [pair for pair in pairs if pair.question != question])
    return True


def disregard(state: State, path: str) -> None:
    """Drop all questions that a memory answers, because it is erased."""
    if any(pair.path == path for pair in expectations(state)):
        _change(state, lambda pairs: [pair for pair in pairs if pair.path != path])


def follow(state: State, moved: Mapping[str, str]) -> None:
    """Let questions that retired memories answered be answered by what says it now."""
    if any(pair.path in moved for pair in expectations(state)):
        _change(state, lambda pairs: [Expectation(q, moved.get(path) or path) for q, path in pairs])


def find_regressions(
    memories: Mapping[str, Memory],
    groups: Sequence[PlanGroup],
    stored: Sequence[Expectation],
    rivals: Callable[[str, int], Iterable[str]],
    *,
    embedder: Embedder | None = None,
) -> dict[int, str]:
    """The numbers of groups that would make an answer harder to find, with the question that shows it.

    `rivals` gives the paths that a question finds, at most so many: for when there are too many memories to take all.
    """
    questions = list(_questions(memories, groups, stored))
    if not questions or not groups:
        return {}
    paths = set(memories)
    if len(memories) > ALL:
        paths = {path for group in groups for path in group.paths} | {one.path for one in questions}
        for one in questions:
            paths.update(rivals(one.question, RIVALS))
    part = [memories[path] for path in sorted(paths) if path in memories]
    with closing(_TrialIndex(part, embedder)) as index:
        before = [index.first(one.question) for one in questions]
        dropped: dict[int, str] = {}
        for group in groups:
            index.apply(group)
        while found := _find_losses(index, questions, before, groups, dropped):
            for number in found:
                index.revert(groups[number])
            dropped |= found
    return dropped


class _Question(NamedTuple):
    """A question, the path that answers it, and the number of the group on whose behalf it is asked; None for all."""

    question: str
    path: str
    group: int | None = None


def _questions(
    memories: Mapping[str, Memory], groups: Sequence[PlanGroup], stored: Sequence[Expectation]
) -> Iterator[_Question]:
    replaced = {old: memory.path for memory in memories.values() for old in memory.supersedes}
    gone = {path for group in groups if not group.keeper for path in group.retired}
    for pair in stored:
        path = pair.path if pair.path in memories else replaced.get(pair.path, "")
        if path in memories and path not in gone:  # what expired is not asked for any more
            yield _Question(pair.question, path)
    for number, group in enumerate(groups):
        if group.keeper:
            yield from (_Question(group.was(path).description, path, number) for path in group.retired)


def _find_losses(
    index: _TrialIndex,
    questions: Sequence[_Question],
    before: Sequence[Sequence[Sequence[str]]],
    groups: Sequence[PlanGroup],
    dropped: Mapping[int, str],
) -> dict[int, str]:
    """The groups because of which answers are no longer among the first."""
    standing = {number: group for number, group in enumerate(groups) if number not in dropped}
    moved = {old: new for group in standing.values() for old, new in group.moved.items()}
    found: dict[int, str] = {}
    for (question, path, group), then in zip(questions, before, strict=True):
        if group in dropped:
            continue
        now = index.first(question)
        for was, is_now in zip(then, now, strict=False):  # an embedder may fail half-way
            if path in was and moved.get(path, path) not in is_now:
                near = {path} if any(path in one.paths for one in standing.values()) else {*was, *is_now}
                blamed = [number for number, one in standing.items() if near & {*one.paths}] or list(standing)
                found |= dict.fromkeys(blamed, f"{question!r} would no longer find {path}")
    return found


class _TrialIndex:
    """Memories in an in-memory index, to which groups can be applied and reverted."""

    def __init__(self, memories: Iterable[Memory], embedder: Embedder | None) -> None:
        self._db = connect_alone()
        self._lexicon = Lexicon()
        self._embedder = embedder if getattr(embedder, "quick", False) else None
        self._vectors: dict[str, NDArray[float32]] = {}
        self._asked: dict[str, NDArray[float32]] = {}
        self._table: tuple[list[str], NDArray[intp], NDArray[float32] | None] | None = None
        self._put(list(memories))

    def close(self) -> None:
        """Close the database."""
        self._db.close()

    def first(self, question: str) -> tuple[Sequence[str], ...]:
        """The paths found first: by words, and by meaning."""
        known = notes(self._db)
        hits = self._lexicon.ask(self._db, question, total=known.rows, last=known.fact("last"))
        path = "SELECT path FROM entry WHERE id = ?"
        found = [(-hit.score, str(self._db.execute(path, (hit.row,)).fetchone()[0])) for hit in hits]
        by_words = [path for _, path in sorted(found)[:FIRST]]
        near = self._nearest(question)
        return (by_words, near) if self._embedder else (by_words,)

    def apply(self, group: PlanGroup) -> None:
        """Make the changes of a group."""
        for path in group.retired:
            self._drop(path)
        if written := group.written:
            self._put([written])

    def revert(self, group: PlanGroup) -> None:
        """Undo the changes of a group."""
        self._put([memory for memory in group.seen if memory.path in (*group.retired, group.keeper)])

    def _put(self, memories: Sequence[Memory]) -> None:
        with writing(self._db):
            for memory in memories:
                put(self._db, memory, (0, 0, len(memory.data), 0), pending=False, worded=True)
        if not self._embedder:
            return
        self._table = None
        texts = [passages(memory) for memory in memories]
        rows = self._encoded([text for several in texts for text in several])
        at = 0
        for memory, several in zip(memories, texts, strict=True):
            self._vectors[memory.path] = rows[at : at + len(several)]
            at += len(several)

    def _drop(self, path: str) -> None:
        self._db.execute("DELETE FROM entry WHERE path = ?", (path,))
        self._vectors.pop(path, None)
        self._table = None

    def _nearest(self, question: str) -> Sequence[str]:
        if not self._embedder:
            return ()
        if question not in self._asked:
            self._asked[question] = self._encoded([question])
        if self._table is None:
            known = {path: rows for path, rows in sorted(self._vectors.items()) if len(rows)}
            starts = numpy.cumsum([0, *(len(rows) for rows in known.values())])[:-1]
            self._table = list(known), starts, numpy.concatenate(list(known.values())) if known else None
        paths, starts, rows = self._table
        if rows is None or not len(self._asked[question]):
            return ()
        best = numpy.maximum.reduceat(rows @ self._asked[question][0], starts)
        return [paths[at] for at in numpy.argsort(-best, kind="stable")[:FIRST]]

    def _encoded(self, texts: Sequence[str]) -> NDArray[float32]:
        """Their vectors; none, from now on, when the embedder fails: then words decide alone."""
        try:
            return self._embedder.encode(texts) if self._embedder and texts else numpy.zeros((0, 1), numpy.float32)
        except EmbedderFailed:
            self._embedder = None
            return numpy.zeros((0, 1), numpy.float32)


def _change(state: State, change: Callable[[list[Expectation]], list[Expectation]]) -> None:
    with state.lock("expected", wait=5.0):
        if state.read(NAME) is None and NAME in state.names():
            raise StoreFailed("the stored questions cannot be read; nothing was changed")
        state.save(NAME, [list(pair) for pair in change(expectations(state))])
