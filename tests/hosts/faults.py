"""Fault runs of the hooks: kills at random moments, a full disk, a locked store, a missing index, a short deadline.

python tests/hosts/faults.py [TURNS] [SEED]      # 1,000 when left out; `make crash` runs it

A host says things in several conversations and runs a hook for each event; some are killed or hindered. It must never
see a failure, and in the end the inbox has each turn that ended exactly once.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parent.parent))

from hosts.conftest import HookRunner

FAULTS = ("kill", "deadline", "index", "lock", "disk")
TURNS = 1_000


def run(base: Path, turns: int, seed: int) -> dict[str, int]:
    """So many turns; what was done, by name. Raises AssertionError when the host sees a failure or a turn is lost."""
    random = Random(seed)
    hooks = HookRunner(base)
    hooks.environment["MEMSHEAF_POLICY"] = "suggest"
    hooks.remember("We deploy the shop on Fridays")
    count = dict.fromkeys((*FAULTS, "answered"), 0)
    said: list[str] = []
    for number in range(turns):
        name = f"talk{number % 7}"
        text = f"Remember number {number}: the service s{number} listens on port {10_000 + number}."
        path = hooks.transcript(name)
        said.append(text)
        for event in ("UserPromptSubmit", "Stop"):
            if event == "Stop":
                hooks.transcript(name, ("user", text), ("assistant", f"Noted {number}."))
            payload = {"session_id": name, "transcript_path": str(path), "prompt": text, "prompt_id": f"{number}"}
            fault = random.choice(FAULTS) if random.random() < 0.3 else ""
            count[fault or "answered"] += 1
            _one(hooks, random, fault, event, json.dumps(payload).encode())
    for number in range(min(7, turns)):  # the host ends each conversation, and nothing hinders that
        name = f"talk{number}"
        path = hooks.transcript(name)
        hooks.hook("Stop", session_id=name, transcript_path=str(path))
    _check(hooks, said)
    return count


def _one(hooks: HookRunner, random: Random, fault: str, event: str, data: bytes) -> None:
    environment, held = dict(hooks.environment), None
    cache, database = hooks.home / "cache", hooks.home / "state" / "state.db"
    if fault == "deadline":
        environment["MEMSHEAF_HOOK_MS"] = str(random.randint(10, 200))
    elif fault == "index":
        shutil.rmtree(cache, ignore_errors=True)
    elif fault == "disk":  # no file may grow beyond this: what a full disk looks like to a program
        environment["MEMSHEAF_TEST_FILE_SIZE"] = str(random.choice((0, 64, 512)))
    elif fault == "lock" and database.exists():
        environment["MEMSHEAF_HOOK_MS"] = "200"
        held = _hold(database)
    limit = environment.pop("MEMSHEAF_TEST_FILE_SIZE", "")
    words = [sys.executable, "-m", "memsheaf", "hook", "claude-code", event]
    if limit:
        words = [sys.executable, "-c", _LIMITED, limit, *words]
    process = subprocess.Popen(
        words,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=hooks.project,
        env=environment,
    )
    if fault == "kill":
        assert process.stdin
        process.stdin.write(data)
        process.stdin.close()
        time.sleep(random.random() * 0.25)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        process.stderr.close()
    else:
        out, errors = process.communicate(data, timeout=60)
        assert process.returncode == 0, (fault, event, errors)
        assert not errors, (fault, event, errors)
        assert not out or json.loads(out), (fault, event, out)
    if held:
        held.kill()
        held.wait()


_LIMITED = """
import os, resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
os.execv(sys.argv[2], sys.argv[2:])
"""


def _hold(path: Path) -> subprocess.Popen[bytes]:
    """A process that writes to a database until it is killed."""
    code = (
        "import sqlite3,sys,time; db=sqlite3.connect(sys.argv[1],isolation_level=None,timeout=9);"
        "db.execute('BEGIN IMMEDIATE'); print('held',flush=True); time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE)
    assert process.stdout
    process.stdout.readline()
    process.stdout.close()
    return process


def _check(hooks: HookRunner, said: list[str]) -> None:
    """What the inbox has, once the worker has read all transcripts, and nothing was learned yet."""
    code = """
import json, os, sys
from memsheaf import config
from memsheaf.hosts.conversation import conversations
from memsheaf.hosts.worker import read_conversation
from memsheaf.sheaf import Sheaf
with Sheaf.open(by="extraction") as layers:
    for name in conversations(layers.settings.state):
        read_conversation(layers, name)
        read_conversation(layers, name)
    print(json.dumps([m.text for t in layers.learning.inbox.turns() for m in t.messages if m.role == "user"]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=hooks.project, env=hooks.environment, capture_output=True, check=True
    )
    found = json.loads(done.stdout)
    assert sorted(found) == sorted(said), (len(found), len(said), sorted(set(said) - set(found))[:3])


def main() -> int:
    given = list(map(int, sys.argv[1:3]))
    turns, seed = given[0] if given else TURNS, given[1] if len(given) > 1 else int(time.time())
    began = time.time()
    with tempfile.TemporaryDirectory() as folder:
        count = run(Path(folder), turns, seed)
    told = ", ".join(f"{number} {name}" for name, number in count.items())
    print(f"{turns} turns, seed {seed}: {told}; every turn in the inbox once ({time.time() - began:.0f} s)")
    return 0


if __name__ == "__main__":
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.exit(main())
