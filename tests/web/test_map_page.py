"""The map: dots that tell and open, by mouse, touch and keyboard; a list and a picture without JavaScript."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from web.conftest import OpenPage
from web.web_site import Site


def open_map(open_page: OpenPage, site: Site) -> Page:
    page = open_page(site, "/map")
    expect(page.locator("canvas[data-ready='127']")).to_be_visible()
    return page


def test_a_dot_tells_its_name_and_is_opened_by_keyboard_alone(sample_site: Site, open_page: OpenPage) -> None:
    page = open_map(open_page, sample_site)
    page.locator("canvas").focus()
    for key in ("+", "ArrowLeft", "-", "0", "n", "n", "p"):
        page.keyboard.press(key)
    name = page.locator(".tip").inner_text().split("\n")[0]
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/memory/"))
    expect(page.locator("main")).to_contain_text(name)


def test_a_dot_is_found_and_opened_by_mouse_and_types_can_be_hidden(sample_site: Site, open_page: OpenPage) -> None:
    page = open_map(open_page, sample_site)
    page.get_by_role("button", name="project").click()
    expect(page.get_by_role("button", name="project")).to_have_attribute("aria-pressed", "false")
    page.get_by_role("button", name="project").click()
    box = page.locator("canvas").bounding_box()
    assert box
    for step in range(400):  # until some dot is under the mouse
        page.mouse.move(
            box["x"] + box["width"] * (0.1 + step % 20 / 25), box["y"] + box["height"] * (0.1 + step // 20 / 25)
        )
        if page.locator("canvas.on").count():
            break
    name = page.locator(".tip").inner_text().split("\n")[0]
    page.mouse.down()
    page.mouse.up()
    expect(page).to_have_url(re.compile("/memory/"))
    expect(page.locator("main")).to_contain_text(name)


def test_without_javascript_there_are_lists_by_cluster_and_a_picture(sample_site: Site, open_page: OpenPage) -> None:
    open_map(open_page, sample_site)  # so that it is made
    page = open_page(sample_site, "/map", javascript=False)
    expect(page.locator(".map img")).to_be_visible()
    cluster = page.locator("details").first
    cluster.locator("summary").click()
    cluster.locator("a").first.click()
    expect(page).to_have_url(re.compile("/memory/"))
