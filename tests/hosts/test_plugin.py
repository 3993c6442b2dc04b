"""The Claude Code plugin as files; `test_claude_code.py` has the client use it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memsheaf.cli import main
from memsheaf.hosts.plugin import plugin_files

COMMAND_NAMES = {"remember", "recall", "why", "review", "forget", "web"}


def test_its_files_name_the_program_as_it_is_started() -> None:
    files = plugin_files(["/opt/my tools/memsheaf"])

    server = json.loads(files[".mcp.json"])["mcpServers"]["memsheaf"]
    hooks = json.loads(files["hooks/hooks.json"])["hooks"]
    [stop] = hooks["Stop"][0]["hooks"]
    [prompt] = hooks["UserPromptSubmit"][0]["hooks"]
    assert (server["command"], server["args"]) == ("/opt/my tools/memsheaf", ["mcp"])
    assert stop["command"] == "'/opt/my tools/memsheaf' hook claude-code Stop || exit 0"
    assert (prompt["type"], prompt["input"]["prompt"]) == ("mcp_tool", "${prompt}")
    assert all(hook["timeout"] for event in hooks.values() for hook in event[0]["hooks"])
    assert not [name for name, text in files.items() if "{memsheaf}" in text]


def test_it_has_the_commands_and_a_short_skill() -> None:
    files = plugin_files(["memsheaf"])

    named = {name.removeprefix("commands/").removesuffix(".md") for name in files if name.startswith("commands/")}
    assert named == COMMAND_NAMES
    assert len(files["skills/memsheaf/SKILL.md"].splitlines()) < 60


def test_it_is_written_anew_over_itself_and_never_over_something_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "plugin"

    assert main(["install", "--plugin", str(place)]) == 0
    (place / "hooks" / "hooks.json").write_text("{}", encoding="utf-8")
    assert main(["install", "--plugin", str(place)]) == 0
    assert "memory_hook" in (place / "hooks" / "hooks.json").read_text(encoding="utf-8")
    assert main(["install", "--plugin", str(place), "--home", "/srv/memories"]) == 0
    for name in (".mcp.json", "hooks/hooks.json"):
        assert "MEMSHEAF_HOME=/srv/memories" in (place / name).read_text(encoding="utf-8")

    manifest = place / ".claude-plugin" / "plugin.json"
    manifest.write_text('{"name": "another"}', encoding="utf-8")
    assert main(["install", "--plugin", str(place)]) == 1
    assert manifest.read_text(encoding="utf-8") == '{"name": "another"}'
    assert "exists already" in capsys.readouterr().err


@pytest.mark.parametrize("link", [".mcp.json", "hooks", "hooks/hooks.json", ".claude-plugin/marketplace.json"])
def test_no_link_that_a_folder_holds_is_followed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], link: str
) -> None:
    place, mine = tmp_path / "repository" / "plugin", tmp_path / "home"
    mine.mkdir()
    (mine / "hooks.json").write_text("mine")
    (mine / ".bashrc").write_text("mine")
    (place / ".claude-plugin").mkdir(parents=True)
    (place / ".claude-plugin" / "plugin.json").write_text('{"name": "memsheaf"}')
    (place / link).parent.mkdir(exist_ok=True)
    (place / link).symlink_to(mine if link == "hooks" else mine / ".bashrc")

    assert main(["install", "--plugin", str(place)]) != 0
    assert "link" in capsys.readouterr().err
    assert (place / link).is_symlink()
    assert [(mine / name).read_text() for name in ("hooks.json", ".bashrc")] == ["mine", "mine"]


def test_a_folder_that_a_repository_links_elsewhere_is_refused_and_a_link_of_ones_own_is_followed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine, repository = tmp_path / "home", tmp_path / "repository"
    mine.mkdir()
    (repository / ".git").mkdir(parents=True)
    (repository / "plugins").symlink_to(mine)
    for place in (repository / "plugins", repository / "plugins" / "memsheaf"):
        assert main(["install", "--plugin", str(place)]) != 0
        assert "it is a link in a repository" in capsys.readouterr().err
        assert list(mine.iterdir()) == []

    (tmp_path / "plugins").symlink_to(mine)
    assert main(["install", "--plugin", str(tmp_path / "plugins" / "memsheaf")]) == 0
    assert (mine / "memsheaf" / ".mcp.json").is_file()
