"""Proposals that wait on a hub, for whoever reviews: they come into the review queue, and decisions go back."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from memsheaf.errors import HubUnreachable
from memsheaf.learn.review_queue import ReviewQueue
from memsheaf.sheaf import Sheaf

KNOWN = "hub-proposals.json"
"""The file that holds the ids of what came from the hub and still waits."""


def fetch_proposals(sheaf: Sheaf) -> None:
    """Bring what waits on the hub of a scope, tell it what was decided here, and drop what was decided elsewhere.

    While the hub does not answer, what came before waits. Raises HubRefused.
    """
    hub: Any = sheaf.replica.hub if sheaf.replica else None
    if not hasattr(hub, "proposals"):  # nor has git any
        return
    state, queue = sheaf.state, ReviewQueue(sheaf.state)
    with suppress(HubUnreachable):
        there = dict(hub.proposals())
        for decision in queue.decisions():
            if decision.id in there:
                hub.decide(decision.id, decision.outcome)
                del there[decision.id]
        known = state.load(KNOWN)
        queue.receive(there, known if isinstance(known, list) else ())
        if known != [*there]:
            state.save(KNOWN, [*there])
