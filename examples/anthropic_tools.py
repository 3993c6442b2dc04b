"""Memory for a plain loop over the Anthropic SDK: two conversations, and the second knows what the first was told.

Without ANTHROPIC_API_KEY a script on this machine answers in the place of a model.
Needs: pip install 'memsheaf[anthropic]'
"""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import ExitStack
from typing import Any

try:
    from anthropic import Anthropic
except ImportError as error:
    sys.exit(f"this example needs Anthropic's SDK: pip install 'memsheaf[anthropic]' ({error})")

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
        if os.environ.get("ANTHROPIC_API_KEY"):
            client = Anthropic()
        else:
            print("(no ANTHROPIC_API_KEY: the answers below are scripted, all else is real)\n")
            client = Anthropic(base_url=stack.enter_context(serving(SCRIPT)), api_key="none")
        for number, message in enumerate(("We ship on Fridays, remember that.", "When do we ship?"), 1):
            print(f"Conversation {number}\n> {message}")
            with Sheaf.open("user", settings=settings) as sheaf:
                print(f"{converse(client, sheaf, message)}\n")


def converse(client: Anthropic, sheaf: Sheaf, message: str) -> str:
    """One turn: ask, run the tools that the model calls, tell it what they answered, until it has its answer."""
    session = sheaf.session()
    tools = Tools(sheaf, session=session)
    found = session.recall(message)
    for shown in found.memories:
        print(f"  recalled: {shown.memory.path}")
    messages: list[Any] = [{"role": "user", "content": f"{message}\n\n{found.text}".strip()}]
    wrote = False
    while True:
        reply = client.messages.create(
            model=os.environ.get("ANTHROPIC_MODEL", "claude-haiku-5-5"),
            max_tokens=1024,
            system=session.prompt(),
            tools=tools.schemas("anthropic"),
            messages=messages,
        )
        answers = []
        for block in reply.content:
            if block.type == "tool_use":
                answer = tools.call(block.name, block.input)
                print(f"  {block.name}: {answer.splitlines()[0]}")
                wrote |= answer.startswith("Memory ")
                answers.append({"type": "tool_result", "tool_use_id": block.id, "content": answer})
        if not answers:
            text = "".join(block.text for block in reply.content if block.type == "text")
            # what the model did not save is learned later: `sheaf.distil()`, or `memsheaf learn`
            session.learn(Turn("example", (Message("user", message), Message("assistant", text)), saved=wrote))
            return text
        messages += [{"role": "assistant", "content": reply.content}, {"role": "user", "content": answers}]


if __name__ == "__main__":
    main()
