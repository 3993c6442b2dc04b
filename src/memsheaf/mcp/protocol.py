"""The MCP protocol, the same over every transport: versions, messages, checks, results.

It speaks both eras of the protocol: the handshake (`initialize`, until 2025-11-25), and requests that each carry who
asks and what the client can (2026-07-28). A transport reads messages with `parse_message`, keeps an
`McpConversation` for each client, and sends what it returns.

Standard library only, and little of it: a host waits for the stdio server to start.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from memsheaf.errors import Busy, MemsheafError, NotFound, StoreFailed
from memsheaf.guard import without_secrets

if TYPE_CHECKING:
    Message = dict[str, Any]

MAX_MESSAGE_BYTES = 4 << 20
WATCH_SECONDS = 2.0  # between two looks for changes by other processes

HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN_VERSION = "2026-07-28"
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
CLIENT_KEY = "io.modelcontextprotocol/clientInfo"
SERVER_KEY = "io.modelcontextprotocol/serverInfo"
SUBSCRIPTION_KEY = "io.modelcontextprotocol/subscriptionId"

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR = (
    -32700,
    -32600,
    -32601,
    -32602,
    -32603,
)
RESOURCE_NOT_FOUND, HEADER_MISMATCH, UNSUPPORTED_VERSION = -32002, -32020, -32022

LIST_CHANGED = "notifications/resources/list_changed"
LISTEN = "subscriptions/listen"
LISTS = {"tools/list": "tools", "prompts/list": "prompts", "resources/templates/list": "resourceTemplates"}
"""Lists that never change, by method, with their key in the result."""
METHODS = {*LISTS, "tools/call", "prompts/get", "resources/list", "resources/read"}
METHODS_OF_ERA = {"handshake": {*METHODS, "ping"}, "modern": {*METHODS, "server/discover", LISTEN}}
CACHEABLE = {*LISTS, "server/discover", "resources/list", "resources/read"}
REQUIRED_PARAMS: dict[str, dict[str, type]] = {
    "initialize": {"protocolVersion": str, "capabilities": dict, "clientInfo": dict},
    "tools/call": {"name": str},
    "prompts/get": {"name": str},
    "resources/read": {"uri": str},
    LISTEN: {"notifications": dict},
}
OPTIONAL_PARAMS: dict[str, type] = {"arguments": dict, "cursor": str, "_meta": dict}


Instruct = Callable[[str, object], str]
"""Make the instructions for a client, given how they begin and what the client says of itself."""


class ProtocolError(Exception):
    """A request that the protocol does not allow, or that asks for something that does not exist."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


class Cancelled(Exception):
    """The client cancelled the request."""


class McpRequest:
    """One request. A transport sets `is_cancelled` when the client no longer waits for the answer."""

    def __init__(self, number: object, method: str, params: Message) -> None:
        self.id = number
        self.method = method
        self.params = params
        self.is_cancelled = False

    def report_progress(self, notify: Callable[[Message], None]) -> Callable[[int, int, str], None]:
        """Return a function that sends progress if the client asked for it, and raises Cancelled if it has gone."""
        token = meta_of(self.params).get("progressToken")

        def report(done: int, total: int, doing: str) -> None:
            if self.is_cancelled:
                raise Cancelled
            if token is not None:
                params = {"progressToken": token, "progress": done, "message": doing}
                if total:
                    params["total"] = total
                notify(notification("notifications/progress", params))

        return report


class Service:
    """The parts of the server that no client changes: its version, its lists, its instructions.

    `instruct` completes the instructions for one client.
    """

    def __init__(
        self,
        version: str,
        *,
        reading: bool = False,
        tools: bool = True,
        instruct: Instruct = lambda text, client: text,
    ) -> None:
        self.info = {"name": "memsheaf", "title": "memsheaf", "version": version}
        with open(os.path.join(os.path.dirname(__file__), "listing.json"), encoding="utf-8") as file:
            self.listing: Message = json.load(file)
        if reading:
            self.listing["tools"] = [
                tool for tool in self.listing["tools"] if tool["annotations"].get("readOnlyHint")
            ]
        if not tools:
            self.listing["tools"] = []
        self._instruct = instruct

    def introduce(self, client: object) -> Message:
        """Return what a client learns first: capabilities, and how to use memory with the head of the catalog."""
        instructions = self._instruct(self.listing["instructions"], client)
        capabilities = {
            "prompts": {"listChanged": False},
            "resources": {"subscribe": False, "listChanged": True},
            "tools": {"listChanged": False},
        }
        return {"capabilities": capabilities, "instructions": instructions}


