"""`memsheaf install` and `uninstall` as a person runs them: on files that are read-only, broken, linked or in use."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
import tomllib
from itertools import product
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pytest

from hosts.settings_corpus import read_jsonc
from hosts.test_settings_files import snapshot
from memsheaf.cli import main
from memsheaf.hosts.clients import CLIENTS
from memsheaf.hosts.installing import HOSTS, Placement, make_targets
from memsheaf.hosts.settings_files import SettingsFiles

SETTINGS = """\
{
  // mine
  "theme": "dark",
  "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "say done"}]}]}
}
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


class Terminal(io.StringIO):
    """A person who answers, and what they see."""

    def isatty(self) -> bool:
        return True


def run(home: Path, *words: str, code: int = 0, path: str = "", typed: str = "", **environment: str) -> str:
    """Run a command with that home, in a terminal if a person typed something; what it prints."""
    stream = Terminal if typed else io.StringIO
    out, err = stream(), stream()
    variables = {"HOME": str(home), "PATH": path, "MEMSHEAF_STATE": str(home.parent / "state"), **environment}
    found = main(words, environment=variables, stdin=stream(typed), stdout=out, stderr=err)
    assert found == code, out.getvalue() + err.getvalue()
    return out.getvalue() + err.getvalue()


@pytest.mark.parametrize("name", HOSTS)
def test_every_host_gets_what_its_table_says_and_gives_it_back(name: str, home: Path) -> None:
    before = snapshot(home.parent)
    run(home, "install", name, "--yes")
    for target in make_targets(name, Placement(["memsheaf"], {"HOME": str(home)})):
        assert os.path.exists(target.path), target.path
    assert "everything is there already" in run(home, "install", name, "--yes")
    run(home, "uninstall", name, "--yes")
    assert snapshot(home.parent) == before


def test_only_hosts_that_are_found_are_installed_in(home: Path) -> None:
    assert "no coding agent was found" in run(home, "install", "--yes", code=1)
    (home / ".cursor").mkdir()
    commands = home / "bin"
    commands.mkdir()
    (commands / "codex").write_text("#!/bin/sh\n")
    (commands / "codex").chmod(0o755)
    answer = json.loads(run(home, "install", "--yes", "--json", path=str(commands)))
    assert [host["host"] for host in answer["hosts"]] == ["codex", "cursor"]
    assert all(host["found"] for host in answer["hosts"])


def test_a_dry_run_shows_a_diff_and_changes_nothing(home: Path) -> None:
    (home / ".gemini").mkdir()
    (home / ".gemini" / "settings.json").write_text(SETTINGS)
    before = snapshot(home.parent)
    said = run(home, "install", "--dry-run")
    assert '+  "mcpServers": {' in said
    assert '-  "theme"' not in said
    assert snapshot(home.parent) == before


def test_nobody_is_asked_without_a_terminal(home: Path) -> None:
    assert "--yes" in run(home, "install", "codex", code=2)
    assert not (home / ".codex").exists()


def test_a_person_sees_a_diff_and_is_asked(home: Path) -> None:
    (home / "codex").write_text("#!/bin/sh\n")
    (home / "codex").chmod(0o755)
    said = run(home, "install", typed="n\n", code=1, path=str(home))
    assert "[mcp_servers.memsheaf]" in said
    assert "Install (3 files)? [y/N]" in said
    assert "Nothing was changed" in said
    assert not (home / ".codex").exists()
    said = run(home, "install", typed="y\ny\n", path=str(home))
    assert "300 requests a day" in said
    assert tomllib.loads((home / ".memsheaf" / "config.toml").read_text())["model"]["name"] == "codex"
    (home / ".codex" / "hooks.json").unlink()
    assert "requests a day" not in run(home, "install", typed="y\n", path=str(home))  # it is asked once
    said = run(home, "uninstall", typed="y\n")
    assert "-[mcp_servers.memsheaf]" in said
    assert not (home / ".codex").exists()


