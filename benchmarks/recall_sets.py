"""Messages, and the memories that matter for them: worlds, our own sets, languages, and two public sets.

Of the worlds, `development` and `test` are the parts of `training/data.py`; of the coding set and of the languages,
the halves. The workshop set and the messages `silence/b.jsonl` belong to the test half only.
"""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any, Literal, NamedTuple

from training import data as labelled

from benchmarks import coding_set
from benchmarks.others import others
from memsheaf.memory import Memory, compose, parse
from memsheaf.text.sentences import make_description, make_name

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.join(HERE, "..", "..", "shared", "data")
DRAWS = {5: 40, 40: 8}  # stores of so many memories
MAX_SESSION_BYTES = 250_000
LONGMEMEVAL_STEP = 4
LOCOMO_CONVERSATIONS = 3
OTHER_WORK_MESSAGES = 8
DAY = "2026-11-01"
NOT_SMALL_TALK = ("unrelated_hard", "programming", "other_work", "pasted")


class Case(NamedTuple):
    """A message, the numbers of the memories that matter for it, and its kind."""

    question: str
    gold: frozenset[int]
    kind: str


class Collection(NamedTuple):
    """Memories that are searched together, and the messages to them."""

    memories: Sequence[Memory]
    cases: Sequence[Case]


class Source(NamedTuple):
    """The half that is measured, the folder with the public sets, and whether these are read as a whole."""

    half: Literal["development", "test"]
    data: str = DATA
    is_whole: bool = False


