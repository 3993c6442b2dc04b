"""What consolidation would do, group by group, and what can be found without a model.

A group is the smallest thing that is done or left: the memories it goes by as they were read, at most one that stays
and says it, and those that are retired because it does. No two groups share a memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date

from memsheaf.errors import TextRefused
from memsheaf.frontmatter import edited
from memsheaf.guard.paths import is_fact
from memsheaf.memory import Memory, parse
from memsheaf.store import Change
from memsheaf.text.similarity import LIKE, fact, likeness, same, says_more
from memsheaf.values import NamedTuple

COMPARED = 50  # so many candidates a memory is compared with at most
BY = "consolidation"

Moved = Mapping[str, str]
"""Retired paths, and the path that says it now; "" when nothing does."""


class PlanGroup(NamedTuple):
    """One piece of a plan: `keeper` stays, with a new `text` unless that is "", and `retired` go.

    `action` is `merge`, `rewrite`, `dates`, `contradicted` or `expired`; `model` says that a model proposed it, and
    `mine` that it touches what a person wrote.
    """

    action: str
    why: str
    seen: tuple[Memory, ...]
    keeper: str = ""
    text: str = ""
    retired: tuple[str, ...] = ()
    model: bool = False
    mine: bool = False

    @property
    def paths(self) -> tuple[str, ...]:
        """Every memory it goes by."""
        return tuple(memory.path for memory in self.seen)

    @property
    def moved(self) -> dict[str, str]:
        """What is retired, and what says it now."""
        return dict.fromkeys(self.retired, self.keeper)

    @property
    def written(self) -> Memory | None:
        """The memory that stays, with its new text; None when that does not change."""
        return parse(self.keeper, self.text.encode("utf-8", "surrogatepass")) if self.text else None

    def was(self, path: str) -> Memory:
        """One of its memories, as it was read."""
        return next(memory for memory in self.seen if memory.path == path)

    def changes(self) -> Iterator[Change]:
        """What to commit. A memory that stays as it is takes part, so that it must still be what was read."""
        for memory in self.seen:
            if memory.path in self.retired:
                yield Change(memory.path, None, memory.version)
            else:
                new = self.text.encode() if self.text and memory.path == self.keeper else memory.data
                yield Change(memory.path, new, memory.version)

    def diff(self) -> str:
        """What it changes, line by line."""
        from memsheaf.history import diff

        parts = []
        if self.text:
            parts.append(diff(self.keeper, self.was(self.keeper).text, self.text, labels=("now", "planned")))
        parts += [diff(path, self.was(path).text, "", labels=("now", "retired")) for path in self.retired]
        return "\n".join(parts)


def is_fixed(memory: Memory) -> bool:
    """Whether no consolidation may touch it by itself: a person's, or what nobody may touch."""
    return memory.source == "user" or is_untouchable(memory)


def is_untouchable(memory: Memory) -> bool:
    """Whether no consolidation may touch it at all: pinned, a fact, a program's, or not wholly understood."""
    return memory.pinned or is_fact(memory.path) or memory.is_item or memory.state != "ok" or bool(memory.warnings)


Fixed = Callable[[Memory], bool]


def is_usable(memory: Memory) -> bool:
    """Whether others may be held against it: a header that is understood, no second version of another file.

    Nor what a program keeps under a key: it goes when the program wants, and may be about somebody else.
    """
    return memory.state == "ok" and not memory.is_item


def expired(memories: Iterable[Memory], today: date, fixed: Fixed = is_fixed) -> Iterator[PlanGroup]:
    """What has stopped being true, one group each."""
    for memory in memories:
        ended = _date(memory.expires)
        if ended and ended < today and not fixed(memory):
            yield PlanGroup("expired", f"it expired on {ended.isoformat()}", (memory,), retired=(memory.path,))


def redated(memories: Iterable[Memory], today: date, fixed: Fixed = is_fixed) -> Iterator[PlanGroup]:
    """Memories whose "tomorrow" gets the day it meant: seen from the day on which all of it was written."""
    from memsheaf.text.dates import absolute

    for memory in memories:
        day = _written_on(memory)
        if day is None or fixed(memory):
            continue
        described = memory.page.get("description")
        body, description = absolute(memory.body, day), absolute(described, day)
        if (body, description) == (memory.body, described):
            continue
        with suppress(TextRefused):  # a header that cannot be edited stays as it is
            fields = {"updated": today.isoformat(), "source": _source(memory), "description": description or None}
            text = edited(memory.text, fields=fields, body=body)
            yield PlanGroup("dates", f"relative dates, as of {day.isoformat()}", (memory,), memory.path, text)


