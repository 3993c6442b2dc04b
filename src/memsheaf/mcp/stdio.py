"""The MCP server over stdin and stdout: a small loop that answers as soon as it has started.

It speaks both eras of the protocol: the handshake (`initialize`, until 2025-11-25), and requests that each carry who
asks and what the client can (2026-07-28). The first request decides. What needs the memories is done by one thread,
in the order in which it was asked, and the memories are opened behind the first answers. A client that asks faster
than it is answered is not read from until some of what waits is done.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO

from memsheaf.errors import MemsheafError
from memsheaf.mcp.change_listeners import ChangeListeners
from memsheaf.mcp.protocol import (
    HANDSHAKES,
    INTERNAL,
    INVALID_PARAMS,
    INVALID_REQUEST,
    LISTEN_KEY,
    MESSAGE_BYTES,
    MODERN,
    NO_METHOD,
    PARSE_ERROR,
    VERSION_KEY,
    ProtocolError,
    capabilities,
    check_envelope,
    check_params,
    instructions,
    is_id,
    listed,
    meta_of,
    modern,
    no_constant,
    refusal,
    text,
)
from memsheaf.mcp.work_queue import END, Cancelled, PendingRequest, WorkQueue, is_hung_up, own_streams

if TYPE_CHECKING:
    from memsheaf.mcp.hooks import ServerHooks
    from memsheaf.mcp.offer import Offer

    Message = dict[str, Any]

WATCH_SECONDS = 2.0


class StdioServer:
    """One client over two streams. `opened` opens the offer at the first request.

    `head` renders the head of the catalog for the instructions within a byte limit. `hooks` is the project whose
    hooks are answered, too. `news` brings what other machines learned, within so many seconds.
    """

    def __init__(
        self,
        opened: Callable[[], Offer],
        source: BinaryIO,
        sink: BinaryIO,
        *,
        version: str,
        reading: bool = False,
        tools: bool = True,
        head: Callable[[int], str] | None = None,
        watch: float = WATCH_SECONDS,
        hooks: str = "",
        news: Callable[[float], object] = lambda seconds: None,
    ) -> None:
        self._opened = opened
        self._source = source
        self._sink = sink
        self._info = {"name": "memsheaf", "title": "memsheaf", "version": version}
        self._listed = listed(reading=reading, tools=tools)
        self._head = head
        self._watch_seconds = watch
        self._hook_folder = hooks
        self._news = news
        self._hooks: ServerHooks | None = None
        self._era = ""
        self._version = ""
        self._greeted = False
        self._writing = threading.Lock()
        self._work = WorkQueue()
        self._running: dict[object, PendingRequest] = {}
        self._listeners = ChangeListeners(self._notify)
        self._offer: Offer | None = None
        self._seen: str | None = None  # the last commit that the client was told about
        self._looking = threading.Lock()
        self._closing = threading.Event()
        self._unheard = False  # the client closed its end: nobody reads our answers

    def run(self, *, exits: bool = False) -> None:
        """Answer until the client hangs up; then finish pending requests, if anybody still reads the answers.

        In a process that `exits` then, threads that do nothing for the client are not waited for.
        """
        worker = threading.Thread(target=self._serve, name="memsheaf-mcp", daemon=True)
        watcher = threading.Thread(target=self._watch, name="memsheaf-watch", daemon=True)
        worker.start()
        watcher.start()
        try:
            while line := self._source.readline(MESSAGE_BYTES + 1):
                if self._unheard or (self._work.is_full and is_hung_up(self._source)):
                    break
                if len(line) > MESSAGE_BYTES:
                    while line and not line.endswith(b"\n"):
                        line = self._source.readline(MESSAGE_BYTES)
                    self._fail(None, INVALID_REQUEST, f"a message is longer than {MESSAGE_BYTES:,} bytes")
                elif line.strip():
                    self._take(line)
        finally:
            self._closing.set()
            self._work.end()
            if self._work.has_requests or not exits:
                worker.join()
            if not exits:
                watcher.join()
            for number in list(self._listeners.streams):
                self._answer(number, {"_meta": {LISTEN_KEY: number}})
            if self._hooks:
                self._hooks.close()
            if self._offer is not None:
                self._offer.memory.close(wait=not exits)

    def _take(self, line: bytes) -> None:
        """Take one message: answer it, or hand it to the thread that works."""
        try:
            message = json.loads(line.decode("utf-8", "replace"), parse_constant=no_constant)
        except (ValueError, RecursionError):
            return self._fail(None, PARSE_ERROR, "Parse error")
        number = message.get("id") if isinstance(message, dict) else None
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0" or not is_id(number):
            return self._fail(None, INVALID_REQUEST, "Invalid request")
        method, params = message.get("method"), message.get("params")
        if not isinstance(method, str):
            return None  # an answer: we ask nothing
        if params is not None and not isinstance(params, dict):
            return self._fail(number, INVALID_REQUEST, "Invalid request")
        if number is None:
            return self._noticed(method, params or {})
        try:
            self._begin(number, method, params or {})
        except ProtocolError as error:
            self._fail(number, error.code, str(error), error.data)
        return None

    def _begin(self, number: object, method: str, params: Message) -> None:
        """Answer what needs no memory now, in order; queue the rest."""
        is_modern = method != "initialize" and VERSION_KEY in meta_of(params)
        self._era = self._era or ("modern" if is_modern else "handshake")
        if self._era == "modern":
            check_envelope(method, params)
        elif is_modern:
            raise ProtocolError(INVALID_REQUEST, "this connection began with a handshake and takes no envelope")
        elif method == "initialize":
            return self._answer(number, self._greeting(params))
        known = HANDLED if self._era == "handshake" else HANDLED_MODERN
        if method not in known:
            raise ProtocolError(NO_METHOD, "Method not found", method)
        if self._era == "handshake" and not self._greeted and method != "ping":
            raise ProtocolError(INVALID_PARAMS, "Invalid request parameters", "")
        check_params(method, params)
        if method in AT_ONCE:
            self._answer(number, AT_ONCE[method](self, params), method)
            if method == "tools/list":
                self._work.put(None)  # opens the memories behind this answer
            return None
        request = PendingRequest(number, method, params)
        if number in self._running:
            raise ProtocolError(INVALID_REQUEST, "a request with this id is being answered")
        self._running[number] = request
        self._work.put(request)
        return None

    def _serve(self) -> None:
        """Do what needs the memories, one thing after the other."""
        while (task := self._work.get()) is not END:
            if self._unheard:
                continue
            if isinstance(task, PendingRequest):
                self._do(task)
                self._tell(look=False)
                self._work.finish()
            else:
                with _contained():
                    self._ready()

    def _do(self, request: PendingRequest) -> None:
        """Answer one request, whatever happens."""
        try:
            if request.cancelled:
                raise Cancelled
            answer = WORKED[request.method](self, request)
        except Cancelled:
            self._running.pop(request.id, None)
        except ProtocolError as error:
            self._finish(request, error)
        except MemsheafError as error:
            self._finish(request, refusal(error, self._era, request.params))
        except Exception as error:  # noqa: BLE001  a mistake of ours must not end the session
            import traceback

            traceback.print_exc()
            self._finish(request, ProtocolError(INTERNAL, f"Internal error: {type(error).__name__}"))
        else:
            if answer is not None:
                self._finish(request, answer)

    def _finish(self, request: PendingRequest, answer: Message | ProtocolError) -> None:
        if self._running.pop(request.id, None) is None or request.cancelled:
            return
        if isinstance(answer, ProtocolError):
            self._fail(request.id, answer.code, str(answer), answer.data)
        else:
            self._answer(request.id, answer, request.method)

    def _ready(self) -> Offer:
        """What is offered, opened at the first use. Raises MemsheafError."""
        if self._offer is None:
            offer = self._opened()
            self._seen = offer.last()
            self._offer = offer
            if self._hook_folder:
                from memsheaf.mcp.hooks import ServerHooks

                self._hooks = ServerHooks(self._hook_folder, offer.memory, self._news)
                self._hooks.listen()
        return self._offer

    def _progress(self, request: PendingRequest) -> Callable[[int, int, str], None]:
        """What tells the client how far a call is, and ends the call once the client has cancelled it."""

        def report(done: int, total: int, doing: str) -> None:
            if request.cancelled:
                raise Cancelled
            if request.token is not None:
                said = {"progressToken": request.token, "progress": done, "message": doing}
                self._notify("notifications/progress", said | ({"total": total} if total else {}))

        return report

    def _call_tool(self, request: PendingRequest) -> Message:
        from memsheaf.mcp.answers import called

        params = request.params
        try:
            offer = self._ready()
            if self._hooks and params["name"] == "memory_hook":  # not listed: hosts call it, and no model
                return text(self._hooks.call(params.get("arguments")), failed=False)
        except MemsheafError as error:
            return text(f"Error: {error}. {error.hint}", failed=True)
        return called(offer, params, self._progress(request))

    def _answered(self, request: PendingRequest) -> Message:
        from memsheaf.mcp.answers import ANSWERED

        return ANSWERED[request.method](self._ready(), request.params, self._progress(request))

    def _subscribe(self, request: PendingRequest) -> Message:
        self._ready()  # what changes from now on is told
        self._listeners.subscribed.add(request.params["uri"])
        return {}

    def _unsubscribe(self, request: PendingRequest) -> Message:
        self._listeners.subscribed.discard(request.params["uri"])
        return {}

    def _greeting(self, params: Message) -> Message:
        """Agree on a version, and tell what there is."""
        check_params("initialize", params)
        version = params["protocolVersion"]
        self._version = version if version in HANDSHAKES else HANDSHAKES[-1]
        self._greeted = True
        return {
            "protocolVersion": self._version,
            "capabilities": capabilities(listening=False),
            "serverInfo": self._info,
            "instructions": instructions(self._listed["instructions"], self._head),
        }

    def _discovered(self, params: Message) -> Message:
        told = {"supportedVersions": [MODERN], "capabilities": capabilities(listening=True)}
        return told | {"instructions": instructions(self._listed["instructions"], self._head)}

    def _list(self, key: str) -> Message:
        return {key: self._listed[key]}

    def _noticed(self, method: str, params: Message) -> None:
        """Take a notification; those that mean nothing to us are passed over."""
        if method != "notifications/cancelled":
            return
        number = params.get("requestId")
        if not is_id(number) or number is None:
            return
        if request := self._running.get(number):
            request.cancelled = True
        self._listeners.streams.pop(number, None)

    def _listen(self, request: PendingRequest) -> None:
        """Begin to tell a client of this era what changes, until it cancels or hangs up."""
        self._ready()  # what changes from now on is told
        self._listeners.open_stream(request.id, request.params["notifications"])
        del self._running[request.id]
        if request.cancelled:  # meanwhile, by the thread that reads
            self._listeners.streams.pop(request.id, None)

    def _watch(self) -> None:
        """Check regularly for changes by other processes."""
        while not self._closing.wait(self._watch_seconds):
            self._tell(look=True)
            if self._hooks:
                self._hooks.listen()

    def _tell(self, *, look: bool) -> None:
        """Tell the client what changed; without a `look`, what we did ourselves."""
        if self._offer is None:
            return
        with self._looking, _contained():
            change, self._seen = self._offer.changes(self._seen, look=look)
            if change:
                is_listed = self._era == "handshake" and self._offer.has_listed
                self._listeners.announce(change, has_listed=is_listed)

    def _answer(self, number: object, result: Message, method: str = "") -> None:
        if self._era == "modern":
            result = modern(result, method, self._info)
        self._send({"jsonrpc": "2.0", "id": number, "result": result})

    def _fail(self, number: object, code: int, message: str, data: object = None) -> None:
        error: Message = {"code": code, "message": message} | ({} if data is None else {"data": data})
        self._send({"jsonrpc": "2.0", "id": number, "error": error})

    def _notify(self, method: str, params: Message) -> None:
        self._send({"jsonrpc": "2.0", "method": method} | ({"params": params} if params else {}))

    def _send(self, message: Message) -> None:
        line = json.dumps(message, separators=(",", ":")).encode() + b"\n"
        with self._writing:
            try:
                self._sink.write(line)
                self._sink.flush()
            except (BrokenPipeError, ValueError):
                self._unheard = True  # what was begun is finished, and nothing else is begun


@contextmanager
def _contained() -> Iterator[None]:
    """Let nothing that goes wrong beside the answers end the thread: the next call says what is wrong."""
    try:
        yield
    except MemsheafError:
        pass
    except Exception:  # noqa: BLE001  a mistake of ours must not end the session
        import traceback

        traceback.print_exc()


AT_ONCE: dict[str, Callable[[StdioServer, Message], Message]] = {
    "ping": lambda server, _: {},
    "server/discover": StdioServer._discovered,
    "tools/list": lambda server, _: server._list("tools"),
    "prompts/list": lambda server, _: server._list("prompts"),
    "resources/templates/list": lambda server, _: server._list("resourceTemplates"),
}
WORKED: dict[str, Callable[[StdioServer, PendingRequest], Message | None]] = {
    "tools/call": StdioServer._call_tool,
    "resources/list": StdioServer._answered,
    "resources/read": StdioServer._answered,
    "resources/subscribe": StdioServer._subscribe,
    "resources/unsubscribe": StdioServer._unsubscribe,
    "prompts/get": StdioServer._answered,
    "subscriptions/listen": StdioServer._listen,
}
HANDLED = {*AT_ONCE, *WORKED} - {"server/discover", "subscriptions/listen"}
HANDLED_MODERN = {*AT_ONCE, *WORKED} - {"ping", "resources/subscribe", "resources/unsubscribe"}


def serve(opened: Callable[[], Offer], **more: Any) -> None:
    """Serve the client at the other end of stdin and stdout, and exit. What was answered is on disk by then."""
    with own_streams() as (source, sink):
        StdioServer(opened, source, sink, **more).run(exits=True)
    os._exit(0)  # a thread may be embedding, for seconds
