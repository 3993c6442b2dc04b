"""The small loop answers as the official SDK's server does, message by message, in both eras of the protocol.

Both serve copies of the same memories over pipes and are sent the same lines. Where they differ on purpose,
`DIFFERENT` says why.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import Any, BinaryIO

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcp.server.stdio import stdio_server as sdk_streams

from cases import each_case
from memsheaf.mcp.offer import Offer

sys.path.append(str(Path(__file__).parent))
from mcp_server.mcp_peer import CLIENT, META, Message, Place, Wire, envelope, running, stdio_server
from mcp_server.mcp_site import make_sdk_server

INITIALIZE: Message = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": CLIENT}
VERSION_KEY, CAN_KEY = f"{META}protocolVersion", f"{META}clientCapabilities"


def each(*values: Any) -> tuple[Any, ...]:
    return values


# two servers and one client


@contextmanager
def ours(place: Place, *, modern: bool) -> Iterator[Wire]:
    """The small loop."""
    offer = Offer(place.sheaf())
    with stdio_server(lambda: offer, modern=modern) as wire:
        yield wire


@contextmanager
def theirs(place: Place, *, modern: bool) -> Iterator[Wire]:
    """The SDK's server, over the same offer."""
    with place.sheaf() as sheaf:
        offer = Offer(sheaf)

        async def converse(source: BinaryIO, sink: BinaryIO) -> None:
            server = make_sdk_server(lambda _: offer, watch=3600)
            with (
                TextIOWrapper(source, encoding="utf-8", errors="replace") as stdin,
                TextIOWrapper(sink, encoding="utf-8") as stdout,
            ):
                async with sdk_streams(anyio.wrap_file(stdin), anyio.wrap_file(stdout)) as (receive, send):
                    await server.run(receive, send, server.create_initialization_options())

        def serve(source: BinaryIO, sink: BinaryIO) -> None:
            anyio.run(converse, source, sink)

        with running(serve) as (go, come):
            yield Wire(go, come, modern=modern)


class Both:
    """One conversation with both at once."""

    def __init__(self, mine: Wire, sdk: Wire, *, modern: bool) -> None:
        self.mine = mine
        self.sdk = sdk
        self.modern = modern
        self._probes = 0

    def send(self, line: bytes) -> tuple[Message | None, Message | None]:
        """What both answer to one line, None for nothing."""
        for wire in (self.mine, self.sdk):
            wire.send(line + b"\n")
        mine = self._settled(self.mine)
        return mine, self._settled(self.sdk, mine)

    def _settled(self, wire: Wire, expected: Message | None = None) -> Message | None:
        """The answer that came before the one to a probe, or, of the SDK, which works in parallel, a little later."""
        number = self._probe(wire)
        wire.next(id=number)
        is_late = expected is not None and code_of(expected) not in (PARSE, INVALID) and not _answers(wire)
        if expected is not None and is_late:
            wire.said.append(wire.next(id=expected["id"]))
        answers = _answers(wire)
        for answer in answers:
            wire.said.remove(answer)
        assert len(answers) < 2, answers
        return answers[0] if answers else None

    def _probe(self, wire: Wire) -> str:
        """Ask for something behind which all that came before was answered."""
        self._probes += 1
        number = f"probe-{self._probes}"
        params = {"uri": "memory://probe"} | ({"_meta": envelope()} if self.modern else {})
        wire.send({"jsonrpc": "2.0", "id": number, "method": "resources/read", "params": params})
        return number


def _answers(wire: Wire) -> list[Message]:
    return [message for message in wire.said if "method" not in message]


# what is sent

