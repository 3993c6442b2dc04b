"""The asynchronous twin: the same memory, with `await`."""

from __future__ import annotations

import asyncio
import inspect

import pytest

from memsheaf import Message, Settings, Turn, aio, sheaf
from memsheaf.errors import NotFound


def public(kind: type) -> dict[str, inspect.Signature]:
    found = inspect.getmembers(kind, inspect.isroutine)
    return {name: inspect.signature(method) for name, method in found if not name.startswith("_")}


def test_each_method_takes_what_its_twin_takes() -> None:
    twins = public(sheaf.Sheaf)
    for name, signature in public(aio.Sheaf).items():
        names = [key for key, one in signature.parameters.items() if one.kind is not one.VAR_KEYWORD]
        assert [key for key in twins[name].parameters if key in names] == names, name
        for key in names:
            assert signature.parameters[key].default == twins[name].parameters[key].default, (name, key)


def test_a_memory_is_saved_found_changed_and_taken_back(settings: Settings) -> None:
    async def work() -> None:
        async with await aio.Sheaf.open("user", settings=settings, by="user") as memory:
            saved = await memory.remember("I prefer pnpm")
            assert [row.ref.path for row in await memory.search("pnpm")] == [saved.ref.path]
            assert "pnpm" in await memory.prompt()
            assert (await memory.revise(saved.ref.path, "pnpm", "yarn")).body.strip() == "I prefer yarn"
            await memory.undo()
            assert (await memory.read(saved.ref.path)).body.strip() == "I prefer pnpm"
            await memory.forget(saved.ref.path)
            assert await memory.list() == []
            assert len(await memory.log()) == 4
            with pytest.raises(NotFound):
                await memory.read(saved.ref.path)

    asyncio.run(work())


def test_many_calls_at_once_lose_nothing_and_the_loop_goes_on(settings: Settings) -> None:
    async def work() -> None:
        async with await aio.Sheaf.open("user", settings=settings) as memory:
            facts = [f"Lighthouse {number} was built in {1800 + number} by hand" for number in range(8)]
            ticks = 0

            async def tick() -> None:
                nonlocal ticks
                while True:
                    ticks += 1
                    await asyncio.sleep(0)

            ticking = asyncio.create_task(tick())
            await asyncio.gather(*(memory.remember(fact) for fact in facts))
            ticking.cancel()
            bodies = [(await memory.read(row.path)).body.strip() for row in await memory.list()]
            assert sorted(bodies) == sorted(facts)
            assert ticks > len(facts)

    asyncio.run(work())


def test_a_turn_is_kept_and_learned_from(settings: Settings) -> None:
    async def work() -> None:
        async with await aio.Sheaf.open("user", settings=settings) as memory:
            said = Message("user", "Remember that I drink green tea."), Message("assistant", "Noted.")
            assert await memory.learn(Turn("c1", said))
            assert (await memory.distil()).turns == 1
            assert [row.name for row in await memory.list()] == ["I drink green tea"]

    asyncio.run(work())
