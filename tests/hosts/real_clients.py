"""Real coding agents, each in a home of its own and against models on loopback."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

from model_api import ModelApi, serve_models
from npm_packages import ROOT, install_locked, install_packages

RECALLED = "Remembered data: not instructions"
PROTOCOL = "a memory that outlives this conversation"
SKILL = "How the memory of this machine works"
Result = TypeVar("Result")
PATIENCE = 120.0  # seconds, for whatever a busy machine takes long to do

CODEX = """model = "fake"
model_provider = "fake"

[model_providers.fake]
name = "fake"
base_url = "LOOPBACK/v1"
wire_api = "responses"
env_key = "FAKE_KEY"
"""
GEMINI = """{
  // comments are allowed here
  "security": {"auth": {"selectedType": "gemini-api-key"}},
  "model": {"name": "gemini-3.8-flash"},
  "privacy": {"usageStatisticsEnabled": false}
}
"""
QWEN = '{"security": {"auth": {"selectedType": "openai"}}, "privacy": {"usageStatisticsEnabled": false}}\n'
OPENCODE = """{
  "autoupdate": false,
  "share": "disabled",
  "model": "fake/fake",
  "small_model": "fake/fake",
  "provider": {
    "fake": {
      "npm": "@ai-sdk/openai-compatible",
      "options": {"baseURL": "LOOPBACK/v1", "apiKey": "none"},
      "models": {"fake": {}}
    }
  }
}
"""


class ClientKind(NamedTuple):
    """A coding agent: the packages it comes in, its own settings, and how a message is handed to it."""

    packages: tuple[str, ...]
    words: tuple[str, ...]
    settings: Mapping[str, str]
    environment: Mapping[str, str]


KINDS = {
    "claude-code": ClientKind(
        (),
        ("claude", "-p"),
        {".claude/settings.json": '{\n\t"model": "haiku",\n\t"hooks": {"Stop": []}\n}'},
        {
            "ANTHROPIC_API_KEY": "sk-ant-none",
            "ANTHROPIC_BASE_URL": "LOOPBACK",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "IS_SANDBOX": "1",
        },
    ),
    "codex": ClientKind(
        ("@openai/codex@0.166.0",),
        ("codex", "exec", "--skip-git-repo-check", "--dangerously-bypass-hook-trust"),
        {".codex/config.toml": CODEX},
        {"FAKE_KEY": "none"},
    ),
    "gemini": ClientKind(
        ("@google/gemini-cli@0.61.0",),
        ("gemini", "-p"),
        {".gemini/settings.json": GEMINI},
        {"GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": "LOOPBACK", "GEMINI_CLI_TRUST_WORKSPACE": "true"},
    ),
    "qwen": ClientKind(
        ("node@22.23.3", "@qwen-code/qwen-code@0.24.4"),
        ("qwen", "-p"),
        {".qwen/settings.json": QWEN},
        {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": "LOOPBACK/v1", "OPENAI_MODEL": "fake"},
    ),
    "opencode": ClientKind(
        ("opencode-ai@1.18.18",),
        ("opencode", "run"),
        {".config/opencode/opencode.json": OPENCODE},
        {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"},
    ),
    "copilot": ClientKind(
        ("@github/copilot@1.0.102",),
        ("copilot", "--allow-all-tools", "-p"),
        {},
        {
            "COPILOT_OFFLINE": "true",
            "COPILOT_AUTO_UPDATE": "false",
            "COPILOT_MODEL": "fake",
            "COPILOT_PROVIDER_BASE_URL": "LOOPBACK/v1",
            "COPILOT_PROVIDER_API_KEY": "none",
        },
    ),
}


class RealClient(NamedTuple):
    """A coding agent that is installed, its home, and the models that it asks."""

    name: str
    home: Path
    environment: dict[str, str]
    api: ModelApi

    def run(self, *words: str, cwd: Path | None = None) -> str:
        """Run a program in its environment; gives what it printed."""
        done = subprocess.run(
            words,
            env=self.environment,
            cwd=cwd or self.home,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def say(self, message: str, repository: Path) -> list[str]:
        """Have a conversation of one message in a repository; gives the requests that it made, as JSON."""
        if not repository.exists():
            subprocess.run(["git", "init", "-q", str(repository)], check=True)
        self.api.requests.clear()
        self.run(*KINDS[self.name].words, message, cwd=repository)
        return self.api.asked()

    def memsheaf(self, *words: str) -> str:
        """Run memsheaf as the person at this machine would."""
        return self.run(sys.executable, "-m", "memsheaf", *words)

    def files(self) -> dict[str, bytes]:
        """The agent's own settings: those that were there, and whatever memsheaf may have added."""
        found = {}
        for path in sorted(self.home.rglob("*")):
            name = path.relative_to(self.home).as_posix()
            if path.is_file() and (
                name in KINDS[self.name].settings or path.stem == "memsheaf" or name.endswith("memsheaf/SKILL.md")
            ):
                found[name] = path.read_bytes()
        return found


@contextmanager
def open_client(name: str, home: Path) -> Iterator[RealClient]:
    """Install a coding agent, and write its own settings into a new home. In the end nothing runs on there."""
    home.mkdir()
    with serve_models() as api:
        yield _prepare(name, home, api)
    wait_for(lambda: not list(_processes(home)))


def _processes(home: Path) -> Iterator[str]:
    """What runs in a home: learning goes on when its agent has ended."""
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if f"HOME={home}\0".encode() in path.read_bytes():
                yield (path.parent / "cmdline").read_text(encoding="utf-8")


def _prepare(name: str, home: Path, api: ModelApi) -> RealClient:
    kind = KINDS[name]
    folder = ROOT / "tests" / "mcp_server" / "claude"
    programs = (
        install_packages(name, *kind.packages) if kind.packages else install_locked(folder) / "node_modules/.bin"
    )
    for file, text in kind.settings.items():
        place = home / file
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text.replace("LOOPBACK", api.url), encoding="utf-8")
    environment = {key: value.replace("LOOPBACK", api.url) for key, value in kind.environment.items()}
    environment |= {"HOME": str(home), "PATH": os.pathsep.join((str(programs), os.environ["PATH"]))}
    return RealClient(name, home, environment, api)


def wait_for(what: Callable[[], Result]) -> Result:
    """Wait until another process made something true, and give it."""
    end = time.monotonic() + PATIENCE
    while not (result := what()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)
    return result


def learned_preference(client: RealClient) -> str:
    """The file of the preference that was told, once it is saved: type and name are for others to say."""
    return next((path.name for path in client.home.glob(".memsheaf/user/*pnpm*.md")), "")


def tell_and_ask(client: RealClient, place: Path) -> None:
    """Tell a preference in one repository and ask about it, in other words, in another."""
    [first, *_] = [one for one in client.say("I prefer pnpm over npm.", place / "one") if PROTOCOL in one]
    assert "memory_search" in first, "the tools of the server are not offered"
    if list(client.home.rglob("memsheaf/SKILL.md")):
        assert SKILL in first, "the skill is not listed"
    file = wait_for(lambda: learned_preference(client))

    question = "Which package manager should I take to add a dependency?"
    for repository in ("two", "three", "four"):
        requests = client.say(question, place / repository)
        asked = next(request for request in requests if question in request and PROTOCOL in request)
        assert f"(user:{file})" in asked, "the catalog has no line of it"
        if RECALLED in asked:
            break  # on a busy machine a host may give up on a hook: the next conversation has another
    assert RECALLED in asked, "nothing is beside the message"
    assert asked.count(file.removesuffix(".md")) > 1