TABS, TEA = "user_prefers-tabs.md", "user_prefers-tea.md"
REMEMBER, FILES = {"type": "ref/prompt", "name": "remember"}, {"type": "ref/resource", "uri": "memory://file/{+path}"}
CURSORS: list[Any] = [{"cursor": value} for value in each("2", "3", "", None, 2, "x", "1", "²", [])]
NEW = {"name": "Prefers coffee", "description": "What to drink", "type": "user", "content": "Coffee after lunch."}
PARAMS: dict[str, list[Any]] = {
    "ping": [{"extra": 1}],
    "server/discover": [{"extra": 1}],
    "tools/list": CURSORS,
    "prompts/list": CURSORS,
    "resources/list": CURSORS,
    "resources/templates/list": CURSORS,
    "resources/read": [
        *(
            {"uri": uri}
            for uri in ("memory://catalog", "memory://context", f"memory://file/{TABS}", "memory://file/")
        ),
        *(
            {"uri": uri}
            for uri in each(f"memory://file/{TEA}", "memory://no", "http://x", "", "memory://file/%ff.md")
        ),
        *(
            {"uri": uri}
            for uri in each("memory://file/no.md", "memory://file/../../a", "\x00", "☕", "x" * 9000, 7, None, [])
        ),
    ],
    "resources/subscribe": [{"uri": "memory://catalog"}, {"uri": "anything"}, {"uri": 7}],
    "resources/unsubscribe": [{"uri": "memory://catalog"}, {"uri": "never"}, {"uri": None}],
    "prompts/get": [
        {"name": "recall", "arguments": {"query": "tabs or spaces?"}},
        {"name": "recall", "arguments": {"query": "{recalled}"}},
        {"name": "recall", "arguments": {"query": " "}},
        {"name": "recall"},
        {"name": "remember", "arguments": {"fact": "I am 地図 ☕", "type": "user"}},
        {"name": "remember", "arguments": {"fact": 7}},
        {"name": "remember", "arguments": {"fact": "x", "more": "y"}},
        {"name": "reflect", "arguments": None},
        {"name": "reflect", "arguments": []},
        {"name": "audit", "arguments": {}},
        {"name": "ignore_memory", "extra": 1},
        {"name": "no"},
        {"name": 7},
    ],
    "tools/call": [
        *({"name": name} for name in ("memory_list", "memory_view", "memory_read", "no", "", 7, None)),
        *(
            {"name": "memory_list", "arguments": value}
            for value in each({}, None, [], "{}", 7, {"page": 9}, {"page": "1"})
        ),
        {"name": "memory_list", "arguments": {"type": "☕"}},
        {"name": "memory_read", "arguments": {"filename": TABS}},
        {"name": "memory_read", "arguments": {"filename": TEA}},
        {"name": "memory_read", "arguments": {"filename": ["x"]}},
        {"name": "memory_search", "arguments": {"query": "tabs", "limit": 10**30}},
        {"name": "memory_search", "arguments": {"query": "\u0000 ☕", "limit": -1}},
        {"name": "memory_write", "arguments": NEW},
        {"name": "memory_write", "arguments": NEW | {"content": "Other coffee."}},
        {"name": "memory_update", "arguments": {"filename": TABS, "old_text": "Tabs", "new_text": "Blanks"}},
        {"name": "memory_insert", "arguments": {"filename": TABS, "line": 1, "text": "Always."}},
        {"name": "memory_delete", "arguments": {"filename": TABS}},
        {"name": "memory_delete", "arguments": {"filename": TABS}, "inputResponses": {}, "requestState": 7},
        {"name": "memory_view", "arguments": {"deep": [[[[[{}]]]]]}},
        {"name": "memory_view", "task": {"ttl": 1}},
    ],
    "completion/complete": [
        {"ref": REMEMBER, "argument": {"name": "type", "value": ""}},
    ],
    "subscriptions/listen": [
        {"notifications": value}
        for value in each(7, None, [], {"resourceSubscriptions": "x"}, {"toolsListChanged": "x"})
    ],
    "initialize": [INITIALIZE, INITIALIZE | {"protocolVersion": "1999-01-01"}, INITIALIZE | {"capabilities": 7}],
    "logging/setLevel": [{"level": "info"}],
    "sampling/createMessage": [],
    "roots/list": [],
    "elicitation/create": [],
    "tasks/list": [],
    "tasks/get": [{"taskId": "x"}],
    "rpc.discover": [],
    "": [],
    "☕": [],
}
COMMON: list[Any] = [None, {}, {"_meta": {}}, {"_meta": {"progressToken": []}}, {"_meta": {"progressToken": None}}]


def line_of(method: str, params: object = None, number: object = 1, **more: object) -> bytes:
    given = {} if params is None else {"params": params}
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method} | given | more).encode()


def in_era(params: Any, *, modern: bool) -> Any:
    """Parameters with what every request of the modern era carries."""
    if not modern:
        return params
    return (params or {}) | {"_meta": envelope() | ((params or {}).get("_meta") or {})}


