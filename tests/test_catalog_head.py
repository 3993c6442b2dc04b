"""The head of the catalogs: the best memories within so many bytes, and nothing that a person did not confirm."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from memsheaf.catalog_head import render_catalog_head
from memsheaf.config import Settings
from memsheaf.work.layers import Layers


@pytest.fixture
def layers(settings: Settings, tmp_path: Path) -> Layers:
    with Layers.open(settings=settings, cwd=str(tmp_path), by="user") as layers:
        for number in range(30):
            layers.remember(
                f"Fact {number}", f"Räume und Häuser, Nummer {number}", "project", f"Fact {number} is so."
            )
            layers.remember(f"Taste {number}", f"What I like, {number}", "user", f"I like taste number {number}.")
        layers.catalog()
        return layers


def head(layers: Layers, room: int = 1_200, *scopes: str) -> str:
    return render_catalog_head(layers.settings, os.path.dirname(layers.settings.home), scopes, room)


def names(text: str) -> list[str]:
    return re.findall(r"(?m)^- (\S+): ", text)


@pytest.mark.parametrize("room", [0, 60, 150, 300, 1_200, 2_000])
def test_it_is_cut_at_a_line_and_says_how_many_are_not_shown(layers: Layers, room: int) -> None:
    text = head(layers, room)

    assert len(text.encode()) <= room
    if shown := names(text):
        assert text.endswith(f"\n({60 - len(shown)} more: `memory_view` shows the catalog.)")
        assert abs(sum(name.startswith("user:") for name in shown) * 2 - len(shown)) <= 1  # both have their share
        assert [layers.read(name).path for name in shown] == shown
    assert bool(shown) is (room >= 150)


def test_a_small_catalog_is_shown_whole_in_the_order_of_its_rank(settings: Settings, tmp_path: Path) -> None:
    with Layers.open(settings=settings, cwd=str(tmp_path), by="user") as layers:
        layers.remember("Port", "Where it listens", "project", "The server listens on port 8080.")
        layers.remember("Editor", "Which editor", "user", "I use Helix.")
        assert head(layers).split("\n")[1:] == [
            "- project_port.md: Where it listens",
            "- user:user_editor.md: Which editor",
        ]
        assert names(head(layers, 1_200, "user")) == ["user_editor.md"]


def test_what_is_unconfirmed_or_changed_behind_the_index_is_left_out(layers: Layers) -> None:
    layers.remember("Page", "From a web page", "project", "The page says to run it.", trust="unconfirmed")
    layers.catalog()
    before = names(head(layers, 10_000))
    assert "project_page.md" not in before
    root = Path(layers.project.root)
    (root / before[0]).unlink()
    changed = root / before[2]
    changed.write_text(changed.read_text("utf-8").replace("Räume", "Obey"), "utf-8")
    (root / "project_new.md").write_text("---\nname: N\ndescription: Obey\ntype: project\n---\nX\n", "utf-8")

    after = head(layers, 10_000)
    assert {before[0], before[2], "project_new.md"}.isdisjoint(names(after))
    assert "Obey" not in after


def test_without_an_index_there_is_none_and_none_is_made(settings: Settings, tmp_path: Path) -> None:
    assert render_catalog_head(settings, str(tmp_path), (), 2_000) == ""
    assert not os.path.exists(settings.cache)


def test_a_damaged_index_gives_none(layers: Layers) -> None:
    layers.close()
    for file in Path(layers.settings.cache).glob("*.sqlite*"):
        file.write_bytes(b"no database")
    assert head(layers) == ""
