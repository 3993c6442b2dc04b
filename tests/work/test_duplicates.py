"""Which memories say the same, and which the opposite."""

from __future__ import annotations

import random
from itertools import count

from memsheaf.guard.evidence import named_in
from memsheaf.memory import Memory, compose
from memsheaf.text_edits import placed
from memsheaf.work.duplicates import ComparedMemory, Comparison, compare, prepare

TEST = "`cd evals && npm test`"
SIX = [
    "The test command is cd evals && npm test",
    f"Run the tests with {TEST}.",
    f"To execute the test suite, use {TEST} from the repository root.",
    f"Tests of the evals run via {TEST}; they cover prompts, schemas and the structure of each agent file.",
    f"CI runs {TEST} on every push.",
    f"{TEST} is how all evaluation tests are started.",
]


def memory(name: str, text: str, *, day: str = "2026-11-01", trust: str = "") -> Memory:
    made = compose(name=name, description="d", kind="project", body=text, created=day, updated=day, trust=trust)
    return placed(made, f"{name}.md")


def entry_of(made: Memory) -> ComparedMemory:
    return prepare(made, named_in(made.body))


def found(*memories: Memory) -> Comparison:
    return compare(map(entry_of, memories))


def said(*texts: str) -> Comparison:
    """What is found in memories `a0`, `a1` and so on, the last the most recent."""
    return found(*(memory(f"a{n}", text, day=f"2026-11-{n + 1:02}") for n, text in enumerate(texts)))


def groups(*texts: str) -> list[list[str]]:
    return [[keeper, *others] for _, keeper, others in said(*texts).groups]


def test_six_descriptions_of_one_command_are_one_group_and_the_most_specific_stays() -> None:
    others = ["Lint with `npm run lint`.", "The test command of the site is `cd web && npm test`.", "Run `npm test`."]

    result = said(*SIX, *others)

    group = ("cd evals && npm test", "a3.md", ("a0.md", "a1.md", "a2.md", "a4.md", "a5.md"))
    assert result.groups == [group]
    assert result.opposed == []
    assert result.crowds == []  # the group tells of all of them
    denied = said(*SIX, f"Never run {TEST} locally.")
    assert [pair[:2] for pair in denied.opposed] == [("a3.md", "a6.md")], "a group is contradicted once"


def test_what_a_memory_is_called_does_not_keep_it_from_those_that_say_the_same() -> None:
    for subject in ("npm tests", "npm commands", "npm test suite", "Tests here", "pytest or npm test"):
        sixth = memory(subject, "Tests are run with cd evals && npm test in this repository.")
        ((_, keeper, others),) = found(*(memory(f"a{n}", text) for n, text in enumerate(SIX[:5])), sixth).groups
        assert (keeper, len(others)) == ("a3.md", 5), subject


def test_a_crowd_that_is_more_than_one_group_is_told() -> None:
    more = [f"{TEST} needs the key of the staging vault, a proxy and much patience on Mondays."]

    result = said(*SIX, *more)

    assert [(about, len(paths)) for about, paths in result.crowds] == [("cd evals && npm test", 7)]


def test_the_order_in_which_memories_come_makes_no_difference() -> None:
    entries = [entry_of(memory(f"a{n}", text)) for n, text in enumerate([*SIX, f"Never run {TEST}.", "Use tabs."])]
    expected = compare(entries)

    for seed in range(10):
        random.Random(seed).shuffle(entries)
        assert compare(entries) == expected


def test_what_is_confirmed_stays_before_what_is_not() -> None:
    older, newer = memory("b", SIX[1]), memory("a", SIX[1], day="2026-11-14", trust="unconfirmed")

    assert found(older, newer).groups[0][1] == "b.md"


def test_the_same_in_slightly_other_words_is_a_group() -> None:
    for one, two in (
        ("The release goes out on Fridays at noon.", "The release goes out on Fridays, at noon!"),
        ("The latency board is https://ci.example/a", "Latency: see the dashboard https://ci.example/a."),
        ("运行 `cd evals && npm test` 来跑测试。", "用 `cd evals && npm test` 执行测试。"),
        ("提交之前必须运行全部单元测试和格式检查", "提交之前必须运行全部单元测试和格式检查。"),
    ):
        assert len(groups(one, two)) == 1, one


def test_however_one_describes_a_command_it_is_one_description() -> None:
    for text in (
        "Use {} to verify changes.", "Canonical test command: {}.", "Tests live in evals/; run them using {}.",
        "Before committing, run {}.", "{} must pass before a merge.", "The verification gate is {}.",
        "npm tests are run from the evals directory with {}.", "You can test everything by running {}.",
        "The eval harness is tested via {}, which runs vitest on every prompt.",
    ):  # fmt: skip
        assert len(groups(SIX[0], text.format(TEST))) == 1, text


def test_what_says_something_else_is_none() -> None:
    for one, two in (
        (SIX[0], f"The tests ({TEST}) fail on Windows."),
        (SIX[0], f"{TEST} is flaky."),
        (SIX[0], f"Kim wrote {TEST}."),
        ("The board is https://ci.example/a", "Kim owns the page https://ci.example/a."),
        (f"{TEST} takes long on a laptop.", f"{TEST} needs OPENAI_API_KEY in the environment."),
        (SIX[3], f"Run {TEST}, then `npm run lint`."),
        (
            f"Kim broke billing in March: invoices lost their taxes, customers wrote angry letters, nobody saw it "
            f"because running {TEST} ignores currencies, countries, discounts, vouchers, refunds and holidays.",
            SIX[0],
        ),
        ("Constants are in `src/a.py` for all of us.", "Constants are in `src/b.py` for all of us."),
        ("`src/http.py` caps retries.", "`src/http.py` logs each request with its trace."),
        (
            "Before you push anything to the main branch run all of the unit tests with `make unit`.",
            "Before you push anything to the main branch run all of the unit tests with `make check`.",
        ),
        ("Alice reviews the parser.", "Releases go out on Fridays."),
    ):
        assert groups(one, two) == [], two
        assert said(one, two).opposed == [], two


def test_who_is_like_a_member_and_not_like_the_keeper_is_not_in_the_group() -> None:
    member = f"We run {TEST}, covering prompts and schemas, nightly for Kim and Lee."
    like_the_member = f"Run {TEST} with Kim, Ada, Zoe, Ida."

    assert groups(member, like_the_member) == [["a0.md", "a1.md"]]
    assert groups(SIX[3], member, like_the_member) == [["a0.md", "a1.md"]]


def test_another_number_or_a_denial_is_a_contradiction_and_no_duplicate() -> None:
    for one, two, why in (
        ("The service listens on port 8080.", "The service listens on port 8081.", "8080 against 8081"),
        (f"{TEST} takes 4 minutes.", f"{TEST} takes 7 minutes.", "4 against 7"),
        (f"Run {TEST} on a laptop.", f"Never run {TEST} on a laptop.", "one denies what the other says"),
        ("Use tabs for indentation.", "Do not use tabs for indentation.", "one denies what the other says"),
    ):
        result = said(one, two)
        assert result.groups == []
        assert result.opposed == [("a0.md", "a1.md", why)]


def test_five_entries_of_one_name_are_a_crowd() -> None:
    numbers = count()
    texts = ["Rome is warm.", "A queue drops jobs.", "Use helix.", "Kim owns billing.", "Logs rotate."]
    same = [placed(memory("Deploy notes", text), f"{next(numbers)}.md") for text in texts]

    assert [(about, len(paths)) for about, paths in found(*same).crowds] == [("deploy notes", 5)]
    assert found(*same[:4]).crowds == []
