"""Merges that a model proposes for memories that are near each other.

A model is shown a few memories at a time, whole, as data between marks that no text can know in advance. Its answer
counts only if it keeps to the schema and to the files that were shown. It is asked once more otherwise, and then
changes nothing. What it proposes is checked like everything else, afterwards.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import date
from hashlib import sha256

from memsheaf.errors import TextRefused
from memsheaf.frontmatter import edited
from memsheaf.guard.secrets import find_secrets
from memsheaf.learn.corrections import telling_words
from memsheaf.learn.extract import ask_twice
from memsheaf.learn.merge_plan import PlanGroup, is_fixed, is_usable, unite
from memsheaf.llm import Model, Question, object_schema
from memsheaf.memory import Memory
from memsheaf.prompts import read_prompt
from memsheaf.text.neutralize import for_prompt, link_text, one_line

MEMBERS = 6  # memories that a model is shown at once
ONE_BYTES, ALL_BYTES = 4_096, 12_288
MAX_SEARCHES = 2_000  # memories whose neighbours are searched for in a run
DEADLINE = 60.0
MAX_TOKENS = 3_000
PATH = 300  # characters

_ACTIONS = ("merge", "rewrite", "retire", "keep")
_TEXTS = ("action", "keep", "name", "description", "content")
_OPERATION = object_schema(
    {
        "action": {"type": "string", "enum": list(_ACTIONS)},
        "files": {"type": "array", "items": {"type": "string"}},
        **{name: {"type": "string"} for name in _TEXTS[1:]},
    }
)
_SCHEMA = object_schema({"operations": {"type": "array", "items": _OPERATION, "maxItems": MEMBERS}})


def find_clusters(
    memories: Sequence[Memory],
    near: Callable[[Memory], Sequence[str]],
    *,
    settled: Collection[str],
    most: int = MEMBERS,
) -> Iterator[tuple[Memory, ...]]:
    """Yield memories to show together, one and those near it: of one kind, one trust, all shown whole.

    Those that were changed last come first. There are at most `most` in a cluster. Those that a model has seen and
    left as they are, are `settled`.
    """
    by_path = {memory.path: memory for memory in memories}
    used: set[str] = set()
    for first in sorted(memories, key=lambda memory: (_day(memory), memory.path), reverse=True)[:MAX_SEARCHES]:
        if first.path in used or not _may_be_shown(first):
            continue
        cluster, size = [first], len(first.body.encode())
        for path in near(first):
            other = by_path.get(path)
            if other is None or path in used or path == first.path:
                continue
            if not _is_comparable(first, other) or not _may_be_shown(other):
                continue
            size += len(other.body.encode())
            if len(cluster) == min(most, MEMBERS) or size > ALL_BYTES:
                break
            cluster.append(other)
        if len(cluster) > 1 and not all(map(is_fixed, cluster)):
            used.update(member.path for member in cluster)
            if cluster_id(cluster) not in settled:
                yield tuple(cluster)


def cluster_id(cluster: Sequence[Memory]) -> str:
    """An id that stays the same as long as none of the memories changes."""
    parts = sorted(f"{memory.path}\0{memory.version}" for memory in cluster)
    return sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def ask_model(model: Model, cluster: Sequence[Memory], today: date) -> list[PlanGroup]:
    """Return what the model proposes for a cluster. Raises ModelFailed, BadAnswer."""
    nonce = os.urandom(8).hex()
    shown = "\n".join(_envelope(memory, nonce) for memory in cluster)
    question = Question(read_prompt("consolidate"), shown, _SCHEMA, MAX_TOKENS)
    return ask_twice(model, question, DEADLINE, lambda given: _read_answer(given, cluster, today))


def _may_be_shown(memory: Memory) -> bool:
    """Whether a model may see it: sound, small enough to be shown whole, and without a secret."""
    return (
        is_usable(memory)
        and link_text(memory.path, PATH) == memory.path.replace('"', "")  # so that it can be named
        and len(memory.body.encode()) <= ONE_BYTES
        and not find_secrets(memory.text)
    )


def _is_comparable(one: Memory, other: Memory) -> bool:
    """Whether two may be shown together: what is unconfirmed has no say about what is confirmed."""
    return (one.kind, one.trust, one.expires) == (other.kind, other.trust, other.expires)


def _envelope(memory: Memory, nonce: str) -> str:
    fixed = ' fixed="yes"' if is_fixed(memory) else ""
    return (
        f'<memory-{nonce} file="{memory.path}" written="{_day(memory) or "unknown"}"{fixed}>\n'
        f"name: {one_line(for_prompt(memory.name), 200)}\n"
        f"description: {one_line(for_prompt(memory.description), 500)}\n\n"
        f"{for_prompt(memory.body.strip())}\n"
        f"</memory-{nonce}>"
    )


def _read_answer(given: object, cluster: Sequence[Memory], today: date) -> list[PlanGroup]:
    """The groups that an answer describes. Raises ValueError when any part of it is out of bounds."""
    operations = given.get("operations") if isinstance(given, dict) else None
    if not isinstance(operations, list) or len(operations) > MEMBERS:
        raise ValueError(f"it was not a list of at most {MEMBERS} operations")
    by_path = {memory.path: memory for memory in cluster}
    taken: set[str] = set()
    groups = []
    for operation in operations:
        action, files, keep, texts = _read_operation(operation)
        touched = {*files, *filter(None, [keep])}
        if not touched <= by_path.keys():
            raise ValueError("it named a file that was not shown")
        if action == "keep":
            continue
        if touched & taken:
            raise ValueError("it named a file in two operations")
        taken |= touched
        others = [by_path[name] for name in files if name != keep]
        groups.append(_proposed_group(action, by_path.get(keep), others, texts, today))
    return groups


def _read_operation(operation: object) -> tuple[str, list[str], str, list[str]]:
    """An operation's action, files, what it keeps, and the new name, description and content."""
    if not isinstance(operation, dict) or not all(isinstance(operation.get(key, ""), str) for key in _TEXTS):
        raise ValueError("an operation was not of the shape that was asked for")
    action, keep, *texts = (operation.get(key, "").strip() for key in _TEXTS)
    files = operation.get("files")
    if action not in _ACTIONS or not isinstance(files, list) or not all(isinstance(name, str) for name in files):
        raise ValueError("an operation was not of the shape that was asked for")
    return action, list(dict.fromkeys(files)), keep, texts


