"""Anthropic's memory tool, `memory_20250818`, over a sheaf: the model's files are memories.

    with MemoryTool.open("project") as tool:
        client.beta.messages.tool_runner(..., tools=[tool]).until_done()

`memsheaf.adapters.memory_files` has the commands; this gives them the shape that the SDK's runners take.
"""

from __future__ import annotations

from memsheaf.adapters import missing
from memsheaf.adapters.memory_files import MemoryFiles
from memsheaf.adapters.memory_texts import explained
from memsheaf.config import Settings
from memsheaf.errors import MemsheafError
from memsheaf.recall.session import Session
from memsheaf.sheaf import Sheaf
from memsheaf.tools import broken

try:
    from anthropic.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError
    from anthropic.types.beta import (
        BetaCacheControlEphemeralParam,
        BetaMemoryTool20250818CreateCommand,
        BetaMemoryTool20250818DeleteCommand,
        BetaMemoryTool20250818InsertCommand,
        BetaMemoryTool20250818RenameCommand,
        BetaMemoryTool20250818StrReplaceCommand,
        BetaMemoryTool20250818ViewCommand,
    )
    from anyio.to_thread import run_sync
except ImportError as error:
    raise missing("anthropic", error) from None


class MemoryTool(BetaAbstractMemoryTool):
    """The memory tool for `Anthropic().beta.messages.tool_runner`. Failures are ToolErrors."""

    def __init__(
        self,
        sheaf: Sheaf,
        *,
        session: Session | None = None,
        cache_control: BetaCacheControlEphemeralParam | None = None,
    ) -> None:
        super().__init__(cache_control=cache_control)
        self._files = MemoryFiles(sheaf, session=session)

    @classmethod
    def open(cls, scope: str = "project", *, settings: Settings | None = None, by: str = "agent") -> MemoryTool:
        """The tool over a scope such as "project" or "agent/NAME". Close it, or use it in a `with`."""
        return cls(Sheaf.open(scope, settings=settings, by=by))

    @property
    def sheaf(self) -> Sheaf:
        """Where the files are."""
        return self._files.sheaf

    def close(self) -> None:
        """Make everything safe on disk and let go."""
        self.sheaf.close()

    def __enter__(self) -> MemoryTool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def call(self, input: object) -> str:
        """Carry out what the model asks for. Raises ToolError."""
        return _answer(self._files, input)

    def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        """Show a file with the numbers of its lines, or what is in a folder."""
        return self.call(command.to_dict())

    def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        """Make a new file."""
        return self.call(command.to_dict())

    def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        """Replace a piece of a file's text that occurs once."""
        return self.call(command.to_dict())

    def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        """Put text after a line of a file."""
        return self.call(command.to_dict())

    def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        """Forget a file, or all that is in a folder."""
        return self.call(command.to_dict())

    def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        """Give a file or a folder another name."""
        return self.call(command.to_dict())

    def clear_all_memory(self) -> str:
        """Forget everything, as one commit that `undo` takes back."""
        return _cleared(self._files)


class AsyncMemoryTool(BetaAsyncAbstractMemoryTool):
    """The memory tool for `AsyncAnthropic().beta.messages.tool_runner`: no event loop waits for a disk."""

    def __init__(
        self,
        sheaf: Sheaf,
        *,
        session: Session | None = None,
        cache_control: BetaCacheControlEphemeralParam | None = None,
    ) -> None:
        super().__init__(cache_control=cache_control)
        self._files = MemoryFiles(sheaf, session=session)

    @classmethod
    def open(cls, scope: str = "project", *, settings: Settings | None = None, by: str = "agent") -> AsyncMemoryTool:
        """The tool over a scope such as "project" or "agent/NAME". Close it, or use it in a `with`."""
        return cls(Sheaf.open(scope, settings=settings, by=by))

    @property
    def sheaf(self) -> Sheaf:
        """Where the files are."""
        return self._files.sheaf

    def close(self) -> None:
        """Make everything safe on disk and let go."""
        self.sheaf.close()

    def __enter__(self) -> AsyncMemoryTool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def call(self, input: object) -> str:
        """Carry out what the model asks for, in a thread. Raises ToolError."""
        return await run_sync(_answer, self._files, input)

    async def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        """Show a file with the numbers of its lines, or what is in a folder."""
        return await self.call(command.to_dict())

    async def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        """Make a new file."""
        return await self.call(command.to_dict())

    async def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        """Replace a piece of a file's text that occurs once."""
        return await self.call(command.to_dict())

    async def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        """Put text after a line of a file."""
        return await self.call(command.to_dict())

    async def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        """Forget a file, or all that is in a folder."""
        return await self.call(command.to_dict())

    async def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        """Give a file or a folder another name."""
        return await self.call(command.to_dict())

    async def clear_all_memory(self) -> str:
        """Forget everything, as one commit that `undo` takes back."""
        return await run_sync(_cleared, self._files)


def _answer(files: MemoryFiles, given: object) -> str:
    try:
        return files.call(given)
    except MemsheafError as error:
        raise ToolError(explained(error)) from error
    except Exception as error:  # whatever it is, it is not the agent's: the model gets it as the tool's error
        raise ToolError(broken(error)) from error


def _cleared(files: MemoryFiles) -> str:
    try:
        return files.clear()
    except MemsheafError as error:
        raise ToolError(explained(error)) from error