class McpConversation:
    """The protocol with one client. Its first request decides the `era`, unless the transport knows it."""

    def __init__(self, service: Service, era: str = "", *, is_greeted: bool = False) -> None:
        self.era = era
        self._service = service
        self._is_greeted = is_greeted
        self._running: dict[object, McpRequest] = {}

    def begin(self, request: McpRequest) -> Message | None:
        """Check a request, and return its response unless that needs the memories. Raises ProtocolError."""
        method, params = request.method, request.params
        if not isinstance(params, dict):
            raise ProtocolError(INVALID_REQUEST, "Invalid request")
        has_envelope = method != "initialize" and VERSION_KEY in meta_of(params)
        if not self.era:
            self.era = "modern" if has_envelope else "handshake"
        if self.era == "modern":
            _check_envelope(params)
        elif has_envelope:
            raise ProtocolError(INVALID_REQUEST, "this connection began with a handshake and takes no envelope")
        elif method == "initialize":
            _check_params(method, params)
            self._is_greeted = True
            version = params["protocolVersion"]
            if version not in HANDSHAKE_VERSIONS:
                version = HANDSHAKE_VERSIONS[-1]
            greeting = {"protocolVersion": version, "serverInfo": self._service.info}
            return self.respond(request, greeting | self._service.introduce(params["clientInfo"]))
        if method not in METHODS_OF_ERA[self.era]:
            raise ProtocolError(METHOD_NOT_FOUND, "Method not found", method)
        if self.era == "handshake" and not self._is_greeted and method != "ping":
            raise ProtocolError(INVALID_PARAMS, "the first request must be initialize")
        _check_params(method, params)
        if method == "ping":
            return self.respond(request, {})
        if method == "server/discover":
            about = {"supportedVersions": [MODERN_VERSION]}
            return self.respond(request, about | self._service.introduce(meta_of(params).get(CLIENT_KEY)))
        if key := LISTS.get(method):
            return self.respond(request, {key: self._service.listing[key]})
        if request.id in self._running:
            raise ProtocolError(INVALID_REQUEST, "a request with this id is being answered")
        self._running[request.id] = request
        return None

    def perform(self, request: McpRequest, work: Callable[[McpRequest], Message]) -> Message | None:
        """Return the response to a request that `work` does, an error if it fails, and None if it was cancelled."""
        try:
            if request.is_cancelled:
                return None
            result = work(request)
        except Cancelled:
            return None
        except MemsheafError as error:
            if request.method != "tools/call":
                return failure(request.id, self._explain(error, request.params))
            result = tool_result(f"Error: {error}. {error.hint}", failed=True)
        except Exception as error:  # noqa: BLE001  a mistake of ours must not end the session
            import traceback

            traceback.print_exc()
            return failure(request.id, ProtocolError(INTERNAL_ERROR, f"Internal error: {type(error).__name__}"))
        finally:
            self._running.pop(request.id, None)
        return None if request.is_cancelled else self.respond(request, result)

    def cancel(self, method: str, params: object) -> object:
        """Cancel the request that a notification names, and return its id, None for any other notification."""
        number = params.get("requestId") if isinstance(params, dict) else None
        if method != "notifications/cancelled" or not is_id(number):
            return None
        if request := self._running.get(number):
            request.is_cancelled = True
        return number

    def respond(self, request: McpRequest, result: Message) -> Message:
        """Return a response; in the modern era with its type, how long it may be kept, and who sends it."""
        if self.era == "modern":
            hints = {"ttlMs": 0, "cacheScope": "private"} if request.method in CACHEABLE else {}
            meta = result.get("_meta", {}) | {SERVER_KEY: self._service.info}
            result = {"resultType": "complete"} | hints | result | {"_meta": meta}
        return {"jsonrpc": "2.0", "id": request.id, "result": result}

    def acknowledge(self, request: McpRequest) -> Message:
        """Return the notification that begins a stream of changes: it names those that will be sent."""
        wanted = {"resourcesListChanged": True} if wants_list_changed(request) else {}
        params = {"notifications": wanted, "_meta": {SUBSCRIPTION_KEY: request.id}}
        return notification("notifications/subscriptions/acknowledged", params)

    def end_stream(self, request: McpRequest) -> Message:
        """Return the response that ends a stream of changes."""
        return self.respond(request, {"_meta": {SUBSCRIPTION_KEY: request.id}})

    def _explain(self, error: MemsheafError, params: Message) -> ProtocolError:
        """Return an error about a resource or a prompt as the protocol tells it; of a resource, with its address."""
        code = INVALID_PARAMS
        if isinstance(error, StoreFailed | Busy):
            code = INTERNAL_ERROR
        elif isinstance(error, NotFound) and self.era == "handshake":
            code = RESOURCE_NOT_FOUND
        hint = f" {error.hint}" if error.hint else ""
        data = {"uri": params["uri"]} if "uri" in params else None
        return ProtocolError(code, without_secrets(f"{error}.{hint}"), data)