def duplicates(memories: Iterable[Memory], today: date, most: int, fixed: Fixed = is_fixed) -> Iterator[PlanGroup]:
    """Memories that say the same as another, at most so many at once, with the one that stays: the best of them.

    Those that cannot be merged without touching what is fixed, or without one doubt spreading, are left.
    """
    ranked = sorted(
        (memory for memory in memories if is_usable(memory)), key=lambda memory: _rank(memory, fixed), reverse=True
    )
    said = [frozenset(fact(memory)) for memory in ranked]
    near = _neighbours(said)
    taken: set[int] = set()
    for number, keeper in enumerate(ranked):
        if number in taken:
            continue
        others = [
            other
            for other in near[number]
            if other not in taken and likeness(said[number], said[other]) >= LIKE
            and same(keeper, ranked[other]) >= LIKE and _may_go(ranked[other], keeper, fixed)
        ]  # fmt: skip
        if others:
            taken.update((number, *others))
            with suppress(TextRefused):  # a header that cannot be edited stays as it is
                yield merged(keeper, [ranked[other] for other in others[:most]], today, fixed)


def merged(keeper: Memory, others: Sequence[Memory], today: date, fixed: Fixed) -> PlanGroup:
    """One memory with what the others say more, which are retired."""
    retired = tuple(other.path for other in others)
    text = ""
    if not fixed(keeper):
        # of another trust are only those that say nothing more: they are no sources
        sources = [other for other in others if other.trust == keeper.trust]
        text = united(keeper, sources, today, body=_with_more(keeper, sources), replaced=retired)
    return PlanGroup("merge", "they say the same", (keeper, *others), keeper.path, text, retired)


def united(
    keeper: Memory,
    others: Sequence[Memory],
    today: date,
    *,
    body: str,
    replaced: Sequence[str],
    name: str = "",
    description: str = "",
) -> str:
    """The text of a memory that stands for others, too: evidence united, trust that of the least trusted."""
    everyone = (keeper, *others)
    before = (path for memory in everyone for path in memory.supersedes)
    made = [memory.created for memory in everyone if memory.created]
    fields: dict[str, str | Sequence[str] | None] = {
        "updated": today.isoformat(),
        "source": _source(keeper),
        "citations": _each(place for memory in everyone for place in memory.citations) or None,
        "supersedes": _each([*before, *replaced]) or None,
    }
    if name:
        fields["name"] = name
    if description:
        fields["description"] = description
    if made:
        fields["created"] = min(made)
    if any(memory.trust == "unconfirmed" for memory in everyone):
        fields["trust"] = "unconfirmed"
    return edited(keeper.text, fields=fields, body=body)


def _rank(memory: Memory, fixed: Fixed) -> tuple[object, ...]:
    """What makes one memory the better of two that say the same; the path, so that it is always the same one."""
    return (
        memory.pinned,
        memory.source == "user",
        fixed(memory),
        memory.trust == "confirmed",
        len(set(fact(memory))),
        memory.updated or memory.created,
        memory.path,
    )


def _neighbours(said: Sequence[frozenset[str]]) -> list[list[int]]:
    """For each memory, later ones that may be near-duplicates, the likeliest first.

    Two texts that are so alike share one of their rarest words: of 20, at most 3 are not in the other.
    """
    often = Counter(word for words in said for word in words)
    marks = [
        sorted(words, key=lambda word: (often[word], word))[: int(len(words) * (1 - LIKE)) + 1] for words in said
    ]
    holders: dict[str, list[int]] = {}
    found: list[list[int]] = []
    for number in range(len(said) - 1, -1, -1):
        shared = Counter(other for word in marks[number] for other in holders.get(word, ())[-COMPARED:])
        found.append([other for other, _ in shared.most_common(COMPARED)])
        for word in marks[number]:
            holders.setdefault(word, []).append(number)
    return found[::-1]


def _may_go(other: Memory, keeper: Memory, fixed: Fixed) -> bool:
    """Whether one may be retired for the other, if they say the same.

    What is unconfirmed adds nothing to what is confirmed, and what is fixed cannot take anything up.
    """
    if fixed(other) or other.kind != keeper.kind or other.expires != keeper.expires:
        return False
    if other.trust == keeper.trust and not fixed(keeper):
        return True
    return not says_more(other, keeper) and (fixed(keeper) or keeper.trust == "confirmed")


def _source(memory: Memory) -> str:
    """Who wrote it after a change: a person's own, who let it happen, stays theirs."""
    return "user" if memory.source == "user" else BY


def _with_more(keeper: Memory, others: Sequence[Memory]) -> str:
    """The body of the keeper, and the lines of the others that say something it does not."""
    end = "\r\n" if "\r\n" in keeper.body else "\n"
    text = keeper
    body = keeper.body
    for other in others:
        for line in (*other.body.splitlines(), other.description, other.name):
            if line.strip() and says_more(line, text):
                body = body.rstrip("\r\n") + end + line.rstrip() + end
                text = parse(keeper.path, (keeper.page.head + body).encode())
    return body


def _written_on(memory: Memory) -> date | None:
    """The one day on which all of it was written; None when it was changed since."""
    if memory.updated and memory.updated[:10] != memory.created[:10]:
        return None
    return _date(memory.created)


def _date(value: str) -> date | None:
    """The day a header names; None for what is none."""
    try:
        return date.fromisoformat(value[:10])
    except ValueError:
        return None


def _each(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))
