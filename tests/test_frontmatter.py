from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from memsheaf.errors import TextRefused
from memsheaf.frontmatter import (
    HEADER_LIMIT,
    ParsedText,
    edit_text,
    has_conflict_marks,
    join,
    quote_value,
    split,
    with_quotes,
)

# Pieces that a header is made of, thrown together at random, find more than random characters do.
PIECES = st.sampled_from(
    [
        "---", "---\n", "\n---\n", "\r\n", "\n", "\r", "\ufeff", " ", "\t", "name", "tags", "größe", ": ",
        ":", "- ", "-", "#", " #", "[", "]", "{", "}", ",", "'", '"', "\\", "\\n", "\\u00e9", "\\ud800",
        "&a", "*a", "!x", "|", ">", "@", "%", "`", "?", "x", "日本", "😀", "\u2028", "\x85", "\x00",
        "\ud800", "<<<<<<<", "=======", ">>>>>>>",
    ]
)  # fmt: skip
MESS = st.one_of(
    st.text(alphabet=st.characters()),
    st.lists(PIECES, max_size=40).map("".join),
    st.lists(PIECES, max_size=40).map(lambda pieces: "---\n" + "".join(pieces) + "\n---\nbody"),
)
KEYS = st.from_regex(r"[a-zé_][a-z0-9_-]{0,8}", fullmatch=True)
TEXTS = st.one_of(
    st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=60),
    st.lists(PIECES, max_size=8).map("".join).filter(lambda text: not re.search(r"[\ud800-\udfff]", text)),
)
VALUES = st.one_of(TEXTS, st.lists(TEXTS, max_size=4).map(tuple))
FIELDS = st.dictionaries(KEYS, VALUES, min_size=1, max_size=6)


def header(*lines: str, body: str = "body\n") -> ParsedText:
    return split("\n".join(["---", *lines, "---", body]))


@given(MESS)
def test_any_text_is_head_and_body_without_a_byte_lost(text: str) -> None:
    page = split(text)
    assert page.head + page.body == text
    assert not (page.problem and page.fields)


@given(FIELDS, TEXTS)
def test_what_is_joined_is_read_back(fields: dict[str, str | tuple[str, ...]], body: str) -> None:
    page = split(join(fields, body))
    assert page.problem == ""
    assert {field.key: field.value for field in page.fields} == fields
    assert page.body == body


@given(FIELDS, st.data(), st.sampled_from(["\n", "\r\n"]), st.sampled_from(["", "\ufeff"]))
def test_an_edit_leaves_every_other_line_alone(
    fields: dict[str, str | tuple[str, ...]], data: st.DataObject, end: str, bom: str
) -> None:
    text = bom + join(fields, "body  \n---\n").replace("\n", end)
    page = split(text)
    key = data.draw(st.one_of(st.sampled_from(sorted(fields)), KEYS))
    value = data.draw(VALUES)
    if key in fields and len(fields) > 1 and data.draw(st.booleans()):
        after = split(edit_text(text, fields={key: None}))
        assert key not in [field.key for field in after.fields]
    else:
        after = split(edit_text(text, fields={key: value}))
        assert after.value(key) == value

    def raw(of: ParsedText) -> dict[str, list[str]]:
        lines = of.head.split("\n")
        return {field.key: lines[field.first - 1 : field.last] for field in of.fields if field.key != key}

    assert raw(after) == raw(page)
    assert after.body == page.body
    assert after.head.startswith(bom + "---")


@given(MESS, st.text(max_size=20))
def test_a_new_body_leaves_the_head_alone_or_is_refused(text: str, body: str) -> None:
    page = split(text)
    if page.problem or not page.head:
        with pytest.raises(TextRefused):
            edit_text(text, body=body)
    else:
        changed = edit_text(text, body=body)
        assert changed.startswith(page.head)
        assert split(changed).body == body


@given(MESS)
def test_an_edit_to_the_same_values_changes_nothing(text: str) -> None:
    page = split(text)
    if page.fields:
        field = page.fields[-1]
        value = field.value if isinstance(field.value, str) else page.items(field.key)
        if value == field.value:
            assert edit_text(text, fields={field.key: value}) == text