WORDS_OF_PARAMS = sorted(
    {key for plain in PARAMS.values() for params in plain if params for key in params} - {"task"}
)


# where they differ on purpose

WORDS = {
    "this connection speaks 2026-07-28, which has no initialize": (
        "connection is serving the 2026-07-28 protocol; the initialize handshake is not accepted"
    ),
    "this connection began with a handshake and takes no envelope": (
        "this connection serves the handshake protocol era; requests carrying the 2026-07-28 envelope are not "
        "accepted on it"
    ),
    f"params._meta is missing the required envelope key(s): {VERSION_KEY}, {CAN_KEY}": (
        f"params._meta must be an object carrying the required '{VERSION_KEY}' and '{CAN_KEY}' envelope keys"
    ),
}
"""What we say in words of our own, with the same code."""
NOT_OURS = ("completion/complete", "logging/setLevel", "tasks/list", "tasks/get", "tasks/cancel", "tasks/result")
PARSE, INVALID, NO_METHOD, WRONG, INTERNAL = -32700, -32600, -32601, -32602, -32603
DIFFERENT: list[tuple[str, Callable[[Message, Message | None, Message | None], bool]]] = [
    (
        "A method that we do not have is not there, whatever its parameters: the SDK complains about these first.",
        lambda sent, mine, sdk: (
            sent.get("method") in NOT_OURS and code_of(mine) == NO_METHOD and code_of(sdk) == WRONG
        ),
    ),
    (
        "What a client says of itself and we make no use of is not looked at; the SDK refuses a request over it.",
        lambda sent, mine, sdk: boasts(sent) and code_of(mine) is None and code_of(sdk) == WRONG,
    ),
    (
        "Answers to questions that we did not ask are not looked at; the SDK refuses odd ones.",
        lambda sent, mine, sdk: (
            not {"inputResponses", "requestState"}.isdisjoint(sent.get("params") or {}) and code_of(sdk) == WRONG
        ),
    ),
]
"""Why we differ, and where: what was sent, what we say, what the SDK says."""


def boasts(sent: Message) -> bool:
    """Whether a request says of its client what no plain one says."""
    params = sent.get("params") or {}
    known = envelope().items() <= (params.get("_meta") or {}).items() if "_meta" in params else True
    return params.get("capabilities", {}) != {} or not known or f"{META}logLevel" in (params.get("_meta") or {})


def code_of(answer: Message | None) -> object:
    return (answer or {}).get("error", {}).get("code")


def is_same(line: bytes, mine: Message | None, sdk: Message | None) -> bool:
    """Whether both say the same, but for our own words and the numbers that nobody can guess."""
    if _plain(mine) == _plain(sdk):
        return True
    if sdk is None and code_of(mine) in (PARSE, INVALID):
        return True  # JSON-RPC asks for an answer to what is no request; the SDK says nothing
    if code_of(mine) == PARSE and re.search(rb"Infinity|NaN", line):
        return True  # these are not JSON, though the SDK reads them
    sent = json.loads(line)
    return any(is_so(sent, mine, sdk) for _, is_so in DIFFERENT)


def _plain(answer: Message | None) -> object:
    if answer is not None and "error" in answer:
        error = answer["error"]
        return answer | {"error": error | {"message": WORDS.get(error["message"], error["message"])}}
    return json.loads(re.sub(r"-[0-9a-f]{16}\b", "-NONCE", json.dumps(answer)))


# the tests


def _made(folder: Path, count: int) -> Place:
    place = Place(folder)
    place.fill(count)
    place.save("Prefers tabs")
    place.save("Prefers tea", "Tea in the morning.", trust="unconfirmed")
    return place


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return _made(tmp_path_factory.mktemp("memories"), 2)