def test_a_file_that_cannot_be_edited_is_left_alone_and_what_to_paste_is_told(home: Path) -> None:
    folder = home / ".gemini"
    folder.mkdir()
    path = folder / "settings.json"
    for text, mode, why in (
        (b'{"hooks": [1, }', 0o600, "line 1 is not JSON"),
        (b"{}\n", 0o444, "read-only"),
        (b"[]", 0o600, "not an object"),
        (b'{"mcpServers": null}', 0o600, "mcpServers in it is no object"),
        (b"\xff\xfe{}", 0o600, "not UTF-8"),
        (b"{a: 1}", 0o600, "line 1 is not JSON"),
        (b'{"a":' + b"[" * 100_000, 0o600, "nested too deeply"),
    ):
        path.unlink(missing_ok=True)
        path.write_bytes(text)
        path.chmod(mode)
        said = run(home, "install", "gemini", "--yes", code=1)
        assert why in said
        assert '"memsheaf": {' in said
        assert path.read_bytes() == text
        assert "SKILL.md" in run(home, "uninstall", "--yes")
        assert path.read_bytes() == text
        assert os.listdir(folder) == ["settings.json"]
        assert "no agent" in run(home, "uninstall", "--yes")
    path.unlink()
    path.mkdir()
    assert "was left alone" in run(home, "install", "gemini", "--yes", code=1)


def test_tables_written_in_another_way_are_refused(home: Path) -> None:
    (home / ".codex").mkdir()
    path = home / ".codex" / "config.toml"
    path.write_text('mcp_servers = { other = { command = "x" } }\n')
    assert "[mcp_servers.memsheaf]" in run(home, "install", "codex", "--yes", code=1)
    for text in ("[[mcp_servers]]\nx = 1\n", "mcp_servers = 3\n"):
        path.write_text(text)
        assert "was left alone" in run(home, "install", "codex", "--yes", code=1)
        assert run(home, "uninstall", "--yes")
    path.write_text('[mcp_servers]\nmemsheaf = { command = "/gone/memsheaf", args = ["mcp"] }\n')
    assert "left alone" in run(home, "install", "codex", "--yes", code=1)
    assert "by hand" in run(home, "uninstall", "codex", "--yes", code=1)


def test_a_server_with_a_persons_options_keeps_them(home: Path) -> None:
    path = home / ".claude.json"
    entry = {"command": "/gone/memsheaf", "args": ["mcp", "--read-only"], "env": {"A": "1"}, "alwaysLoad": False}
    path.write_text(json.dumps({"mcpServers": {"memsheaf": entry}}))
    run(home, "install", "claude-code", "--yes")
    found = json.loads(path.read_text())["mcpServers"]["memsheaf"]
    assert os.path.exists(found["command"])
    assert found["args"][-2:] == ["mcp", "--read-only"]
    assert (found["env"], found["alwaysLoad"], found["type"]) == ({"A": "1"}, False, "stdio")
    remote = json.dumps({"mcpServers": {"memsheaf": {"type": "http", "url": "http://127.0.0.1:8377/mcp"}}})
    path.write_text(remote)
    run(home, "install", "claude-code", "--yes")
    assert path.read_text() == remote


def test_hooks_of_others_in_our_group_stay(home: Path) -> None:
    run(home, "install", "claude-code", "--yes")
    path = home / ".claude" / "settings.json"
    found = json.loads(path.read_text())
    found["hooks"]["Stop"][0]["hooks"].append({"type": "command", "command": "say done"})
    path.write_text(json.dumps(found, indent=4))
    run(home, "uninstall", "--yes")
    assert json.loads(path.read_text()) == {
        "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "say done"}]}]}
    }


def test_without_hooks_only_the_server_and_its_permission_are_there(home: Path) -> None:
    run(home, "install", "claude-code", "opencode", "--yes")
    run(home, "install", "claude-code", "opencode", "--yes", "--no-hooks")
    assert json.loads((home / ".claude" / "settings.json").read_text()) == {
        "permissions": {"allow": ["mcp__memsheaf"]}
    }
    assert not (home / ".config" / "opencode" / "plugin").exists()
    assert "mcpServers" in (home / ".claude.json").read_text()


