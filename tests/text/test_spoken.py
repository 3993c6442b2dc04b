from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memsheaf.recall.inject import render_section
from memsheaf.text.spoken import SHOWN, spoken, unwrapped


def test_what_is_only_shown_is_blotted_out() -> None:
    for text, rest in [
        ("run `make` now", "run now"),
        ("say\n```\ncode\n```\nmore", "say more"),
        ("say\n~~~\nopen to the end", "say"),
        ("see https://example.org/a?b=c, then go", "see , then go"),
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


# without what programs put around it


NONCE = "0123456789abcdef"


def test_only_what_was_said_is_left() -> None:
    for text, said in [
        ("Plain words, 中文, < 5 and <b>.", "Plain words, 中文, < 5 and <b>."),
        (f"<memories-{NONCE}>\nold\n<memory-{NONCE} file=x>y</memory-{NONCE}></memories-{NONCE}>\nNew.", "New."),
        (f'A <memory-{NONCE} file="a.md" type="user">old</memory-{NONCE}> B', "A  B"),
        (f"A\n<memories-{NONCE}>\nData.\n- old (you, 1 Nov; x.md)\n  more\n</memories-{NONCE}>\n", "A"),
        (f"New.<memories-{NONCE}>\ncut off by the host", "New."),
        (f"<memories-{NONCE}>x</memories-ffffffffffffffff>y</memories-{NONCE}>z", "z"),
        ("<system-reminder>a</system-reminder>b<system-reminder>c</system-reminder>", "b"),
        ("What does <system-reminder> mean?", "What does <system-reminder> mean?"),
        ("<command-name>/review</command-name><command-args>the diff, please</command-args>", "the diff, please"),
        ("<local-command-stdout>\x1b[1mok\x1b[0m</local-command-stdout>", ""),
        ("[Request interrupted by user for tool use]", ""),
        ("half \ud800 a character", "half ? a character"),
        ("# Memory\n\nis what this page is about", "# Memory\n\nis what this page is about"),
    ]:
        assert unwrapped(text) == said


def test_our_section_of_a_system_prompt_is_known_in_every_form() -> None:
    for offer in ["all", "reading", "none"]:
        section = render_section(scope="user", catalog="# Memory\n- [X](x.md) tabs", context="A rule.", offer=offer)

        assert unwrapped(section) == ""
        assert unwrapped(f"Before.\n{section}\n# Rest\nBehind.") == "Before.\n# Rest\nBehind."


def test_hostile_text_takes_time_in_proportion() -> None:
    for piece in [
        "<system-reminder>", f"<memories-{NONCE}>", "# Memory\n", "# Memory\n\nYou have a memory that outlives", "<",
        "<system-reminder ", "<command-args>", "</system-reminder>", "<system-reminder>x</system-reminder>",
    ]:  # fmt: skip
        unwrapped(piece * 50_000)
