"""The MCP server over stdin and stdout: a small loop that answers as soon as it has started.

Requests that need the memories are done by one thread, in the order in which they were asked, and the memories are
opened behind the first answers. A client that asks faster than it is answered is not read from until some requests
are done.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, BinaryIO

from memsheaf.errors import MemsheafError, Refused
from memsheaf.mcp.protocol import (
    INVALID_REQUEST,
    LISTEN,
    MAX_MESSAGE_BYTES,
    WATCH_SECONDS,
    McpConversation,
    McpRequest,
    ProtocolError,
    Service,
    failure,
    list_changed,
    parse_message,
    tool_result,
    wants_list_changed,
)

if TYPE_CHECKING:
    from memsheaf.mcp.hooks import ServerHooks
    from memsheaf.mcp.offer import Offer

    Message = dict[str, Any]

MAX_WAITING_REQUESTS = 100


class StdioServer:
    """One client over two streams. `open_offer` opens the memories at the first request.

    `hooks` is the project whose hooks are answered, too. `news` brings what other machines learned, within so many
    seconds.
    """

    def __init__(
        self,
        service: Service,
        open_offer: Callable[[], Offer],
        source: BinaryIO,
        sink: BinaryIO,
        *,
        watch_seconds: float = WATCH_SECONDS,
        hooks: str = "",
        news: Callable[[float], object] = lambda seconds: None,
    ) -> None:
        self._open_offer = open_offer
        self._source = source
        self._sink = sink
        self._watch_seconds = watch_seconds
        self._hook_folder = hooks
        self._news = news
        self._hooks: ServerHooks | None = None
        self._conversation = McpConversation(service)
        self._work: queue.Queue[McpRequest | None] = queue.Queue(MAX_WAITING_REQUESTS)  # None: open the memories
        self._streams: dict[object, McpRequest] = {}  # of clients of the modern era that listen for changes
        self._offer: Offer | None = None
        self._seen: str | None = None  # the last commit that the client was told about
        self._looking = threading.Lock()
        self._writing = threading.Lock()
        self._closing = threading.Event()
        self._is_deaf = False  # the client closed its end: nobody reads our answers

    def run(self, *, exits: bool = False) -> None:
        """Answer until the client hangs up; then finish pending requests, if anybody still reads the answers.

        In a process that `exits` then, threads that do nothing for the client are not waited for.
        """
        threads = [threading.Thread(target=run, daemon=True) for run in (self._serve, self._watch)]
        for thread in threads:
            thread.start()
        try:
            while line := self._source.readline(MAX_MESSAGE_BYTES + 1):
                if self._is_deaf or (self._work.full() and _is_hung_up(self._source)):
                    break
                if len(line) > MAX_MESSAGE_BYTES:
                    while line and not line.endswith(b"\n"):
                        line = self._source.readline(MAX_MESSAGE_BYTES)
                    too_long = f"a message is longer than {MAX_MESSAGE_BYTES:,} bytes"
                    self._send(failure(None, ProtocolError(INVALID_REQUEST, too_long)))
                elif line.strip():
                    self._take(line)
        finally:
            self._work.join()
            self._closing.set()
            self._work.put(None)  # wakes the thread that works
            if not exits:
                for thread in threads:
                    thread.join()
            for request in list(self._streams.values()):
                self._send(self._conversation.end_stream(request))
            if self._hooks:
                self._hooks.close()
            if self._offer is not None:
                self._offer.memory.close(wait=not exits)

    def _take(self, line: bytes) -> None:
        """Answer one message, or hand it to the thread that works."""
        number = method = None
        try:
            message = parse_message(line)
            number, method, params = message.get("id"), message.get("method"), message.get("params")
            if method is None:
                return  # an answer, though we ask nothing
            if number is None:
                self._streams.pop(self._conversation.cancel(method, params), None)
                return
            request = McpRequest(number, method, {} if params is None else params)
            response = self._conversation.begin(request)
        except ProtocolError as error:
            response = failure(number, error)
        if response is None:
            self._work.put(request)
        else:
            self._send(response)
            if method == "tools/list":
                self._work.put(None)

    def _serve(self) -> None:
        """Do what needs the memories, one thing after the other."""
        while not self._closing.is_set():
            request = self._work.get()
            if request is None:
                self._work.task_done()  # nobody waits for it
                if not self._closing.is_set():
                    with _contain_errors():
                        self._ready()
                continue
            if not self._is_deaf:
                response = self._conversation.perform(request, self._answer)
                if response and (request.method != LISTEN or "error" in response):
                    self._send(response)
                if request.is_cancelled:
                    self._streams.pop(request.id, None)
                self._announce(look=False)
            self._work.task_done()

    def _ready(self) -> Offer:
        """Return the memories, opened at the first use. Raises MemsheafError."""
        if self._offer is None:
            offer = self._open_offer()
            self._seen = offer.last()
            self._offer = offer
            if self._hook_folder:
                from memsheaf.mcp.hooks import ServerHooks

                self._hooks = ServerHooks(self._hook_folder, offer.memory, self._news)
                self._hooks.listen()
        return self._offer

    def _answer(self, request: McpRequest) -> Message:
        offer = self._ready()
        if request.method == LISTEN:
            self._send(self._conversation.acknowledge(request))
            self._streams[request.id] = request
            return {}
        if self._hooks and request.params.get("name") == "memory_hook":  # not listed: hosts call it, and no model
            return tool_result(self._hooks.call(request.params.get("arguments")), failed=False)
        return offer.answer(request.method, request.params, request.report_progress(self._send))

    def _watch(self) -> None:
        """Check regularly for changes by other processes."""
        while not self._closing.wait(self._watch_seconds):
            self._announce(look=True)
            if self._hooks:
                self._hooks.listen()

    def _announce(self, *, look: bool) -> None:
        """Tell the client that memories came or went; without a `look`, through us."""
        if self._offer is None:
            return
        with self._looking, _contain_errors():
            is_new, self._seen = self._offer.has_new_list(self._seen, look=look)
            if not is_new:
                return
            if self._conversation.era == "handshake" and self._offer.has_listed:
                self._send(list_changed())
            for request in list(self._streams.values()):
                if wants_list_changed(request):
                    self._send(list_changed(request))

    def _send(self, message: Message) -> None:
        line = json.dumps(message, separators=(",", ":")).encode() + b"\n"
        with self._writing:
            try:
                self._sink.write(line)
                self._sink.flush()
            except (BrokenPipeError, ValueError):
                self._is_deaf = True  # what was begun is finished, and nothing else is begun


@contextmanager
def _contain_errors() -> Iterator[None]:
    """Let nothing that goes wrong beside the answers end the thread: the next call says what is wrong."""
    try:
        yield
    except MemsheafError:
        pass
    except Exception:  # noqa: BLE001  a mistake of ours must not end the session
        import traceback

        traceback.print_exc()


def _is_hung_up(source: BinaryIO) -> bool:
    """Return True if the other end was closed, though there may be more to read; False where nobody can know."""
    import select

    if not hasattr(select, "poll"):
        return False
    closed = select.POLLHUP | getattr(select, "POLLRDHUP", 0)
    poll = select.poll()
    poll.register(source, closed)
    return any(event & closed for _, event in poll.poll(0))


@contextmanager
def _own_streams() -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """Stdin and stdout, which nothing else in this process can reach meanwhile. Raises Refused without them."""
    if sys.__stdin__ is None or sys.__stdout__ is None:
        hint = "A client starts it with both; `memsheaf mcp --print-config CLIENT` tells how."
        raise Refused("there is no stdin or no stdout to talk over", hint=hint)
    source, sink = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    try:
        yield source, sink
    finally:
        source.close()
        with suppress(OSError):  # what nobody reads any more
            sink.close()


def serve(service: Service, open_offer: Callable[[], Offer], **options: Any) -> None:
    """Serve the client at the other end of stdin and stdout, and exit. What was answered is on disk by then."""
    with _own_streams() as (source, sink):
        StdioServer(service, open_offer, source, sink, **options).run(exits=True)
    os._exit(0)  # a thread may be embedding, for seconds