def _proposed_group(
    action: str, keeper: Memory | None, others: Sequence[Memory], texts: Sequence[str], today: date
) -> PlanGroup:
    if keeper is None or any(map(is_fixed, others)):
        raise ValueError("it would not keep any file, or retire one that is fixed")
    if action == "rewrite" and (others or is_fixed(keeper)):
        raise ValueError("a rewrite is of one file, that is not fixed")
    if action != "rewrite" and not others:
        raise ValueError("it named one file where it takes several")
    seen, retired = (keeper, *others), tuple(memory.path for memory in others)
    if action == "retire":
        _refuse_retirement(keeper, others, today)
        replaced = list(dict.fromkeys((*keeper.supersedes, *retired)))
        text = "" if is_fixed(keeper) else edited(keeper.text, fields={"supersedes": replaced})
        why = f"{keeper.path} says otherwise, and is newer"
        return PlanGroup("contradicted", why, seen, keeper.path, text, retired, model=True)
    text = "" if is_fixed(keeper) else _rewritten(keeper, others, texts, today)
    why = "they say the same" if action == "merge" else "said in a better order"
    return PlanGroup(action, why, seen, keeper.path, text, retired, model=True)


def _refuse_retirement(keeper: Memory, others: Sequence[Memory], today: date) -> None:
    """Raise ValueError unless the keeper is newer than the others and shares their subject."""
    if any(_day(memory) >= _day(keeper) for memory in others) or _day(keeper) > today.isoformat():
        raise ValueError("the file to keep is not newer than those to retire")
    about = telling_words(f"{keeper.name}\n{keeper.body}")
    if any(about.isdisjoint(telling_words(f"{memory.name}\n{memory.body}")) for memory in others):
        raise ValueError("the file to keep is about something else than those to retire")


def _rewritten(keeper: Memory, others: Sequence[Memory], texts: Sequence[str], today: date) -> str:
    """The keeper with the model's words. Raises ValueError when a memory may not hold them."""
    for escaped, sign in (("&lt;", "<"), ("&#91;", "[")):  # as `for_prompt` escaped them when they were shown
        if not any(escaped in memory.text for memory in (keeper, *others)):
            texts = [text.replace(escaped, sign) for text in texts]
    name, description, content = texts
    if not content:
        raise ValueError("there was no content")
    replaced = [memory.path for memory in others]
    try:
        return unite(
            keeper, others, today, body=content + "\n", replaced=replaced, name=name, description=description
        )
    except TextRefused as error:
        raise ValueError(str(error)) from None


def _day(memory: Memory) -> str:
    return (memory.updated or memory.created)[:10]
