from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def run(*arguments: str) -> str:
    command = [sys.executable, "-m", "benchmarks.recall_quality", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The public sets in the small: their shape, none of their text."""
    turns = [{"speaker": "A", "dia_id": f"D1:{n}", "text": f"word{n} and more"} for n in range(30)]
    asked = [
        {"question": "where is word7?", "evidence": ["D1:7"], "category": 4},
        {"question": "who said word9?", "evidence": ["D1:9"], "category": 5},
        {"question": "nothing is known", "evidence": [], "category": 1},
    ]
    sample = {"qa": asked, "conversation": {"session_1": turns, "session_1_date_time": "then"}}
    with gzip.open(tmp_path / "locomo7.json.gz", "wt") as file:
        json.dump([sample], file)
    sessions = [[{"role": "user", "content": f"tale{n}", "has_answer": n == 4}] for n in range(20)]
    question = {
        "question_id": "q", "question_type": "t", "question": "tell tale4", "answer_session_ids": ["s4"],
        "haystack_session_ids": [f"s{n}" for n in range(20)], "haystack_sessions": sessions,
    }  # fmt: skip
    with gzip.open(tmp_path / "longmemeval_s_dev.jsonl.gz", "wt") as file:
        file.write(json.dumps(question) + "\n")
    return tmp_path


def test_every_set_is_measured_with_every_ranker(data: Path, tmp_path: Path) -> None:
    out = run("--data", str(data), "--json", str(tmp_path / "out.json"), "--by-kind")
    found = json.loads((tmp_path / "out.json").read_text())

    assert set(found) == {"coding", "locomo", "locomo-adversarial", "longmemeval-turns", "longmemeval-sessions"}
    for name, rankers in found.items():
        assert set(rankers) == {"keyword overlap", "FTS5", "memsheaf, words"}, name
    assert found["locomo"]["memsheaf, words"]["any_1"] == 1.0
    assert "locomo: 1 questions" in out
    assert found["longmemeval-sessions"]["FTS5"]["mrr"] == 1.0


def test_a_set_that_is_not_there_is_named_and_the_others_are_measured(tmp_path: Path) -> None:
    out = run("--data", str(tmp_path), "--half", "test")

    assert "locomo: not measured, locomo7.json.gz is not in --data" in out
    assert "coding: 100 questions" in out


def test_words_beat_the_documents_fallback_on_our_own_set(tmp_path: Path) -> None:
    run("--sets", "coding", "--json", str(tmp_path / "out.json"))
    found = json.loads((tmp_path / "out.json").read_text())["coding"]

    assert found["memsheaf, words"]["any_5"] > found["keyword overlap"]["any_5"] + 0.1
