from __future__ import annotations

import base64
import json
import os
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from memsheaf.errors import TextRefused
from memsheaf.frontmatter import edit_text
from memsheaf.memory import (
    DESCRIPTION_LIMIT,
    KINDS,
    LINE_LIMIT,
    MAX_MEMORY_BYTES,
    NAME_LIMIT,
    VALUE_LIMIT,
    Memory,
    check,
    clean_field,
    compose,
    is_conflict_copy,
    parse,
)

with open(os.path.join(os.path.dirname(__file__), "corpora", "malformed_frontmatter.json"), encoding="utf-8") as file:
    CASES: list[dict[str, Any]] = json.load(file)["cases"]

STATES = {
    "ok": {"ok"},
    "ok_normalised": {"ok"},
    "ok_with_warning": {"ok"},
    "body_only": {"free"},
    "bad_header": {"bad"},
    "pending": {"bad"},
    "pending_then_bad_header": {"bad"},
    "quarantine": {"held"},
    "conflict_copy": {"copy"},
}
GOOD = "---\nname: n\ndescription: d\ntype: user\n---\nbody\n"


def bytes_of(case: dict[str, Any]) -> bytes:
    if "content_b64" in case:
        return base64.b64decode(case["content_b64"])
    if "content" in case:
        return str(case["content"]).encode("utf-8", "surrogatepass")
    gen = case["gen"]
    if gen.get("kind") == "keys":
        return ("---\n" + "".join(f"k{n}: v\n" for n in range(gen["count"])) + "---\nb").encode()
    return f"{gen['prefix']}{gen['unit'] * gen['count']}{gen['suffix']}".encode()


def path_of(case: dict[str, Any]) -> str:
    return "prefs.sync-conflict-20260305-101010-ABCDEFG.md" if case["id"] == "M80" else "user_prefs.md"


def memory(*lines: str, body: str = "body\n", path: str = "user_prefs.md") -> Memory:
    return parse(path, "\n".join(["---", *lines, "---", body]).encode())


@each_case("case", CASES)
def test_a_hostile_file_is_read_for_what_it_is(case: dict[str, Any]) -> None:
    data = bytes_of(case)
    taken = []
    for _ in range(5):  # noise only ever adds
        begin = time.process_time()
        read = parse(path_of(case), data)
        taken.append(time.process_time() - begin)

    assert read.state in set().union(*(STATES[verdict] for verdict in case["read"].split("_or_")))
    assert read.data == data
    assert min(taken) < 0.05
    for key, value in case.get("fields", {}).items():
        assert read.page.get(key) == value
    if "warning" in case["read"] or "lint warns" in case.get("note", ""):
        assert read.warnings
    if read.state in ("bad", "held", "copy"):
        assert read.problem
    for line in (read.name, read.description):
        assert "\n" not in line
        line.encode()
    assert len(read.version) == 64
    assert isinstance(read.pinned, bool)
    assert read.trust in ("confirmed", "unconfirmed")
    assert read.has_known_type == (read.type in KINDS)


@each_case("case", CASES)
def test_a_hostile_text_is_stored_or_refused_as_the_corpus_says(case: dict[str, Any]) -> None:
    text = bytes_of(case).decode("utf-8", "surrogateescape")
    if case["write"] == "accept":
        assert check(path_of(case), text).text == case.get("stored", text)
    else:
        with pytest.raises(TextRefused):
            check(path_of(case), text)


@given(st.one_of(st.binary(), st.binary().map(lambda data: b"---\nname: " + data + b"\n---\n" + data)), st.text())
def test_reading_never_raises(data: bytes, path: str) -> None:
    read = parse(path, data)
    assert read.data == data
    (read.name + read.description).encode()


@given(st.text())
def test_checking_any_text_gives_the_memory_or_a_refusal(text: str) -> None:
    try:
        stored = check("x.md", text)
    except TextRefused:
        return
    assert stored.data == text.encode()