def parse_message(data: bytes) -> Message:
    """Return a JSON-RPC request, notification or response. Raises ProtocolError."""
    try:
        message = json.loads(data.decode("utf-8", "replace"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise ProtocolError(PARSE_ERROR, "Parse error") from None
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0" or not is_id(message.get("id")):
        raise ProtocolError(INVALID_REQUEST, "Invalid request")
    is_response = "method" not in message and ("result" in message or "error" in message)
    if not is_response and not isinstance(message.get("method"), str):
        raise ProtocolError(INVALID_REQUEST, "Invalid request")
    return message


def wants_list_changed(request: McpRequest) -> bool:
    """Return True if a stream of changes is to tell of new and deleted memories."""
    return request.params["notifications"].get("resourcesListChanged") is True


def notification(method: str, params: Message | None = None) -> Message:
    """Return a notification."""
    message = {"jsonrpc": "2.0", "method": method}
    return message | {"params": params} if params else message


def list_changed(request: McpRequest | None = None) -> Message:
    """Return the notification that memories came or went; in the modern era with the `request` for the stream."""
    return notification(LIST_CHANGED, {"_meta": {SUBSCRIPTION_KEY: request.id}} if request else None)


def failure(number: object, error: ProtocolError) -> Message:
    """Return an error response."""
    told = {"code": error.code, "message": str(error)}
    return {"jsonrpc": "2.0", "id": number, "error": told if error.data is None else told | {"data": error.data}}


def tool_result(text: str, *, failed: bool) -> Message:
    """Return the result of a tool. No structured content: some clients would show the model only that."""
    return {"content": [{"type": "text", "text": text}], "isError": failed}


def meta_of(params: Message) -> Message:
    """Return the metadata of a request, empty if there is none."""
    meta = params.get("_meta")
    return meta if isinstance(meta, dict) else {}


def is_id(number: object) -> bool:
    """Return True for what may be the id of a request, and for None."""
    return number is None or (isinstance(number, str | int) and not isinstance(number, bool))


def _check_params(method: str, params: Message) -> None:
    required = REQUIRED_PARAMS.get(method, {})
    wrong = [key for key, kind in required.items() if not isinstance(params.get(key), kind)]
    wrong += [key for key, kind in OPTIONAL_PARAMS.items() if not isinstance(params.get(key), kind | None)]
    if method == "prompts/get" and not wrong:
        wrong += [key for key, value in (params.get("arguments") or {}).items() if not isinstance(value, str)]
    if not is_id(meta_of(params).get("progressToken")):
        wrong.append("progressToken")
    if wrong:
        raise ProtocolError(INVALID_PARAMS, f"Invalid request parameters: {', '.join(wrong)[:200]}")


def _check_envelope(params: Message) -> None:
    """Refuse a request of the modern era that does not carry all that the protocol asks for."""
    meta = meta_of(params)
    missing = [key for key in (VERSION_KEY, CAPABILITIES_KEY) if key not in meta]
    if missing:
        names = ", ".join(missing)
        raise ProtocolError(INVALID_PARAMS, f"params._meta is missing the required envelope key(s): {names}")
    if not isinstance(meta[VERSION_KEY], str) or not isinstance(meta[CAPABILITIES_KEY], dict):
        raise ProtocolError(INVALID_PARAMS, "the version must be a text, and the capabilities an object")
    if meta[VERSION_KEY] != MODERN_VERSION:
        data = {"supported": [MODERN_VERSION], "requested": meta[VERSION_KEY]}
        raise ProtocolError(UNSUPPORTED_VERSION, "Unsupported protocol version", data)


def _refuse_constant(name: str) -> object:
    """Refuse NaN and the like, which Python reads though JSON does not have them."""
    raise ValueError(f"{name} is not JSON")
