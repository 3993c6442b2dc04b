from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

Run = Callable[..., tuple[int, str, str]]
Tree = Callable[[], dict[str, bytes]]

APP = "LIMIT = 3\n\n\ndef main():\n    pass\n"
LIMIT = f"src/app.py:1@{sha256(b'LIMIT = 3').hexdigest()[:8]}"


@pytest.fixture
def work(environment: dict[str, str]) -> Path:
    """A checkout with one file, and the working directory in it."""
    folder = Path.cwd()
    subprocess.run(["git", "init", "-q"], env=environment, check=True)
    (folder / "src").mkdir()
    (folder / "src/app.py").write_text(APP)
    return folder


def add(run: Run, *cites: str, text: str = "Text.") -> str:
    """A memory with these citations; its file."""
    about = ["--description", "d", "--type", "project", "--replace"]
    assert run("add", "Fact", text, *about, *(word for cite in cites for word in ("--cite", cite)))[0] == 0
    return "project_fact.md"


def test_a_place_is_cited_with_the_hash_of_what_is_there(run: Run, work: Path) -> None:
    assert run("cite", "src/app.py:1") == (0, f"{LIMIT}\n", "")
    code, out, _ = run("cite", "src/app.py#main", "--json")
    hashed = sha256(b"def main():").hexdigest()[:8]
    assert code == 0
    assert json.loads(out) == {
        "citation": f"src/app.py#main@{hashed}",
        "path": "src/app.py",
        "first": 0,
        "last": 0,
        "symbol": "main",
        "hash": hashed,
    }


@pytest.mark.parametrize("place", ["app.py:1", "./app.py:1", "../src/app.py:1", "src/app.py:1", "ABSOLUTE/app.py:1"])
def test_a_path_is_taken_from_where_one_is_or_from_the_root(run: Run, work: Path, place: str) -> None:
    os.chdir(work / "src")

    assert run("cite", place.replace("ABSOLUTE", str(work / "src")))[1] == f"{LIMIT}\n"


def test_a_citation_is_added_to_a_memory_and_can_be_undone(run: Run, work: Path) -> None:
    file = add(run, "https://example.com/a", "src/app.py:1")

    assert run("cite", "src/app.py:1", "--memory", file) == (0, f"Updated {file}: {LIMIT}\n", "")
    assert json.loads(run("show", file, "--json")[1])["citations"] == ["https://example.com/a", LIMIT]
    assert f"cite {LIMIT}" in run("log", file)[1]
    assert run("undo")[0] == 0
    assert json.loads(run("show", file, "--json")[1])["citations"] == ["https://example.com/a", "src/app.py:1"]


def test_citing_the_same_again_changes_nothing(run: Run, work: Path, tree: Tree) -> None:
    file = add(run)
    run("cite", "src/app.py:1", "--memory", file)
    before = tree()

    assert run("cite", "src/app.py:1", "--memory", file)[0] == 0
    assert tree() == before


@pytest.mark.parametrize(
    "words",
    [
        ["gone.py"],
        ["src/app.py:6"],
        ["src/app.py#nothing"],
        ["../outside.py"],
        ["/etc/passwd:1"],
        ["https://example.com/a.py"],
        ["src/app.py:1", "--memory", "nothing.md"],
        ["src/app.py:1", "--memory", "../project_fact.md"],
    ],
)
def test_what_cannot_be_cited_is_refused_with_a_hint_and_changes_nothing(
    run: Run, work: Path, tree: Tree, words: list[str]
) -> None:
    add(run)
    before = tree()

    code, out, err = run("cite", *words)

    assert (code, out) == (1, "")
    assert err.startswith("memsheaf: ")
    assert len(err.splitlines()) == 2
    assert tree() == before


def test_every_citation_is_verified_in_a_line_of_its_own(run: Run, work: Path, tree: Tree) -> None:
    add(run, LIMIT, "src/app.py:3", "what Kim said")
    before = tree()

    code, out, err = run("verify")

    assert (code, err) == (0, "")
    assert [line.split(None, 2) for line in out.splitlines()] == [
        ["verified", "project_fact.md", "src/app.py:1 is as it was cited."],
        ["unchecked", "project_fact.md", "src/app.py:3 is there; without a hash nobody can tell if it is the same."],
        ["unchecked", "project_fact.md", "what Kim said is no place in a working tree."],
    ]
    assert tree() == before


