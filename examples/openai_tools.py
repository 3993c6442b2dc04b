"""Memory for a plain loop over the OpenAI SDK: two conversations, and the second knows what the first was told.

Without OPENAI_API_KEY a script on this machine answers in the place of a model.
Needs: pip install memsheaf openai
"""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import ExitStack
from typing import Any

try:
    from openai import OpenAI
except ImportError as error:
    sys.exit(f"this example needs OpenAI's SDK: pip install openai ({error})")

from scripted_api import serving

from memsheaf import Message, Settings, Sheaf, Tools, Turn

SCRIPT = [
    ("memory_write", {"name": "Release day", "description": "When we ship", "type": "project",
                      "content": "We ship on Fridays.\n\n**Why:** support is there on Saturdays.\n"
                                 "**How to apply:** nothing risky on Thursdays."}),
    "Noted: you ship on Fridays.",
    "On Fridays; I would not deploy anything risky on a Thursday.",
]  # fmt: skip


def main() -> None:
    """Say one thing, and ask for it in another conversation."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="memsheaf-example-"))
        settings = Settings(f"{folder}/home", f"{folder}/cache", state=f"{folder}/state")  # yours, when left out
        if os.environ.get("OPENAI_API_KEY"):
            client = OpenAI()
        else:
            print("(no OPENAI_API_KEY: the answers below are scripted, all else is real)\n")
            client = OpenAI(base_url=stack.enter_context(serving(SCRIPT)), api_key="none")
        for number, message in enumerate(("We ship on Fridays, remember that.", "When do we ship?"), 1):
            print(f"Conversation {number}\n> {message}")
            with Sheaf.open("user", settings=settings) as sheaf:
                print(f"{converse(client, sheaf, message)}\n")


def converse(client: OpenAI, sheaf: Sheaf, message: str) -> str:
    """One turn: ask, run the tools that the model calls, tell it what they answered, until it has its answer."""
    session = sheaf.session()
    tools = Tools(sheaf, session=session)
    found = session.recall(message)
    for shown in found.memories:
        print(f"  recalled: {shown.memory.path}")
    messages: list[Any] = [
        {"role": "system", "content": session.prompt()},
        {"role": "user", "content": f"{message}\n\n{found.text}".strip()},
    ]
    wrote = False
    while True:
        model = os.environ.get("OPENAI_MODEL", "gpt-5.4-mini")
        shapes: Any = tools.schemas("openai")
        reply = client.chat.completions.create(model=model, tools=shapes, messages=messages).choices[0].message
        messages.append(reply)
        for call in reply.tool_calls or ():
            answer = tools.call(call.function.name, call.function.arguments)  # JSON, as it comes
            print(f"  {call.function.name}: {answer.splitlines()[0]}")
            wrote |= answer.startswith("Memory ")
            messages.append({"role": "tool", "tool_call_id": call.id, "content": answer})
        if not reply.tool_calls:
            text = reply.content or ""
            # what the model did not save is learned later: `sheaf.distil()`, or `memsheaf learn`
            session.learn(Turn("example", (Message("user", message), Message("assistant", text)), saved=wrote))
            return text


if __name__ == "__main__":
    main()
