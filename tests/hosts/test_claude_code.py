"""The real Claude Code, in a fresh home, with memory installed into it or as a plugin."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hosts.real_clients import RealClient, prepare_client
from memsheaf.tools import TOOLS
from model_api import serve_models


@pytest.fixture
def claude(tmp_path: Path) -> Iterator[RealClient]:
    home = tmp_path / "home"
    home.mkdir()
    with serve_models() as api:
        yield prepare_client("claude-code", home, api)


def install_plugin(claude: RealClient, place: Path) -> None:
    """Write the plugin, have the client check it, and install it from its own marketplace."""
    claude.memsheaf("plugin", str(place))
    claude.run("claude", "plugin", "validate", "--strict", str(place))
    claude.run("claude", "plugin", "marketplace", "add", str(place))
    claude.run("claude", "plugin", "install", "memsheaf@memsheaf")


def test_the_client_validates_and_installs_the_plugin(claude: RealClient, tmp_path: Path) -> None:
    install_plugin(claude, tmp_path / "plugin")

    [first, *_] = claude.say("/memsheaf:remember I prefer pnpm over npm", tmp_path / "repository")

    assert [tool.__name__ for tool in TOOLS if f"mcp__plugin_memsheaf_memsheaf__{tool.__name__}" not in first] == []
    assert "The user asks you to remember this:\\n\\nI prefer pnpm over npm" in first
    assert "memsheaf:memsheaf: How the memory of this machine works." in first
