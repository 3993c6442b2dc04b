"""A pydantic-ai agent that remembers, in three conversations.

No key and no network: the model is a small function.
Needs: pip install 'memsheaf[pydantic-ai]'
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile

try:
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, UserPromptPart
    from pydantic_ai.models.function import AgentInfo, FunctionModel
except ImportError as error:
    sys.exit(f"this example needs pydantic-ai: pip install 'memsheaf[pydantic-ai]' ({error})")

from memsheaf import Settings
from memsheaf.adapters.pydantic_ai import Memory


async def main() -> None:
    """Tell something in one conversation, and ask for it in another."""
    with tempfile.TemporaryDirectory(prefix="memsheaf-example-") as folder:
        home, cache, state = (os.path.join(folder, name) for name in ("home", "cache", "state"))
        settings = Settings(home, cache, state=state)  # yours are read when you leave them out
        for said in (
            "Remember that our staging database is called heron.",
            "Save this for later, please: releases go out on Fridays.",
            "When do releases go out, and what is the staging database called?",
        ):
            print(f"\n=== A new conversation\nuser: {said}")
            with Memory[None]("project", settings=settings, tree=folder) as memory:
                agent = Agent(FunctionModel(answer), capabilities=[memory])
                result = await agent.run(said)
            print(f"agent: {result.output}")
            print(f"(the history holds {len(result.all_messages_json())} bytes, and nothing that was recalled)")


def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Play the model: save what is to be saved, and repeat what memory says."""
    parts = (part for message in messages for part in message.parts)
    prompt = next(part for part in parts if isinstance(part, UserPromptPart))
    said, _, recalled = str(prompt.content).partition("\n\n<memories-")
    if recalled:
        facts = [line[2:].partition(" (")[0] for line in recalled.splitlines() if line.startswith("- ")]
        return ModelResponse([TextPart("I was told: " + " ".join(facts))])
    if said.startswith("Save") and len(messages) == 1:
        fact = {"name": "Releases", "description": "When releases go out", "type": "project",
                "content": "Releases go out on Fridays."}  # fmt: skip
        print("  the model calls memory_write")
        return ModelResponse([ToolCallPart("memory_write", fact)])
    return ModelResponse([TextPart("I will remember.")])


if __name__ == "__main__":
    asyncio.run(main())
