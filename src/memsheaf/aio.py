"""The same `Sheaf`, with `await`: each call runs in a thread, so that an event loop never waits for a disk.

from memsheaf.aio import Sheaf

async with await Sheaf.open() as memory:
    await memory.remember("I prefer pnpm")
    system_prompt = await memory.prompt()
"""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from memsheaf import sheaf
from memsheaf.errors import Ref
from memsheaf.index.database import Row
from memsheaf.llm import Model
from memsheaf.memory import Memory
from memsheaf.recall.recall import Recall
from memsheaf.recall.turns import Turn
from memsheaf.scope import Scope
from memsheaf.store import ABSENT, Commit, Version

if TYPE_CHECKING:
    from memsheaf.learn.learner import Distilled


class Sheaf:
    """The memory of some scopes. A call that is cancelled goes on in its thread: what it saves is saved."""

    def __init__(self, memory: sheaf.Sheaf) -> None:
        self.sync = memory

    @classmethod
    async def open(cls, scope: Scope | str | None = None, **options: Any) -> Sheaf:
        """Open project and user of a working directory, one scope, or several; the options are `Sheaf.open`'s."""
        return cls(await to_thread(sheaf.Sheaf.open, scope, **options))

    async def close(self) -> None:
        """Make everything safe on disk and let go."""
        await to_thread(self.sync.close)

    async def __aenter__(self) -> Sheaf:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def remember(self, text: str, **options: Any) -> sheaf.Saved:
        """Save a fact as somebody says it."""
        return await to_thread(self.sync.remember, text, **options)

    async def write(self, name: str, description: str, type: str, content: str, **options: Any) -> Memory:
        """Save a memory with this name, description, type and content."""
        return await to_thread(self.sync.write, name, description, type, content, **options)

    async def read(self, where: Ref | str) -> Memory:
        """Return one memory. Raises NotFound, PathRefused."""
        return await to_thread(self.sync.read, where)

    async def list(self, *, type: str = "", unconfirmed: bool = False) -> Sequence[Row]:
        """Return every file, scope by scope."""
        return await to_thread(self.sync.list, type=type, unconfirmed=unconfirmed)

    async def search(self, query: str, *, limit: int = 10) -> Sequence[sheaf.Hit]:
        """Return the memories that hold a word of the query or clearly mean the same."""
        return await to_thread(self.sync.search, query, limit=limit)

    async def recall(
        self, message: str, *, model: Model | None = None, ignore: bool = False, tree: str = ""
    ) -> Recall:
        """Return the memories that matter for a message, ready to stand beside it; and why these."""
        return await to_thread(self.sync.recall, message, model=model, ignore=ignore, tree=tree)

    async def prompt(self, *, budget: int = 0) -> str:
        """Return the section for a system prompt; the same bytes as long as no memory changed."""
        return await to_thread(self.sync.prompt, budget=budget)

    async def revise(self, where: Ref | str, old: str, new: str, **options: Any) -> Memory:
        """Replace a piece of a memory's text."""
        return await to_thread(self.sync.revise, where, old, new, **options)

    async def insert(self, where: Ref | str, line: int, text: str, **options: Any) -> Memory:
        """Insert text after a line of the body; 0 puts it first."""
        return await to_thread(self.sync.insert, where, line, text, **options)

    async def put(self, where: Ref | str, text: str, *, expect: Version = ABSENT, **options: Any) -> Memory:
        """Store a whole file: a memory with its header, or with `free` any text."""
        return await to_thread(self.sync.put, where, text, expect=expect, **options)

    async def confirm(self, where: Ref | str) -> Memory:
        """Mark a memory as confirmed: a person has read it."""
        return await to_thread(self.sync.confirm, where)

    async def forget(self, where: Ref | str, *, why: str = "", expect: Version | None = None) -> Commit:
        """Remove a memory; `undo` brings it back."""
        return await to_thread(self.sync.forget, where, why=why, expect=expect)

    async def undo(self, commit_id: str = "") -> Sequence[Commit]:
        """Take a commit back, or the last change."""
        return await to_thread(self.sync.undo, commit_id)

    async def log(self, where: Ref | str = "", *, limit: int | None = None) -> Sequence[Commit]:
        """Return the commits of each scope, or of one memory, newest first."""
        return await to_thread(lambda: [*self.sync.log(where, limit=limit)])

    async def learn(self, turn: Turn) -> bool:
        """Keep a finished turn of a conversation until it is distilled."""
        return await to_thread(self.sync.learn, turn)

    async def distil(self, model: Model | str | None = None, *, deadline: float = 60.0) -> Distilled:
        """Make memories of the turns that wait."""
        return await to_thread(self.sync.distil, model, deadline=deadline)
