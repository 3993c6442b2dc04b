"""axe-core on every page, light and dark, phone and desktop."""

from __future__ import annotations

import os
from collections.abc import Callable

from web.conftest import DESKTOP, PHONE, OpenPage
from web.routes import crawl, route_of
from web.web_site import Site

LONG = bool(os.environ.get("MEMSHEAF_LONG"))


def test_every_page_is_accessible(
    sample_site: Site, open_page: OpenPage, check_accessibility: Callable[..., None]
) -> None:
    """All rules on a phone in light, or those about colour and width on a desktop in dark; in the long run both."""
    page = open_page(sample_site, width=PHONE)
    found = []
    for number, url in enumerate(one_of_each(sample_site)):
        try:
            if number % 2 == 0 or LONG:
                page.emulate_media(color_scheme="light")
                page.set_viewport_size({"width": PHONE, "height": 740})
                page.goto(sample_site.origin + url)
                check_accessibility(page)
            if number % 2 == 1 or LONG:
                page.emulate_media(color_scheme="dark")
                page.set_viewport_size({"width": DESKTOP, "height": 900})
                page.goto(sample_site.origin + url)
                check_accessibility(page, "color-contrast", "scrollable-region-focusable", "target-size")
        except AssertionError as error:
            found.append(str(error)[:3000])
    assert found == [], "\n".join(found)


def one_of_each(site: Site) -> list[str]:
    """One address of each page: the last that was found, which has more to show than the first."""
    pages = [url for url, text in crawl(site, each=4).pages.items() if text.startswith("<!doctype html>")]
    return list({route_of(url): url for url in pages}.values())
