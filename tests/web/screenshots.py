"""Take the pictures that README and docs/web.md show, from the sample: `make screenshots`.

    python tests/web/screenshots.py docs/assets

A picture is kept as it is when its page looks the same, so that a run without changes changes nothing.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import Browser, Page, sync_playwright

from web.conftest import CHROMIUM
from web.sample import PRESENT, build
from web.web_site import PATIENCE, Site, serve

MEMORY = "/memory/project/project_search-must-answer-in-200-ms.md"


class Picture(NamedTuple):
    """One picture: its name, the address, and how it is looked at."""

    name: str
    path: str
    dark: bool = False
    width: int = 1280
    height: int = 800
    scale: float = 1.0


PICTURES = (
    Picture("home", "/"),
    Picture("home-dark", "/", dark=True),
    Picture("browse", "/browse"),
    Picture("browse-dark", "/browse", dark=True),
    Picture("memory", MEMORY),
    Picture("memory-dark", MEMORY, dark=True),
    Picture("edit", f"{MEMORY}/edit"),
    Picture("review", "/review"),
    Picture("review-dark", "/review", dark=True),
    Picture("recall", "/recall?scope=project&q=can+I+drop+a+column+in+this+migration%3F"),
    Picture("timeline", "/timeline"),
    Picture("dream", "/dream?scope=project"),
    Picture("map", "/map?scope=project"),
    Picture("map-dark", "/map?scope=project", dark=True),
    Picture("work", "/work"),
    Picture("conversations", "/conversations"),
    Picture("settings", "/settings"),
    Picture("phone", "/review", width=360, height=740, scale=2.0),
    Picture("phone-dark", "/", dark=True, width=360, height=740, scale=2.0),
)


def main(folder: str) -> int:
    """Write all pictures; gives 1 when one is larger than it may be."""
    target, too_large = Path(folder), []
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch) / "sample"
        build(place)
        with serve(place / "home", cwd=place / PRESENT) as site, sync_playwright() as playwright:
            program = shutil.which("chromium") or shutil.which("google-chrome")
            browser = playwright.chromium.launch(executable_path=program, args=CHROMIUM)
            for picture in PICTURES:
                data = take(browser, site, picture)
                (target / f"web-{picture.name}.png").write_bytes(data)
                print(f"web-{picture.name}.png  {len(data) / 1000:.0f} KB")
                too_large += [picture.name] * (len(data) > LARGEST)
            browser.close()
    print(*(f"{name} is larger than {LARGEST / 1000:.0f} KB" for name in too_large), sep="\n", file=sys.stderr)
    return int(bool(too_large))


LARGEST = 150_000


def take(browser: Browser, site: Site, picture: Picture) -> bytes:
    """One picture of the window, not of the whole page."""
    context = browser.new_context(
        viewport={"width": picture.width, "height": picture.height},
        device_scale_factor=picture.scale,
        color_scheme="dark" if picture.dark else "light",
        reduced_motion="reduce",
        locale="en-GB",
    )
    context.set_default_timeout(PATIENCE * 1000)
    name, _, value = site.cookie.partition("=")
    context.add_cookies([{"name": name, "value": value, "url": site.origin}])
    page: Page = context.new_page()
    answer = page.goto(site.origin + picture.path)
    if answer is None or answer.status != 200:
        print(f"{picture.path}: {answer and answer.status}", file=sys.stderr)
    data = page.screenshot(animations="disabled")
    context.close()
    return data


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
