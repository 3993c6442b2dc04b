"""Stored questions with their answers, and the check that a consolidation still finds them.

Before a plan is applied, the stored questions and the description of every memory that would be retired are asked of
the lexical ranker twice, in memory: with the texts as they are, and as they are planned. The memories that take part
are those of the plan and those that the ordinary search finds for the questions.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import NamedTuple

from memsheaf.errors import SecretFound, StoreFailed
from memsheaf.guard.secrets import find_secrets
from memsheaf.index.database import connect_alone, writing
from memsheaf.index.lexical import Lexicon, put_words
from memsheaf.index.rows import put
from memsheaf.learn.merge_plan import PlanGroup
from memsheaf.memory import Memory
from memsheaf.store.state import State

FIRST = 5  # an answer counts among the first so many
MAX_RIVALS = 50  # memories that take part for each question
MAX_QUESTIONS = 500
NAME = "expected.json"


class Expectation(NamedTuple):
    """A question, and the path of the memory that answers it."""

    question: str
    path: str


def expectations(state: State) -> list[Expectation]:
    """Return the stored questions, oldest first."""
    stored = state.load(NAME)
    pairs = stored if isinstance(stored, list) else []
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

    def add(pairs: list[Expectation]) -> list[Expectation]:
        return [*(pair for pair in pairs if pair.question != question), Expectation(question, path)]

    _change(state, add)


def unexpect(state: State, question: str) -> bool:
    """Drop a stored question; return False if there is none such."""
    question = " ".join(question.split())
    return _change(state, lambda pairs: [pair for pair in pairs if pair.question != question])


def disregard(state: State, path: str) -> None:
    """Drop all questions that a memory answers, because it is erased."""
    _change(state, lambda pairs: [pair for pair in pairs if pair.path != path])


def follow(state: State, moved: Mapping[str, str]) -> None:
    """Let questions that retired memories answered be answered by what says it now."""
    _change(state, lambda pairs: [Expectation(q, moved.get(path) or path) for q, path in pairs])


def find_regressions(
    memories: Mapping[str, Memory],
    groups: Sequence[PlanGroup],
    stored: Sequence[Expectation],
    search: Callable[[str, int], Sequence[str]],
) -> dict[int, str]:
    """Return the numbers of groups that would make an answer harder to find, with the question that shows it.

    `search` returns the paths that a question finds now, best first, at most so many. A stored question that finds
    its answer by meaning alone cannot be asked of planned texts: no model's proposal may touch that answer.
    """
    questions = list(_list_questions(memories, groups, stored))
    found = {question: search(question, MAX_RIVALS) for question, _ in questions}
    paths = {path for group in groups for path in group.paths} | {path for _, path in questions}
    paths.update(path for rivals in found.values() for path in rivals)
    present = {path: memories[path] for path in sorted(paths) if path in memories}
    before = _rank(present.values(), questions)
    dropped: dict[int, str] = {}
    by_user = {pair.question for pair in stored}
    for (question, path), first in zip(questions, before, strict=True):
        if question in by_user and path not in first and path in found[question][:FIRST]:
            touching = [number for number, group in enumerate(groups) if group.model and path in group.paths]
            dropped |= dict.fromkeys(touching, f"{question!r} might no longer find {path}")
    while True:
        standing = {number: group for number, group in enumerate(groups) if number not in dropped}
        planned = dict(present)
        for group in standing.values():
            for path in group.retired:
                del planned[path]
            if written := group.written:
                planned[written.path] = written
        losses = _find_losses(questions, before, _rank(planned.values(), questions), standing)
        if not losses:
            return dropped
        dropped |= losses


def _list_questions(
    memories: Mapping[str, Memory], groups: Sequence[PlanGroup], stored: Sequence[Expectation]
) -> Iterator[Expectation]:
    replaced = {old: memory.path for memory in memories.values() for old in memory.supersedes}
    expired = {path for group in groups if not group.keeper for path in group.retired}
    for question, answer in stored:
        path = answer if answer in memories else replaced.get(answer, "")
        if path in memories and path not in expired:
            yield Expectation(question, path)
    for group in groups:
        if group.keeper:
            yield from (Expectation(group.was(path).description, path) for path in group.retired)


def _find_losses(
    questions: Sequence[Expectation],
    before: Sequence[Sequence[str]],
    after: Sequence[Sequence[str]],
    standing: Mapping[int, PlanGroup],
) -> dict[int, str]:
    """Return the groups because of which answers are no longer among the first."""
    moved = {old: new for group in standing.values() for old, new in group.moved.items()}
    losses: dict[int, str] = {}
    for (question, path), then, now in zip(questions, before, after, strict=True):
        if path in then and moved.get(path, path) not in now:
            owners = [number for number, group in standing.items() if path in group.paths]
            rivals = [number for number, group in standing.items() if {*then, *now} & {*group.paths}]
            losses |= dict.fromkeys(owners or rivals or standing, f"{question!r} would no longer find {path}")
    return losses


def _rank(memories: Iterable[Memory], questions: Iterable[Expectation]) -> list[list[str]]:
    """Return the paths that each question finds first among these memories, by words."""
    first = []
    with closing(connect_alone()) as db:
        with writing(db):
            for row, memory in enumerate(memories, 1):
                put(db, memory, (0, 0, 0, 0), pending=False)
                put_words(db, row, memory)
        lexicon = Lexicon()
        paths = dict(db.execute("SELECT id, path FROM entry"))
        for question, _ in questions:
            hits = lexicon.ask(db, question, total=len(paths), last=0)
            hits.sort(key=lambda hit: (-hit.score, paths[hit.row]))
            first.append([paths[hit.row] for hit in hits[:FIRST]])
    return first


def _change(state: State, change: Callable[[list[Expectation]], list[Expectation]]) -> bool:
    """Save the changed questions; return False if nothing changes. Nothing is created for nothing."""
    pairs = expectations(state)
    if pairs == change(pairs):
        return False
    with state.lock("expected", wait=5.0):
        if state.read(NAME) is None and os.path.lexists(os.path.join(state.folder, NAME)):
            raise StoreFailed("the stored questions cannot be read; nothing was changed")
        state.save(NAME, [list(pair) for pair in change(expectations(state))][-MAX_QUESTIONS:])
    return True
