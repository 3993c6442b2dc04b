"""Take the pictures that README and docs/web.md show, from the sample: `make screenshots`.

    python tests/web/screenshots.py docs/images

Nicer with the font Inter, and with fonts for Chinese and emoji: on Debian fonts-inter, fonts-wqy-microhei and
fonts-noto-color-emoji. Dates are relative to now, so each run differs a little.
"""

from __future__ import annotations

import base64
import shutil
import struct
import sys
import tempfile
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
from playwright.sync_api import Browser, Page, sync_playwright

from web.conftest import CHROMIUM
from web.sample import PRESENT, build
from web.web_site import PATIENCE, Site, serve

FONT = ':root { --font: Inter, "WenQuanYi Micro Hei", "DejaVu Sans", "Noto Color Emoji", sans-serif }'
PIXELS = """async (data) => {
  const picture = await createImageBitmap(await (await fetch(`data:image/png;base64,${data}`)).blob());
  const canvas = new OffscreenCanvas(picture.width, picture.height), context = canvas.getContext("2d");
  context.drawImage(picture, 0, 0);
  const bytes = context.getImageData(0, 0, picture.width, picture.height).data, parts = [];
  for (let at = 0; at < bytes.length; at += 8192) parts.push(String.fromCharCode(...bytes.subarray(at, at + 8192)));
  return [picture.width, picture.height, btoa(parts.join(""))];
}"""
COLOURS, EXACT = 256, 64  # of a palette, and those that stay as they are: the most common
LARGEST = 150_000
MEMORY = "/memory/project/feedback_migrations-add.md"


class Picture(NamedTuple):
    """One picture: its name, the address, and how it is looked at."""

    name: str
    path: str
    dark: bool = False
    width: int = 1280
    height: int = 800
    scale: float = 1.0
    scroll: str = ""  # to the element that this selects


PICTURES = (
    Picture("memory", MEMORY),
    Picture("history", "/memory/project/project_search-answer-200-ms.md/history"),
    Picture("edit", f"{MEMORY}/edit"),
    Picture("memories", "/memories?q=tests+against+the+database"),
    Picture("review", "/review?scope=project", scroll="[data-card]:has(blockquote)"),
    Picture("recall", "/recall?scope=project&q=can+I+drop+a+column+in+this+migration%3F"),
    Picture("activity", "/activity"),
    Picture("settings", "/settings"),
    Picture("phone", "/review?scope=project", width=360, height=740, scale=2.0, scroll="[data-card]:has(blockquote)"),
    Picture("home", "/"),
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
                data = shrink(browser, take(browser, site, picture))
                (target / f"web-{picture.name}.png").write_bytes(data)
                print(f"web-{picture.name}.png  {len(data) / 1000:.0f} KB")
                too_large += [picture.name] * (len(data) > LARGEST)
            browser.close()
    print(*(f"{name} is larger than {LARGEST / 1000:.0f} KB" for name in too_large), sep="\n", file=sys.stderr)
    return int(bool(too_large))


def take(browser: Browser, site: Site, picture: Picture) -> bytes:
    """One picture of the window, not of the whole page."""
    context = browser.new_context(
        viewport={"width": picture.width, "height": picture.height},
        device_scale_factor=picture.scale,
        color_scheme="dark" if picture.dark else "light",
        reduced_motion="reduce",
        locale="en-GB",
        bypass_csp=True,  # for the font
    )
    context.set_default_timeout(PATIENCE * 1000)
    name, _, value = site.cookie.partition("=")
    context.add_cookies([{"name": name, "value": value, "url": site.origin}])
    page: Page = context.new_page()
    answer = page.goto(site.origin + picture.path)
    if answer is None or answer.status != 200:
        print(f"{picture.path}: {answer and answer.status}", file=sys.stderr)
    page.add_style_tag(content=FONT)
    if picture.scroll:
        page.locator(picture.scroll).first.evaluate("element => element.scrollIntoView()")
        page.mouse.wheel(0, -20)
    data = page.screenshot(animations="disabled")
    context.close()
    return data


def shrink(browser: Browser, data: bytes) -> bytes:
    """The same picture with a palette, which makes it a third as large."""
    page = browser.new_page()
    width, height, encoded = page.evaluate(PIXELS, base64.b64encode(data).decode())
    page.close()
    pixels = np.frombuffer(base64.b64decode(encoded), np.uint8).reshape(-1, 4)[:, :3].astype(np.int64)
    colours, where, counts = np.unique(pixels @ np.array([65536, 256, 1]), return_inverse=True, return_counts=True)
    shades = np.stack([colours >> 16, colours >> 8 & 255, colours & 255], 1).astype(np.float32)
    weights = np.sqrt(counts)  # or a rare colour, such as that of the icon, would be lost
    palette = shades[np.argsort(-weights)[:COLOURS]]
    for _ in range(10):  # k-means
        nearest = ((shades**2).sum(1)[:, None] - 2 * shades @ palette.T + (palette**2).sum(1)).argmin(1)
        total = np.bincount(nearest, weights, len(palette))[:, None]
        sums = np.stack([np.bincount(nearest, weights * shades[:, at], len(palette)) for at in range(3)], 1)
        moved = np.where(total > 0, sums / np.maximum(total, 1), palette).astype(np.float32)
        palette[EXACT:] = moved[EXACT:]
    rows = nearest.astype(np.uint8)[where].reshape(height, width)
    raw = np.hstack([np.zeros((height, 1), np.uint8), rows]).tobytes()
    head = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    chunks = (
        (b"IHDR", head),
        (b"PLTE", palette.round().astype(np.uint8).tobytes()),
        (b"IDAT", zlib.compress(raw, 9)),
    )
    made = b"".join(_chunk(*one) for one in (*chunks, (b"IEND", b"")))
    return b"\x89PNG\r\n\x1a\n" + made


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
