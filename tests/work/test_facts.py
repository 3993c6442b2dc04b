"""Facts: complete or refused, never edited through any door, corrected by superseding."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from corpus import HOSTILE_NAMES as HOSTILE
from corpus import SECRETS
from memsheaf import Message, Settings, Sheaf, Tools, Turn
from memsheaf.errors import Duplicate, Exists, MemsheafError, Refused, TextRefused
from memsheaf.llm.scripted import Scripted
from memsheaf.memory import Allow
from memsheaf.sheaf import Consolidation
from memsheaf.transfer import erase, take_in
from memsheaf.work.facts import MAX_FACT_BYTES, Fact, Facts, problems_of
from memsheaf.worktree import WorkingTree

CLOCK = 1_794_744_000.0  # 2026-11-15
PORT = Fact(
    "Port of the staging service",
    "The staging service listens on port 8080.",
    ("src/serve.py:2",),
    "clients were configured wrongly twice",
    "project",
)
PATH = "facts/project_port-staging-service.md"
NEXT = "facts/project_port-staging-service-2.md"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    home, cache, state = (str(tmp_path / name) for name in ("home", "cache", "state"))
    return Settings(home, cache, state=state, embedder="none", project=str(tmp_path / "project"))


@pytest.fixture
def opened(settings: Settings, tmp_path: Path) -> Callable[..., Sheaf]:
    return partial(Sheaf.open, "project", settings=settings, cwd=str(tmp_path), clock=lambda: CLOCK)


@pytest.fixture
def sheaf(opened: Callable[..., Sheaf]) -> Iterator[Sheaf]:
    with opened() as sheaf:
        yield sheaf


@pytest.fixture
def facts(sheaf: Sheaf) -> Facts:
    return Facts(sheaf)


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[WorkingTree]:
    (tmp_path / "work" / "src").mkdir(parents=True)
    (tmp_path / "work" / "src" / "serve.py").write_text("HOST = 'x'\nPORT = 8080\n\ndef serve():\n    pass\n")
    with WorkingTree(str(tmp_path / "work")) as tree:
        yield tree


def missing(fact: Fact, tree: WorkingTree | None = None) -> list[str]:
    return [why for _, why in problems_of(fact, tree)]


def paths(sheaf: Sheaf) -> list[str]:
    return [row.path for row in sheaf.list()]


# what is complete


def test_what_is_missing_is_said() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"subject": " "}, "no subject"),
        ({"fact": "\n"}, "no fact"),
        ({"fact": "x" * (MAX_FACT_BYTES + 1)}, "501 bytes"),
        ({"fact": "好" * 167}, "501 bytes"),
        ({"citations": ()}, "no citation has a file and a line"),
        ({"citations": ("src/serve.py",)}, "no citation has a file and a line"),
        ({"citations": ("src/serve.py:2", "https://example.com/a")}, "'https://example.com/a' is no place"),
        ({"citations": ("../serve.py:2",)}, "no place"),
        ({"citations": ("/etc/passwd:1",)}, "no place"),
        ({"citations": ("src/serve.py:9-2",)}, "no place"),
        ({"citations": ("what Kim said",)}, "no place"),
        ({"reason": ""}, "no reason"),
        ({"category": "recipe"}, "category"),
        ({"category": ""}, "category"),
    ]
    for change, word in cases:
        assert word in missing(PORT._replace(**change))[0]
    assert missing(PORT) == []
    assert len(missing(Fact("", "", (), "", ""))) == 5


def test_cited_places_have_to_be_there(tree: WorkingTree) -> None:
    for place in ("src/serve.py:2", "src/serve.py:1-2", "src/serve.py#serve", "src/serve.py:2#PORT"):
        assert missing(PORT._replace(citations=(place,)), tree) == []
    for place in ("src/gone.py:2", "src/serve.py:9", "src/serve.py#stop", "src/serve.py:1#PORT", "x:1"):
        assert len(missing(PORT._replace(citations=(place,)), tree)) == 1


# storing


def test_a_fact_is_a_memory_with_its_five_fields_and_the_hash_of_its_places(
    sheaf: Sheaf, facts: Facts, tree: WorkingTree
) -> None:
    made = facts.add(PORT, tree=tree)

    memory = sheaf.read(PATH)
    assert memory == made
    assert (memory.name, memory.description, memory.body) == (PORT.subject, PORT.fact, PORT.fact + "\n")
    assert (memory.type, memory.reason, memory.source) == ("project", PORT.reason, "agent")
    (citation,) = memory.citations
    assert citation.startswith("src/serve.py:2@")
    assert facts.of(memory) == PORT._replace(citations=(citation,))
    assert facts.all() == [memory]


def test_an_incomplete_fact_is_refused_with_all_it_lacks_whatever_is_insisted(sheaf: Sheaf, facts: Facts) -> None:
    with pytest.raises(TextRefused, match="no reason; the category") as caught:
        facts.add(PORT._replace(reason="", category=""), allow=Allow(secrets=True, anyway=True))
    assert "a reason" in caught.value.hint
    assert sheaf.list() == []


def test_a_second_fact_on_a_subject_is_refused_with_the_way_to_correct_it(facts: Facts) -> None:
    facts.add(PORT)

    for subject in (PORT.subject, "port of the STAGING service!", " Port, of the staging-service"):
        with pytest.raises(Exists) as caught:
            facts.add(PORT._replace(subject=subject, fact="Staging is served on port 9090.", category="reference"))
        assert f"--replaces {PATH}" in caught.value.hint


def test_what_another_memory_says_is_refused_unless_one_insists(sheaf: Sheaf, facts: Facts) -> None:
    sheaf.write("Staging", "d", "project", PORT.fact)

    with pytest.raises(Duplicate):
        facts.add(PORT)
    assert facts.add(PORT, allow=Allow(anyway=True)).path == PATH


def test_a_hostile_subject_becomes_one_harmless_file_or_is_refused(
    sheaf: Sheaf, facts: Facts, tmp_path: Path
) -> None:
    made = {facts.add(PORT).path}
    for name in HOSTILE:
        with pytest.raises(MemsheafError):
            facts.find(name)
    for number, name in enumerate(HOSTILE):
        with suppress(Refused, Exists):
            told = PORT._replace(subject=name, fact=f"Service {number} listens on port {8000 + number}.")
            made.add(facts.add(told, allow=Allow(anyway=True)).path)
    assert len(made) > 1
    assert all(path.startswith("facts/") and path.count("/") == 1 for path in made)
    assert set(paths(sheaf)) == made
    assert {path.name for path in tmp_path.iterdir()} <= {"cache", "home", "state", "project"}


def test_no_secret_becomes_part_of_a_fact(facts: Facts, tmp_path: Path) -> None:
    for number, (text, value) in enumerate(SECRETS):
        line = " ".join(text.split())
        fields = ({"subject": line}, {"fact": text}, {"reason": line}, {"citations": (*PORT.citations, line)})
        with pytest.raises(MemsheafError) as caught:
            facts.add(PORT._replace(**fields[number % 4]), allow=Allow(anyway=True))
        assert value not in f"{caught.value} {caught.value.hint}"
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert [value for _, value in SECRETS if value.encode() in stored] == []


# superseding


def test_a_superseding_fact_retires_the_old_one_in_one_commit(sheaf: Sheaf, facts: Facts, tree: WorkingTree) -> None:
    facts.add(PORT, tree=tree)

    made = facts.supersede(PATH, "The staging service listens on port 9090.", reason="it moved", tree=tree)

    assert (made.path, made.supersedes, made.reason) == (NEXT, (PATH,), "it moved")
    assert made.citations[0].startswith("src/serve.py:2@")
    assert paths(sheaf) == [NEXT]
    sheaf.undo()
    assert paths(sheaf) == [PATH]
    again = facts.supersede(PATH, "The staging service listens on port 9090.", reason="it moved")
    assert again.citations == ("src/serve.py:2",), "without a tree nobody saw that it shows this, too"


def test_of_two_who_supersede_a_fact_at_once_one_is_told(facts: Facts, opened: Callable[..., Sheaf]) -> None:
    for number in range(10):
        facts.add(Fact(f"Number {number}", f"The number of {number} is unknown.", ("a.py:1",), "r", "project"))

    def supersede_all(who: str) -> list[int]:
        won = []
        with opened(by="user") as sheaf:
            for number in range(10):
                fact = Fact(f"Number {number} by {who}", f"The number is {who}.", ("a.py:1",), "r", "project")
                with suppress(MemsheafError):
                    Facts(sheaf).add(fact, supersedes=f"project_number-{number}.md", allow=Allow(anyway=True))
                    won.append(number)
        return won

    with ThreadPoolExecutor(2) as pool:
        won = [number for one in pool.map(supersede_all, ("kim", "lee")) for number in one]

    assert sorted(won) == list(range(10))
    assert len(facts.all()) == 10


# never edited, whichever door

EDIT = {"name": PORT.subject, "description": PORT.fact, "type": "project"}


def rewritten(sheaf: Sheaf) -> str:
    return sheaf.read(PATH).text.replace("8080", "9090")


TOOLS: list[tuple[str, dict[str, object]]] = [
    ("memory_update", {"filename": PATH, "old_text": "8080", "new_text": "9090", "count": 2}),
    ("memory_insert", {"filename": PATH, "line": 0, "text": "Not true:"}),
    ("memory_delete", {"filename": PATH}),
    ("memory_write", {**EDIT, "content": "Port 9090."}),
    ("memory_write", {**EDIT, "content": "Port 9090.", "filename": PATH}),
    ("memory_write", {"content": "Port 9090.", "filename": PATH}),
]


def test_no_tool_makes_a_fact_without_its_evidence_or_retires_one_with_it(sheaf: Sheaf, facts: Facts) -> None:
    old = facts.add(PORT)
    tools = Tools(sheaf)
    header = f"---\nname: Port\ndescription: d\ntype: project\nsupersedes:\n  - {old.path}\n---\nPort 9090.\n"

    for content in (header, "Port 9090.\n"):
        answer = tools.call("memory_write", {"filename": "facts/x.md", "content": content})
        assert answer.startswith("Error: 'facts/x.md' is no fact yet: it lacks a cited place, a reason")

    assert [row.path for row in sheaf.list()] == [old.path]


def test_no_tool_edits_a_fact(sheaf: Sheaf, facts: Facts) -> None:
    before = facts.add(PORT)
    tools = Tools(sheaf)
    tools.call("memory_read", {"filename": PATH})

    for name, arguments in TOOLS:
        answer = tools.call(name, arguments)
        assert answer.startswith("Error: ")
        assert "supersede" in answer
    assert paths(sheaf) == [PATH]
    assert sheaf.read(PATH) == before


def test_an_import_replaces_no_fact_and_brings_the_rest(sheaf: Sheaf, facts: Facts, tmp_path: Path) -> None:
    before = facts.add(PORT)
    (tmp_path / "in" / "facts").mkdir(parents=True)
    (tmp_path / "in" / PATH).write_text(rewritten(sheaf))
    (tmp_path / "in" / "user_tabs.md").write_text("---\nname: Tabs\ndescription: d\ntype: user\n---\nUse tabs.\n")

    done = take_in(sheaf.own, str(tmp_path / "in"), replace=True)

    assert [path for path, _ in done.refused] == [PATH]
    assert done.added == ["user_tabs.md"]
    assert sheaf.read(PATH) == before


def turn(text: str) -> Turn:
    return Turn("conversation-1", (Message("user", text), Message("assistant", "Noted.")))


CORRECTION = "Remember that the staging service listens on port 9090."
UPDATE = {
    "action": "update", "file": PATH, "name": PORT.subject, "description": "Port 9090", "type": "project",
    "content": "The staging service listens on port 9090.", "scope": "persistent", "messages": [1],
}  # fmt: skip


@pytest.mark.parametrize("model", [None, Scripted([{"memories": [UPDATE]}])], ids=["rules", "model"])
def test_extraction_asks_a_person_who_supersedes_by_approving(
    sheaf: Sheaf, facts: Facts, model: Scripted | None
) -> None:
    facts.add(PORT)
    sheaf.learn(turn(CORRECTION))

    done = sheaf.distil(model or "none")

    assert [one.why for one in done.of("queued")] == ["it would supersede a fact"]
    assert done.of("saved") == ()
    assert paths(sheaf) == [PATH]
    (waiting,) = sheaf.learning.queue.all()
    made = sheaf.learning.approve(waiting.id)
    assert made.path.startswith("facts/")
    assert made.supersedes == (PATH,)
    assert "9090" in made.body
    assert made.citations == PORT.citations
    assert paths(sheaf) == [made.path]
    sheaf.undo()
    assert paths(sheaf) == [PATH]


def test_consolidation_leaves_facts_alone(sheaf: Sheaf, facts: Facts) -> None:
    facts.add(PORT)
    facts.add(PORT._replace(subject="Port again"), allow=Allow(anyway=True))
    sheaf.write("Port", "d", "project", PORT.fact, allow=Allow(anyway=True))
    before = [memory.version for memory in facts.all()]

    report = Consolidation(sheaf).run("none", apply=True)

    for group in (*report.groups, *(group for group, _ in report.dropped)):
        assert not [memory for memory in group.retired if memory.path.startswith("facts/")]
        assert not (group.text and group.keeper and group.keeper.path.startswith("facts/"))
    assert [memory.version for memory in facts.all()] == before


def test_a_person_may_forget_restore_and_erase_a_fact(opened: Callable[..., Sheaf], settings: Settings) -> None:
    with opened(by="user") as sheaf:
        facts = Facts(sheaf)
        version = facts.add(PORT).version
        sheaf.forget(PATH)
        assert paths(sheaf) == []
        sheaf.undo()
        assert facts.find(PATH).version == version
        made = facts.supersede(PATH, "The staging service listens on port 9090.", reason="it moved")
        with pytest.raises(Exists, match="in the place of"):  # two that say the opposite would stand side by side
            sheaf.own.restore(PATH, version)
        assert erase(sheaf.own, made.path).gone
        sheaf.own.restore(PATH, version)
        assert paths(sheaf) == [PATH]


def test_a_correction_that_was_learned_does_not_borrow_the_evidence_of_the_old_text(
    sheaf: Sheaf, facts: Facts
) -> None:
    old = facts.add(PORT._replace(citations=("a.py:1@" + "0" * 8,)))
    sheaf.learn(turn(CORRECTION))
    sheaf.distil()
    (waiting,) = sheaf.learning.queue.all()

    made = sheaf.learning.approve(waiting.id)

    assert made.supersedes == (old.path,)
    assert made.name == PORT.subject
    assert all("@" not in place for place in made.citations)