@pytest.mark.parametrize(
    ("text", "body"),
    [
        ("# note\n", "# note\n"),
        (" ---\nname: n\n---\nb", " ---\nname: n\n---\nb"),
        ("\n---\nname: n\n---\n", "\n---\nname: n\n---\n"),
        ("----\nname: n\n----\n", "----\nname: n\n----\n"),
        ("--- x\nname: n\n---\n", "--- x\nname: n\n---\n"),
        ("", ""),
    ],
)
def test_a_text_that_does_not_open_a_header_is_all_body(text: str, body: str) -> None:
    page = split(text)
    assert (page.head, page.body, page.problem) == ("", body, "")


@pytest.mark.parametrize(
    "text", ["---", "---\nname: n\n", "---\nname: n\n...\nb", "---\nname: n\n ---\n", "---\n--- x"]
)
def test_a_header_without_its_closing_line_swallows_nothing(text: str) -> None:
    page = split(text)
    assert (page.head, page.body) == ("", text)
    assert "closing" in page.problem


def test_a_header_that_mixes_line_ends_is_broken_and_not_edited_in_the_wrong_line() -> None:
    page = split("---\rname: n\ntype: user\n---\nbody")

    assert (page.problem, page.head) == ("line 1: the header mixes line ends", "")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
def test_byte_order_mark_line_ends_and_blanks_after_fences_do_not_matter(bom: str, end: str) -> None:
    text = bom + end.join(["--- ", "name: n", "tags:", "  - a", "---\t", "b"])
    page = split(text)
    assert (page.problem, page.get("name"), page.items("tags"), page.body) == ("", "n", ("a",), "b")


def test_the_closing_fence_may_end_the_file() -> None:
    page = split("---\nname: n\n---")
    assert (page.get("name"), page.body) == ("n", "")
    assert split("---\nname: n\n---\r").get("name") == "n"


def test_a_line_that_only_begins_like_a_fence_does_not_close() -> None:
    assert split("---\nname: n\n---x\n--- y\n----\n---\nb").body == "b"


def test_unicode_line_separators_do_not_break_lines() -> None:
    page = header("name: a\u2028b\x85c")
    assert page.get("name") == "a\u2028b\x85c"


@each_case(
    "line, value",
    [
        ("name: NO", "NO"),
        ("name: 012", "012"),
        ("name: ~", "~"),
        ("name:   padded   ", "padded"),
        ("name:\ttabbed\t", "tabbed"),
        ("name :  n", "n"),
        ("name: C# notes", "C# notes"),
        ("name: 12:30:45", "12:30:45"),
        ("name: https://example.org/a#b", "https://example.org/a#b"),
        ("name: -x", "-x"),
        ("name: ---", "---"),
        ("name: 'it''s'", "it's"),
        ("name: ''", ""),
        ('name: ""', ""),
        ("name:", ""),
        ("name: # nothing yet", ""),
        ('name: "a # b: c"  # a comment', "a # b: c"),
        (r'name: "tab\tquote\"slash\/back\\"', 'tab\tquote"slash/back\\'),
        (r'name: "\x41\u00e9\U0001F600\N"', "A\u00e9\U0001f600\x85"),
        (r'name: "\ud83d\ude00"', "\U0001f600"),
        ("name: a\u00a0", "a\u00a0"),
    ],
)
def test_every_value_is_the_string_that_stands_there(line: str, value: str) -> None:
    page = header(line)
    assert (page.problem, page.get("name", "absent")) == ("", value)


@each_case(
    "line, items",
    [
        ("tags: []", ()),
        ("tags: [ ]  # none", ()),
        ("tags: [a]", ("a",)),
        ("tags: [a, 'b, c', \"d]\", ]", ("a", "b, c", "d]")),
        ("tags: [https://example.org/x, C#]", ("https://example.org/x", "C#")),
        ("tags:\n  - a\n\n  # why\n  - 'b'  # c", ("a", "b")),
        ("tags:\n- a\n- b", ("a", "b")),
        ("tags:\n  -\n  - b", ("", "b")),
        ("tags: a, b", ("a, b",)),
        ("tags:", ()),
        ("tags:\n  a: b", ()),
    ],
)
def test_lists_are_read_in_every_flat_form(line: str, items: tuple[str, ...]) -> None:
    page = header(line, "last: x")
    assert (page.problem, page.items("tags"), page.get("last")) == ("", items, "x")


