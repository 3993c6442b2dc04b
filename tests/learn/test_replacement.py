"""Whether a new sentence takes the place of an older one: plain cases, pairs of a writer left out, hostile text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsheaf.learn.replacement import CLUSTER_BITS, LINK_FROM, REPLACE_FROM, load_table, replaces
from memsheaf.text.classifier import BITS

HELD_OUT = Path(__file__).parents[2] / "training" / "pairs" / "held-out.jsonl"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("The port is 8443", "The port is 9443 now"),
        ("Log retention is 30 days", "Retention is 14 days now"),
        ("Use npm for installs", "Use pnpm, not npm"),
        ("Standup is at 9:30", "Standup moved to 10"),
        ("I prefer tabs", "I changed my mind: spaces, not tabs"),
        ("Der Port ist 8080.", "Der Port ist jetzt 9090."),
        ("Le port est 8080.", "Le port est maintenant 9090."),
        ("El puerto es 8080.", "El puerto ahora es 9090."),
        ("服务器在东京", "服务器不在东京了，在大阪"),
        ("会議は月曜日です。", "会議は月曜日ではなく火曜日です。"),
        ("The cron job sends the invoices.", "The cron job no longer sends the invoices, the worker does."),
        ("The review is on Monday.", "actually it's Tuesday, not Monday"),
        ("We use pnpm.", "pnpm → bun"),
        ("Retention is 30 days.", "Retention is 14 days"),
    ],
)
def test_a_plainly_told_correction_replaces_the_old_value(old: str, new: str) -> None:
    assert replaces(old, new) >= REPLACE_FROM


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Server 1 runs the mail.", "Server 2 runs the mail now."),
        ("The API port is 9443", "The API now returns 404"),
        ("Anna leads QA, Bob ops", "Carla now leads QA"),
        ("We release the app on Tuesdays", "We now release the SDK on Thursdays"),
        ("Prod runs Postgres 15", "Staging runs Postgres 13 now"),
        ("I use vim on servers", "I use helix at home"),
        ("The job runs at 9", "The job now uses 12 cores"),
        ("The login timeout is 30 seconds.", "The upload timeout is 90 seconds."),
        ("Kim owns billing.", "Kim owns search."),
        ("Bob reports to Anna.", "Anna reports to Bob."),
        ("The port is 8443. It is open to all.", "The port is 9443 now."),
        ("We use Postgres 16, MongoDB 7 and Redis 7.", "We use Postgres 17 now."),
        ("Der Server steht in Oslo.", "Der Server hat jetzt 64 GB RAM."),
        ("测试环境端口是8080。", "生产环境端口是9090。"),
    ],
)
def test_another_fact_or_a_correction_of_a_part_replaces_nothing(old: str, new: str) -> None:
    assert replaces(old, new) < REPLACE_FROM


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("The deadline of the audit is 2026-12-01.", "The deadline of the audit is 2026-12-15."),
        ("Log retention is 30 days.", "Retention is 14 days"),
        ("I use vim.", "I switched from vim to helix"),
        ("Der Jour fixe ist dienstags.", "Der Jour fixe ist jetzt donnerstags."),
        ("数据库端口是 5432。", "数据库端口改成 5433 了。"),
        ("会議は月曜日です。", "会議は火曜日に変わりました。"),
    ],
)
def test_a_correction_in_other_words_or_languages_is_at_least_linked(old: str, new: str) -> None:
    assert replaces(old, new) >= LINK_FROM


def test_sentences_that_share_no_word_have_nothing_to_do_with_each_other() -> None:
    assert replaces("Deploys go out on Tuesdays.", "Kim owns billing now.") == 0


def test_hard_pairs_of_a_writer_left_out_are_mostly_kept_or_linked() -> None:
    pairs = [json.loads(line) for line in HELD_OUT.read_text(encoding="utf-8").splitlines()]
    corrections = [replaces(pair["old"], pair["new"]) for pair in pairs if pair["same"]]
    others = [replaces(pair["old"], pair["new"]) for pair in pairs if not pair["same"]]

    assert sum(likely >= REPLACE_FROM for likely in others) <= 3  # of 100
    assert sum(likely >= LINK_FROM for likely in others) <= 12
    assert sum(likely >= LINK_FROM for likely in corrections) >= 30  # of 100


@given(st.text(st.characters(), max_size=300), st.text(st.characters(), max_size=300))
def test_any_two_texts_have_a_likelihood(old: str, new: str) -> None:
    assert 0 <= replaces(old, new) <= 1


def test_the_table_is_whole() -> None:
    table = load_table()

    assert len(table.weights) == 1 << BITS
    assert len(table.clusters) == 1 << CLUSTER_BITS
    assert all(len(tree.leaves) == len(tree.limits) + 1 == len(tree.measures) + 1 for tree in table.trees)
