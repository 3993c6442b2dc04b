"""The plan of a consolidation: groups of memories to merge, rewrite or retire, and those that rules find.

A group is the smallest thing that is done or left: the memories it is based on as they were read, at most one that
stays, and those that are retired because of it. No two groups share a memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import date
from hashlib import sha256
from typing import NamedTuple

from memsheaf.errors import TextRefused
from memsheaf.frontmatter import edited
from memsheaf.guard.paths import is_fact
from memsheaf.history import diff
from memsheaf.memory import Memory, parse
from memsheaf.store import Change
from memsheaf.text.dates import absolute, parse_day
from memsheaf.text.similarity import SAME, alike, fact, group_alike, has_order, lost

BY = "consolidation"


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
    def id(self) -> str:
        """What it is known by: another group, or this one with other texts, has another id."""
        seen = [(memory.path, memory.version, memory.path in self.retired) for memory in self.seen]
        return sha256(repr((self.action, self.keeper, self.text, seen)).encode("utf-8", "replace")).hexdigest()[:12]

    @property
    def paths(self) -> tuple[str, ...]:
        """Every memory it is based on."""
        return tuple(memory.path for memory in self.seen)

    @property
    def moved(self) -> dict[str, str]:
        """What is retired, and the memory that says it now, "" when none does."""
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
            new = self.text.encode() if self.text and memory.path == self.keeper else memory.data
            yield Change(memory.path, None if memory.path in self.retired else new, memory.version)

    def diff(self) -> str:
        """What it changes, line by line."""
        parts = []
        if self.text:
            parts.append(diff(self.keeper, self.was(self.keeper).text, self.text, labels=("now", "planned")))
        parts += [diff(path, self.was(path).text, "", labels=("now", "retired")) for path in self.retired]
        return "\n".join(parts)


def is_usable(memory: Memory) -> bool:
    """Whether others may be compared with it: a header that is understood, and nothing that a program keeps."""
    return memory.state == "ok" and not memory.is_item


def is_fixed(memory: Memory, *, mine: bool = False) -> bool:
    """Whether no consolidation may touch it: pinned, a fact, a program's, not wholly understood, or a person's.

    With `mine` a person lets theirs be touched.
    """
    is_untouchable = memory.pinned or is_fact(memory.path) or memory.is_item
    is_unclear = memory.state != "ok" or bool(memory.warnings)
    return is_untouchable or is_unclear or (memory.source == "user" and not mine)


def without(memories: Iterable[Memory], groups: Iterable[PlanGroup]) -> list[Memory]:
    """The memories that are in none of these groups."""
    taken = {path for group in groups for path in group.paths}
    return [memory for memory in memories if memory.path not in taken]


def find_groups(memories: Sequence[Memory], today: date, most: int, *, mine: bool = False) -> list[PlanGroup]:
    """What can be done without a model: retire what expired, merge duplicates, make relative dates absolute.

    A group retires at most `most` memories. With `mine`, what a person wrote takes part.
    """
    groups = list(_find_expired(memories, today, mine))
    groups += _find_duplicates(without(memories, groups), today, most, mine)
    groups += _find_relative_dates(without(memories, groups), today, mine)
    return [group._replace(mine=mine) for group in groups]


def _find_expired(memories: Iterable[Memory], today: date, mine: bool) -> Iterator[PlanGroup]:
    for memory in memories:
        ended = parse_day(memory.expires)
        if ended and ended < today and not is_fixed(memory, mine=mine):
            yield PlanGroup("expired", f"it expired on {ended.isoformat()}", (memory,), retired=(memory.path,))


def _find_relative_dates(memories: Iterable[Memory], today: date, mine: bool) -> Iterator[PlanGroup]:
    """Memories whose "tomorrow" becomes the day it meant, if all of the text was written on one day."""
    for memory in memories:
        is_changed = bool(memory.updated) and memory.updated[:10] != memory.created[:10]
        day = None if is_changed else parse_day(memory.created)
        if day is None or is_fixed(memory, mine=mine):
            continue
        described = memory.page.get("description")
        body, description = absolute(memory.body, day), absolute(described, day)
        if (body, description) == (memory.body, described):
            continue
        with suppress(TextRefused):  # a header that cannot be edited stays as it is
            fields = {"updated": today.isoformat(), "source": _source(memory), "description": description or None}
            text = edited(memory.text, fields=fields, body=body)
            yield PlanGroup("dates", f"relative dates, as of {day.isoformat()}", (memory,), memory.path, text)


def _find_duplicates(memories: Iterable[Memory], today: date, most: int, mine: bool) -> Iterator[PlanGroup]:
    """Memories that say the same as another, with the one that stays: the best of them."""
    usable = [memory for memory in memories if is_usable(memory)]
    ranked = sorted(usable, key=lambda memory: _rank(memory, mine), reverse=True)
    facts = [fact(memory) for memory in ranked]

    def joins(keeper: int, other: int) -> bool:
        is_same = alike(facts[keeper], facts[other]) >= SAME and has_order(facts[keeper], facts[other])
        return is_same and _may_retire(ranked[other], ranked[keeper], mine)

    for first, *others in group_alike(facts, joins):
        with suppress(TextRefused):  # a header that cannot be edited stays as it is
            yield _merge(ranked[first], [ranked[other] for other in others[:most]], today, mine)


def _rank(memory: Memory, mine: bool) -> tuple[object, ...]:
    """What makes one memory the better of two that say the same; at last the path, so that the order is stable."""
    return (
        memory.pinned,
        memory.source == "user",
        is_fixed(memory, mine=mine),
        memory.trust == "confirmed",
        len(set(fact(memory))),
        memory.updated or memory.created,
        memory.path,
    )


def _may_retire(other: Memory, keeper: Memory, mine: bool) -> bool:
    """Whether one may be retired for the keeper; if that is fixed or more trusted, only one that adds nothing."""
    if is_fixed(other, mine=mine) or other.kind != keeper.kind or other.expires != keeper.expires:
        return False
    is_keeper_fixed = is_fixed(keeper, mine=mine)
    if other.trust == keeper.trust and not is_keeper_fixed:
        return True
    return not lost([other], keeper) and (is_keeper_fixed or keeper.trust == "confirmed")


def _merge(keeper: Memory, others: Sequence[Memory], today: date, mine: bool) -> PlanGroup:
    """The keeper with the lines of the others that say something it does not."""
    retired = tuple(other.path for other in others)
    text = ""
    if not is_fixed(keeper, mine=mine):
        # those of another trust say nothing more: they are no sources
        sources = [other for other in others if other.trust == keeper.trust]
        end = "\r\n" if "\r\n" in keeper.body else "\n"
        whole, body = keeper, keeper.body
        for other in sources:
            for line in (*other.body.splitlines(), other.description, other.name):
                if line.strip() and lost([line], whole):
                    body = body.rstrip("\r\n") + end + line.rstrip() + end
                    whole = parse(keeper.path, (keeper.page.head + body).encode())
        text = unite(keeper, sources, today, body=body, replaced=retired)
    return PlanGroup("merge", "they say the same", (keeper, *others), keeper.path, text, retired)


def unite(
    keeper: Memory,
    others: Sequence[Memory],
    today: date,
    *,
    body: str,
    replaced: Sequence[str],
    name: str = "",
    description: str = "",
) -> str:
    """The text of a merged memory, with the evidence of all and the trust of the least trusted."""
    everyone = (keeper, *others)
    citations = dict.fromkeys(place for memory in everyone for place in memory.citations)
    supersedes = dict.fromkeys([*(path for memory in everyone for path in memory.supersedes), *replaced])
    created = [memory.created for memory in everyone if memory.created]
    fields: dict[str, str | Sequence[str] | None] = {
        "updated": today.isoformat(),
        "source": _source(keeper),
        "citations": list(citations) or None,
        "supersedes": list(supersedes) or None,
    }
    optional = {"name": name, "description": description, "created": min(created, default="")}
    fields |= {key: value for key, value in optional.items() if value}
    if any(memory.trust == "unconfirmed" for memory in everyone):
        fields["trust"] = "unconfirmed"
    return edited(keeper.text, fields=fields, body=body)


def _source(memory: Memory) -> str:
    """The source after a change: what a person wrote, and let be changed, stays theirs."""
    return "user" if memory.source == "user" else BY
