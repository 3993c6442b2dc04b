"""A pytest plugin for the process that runs the SDK's tests: both of its backends are ours there.

The tests look at the disk; what they find is ours, under the names that the model gave:

- `base_path` is a new folder at each look, with a copy of every file of our root under the model's name;
- `memory_root` is our root. A file that a test puts into it under a model's name (`crlf.txt`) is given our name
  (`crlf.txt.md`) before the next command, with a link left behind through which the test reads it.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from anthropic.lib.tools import _beta_builtin_memory_tool as theirs
from anyio import Path as AsyncPath

from memsheaf.adapters.anthropic_memory import AsyncMemoryTool, MemoryTool, to_file, to_name
from memsheaf.config import Settings
from memsheaf.sheaf import Sheaf

ELSEWHERE = tempfile.TemporaryDirectory()  # what is no memory: the tests look at all that is below `base_path`
OPEN: list[Sheaf] = []


class Sync(MemoryTool):
    """Ours, with what the tests ask of the SDK's."""

    def __init__(self, base_path: str) -> None:
        super().__init__(opened(base_path))

    @property
    def base_path(self) -> Path:
        """What the model sees."""
        return as_the_model_sees(self.sheaf)

    @property
    def memory_root(self) -> Path:
        """Our root."""
        return Path(self.sheaf.root)

    def call(self, input: object) -> str:
        """Every command passes here."""
        give_our_names(self.sheaf.root)
        return super().call(input)


class Async(AsyncMemoryTool):
    """The same for the other one."""

    def __init__(self, base_path: str) -> None:
        super().__init__(opened(base_path))

    @property
    def base_path(self) -> Path:
        """What the model sees."""
        return as_the_model_sees(self.sheaf)

    @property
    def memory_root(self) -> AsyncPath:
        """Our root."""
        return AsyncPath(self.sheaf.root)

    async def _ensure_memory_root(self) -> None:
        """It is there."""

    async def call(self, input: object) -> str:
        """Every command passes here."""
        give_our_names(self.sheaf.root)
        return await super().call(input)


def opened(base_path: str) -> Sheaf:
    """A sheaf at home in a folder; its root is made with the first change."""
    cache, state = (os.path.join(ELSEWHERE.name, name) for name in ("cache", "state"))
    sheaf = Sheaf.open("user", settings=Settings(base_path, cache, state=state, embedder="none"))
    OPEN.append(sheaf)
    sheaf.put("first.md", "A text.\n", free=True)
    sheaf.forget("first.md")
    return sheaf


def as_the_model_sees(sheaf: Sheaf) -> Path:
    """A copy of every file, under the model's name."""
    folder = Path(tempfile.mkdtemp(dir=ELSEWHERE.name))
    for row in sheaf.list():
        copy = folder / "memories" / to_name(row.path)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(Path(sheaf.root, row.path).read_bytes())
    return folder


def give_our_names(root: str) -> None:
    """Let the files that a test made be ours."""
    for entry in list(os.scandir(root)):
        if entry.is_file(follow_symlinks=False) and not entry.name.endswith(".md"):
            ours = os.path.join(root, to_file(entry.name))
            os.rename(entry.path, ours)
            os.symlink(ours, entry.path)


def pytest_configure() -> None:
    """Put ours in the place of theirs, before the tests are imported."""
    for name, ours in (("BetaLocalFilesystemMemoryTool", Sync), ("BetaAsyncLocalFilesystemMemoryTool", Async)):
        assert hasattr(theirs, name)
        setattr(theirs, name, ours)


def pytest_unconfigure() -> None:
    """Leave nothing behind."""
    ELSEWHERE.cleanup()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run the coroutines, for which the SDK's own configuration has another plugin."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    wanted = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in wanted}))
    return True


@pytest.fixture(autouse=True)
def let_go() -> Iterator[None]:
    """Close what a test opened."""
    yield
    while OPEN:
        OPEN.pop().close()