def test_drift_is_told_with_the_new_place_and_an_exit_code(run: Run, work: Path) -> None:
    file = add(run, LIMIT)
    (work / "src/app.py").write_text("# new\n" + APP)

    assert run("verify")[:2] == (1, f"drifted  {file}  src/app.py:1 is now at src/app.py:2.\n")
    code, out, _ = run("verify", file, "--json")
    assert code == 1
    said = "src/app.py:1 is now at src/app.py:2."
    assert json.loads(out) == {
        "scope": "project",
        "tree": str(work.resolve()),
        "memories": [
            {
                "path": file,
                "citations": [{"citation": LIMIT, "state": "drifted", "said": said, "place": "src/app.py:2"}],
                "gone": [],
            }
        ],
    }


def test_what_is_missing_gives_an_exit_code(run: Run, work: Path) -> None:
    add(run, LIMIT)
    (work / "src/app.py").unlink()

    code, out, _ = run("verify")
    assert code == 1
    assert out.startswith("missing")


def test_what_a_text_names_in_vain_is_told_and_is_no_failure(run: Run, work: Path) -> None:
    file = add(run, text="`old_name` was in src/old.py; `LIMIT` is in src/app.py.")

    assert run("verify") == (
        0,
        f"gone  {file}  `src/old.py` is named in the text, and is not in the working tree.\n"
        f"gone  {file}  `old_name` is named in the text, and is not in the working tree.\n",
        "",
    )


def test_a_memory_kept_in_the_repository_does_not_vouch_for_itself(run: Run, work: Path) -> None:
    fact = ["add", "Fact", "`old_name` is what we use.", "--description", "d", "--type", "project"]
    run("init")
    for place in ([], ["--project", "notes"]):
        assert run(*fact, *place)[0] == 0
        assert "`old_name`" in run("verify", *place)[1]


def test_only_the_named_memories_are_checked(run: Run, work: Path) -> None:
    gone = add(run, "gone.py")
    run("add", "Good", "Text.", "--description", "d", "--type", "user", "--cite", "src/app.py")

    assert run("verify", "user_good.md")[0] == 0
    assert run("verify", "user_good.md", gone)[0] == 1
    code, out, err = run("verify", "nothing.md")
    assert (code, out) == (1, "")
    assert "memsheaf list" in err


def test_nothing_to_verify_is_said(run: Run, work: Path) -> None:
    assert run("verify") == (0, "", "no citations in the scope project\n")
    assert run("verify", "--scope", "user")[2] == "no citations in the scope user\n"
    assert json.loads(run("verify", "--json")[1])["memories"] == []


def test_a_file_that_cannot_be_used_is_passed_over(run: Run, work: Path, environment: dict[str, str]) -> None:
    add(run, LIMIT)
    (root,) = Path(environment["MEMSHEAF_HOME"], "projects").iterdir()
    (root / "broken.md").write_bytes(b"\xff\xfe src/gone.py")
    (root / "linked.md").symlink_to("/etc/passwd")

    assert run("verify")[:2] == (0, "verified  project_fact.md  src/app.py:1 is as it was cited.\n")


def test_a_memory_cannot_drive_the_terminal_through_its_citations(
    run: Run, work: Path, environment: dict[str, str]
) -> None:
    add(run)
    (root,) = Path(environment["MEMSHEAF_HOME"], "projects").iterdir()
    (root / "evil.md").write_text(
        '---\nname: E\ndescription: d\ntype: user\ncitations: ["\\e[31m\\u202e x"]\n---\nx\n'
    )

    _, out, _ = run("verify", screen=True)
    assert "\u202e" not in out
    assert "\x1b[31m" not in out


def test_the_real_program_verifies_outside_of_a_checkout_too(run: Run, environment: dict[str, str]) -> None:
    Path("app.py").write_text(APP)
    file = add(run)
    assert run("cite", "app.py#main", "--memory", file)[0] == 0
    Path("app.py").rename("moved.py")

    done = subprocess.run(
        [sys.executable, "-m", "memsheaf", "verify"], env=environment, capture_output=True, text=True, check=False
    )

    assert done.returncode == 1
    assert done.stdout == f"drifted  {file}  app.py#main is now at moved.py:4.\n"
