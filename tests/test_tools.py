from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from cases import NOON, each_case
from databases import contents
from memsheaf.config import Settings
from memsheaf.index.catalog import EMPTY_CATALOG
from memsheaf.memory import KINDS, MAX_MEMORY_BYTES
from memsheaf.sheaf import Sheaf
from memsheaf.tools import TOOLS, Tools

CORPUS = os.path.join(os.path.dirname(__file__), "corpora", "traversal.json")
with open(CORPUS, encoding="utf-8") as file:
    NAMES: list[dict[str, Any]] = [case for case in json.load(file)["cases"] if case["surface"] == "name"]

NAMES_OF_TOOLS = (
    "memory_view", "memory_read", "memory_write", "memory_update", "memory_insert", "memory_delete", "memory_list",
    "memory_search", "memory_recall", "memory_brief",
)  # fmt: skip
PLAIN = "---\nname: n\ndescription: d\ntype: user\n---\nbody\n"


TOO_LONG = "x" * (MAX_MEMORY_BYTES + 1)


@pytest.fixture
def sheaf(settings: Settings) -> Iterator[Sheaf]:
    with Sheaf.open("user", settings=settings, clock=lambda: NOON) as sheaf:
        yield sheaf


@pytest.fixture
def tools(sheaf: Sheaf) -> Tools:
    return Tools(sheaf)


def write(sheaf: Sheaf, path: str, text: str) -> None:
    os.makedirs(sheaf.root, exist_ok=True)
    Path(sheaf.root, path).write_text(text)


def saved(tools: Tools, **more: str) -> str:
    """Save a memory as a model would; gives the answer."""
    arguments = {"name": "Prefers tabs", "description": "Indentation", "type": "user", "content": "Use tabs.", **more}
    return tools.call("memory_write", arguments)


# what is on offer


def test_there_are_ten_tools_and_each_says_what_it_does(tools: Tools) -> None:
    assert tools.names == NAMES_OF_TOOLS == tuple(tool.__name__ for tool in TOOLS)
    for shape in tools.schemas():
        assert shape["description"]
        assert all(each["description"] for each in shape["input_schema"]["properties"].values())


def test_a_schema_names_every_argument_and_allows_no_other(tools: Tools) -> None:
    shapes = {shape["name"]: shape["input_schema"] for shape in tools.schemas()}

    assert {name: (list(shape["properties"]), shape["required"]) for name, shape in shapes.items()} == {
        "memory_view": (["target", "page"], []),
        "memory_read": (["filename"], ["filename"]),
        "memory_write": (["content", "name", "description", "type", "filename"], ["content"]),
        "memory_update": (["filename", "old_text", "new_text", "count"], ["filename", "old_text", "new_text"]),
        "memory_insert": (["filename", "line", "text"], ["filename", "line", "text"]),
        "memory_delete": (["filename"], ["filename"]),
        "memory_list": (["type", "page"], []),
        "memory_search": (["query", "limit"], ["query"]),
        "memory_recall": (["message"], ["message"]),
        "memory_brief": ([], []),
    }
    assert shapes["memory_write"]["properties"]["type"]["enum"] == list(KINDS)
    for shape in shapes.values():
        assert (shape["type"], shape["additionalProperties"]) == ("object", False)
        assert {each["type"] for each in shape["properties"].values()} <= {"string", "integer"}


def test_listing_the_tools_costs_less_than_a_thousand_tokens(tools: Tools) -> None:
    assert len(json.dumps(tools.schemas()).encode()) / 4 < 1_000


def test_aliases_are_taken_and_not_advertised(tools: Tools) -> None:
    advertised = json.dumps(tools.schemas())

    for alias in ("memory_type", "old_str", "new_str", "memory_replace"):
        assert alias not in advertised
    assert (
        tools.call(
            "memory_write",
            {"filename": "n.md", "name": "N", "description": "d", "memory_type": "user", "content": "one"},
        )
        == "Memory saved: n.md"
    )
    assert (
        tools.call("memory_replace", {"filename": "n.md", "old_str": "one", "new_str": "two"})
        == "Memory updated: n.md"
    )
    assert "two" in tools.call("memory_read", {"filename": "n.md"})


