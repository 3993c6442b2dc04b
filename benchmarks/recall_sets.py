"""Questions, and the memories that answer them: our own set, alone and in a larger store, and two public ones."""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from benchmarks import coding_set, shown
from benchmarks.others import others
from memsheaf.memory import Memory, parse

DATA = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "..", "shared", "data")
CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open domain", 4: "single-hop", 5: "adversarial"}


class Case(NamedTuple):
    """One question to one collection: which of its memories answer it, and what kind of question it is."""

    question: str
    gold: frozenset[int]
    kind: str


class Collection(NamedTuple):
    """Memories that are searched together, and the questions that are asked of them."""

    memories: list[Memory]
    cases: list[Case]


def coding(_: str, half: str) -> Iterator[Collection]:
    """Our own set: what people ask a coding agent, in other words than the memory has."""
    found = coding_set.load()
    memories = list(found.memories)
    place = {memory.path: number for number, memory in enumerate(memories)}
    cases = [
        Case(query.query, frozenset(place[path] for path in query.gold), query.kind)
        for query in (found.half("test") if half == "test" else found.half("development"))
        if query.gold
    ]
    yield Collection(memories, cases)


def coding_among(data: str, half: str) -> Iterator[Collection]:
    """The same questions, and the same memories among 840 others: 1,040 in all."""
    for collection in coding(data, half):
        yield Collection([*collection.memories, *others()], collection.cases)


def workshop(_: str, half: str) -> Iterator[Collection]:
    """40 memories with 80 questions that nothing was tuned on; only with the test half."""
    if half == "test":
        yield _workshop(40)


def workshop_among(_: str, half: str) -> Iterator[Collection]:
    """The same among 1,000 others."""
    if half == "test":
        yield _workshop(1_040)


def locomo(data: str, _: str) -> Iterator[Collection]:
    """LoCoMo: one memory a turn of a long conversation; without the adversarial questions."""
    for collection in _locomo(data):
        yield collection._replace(cases=[case for case in collection.cases if case.kind != CATEGORIES[5]])


def locomo_adversarial(data: str, _: str) -> Iterator[Collection]:
    """LoCoMo's questions that name the wrong person: the turn they are about, nevertheless."""
    for collection in _locomo(data):
        yield collection._replace(cases=[case for case in collection.cases if case.kind == CATEGORIES[5]])


def longmemeval_turns(data: str, _: str) -> Iterator[Collection]:
    """LongMemEval-S: one memory a turn of the user."""
    for asked in _longmemeval(data):
        memories: list[Memory] = []
        gold = set()
        for session in asked["haystack_sessions"]:
            for turn in session:
                if turn["role"] == "user":
                    if turn.get("has_answer"):
                        gold.add(len(memories))
                    memories.append(_memory(len(memories), turn["content"]))
        if gold:
            yield Collection(memories, [Case(asked["question"], frozenset(gold), asked["question_type"])])


def longmemeval_sessions(data: str, _: str) -> Iterator[Collection]:
    """LongMemEval-S: one memory a session, the words of the user in it."""
    for asked in _longmemeval(data):
        memories = []
        for number, session in enumerate(asked["haystack_sessions"]):
            memories.append(_memory(number, "\n".join(turn["content"] for turn in session if turn["role"] == "user")))
        places = {name: number for number, name in enumerate(asked["haystack_session_ids"])}
        gold = frozenset(places[name] for name in asked["answer_session_ids"] if name in places)
        if gold and not asked["question_id"].endswith("_abs"):
            yield Collection(memories, [Case(asked["question"], gold, asked["question_type"])])


SETS: Mapping[str, Callable[[str, str], Iterator[Collection]]] = {
    "coding": coding,
    "coding-among": coding_among,
    "workshop": workshop,
    "workshop-among": workshop_among,
    "locomo": locomo,
    "locomo-adversarial": locomo_adversarial,
    "longmemeval-turns": longmemeval_turns,
    "longmemeval-sessions": longmemeval_sessions,
}


def _workshop(size: int) -> Collection:
    found = shown.test()
    memories = [*found.memories, *found.fill][:size]
    place = {memory.path: number for number, memory in enumerate(memories)}
    asked = [one for one in found.messages if one.gold]
    return Collection(
        memories, [Case(one.text, frozenset(place[path] for path in one.gold), one.kind) for one in asked]
    )


def _locomo(data: str) -> Iterator[Collection]:
    with gzip.open(os.path.join(data, "locomo7.json.gz"), "rt", encoding="utf-8") as file:
        samples = json.load(file)
    for sample in samples:
        place: dict[str, int] = {}
        memories: list[Memory] = []
        for key, turns in sample["conversation"].items():
            if re.fullmatch(r"session_\d+", key):
                for turn in turns:
                    place[turn["dia_id"]] = len(memories)
                    memories.append(_memory(len(memories), f"{turn['speaker']}: {turn['text']}"))
        cases = []
        for asked in sample["qa"]:
            gold = frozenset(place[one] for one in asked.get("evidence", ()) if one in place)
            if gold:
                cases.append(Case(asked["question"], gold, CATEGORIES[asked["category"]]))
        yield Collection(memories, cases)


def _longmemeval(data: str) -> Iterator[dict[str, Any]]:
    with gzip.open(os.path.join(data, "longmemeval_s_dev.jsonl.gz"), "rt", encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def _memory(number: int, text: str) -> Memory:
    return parse(f"{number}.md", text.encode("utf-8", "replace")[:250_000] or b" ")
