"""The header reader: never raises, loses no byte, and an edit touches what it names and nothing else.

python tests/fuzz/fuzz_frontmatter.py -runs=100000
"""

from __future__ import annotations

from contextlib import suppress

from memsheaf import frontmatter, memory
from memsheaf.errors import TextRefused
from memsheaf.frontmatter import edit_text, join, quote_value, split

WORDS = [
    b"---\n", b"---\r\n", b"---", b"\n", b"\r\n", b"\r", b"\xef\xbb\xbf", b"name: ", b"type: user\n",
    b"updated: 2026-11-15\n", b"description: a\n", b"tags: [a, 'b', \"c\"]\n", b"metadata:\n  type: user\n",
    b"list:\n  - a\n  - b: c\n", b"  - ", b": ", b" # c\n", b"#", b"'", b'"', b"''", b'\\"', b"\\u0041", b"\\x", b"[",
    b"]", b"{", b"}", b"&a", b"*a", b"!", b"|\n", b">\n", b"NO", b"~", b"null", b"1e3", b"0x1f", b"\t", b"\0",
    b"\x85", b"\xe2\x80\xa8", b"\xff", b"\xed\xa0\x80", b"<<<<<<< a\n", b"=======\n", b">>>>>>> b\n", b"? ", b"- ",
    b"...\n", b"key with blank: x\n", "schl\u00fcssel: wert\n".encode(),
]  # fmt: skip


def check(data: bytes) -> None:
    """Raise AssertionError when a promise is broken for this input."""
    text = data.decode("utf-8", "surrogateescape")
    page = split(text)
    assert page.head + page.body == text
    assert all(field.first <= field.last for field in page.fields)
    _check_values(page.body)
    _check_memory(data)
    if page.head and not page.problem:
        _check_edits(text, page)


def _check_edits(text: str, page: frontmatter.ParsedText) -> None:
    assert edit_text(text) == text
    value = page.body[:40]
    for fields in ({"updated": "2026-11-15"}, {"name": value, "new": "x"}, {"tags": (value, "b")}, {"name": None}):
        try:
            new = edit_text(text, fields=fields)
        except TextRefused:
            continue
        after = split(new)
        assert not after.problem
        assert after.body == page.body
        for key, wanted in fields.items():
            assert after.value(key) == ("" if wanted is None else wanted)
        kept = [(field.key, field.value) for field in page.fields if field.key not in fields]
        assert [(field.key, field.value) for field in after.fields if field.key not in fields] == kept
        lines = new.split("\n")
        for line in _foreign_lines(text, page, fields):
            assert line in lines, line


def _foreign_lines(text: str, page: frontmatter.ParsedText, fields: object) -> list[str]:
    """The header's lines that belong to no field, or to a field that was not named: they stay byte for byte."""
    lines = page.head.split("\n")
    assert isinstance(fields, dict)
    ours = {number for field in page.fields if field.key in fields for number in range(field.first, field.last + 1)}
    return [line for number, line in enumerate(lines, 1) if number not in ours and number < len(lines) - 1]


def _check_values(value: str) -> None:
    """What is written is read back as it was."""
    value = value[:200]
    try:
        written = quote_value(value)
        whole = join({"key": value, "list": (value, value)}, value)
    except TextRefused:
        return
    assert split(f"---\nkey: {written}\n---\n").get("key") == value
    page = split(whole)
    assert not page.problem
    assert page.get("key") == value
    assert page.value("list") == (value, value)


def _check_memory(data: bytes) -> None:
    """Any file is a memory of some state, and its line in the catalog is one line."""
    found = memory.parse("user_a.md", data)
    assert found.data == data
    assert found.state
    assert "\n" not in found.name + found.description
    assert isinstance(found.pinned, bool)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return
    with suppress(TextRefused):
        assert memory.check("user_a.md", text).state == "ok"


if __name__ == "__main__":
    from engine import fuzz

    fuzz(check, WORDS, [frontmatter, memory], "malformed_frontmatter.json")
