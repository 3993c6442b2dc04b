"""A server on this machine that answers as Anthropic, OpenAI and Google do, or in any way that a test wants."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import pytest

Act = Callable[["Handler"], None]


class Asked(NamedTuple):
    """A request as it came."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *_: object) -> None: ...

    def do_GET(self) -> None:
        self.answer(404, {})

    def do_POST(self) -> None:
        api: Api = self.server.api  # type: ignore[attr-defined]
        data = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        api.asked.append(Asked(self.path, headers, json.loads(data)))
        try:
            api.act(self)
        except OSError:  # the other side has hung up
            api.was_left.set()
            self.close_connection = True

    def answer(self, status: int, payload: object, **headers: str) -> None:
        """Send JSON, or a text as it is."""
        data = payload.encode() if isinstance(payload, str) else json.dumps(payload).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)

    def drip(self) -> None:
        """Begin a good answer, and never end it."""
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.end_headers()
        while not self.server.api.is_over.wait(0.02):  # type: ignore[attr-defined]
            self.wfile.write(b" ")
            self.wfile.flush()


class Api:
    """What the server does, and what it was asked. `was_left` is set when somebody hung up on it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.asked: list[Asked] = []
        self.was_left = threading.Event()
        self.is_over = threading.Event()
        self.act: Act = lambda handler: handler.answer(404, {})

    def say(self, text: str, *, sent: object = 11, got: object = 7, stop: str = "") -> None:
        """Answer with this text, in the words of whichever provider is asked for."""
        self.act = lambda handler: handler.answer(200, message(self.asked[-1], text, sent, got, stop))

    def fail(self, status: int, payload: object, **headers: str) -> None:
        """Answer with an error."""
        self.act = lambda handler: handler.answer(status, payload, **headers)


def message(asked: Asked, text: str, sent: object, got: object, stop: str) -> dict[str, Any]:
    """An answer as the provider of this path gives it; as a tool's call where one was offered."""
    tools = asked.body.get("tools")
    if asked.path.endswith("/messages"):
        block: dict[str, Any] = {"type": "text", "text": text}
        if tools:
            block = {"type": "tool_use", "id": "toolu_1", "name": tools[0]["name"], "input": json.loads(text)}
        return {
            "id": "msg_1", "type": "message", "role": "assistant", "model": asked.body["model"], "content": [block],
            "stop_reason": stop or ("tool_use" if tools else "end_turn"), "stop_sequence": None,
            "usage": {"input_tokens": sent, "output_tokens": got},
        }  # fmt: skip
    if asked.path.endswith("/responses"):
        part = {"type": "output_text", "text": text, "annotations": []}
        return {
            "id": "r1", "object": "response", "created_at": 1, "model": asked.body["model"], "status": "completed",
            "output": [{"type": "message", "id": "m1", "role": "assistant", "status": "done", "content": [part]}],
            "parallel_tool_calls": False, "tool_choice": "auto", "tools": [],
            "usage": {"input_tokens": sent, "output_tokens": got, "total_tokens": 0,
                      "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
                      "output_tokens_details": {"reasoning_tokens": 0}},
        }  # fmt: skip
    if asked.path.endswith("/chat/completions"):
        said: dict[str, Any] = {"role": "assistant", "content": text}
        if tools:
            call = {"name": tools[0]["function"]["name"], "arguments": text}
            said = {"role": "assistant", "tool_calls": [{"id": "call_1", "type": "function", "function": call}]}
        choice = {"index": 0, "message": said, "finish_reason": stop or ("tool_calls" if tools else "stop")}
        return {
            "id": "c1", "object": "chat.completion", "created": 1, "model": asked.body["model"], "choices": [choice],
            "usage": {"prompt_tokens": sent, "completion_tokens": got, "total_tokens": 0},
        }  # fmt: skip
    candidate = {"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": stop or "STOP", "index": 0}
    usage = {"promptTokenCount": sent, "candidatesTokenCount": got}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "m"}


@pytest.fixture
def api() -> Iterator[Api]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = False
    served = Api(f"http://127.0.0.1:{server.server_address[1]}")
    server.api = served  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield served
    served.is_over.set()
    server.shutdown()
    thread.join()
    server.server_close()
