"""Language models on loopback for tests with real clients: the APIs of Anthropic, OpenAI (both) and Google.

Every request is kept. Every answer is one short text, or the call that a message asks for: what matters is what a
client asks, and with which context.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

ANSWER = "Noted."
CALL = re.compile(r"CALL (\w+) (\{.*?\})")
"""In a message to Anthropic's API, the tool that is called, and its input as JSON."""
COUNT = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
USAGE = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}


class ModelApi(NamedTuple):
    """Where the models are, and what they were asked: the body of each request, in order."""

    url: str
    requests: list[dict[str, Any]]

    def asked(self, *texts: str) -> list[str]:
        """The requests since the last time, as JSON; those that hold all of the texts."""
        found = [json.dumps(body, ensure_ascii=False) for body in self.requests]
        self.requests.clear()
        return [text for text in found if all(one in text for one in texts)]


@contextmanager
def serve_models() -> Iterator[ModelApi]:
    """Listen on a free port of loopback."""
    requests: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: object) -> None: ...

        def do_GET(self) -> None:
            self.send("application/json", b'{"object": "list", "data": [], "models": []}')

        def do_HEAD(self) -> None:
            self.send_error(404)

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or b"{}")
            path = self.path.partition("?")[0]
            if path.endswith(("countTokens", "count_tokens")):
                return self.send("application/json", b'{"totalTokens": 1, "input_tokens": 1}')
            events = next((make(body) for end, make in SHAPES.items() if path.endswith(end)), None)
            if events is None:
                return self.send_error(404)
            requests.append(body)
            if len(events) == 1:
                return self.send("application/json", json.dumps(events[0][1]).encode())
            lines = (
                f"event: {kind}\ndata: {json.dumps(data)}\n\n".removeprefix("event: \n") for kind, data in events
            )
            return self.send("text/event-stream", "".join(lines).encode() + b"data: [DONE]\n\n" * ("chat" in path))

        def send(self, kind: str, data: bytes) -> None:
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield ModelApi(f"http://127.0.0.1:{server.server_port}", requests)
    finally:
        server.shutdown()
        server.server_close()


# An answer in the shape of each API: its events, or a document alone.

Events = list[tuple[str, dict[str, Any]]]


def _anthropic(body: dict[str, Any]) -> Events:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": body["model"], "content": []}
    message |= {"stop_reason": None, "stop_sequence": None, "usage": USAGE}
    text = {"type": "text", "text": ANSWER}
    if not body.get("stream"):
        return [("", message | {"content": [text], "stop_reason": "end_turn"})]
    asked = json.dumps(body["messages"])
    if "tool_result" not in asked and (call := CALL.search(asked)):
        return _call_tool(message, call[1], json.loads(f'"{call[2]}"'))
    events: dict[str, dict[str, Any]] = {
        "message_start": {"message": message},
        "content_block_start": {"index": 0, "content_block": text | {"text": ""}},
        "content_block_delta": {"index": 0, "delta": {"type": "text_delta", "text": ANSWER}},
        "content_block_stop": {"index": 0},
        "message_delta": {"delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": USAGE},
        "message_stop": {},
    }
    return [(kind, {"type": kind} | data) for kind, data in events.items()]


def _call_tool(message: dict[str, Any], name: str, given: str) -> Events:
    call = {"type": "tool_use", "id": "toolu_1", "name": name, "input": {}}
    events: dict[str, dict[str, Any]] = {
        "message_start": {"message": message},
        "content_block_start": {"index": 0, "content_block": call},
        "content_block_delta": {"index": 0, "delta": {"type": "input_json_delta", "partial_json": given}},
        "content_block_stop": {"index": 0},
        "message_delta": {"delta": {"stop_reason": "tool_use", "stop_sequence": None}, "usage": USAGE},
        "message_stop": {},
    }
    return [(kind, {"type": kind} | data) for kind, data in events.items()]


def _responses(body: dict[str, Any]) -> Events:
    content = [{"type": "output_text", "text": ANSWER, "annotations": []}]
    item = {"type": "message", "id": "m1", "role": "assistant", "status": "completed", "content": content}
    response = {"id": "r1", "object": "response", "status": "completed", "model": body.get("model")}
    events: dict[str, dict[str, Any]] = {
        "response.created": {"response": response | {"output": []}},
        "response.output_item.done": {"output_index": 0, "item": item},
        "response.completed": {"response": response | {"output": [item], "usage": USAGE}},
    }
    return [(kind, {"type": kind} | data) for kind, data in events.items()]


def _chat(body: dict[str, Any]) -> Events:
    said = {"role": "assistant", "content": ANSWER}
    whole = {"id": "c1", "created": 1, "model": body.get("model"), "usage": COUNT}
    if not body.get("stream"):
        choice = {"index": 0, "message": said, "finish_reason": "stop"}
        return [("", whole | {"object": "chat.completion", "choices": [choice]})]
    choices = ({"delta": said, "finish_reason": None}, {"delta": {}, "finish_reason": "stop"})
    return [("", whole | {"object": "chat.completion.chunk", "choices": [{"index": 0} | one]}) for one in choices]


def _google(body: dict[str, Any]) -> Events:
    content = {"role": "model", "parts": [{"text": ANSWER}]}
    counts = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
    candidate = {"content": content, "finishReason": "STOP", "index": 0}
    return [("", {"candidates": [candidate], "usageMetadata": counts})]


def _google_stream(body: dict[str, Any]) -> Events:
    return [*_google(body), ("", {"usageMetadata": {"totalTokenCount": 2}})]


SHAPES = {
    "/v1/messages": _anthropic,
    "/responses": _responses,
    "/chat/completions": _chat,
    ":streamGenerateContent": _google_stream,
    ":generateContent": _google,
}
