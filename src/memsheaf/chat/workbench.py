"""The workbench of a model in a chat: prompts, memory beside a message, and tools with their permissions."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Mapping
from typing import Any

from memsheaf.chat.events import Event, Notice, Recalled
from memsheaf.chat.memory import ChatMemory
from memsheaf.chat.permissions import Permission, PermissionRequest
from memsheaf.chat.tools import FolderTools
from memsheaf.errors import MemsheafError, Refused
from memsheaf.prompts import read_prompt
from memsheaf.text.neutralize import for_terminal, one_line
from memsheaf.tools import READING, ToolAnswer

MAX_RECENT_TOOLS = 10  # whose usage notes need not be recalled
PLANNING = "Error: plan mode: nothing is written, memory included. Say what you would save."


class Workbench:
    """The memory, the tools and the permissions of a chat. `draw` takes the events of the turn that goes on."""

    def __init__(self, memory: ChatMemory, tools: FolderTools, permission: Permission) -> None:
        self.memory = memory
        self.tools = tools
        self.permission = permission
        self.draw: Callable[[Event], None] = lambda event: None
        self.recalled: list[str] = []
        self._recent_tools: list[str] = []
        self.renew_prompts()

    def renew_prompts(self) -> None:
        """Put memory as it is now into the system prompts; until then they stay the same bytes."""
        facts = {"{folder}": self.tools.root, "{system}": platform.system(), "{today}": time.strftime("%Y-%m-%d")}
        self._prompt = read_prompt("agent")
        self._delegated_prompt = read_prompt("delegated")
        for name, value in facts.items():
            self._prompt = self._prompt.replace(name, value)
            self._delegated_prompt = self._delegated_prompt.replace(name, value)
        self._memory_prompt = self.memory.prompt()

    def begin(self, message: str, draw: Callable[[Event], None]) -> None:
        """Begin a turn: what memory has to say about the message begins to be looked for."""
        self.draw = draw
        self.recalled = []
        self.memory.begin(message, tools=self._recent_tools)

    def gather_beside(self) -> str:
        """Return what stands beside the message: changes of the catalog, and what is recalled in a moment."""
        if self.memory.session.ignoring:
            return ""
        news = ""
        try:
            news = self.memory.news()
        except MemsheafError as error:
            self.draw(Notice(f"memory cannot be read, and the turn goes on without it: {error}", error.hint))
        return "\n\n".join(filter(None, [news.strip("\n"), self.collect_recall(is_first=True)]))

    def collect_recall(self, *, is_first: bool = False) -> str:
        """Return what was recalled meanwhile, once. Only the first request waits for it, and only a moment."""
        recall = self.memory.collect(is_first=is_first)
        if recall is None or not recall.text:
            return ""
        names = tuple(each.name for each in recall.memories)
        self.recalled += names
        self.draw(Recalled(names))
        return recall.text.strip("\n")

    def system_prompt(self, *, delegated: bool = False) -> str:
        """Return the system prompt of this turn."""
        prompt = self._delegated_prompt if delegated else self._prompt
        return prompt if self.memory.session.ignoring else f"{prompt}\n{self._memory_prompt}"

    def tool_schemas(self) -> list[dict[str, Any]]:
        """Return the tools of this turn."""
        if self.memory.session.ignoring:
            return self.tools.schemas()
        return [*self.tools.schemas(), *self.memory.tools.schemas()]

    def describe_call(self, tool: str, arguments: Mapping[str, object]) -> str:
        """Say in a few words what a call will do."""
        if tool in self.tools.names:
            return self.tools.line(tool, arguments)
        first = next((value for value in arguments.values() if isinstance(value, str)), "")
        return one_line(f"{tool} {first}", 100)

    def run_tool(self, tool: str, arguments: Mapping[str, object]) -> ToolAnswer:
        """Run a tool, if it may run, and return its answer."""
        self._recent_tools = [*self._recent_tools, tool][-MAX_RECENT_TOOLS:]
        if tool in self.tools.names:
            return self.tools.answer(tool, arguments)
        if tool not in READING and self.permission.planning:
            return ToolAnswer(PLANNING, failed=True)
        if tool == "memory_delete":
            label, text = self.memory.find(str(arguments.get("filename", ""))[:1_000])
            line = f"delete the memory {one_line(label, 200)}"
            try:
                self.permission.require(PermissionRequest(tool, line, for_terminal(text), "write", key=line))
            except Refused as error:
                return ToolAnswer(f"Error: {error}", failed=True)
        return self.memory.tools.answer(tool, arguments)