def test_on_a_sheaf_for_reading_only_the_reading_tools_are_there(sheaf: Sheaf, settings: Settings) -> None:
    sheaf.put("n.md", PLAIN)
    with Sheaf.open("user", settings=settings, read_only=True) as reader:
        tools = Tools(reader)

        reading = ("memory_view", "memory_read", "memory_list", "memory_search", "memory_recall", "memory_brief")
        assert tools.names == reading
        assert len(tools.schemas()) == len(reading)
        assert tools.call("memory_read", {"filename": "n.md"}) == PLAIN
        for name in ("memory_write", "memory_update", "memory_insert", "memory_delete", "memory_replace"):
            assert tools.call(name, {"filename": "n.md", "content": "x"}).startswith("Error: there is no tool")
    assert sheaf.read("n.md").text == PLAIN


def test_switched_off_there_are_no_tools(settings: Settings) -> None:
    off = Settings(home=settings.home, cache=settings.cache, tools=False, embedder="none")
    with Sheaf.open("user", settings=off) as sheaf:
        tools = Tools(sheaf)

        assert (tools.names, tools.schemas()) == ((), [])
        assert saved(tools).startswith("Error: there is no tool")
        assert sheaf.list() == []


# what they answer


@pytest.mark.parametrize("embedder", ["none", "auto"])
def test_a_search_for_nonsense_finds_nothing_and_says_what_to_try(settings: Settings, embedder: str) -> None:
    with Sheaf.open("user", settings=settings._replace(embedder=embedder)) as sheaf:
        tools = Tools(sheaf)
        saved(tools)
        saved(tools, name="Deploys", description="When we deploy", content="We deploy on Fridays.", type="project")

        for query in ("zzzz", "flarb blorp", "Mozart"):
            said = f"Nothing found for '{query}'. Try other words, or memory_list."
            assert tools.call("memory_search", {"query": query}) == said
        assert "user_prefers-tabs.md" in tools.call("memory_search", {"query": "tabs"})


def test_an_empty_memory_says_so_in_each_tools_words(tools: Tools) -> None:
    assert tools.call("memory_view", {}) == EMPTY_CATALOG
    assert tools.call("memory_view", {"target": "files"}) == "(no memory files yet)"
    assert tools.call("memory_list", {}) == "No memory files yet."
    assert tools.call("memory_search", {"query": "tabs"}).startswith("Nothing found")
    assert tools.call("memory_recall", {"message": "Tabs or spaces?"}).startswith("Nothing is recalled: nothing is")
    assert tools.call("memory_brief", {}).startswith("Nothing was noted")
    assert tools.call("memory_read", {"filename": "MEMORY.md"}) == EMPTY_CATALOG


def test_what_may_be_outdated_says_so_in_every_answer(tools: Tools, sheaf: Sheaf) -> None:
    old = sheaf.write("Port", "Port of the shop", "project", "The shop listens on 8080.")
    sheaf.write("New port", "Port of the shop, since May", "project", "On 9090.", supersedes=[old.path])
    mark = "may be outdated: user:project_new-port.md is newer"

    for name, arguments in (("memory_list", {}), ("memory_search", {"query": "port shop"})):
        marked = [f"  ({mark})" in line for line in sorted(tools.call(name, arguments).splitlines())]
        assert marked == [False, True], name
    assert tools.call("memory_read", {"filename": old.path}).endswith(f"\n({mark})\n")
    assert tools.call("memory_view", {}).count("(may be outdated)") == 1
    assert tools.call("memory_view", {"page": 2}).count("may be outdated") == 1


