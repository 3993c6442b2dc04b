"""`memsheaf promote`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., tuple[int, str, str]]
Tree = Callable[[], dict[str, bytes]]
CASES = json.loads((Path(__file__).parent.parent / "corpora" / "traversal.json").read_text(encoding="utf-8"))["cases"]
HOSTILE = [
    case["input"]
    for case in CASES
    if case["surface"] in ("name", "project") and case["expect"] == "reject" and case["input"].strip()
]
FRIDAY = "Releases: they go out on Fridays, see docs.md:1"


@pytest.fixture(autouse=True)
def started(run: Run) -> None:
    """A session, a task, and a file to cite."""
    Path("docs.md").write_text("Fridays.\n")
    Path(".git").mkdir()
    assert run("session", "start", "Work", "--id", "s1")[0] == 0
    assert run("task", "start", "Feature X")[0] == 0


def noted(run: Run, text: str, section: str = "key") -> str:
    """Note something in the session; gives the id that it is promoted by."""
    code, _, err = run("session", "note", text, "--section", section, "--session", "s1")
    assert code == 0, err
    return next(str(one["id"]) for one in listed(run) if str(one["text"]) in text)


def listed(run: Run, *words: str) -> list[dict[str, object]]:
    code, out, err = run("promote", *words, "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)["items"]
    assert isinstance(found, list)
    return found


def test_the_list_shows_each_verdict_and_what_to_type_and_writes_nothing(run: Run, tree: Tree) -> None:
    for note in (FRIDAY, "In phase 2 the parser moved"):
        assert run("session", "note", note, "--section", "key")[0] == 0
    before = tree()

    code, out, err = run("promote")

    assert (code, err) == (0, "")
    item = out[:6]
    assert f"{item}  defer  Releases: they go out on Fridays, see docs.md:1\n" in out
    assert "  session/s1 session.md Key Results > project\n" in out
    for step in ("classify", "exclude", "task-specific", "duplicate", "five fields", "skill"):
        assert out.count(f"  {step} ") == 2, step
    assert "  ask   five fields    there is no reason" in out
    assert "  stop  task-specific  'phase 2' ties it to one task" in out
    assert f"  type: memsheaf promote {item} --session s1 --to project --reason TEXT\n" in out
    assert out.endswith("2 items: 0 yes, 1 defer, 1 no. Nothing was written.\n")
    assert tree() == before


def test_a_program_gets_the_candidates(run: Run) -> None:
    item = noted(run, FRIDAY)

    (one,) = listed(run)

    wanted = {
        "id": item,
        "subject": "Releases",
        "proposed_classification": "project",
        "evidence_pointer": "docs.md:1",
        "recommend_promote": "defer",
    }
    assert {key: one[key] for key in wanted} == wanted
    assert isinstance(one["steps"], list)
    assert one["steps"][0] == {"name": "classify", "verdict": "pass", "said": "project: nothing in it says otherwise"}


def test_nothing_noted_is_nothing_to_promote(run: Run) -> None:
    assert run("promote") == (0, "Nothing waits to be promoted.\n", "")


def test_what_is_missing_is_named_and_with_it_the_note_becomes_a_fact(run: Run, tree: Tree) -> None:
    item = noted(run, "They go out on Fridays")
    before = tree()

    code, out, err = run("promote", item[:4], "--subject", "Releases of ours")

    assert code == 1
    assert "  ask   five fields" in out
    assert "no citation" in err
    assert f"memsheaf promote {item} --session s1 --to project --subject 'Releases of ours' --cite PLACE" in err
    assert tree() == before

    whole = ["--subject", "Releases", "--cite", "docs.md:1", "--reason", "customers ask"]
    code, out, err = run("promote", item, *whole)

    assert (code, err) == (0, "")
    assert "Promoted to project: facts/project_releases.md\n" in out
    shown = run("show", "facts/project_releases.md")[1]
    assert "reason: customers ask\n" in shown
    assert "  - docs.md:1@" in shown
    assert "(promoted: facts/project_releases.md)" in run("session", "show", "--session", "s1")[1]
    assert listed(run) == []


def test_a_place_is_taken_from_where_one_stands(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    item = noted(run, "Releases: they go out on Fridays")
    Path("src").mkdir()
    Path("src/app.py").write_text("x = 1\n")
    monkeypatch.chdir("src")

    code, out, _ = run("promote", item, "--cite", "app.py:1", "--reason", "asked", "--json")

    assert code == 0
    assert json.loads(out)["evidence_pointer"] == "src/app.py:1"
    assert json.loads(out)["promoted"] == "facts/project_releases.md"


def test_a_long_note_can_be_said_shorter(run: Run) -> None:
    item = noted(run, "Releases: they go out on Fridays. Always. Since long. See docs.md:1")

    assert "sentences" in run("promote", item, "--reason", "asked")[1]
    assert run("promote", item, "--reason", "asked", "--fact", "They go out on Fridays.")[0] == 0
    assert "\nThey go out on Fridays." in run("show", "facts/project_releases.md")[1]


def test_a_correction_shows_both_texts_and_waits_for_the_word_to_supersede(run: Run) -> None:
    assert run("promote", noted(run, FRIDAY), "--reason", "asked")[0] == 0
    item = noted(run, "Releases: they go out on Mondays, see docs.md:1")

    code, out, err = run("promote", item, "--reason", "changed")

    assert code == 1
    assert "    -they go out on Fridays, see docs.md:1\n    +they go out on Mondays, see docs.md:1\n" in out
    assert "--reason changed --supersede facts/project_releases.md" in err
    code, out, _ = run("promote", item, "--reason", "changed", "--supersede", "facts/project_releases.md")
    assert code == 0
    assert "pass  duplicate      supersedes facts/project_releases.md" in out
    assert run("show", "facts/project_releases.md")[0] == 1


def test_what_a_step_stops_is_promoted_only_with_a_rationale(run: Run, tree: Tree) -> None:
    item = noted(run, "Parser: phase 2 of the compiler resolves names, see docs.md:1")
    before = tree()

    code, out, err = run("promote", item, "--reason", "asked", "--json")

    assert code == 1
    assert (json.loads(out)["recommend_promote"], json.loads(out)["promoted"]) == ("no", "")
    assert "--anyway RATIONALE" in err
    assert tree() == before
    code, out, _ = run("promote", item, "--reason", "asked", "--anyway", "it is a phase of the compiler")
    assert code == 0
    assert "kept all the same: it is a phase of the compiler" in out


def test_it_goes_to_a_task_or_to_the_user_as_an_ordinary_memory(run: Run) -> None:
    answers = noted(run, "I prefer short answers")
    releases = noted(run, "Releases go out on Fridays")

    assert "Promoted to user: user_i-prefer-short-answers.md\n" in run("promote", answers)[1]
    code, out, _ = run("promote", releases, "--to", "task/feature-x")
    assert code == 0
    assert "Promoted to task/feature-x: project_releases-go-out-on-fridays.md\n" in out
    (one,) = listed(run, "--task", "feature-x")
    assert one["text"] == "Releases go out on Fridays"


def test_to_a_team_it_goes_only_when_a_person_says_yes(run: Run, tree: Tree) -> None:
    item = noted(run, FRIDAY)
    before = tree()

    for answer in ("", "n\n", "no\n"):
        assert run("promote", item, "--to", "team/core", screen=True, stdin=answer)[0] == 1
        assert tree() == before
    assert run("promote", item, "--to", "team/core", stdin="y\n")[0] == 1
    assert run("promote", item, "--to", "team/core", "--json", stdin="y\n")[0] == 1
    assert tree() == before

    code, out, err = run("promote", item, "--to", "team/core", screen=True, stdin="y\n")
    assert code == 0
    assert "Shall everybody in team/core read it? [y/N]" in err
    assert "Promoted to team/core: project_releases.md" in out
    other = noted(run, "Mocks: mock nothing in tests", "err")
    assert run("promote", other, "--to", "team/core", "--yes")[0] == 1
    assert run("promote", other, "--to", "team/core", "--yes", "--convention")[0] == 0


def test_on_a_terminal_it_asks_for_what_is_missing(run: Run) -> None:
    item = noted(run, "They go out on Fridays")

    code, out, err = run("promote", item, screen=True, stdin="Releases\ndocs.md:1\nasked\n")

    assert code == 0, out + err
    assert "What is it about" in err
    assert "reason: asked\n" in run("show", "facts/project_releases.md")[1]


def test_on_a_terminal_it_asks_what_gives_way(run: Run, tree: Tree) -> None:
    assert run("promote", noted(run, FRIDAY), "--reason", "asked")[0] == 0
    item = noted(run, "Releases: they go out on Mondays, see docs.md:1")
    before = tree()

    code, out, _ = run("promote", item, "--reason", "changed", screen=True, stdin="s\n")
    assert (code, "Skipped: nothing was written." in out) == (0, True)
    assert run("promote", item, "--reason", "changed", screen=True, stdin="")[0] == 0
    assert tree() == before
    line = "c\nthe second branch\nReleases of the fork\n"
    assert run("promote", item, "--reason", "changed", screen=True, stdin=line)[0] == 0
    assert "reason: changed (the second branch)\n" in run("show", "facts/project_releases-of-the-fork.md")[1]
    item = noted(run, "Releases: they go out on Tuesdays, see docs.md:1")
    assert run("promote", item, "--reason", "changed", screen=True, stdin="u\n")[0] == 0
    assert run("show", "facts/project_releases.md")[0] == 1


def test_several_items_that_begin_alike_are_named(run: Run) -> None:
    ids = sorted(noted(run, f"Fact number {number} holds") for number in range(40))
    first = next(one[0] for one in ids if sum(other[0] == one[0] for other in ids) > 1)

    code, _, err = run("promote", first)

    assert code == 2
    assert all(one in err for one in ids if one[0] == first)


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_name_is_refused_and_touches_nothing(run: Run, tree: Tree, name: str) -> None:
    item = noted(run, FRIDAY)
    run("list")
    before = tree()

    for words in (
        [f"--session={name}"],
        [f"--task={name}"],
        [item, f"--to=task/{name}"],
        [item, f"--to=team/{name}", "--yes"],
        [item, "--reason", "r", f"--supersede={name}"],
        [item, "--reason", "r", f"--cite=../{name}:1"],
    ):
        code, _, err = run("promote", *words)
        assert code in (1, 2), words
        assert err.startswith("memsheaf: "), words
        assert tree() == before, words
