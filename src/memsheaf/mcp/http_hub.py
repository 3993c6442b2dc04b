"""The HTTP server of a hub: each request acts for the member whose token it shows, and leaves nothing behind here.

Any number of these may run, and any of them may answer the next request: there are no sessions. Nobody is told of
changes, since the server that made one may be another.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from itertools import chain, pairwise
from typing import Any, Concatenate, ParamSpec, TypeVar

import anyio
import anyio.to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from memsheaf.errors import HubUnreachable, MemsheafError, TextRefused
from memsheaf.hub.service import HubService
from memsheaf.mcp.http_auth import Admit
from memsheaf.mcp.offer import Offer
from memsheaf.mcp.subscriptions import Clients, ClientSession, Context
from memsheaf.recall.turns import ROLES, Message, Turn
from memsheaf.scope import check_label
from memsheaf.tools import READING, ToolAnswer
from memsheaf.work.hub_jobs import queue_turns
from memsheaf.work.hub_replicas import Caller, CallerView, ServerReplicas
from memsheaf.work.review import share_proposals

P = ParamSpec("P")
R = TypeVar("R")

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


def _on_replica(method: Callable[Concatenate[Offer, P], R]) -> Callable[Concatenate[MemberOffer, P], R]:
    """A method of `Offer` that works on the replicas of the member who asks."""

    @wraps(method)
    def ask(offer: MemberOffer, /, *given: P.args, **named: P.kwargs) -> R:
        with offer.replicas.use(offer.caller) as view:
            return method(offer.on(view), *given, **named)

    return ask


class MemberOffer(Offer):
    """What one request is offered: the memories of its member, opened when they are needed."""

    def __init__(self, replicas: ServerReplicas, caller: Caller, *, reading: bool) -> None:
        self.replicas = replicas
        self.caller = caller
        self.reading = reading
        self.has_listed = False

    def on(self, view: CallerView) -> Offer:
        """The offer of these replicas."""
        kept = view.kept.setdefault("offer", Offer(view.layers, remember=False))
        assert isinstance(kept, Offer)
        return kept

    resources = _on_replica(Offer.resources)
    read = _on_replica(Offer.read)
    prompt = _on_replica(Offer.prompt)

    def call(self, name: str, arguments: object, **more: Any) -> ToolAnswer:
        """Run a tool; what keeps it from running is an answer, too."""
        if self.reading and name not in READING:
            return ToolAnswer("Error: this server is for reading only.", failed=True)
        try:
            with self.replicas.use(self.caller) as view:  # it may be dropped afterwards, and proposals with it
                answer = self.on(view).call(name, arguments, **more)
                for one in (one for one in answer.touched if one.action == "proposed"):
                    if outcome := share_proposals(view.layers.sheaf(one.scope)).get(one.path):
                        said = (
                            f"the same was proposed before as {one.path}, and {outcome}; it does not wait for review"
                        )
                        return ToolAnswer(f"Error: not saved: {said}. Tell the user, who can save it.", failed=True)
            return answer
        except MemsheafError as error:
            return ToolAnswer(f"Error: {error}. {error.hint}", failed=True)


class MemberClients(Clients):
    """Clients that have nothing in common: each request gets an offer of its own."""

    def __init__(self, replicas: ServerReplicas, *, reading: bool) -> None:
        super().__init__(lambda alone: MemberOffer(replicas, _caller.get(), reading=reading))

    async def shared_offer(self) -> Offer:
        """The offer of this request."""
        return self._opened(False)

    async def conversation(self, context: Context) -> ClientSession:
        """A conversation that ends with this request."""
        return ClientSession(self._opened(True), context.session._connection, set())

    async def watch(self) -> None:
        """Send no notifications."""
        await anyio.sleep_forever()

    async def _attend(self) -> None:
        pass


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
