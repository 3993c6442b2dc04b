"""A machine that lost the folder of a scope removes nothing on the hub until somebody says so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hub.machines import ScopeOnMachine

FACTS = {"Tea": "They drink green tea.", "Milk": "They take milk with it.", "Choir": "They sing in a choir."}


@pytest.fixture
def pair(tmp_path: Path, bare: Path) -> tuple[ScopeOnMachine, ScopeOnMachine]:
    """Two machines that share three memories."""
    first, second = (ScopeOnMachine(tmp_path / name, "user", bare) for name in ("laptop", "desktop"))
    for name, fact in FACTS.items():
        first.write(name, fact)
    first.run("hub", "add", str(bare), "-s", "user", scoped=False)
    second.run("hub", "add", str(bare), "-s", "user", scoped=False)
    assert texts(second) == {*FACTS.values()}
    return first, second


def texts(machine: ScopeOnMachine) -> set[str]:
    with machine.open() as sheaf:
        return {sheaf.read(row.path).body.strip() for row in sheaf.list()}


def empty(machine: ScopeOnMachine) -> None:
    for file in machine.root.glob("*.md"):
        file.unlink()


def sync(*machines: ScopeOnMachine) -> None:
    for machine in machines:
        machine.run("hub", "sync", "-s", "user", scoped=False)


WAYS: dict[str, Callable[[ScopeOnMachine], object]] = {
    "list": lambda machine: machine.run("list"),
    "sync": sync,
    "save": lambda machine: machine.write("Dog", "They have a dog."),
    "rejoin": lambda machine: machine.run("hub", "sync", "--again", "-s", "user", scoped=False),
}


@pytest.mark.parametrize("way", WAYS)
def test_memories_that_went_with_their_folder_stay_on_the_hub_and_on_other_machines(
    pair: tuple[ScopeOnMachine, ScopeOnMachine], way: str
) -> None:
    first, second = pair
    empty(first)

    WAYS[way](first)
    sync(first, second, first)

    assert texts(second) >= {*FACTS.values()}
    first.run("restore")
    sync(first, second)
    assert texts(first) == texts(second) >= {*FACTS.values()}


def test_a_change_on_another_machine_makes_the_rest_of_a_lost_folder_no_deletion(
    pair: tuple[ScopeOnMachine, ScopeOnMachine],
) -> None:
    first, second = pair
    empty(first)
    [tea] = second.root.glob("*tea*.md")
    tea.write_text(tea.read_text().replace("green", "black"))
    sync(second, first, first, second)

    assert texts(second) == {FACTS["Milk"], FACTS["Choir"], "They drink black tea."}
    first.run("restore")
    sync(first, second)
    assert texts(first) == texts(second) == {FACTS["Milk"], FACTS["Choir"], "They drink black tea."}


def test_what_is_dismissed_is_removed_everywhere(pair: tuple[ScopeOnMachine, ScopeOnMachine]) -> None:
    first, second = pair
    empty(first)
    said = first.run("hub", "sync", "-s", "user", scoped=False)[1]
    assert said.count("`memsheaf restore --dismiss` removes it everywhere\n") == 3
    assert "not pushed yet" not in said
    assert "memsheaf restore" in first.run("hub", "status", scoped=False)[1]

    first.run("restore", "--dismiss")
    sync(first, second)

    assert texts(first) == texts(second) == set()
