"""What a model makes of memories that are near each other: which say the same, and which no longer hold.

It is shown a few at a time, whole, as data between marks that no text can know in advance. Its answer is taken only
if it keeps to its shape and to the files that it was shown. One that does not is asked for once more, and then it
changes nothing. What it proposes is checked like everything else, afterwards.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import date

from memsheaf.errors import CapReached, ModelFailed, TextRefused
from memsheaf.frontmatter import edited
from memsheaf.guard.secrets import find_secrets
from memsheaf.learn.corrections import subject
from memsheaf.learn.duplicate_groups import PlanGroup, is_fixed, is_usable, united
from memsheaf.llm import Model, Question, answer
from memsheaf.memory import Memory
from memsheaf.prompts import read_prompt
from memsheaf.text.neutralize import for_prompt, link_text, one_line
from memsheaf.values import sha256

MEMBERS = 6  # memories that are shown at once
ONE_BYTES, ALL_BYTES = 4_096, 12_288
SEARCHED = 200  # memories whose neighbours are looked for in a run
CLUSTERS = 12  # questions in a run
DEADLINE = 60.0
MAX_TOKENS = 3_000
PATH = 300  # characters

_ACTIONS = ("merge", "rewrite", "retire", "keep")
_TEXTS = ("action", "keep", "name", "description", "content")
_OPERATION: Mapping[str, object] = {
    "type": "object",
    "properties": {
        "action": {"type": "string", "enum": list(_ACTIONS)},
        "files": {"type": "array", "items": {"type": "string"}},
        "keep": {"type": "string"},
        "name": {"type": "string"},
        "description": {"type": "string"},
        "content": {"type": "string"},
    },
    "required": ["action", "files", "keep", "name", "description", "content"],
    "additionalProperties": False,
}
SCHEMA: Mapping[str, object] = {
    "type": "object",
    "properties": {"operations": {"type": "array", "items": _OPERATION, "maxItems": MEMBERS}},
    "required": ["operations"],
    "additionalProperties": False,
}

Near = Callable[[Memory], Sequence[str]]
"""The paths of memories that are about the same subject as one, nearest first."""

Cluster = tuple[Memory, ...]


def in_turn(memories: Sequence[Memory], cursor: str) -> list[Memory]:
    """The memories whose neighbours are looked for now: those behind the cursor, then from the start again."""
    later = [memory for memory in memories if memory.path > cursor]
    sooner = [memory for memory in memories if memory.path <= cursor]
    return (later + sooner)[:SEARCHED]


def clusters(
    firsts: Sequence[Memory], memories: Sequence[Memory], near: Near, *, settled: Collection[str], most: int = MEMBERS
) -> Iterator[Cluster]:
    """Memories to show together, one of `firsts` and others near it: of one kind, one trust, all shown whole.

    There are at most so many in a cluster. Those that a model has seen already, and left as they are, are `settled`.
    """
    by_path = {memory.path: memory for memory in memories}
    used: set[str] = set()
    for first in firsts:
        if first.path in used or not _may_be_shown(first):
            continue
        others = (by_path[path] for path in near(first) if path in by_path and path not in (*used, first.path))
        alike = [other for other in others if _alike(first, other) and _may_be_shown(other)]
        cluster = _fitting(first, alike, min(most, MEMBERS))
        if len(cluster) > 1 and not all(map(is_fixed, cluster)):
            used.update(member.path for member in cluster)
            if mark(cluster) not in settled:
                yield cluster


def mark(cluster: Cluster) -> str:
    """What a cluster is known by, as long as none of its memories changes."""
    parts = sorted(f"{memory.path}\0{memory.version}" for memory in cluster)
    return sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def ask(
    model: Model, cluster: Cluster, today: date, *, nonce: Callable[[], str] = lambda: os.urandom(8).hex()
) -> list[PlanGroup]:
    """What the model proposes for a cluster; [] when it proposes nothing.

    Raises:
        ModelFailed: it gave no answer that can be used, and none when it was asked again.
    """
    again = ""
    for last in (False, True):
        sign = nonce()
        question = Question(read_prompt("consolidate"), _shown(cluster, sign) + again, SCHEMA, MAX_TOKENS)
        try:
            return _groups(answer(model, question, DEADLINE), cluster, today, sign)
        except CapReached:
            raise
        except ModelFailed as error:
            if last:
                raise
            again = f"\n\nYour last answer could not be used: {error}."
    raise AssertionError("the second attempt returns or raises")


def _may_be_shown(memory: Memory) -> bool:
    """Whether a model may see it: sound, small enough to be shown whole, and without a secret."""
    return (
        is_usable(memory)
        and link_text(memory.path, PATH) == memory.path.replace('"', "")  # so that it can be named
        and len(memory.body.encode()) <= ONE_BYTES
        and not find_secrets(memory.text)
    )


def _alike(one: Memory, other: Memory) -> bool:
    """Whether two may be held against each other: what is unconfirmed has no say about what is confirmed."""
    return (one.kind, one.trust, one.expires) == (other.kind, other.trust, other.expires)


def _fitting(first: Memory, others: Sequence[Memory], most: int) -> Cluster:
    """As many of these as can be shown whole at once."""
    cluster, size = [first], len(first.body.encode())
    for other in others:
        size += len(other.body.encode())
        if len(cluster) == most or size > ALL_BYTES:
            break
        cluster.append(other)
    return tuple(cluster)


def _shown(cluster: Cluster, nonce: str) -> str:
    return "\n".join(_envelope(memory, nonce) for memory in cluster)


def _envelope(memory: Memory, nonce: str) -> str:
    day = (memory.updated or memory.created)[:10] or "unknown"
    fixed = ' fixed="yes"' if is_fixed(memory) else ""
    return (
        f'<memory-{nonce} file="{memory.path}" written="{day}"{fixed}>\n'
        f"name: {one_line(for_prompt(memory.name), 200)}\n"
        f"description: {one_line(for_prompt(memory.description), 500)}\n\n"
        f"{for_prompt(memory.body.strip())}\n"
        f"</memory-{nonce}>"
    )


def _groups(said: object, cluster: Cluster, today: date, nonce: str) -> list[PlanGroup]:
    """The groups that an answer describes. Raises ModelFailed when any part of it is out of bounds."""
    operations = said.get("operations") if isinstance(said, dict) else None
    if not isinstance(operations, list) or len(operations) > MEMBERS:
        raise ModelFailed(f"it was not a list of at most {MEMBERS} operations")
    by_path = {memory.path: memory for memory in cluster}
    taken: set[str] = set()
    groups = []
    for operation in operations:
        action, files, keep, texts = _read(operation, nonce)
        members = [by_path[name] for name in files if name in by_path]
        if len(members) != len(files) or (keep and keep not in by_path):
            raise ModelFailed("it named a file that was not shown")
        touched = {*files, *([keep] if keep else ())}
        if action == "keep":
            continue
        if touched & taken:
            raise ModelFailed("it named a file in two operations")
        taken |= touched
        groups.append(_group(action, members, by_path.get(keep), texts, cluster, today))
    return groups


def _read(operation: object, nonce: str) -> tuple[str, list[str], str, list[str]]:
    """An operation's action, files, what it keeps, and the new name, description and content."""
    if not isinstance(operation, dict) or not all(isinstance(operation.get(key, ""), str) for key in _TEXTS):
        raise ModelFailed("an operation was not of the shape that was asked for")
    action, keep, *texts = (operation.get(key, "").strip() for key in _TEXTS)
    files = operation.get("files")
    if action not in _ACTIONS or not isinstance(files, list) or not all(isinstance(name, str) for name in files):
        raise ModelFailed("an operation was not of the shape that was asked for")
    if any(nonce in text for text in texts):
        raise ModelFailed("a text held the marks that memories are shown in")
    return action, list(dict.fromkeys(files)), keep, texts


