"""Scopes at a glance: numbers, and the journals as a story: what happened, by whom, what can be undone."""

from __future__ import annotations

import pytest

from memsheaf import Settings, Sheaf
from memsheaf.transfer import erase
from memsheaf.web.activity import ShownCommit, TimelineFilter, timeline

EVERY_COMMIT = TimelineFilter()


@pytest.fixture
def pair(settings: Settings) -> dict[str, Sheaf]:
    return {name: Sheaf.open(name, settings=settings, by="user") for name in ("user", "agent/helper")}


def add(sheaf: Sheaf, name: str, kind: str = "user") -> str:
    return sheaf.write(name, f"About {name}", kind, f"{name} it is.").path


def commits(pair: dict[str, Sheaf], wanted: TimelineFilter = EVERY_COMMIT) -> list[ShownCommit]:
    return timeline(pair, wanted, limit=50)[0]


def story(pair: dict[str, Sheaf], wanted: TimelineFilter = EVERY_COMMIT) -> list[tuple[str, str]]:
    return [(commit.told, commit.state) for commit in commits(pair, wanted)]


def test_commits_of_all_scopes_are_told_newest_first_with_what_can_be_undone(pair: dict[str, Sheaf]) -> None:
    tabs = add(pair["user"], "Prefers tabs")
    add(pair["agent/helper"], "Speaks German")
    pair["user"].revise(tabs, "it is", "they are")
    pair["user"].undo()

    assert story(pair) == [
        ("undid: changed 'Prefers tabs'", "can be undone"),
        ("changed 'Prefers tabs'", "undone"),
        ("added 'Speaks German'", "can be undone"),
        ("added 'Prefers tabs'", "can be undone"),
    ]
    pair["user"].undo(commits(pair)[0].id)
    assert [state for _, state in story(pair)] == [
        "can be undone",
        "undone",
        "can be undone",
        "can be undone",
        "changed since",
    ]


def test_what_was_erased_is_told_no_more(pair: dict[str, Sheaf]) -> None:
    secret = add(pair["user"], "Phone number")
    add(pair["user"], "Prefers tabs")
    assert len(story(pair)) == 2
    erase(pair["user"].own, secret)
    assert story(pair) == [("added 'Prefers tabs'", "can be undone")]
    add(pair["user"], "Speaks German")
    assert len(story(pair)) == 2
