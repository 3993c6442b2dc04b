"""What may be stored, whichever way it comes: through the library, the tools, the command line or an import."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from command_line import environment_in, run_command
from memsheaf import Settings, Sheaf, Tools
from memsheaf.adapters.anthropic_memory import MemoryFiles
from memsheaf.errors import Changed, Duplicate, MemsheafError, NotWorth, PathRefused
from memsheaf.gates import WrittenFile
from memsheaf.memory import Allow, parse
from memsheaf.transfer import erase, export, take_in

FACT = "The nightly import of orders runs at two in the morning on the small worker."
SAME = "The nightly import of orders runs at two in the morning, on the small worker!"
MOMENT = "For now the import of orders runs on the large worker."
LISTED = "Function parse_order is defined in src/orders/parse.py"
CLOCK = 1_794_744_000.0  # 2026-11-15


@pytest.fixture
def sheaf(settings: Settings) -> Iterator[Sheaf]:
    with Sheaf.open("user", settings=settings, clock=lambda: CLOCK) as sheaf:
        yield sheaf


def text(body: str, name: str = "Another name") -> str:
    return f"---\nname: {name}\ndescription: D\ntype: project\n---\n{body}\n"


def by_library(sheaf: Sheaf, body: str, tmp_path: Path) -> str:
    return sheaf.write("Another name", "D", "project", body).path


def by_put(sheaf: Sheaf, body: str, tmp_path: Path) -> str:
    return sheaf.put("project_other.md", text(body)).path


def by_many(sheaf: Sheaf, body: str, tmp_path: Path) -> str:
    file = WrittenFile("project_other.md", parse("project_other.md", text(body).encode()))
    return sheaf.own.change_many([file], "test", by="consolidation").id


def by_tools(sheaf: Sheaf, body: str, tmp_path: Path) -> str:
    call = {"name": "Another name", "description": "D", "type": "project", "content": body}
    return Tools(sheaf).call("memory_write", call)


def by_line(sheaf: Sheaf, body: str, tmp_path: Path) -> str:
    words = ["remember", body, "--name", "Another name", "--description", "D", "--type", "project", "--scope", "user"]
    code, out, err = run_command(words, environment_in(tmp_path))
    return f"Error: {out}{err}" if code else out


def by_import(sheaf: Sheaf, body: str, tmp_path: Path) -> str:
    return as_import(sheaf, text(body), tmp_path)


def as_import(sheaf: Sheaf, content: str, tmp_path: Path) -> str:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "other.md").write_bytes(content.encode())
    done = take_in(sheaf.own, str(tmp_path / "in"))
    return f"Error: {done.refused}" if done.refused else str(done.added)


Channel = Callable[[Sheaf, str, Path], str]
CHANNELS = [by_library, by_put, by_many, by_tools, by_line, by_import]


def told(channel: Channel, sheaf: Sheaf, body: str, tmp_path: Path) -> str:
    """What a channel answers; it begins with an error when nothing was stored."""
    try:
        return channel(sheaf, body, tmp_path)
    except MemsheafError as error:
        return f"Error: {error}"


@pytest.mark.parametrize("channel", CHANNELS)
def test_what_a_memory_says_already_is_refused_with_its_name(channel: Channel, sheaf: Sheaf, tmp_path: Path) -> None:
    path = sheaf.write("Import of orders", "When it runs", "project", FACT).path

    said = told(channel, sheaf, SAME, tmp_path)

    assert said.startswith("Error:")
    assert path in said
    assert [row.path for row in sheaf.list()] == [path]


@pytest.mark.parametrize("channel", [by_library, by_put, by_many, by_tools])
@pytest.mark.parametrize(("body", "word"), [(MOMENT, "for now"), (LISTED, "src/orders/parse.py")])
def test_what_is_not_worth_keeping_is_refused_with_the_words_that_say_so(
    body: str, word: str, channel: Channel, sheaf: Sheaf, tmp_path: Path
) -> None:
    said = told(channel, sheaf, body, tmp_path)

    assert said.startswith("Error:")
    assert word in said.casefold()
    assert sheaf.list() == []


@pytest.mark.parametrize("channel", CHANNELS)
def test_a_fact_with_other_numbers_is_another_fact(channel: Channel, sheaf: Sheaf, tmp_path: Path) -> None:
    sheaf.write("Gateway one", "Its port", "project", "The gateway of the shop listens on port 8080 of host one1.")

    said = told(channel, sheaf, "The gateway of the shop listens on port 8081 of host one2.", tmp_path)

    assert not said.startswith("Error:"), said
    assert len(sheaf.list()) == 2


def test_a_person_may_insist(sheaf: Sheaf, settings: Settings) -> None:
    sheaf.write("Import of orders", "When it runs", "project", FACT)

    sheaf.write("Again", "D", "project", SAME, allow=Allow(anyway=True))
    sheaf.write("Moment", "D", "project", MOMENT, allow=Allow(anyway=True))

    assert len(sheaf.list()) == 3


def test_a_correction_under_the_same_name_lands(sheaf: Sheaf) -> None:
    path = sheaf.write("Import of orders", "When it runs", "project", FACT).path

    corrected = FACT.replace("small", "large")
    sheaf.write("Import of orders", "When it runs", "project", corrected, replace=True)

    assert sheaf.read(path).body.strip() == corrected


def test_what_was_so_before_does_not_stand_in_the_way_of_a_change_elsewhere(sheaf: Sheaf) -> None:
    path = sheaf.write("Moment", "D", "project", f"{MOMENT}\nAsk Kim.", allow=Allow(anyway=True)).path

    sheaf.revise(path, "Ask Kim.", "Ask Robin.")

    assert "Ask Robin." in sheaf.read(path).body
    other = sheaf.write("Worker", "D", "project", "Orders are imported by the small worker.")
    with pytest.raises(NotWorth):
        sheaf.insert(other.path, 1, "This time use the large one.")


def test_what_says_until_when_it_holds_may_speak_of_the_moment(sheaf: Sheaf) -> None:
    sheaf.write("Moment", "D", "project", MOMENT, expires="2026-12-31")

    assert len(sheaf.list()) == 1


def test_undo_and_restore_ask_nobody(sheaf: Sheaf) -> None:
    first = sheaf.write("Import of orders", "When it runs", "project", FACT)
    sheaf.forget(first.path)
    sheaf.write("Another", "D", "project", SAME)

    sheaf.own.restore(first.path, first.version)

    assert len(sheaf.list()) == 2


def test_an_import_of_an_export_loses_nothing(sheaf: Sheaf, settings: Settings, tmp_path: Path) -> None:
    sheaf.write("Import of orders", "When it runs", "project", FACT)
    sheaf.write("Again", "D", "project", SAME, allow=Allow(anyway=True))
    sheaf.write("Moment", "D", "project", MOMENT, allow=Allow(anyway=True))
    export({"": sheaf.own}, str(tmp_path / "out.zip"))

    with Sheaf.open("agent/other", settings=settings) as other:
        done = take_in(other.own, str(tmp_path / "out.zip"))

    assert len(done.added) == 3
    assert not done.refused


def test_what_a_person_changed_outside_counts(sheaf: Sheaf) -> None:
    path = sheaf.write("Import of orders", "When it runs", "project", "Nothing of note so far, ask again.").path
    Path(sheaf.root, path).write_text(text(FACT), encoding="utf-8")
    sheaf.list()

    with pytest.raises(Duplicate):
        sheaf.write("Nightly", "D", "project", SAME)

    os.unlink(os.path.join(sheaf.root, path))
    sheaf.list()
    sheaf.write("Nightly", "D", "project", SAME)


@pytest.mark.parametrize(
    "body",
    [
        MOMENT,
        LISTED,
        "Just this once we deploy without a review.",
        "暂时用旧接口。",
        "今回だけレビューなしでマージする。",
        "The last commit fixed the login.",
        "diff --git a/x b/x\n@@ -1,2 +1,2 @@\n-a = 1\n+a = 2",
    ],
)
def test_what_a_person_asks_to_remember_is_stored_whether_it_lasts_or_not(
    body: str, sheaf: Sheaf, settings: Settings, tmp_path: Path
) -> None:
    assert not by_line(sheaf, body, tmp_path).startswith("Error:")
    (row,) = sheaf.list()
    assert sheaf.read(row.path).body.strip() == body

    with Sheaf.open("agent/other", settings=settings, by="user") as own:
        assert own.read(by_put(own, body, tmp_path)).body.strip() == body


def test_learning_keeps_what_the_user_asked_for_and_not_what_was_said_for_the_moment(sheaf: Sheaf) -> None:
    memory = parse("project_other.md", text(MOMENT).encode())

    sheaf.own.check_gates(memory, by="extraction")
    with pytest.raises(NotWorth):
        sheaf.own.check_gates(memory, by="extraction", asked=False)


def test_tombstones_outlive_retention_and_go_with_an_erasure(settings: Settings) -> None:
    days = [0.0]
    with Sheaf.open("user", settings=settings, clock=lambda: CLOCK + 86_400 * days[0]) as sheaf:
        memory = sheaf.write("Import of orders", "When it runs", "project", FACT)
        sheaf.forget(memory.path)
        days[0] = 90.0
        sheaf.own.store.prune()
        assert sheaf.own.store.buried(FACT.lower().replace(".", "").split()) is not None

        sheaf.write("Import of orders", "When it runs", "project", FACT)
        erase(sheaf.own, memory.path)

        assert sheaf.own.store.buried(FACT.lower().replace(".", "").split()) is None
        assert not [stone for stone in sheaf.own.store.buried_all() if stone.path == memory.path]


def test_what_may_not_be_forgotten_has_no_tombstone(sheaf: Sheaf) -> None:
    memory = sheaf.write("Import of orders", "When it runs", "project", FACT)
    words = FACT.lower().replace(".", "").split()

    with pytest.raises(Changed):
        sheaf.forget(memory.path, expect="0" * 64)
    assert sheaf.own.store.buried(words) is None

    sheaf.forget(memory.path)
    assert sheaf.own.store.buried(words) is not None


# with or without a header


@pytest.mark.parametrize("name", ["Memory.MD", "memory.md", "MEMORY.MD", "ＭＥＭＯＲＹ.md", "Claude.MD", "agents.MD"])
def test_no_other_spelling_of_a_reserved_name_is_read(name: str, sheaf: Sheaf) -> None:
    sheaf.write("Tabs", "Indentation", "user", "Use tabs.")

    assert Tools(sheaf).call("memory_read", {"filename": "MEMORY.md"}) == sheaf.catalog().text
    with pytest.raises(PathRefused):
        sheaf.read(name)
    assert Tools(sheaf).call("memory_read", {"filename": name}).startswith("Error: the path ")
    for command in ({"command": "view"}, {"command": "create", "file_text": "x"}):
        with pytest.raises(PathRefused):
            MemoryFiles(sheaf).call({**command, "path": f"/memories/{name}"})


# what a model may insist on


@pytest.mark.parametrize("remember", [True, False])
def test_a_model_that_insists_keeps_what_is_not_worth_keeping(remember: bool, sheaf: Sheaf) -> None:
    tools = Tools(sheaf, remember=remember)
    call = {"name": "Cache", "description": "Which one", "type": "project", "content": "Right now we use Redis."}

    first = tools.call("memory_write", call)
    other = tools.call("memory_write", {**call, "content": "Right now we use Valkey."})
    second = tools.call("memory_write", call)

    assert "Call again with the same arguments to keep it" in first
    assert other.startswith("Error:")
    assert second.startswith("Memory saved: project_cache.md")
    assert Tools(sheaf).call("memory_update", {"filename": "project_cache.md", "old_text": "Redis", "new_text": "it"})


def test_nothing_is_raised_at_a_model(settings: Settings) -> None:
    def clock() -> float:
        raise OSError(5, "the clock cannot be read")

    with Sheaf.open("user", settings=settings, clock=clock) as sheaf:
        call = {"name": "Tabs", "description": "d", "type": "user", "content": "Use tabs."}
        answer = Tools(sheaf).call("memory_write", call)

    assert answer == "Error: the memory could not be used: the clock cannot be read (OSError); tell the user."


EMPTY = (
    "ok",
    "OK!",
    "thanks",
    "Thank you very much",
    "asdf",
    "qwertz",
    "xxx",
    "danke",
    "merci",
    "gracias",
    "好的",
    "はい",
)
SHORT_FACTS = (
    "vim",
    "pnpm, not npm",
    "Kim = CTO",
    "我喜欢茶",
    "no tests",
    "We use Go",
    "always test",
    "tmux",
    "OK Go",
)


def test_a_word_that_says_nothing_is_answered_and_not_saved(sheaf: Sheaf, tmp_path: Path) -> None:
    for said in EMPTY:
        with pytest.raises(NotWorth, match="says nothing") as refusal:
            sheaf.remember(said)
        assert "as a sentence" in refusal.value.hint
        assert "says nothing" in Tools(sheaf).call("memory_write", {"content": said})
    assert sheaf.list() == []
    assert sheaf.remember("ok", allow=Allow(anyway=True)).memory.body == "ok\n"


FORGETTING = (
    "forget that my manager is Ute",
    "Please forget what I said about the port",
    "vergiss bitte, dass ich in Berlin wohne",
    "oublie que je vis à Lyon",
    "olvida que uso vim",
    "忘记我住在北京",
    "東京に住んでいることを忘れてください",
)
NOT_FORGETTING = (
    "forget the old API, v2 is the one to use",
    "Don't forget that prod is read-only on Sundays",
    "The forget gate has a bias of 1",
    "忘记密码的页面在 /reset",
)


def test_a_request_to_forget_is_answered_and_neither_kept_nor_put_in_the_place_of_what_it_names(sheaf: Sheaf) -> None:
    sheaf.remember("My manager is Ute")
    for said in FORGETTING:
        with pytest.raises(NotWorth, match="asks to forget") as refusal:
            sheaf.remember(said)
        assert "`memsheaf forget" in refusal.value.hint
    assert [row.name for row in sheaf.list()] == ["My manager is Ute"]
    for said in NOT_FORGETTING:
        assert sheaf.remember(said).memory.name in said


def test_a_short_fact_is_saved(sheaf: Sheaf) -> None:
    for said in SHORT_FACTS:
        assert sheaf.remember(said).memory.body.startswith(f"{said}\n")


def test_a_short_answer_under_a_name_that_says_something_is_saved(sheaf: Sheaf) -> None:
    assert sheaf.write("Uses tabs", "Indentation", "user", "Yes.").body == "Yes.\n"
