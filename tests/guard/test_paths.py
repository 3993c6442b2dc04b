from __future__ import annotations

import json
import os
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsheaf.errors import PathRefused, ScopeRefused
from memsheaf.guard.paths import (
    CATALOG,
    MAX_SLUG_CHARS,
    MAX_STEM_BYTES,
    PATH_LIMIT,
    check_path,
    check_stored,
    file_name,
    fold,
    is_fact,
    listable,
    shown,
    slug,
)
from memsheaf.memory import KINDS
from memsheaf.scope import check_label

CORPUS = os.path.join(os.path.dirname(__file__), "..", "corpora", "traversal.json")
with open(CORPUS, encoding="utf-8") as file:
    CASES: list[dict[str, Any]] = json.load(file)["cases"]

NAMES = [case for case in CASES if case["surface"] in ("name", "abs_path", "url", "glob")]
PAIRS = [case for case in CASES if case["surface"] == "name_pair"]
PROJECTS = [case for case in CASES if case["surface"] == "project"]
MEMBERS = [case for case in CASES if case["surface"] == "archive" and "/" in case["member"]]


def free(path: str) -> bool:
    return False


def test_a_hostile_path_is_refused_and_a_plain_one_accepted() -> None:
    for case in NAMES:
        path = case["input"].replace("{ROOT}", "/srv/memories").replace("{ROOTNAME}", "memories")
        if case["expect"] == "accept":
            assert check_path(path) == path
        elif case["expect"] == "reject":
            with pytest.raises(PathRefused):
                check_path(path)
        else:
            assert case["expect"] == "accept_or_reject"


def test_two_names_that_some_file_system_takes_for_one_are_known_as_one() -> None:
    for case in PAIRS:
        first, second = case["input"]
        assert fold(check_path(first)) == fold(check_path(second))


def test_an_archive_member_that_leaves_its_root_is_refused() -> None:
    for case in MEMBERS:
        with pytest.raises(PathRefused):
            check_path(case["member"])


def test_a_hostile_project_name_is_refused() -> None:
    for case in PROJECTS:
        with pytest.raises(ScopeRefused):
            check_label(case["input"], "project")


