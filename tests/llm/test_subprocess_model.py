"""Commands as models. The command is a small program of ours, which behaves as the real one does, or badly."""

from __future__ import annotations

import json
import os
import select
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from memsheaf.errors import ModelFailed
from memsheaf.llm import Answer, Question, load_model
from memsheaf.llm.subprocess_model import SubprocessModel

pytestmark = pytest.mark.skipif(os.name != "posix", reason="process groups are a thing of POSIX")

SCHEMA = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
SECRET = "the user said: my plans for 明年 are private"
QUESTION = Question("You are terse.", SECRET, SCHEMA, max_tokens=77)
Install = Callable[..., SubprocessModel]

# What the command holds open for writing; whoever reads it gets to the end when the last of its processes is dead.
HOLDING = "pipe = os.open(os.environ['ALIVE'], os.O_WRONLY)\n"


@pytest.fixture
def alive(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "alive")
    return tmp_path / "alive"


@pytest.fixture
def install(tmp_path: Path, alive: Path) -> Install:
    """Put a program of this name on the PATH, and give the model that it is."""

    def install(program: str, name: str = "claude", **variables: str) -> SubprocessModel:
        (tmp_path / "bin").mkdir(exist_ok=True)
        file = tmp_path / "bin" / name.partition(":")[0]
        script = tmp_path / f"{file.name}.py"
        script.write_text(f"import json, os, signal, subprocess, sys, time\n{program}")
        file.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {shlex.quote(str(script))} "$@"\n')
        file.chmod(0o700)
        environment = {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "ALIVE": str(alive), **variables}
        model = load_model(name, environment=environment)
        assert isinstance(model, SubprocessModel)
        return model

    return install


def failure(model: SubprocessModel, deadline: float = 30.0) -> ModelFailed:
    with pytest.raises(ModelFailed) as caught:
        model.ask(QUESTION, deadline=deadline)
    assert "\n" not in str(caught.value)
    assert SECRET not in str(caught.value)
    return caught.value


def result(**more: object) -> str:
    usage = {"input_tokens": 3, "cache_read_input_tokens": 20, "output_tokens": 5}
    return json.dumps({"type": "result", "subtype": "success", "is_error": False, "usage": usage, **more})


