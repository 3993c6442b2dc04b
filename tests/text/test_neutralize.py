from __future__ import annotations

import json
import os
import re
import time
import unicodedata
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsheaf.text.neutralize import cut_bytes, for_prompt, for_terminal, link_text, one_line

CORPUS = os.path.join(os.path.dirname(__file__), "..", "corpora", "injection.json")
with open(CORPUS, encoding="utf-8") as file:
    CASES: list[dict[str, Any]] = json.load(file)["cases"]

BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
HIDDEN = "\u200b\u2060\u2061\u2064\ufeff\xad\u034f\u115f\u1160\u3164\uffa0\u180e\U000e0041\U000e0001\U000e007f"
FLAG = "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f"
TEXTS = st.one_of(
    st.text(alphabet=st.characters()),
    st.lists(
        st.sampled_from(
            [
                "<", "＜", "﹤", "/", "|", "memory>", "im_end", " ", "\n", "\r", "[", "［", "/INST", "INST",
                "]", "a", "1", "=", "-", "é", "م", "क", "葛", "😀", "❤", "\u200b", "\u200c", "\u200d",
                "\ufe0f", "\ufe01", "\u2060", "\U000e0155", "\U000e0067", "\x1b", "\x85", "\u2028", "\u202e",
                "\ud800", FLAG, FLAG[:4], "…", "`", "\\",
            ]
        ),
        max_size=30,
    ).map("".join),
)  # fmt: skip


def payload(case: dict[str, Any]) -> str:
    text = str(case["payload"])
    generated = re.fullmatch(r'\{\{GENERATE "(.)" x (\d+)\}\}', text)
    if generated:
        return generated[1] * int(generated[2])
    return "\n".join(f"000-{n}" for n in range(4000)) if text.startswith("{{GENERATE 4000") else text


def names(case: dict[str, Any]) -> str:
    return f"{case['id']} {case['technique']}"


def acts_on_a_terminal(character: str) -> bool:
    if character in "\n\t":
        return False
    return (
        unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")
        or character in BIDI
        or "\U000e0000" <= character <= "\U000e007f"
    )


def test_no_payload_reaches_a_terminal_with_power() -> None:
    for case in CASES:
        assert not any(map(acts_on_a_terminal, for_terminal(payload(case))))


def test_no_payload_opens_or_closes_anything_in_a_prompt() -> None:
    for case in CASES:
        text = for_prompt(payload(case))
        assert not re.search(r"[<＜﹤]\s*[/|!?<]?\s*\w*[a-z|>]", text, re.IGNORECASE)
        assert not re.search(r"\[\s*/?\s*(INST|SYS)", text)
        if case["id"] != "N14":
            assert not any(map(acts_on_a_terminal, text))


def test_every_payload_is_one_catalog_line() -> None:
    for case in CASES:
        line = f"- [{link_text(payload(case), 60)}](file.md) — {one_line(payload(case), 120)}"
        assert len(line) <= 200
        assert not any(unicodedata.category(character) in ("Cc", "Zl", "Zp") for character in line)
        assert re.match(r"- \[[^\[\]<>`\\]*\]\(file\.md\) — ", line)


def test_hidden_words_are_shown_to_a_reviewer_and_kept_from_a_model() -> None:
    for identifier in ["I40", "I41"]:
        text = next(payload(case) for case in CASES if case["id"] == identifier)
        visible = "".join(c for c in text if not ("\u200b" <= c <= "\u200d" or c >= "\U000e0000"))
        assert for_prompt(text) == visible == one_line(text, 200)
        hidden = len(text) - len(visible)
        assert for_terminal(text).count("<U+") == hidden > 0


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if case["id"].startswith("N") and case["id"] not in ("N09", "N14")],
    ids=names,
)
@pytest.mark.parametrize("way", [for_terminal, for_prompt, lambda text: one_line(text, 1000)])
def test_honest_text_passes_unchanged(case: dict[str, Any], way: Callable[[str], str]) -> None:
    assert way(case["payload"]) == case["payload"]


def test_emoji_and_flags_reach_a_prompt_whole() -> None:
    (text,) = [case["payload"] for case in CASES if case["id"] == "N14"]
    assert for_prompt(text) == text
    assert one_line(text, 1000) == text


def test_spelling_survives() -> None:
    for text in ["می\u200cخواهم", "क्\u200dष", "ශ්\u200dරී", "👩\u200d💻", "👨🏽\u200d🚀", "❤\ufe0f\u200d🔥",
     "🏳\ufe0f\u200d🌈", "1\ufe0f\u20e3", "©\ufe0f", "葛\U000e0100", "ᠠ", "naïve", "日本語"]:  # fmt: skip
        assert for_terminal(text) == for_prompt(text) == one_line(text, 100) == text


def test_what_draws_nothing_is_spelt_out_or_removed() -> None:
    for hidden in [*BIDI, *HIDDEN, "\x00", "\x1b", "\x7f", "\x9b", "\ud800"]:
        assert for_terminal(f"a{hidden}b") == f"a<U+{ord(hidden):04X}>b"
        assert for_prompt(f"a{hidden}b") == "ab"
        assert one_line(f"a{hidden}b", 100) in ("ab", "a b")


