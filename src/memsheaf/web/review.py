"""Review: what waits for a person in every scope, as cards, and the decisions about it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from starlette.responses import Response

from memsheaf.errors import MemsheafError, NotFound
from memsheaf.learn.review_queue import Decision
from memsheaf.store import Version
from memsheaf.web.page import PageRequest, get, post
from memsheaf.web.text_changes import TextPiece, compare_texts
from memsheaf.work.all_scopes import KnownScope
from memsheaf.work.review import Review, ReviewCard, WaitingItem
from memsheaf.work.scopes import SCRATCH

CARDS = 10  # on a page
DECISIONS = 10  # that are shown


class ShownCard(NamedTuple):
    """A card, the scope that it waits in, and the texts before and after in pieces."""

    known: KnownScope
    card: ReviewCard
    before: list[TextPiece]
    after: list[TextPiece]

    @property
    def id(self) -> str:
        """What forms name it by: the key of the scope, and the id in it."""
        return f"{self.known.key} {self.card.item.id}"

    @property
    def ticket(self) -> str:
        """What a decision names: with the version that was shown."""
        return f"{self.known.key} {self.card.version}@{self.card.item.id}"


@get("/review")
def review(page: PageRequest) -> Response:
    """The queue, page by page."""
    queues = [(known, _queue(page, known.key)) for known in page.site.known()]
    waiting = [(known, queue, one) for known, queue in queues for one in queue.waiting()]
    counts: dict[str, int] = {}
    for known, _, _ in waiting:
        counts[known.key] = counts.get(known.key, 0) + 1
    wanted = page.query["scope"]
    chosen = [one for one in waiting if wanted in ("", one[0].key)]
    last = max(1, -(-len(chosen) // CARDS))
    number = min(page.number("page"), last)
    cards = [_card(page, *one) for one in chosen[(number - 1) * CARDS : number * CARDS]]
    # those about a task's memories are kept by its project
    own = (pair for pair in queues if pair[0].layer not in SCRATCH)
    decided = sorted(((known, one) for known, queue in own for one in queue.decisions()), key=lambda one: -one[1].at)
    tabs = [known for known in page.site.known() if known.key in counts]
    return page.show(
        "review.html", cards=cards, total=len(waiting), counts=counts, tabs=tabs, wanted=wanted, at=number, last=last,
        decided=decided[:DECISIONS], key_of=key_of, anchor=anchor,
    )  # fmt: skip


@get("/review/edit")
def edit_proposal(page: PageRequest) -> Response:
    """A card with its text in a form."""
    known, queue, name, _ = _named(page, page.query["id"])
    return page.show("review_edit.html", one=_card(page, known, queue, queue.card(name).item), anchor=anchor)


@post("/review/approve")
def approve(page: PageRequest) -> Response:
    """Approve those that the form names, one of them with another text if it has one."""
    content = page.form["content"].replace("\r\n", "\n")
    return _decide(
        page, page.t.review.done_approved, lambda queue, name, seen: queue.approve(name, content=content, expect=seen)
    )


@post("/review/reject")
def reject(page: PageRequest) -> Response:
    """Reject those that the form names, with a reason if it has one."""
    reason = page.form["reason"][:500]
    return _decide(
        page, page.t.review.done_rejected, lambda queue, name, seen: queue.reject(name, reason=reason, expect=seen)
    )


@post("/review/undo")
def undo_decision(page: PageRequest) -> Response:
    """Undo a decision: it waits again."""
    known, queue, name, _ = _named(page, page.form["id"])
    queue.undo(name)
    return _back(page, page.fill(page.t.review.undone), f"{known.key} {name}")


def _decide(page: PageRequest, said: str, decide: Callable[[Review, str, Version], Decision]) -> Response:
    done, problems = 0, []
    names = page.ticked("id")
    if not names:
        return _back(page, page.t.review.none, "")
    for given in names:
        _, queue, name, seen = _named(page, given)
        try:
            decide(queue, name, seen)
            done += 1
        except MemsheafError as error:
            if isinstance(error, NotFound) and error.path == name:
                problems.append(page.t.review.gone)
                continue
            if len(names) == 1:
                raise
            problems.append(page.fill(page.t.review.failed, name=name, why=error))
    told = [page.fill(said, done)] if done else []
    return _back(page, " ".join([*told, *problems]), page.form["next"])


def _back(page: PageRequest, notice: str, card: str) -> Response:
    """To the queue, at a card."""
    answer = page.go(page.back("/review"), notice)
    if card:
        answer.headers["location"] += f"#{anchor(card)}"
    return answer


def anchor(name: str) -> str:
    """The id of a card's element.

    >>> anchor("project 3f2a91bc"), anchor("user user_café.md")
    ('project-3f2a91bc', 'user-user_caf-.md')
    """
    return "".join(char if char.isascii() and (char.isalnum() or char in "._-~") else "-" for char in name)


def _named(page: PageRequest, given: str) -> tuple[KnownScope, Review, str, Version]:
    key, _, name = given.partition(" ")
    known = page.scope(key)
    if found := re.fullmatch("([0-9a-f]{64}|)@(.*)", name):
        return known, _queue(page, key), found[2], found[1]
    if not name:
        raise NotFound(given)
    return known, _queue(page, key), name, ""


def _queue(page: PageRequest, key: str) -> Review:
    return Review(page.scopes.layers(key), scope=str(page.scopes.sheaf(key).scope))


def _card(page: PageRequest, known: KnownScope, queue: Review, item: WaitingItem) -> ShownCard:
    card = queue.card(item.id)
    before, after = compare_texts(card.before, card.content) if card.replaces else ([], [])
    return ShownCard(known, card, before, after)


def key_of(known: KnownScope, name: str) -> tuple[str, str]:
    """The key and the path of a memory that the layers around a scope show under a name."""
    scope, sign, path = name.rpartition(":")
    if not sign:
        return known.key, path
    inside = scope.startswith(("task/", "session/")) and known.key not in ("project", "user")
    return (f"{known.key}~" if inside else "") + scope.replace("/", "~"), path
