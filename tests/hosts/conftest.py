"""A home, two repositories, and hooks as a host runs them: in processes of their own."""

from __future__ import annotations

import fcntl
import io
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from forks import run_program
from memsheaf.cli import main


class HookRunner:
    """Runs `memsheaf` as a host and a person do, in one home."""

    def __init__(self, base: Path) -> None:
        self.home = base / "home with space"
        self.project = base / "shop"
        self.other = base / "blog"
        for folder in (self.project, self.other):
            (folder / ".git").mkdir(parents=True)
        self.runtime = Path(tempfile.mkdtemp(prefix="run-", dir="/tmp"))  # the path of a socket has to be short
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("MEMSHEAF_", "CLAUDE"))}
        self.environment = kept | {
            "MEMSHEAF_HOME": str(self.home),
            "MEMSHEAF_EMBEDDER": "none",
            "XDG_RUNTIME_DIR": str(self.runtime),
            "HOME": str(base),
        }

    def run(
        self, *words: str, data: bytes = b"", cwd: Path | None = None, **more: str
    ) -> subprocess.CompletedProcess[bytes]:
        if words[0] != "hook":  # what a person types; only hooks have to be processes
            out, err, here = io.StringIO(), io.StringIO(), os.getcwd()
            os.chdir(cwd or self.project)
            try:
                code = main(words, environment=self.environment | more, stdin=io.StringIO(), stdout=out, stderr=err)
            finally:
                os.chdir(here)
            return subprocess.CompletedProcess(words, code, out.getvalue().encode(), err.getvalue().encode())
        return subprocess.CompletedProcess(
            words, *run_program(words, self.environment | more, cwd or self.project, input=data)
        )

    def raw(self, event: str, data: bytes, *, host: str = "claude-code", cwd: Path | None = None, **more: str) -> str:
        """What a hook prints; it must exit with 0, and say nothing on stderr."""
        done = self.run("hook", host, event, data=data, cwd=cwd, **more)
        assert done.returncode == 0
        assert done.stderr == b""
        return done.stdout.decode()

    def hook(
        self, event: str, *, host: str = "claude-code", cwd: Path | None = None, **payload: Any
    ) -> dict[str, Any]:
        out = self.raw(event, json.dumps({"session_id": "s1", **payload}).encode(), host=host, cwd=cwd)
        found: dict[str, Any] = json.loads(out) if out else {}
        return found

    def context(self, event: str, **payload: Any) -> str:
        """What a hook puts into the context."""
        return str(self.hook(event, **payload).get("hookSpecificOutput", {}).get("additionalContext", ""))

    def remember(self, text: str, *words: str, cwd: Path | None = None) -> None:
        done = self.run("remember", text, *words, cwd=cwd)
        assert done.returncode == 0, done.stderr

    def listed(self, cwd: Path | None = None) -> list[str]:
        done = self.run("list", "--json", cwd=cwd)
        return sorted(row["path"] for row in json.loads(done.stdout)["memories"])

    @property
    def log(self) -> str:
        path = self.home / "state" / "hooks.log"
        return path.read_text() if path.exists() else ""

    def transcript(self, name: str, *said: tuple[str, str]) -> Path:
        """Append messages to a transcript as Claude Code writes it."""
        path = self.home.parent / f"{name}.jsonl"
        start = len(path.read_text().splitlines()) if path.exists() else 0
        with path.open("a") as file:
            for number, (role, text) in enumerate(said, start):
                line = {
                    "type": role,
                    "uuid": f"{name}-{number:020}",
                    "sessionId": name,
                    "timestamp": "2026-11-17T08:00:00Z",
                    "message": {"role": role, "content": text},
                }
                file.write(json.dumps(line, separators=(",", ":")) + "\n")
        return path

    def work(self, cwd: Path | None = None) -> None:
        """Learn now, as the detached worker does."""
        done = self.run("hook", "work", str(cwd or self.project), cwd=cwd)
        assert done.returncode == 0, done.stderr
        for lock in (self.home / "state").rglob("hook-worker.lock"):  # or one that a hook has started is at it
            with lock.open() as file:
                fcntl.flock(file, fcntl.LOCK_EX)


@pytest.fixture
def hooks(tmp_path: Path) -> Iterator[HookRunner]:
    runner = HookRunner(tmp_path)
    yield runner
    shutil.rmtree(runner.runtime)


@pytest.fixture
def eventually() -> Callable[[Callable[[], object]], None]:
    def wait(condition: Callable[[], object]) -> None:
        end = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < end, "it did not happen within a minute"
            time.sleep(0.05)

    return wait
