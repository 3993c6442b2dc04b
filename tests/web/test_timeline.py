"""Scopes at a glance: numbers, and the journals as a story: what happened, by whom, what can be undone."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from memsheaf import Settings, Sheaf
from memsheaf.web.activity import ShownCommit, TimelineFilter, timeline

TODAY = time.strftime("%Y-%m-%d")
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
    pair["user"].erase(secret)
    assert story(pair) == [("added 'Prefers tabs'", "can be undone")]
    add(pair["user"], "Speaks German")
    assert len(story(pair)) == 2


def test_it_is_filtered_by_who_what_type_text_and_day_and_paged(pair: dict[str, Sheaf], settings: Settings) -> None:
    add(pair["user"], "Prefers tabs")
    path = add(pair["user"], "Deploys on Friday", "project")
    pair["user"].forget(path)
    (Path(settings.home) / "user" / "user_note.md").write_text("---\nname: By hand\ntype: user\n---\nText.\n")
    pair["user"].own.index.look()

    assert story(pair, TimelineFilter(who="outside")) == [("added 'By hand'", "can be undone")]
    assert len(story(pair, TimelineFilter(who="user"))) == 3
    assert story(pair, TimelineFilter(who="other")) == []
    assert [told for told, _ in story(pair, TimelineFilter(what="removed"))] == ["removed 'Deploys on Friday'"]
    assert len(story(pair, TimelineFilter(kind="project"))) == 2
    assert len(story(pair, TimelineFilter(text="TABS"))) == 1
    assert len(story(pair, TimelineFilter(day=TODAY))) == 4
    assert story(pair, TimelineFilter(day="2001-01-01")) == []
    assert len(story(pair, TimelineFilter(since=TODAY))) == 4
    assert story(pair, TimelineFilter(since="2999-01-01")) == []
    page, total = timeline(pair, EVERY_COMMIT, limit=2, offset=1)
    assert ([one.told for one in page], total) == (["removed 'Deploys on Friday'", "added 'Deploys on Friday'"], 4)
