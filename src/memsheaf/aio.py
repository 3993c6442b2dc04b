"""The same `Sheaf`, with `await`: each call runs in a thread, so that an event loop never waits for a disk.

from memsheaf.aio import Sheaf

async with await Sheaf.open() as memory:
    await memory.remember("I prefer pnpm")
    system_prompt = await memory.prompt()
"""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import Callable, Coroutine, Sequence
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from memsheaf import sheaf
from memsheaf.errors import Ref
from memsheaf.scope import Scope
from memsheaf.store import Commit

P = ParamSpec("P")
T = TypeVar("T")


def run_in_thread(
    method: Callable[Concatenate[sheaf.Sheaf, P], T],
) -> Callable[Concatenate[Sheaf, P], Coroutine[Any, Any, T]]:
    """Return the coroutine that does in a thread what a method of `sheaf.Sheaf` does."""

    @wraps(method)
    async def call(self: Sheaf, /, *args: P.args, **options: P.kwargs) -> T:
        return await to_thread(method, self.sync, *args, **options)

    return call


class Sheaf:
    """The memory of some scopes. A call that is cancelled goes on in its thread: what it saves is saved."""

    def __init__(self, memory: sheaf.Sheaf) -> None:
        self.sync = memory

    @classmethod
    async def open(cls, scope: Scope | str | None = None, **options: Any) -> Sheaf:
        """Open project and user of a working directory, one scope, or several; the options are `Sheaf.open`'s."""
        return cls(await to_thread(sheaf.Sheaf.open, scope, **options))

    async def __aenter__(self) -> Sheaf:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    close = run_in_thread(sheaf.Sheaf.close)
    remember = run_in_thread(sheaf.Sheaf.remember)
    write = run_in_thread(sheaf.Sheaf.write)
    read = run_in_thread(sheaf.Sheaf.read)
    list = run_in_thread(sheaf.Sheaf.list)
    search = run_in_thread(sheaf.Sheaf.search)
    recall = run_in_thread(sheaf.Sheaf.recall)
    prompt = run_in_thread(sheaf.Sheaf.prompt)
    revise = run_in_thread(sheaf.Sheaf.revise)
    insert = run_in_thread(sheaf.Sheaf.insert)
    put = run_in_thread(sheaf.Sheaf.put)
    forget = run_in_thread(sheaf.Sheaf.forget)
    undo = run_in_thread(sheaf.Sheaf.undo)
    learn = run_in_thread(sheaf.Sheaf.learn)
    distil = run_in_thread(sheaf.Sheaf.distil)

    async def log(self, where: Ref | str = "", *, limit: int | None = None) -> Sequence[Commit]:
        """Return the commits of each scope, or of one memory, newest first."""
        return await to_thread(lambda: [*self.sync.log(where, limit=limit)])
