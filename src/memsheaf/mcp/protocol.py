"""The MCP protocol: versions, error codes, required parameters, result envelopes.

Standard library only, and little of it: it is on the way of a start.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from memsheaf.errors import Busy, MemsheafError, NotFound, StoreFailed
from memsheaf.guard import without_secrets

if TYPE_CHECKING:
    Message = dict[str, Any]

MESSAGE_BYTES = 4 << 20  # bytes of one message
INSTRUCTION_BYTES = 2_000  # what Claude Code keeps of a server's instructions
HANDSHAKES = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")  # versions with `initialize`, oldest first
MODERN = "2026-07-28"  # the version in which every request says who asks, and what the client can
_META = "io.modelcontextprotocol/"
VERSION_KEY, CAN_KEY, CLIENT_KEY = f"{_META}protocolVersion", f"{_META}clientCapabilities", f"{_META}clientInfo"
INFO_KEY, LISTEN_KEY = f"{_META}serverInfo", f"{_META}subscriptionId"

PARSE_ERROR, INVALID_REQUEST, NO_METHOD, INVALID_PARAMS, INTERNAL = -32700, -32600, -32601, -32602, -32603
NO_RESOURCE, UNSUPPORTED = -32002, -32022
LISTENED = ("promptsListChanged", "resourcesListChanged", "toolsListChanged")
_FLAGS: tuple[object, ...] = (True, False, None)
_PARTS = {
    "tools/call": (("name", str, True), ("arguments", dict, False)),
    "prompts/get": (("name", str, True), ("arguments", dict, False)),
    "resources/read": (("uri", str, True),),
    "resources/subscribe": (("uri", str, True),),
    "resources/unsubscribe": (("uri", str, True),),
    "tools/list": (("cursor", str, False),),
    "prompts/list": (("cursor", str, False),),
    "resources/list": (("cursor", str, False),),
    "resources/templates/list": (("cursor", str, False),),
    "subscriptions/listen": (("notifications", dict, True),),
    "initialize": (("protocolVersion", str, True), ("capabilities", dict, True), ("clientInfo", dict, True)),
}
"""What the parameters of a request are made of: key, type, and whether it must be there."""
_CACHEABLE = (
    "server/discover",
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
)


def listed(*, reading: bool = False, tools: bool = True) -> Message:
    """Tools, prompts, templates and instructions; tools for `reading` only, or none; a file, to start fast."""
    with open(os.path.join(os.path.dirname(__file__), "listing.json"), encoding="utf-8") as file:
        found: Message = json.load(file)
    if reading or not tools:
        found["tools"] = [one for one in found["tools"] if tools and one["annotations"].get("readOnlyHint")]
    return found


def instructions(protocol: str, head: Callable[[int], str] | None) -> str:
    """The instructions for a client: how to use memory, and the head of the catalog as far as it fits."""
    found = head(INSTRUCTION_BYTES - len(protocol.encode()) - 2) if head else ""
    return f"{protocol}\n\n{found}" if found else protocol


class ProtocolError(Exception):
    """A request that the protocol does not allow, or that asks for what is not there."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


def capabilities(*, listening: bool) -> Message:
    """The capabilities of the server: with `listening`, changes are sent to listening clients only."""
    return {
        "prompts": {"listChanged": listening},
        "resources": {"subscribe": True, "listChanged": True},
        "tools": {"listChanged": listening},
    }


def refusal(error: Exception, era: str, params: Message) -> ProtocolError:
    """A mistake about a resource or a prompt, as the protocol tells it; of a resource, with its address."""
    hint = f" {error.hint}" if isinstance(error, MemsheafError) and error.hint else ""
    code = NO_RESOURCE if isinstance(error, NotFound) and era == "handshake" else INVALID_PARAMS
    code = INTERNAL if isinstance(error, StoreFailed | Busy) else code
    uri = params.get("uri")
    return ProtocolError(code, without_secrets(f"{error}.{hint}"), {"uri": uri} if isinstance(uri, str) else None)


def text(said: str, *, failed: bool) -> Message:
    """The result of a tool. No structured content: some clients would show the model that, and not the text."""
    return {"content": [{"type": "text", "text": said}], "isError": failed}


def check_params(method: str, params: Message) -> None:
    """Refuse what lacks a part, or has one of the wrong type."""
    for key, kind, is_needed in (*_PARTS.get(method, ()), ("_meta", dict, False)):
        value = params.get(key)
        if not isinstance(value, kind) and (is_needed or value is not None):
            raise ProtocolError(INVALID_PARAMS, "Invalid request parameters", "")
    meta = meta_of(params)
    token = meta.get("progressToken", "")
    is_fine = token is not None and is_id(token) and isinstance(meta.get(CAN_KEY, {}), dict)
    if not (is_fine and _is_whole(method, params)):
        raise ProtocolError(INVALID_PARAMS, "Invalid request parameters", "")


def check_envelope(method: str, params: Message) -> None:
    """Refuse a request of the modern era that does not carry all the protocol asks for."""
    if method == "initialize":
        asked = params.get("protocolVersion")
        data = {"supported": [MODERN]} | ({"requested": asked} if isinstance(asked, str) else {})
        raise ProtocolError(UNSUPPORTED, f"this connection speaks {MODERN}, which has no initialize", data)
    meta = meta_of(params)
    missing = [key for key in (VERSION_KEY, CAN_KEY) if key not in meta]
    if missing:
        lacking = ", ".join(missing)
        raise ProtocolError(INVALID_PARAMS, f"params._meta is missing the required envelope key(s): {lacking}")
    version = meta[VERSION_KEY]
    if not isinstance(version, str):
        raise ProtocolError(INVALID_PARAMS, "the protocol-version envelope value must be a string")
    if version != MODERN:
        data = {"supported": [MODERN], "requested": version}
        raise ProtocolError(UNSUPPORTED, "Unsupported protocol version", data)


def _is_whole(method: str, params: Message) -> bool:
    """Whether what is within the parts of a request has the right types."""
    if method == "initialize":
        return _are_texts((params["clientInfo"].get("name"), params["clientInfo"].get("version")))
    if method == "prompts/get":
        return _are_texts((params.get("arguments") or {}).values())
    if method == "subscriptions/listen":
        wanted = params["notifications"]
        uris = wanted.get("resourceSubscriptions", [])
        return isinstance(uris, list) and _are_texts(uris) and all(wanted.get(key) in _FLAGS for key in LISTENED)
    return True


def _are_texts(values: Iterable[object]) -> bool:
    return all(isinstance(value, str) for value in values)


def meta_of(params: Message) -> Message:
    """What a message carries besides its parameters."""
    meta = params.get("_meta")
    return meta if isinstance(meta, dict) else {}


def is_id(number: object) -> bool:
    """Whether this may be the id of a request, or is none."""
    return number is None or (isinstance(number, str | int) and not isinstance(number, bool))


def no_constant(name: str) -> object:
    """Refuse NaN and the like, which Python reads and JSON does not have."""
    raise ValueError(f"{name} is not JSON")


def modern(result: Message, method: str, info: Message) -> Message:
    """A result as the modern era wants it: of which type it is, how long it may be kept, and who says so."""
    hints = {"ttlMs": 0, "cacheScope": "private"} if method in _CACHEABLE else {}
    meta = result.get("_meta", {}) | {INFO_KEY: info}
    return {"resultType": "complete"} | hints | result | {"_meta": meta}
