from __future__ import annotations

import json
import os
from datetime import date
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from memsheaf.text.dates import absolute

WEDNESDAY = date(2026, 11, 18)
CORPUS = os.path.join(os.path.dirname(__file__), "..", "corpora", "dates.json")
with open(CORPUS, encoding="utf-8") as file:
    CASES: list[dict[str, Any]] = json.load(file)["cases"]
PIECES = [
    "tomorrow", "today", "next Friday", "last Friday", "by Monday", "in two weeks", "we ship", "3 days ago",
    "last month", "the end of the month", "heute Abend", "morgen", "heute Morgen", "bis Freitag",
    "il y a trois jours", "hier", "demain", "pasado mañana", "hace tres días", "el viernes que viene", "明天",
    "下周五", "上个月", "三天前", "月底", "来週金曜", "明日", "(2026-11-19)", "2026", "Friday", "the", "of",
    "every", "will", "'s", "`", "```\n", "\n", ".", ",", "(", "week of", "next week", "this year", "後", "前",
    "İ", "\u200b", "> ", "\"", "11月", "20", "Morgen",
]  # fmt: skip


def test_each_relative_date_gets_its_day_and_nothing_else_does() -> None:
    for case in CASES:
        dated = absolute(case["text"], WEDNESDAY)

        for day in case["days"]:
            assert day in dated
        brackets = dated.count("(") + dated.count("（") - case["text"].count("(") - case["text"].count("（")
        assert brackets == len(case["days"]), dated


@example(["demain", "(2026-11-19)", "in two weeks", "来週金曜", "will"], "", WEDNESDAY)
@given(st.lists(st.sampled_from(PIECES), max_size=12), st.sampled_from(["", " "]), st.dates())
def test_a_text_that_has_its_days_stays_as_it_is(pieces: list[str], gap: str, today: date) -> None:
    once = absolute(gap.join(pieces), today)

    assert absolute(once, today) == once
    assert absolute(once, WEDNESDAY) == once


@given(st.text(), st.dates())
def test_no_word_is_lost_in_any_text(text: str, today: date) -> None:
    rest = iter(absolute(text, today))

    assert all(letter in rest for letter in text)


def test_days_are_counted_across_weeks_months_and_years() -> None:
    for today, day in [
        (date(2026, 11, 19), "by Friday (2026-11-20)"),
        (date(2026, 11, 20), "by Friday (2026-11-20)"),
        (date(2026, 11, 21), "by Friday (2026-11-27)"),
        (date(2026, 11, 16), "next Friday (2026-11-27)"),
        (date(2026, 11, 20), "next Friday (2026-11-27)"),
        (date(2026, 11, 22), "next Friday (2026-11-27)"),
        (date(2026, 11, 20), "last Friday (2026-11-13)"),
        (date(2026, 11, 21), "last Friday (2026-11-20)"),
        (date(2026, 12, 31), "tomorrow (2027-01-01)"),
        (date(2026, 12, 31), "next month (2027-01)"),
        (date(2027, 1, 1), "last month (2026-12)"),
        (date(2027, 1, 1), "last quarter (2026-Q4)"),
        (date(2028, 2, 1), "the end of the month (2028-02-29)"),
        (date(2026, 12, 5), "the end of next month (2027-01-31)"),
        (date.max, "tomorrow (9999-12-31)"),
    ]:
        words = day.partition(" (")[0]

        assert absolute(f"we meet {words}", today) == f"we meet {day}"


def test_a_long_hostile_text_is_read_in_time_that_grows_with_its_length() -> None:
    text = "by " * 12_000 + "next " * 12_000 + "三" * 12_000 + "`" * 20_001 + '"' * 20_001

    assert absolute(text, WEDNESDAY) == text