def test_a_denied_permission_is_not_ours(home: Path) -> None:
    (home / ".claude").mkdir()
    path = home / ".claude" / "settings.json"
    path.write_text('{"permissions": {"deny": ["mcp__memsheaf"]}}')
    run(home, "install", "claude-code", "--yes")
    run(home, "uninstall", "--yes")
    assert path.read_text() == '{"permissions": {"deny": ["mcp__memsheaf"]}}'


def test_a_project_gets_no_path_of_this_machine(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = tmp_path / "tree"
    (tree / ".git").mkdir(parents=True)
    (tree / "src").mkdir()
    monkeypatch.chdir(tree / "src")
    before = snapshot(tree)
    run(home, "install", "claude-code", "codex", "gemini", "cursor", "vscode", "opencode", "--project", "--yes")
    found = snapshot(tree)["files"]
    assert {".mcp.json", "hooks.json", "opencode.json"} <= {os.path.basename(path) for path in found}
    assert not any(
        part in data for data, _ in found.values() for part in (os.fsencode(sys.prefix), os.fsencode(home))
    )
    assert not any(home.iterdir())
    assert "no settings in a project" in run(home, "install", "claude-desktop", "--project", "--yes", code=1)
    assert "no agent" in run(home, "uninstall", "--yes")
    run(home, "uninstall", "--project", "--yes")
    assert snapshot(tree) == before


def test_files_that_a_variable_named_at_the_time_are_found_again(home: Path) -> None:
    before = snapshot(home.parent)
    run(home, "install", "codex", "--yes", CODEX_HOME=str(home / "elsewhere"))
    assert (home / "elsewhere" / "config.toml").exists()
    run(home, "uninstall", "--yes")
    assert snapshot(home.parent) == before


def test_a_changed_command_file_stays(home: Path) -> None:
    run(home, "install", "claude-code", "--yes")
    path = home / ".claude" / "commands" / "memsheaf" / "why.md"
    path.write_text("mine, about memsheaf")
    assert "changed since it was installed" in run(home, "install", "claude-code", "--yes", code=1)
    said = run(home, "uninstall", "--yes", code=1)
    assert "changed since it was installed" in said
    assert "Take out" not in said
    assert path.read_text() == "mine, about memsheaf"


def test_the_mode_and_the_link_of_a_file_stay(home: Path) -> None:
    (home / "dotfiles").mkdir()
    real = home / "dotfiles" / "claude.json"
    real.write_text("{}")
    real.chmod(0o640)
    (home / ".claude.json").symlink_to("dotfiles/claude.json")
    run(home, "install", "claude-code", "--yes")
    assert (home / ".claude.json").is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert "memsheaf" in real.read_text()


OWN: dict[str, Any] = {
    ".claude.json": {"mcpServers": {"memsheaf": {"type": "http", "url": "http://127.0.0.1:8377/mcp"}}},
    ".claude/settings.json": {
        "permissions": {"allow": ["mcp__memsheaf"]},
        "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "notify 'memsheaf hook is done'"}]}]},
    },
    ".gemini/settings.json": {"mcpServers": {"memsheaf": {"command": "docker", "args": ["run", "memory", "mcp"]}}},
    ".codex/hooks.json": {"hooks": {"Stop": [{"hooks": [{"command": "memsheaf hook codex Stop; say done"}]}]}},
    ".config/zed/settings.json": {"context_servers": {"memsheaf": {"url": "http://127.0.0.1:8377/mcp"}}},
    ".cursor/mcp.json": {"mcpServers": {"memsheaf": {"command": "uvx", "args": ["memsheaf", "mcp"]}}},
}


def write_own(home: Path) -> dict[str, str]:
    """Write settings in which `memsheaf` is the user's own entry, in each format."""
    texts = {name: json.dumps(value) for name, value in OWN.items()}
    texts[".codex/config.toml"] = '[mcp_servers.memsheaf]\nurl = "http://127.0.0.1:8377/mcp"\n'
    texts[".config/goose/config.yaml"] = "extensions:\n  memsheaf:\n    uri: http://127.0.0.1:8377/mcp\n"
    texts[".continue/config.yaml"] = "mcpServers:\n  - name: memsheaf\n    url: http://127.0.0.1:8377/mcp\n"
    for name, text in texts.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    return texts


def test_uninstall_leaves_the_users_own_entries_where_nothing_was_installed(home: Path) -> None:
    texts = write_own(home)
    assert "no agent" in run(home, "uninstall", "--yes")
    assert {name: (home / name).read_text() for name in texts} == texts


@pytest.mark.parametrize("is_edited", [False, True])
def test_the_users_own_entries_outlive_an_installation(home: Path, is_edited: bool) -> None:
    texts = write_own(home)
    run(home, "install", "--yes")
    assert (
        json.loads((home / ".gemini/settings.json").read_text())["mcpServers"]
        == OWN[".gemini/settings.json"]["mcpServers"]
    )
    assert "memsheaf hook claude-code Stop" in (home / ".claude/settings.json").read_text()
    if is_edited:  # by a host that writes its settings anew
        for name in OWN:
            found = json.loads((home / name).read_text())
            (home / name).write_text(json.dumps(found, indent=4))
    run(home, "uninstall", "--yes")
    for name, text in texts.items():
        if is_edited and name in OWN:
            assert json.loads((home / name).read_text()) == OWN[name]
        else:
            assert (home / name).read_text() == text


def test_a_permission_that_was_inserted_goes_from_an_edited_file(home: Path) -> None:
    path = home / ".claude" / "settings.json"
    path.parent.mkdir()
    path.write_text('{"permissions": {"allow": ["Bash(ls)"]}}')
    run(home, "install", "claude-code", "--yes")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"theme": "dark"}, indent=4))
    run(home, "uninstall", "--yes")
    assert json.loads(path.read_text()) == {"permissions": {"allow": ["Bash(ls)"]}, "theme": "dark"}


