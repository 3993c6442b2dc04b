"""The memory tools in Google ADK: what one conversation saves, the next one is shown.

No key and no network: a script answers in the place of the model, until you remove the callback.
Needs: pip install memsheaf google-adk
"""

from __future__ import annotations

import asyncio
import tempfile
from typing import Any

try:
    from google.adk import Agent
    from google.adk.models import LlmResponse
    from google.adk.runners import InMemoryRunner
    from google.adk.tools import BaseTool
    from google.genai.types import Content, FunctionDeclaration, Part
except ImportError as error:
    raise SystemExit(f"this example needs Google ADK: pip install google-adk ({error})") from None

from memsheaf import Settings, Sheaf, Tools

FACT = {"name": "Prefers tabs", "description": "Indentation", "type": "user", "content": "Use tabs, not spaces."}
SCRIPT = [Part.from_function_call(name="memory_write", args=FACT), Part(text="I will."), Part(text="With tabs.")]


class MemoryTool(BaseTool):
    """One memory tool as ADK calls it. What goes wrong is an answer, too."""

    def __init__(self, tools: Tools, schema: dict[str, Any]) -> None:
        super().__init__(name=schema["name"], description=schema["description"])
        self._tools, self._takes = tools, schema["input_schema"]

    def _get_declaration(self) -> FunctionDeclaration:
        return FunctionDeclaration(name=self.name, description=self.description, parameters_json_schema=self._takes)

    async def run_async(self, *, args: dict[str, Any], tool_context: Any) -> str:
        """Answer a call of the model."""
        return await asyncio.to_thread(self._tools.call, self.name, args)


def converse(sheaf: Sheaf, question: str) -> None:
    """Run the agent for one message. Keep session and tools for the whole of a longer conversation."""
    session = sheaf.session()
    memory = Tools(sheaf, session=session)
    message = f"{question}\n\n{session.recall(question).text}"
    print(f"user > {message}")
    tools = [MemoryTool(memory, schema) for schema in memory.schemas()]
    agent = Agent(name="helper", model="gemini-2.5-flash", instruction=lambda _: session.prompt(), tools=tools)
    agent.before_model_callback = lambda **_: LlmResponse(content=Content(role="model", parts=[SCRIPT.pop(0)]))
    asyncio.run(InMemoryRunner(agent).run_debug(message, verbose=True))  # prints all that happens


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(f"{folder}/home", f"{folder}/cache", state=f"{folder}/state")  # yours, when left out
        with Sheaf.open("user", settings=settings) as sheaf:
            converse(sheaf, "Please use tabs, always.")
            converse(sheaf, "Should I indent with tabs or spaces?")
