"""`memsheaf audit` and `memsheaf lint`: what people read, what a build reads, and what stays as it was."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., tuple[int, str, str]]
Tree = Callable[[], dict[str, bytes]]

TEST = "`cd evals && npm test`"
EMPTY = "Duplicate groups\n  none\nStale citations\n  none\nPollution\n  none\nWaiting\n  none\n"


@pytest.fixture
def work(environment: dict[str, str]) -> Path:
    """A checkout with one file, and the working directory in it."""
    subprocess.run(["git", "init", "-q"], env=environment, check=True)
    (Path.cwd() / "app.py").write_text("LIMIT = 3\n")
    return Path.cwd()


def add(run: Run, name: str, text: str, *more: str) -> str:
    code, _, err = run("add", name, text, "--description", "d", "--type", "project", "--anyway", *more)
    assert code == 0, err
    return f"project_{name.lower().replace(' ', '-')}.md"


def times(folder: Path) -> dict[str, int]:
    return {str(path): path.lstat().st_mtime_ns for path in folder.rglob("*") if "cache" not in path.parts}


@pytest.mark.parametrize("words", [[], ["--scope", "task/typo"], ["--scope", "user"], ["--agent", "typo"]])
def test_a_scope_that_is_not_there_is_told_fails_a_build_and_is_not_made(
    run: Run, work: Path, tree: Tree, words: list[str]
) -> None:
    before = tree()

    code, out, err = run("audit", *words)
    assert (code, out.startswith("Duplicate groups\n  none\n")) == (0, True)
    assert err.startswith("there is nothing there: ")
    report = json.loads(run("audit", *words, "--json")[1])
    assert (report["exists"], report["clean"], report["files"]) == (False, True, 0)
    for more in ([], ["--json"]):
        code, out, err = run("lint", *words, *more)
        assert code == 1
        assert "there is nothing there: " in (out if more else err)
        assert "memsheaf scopes" in (out if more else err)
    assert tree() == before


def test_a_scope_that_is_there_and_empty_is_clean(run: Run, work: Path) -> None:
    run("forget", add(run, "Tests", f"Tests run via {TEST}."))

    assert run("audit") == (0, EMPTY, "checked 0 files of the scope project; nothing was changed\n")
    assert run("lint", "--strict") == (0, "", "")


def test_the_report_has_its_sections_in_order_and_lint_a_line_for_each(run: Run, work: Path) -> None:
    keeper = add(run, "Tests", f"Tests of the evals run via {TEST}; they cover prompts and schemas.")
    other = add(run, "Test command", "The test command is cd evals && npm test")
    stale = add(run, "Limit", "The limit is kept low.", "--cite", "src/gone.py:3")
    gone = add(run, "Cap", "The cap is `retry_limit`.")
    ended = add(run, "Freeze", "No merges on the main branch.", "--expires", "2026-01-01")

    code, out, _ = run("audit")

    assert code == 0
    assert out.split("\n") == [
        "Duplicate groups",
        "  2 entries say the same about cd evals && npm test",
        f"    {keeper}: keeper, the most specific and recent",
        f"    {other}: candidate for natural decay",
        "Stale citations",
        f"  {stale}: src/gone.py no longer exists. Stale citation: candidate for a superseding fact",
        f"    `memsheaf edit {stale}`, if it is outdated",
        f"  {gone}: `retry_limit` is named in the text, and is not in the working tree",
        f"    `memsheaf edit {gone}`, if it is outdated",
        "Pollution",
        "  none",
        "Waiting",
        f"  {ended}: expired on 2026-01-01",
        f"    `memsheaf forget {ended}`, or say until when it holds",
        "",
    ]
    assert run("lint") == (
        1,
        f"{other}: duplicate: says the same as {keeper}: candidate for natural decay\n"
        f"{stale}: stale-citation: src/gone.py no longer exists. Stale citation: candidate for a superseding fact\n"
        f"{gone}: gone: `retry_limit` is named in the text, and is not in the working tree\n"
        f"{ended}: expired: expired on 2026-01-01\n",
        "",
    )


def test_json_has_all_of_it(run: Run, work: Path) -> None:
    keeper = add(run, "Tests", f"Tests of the evals run via {TEST}; they cover prompts and schemas.")
    other = add(run, "Test command", "The test command is cd evals && npm test")

    report = json.loads(run("audit", "--json")[1])
    lines = json.loads(run("lint", "--json")[1])

    assert list(report) == [
        "scope",
        "exists",
        "tree",
        "files",
        "clean",
        "duplicates",
        "citations",
        "pollution",
        "waiting",
    ]
    assert (report["scope"], report["tree"], report["files"], report["clean"]) == ("project", str(work), 2, False)
    (group,) = report["duplicates"]
    assert (group["kind"], group["level"], group["path"], group["others"]) == (
        "duplicate",
        "warning",
        keeper,
        [other],
    )
    assert lines["failed"] is True
    assert [(one["path"], one["others"]) for one in lines["findings"]] == [(other, [keeper])]
    assert lines["findings"][0]["advice"] == f"keep {keeper}, the most specific and recent, and let this one go"
    assert group["advice"].startswith(f"keep {keeper}, ")


def test_what_is_advised_can_be_typed(run: Run, work: Path) -> None:
    fact = ("--cite", "app.py:1", "--reason", "asked", "--category", "project")
    assert run("fact", "add", "Limit", "The limit is 3.", *fact)[0] == 0
    (work / "app.py").write_text("LIMIT = 4\n")
    add(run, "Freeze", "No merges on the main branch.", "--expires", "2026-01-01", "--scope", "user")

    (stale,) = json.loads(run("audit", "--json")[1])["citations"]
    (ended,) = json.loads(run("audit", "--scope", "user", "--json")[1])["waiting"]

    assert stale["advice"] == "`memsheaf fact supersede facts/project_limit.md FACT --reason TEXT`"
    line = stale["advice"].strip("`").replace("FACT", "'The limit is 4.'").replace("TEXT", "raised")
    assert run(*shlex.split(line)[1:])[0] == 0
    line = ended["advice"].partition("`")[2].partition("`")[0]
    assert line == "memsheaf forget project_freeze.md --scope user"
    assert run(*shlex.split(line)[1:])[0] == 0


def test_notes_fail_a_build_only_when_it_is_strict(run: Run, work: Path) -> None:
    add(run, "Cap", "The cap is `retry_limit`.")

    assert run("lint")[0] == 0
    assert run("lint")[1]
    assert run("lint", "--strict")[0] == 1


def test_the_tree_can_be_named_and_must_be_there(run: Run, work: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "gone.py").write_text("x = 1\n")
    add(run, "Limit", "The limit is kept low.", "--cite", "gone.py")

    assert run("lint")[0] == 1
    assert run("lint", "--tree", str(tmp_path / "other"))[0] == 0
    code, out, err = run("lint", "--tree", str(tmp_path / "nowhere"))
    assert (code, out) == (1, "")
    assert "cannot be read" in err


def test_memories_that_belong_to_no_project_are_held_against_no_tree_unless_one_is_named(
    run: Run, work: Path
) -> None:
    add(run, "Limit", "The limit is kept low.", "--cite", "src/gone.py", "--scope", "user")

    code, out, _ = run("audit", "--scope", "user")
    assert code == 0
    assert "Stale citations\n  not checked; --tree DIR names a working tree\n" in out
    assert out.count("not checked") == 1
    assert run("lint", "--scope", "user")[0] == 0
    assert run("lint", "--scope", "user", "--tree", ".")[0] == 1


@pytest.mark.parametrize("words", [["audit"], ["lint"], ["audit", "--json"], ["lint", "--scope", "user"]])
def test_nothing_is_written(run: Run, work: Path, tree: Tree, tmp_path: Path, words: list[str]) -> None:
    run("session", "start", "Parser")
    for scope in ("project", "user"):
        add(run, "Tests", f"Run {TEST}.", "--scope", scope)
        add(run, "Test command", f"The test command is {TEST}.", "--scope", scope)
    (root,) = (tmp_path / "home" / "projects").iterdir()
    (root / "outside.md").write_text("An editor wrote this.\n")
    (root / "MEMORY.md").unlink()
    before = tree(), times(tmp_path)

    run(*words)

    assert (tree(), times(tmp_path)) == before


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="who may write everywhere proves nothing")
def test_a_scope_that_may_only_be_read_is_audited(run: Run, work: Path, tmp_path: Path) -> None:
    add(run, "Freeze", "No merges on the main branch.", "--expires", "2026-01-01")
    (root,) = (tmp_path / "home" / "projects").iterdir()
    root.chmod(0o500)
    try:
        assert "expired on 2026-01-01" in run("audit")[1]
    finally:
        root.chmod(0o700)


def test_of_many_findings_people_see_the_first_and_a_build_all(run: Run, work: Path) -> None:
    for number in range(23):
        add(run, f"Word{number}", f"Word{number} names `gone_{number}`.")

    assert "  and 3 more of the kind gone; `memsheaf lint` shows all\n" in run("audit")[1]
    assert len(run("lint")[1].splitlines()) == 23


def test_a_hostile_text_drives_no_terminal(run: Run, work: Path, tmp_path: Path) -> None:
    add(run, "Fine", "All is well here.")
    (root,) = (tmp_path / "home" / "projects").iterdir()
    text = "---\nname: \x1b]0;owned\x07 \u202e\ndescription: d\ntype: user\n---\nRun `make \x1b[31mall\u202e`.\n"
    for name in ("a", "b", "evil\x1b[2J"):
        (root / f"{name}.md").write_text(text)

    for words in (["audit"], ["lint"], ["audit", "--json"]):
        _, out, err = run(*words)
        assert "\x1b" not in out + err
        assert "\u202e" not in out + err


def test_progress_is_shown_on_a_terminal(run: Run, work: Path) -> None:
    add(run, "Fine", "All is well here.")

    assert "auditing: 1 of 1" in run("audit", screen=True)[2]
    assert "auditing" not in run("audit")[2]


def test_no_name_of_a_scope_leads_an_audit_elsewhere(run: Run, work: Path, tree: Tree, tmp_path: Path) -> None:
    corpus = Path(__file__).parent.parent / "corpora" / "traversal.json"
    names = [case["input"] for case in json.loads(corpus.read_text("utf-8"))["cases"] if case["surface"] == "name"]
    (tmp_path / "secret.md").write_text("---\nname: n\ntype: user\nexpires: 2020-01-01\n---\nNot for you.\n")
    before = tree()

    assert len(names) > 40
    for name in names:
        for layer in ("session", "task", "agent"):
            code, out, _ = run("audit", f"--scope={layer}/{name.replace('{ROOT}', str(tmp_path))}", "--json")
            assert code in (1, 2) or json.loads(out)["files"] == 0, name
    assert tree() == before