def test_without_its_record_uninstall_leaves_no_file_of_ours(home: Path) -> None:
    (home / ".gemini").mkdir()
    (home / ".gemini" / "settings.json").write_text(SETTINGS)
    run(home, "install", "claude-code", "gemini", "opencode", "--yes")
    shutil.rmtree(home.parent / "state")
    run(home, "uninstall", "--yes")
    assert [path for path in home.rglob("*") if path.is_file()] == [home / ".gemini" / "settings.json"]
    assert read_jsonc((home / ".gemini" / "settings.json").read_text()) == read_jsonc(SETTINGS)
    assert list(home.rglob("memsheaf*")) == []


def test_the_program_that_runs_is_installed_by_its_absolute_path(home: Path, tmp_path: Path) -> None:
    other = tmp_path / "other" / "memsheaf"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    script = os.path.join(os.path.dirname(sys.executable), "memsheaf")
    link = tmp_path / "shims" / "memsheaf"
    link.parent.mkdir()
    link.symlink_to(script)
    for first, wanted in ((other.parent, script), (link.parent, str(link))):
        environment = os.environ | {"PATH": f"{first}:{os.environ['PATH']}", "HOME": str(home)}
        environment |= {"MEMSHEAF_STATE": str(tmp_path / "state")}
        words = [sys.executable, "-m", "memsheaf", "install", "claude-desktop", "claude-code", "--yes"]
        subprocess.run(words, env=environment, check=True, capture_output=True)
        for name in (".claude.json", ".config/Claude/claude_desktop_config.json"):
            assert json.loads((home / name).read_text())["mcpServers"]["memsheaf"]["command"] == wanted
        assert f"{wanted} hook claude-code Stop" in (home / ".claude/settings.json").read_text()