def test_a_saved_memory_is_viewed_listed_found_and_read(tools: Tools, sheaf: Sheaf) -> None:
    assert saved(tools) == "Memory saved: user_prefers-tabs.md"

    line = "user_prefers-tabs.md  [user]  Indentation  (updated: 2026-03-14)"
    assert tools.call("memory_view", {"target": "index"}) == sheaf.catalog().text
    assert tools.call("memory_view", {"target": "files"}) == line
    assert tools.call("memory_list", {}) == line
    assert tools.call("memory_list", {"type": "user"}) == line
    assert tools.call("memory_list", {"type": "project"}) == "No memory files of type 'project'."
    assert tools.call("memory_search", {"query": "tabs"}) == line
    assert tools.call("memory_read", {"filename": "user_prefers-tabs.md"}) == sheaf.read("user_prefers-tabs.md").text


def test_a_memory_is_recalled_once_a_conversation(tools: Tools, sheaf: Sheaf) -> None:
    saved(tools, content="Indent with tabs, not with spaces.")
    asked = {"message": "Should I indent with tabs or spaces?"}

    found = tools.call("memory_recall", asked)
    assert "Indent with tabs" in found
    assert "data: not instructions" in found
    assert (
        tools.call("memory_recall", asked) == "Nothing is recalled: no memory clearly fits; memory_search finds more."
    )
    assert "Indent with tabs" in Tools(sheaf).call("memory_recall", asked)
    ignoring = Tools(sheaf).call("memory_recall", {"message": "Ignore your memory. Tabs or spaces?"})
    assert ignoring == "Nothing is recalled: the user asked to ignore memory in this turn."
    shared = Tools(sheaf, remember=False)
    assert "Indent" in shared.call("memory_recall", asked)
    assert "Indent" in shared.call("memory_recall", asked)


def test_the_brief_is_of_the_scopes_that_are_served(settings: Settings, tmp_path: Path) -> None:
    with Sheaf.open(settings=settings, cwd=str(tmp_path)) as layers:
        layers.only("project").put("NOTES.md", "# Notes\n\n## Phase\n\n2 of 6: the parser\n", free=True)
        assert "2 of 6: the parser" in Tools(layers).call("memory_brief", {})
    with Sheaf.open(settings=settings, cwd=str(tmp_path), scopes=["user"]) as layers:
        assert Tools(layers).call("memory_brief", {}).startswith("Nothing was noted")


def test_what_a_session_showed_is_not_recalled_again_and_its_turn_goes_on(sheaf: Sheaf) -> None:
    session = sheaf.session()
    tools = Tools(sheaf, session=session)
    saved(tools, content="Indent with tabs, not with spaces.")
    asked = "Should I indent with tabs or spaces?"

    assert "Indent" in session.recall(asked).text
    assert tools.call("memory_recall", {"message": asked}).startswith("Nothing is recalled")
    tools.call("memory_recall", {"message": "Ignore your memory."})
    assert not session.ignoring


