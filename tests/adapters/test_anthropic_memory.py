"""Anthropic's memory tool over a sheaf: the SDK's own tests, its real runners, and hostile input."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import subprocess
import sys
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

import pytest
from anthropic import Anthropic, AsyncAnthropic
from anthropic.tools import ToolError
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from cases import each_case, give_up, sample
from databases import contents
from llm.talkers import Reply, anthropic_server, say
from llm.talkers import call as call_tool
from memsheaf.adapters.anthropic_memory import AsyncMemoryTool, MemoryTool, to_file, to_name
from memsheaf.config import Settings
from memsheaf.errors import Ref
from memsheaf.memory import Memory
from memsheaf.sheaf import Sheaf
from memsheaf.text.similarity import fact as words_of
from memsheaf.tools import Tools

HERE = Path(__file__).parent
CORPORA = HERE.parent / "corpora"
TYPED = "---\nname: Prefers tabs\ndescription: Indentation\ntype: user\n---\nUse tabs.\n"
FACT = (
    "---\nname: Test command\ndescription: How tests are run\ntype: project\n"
    "citations:\n  - Makefile:1\nreason: asked often\n---\nmake test\n"
)


def cases(corpus: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((CORPORA / f"{corpus}.json").read_text("utf-8"))["cases"]
    return found


def settings_in(folder: Path) -> Settings:
    home, cache, state = (str(folder / name) for name in ("home", "cache", "state"))
    return Settings(home, cache, state=state, embedder="none")


@pytest.fixture
def tool(settings: Settings) -> Iterator[MemoryTool]:
    with MemoryTool.open("user", settings=settings) as tool:
        yield tool


def view(tool: MemoryTool, path: str = "/memories", *lines: int) -> str:
    return tool.call({"command": "view", "path": path, "view_range": list(lines)})


def create(tool: MemoryTool, path: str, text: str = "Some text.\n") -> str:
    return tool.call({"command": "create", "path": path, "file_text": text})


def replace(tool: MemoryTool, path: str, old: str, new: str) -> str:
    return tool.call({"command": "str_replace", "path": path, "old_str": old, "new_str": new})


def insert(tool: MemoryTool, path: str, line: int, text: str) -> str:
    return tool.call({"command": "insert", "path": path, "insert_line": line, "insert_text": text})


def delete(tool: MemoryTool, path: str) -> str:
    return tool.call({"command": "delete", "path": path})


def rename(tool: MemoryTool, old: str, new: str) -> str:
    return tool.call({"command": "rename", "old_path": old, "new_path": new})


def listed(tool: MemoryTool, path: str = "/memories") -> list[str]:
    """The paths that a view of a folder shows, without the folder itself."""
    return [line.partition("\t")[2] for line in view(tool, path).splitlines()[2:]]


def walked(tool: MemoryTool, folder: str = "/memories") -> set[str]:
    """The paths of all files, found by views of one folder after the other."""
    found: set[str] = set()
    for path in listed(tool, folder):
        found |= walked(tool, path.rstrip("/")) if path.endswith("/") else {path}
    return found


def files(tool: MemoryTool) -> dict[str, str]:
    """What is on disk, by our names."""
    return {row.path: Path(tool.sheaf.root, row.path).read_bytes().decode() for row in tool.sheaf.list()}


def refusal(call: Any, *arguments: Any) -> str:
    with pytest.raises(ToolError) as caught:
        call(*arguments)
    return str(caught.value)


def answer(call: Any, *arguments: Any) -> str:
    """What a model is told, be it an error or not."""
    try:
        return str(call(*arguments))
    except ToolError as error:
        return str(error)


# the SDK's own tests


def conformance() -> ModuleType:
    spec = importlib.util.spec_from_file_location("conformance", HERE / "conformance" / "anthropic_memory.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.long
def test_the_tests_of_the_sdk_pass_but_for_those_whose_reason_is_known() -> None:
    script = conformance()
    try:
        outcome = script.run()
    except script.Unreachable as error:
        give_up(f"no package index: {error}")
    assert set(outcome.failed) == set(script.DEVIATIONS)
    assert (len(outcome.passed), len(outcome.failed)) == (80, 3)


def test_the_page_says_how_many_pass_and_why_the_others_do_not() -> None:
    page = (HERE.parent.parent / "docs" / "anthropic-memory.md").read_text("utf-8")
    assert "80 of 83 pass" in page
    for name in conformance().DEVIATIONS:
        assert f"`{name.rpartition('::')[2]}`" in page


# names


NAMES = st.lists(
    st.text(st.sampled_from("abAé1._-@ "), min_size=1, max_size=6)
    | st.sampled_from(["todo", "notes", "Notes", "x"]).flatmap(
        lambda stem: st.lists(st.sampled_from([".md", ".txt", ".file", ".MD", ".json"]), max_size=4).map(
            lambda endings: stem + "".join(endings)
        )
    ),
    min_size=1,
    max_size=3,
).map("/".join)


@given(NAMES)
def test_each_file_has_one_name_and_each_name_one_file(name: str) -> None:
    assert to_file(to_name(f"{name}.md")) == f"{name}.md"
    assert to_file(name).endswith(".md")


@hypothesis_settings(max_examples=8)
@given(st.lists(NAMES, min_size=2, max_size=8, unique=True))
def test_two_names_never_make_one_file_and_what_was_made_is_what_is_listed(wanted: Sequence[str]) -> None:
    made = {}
    with TemporaryDirectory() as folder, MemoryTool.open("user", settings=settings_in(Path(folder))) as tool:
        for number, name in enumerate(wanted):
            try:
                create(tool, f"/memories/{name}", f"text {number}\n")
            except ToolError:
                continue
            made[f"/memories/{unicodedata.normalize('NFC', name)}"] = f"text {number}\n"
        assert len(files(tool)) == len(made)
        assert walked(tool) == set(made)
        for path, text in made.items():
            assert view(tool, path).endswith(f"     1\t{text}     2\t")


def test_spellings_that_are_one_file_on_some_systems_are_one_file(tool: MemoryTool) -> None:
    create(tool, "/memories/caf\u00e9.txt")

    assert refusal(create, tool, "/memories/CAF\u00c9.txt") == "File /memories/CAF\u00c9.txt already exists"
    assert "already exists" in refusal(create, tool, "/memories/cafe\u0301.txt")
    assert list(files(tool)) == ["caf\u00e9.txt.md"]


def test_a_folder_has_one_spelling(tool: MemoryTool) -> None:
    create(tool, "/memories/notes/a.txt")

    assert "spell it like that" in refusal(create, tool, "/memories/NOTES/b.txt")
    assert list(files(tool)) == ["notes/a.txt.md"]


def outside_the_cache(folder: Path) -> dict[str, bytes]:
    return contents(folder, skip="cache")


TRAVERSALS = [case for case in cases("traversal") if case["surface"] == "name"]
REFUSED = [case["input"] for case in TRAVERSALS if case["expect"] == "reject" and case["input"] != "notes.py"]


@each_case("name", sample(REFUSED, 4))
def test_a_path_of_the_corpus_leads_nowhere(tool: MemoryTool, tmp_path: Path, name: str) -> None:
    answer(create, tool, "/memories/kept.md")
    before = outside_the_cache(tmp_path)

    for path in (name, f"/memories/{name}"):
        for command, rest in (
            ("create", {"file_text": "x"}),
            ("str_replace", {"old_str": "Some", "new_str": "x"}),
            ("insert", {"insert_line": 0, "insert_text": "x"}),
            ("delete", {}),
            ("rename", {"old_path": path, "new_path": "/memories/moved.md"}),
            ("rename", {"old_path": "/memories/kept.md", "new_path": path}),
        ):
            with pytest.raises(ToolError):
                tool.call({"command": command, "path": path, **rest})
        if path == name or name not in ("", ".", "MEMORY.md", "memory.md"):  # the root and the catalog may be viewed
            with pytest.raises(ToolError):
                view(tool, path)
    assert outside_the_cache(tmp_path) == before


@each_case("path", ["/memoriesx/a.txt", "/memories_private/x.md", "memories/a.txt", "/etc/passwd", ""])
def test_a_path_that_is_not_below_memories_is_refused(tool: MemoryTool, path: str) -> None:
    assert refusal(create, tool, path).startswith("Path must start with /memories, got: ")


def test_the_catalog_can_be_read_and_not_changed(tool: MemoryTool) -> None:
    create(tool, "/memories/user_tabs.md", TYPED)

    assert "Prefers tabs" in view(tool, "/memories/MEMORY.md")
    for call in (
        lambda: replace(tool, "/memories/MEMORY.md", "tabs", "spaces"),
        lambda: insert(tool, "/memories/MEMORY.md", 0, "x"),
        lambda: delete(tool, "/memories/MEMORY.md"),
        lambda: rename(tool, "/memories/MEMORY.md", "/memories/x.md"),
        lambda: rename(tool, "/memories/user_tabs.md", "/memories/MEMORY.md"),
    ):
        assert "is not a memory" in refusal(call)


@pytest.mark.skipif(os.name != "posix", reason="links")
def test_a_link_is_neither_read_nor_written_nor_listed(tool: MemoryTool, tmp_path: Path) -> None:
    (tmp_path / "secret.md").write_text("private")
    create(tool, "/memories/kept.md")
    os.symlink(tmp_path / "secret.md", Path(tool.sheaf.root, "link.md"))
    os.symlink(tmp_path, Path(tool.sheaf.root, "folder"))

    for path in ("/memories/link.md", "/memories/folder/secret.md"):
        for call in (view, create, delete):
            said = refusal(call, tool, path)
            assert said.startswith(f"Path {path} would escape /memories directory")
            assert str(tmp_path) not in said
    assert listed(tool) == ["/memories/kept.md"]
    assert (tmp_path / "secret.md").read_text() == "private"


# what is in the files


def test_a_text_with_a_header_is_a_typed_memory_that_the_other_tools_know(tool: MemoryTool) -> None:
    create(tool, "/memories/user_tabs.md", TYPED)

    memory = tool.sheaf.read("user_tabs.md")
    assert (memory.state, memory.type, memory.name) == ("ok", "user", "Prefers tabs")
    assert "[user]  Indentation" in Tools(tool.sheaf).call("memory_list", {})
    assert view(tool, "/memories/user_tabs.md", 2, 3).endswith(
        "\n     2\tname: Prefers tabs\n     3\tdescription: Indentation"
    )


def test_a_text_without_a_header_is_a_free_file_kept_byte_for_byte(tool: MemoryTool) -> None:
    text = "<prefs>\r\n  日本語 🙂\r\n</prefs>"
    create(tool, "/memories/preferences.xml", text)

    assert tool.sheaf.read("preferences.xml.md").state == "free"
    assert files(tool) == {"preferences.xml.md": text}


@each_case("case", sample([case for case in cases("secrets") if case["expect"] == "flag"], 16))
def test_a_secret_is_refused_and_not_repeated(tool: MemoryTool, case: dict[str, Any]) -> None:
    text, secret = "".join(case["parts"]), "".join(case["parts"][index] for index in case["secret"])
    answer(create, tool, "/memories/notes.txt", "Empty.\n")

    for call in (
        lambda: create(tool, "/memories/keys.txt", text),
        lambda: replace(tool, "/memories/notes.txt", "Empty.", text),
        lambda: insert(tool, "/memories/notes.txt", 1, text),
    ):
        said = refusal(call)
        assert secret not in said
        assert "nothing was stored. Keep it where secrets are kept" in said
    assert secret not in refusal(replace, tool, "/memories/notes.txt", text, "x")
    assert files(tool) == {"notes.txt.md": "Empty.\n"}


# changing


def test_only_a_person_confirms_a_memory(tool: MemoryTool) -> None:
    doubted = TYPED.replace("type: user\n", "type: user\ntrust: unconfirmed\n")
    create(tool, "/memories/user_tabs.md", doubted)

    replace(tool, "/memories/user_tabs.md", "trust: unconfirmed", "trust: confirmed")
    assert "trust: unconfirmed" in view(tool, "/memories/user_tabs.md")


class Interrupted(Sheaf):
    """A sheaf in which somebody else writes right after a memory was read."""

    writes: list[tuple[str, str]]

    def read(self, where: Ref | str) -> Memory:
        found = super().read(where)
        if self.writes:
            Path(self.root, found.path).write_text(found.text.replace(*self.writes.pop()))
        return found


def test_an_edit_is_made_on_the_text_that_somebody_else_wrote_meanwhile(settings: Settings) -> None:
    with Interrupted.open("user", settings=settings) as sheaf:
        assert isinstance(sheaf, Interrupted)
        sheaf.writes = []
        tool = MemoryTool(sheaf)
        create(tool, "/memories/a.txt", "one\ntwo\n")

        sheaf.writes = [("one", "1")]
        assert replace(tool, "/memories/a.txt", "two", "2").endswith("     1\t1\n     2\t2\n     3\t")
        sheaf.writes = [("1", "one\none")]
        insert(tool, "/memories/a.txt", 2, "three")
        assert files(tool) == {"a.txt.md": "one\none\nthree\n2\n"}

        sheaf.writes = [("2", "two")]
        assert "did not appear verbatim" in refusal(replace, tool, "/memories/a.txt", "2", "zwei")
        sheaf.writes = [("two", "two two")]
        assert "Multiple occurrences" in refusal(replace, tool, "/memories/a.txt", "two", "zwei")
        assert files(tool) == {"a.txt.md": "one\none\nthree\ntwo two\n"}


def test_a_fact_is_created_and_never_edited(tool: MemoryTool) -> None:
    path = "/memories/facts/project_tests.md"
    create(tool, path, FACT)

    for call in (
        lambda: replace(tool, path, "make test", "make check"),
        lambda: delete(tool, path),
        lambda: delete(tool, "/memories/facts"),
        lambda: rename(tool, path, "/memories/moved.md"),
        lambda: rename(tool, "/memories/facts", "/memories/old"),
    ):
        said = refusal(call)
        assert said.startswith(f"{path} is a fact")
        assert "create a new file below /memories/facts" in said
    assert "is no fact yet: it lacks a cited place" in refusal(create, tool, "/memories/facts/a.md", TYPED)
    assert files(tool) == {"facts/project_tests.md": FACT}


def test_notes_stay_in_order_and_in_place(tool: MemoryTool) -> None:
    create(tool, "/memories/NOTES.md", "# Notes\n")

    assert "would be out of order" in refusal(insert, tool, "/memories/NOTES.md", 1, "line\n" * 40)
    assert "is not removed" in refusal(delete, tool, "/memories/NOTES.md")
    assert "is not removed" in refusal(rename, tool, "/memories/NOTES.md", "/memories/other.md")


def test_deleting_and_renaming_a_folder_are_one_commit_each_that_can_be_undone(tool: MemoryTool) -> None:
    for path in ("wares/a.txt", "wares/deep/b", "wares/user_tabs.md", "other.txt"):
        create(tool, f"/memories/{path}", TYPED if path.endswith(".md") else f"{path}\n")
    before = files(tool)

    assert (
        rename(tool, "/memories/wares", "/memories/old/wares")
        == "Successfully renamed /memories/wares to /memories/old/wares"
    )
    moved = {path.replace("wares/", "old/wares/"): text for path, text in before.items()}
    assert files(tool) == moved
    assert delete(tool, "/memories/old/") == "Successfully deleted /memories/old/"
    assert listed(tool) == ["/memories/other.txt"]
    tool.sheaf.undo()
    assert files(tool) == moved
    tool.sheaf.undo()
    assert files(tool) == before


def test_what_was_deleted_is_not_learned_again_and_what_was_not_is_not_buried(tool: MemoryTool) -> None:
    create(tool, "/memories/wares/user_tabs.md", TYPED)
    create(tool, "/memories/facts/project_tests.md", FACT)
    tabs, tests = (words_of(tool.sheaf.read(path)) for path in ("wares/user_tabs.md", "facts/project_tests.md"))

    delete(tool, "/memories/wares")
    refusal(delete, tool, "/memories/facts")
    assert tool.sheaf.own.store.buried(tabs) is not None
    assert tool.sheaf.own.store.buried(tests) is None


def test_clearing_forgets_everything_in_one_commit_that_can_be_undone(tool: MemoryTool) -> None:
    assert tool.clear_all_memory() == "All memory cleared"
    create(tool, "/memories/a.txt")
    create(tool, "/memories/facts/project_tests.md", FACT)
    Path(tool.sheaf.root, "bad.md").write_text("---\nname: &x y\n---\n")
    before = files(tool)

    assert tool.clear_all_memory() == "All memory cleared"
    assert files(tool) == {}
    tool.sheaf.undo()
    assert files(tool) == before


# looking


def test_an_error_does_not_repeat_all_that_a_model_said(tool: MemoryTool) -> None:
    assert len(refusal(create, tool, f"/memories/{'a' * 1_000_000}")) < 2_100


def test_what_no_person_has_vouched_for_says_so(tool: MemoryTool) -> None:
    create(tool, "/memories/a.txt")
    header = "---\nname: Deploys\ndescription: When\ntype: project\ntrust: unconfirmed\n---\n"
    Path(tool.sheaf.root, "deploys.md").write_text(f"{header}Deploy on Fridays.\n")

    assert view(tool, "/memories/deploys.md").startswith("(unconfirmed: ")


# what the tool is not to do


def test_nothing_is_read_or_written_in_a_turn_that_ignores_memory(settings: Settings) -> None:
    with Sheaf.open("user", settings=settings) as sheaf:
        session = sheaf.session()
        tool = MemoryTool(sheaf, session=session)
        create(tool, "/memories/a.txt")
        session.recall("Please ignore your memory and answer.")
        assert "asked to ignore memory" in refusal(view, tool)
        assert "asked to ignore memory" in refusal(delete, tool, "/memories/a.txt")
        session.recall("And now?")
        assert "/memories/a.txt" in view(tool)


def test_a_sheaf_that_is_only_read_refuses_every_change(settings: Settings) -> None:
    with MemoryTool.open("user", settings=settings) as tool:
        create(tool, "/memories/a.txt")
        create(tool, "/memories/b/c.txt")
    with Sheaf.open("user", settings=settings, read_only=True) as sheaf:
        tool = MemoryTool(sheaf)
        assert "Some text." in view(tool, "/memories/a.txt")
        for call in (
            lambda: create(tool, "/memories/new.txt"),
            lambda: replace(tool, "/memories/a.txt", "Some", "Any"),
            lambda: insert(tool, "/memories/a.txt", 0, "x"),
            lambda: delete(tool, "/memories/a.txt"),
            lambda: delete(tool, "/memories/b"),
            lambda: rename(tool, "/memories/a.txt", "/memories/x.txt"),
            tool.clear_all_memory,
        ):
            assert "opened for reading only" in refusal(call)


def test_the_setting_that_switches_tools_off_holds_here(settings: Settings) -> None:
    with MemoryTool.open("user", settings=settings._replace(tools=False)) as tool:
        assert "switched off" in refusal(view, tool)


# the real client and its runners, against an API on loopback


NUMBERS = count()


def uses(*inputs: Mapping[str, object]) -> Reply:
    return sum((call_tool("memory", one, id=f"toolu_{next(NUMBERS)}") for one in inputs), Reply())


def environment(settings: Settings) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("MEMSHEAF_", "ANTHROPIC_"))}
    ours = {"HOME": settings.home, "CACHE": settings.cache, "STATE": settings.state, "EMBEDDER": "none"}
    return {**kept, "NO_PROXY": "127.0.0.1", **{f"MEMSHEAF_{name}": value for name, value in ours.items()}}


def converse(settings: Settings, way: str, *answers: Reply) -> list[tuple[str, bool]]:
    """One conversation over a sheaf of its own; gives what the tool answered, and whether that was an error."""
    asking: Any = {"model": "scripted", "max_tokens": 100, "messages": [{"role": "user", "content": "Go on."}]}

    async def run(url: str) -> Any:
        with AsyncMemoryTool.open("user", settings=settings) as tool:
            async with AsyncAnthropic(api_key="none", base_url=url) as client:
                return await client.beta.messages.tool_runner(tools=[tool], **asking).until_done()

    script = iter((*answers, say("Done.")))
    with anthropic_server(aside=lambda _: next(script)) as server:
        if way == "async":
            last = asyncio.run(run(server.url))
        else:
            with (
                MemoryTool.open("user", settings=settings) as tool,
                Anthropic(api_key="none", base_url=server.url) as client,
            ):
                last = client.beta.messages.tool_runner(tools=[tool], **asking).until_done()
    asked = [one.body for one in server.asides]
    assert last.content[0].text == "Done."
    assert asked[0]["tools"] == [{"type": "memory_20250818", "name": "memory"}]
    blocks = [block for request in asked for one in request["messages"] for block in one["content"]]
    results = [block for block in blocks if isinstance(block, dict) and block["type"] == "tool_result"]
    # a history that is sent again says the same again
    return list({one["tool_use_id"]: (one["content"], one.get("is_error", False)) for one in results}.values())


def test_what_is_saved_by_the_real_runner_another_conversation_and_the_command_line_find(
    settings: Settings,
) -> None:
    said = converse(
        settings,
        "sync",
        uses({"command": "view", "path": "/memories"}),
        uses(
            {"command": "create", "path": "/memories/user_tabs.md", "file_text": TYPED},
            {"command": "create", "path": "/memories/wares/todo.txt", "file_text": "Buy milk.\n买牛奶\n"},
        ),
        uses({"command": "create", "path": "/memories/../x", "file_text": "x"}, {"command": "explode"}),
    )
    assert said[0] == (
        "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items:\n0B\t/memories",
        False,
    )
    assert said[1:3] == [
        ("File created successfully at: /memories/user_tabs.md", False),
        ("File created successfully at: /memories/wares/todo.txt", False),
    ]
    assert said[3] == ("Path /memories/../x would escape /memories directory", True)
    assert said[4] == ("Unknown command: explode. There are view, create, str_replace, insert, delete, rename.", True)

    said = converse(
        settings,
        "async",
        uses({"command": "view", "path": "/memories"}),
        uses({"command": "view", "path": "/memories/wares/todo.txt"}),
        uses(
            {
                "command": "str_replace",
                "path": "/memories/user_tabs.md",
                "old_str": "tabs.",
                "new_str": "8 wide tabs.",
            }
        ),
    )
    assert said[0][0].splitlines()[2:] == [
        f"{len(TYPED)}B\t/memories/user_tabs.md", "20B\t/memories/wares/", "20B\t/memories/wares/todo.txt",
    ]  # fmt: skip
    assert said[1][0].endswith("     1\tBuy milk.\n     2\t买牛奶\n     3\t")

    command = [sys.executable, "-m", "memsheaf", "--scope", "user", "list"]
    shown_by_command = subprocess.run(
        command, env=environment(settings), capture_output=True, text=True, encoding="utf-8", check=False
    )
    assert "user_tabs.md" in shown_by_command.stdout, shown_by_command.stderr
    with Sheaf.open("user", settings=settings) as sheaf:
        assert "Use 8 wide tabs." in Tools(sheaf).call("memory_read", {"filename": "user_tabs.md"})
