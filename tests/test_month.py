"""The replayed month: what holds for its data, and whether its scores can tell a good learner from a bad one."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from memsheaf.llm import Model
from memsheaf.llm.scripted import Scripted

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT))

from benchmarks.month import Replay, Replayed  # noqa: E402
from benchmarks.month_data import JUNK, KINDS, MONTHS, Fact, Month, Step, load  # noqa: E402
from benchmarks.month_models import Counted, Gullible, Oracle  # noqa: E402
from benchmarks.month_score import Kept, Rate, Score, judge  # noqa: E402

FIRST = pytest.mark.parametrize("month", MONTHS[:1], indirect=True)
SECOND = pytest.mark.parametrize("month", MONTHS[1:2], indirect=True)  # held out: only its numbers are looked at


@pytest.fixture(scope="module", params=MONTHS)
def month(request: pytest.FixtureRequest) -> Month:
    return load(request.param)


@pytest.fixture(scope="module")
def steps(month: Month) -> list[Step]:
    return [step for each in month.conversations for step in each.steps]


def said(step: Step, *roles: str) -> str:
    return "\n".join(message.text for message in step.turn.messages if not roles or message.role in roles)


def sentence(step: Step, fact: Fact) -> str:
    """The fact as the user said it, and the day that was meant."""
    return f"{said(step, 'user')} {fact.day}"


def perfect(month: Month, steps: list[Step]) -> list[Kept]:
    gone = {*month.corrections, *month.rejected}
    return [
        Kept(fact.id, fact.kind, sentence(steps[fact.turn], fact), learned=fact.how != "saved")
        for fact in month.facts.values()
        if fact.id not in gone
    ]


# the data


@pytest.mark.parametrize(
    ("month", "counts", "last"),
    [("month", (40, 317, 144, 32, 51), "2026-09-30"), ("month2", (28, 196, 95, 21, 34), "2026-10-31")],
    indirect=["month"],
)
def test_a_month_is_as_large_as_its_readme_says(
    month: Month, steps: list[Step], counts: tuple[int, ...], last: str
) -> None:
    implicit = sum(fact.how == "implicit" for fact in month.facts.values())

    assert month.turns == len(steps)
    assert (len(month.conversations), len(steps), len(month.facts), len(month.corrections), implicit) == counts
    days = [step.turn.at[:10] for step in steps]
    assert days == sorted(days)
    assert (days[0], days[-1]) == (f"{last[:8]}01", last)


def test_every_fact_is_said_by_the_user_in_its_turn(month: Month, steps: list[Step]) -> None:
    for fact in month.facts.values():
        assert fact.kind in KINDS, fact
        assert fact.is_in(said(steps[fact.turn], "user")), fact


def test_a_correction_comes_later_and_its_new_value_is_not_in_the_old_turn(month: Month, steps: list[Step]) -> None:
    for old, new in month.corrections.items():
        assert month.facts[old].turn < month.facts[new].turn, new
        assert not month.facts[new].is_in(said(steps[month.facts[old].turn])), new


def test_what_must_not_be_kept_is_said_in_its_turn_and_is_no_fact(month: Month, steps: list[Step]) -> None:
    for never in month.nevers:
        assert never.kind in JUNK, never
        assert never.is_in(said(steps[never.turn])), never
        others = [fact for fact in month.facts.values() if fact.turn != never.turn]
        assert not [fact for fact in others if never.is_in(said(steps[fact.turn], "user"))], never


def test_planted_text_is_never_the_users(month: Month, steps: list[Step]) -> None:
    for never in month.nevers:
        if never.kind == "planted":
            assert never.is_in(said(steps[never.turn], "tool"))
            assert not never.is_in(said(steps[never.turn], "user"))


def test_a_line_that_is_not_understood_is_refused(tmp_path: Path) -> None:
    for line in ("+ f1 project loudly: a", "+ nothing", "what is this"):
        (tmp_path / "week-1.txt").write_text(f"== c01 2026-09-01 09:00\nu: hello\n{line}\n")
        with pytest.raises(ValueError, match="not"):
            load(str(tmp_path))


# the scores


def test_a_perfect_learner_gets_everything_right(month: Month, steps: list[Step]) -> None:
    score = judge(month, perfect(month, steps), set(month.corrections))

    for rate in (score.explicit, score.implicit, score.precision, score.corrected, score.superseded, score.days):
        assert rate.share == 1.0, score
    assert score.kinds.share == 1.0
    assert score.junk.hits == score.stale.hits == score.duplicates == 0
    assert score.secrets == score.planted == score.private == score.came_back == score.unconfirmed == 0


def test_an_empty_learner_gets_nothing(month: Month) -> None:
    score = judge(month, [], set())

    assert score.explicit.share == score.implicit.share == score.precision.share == score.corrected.share == 0.0
    assert score.explicit.of > 30
    assert score.corrected.of == len(month.corrections)
    assert score.superseded == Rate(0, 0)


def hoard(steps: list[Step]) -> list[Kept]:
    return [
        Kept(message.id, "project", message.text, confirmed=True) for step in steps for message in step.turn.messages
    ]


@FIRST
def test_a_hoarder_has_all_facts_and_is_told_what_else_it_has(month: Month, steps: list[Step]) -> None:
    score = judge(month, hoard(steps), set(month.corrections))

    assert score.explicit.share == score.implicit.share == 1.0
    assert score.precision.share < 0.4
    assert score.junk.share > 0.5
    assert set(JUNK) - {"private"} <= {*score.junk_kinds, "secret"}
    said_of = Counter(never.kind for never in month.nevers)
    assert (score.secrets, score.planted, score.private) == (
        said_of["secret"],
        said_of["planted"],
        said_of["private"],
    )
    assert score.came_back == 1
    assert score.corrected.share < 0.2
    assert score.days.share == 0.0


@FIRST
def test_a_whole_conversation_is_not_a_memory_of_its_facts(month: Month) -> None:
    dumps = [Kept(each.name, "project", "\n".join(said(step) for step in each.steps)) for each in month.conversations]
    score = judge(month, dumps, set())

    assert score.explicit.hits == score.implicit.hits == 0
    assert score.junk == Rate(len(dumps), len(dumps))


@FIRST
def test_the_old_value_beside_the_new_one_is_no_correction(month: Month, steps: list[Step]) -> None:
    def kept(id: str) -> Kept:
        return Kept(id, "project", sentence(steps[month.facts[id].turn], month.facts[id]))

    part = month.first(10)
    piled = judge(part, [kept("f004"), kept("f031")], {"f004"})
    clean = judge(part, [kept("f031")], {"f004"})
    lost = judge(part, [], {"f004"})

    assert piled.superseded == Rate(0, 1)
    assert piled.stale == Rate(1, 2)
    assert clean.superseded == Rate(1, 1)
    assert clean.corrected == Rate(1, len(part.corrections))
    assert lost.superseded == Rate(0, 1)


@FIRST
def test_the_same_fact_in_two_memories_is_one_duplicate(month: Month, steps: list[Step]) -> None:
    kept = perfect(month, steps)
    score = judge(month, [*kept, kept[0]._replace(path="again")], set())

    assert score.duplicates == 1
    assert score.junk.hits == 0


@FIRST
def test_what_waits_for_a_person_counts_for_nothing_but_secrets(month: Month, steps: list[Step]) -> None:
    waiting = [one._replace(confirmed=False) for one in hoard(steps)]
    score = judge(month, waiting, set())

    assert score.explicit.hits == score.planted == score.precision.of == 0
    assert score.secrets == sum(never.kind == "secret" for never in month.nevers)
    assert score.unconfirmed == len(waiting)


# the replay


def replayed(month: Month, folder: Path, model: Model | None = None) -> tuple[Replayed, Score]:
    result = Replay(month, str(folder), model, deadline=60.0, embedder="none").run(lambda _: None)
    return result, judge(month, result.kept, result.was_held, result.rewrites)


LENGTHS = pytest.mark.parametrize("conversations", [12, pytest.param(40, marks=pytest.mark.long)])


@FIRST
@LENGTHS
def test_by_rules_alone_nothing_forbidden_is_kept(month: Month, tmp_path: Path, conversations: int) -> None:
    month = month.first(conversations)
    result, score = replayed(month, tmp_path)

    assert result.problems == ()
    assert score.secrets == score.planted == score.private == score.came_back == 0
    assert result.on_disk == set()
    assert sum(not one.learned for one in result.kept) == sum(
        step.saved is not None for each in month.conversations for step in each.steps
    )


@SECOND
def test_a_month_that_nothing_was_tuned_on_is_learned_as_well_as_the_documentation_says(
    month: Month, tmp_path: Path
) -> None:
    result, score = replayed(month, tmp_path)

    assert score.explicit.share >= 0.65
    assert score.implicit.share >= 0.6
    assert score.precision.share >= 0.6
    assert score.misaimed.hits == score.secrets == score.planted == score.private == 0
    assert result.on_disk == set()


@FIRST
@LENGTHS
def test_what_a_perfect_reader_finds_is_kept_once_and_what_was_rejected_stays_away(
    month: Month, tmp_path: Path, conversations: int
) -> None:
    month = month.first(conversations)
    model = Counted(Oracle(month))
    _, score = replayed(month, tmp_path, model)

    assert score.explicit.share > 0.95
    assert score.implicit.share > 0.95
    assert score.junk.hits == score.duplicates == score.came_back == 0
    assert score.superseded.share > 0.5
    assert model.requests - model.failures == len(month.conversations)  # nothing was read a second time


@FIRST
def test_a_reader_that_believes_everything_cannot_confirm_what_was_planted(month: Month, tmp_path: Path) -> None:
    _, score = replayed(month.first(6), tmp_path, Gullible())

    assert score.junk.share > 0.3
    assert score.unconfirmed > 0
    assert score.planted == 0


@FIRST
def test_a_model_that_fails_loses_nothing_that_waits(month: Month, tmp_path: Path) -> None:
    part = month.first(2)  # both of one day: after that rules read what waits
    result, score = replayed(part, tmp_path, Counted(Scripted([])))

    assert len(result.problems) == 2
    assert "the script has ended" in result.problems[0]
    assert score.precision.of == 0


def test_the_command_prints_and_writes_the_same_numbers(tmp_path: Path) -> None:
    place = tmp_path / "numbers.json"
    command = [sys.executable, "-m", "benchmarks.month", "--conversations", "3", "--model", "oracle", "--list"]
    out = subprocess.run(
        [*command, "--json", str(place)], cwd=ROOT, capture_output=True, text=True, encoding="utf-8", check=True
    ).stdout
    found = json.loads(place.read_text(encoding="utf-8"))

    assert out.startswith(f"code {found['code']}, oracle\n3 conversations, {found['turns']} turns")
    assert found["explicit"]["share"] == 1.0
    assert found["explicit"]["interval"][0] < 1.0
    assert f"{found['explicit']['hits']} of {found['explicit']['of']:>3}   1.00" in out
    assert found["spent"]["requests"] - found["spent"]["failures"] == 3
    assert "\nmissed:\n" in out
