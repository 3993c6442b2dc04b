"""The least that a page of Starlette can be: hello, by a coroutine, served as `memsheaf web` is."""

import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route


async def hello(request: Request) -> PlainTextResponse:
    """Say hello, without the worker thread that every page has: the quickest there is."""
    return PlainTextResponse("hello")


def main() -> None:
    """Listen on a free port, and print where."""
    listening = socket.create_server(("127.0.0.1", 0))

    @asynccontextmanager
    async def ready(app: Starlette) -> AsyncIterator[None]:
        print(json.dumps({"url": f"http://127.0.0.1:{listening.getsockname()[1]}/"}), flush=True)
        yield

    app = Starlette(routes=[Route("/", hello)], lifespan=ready)
    uvicorn.Server(
        uvicorn.Config(app, log_level="warning", access_log=False, timeout_keep_alive=600, http="h11", loop="asyncio")
    ).run(sockets=[listening])


if __name__ == "__main__":
    main()
