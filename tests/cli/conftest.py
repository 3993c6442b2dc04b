from __future__ import annotations

import io
import json
import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from databases import content
from memsheaf.cli import main


class Screen(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def listing(run: Callable[..., tuple[int, str, str]], *words: str, **more: Any) -> str:
    """The files that `memsheaf list` shows, one a line."""
    answer = json.loads(run("list", *words, "--json", **more)[1])
    return "".join(f"{row['path']}\n" for row in answer["memories"])


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The whole environment of a command: everything under `tmp_path`, and a project folder to stand in."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return {
        "MEMSHEAF_HOME": str(tmp_path / "home"),
        "MEMSHEAF_CACHE": str(tmp_path / "cache"),
        "MEMSHEAF_EMBEDDER": "none",
        "HOME": str(tmp_path),
        "PATH": os.environ["PATH"],
    }


@pytest.fixture
def run(environment: dict[str, str]) -> Callable[..., tuple[int, str, str]]:
    """Run a command in this process; gives exit code, output and messages."""

    def run(
        *words: str, stdin: str = "", screen: bool = False, more: Mapping[str, str] | None = None
    ) -> tuple[int, str, str]:
        stream = Screen if screen else io.StringIO
        out, err = stream(), stream()
        code = main(words, environment={**environment, **(more or {})}, stdin=stream(stdin), stdout=out, stderr=err)
        return code, out.getvalue(), err.getvalue()

    return run


@pytest.fixture
def tree(tmp_path: Path) -> Callable[[], dict[str, bytes]]:
    """What is on disk now, the cache aside: it may be deleted at any moment, so it proves nothing.

    Of a database it is the rows, since SQLite moves them between its files when it likes.
    """

    def tree() -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for path in sorted(tmp_path.rglob("*")):
            name = path.relative_to(tmp_path).as_posix()
            if not name.startswith("cache") and not name.endswith(("-wal", "-shm")):
                data = content(path) if path.is_file() and not path.is_symlink() else b""
                found[name] = os.readlink(path).encode() if path.is_symlink() else data
        return found

    return tree


@pytest.fixture
def tabs(run: Callable[..., tuple[int, str, str]]) -> str:
    """The file of a memory that is there."""
    about = ("--description", "Indentation of code", "--type", "user", "--scope", "project")
    run("remember", "Use tabs.", "--name", "Prefers tabs", *about)
    return "user_prefers-tabs.md"


@pytest.fixture
def project(run: Callable[..., tuple[int, str, str]], environment: dict[str, str], tmp_path: Path) -> Path:
    """A git repository whose project has something in every layer, at home; gives its folder there."""
    subprocess.run(["git", "init", "-q"], check=True)
    (tmp_path / "turns.jsonl").write_text(
        json.dumps({"role": "user", "content": "Remember that we deploy on Fridays."})
    )
    for words in (
        ("remember", "Text.", "--name", "Fact", "--description", "d", "--type", "user", "--scope", "project"),
        ("edit", "user_fact.md", "--old", "Text.", "--new", "Newer text."),
        (
            "remember",
            "Nobody needs this.",
            "--name",
            "Gone",
            "--description",
            "d",
            "--type",
            "user",
            "--scope",
            "project",
        ),
        ("forget", "user_gone.md"),
        ("notes", "set", "--objective", "Move the importer"),
        ("task", "start", "Feature X", "--goal", "Users can log in"),
        ("task", "event", '{"event_type": "discovery", "payload": {"found": "two caches"}}'),
        ("session", "start", "Move the login"),
        ("session", "note", "The tests run in 40 s"),
        ("notes", "diary", "The migration is through."),
        ("learn", str(tmp_path / "turns.jsonl"), "--later"),
        ("consolidate", "user_fact.md", "--expect", "which fact?"),
    ):
        code, _, err = run(*words)
        assert code == 0, (words, err)
    (root,) = Path(environment["MEMSHEAF_HOME"], "projects").iterdir()
    return root


@pytest.fixture
def standing(run: Callable[..., tuple[int, str, str]]) -> Callable[..., dict[str, Any]]:
    """All that a person sees of a project, whichever folder it is in."""
    questions = {
        "list": ("list",), "log": ("log",), "task": ("task", "status"), "events": ("task", "event"),
        "session": ("session", "show"), "notes": ("notes",), "inbox": ("learn", "--waiting"),
        "diary": ("notes", "diary", "--since", "2026-01-01"),
        "expect": ("consolidate", "--if-due"), "task log": ("log", "--scope", "task/feature-x")
    }  # fmt: skip

    def standing(**more: str) -> dict[str, Any]:
        answers = {what: json.loads(run(*words, "--json", more=more)[1]) for what, words in questions.items()}
        assert not any("error" in answer for answer in answers.values())
        answers["expect"] = {"expected": answers["expect"]["expected"]}  # the gates tell the time
        answers["list"]["memories"].sort(
            key=lambda row: (row["scope"], row["path"])
        )  # a copy is newer than its model
        return {
            what: {key: value for key, value in answer.items() if key not in ("root", "notices", "brief")}
            for what, answer in answers.items()
        }

    return standing
