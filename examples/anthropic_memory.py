"""Anthropic's memory tool over memsheaf, with the SDK's own tool runner: two conversations, one memory.

Without ANTHROPIC_API_KEY a script on this machine answers in the place of a model.
Needs: pip install 'memsheaf[anthropic]'
"""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import ExitStack

try:
    from anthropic import Anthropic
except ImportError as error:
    sys.exit(f"this example needs Anthropic's SDK: pip install 'memsheaf[anthropic]' ({error})")

from scripted_api import Step, serving

from memsheaf import Settings
from memsheaf.adapters.anthropic_memory import MemoryTool

TABS = """---
name: Prefers tabs
description: How to indent
type: user
---
Tabs, 4 wide, in every language.
"""
TODO = "/memories/release/todo.txt"

SCRIPT: list[Step] = [
    ("memory", {"command": "view", "path": "/memories"}),
    ("memory", {"command": "create", "path": "/memories/user_prefers-tabs.md", "file_text": TABS}),
    ("memory", {"command": "create", "path": TODO, "file_text": "1. Write the changelog\n"}),
    "I will remember that.",
    ("memory", {"command": "view", "path": "/memories"}),
    ("memory", {"command": "view", "path": "/memories/user_prefers-tabs.md"}),
    ("memory", {"command": "insert", "path": TODO, "insert_line": 1, "insert_text": "2. Tag it"}),
    ("memory", {"command": "create", "path": "/memories/../escape.txt", "file_text": "Out!"}),
    "You indent with tabs, 4 wide.",
]


def main() -> None:
    """Hold both conversations, and look at what is on disk afterwards."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="memsheaf-example-"))
        settings = Settings(f"{folder}/home", f"{folder}/cache", state=f"{folder}/state")  # yours, when left out
        if os.environ.get("ANTHROPIC_API_KEY"):
            client = Anthropic()
        else:
            print("(no ANTHROPIC_API_KEY: the model is a script, all else is real)\n")
            client = Anthropic(base_url=stack.enter_context(serving(SCRIPT)), api_key="none")
        converse(client, settings, "I use tabs, 4 wide. The release needs a changelog. Remember both.")
        converse(client, settings, "How do I indent? And after the changelog, tag the release.")

        with MemoryTool.open("user", settings=settings) as tool:
            print("What is left are Markdown files, and a history in which all can be undone:")
            for row in tool.sheaf.list():
                print(f"    {row.path}  [{row.type or 'free'}]  {row.description}")
            for commit in tool.sheaf.log():
                print(f"    {commit.by}: {commit.why} {', '.join(step.path for step in commit.revisions)}")


def converse(client: Anthropic, settings: Settings, said: str) -> None:
    """One conversation: the model asks for memory until it has an answer. `runner.until_done()` prints nothing."""
    print(f"> {said}")
    with MemoryTool.open("user", settings=settings) as tool:
        runner = client.beta.messages.tool_runner(
            model=os.environ.get("ANTHROPIC_MODEL", "claude-haiku-5-5"),
            max_tokens=1024,
            messages=[{"role": "user", "content": said}],
            tools=[tool],
        )
        for message in runner:
            for block in message.content:
                if block.type == "tool_use":
                    print(f"    {block.input}")
                elif block.type == "text":
                    print(f"{block.text}\n")
            for result in (runner.generate_tool_call_response() or {"content": ()})["content"]:
                if isinstance(result, dict) and result["type"] == "tool_result":
                    print("        " + str(result.get("content")).replace("\n", "\n        "))


if __name__ == "__main__":
    main()