def test_one_level_of_nesting_is_read() -> None:
    page = header("metadata:", "  type: user", "  empty:", "  q: 'a: b'", "name: n")
    assert page.problem == ""
    assert (page.get_nested("metadata", "type"), page.get_nested("metadata", "q")) == ("user", "a: b")
    assert (page.get_nested("metadata", "absent"), page.get_nested("name", "n"), page.get("metadata", "-")) == (
        "",
        "",
        "-",
    )


@each_case(
    "line",
    [
        "key: &a x", "key: *a", "key: !t x", "key: @home", "key: `x`", "key: %x", "key: |", "key: >-",
        "key: {a: b}", "key: [a, [b]]", "key: [[a]]", "key: [a", "key: [a, b", "key: [a,, b]", "key: [, a]",
        "key: [a: b]", "key: [a #b]", "key: [a] b", "key: [a]#b", "key: ['a' b]", "key: [*a]", "key: ]",
        "key: , x", "key: - a", "key: ? a", "key: -", "key: 'a", 'key: "a',
        'key: "a" b', 'key: "a"#b', "key: 'a' b", r'key: "\q"', r'key: "\ud800"', r'key: "\x4"',
        r'key: "\UFFFFFFFF"', 'key: "a\\"', "key:x", "1: a", "? a", ": a", "~", "text", "- a", "'key': a",
        "key: a\n  more", " key: a", "key:\n\t- a", "key:\n  a:\n    b: c", "key:\n  - a\n  b: c",
        "key:\n  b: c\n  - a", "key:\n  - a\n - b", "key:\n  - - a", "key:\n  - a: b", "key:\n  a: [b]",
        "key:\n  a: b\n  a: c", "key: a\nkey: b", "key: a\x00b", "key: a\x1bb", "key: a\rb", "key: \ud800",
        "<<: *a", "", "# only a comment", "<<<<<<< HEAD", "k\u200bey: a",
    ],
)  # fmt: skip
def test_what_is_not_understood_is_a_problem_and_gives_no_fields(line: str) -> None:
    page = header(line)
    assert page.fields == ()
    assert page.body == "body\n"


def test_a_problem_names_its_line() -> None:
    assert header("name: n", "x:", "  - a", "y: &b c").problem == "line 5: anchors are not allowed"
    assert header("name: n", "x: a\x00").problem == "line 3: control characters are not allowed"
    assert header("name: n", "x:", " \t- a").problem == "line 4: tabs may not indent a header"


