"""Groups of memories that have nearly the same words, and which of them is the keeper."""

from __future__ import annotations

from memsheaf.gates import place_memory
from memsheaf.learn.consolidate import group_duplicates
from memsheaf.memory import Memory, compose

RELEASE = "The release goes out on Fridays at noon, after Kim has read the notes of each team."


def memory(name: str, text: str, *, day: str = "2026-11-01", trust: str = "") -> Memory:
    made = compose(name=name, description="d", kind="project", body=text, created=day, updated=day, trust=trust)
    return place_memory(made, f"{name}.md")


def groups(*memories: Memory) -> list[list[str]]:
    return [[memory.path for memory in group] for group in group_duplicates(memories)]


def groups_of(*texts: str) -> list[list[str]]:
    """Return the groups of memories `a0`, `a1` and so on, the last the most recent."""
    return groups(*(memory(f"a{n}", text, day=f"2026-11-{n + 1:02}") for n, text in enumerate(texts)))


def test_nearly_the_same_words_are_a_group_whatever_case_punctuation_and_order() -> None:
    for one, two in (
        (RELEASE, "the release goes out on fridays, at noon; after Kim has read the notes of each team!"),
        (RELEASE, RELEASE.replace("each team", "each new team")),
        (RELEASE, RELEASE.replace("on Fridays at noon", "at noon on Fridays")),
        ("提交之前必须运行全部单元测试和格式检查", "提交之前必须运行全部单元测试和格式检查。"),
    ):
        assert len(groups_of(one, two)) == 1, two


def test_another_number_a_denial_or_other_words_are_no_group() -> None:
    for one, two in (
        ("The service listens on port 8080.", "The service listens on port 8081."),
        ("Use tabs for indentation.", "Do not use tabs for indentation."),
        (RELEASE, RELEASE.replace("goes", "never goes")),
        ("The test command is `cd evals && npm test`.", "The tests (`cd evals && npm test`) fail on Windows."),
        ("Constants are in `src/a.py` for all of us.", "Constants are in `src/b.py` for all of us."),
        ("Alice reviews the parser.", "Releases go out on Fridays."),
    ):
        assert groups_of(one, two) == [], two


def test_the_confirmed_then_the_most_specific_then_the_most_recent_is_the_keeper() -> None:
    more = RELEASE.replace("each team", "each new team")

    assert groups_of(RELEASE, more, RELEASE) == [["a1.md", "a2.md", "a0.md"]]
    assert groups_of(RELEASE, RELEASE) == [["a1.md", "a0.md"]]
    assert groups(memory("b", RELEASE), memory("a", more, trust="unconfirmed")) == [["b.md", "a.md"]]


def test_thousands_that_differ_in_a_number_are_no_group_and_a_copy_is_found() -> None:
    many = [
        memory(f"a{n:04}", f"Job {n} of the nightly import ran to its end without a complaint.") for n in range(3_000)
    ]

    assert groups(*many, memory("copy", many[7].body)) == [["copy.md", "a0007.md"]]
