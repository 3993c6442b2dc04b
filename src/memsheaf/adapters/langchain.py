"""The memory tools as LangChain tools, for an agent, a `ToolNode`, or `model.bind_tools`.

>>> with Sheaf.open("project") as sheaf:                                          # doctest: +SKIP
...     agent = create_agent(model, tools=memory_tools(sheaf), system_prompt=sheaf.prompt())
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping

from memsheaf.adapters import missing
from memsheaf.sheaf import Sheaf
from memsheaf.tools import Tools

try:
    from langchain_core.tools import BaseTool
    from pydantic import PrivateAttr
except ImportError as error:
    raise missing("langchain", error) from None


def memory_tools(memory: Sheaf | Tools) -> list[BaseTool]:
    """The tools of one conversation; with `Tools(sheaf, session=…)` they are still when memory is to be ignored.

    Each answers with a text, whatever it is called with. A failure begins with `Error:` and says what to do next.
    """
    shared = _Shared(memory if isinstance(memory, Tools) else Tools(memory))
    return [
        _MemoryTool(
            shared, name=schema["name"], description=schema["description"], args_schema=schema["input_schema"]
        )
        for schema in shared.tools.schemas()
    ]


class _Shared:
    """The tools of one conversation, called by one thread at a time: what was seen belongs to all of them."""

    def __init__(self, tools: Tools) -> None:
        self.tools = tools
        self._lock = threading.Lock()

    def call(self, name: str, arguments: Mapping[str, object]) -> str:
        with self._lock:
            return self.tools.call(name, arguments)


class _MemoryTool(BaseTool):
    """One tool. A model may call it with anything, so that no name of an argument has a meaning here."""

    _shared: _Shared = PrivateAttr()

    def __init__(self, shared: _Shared, **fields: object) -> None:
        super().__init__(**fields)
        self._shared = shared

    def _run(self, /, *_: object, **arguments: object) -> str:
        return self._shared.call(self.name, arguments)

    async def _arun(self, /, *_: object, **arguments: object) -> str:
        return await asyncio.to_thread(self._shared.call, self.name, arguments)
