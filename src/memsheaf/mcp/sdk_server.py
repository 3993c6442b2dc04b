"""The MCP server on the official SDK: used for HTTP, and as the oracle for the stdio server.

Calls go to threads, so that the event loop never waits for a disk.
"""

from __future__ import annotations

import traceback
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import Any

from memsheaf.adapters import missing

try:
    import anyio
    import anyio.from_thread
    import anyio.to_thread
    import mcp_types as types
    from mcp.server.lowlevel.server import NotificationOptions, Server
    from mcp.server.models import InitializationOptions
    from mcp.shared.exceptions import MCPError
    from mcp.shared.jsonrpc_dispatcher import progress_token_from_params
except ImportError as error:
    raise missing("mcp", error) from None

from memsheaf.errors import MemsheafError
from memsheaf.mcp.answers import ANSWERED, Params, Result, called
from memsheaf.mcp.offer import Offer, Progress
from memsheaf.mcp.protocol import INTERNAL, instructions, refusal, text
from memsheaf.mcp.subscriptions import Clients, Context, ignore_progress, is_modern
from memsheaf.tools import READING

TOLD = 1_000  # reports of progress that may wait for a client; more are left out

Work = Callable[[Offer, Params, Progress], Result]


class SdkServer(Server[None]):
    """The SDK's server with our handlers, one for each method."""

    def __init__(
        self, clients: Clients, version: str, told: Mapping[str, Any], head: Callable[[int], str] | None
    ) -> None:
        self._protocol, self._head = told["instructions"], head
        schemas = {tool["name"]: tool["inputSchema"] for tool in told["tools"]}
        super().__init__(
            "memsheaf",
            title="memsheaf",
            version=version,
            lifespan=_watching,
            get_tool_input_schema=schemas.get,
            on_subscriptions_listen=clients.listen,
        )
        self.clients = clients
        self.middleware.clear()  # a tracer would be told of every call, and nobody asked for one
        for method, (key, made) in LISTS.items():
            found = made.model_validate({key: told[key]})
            self.add_request_handler(method, types.PaginatedRequestParams, partial(_given, found))
        for method, (params, made) in WORKED.items():
            self.add_request_handler(method, params, partial(_answer, clients, made, ANSWERED[method]))
        for method, change in SUBSCRIBED.items():
            self.add_request_handler(method, types.SubscribeRequestParams, partial(_subscribe, clients, change))
        self.add_request_handler("tools/call", types.CallToolRequestParams, partial(_call, clients))
        self.add_notification_handler("notifications/initialized", types.NotificationParams, partial(_greet, clients))

    @property
    def instructions(self) -> str:
        """The instructions for a new client, with the catalog as it is now."""
        return instructions(self._protocol, self._head)

    @instructions.setter
    def instructions(self, value: object) -> None:
        pass  # by the SDK, when it is made

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        """As the SDK does, with notifications when the list of resources changes."""
        options = notification_options or NotificationOptions(resources_changed=True)
        return super().create_initialization_options(options, experimental_capabilities, extensions)


@asynccontextmanager
async def _watching(server: Server[None]) -> AsyncIterator[None]:
    """Watch for changes as long as the server runs."""
    assert isinstance(server, SdkServer)
    async with anyio.create_task_group() as group:
        group.start_soon(server.clients.watch)
        yield
        group.cancel_scope.cancel()


async def _given(found: types.Result, context: Context, params: object) -> types.Result:
    return found


async def _answer(
    clients: Clients, made: type[types.Result], work: Work, context: Context, params: object
) -> types.Result:
    with _told(context):
        return made.model_validate(await _worked(clients, context, work))


async def _subscribe(
    clients: Clients, change: Callable[[set[str], str], None], context: Context, params: types.SubscribeRequestParams
) -> types.Result:
    with _told(context):
        change((await clients.conversation(context)).subscribed, params.uri)
        return types.EmptyResult()


async def _call(clients: Clients, context: Context, params: object) -> types.Result:
    """Run a tool."""
    with _told(context):
        writes = (context.params or {})["name"] not in READING
        try:
            await clients.offer_for(context)
        except MemsheafError as error:
            return types.CallToolResult.model_validate(text(f"Error: {error}. {error.hint}", failed=True))
        try:
            return types.CallToolResult.model_validate(await _worked(clients, context, called, writes=writes))
        finally:
            if writes:
                clients.wake()


async def _greet(clients: Clients, context: Context, params: object) -> None:
    if not is_modern(context):
        with suppress(MemsheafError):  # the first call says what is wrong
            await clients.conversation(context)


@contextmanager
def _told(context: Context) -> Iterator[None]:
    """Turn errors into protocol errors; of an internal error only its name is sent."""
    try:
        yield
    except MemsheafError as error:
        told = refusal(error, "modern" if is_modern(context) else "handshake", dict(context.params or {}))
        raise MCPError(told.code, str(told), told.data) from None
    except MCPError:
        raise
    except Exception as error:  # noqa: BLE001  it must not end the session
        traceback.print_exc()
        raise MCPError(INTERNAL, f"Internal error: {type(error).__name__}") from None


async def _worked(clients: Clients, context: Context, work: Work, *, writes: bool = False) -> Result:
    """Run the work in a worker thread, and report progress if the client asked for it.

    A thread that has begun is waited for, even when the client has gone: a write is made, or not made. One that
    reports its progress learns there that nobody waits any more.
    """
    offer, params = await clients.offer_for(context), context.params or {}
    if progress_token_from_params(params) is None:
        return await clients.turns.run(work, offer, params, ignore_progress, writes=writes)
    sent, received = anyio.create_memory_object_stream[tuple[int, int, str]](TOLD)

    def progress(done: int, total: int, doing: str) -> None:
        anyio.from_thread.check_cancelled()
        with suppress(anyio.WouldBlock):
            anyio.from_thread.run_sync(sent.send_nowait, (done, total, doing))

    async def forward() -> None:
        async for done, total, doing in received:
            await context.session.report_progress(done, total or None, doing)

    failure: Exception | None = None
    # Not from the thread itself, which holds a lock while it reports: a client may be slow to read.
    async with received, anyio.create_task_group() as group:
        group.start_soon(forward)
        try:
            with sent:
                return await clients.turns.run(work, offer, params, progress, writes=writes)
        except Exception as error:  # noqa: BLE001  raised below, where no group wraps it
            failure = error
    assert failure is not None
    raise failure


LISTS: dict[str, tuple[str, type[types.Result]]] = {
    "tools/list": ("tools", types.ListToolsResult),
    "prompts/list": ("prompts", types.ListPromptsResult),
    "resources/templates/list": ("resourceTemplates", types.ListResourceTemplatesResult),
}
WORKED: dict[str, tuple[type[types.RequestParams], type[types.Result]]] = {
    "resources/list": (types.PaginatedRequestParams, types.ListResourcesResult),
    "resources/read": (types.ReadResourceRequestParams, types.ReadResourceResult),
    "prompts/get": (types.GetPromptRequestParams, types.GetPromptResult),
}
SUBSCRIBED: dict[str, Callable[[set[str], str], None]] = {
    "resources/subscribe": set.add,
    "resources/unsubscribe": set.discard,
}
