from __future__ import annotations

import pytest

from memsheaf.errors import TextRefused
from memsheaf.work.tasks import VerifiedItem as Item
from memsheaf.work.tasks import read_items as items
from memsheaf.work.tasks import require_id, with_item

LOGIN = Item("login", "One can log in", 1, 3, "VERIFIED")
TABLE = """# Verified

| id | description | first | last | status |
|---|---|---|---|---|
| login | One can log in | 1 | 3 | VERIFIED |
"""


def test_a_table_is_what_its_items_say() -> None:
    assert items("") == []
    assert with_item("", LOGIN) == TABLE
    assert items(TABLE) == [LOGIN]
    assert with_item(TABLE, LOGIN) == TABLE


def test_a_description_comes_back_as_it_was() -> None:
    last = Item("last", "d", 2, 2, "VERIFIED")
    for description in ("a | b", "|", "\\", "\\|", "a \\\\| b|", "C:\\", "`x|y`", "登录 🎉", "a  b", "---", "| - |"):
        item = Item("x", description, 1, 1, "REGRESSED")

        assert items(with_item(with_item(TABLE, item), last)) == [LOGIN, item, last]


def test_only_the_row_of_an_item_changes() -> None:
    text = (
        "Anna looks after this.\r\n\r\n# Verified\r\n\r\n| ID | Description | First | Last | Status |\r\n"
        "| :-- | --- | --: | :-: | - |\r\n"
        "|  a|what  holds| 1 |1 | VERIFIED |\r\n\r\n"
        "| b | more | 1 | 2 | REGRESSED |\r\n"
    )

    changed = with_item(text, Item("b", "more", 1, 4, "VERIFIED"))

    assert changed == text.replace("| 2 | REGRESSED", "| 4 | VERIFIED")
    assert with_item(changed, LOGIN) == changed + "| login | One can log in | 1 | 3 | VERIFIED |\r\n"


def test_a_table_is_put_below_what_somebody_wrote() -> None:
    text = with_item("Anna looks after this.", LOGIN)

    assert text == "Anna looks after this.\n\n" + TABLE.partition("\n\n")[2]
    assert items(text) == [LOGIN]


def test_a_row_that_cannot_be_read_is_an_error_that_names_its_line() -> None:
    for row in (
        "| x | d | 1 | 1 |", "| x | a | b | 1 | 1 | VERIFIED |", "| x | d | 1 | 1 | VERIFIED",
        "x | d | 1 | 1 | VERIFIED |", "x is VERIFIED", "|", "| x | d | 1 | 1 | verified |",
        "| x | d | 1 | 1 | FIXED |", "| x | d | 1 | 1 |  |", "| x |  | 1 | 1 | VERIFIED |",
        "| | d | 1 | 1 | VERIFIED |", "| a b | d | 1 | 1 | VERIFIED |", "| x | d | 2 | 1 | VERIFIED |",
        "| x | d | 0 | 1 | VERIFIED |", "| x | d | one | 1 | VERIFIED |", "| x | d | 1 | ² | VERIFIED |",
        "| login | again | 1 | 1 | VERIFIED |",
    ):  # fmt: skip
        for text in (TABLE + row, TABLE + row + "\n| z | d | 1 | 1 | VERIFIED |\n"):
            with pytest.raises(TextRefused, match=r"verified\.md, line 6 "):
                items(text)
            with pytest.raises(TextRefused):
                with_item(text, LOGIN)


def test_a_table_with_another_head_is_refused() -> None:
    for head in (
        "| id | description | first | last |\n|---|---|---|---|",
        "| name | what | first | last | status |\n| login | d | 1 | 1 | VERIFIED |",
    ):
        with pytest.raises(TextRefused):
            items(head)


def test_an_id_is_a_word_in_any_script() -> None:
    for good in ("login", "AC-1.2", "#12", "验收_1", "हिन्दी", "x" * 64):
        item = Item(good, "d", 1, 1, "VERIFIED")
        assert require_id(good) == good
        assert items(with_item("", item)) == [item]
    assert require_id("cafe\u0301") == "caf\u00e9"
    assert [item.id for item in items(TABLE.replace("login", "cafe\u0301"))] == ["caf\u00e9"]
    for bad in ("", "a b", "a|b", "a\\", "x" * 65, "a\nb", "a\u200bb", "\u3164"):
        with pytest.raises(TextRefused) as caught:
            require_id(bad)
        assert "such as login" in caught.value.hint
        assert "verified.md" not in caught.value.hint