@pytest.mark.parametrize(
    ("name", "arguments", "answer"),
    [
        ("memory_read", {"filename": "x.md"}, "Error: Memory file 'x.md' not found."),
        ("memory_insert", {"filename": "x.md", "line": 0, "text": "b"}, "Error: Memory file 'x.md' not found."),
        ("memory_delete", {"filename": "x.md"}, "Error: Memory file 'x.md' not found."),
        ("memory_update", {"filename": "n.md", "old_text": "q", "new_text": ""}, "Error: String not found in 'n.md'"),
        (
            "memory_update",
            {"filename": "n.md", "old_text": "same", "new_text": "b"},
            "Error: Multiple occurrences found at lines 6, 8. Provide more context",
        ),
        ("memory_insert", {"filename": "n.md", "line": 9, "text": ""}, "Error: Line 9 is beyond end of file (3 "),
        ("memory_delete", {"filename": "MEMORY.md"}, "Error: MEMORY.md is the catalog"),
        ("memory_delete", {"filename": "memory.md"}, "Error: the path 'memory.md' is not allowed"),
        ("memory_write", {"filename": "MEMORY.md", "content": "x"}, "Error: "),
        ("memory_read", {}, "Error: memory_read needs filename"),
        ("memory_read", {"filename": 3}, "Error: memory_read: 'filename' must be a text"),
        ("memory_read", {"filename": "n.md", "mode": "r"}, "Error: memory_read takes no argument 'mode'"),
        ("memory_insert", {"filename": "n.md", "line": True, "text": "x"}, "Error: memory_insert: 'line' must be a"),
        ("memory_insert", {"filename": "n.md", "line": "two", "text": "x"}, "Error: memory_insert: 'line' must be a"),
        ("memory_update", {"filename": "n.md", "old_text": "", "new_text": "b"}, "Error: "),
        ("memory_view", {"target": "everything"}, "Error: "),
        ("memory_list", {"page": 2}, "Error: there is no page 2; there are 1."),
        ("memory_list", {"page": 0}, "Error: there is no page 0"),
        ("memory_nonsense", {}, "Error: there is no tool 'memory_nonsense'"),
        ("memory_search", {"query": TOO_LONG}, "Error: memory_search: 'query' is longer than 256 KiB"),
    ],
)  # fmt: skip
def test_what_goes_wrong_is_an_answer_that_says_what_to_do(
    name: str, arguments: dict[str, object], answer: str, tools: Tools, sheaf: Sheaf
) -> None:
    write(sheaf, "n.md", PLAIN.replace("body", "same\nother\nsame"))

    assert tools.call(name, arguments).startswith(answer)

    assert [row.path for row in sheaf.list()] == ["n.md"]
    assert sheaf.read("n.md").body == "same\nother\nsame\n"


def test_inserting_at_nought_puts_text_first(tools: Tools, sheaf: Sheaf) -> None:
    write(sheaf, "n.md", PLAIN)

    assert tools.call("memory_insert", {"filename": "n.md", "line": 0, "text": "first"}) == "Memory updated: n.md"
    assert tools.call("memory_insert", {"filename": "n.md", "line": "2", "text": "last"}) == "Memory updated: n.md"

    assert sheaf.read("n.md").body == "first\nbody\nlast\n"


def test_a_count_replaces_every_occurrence(tools: Tools, sheaf: Sheaf) -> None:
    write(sheaf, "n.md", PLAIN.replace("body", "a b a"))

    tools.call("memory_update", {"filename": "n.md", "old_text": "a b a", "new_text": "x x"})
    tools.call("memory_update", {"filename": "n.md", "old_text": "x", "new_text": "y", "count": 2})

    assert sheaf.read("n.md").body == "y y\n"


def test_a_file_without_a_header_is_written_as_it_is(tools: Tools, sheaf: Sheaf) -> None:
    assert tools.call("memory_write", {"filename": "plan.md", "content": "# Plan\n"}) == "Memory saved: plan.md"

    assert sheaf.read("plan.md").text == "# Plan\n"


def test_why_and_how_are_asked_for_where_they_matter(tools: Tools) -> None:
    assert "**Why:**" in saved(tools, name="A", type="feedback")
    assert "**Why:**" not in saved(tools, name="B", type="feedback", content="x\n\n**Why:** y\n**How to apply:** z")
    assert "**Why:**" not in saved(tools, name="C", type="user")


def test_a_file_with_a_broken_header_is_read_with_its_problem_and_not_changed(tools: Tools, sheaf: Sheaf) -> None:
    broken = "---\nname: [a\n---\nbody\n"
    write(sheaf, "n.md", broken)

    assert broken in tools.call("memory_read", {"filename": "n.md"})
    for name, arguments in (
        ("memory_update", {"old_text": "body", "new_text": "x"}),
        ("memory_insert", {"line": 0, "text": "x"}),
        ("memory_write", {"name": "n", "description": "d", "type": "user", "content": "x"}),
        ("memory_write", {"name": "n", "description": "d", "type": "user", "content": "x"}),
    ):
        assert tools.call(name, {"filename": "n.md", **arguments}).startswith("Error: ")

    assert Path(sheaf.root, "n.md").read_text() == broken


def listed(text: str) -> set[str]:
    return {f"n{number:03}.md" for number in range(420) if f"n{number:03}.md" in text}


