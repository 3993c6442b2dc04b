"""Anthropic's memory tool, `memory_20250818`, over a sheaf: the model's files are memories.

    with MemoryTool.open("project") as tool:
        client.beta.messages.tool_runner(..., tools=[tool]).until_done()

`memsheaf.adapters.memory_files` has the commands; this gives them the shape that the SDK's runners take.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from memsheaf.adapters import missing
from memsheaf.adapters.memory_files import MemoryFiles
from memsheaf.adapters.memory_texts import explained
from memsheaf.config import Settings
from memsheaf.errors import MemsheafError
from memsheaf.recall.session import Session
from memsheaf.sheaf import Sheaf
from memsheaf.tool_errors import broken

try:
    from anthropic.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError
    from anthropic.types.beta import BetaCacheControlEphemeralParam
    from anyio.to_thread import run_sync
except ImportError as error:
    raise missing("anthropic", error) from None


class _OverSheaf:
    """What both tools share: the files, and the sheaf behind them."""

    def __init__(
        self,
        sheaf: Sheaf,
        *,
        session: Session | None = None,
        cache_control: BetaCacheControlEphemeralParam | None = None,
    ) -> None:
        super().__init__(cache_control=cache_control)  # type: ignore[call-arg]  # of the SDK's class
        self._files = MemoryFiles(sheaf, session=session)

    @classmethod
    def open(cls, scope: str = "project", *, settings: Settings | None = None, by: str = "agent") -> Self:
        """The tool over a scope such as "project" or "agent/NAME". Close it, or use it in a `with`."""
        return cls(Sheaf.open(scope, settings=settings, by=by))

    @property
    def sheaf(self) -> Sheaf:
        """Where the files are."""
        return self._files.sheaf

    def close(self) -> None:
        """Flush everything to disk and close the sheaf."""
        self.sheaf.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class MemoryTool(_OverSheaf, BetaAbstractMemoryTool):
    """The memory tool for `Anthropic().beta.messages.tool_runner`. Failures are ToolErrors."""

    def call(self, input: object) -> str:
        """Run a command of the model. Raises ToolError."""
        return _call(self._files.call, input)

    def _run(self, command: Any) -> str:
        """Run a command that the SDK has parsed."""
        return self.call(command.to_dict())

    view = create = str_replace = insert = delete = rename = _run

    def clear_all_memory(self) -> str:
        """Forget everything, as one commit that `undo` takes back."""
        return _call(self._files.clear)


class AsyncMemoryTool(_OverSheaf, BetaAsyncAbstractMemoryTool):
    """The memory tool for `AsyncAnthropic().beta.messages.tool_runner`: no event loop waits for a disk."""

    async def call(self, input: object) -> str:
        """Run a command of the model, in a thread. Raises ToolError."""
        return await run_sync(_call, self._files.call, input)

    async def _run(self, command: Any) -> str:
        """Run a command that the SDK has parsed."""
        return await self.call(command.to_dict())

    view = create = str_replace = insert = delete = rename = _run

    async def clear_all_memory(self) -> str:
        """Forget everything, as one commit that `undo` takes back."""
        return await run_sync(_call, self._files.clear)


def _call(command: Callable[..., str], *given: object) -> str:
    """The answer of a command; what goes wrong is a ToolError, which the model gets as the tool's error."""
    try:
        return command(*given)
    except MemsheafError as error:
        raise ToolError(explained(error)) from error
    except Exception as error:  # a defect of ours must not end the agent's run
        raise ToolError(broken(error)) from error