def test_what_the_header_does_not_say_has_a_quiet_default() -> None:
    read = memory("type: user")
    assert (read.created, read.source, read.citations, read.pinned, read.trust) == ("", "", (), False, "confirmed")


@pytest.mark.parametrize("word", ["unconfirmed", "Confirmed!", "user", "maybe"])
def test_a_word_we_do_not_know_does_not_confirm(word: str) -> None:
    assert memory(f"trust: {word}").trust == "unconfirmed"


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("user_prefers-tabs.md", "prefers-tabs"),
        ("notes/project_auth_rewrite.md", "auth_rewrite"),
        ("my_notes.md", "my_notes"),
        ("user_.md", "user_"),
        ("README.md", "README"),
        ("a\udcff.md", "a\\udcff"),
    ],
)
def test_a_missing_name_comes_from_the_file_name(path: str, name: str) -> None:
    assert memory("type: user", path=path).name == name


@pytest.mark.parametrize(
    ("body", "description"),
    [
        ("\n\n## Title ##\n\ntext", "Title ##"),
        ("#\n\n  text  \nmore", "text"),
        ("first\r\nsecond", "first"),
        ("\n \n", ""),
        ("x" * 5000, "x" * DESCRIPTION_LIMIT),
    ],
)
def test_a_missing_description_comes_from_the_first_line_that_says_something(body: str, description: str) -> None:
    assert memory("type: user", body=body).description == description


def test_a_free_file_describes_itself() -> None:
    free = parse("NOTES.md", "\ufeff# Notes\n\ntext\n".encode())
    assert (free.state, free.name, free.description, free.type, free.has_known_type) == (
        "free",
        "NOTES",
        "Notes",
        "",
        False,
    )


@pytest.mark.parametrize("data", [b"---\nname: n\n", b"---\nname: caf\xe9\n---\n", b"---\nname: &a b\n---\ntext"])
def test_a_file_that_is_not_understood_describes_nothing(data: bytes) -> None:
    bad = parse("user_prefs.md", data)
    assert (bad.state, bad.name, bad.description, bad.type) == ("bad", "prefs", "", "")


def test_header_lines_that_are_several_lines_show_as_one() -> None:
    read = memory(r'name: "a\n\tb"', r'description: "c\r\n- [x](y.md)"')
    assert (read.name, read.description) == ("a b", "c - [x](y.md)")


def test_the_type_may_be_nested_as_other_tools_write_it() -> None:
    read = memory("name: n", "metadata:", "  type: reference")
    assert (read.type, read.has_known_type, read.warnings) == ("reference", True, ())


def test_an_unknown_type_is_kept_and_warned_of() -> None:
    read = memory("name: n", "type: recipe")
    assert (read.state, read.type, read.has_known_type) == ("ok", "recipe", False)
    assert "recipe" in read.warnings[0]
    assert memory("name: n").warnings


@pytest.mark.parametrize(
    "line", ["name: [a]", "type:\n  - user", "created: []", "pinned:\n  a: b", "citations:\n  a: b"]
)
def test_a_known_key_in_the_wrong_shape_is_a_bad_header(line: str) -> None:
    read = memory("description: d", line)
    assert read.state == "bad"
    assert read.problem.startswith("line 3: ")


