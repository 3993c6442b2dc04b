from __future__ import annotations

from datetime import date

import pytest

from memsheaf.chat.offline.drafts import Style, corrected, drafted, starter, style_of
from memsheaf.chat.offline.tool_answers import Known

TODAY = date(2026, 3, 14)
KNOWN = Known("user_style.md", "user", "", "Use tabs.")


def test_a_draft_keeps_the_whole_of_what_was_said() -> None:
    draft = drafted("we freeze on 2026-12-01. Mira knows why", "", "English", TODAY)
    assert draft.content == "we freeze on 2026-12-01. Mira knows why."
    assert draft.type == "project"


def test_a_correction_replaces_the_sentence_that_is_most_like_it() -> None:
    body = "The shop is old.\nWe deploy on Thursdays, at noon.\n- Mira approves."
    assert corrected(body, "We deploy on Fridays.") == "The shop is old.\nWe deploy on Fridays.\n- Mira approves."
    assert corrected("", "We deploy on Fridays.") == "We deploy on Fridays."


# files


@pytest.mark.parametrize(
    "path", ["a.py", "a.ts", "a.js", "a.sh", "a.md", "a.txt", "a.json", "a.html", "a.zig", "x/b.TSX"]
)
def test_every_starter_ends_with_one_line_break(path: str) -> None:
    text, follows = starter(path, Style())
    assert text.endswith("\n")
    assert not text.endswith("\n\n")
    assert "\t" not in text
    assert follows == []


@pytest.mark.parametrize(
    ("said", "indent", "quote"),
    [
        ("The user prefers tabs for indentation, not spaces.", "\t", ""),
        ("Indent with 2 spaces, never tabs.", "  ", ""),
        ("Use two-space indentation.", "  ", ""),
        ("I indent code with 3 blanks.", "   ", ""),
        ("Use single quotes over double quotes.", "", "'"),
        ("In code, use double quotes instead of single quotes and tabs rather than spaces.", "\t", '"'),
        ("Tabs statt Leerzeichen zum Einrücken.", "\t", ""),
        ("Préfère les espaces plutôt que des tabulations dans le code.", "    ", ""),
        ("用制表符缩进，不用空格。", "\t", ""),
        ("インデントはスペースではなくタブ。", "\t", ""),
        ("The user keeps forty browser tabs open.", "", ""),
        ("The office has spaces for bicycles.", "", ""),
    ],
)
def test_style_is_what_a_memory_wants_and_not_what_it_turns_down(said: str, indent: str, quote: str) -> None:
    style = style_of([Known("user_style.md", "user", "", said)])
    assert (style.indent, style.quote) == (indent, quote)


def test_a_starter_follows_only_what_it_can_follow() -> None:
    style = Style(indent="\t", quote="'", indented=KNOWN, quoted=KNOWN)

    assert starter("a.json", style) == ("{}\n", [])
    assert starter("a.sh", style)[1] == [KNOWN]
    assert "'Hello'" in starter("a.js", style)[0]
