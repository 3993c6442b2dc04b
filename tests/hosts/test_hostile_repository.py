"""A cloned repository in which every file that may name a program names one: no command of ours runs any of them."""

from __future__ import annotations

import io
import json
import os
import subprocess
from pathlib import Path

import pytest

from hosts.test_install import home, run
from memsheaf.cli import main
from memsheaf.hosts.clients import CLIENTS
from memsheaf.hosts.installing import Placement, make_targets, program_words
from web.web_site import csrf_of, serve

__all__ = ["home"]

MEMORY = "---\nname: Port\ndescription: the port\ntype: project\n---\nThe port is in app.py:1, `PORT`.\n"
GIT_PROGRAMS = [
    *("core.fsmonitor", "core.pager", "core.editor", "core.sshCommand", "core.askPass", "core.gitProxy"),
    *("core.alternateRefsCommand", "diff.external", "diff.x.textconv", "diff.x.command", "filter.x.clean"),
    *("filter.x.smudge", "filter.x.process", "merge.x.driver", "gpg.program", "gpg.ssh.program", "credential.helper"),
    *("uploadpack.packObjectsHook", "sequence.editor", "interactive.diffFilter", "pager.log", "pager.grep"),
    *("alias.log", "alias.grep", "alias.ls-files", "remote.origin.uploadpack", "remote.origin.vcs", "browser.x.cmd"),
]
GIT_HOOKS = ["post-index-change", "fsmonitor-watchman", "post-checkout", "pre-commit", "reference-transaction"]


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    return tmp_path / "mark"


@pytest.fixture
def script(tmp_path: Path, mark: Path) -> Path:
    """A program that leaves a mark, and answers as a server and a hook of ours would."""
    path = tmp_path / "clone" / "memsheaf"
    path.parent.mkdir()
    path.write_text(f"""#!/bin/sh\necho "$0 $*" >> '{mark}'\necho '{{"serverInfo": 1}}'\n""")
    path.chmod(0o755)
    return path


@pytest.fixture
def clone(script: Path) -> Path:
    """A repository that brings settings for every host, a git configuration, hooks and programs along."""
    root = script.parent
    for words in (
        ["init", "-q"],
        ["config", "user.email", "ana@example.com"],
        ["config", "user.name", "Ana"],
        ["commit", "-q", "--allow-empty", "-m", "start"],
        *(["config", key, str(script)] for key in GIT_PROGRAMS),
        ["config", "core.hooksPath", str(root / "hooks")],
        ["config", "log.showSignature", "true"],
    ):
        subprocess.run(["git", "-C", str(root), *words], check=True)
    for folder in ("hooks", "bin"):
        (root / folder).mkdir()
    for name in ("git", "rg", "claude", "codex", "less", "vi", "ssh", "python", "bin/git", "bin/claude"):
        (root / name).symlink_to(script)
    for hook in GIT_HOOKS:
        (root / "hooks" / hook).symlink_to(script)
    (root / ".gitattributes").write_text("* filter=x diff=x merge=x\n")
    (root / ".env").write_text(f"MEMSHEAF_MODEL=claude\nEDITOR={script}\nPATH={root}\n")
    (root / "sitecustomize.py").write_text(f"import os\nos.system({str(script)!r})\n")
    (root / "memsheaf.py").write_text(f"import os\nos.system({str(script)!r})\n")
    (root / "app.py").write_text("PORT = 8080\n")
    (root / "AGENTS.md").write_text("- Tests run with make quick in this repository.\n")
    (root / ".cursorrules").write_text("Never touch the generated files.\n")
    (root / ".memory").mkdir()
    (root / ".memory" / "project_tests.md").write_text(MEMORY)
    for host in CLIENTS:
        words = [str(script)] if host != "cursor" else ["sh", "-c", f"{script} cursor", "mcp"]
        for target in make_targets(host, Placement(words, {}, project=str(root))):
            path = Path(target.path)
            path.parent.mkdir(parents=True, exist_ok=True)
            text = json.dumps(target.wanted) if target.format == "json" else ""
            if target.format == "toml":
                text = f'[mcp_servers.memsheaf]\ncommand = "{script}"\nargs = ["mcp"]\n'
            path.write_text(target.wanted["text"] if target.format == "text" and target.wanted else text)
    return root


