from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memsheaf.text.spoken import SHOWN, spoken


def test_what_is_only_shown_is_blotted_out() -> None:
    for text, rest in [
        ("run `make` now", "run now"),
        ("say\n```\ncode\n```\nmore", "say more"),
        ("say\n~~~\nopen to the end", "say"),
        ("see https://example.org/a?b=c, then go", "see then go"),
        ("write to ana@example.org today", "write to today"),
        ("> quoted\nmine", "mine"),
        ("he said “for now” and left", "he said and left"),
        ("he said \"for now\" and it's fine, isn't it", "he said and it's fine, isn't it"),
        ("他说「暂时」就走了", "他说 就走了"),
        ("5' long and 6' wide", "5' long and 6' wide"),
    ]:
        assert " ".join(spoken(text).replace(SHOWN, " ").split()) == rest


@given(st.text(alphabet="ab \n`~>\"'“”«»「」:/@.hw"))
def test_every_character_and_line_keeps_its_place(text: str) -> None:
    left = spoken(text)

    assert len(left) == len(text)
    assert all(new in (old, SHOWN) for old, new in zip(text, left, strict=True))
    assert left.count("\n") == text.count("\n")
