"""Home and timeline: numbers that lead somewhere, a year of days, and undo that can be undone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from memsheaf import Settings, Sheaf
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
