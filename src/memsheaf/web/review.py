"""Review: the proposals and unconfirmed memories of every scope, as cards, and the decisions about them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from starlette.responses import Response

from memsheaf.errors import MemsheafError, NotFound, Ref
from memsheaf.learn.review_queue import Decision
from memsheaf.scope import KnownScope
from memsheaf.sheaf import SCRATCH
from memsheaf.store import Version
from memsheaf.web.page import PageRequest
from memsheaf.web.text_changes import TextPiece, compare_texts
from memsheaf.work.review import Review, ReviewCard

CARDS_PER_PAGE = 10
MAX_DECISIONS = 10
MAX_REASON_CHARS = 500


class ShownCard(NamedTuple):
    """A card, its scope, and the texts before and after in pieces."""

    known: KnownScope
    card: ReviewCard
    before: list[TextPiece]
    after: list[TextPiece]

    @property
    def id(self) -> str:
        """The name of the card in forms: the key of the scope, and the id in it."""
        return f"{self.known.key} {self.card.item.id}"

    @property
    def ticket(self) -> str:
        """The name that a decision uses: with the version that was shown."""
        return f"{self.known.key} {self.card.version}@{self.card.item.id}"


def show_review(page: PageRequest) -> Response:
    """Show the queue, page by page."""
    queues = [(known, _open_queue(page, known)) for known in page.site.known()]
    waiting = [(known, queue, item) for known, queue in queues for item in queue.waiting()]
    counts = Counter(known.key for known, _, _ in waiting)
    wanted = page.query["scope"]
    selected = [entry for entry in waiting if wanted in ("", entry[0].key)]
    last = max(1, -(-len(selected) // CARDS_PER_PAGE))
    number = min(page.number, last)
    on_page = selected[(number - 1) * CARDS_PER_PAGE : number * CARDS_PER_PAGE]
    decisions = [
        (known, decision)
        for known, queue in queues
        if known.layer not in SCRATCH  # the project has the decisions about its tasks and sessions
        for decision in queue.decisions()
    ]
    decisions.sort(key=lambda entry: entry[1].at, reverse=True)
    return page.show(
        "review.html",
        cards=[_make_card(known, queue, item.id) for known, queue, item in on_page],
        total=len(waiting),
        counts=counts,
        tabs=[known for known in page.site.known() if known.key in counts],
        wanted=wanted,
        at=number,
        last=last,
        decisions=decisions[:MAX_DECISIONS],
        key_of=key_of,
        anchor=anchor,
    )


def edit_proposal(page: PageRequest) -> Response:
    """Show a card with its text in a form."""
    known, queue, name, _ = _find_card(page, page.query["id"])
    return page.show("review_edit.html", one=_make_card(known, queue, name), anchor=anchor)


def approve(page: PageRequest) -> Response:
    """Approve the cards that the form names, with another text if it has one."""
    content = page.form["content"].replace("\r\n", "\n")
    return _decide(
        page, "approved.", lambda queue, name, version: queue.approve(name, content=content, expect=version)
    )


def reject(page: PageRequest) -> Response:
    """Reject the cards that the form names, with a reason if it has one."""
    reason = page.form["reason"][:MAX_REASON_CHARS]
    return _decide(
        page,
        "rejected; not learned again.",
        lambda queue, name, version: queue.reject(name, reason=reason, expect=version),
    )


def undo_decision(page: PageRequest) -> Response:
    """Undo a decision, so that the card is in the queue again."""
    known, queue, name, _ = _find_card(page, page.form["id"])
    queue.undo(name)
    return _go_back(page, "Undone: it is back in review.", f"{known.key} {name}")


def _decide(page: PageRequest, outcome: str, decide: Callable[[Review, str, Version], Decision]) -> Response:
    count = 0
    problems = []
    tickets = page.ticked("id")
    if not tickets:
        return _go_back(page, "Nothing was selected.", "")
    for ticket in tickets:
        _, queue, name, version = _find_card(page, ticket)
        try:
            decide(queue, name, version)
            count += 1
        except MemsheafError as error:
            if isinstance(error, NotFound) and str(error.ref) == name:
                problems.append("This was already decided.")
            elif len(tickets) == 1:
                raise
            else:
                problems.append(f"{name} was not changed: {error}.")
    notice = [f"{count:,} {outcome}"] if count else []
    return _go_back(page, " ".join([*notice, *problems]), page.form["next"])


def _go_back(page: PageRequest, notice: str, card: str) -> Response:
    """Go back to the queue, at a card."""
    response = page.go(page.back("/review"), notice)
    if card:
        response.headers["location"] += f"#{anchor(card)}"
    return response


def anchor(name: str) -> str:
    """Return the id of a card's element.

    >>> anchor("project 3f2a91bc"), anchor("user user_café.md")
    ('project-3f2a91bc', 'user-user_caf-.md')
    """
    return re.sub(r"[^A-Za-z0-9._~-]", "-", name)


def _find_card(page: PageRequest, ticket: str) -> tuple[KnownScope, Review, str, Version]:
    """Return scope, queue, id and shown version of the card that a form names. Raises NotFound."""
    key, _, name = ticket.partition(" ")
    known = page.scope(key)
    version = ""
    if match := re.fullmatch("([0-9a-f]{64}|)@(.*)", name):
        version, name = match.groups()
    elif not name:
        raise NotFound(ticket)
    return known, _open_queue(page, known), name, version


def _open_queue(page: PageRequest, known: KnownScope) -> Review:
    return Review(page.scopes.around(known), scope=known.name)


def _make_card(known: KnownScope, queue: Review, id: str) -> ShownCard:
    card = queue.card(id)
    before, after = compare_texts(card.before, card.content) if card.replaces else ([], [])
    return ShownCard(known, card, before, after)


def key_of(known: KnownScope, ref: Ref) -> tuple[str, str]:
    """Return the key and the path of a memory of the sheaf around a scope."""
    if ref.scope in ("", known.name):
        return known.key, ref.path
    key = ref.scope.replace("/", "~")
    if ref.scope.startswith(("task/", "session/")) and known.key not in ("project", "user"):
        key = f"{known.key}~{key}"
    return key, ref.path