@pytest.fixture
def many(tools: Tools, sheaf: Sheaf) -> set[str]:
    """More memories than a catalog or a page shows."""
    paths = {f"n{number:03}.md" for number in range(420)}
    for path in paths:
        write(sheaf, path, PLAIN.replace("description: d", f"description: {'long ' * 40}"))
    return paths


@pytest.mark.parametrize(("name", "arguments"), [
    ("memory_list", {}), ("memory_view", {"target": "files"}), ("memory_view", {"target": "user"}),
    ("memory_view", {}),
])  # fmt: skip
def test_page_by_page_every_memory_is_within_reach(
    name: str, arguments: dict[str, object], tools: Tools, many: set[str]
) -> None:
    reached: set[str] = set()
    for page in range(1, 9):
        answer = tools.call(name, {**arguments, "page": page})
        assert len(answer) < 100_000
        reached |= listed(answer)

    assert reached == many


# what a model has not seen


@pytest.mark.parametrize("whole", [True, False], ids=["whole file", "by its fields"])
def test_an_edit_that_a_person_made_in_between_is_not_overwritten(whole: bool, sheaf: Sheaf) -> None:
    tools = Tools(sheaf)
    arguments: dict[str, object] = {"filename": "n.md", "content": PLAIN.replace("body", "from the model")}
    if not whole:
        arguments = {"filename": "n.md", "name": "n", "description": "d", "type": "user", "content": "from the model"}
    write(sheaf, "n.md", PLAIN)
    tools.call("memory_read", {"filename": "n.md"})
    write(sheaf, "n.md", PLAIN.replace("body", "from a person"))

    answer = tools.call("memory_write", arguments)

    assert answer.startswith("Error: ")
    assert "from a person" in answer
    assert sheaf.read("n.md").body == "from a person\n"
    assert tools.call("memory_write", arguments) == "Memory saved: n.md"
    assert sheaf.read("n.md").body == "from the model\n"


def test_a_model_goes_on_from_what_it_wrote_itself(tools: Tools, sheaf: Sheaf) -> None:
    for text in ("one", "two", "three"):
        assert saved(tools, content=text) == "Memory saved: user_prefers-tabs.md"

    assert sheaf.read("user_prefers-tabs.md").body == "three\n"
    assert len(sheaf.list()) == 1


def test_a_model_cannot_confirm_what_waits_for_a_person(tools: Tools, sheaf: Sheaf) -> None:
    memory = sheaf.write("Claim", "From a web page", "user", "Obey this.", trust="unconfirmed")
    confirmed = memory.text.replace("trust: unconfirmed", "trust: confirmed")

    tools.call("memory_read", {"filename": memory.path})
    for text in ("trust: confirmed", "trust: ", "pinned: true"):
        tools.call("memory_update", {"filename": memory.path, "old_text": "trust: unconfirmed", "new_text": text})
    tools.call("memory_update", {"filename": memory.path, "old_text": "trust: unconfirmed\n", "new_text": ""})
    for content in (confirmed, memory.text.replace("trust: unconfirmed\n", ""), "Just text.\n"):
        tools.call("memory_write", {"filename": memory.path, "content": content})
        tools.call("memory_write", {"filename": memory.path, "content": content})
    saved(tools, name="Claim", content="Obey this.")
    saved(tools, name="Claim", content="Obey this.")

    assert "](user_claim.md)" not in sheaf.catalog().text


# hostile names and arguments


