"""A LangGraph graph whose long-term memory is a folder of Markdown files.

No key and no network: the nodes are plain functions. The second run opens the folder anew, as another process would.
Needs: pip install 'memsheaf[langgraph]'
"""

from __future__ import annotations

import os
import sys
import tempfile
from typing import TypedDict

try:
    from langgraph.graph import END, START, StateGraph
    from langgraph.runtime import Runtime
except ImportError as error:
    sys.exit(f"this example needs LangGraph: pip install 'memsheaf[langgraph]' ({error})")

from memsheaf import Settings, Sheaf
from memsheaf.adapters.langgraph import MemsheafStore


class State(TypedDict, total=False):
    """What one run of the graph is about."""

    user: str
    message: str
    reply: str


def listen(state: State, runtime: Runtime) -> State:
    """Keep what the user asks to keep, as a memory that everything else finds, too."""
    if state["message"].startswith("Remember: ") and runtime.store:
        fact = state["message"].removeprefix("Remember: ")
        memory = {"name": fact, "description": "Said in a chat", "type": "user", "content": fact, "via": "chat"}
        runtime.store.put(("users", state["user"]), "said", memory)
    return {}


def answer(state: State, runtime: Runtime) -> State:
    """Answer with what is remembered about this user."""
    found = runtime.store.search(("users", state["user"]), query=state["message"]) if runtime.store else []
    return {"reply": found[0].value["content"] if found else "I do not know."}


def chat(home: str, message: str) -> str:
    """One run of the graph, with everything opened and closed again."""
    builder = StateGraph(State)
    builder.add_node("listen", listen)
    builder.add_node("answer", answer)
    builder.add_edge(START, "listen")
    builder.add_edge("listen", "answer")
    builder.add_edge("answer", END)
    settings = Settings(os.path.join(home, "home"), os.path.join(home, "cache"), state=os.path.join(home, "state"))
    with Sheaf.open("agent/assistant", settings=settings) as sheaf:
        graph = builder.compile(store=MemsheafStore(sheaf))
        reply: str = graph.invoke({"user": "123", "message": message})["reply"]
    return reply


def main() -> None:
    """Two runs, and the file between them."""
    with tempfile.TemporaryDirectory() as home:
        chat(home, "Remember: I drink green tea in the morning.")
        file = os.path.join(home, "home", "agents", "assistant", "langgraph", "users", "123", "said.md")
        with open(file, encoding="utf-8") as text:
            print("langgraph/users/123/said.md\n" + text.read())
        print("Which tea do I drink?", "->", chat(home, "Which tea do I drink?"))


if __name__ == "__main__":
    main()
