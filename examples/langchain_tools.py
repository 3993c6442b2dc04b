"""The memory tools as LangChain tools: what one conversation saves, the next one is shown.

No key and no network: the model is scripted, so put yours in its place.
Needs: pip install memsheaf langchain-core
"""

from __future__ import annotations

import sys
import tempfile
from typing import Any

try:
    from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
    from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
    from langchain_core.tools import StructuredTool
except ImportError as error:
    sys.exit(f"this example needs LangChain: pip install langchain-core ({error})")

from memsheaf import Message, Settings, Sheaf, Tools, Turn

FACT = {"name": "Prefers tabs", "description": "Indentation", "type": "user", "content": "Use tabs, not spaces."}
SAVE = AIMessage("", tool_calls=[{"name": "memory_write", "args": FACT, "id": "call-1"}])


def to_langchain(tools: Tools, schema: dict[str, Any]) -> StructuredTool:
    """Return one memory tool, for `model.bind_tools`, `create_agent` or a `ToolNode`."""
    name, about, parameters = schema["name"], schema["description"], schema["input_schema"]
    return StructuredTool.from_function(
        lambda **arguments: tools.call(name, arguments), name=name, description=about, args_schema=parameters
    )


def converse(sheaf: Sheaf, question: str, *script: AIMessage) -> None:
    """Ask the model until it calls no tool any more."""
    session = sheaf.session()
    memory = Tools(sheaf, session=session)
    tools = {schema["name"]: to_langchain(memory, schema) for schema in memory.schemas()}
    recalled = session.recall(question).text  # before the prompt: it notices "ignore memory"
    messages: list[Any] = [SystemMessage(session.prompt()), HumanMessage(f"{question}\n\n{recalled}".strip())]
    print(f"user: {messages[1].text}")
    model = FakeMessagesListChatModel(responses=list(script))  # yours: `model.bind_tools(list(tools.values()))`
    while (reply := model.invoke(messages)).tool_calls:
        messages += [reply, *(tools[call["name"]].invoke(call) for call in reply.tool_calls)]
        print(f"tool: {messages[-1].text}")
    print(f"model: {reply.text}\n")
    turn = Turn("example", (Message("user", question), Message("assistant", reply.text)), saved=len(messages) > 2)
    session.learn(turn)  # `sheaf.distil()` or `memsheaf learn` learns from it later


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(f"{folder}/home", f"{folder}/cache", state=f"{folder}/state")  # yours, when left out
        with Sheaf.open("user", settings=settings) as sheaf:
            converse(sheaf, "Please use tabs, always.", SAVE, AIMessage("I will."))
            converse(sheaf, "Should I indent with tabs or spaces?", AIMessage("With tabs."))