@each_case("case", [case for case in NAMES if case["expect"] == "reject"])
def test_no_tool_follows_a_hostile_name(case: dict[str, Any], tools: Tools, sheaf: Sheaf, tmp_path: Path) -> None:
    if not sheaf.list():
        sheaf.put("n.md", PLAIN)
    (tmp_path / "home" / "secret.md").write_text(PLAIN)
    before = contents(tmp_path / "home")
    calls: list[tuple[str, dict[str, object]]] = [
        ("memory_read", {}),
        ("memory_write", {"content": PLAIN}),
        ("memory_write", {"content": "free"}),
        ("memory_write", {"content": "x", "name": "a", "description": "b", "type": "user"}),
        ("memory_update", {"old_text": "body", "new_text": "x"}),
        ("memory_insert", {"line": 0, "text": "x"}),
        ("memory_delete", {}),
    ]

    if case["input"].casefold() == "memory.md":
        del calls[0]  # reading the catalog is fine
    for name, arguments in calls:
        if case["input"] or name != "memory_write":  # without a file name, one is made
            answer = tools.call(name, {"filename": case["input"], **arguments})
            assert answer.startswith("Error: "), name
            answer.encode()

    assert contents(tmp_path / "home") == before


@pytest.mark.parametrize("type", ["../../../esc", "user/../x", "\0", "USER", "recipe", "user\nname: x"])
def test_a_hostile_type_writes_nothing(type: str, tools: Tools, sheaf: Sheaf) -> None:
    assert saved(tools, type=type).startswith("Error: ")

    assert sheaf.list() == []


@pytest.mark.parametrize("arguments", [None, [], "text", 3, [["filename", "n.md"]], True])
def test_arguments_that_are_no_object_are_an_answer(arguments: Any, tools: Tools) -> None:
    for name in NAMES_OF_TOOLS:
        assert isinstance(tools.call(name, arguments), str)


@pytest.mark.parametrize(
    "number", ["²", "--5", "-", "१", "1_000", " 7 ", "+1", "1e3", "٣", "", "0x10", 10**30, -(10**30)]
)
def test_a_number_that_is_none_is_an_answer(number: object, tools: Tools, sheaf: Sheaf) -> None:
    sheaf.put("n.md", PLAIN)

    for name, arguments in (
        ("memory_view", {"page": number}),
        ("memory_view", {"page": number, "target": "user"}),
        ("memory_list", {"page": number}),
        ("memory_search", {"query": "body", "limit": number}),
        ("memory_insert", {"filename": "n.md", "line": number, "text": "x"}),
        ("memory_update", {"filename": "n.md", "old_text": "body", "new_text": "x", "count": number}),
    ):
        assert isinstance(tools.call(name, arguments), str)


ARGUMENTS = ("filename", "name", "description", "type", "memory_type", "content", "old_text", "old_str", "new_text",
             "new_str", "count", "line", "text", "target", "page", "query", "limit", "kind")  # fmt: skip
WORDS = st.sampled_from(
    ["n.md", "body", "user", "index", "files", "other", "", "---\n", "\ud800", "MEMORY.md", "CONTEXT.md"]
)
ANY_TEXT = st.text(st.characters(), max_size=40)  # lone surrogates, too: JSON can spell them
SCALARS = st.none() | st.booleans() | st.integers() | st.integers(-3, 12) | st.floats() | WORDS | ANY_TEXT
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3)
)
CALLS = st.lists(
    st.tuples(
        st.sampled_from([*NAMES_OF_TOOLS, "memory_replace"]) | ANY_TEXT,
        st.dictionaries(st.sampled_from(ARGUMENTS) | ANY_TEXT, VALUES, max_size=5),
    ),
    max_size=12,
)
LIKELY = st.fixed_dictionaries({}, optional={
    "filename": WORDS | ANY_TEXT, "old_text": WORDS | ANY_TEXT, "new_text": WORDS | ANY_TEXT,
    "line": st.integers(-2, 9), "text": WORDS | ANY_TEXT, "content": WORDS | ANY_TEXT,
    "query": WORDS | ANY_TEXT, "page": st.integers(),
})  # fmt: skip


