from __future__ import annotations

import json
import re
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

    code, out, _ = run("doctor")

    assert code == 0
    assert re.search(r"^model +none, rules learn; can be used: none$", out, re.MULTILINE)
    assert json.loads(run("doctor", "--json")[1])["models"] == []


def test_the_model_in_the_settings_is_looked_at(run: Run, environment: dict[str, str], claude: Path) -> None:
    environment["MEMSHEAF_MODEL"] = "claude:haiku"
    assert re.search(r"^model +claude:haiku; can be used: claude$", run("doctor")[1], re.MULTILINE)
    claude.unlink()

    code, out, _ = run("doctor")

    assert code == 1
    assert "the command claude is not on the PATH" in out
    assert "npm install" in out


def extract(run: Run) -> tuple[int, str, str]:
    """Have a model read a conversation."""
    turn = {"role": "user", "content": "We moved the importer to the new API on Monday."}
    return run("learn", "-", "--model", "claude", stdin=json.dumps(turn))


def test_a_request_is_counted(run: Run, claude: Path) -> None:
    assert extract(run)[0] == 0

    spent = json.loads(run("doctor", "--cost", "30", "--json")[1])
    assert [day["requests"] for day in spent["by_day"]] == [0] * 29 + [1]
    assert [(row["purpose"], row["model"], row["requests"]) for row in spent["spent"]] == [("extract", "claude", 1)]
    assert spent["left"]["learning"]["requests"] == 299
    assert spent["left"]["learning"]["tokens"] < 1_000_000 - 306


def test_no_model_is_asked_beyond_the_caps_of_the_settings(run: Run, claude: Path, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "config.toml").write_text("[spend]\nrequests_per_day = 0\n")

    code, out, _ = extract(run)

    assert code == 1
    assert "the cap of 0 requests a day is reached" in out
    assert "learning: 0 requests," in run("doctor", "--cost", "30")[1]
