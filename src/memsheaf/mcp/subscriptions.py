"""Clients of the HTTP server: what each is offered, concurrency limits, change notifications.

A conversation has an `Offer` of its own where the protocol has conversations: in the era of the handshake. In the
modern era every request stands alone, and all share one that remembers nothing.
"""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, TypeVar

from memsheaf.adapters import missing

try:
    import anyio
    import anyio.from_thread
    import anyio.to_thread
    import mcp_types as types
    from mcp.server.connection import Connection
    from mcp.server.context import ServerRequestContext
    from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourcesListChanged, ResourceUpdated
    from mcp_types.version import MODERN_PROTOCOL_VERSIONS
except ImportError as error:
    raise missing("mcp", error) from None

from memsheaf.errors import MemsheafError
from memsheaf.mcp.offer import Offer, ResourceChange
from memsheaf.reader import asked_at

T = TypeVar("T")

WATCH_SECONDS = 2.0
MOMENT = 0.25  # seconds that a call may hold one of the two slots

Opened = Callable[[bool], Offer]  # opens an offer: for one conversation (True), or shared by all clients (False)
Context = ServerRequestContext[Any, Any]


class ClientSession(NamedTuple):
    """One client of the handshake: what it is offered, where it is reached, what it wants to be told about."""

    offer: Offer
    connection: Connection
    subscribed: set[str]


class WorkSlots:
    """Limits concurrent work: two calls at a time, first come, first served, and one writer.

    A call that takes longer than MOMENT, such as a write that waits for another process, gives up its slot.
    """

    def __init__(self) -> None:
        self._two = anyio.CapacityLimiter(2)
        self._writing = anyio.Lock()

    async def run(self, work: Callable[..., T], *arguments: object, writes: bool) -> T:
        """Run the work in a worker thread once a slot is free."""
        arrived, mine = time.monotonic(), object()

        def begun() -> T:
            with asked_at(arrived):
                return work(*arguments)

        await self._two.acquire_on_behalf_of(mine)
        leaving = asyncio.get_running_loop().call_later(MOMENT, self._leave, mine)
        try:
            if not writes:
                return await anyio.to_thread.run_sync(begun)
            if self._writing.locked():
                self._leave(mine)
            async with self._writing:
                return await anyio.to_thread.run_sync(begun)
        finally:
            leaving.cancel()
            self._leave(mine)

    def _leave(self, one: object) -> None:
        with suppress(RuntimeError):  # it has left already
            self._two.release_on_behalf_of(one)


class Clients:
    """All connected clients. They get notifications of changes since they connected."""

    def __init__(self, opened: Opened, *, watch: float = WATCH_SECONDS) -> None:
        self.turns = WorkSlots()
        self._opened = opened
        self._seconds = watch
        self._shared: Offer | None = None
        self._opening = anyio.Lock()
        self._conversations: dict[int, ClientSession] = {}
        self._bus = InMemorySubscriptionBus()
        self._streams = ListenHandler(self._bus)
        self._listening = 0
        self._seen: str | None = None  # the last commit that anybody was told about; None while nobody is there
        self._woken = anyio.Event()

    async def offer_for(self, context: Context) -> Offer:
        """What the client that asks is offered. Raises MemsheafError."""
        if is_modern(context):
            return await self.shared_offer()
        return (await self.conversation(context)).offer

    async def conversation(self, context: Context) -> ClientSession:
        """The conversation that a request of the handshake belongs to; it ends with its connection."""
        connection = context.session._connection  # the SDK gives its handlers no other way to it
        number = id(connection)
        if number not in self._conversations:
            async with self._opening:
                if number not in self._conversations:
                    offer = await anyio.to_thread.run_sync(self._opened, True)
                    self._conversations[number] = ClientSession(offer, connection, set())
                    connection.exit_stack.callback(self._conversations.pop, number, None)
            await self._attend()
        return self._conversations[number]

    async def shared_offer(self) -> Offer:
        """The offer that all stateless requests share. Raises MemsheafError."""
        if self._shared is None:
            async with self._opening:
                if self._shared is None:
                    self._shared = await anyio.to_thread.run_sync(self._opened, False)
        return self._shared

    async def listen(
        self, context: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Tell a client of the modern era what changes, until it hangs up."""
        self._listening += 1
        try:
            with suppress(MemsheafError):  # the next call says what is wrong
                await self._attend()
            return await self._streams(context, params)
        finally:
            self._listening -= 1

    def hang_up(self) -> None:
        """End the streams of those who listen."""
        self._streams.close()

    def wake(self) -> None:
        """Look soon: something was changed through us."""
        self._woken.set()

    async def watch(self) -> None:
        """Send notifications of our own changes, and check regularly for those of other processes."""
        looked = anyio.current_time()
        while True:
            with anyio.move_on_after(self._seconds):
                await self._woken.wait()
            self._woken = anyio.Event()
            is_anybody = bool(self._conversations or self._listening)
            if not is_anybody and self._shared is None:
                continue
            is_due = anyio.current_time() - looked >= self._seconds
            looked = anyio.current_time() if is_due else looked
            try:
                offer = await self.shared_offer()
                changes = partial(offer.changes, self._seen if is_anybody else None, look=is_due)
                change, seen = await anyio.to_thread.run_sync(changes)
                self._seen = seen if is_anybody else None
                if change:
                    await self._announce(change)
            except MemsheafError:
                continue  # the next call says what is wrong
            except Exception:  # noqa: BLE001 - a mistake of ours must not end the server; the next look may work
                traceback.print_exc()

    async def _attend(self) -> None:
        """Note the last commit at the first client, so that later ones are reported."""
        if self._seen is None:
            last = await anyio.to_thread.run_sync((await self.shared_offer()).last)
            self._seen = last if self._seen is None else self._seen

    async def _announce(self, change: ResourceChange) -> None:
        for uri in change.uris:
            await self._bus.publish(ResourceUpdated(uri=uri))
        if change.listed:
            await self._bus.publish(ResourcesListChanged())
        async with anyio.create_task_group() as group:  # one that does not read keeps the others waiting for no one
            for one in list(self._conversations.values()):
                group.start_soon(_tell, one, change)


async def _tell(one: ClientSession, change: ResourceChange) -> None:
    """Tell a client of the handshake what changed, if it takes it within a moment."""
    with anyio.move_on_after(WATCH_SECONDS):
        for uri in one.subscribed.intersection(change.uris):
            await one.connection.send_resource_updated(uri)
        if change.listed and (one.subscribed or one.offer.has_listed):
            await one.connection.send_resource_list_changed()


def ignore_progress(done: int, total: int, doing: str) -> None:
    """Progress callback of a client that asked for none: it only checks whether the call was cancelled."""
    anyio.from_thread.check_cancelled()


def is_modern(context: Context) -> bool:
    """Whether the request carries who asks itself, and belongs to no conversation."""
    return context.protocol_version in MODERN_PROTOCOL_VERSIONS
