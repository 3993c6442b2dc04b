"""The opencode plugin, called as opencode calls it, in node."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cases import give_up

PLUGIN = Path(__file__).parent.parent.parent / "src" / "memsheaf" / "hosts" / "opencode.js"
CALLS = """
import { Memsheaf } from "./memsheaf.mjs"
const client = { tui: { showToast: async () => {} } }
const hooks = await Memsheaf({ client, directory: process.cwd() })
const event = (type, properties) => hooks.event({ event: { type, properties } })
const system = ["You are an agent."], title = ["You are a title generator."]
const parts = [{ id: "prt_1", type: "text", text: '"tabs or \\\\"spaces\\\\"?"', messageID: "msg_1" }]
await event("session.created", { info: { id: "s1" } })
await hooks["chat.message"]({ sessionID: "s1" }, { message: { id: "msg_1" }, parts })
await hooks["experimental.chat.system.transform"]({ sessionID: "s1" }, { system })
await hooks["experimental.chat.system.transform"]({ sessionID: "s1" }, { system: title })
await event("message.part.updated", { part: { type: "text", text: "Tabs.", messageID: "msg_2", sessionID: "s1" } })
await event("session.idle", { sessionID: "s1" })
await event("session.idle", { sessionID: "s1" })
await hooks["experimental.session.compacting"]({})
await event("no.such.event", undefined)
await event("session.deleted", undefined)
console.log(JSON.stringify({ system, title, parts }))
"""
Call = Callable[[list[str]], dict[str, list[object]]]


@pytest.fixture
def call(tmp_path: Path) -> Call:
    """Have a program of some words answer the plugin; gives what the plugin made of a message."""
    node = shutil.which("node")
    if node is None:
        give_up("node is not installed")

    def call(words: list[str]) -> dict[str, list[object]]:
        text = PLUGIN.read_text(encoding="utf-8")
        assert 'PROGRAM = ["memsheaf"]' in text
        text = text.replace('PROGRAM = ["memsheaf"]', f"PROGRAM = {json.dumps(words)}")
        (tmp_path / "memsheaf.mjs").write_text(text, encoding="utf-8")
        (tmp_path / "calls.mjs").write_text(CALLS, encoding="utf-8")
        done = subprocess.run(
            [node, "calls.mjs"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
        )
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        return dict(json.loads(done.stdout))

    return call


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["/nowhere/memsheaf"], id="missing"),
        pytest.param([sys.executable, "-c", "import sys; sys.exit(3)"], id="failing"),
        pytest.param([sys.executable, "-c", "print('no JSON'); print(sys)"], id="crashing"),
        pytest.param([sys.executable, "-c", "print('null')"], id="no answer"),
    ],
)
def test_it_never_throws_and_changes_nothing_when_the_program_fails(call: Call, words: list[str]) -> None:
    made = call(words)

    assert made["system"] == ["You are an agent."]
    assert len(made["parts"]) == 1


def test_it_hands_on_each_event_once_and_puts_the_answers_into_the_conversation(call: Call, tmp_path: Path) -> None:
    log = tmp_path / "log"
    program = f"import json, sys; event = sys.argv[3]; print(event, sys.stdin.read(), file=open({str(log)!r}, 'a'))\n"
    program += "print(json.dumps({'context': f'<{event}>'}))"

    made = call([sys.executable, "-c", program])

    assert made["system"] == ["You are an agent.", "<start>"]
    assert made["title"] == ["You are a title generator."]
    texts = [part["text"] for part in made["parts"] if isinstance(part, dict)]
    assert texts == ['"tabs or \\"spaces\\"?"', "<prompt>"]
    told = [line.split(" ", 1) for line in log.read_text(encoding="utf-8").splitlines()]
    [turn] = [json.loads(payload) for event, payload in told if event == "turn"]
    assert sorted(event for event, _ in told) == ["compact", "prompt", "start", "turn"]
    assert (turn["session_id"], turn["prompt"], turn["response"]) == ("s1", 'tabs or "spaces"?', "Tabs.")
