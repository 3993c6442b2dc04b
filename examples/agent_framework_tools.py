"""The memory tools in Microsoft's Agent Framework: what one conversation saves, the next one is shown.

No key and no network: the client is scripted, so put yours in its place.
Needs: pip install memsheaf agent-framework-core
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from typing import Any

try:
    from agent_framework import Agent, BaseChatClient, ChatResponse, Content, FunctionTool, Message
    from agent_framework import FunctionInvocationLayer as CallsTools
except ImportError as error:
    sys.exit(f"this example needs Microsoft's Agent Framework: pip install agent-framework-core ({error})")

from memsheaf import Settings, Sheaf, Tools

FACT = {"name": "Prefers tabs", "description": "Indentation", "type": "user", "content": "Use tabs, not spaces."}
SCRIPT: list[Any] = [Content.from_function_call("call-1", "memory_write", arguments=FACT), "I will.", "With tabs."]


class Scripted(CallsTools, BaseChatClient):
    """A client that gives the answers of the script."""

    async def _inner_get_response(self, *, messages: Any, stream: bool, options: Any, **_: Any) -> ChatResponse:
        return ChatResponse(messages=[Message("assistant", [SCRIPT.pop(0)])])


def to_function(tools: Tools, schema: dict[str, Any]) -> FunctionTool:
    """Return one memory tool as the framework calls it."""
    name, about, parameters = schema["name"], schema["description"], schema["input_schema"]

    async def call(**arguments: object) -> str:
        answer = await asyncio.to_thread(tools.call, name, arguments)
        print(f"tool: {answer}")
        return answer

    return FunctionTool(name=name, description=about, func=call, input_model=parameters)


def converse(sheaf: Sheaf, question: str) -> None:
    """Run the agent for one message. Keep session and tools for the whole of a longer conversation."""
    session = sheaf.session()
    memory = Tools(sheaf, session=session)
    message = f"{question}\n\n{session.recall(question).text}"  # before the prompt: it notices "ignore memory"
    tools = [to_function(memory, schema) for schema in memory.schemas()]
    agent = Agent(Scripted(), instructions=session.prompt(), tools=tools)
    print(f"user: {message}\nmodel: {asyncio.run(agent.run(message))}\n")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(f"{folder}/home", f"{folder}/cache", state=f"{folder}/state")  # yours, when left out
        with Sheaf.open("user", settings=settings) as sheaf:
            converse(sheaf, "Please use tabs, always.")
            converse(sheaf, "Should I indent with tabs or spaces?")
