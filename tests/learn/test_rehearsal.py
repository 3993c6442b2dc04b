"""A consolidation is not done where a question that was answered before would not be answered after it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from memsheaf.errors import SecretFound, StoreFailed
from memsheaf.learn import rehearsal
from memsheaf.learn.merge_plan import PlanGroup
from memsheaf.learn.rehearsal import Expectation, expect, expectations, find_regressions
from memsheaf.memory import Memory, parse
from memsheaf.store.state import State


@pytest.fixture
def state(tmp_path: Path) -> State:
    return State(str(tmp_path / "state"))


def memory(path: str, body: str, name: str = "", description: str = "") -> Memory:
    header = f"---\nname: {name or path}\ndescription: {description or path}\ntype: project\n---\n"
    return parse(path, f"{header}{body}\n".encode())


def merged(keeper: Memory, *others: Memory, text: str = "") -> PlanGroup:
    return PlanGroup("merge", "", (keeper, *others), keeper.path, text, tuple(other.path for other in others))


def find(memories: Sequence[Memory], groups: Sequence[PlanGroup], *stored: tuple[str, str]) -> dict[int, str]:
    by_path = {one.path: one for one in memories}
    return find_regressions(by_path, groups, [Expectation(*pair) for pair in stored], lambda *_: [*by_path])


# Nine that speak of zebras more than the tenth does: it is only found as long as its own word is there.
CROWD = [memory(f"crowd{number}.md", "zebra zebra zebra", "Zebra", "zebra") for number in range(9)]
NEEDLE = memory("needle.md", "The okapi enclosure is closed in winter.", "Okapi", "When is the okapi house closed?")


def test_a_merge_that_loses_the_word_people_ask_for_is_dropped() -> None:
    keeper = memory("keeper.md", "The enclosure is closed in winter.", "Enclosure", "Winter")
    group = merged(keeper, NEEDLE)

    assert find([keeper, NEEDLE, *CROWD], [group], ("okapi enclosure in winter", "needle.md")) == {}, "both find it"
    assert find([keeper, NEEDLE, *CROWD], [group], ("okapi", "needle.md")) == {
        0: "'okapi' would no longer find needle.md"
    }


def test_the_description_of_what_is_retired_is_a_question_too() -> None:
    keeper = memory("keeper.md", "Something else entirely.")

    assert list(find([keeper, NEEDLE], [merged(keeper, NEEDLE)])) == [0]


def test_what_takes_its_place_may_answer_instead() -> None:
    keeper = memory("keeper.md", "The okapi house is closed in winter.", "Okapi", "When is the okapi house closed?")

    assert find([keeper, NEEDLE], [merged(keeper, NEEDLE)], ("okapi", "needle.md")) == {}


def test_a_rewrite_that_buries_its_own_answer_is_dropped() -> None:
    new = NEEDLE.text.replace("okapi", "animal").replace("Okapi", "Animal")

    assert list(find([NEEDLE, *CROWD], [merged(NEEDLE, text=new)], ("okapi", "needle.md"))) == [0]


def test_a_rewrite_that_pushes_another_answer_out_is_dropped() -> None:
    rivals = [memory(f"rival{number}.md", "heron heron", "Heron", "heron") for number in range(4)]
    answer = memory("answer.md", "A heron, once, in a text of some length about ponds, reeds, mud, rain and frogs.")
    plain = memory("plain.md", "Nothing.")
    group = merged(plain, text=plain.text.replace("Nothing", "heron heron heron"))

    assert list(find([*rivals, answer, plain], [group], ("heron", "answer.md"))) == [0]


def test_only_the_group_to_blame_is_dropped() -> None:
    keeper = memory("keeper.md", "Something else entirely.")
    tabs, copy = (
        memory("tabs.md", "Use tabs.", "Tabs", "Use of tabs"),
        memory("copy.md", "Use tabs.", "Tabs", "Use of tabs"),
    )

    found = find(
        [keeper, NEEDLE, tabs, copy], [merged(tabs, copy), merged(keeper, NEEDLE)], ("okapi tabs", "needle.md")
    )

    assert list(found) == [1]


def test_a_question_nobody_answered_before_counts_for_nothing() -> None:
    keeper = memory("keeper.md", "When is the okapi house closed?")
    questions = [("unicorn", "needle.md"), ("x", "gone.md"), ("", "needle.md")]

    assert find([keeper, NEEDLE], [merged(keeper, NEEDLE)], *questions) == {}


def test_what_expired_is_not_asked_for_any_more() -> None:
    group = PlanGroup("expired", "", (NEEDLE,), retired=("needle.md",))

    assert find([NEEDLE, *CROWD], [group], ("okapi", "needle.md")) == {}


def test_a_question_follows_what_superseded_its_answer() -> None:
    later = parse("later.md", NEEDLE.text.replace("type:", "supersedes: [needle.md]\ntype:").encode())
    keeper = memory("keeper.md", "Something else.")

    assert list(find([later, keeper, *CROWD], [merged(keeper, later)], ("okapi", "needle.md"))) == [0]


def test_of_many_memories_only_those_of_the_plan_and_what_a_question_finds_take_part() -> None:
    keeper = memory("keeper.md", "Something else.")
    memories = {one.path: one for one in (*CROWD, NEEDLE, keeper)}
    asked: list[str] = []

    def search(question: str, limit: int) -> Sequence[str]:
        asked.append(question)
        return ["crowd1.md", "not there.md"]

    found = find_regressions(memories, [merged(keeper, NEEDLE)], [Expectation("okapi", "needle.md")], search)

    assert list(found) == [0]
    assert asked == ["okapi", NEEDLE.description]


def test_a_model_may_not_touch_what_a_stored_question_finds_by_meaning_alone() -> None:
    pets = memory("pets.md", "The office dog sleeps under the desk.", "Pets", "Animals at work")
    keeper = memory("keeper.md", "Invoices are sent by mail.", "Pets", "Animals at work")
    memories = {one.path: one for one in (pets, keeper)}
    stored = [Expectation("puppy hound", "pets.md")]

    def find_pets(question: str, limit: int) -> Sequence[str]:
        return ["pets.md"]

    def find_nothing(question: str, limit: int) -> Sequence[str]:
        return []

    by_rule, by_model = merged(keeper, pets), merged(keeper, pets)._replace(model=True)
    assert find_regressions(memories, [by_rule], stored, find_pets) == {}, "a rule keeps every word"
    assert list(find_regressions(memories, [by_model], stored, find_pets)) == [0]
    assert find_regressions(memories, [by_model], stored, find_nothing) == {}, "it was not answered before"


def test_questions_are_kept_and_the_last_answer_counts(state: State) -> None:
    expect(state, "how do we\n deploy? ", "a.md")
    expect(state, "谁负责发布？", "b.md")
    expect(state, "how do we deploy?", "c.md")

    assert expectations(state) == [("谁负责发布？", "b.md"), ("how do we deploy?", "c.md")]
    assert rehearsal.unexpect(state, "how do we  deploy?")
    assert not rehearsal.unexpect(state, "how do we deploy?")
    assert expectations(state) == [("谁负责发布？", "b.md")]


def test_questions_follow_and_go_with_their_memory(state: State) -> None:
    expect(state, "one", "a.md")
    expect(state, "two", "b.md")

    rehearsal.follow(state, {"a.md": "c.md", "b.md": ""})
    assert expectations(state) == [("one", "c.md"), ("two", "b.md")]

    rehearsal.disregard(state, "c.md")
    assert expectations(state) == [("two", "b.md")]


def test_a_question_with_a_secret_is_refused(state: State) -> None:
    with pytest.raises(SecretFound, match="the question holds a password"):
        expect(state, "is the password Corr3ct-H0rse-Fake still good?", "a.md")

    assert expectations(state) == []


def test_only_so_many_questions_are_kept(state: State) -> None:
    state.save(rehearsal.NAME, [[f"question {number}", "a.md"] for number in range(rehearsal.MAX_QUESTIONS)])

    expect(state, "one more", "a.md")

    found = expectations(state)
    assert (len(found), found[0].question, found[-1].question) == (rehearsal.MAX_QUESTIONS, "question 1", "one more")


def test_damaged_questions_are_left_out(state: State) -> None:
    for data in (b"", b"{}", b"[[]]", b'[["a"], ["a", 1], "ab", null, ["q", "p.md"]]', b"\xff"):
        state.write(rehearsal.NAME, data)

        assert expectations(state) == [("q", "p.md")] * (b"p.md" in data)


def test_questions_that_cannot_be_read_are_not_overwritten(state: State) -> None:
    expect(state, "one", "a.md")
    os.rename(os.path.join(state.folder, rehearsal.NAME), os.path.join(state.folder, "kept"))
    os.mkdir(os.path.join(state.folder, rehearsal.NAME))

    with pytest.raises(StoreFailed, match="cannot be read"):
        expect(state, "two", "b.md")