def test_claude_gets_the_question_on_its_standard_input_in_an_empty_folder(install: Install, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    model = install(
        f"""
flag = sys.argv.index("--system-prompt-file") + 1
seen = dict(line=sys.argv[1:], text=sys.stdin.read(), system=open(sys.argv[flag]).read(), cwd=os.getcwd(),
            files=os.listdir("."), environment=dict(os.environ))
open({str(seen)!r}, "w").write(json.dumps(seen))
print({result(structured_output={"ok": True})!r})
""",
        "claude:haiku",
        CLAUDECODE="1",
    )

    assert model.ask(QUESTION, deadline=30) == Answer({"ok": True}, 23, 5)

    saw = json.loads(seen.read_text())
    assert saw["text"] == SECRET
    assert saw["system"] == "You are terse."
    assert saw["files"] == []
    assert not Path(saw["cwd"]).exists(), "nothing stays"
    line = " ".join(saw["line"])
    assert SECRET not in line
    assert "terse" not in line
    for flag in ("-p", "--safe-mode", "--no-session-persistence", "--model haiku", "--json-schema"):
        assert flag in line
    assert saw["line"][saw["line"].index("--tools") + 1] == ""
    assert saw["environment"]["MEMSHEAF_INSIDE"] == "1"
    assert saw["environment"]["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] == "77"
    assert "CLAUDECODE" not in saw["environment"]


def test_codex_gets_the_shape_in_a_file_and_can_do_nothing_else(install: Install, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    events = [
        {"type": "thread.started"},
        {"type": "item.completed", "item": {"type": "reasoning", "text": "{}"}},
        {"type": "item.completed", "item": {"type": "agent_message", "text": '{"ok": false}'}},
        {"type": "turn.completed", "usage": {"input_tokens": 50, "output_tokens": 7}},
    ]
    model = install(
        f"""
flag = sys.argv.index("--output-schema") + 1
seen = dict(line=sys.argv[1:], text=sys.stdin.read(), schema=json.load(open(sys.argv[flag])))
open({str(seen)!r}, "w").write(json.dumps(seen))
print({chr(10).join(map(json.dumps, events))!r})
""",
        "codex:gpt-x",
    )

    assert model.ask(QUESTION, deadline=30) == Answer({"ok": False}, 50, 7)

    saw = json.loads(seen.read_text())
    assert saw["text"] == f"You are terse.\n\n{SECRET}"
    assert saw["schema"] == {**SCHEMA, "additionalProperties": False}
    line = " ".join(saw["line"])
    assert SECRET not in line
    for flag in ("exec", "--ephemeral", "--ignore-user-config", "--sandbox read-only", "features.shell_tool=false"):
        assert flag in line
    assert saw["line"][-3:] == ["--model", "gpt-x", "-"]


def test_a_command_that_is_not_installed_is_named_with_how_to_get_it(tmp_path: Path) -> None:
    for name in ("claude", "codex:gpt-5"):
        with pytest.raises(ModelFailed, match="not on the PATH") as caught:
            load_model(name, environment={"PATH": str(tmp_path)})
        assert "npm install" in caught.value.hint


def test_it_is_not_asked_from_within_itself(install: Install) -> None:
    assert "from within itself" in str(failure(install(f"print({result()!r})", MEMSHEAF_INSIDE="1")))


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("", "what it printed is no JSON"),
        ("print('hello')", "what it printed is no JSON"),
        ("print('[]')", "not a result"),
        ("print('[' * 200_000)", "what it printed is no JSON"),
        (f"print({result(result='I cannot.')!r})", "it is no JSON"),
        (f"print({result(structured_output=[])!r})", "not of the type object"),
        (f"print({result(structured_output={'no': 1})!r})", "it has no 'ok'"),
        (f"print({result(structured_output={'ok': chr(0xD800)})!r})", "half characters"),
        (f"print({result(is_error=True, result='Invalid API key')!r}); sys.exit(0)", "Invalid API key"),
        ("print('Please run /login', file=sys.stderr); sys.exit(7)", "ended with 7: Please run /login"),
        ("os.kill(os.getpid(), 9)", "ended with -9"),
        ("sys.stdout.buffer.write(bytes(range(256)))", "no JSON"),
    ],
)
def test_whatever_is_no_answer_is_told_in_one_line(install: Install, program: str, said: str) -> None:
    assert said in str(failure(install(program)))


def test_a_flood_is_left_at_its_size(install: Install, alive: Path) -> None:
    model = install(f"{HOLDING}\nwhile True: sys.stdout.write('x' * 65536)")

    with Reader(alive) as reader:
        assert "printed more than 4 MB" in str(failure(model))
        assert reader.ends()


STUBBORN = f"""
{HOLDING}
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP): signal.signal(number, signal.SIG_IGN)
if os.fork() == 0:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP): signal.signal(number, signal.SIG_IGN)
os.write(pipe, b"+")
while True: time.sleep(60)
"""


def test_when_an_error_of_ours_comes_in_between_the_command_is_dead_too(install: Install, alive: Path) -> None:
    model = install(STUBBORN)
    program = (
        "import signal\n"
        "from memsheaf.llm import Question, load_model\n"
        "signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(KeyError('ours')))\n"
        f"try: load_model('claude').ask(Question('', 'x', {SCHEMA!r}), deadline=600)\n"
        "except KeyError: print('caught', flush=True); input()\n"
    )
    with (
        Reader(alive) as reader,
        subprocess.Popen(
            [sys.executable, "-c", program],
            env=dict(model._environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as ours,
    ):
        assert reader.reads(b"++"), "both are running"
        ours.send_signal(signal.SIGALRM)
        assert ours.stdout is not None
        assert ours.stdout.readline() == b"caught\n"
        assert reader.ends(), "while we are still alive"
        ours.communicate(b"\n")


class Reader:
    """Reads what the processes of a command write, until the last of them is dead."""

    def __init__(self, fifo: Path) -> None:
        self._fifo = fifo

    def __enter__(self) -> Reader:
        self._fd = os.open(self._fifo, os.O_RDONLY | os.O_NONBLOCK)  # without waiting for somebody who writes
        os.set_blocking(self._fd, True)
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def reads(self, wanted: bytes) -> bool:
        got = b""
        while len(got) < len(wanted) and (part := self._next()):
            got += part
        return got == wanted

    def ends(self) -> bool:
        """Read to the end, which comes when nobody holds the other side any more; False when it does not come."""
        while part := self._next():
            pass
        return part is not None

    def _next(self) -> bytes | None:
        return os.read(self._fd, 65_536) if select.select([self._fd], [], [], 30)[0] else None
