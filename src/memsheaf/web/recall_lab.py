"""Recall lab: which memories would be recalled for a message, and why; nothing is counted as used."""

from __future__ import annotations

from typing import NamedTuple

from starlette.responses import Response

from memsheaf.errors import Ref
from memsheaf.recall.recall import GATE, Candidate, Recall
from memsheaf.web.page import PageRequest
from memsheaf.web.review import key_of

MAX_MESSAGE_CHARS = 10_000
MAX_CANDIDATES = 12
BAR_START, BAR_END = 0.5, 1.5  # the fit at both ends of a bar; a larger fit moves the end
CUTS = {
    "": "recalled",
    "excluded": "excluded",
    "gate": "below the threshold",
    "score": "score too low",
    "model": "not selected",
    "limit": "over the limit",
}


class ShownCandidate(NamedTuple):
    """A candidate, where its memory is, and its bar in percent: by meaning, and by words behind it."""

    key: str
    path: str
    candidate: Candidate
    meaning: float
    words: float


def show_recall(page: PageRequest) -> Response:
    """Show the candidates for a message, and the text that an agent would get."""
    message = page.query["q"][:MAX_MESSAGE_CHARS]
    key = page.query["scope"] or "project"
    known = page.scope(key)
    layers = page.scopes.around(known)
    recall = Recall()
    if message.strip():
        recall = layers.session(tree=page.scopes.tree(known)).why(message)
    scale = 100 / (max([BAR_END, *(candidate.fit for candidate in recall.candidates)]) - BAR_START)
    rows = []
    for candidate in recall.candidates[:MAX_CANDIDATES]:
        place = key_of(known, Ref(candidate.scope, candidate.row.path))
        meaning = scale * max(0.0, candidate.by_meaning - BAR_START)
        words = scale * max(0.0, candidate.fit - BAR_START) - meaning
        rows.append(ShownCandidate(*place, candidate, meaning, words))
    return page.show(
        "recall_lab.html",
        message=message,
        key=key,
        recall=recall,
        rows=rows,
        more=len(recall.candidates) - len(rows),
        cuts=CUTS,
        threshold=scale * (GATE - BAR_START),
        home=layers.home,
        prompts=layers.prompts() if page.query["prompt"] else (),
    )