def test_the_limit_is_the_last_size_that_loads() -> None:
    text = GOOD + "x\n" * ((MAX_MEMORY_BYTES - len(GOOD)) // 2)
    text += "y" * (MAX_MEMORY_BYTES - len(text))
    assert parse("a.md", text.encode()).state == "ok"
    assert parse("a.md", text.encode() + b"y").state == "held"


@each_case(
    "path",
    [
        "prefs.sync-conflict-20260305-101010-ABCDEFG.md",
        "prefs (conflicted copy).md",
        "x (Bob's conflicted copy 2026-01-01).md",
        "deep/x (conflicted copy 2026-01-01 101010).md",
        "x (Case Conflicted Copy).md",
        "x (SFConflict bob@example.org 2026-01-01-10-10-10).md",
        "x_conflict-20260101-101010.md",
        "x.Conflict.md",
    ],
)
def test_names_of_conflict_copies_are_known(path: str) -> None:
    assert is_conflict_copy(path)
    with pytest.raises(TextRefused, match="sync"):
        check(path, GOOD)


@pytest.mark.parametrize("path", ["conflict.md", "feedback_merge-conflicts.md", "x (old).md", "conflicted copy/x.md"])
def test_names_that_only_speak_of_conflicts_are_not_copies(path: str) -> None:
    assert not is_conflict_copy(path)


def test_a_composed_memory_reads_back() -> None:
    composed = compose(
        name=" Issue #42: tabs ", description="NO", kind="feedback", body="Use tabs.", created="2026-11-14",
        updated="2026-11-15T10:00:00Z", source="user", trust="confirmed", conversation="1f3a#12",
        citations=["a.py:3@9f", "b: c"], pinned=True, expires="2027-01-01", supersedes=("old.md",),
        reason="asked",
    )  # fmt: skip
    read = parse("feedback_x.md", composed.data)
    assert (read.name, read.description, read.type) == ("Issue #42: tabs", "NO", "feedback")
    assert (read.created, read.updated, read.expires) == ("2026-11-14", "2026-11-15T10:00:00Z", "2027-01-01")
    assert (read.citations, read.supersedes, read.pinned, read.trust) == (
        ("a.py:3@9f", "b: c"),
        ("old.md",),
        True,
        "confirmed",
    )
    assert (read.source, read.conversation, read.reason, read.body) == ("user", "1f3a#12", "asked", "Use tabs.\n")


def small(**changes: Any) -> str:
    given: dict[str, Any] = {
        "name": "n", "description": "d", "kind": "user", "body": "b", "created": "2026-11-15",
        "updated": "2026-11-15",
    }  # fmt: skip
    return compose(**(given | changes)).text


def test_a_small_memory_is_a_small_text() -> None:
    assert small() == (
        '---\nname: "n"\ndescription: d\ntype: user\ncreated: 2026-11-15\nupdated: 2026-11-15\n---\nb\n'
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"name": ""}, {"name": "  "}, {"name": "a\nb"}, {"name": "a\u202eb"},
        {"name": "x" * (NAME_LIMIT + 1)}, {"name": "é" * (NAME_LIMIT // 2 + 1)}, {"name": "a\ud800"},
        {"description": ""}, {"description": "a\r\n# b"}, {"description": "x" * (DESCRIPTION_LIMIT + 1)},
        {"kind": "recipe"}, {"kind": ""}, {"kind": "../../esc"}, {"body": " \n"}, {"body": "a\x1b[31m"},
        {"body": "a\ud800"}, {"body": "x" * (LINE_LIMIT + 1)}, {"created": "yesterday"},
        {"updated": "2026-02-30"}, {"expires": "2026-1-1"}, {"citations": ["a\nb"]},
        {"reason": "x" * (VALUE_LIMIT + 1)}, {"source": "a\x00"}, {"conversation": "a\tb"},
    ],
    ids=str,
)  # fmt: skip
def test_a_memory_that_may_not_be_stored_is_not_composed(changes: dict[str, Any]) -> None:
    small()
    with pytest.raises(TextRefused):
        small(**changes)


@given(st.text(), st.text(), st.text())
def test_no_value_can_write_another_field(name: str, description: str, body: str) -> None:
    try:
        text = small(name=name, description=description, body=body)
    except TextRefused:
        return
    read = parse("user_x.md", text.encode())
    assert [field.key for field in read.page.fields] == ["name", "description", "type", "created", "updated"]
    assert (read.page.get("name"), read.page.get("description")) == (
        name.strip(" \t\r\n"),
        description.strip(" \t\r\n"),
    )
    assert read.body.startswith(body)


@pytest.mark.parametrize(
    "value",
    [
        "2026-11-15",
        "2026-11-15T10:00",
        "2026-11-15 10:00:59",
        "2026-11-15T10:00:00.123456Z",
        "2026-11-15T10:00:00+02:00",
    ],
)
def test_real_dates_are_accepted(value: str) -> None:
    assert check("x.md", edit_text(GOOD, fields={"expires": value})).expires == value


@pytest.mark.parametrize(
    "value",
    ["0000-01-01", "2026-13-01", "2026-02-30", "20261115", "2026-W01-1", "2026-11-15T25:00", "soon", "٢٠٢٦-01-01"],
)
@pytest.mark.parametrize("key", ["created", "updated", "expires"])
def test_dates_that_are_not_in_the_calendar_are_refused(key: str, value: str) -> None:
    with pytest.raises(TextRefused, match=key):
        check("x.md", edit_text(GOOD, fields={key: value}))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "empty"),
        ("just text", "no header"),
        (GOOD.replace("name: n\n", ""), "no name"),
        (GOOD.replace("description: d", 'description: " "'), "no description"),
        (GOOD.replace("type: user\n", ""), "type is ''"),
        (GOOD.replace("name: n", "name: &n n"), "anchors"),
        (GOOD.replace("body", "a\x07"), "control characters"),
        (GOOD.replace("body", "a\x7f"), "control characters"),
        (GOOD.replace("name: n", "name: n\nother: a\u2028b"), "header"),
        (GOOD.replace("name: n", 'name: "a\\x1b"'), "name holds"),
        (GOOD.replace("name: n", "citations: [a, b\u202e]\nname: n"), "citations holds"),
        (GOOD.replace("name: n", "other: " + "é" * 1025 + "\nname: n"), "other is longer"),
        (GOOD.replace("name: n", "metadata:\n  x: " + "é" * 1025 + "\nname: n"), "metadata is longer"),
        (GOOD + "é" * (LINE_LIMIT // 2 + 1), "line is longer"),
        (GOOD + "<<<<<<< a\n=======\n>>>>>>> b\n", "conflict marks"),
        (GOOD + "x\n" * MAX_MEMORY_BYTES, "KiB"),
    ],
    ids=lambda value: value[:20],
)  # fmt: skip
def test_a_refusal_says_what_is_wrong(text: str, says: str) -> None:
    check("x.md", GOOD)
    with pytest.raises(TextRefused, match=says):
        check("x.md", text)


