"""Recall lab: which memories would go beside a message, and why; nothing is counted as used."""

from __future__ import annotations

from typing import NamedTuple

from starlette.responses import Response

from memsheaf.recall.recall import GATE, Candidate, Recall
from memsheaf.scope import shown
from memsheaf.web.page import PageRequest, get
from memsheaf.web.review import key_of

CANDIDATES = 12  # that are shown
FIRST, LAST = 0.5, 1.5  # the fits at both ends of a bar, unless one is larger


class ShownCandidate(NamedTuple):
    """A candidate, where its memory is, and its bar in percent: by meaning, and by words behind it."""

    key: str
    path: str
    candidate: Candidate
    meaning: float
    words: float


@get("/recall")
def recall_lab(page: PageRequest) -> Response:
    """A message, the candidates, and the text that an agent would get."""
    message, key = page.query["q"][:10_000], page.query["scope"] or "project"
    known, layers = page.scope(key), page.scopes.layers(key)
    found = layers.session(tree=page.scopes.tree(key)).why(message) if message.strip() else Recall()
    scale = 100 / (max([LAST, *(one.fit for one in found.candidates)]) - FIRST)
    rows = []
    for one in found.candidates[:CANDIDATES]:
        place = key_of(known, shown(one.scope, one.row.path, layers.home))
        meaning = scale * max(0.0, one.by_meaning - FIRST)
        rows.append(ShownCandidate(*place, one, meaning, scale * max(0.0, one.fit - FIRST) - meaning))
    return page.show(
        "recall_lab.html", message=message, key=key, found=found, rows=rows, more=len(found.candidates) - len(rows),
        gate=scale * (GATE - FIRST), home=layers.home, prompts=layers.prompts() if page.query["prompt"] else (),
    )  # fmt: skip
