"""An API on this machine that says what it was told to, for examples that have no key. It is no example itself."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Step = tuple[str, dict[str, object]] | str
"""A call of a tool with its arguments, or what the model says."""


@contextmanager
def serving(script: Sequence[Step]) -> Iterator[str]:
    """An address that answers one step a request, as Anthropic does or as OpenAI's Chat Completions do."""
    steps = iter(script)

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *_: object) -> None: ...

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            answer = _message if self.path.endswith("/messages") else _completion
            data = json.dumps(answer(next(steps))).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def _message(step: Step) -> dict[str, object]:
    block: dict[str, object] = {"type": "text", "text": step}
    if isinstance(step, tuple):
        block = {"type": "tool_use", "id": "toolu_1", "name": step[0], "input": step[1]}
    return {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "scripted", "content": [block],
        "stop_reason": "tool_use" if isinstance(step, tuple) else "end_turn", "stop_sequence": None,
        "usage": {"input_tokens": 0, "output_tokens": 0},
    }  # fmt: skip


def _completion(step: Step) -> dict[str, object]:
    said: dict[str, object] = {"role": "assistant", "content": step}
    if isinstance(step, tuple):
        call = {"name": step[0], "arguments": json.dumps(step[1])}
        said = {"role": "assistant", "tool_calls": [{"id": "call_1", "type": "function", "function": call}]}
    choice = {"index": 0, "message": said, "finish_reason": "tool_calls" if isinstance(step, tuple) else "stop"}
    return {"id": "c1", "object": "chat.completion", "created": 0, "model": "scripted", "choices": [choice]}
