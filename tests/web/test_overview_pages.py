"""Home and timeline: numbers that lead somewhere, a year of days, and undo that can be undone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from memsheaf import Settings, Sheaf
from memsheaf.transfer import erase
from memsheaf.web.activity import ShownCommit, TimelineFilter, timeline
from web.conftest import OpenPage, Serving
from web.web_site import Site


@pytest.fixture
def tabs(tmp_path: Path) -> Path:
    """A home with one memory that was changed once."""
    home = tmp_path / "home"
    with Sheaf.open("user", settings=Settings(str(home), str(home / "cache"), embedder="none"), by="user") as sheaf:
        path = sheaf.write("Prefers tabs", "Indentation", "user", "Use tabs.").path
        sheaf.revise(path, "Use tabs.", "Use spaces.")
    return home


def test_the_navigation_names_every_page_and_the_removed_ones_are_not_found(sample_site: Site) -> None:
    navigation = sample_site.ask("GET", "/").text.partition("<nav")[2].partition("</nav>")[0]
    pages = dict(re.findall(r'<a href="([^"]*)"[^>]*>([^<]*)</a>', navigation))
    assert list(pages.values()) == ["Home", "Memories", "Review", "Activity", "Recall lab", "Settings"]
    assert [sample_site.ask("GET", address).status for address in pages] == [200] * len(pages)
    for address in ("/dream", "/work", "/work/project", "/work/project/audit", "/map", "/conversations"):
        assert sample_site.ask("GET", address).status == 404, address


def test_the_timeline_is_filtered_by_who_and_what_without_javascript(sample_site: Site, open_page: OpenPage) -> None:
    page = open_page(sample_site, "/activity", javascript=False)
    page.get_by_label("Who").select_option("extraction")
    page.get_by_label("What").select_option("added")
    page.get_by_role("button", name="Show").click()
    told = page.locator("li.commit p:first-child").all_text_contents()
    assert told
    assert all("learned" in one for one in told)


def test_a_change_is_undone_with_one_click_and_that_is_undone_with_another(
    serving: Serving, open_page: OpenPage, tabs: Path
) -> None:
    file = tabs / "user" / "user_prefers-tabs.md"
    page = open_page(serving(home=tabs), "/activity", javascript=False)

    page.get_by_role("button", name="Undo: changed 'Prefers tabs'").click()
    assert "Use tabs." in file.read_text()
    expect(page.locator(".commit.undone")).to_have_count(1)

    page.get_by_role("button", name="Redo").click()
    assert "Use spaces." in file.read_text()


# settings


def test_settings_are_saved_checked_and_refused(serving: Serving, open_page: OpenPage, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    file = home / "config.toml"
    file.write_text("# mine\nretention_days = 20  # short\n")
    site = serving()
    page = open_page(site, "/settings", javascript=False, errors="status of 4")
    page.get_by_label("retention_days").fill("soon")
    page.get_by_role("button", name="Save").first.click()
    expect(page.get_by_label("retention_days")).to_have_attribute("aria-invalid", "true")
    expect(page.locator("#set-retention_days-error")).to_contain_text("must be a number")
    assert file.read_text() == "# mine\nretention_days = 20  # short\n"
    page.get_by_label("retention_days").fill("40")
    page.get_by_role("button", name="Save").first.click()
    expect(page.locator(".notice")).to_contain_text("Saved.")
    assert file.read_text() == "# mine\nretention_days = 40  # short\n"

    page.get_by_label("learning.policy").select_option("suggest")
    file.write_text("# theirs\n")
    page.locator("section", has=page.get_by_label("learning.policy")).get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("changed elsewhere")
    expect(page.get_by_label("learning.policy")).to_have_value("suggest")
    page.locator("section", has=page.get_by_label("learning.policy")).get_by_role("button", name="Save").click()
    assert file.read_text() == '# theirs\n\n[learning]\npolicy = "suggest"\n'

    csrf = page.locator("input[name=csrf]").first.get_attribute("value") or ""
    version = page.locator("input[name=version]").first.get_attribute("value") or ""
    for key, value in (("model.url", "http://x.test"), ("embedder.name", "openai:x"), ("tools", "maybe")):
        site.ask("POST", "/settings", {"csrf": csrf, "version": version, key: value})
    assert file.read_text() == '# theirs\n\n[learning]\npolicy = "suggest"\n'


# the histories of all scopes as one story

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
