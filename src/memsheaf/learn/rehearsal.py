"""Regression test of a consolidation: questions that were answered before must still be answered after it.

The questions are those that somebody stored with the memory that answers them, and the description of every memory
that would be retired. They are asked twice of an in-memory index, once with the memories as they are and once as they
would be: by words, and by meaning where the embedder is quick. Nothing touches the disk.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from typing import TYPE_CHECKING, NamedTuple

from memsheaf.errors import EmbedderFailed, SecretFound, StoreFailed
from memsheaf.guard.secrets import find_secrets
from memsheaf.index.database import connect_alone, notes, writing
from memsheaf.index.lexical import Lexicon
from memsheaf.index.rows import put
from memsheaf.index.vectors import MOST as PASSAGES
from memsheaf.index.vectors import passages
from memsheaf.learn.merge_plan import PlanGroup
from memsheaf.memory import Memory
from memsheaf.store.state import State

if TYPE_CHECKING:
    from memsheaf.embed import Embedder

FIRST = 5  # an answer counts among the first so many
ALL = 2_000  # memories up to which all take part; above, the affected ones and their rivals
RIVALS = 50
MOST = 500  # questions that are kept
NAME = "expected.json"

FirstPaths = tuple[Sequence[str], ...]  # the paths that a question finds first: by words, and by meaning


class Expectation(NamedTuple):
    """A question, and the path of the memory that answers it."""

    question: str
    path: str


def expectations(state: State) -> list[Expectation]:
    """The stored questions, oldest first."""
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
    part = {path: memories[path] for path in sorted(paths) if path in memories}
    before = _find_first(part.values(), questions, embedder)
    dropped: dict[int, str] = {}
    while True:
        standing = {number: group for number, group in enumerate(groups) if number not in dropped}
        planned = dict(part)
        for group in standing.values():
            planned = {path: memory for path, memory in planned.items() if path not in group.retired}
            if written := group.written:
                planned[written.path] = written
        now = _find_first(planned.values(), questions, embedder)
        found = _find_losses(questions, before, now, standing)
        if not found:
            return dropped
        dropped |= found


def _questions(
    memories: Mapping[str, Memory], groups: Sequence[PlanGroup], stored: Sequence[Expectation]
) -> Iterator[Expectation]:
    replaced = {old: memory.path for memory in memories.values() for old in memory.supersedes}
    gone = {path for group in groups if not group.keeper for path in group.retired}
    for pair in stored:
        path = pair.path if pair.path in memories else replaced.get(pair.path, "")
        if path in memories and path not in gone:  # what expired is not asked for any more
            yield Expectation(pair.question, path)
    for group in groups:
        if group.keeper:
            yield from (Expectation(group.was(path).description, path) for path in group.retired)


def _find_losses(
    questions: Sequence[Expectation],
    before: Sequence[FirstPaths],
    after: Sequence[FirstPaths],
    standing: Mapping[int, PlanGroup],
) -> dict[int, str]:
    """The groups because of which answers are no longer among the first."""
    moved = {old: new for group in standing.values() for old, new in group.moved.items()}
    found: dict[int, str] = {}
    for (question, path), then, now in zip(questions, before, after, strict=True):
        for was, is_now in zip(then, now, strict=False):  # an embedder may fail half-way
            if path in was and moved.get(path, path) not in is_now:
                near = {path} if any(path in one.paths for one in standing.values()) else {*was, *is_now}
                blamed = [number for number, one in standing.items() if near & {*one.paths}] or list(standing)
                found |= dict.fromkeys(blamed, f"{question!r} would no longer find {path}")
    return found


def _find_first(
    memories: Collection[Memory], questions: Sequence[Expectation], embedder: Embedder | None
) -> list[FirstPaths]:
    """For each question the paths that are found first: by words, and by meaning where the embedder is quick."""
    asked = [one.question for one in questions]
    found: list[FirstPaths] = [(paths,) for paths in _first_by_words(memories, asked)]
    if embedder and getattr(embedder, "quick", False) and memories:
        with suppress(EmbedderFailed):  # then words decide alone
            near = _first_by_meaning(memories, asked, embedder)
            return [(*paths, nearest) for paths, nearest in zip(found, near, strict=True)]
    return found


def _first_by_words(memories: Iterable[Memory], questions: Iterable[str]) -> Iterator[list[str]]:
    with closing(connect_alone()) as db:
        with writing(db):
            for memory in memories:
                put(db, memory, (0, 0, len(memory.data), 0), pending=False, worded=True)
        known, lexicon = notes(db), Lexicon()
        for question in questions:
            hits = lexicon.ask(db, question, total=known.rows, last=known.fact("last"))
            path = "SELECT path FROM entry WHERE id = ?"
            found = [(-hit.score, str(db.execute(path, (hit.row,)).fetchone()[0])) for hit in hits]
            yield [path for _, path in sorted(found)[:FIRST]]


def _first_by_meaning(
    memories: Collection[Memory], questions: Sequence[str], embedder: Embedder
) -> Iterator[list[str]]:
    texts = [(memory.path, text) for memory in memories for text in passages(memory)]
    if not texts:
        yield from ([] for _ in questions)
        return
    vectors = embedder.encode([text for _, text in texts])
    for asked in embedder.encode(questions):
        best = (-(vectors @ asked)).argsort(kind="stable")
        yield list(dict.fromkeys(texts[at][0] for at in best[: FIRST * PASSAGES]))[:FIRST]


def _change(state: State, change: Callable[[list[Expectation]], list[Expectation]]) -> None:
    with state.lock("expected", wait=5.0):
        if state.read(NAME) is None and os.path.lexists(os.path.join(state.folder, NAME)):
            raise StoreFailed("the stored questions cannot be read; nothing was changed")
        state.save(NAME, [list(pair) for pair in change(expectations(state))])