@pytest.fixture(scope="module")
def paged(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """More memories than one page of resources has."""
    return _made(tmp_path_factory.mktemp("many"), 110)


@contextmanager
def both(filled: Place, folder: Path, *, modern: bool) -> Iterator[Both]:
    """Both servers, each with its own copy of the memories; neither may say anything that nobody asked for."""
    with ExitStack() as stack:
        wires = []
        for name, serve in (("ours", ours), ("theirs", theirs)):
            place = Place(folder / name)
            shutil.copytree(filled.folder, place.folder)
            wires.append(stack.enter_context(serve(place, modern=modern)))
        yield Both(*wires, modern=modern)


def compare(filled: Place, folder: Path, lines: Iterable[bytes], *, modern: bool) -> list[Message | None]:
    """Send these lines to both, and give our answers, which are theirs."""
    answers = []
    with both(filled, folder, modern=modern) as conversation:
        for line in lines:
            mine, sdk = conversation.send(line)
            assert is_same(line, mine, sdk), (line[:1000], mine, sdk)
            assert code_of(mine) != INTERNAL, (line[:1000], mine)  # a mistake that both would make
            answers.append(mine)
    return answers


def hello(*, modern: bool) -> bytes:
    return line_of("server/discover", in_era(None, modern=True)) if modern else line_of("initialize", INITIALIZE)


ERAS = pytest.mark.parametrize("modern", [False, True], ids=["handshake", "modern"])


@ERAS
def test_every_request_is_answered_as_the_sdk_answers_it(paged: Place, tmp_path: Path, modern: bool) -> None:
    lines = [hello(modern=modern)]
    for method, plain in PARAMS.items():
        for params in [*plain, *COMMON]:
            lines.append(line_of(method, in_era(params, modern=modern), len(lines)))
    compare(paged, tmp_path, lines, modern=modern)


OPENINGS: list[tuple[str, list[bytes]]] = [
    ("asks before it greets", [line_of(method, {}, number) for number, method in enumerate(PARAMS)]),
    (
        "greets twice",
        [line_of("initialize", INITIALIZE), line_of("initialize", INITIALIZE, 2), line_of("tools/list")],
    ),
    *(
        (f"greets with {version!r}", [line_of("initialize", INITIALIZE | {"protocolVersion": version})])
        for version in each("2024-11-05", "2025-03-26", "2025-06-18", "2026-07-28", "", "x", 7, None, [])
    ),
    *(
        (f"greets with {key}", [line_of("initialize", INITIALIZE | {key: value})])
        for key, value in (
            ("clientInfo", {}),
            ("clientInfo", {"name": "x"}),
            ("clientInfo", {"name": 7, "version": "1"}),
            ("clientInfo", None),
            ("capabilities", None),
            ("capabilities", {"elicitation": 7}),
            ("capabilities", {"elicitation": {"form": 7}}),
            ("capabilities", {"roots": {"listChanged": "x"}}),
            ("capabilities", {"experimental": 7}),
            ("capabilities", {"unheard": {"of": 1}}),
            ("_meta", {"a": 1}),
            ("_meta", 7),
            ("more", 7),
        )
    ),
    ("greets without anything", [line_of("initialize"), line_of("initialize", {}, 2), line_of("ping", {}, 3)]),
    (
        "greets in an envelope",
        [line_of("initialize", INITIALIZE | {"_meta": envelope()}), line_of("tools/list", {}, 2)],
    ),
    (
        "comes with an envelope after a handshake",
        [line_of("initialize", INITIALIZE), *(line_of(method, in_era({}, modern=True), 2) for method in PARAMS)],
    ),
    (
        "comes with an envelope before a greeting",
        [line_of("ping"), line_of("tools/list", in_era({}, modern=True), 2)],
    ),
]
ENVELOPES: list[Any] = [
    *({key: value for key, value in envelope().items() if key != left} for left in envelope()),
    *(envelope() | {VERSION_KEY: value} for value in each("2025-11-25", "2099-01-01", "", 7, None, [])),
    *(
        envelope() | {CAN_KEY: value}
        for value in each(7, None, [], {"elicitation": {}}, {"elicitation": 7}, {"x": 1})
    ),
    *(
        envelope() | {f"{META}clientInfo": value}
        for value in each(7, None, [], {}, {"name": "x"}, {"name": "x", "version": 7})
    ),
    envelope() | {f"{META}logLevel": "info"},
    envelope() | {f"{META}logLevel": 7},
    envelope() | {"more": 7},
    {},
    7,
    None,
    [],
    "x",
]


@each_case("what, lines", OPENINGS)
def test_a_client_that_begins_oddly_is_answered_as_the_sdk_answers_it(
    filled: Place, tmp_path: Path, what: str, lines: list[bytes]
) -> None:
    compare(filled, tmp_path / str(len(os.listdir(tmp_path))), lines, modern=False)


def test_only_a_greeting_opens_a_handshake(filled: Place, tmp_path: Path) -> None:
    """The SDK takes `notifications/initialized` for one, though it was never told what the client can."""
    with both(filled, tmp_path, modern=False) as conversation:
        conversation.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
        mine, sdk = conversation.send(line_of("tools/list"))
        assert (code_of(mine), code_of(sdk)) == (WRONG, None)


def test_every_fault_of_an_envelope_is_told_as_the_sdk_tells_it(filled: Place, tmp_path: Path) -> None:
    methods = ("tools/list", "ping", "nothing", "initialize", "memory")
    lines = [line_of(method, {"_meta": meta}) for meta in ENVELOPES for method in methods]
    lines += [line_of(method) for method in methods]
    compare(filled, tmp_path, [hello(modern=True), *lines], modern=True)


IDS = [0, -1, 7, 2**53, 10**300, "", "7", "☕", "x" * 5000, "\u0000"]
NO_IDS: list[Any] = [None, True, 1.5, 1.0, [], {}, [1]]
NO_MESSAGES = [
    b"", b" ", b"{", b"nothing", b"7", b"null", b"[]", b'"text"', b"{}", b"[" * 100_000, b"{\"a\":" * 5000,
    b'{"jsonrpc":"2.0"}', b'{"jsonrpc":"1.0","id":1,"method":"ping"}', b'{"id":1,"method":"ping"}',
    b'{"jsonrpc":2.0,"id":1,"method":"ping"}', b'{"jsonrpc":"2.0","id":1,"method":7}',
    b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}', b'{"jsonrpc":"2.0","id":1,"method":"ping","params":7}',
    b'{"jsonrpc":"2.0","id":1,"method":null}', b'{"jsonrpc":"2.0","id":NaN,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"x":Infinity}}', b"\xff\xfe{}", b"\xef\xbb\xbf{}",
    b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', b'[{"jsonrpc":"2.0","id":1,"method":"tools/list"},7]', b"1" * 9000,
    b'{"jsonrpc":"2.0","id":"a","result":{}}', b'{"jsonrpc":"2.0","id":"a","result":7}', b'{"jsonrpc":"2.0","id":1}',
    b'{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}', b'{"jsonrpc":"2.0","id":1,"error":7}',
    b'{"jsonrpc":"2.0","id":{"a":1},"result":{}}', b'{"jsonrpc":"2.0","result":{}}',
]  # fmt: skip
NOTICES: list[tuple[str, Any]] = [
    *((f"notifications/{name}", {}) for name in ("initialized", "cancelled", "progress", "roots/list_changed", "no")),
    *(("notifications/cancelled", {"requestId": value}) for value in each(1, "1", None, True, [], {}, 1.5, "never")),
    ("notifications/progress", {"progressToken": 1, "progress": 1}),
    ("notifications/progress", {"progressToken": [], "progress": "x"}),
    ("tools/list", {}), ("initialize", INITIALIZE), ("tools/call", {"name": "memory_delete"}), ("", None),
]  # fmt: skip


