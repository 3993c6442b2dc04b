"""Which commands and addresses a text is about, however they are written."""

from __future__ import annotations

import pytest

from memsheaf.text.similarity import MOST, things

TEST = "cd evals && npm test"


@pytest.mark.parametrize(
    "text",
    [
        "The test command is cd evals && npm test",
        "Run `cd evals && npm test` to run the tests.",
        "Run cd evals && npm test to run the tests.",
        "cd evals && npm test runs all tests, cd evals && npm test.",
        'Type "cd evals && npm test", then wait.',
        "Type 'cd evals/ && npm test'.",
        "Type “cd evals && npm test”.",
        "Tests:\n\n```sh\n$ cd evals && npm test\n```\n",
        "Tests:\r\n\r\n~~~\r\ncd ./evals;  npm   test\r\n~~~\r\n",
        "In a shell of its own: `(cd evals && npm test)`",
        "`npm test` in the folder, that is `cd evals && npm test`",
        "运行 `cd evals && npm test` 来跑测试。",
        "Führe cd evals && npm test aus.",
        "The npm tests are run with cd evals && npm test.",
    ],
)
def test_one_command_is_known_however_it_is_written(text: str) -> None:
    assert things(text) == {TEST}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Lint with npm run lint before a commit.", {"npm run lint"}),
        ("In another folder: `cd web && npm test`", {"cd web && npm test"}),
        ("python -m pytest tests/ -q works", {"python -m pytest tests/ -q"}),
        ("Use `make` and `pytest`.", {"make", "pytest"}),
        ("See [the board](https://ci.example/a/).", {"https://ci.example/a"}),
        ("`make doc` and `make docs` are two", {"make doc", "make docs"}),
        ("`npm test -- --watch` and `npm test` are two", {"npm test -- --watch", "npm test"}),
    ],
)
def test_other_commands_and_addresses_are_others(text: str, expected: set[str]) -> None:
    assert things(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Go to the store, make sure, just do it, node by node.",
        "The git history is enough; docker is not in use.",
        'He said "make sure" and "go on then".',
        "`SELECT * FROM users` and `Store.put` are code, and src/app.py a file.",
        "`# a comment` and `// another`",
    ],
)
def test_what_is_no_command_is_none(text: str) -> None:
    assert not things(text)


@pytest.mark.parametrize(
    "text",
    [
        "```x\n" * 20_000,
        "`" * 100_000,
        "cd a && " * 20_000,
        "npm " * 50_000,
        "npm run x " + "--a=b/c.d " * 20_000 + "\0",
        "git " + "-" * 100_000,
        '"a' * 50_000,
        "http://a" + "." * 100_000,
    ],
    ids=str.split,
)
def test_a_hostile_text_gives_little_and_ends(text: str) -> None:
    assert len(things(text)) <= 1


def test_of_many_commands_the_first_count() -> None:
    assert len(things(" ".join(f"`make target-{number}`" for number in range(100)))) == MOST