def test_a_header_over_its_limit_is_not_read() -> None:
    assert header("name: " + "x" * (HEADER_LIMIT - 15)).problem == ""
    assert "longer than" in header("name: " + "x" * (HEADER_LIMIT - 14)).problem
    assert "longer than" in header("name: " + "é" * (HEADER_LIMIT // 2)).problem


@pytest.mark.parametrize(
    ("line", "warned"),
    [("name: issue #42", True), ("name: C # notes", True), ("name: user     # who", False), ("name: C#", False)],
)
def test_a_value_that_loses_its_end_to_a_comment_is_warned_of(line: str, warned: bool) -> None:
    assert header(line).warnings == (("line 2: ' #' starts a comment; quote the value to keep it",) if warned else ())


def test_conflict_marks_count_only_together_and_at_line_starts() -> None:
    marks = "<<<<<<< HEAD\na\n=======\nb\n>>>>>>> x\n"
    assert header("name: n", body=marks).warnings
    assert split(marks.replace("\n", "\r\n")).warnings
    for harmless in ("Title\n=======\ntext", "<<<<<<< a\n x =======\n>>>>>>> b", " " + marks.replace("\n", "\n ")):
        assert not has_conflict_marks(harmless)


def test_fields_know_their_lines() -> None:
    page = header("# c", "name: n", "", "tags:", "  - a", "", "  - b", "", "# d", "type: user")
    assert [(field.key, field.first, field.last) for field in page.fields] == [
        ("name", 3, 3),
        ("tags", 5, 8),
        ("type", 11, 11),
    ]


UNTIDY = (
    "\ufeff---\r\n# keep me\r\ntype:   'user'   # who\r\nname : n\r\nodd key: [x,y]\r\n"
    "tags:   # mine\r\n    - a\r\n\r\nmetadata:\r\n  type: x\r\n# end\r\n--- \r\nbody\n"
)


@each_case(
    "fields, old, new",
    [
        ({"type": "user"}, "", ""),
        ({"odd key": ["x", "y"]}, "", ""),
        ({"type": "project"}, "'user'", "project"),
        ({"name": "a: b"}, "name : n", 'name : "a: b"'),
        ({"name": None}, "name : n\r\n", ""),
        ({"absent": None}, "", ""),
        ({"tags": ["a", "b"]}, "    - a\r\n", "  - a\r\n  - b\r\n"),
        ({"tags": []}, "tags:   # mine\r\n    - a\r\n", "tags: []\r\n"),
        ({"tags": "c"}, "tags:   # mine\r\n    - a\r\n", "tags: c\r\n"),
        ({"odd key": "z"}, "[x,y]", "z"),
        ({"odd key": ["z"]}, "odd key: [x,y]", "odd key:\r\n  - z"),
        ({"metadata": "m"}, "metadata:\r\n  type: x", "metadata: m"),
        ({"new": "v", "list": ["w"]}, "# end\r\n", "# end\r\nnew: v\r\nlist:\r\n  - w\r\n"),
        ({"type": None, "name": "z", "tags": None}, "type:   'user'   # who\r\nname : n\r\n", "name : z\r\n"),
    ],
)
def test_an_edit_touches_only_the_lines_it_names(
    fields: dict[str, str | list[str] | None], old: str, new: str
) -> None:
    expected = UNTIDY.replace(old, new, 1) if old else UNTIDY
    if fields.keys() >= {"tags", "name"}:
        expected = expected.replace("tags:   # mine\r\n    - a\r\n", "")
    assert edit_text(UNTIDY, fields=fields) == expected


def test_an_empty_value_can_be_filled() -> None:
    assert edit_text("---\na:\nb: #c\n---\n", fields={"a": "x", "b": "z"}) == "---\na: x\nb: z #c\n---\n"


def test_a_field_is_added_before_a_fence_that_ends_the_file() -> None:
    assert edit_text("---\na: b\n---", fields={"c": "d"}) == "---\na: b\nc: d\n---"


def test_a_switch_is_written_bare_and_nothing_else_is() -> None:
    assert join({"pinned": "true", "name": "true"}, "") == '---\npinned: true\nname: "true"\n---\n'
    assert edit_text("---\npinned: true\n---\n", fields={"pinned": "false"}) == "---\npinned: false\n---\n"


def test_a_new_body_begins_on_its_own_line() -> None:
    assert edit_text("---\na: b\n---", body="text") == "---\na: b\n---\ntext"
    assert edit_text("---\r\na: b\r\n---", body="text") == "---\r\na: b\r\n---\r\ntext"
    assert edit_text("---\na: b\n---", body="") == "---\na: b\n---"


@each_case(
    "text, fields",
    [
        ("no header", {"a": "b"}),
        ("---\na: &b c\n---\n", {"a": "b"}),
        ("---\na: b\n", {"a": "b"}),
        ("---\na: b\n---\n", {"a": None}),
        ("---\na: b\n---\n", {"not\na key": "x"}),
        ("---\na: b\n---\n", {"1": "x"}),
        ("---\na: b\n---\n", {"a": "\ud800"}),
        ("---\na: b\n---\n", {"a": "x" * HEADER_LIMIT}),
    ],
)
def test_an_edit_that_cannot_be_sound_is_refused(text: str, fields: dict[str, str | None]) -> None:
    with pytest.raises(TextRefused):
        edit_text(text, fields=fields)


@pytest.mark.parametrize("fields", [{}, {"a\nb": "x"}, {"-": "x"}, {"a ": "x"}, {"": "x"}])
def test_a_header_that_could_not_be_read_is_not_joined(fields: dict[str, str]) -> None:
    with pytest.raises(TextRefused):
        join(fields, "body")


@each_case(
    "value",
    ["Prefers tabs", "it's", 'say "hi"', "C#", "a:b", "2026-11-15", "日本語", "v1.2",
     ".editorconfig:3@9f2c", "é", "(x)", "1st", "3 days", "a\\b", "می\u200cخواهم"],
)  # fmt: skip
def test_plain_values_stay_plain(value: str) -> None:
    assert quote_value(value) == value


@each_case(
    "value",
    ["", " a", "a ", "NO", "on", "Yes", "null", "~", "y", "012", "1e3", "1.10", "12:30:45", "0x1F", "0o17",
     "1_000", "-1", "+1", ".5", ".inf", ".NaN", "2026-11-15T10:00:00Z", "2026-11-15 10:00", "a: b", "a:",
     "a #b", "#a", "- a", "-", "---", "? a", "&a", "*a", "!a", "|", ">", "@a", "`a`", "%a", "[a", "{a",
     "'a'", '"a"', ", a", "a\nb", "a\tb", "a\x00", "a\x85b", "a\u2028b", "\ufeffa", "=", "<<", "\u00a0a"],
)  # fmt: skip
def test_values_that_another_reader_would_take_for_something_else_are_quoted(value: str) -> None:
    written = quote_value(value)
    assert written.startswith('"')
    assert written.endswith('"')
    assert written[1:-1].isprintable() or "\u00a0" in written
    assert header(f"key: {written}").get("key", "absent") == value


def quickest(text: str) -> float:
    """The least CPU time that reading a text took: noise only ever adds."""
    taken = []
    for _ in range(5):
        begin = time.process_time()
        split(text)
        taken.append(time.process_time() - begin)
    return min(taken)


@pytest.mark.parametrize(
    "line",
    [
        "key: " + "[" * 15000, "a" + " " * 15000, "a:" + " " * 15000 + "b", "key: " + "- " * 7000,
        "key: " + "a:" * 7000, 'key: "' + "\\" * 15001, 'key: "' + '\\"' * 7000, "key: '" + "''" * 7000,
        "key: [" + "a," * 7000, "key: [" + "'a'," * 3500, "key: a" + " #" * 7000, "key:\n" + " \n" * 7000,
        "key:\n" + "-\n" * 7000, "\n".join(f"k{n}:" for n in range(2000)), "key: a" + " " * 15000 + "#",
    ],
    ids=str.__len__,
)  # fmt: skip
def test_no_header_takes_long_to_read(line: str) -> None:
    plain = "\n".join(f"k{number}: v" for number in range(1500))
    assert quickest(f"---\n{line}\n---\nb") < 30 * quickest(f"---\n{plain}\n---\nb")


@pytest.mark.parametrize("count", [2, 5])
def test_many_false_fences_take_time_in_proportion(count: int) -> None:
    few, many = "---\n" + "---x\n" * 10000, "---\n" + "---x\n" * (count * 10000)
    assert split(many).body == many
    assert quickest(many) < 5 * count * quickest(few)


def test_a_colon_in_a_plain_value_belongs_to_it_and_our_writer_quotes_it() -> None:
    text = "---\nname: fix: the parser  # mine\nwhen: noon:\nlist: [a]\nmetadata:\n  type: a: b\n---\nx: y\n"
    page = split(text)

    assert (page.get("name"), page.get("when"), page.get_nested("metadata", "type")) == (
        "fix: the parser",
        "noon:",
        "a: b",
    )
    assert not page.problem
    assert not page.warnings
    quotes = text.replace("fix: the parser", '"fix: the parser"').replace("noon:", '"noon:"')
    assert with_quotes(text) == quotes
    assert with_quotes(quotes) == quotes


def test_a_header_with_carriage_returns_alone_is_read_and_edited_as_it_is() -> None:
    text = "---\rname: n\rtags:\r  - a\r---\rbody\rmore"
    page = split(text)

    assert (page.get("name"), page.items("tags"), page.body) == ("n", ("a",), "body\rmore")
    assert page.head + page.body == text
    assert edit_text(text, fields={"name": "m", "new": "v"}) == "---\rname: m\rtags:\r  - a\rnew: v\r---\rbody\rmore"
