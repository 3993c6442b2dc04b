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
    """A session, a task, and files to cite."""
    Path("docs.md").write_text("Fridays.\n")
    Path("my dir").mkdir()
    Path("my dir/ä file.py").write_text("x = 1\n")
    Path(".git").mkdir()
    assert run("session", "start", "Work", "--id", "s1")[0] == 0
    assert run("task", "start", "Feature X")[0] == 0


def note(run: Run, text: str, section: str = "key") -> str:
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
    assert run("promote") == (0, "Nothing is waiting to be promoted.\n", "")
    for text in (FRIDAY, "In phase 2 the parser moved"):
        assert run("session", "note", text, "--section", "key")[0] == 0
    before = tree()

    code, out, err = run("promote")

    assert (code, err) == (0, "")
    item = out[:6]
    assert f"{item}  defer  Releases: they go out on Fridays, see docs.md:1\n" in out
    assert "  session/s1 session.md Key Results > project\n  cites docs.md:1\n" in out
    assert "  ask   five fields  there is no reason" in out
    assert out.count("Is it tied to one task?") == 1
    assert f"  type: memsheaf promote {item} --session s1 --to project --reason TEXT\n" in out
    assert out.endswith("2 items: 0 yes, 2 defer, 0 no. Nothing was written.\n")

    one = listed(run)[0]
    wanted = {
        "id": item,
        "subject": "Releases",
        "proposed_classification": "project",
        "evidence_pointer": "docs.md:1",
        "recommend_promote": "defer",
    }
    assert {key: one[key] for key in wanted} == wanted
    said = "there is no reason"
    assert one["steps"] == [{"name": "five fields", "verdict": "ask", "said": said, "help": "--reason TEXT"}]
    assert tree() == before


