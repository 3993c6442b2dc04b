"""Hooks of coding agents, each in a process of its own as a host runs it."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from hosts.conftest import HookRunner
from memsheaf.config import load
from memsheaf.hosts.conversation import conversations, hook_state
from memsheaf.memory import compose
from memsheaf.scope import Scope, resolve
from memsheaf.sheaf import Sheaf
from memsheaf.store import ABSENT, Commit, Revision, version_of
from memsheaf.store.old_journal import MAX_HOOK_BYTES, encode


def root_of(hooks: HookRunner, scope: str) -> Path:
    settings = load(hooks.environment)
    return Path(resolve(Scope.parse(scope), settings.places(str(hooks.project))))


def fill(root: Path, count: int, kind: str) -> None:
    root.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        made = compose(
            name=f"Fact {number} of {kind}",
            description=f"What {number} is about, in some words, so that the line has the length of a usual line",
            kind=kind,
            body=f"Value {number} is {number * 7919 % 1000}.",
            created="2026-11-01",
            updated="2026-11-01",
        )
        (root / f"{kind}_fact-{number}.md").write_text(made.text)


def state_of(hooks: HookRunner) -> list[dict[str, Any]]:
    return [conversation.data for conversation in conversations(str(hooks.home / "state")).values()]


def change_conversations(hooks: HookRunner, **values: object) -> None:
    notes = hook_state(str(hooks.home / "state"))
    for name, known in notes.load_all().items():
        notes.save(name, known | values)


# the start


def test_a_start_has_the_protocol_and_the_catalogs_of_project_and_user(hooks: HookRunner) -> None:
    hooks.remember("I prefer pnpm over npm")
    hooks.remember("We deploy the shop on Fridays")
    text = hooks.context("SessionStart", source="startup")
    assert "a memory that outlives this conversation" in text
    assert "(project_deploy-shop-fridays.md)" in text
    assert "_pnpm-over-npm.md)" in text
    assert "(user:" in text
    assert "We deploy" not in hooks.context("SessionStart", source="startup", session_id="s2", cwd=hooks.other)


def test_a_start_stays_within_what_a_host_takes_and_says_what_is_left_out(hooks: HookRunner) -> None:
    fill(root_of(hooks, "project"), 1_000, "project")
    fill(root_of(hooks, "user"), 500, "user")
    assert hooks.run("list").returncode == 0  # on a busy machine, to read them all takes longer than a hook has
    text = hooks.context("SessionStart", source="startup")
    assert len(text.encode()) < 9_600
    lines = re.findall(r"(?m)^- Fact .* \((.*)\)$", text)
    assert len(lines) == 40
    assert sum(line.startswith("user:") for line in lines) == 20  # the scopes take turns
    assert "(1,460 more: `memory_view` lists all.)" in text


def test_the_files_for_every_prompt_are_at_the_start_and_leave_room_for_the_catalog(hooks: HookRunner) -> None:
    root = root_of(hooks, "project")
    fill(root, 100, "project")
    (root / "CONTEXT.md").write_text("Ask before you touch the invoices.\n" + "All of this matters.\n" * 2_000)
    assert hooks.run("notes", "set", "--objective", "Move the shop to Postgres").returncode == 0
    text = hooks.context("SessionStart", source="startup")
    assert 9_000 < len(text.encode()) <= 9_600
    assert "# Persistent Memory\n\nAsk before you touch the invoices." in text
    assert "(CONTEXT.md is cut here" in text
    assert "Move the shop to Postgres" in text
    assert len(re.findall(r"(?m)^- Fact", text)) > 20


def test_an_agent_without_tools_is_not_told_to_use_them(hooks: HookRunner) -> None:
    hooks.remember("We deploy the shop on Fridays")
    assert hooks.run("config", "tools", "false").returncode == 0
    text = hooks.context("SessionStart", source="startup")
    assert "`memory_" not in text
    assert "If the user asks to ignore memory" in text
    assert "We deploy the shop on Fridays" in text


def test_what_came_with_the_repository_is_marked_at_the_start(hooks: HookRunner) -> None:
    hooks.remember("We deploy the shop on Fridays")
    (hooks.project / ".memory").mkdir()
    fill(hooks.project / ".memory", 30, "project")
    assert hooks.run("trust", "--yes").returncode == 0
    text = hooks.context("SessionStart", source="startup")
    assert text.count("- (shared) Fact") == 30
    assert text.count("- Fact") == 0


def test_a_start_shows_what_changed_since_the_last(hooks: HookRunner) -> None:
    hooks.remember("We deploy the shop on Fridays")
    file = next(root_of(hooks, "project").glob("project_*.md"))
    first = hooks.context("SessionStart", source="startup")
    file.write_text(file.read_text().replace("name: We deploy", "name: We ship"))
    changed = hooks.context("SessionStart", source="startup", session_id="s3")
    assert "We ship the shop" in changed
    assert "We ship the shop" not in first


def test_a_start_leaves_a_long_import_of_an_old_history_to_the_next_command(hooks: HookRunner) -> None:
    hooks.remember("We deploy the shop on Fridays")
    root = root_of(hooks, "project")
    file = next(root.glob("project_*.md"))
    step = Revision("old.md", ABSENT, version_of(b"old"), None, b"old")
    line = encode(Commit("0a", "2026-01-01T00:00:00.000Z", "user", "from long ago", (step,)))
    folder = next(root.rglob("history.db")).parent
    (folder / "journal-000001.jsonl").write_bytes(line + b'{"done": "0a"}\n' * (MAX_HOOK_BYTES // 15))
    file.write_text(file.read_text().replace("name: We deploy", "name: We ship"))

    assert "We ship the shop" in hooks.context("SessionStart", source="startup")
    with closing(sqlite3.connect(folder / "history.db")) as db:
        assert db.execute("SELECT count(*) FROM old_files").fetchone() == (0,)

    hooks.remember("We use Postgres 18 for the shop")
    assert b"from long ago" in hooks.run("log").stdout
    assert b"outside" in hooks.run("log", file.name).stdout
    assert not hooks.log


def test_what_a_resumed_conversation_holds_is_not_told_again(hooks: HookRunner) -> None:
    hooks.remember("We deploy the shop on Fridays")
    assert hooks.context("SessionStart", source="startup")
    assert hooks.hook("SessionStart", source="resume") == {}
    hooks.remember("We use Postgres 18 for the shop")
    assert "Postgres" in hooks.context("SessionStart", source="resume")


def test_a_start_has_what_is_new_made_ready_and_a_turn_after_it_is_learned(
    hooks: HookRunner, eventually: Callable[[Callable[[], object]], None]
) -> None:
    hooks.remember("I prefer pnpm over npm")
    assert hooks.context("SessionStart", host="qwen", source="startup")
    eventually(lambda: list((hooks.home / "state").rglob("hook-worker.lock")))
    typed = "I prefer tabs over spaces."
    hooks.hook("UserPromptSubmit", host="qwen", prompt=typed, submitted_prompt=typed)
    hooks.hook("Stop", host="qwen", last_assistant_message="Noted.")
    eventually(lambda: any("tabs" in name for name in hooks.listed()))


def test_two_hooks_of_ours_tell_a_start_once_and_each_compaction_anew(hooks: HookRunner) -> None:
    hooks.remember("I prefer pnpm over npm")
    assert hooks.context("SessionStart", source="startup")
    assert not hooks.context("SessionStart", source="startup")
    assert hooks.context("SessionStart", source="compact")
    assert not hooks.context("SessionStart", source="compact")
    change_conversations(hooks, started=1)  # a while ago
    assert hooks.context("SessionStart", source="compact")


def test_after_a_compaction_the_brief_comes_and_memories_may_be_shown_again(hooks: HookRunner) -> None:
    hooks.remember("We deploy the shop on Fridays")
    assert hooks.run("notes", "set", "--objective", "Move the shop to Postgres").returncode == 0
    hooks.hook("SessionStart", source="startup")
    asked: dict[str, Any] = {"prompt": "when do we deploy the shop?"}
    assert "Fridays" in hooks.context("UserPromptSubmit", **asked)
    assert "Fridays" not in hooks.context("UserPromptSubmit", prompt="tell me again when we deploy the shop")
    text = hooks.context("SessionStart", source="compact")
    assert text.count("Move the shop to Postgres") >= 1
    assert "# Where the work stands" in text
    assert "Fridays" in hooks.context("UserPromptSubmit", prompt="once more: when do we deploy the shop?")


# a message


def test_a_memory_is_shown_once_a_conversation_and_again_when_it_changed(hooks: HookRunner) -> None:
    hooks.remember("We deploy the shop on Fridays")
    first = hooks.hook("UserPromptSubmit", prompt="when do we deploy the shop?")
    assert "on Fridays" in first["hookSpecificOutput"]["additionalContext"]
    assert first["systemMessage"] == "memory: 1 recalled"
    assert hooks.hook("UserPromptSubmit", prompt="so when do we deploy the shop?") == {}
    assert hooks.context("UserPromptSubmit", prompt="when do we deploy the shop?", session_id="s2")
    file = next(root_of(hooks, "project").glob("project_*.md"))
    file.write_text(file.read_text().replace("Fridays", "Mondays"))
    assert "on Mondays" in hooks.context("UserPromptSubmit", prompt="and when do we deploy the shop now?")


def test_the_same_message_is_answered_once_also_when_two_hooks_of_ours_are_installed(hooks: HookRunner) -> None:
    hooks.remember("We deploy the shop on Fridays")
    asked: dict[str, Any] = {"prompt": "when do we deploy the shop?", "prompt_id": "p1"}
    assert hooks.context("UserPromptSubmit", **asked)
    assert hooks.hook("UserPromptSubmit", **asked) == {}


def test_a_user_who_asks_to_ignore_memory_gets_none(hooks: HookRunner) -> None:
    hooks.remember("We deploy the shop on Fridays")
    assert hooks.hook("UserPromptSubmit", prompt="Ignore memory. When do we deploy the shop?") == {}


def test_a_sub_agent_reads_but_neither_keeps_nor_shares_state(hooks: HookRunner) -> None:
    hooks.remember("We deploy the shop on Fridays")
    asked: dict[str, Any] = {"prompt": "when do we deploy the shop?"}
    assert hooks.context("UserPromptSubmit", agent_id="a1", **asked)
    assert hooks.context("UserPromptSubmit", **asked)
    path = hooks.transcript("s1", ("user", "Remember: we use Postgres 18."), ("assistant", "OK."))
    hooks.hook("Stop", agent_id="a1", transcript_path=str(path))
    assert not any(one.get("captured") for one in state_of(hooks))


def test_the_line_can_be_off(hooks: HookRunner) -> None:
    hooks.remember("We deploy the shop on Fridays")
    assert hooks.run("config", "hooks.line", "false").returncode == 0
    assert "systemMessage" not in hooks.hook("UserPromptSubmit", prompt="when do we deploy the shop?")


# the end of a turn, and learning


def test_what_is_said_in_one_repository_is_known_in_the_next(
    hooks: HookRunner, eventually: Callable[[Callable[[], object]], None]
) -> None:
    path = hooks.transcript("s1", ("user", "I prefer tabs over spaces in all my code."), ("assistant", "Noted."))
    hooks.hook("SessionStart", source="startup", transcript_path=str(path))
    hooks.hook("Stop", transcript_path=str(path), last_assistant_message="Noted.")
    hooks.hook("SessionEnd", transcript_path=str(path), reason="other")
    eventually(lambda: any("tabs" in name for name in hooks.listed(hooks.other)))
    started = hooks.hook("SessionStart", source="startup", session_id="s2", cwd=hooks.other)
    assert "tabs" in started["hookSpecificOutput"]["additionalContext"]
    eventually(lambda: any((hooks.home / "state" / "hooks").glob("news-*")))
    told = hooks.hook("SessionStart", source="startup", session_id="s3")
    assert told["systemMessage"] == "memory: 1 learned"
    assert "systemMessage" not in hooks.hook("SessionStart", source="startup", session_id="s4")


def test_a_transcript_is_read_from_where_the_last_turn_ended(hooks: HookRunner) -> None:
    old = hooks.transcript("s1", ("user", "I prefer vim over emacs."), ("assistant", "OK."))
    hooks.hook("SessionStart", source="resume", transcript_path=str(old))  # it began before we came
    path = hooks.transcript("s1", ("user", "I prefer tabs over spaces."), ("assistant", "Noted."))
    hooks.hook("Stop", transcript_path=str(path))
    hooks.transcript("s1", ("user", "I prefer dark themes over light ones."))  # its turn has not ended
    hooks.work()
    found = " ".join(hooks.listed())
    assert "tabs" in found
    assert "vim" not in found
    assert "dark" not in found
    hooks.transcript("s1", ("assistant", "Dark it is."))
    hooks.hook("Stop", transcript_path=str(path))
    hooks.hook("Stop", transcript_path=str(path))
    hooks.work()
    hooks.work()
    assert sum("dark" in name for name in hooks.listed()) == 1


def test_a_turn_off_the_record_leaves_nothing(hooks: HookRunner) -> None:
    requests = (
        "Off the record:",
        "Do not store this in memory.",
        "Incognito mode please.",
        "Don't keep what I say next.",
    )
    for text in [f"{request} Quentin Zabriskie leaves the company." for request in requests]:
        path = hooks.transcript("s1", ("user", text), ("assistant", "I see."))
        hooks.hook("UserPromptSubmit", prompt=text, transcript_path=str(path))
        hooks.hook("Stop", transcript_path=str(path))
        hooks.hook("UserPromptSubmit", host="gemini", prompt=text)
        hooks.hook("AfterAgent", host="gemini", prompt=text, prompt_response="I see.")
    hooks.work()
    found = [file for file in hooks.home.rglob("*") if file.is_file() and b"Zabriskie" in file.read_bytes()]
    assert found == []


def test_a_wish_not_to_store_anything_holds_as_long_as_it_says(hooks: HookRunner) -> None:
    said = {
        "s1": ["Don't save anything in this conversation.", "I live in Zabriskie.", "Remember that I use vim."],
        "s2": ["Please do not remember anything I say from now on.", "I live in Zabriskie."],
        "s3": ["Please do not remember what I say next.", "I live in Zabriskie.", "I prefer tabs over spaces."],
        "s4": ["Nothing I say in this session should be saved.", "Thanks!", "I live in Zabriskie."],
    }
    for name, messages in said.items():
        for text in messages:
            path = hooks.transcript(name, ("user", text), ("assistant", "OK."))
            hooks.hook("UserPromptSubmit", session_id=name, prompt=text, transcript_path=str(path))
            hooks.hook("Stop", session_id=name, transcript_path=str(path))
            hooks.work()  # it may read the transcript after each message
            hooks.hook("beforeSubmitPrompt", host="cursor", conversation_id=f"c{name}", prompt=text)
            hooks.hook("afterAgentResponse", host="cursor", conversation_id=f"c{name}", text="OK.")
    hooks.work()

    stored = [file for file in hooks.home.rglob("*") if file.is_file() and b"Zabriskie" in file.read_bytes()]
    assert stored == []
    names = hooks.listed()
    assert [sum(word in name for name in names) for word in ("tabs", "vim")] == [1, 1], names
    assert len(names) == 2


def test_a_turn_whose_text_comes_with_the_event_goes_to_the_inbox_without_secrets(hooks: HookRunner) -> None:
    key = "sk-ant-" + "api03-" + "A1b2C3d4" * 10
    said = f"I prefer tabs over spaces. My key is {key}."
    hooks.hook("BeforeAgent", host="gemini", prompt=said)
    hooks.hook("AfterAgent", host="gemini", prompt=said, prompt_response="Noted.")
    assert json.loads(hooks.run("learn", "--waiting", "--json").stdout)
    assert not [file for file in hooks.home.rglob("*") if file.is_file() and key.encode() in file.read_bytes()]
    hooks.work()
    assert any("tabs" in name for name in hooks.listed())


def test_a_prompt_waits_for_its_answer_where_a_host_tells_them_apart(
    hooks: HookRunner, eventually: Callable[[Callable[[], object]], None]
) -> None:
    hooks.hook("beforeSubmitPrompt", host="cursor", conversation_id="c1", prompt="I prefer tabs over spaces.")
    hooks.hook("afterAgentResponse", host="cursor", conversation_id="c1", text="Noted.")
    eventually(lambda: any("tabs" in name for name in hooks.listed()))


def test_context_that_gemini_put_before_a_message_is_not_taken_for_the_users_words(hooks: HookRunner) -> None:
    hooks.remember("I prefer pnpm over npm")
    start = hooks.hook("SessionStart", host="gemini", source="startup")["hookSpecificOutput"]["additionalContext"]
    escaped = start.replace("<", "&lt;").replace(">", "&gt;")
    prompt = f"<hook_context>{escaped}</hook_context>\n\nI prefer tabs over spaces. And do I prefer pnpm or npm?"
    shown = hooks.context("BeforeAgent", host="gemini", prompt=prompt)
    hooks.hook("AfterAgent", host="gemini", prompt=prompt, prompt_response="Noted.")
    assert "I prefer pnpm over npm" in shown
    assert "outlives" not in hooks.run("learn", "--waiting", "--json").stdout.decode()
    hooks.work()
    assert any("tabs" in name for name in hooks.listed())


def test_the_result_of_a_tool_that_qwen_sends_as_a_message_is_not_taken_for_the_users_words(
    hooks: HookRunner,
) -> None:
    turn: dict[str, Any] = {"host": "qwen", "session_id": "q1", "transcript_path": "/nowhere", "prompt_id": "q1#0"}
    typed = "I prefer tabs over spaces."
    hooks.hook("UserPromptSubmit", prompt=typed, submitted_prompt=typed, **turn)
    hooks.hook("UserPromptSubmit", prompt="The user prefers emacs over vim.", **turn)
    hooks.hook("Stop", last_assistant_message="Noted.", **turn)
    hooks.hook("UserPromptSubmit", prompt="I prefer nano over pico.", **turn | {"prompt_id": "q1#1"})
    hooks.hook("Stop", last_assistant_message="Noted.", **turn | {"prompt_id": "q1#1"})
    hooks.work()
    kept = [name.partition("_")[2] for name in hooks.listed() if name.startswith("user:")]
    assert "tabs-over-spaces.md" in kept
    assert not [name for name in kept if "emacs" in name or "nano" in name]


def test_a_turn_is_learned_where_a_host_tells_its_end_without_any_words(hooks: HookRunner) -> None:
    hooks.hook("userPromptSubmitted", host="copilot", sessionId="p1", prompt="I prefer tabs over spaces.")
    hooks.hook("agentStop", host="copilot", sessionId="p1", stopReason="end_turn")
    hooks.work()
    assert any("tabs" in name for name in hooks.listed())


def test_a_transcript_of_codex_is_read(hooks: HookRunner) -> None:
    path = hooks.home.parent / "rollout.jsonl"

    def said(role: str, name: str, text: str) -> dict[str, Any]:
        kind = "input_text" if role == "user" else "output_text"
        return {"type": "message", "id": name, "role": role, "content": [{"type": kind, "text": text}]}

    items = [
        said("user", "m0", "<environment_context><cwd>/x</cwd></environment_context>"),
        said("user", "m1" * 10, "I prefer tabs over spaces."),
        {"type": "function_call", "call_id": "c1", "name": "shell", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "I prefer emacs."},
        said("assistant", "m2", "Noted."),
    ]
    lines = [{"timestamp": "2026-11-17T08:00:00Z", "type": "response_item", "payload": item} for item in items]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    hooks.hook("Stop", host="codex", transcript_path=str(path), last_assistant_message="Noted.")
    hooks.work()
    assert any("tabs" in name for name in hooks.listed())
    assert not any("emacs" in name for name in hooks.listed())


def test_the_worker_descends_from_nobody_whom_a_host_may_end(
    hooks: HookRunner, eventually: Callable[[Callable[[], object]], None]
) -> None:
    lines = ["import os", "from memsheaf.hosts.answer import spawn_apart"]
    lines += [f"spawn_apart('work', {str(hooks.project)!r})"]
    lines += ["try: print(os.waitpid(-1, 0))", "except ChildProcessError: print('none')"]
    words = [sys.executable, "-c", "\n".join(lines)]
    done = subprocess.run(words, env=hooks.environment, capture_output=True, text=True, check=True)
    assert done.stdout == "none\n"
    eventually(lambda: list((hooks.home / "state").rglob("hook-worker.lock")))


# a guest


@pytest.mark.parametrize("event", ["SessionStart", "UserPromptSubmit", "Stop", "PreCompact", "SessionEnd"])
@pytest.mark.parametrize(
    "data", [b"", b"{", b"[1]", b"\xff\xfe", b'{"session_id": 7, "prompt": ["x"]}', b"[" * 9_000]
)
def test_bad_input_is_no_error(hooks: HookRunner, event: str, data: bytes) -> None:
    out = hooks.raw(event, data)
    assert not out or json.loads(out)


def test_a_broken_store_is_logged_and_answered_with_nothing(hooks: HookRunner) -> None:
    hooks.home.mkdir()
    (hooks.home / "projects").write_text("not a folder")
    (hooks.home / "user").write_text("not a folder")
    assert hooks.raw("UserPromptSubmit", b'{"session_id": "s1", "prompt": "when do we deploy?"}') == ""
    assert "claude-code UserPromptSubmit:" in hooks.log


def test_a_state_directory_that_cannot_be_written_is_no_error(hooks: HookRunner) -> None:
    hooks.home.mkdir()
    (hooks.home / "state").write_text("not a folder")
    for event in ("SessionStart", "UserPromptSubmit", "Stop", "SessionEnd"):
        out = hooks.raw(event, json.dumps({"session_id": "s1", "prompt": "when do we deploy?"}).encode())
        assert not out or json.loads(out)


def replace_by_folder(state: Path) -> None:
    state.mkdir()


def replace_by_link(state: Path) -> None:
    state.symlink_to("elsewhere.db")


def replace_by_foreign(state: Path) -> None:
    with closing(sqlite3.connect(state)) as db:
        db.execute("CREATE TABLE theirs (a)")


def replace_by_noise(state: Path) -> None:
    state.write_bytes(b"this is no database" * 1_000)


@pytest.mark.parametrize("trouble", [replace_by_folder, replace_by_link, replace_by_foreign, replace_by_noise])
def test_a_state_that_cannot_be_used_costs_no_answer(hooks: HookRunner, trouble: Callable[[Path], None]) -> None:
    hooks.remember("The staging database is called argon")
    state = hooks.home / "state" / "state.db"
    state.parent.mkdir(exist_ok=True)
    for file in state.parent.glob("state.db*"):
        file.unlink()
    trouble(state)

    assert "argon" in hooks.context("SessionStart", source="startup")
    assert "argon" in hooks.context("UserPromptSubmit", prompt="what is the staging database called?")
    if trouble in (replace_by_folder, replace_by_link):
        assert "answered, and not noted" in hooks.log


def test_a_program_that_holds_the_databases_delays_an_answer_and_does_not_prevent_it(hooks: HookRunner) -> None:
    hooks.remember("The staging database is called argon")
    hooks.context("UserPromptSubmit", prompt="hello there")
    databases = [*hooks.home.rglob("state.db"), *hooks.home.rglob("history.db"), *hooks.home.rglob("*.sqlite")]
    root = root_of(hooks, "project")
    root.joinpath("project_new.md").write_text("---\nname: n\ndescription: d\ntype: project\n---\nnew\n")

    with ExitStack() as held:
        for database in databases:
            other = held.enter_context(closing(sqlite3.connect(database, isolation_level=None)))
            other.execute("BEGIN IMMEDIATE")
        answer = hooks.context("UserPromptSubmit", prompt="what is the staging database called?")

    assert {database.suffix for database in databases} == {".db", ".sqlite"}
    assert "argon" in answer


def test_settings_that_cannot_be_read_are_logged(hooks: HookRunner) -> None:
    hooks.home.mkdir()
    (hooks.home / "config.toml").write_text("learning = 7")
    assert hooks.raw("SessionStart", b'{"session_id": "s1"}') == ""
    assert "BadSettings" in hooks.log


def test_an_unknown_event_is_logged(hooks: HookRunner) -> None:
    assert hooks.raw("Invented", b"{}") == ""
    assert "unknown event" in hooks.log


def test_the_deadline_ends_it_with_an_empty_answer(hooks: HookRunner) -> None:
    fill(root_of(hooks, "project"), 500, "project")
    out = hooks.raw(
        "UserPromptSubmit", b'{"session_id": "s1", "prompt": "when do we deploy?"}', MEMSHEAF_HOOK_MS="20"
    )
    assert out == ""
    assert "no answer within 0.02 s" in hooks.log


def test_a_question_of_ours_to_an_agent_calls_no_hook_again(hooks: HookRunner) -> None:
    hooks.remember("We deploy the shop on Fridays")
    asked = b'{"session_id": "s1", "source": "startup"}'
    assert hooks.raw("SessionStart", asked)
    assert hooks.raw("SessionStart", asked, MEMSHEAF_INSIDE="1") == ""


def test_nothing_is_written_to_the_project(hooks: HookRunner) -> None:
    path = hooks.transcript("s1", ("user", "I prefer tabs over spaces."), ("assistant", "Noted."))
    for event in ("SessionStart", "UserPromptSubmit", "Stop", "PreCompact", "SessionEnd"):
        hooks.hook(event, transcript_path=str(path), prompt="when do we deploy?", source="startup")
    hooks.work()
    assert [one.name for one in hooks.project.iterdir()] == [".git"]
    assert list((hooks.project / ".git").iterdir()) == []


# on and off


def test_memory_can_be_off_for_a_shell_a_project_and_everywhere(hooks: HookRunner) -> None:
    hooks.remember("I prefer pnpm over npm")
    asked = b'{"session_id": "s1", "source": "startup"}'
    assert hooks.raw("SessionStart", asked, MEMSHEAF_OFF="1") == ""
    assert hooks.run("off").returncode == 0
    assert hooks.raw("SessionStart", asked) == ""
    assert hooks.raw("SessionStart", asked, cwd=hooks.other)
    assert hooks.run("off", "-s", "user").returncode == 0
    assert hooks.raw("SessionStart", asked, cwd=hooks.other) == ""
    assert b"still off everywhere" in hooks.run("on").stdout
    assert hooks.run("on", "-s", "user").returncode == 0
    assert hooks.raw("SessionStart", asked.replace(b"s1", b"s2"))


def test_what_was_said_while_memory_was_off_is_not_learned_later(hooks: HookRunner) -> None:
    for switch, said, shell in (
        ("on", "tabs over spaces", ""),
        ("off", "vim over emacs", ""),
        ("on", "nano over pico", "1"),
        ("on", "zsh over fish", ""),
    ):
        assert hooks.run(switch).returncode == 0
        path = hooks.transcript("s1", ("user", f"I prefer {said}."), ("assistant", "Noted."))
        event = json.dumps({"session_id": "s1", "transcript_path": str(path), "prompt": said}).encode()
        hooks.raw("UserPromptSubmit", event, MEMSHEAF_OFF=shell)
        hooks.raw("Stop", event, MEMSHEAF_OFF=shell)
    hooks.work()
    hooks.work()
    kept = sorted(name.partition("_")[2] for name in hooks.listed() if name.startswith("user:"))
    assert [
        name
        for name in kept
        if name in ("tabs-over-spaces.md", "vim-over-emacs.md", "nano-over-pico.md", "zsh-over-fish.md")
    ] == [
        "tabs-over-spaces.md",
        "zsh-over-fish.md",
    ]


def test_a_message_makes_no_vectors_and_the_worker_makes_them(hooks: HookRunner) -> None:
    hooks.environment["MEMSHEAF_EMBEDDER"] = "auto"
    fill(root_of(hooks, "project"), 3, "project")

    def made() -> int:
        settings = load(hooks.environment)
        with Sheaf.open("project", settings=settings, cwd=str(hooks.project), read_only=True) as sheaf:
            return sheaf.own.index.embedding().done

    hooks.hook("UserPromptSubmit", prompt="what is the second value about?")
    before = made()
    hooks.work()
    assert (before, made()) == (0, 3)


def test_a_message_unpacks_no_model(hooks: HookRunner) -> None:
    hooks.environment["MEMSHEAF_EMBEDDER"] = "auto"
    fill(root_of(hooks, "project"), 3, "project")
    assert "Fact 2" in hooks.context("UserPromptSubmit", prompt="what is fact 2 of the project about?")
    assert not list((hooks.home / "cache").glob("*.float32"))


def test_two_hosts_in_one_project_share_memories_and_not_state(hooks: HookRunner) -> None:
    hooks.remember("We deploy the shop on Fridays")
    for host in ("claude-code", "codex"):
        assert "Fridays" in hooks.context("UserPromptSubmit", host=host, prompt="when do we deploy the shop?")


def test_what_is_known_of_a_conversation_goes_after_a_month(hooks: HookRunner) -> None:
    hooks.remember("We deploy the shop on Fridays")
    for name in ("old", "new"):
        hooks.hook("UserPromptSubmit", session_id=name, prompt="when do we deploy the shop?")
        if name == "old":
            change_conversations(hooks, at=1, prompts=["old"])
    hooks.work()
    (left,) = state_of(hooks)
    assert left["prompts"] != ["old"]