@hypothesis_settings(max_examples=15)
@given(calls=CALLS, likely=st.lists(st.tuples(st.sampled_from(NAMES_OF_TOOLS), LIKELY), max_size=6))
def test_no_arguments_whatever_make_a_tool_raise(
    calls: list[tuple[str, dict[str, object]]], likely: list[tuple[str, dict[str, object]]]
) -> None:
    shapes: dict[str, set[str]] = {}
    with TemporaryDirectory() as folder:
        settings = Settings(home=os.path.join(folder, "home"), cache=os.path.join(folder, "cache"), embedder="none")
        with Sheaf.open("user", settings=settings) as sheaf:
            tools = Tools(sheaf)
            shapes = {shape["name"]: set(shape["input_schema"]["properties"]) for shape in tools.schemas()}
            sheaf.put("n.md", PLAIN)
            trimmed = [(name, {k: v for k, v in some.items() if k in shapes[name]}) for name, some in likely]
            for name, arguments in [*calls, *trimmed]:
                answer = tools.call(name, arguments)
                assert isinstance(answer, str)
                answer.encode()
            sheaf.list()
            sheaf.prompt()


def test_a_name_that_some_systems_take_for_another_replaces_nothing(tools: Tools) -> None:
    tools.call("memory_write", {"filename": "straße.md", "content": "The street."})

    for name in ("strasse.md", "STRASSE.md"):
        answer = tools.call("memory_write", {"filename": name, "content": "Another street."})
        assert answer.startswith("Error: "), answer
        assert "straße.md" in answer
    assert "The street." in tools.call("memory_read", {"filename": "straße.md"})


# every call that the schema allows

OPTIONAL = {"name": "Deploys", "description": "When releases go out", "type": "project", "filename": "project_d.md"}


@pytest.mark.parametrize("given", range(1 << len(OPTIONAL)))
def test_every_combination_of_arguments_that_the_schema_allows_saves_the_fact(given: int, tools: Tools) -> None:
    chosen = {name: value for place, (name, value) in enumerate(OPTIONAL.items()) if given >> place & 1}
    answer = tools.answer("memory_write", {"content": "We deploy on Fridays. Ask Kim first.", **chosen})

    assert not answer.failed, answer.text
    text = tools.call("memory_read", {"filename": answer.touched[0].path})
    assert "We deploy on Fridays. Ask Kim first." in text
    assert chosen.get("name", "") in text


@pytest.mark.parametrize(
    ("content", "name", "description"),
    [
        ("We deploy on Fridays. Ask Kim first.", "We deploy on Fridays", "We deploy on Fridays"),
        ("# Deploys\n\nOn Fridays we deploy the shop.", "Deploys", "Deploys"),
        ("tea " * 100, "tea " * 14 + "tea…", "tea " * 29 + "tea…"),
        ("私は茶が好き" * 20, ("私は茶が好き" * 10)[:59] + "…", "私は茶が好き" * 20),
        ("---\nname: Tea\ndescription: At four\ntype: user\n---\nI drink tea at four.", "Tea", "At four"),
    ],
)
def test_name_and_description_come_from_the_first_sentence(
    content: str, name: str, description: str, tools: Tools, sheaf: Sheaf
) -> None:
    memory = sheaf.read(tools.answer("memory_write", {"content": content}).touched[0].path)

    assert (memory.name, memory.description) == (name, description)
    assert "name:" not in memory.body


@pytest.mark.parametrize("content", ["", "  \n", "---", "…"])
def test_a_call_that_says_nothing_is_told_what_to_say(content: str, tools: Tools) -> None:
    answer = tools.answer("memory_write", {"content": content})

    assert answer.failed
    assert "'content' must say the fact in a sentence" in answer.text


def test_what_a_model_has_not_read_it_does_not_replace(tools: Tools, sheaf: Sheaf) -> None:
    saved(Tools(sheaf))
    for arguments in (
        {"name": "Prefers tabs", "content": "Use spaces, never tabs, in all code.", "type": "user"},
        {"filename": "user_prefers-tabs.md", "content": "Use spaces, never tabs, in all code."},
        {"filename": "user_prefers-tabs.md", "name": "Other", "content": "Use spaces, never tabs, in all code."},
    ):
        answer = Tools(sheaf).answer("memory_write", arguments)
        assert answer.failed
        assert "you have not seen its present text" in answer.text
        assert "Use tabs." in answer.text
    assert sheaf.read("user_prefers-tabs.md").body.strip() == "Use tabs."
