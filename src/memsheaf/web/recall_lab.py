"""Recall lab: which memories would be recalled for a message, and why; nothing is counted as used."""

from __future__ import annotations

from typing import NamedTuple

from starlette.responses import Response

from memsheaf.errors import Ref
from memsheaf.index.scoring import SHOWN_FROM
from memsheaf.open_scope import prompt_sections
from memsheaf.recall.recall import Candidate, Recall
from memsheaf.web.page import PageRequest
from memsheaf.web.review import key_of

MAX_MESSAGE_CHARS = 10_000
MAX_CANDIDATES = 12
CUTS = {
    "": "recalled",
    "excluded": "excluded",
    "unlikely": "below the threshold",
    "model": "not selected",
    "limit": "over the limit",
}


class ShownCandidate(NamedTuple):
    """A candidate, and where its memory is."""

    key: str
    path: str
    candidate: Candidate


def show_recall(page: PageRequest) -> Response:
    """Show the candidates for a message, and the text that an agent would get."""
    message = page.query["q"][:MAX_MESSAGE_CHARS]
    key = page.query["scope"] or "project"
    known = page.scope(key)
    layers = page.scopes.around(known)
    recall = Recall()
    if message.strip():
        recall = layers.session(tree=page.scopes.tree(known)).why(message)
    rows = []
    for candidate in recall.candidates[:MAX_CANDIDATES]:
        rows.append(ShownCandidate(*key_of(known, Ref(candidate.scope, candidate.row.path)), candidate))
    return page.show(
        "recall_lab.html",
        message=message,
        key=key,
        recall=recall,
        rows=rows,
        more=len(recall.candidates) - len(rows),
        cuts=CUTS,
        threshold=100 * SHOWN_FROM,
        home=layers.home,
        prompts=prompt_sections(layers.open_scopes(lasting=True), layers.home) if page.query["prompt"] else (),
    )
