"""Review and recall lab in the browser: by keyboard, with the mouse, and without JavaScript."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from memsheaf.config import Settings
from memsheaf.llm.scripted import Scripted
from memsheaf.recall.turns import Message, Turn
from memsheaf.sheaf import Sheaf
from memsheaf.work.review import Review
from web.conftest import DESKTOP, PHONE, OpenPage, Serving
from web.web_site import PATIENCE, Site, csrf_of

expect.set_options(timeout=PATIENCE * 1000)
Check = Callable[[Page], None]
CORRECTION = {
    "action": "update", "file": "project_release-day.md", "name": "Release day", "description": "When they go out",
    "type": "project", "content": "Our releases go out on Fridays.", "scope": "persistent", "messages": [1],
}  # fmt: skip


@pytest.fixture
def layers(tmp_path: Path) -> Sheaf:
    """A project that asks before it learns: four proposals, of which the first corrects a memory."""
    (tmp_path / "work").mkdir()
    home = tmp_path / "home"
    settings = Settings(
        home=str(home), cache=str(home / "cache"), state=str(home / "state"), embedder="none", policy="suggest"
    )
    layers = Sheaf.open(settings=settings, cwd=str(tmp_path / "work"), by="user")
    layers.write("Release day", "When releases go out", "project", "Our releases go out on Mondays.")
    models = {"our releases go out on Fridays": Scripted([{"memories": [CORRECTION]}])}
    for said in (*models, "bugs are tracked in Linear", "our proxy listens on port 8080", "<b>Ines</b> owns billing"):
        layers.learn(Turn("c1", (Message("user", f"Hello. Remember that {said}."),)))
        layers.distil(models.get(said, "none"))
    assert len(Review(layers).waiting()) == 4
    return layers


@pytest.fixture
def site(layers: Sheaf, serving: Serving, tmp_path: Path) -> Site:
    return serving(cwd=tmp_path / "work")


def press(page: Page, key: str) -> None:
    """Press a key once the script of a page that has just come is there."""
    page.wait_for_load_state()
    page.keyboard.press(key)


def names(layers: Sheaf) -> list[str]:
    return [one.name for one in Review(layers).waiting()]


def test_review_by_keyboard_alone(layers: Sheaf, site: Site, open_page: OpenPage, check_accessibility: Check) -> None:
    page = open_page(site, "/review")
    cards = page.locator("[data-card]")
    expect(cards).to_have_count(4)
    first = cards.filter(has_text="Release day")
    expect(first.locator("del")).to_have_text("Mondays")
    expect(first.locator("ins")).to_have_text("Fridays")
    expect(first.locator("blockquote")).to_contain_text("our releases go out on Fridays")
    check_accessibility(page)

    page.get_by_label("Select all on this page").check()
    for box in cards.get_by_role("checkbox").all():
        box.uncheck()
    expect(page.get_by_label("Select all on this page")).not_to_be_checked()
    for key in "kkkjk":
        page.keyboard.press(key)
    expect(cards.nth(0)).to_be_focused()
    waiting = names(layers)
    page.keyboard.press("a")
    expect(cards).to_have_count(3)
    expect(cards.nth(0)).to_be_focused()
    assert names(layers) == waiting[1:]

    press(page, "r")
    page.keyboard.type("not ours")
    page.keyboard.press("Enter")
    expect(cards).to_have_count(2)
    assert Review(layers).decisions()[0].reason == "not ours"
    press(page, "u")
    expect(cards).to_have_count(3)
    assert names(layers) == waiting[1:]
    press(page, "u")
    expect(cards).to_have_count(4)
    assert names(layers) == waiting

    press(page, "j")
    page.keyboard.press("e")
    field = page.get_by_label("The text to save")
    expect(field).to_be_focused()
    check_accessibility(page)
    page.keyboard.press("Control+A")
    page.keyboard.type("An edited text of the releases.")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(cards).to_have_count(3)
    assert "An edited text" in layers.read(Review(layers).decisions()[0].ref or "").body


def test_review_many_at_once_without_javascript(
    layers: Sheaf, site: Site, open_page: OpenPage, check_accessibility: Check
) -> None:
    page = open_page(site, "/review", width=PHONE, dark=True, javascript=False)
    late = open_page(site, "/review", javascript=False)
    boxes = page.locator("[data-card] input[type=checkbox]")
    expect(boxes).to_have_count(4)
    boxes.nth(1).check()
    boxes.nth(2).check()
    page.get_by_role("button", name="Approve selected").click()
    expect(page.locator(".notice")).to_contain_text("2 approved")
    assert len(names(layers)) == 2
    page.get_by_role("button", name="Reject", exact=True).first.click()
    expect(page.locator("[data-card]")).to_have_count(1)
    page.get_by_role("button", name="Undo").first.click()
    expect(page.locator("[data-card]")).to_have_count(2)
    page.get_by_label("Select all on this page").check()
    page.get_by_role("button", name="Approve selected").click()
    expect(page.locator("[data-card]")).to_have_count(0)
    late.get_by_role("button", name="Approve", exact=True).first.click()
    expect(late.locator(".notice")).to_contain_text("This was already decided")
    answer = site.ask("GET", "/review/edit?id=project%20ffff")
    assert answer.status == 404


@pytest.mark.parametrize(("width", "dark"), [(DESKTOP, True), (PHONE, False)])
def test_the_recall_lab_explains_a_message_and_counts_nothing(
    layers: Sheaf, site: Site, open_page: OpenPage, check_accessibility: Check, width: int, dark: bool
) -> None:
    page = open_page(site, "/recall", width=width, dark=dark)
    check_accessibility(page)
    page.get_by_label("Message").fill("on which day do our releases go out?")
    bars = page.locator("#results svg[role=img]")
    expect(bars.first).to_be_visible()
    said = re.compile(r"^\d+% likely to matter; the threshold is \d+%$")
    expect(bars.first).to_have_attribute("aria-label", said)
    expect(page.locator("#results pre")).to_contain_text("Our releases go out on Mondays.")
    expect(page.get_by_text("recalled", exact=True).first).to_be_visible()
    page.get_by_role("link", name="Show it").click()
    expect(page.locator("pre").last).to_contain_text("Memory")
    check_accessibility(page)
    assert layers.own.recalled() == []
    assert layers.own.store.uses_noted() == {}


def test_a_decision_is_about_the_text_that_was_shown(layers: Sheaf, site: Site) -> None:
    path = (
        layers.only("project").write("Mood", "how to answer", "feedback", "Answer briefly.", trust="unconfirmed").path
    )
    tickets = re.findall(r'name="id" value="([^"]*feedback_mood[^"]*)"', site.ask("GET", "/review").text)
    assert tickets
    layers.revise(path, "briefly", "at length")
    token = csrf_of(site)
    for address in ("/review/approve", "/review/reject"):
        assert site.ask("POST", address, {"csrf": token, "id": tickets[0]}).status == 409
    assert layers.read(path).body == "Answer at length.\n"
    (ticket, *_) = re.findall(r'name="id" value="([^"]*feedback_mood[^"]*)"', site.ask("GET", "/review").text)
    assert site.ask("POST", "/review/approve", {"csrf": token, "id": ticket}).status == 303
    assert layers.read(path).trust == "confirmed"
