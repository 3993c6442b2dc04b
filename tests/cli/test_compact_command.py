from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., tuple[int, str, str]]
Tree = Callable[[], dict[str, bytes]]
KEY = "AKIAZFAKE" + "FAKEFAKE234"


def turns(steps: int = 60) -> list[dict[str, object]]:
    """API messages, with calls and answers, as a host has them."""
    said: list[dict[str, object]] = []
    for step in range(steps):
        call = f"call-{step}"
        said += [
            {"role": "user", "content": f"Do step {step}. Never skip step {step}."},
            {"role": "assistant", "content": [{"type": "tool_use", "id": call, "name": "bash", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call, "content": "row\n" * 2_000}]},
            {"role": "assistant", "content": f"Step {step} is done."},
        ]
    return said


@pytest.fixture
def conversation(environment: dict[str, str]) -> str:
    path = Path("conversation.jsonl")
    path.write_text("".join(json.dumps(one) + "\n" for one in turns()))
    return str(path)


def test_the_report_says_how_far_it_went_and_what_was_written(run: Run, conversation: str, tmp_path: Path) -> None:
    code, out, err = run("compact", conversation)

    assert (code, err) == (0, "")
    first, second, third, fourth, *bullets = out.splitlines()
    assert first.startswith("120,")
    assert first.endswith(" after, 50,000 allowed")
    assert second == "level 2: tool output is one line each"
    assert third == "180 messages: 125 kept, 55 one line"
    assert fourth.startswith("written: ")
    assert Path(fourth.removeprefix("written: ")).read_text().startswith("=== message 2: tool ===\nrow\n")
    assert bullets[0] == "  - Messages that are not whole: 55 in one line"
    assert "Do step" not in out


def test_the_conversation_itself_is_printed_on_request_and_can_be_read_again(
    run: Run, conversation: str, tmp_path: Path
) -> None:
    code, out, err = run("compact", conversation, "--budget", "5000", "--print")

    assert code == 0
    assert "level 2: " in err
    first, *messages = [json.loads(line) for line in out.splitlines()]
    assert first["role"] == "user"
    assert first["content"].startswith("# Earlier in this conversation\n")
    assert messages[0] == {"role": "user", "content": "Do step 0. Never skip step 0."}
    again = json.loads(run("compact", "-", "--json", stdin=out)[1])
    assert (again["level"], again["counts"]) == (0, {"kept": len(messages) + 1})


def test_as_json_everything_is_there(run: Run, conversation: str) -> None:
    value = json.loads(run("compact", conversation, "--budget", "900", "--trigger", "task", "--json")[1])

    assert (value["trigger"], value["level"], value["fits"], value["budget"]) == ("task", 4, True, 900)
    assert value["after"] <= 900 < value["before"]
    assert sum(value["counts"].values()) == 180
    assert any(bullet.startswith('The user asked: "Never skip step ') for bullet in value["bullets"])
    assert value["messages"][0]["content"] == value["text"]
    assert os.path.isfile(value["spilled"])


def test_nothing_is_written_on_a_dry_run(run: Run, conversation: str, tree: Tree) -> None:
    before = tree()

    for budget in ("50000", "900", "5", "5", "5", "5"):
        code, out, _ = run("compact", conversation, "--budget", budget, "--dry-run")
        assert code == (1 if budget == "5" else 0)
        assert "would be written: " in out

    assert tree() == before


def test_notes_are_the_summary(run: Run, conversation: str) -> None:
    Path("notes.md").write_text("# Session\n## Current State\nStep 59 is next.\n", encoding="utf-8")
    line = ("compact", conversation, "--trigger", "task", "--notes", "notes.md")

    value = json.loads(run(*line, "--json")[1])

    assert (value["level"], value["summary"]) == (4, "notes")
    assert "<session-notes>\n# Session\n## Current State\nStep 59 is next.\n</session-notes>" in value["text"]
    assert "summary from: notes" in run(*line)[1]
    assert run("compact", conversation, "--notes", "nowhere.md")[0] == 2


def test_no_secret_of_the_conversation_is_written(run: Run, tmp_path: Path) -> None:
    text = f"User: the key is {KEY}\nTool output: {KEY} {'x' * 9_000}\nAssistant: ok\nUser: go on {'y' * 3_000}\n"

    code, out, _ = run("compact", "-", "--budget", "1000", stdin=text)

    assert code == 0
    assert "written: " in out
    assert KEY not in out
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or KEY.encode() not in path.read_bytes()


def test_what_does_not_fit_is_told_and_after_three_times_a_person_is_asked(
    environment: dict[str, str], conversation: str
) -> None:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "memsheaf", "compact", conversation, *words],
            env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip

    for _ in range(3):
        done = run("--budget", "5")
        assert done.returncode == 1
        assert "; it does not fit: what cannot be left out takes " in done.stdout
    refused = run("--json")
    assert refused.returncode == 1
    assert json.loads(refused.stdout)["error"]["message"].startswith("waiting for approval: ")
    assert "--approve" in refused.stderr

    assert run("--approve").returncode == 0
    assert run().returncode == 0


def test_a_model_that_fails_is_told(run: Run, conversation: str) -> None:
    code, out, err = run("compact", conversation, "--model", "nobody:x")
    assert (code, out) == (1, "")
    assert "nobody" in err

    assert run("compact", conversation, "--model", "none")[0] == 0


@pytest.mark.parametrize("text", ["", "\n\n", '{"type": "summary"}\n'])
def test_a_conversation_without_a_message_is_refused(run: Run, tree: Tree, text: str) -> None:
    before = tree()

    code, out, err = run("compact", "-", stdin=text)

    assert (code, out) == (1, "")
    assert "Give a transcript" in err
    assert tree() == before


def test_text_in_any_script_and_half_characters_are_fine(run: Run) -> None:
    text = f"User: 不要修改迁移文件。\nTool output: {'語🎉' * 4_000}\nAssistant: 好的。\nUser: 继续 {'é' * 2_000}\n"

    value = json.loads(run("compact", "-", "--budget", "1300", "--json", stdin=text)[1])
    assert value["fits"]

    odd = '{"role": "tool", "content": "' + "\\ud83d" * 3_000 + '"}\n{"role": "user", "content": "so?"}\n'
    assert run("compact", "-", "--budget", "400", stdin=odd)[0] == 0
