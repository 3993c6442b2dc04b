"""axe-core on every page, light and dark, phone and desktop."""

from __future__ import annotations

from collections.abc import Callable

from web.conftest import DESKTOP, PHONE, OpenPage
from web.routes import crawl, route_of
from web.web_site import Site


def test_every_page_is_accessible(
    sample_site: Site, open_page: OpenPage, check_accessibility: Callable[..., None]
) -> None:
    """All rules on a phone in light; what depends on colour and width on a desktop in dark."""
    page = open_page(sample_site, width=PHONE)
    found = []
    for url in one_of_each(sample_site):
        page.emulate_media(color_scheme="light")
        page.set_viewport_size({"width": PHONE, "height": 740})
        page.goto(sample_site.origin + url)
        try:
            check_accessibility(page)
            page.emulate_media(color_scheme="dark")
            page.set_viewport_size({"width": DESKTOP, "height": 900})
            check_accessibility(page, "color-contrast", "scrollable-region-focusable", "target-size")
        except AssertionError as error:
            found.append(str(error)[:3000])
    assert found == [], "\n".join(found)


def one_of_each(site: Site) -> list[str]:
    """One address of each page: the last that was found, which has more to show than the first."""
    pages = [url for url, text in crawl(site, each=4).pages.items() if text.startswith("<!doctype html>")]
    return list({route_of(url): url for url in pages}.values())
