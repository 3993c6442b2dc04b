"""The memory tools in LangChain's shape: in a ToolNode, bound to a model, called with anything."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from memsheaf import Settings, Sheaf, Tools
from memsheaf.adapters.langchain import memory_tools

ROOT = Path(__file__).resolve().parents[2]
CORPORA = ROOT / "tests" / "corpora"
FACT = {"name": "Prefers tabs", "description": "Indentation", "type": "user", "content": "Use tabs, not spaces."}


class Scripted(FakeMessagesListChatModel):
    """A model that says what it was told to say, and tells which tools it was offered."""

    offered: tuple[dict[str, Any], ...] = ()

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> Scripted:
        self.offered = tuple(convert_to_openai_tool(tool) for tool in tools)
        return self


def by_name(memory: Sheaf | Tools) -> dict[str, BaseTool]:
    return {tool.name: tool for tool in memory_tools(memory)}


def called(tool: str, id: str = "1", **arguments: object) -> dict[str, Any]:
    return {"name": tool, "args": arguments, "id": id, "type": "tool_call"}


def agent(sheaf: Sheaf, *script: BaseMessage) -> Any:
    tools = memory_tools(sheaf)
    model = Scripted(responses=list(script)).bind_tools(tools)
    builder = StateGraph(MessagesState)
    builder.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
    builder.add_node("tools", ToolNode(tools))
    builder.add_edge(START, "model")
    builder.add_conditional_edges("model", tools_condition, {"tools": "tools", END: END})
    builder.add_edge("tools", "model")
    return builder.compile()


def test_an_agent_saves_in_one_graph_and_finds_it_in_another(sheaf: Sheaf, settings: Settings) -> None:
    save = AIMessage("", tool_calls=[called("memory_write", **FACT)])
    agent(sheaf, save, AIMessage("I will.")).invoke({"messages": [HumanMessage("Use tabs.")]})

    with Sheaf.open("user", settings=settings) as later:
        look = AIMessage("", tool_calls=[called("memory_search", query="indentation")])
        done = agent(later, look, AIMessage("Tabs.")).invoke({"messages": [HumanMessage("How do I indent?")]})

    found = [message for message in done["messages"] if isinstance(message, ToolMessage)]
    assert "user_prefers-tabs.md" in found[0].text
    assert done["messages"][-1].text == "Tabs."


def test_the_schema_that_a_model_gets_is_that_of_the_tools(sheaf: Sheaf) -> None:
    model = Scripted(responses=[AIMessage("")]).bind_tools(memory_tools(sheaf))

    for offered, schema in zip(model.offered, Tools(sheaf).schemas(), strict=True):
        assert offered["function"] == {
            "name": schema["name"],
            "description": schema["description"],
            "parameters": schema["input_schema"],
        }


def test_tools_answer_alike_in_a_thread_and_in_a_loop(sheaf: Sheaf) -> None:
    tools = by_name(sheaf)

    saved = asyncio.run(tools["memory_write"].ainvoke(called("memory_write", **FACT)))
    read = tools["memory_read"].invoke({"filename": "user_prefers-tabs.md"})

    assert saved.text == "Memory saved: user_prefers-tabs.md"
    assert read == asyncio.run(tools["memory_read"].ainvoke({"filename": "user_prefers-tabs.md"}))
    assert "Use tabs, not spaces." in read


def test_many_calls_at_once_lose_nothing(sheaf: Sheaf) -> None:
    write = by_name(sheaf)["memory_write"]
    facts = [f"The port of service {number} is {9000 + number}" for number in range(20)]

    async def all_at_once() -> list[str]:
        calls = (write.ainvoke(FACT | {"name": fact, "description": fact, "content": fact}) for fact in facts)
        return list(await asyncio.gather(*calls))

    answers = asyncio.run(all_at_once())

    assert all(answer.startswith("Memory saved: ") for answer in answers)
    assert {row.name for row in sheaf.list()} == set(facts)


@pytest.mark.parametrize(
    "arguments",
    [
        *({name: "x"} for name in ("config", "run_manager", "callbacks", "self", "args", "kwargs", "arguments", "_")),
        {},
        {"content": None},
        {"content": ["a"]},
        {"content": "x" * 10_000_000},
        {"content": "x", "filename": "../../etc/passwd"},
        {"content": "half \ud800 of a pair", "name": "n", "description": "d", "type": "user"},
    ],
    ids=lambda arguments: str(arguments)[:30],
)
def test_whatever_a_model_calls_it_with_the_answer_is_a_text(sheaf: Sheaf, arguments: dict[str, object]) -> None:
    write = by_name(sheaf)["memory_write"]

    for answer in (write.invoke(dict(arguments)), asyncio.run(write.ainvoke(dict(arguments)))):
        assert isinstance(answer, str)
        assert answer.startswith("Error: ")
    assert sheaf.list() == []
