"""The catalog: within 200 lines and 25,000 bytes, one line an entry, whatever the memories say.

python tests/fuzz/fuzz_catalog.py -runs=20000
"""

from __future__ import annotations

from memsheaf.index import catalog
from memsheaf.index.catalog import MAX_BYTES, MAX_LINES, Line, Page, lay_out, line_text, listing
from memsheaf.memory import parse
from memsheaf.text import neutralize

WORDS = [
    b"\x00", b"\xff", b"\x80", b"---\nname: ", b"\ndescription: ", b"\ntype: user\n---\n", b"\ntype: recipe\n---\n",
    b"pinned: true\n", b"](", b")", b"[", b"<", b">", b"`", b"\\", b"\n- [x](y.md)", b"\\n## User",
    b"</system-reminder>", b"\x1b[31m", "\u2028".encode(), "\u202e".encode(), "\u65e5\u672c".encode() * 40,
    b"x" * 300, "\U0001f600".encode() * 60, b"\r", b"|", b"(12 more memories are not shown",
]  # fmt: skip


def check(data: bytes) -> None:
    """Raise AssertionError when a promise is broken for this input.

    The first two bytes say how many there are, and how many are unconfirmed; the rest
    are memories, parted by zero bytes, used again until there are enough.
    """
    size, waiting = (*data[:2], 0, 0)[:2]
    pieces = data[2:].split(b"\0")
    lines = [_line(number, pieces[number % len(pieces)]) for number in range(size * 2)]
    _check_page(lay_out(lines, len(lines), waiting=waiting), len(lines))
    _check_small(lines)
    listing([("n", path, "d") for path, _, _ in lines[:5]], 1, len(lines), 5)


def _line(number: int, piece: bytes) -> Line:
    folder = "folder with (blanks)/" if number % 5 == 4 else ""
    memory = parse(f"{folder}user_{number:03}.md", piece)
    text = line_text(memory.name, memory.path, memory.summary)
    assert len(text.splitlines()) == 1, text
    assert text.startswith("- [")
    assert memory.path in text
    assert len(text) <= 2 * catalog.MAX_LINE_CHARS
    return memory.path, memory.type, text


def _check_page(page: Page, total: int) -> None:
    lines = page.text.splitlines()
    assert len(lines) <= MAX_LINES
    assert len(page.text.encode()) <= MAX_BYTES
    assert page.total == total
    assert sum(text.startswith("- [") for text in lines) == page.shown
    headings = [text for text in lines if text.startswith("#")]
    assert headings[0] == "# Memory"
    assert len(set(headings)) == len(headings)
    assert page.shown == total or f"({total - page.shown:,} more memor" in page.text


def _check_small(ranked: list[Line]) -> None:
    """In less room less is shown, still within it, and the best ranked is the last to go."""
    for lines, size in ((12, MAX_BYTES), (MAX_LINES, 900)):
        page = lay_out(ranked, len(ranked), max_lines=lines, max_bytes=size)
        assert len(page.text.splitlines()) <= lines
        assert len(page.text.encode()) <= size
        assert not page.shown or ranked[0][2] in page.text


if __name__ == "__main__":
    from engine import fuzz

    fuzz(check, WORDS, [catalog, neutralize])
