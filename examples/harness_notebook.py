"""The notebook of pydantic-ai-harness, kept by memsheaf: plain files, a journal, and an undo.

No key and no network: the model is a small function.
Needs: pip install 'memsheaf[pydantic-ai-harness]'
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Callable

try:
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import AgentInfo, FunctionModel
    from pydantic_ai_harness.memory import Memory
except ImportError as error:
    sys.exit(f"this example needs pydantic-ai-harness: pip install 'memsheaf[pydantic-ai-harness]' ({error})")

from memsheaf import Settings, Sheaf
from memsheaf.adapters.pydantic_ai_harness import SheafMemoryStore


async def main() -> None:
    """Write to the notebook, try to put a password there, look at the file, and take the last change back."""
    with tempfile.TemporaryDirectory(prefix="memsheaf-example-") as folder:
        home, cache, state = (os.path.join(folder, name) for name in ("home", "cache", "state"))
        settings = Settings(home, cache, state=state)  # yours are read when you leave them out
        with Sheaf.open("agent/helper", settings=settings) as sheaf:
            for note in (
                "- Releases go out on Fridays.",
                "- The staging database is called heron.",
                "- password = 'hunter2-Xk29fLq8vBz'",
            ):
                agent = Agent(FunctionModel(writing(note)), capabilities=[Memory(SheafMemoryStore(sheaf))])
                result = await agent.run("Please note this.")
                print(f"{note}\n  {result.output}")
            for row in sheaf.list():
                print(f"\n{row.path}:\n{sheaf.read(row.path).text}")
            sheaf.undo()
            print(f"after an undo:\n{sheaf.read(row.path).text}")


def writing(note: str) -> Callable[[list[ModelMessage], AgentInfo], ModelResponse]:
    """A model that writes one note, and then says what came of it."""

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if any(isinstance(message, ModelResponse) for message in messages):
            return ModelResponse([TextPart(str(messages[-1].parts[0].content))])  # type: ignore[union-attr]
        return ModelResponse([ToolCallPart("write_memory", {"content": note})])

    return answer


if __name__ == "__main__":
    asyncio.run(main())