def test_settings_that_claude_code_would_reject_are_refused(home: Path) -> None:
    path = home / ".claude" / "settings.json"
    path.parent.mkdir()
    for text in (SETTINGS, '{\n"theme": "dark",\n}', "// nothing yet\n"):
        path.write_text(text)
        said = run(home, "install", "claude-code", "--yes", code=1)
        assert "Claude Code reads only strict JSON" in said
        assert path.read_text() == text
        run(home, "uninstall", "--yes")
        assert path.read_text() == text


@pytest.mark.parametrize("name", [host for host in HOSTS if "project" in CLIENTS[host]])
def test_no_link_of_a_project_is_followed(name: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project, outside = home / "shop", home / "mine"
    monkeypatch.chdir(home)
    targets = make_targets(name, Placement(["memsheaf"], {"HOME": str(home)}, project=str(project)))
    for target in targets:
        for at in {target.path, os.path.dirname(target.path)} - {str(project)}:
            secret = outside / os.path.basename(target.path)
            for folder in (outside, project / ".git", Path(at).parent):
                folder.mkdir(parents=True, exist_ok=True)
            secret.write_text("{}")
            os.symlink(secret if at == target.path else outside, at)
            os.chdir(project)
            assert "links in a project are not followed" in run(home, "install", name, "--project", "--yes", code=1)
            run(home, "uninstall", name, "--project", "--yes")
            os.chdir(home)
            assert (secret.read_text(), os.listdir(outside), os.path.islink(at)) == ("{}", [secret.name], True)
            shutil.rmtree(project)
            shutil.rmtree(outside)


# several processes

SECONDS = 1.0


def _install_often(start: Barrier, home: str, state: str, name: str) -> None:
    files = SettingsFiles(state)
    target, *_ = make_targets(name, Placement(["memsheaf"], {"HOME": home}))
    start.wait()
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        for one in (target, target._replace(wanted=None)):
            done = files.apply(one)
            assert not done.problem or "again and again" in done.problem, done.problem


def _edit_often(start: Barrier, path: str, saves: int) -> None:
    """An editor that saves over whatever is there, and looks whether its text stays."""
    start.wait()
    for number in range(saves):
        mine = SETTINGS.replace("dark", f"dark{number}")
        Path(f"{path}.new").write_text(mine)
        os.replace(f"{path}.new", path)
        time.sleep(SECONDS / saves)
        assert f'"dark{number}"' in Path(path).read_text(), "somebody put an older text back"


def _run_at_once(home: Path, text: str, *editors: tuple[str, int]) -> str:
    """Installations in two hosts, and editors beside them; what is in the file when all is uninstalled."""
    path, other = home / ".gemini" / "settings.json", home / ".qwen" / "settings.json"
    for one in (path, other):
        one.parent.mkdir()
        one.write_text(text)
    context, state = get_context("spawn"), str(home.parent / "state")
    hosts = ("gemini", "gemini", "qwen")
    start = context.Barrier(len(hosts) + len(editors), timeout=60)
    processes = [context.Process(target=_install_often, args=(start, str(home), state, host)) for host in hosts]
    processes += [context.Process(target=_edit_often, args=(start, *editor)) for editor in editors]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    run(home, "uninstall", "gemini", "--yes")
    assert other.read_text() == text
    assert os.listdir(path.parent) == ["settings.json"]
    return path.read_text()


def test_installations_at_once_leave_the_files_as_they_were(home: Path) -> None:
    assert _run_at_once(home, "{}") == "{}"


def test_an_editor_at_the_same_time_loses_nothing(home: Path) -> None:
    path = str(home / ".gemini" / "settings.json")
    assert _run_at_once(home, SETTINGS, (path, 60)) == SETTINGS.replace("dark", "dark59")


ONCE = """
import sys
from memsheaf.hosts.clients import CLIENTS
from memsheaf.hosts.installing import Placement, make_targets
from memsheaf.hosts.settings_files import SettingsFiles
home, state, wanted = sys.argv[1:]
for target in make_targets("claude-code", Placement(["memsheaf"], {"HOME": home}))[:3]:
    SettingsFiles(state).apply(target if wanted else target._replace(wanted=None))
"""


def check_strikes(tmp_path: Path, calls: str) -> int:
    """Kill an installation and its removal at each of these system calls, in turn; how often that was."""
    struck = 0
    settings = SETTINGS.replace("  // mine\n", "").replace("dark", "secret-of-the-person")  # in strict JSON
    for wanted, call in product(("yes", ""), calls.split(",")):  # strace counts each call for itself
        was_killed, when = True, 0
        while was_killed:
            when += 1
            place = tmp_path / f"{wanted}{call}{when}"
            home, state = place / "home", place / "state"
            (home / ".claude").mkdir(parents=True)
            (home / ".claude.json").write_text("{}")
            (home / ".claude" / "settings.json").write_text(settings)
            before = snapshot(home)
            targets = make_targets("claude-code", Placement(["memsheaf"], {"HOME": str(home)}))[:3]
            files = SettingsFiles(str(state))
            installed = [files.apply(target).after for target in targets] if not wanted else []
            line = ["strace", "-f", "-qq", "-e", f"trace={call}", "-e", f"inject={call}:signal=SIGKILL:when={when}"]
            words = [*line, sys.executable, "-B", "-c", ONCE, str(home), str(state), wanted]
            done = subprocess.run(words, capture_output=True, check=False)
            assert done.returncode in (0, -signal.SIGKILL), done.stderr
            was_killed = done.returncode != 0
            struck += was_killed
            for target in targets[:2]:
                text = Path(target.path).read_text()
                assert text in (before["files"][target.path][0].decode(), *installed) or json_without(text)
            assert not any("secret-of-the-person" in one.read_text() for one in state.glob("install/*"))
            for target in targets:
                assert not files.apply(target).problem
            for target in targets:
                assert not files.apply(target._replace(wanted=None)).problem
            assert snapshot(home) == before, (wanted, call, when)
            shutil.rmtree(place)
    return struck


def json_without(text: str) -> bool:
    """Whether a text is a whole one with ours in it."""
    return "memsheaf" in str(read_jsonc(text))


def test_a_killed_installation_leaves_the_old_or_the_new_file(tmp_path: Path) -> None:
    assert check_strikes(tmp_path, "renameat2") >= 5  # each of three files comes, two of them stay


@pytest.mark.long
def test_an_installation_may_be_killed_at_each_system_call(tmp_path: Path) -> None:
    calls = "fchmod,fsync,fdatasync,renameat2,rename,renameat,unlink,unlinkat,mkdir,rmdir"
    assert check_strikes(tmp_path, calls) >= 80


def test_hooks_of_an_older_version_go_whatever_their_event(home: Path) -> None:
    (home / ".codex").mkdir()
    path = home / ".codex" / "hooks.json"
    old = {"type": "command", "command": "'/old place/memsheaf' hook codex Interrupt || exit 0"}
    path.write_text(json.dumps({"hooks": {"Interrupt": [{"hooks": [old]}], "Stop": [{"hooks": [old, old]}]}}))
    run(home, "install", "codex", "--yes")
    found = json.loads(path.read_text())["hooks"]
    assert "Interrupt" not in found
    assert len(found["Stop"]) == 1


def test_the_page_about_agents_names_every_file() -> None:
    page = (Path(__file__).parent.parent.parent / "docs" / "hosts.md").read_text(encoding="utf-8")
    for name in HOSTS:
        for place in (Placement(["m"], {"HOME": "~"}), Placement(["m"], {"HOME": "~"}, project="/")):
            for target in make_targets(name, place):
                path = target.path.removeprefix(os.getcwd() + os.sep).removeprefix("/")
                assert path in page or f"`{os.path.dirname(path)}`" in page, path


def test_no_prompt_goes_to_a_server_of_somebody_else(home: Path) -> None:
    texts = write_own(home)
    said = run(home, "install", "--yes")
    settings = json.loads((home / ".claude/settings.json").read_text())
    [group] = settings["hooks"]["UserPromptSubmit"]
    [hook] = group["hooks"]

    assert hook["type"] == "command"
    assert hook["command"].endswith("hook claude-code UserPromptSubmit || exit 0")
    for name in (".claude.json", ".gemini/settings.json", ".codex/config.toml", ".cursor/mcp.json"):
        assert f"the entry memsheaf in {home / name} is not ours" in said, name
    for name in (".config/goose/config.yaml", ".continue/config.yaml", ".config/zed/settings.json"):
        assert f"the entry memsheaf in {home / name} is not ours" in said, name
    before = snapshot(home)
    again = run(home, "install", "--yes")
    assert f"the entry memsheaf in {home / '.claude.json'} is not ours" in again
    assert snapshot(home) == before
    (home / ".claude.json").write_text("{}")  # the user removes their entry, and wants ours
    assert "is not ours" not in run(home, "install", "claude-code", "--yes")
    settings = json.loads((home / ".claude/settings.json").read_text())
    [group] = settings["hooks"]["UserPromptSubmit"]
    assert group["hooks"][0]["type"] == "mcp_tool"
    (home / ".claude.json").write_text(texts[".claude.json"])
    run(home, "uninstall", "--yes")
    assert {name: (home / name).read_text() for name in texts} == texts


def test_a_server_of_somebody_else_is_not_permitted(home: Path) -> None:
    (home / ".claude.json").write_text('{"mcpServers": {"memsheaf": {"command": "docker", "args": ["run", "m"]}}}')
    run(home, "install", "claude-code", "--yes")
    assert "permissions" not in json.loads((home / ".claude/settings.json").read_text())
    run(home, "install", "claude-code", "--yes", "--no-hooks")
    assert "mcp__memsheaf" not in "".join(path.read_text() for path in (home / ".claude").glob("*.json"))


def test_without_its_record_uninstall_leaves_no_empty_file_or_folder_of_ours(home: Path) -> None:
    for folder in (".claude", ".cursor", ".codex", ".config/opencode/agent"):
        (home / folder).mkdir(parents=True)
    before = sorted(home.rglob("*"))
    run(home, "install", "claude-code", "cursor", "codex", "opencode", "--yes")
    shutil.rmtree(home.parent / "state")
    run(home, "uninstall", "--yes")
    assert sorted(home.rglob("*")) == before


def test_without_its_record_uninstall_keeps_what_may_be_the_users(home: Path) -> None:
    run(home, "install", "claude-code", "cursor", "--yes")
    shutil.rmtree(home.parent / "state")
    (home / ".claude" / "commands" / "mine.md").write_text("mine")
    path = home / ".cursor" / "hooks.json"
    path.write_text("// mine\n" + path.read_text())
    (home / ".claude" / "settings.json").unlink()
    run(home, "uninstall", "--yes")
    assert (home / ".claude" / "commands" / "mine.md").read_text() == "mine"
    assert path.read_text().startswith("// mine\n")


@pytest.mark.parametrize("more", [{}, {"theme": "dark"}])
def test_a_permission_beside_an_older_hook_of_ours_stays_without_a_record(home: Path, more: dict[str, str]) -> None:
    path = home / ".claude" / "settings.json"
    path.parent.mkdir()
    old = {"hooks": [{"type": "command", "command": "/usr/local/bin/memsheaf hook claude-code Stop"}]}
    path.write_text(json.dumps({"permissions": {"allow": ["mcp__memsheaf"]}, "hooks": {"Stop": [old]}} | more))
    run(home, "uninstall", "--yes")
    assert json.loads(path.read_text()) == {"permissions": {"allow": ["mcp__memsheaf"]}} | more