def test_doctor_runs_nothing_that_a_repository_names(
    clone: Path, home: Path, mark: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(clone)
    for is_trusted in (False, True):
        if is_trusted:
            run(home, "trust", "--yes", path=os.environ["PATH"])
        said = run(home, "doctor", path=os.environ["PATH"])
        for name in (
            ".mcp.json",
            ".codex/config.toml",
            ".cursor/mcp.json",
            ".gemini/settings.json",
            ".zed/settings.json",
        ):
            assert f"not tried, since it is not exactly ours: {clone / name}: " in said
        assert not mark.exists(), mark.read_text()


def test_a_hostile_line_reaches_no_terminal(clone: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(clone)
    entry = {"command": "\x1b]0;owned\x07", "args": ["two\nlines", "\u202e", ["x"], None, "mcp"]}
    (clone / ".mcp.json").write_text(json.dumps({"mcpServers": {"memsheaf": entry}}))
    (clone / ".opencode/plugin/memsheaf.js").write_text("const PROGRAM = [" + "[" * 100_000 + "]\n")
    (clone / ".gemini/settings.json").write_text('{"mcpServers": {"memsheaf": ["id"]}, "hooks": {"Stop": [[[7]]]}}')

    said = run(home, "doctor", path=os.environ["PATH"])

    assert "owned" in said
    assert not {"\x1b", "\x07", "\u202e"} & set(said)


def test_the_button_that_tries_the_agents_runs_nothing_that_a_repository_names(
    clone: Path, tmp_path: Path, mark: Path
) -> None:
    with serve(tmp_path / "web" / "home", cwd=clone) as site:
        answer = site.ask("POST", "/settings/agents", {"csrf": csrf_of(site)})
    assert answer.status == 200
    assert "not tried, since it is not exactly ours" in answer.text
    assert not mark.exists(), mark.read_text()


COMMANDS = [
    ["list"],
    ["remember", "The staging server is called marlin"],
    ["search", "staging"],
    ["recall", "where is the staging server"],
    ["trust", "--yes"],
    ["remember", "Deploys run from app.py:1 in `PORT`"],
    ["list"],
    ["remember", "It is 8080.", "--name", "Port", "-t", "project", "--cite", "app.py:1", "--reason", "r"],
    ["audit"],
    ["log"],
    ["doctor"],
    ["import", "--from", "agents-md", "--yes"],
    ["import", "--from", "cursor-rules", "--yes"],
    ["install", "claude-code", "codex", "cursor", "--project", "--dry-run"],
    ["notes"],
    ["chat", "--print", "Where is the staging server?"],
    ["undo"],
    ["hook", "claude-code", "SessionStart"],
    ["hook", "claude-code", "UserPromptSubmit"],
    ["hook", "claude-code", "Stop"],
    ["hook", "claude-code", "SessionEnd"],
    ["erase", "project_deploys-run-app-py-1-port.md", "--yes"],
    ["mcp"],
]


def test_no_command_runs_what_a_repository_names(
    clone: Path, home: Path, mark: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subprocess.run(["git", "-C", str(clone), "status"], check=True, capture_output=True)
    assert mark.exists(), "the trap does not work"
    mark.unlink()
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MEMSHEAF_")}
    environment = kept | {"HOME": str(home), "MEMSHEAF_HOME": str(home / "memories"), "MEMSHEAF_EMBEDDER": "none"}
    event = {"session_id": "s1", "prompt": "what is the port?", "cwd": str(clone), "transcript_path": "AGENTS.md"}
    monkeypatch.chdir(clone)
    for words in COMMANDS:
        if words[0] in ("hook", "mcp"):  # as a host starts them
            data = json.dumps(event).encode() if words[0] == "hook" else b""
            done = subprocess.run([*program_words(), *words], env=environment, input=data, capture_output=True)
            code, printed = done.returncode, done.stderr.decode()
        else:
            out = io.StringIO()
            code = main(words, environment=environment, stdin=io.StringIO(), stdout=out, stderr=out)
            printed = out.getvalue()
        assert "Traceback" not in printed
        assert code == (words[0] == "install"), (words, printed)  # others' files are left alone
        assert not mark.exists(), (words, mark.read_text())