def test_what_is_missing_is_named_and_with_it_the_note_becomes_a_fact(
    run: Run, tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    item = note(run, "They go out on Fridays. Always. Since long")
    before = tree()

    code, out, err = run("promote", item[:4], "--subject", "Releases of ours", screen=True, stdin="y\n")

    assert code == 1
    assert "  ask   five fields" in out
    assert "no citation" in err
    assert f"memsheaf promote {item} --session s1 --to project --subject 'Releases of ours'" in (
        " ".join(err.split())
    )
    assert tree() == before

    monkeypatch.chdir("my dir")  # a place is taken from where one stands
    words = ["--subject", "Releases", "--cite", "ä file.py:1", "--reason", "asked", "--fact", "They go on Fridays."]
    code, out, err = run("promote", item, *words, "--json")

    assert (code, err) == (0, "")
    answer = json.loads(out)
    assert (answer["evidence_pointer"], answer["promoted"]) == ("my dir/ä file.py:1", "facts/project_releases.md")
    shown = run("show", "facts/project_releases.md")[1]
    assert "reason: asked\n" in shown
    assert "  - my dir/ä file.py:1@" in shown
    assert "\nThey go on Fridays." in shown
    assert "(promoted: facts/project_releases.md)" in run("session", "show", "--session", "s1")[1]
    assert listed(run) == []
    assert run("undo", answer["commit"])[0] == 0
    assert run("show", answer["promoted"])[0] == 1


def test_a_correction_shows_both_texts_and_waits_for_the_word_to_supersede(run: Run) -> None:
    assert (
        "Promoted to project: facts/project_releases.md\n"
        in run("promote", note(run, FRIDAY), "--reason", "asked")[1]
    )
    item = note(run, "Releases: they go out on Mondays, see docs.md:1")

    code, out, err = run("promote", item, "--reason", "changed")

    assert code == 1
    assert "    -they go out on Fridays, see docs.md:1\n    +they go out on Mondays, see docs.md:1\n" in out
    assert "--reason changed --supersede facts/project_releases.md" in err
    code, out, _ = run("promote", item, "--reason", "changed", "--supersede", "facts/project_releases.md")
    assert code == 0
    assert "Promoted to project: facts/project_releases-2.md\n" in out
    assert run("show", "facts/project_releases.md")[0] == 1


def test_what_a_person_promotes_is_not_refused_for_its_words(run: Run) -> None:
    item = note(run, "Endpoint: use the old one for now, see docs.md:1")

    assert run("promote", item, "--reason", "asked")[0] == 0
    assert "use the old one for now" in run("show", "facts/project_endpoint.md")[1]


def test_it_goes_to_a_task_as_a_note_or_to_the_user_as_an_ordinary_memory(run: Run) -> None:
    answers = note(run, "I prefer short answers")
    releases = note(run, "Releases go out on Fridays")

    assert "Promoted to user: user_short-answers.md\n" in run("promote", answers, "--to", "user")[1]
    code, out, _ = run("promote", releases, "--to", "task/feature-x")
    assert code == 0
    assert "Promoted to task/feature-x: TASK.md\n" in out
    (one,) = listed(run, "--task", "feature-x")
    assert one["text"] == "Releases go out on Fridays"


def test_to_a_team_it_goes_only_when_a_person_says_yes(run: Run, tree: Tree) -> None:
    item = note(run, FRIDAY)
    before = tree()

    for more in ([], ["--json"]):
        assert run("promote", item, "--to", "team/core", *more, stdin="y\n")[0] == 1
    assert tree() == before

    assert "Promoted to team/core: project_releases.md" in run("promote", item, "--to", "team/core", "--yes")[1]
    other = note(run, "Mocks: mock nothing in tests", "err")
    assert run("promote", other, "--to", "team/core", "--yes")[0] == 1
    assert run("promote", other, "--to", "team/core", "--yes", "--anyway", "all of us do")[0] == 0


def test_the_line_to_type_keeps_what_was_typed_and_works_with_the_rest_filled_in(run: Run) -> None:
    assert run("add", "Gateway", "It is behind nginx.", "--description", "d", "--type", "project")[0] == 0
    filled = {"PLACE": "docs.md:1", "RATIONALE": "needed", "task/SLUG": "task/feature-x"}
    for text, given, end in (
        ("Ports: they are 80 and 443", "--cite nope.py:3 --reason x", "--to project --reason x --cite PLACE"),
        (
            "Parser: phase 2 of the compiler resolves names, see docs.md:1",
            '--anyway "it\'s so"',
            "--to project --anyway 'it'\"'\"'s so' --reason TEXT",
        ),
        ("I prefer short answers", "--to project --category user", "--to user --category user"),
        (
            "Gateway: it is behind a proxy, see docs.md:1\nWhy: asked",
            "",
            "--to project --anyway RATIONALE --subject TEXT",
        ),
    ):
        item = note(run, text)

        code, out, _ = run("promote", *([item] if given else []), *shlex.split(given), "--json")
        found = json.loads(out)
        line = str(found["next"] if given else next(one["next"] for one in found["items"] if one["id"] == item))

        assert line == f"memsheaf promote {item} --session s1 {end}", text
        code, _, err = run(*({**filled, "TEXT": f"This is {item}"}.get(word, word) for word in shlex.split(line)[1:]))
        assert code == 0, (line, err)


def test_a_secret_has_no_line(run: Run) -> None:
    item = note(run, FRIDAY)

    code, out, err = run("promote", item, "--reason", "password: Corr3ct-H0rse-Fake")

    assert code == 1
    assert "Corr3ct" not in out + err
    assert err.endswith("It stays where it was noted.\n")


def test_what_cannot_be_meant_is_refused_before_anything_else(run: Run, tree: Tree, tmp_path: Path) -> None:
    assert run("session", "note", "Fact number 0 holds", "--section", "key")[0] == 0
    (file,) = tmp_path.rglob("session.md")
    more = "".join(f"- Fact number {number} holds\n" for number in range(17))  # more than there are digits
    file.write_text(file.read_text().replace("- Fact number 0 holds\n", more))
    ids = [str(one["id"]) for one in listed(run)]
    first = next(one[0] for one in ids if sum(other[0] == one[0] for other in ids) > 1)
    before = tree()

    for words in ([], [ids[0]], [ids[0], "--json"]):
        code, out, err = run("promote", *words, "--to", "task/nope")
        assert code == 1
        assert "there is no task 'nope'" in (out if "--json" in words else err)
    code, _, err = run("promote", first)
    assert code == 2
    assert all(one in err for one in ids if one[0] == first)
    assert tree() == before