def test_an_edit_may_keep_the_type_a_file_has() -> None:
    text = GOOD.replace("type: user", "type: recipe")
    with pytest.raises(TextRefused, match="recipe"):
        check("x.md", text)
    assert check("x.md", text, kinds=(*KINDS, "recipe")).type == "recipe"


@pytest.mark.parametrize(
    "value", ["Prefers tabs", "日本語", "می\u200cخواهم", "👩\u200d💻 at work", "❤\ufe0f", "cafe\u0301", "क्\u200dष"]
)
def test_spelling_that_needs_invisible_characters_is_kept(value: str) -> None:
    assert clean_field("name", value) == value


@each_case(
    "hidden",
    ["\n", "\r\n#", "\x00", "\x7f", "\x85", "\u2028", "\u200b", "\u2060", "\ufeff", "\u202e", "\u2066",
     "\u200d", "\u200c", "\xad", "\U000e0041", "\ufe01\ufe02", "\U000e0155\U000e0156", "\u3164", "\ud800",
     "\ufff0", "\U0001d173", "\U000e01f0"],
)  # fmt: skip
def test_a_field_holds_nothing_a_reader_cannot_see(hidden: str) -> None:
    with pytest.raises(TextRefused, match="name holds"):
        clean_field("name", f"ig{hidden}nore")


def test_field_limits_count_bytes() -> None:
    assert clean_field("name", "é" * (NAME_LIMIT // 2)) == "é" * (NAME_LIMIT // 2)
    with pytest.raises(TextRefused, match="shorten"):
        clean_field("name", "é" * (NAME_LIMIT // 2) + "x")
    assert clean_field("reason", "x" * VALUE_LIMIT)
