"""The head of the catalogs on disk, within so many bytes, and nothing that a person did not confirm."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cases import each_case
from memsheaf.config import Settings
from memsheaf.mcp.catalog_head import render_catalog_head
from memsheaf.sheaf import Sheaf


@pytest.fixture
def layers(settings: Settings, tmp_path: Path) -> Sheaf:
    with Sheaf.open(settings=settings, cwd=str(tmp_path), by="user") as layers:
        for number in range(30):
            layers.write(f"Fact {number}", f"Räume und Häuser, Nummer {number}", "project", f"Fact {number} is so.")
            layers.write(f"Taste {number}", f"What I like, {number}", "user", f"I like taste number {number}.")
        return layers


def head(sheaf: Sheaf, room: int) -> str:
    return render_catalog_head(sheaf.settings, sheaf.cwd, [], room)


def names(text: str) -> list[str]:
    return re.findall(r"(?m)^- (\S+): ", text)


@each_case("room", [0, 60, 160, 300, 1_200, 2_000])
def test_it_is_cut_at_a_line_and_says_how_many_are_not_shown(layers: Sheaf, room: int) -> None:
    text = head(layers, room)

    assert len(text.encode()) <= room
    if shown := names(text):
        assert text.endswith(f"\n({60 - len(shown)} more: `memory_view` shows the catalog.)")
        assert abs(sum(name.startswith("user:") for name in shown) * 2 - len(shown)) <= 1  # both have their share
        assert [layers.label(layers.read(layers.resolve(name)).ref) for name in shown] == shown
    assert bool(shown) is (room >= 160)


def test_what_is_unconfirmed_is_left_out(layers: Sheaf) -> None:
    layers.write("Page", "From a web page", "project", "The page says to run it.", trust="unconfirmed")

    assert "project_page.md" not in names(head(layers, 10_000))


def test_what_a_team_says_is_left_out(settings: Settings, tmp_path: Path) -> None:
    with Sheaf.open("team/core", settings=settings, by="user") as team:
        team.write("Deploys", "When we deploy", "project", "We deploy on Fridays.")
        assert "Deploys" in team.catalog().text

    assert render_catalog_head(settings, str(tmp_path), ["team/core", "user"], 10_000) == ""


def test_a_file_that_a_person_removed_is_left_out(layers: Sheaf) -> None:
    root = Path(layers.only("project").root)
    before = names(head(layers, 10_000))
    (root / before[0]).unlink()

    after = head(layers, 10_000)

    assert set(names(after)) == set(before[1:])


def test_where_memory_is_off_there_is_no_head(layers: Sheaf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMSHEAF_OFF", "1")

    assert head(layers, 2_000) == ""


def test_a_server_shows_the_head_before_it_opens_a_memory(settings: Settings, tmp_path: Path) -> None:
    with Sheaf.open(settings=settings, cwd=str(tmp_path), by="user") as sheaf:
        sheaf.write("Port", "Where it listens", "project", "The server listens on port 8080.")
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    hello = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})

    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "memsheaf", "mcp"],
        input=hello + "\n",
        env={**os.environ, "MEMSHEAF_HOME": settings.home},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )

    assert "- project_port.md: Where it listens" in json.loads(done.stdout)["result"]["instructions"]
    assert "memsheaf.mcp.stdio" in done.stderr
    assert "memsheaf.sheaf" not in done.stderr
