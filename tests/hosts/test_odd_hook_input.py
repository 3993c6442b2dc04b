"""Hooks with long texts and odd files: the limits of hosts hold, and nothing waits or leaks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from hosts.conftest import HookRunner
from hosts.test_hook import fill, root_of
from memsheaf.hosts.conversation import conversations
from memsheaf.memory import compose

HOST_LIMIT = 10_000
TOKEN = "ghp_" + "A1b2C3d4" * 4 + "E5f6"


def test_long_memories_beside_a_message_stay_within_what_a_host_takes(hooks: HookRunner) -> None:
    root = root_of(hooks, "project")
    root.mkdir(parents=True)
    for number in range(6):
        made = compose(
            name=f"Deploy rule {number}",
            description="How we deploy the shop",
            kind="project",
            body="deploy the shop 規則 first\n" * 500,
            created="2026-11-01",
            updated="2026-11-01",
        )
        (root / f"project_deploy-{number}.md").write_text(made.text)
    text = hooks.context("UserPromptSubmit", prompt="what are the deploy rules for the shop?")
    assert text.count("Deploy rule") > 2
    assert 5_000 < len(text.encode()) < HOST_LIMIT


def test_a_start_with_long_files_stays_within_what_a_host_takes(hooks: HookRunner) -> None:
    for scope in ("project", "user"):
        root = root_of(hooks, scope)
        fill(root, 300, scope)
        (root / "CONTEXT.md").write_text("規則 in a line of its own\n" * 600)
        (root / "NOTES.md").write_text("# Notes\n\n" + "目的 in a line of its own\n" * 600)
    for source in ("startup", "compact"):
        text = hooks.context("SessionStart", source=source)
        assert 8_000 < len(text.encode()) <= 9_600
        assert "CONTEXT.md is cut here" in text
        assert "NOTES.md is cut here" in text
        assert "more: `memory_view` lists all.)" in text


def test_a_secret_is_not_kept_in_half_where_a_long_message_is_cut(hooks: HookRunner) -> None:
    said = "word " * 6_553 + TOKEN  # it begins shortly before 32,768 characters
    hooks.hook("userPromptSubmitted", host="copilot", sessionId="c1", prompt=said[10:])
    kept = [str(conversation.data) for conversation in conversations(str(hooks.home / "state")).values()]
    assert any("word word" in text for text in kept)
    assert not any(TOKEN[:8] in text for text in kept)


def test_a_transcript_that_is_a_pipe_or_has_no_lines_does_not_stop_the_worker(hooks: HookRunner) -> None:
    base = hooks.home.parent
    os.mkfifo(base / "pipe")
    (base / "folder").mkdir()
    (base / "loop").symlink_to("loop")
    for name in ("pipe", "folder", "loop"):
        for event in ("SessionStart", "UserPromptSubmit", "Stop"):
            hooks.hook(event, session_id=name, transcript_path=str(base / name))
    hooks.hook("SessionStart", session_id="long", transcript_path=str(base / "long.jsonl"))
    with (base / "long.jsonl").open("wb") as file:
        file.truncate(70 << 20)
    path = hooks.transcript("long", ("user", "I prefer vim."), ("user", "I prefer tabs over spaces."))
    hooks.hook("Stop", session_id="long", transcript_path=str(path))
    hooks.work()
    assert any("tabs" in name for name in hooks.listed())


def test_a_transcript_that_was_replaced_by_a_pipe_does_not_stop_the_worker(hooks: HookRunner) -> None:
    path = hooks.transcript("s1", ("user", "I prefer tabs over spaces."), ("assistant", "Noted."))
    hooks.hook("Stop", transcript_path=str(path))
    hooks.work()
    hooks.transcript("s1", ("user", "I prefer vim over emacs."), ("assistant", "Noted."))
    hooks.hook("Stop", transcript_path=str(path))
    path.unlink()
    os.mkfifo(path)
    hooks.work()


def test_the_rest_of_a_turn_off_the_record_that_was_read_in_two_parts_leaves_nothing(hooks: HookRunner) -> None:
    assert hooks.run("config", "learning.policy", "log").returncode == 0  # the log keeps every turn
    for said in ("I prefer tabs.", "Off the record: Quentin Zabriskie leaves."):
        path = hooks.transcript("s1", ("user", said), ("assistant", f"I heard: {said}"))
        hooks.hook("PreCompact", transcript_path=str(path))
        hooks.work()
        hooks.transcript("s1", ("assistant", f"And so: {said}"))
        hooks.hook("Stop", transcript_path=str(path))
        hooks.work()
    kept = b"".join(file.read_bytes() for file in hooks.home.rglob("*") if file.is_file())
    assert b"And so: I prefer tabs" in kept
    assert b"Zabriskie" not in kept


def test_a_folder_that_was_deleted_is_no_reason_to_lose_a_turn(hooks: HookRunner, tmp_path: Path) -> None:
    event = {"session_id": "s1", "cwd": str(hooks.project), "prompt": "I prefer tabs over spaces."}
    (tmp_path / "gone").mkdir()
    done = subprocess.run(
        [
            "sh",
            "-c",
            'rmdir "$PWD"; exec "$@"',
            "sh",
            sys.executable,
            "-m",
            "memsheaf",
            "hook",
            "gemini",
            "AfterAgent",
        ],
        input=json.dumps(event).encode(),
        capture_output=True,
        cwd=tmp_path / "gone",
        env=hooks.environment | {"PWD": str(tmp_path / "gone")},
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr, hooks.log) == (0, b"", b"", "")
    hooks.work()
    assert any("tabs" in name for name in hooks.listed())


def test_input_that_is_no_json_is_logged(hooks: HookRunner) -> None:
    assert hooks.raw("UserPromptSubmit", b'{"prompt": "when') == ""
    assert "its input of 16 bytes is no JSON object" in hooks.log