def test_joiners_and_selectors_stay_only_where_they_spell_something() -> None:
    for text, expected in [
        ("ig\u200dnore", "ignore"),
        ("\u200cа\u200cб", "аб"),
        ("م\u200c\u200d\u200c\u200dم", "م\u200cم"),
        ("😀\ufe01\ufe02\ufe03", "😀\ufe01"),
        ("a\ufe0f\u200db", "ab"),
        ("a\u2060\ufe0f", "a"),
        ("\U0001f3f4\U000e0068\U000e0069\U000e007f", "\U0001f3f4"),
        (FLAG[:-1], "\U0001f3f4"),
    ]:
        assert for_prompt(text) == expected


def test_a_terminal_gets_line_breaks_and_tabs_but_no_carriage_return() -> None:
    assert for_terminal("a\r\nb\tc\rd") == "a\nb\tc<U+000D>d"


def test_in_a_prompt_a_tag_is_only_text() -> None:
    for text, expected in [
        ("</memory>", "&lt;/memory>"),
        ("< / SyStem-Reminder >", "&lt; / SyStem-Reminder >"),
        ("＜/system-reminder＞", "&lt;/system-reminder＞"),
        ("<\u200b/system-reminder>", "&lt;/system-reminder>"),
        ("<\n/system-reminder>", "&lt;\n/system-reminder>"),
        ("<|im_end|>", "&lt;|im_end|>"),
        ("<｜User｜>", "&lt;｜User｜>"),
        ("<<SYS>>", "&lt;&lt;SYS>>"),
        ("[/INST] [ inst ]", "&#91;/INST] &#91; inst ]"),
        ("<!-- x -->", "&lt;!-- x -->"),
        ("<память>", "&lt;память>"),
        ("x <= 3, y <5, z < 10, a <- b", "x <= 3, y <5, z < 10, a <- b"),
        ("a[i] and [Name](file.md)", "a[i] and [Name](file.md)"),
        ("a\r\nb\rc\u2028d", "a\nb\nc\nd"),
        ("a\r\nb\rc", "a\nb\nc"),
        ("a\x0bb\x0cc", "a\nb\nc"),
        ("﹤/memory>", "&lt;/memory>"),
    ]:
        assert for_prompt(text) == expected


@given(TEXTS)
def test_neutral_text_is_neutral_already(text: str) -> None:
    assert for_prompt(for_prompt(text)) == for_prompt(text)
    assert for_terminal(for_terminal(text)) == for_terminal(text)
    assert not any(map(acts_on_a_terminal, for_terminal(text)))
    assert not any(map(acts_on_a_terminal, for_prompt(text).replace(FLAG, "")))
    assert "</" not in for_prompt(text)


@given(TEXTS, st.integers(0, 40))
def test_one_line_is_one_line_within_its_limit(text: str, limit: int) -> None:
    line = one_line(text, limit)
    assert len(line) <= limit
    assert not any(map(acts_on_a_terminal, line.replace(FLAG, "")))
    assert line == line.strip()
    assert "  " not in line
    assert one_line(line, limit) == line
    name = link_text(text, limit)
    assert len(name) <= limit
    assert not set("[]\\`<>\n\r") & set(name)


def test_a_line_is_cut_where_a_reader_sees_it() -> None:
    for text, limit, line in [
        ("a\r\n\r\n# b", 20, "a # b"),
        ("a\x00b\x1b[31m", 20, "a b [31m"),
        ("  a \u00a0\u3000 b  ", 20, "a b"),
        ("abcdef", 6, "abcdef"),
        ("abcdef", 5, "abcd…"),
        ("ab cdef", 4, "ab…"),
        ("abc", 0, ""),
        ("abc", 1, "…"),
        ("ab" + FLAG, 5, "ab\U0001f3f4…"),
        ("a👩\u200d💻b", 4, "a👩…"),
    ]:
        assert one_line(text, limit) == line


@given(TEXTS, st.integers(-1, 60))
def test_cut_bytes_keeps_whole_characters(text: str, limit: int) -> None:
    cut = cut_bytes(text, limit)
    assert len(cut.encode("utf-8", "replace")) <= max(limit, 0)
    assert text.encode("utf-8", "replace").startswith(cut.encode("utf-8", "replace"))
    if len(text.encode("utf-8", "replace")) <= limit:
        assert cut == text


def test_bytes_are_counted_not_characters() -> None:
    assert [cut_bytes("日本", limit) for limit in (-1, 2, 3, 5, 6)] == ["", "", "日", "日", "日本"]
    assert [cut_bytes("ab", limit) for limit in (-1, 0, 1, 2, 3)] == ["", "", "a", "ab", "ab"]


@pytest.mark.parametrize(
    "unit", ["<", "< ", "<  \n", "[", "[ ", "[ /", "\u200d", "\ufe0f", "\U0001f3f4", "\r", " ", "&lt;"]
)
@pytest.mark.parametrize("way", [for_terminal, for_prompt, lambda text: one_line(text, 200)])
def test_a_full_sized_text_is_neutralised_quickly(unit: str, way: Callable[[str], str]) -> None:
    text = unit * (256 * 1024 // len(unit.encode()))
    begin = time.process_time()
    way(text)
    assert time.process_time() - begin < 20
