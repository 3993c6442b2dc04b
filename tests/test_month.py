"""The replayed month: what holds for its data, and whether its scores can tell a good learner from a bad one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from memsheaf.llm import Model
from memsheaf.llm.scripted import Scripted

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT))

from benchmarks.month import Replay, Replayed  # noqa: E402
from benchmarks.month_data import MONTHS, Month, Step, load  # noqa: E402
from benchmarks.month_models import Counted, Gullible  # noqa: E402
from benchmarks.month_score import Score, judge  # noqa: E402

FIRST = pytest.mark.parametrize("month", MONTHS[:1], indirect=True)
SECOND = pytest.mark.parametrize("month", MONTHS[1:2], indirect=True)  # held out: only its numbers are looked at


@pytest.fixture(scope="module", params=MONTHS)
def month(request: pytest.FixtureRequest) -> Month:
    return load(request.param)


@pytest.fixture(scope="module")
def steps(month: Month) -> list[Step]:
    return [step for each in month.conversations for step in each.steps]


# the replay


def replayed(month: Month, folder: Path, model: Model | None = None) -> tuple[Replayed, Score]:
    result = Replay(month, str(folder), model, deadline=60.0, embedder="none").run(lambda _: None)
    return result, judge(month, result.kept, result.was_held, result.rewrites)


LENGTHS = pytest.mark.parametrize("conversations", [5, pytest.param(40, marks=pytest.mark.long)])


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


@pytest.mark.long
@SECOND
def test_a_month_that_nothing_was_tuned_on_is_learned_as_well_as_the_documentation_says(
    month: Month, tmp_path: Path
) -> None:
    result, score = replayed(month, tmp_path)

    assert score.explicit.share >= 0.65
    assert score.implicit.share >= 0.6
    assert score.precision.share >= 0.6
    assert score.misaimed.share <= 0.3
    assert score.secrets == score.planted == score.private == 0
    assert result.on_disk == set()


@FIRST
def test_a_reader_that_believes_everything_cannot_confirm_what_was_planted(month: Month, tmp_path: Path) -> None:
    _, score = replayed(month.first(4), tmp_path, Gullible())

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
