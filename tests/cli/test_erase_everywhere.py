"""`memsheaf erase` after everything that writes has written: no file of ours has a trace left."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from forks import run_program

Run = Callable[..., tuple[int, str, str]]
FACT = 'The "Zanzibar" façade key lies under the 日本語 flowerpot'
OTHER = "Deployments of the payments cluster happen on Fridays"
TEXTS = (FACT, FACT.removesuffix(" flowerpot"), "under the 日本語 flowerpot")


def spellings(text: str) -> set[bytes]:
    once = {text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]}
    twice = {json.dumps(one, ensure_ascii=ascii)[1:-1] for one in once for ascii in (True, False)}
    return {one.encode() for one in once | twice}


def traces(folder: Path, texts: tuple[str, ...]) -> list[str]:
    """The files below a folder that have one of the texts in any spelling, in their bytes or in their name."""
    wanted = {form for text in texts for form in spellings(text)}
    return sorted(
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file()
        and path.suffix != ".float32"
        and (any(form in path.read_bytes() for form in wanted) or any(text in path.name for text in texts))
    )


class Machine:
    """Commands and hooks as a person's hosts run them."""

    def __init__(self, environment: dict[str, str], home: Path) -> None:
        self.environment = environment
        self.home = home

    def hook(self, event: str, cwd: Path, conversation: str, **more: str) -> None:
        said = {"hook_event_name": event, "session_id": conversation, "cwd": str(cwd), **more}
        run_program(("hook", "claude-code", event), self.environment, cwd, input=json.dumps(said).encode())

    def wait_for_workers(self) -> None:
        """Return once no process that a hook started still runs."""
        own = f"MEMSHEAF_HOME={self.environment['MEMSHEAF_HOME']}".encode()
        while any(own in _environment_of(number) for number in os.listdir("/proc") if number.isdigit()):
            time.sleep(0.05)


def _environment_of(number: str) -> bytes:
    try:
        return Path("/proc", number, "environ").read_bytes()
    except OSError:
        return b""


@pytest.fixture
def machine(environment: dict[str, str], tmp_path: Path) -> Machine:
    return Machine(environment, tmp_path)


@pytest.mark.parametrize("place", ["home", "repository"])
def test_no_file_has_a_trace_of_an_erased_memory_after_all_that_writes_has_written(
    run: Run, machine: Machine, environment: dict[str, str], tmp_path: Path, place: str
) -> None:
    here, other = Path.cwd(), tmp_path / "other"
    other.mkdir()
    if place == "repository":
        subprocess.run(["git", "init", "-q"], check=True)
        run("init", "--yes")
    scope = ("--scope", "project") if place == "repository" else ("--scope", "user")
    run("remember", OTHER)
    run("remember", f"{FACT}.", "--name", FACT, "--description", FACT, "--type", "reference", *scope)
    [shown] = [line.split()[0] for line in run("list")[1].splitlines() if "zanzibar" in line.lower()]
    name = shown.rpartition(":")[2]
    telling = (*TEXTS, name)

    for number, folder in enumerate((here, other)):
        conversation = f"conversation-{number}"
        transcript = tmp_path / f"{conversation}.jsonl"
        machine.hook("SessionStart", folder, conversation, source="startup")
        machine.hook("UserPromptSubmit", folder, conversation, prompt=f"Where is the key? Is it so that {FACT}?")
        machine.hook("Stop", folder, conversation, last_assistant_message=f"Yes: {FACT}.")
        transcript.write_text("")
    machine.wait_for_workers()
    machine.hook("SessionStart", here, "conversation-0", source="resume")
    machine.hook("SessionStart", other, "conversation-2", source="startup")
    machine.hook("UserPromptSubmit", here, "conversation-3", prompt=f"Remember that {FACT}.")
    machine.wait_for_workers()
    run("recall", f"Where is the Zanzibar façade key under the flowerpot? {FACT}")
    run("search", "Zanzibar flowerpot")
    run("show", "--prompt")
    run("notes")
    run("chat", "--print", f"Where is the key? {FACT}")
    run("log", "--story")
    run("undo")
    run("undo", json.loads(run("log", "--json")[1])["commits"][0]["id"])
    state = tmp_path / "home" / "state"
    (state / "hooks.log").write_text(f"2026-11-18T00:00:00Z worker learn: 'x' is like {name}: {FACT}\n")
    (tmp_path / "cache" / "start-0123.json").write_text(json.dumps({"text": FACT}))  # as an earlier version left it
    assert any(name.startswith("home/state/state.db") for name in traces(tmp_path, telling))
    assert len(traces(tmp_path, telling)) > 5

    code, out, err = run("erase", shown, "--yes")

    ours = [one for one in traces(tmp_path, telling) if not one.startswith("conversation-")]
    assert ours == [], out
    assert (code, "no trace is left" in out) == (0, True), out + err


def test_the_proof_names_a_file_of_ours_that_still_has_the_text_in_escaped_form(run: Run, tmp_path: Path) -> None:
    run("remember", f"{FACT}.", "--name", "Key", "--description", FACT, "--type", "reference", "--scope", "user")
    [name] = [path.name for path in (tmp_path / "home/user").glob("reference_*.md")]
    stray = tmp_path / "home/state/hooks/stray.bin"
    stray.parent.mkdir(parents=True)
    stray.write_bytes(json.dumps({"text": f"{FACT}."}).encode())
    (tmp_path / "cache/leftover").write_bytes(json.dumps([json.dumps(f"{FACT}.")]).encode())

    code, out, _ = run("erase", f"user:{name}", "--yes")

    assert code == 1
    assert ("hooks/stray.bin" in out, "cache/leftover" in out) == (True, True), out
