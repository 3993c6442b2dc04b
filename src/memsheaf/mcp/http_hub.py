"""The HTTP server of a hub: each request acts for the member whose token it shows, and leaves nothing behind here.

Any number of these may run, and any of them may answer the next request: there are no sessions. Nobody is told of
changes, since the server that made one may be another.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextvars import ContextVar
from itertools import chain, pairwise
from typing import Any

import anyio.to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from memsheaf.errors import HubUnreachable, MemsheafError, TextRefused
from memsheaf.hub.jobs import queue_turns
from memsheaf.hub.server_replicas import Caller, ServerReplicas
from memsheaf.hub.service import HubService
from memsheaf.mcp.http_auth import Admit
from memsheaf.mcp.offer import Offer, Progress
from memsheaf.mcp.protocol import tool_result
from memsheaf.recall.turns import ROLES, Message, Turn
from memsheaf.scope import check_label
from memsheaf.tools import READING
from memsheaf.work.review import share_proposals

TURNS = "/turns"
PROJECT, AGENT = b"memsheaf-project", b"memsheaf-agent"  # headers that name them
MOST_MESSAGES = 1_000  # in one request
_SHAPE = '{"conversation": "…", "messages": [{"role": "…", "text": "…", "id": "…"}], "scope": "…"}'

_caller: ContextVar[Caller] = ContextVar("caller")


def admit_members(service: HubService) -> Admit:
    """Admit requests with the token of a member, and serve them as that member."""

    async def admit(token: str, headers: list[tuple[bytes, bytes]]) -> bool:
        known = await anyio.to_thread.run_sync(service.find_member, token)
        if known is None:
            return False
        named = [[value.decode("latin-1") for key, value in headers if key == name] for name in (PROJECT, AGENT)]
        project, agent = (check_label(values[0], "project or agent") if values else "" for values in named)
        _caller.set(Caller.asking(known, project, agent))
        return True

    return admit


class MemberOffer(Offer):
    """The memories of the member who asks, opened when they are needed. Each request has its own."""

    def __init__(self, replicas: ServerReplicas, *, reading: bool) -> None:
        self._replicas = replicas
        self._caller = _caller.get()
        self._is_reading = reading

    def answer(self, method: str, params: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
        """Return the result of a request. Raises MemsheafError."""
        if method == "tools/call" and self._is_reading and params["name"] not in READING:
            return tool_result("Error: this server is for reading only.", failed=True)
        with self._replicas.use(self._caller) as view:  # it may be dropped afterwards, and proposals with it
            offer = view.kept.setdefault("offer", Offer(view.layers, remember=False))
            assert isinstance(offer, Offer)
            if method != "tools/call":
                return offer.answer(method, params, progress)
            answer = offer.call(params["name"], params.get("arguments") or {}, progress)
            for change in answer.touched:
                if change.action != "proposed":
                    continue
                if outcome := share_proposals(view.layers.only(change.scope)).get(change.path):
                    why = f"the same was proposed before as {change.path}, and {outcome}; it does not wait for review"
                    return tool_result(f"Error: not saved: {why}. Tell the user, who can save it.", failed=True)
            return tool_result(answer.text, failed=answer.failed)


def turns_route(service: HubService) -> Route:
    """`POST /turns`: what was said, for the workers to learn from."""

    async def take(request: Request) -> JSONResponse:
        try:
            scope, turns = parse_turns(await request.body())
            caller = _caller.get()
            added = await anyio.to_thread.run_sync(queue_turns, service, caller, caller.space_of(scope), turns)
        except HubUnreachable as error:
            return JSONResponse({"error": str(error)}, 503)
        except MemsheafError as error:
            return JSONResponse({"error": str(error)}, 400)
        return JSONResponse({"added": added}, 202)

    return Route(TURNS, take, methods=["POST"])


def parse_turns(body: bytes) -> tuple[str, list[Turn]]:
    """The scope that learns, "" for the nearest, and the turns of a conversation. Raises TextRefused."""
    try:
        given = json.loads(body)
        rows = [Message(*(row.get(key, "") for key in Message._fields)) for row in given["messages"]]
        name, scope = given.get("conversation", ""), given.get("scope", "")
        if not all(isinstance(one, str) for one in (name, scope, *chain(*rows))) or {row.role for row in rows} - {
            *ROLES
        }:
            raise ValueError
    except (ValueError, RecursionError, AttributeError, KeyError, TypeError):
        raise TextRefused(f"a conversation is {_SHAPE}; a role is one of {', '.join(ROLES)}") from None
    if len(rows) > MOST_MESSAGES:
        raise TextRefused(f"these are {len(rows):,} messages; a request takes {MOST_MESSAGES:,}")
    starts = [at for at, row in enumerate(rows) if row.role == "user" or not at]
    return scope, [Turn(name, tuple(rows[at:end])) for at, end in pairwise([*starts, len(rows)])]