@ERAS
def test_ids_of_every_type_are_given_back_or_taken_for_none(filled: Place, tmp_path: Path, modern: bool) -> None:
    params = in_era({}, modern=modern)
    lines = [line_of(method, params, number) for number in [*IDS, *NO_IDS] for method in ("tools/list", "nothing")]
    answers = compare(filled, tmp_path, [hello(modern=modern), *lines], modern=modern)
    assert [answer["id"] for answer in answers[1 : 1 + 2 * len(IDS)] if answer] == [
        id for id in IDS for _ in range(2)
    ]


@ERAS
def test_what_is_no_message_ends_no_conversation(filled: Place, tmp_path: Path, modern: bool) -> None:
    answers = compare(filled, tmp_path, [hello(modern=modern), *NO_MESSAGES, line_of("nothing")], modern=modern)
    odd = [code_of(answer) for line, answer in zip(NO_MESSAGES, answers[1:], strict=False) if b"Inf" in line]
    assert odd == [PARSE]


@ERAS
def test_what_is_no_message_decides_no_era(filled: Place, tmp_path: Path, modern: bool) -> None:
    early = [line for line in NO_MESSAGES if b'"method"' not in line][:8]
    with both(filled, tmp_path, modern=modern) as conversation:
        for wire in (conversation.mine, conversation.sdk):
            for line in early:
                wire.send(line + b"\n")
        for wire in (conversation.mine, conversation.sdk):
            wire.send(hello(modern=modern) + b"\n")
            assert "result" in wire.next(id=1)


