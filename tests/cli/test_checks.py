"""`memsheaf audit`."""

from __future__ import annotations

import json
import shlex
import subprocess
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
    about = ["--description", "d", "--type", "project"]
    assert (
        run("remember", text, "--name", "Fact", *about, *(word for cite in cites for word in ("--cite", cite)))[0]
        == 0
    )
    return "project_fact.md"


def test_a_citation_is_added_to_a_memory_once_and_can_be_undone(run: Run, work: Path, tree: Tree) -> None:
    file = add(run, "https://example.com/a", "src/app.py:1")

    assert run("audit", file, "--cite", "src/app.py:1") == (0, f"Updated {file}: {LIMIT}\n", "")
    assert json.loads(run("show", file, "--json")[1])["citations"] == ["https://example.com/a", LIMIT]
    assert f"cite {LIMIT}" in run("log", file)[1]
    before = tree()
    assert run("audit", file, "--cite", "src/app.py:1")[0] == 0
    assert tree() == before
    assert run("undo")[0] == 0
    assert json.loads(run("show", file, "--json")[1])["citations"] == ["https://example.com/a", "src/app.py:1"]


@pytest.fixture
def checkout(environment: dict[str, str]) -> Path:
    """A checkout with one file, and the working directory in it."""
    subprocess.run(["git", "init", "-q"], env=environment, check=True)
    (Path.cwd() / "app.py").write_text("LIMIT = 3\n")
    return Path.cwd()


def save(run: Run, name: str, text: str, *more: str) -> str:
    code, _, err = run("remember", text, "--name", name, "--description", "d", "--type", "project", "--anyway", *more)
    assert code == 0, err
    return f"project_{name.lower().replace(' ', '-')}.md"


def end(environment: dict[str, str], file: str, scope: str = "") -> None:
    """Let a memory end, as a person does with an editor."""
    home = Path(environment["MEMSHEAF_HOME"])
    (path,) = home.glob(f"{scope or 'projects/*'}/{file}")
    path.write_text(path.read_text().replace("\ntype:", "\nexpires: 2026-01-01\ntype:", 1))


def test_what_is_advised_can_be_typed(run: Run, checkout: Path, environment: dict[str, str]) -> None:
    fact = ("--cite", "app.py:1", "--reason", "asked", "--type", "project")
    assert run("remember", "The limit is 3.", "--name", "Limit", *fact)[0] == 0
    (checkout / "app.py").write_text("LIMIT = 4\n")
    end(environment, save(run, "Freeze", "No merges on the main branch.", "--scope", "user"), "user")

    (stale,) = json.loads(run("audit", "--json")[1])["citations"]
    (ended,) = json.loads(run("audit", "--scope", "user", "--json")[1])["waiting"]

    assert stale["advice"] == "`memsheaf remember FACT --reason TEXT --replaces facts/project_limit.md`"
    line = stale["advice"].strip("`").replace("FACT", "'The limit is 4.'").replace("TEXT", "raised")
    assert run(*shlex.split(line)[1:])[0] == 0
    line = ended["advice"].partition("`")[2].partition("`")[0]
    assert line == "memsheaf forget project_freeze.md --scope user"
    assert run(*shlex.split(line)[1:])[0] == 0


TEST = "`cd evals && npm test`"


def test_the_report_has_its_sections_in_order_and_fails(
    run: Run, checkout: Path, environment: dict[str, str]
) -> None:
    keeper = save(run, "Tests", f"All tests of the evals run via {TEST}; they cover prompts and schemas, too.")
    other = save(run, "Test command", f"Tests of the evals run via {TEST}; they cover prompts and schemas, too.")
    stale = save(run, "Limit", "The limit is kept low.", "--cite", "src/gone.py:3")
    ended = save(run, "Freeze", "No merges on the main branch.")
    end(environment, ended)

    code, out, _ = run("audit")

    assert code == 1
    assert out.split("\n") == [
        "Duplicate groups",
        "  2 entries have nearly the same words",
        f"    {keeper}: keeper, the most specific and recent",
        f"    {other}: candidate for natural decay",
        "Stale citations",
        f"  {stale}: src/gone.py no longer exists. Stale citation: candidate for a superseding fact",
        f"    `memsheaf edit {stale}`, if it is outdated",
        "Pollution",
        "  none",
        "Waiting",
        f"  {ended}: expired on 2026-01-01",
        f"    `memsheaf forget {ended}`, or say until when it holds",
        "",
    ]
