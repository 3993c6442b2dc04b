"""An encoder behind a real server on this machine, which answers as the providers do, or as badly as one can."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy
import pytest

from cases import each_case
from llm.conftest import Act, Api, Asked, Handler, api
from memsheaf.encode.api import ServedEncoder
from memsheaf.errors import ModelFailed
from memsheaf.llm import http

KEY = "sk-proj-4f9a0c77e1"
__all__ = ["api"]  # the fixture


class Server(NamedTuple):
    """The server, as an encoder is told of it."""

    url: str
    asked: list[Asked]
    play: Callable[[Act], None]


@pytest.fixture(params=["HTTP/1.1"])
def server(api: Api, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Server:
    monkeypatch.setattr(Handler, "protocol_version", request.param)

    def play(act: Act) -> None:
        api.act = act

    play(good)
    return Server(f"{api.url}/v1", api.asked, play)


@pytest.fixture
def embedder(server: Server) -> ServedEncoder:
    return ServedEncoder(
        "openai:text-embedding-3-small", url=server.url, key="SOME_KEY", environment={"SOME_KEY": KEY}
    )


def vector(text: str) -> list[float]:
    """Some numbers that tell texts apart."""
    return [3.0 * len(text), 4.0, float(sum(map(ord, text)) % 7)]


def row(text: str) -> list[float]:
    numbers = vector(text)
    return [number / math.hypot(*numbers) for number in numbers]


def listing(texts: list[str], **changes: Any) -> dict[str, Any]:
    items = [{"object": "embedding", "index": at, "embedding": vector(text)} for at, text in enumerate(texts)]
    usage = {"prompt_tokens": 8, "total_tokens": 8}
    return {"object": "list", "data": items, "model": "text-embedding-3-small", "usage": usage, **changes}


def last_asked(handler: Handler) -> Asked:
    asked: Asked = handler.server.api.asked[-1]  # type: ignore[attr-defined]
    return asked


def good(handler: Handler) -> None:
    """As OpenAI answers, with line feeds and blanks."""
    handler.answer(200, json.dumps(listing(last_asked(handler).body["input"]), indent=2))


def as_ollama(handler: Handler) -> None:
    texts = last_asked(handler).body["input"]
    items = [{"object": "embedding", "embedding": vector(text), "index": at} for at, text in enumerate(texts)]
    usage = {"prompt_tokens": 2, "total_tokens": 2}
    handler.answer(200, json.dumps({"object": "list", "data": items, "model": "nomic-embed-text", "usage": usage}))


def as_gemini(handler: Handler) -> None:
    """Without the number 0, and in pieces."""
    texts = last_asked(handler).body["input"]
    items: list[dict[str, Any]] = [{"object": "embedding", "embedding": vector(text)} for text in texts]
    for at, item in enumerate(items[1:], 1):
        item["index"] = at
    handler.answer(200, json.dumps({"object": "list", "data": items, "model": "gemini-embedding-001"}))


def backwards(handler: Handler) -> None:
    answer = listing(last_asked(handler).body["input"])
    handler.answer(200, json.dumps(answer | {"data": answer["data"][::-1]}))


def in_chunks(handler: Handler) -> None:
    data = json.dumps(listing(last_asked(handler).body["input"])).encode()
    handler.send_response(200)
    if handler.protocol_version == "HTTP/1.1":
        handler.send_header("Transfer-Encoding", "chunked")
        data = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (data[:7], data[7:])) + b"0\r\n\r\n"
    handler.end_headers()
    handler.wfile.write(data)
    handler.close_connection = True


def saying(status: int, body: str, **headers: str) -> Act:
    return lambda handler: handler.answer(status, body, **headers)


def hang(handler: Handler) -> None:
    handler.server.api.is_over.wait(60)  # type: ignore[attr-defined]
    handler.close_connection = True


def drip(start: bytes) -> Act:
    """Begin well, and then a byte from time to time, so that no single wait is long."""

    def reply(handler: Handler) -> None:
        handler.close_connection = True
        handler.wfile.write(start)
        for _ in range(400):
            if handler.server.api.is_over.wait(0.02):  # type: ignore[attr-defined]
                return
            handler.wfile.write(b" ")
        handler.server.api.asked.append(Asked("all of it was waited for", {}, {}))  # type: ignore[attr-defined]

    return reply


def failure(embedder: ServedEncoder, *texts: str) -> str:
    with pytest.raises(ModelFailed) as caught:
        embedder.encode(texts or ["a text"])
    said = f"{caught.value} {caught.value.hint}"
    assert KEY not in said
    assert "\n" not in said
    return said


@pytest.mark.parametrize("server", ["HTTP/1.1", "HTTP/1.0"], indirect=True)
@pytest.mark.parametrize("reply", [good, as_ollama, as_gemini, backwards, in_chunks])
def test_rows_are_one_long_and_in_the_order_of_the_texts(server: Server, embedder: ServedEncoder, reply: Act) -> None:
    server.play(reply)
    texts = ["one", "and two", "three, naïve 數據"]
    found = embedder.encode(texts)
    assert found.dtype == numpy.float32
    assert numpy.abs(found - [row(text) for text in texts]).max() < 1e-6
    assert embedder.dimensions == 3


def test_the_question_is_the_one_that_providers_document(server: Server, embedder: ServedEncoder) -> None:
    embedder.encode(["naïve"])
    (asked,) = server.asked
    assert asked.path == "/v1/embeddings"
    assert asked.body == {"model": "text-embedding-3-small", "input": ["naïve"], "encoding_format": "float"}
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert asked.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("provider", "extra"),
    [
        ("openai", {"encoding_format": "float"}),
        ("openai-compatible", {"encoding_format": "float"}),
        ("gemini", {"encoding_format": "float"}),
        ("mistral", {"encoding_format": "float"}),
        ("voyage", {}),
        ("jina", {}),
    ],
)
def test_each_provider_is_asked_in_its_own_words(server: Server, provider: str, extra: dict[str, object]) -> None:
    ServedEncoder(f"{provider}:m", url=server.url).encode(["a"])
    assert server.asked[0].body == {"model": "m", "input": ["a"], **extra}


def test_a_key_is_read_at_each_question_and_kept_nowhere(server: Server) -> None:
    environment: dict[str, str] = {}
    embedder = ServedEncoder("openai:m", url=server.url, key="SOME_KEY", environment=environment)
    assert "SOME_KEY is not set" in failure(embedder)
    environment["SOME_KEY"] = f" {KEY}\n"
    embedder.encode(["a"])
    environment["SOME_KEY"] = "another"
    embedder.encode(["a"])
    assert [asked.headers["authorization"] for asked in server.asked] == [f"Bearer {KEY}", "Bearer another"]
    assert KEY not in repr([vars(embedder) | {"_environment": None}, embedder.identity])


def test_a_providers_own_key_goes_to_its_own_address_only(server: Server) -> None:
    ServedEncoder("openai:m", url=server.url, environment={"OPENAI_API_KEY": KEY}).encode(["a"])
    assert "authorization" not in server.asked[0].headers


@each_case(
    "status, body, said",
    [
        (
            401,
            json.dumps(
                {
                    "error": {
                        "message": f"Incorrect API key provided: {KEY}. You can find your API key at https://…",
                        "type": "invalid_request_error",
                        "param": None,
                        "code": "invalid_api_key",
                    }
                },
                indent=4,
            ),
            "answered 401: Incorrect API key provided: …. You can find",
        ),
        (404, '{"error":{"message":"model \\"m\\" not found, try pulling it first"}}', "404: model \"m\" not found"),
        (400, '{"error":"the input length exceeds the context length"}', "400: the input length exceeds the context"),
        (400, '[{"error": {"code": 400, "message": "API key not valid.\\nx", "status": "X"}}]', "not valid. (the"),
        (422, '{"object":"error","message":{"detail":[{"msg":"Extra inputs are not permitted"}]}}', "Extra inputs"),
        (401, '{"message":"Unauthorized","request_id":"7"}', "401: Unauthorized (the key is in the"),
        (400, '{"detail":"Value \'float\' for \'encoding_format\' is invalid"}', "400: Value 'float' for"),
        (500, '{"error":{"code":500,"message":"input is too large to process"}}', "500: input is too large"),
        (500, "out of memory\nat line 3", "answered 500: out of memory `memsheaf config`"),
        (500, "<html><body>oops</body></html>", "answered 500 `memsheaf config`"),
        (500, "", "answered 500 `memsheaf config`"),
        (500, "[" * 100_000, "answered 500 `memsheaf config`"),
        (500, '{"error": ' * 50 + "1" + "}" * 50, "answered 500 `memsheaf config`"),
        (418, f"\x1b[31m{KEY}{'x' * 1000}", "answered 418: [31m…xxx"),
        (204, "", "answered 204"),
    ],
)  # fmt: skip
def test_a_refusal_is_told_in_the_providers_words_without_the_key(
    server: Server, embedder: ServedEncoder, status: int, body: str, said: str
) -> None:
    server.asked.clear()
    server.play(saying(status, body))
    found = failure(embedder)
    assert found.startswith(f"openai:text-embedding-3-small at {server.url} answered {status}")
    assert said in found
    assert len(found) < 600
    assert len(server.asked) == 1


HEAD = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    "reply",
    [hang, drip(b"HTTP/1.1 "), drip(HEAD + b"X-Slow: "), drip(HEAD + b"Content-Length: 99999\r\n\r\n{"),
     drip(HEAD + b"\r\n{"), drip(HEAD + b"Transfer-Encoding: chunked\r\n\r\n"), drip(b"HTTP/1.1 500 No\r\n\r\n")],
)  # fmt: skip
def test_an_answer_that_does_not_come_or_does_not_end_is_not_waited_for(server: Server, reply: Act) -> None:
    server.play(reply)
    assert "gave no answer within 0.3 seconds" in failure(ServedEncoder("ollama:m", url=server.url, timeout=0.3))
    assert len(server.asked) == 1


@each_case(
    "body, said",
    [
        ("", "no list 'data'"),
        ("no json at all", "no list 'data'"),
        ('{"data": [', "no list 'data'"),
        ("[" * 100_000, "no list 'data'"),
        ("null", "no list 'data'"),
        ("[]", "no list 'data'"),
        ('{"error": "quietly"}', "no list 'data'"),
        ('{"data": {}}', "no list 'data'"),
        ('{"data": []}', "not numbered"),
        ('{"data": [{"embedding": [1]}]}', "not numbered"),
        ('{"data": [{"embedding": [1]}, {"embedding": [1]}, {"embedding": [1]}]}', "not numbered"),
        ('{"data": [1, 2]}', "not numbered"),
        ('{"data": [{"embedding": [1]}, {}]}', "not numbered"),
        ('{"data": [{"embedding": [1]}, {"embedding": []}]}', "not of one length"),
        ('{"data": [{"embedding": [1]}, {"embedding": "AACAPw=="}]}', "not numbered"),
        ('{"data": [{"embedding": [1]}, {"embedding": ["1"]}]}', "no list of numbers"),
        ('{"data": [{"embedding": [1]}, {"embedding": [null]}]}', "no list of numbers"),
        ('{"data": [{"embedding": [1]}, {"embedding": [[1]]}]}', "not of one length"),
        ('{"data": [{"embedding": [1]}, {"embedding": [1, 2]}]}', "not of one length"),
        ('{"data": [{"embedding": [1]}, {"embedding": [NaN]}]}', "not finite"),
        ('{"data": [{"embedding": [1]}, {"embedding": [-Infinity]}]}', "not finite"),
        ('{"data": [{"embedding": [1]}, {"embedding": [1e999]}]}', "not finite"),
        ('{"data": [{"embedding": [1]}, {"embedding": [1%s]}]}' % ("0" * 400), "no list of numbers"),
        ('{"data": [{"embedding": [1]}, {"embedding": [1%s]}]}' % ("0" * 5000), "no list 'data'"),
        ('{"data": [{"embedding": [1, 0]}, {"embedding": [0, -0.0]}]}', "all zeros"),
        ('{"data": [{"embedding": [1], "index": 1}, {"embedding": [1], "index": 1}]}', "not numbered"),
        ('{"data": [{"embedding": [1], "index": 1}, {"embedding": [1]}]}', "not numbered"),
        ('{"data": [{"embedding": [1], "index": 0}, {"embedding": [1], "index": 2}]}', "not numbered"),
        ('{"data": [{"embedding": [1], "index": -1}, {"embedding": [1], "index": 0}]}', "not numbered"),
        ('{"data": [{"embedding": [1], "index": "0"}, {"embedding": [1], "index": "1"}]}', "not numbered"),
    ],
)  # fmt: skip
def test_an_answer_that_is_not_sound_is_not_used(
    server: Server, embedder: ServedEncoder, body: str, said: str
) -> None:
    server.asked.clear()
    server.play(saying(200, body))
    found = failure(embedder, "a", "b")
    assert "gave an answer that cannot be used: " in found
    assert said in found
    assert len(server.asked) == 1


@pytest.mark.parametrize("is_told", [True, False])
def test_an_answer_without_end_is_not_read_to_its_end(server: Server, embedder: ServedEncoder, is_told: bool) -> None:
    sent = 0

    def flood(handler: Handler) -> None:
        nonlocal sent
        handler.close_connection = True
        length = b"Content-Length: 9000000000\r\n" if is_told else b""
        handler.wfile.write(HEAD + length + b"\r\n[")
        try:
            while sent < 3 * http.ANSWER_BYTES:
                sent += handler.connection.send(b"0," * (1 << 19))
        except OSError:
            pass

    server.play(flood)
    assert "its answer is larger than 50 MB" in failure(embedder)
    assert sent < 2 * http.ANSWER_BYTES


@pytest.mark.parametrize(
    ("status", "location"),
    [(301, "https://evil.example/v1/embeddings?k=1"), (302, "/v2/embeddings"), (303, ""),
     (307, f"https://{KEY}@evil.example/"), (308, "javascript:1")],
)  # fmt: skip
def test_no_redirect_is_followed(server: Server, embedder: ServedEncoder, status: int, location: str) -> None:
    server.play(saying(status, "", Location=location))
    assert f"answered {status}, a redirect, which is not followed" in failure(embedder)
    assert len(server.asked) == 1


@each_case("url", ["http://api.openai.com/v1", "http://127.0.0.1.evil.example/v1", "http://localhost.evil.example/v1",
     "http://10.0.0.1/v1", "http://0.0.0.0/v1", "http://[::2]/v1", "http://1270.0.0.1/v1",
     "http://127.1/v1"])  # fmt: skip
def test_http_is_for_this_machine_only(url: str) -> None:
    with pytest.raises(ModelFailed, match="would show texts and key to the network"):
        ServedEncoder("openai-compatible:m", url=url)


@each_case("url", [f"https://user:{KEY}@host/v1", f"https://host/v1?key={KEY}", f"https://host/v1#{KEY}",
     "host/v1", "https://", "ftp://host/v1", "file:///etc/passwd", "https://host:99999/v1", "https://host:x/v1",
     "https://ho st/v1", "https://host/v1\r\nX: y", "https://höst/v1", " https://host/v1", "https://host\\@evil.example/v1",
     "\ud800"])  # fmt: skip
def test_what_is_no_address_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(ModelFailed, match="an address is like https://host/v1") as caught:
        ServedEncoder("openai-compatible:m", url=url)
    assert KEY not in str(caught.value)


@each_case("key", [KEY, "AIzaSyD4f9a0c77e1", "jina_4f9a0c77e1", "", "A B", "1A"])
def test_a_key_in_place_of_its_variable_is_refused_and_not_shown(key: str) -> None:
    if not key:
        assert ServedEncoder("ollama:m", key=key).identity
        return
    with pytest.raises(ModelFailed, match="the name of an environment variable") as caught:
        ServedEncoder("ollama:m", key=key)
    assert key not in str(caught.value)