def read_worlds(source: Source, is_wanted: Callable[[str], object]) -> Iterator[Collection]:
    """Read persons with their memories; to each come messages of another one, which need nothing here."""
    worlds = [world for world in labelled.worlds(source.half) if is_wanted(world["file"])]
    for number, world in enumerate(worlds):
        places = {memory["id"]: place for place, memory in enumerate(world["memories"])}
        cases = [
            Case(message["text"], frozenset(places[key] for key in message["relevant"]), "world")
            for message in world["messages"]
        ]
        elsewhere = worlds[number - len(worlds) // 2]["messages"]
        foreign = [message["text"] for message in elsewhere if message["relevant"]][:OTHER_WORK_MESSAGES]
        memories = [_compose(place, memory) for place, memory in enumerate(world["memories"])]
        yield Collection(memories, [*cases, *(Case(text, frozenset(), "other work") for text in foreign)])


def read_coding(source: Source, size: int) -> Iterator[Collection]:
    """Read our own set: words of people to a coding agent; beyond 200 memories, others fill the store."""
    yield _collect([*coding_set.load().memories, *others()][:size], _coding(source))


def read_workshop(source: Source, size: int) -> Iterator[Collection]:
    """Read the set of which only the test half exists."""
    if source.half == "test":
        yield _collect([*read_memories("workshop"), *coding_set.load().memories[:160], *others()][:size], _workshop())


def read_sizes(source: Source, size: int) -> Iterator[Collection]:
    """Read stores of one size: messages with an answer in it, and some that need nothing.

    The development half is the coding set, the test half the workshop set.
    """
    coding = coding_set.load()
    silent = [(query.query, query.kind) for query in coding.half(source.half) if not query.gold]
    silent += [(line["text"], line["kind"]) for line in read_lines("silence", "a.jsonl")]
    if source.half == "test":
        memories, fill = read_memories("workshop"), [*coding.memories[:160], *others()]
        asked = _workshop()
        silent += [(line["text"], line["kind"]) for line in read_lines("silence", "b.jsonl")]
    else:
        memories, fill = list(coding.memories), list(others())
        asked = _coding(source)
        small_talk = labelled.MESSAGES.index("T")
        silent += [(each.text, "chat") for each in labelled.messages("development") if each.label == small_talk]
    unneeded = [(text, (), kind if kind in NOT_SMALL_TALK else "small talk") for text, kind in silent]
    draws = DRAWS.get(size, 1) if size < len(memories) else 1
    for number in range(draws):
        store = [*memories, *fill][:size]
        if size < len(memories):
            store = Random(f"{size} {number}").sample(memories, size)
        paths = {memory.path for memory in store}
        answered = [(text, paths & set(gold), kind) for text, gold, kind in asked if paths & set(gold)]
        yield _collect(store, [*answered, *unneeded[number % 8 :: min(draws, 8)]])


def read_languages(source: Source) -> Iterator[Collection]:
    """Read questions in one language about a memory in another."""
    asked = [line for line in read_lines("languages", "queries.jsonl") if line["split"] == source.half]
    yield _collect(read_memories("languages"), [(line["query"], line["gold"], line["language"]) for line in asked])
    if source.half == "test":
        asked = read_lines("workshop", "languages.jsonl")
        yield _collect(read_memories("workshop"), [(line["query"], line["gold"], line["language"]) for line in asked])


def read_locomo(source: Source) -> Iterator[Collection]:
    """Read LoCoMo: one memory a turn of a long conversation; without the adversarial questions."""
    with gzip.open(os.path.join(source.data, "locomo7.json.gz"), "rt", encoding="utf-8") as file:
        samples = json.load(file)
    for sample in samples if source.is_whole else samples[:LOCOMO_CONVERSATIONS]:
        places: dict[str, int] = {}
        memories: list[Memory] = []
        for key, turns in sample["conversation"].items():
            if re.fullmatch(r"session_\d+", key):
                for turn in turns:
                    places[turn["dia_id"]] = len(memories)
                    memories.append(_parse(len(memories), f"{turn['speaker']}: {turn['text']}"))
        cases = []
        for asked in sample["qa"]:
            gold = frozenset(places[turn] for turn in asked.get("evidence", ()) if turn in places)
            if gold and asked["category"] != 5:
                cases.append(Case(asked["question"], gold, "question"))
        yield Collection(memories, cases)


def read_longmemeval(source: Source) -> Iterator[Collection]:
    """Read LongMemEval-S: one memory a session, the words of the user in it."""
    with gzip.open(os.path.join(source.data, "longmemeval_s_dev.jsonl.gz"), "rt", encoding="utf-8") as file:
        lines = [line for number, line in enumerate(file) if source.is_whole or number % LONGMEMEVAL_STEP == 0]
    for asked in map(json.loads, lines):
        memories = []
        for number, session in enumerate(asked["haystack_sessions"]):
            memories.append(_parse(number, "\n".join(turn["content"] for turn in session if turn["role"] == "user")))
        places = {name: number for number, name in enumerate(asked["haystack_session_ids"])}
        gold = frozenset(places[name] for name in asked["answer_session_ids"] if name in places)
        if gold and not asked["question_id"].endswith("_abs"):
            yield Collection(memories, [Case(asked["question"], gold, "question")])


SETS: Mapping[str, Callable[[Source], Iterator[Collection]]] = {
    "worlds-ab": lambda source: read_worlds(source, re.compile("worlds-[ab]").fullmatch),
    "worlds-ch": lambda source: read_worlds(source, re.compile("worlds-[c-h]").fullmatch),
    "worlds-new": lambda source: read_worlds(source, re.compile("w[0-9]+").fullmatch),
    "coding": lambda source: read_coding(source, 200),
    "coding-among": lambda source: read_coding(source, 1_040),
    "workshop": lambda source: read_workshop(source, 40),
    "workshop-among": lambda source: read_workshop(source, 1_040),
    "size-5": lambda source: read_sizes(source, 5),
    "size-40": lambda source: read_sizes(source, 40),
    "size-200": lambda source: read_sizes(source, 200),
    "size-1040": lambda source: read_sizes(source, 1_040),
    "languages": read_languages,
    "locomo": read_locomo,
    "longmemeval": read_longmemeval,
}


def read_memories(name: str) -> list[Memory]:
    """Return the memories of one of our sets."""
    folder = os.path.join(HERE, "data", name, "memories")
    return [parse(file, _read(os.path.join(folder, file))) for file in sorted(os.listdir(folder))]


def read_lines(name: str, file: str) -> list[dict[str, Any]]:
    """Return the lines of a JSONL file of one of our sets."""
    return [json.loads(line) for line in _read(os.path.join(HERE, "data", name, file)).decode().splitlines()]


def _coding(source: Source) -> list[tuple[str, Sequence[str], str]]:
    return [(query.query, query.gold, query.kind) for query in coding_set.load().half(source.half) if query.gold]


def _workshop() -> list[tuple[str, Sequence[str], str]]:
    return [(line["query"], line["gold"], "question") for line in read_lines("workshop", "queries.jsonl")]


def _collect(memories: Sequence[Memory], asked: Sequence[tuple[str, Any, str]]) -> Collection:
    places = {memory.path: number for number, memory in enumerate(memories)}
    return Collection(
        memories, [Case(text, frozenset(places[path] for path in gold), kind) for text, gold, kind in asked]
    )


def _compose(number: int, memory: Mapping[str, str]) -> Memory:
    """Return a memory as `memsheaf remember` would write it."""
    text = re.sub("[\u200e\u200f]", "", memory["text"])  # marks of direction, which no name may hold
    composed = compose(
        name=make_name(text),
        description=make_description(text),
        kind=memory["type"],
        body=text,
        created=DAY,
        updated=DAY,
    )
    return composed._replace(path=f"{number}.md")


def _parse(number: int, text: str) -> Memory:
    return parse(f"{number}.md", text.encode("utf-8", "replace")[:MAX_SESSION_BYTES] or b" ")


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
