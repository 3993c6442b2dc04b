"""A word on the line is what it is, also when it is the name of an argument."""

from __future__ import annotations

from collections.abc import Callable

import pytest

Run = Callable[..., tuple[int, str, str]]


@pytest.mark.parametrize("word", ["query", "name", "text", "file"])
def test_a_query_may_be_the_name_of_an_argument_and_the_scope_stays_the_one_named(run: Run, word: str) -> None:
    code, out, err = run("search", word, "--scope", "user")

    assert code == 0
    assert f"'{word}'" in out + err
    assert "in user\n" in out + err


def test_a_memory_may_be_called_by_the_name_of_an_argument(run: Run) -> None:
    code, out, err = run("add", "name", "text", "--type", "project", "--description", "d", "--scope", "user")

    assert (code, err) == (0, "")
    assert "project_name.md" in out
    assert "project_name.md" in run("list", "--scope", "user")[1]
