from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., tuple[int, str, str]]

RESULT = {
    "subtype": "success",
    "structured_output": {"memories": []},
    "usage": {"input_tokens": 300, "output_tokens": 6},
}


@pytest.fixture
def claude(tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A command that answers as `claude` does, on the PATH."""
    (tmp_path / "bin").mkdir()
    file = tmp_path / "bin" / "claude"
    file.write_text(
        f"#!/bin/sh\nexec {shlex.quote(sys.executable)} -c {shlex.quote(f'print({json.dumps(RESULT)!r})')}\n"
    )
    file.chmod(0o700)
    environment["PATH"] = f"{tmp_path / 'bin'}:/usr/bin:/bin"
    monkeypatch.setenv("PATH", environment["PATH"])
    return file


def test_without_a_model_it_says_so_and_shows_the_ways(run: Run, environment: dict[str, str], tmp_path: Path) -> None:
    environment["PATH"] = str(tmp_path)

    code, out, _ = run("models")

    assert code == 0
    assert out.startswith("no model is chosen")
    assert "the command claude is not on the PATH" in out
    ways = {way["name"]: way for way in json.loads(run("models", "--json")[1])["ways"]}
    assert {"anthropic", "openai", "google", "ollama", "claude", "codex"} <= set(ways)
    assert ways["anthropic"]["problem"]


def test_the_model_in_the_settings_is_looked_at(run: Run, environment: dict[str, str], claude: Path) -> None:
    environment["MEMSHEAF_MODEL"] = "claude:haiku"
    assert run("models")[:2][1].startswith("claude:haiku can be used")
    claude.unlink()

    code, out, _ = run("models")

    assert code == 1
    assert "the command claude is not on the PATH" in out
    assert "npm install" in out


def extract(run: Run) -> tuple[int, str, str]:
    """Have a model read a conversation."""
    turn = {"role": "user", "content": "We moved the importer to the new API on Monday."}
    return run("extract", "-", "--model", "claude", stdin=json.dumps(turn))


def test_a_request_is_counted(run: Run, claude: Path) -> None:
    assert extract(run)[0] == 0

    spent = json.loads(run("cost", "--json")[1])
    assert [day["requests"] for day in spent["by_day"]] == [0] * 29 + [1]
    assert [(row["purpose"], row["model"], row["requests"]) for row in spent["spent"]] == [("extract", "claude", 1)]
    assert spent["left"]["requests"] == 299
    assert spent["left"]["tokens"] < 1_000_000 - 306


def test_no_model_is_asked_beyond_the_caps_of_the_settings(run: Run, claude: Path, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "config.toml").write_text("[spend]\nrequests_per_day = 0\n")

    code, out, _ = extract(run)

    assert code == 1
    assert "the cap of 0 requests a day is reached" in out
    assert "left today: 0 requests of 0" in run("cost")[1]
