"""`memsheaf promote`."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., tuple[int, str, str]]
Tree = Callable[[], dict[str, bytes]]
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
    assert f"{item}  defer  Releases: they go out on Fridays\n" in out
    assert "  session/s1 session.md Key Results > project\n  cites docs.md:1\n" in out
    for step in ("classify", "exclude", "task-specific", "duplicate", "five fields", "skill"):
        assert out.count(f"  {step} ") == 2, step
    assert "  ask   five fields    there is no reason" in out
    assert "  stop  task-specific  'phase 2' ties it to one task" in out
    assert f"  type: memsheaf promote {item} --session s1 --to project --reason TEXT\n" in out
    assert " --session s1 --to task/feature-x\n" in out.partition("  it stays, or type: memsheaf promote ")[2]
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
    said = "project: nothing in it says otherwise"
    assert one["steps"][0] == {"name": "classify", "verdict": "pass", "said": said, "help": ""}
    assert one["steps"][4]["help"] == "--reason TEXT"


def test_nothing_noted_is_nothing_to_promote(run: Run) -> None:
    assert run("promote") == (0, "Nothing is waiting to be promoted.\n", "")


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
    assert "    -they go out on Fridays\n    +they go out on Mondays\n" in out
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
        code, out, _ = run("promote", item, "--to", "team/core", screen=True, stdin=answer)
        assert (code, out.endswith("Nothing was written.\n"), out.count("  five fields ")) == (0, True, 1)
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
    assert (code, out.endswith("Nothing was written.\n")) == (0, True)
    for gone in ("", "c\n", "c\nthe second branch\n", "c\nthe second branch\n\n"):
        code, out, _ = run("promote", item, "--reason", "changed", screen=True, stdin=gone)
        assert (code, out.endswith("Nothing was written.\n")) == (0, True), gone
    assert tree() == before
    line = "c\nthe second branch\nReleases of the fork\n"
    assert run("promote", item, "--reason", "changed", screen=True, stdin=line)[0] == 0
    assert "reason: changed (the second branch)\n" in run("show", "facts/project_releases-of-the-fork.md")[1]
    item = noted(run, "Releases: they go out on Tuesdays, see docs.md:1")
    assert run("promote", item, "--reason", "changed", screen=True, stdin="u\n")[0] == 0
    assert run("show", "facts/project_releases.md")[0] == 1


def test_on_a_terminal_who_leaves_a_question_open_writes_nothing(run: Run, tree: Tree) -> None:
    item = noted(run, "They go out on Fridays")
    before = tree()

    for said, asked in {
        "": 1,
        "Releases\n": 2,
        "Releases\ndocs.md:1\n": 3,
        "\ndocs.md:1\nasked\n": 1,
        "Releases\nnope.md:1\nasked\n": 4,
    }.items():
        code, out, err = run("promote", item, screen=True, stdin=said)
        assert (code, out.endswith("Nothing was written.\n"), err.count("?")) == (0, True, asked), said
        assert tree() == before, said


def test_on_a_terminal_a_place_that_is_not_there_is_asked_for_again(run: Run) -> None:
    Path("my dir").mkdir()
    Path("my dir/ä file.py").write_text("x = 1\n")
    item = noted(run, "Releases: they go out on Fridays, see gone.py:1")

    code, out, err = run("promote", item, screen=True, stdin="nope.py:3\nasked\nmy dir/ä file.py:1\n")

    assert code == 0, out + err
    assert err.count("Which place shows it") == 2
    assert "there is no 'nope.py' in the working tree" in out
    assert "  - my dir/ä file.py:1@" in run("show", "facts/project_releases.md")[1]


def test_on_a_terminal_an_ordinary_memory_is_not_offered_to_be_superseded(run: Run) -> None:
    add = ("--description", "When", "--type", "project")
    assert run("add", "Releases", "They go out on Mondays.", *add)[0] == 0
    item = noted(run, FRIDAY)

    code, out, err = run("promote", item, "--reason", "asked", screen=True, stdin="u\nc\ntwo branches\nFork\n")

    assert code == 0, out + err
    assert "supersede it (u)" not in err
    assert "Promoted to project: facts/project_fork.md" in out


# the lines that are suggested


def typed(run: Run, line: str, **words: str) -> tuple[int, str, str]:
    """Type a line as it was suggested, with what stands for its words in capitals."""
    memsheaf, *rest = shlex.split(line)
    assert memsheaf == "memsheaf"
    return run(
        *(word.replace("task/SLUG", "task/feature-x") if "/" in word else words.get(word, word) for word in rest)
    )


def suggested(run: Run, *words: str) -> str:
    code, out, _ = run("promote", *words, "--json")
    assert code in (0, 1)
    return str(json.loads(out)["next"])


def test_the_line_for_a_place_that_is_not_there_asks_for_another(run: Run) -> None:
    item = noted(run, "Releases: they go out on Fridays")

    line = suggested(run, item, "--cite", "nope.py:3", "--reason", "asked")

    assert line == f"memsheaf promote {item} --session s1 --to project --reason asked --cite PLACE"
    assert typed(run, line, PLACE="docs.md:1")[0] == 0


def test_the_line_keeps_what_was_typed(run: Run) -> None:
    item = noted(run, "Parser: phase 2 of the compiler resolves names, see docs.md:1")

    line = suggested(run, item, "--anyway", "it is the compiler's")

    assert line == (
        f"memsheaf promote {item} --session s1 --to project --anyway 'it is the compiler'\"'\"'s' --reason TEXT"
    )
    assert typed(run, line, TEXT="asked")[0] == 0


def test_the_line_for_a_fact_that_cannot_be_false_asks_for_another(run: Run) -> None:
    item = noted(run, "Releases: they probably go out on Fridays, see docs.md:1")

    line = suggested(run, item, "--reason", "asked", "--fact", "Maybe they do")

    assert line == f"memsheaf promote {item} --session s1 --to project --fact TEXT --reason asked"
    assert typed(run, line, TEXT="They go out on Fridays.")[0] == 0


@pytest.mark.parametrize(
    ("note", "end"),
    [
        ("In phase 2 the parser moved", "--to task/feature-x"),
        ("Use the old endpoint for now, see docs.md:1\nWhy: asked", "--to project --anyway RATIONALE --subject TEXT"),
        ("Endpoint: in phase 2, for now, the old one", "--to task/feature-x --anyway RATIONALE"),
    ],
)
def test_what_is_stopped_has_a_line_that_insists_or_sends_it_elsewhere(run: Run, note: str, end: str) -> None:
    noted(run, note)
    (one,) = listed(run)
    assert one["recommend_promote"] == "no"

    line = str(one["next"])

    assert line == f"memsheaf promote {one['id']} --session s1 {end}"
    assert typed(run, line, RATIONALE="it is needed", TEXT="Endpoint")[0] == 0


def test_what_is_about_the_person_has_the_line_to_the_user(run: Run) -> None:
    noted(run, "I prefer short answers")

    (one,) = listed(run, "--to", "project")

    assert one["next"] == f"memsheaf promote {one['id']} --session s1 --to user"
    assert typed(run, str(one["next"]))[0] == 0


def test_what_an_ordinary_memory_says_otherwise_has_a_line_that_works(run: Run) -> None:
    add = ("--description", "When", "--type", "project")
    assert run("add", "Releases", "They go out on Mondays.", *add)[0] == 0
    noted(run, f"{FRIDAY}\nWhy: asked")
    (one,) = listed(run)

    assert str(one["next"]).endswith(" --to project --anyway RATIONALE --subject TEXT")
    assert typed(run, str(one["next"]), RATIONALE="two branches", TEXT="Releases of the fork")[0] == 0


def test_a_secret_has_no_line(run: Run) -> None:
    item = noted(run, FRIDAY)

    code, out, err = run("promote", item, "--reason", "password: Corr3ct-H0rse-Fake")

    assert code == 1
    assert "Corr3ct" not in out + err
    assert err.endswith("It stays where it was noted.\n")


def test_a_task_that_is_not_there_is_refused_before_anything_else(run: Run, tree: Tree) -> None:
    item = noted(run, FRIDAY)
    before = tree()

    for words in ([], [item], [item, "--json"]):
        code, out, err = run("promote", *words, "--to", "task/nope")
        assert code == 1
        assert "there is no task 'nope'" in (out if "--json" in words else err)
        assert tree() == before


def test_a_place_with_blanks_in_backticks_is_cited_whole(run: Run) -> None:
    Path("my dir").mkdir()
    Path("my dir/ä file.py").write_text("x = 1\n")
    noted(run, "Start: it begins with x, see `my dir/ä file.py:1`\nWhy: asked")

    (one,) = listed(run)
    assert one["evidence_pointer"] == "my dir/ä file.py:1"
    code, out, _ = typed(run, f"{one['next']} --json")

    assert code == 0
    shown = run("show", json.loads(out)["promoted"])[1]
    assert "  - my dir/ä file.py:1@" in shown
    assert shown.endswith("\nit begins with x\n")


def test_the_answer_names_the_commit_that_undo_takes_back(run: Run) -> None:
    item = noted(run, FRIDAY)

    answer = json.loads(run("promote", item, "--reason", "asked", "--json")[1])

    assert answer["commit"]
    assert run("undo", answer["commit"])[0] == 0
    assert run("show", answer["promoted"])[0] == 1


# one by one


def walked(run: Run, said: str) -> tuple[str, str]:
    code, out, err = run("promote", screen=True, stdin=said)
    assert code == 0, err
    return out, err


def test_on_a_terminal_the_items_can_be_walked_one_by_one(run: Run) -> None:
    noted(run, "They go out on Fridays")
    noted(run, f"{FRIDAY}\nWhy: asked")
    noted(run, "In phase 2 the parser moved")
    noted(run, "Gateway: it is behind a proxy")

    out, err = walked(run, "y\np\nReleases\ndocs.md:1\nasked\np\ndocs.md:1\nasked\n")

    assert "Walk through the 3 items that no step stops, one by one? [y/N]" in err
    assert err.count("promote it (p), skip it (s), or quit (q)?") == 2
    assert out.endswith("2 of 3 items promoted.\n")
    assert "Promoted to project: facts/project_releases.md\n" in out
    assert "Promoted to project: facts/project_gateway.md\n" in out
    # the second says by now what a fact says: it was examined again
    assert "stop  duplicate      facts/project_releases.md says the same" in out


def test_who_ends_the_walk_writes_nothing(run: Run, tree: Tree) -> None:
    noted(run, "They go out on Fridays")
    noted(run, "Gateway: it is behind a proxy")
    before = tree()

    for said in ("", "n\n", "y\n", "y\nq\n", "y\np\n", "y\np\nReleases\n", "y\ns\ns\n"):
        out, _ = walked(run, said)
        assert out.endswith("Nothing was written.\n"), said
        assert tree() == before, said


def test_nobody_is_asked_to_walk_where_nothing_can_be_promoted_or_nobody_is(run: Run) -> None:
    noted(run, "In phase 2 the parser moved")
    assert "Walk through" not in walked(run, "")[1]

    noted(run, FRIDAY)
    assert "Walk through" not in run("promote", stdin="y\n")[2]
    assert run("promote", "--json", screen=True, stdin="y\n")[2] == ""


def test_several_items_that_begin_alike_are_named(run: Run) -> None:
    for number in range(17):  # more than there are digits
        assert run("session", "note", f"Fact number {number} holds", "--section", "key")[0] == 0
    ids = [str(one["id"]) for one in listed(run)]
    first = next(one[0] for one in ids if sum(other[0] == one[0] for other in ids) > 1)

    code, _, err = run("promote", first)

    assert code == 2
    assert all(one in err for one in ids if one[0] == first)
