"""The protocol itself, message by message: what is answered, what is refused, and in which era."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cases import each_case
from memsheaf.mcp.offer import Offer

sys.path.append(str(Path(__file__).parent))
from mcp_server.mcp_peer import CLIENT, META, Message, Place, Wire, envelope, stdio_server

PARSE, INVALID, NO_METHOD, WRONG, UNSUPPORTED = -32700, -32600, -32601, -32602, -32022
INITIALIZE: Message = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": CLIENT}
VERSION_KEY, CAN_KEY = f"{META}protocolVersion", f"{META}clientCapabilities"
IDS: list[Any] = [0, -1, 2**53, 10**300, "", "7", "☕", "\u0000"]
ERAS = pytest.mark.parametrize("modern", [False, True], ids=["handshake", "modern"])


@pytest.fixture
def fresh(place: Place) -> Iterator[Wire]:
    """A server that nobody has greeted."""
    with stdio_server(lambda: Offer(place.sheaf()), modern=False) as wire:
        yield wire


@pytest.fixture
def wire(place: Place, modern: bool) -> Iterator[Wire]:
    """A server that was greeted, in one of the eras."""
    place.save("Prefers tabs")
    with stdio_server(lambda: Offer(place.sheaf()), modern=modern) as opened:
        opened.open()
        yield opened


def code(answer: Message) -> object:
    return answer.get("error", {}).get("code")


NO_TEXTS: list[Any] = [7, None, []]
NO_OBJECTS: list[Any] = [[], "{}", 7]
LACKING: list[tuple[str, Message]] = [
    *(("tools/call", {"name": name}) for name in NO_TEXTS),
    *(("tools/call", {"name": "memory_list", "arguments": value}) for value in NO_OBJECTS),
    *(("resources/read", {"uri": uri}) for uri in NO_TEXTS),
    *(("prompts/get", {"name": "remember", "arguments": value}) for value in [*NO_OBJECTS, {"fact": 7}]),
    *((f"{kind}/list", {"cursor": 2}) for kind in ("tools", "prompts", "resources")),
    ("tools/list", {"_meta": {"progressToken": []}}),
    ("tools/list", {"_meta": {"progressToken": True}}),
    ("resources/list", {"cursor": "x"}),
    ("prompts/get", {"name": "nothing"}),
]


@ERAS
@each_case("method, params", LACKING)
def test_what_lacks_a_part_is_refused(wire: Wire, method: str, params: Message) -> None:
    assert code(wire.ask(method, params)) == WRONG


@ERAS
@each_case("method", ["completion/complete", "resources/subscribe", "logging/setLevel", "tasks/list", "nothing", ""])
def test_a_method_that_is_not_there_is_told(wire: Wire, method: str) -> None:
    assert code(wire.ask(method)) == NO_METHOD


@ERAS
def test_an_id_of_every_type_is_given_back(wire: Wire) -> None:
    params = {"_meta": envelope()} if wire.modern else {}
    for number in IDS:
        for method in ("tools/list", "resources/list"):
            wire.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
            assert "result" in wire.next(id=number)


@ERAS
def test_what_is_no_message_is_refused_and_ends_no_conversation(wire: Wire) -> None:
    for line, expected in (
        (b"{", PARSE),
        (b"\xff\xfe\x00", PARSE),
        (b"[" * 100_000, PARSE),
        (b"1" * 9000, PARSE),
        (b'{"jsonrpc":"2.0","id":NaN}', PARSE),
        (b"7", INVALID),
        (b"null", INVALID),
        (b"{}", INVALID),
        (b'{"jsonrpc":"2.0"}', INVALID),
        (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', INVALID),
        (b'{"jsonrpc":"2.0","id":1,"method":7}', INVALID),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', INVALID),
        (b'[{"jsonrpc":"2.0","id":1}]', INVALID),
    ):
        wire.send(line + b"\n")
        assert code(wire.next(id=None)) == expected, line
    wire.send(b'{"jsonrpc":"2.0","id":"latin","method":"caf\xe9"}\n')
    assert code(wire.next(id="latin")) in (NO_METHOD, WRONG)
    wire.send(b'{"jsonrpc":"2.0","id":"x","method":"tools/list","params":[]}\n')
    assert code(wire.next(id="x")) in (INVALID, WRONG)
    assert "result" in wire.ask("tools/list")


@ERAS
def test_nobody_answers_a_notification_or_an_answer(wire: Wire) -> None:
    for number in [1, "never", *NO_OBJECTS]:
        wire.notify("notifications/cancelled", {"requestId": number})
    for method in ("notifications/initialized", "notifications/nothing", "tools/list", "tools/call"):
        wire.notify(method, {})
    wire.send({"jsonrpc": "2.0", "id": "a", "result": {}})
    wire.send({"jsonrpc": "2.0", "id": None, "error": {"code": 1, "message": "x"}})
    assert "result" in wire.ask("resources/list")
    assert wire.said == []


@ERAS
def test_an_id_that_waits_for_its_answer_is_not_used_twice(wire: Wire) -> None:
    meta = {"_meta": envelope()} if wire.modern else {}
    line = {"jsonrpc": "2.0", "id": "twice", "method": "tools/call", "params": {"name": "memory_list"} | meta}
    wire.send(b"".join(json.dumps(line).encode() + b"\n" for _ in range(100)))
    answers = [wire.next(id="twice") for _ in range(100)]
    assert {code(answer) for answer in answers} == {None, INVALID}
    assert "result" in wire.ask("tools/list")


@each_case("version, answered", [("2024-11-05", "2024-11-05"), ("2025-06-18", "2025-06-18"), ("1999", "2025-11-25")])
def test_a_client_is_greeted_in_a_version_that_both_know(fresh: Wire, version: str, answered: str) -> None:
    greeting = fresh.ask("initialize", INITIALIZE | {"protocolVersion": version})["result"]
    assert greeting["protocolVersion"] == answered
    assert greeting["capabilities"]["resources"] == {"subscribe": False, "listChanged": True}


def test_only_a_greeting_opens_a_handshake(fresh: Wire) -> None:
    fresh.notify("notifications/initialized", {})
    assert fresh.ask("ping")["result"] == {}
    assert code(fresh.ask("tools/list")) == WRONG
    for key in INITIALIZE:
        assert code(fresh.ask("initialize", INITIALIZE | {key: None})) == WRONG
    assert code(fresh.ask("tools/list")) == WRONG
    assert "result" in fresh.ask("initialize", INITIALIZE)
    assert "result" in fresh.ask("tools/list")
    assert code(fresh.ask("tools/list", {"_meta": envelope()})) == INVALID


def test_every_fault_of_an_envelope_is_told(fresh: Wire) -> None:
    assert "result" in fresh.ask("server/discover", {"_meta": envelope()})
    faults: list[tuple[Any, int]] = [
        (None, WRONG),
        (7, WRONG),
        ({}, WRONG),
        ({VERSION_KEY: "2026-07-28"}, WRONG),
        ({CAN_KEY: {}}, WRONG),
        (envelope() | {VERSION_KEY: 7}, WRONG),
        (envelope() | {CAN_KEY: 7}, WRONG),
        *((envelope() | {VERSION_KEY: version}, UNSUPPORTED) for version in ("2025-11-25", "2099-01-01")),
    ]
    for meta, expected in faults:
        assert code(fresh.ask("tools/list", {"_meta": meta})) == expected, meta
    assert code(fresh.ask("initialize", INITIALIZE)) == WRONG
    assert code(fresh.ask("initialize", INITIALIZE | {"_meta": envelope()})) == NO_METHOD
    assert "result" in fresh.ask("tools/list", {"_meta": envelope()})