@ERAS
def test_nobody_answers_a_notification(filled: Place, tmp_path: Path, modern: bool) -> None:
    lines = [hello(modern=modern)]
    lines += [
        json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode() for method, params in NOTICES
    ]
    lines += [json.dumps({"jsonrpc": "2.0", "method": method, "id": None}).encode() for method, _ in NOTICES]
    answers = compare(filled, tmp_path, lines, modern=modern)
    assert answers[1:] == [None] * (len(lines) - 1)


# what is told of changes


@ERAS
def test_changes_are_told_alike(filled: Place, tmp_path: Path, modern: bool) -> None:
    uris = ["memory://catalog", f"memory://file/{TABS}", "memory://file/user_prefers-coffee.md"]
    wanted = {"resourcesListChanged": True, "toolsListChanged": False, "resourceSubscriptions": uris}
    with both(filled, tmp_path, modern=modern) as conversation:
        said = []
        for wire in (conversation.mine, conversation.sdk):
            wire.open()
            told = []
            if modern:
                wire.request("subscriptions/listen", {"notifications": wanted})
                told.append(wire.next(method="notifications/subscriptions/acknowledged"))
            else:
                told += [wire.ask("resources/subscribe", {"uri": uri}) for uri in uris]
            wire.call("memory_write", **NEW)
            told += [wire.next(method="notifications/resources/updated") for _ in (0, 2)]
            told.append(wire.next(method="notifications/resources/list_changed"))
            told.append(wire.call("memory_update", filename=TABS, old_text="Tabs", new_text="Blanks"))
            told += [wire.next(method="notifications/resources/updated") for _ in (0, 1)]
            said.append(sorted(json.dumps(one, sort_keys=True) for one in told))
        assert said[0] == said[1]


def test_a_request_that_is_cancelled_is_answered_by_nobody(filled: Place, tmp_path: Path) -> None:
    lines = [hello(modern=True), line_of("subscriptions/listen", in_era({"notifications": {}}, modern=True), "l")]
    cancel = json.dumps({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "l"}})
    compare(filled, tmp_path, [*lines, cancel.encode()], modern=True)


# whatever comes to mind

TEXTS = st.sampled_from(["memory_list", "memory://catalog", "recall", "ref/prompt", "2", TABS, "user", "☕", ""])
VALUES = st.recursive(
    st.none() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS_OF_PARAMS), inner, max_size=4),
    max_leaves=8,
)
MUTATED = st.builds(
    lambda method, pick, changes: (method, _mutated(PARAMS[method], pick) | changes),
    st.sampled_from(sorted(set(PARAMS) - {"subscriptions/listen", "initialize"})),
    st.integers(0, 1000),
    st.dictionaries(st.sampled_from(WORDS_OF_PARAMS), VALUES, max_size=2),
)


def _mutated(given: list[Any], pick: int) -> Message:
    return dict(given[pick % len(given)] or {}) if given else {}


@pytest.fixture(scope="module", params=[False, True], ids=["handshake", "modern"])
def talk(filled: Place, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Both]:
    """One long conversation with both."""
    with both(filled, tmp_path_factory.mktemp("talk"), modern=request.param) as conversation:
        conversation.send(hello(modern=request.param))
        yield conversation


@settings(max_examples=1000 if os.environ.get("MEMSHEAF_LONG") else 60, suppress_health_check=list(HealthCheck))
@given(MUTATED)
def test_requests_that_nobody_thought_of_are_answered_alike(talk: Both, asked: tuple[str, Message]) -> None:
    method, params = asked
    line = line_of(method, in_era(params, modern=talk.modern))
    mine, sdk = talk.send(line)
    assert is_same(line, mine, sdk), (line, mine, sdk)
    talk.mine.said.clear()
    talk.sdk.said.clear()