@given(
    st.text(alphabet=st.characters()).flatmap(lambda text: st.sampled_from([text, text + ".md", "a/" + text + ".md"]))
)
def test_an_accepted_path_stays_inside_and_is_its_own_form(path: str) -> None:
    try:
        stored = check_path(path)
    except PathRefused:
        return
    assert check_path(stored) == stored == unicodedata.normalize("NFC", path)
    assert os.path.normpath(os.path.join("/root", stored)) == f"/root/{stored}"
    assert len(stored.encode()) <= PATH_LIMIT
    assert not any(unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") for character in stored)


def test_names_that_people_and_other_tools_give_are_accepted() -> None:
    for path in [
        "CONTEXT.md", "NOTES.md", "a/b/c/d/e.md", "Meeting notes (old).md", "R&D, it's @home.md", "c++.md",
        "日本語.md", "会议（旧）.md", "हिन्दी.md", "🎉 party.md", "❤\ufe0f.md", "notes/tasks.md",
        "my/logs/x.md", "x.md/y.md", "s" * MAX_STEM_BYTES + ".md", "—.md", "task/x.md",
    ]:  # fmt: skip
        assert check_path(path) == path


def test_names_that_could_collide_hide_or_act_are_refused() -> None:
    for path in [
        "a/b/c/d/e/f.md", "é" * 51 + ".md", "s" * (MAX_STEM_BYTES + 1) + ".md",
        "/".join(["s" * 99] * 4) + "/x.md", "s" * 101 + "/x.md", "MEMORY.md", "a/Memory.MD", "a/memory.md",
        "Claude.md", "a/GEMINI.md", "skill.md", "ſkill.md", "copilot-instructions.md", "ＭＥＭＯＲＹ.md",
        "tasks/x.md", "Sessions/x.md", "LOGS/2026/x.md", "x", "x.MD", "x.txt", ".md", "a/.md", "a//b.md",
        "a/./b.md", "a/../b.md", " x.md", "x .md", "x..md", "a..b.md", "x /y.md", "a. /x.md", "-x.md",
        "--pre=x.md", "a/-x.md", "nul/x.md", "Aux.md", "com1.txt.md", "COM².md", "con .md", "con .x.md", "a[b].md",
        "a#b.md", "a;b.md", "a`b.md", "a|b.md", "a\\b.md", "a\tb.md", "a\u00a0b.md", "a\u3000b.md",
        "a／b.md", "a∕b.md", "a⁄b.md", "℀.md", "a….md", "．．/x.md", "a：b.md", "a？.md", "\ud800.md",
        "a\udcff.md", "a\u202eb.md", "a\u200db.md", "a\u00adb.md", "\ufeffa.md", "a\u3164.md",
        "a\u034fb.md", "a\U000e0101.md", "a\ue000.md", "a\x85b.md", "a\u2028b.md", "€.md", "a\nb.md", "x.md/",
    ]:  # fmt: skip
        with pytest.raises(PathRefused) as refusal:
            check_path(path)
        assert refusal.value.path == path
        str(refusal.value).encode()


def test_a_path_is_stored_composed() -> None:
    assert check_path("cafe\u0301/x\u0301.md") == "café/x\u0301.md"


def test_the_catalog_is_not_a_memory() -> None:
    with pytest.raises(PathRefused):
        check_path(CATALOG)


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_folding_twice_is_folding_once_and_case_and_composition_do_not_count(path: str) -> None:
    assert fold(fold(path)) == fold(path)
    assert fold(unicodedata.normalize("NFD", path)) == fold(path)


def test_paths_that_differ_in_case_or_composition_fold_alike() -> None:
    for first, second in [
        ("A/B.md", "a/b.md"),
        ("Cafe\u0301.md", "caf\u00e9.md"),
        ("\u01f0.md", "J\u030c.md"),
        ("Ω.md", "\u2126.md"),
        ("α\u0345\u0301.md", "α\u0301\u0345.md"),
    ]:
        assert fold(first) == fold(second)
        assert unicodedata.is_normalized("NFC", fold(first))


def test_a_slug_keeps_what_can_be_read() -> None:
    for name, expected in [
        ("Prefers tabs", "prefers-tabs"),
        ("  C++ / C#  ", "c-c"),
        ("日本語のメモ", "日本語のメモ"),
        ("Größe & Maß", "größe-maß"),
        ("cafe\u0301", "café"),
        ("हिन्दी में", "हिन्दी-में"),
        ("❤\ufe0f tabs", "tabs"),
        ("Ｆｕｌｌ　ｗｉｄｔｈ", "full-width"),
        ("⒈ first ½", "1-first-1-2"),
        ("../../etc/passwd", "etc-passwd"),
        ("a\nb\x00c", "a-b-c"),
        ("a\u200bb", "a-b"),
        ("J\u030c e\u034f\u0301", "\u01f0-é"),
    ]:
        assert slug(name) == expected


def test_a_name_without_letters_still_has_a_slug() -> None:
    for name in ["", "   ", "!!!", "🎉🎉", "\u3164", "\u0301", "\ud800"]:
        assert slug(name).startswith("memory-")


def test_names_without_letters_have_different_slugs() -> None:
    assert slug("🎉") != slug("🎈")


@given(st.text(alphabet=st.characters()), st.integers(20, 80))
def test_a_slug_is_within_its_bytes(name: str, limit: int) -> None:
    piece = slug(name, limit)
    assert 0 < len(piece.encode()) <= limit
    assert not piece.startswith("-")
    assert not piece.endswith("-")
    assert "--" not in piece


@given(st.sampled_from([*KINDS, "../../esc", "", "other type"]), st.text(alphabet=st.characters(), max_size=100))
def test_every_name_gives_a_file_name_that_is_allowed(kind: str, name: str) -> None:
    path = file_name(kind, name, free)
    assert check_path(path) == path
    assert "/" not in path
    again = file_name(kind, name, {path}.__contains__)
    assert again != path
    assert check_path(again) == again


def test_long_names_that_begin_alike_get_different_files() -> None:
    first = file_name("user", "x" * 80 + "a", free)
    assert first == f"user_{'x' * MAX_SLUG_CHARS}.md"
    assert file_name("user", "x" * 80 + "b", {first}.__contains__) == f"user_{'x' * MAX_SLUG_CHARS}-2.md"


def test_a_file_is_named_by_the_telling_words_of_a_sentence_in_their_order() -> None:
    for name, expected in [
        ("I prefer pnpm", "pnpm"),
        ("We deploy on Fridays, after the standup", "deploy-fridays-after-standup"),
        ("Don't use tabs in Makefiles", "no-tabs-makefiles"),
        ("it doesn’t build on Windows", "no-build-windows"),
        ("I changed my mind, use yarn", "yarn"),
        ("Remember that the staging db is wiped every Sunday", "staging-db-wiped-sunday"),
        ("X is Kim's job, she'll be back", "x-kim-job-back"),
        ("Freeze next Friday (2026-11-27)", "freeze-next-friday-2026-11-27"),
        ("Python 3.11 or newer", "python-3-11-newer"),
        ("pnpm, always pnpm, never npm", "pnpm-never-npm"),
        ("Ich bevorzuge pnpm gegenüber npm", "pnpm-npm"),
        ("Wir deployen freitags nach dem Standup", "deployen-freitags-nach-standup"),
        ("J'utilise toujours pnpm, jamais l'autre", "pnpm-jamais-autre"),
        ("Siempre uso tabuladores en este proyecto", "tabuladores-proyecto"),
        ("部署在每周五，站会之后", "部署在每周五-站会之后"),
        ("テストは毎回 pytest で実行する", "テストは毎回-pytest-で実行する"),
    ]:
        assert file_name("project", name, free) == f"project_{expected}.md"


def test_short_chinese_names_get_different_files() -> None:
    assert (file_name("project", "计划", free), file_name("project", "数据", free)) == (
        "project_计划.md",
        "project_数据.md",
    )


def test_taken_names_are_numbered() -> None:
    taken = {"user_tabs.md", "user_tabs-2.md"}
    assert file_name("user", "Tabs", taken.__contains__) == "user_tabs-3.md"


def test_labels_of_letters_digits_and_hyphens_are_accepted() -> None:
    for label in ["a", "7", "code-reviewer", "A1-", "x" * 64, "1f3a", "concord"]:
        assert check_label(label, "agent") == label.lower()


def test_other_labels_are_refused_and_the_message_says_what_they_would_name() -> None:
    for label in ["", "-a", "x" * 65, "a b", "a_b", "a.b", "é", "a\n", "NUL", "com1", "..", "\ud800"]:
        with pytest.raises(ScopeRefused, match="the agent name") as refusal:
            check_label(label, "agent")
        str(refusal.value).encode()


def test_only_visible_markdown_is_looked_at() -> None:
    for name, seen in [
        ("a.md", True),
        ("MEMORY.md", True),
        ("a.txt", False),
        ("a.md~", False),
        (".a.md", False),
        ("~$a.md", False),
        ("tasks", False),
    ]:
        assert listable(name) is seen


def test_any_name_found_on_disk_can_be_shown() -> None:
    for path, text in [
        ("日本語/a b.md", "日本語/a b.md"),
        ("\udcff\udcfe.md", "\\xff\\xfe.md"),
        ("a\nb\x1b.md", "a\\nb\\x1b.md"),
        ("a\u202e\U000e0041\ud800", "a\\u202e\\U000e0041\\ud800"),
    ]:
        assert shown(path) == text


@given(st.text(alphabet=st.characters()))
def test_what_is_shown_can_be_printed_and_sent(path: str) -> None:
    assert shown(path).isprintable()
    assert json.loads(json.dumps(shown(path)).encode()) == shown(path)


def test_a_store_keeps_the_events_of_a_task_and_nothing_else_that_is_no_memory() -> None:
    assert check_stored("observability/feature-x-2.ndjson") == "observability/feature-x-2.ndjson"
    assert check_stored("a/b.md") == "a/b.md"
    for path in (
        "x.ndjson", "observability/../x.ndjson", "observability/a/x.ndjson", "observability/.x.ndjson",
        "Observability/x.ndjson", "observability/x.ndjson\n", "observability/X.ndjson", "observability/x.json",
        "../x.md",
    ):  # fmt: skip
        with pytest.raises(PathRefused):
            check_stored(path)
    with pytest.raises(PathRefused):
        check_path("observability/feature-x.ndjson")


def test_facts_are_known_by_their_folder_however_it_is_written() -> None:
    assert [is_fact(path) for path in ("facts/a.md", "Facts/a.md", "facts.md", "x/facts/a.md")] == [
        True,
        True,
        False,
        False,
    ]
