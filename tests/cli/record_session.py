"""Draw docs/assets/session.svg: a terminal session, typed into the real program, line by line.

python tests/cli/record_session.py > docs/assets/session.svg
"""

from __future__ import annotations

import os
import re
import sys
from html import escape

from memsheaf.cli.demo import play
from memsheaf.cli.output import Styled

STORY = """
shop $ memsheaf list
shop $ memsheaf remember "I prefer pnpm"
shop $ memsheaf remember "We deploy on Fridays after the standup"
blog $ memsheaf list
shop $ memsheaf remember "We now deploy on Mondays after the standup"
shop $ memsheaf undo
"""
WIDTH, LINE, LETTER, MARGIN = 90, 19, 8.4, 16  # columns; the rest in pixels
COLOURS = {"  + ": "#7ee787", "  - ": "#ffa198"}
TYPING, ANSWER = 1.2, 0.12  # seconds before a line that is typed, and before one that is answered


def draw(lines: list[str | Styled]) -> str:
    """The session as an SVG whose lines appear one after the other; where nothing may move, all of them are there."""
    drawn, at = [], 0.0
    for number, line in enumerate(lines):
        is_typed = isinstance(line, Styled)
        text = re.sub(r"\b[0-9a-f]{12}\b", "3f2a9c1b04de", line.text if isinstance(line, Styled) else line)[2:]
        at += TYPING if is_typed else ANSWER
        colour = "#e6edf3" if is_typed else COLOURS.get(text[:4], "#9da7b3")
        place = f'x="{MARGIN}" y="{MARGIN + LINE * number + 13}" style="animation-delay:{at:.2f}s"'
        shown = escape(text if len(text) <= WIDTH else text[: WIDTH - 1] + "…")
        drawn.append(f'<text {place} fill="{colour}" xml:space="preserve">{shown}</text>')
    width, height = int(WIDTH * LETTER + MARGIN * 2), MARGIN * 2 + LINE * len(lines)
    body = "\n".join(drawn)
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">
<title>A terminal session: an agent forgets, two commands, an agent that remembers</title>
<style>
text {{ font: 14px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; opacity: 0;
  animation: appear .01s linear forwards; }}
@keyframes appear {{ to {{ opacity: 1; }} }}
@media (prefers-reduced-motion: reduce) {{ text {{ animation: none; opacity: 1; }} }}
</style>
<rect width="100%" height="100%" rx="8" fill="#0d1117"/>
{body}
</svg>
"""


if __name__ == "__main__":
    played = play(STORY, os.environ)
    sys.stdout.write(draw([line for line in played if isinstance(line, Styled) or not line.startswith("  · ")]))
