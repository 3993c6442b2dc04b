"""One conversation through a real SDK, in a process of its own: `sdk_conversation.py SHAPE URL FOLDER MESSAGE`."""

from __future__ import annotations

import sys
from typing import Any

from memsheaf.config import Settings
from memsheaf.sheaf import Sheaf
from memsheaf.tools import Tools


def with_messages(url: str, tools: Tools, said: str) -> str:
    import anthropic

    client = anthropic.Anthropic(base_url=url, api_key="none")
    messages: list[Any] = [{"role": "user", "content": said}]
    while True:
        shapes: Any = tools.schemas("anthropic")
        reply = client.messages.create(model="scripted", max_tokens=100, tools=shapes, messages=messages)
        calls = [block for block in reply.content if block.type == "tool_use"]
        if not calls:
            return "".join(block.text for block in reply.content if block.type == "text")
        answers = [
            {"type": "tool_result", "tool_use_id": call.id, "content": tools.call(call.name, call.input)}
            for call in calls
        ]
        messages += [{"role": "assistant", "content": reply.content}, {"role": "user", "content": answers}]


def with_completions(url: str, tools: Tools, said: str) -> str:
    import openai

    client = openai.OpenAI(base_url=url, api_key="none")
    messages: list[Any] = [{"role": "user", "content": said}]
    while True:
        shapes: Any = tools.schemas("openai")
        reply = client.chat.completions.create(model="scripted", tools=shapes, messages=messages).choices[0].message
        if not reply.tool_calls:
            return reply.content or ""
        messages.append(reply)
        for call in reply.tool_calls:
            assert call.type == "function"
            answer = tools.call(call.function.name, call.function.arguments)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": answer})


def with_responses(url: str, tools: Tools, said: str) -> str:
    import openai

    client = openai.OpenAI(base_url=url, api_key="none")
    messages: list[Any] = [{"role": "user", "content": said}]
    while True:
        shapes: Any = tools.schemas("openai-responses")
        reply = client.responses.create(model="scripted", tools=shapes, input=messages)
        calls = [item for item in reply.output if item.type == "function_call"]
        if not calls:
            return reply.output_text
        messages += reply.output
        for call in calls:
            answer = tools.call(call.name, call.arguments)
            messages.append({"type": "function_call_output", "call_id": call.call_id, "output": answer})


CONVERSATIONS = {"anthropic": with_messages, "openai": with_completions, "openai-responses": with_responses}

if __name__ == "__main__":
    shape, url, folder, said = sys.argv[1:]
    settings = Settings(f"{folder}/home", f"{folder}/cache", state=f"{folder}/state", embedder="none")
    with Sheaf.open("user", settings=settings) as sheaf:
        print(CONVERSATIONS[shape](url, Tools(sheaf), said))
