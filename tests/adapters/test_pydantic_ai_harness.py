"""The store for pydantic-ai-harness. The contract is asked of the harness's own stores, too: so it is theirs."""

from __future__ import annotations

import asyncio
import doctest
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from pydantic_ai import Agent
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.workspaces import LocalWorkspaceBackend
from pydantic_ai_harness.memory import (
    FileStore,
    InMemoryStore,
    Memory,
    MemoryConflictError,
    MemoryOperation,
    MemoryOperationConflictError,
    MemoryStore,
    SearchableMemoryStore,
    SqliteMemoryStore,
)

from cases import each_case, sample
from memsheaf import MemsheafError, Settings, Sheaf
from memsheaf.adapters import pydantic_ai_harness as adapter
from memsheaf.adapters.pydantic_ai_harness import SheafMemoryStore, path_of, place_of
from memsheaf.guard.paths import check_path, fold

CORPORA = Path(__file__).resolve().parent.parent / "corpora"
ALL = 65_536
T = TypeVar("T")


@pytest.fixture
def sheaf(settings: Settings) -> Iterator[Sheaf]:
    with Sheaf.open("agent/notes", settings=settings) as sheaf:
        yield sheaf


@pytest.fixture(params=["memsheaf", "memory", "file", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "memsheaf":
        return SheafMemoryStore(request.getfixturevalue("sheaf"))
    (tmp_path / "files").mkdir()
    if request.param == "file":
        return FileStore(".", workspace=LocalWorkspaceBackend(tmp_path / "files"))
    return InMemoryStore() if request.param == "memory" else SqliteMemoryStore(database=tmp_path / "memory.db")


@pytest.fixture
def ours(sheaf: Sheaf) -> SheafMemoryStore:
    return SheafMemoryStore(sheaf)


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


# the contract


def test_a_store_is_what_the_harness_takes_for_one(store: Any) -> None:
    assert isinstance(store, MemoryStore)
    assert isinstance(store, SearchableMemoryStore)


def test_what_was_written_is_read(store: MemoryStore) -> None:
    async def work() -> None:
        assert await store.read("main/MEMORY.md", max_chars=ALL) is None
        made = await store.write("main/MEMORY.md", "- likes 茶 🍵\n", expected_version=None)
        assert (made.replayed, made.existed) == (False, False)
        found = await store.read("main/MEMORY.md", max_chars=ALL)
        assert found is not None
        assert (found.content, found.version) == ("- likes 茶 🍵\n", made.version)
        assert (found.truncated, found.operation_id, found.metadata) == (False, None, None)

    run(work())


def test_a_long_text_is_read_in_part_by_characters(store: MemoryStore) -> None:
    async def work() -> None:
        await store.write("main/a.md", "茶" * 10, expected_version=None)
        for most, content, truncated in [(3, "茶" * 3, True), (10, "茶" * 10, False), (11, "茶" * 10, False)]:
            found = await store.read("main/a.md", max_chars=most)
            assert found is not None
            assert (found.content, found.truncated) == (content, truncated)

    run(work())


def test_a_text_is_replaced_at_its_version_and_at_no_other(store: MemoryStore) -> None:
    async def work() -> None:
        first = await store.write("main/a.md", "one", expected_version=None)
        second = await store.write("main/a.md", "two", expected_version=first.version)
        assert second.existed
        assert second.version != first.version
        for stale in (first.version, None, "no version"):
            with pytest.raises(MemoryConflictError):
                await store.write("main/a.md", "three", expected_version=stale)
        with pytest.raises(MemoryConflictError):
            await store.write("main/b.md", "three", expected_version=second.version)
        found = await store.read("main/a.md", max_chars=ALL)
        assert found is not None
        assert found.content == "two"

    run(work())


def test_a_text_is_deleted_at_its_version_and_at_no_other(store: MemoryStore) -> None:
    async def work() -> None:
        made = await store.write("main/a.md", "one", expected_version=None)
        for stale in (None, "no version"):
            with pytest.raises(MemoryConflictError):
                await store.delete("main/a.md", expected_version=stale)
        gone = await store.delete("main/a.md", expected_version=made.version)
        assert (gone.version, gone.replayed, gone.existed) == (None, False, True)
        assert await store.read("main/a.md", max_chars=ALL) is None
        with pytest.raises(MemoryConflictError):
            await store.delete("main/a.md", expected_version=made.version)
        nothing = await store.delete("main/a.md", expected_version=None)
        assert (nothing.version, nothing.existed) == (None, False)

    run(work())


def test_an_operation_is_done_once(store: MemoryStore) -> None:
    async def work() -> None:
        operation = MemoryOperation("op-1", "write a")
        assert await store.get_operation(operation) is None
        made = await store.write("main/a.md", "one", expected_version=None, operation=operation)
        await store.write("main/a.md", "two", expected_version=made.version)
        again = await store.write("main/a.md", "one", expected_version=None, operation=operation)
        asked = await store.get_operation(operation)
        assert again == asked
        assert (again.version, again.replayed, again.existed) == (made.version, True, False)
        found = await store.read("main/a.md", max_chars=ALL)
        assert found is not None
        assert found.content == "two"

    run(work())


def test_a_deletion_is_done_once(store: MemoryStore) -> None:
    async def work() -> None:
        made = await store.write("main/a.md", "one", expected_version=None)
        operation = MemoryOperation("op-1", "delete a")
        await store.delete("main/a.md", expected_version=made.version, operation=operation)
        made = await store.write("main/a.md", "new", expected_version=None)
        again = await store.delete("main/a.md", expected_version=made.version, operation=operation)
        assert (again.version, again.replayed, again.existed) == (None, True, True)
        assert await store.read("main/a.md", max_chars=ALL) is not None

    run(work())


def test_the_id_of_an_operation_belongs_to_one(store: MemoryStore) -> None:
    async def work() -> None:
        await store.write("main/a.md", "one", expected_version=None, operation=MemoryOperation("op-1", "this"))
        other = MemoryOperation("op-1", "that")
        with pytest.raises(MemoryOperationConflictError):
            await store.get_operation(other)
        with pytest.raises(MemoryOperationConflictError):
            await store.write("main/b.md", "two", expected_version=None, operation=other)
        with pytest.raises(MemoryOperationConflictError):
            await store.delete("main/b.md", expected_version=None, operation=other)

    run(work())


def test_an_operation_that_failed_was_not_done(store: MemoryStore) -> None:
    async def work() -> None:
        made = await store.write("main/a.md", "one", expected_version=None)
        operation = MemoryOperation("op-1", "write a")
        with pytest.raises(MemoryConflictError):
            await store.write("main/a.md", "two", expected_version=None, operation=operation)
        assert await store.get_operation(operation) is None
        done = await store.write("main/a.md", "two", expected_version=made.version, operation=operation)
        assert (done.replayed, done.existed) == (False, True)

    run(work())


def test_a_file_says_which_operation_wrote_it(store: MemoryStore) -> None:
    async def work() -> None:
        operation = MemoryOperation("op-1", "write a")
        made = await store.write("main/a.md", "one", expected_version=None, operation=operation)
        found = await store.read("main/a.md", max_chars=ALL)
        assert found is not None
        assert found.operation_id == "op-1"
        await store.write("main/a.md", "two", expected_version=made.version)
        found = await store.read("main/a.md", max_chars=ALL)
        assert found is not None
        assert found.operation_id is None

    run(work())


def test_paths_are_listed_in_order_below_a_prefix(store: MemoryStore) -> None:
    async def work() -> None:
        for path in ("main/b.md", "main/MEMORY.md", "main/a.md", "other/a.md", "main/deep/er/a.md"):
            await store.write(path, f"{path}\n", expected_version=None)
        listed = ["main/MEMORY.md", "main/a.md", "main/b.md", "main/deep/er/a.md"]
        assert await store.list_paths("main/", limit=10) == listed
        assert await store.list_paths("main/", limit=2) == listed[:2]
        assert await store.list_paths("", limit=10) == [*listed, "other/a.md"]
        assert await store.list_paths("nobody/", limit=10) == []

    run(work())


@each_case(
    "path",
    ["", "/a.md", "a//b.md", "../a.md", "a/../b.md", "a/./b.md", "a\\b.md", "a b.md", "茶.md", "a\x00.md", "a/"],
)
def test_a_path_that_is_none_is_refused(store: MemoryStore, path: str) -> None:
    calls: list[Callable[[], Awaitable[object]]] = [
        lambda: store.read(path, max_chars=1),
        lambda: store.write(path, "x", expected_version=None),
        lambda: store.delete(path, expected_version=None),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="invalid memory path"):
            run(_awaited(call))


async def _awaited(call: Callable[[], Awaitable[object]]) -> object:
    return await call()


def test_numbers_that_are_none_are_refused(store: MemoryStore) -> None:
    with pytest.raises(ValueError, match="max_chars must be positive"):
        run(store.read("main/a.md", max_chars=0))
    with pytest.raises(ValueError, match="limit must be positive"):
        run(store.list_paths("main/", limit=0))
    with pytest.raises(ValueError, match="invalid memory path"):
        run(store.list_paths("../", limit=1))


def test_a_search_finds_files_right_below_the_prefix_within_its_bounds(store: Any) -> None:
    async def work() -> None:
        await store.write("acme/main/db.md", f"{'x ' * 100}\nThe staging database is heron.\n", expected_version=None)
        await store.write("acme/main/MEMORY.md", "- deploys on Fridays\n", expected_version=None)
        await store.write("acme/main/more/db.md", "The staging database of another.\n", expected_version=None)
        await store.write("echo/main/db.md", "The staging database is stork.\n", expected_version=None)
        bounds = {"max_files": 100, "max_chars": 120, "max_file_chars": ALL}
        found = await store.search("acme/main/", "staging database", limit=5, **bounds)
        assert [match.path for match in found.matches] == ["acme/main/db.md"]
        assert "staging" in found.matches[0].snippet
        assert len("db.md") + len(found.matches[0].snippet) <= 120
        for query in ("", " "):
            assert (await store.search("acme/main/", query, limit=5, **bounds)).matches == []
        assert (await store.search("acme/main/", "zebra", limit=5, **bounds)).matches == []

    run(work())


def test_a_search_says_when_there_is_more(store: Any) -> None:
    async def work() -> None:
        for number in range(5):
            await store.write(f"main/n{number}.md", f"Heron number {number}.\n", expected_version=None)
        found = await store.search("main/", "heron", limit=3, max_files=100, max_chars=500, max_file_chars=ALL)
        assert (len(found.matches), found.truncated) == (3, True)
        found = await store.search("main/", "heron", limit=5, max_files=100, max_chars=500, max_file_chars=ALL)
        assert (len(found.matches), found.truncated) == (5, False)

    run(work())


def test_a_search_keeps_to_its_bounds(store: Any) -> None:
    async def work() -> None:
        for number in range(6):
            await store.write(f"main/n{number}.md", f"{'x ' * 100}\nHeron number {number}.\n", expected_version=None)

        async def search(query: str = "heron", **bounds: int) -> tuple[int, int, bool]:
            usual = {"limit": 10, "max_files": 100, "max_chars": 9_000, "max_file_chars": ALL}
            found = await store.search("main/", query, **usual | bounds)
            shown = sum(len(match.path.removeprefix("main/") + match.snippet) for match in found.matches)
            assert shown <= (usual | bounds)["max_chars"]
            return len(found.matches), found.scanned, found.truncated

        assert await search() == (6, 6, False)
        assert await search("zebra") == (0, 6, False)  # looked at, and not found
        assert await search(max_files=4) == (4, 4, True)
        assert await search(limit=2) == (2, 6, True)
        assert await search(max_chars=5) == (0, 6, True)  # not even a name fits
        found, scanned, truncated = await search(max_chars=20)
        assert 0 < found < 6
        assert (scanned, truncated) == (6, True)
        assert await search(max_file_chars=50) == (0, 6, True)  # the word comes later
        assert await search(max_file_chars=210) == (6, 6, True)
        assert await search(max_file_chars=216) == (6, 6, True)
        assert await search(max_file_chars=217) == (6, 6, False)

    run(work())


def test_a_search_is_not_drowned_by_what_is_elsewhere(ours: SheafMemoryStore) -> None:
    async def work() -> None:
        for number in range(60):
            await ours.write(f"acme/n{number}.md", f"Heron heron number {number}.\n", expected_version=None)
        await ours.write("echo/n.md", f"{'A long text about much else. ' * 50}\nA heron.\n", expected_version=None)
        bounds = {"max_files": 100, "max_chars": 500, "max_file_chars": ALL}
        found = await ours.search("echo/", "heron", limit=1, **bounds)
        assert ([match.path for match in found.matches], found.truncated) == (["echo/n.md"], False)
        assert (await ours.search("no such/", "heron", limit=1, **bounds)).matches == []

    run(work())


@pytest.mark.parametrize("doubt", ["trust: unconfirmed", "expires: 2020-01-01"])
def test_a_search_gives_no_piece_of_what_does_not_hold(ours: SheafMemoryStore, sheaf: Sheaf, doubt: str) -> None:
    text = f"---\nname: Birds\ndescription: Which\ntype: user\n{doubt}\n---\nThe bird is a heron.\n"
    (Path(sheaf.root) / "main").mkdir(parents=True)
    (Path(sheaf.root) / "main" / "birds.md").write_text(text)

    found = run(ours.search("main/", "heron", limit=5, max_files=100, max_chars=60, max_file_chars=ALL))
    assert found.matches == []
    assert run(ours.read("main/birds.md", max_chars=ALL)).content == text  # type: ignore[union-attr]


def test_a_secret_in_a_path_or_an_operation_leaves_no_trace(
    ours: SheafMemoryStore, settings: Settings, tmp_path: Path
) -> None:
    secret = "AKIA" + "ZFAKEFAKEFAKE234"
    for path, id in ((f"main/{secret}.md", "one"), ("main/a.md", secret)):
        with pytest.raises(ToolFailed, match="key"):
            run(ours.write(path, "Hello.", expected_version=None, operation=MemoryOperation(id=id, fingerprint="f")))
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert not [file for file in files if secret in file.name or secret.encode() in file.read_bytes()]


def test_of_many_writers_at_once_one_wins(store: MemoryStore) -> None:
    async def attempt(number: int) -> bool:
        try:
            await store.write("main/a.md", f"by {number}", expected_version=None)
        except MemoryConflictError:
            return False
        return True

    async def work() -> None:
        won = await asyncio.gather(*map(attempt, range(12)))
        assert sum(won) == 1
        found = await store.read("main/a.md", max_chars=ALL)
        assert found is not None
        assert found.content == f"by {won.index(True)}"

    run(work())


def test_of_one_operation_told_many_times_at_once_all_hear_the_same(store: MemoryStore) -> None:
    async def work() -> None:
        operation = MemoryOperation("op-1", "write a")
        told = await asyncio.gather(
            *(store.write("main/a.md", "one", expected_version=None, operation=operation) for _ in range(8))
        )
        assert len({one.version for one in told}) == 1
        assert sum(not one.replayed for one in told) == 1

    run(work())


# what is ours


def test_a_text_with_a_header_is_a_memory(ours: SheafMemoryStore, sheaf: Sheaf) -> None:
    text = "---\nname: Heron\ndescription: The staging database\ntype: project\n---\nIt is heron.\n"
    made = run(ours.write("main/heron.md", text, expected_version=None))
    (row,) = sheaf.list()
    assert (row.name, row.kind, row.state) == ("Heron", "project", "ok")
    found = run(ours.read("main/heron.md", max_chars=ALL))
    assert found is not None
    assert found.version == made.version == sheaf.read(row.path).version
    assert "It is heron." in found.content


def test_what_a_person_edits_is_a_change(ours: SheafMemoryStore, sheaf: Sheaf) -> None:
    made = run(ours.write("main/MEMORY.md", "- one\n", expected_version=None))
    (row,) = sheaf.list()
    with open(os.path.join(sheaf.root, row.path), "a", encoding="utf-8") as file:
        file.write("- two\n")
    with pytest.raises(MemoryConflictError):
        run(ours.write("main/MEMORY.md", "- three\n", expected_version=made.version))
    found = run(ours.read("main/MEMORY.md", max_chars=ALL))
    assert found is not None
    assert found.content == "- one\n- two\n"


@pytest.mark.parametrize(
    "content", ["password = 'hunter2-Xk29fLq8vBz'", "", "\n", "a\x00b", "---\nname: x\n", "\ud800"]
)
def test_what_a_sheaf_refuses_is_a_tool_that_failed_and_says_why(ours: SheafMemoryStore, content: str) -> None:
    operation = MemoryOperation("op-1", "write a")
    with pytest.raises(ToolFailed) as caught:
        run(ours.write("main/a.md", content, expected_version=None, operation=operation))
    assert isinstance(caught.value.__cause__, MemsheafError)
    assert "hunter2" not in str(caught.value)
    assert run(ours.read("main/a.md", max_chars=ALL)) is None
    assert run(ours.get_operation(operation)) is None


def test_a_file_that_is_not_understood_is_read_and_neither_replaced_nor_removed(
    ours: SheafMemoryStore, sheaf: Sheaf
) -> None:
    run(ours.write("notes.md", "Some notes.", expected_version=None))
    (Path(sheaf.root) / "broken.md").write_bytes(b"\xff Precious.")
    found = run(ours.read("broken.md", max_chars=ALL))
    assert found is not None
    for change in (ours.write("broken.md", "New.", expected_version=found.version),
                   ours.delete("broken.md", expected_version=found.version)):  # fmt: skip
        with pytest.raises(ToolFailed, match="not UTF-8"):
            run(change)
    assert (Path(sheaf.root) / "broken.md").read_bytes() == b"\xff Precious."


def test_a_process_that_died_before_it_ticked_off_is_not_repeated(ours: SheafMemoryStore, sheaf: Sheaf) -> None:
    first = MemoryOperation("op-1", "write a")
    made = run(ours.write("main/a.md", "one", expected_version=None, operation=first))
    second = MemoryOperation("op-2", "write a again")
    run(ours.write("main/a.md", "two", expected_version=made.version, operation=second))
    lines = [line for line in (sheaf.state.read("harness.operations") or b"").split(b"\n") if line]
    begun = [line for line in lines if len(json.loads(line)) > 2]
    assert len(begun) == 2
    sheaf.state.write("harness.operations", b"\n".join(begun))
    done = run(ours.write("main/a.md", "one", expected_version=None, operation=first))
    assert (done.version, done.replayed, done.existed) == (made.version, True, False)
    sheaf.state.write("harness.operations", begun[0].replace(b"op-1", b"op-3"))
    assert run(ours.get_operation(MemoryOperation("op-3", "write a"))) is None


def test_receipts_that_were_damaged_are_left_out(ours: SheafMemoryStore, sheaf: Sheaf) -> None:
    operation = MemoryOperation("op-1", "write a")
    run(ours.write("main/a.md", "one", expected_version=None, operation=operation))
    kept = sheaf.state.read("harness.operations") or b""
    rubbish = b'\n{"a": 1}\n["op-1"]\n[1, 2, 3, 4, 5]\nnull\n\xff\xfe\n["op-9", "x"]\n[[["a"'
    sheaf.state.write("harness.operations", kept + rubbish)
    found = run(ours.get_operation(operation))
    assert found is not None
    assert found.replayed


def test_the_latest_receipts_are_kept(ours: SheafMemoryStore, sheaf: Sheaf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "RECEIPTS", 4)
    version = None
    for number in range(18):
        operation = MemoryOperation(f"op-{number}", "write")
        version = run(ours.write("main/a.md", f"{number}", expected_version=version, operation=operation)).version
    known = [run(ours.get_operation(MemoryOperation(f"op-{number}", "write"))) for number in range(18)]
    assert all(known[-4:])
    assert not any(known[:8])


# places


@examples(max_examples=80)
@given(st.lists(st.from_regex(r"[A-Za-z0-9_.-]{1,20}", fullmatch=True), min_size=1, max_size=4).map("/".join))
def test_every_path_has_a_place_of_its_own(path: str) -> None:
    try:
        place = place_of(path)
    except ValueError:
        assert ".." in path or "." in path.split("/")
        return
    assert check_path(place) == place
    assert place == fold(place)  # and so another one differs on any file system
    assert path_of(place) == path


@each_case(
    "path",
    ["memory.md", "MEMORY.md", "Memory.md", "AGENTS.md", "claude.md", "CONTEXT.md", "NOTES.md", "TASK.md", "con.md",
     "facts/a.md", "tasks/a.md", "sessions/a/b.md", "logs/2026.md", "aux/nul.txt/com1.md", ".md", "a.md.md", "-a.md",
     "a.", "a./b.", ".history/lock", "x+.md".replace("+", "")],
)  # fmt: skip
def test_names_that_mean_something_among_us_are_marked(path: str) -> None:
    place = place_of(path)
    assert path_of(place) == path
    assert check_path(place) == place
    assert not place.startswith(("facts/", "tasks/", "sessions/", "logs/", ".history"))
    assert fold(place) not in {"context.md", "notes.md", "task.md", "memory.md"}


def test_names_that_differ_in_case_are_two_files(ours: SheafMemoryStore) -> None:
    async def work() -> None:
        for name in ("Alice", "alice", "ALICE"):
            await ours.write(f"{name}/main/MEMORY.md", f"Notes of {name}.", expected_version=None)
        for name in ("Alice", "alice", "ALICE"):
            found = await ours.read(f"{name}/main/MEMORY.md", max_chars=ALL)
            assert found is not None
            assert found.content == f"Notes of {name}."

    run(work())


def test_what_is_too_deep_or_too_long_for_us_is_refused(ours: SheafMemoryStore) -> None:
    for path in ("a/b/c/d/e/f.md", f"{'a' * 150}.md"):
        with pytest.raises(ValueError, match="invalid memory path"):
            run(ours.write(path, "x", expected_version=None))


def test_memories_of_the_sheaf_are_seen_and_files_of_other_names_are_not(
    ours: SheafMemoryStore, sheaf: Sheaf
) -> None:
    sheaf.remember("Heron", "The staging database", "project", "It is heron.")
    sheaf.put("茶.md", "tea", free=True)
    sheaf.by = "user"
    sheaf.put("CONTEXT.md", "context", free=True)
    sheaf.by = "agent"
    assert run(ours.list_paths("", limit=10)) == ["project_heron.md"]
    found = run(ours.read("project_heron.md", max_chars=ALL))
    assert found is not None
    assert "It is heron." in found.content
    assert run(ours.read("CONTEXT.md", max_chars=ALL)) is None


def test_a_file_in_another_spelling_is_neither_read_nor_written(ours: SheafMemoryStore, sheaf: Sheaf) -> None:
    sheaf.put("Main/a.md", "of a person", free=True)
    assert run(ours.read("main/a.md", max_chars=ALL)) is None
    with pytest.raises(ToolFailed):
        run(ours.write("main/a.md", "mine", expected_version=None))
    assert sheaf.read("Main/a.md").text == "of a person"


def test_no_hostile_path_leaves_the_scope(ours: SheafMemoryStore, tmp_path: Path) -> None:
    for case in sample(list(_strings(json.loads((CORPORA / "traversal.json").read_text(encoding="utf-8"))))):
        try:
            run(ours.write(case, "x", expected_version=None))
        except (ValueError, MemoryConflictError):
            continue
    outside = [
        path for path in (tmp_path / "home").rglob("*.md") if "agent" not in path.parts and "agents" not in path.parts
    ]
    assert outside == []


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _strings(one)


def test_the_examples_in_the_module_hold() -> None:
    assert doctest.testmod(adapter).failed == 0


# the harness's own capability


def agent_of(store: Any, *script: ModelResponse) -> tuple[Agent[None, str], list[list[ModelMessage]]]:
    left, shown = list(script), []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        shown.append(list(messages))
        return left.pop(0) if left else ModelResponse([TextPart("ok")])

    return Agent(FunctionModel(answer), capabilities=[Memory(store)]), shown


def call(name: str, **arguments: str) -> ModelResponse:
    return ModelResponse([ToolCallPart(name, arguments, tool_call_id=f"call-{name}-{len(arguments)}")])


def answers(messages: list[ModelMessage]) -> list[Any]:
    return [part.content for one in messages for part in one.parts if isinstance(part, ToolReturnPart)]


def test_the_capability_of_the_harness_works_on_it(ours: SheafMemoryStore, sheaf: Sheaf) -> None:
    agent, _ = agent_of(
        ours,
        call("write_memory", content="- The staging database is heron."),
        call("write_memory", content="The long story of the heron.", file="heron"),
        call("write_memory", content="stork", file="heron", old_text="heron"),
        call("read_memory", file="heron.md"),
        call("search_memory", query="stork"),
        call("delete_memory", file="heron.md"),
    )
    result = run(agent.run("hello"))
    created, other, updated, read, searched, deleted = answers(result.all_messages())
    assert [one["status"] for one in (created, other, updated, deleted)] == [
        "created", "created", "updated", "deleted",
    ]  # fmt: skip
    assert read == "The long story of the stork.\n"
    assert [one["file"] for one in searched["matches"]] == ["heron.md"]
    assert [row.path for row in sheaf.list()] == ["main/@memory@.md"]
    next_agent, shown = agent_of(ours)
    run(next_agent.run("hello again"))
    assert "The staging database is heron." in str(shown[0])


def test_a_secret_is_refused_and_the_agent_goes_on(ours: SheafMemoryStore, sheaf: Sheaf) -> None:
    agent, shown = agent_of(ours, *[call("write_memory", content="password = 'hunter2-Xk29fLq8vBz'")] * 3)
    assert run(agent.run("hello")).output == "ok"
    assert "secret" in str(shown[-1]).lower() or "password" in str(answers(shown[-1]))
    assert sheaf.list() == []


PROCESS = """
import asyncio, sys
from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai_harness.memory import Memory
from memsheaf import Sheaf
from memsheaf.adapters.pydantic_ai_harness import SheafMemoryStore

def answer(messages, info):
    if sys.argv[1] and len(messages) == 1:
        return ModelResponse([ToolCallPart("write_memory", {"content": sys.argv[1]}, tool_call_id="c1")])
    return ModelResponse([TextPart(repr(messages))])

with Sheaf.open("agent/notes") as sheaf:
    agent = Agent(FunctionModel(answer), capabilities=[Memory(SheafMemoryStore(sheaf))])
    print(ascii(asyncio.run(agent.run("hello")).output))
"""


def begun(tmp_path: Path, content: str) -> subprocess.Popen[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MEMSHEAF_")}
    environment |= {f"MEMSHEAF_{name.upper()}": str(tmp_path / name) for name in ("home", "cache", "state")}
    environment |= {"MEMSHEAF_EMBEDDER": "none", "PYTHONUTF8": "1"}
    return subprocess.Popen(
        [sys.executable, "-c", PROCESS, content],
        env=environment, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8",
    )  # fmt: skip


def ended(process: subprocess.Popen[str]) -> str:
    out, problem = process.communicate(timeout=120)
    assert (process.returncode, problem) == (0, "")
    return out


def test_processes_that_write_at_once_lose_nothing(tmp_path: Path, ours: SheafMemoryStore) -> None:
    for process in [begun(tmp_path, f"- fact number {number}") for number in range(2)]:
        ended(process)
    found = run(ours.read("main/MEMORY.md", max_chars=ALL))
    assert found is not None
    assert sorted(found.content.splitlines()) == [f"- fact number {number}" for number in range(2)]
