"""A LangChain model saves with the memory tools, and finds it in the next chat.

No key and no network: the model is scripted, so put yours in its place.
Needs: pip install 'memsheaf[langchain]'
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

try:
    from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
    from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
    from langchain_core.tools import BaseTool
except ImportError as error:
    sys.exit(f"this example needs LangChain: pip install 'memsheaf[langchain]' ({error})")

from memsheaf import Settings, Sheaf
from memsheaf.adapters.langchain import memory_tools

FACT = {"name": "Prefers tabs", "description": "Indentation", "type": "user", "content": "Use tabs, not spaces."}


class Scripted(FakeMessagesListChatModel):
    """A model that says what it was told to say."""

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> Scripted:
        """Take the tools, as a real model would."""
        return self


def called(tool: str, **arguments: object) -> AIMessage:
    """What a model says when it calls a tool."""
    return AIMessage("", tool_calls=[{"name": tool, "args": arguments, "id": f"call-{tool}"}])


def chat(sheaf: Sheaf, question: str, script: Sequence[BaseMessage]) -> None:
    """One conversation: the model is asked until it calls no tool any more."""
    tools: dict[str, BaseTool] = {tool.name: tool for tool in memory_tools(sheaf)}
    model = Scripted(responses=list(script)).bind_tools(list(tools.values()))
    messages: list[BaseMessage] = [SystemMessage(sheaf.prompt()), HumanMessage(question)]
    print(f"\nuser: {question}")
    while True:
        said = model.invoke(messages)
        messages.append(said)
        if not isinstance(said, AIMessage) or not said.tool_calls:
            print(f"model: {said.text}")
            return
        for call in said.tool_calls:
            answer: ToolMessage = tools[call["name"]].invoke(call)
            print(f"model calls {call['name']}: {answer.text.splitlines()[0]}")
            messages.append(answer)


def main() -> None:
    """Two conversations on one memory."""
    with tempfile.TemporaryDirectory() as home:
        settings = Settings(
            os.path.join(home, "home"), os.path.join(home, "cache"), state=os.path.join(home, "state")
        )
        with Sheaf.open("user", settings=settings) as sheaf:
            chat(sheaf, "Please use tabs, always.", [called("memory_write", **FACT), AIMessage("I will.")])
        with Sheaf.open("user", settings=settings) as sheaf:
            script = [called("memory_search", query="indentation"), AIMessage("With tabs.")]
            chat(sheaf, "How do I indent?", script)


if __name__ == "__main__":
    main()