def _group(
    action: str, members: Sequence[Memory], keeper: Memory | None, texts: Sequence[str], cluster: Cluster, today: date
) -> PlanGroup:
    others = [memory for memory in members if memory is not keeper]
    if keeper is None or any(map(is_fixed, others)):
        raise ModelFailed("it would not keep any file, or retire one that is fixed")
    if action == "rewrite":
        if others or is_fixed(keeper):
            raise ModelFailed("a rewrite is of one file, that is not fixed")
        return PlanGroup(
            "rewrite", "said in a better order", (keeper,), keeper.path, _text(keeper, (), texts, today), model=True
        )
    if not others:
        raise ModelFailed("it named one file where it takes several")
    retired = tuple(memory.path for memory in others)
    if action == "retire":
        if any(_day(memory) >= _day(keeper) for memory in others) or _day(keeper) > today.isoformat():
            raise ModelFailed("the file to keep is not newer than those to retire")
        about = set(subject(f"{keeper.name}\n{keeper.body}"))
        if any(about.isdisjoint(subject(f"{memory.name}\n{memory.body}")) for memory in others):
            raise ModelFailed("the file to keep is about something else than those to retire")
        why = f"{keeper.path} says otherwise, and is newer"
        replaced = list(dict.fromkeys((*keeper.supersedes, *retired)))
        text = "" if is_fixed(keeper) else edited(keeper.text, fields={"supersedes": replaced})
        return PlanGroup("contradicted", why, (keeper, *others), keeper.path, text, retired, model=True)
    text = "" if is_fixed(keeper) else _text(keeper, others, texts, today)
    return PlanGroup("merge", "they say the same", (keeper, *others), keeper.path, text, retired, model=True)


def _text(keeper: Memory, others: Sequence[Memory], texts: Sequence[str], today: date) -> str:
    """The keeper with the model's words. Raises ModelFailed when they are none that a memory may hold."""
    name, description, content = (_as_written(text, (keeper, *others)) for text in texts)
    if not content:
        raise ModelFailed("there was no content")
    try:
        replaced = [memory.path for memory in others]
        return united(
            keeper, others, today, body=content + "\n", replaced=replaced, name=name, description=description
        )
    except TextRefused as error:
        raise ModelFailed(str(error)) from None


def _as_written(text: str, sources: Sequence[Memory]) -> str:
    """The text with the signs back that were spelt out when memories were shown."""
    for spelt, sign in (("&lt;", "<"), ("&#91;", "[")):
        if not any(spelt in memory.text for memory in sources):
            text = text.replace(spelt, sign)
    return text


def _day(memory: Memory) -> str:
    return (memory.updated or memory.created)[:10]
