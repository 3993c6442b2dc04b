"""What somebody said, without what programs put around it."""

from __future__ import annotations

from memsheaf.recall.inject import render_section
from memsheaf.text.host_wrappers import unwrapped

NONCE = "0123456789abcdef"


def test_only_what_was_said_is_left() -> None:
    for text, said in [
        ("Plain words, 中文, < 5 and <b>.", "Plain words, 中文, < 5 and <b>."),
        (f"<memories-{NONCE}>\nold\n<memory-{NONCE} file=x>y</memory-{NONCE}></memories-{NONCE}>\nNew.", "New."),
        (f'A <memory-{NONCE} file="a.md" type="user">old</memory-{NONCE}> B', "A  B"),
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
