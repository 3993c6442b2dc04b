from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import numpy
import pytest
from numpy import float32
from numpy.typing import NDArray

from memsheaf.memory import check

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT))

from benchmarks import recall_quality  # noqa: E402
from benchmarks.minilm import CachedEncoder  # noqa: E402
from benchmarks.others import others  # noqa: E402
from benchmarks.rankers import Answer, memsheaf  # noqa: E402
from benchmarks.recall_quality import Outcome  # noqa: E402
from benchmarks.recall_sets import SETS, Case, Source, read_lines, read_memories  # noqa: E402

DEVELOPMENT = Source("development")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks.recall_quality", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The public sets in the small: their shape, none of their text."""
    turns = [{"speaker": "A", "dia_id": f"D1:{n}", "text": f"word{n} and more"} for n in range(30)]
    asked = [
        {"question": "where is word7?", "evidence": ["D1:7"], "category": 4},
        {"question": "who said word9?", "evidence": ["D1:9"], "category": 5},
        {"question": "nothing is known", "evidence": [], "category": 1},
    ]
    sample = {"qa": asked, "conversation": {"session_1": turns, "session_1_date_time": "then"}}
    with gzip.open(tmp_path / "locomo7.json.gz", "wt") as file:
        json.dump([sample], file)
    question = {
        "question_id": "q",
        "question": "tell tale4",
        "answer_session_ids": ["s4"],
        "haystack_session_ids": [f"s{n}" for n in range(20)],
        "haystack_sessions": [[{"role": "user", "content": f"tale{n}"}] for n in range(20)],
    }
    with gzip.open(tmp_path / "longmemeval_s_dev.jsonl.gz", "wt") as file:
        file.write(json.dumps(question) + "\n")
    return tmp_path


def test_every_set_is_measured_with_every_ranker_that_was_asked_for(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    sets, rankers = "longmemeval,locomo,scopes", "memsheaf,overlap,fts5"
    folders = ("--data", str(data), "--cache", str(tmp_path / "cache"), "--json", str(out))
    done = run(*folders, "--sets", sets, "--rankers", rankers)
    values = json.loads(out.read_text())

    assert done.returncode == 0, done.stderr
    assert list(values["locomo: LoCoMo R@5"]) == ["messages", "memsheaf", "overlap", "fts5"]
    assert set(values["locomo: LoCoMo R@5"].values()) == {1}
    assert set(values["longmemeval: LongMemEval sessions, all@5"].values()) == {1}
    assert "| LoCoMo R@5 | locomo | 1 | .60 | .65 | 1.00 | 1.00 | 1.00 |" in done.stdout
    assert "scope of" in done.stdout


def test_a_set_that_is_not_there_is_named_and_the_others_are_measured(tmp_path: Path) -> None:
    done = run("--data", str(tmp_path), "--sets", "locomo,coding", "--rankers", "fts5")

    assert "locomo is not measured: locomo7.json.gz is not in --data" in done.stdout
    assert "| coding R@5, 200 memories | coding | 100 |" in done.stdout


def test_a_ranker_that_does_not_exist_is_refused() -> None:
    done = run("--rankers", "tarot")

    assert done.returncode == 2
    assert "there is no 'tarot'; there are memsheaf" in done.stderr


def test_metrics_tell_any_from_all_and_what_is_shown_from_what_is_found() -> None:
    needs = Case("q", frozenset({1, 2}), "k")
    ranked = [(9, 0.9), (1, 0.8), (8, 0.7), (7, 0.6), (6, 0.5), (2, 0.4)]
    outcomes = [
        Outcome(needs, Answer(ranked, [9, 1]), 10),
        Outcome(Case("r", frozenset(), "k"), Answer([], []), 10),
        Outcome(Case("s", frozenset(), "k"), Answer([(3, 0.1)], [3]), 10),
    ]

    assert recall_quality.any_in_five(outcomes) == recall_quality.any_shown(outcomes) == 1
    assert recall_quality.all_in_five(outcomes) == 0
    assert recall_quality.recall_in_five(outcomes) == recall_quality.recall_shown(outcomes) == 0.5
    assert recall_quality.precision_shown(outcomes) == pytest.approx(1 / 3)
    assert recall_quality.silence(outcomes) == 0.5
    # second of all pairs, and eighth: six pairs are among the best of their message, then come 0 and 2
    assert recall_quality.average_precision(outcomes) == pytest.approx((1 / 2 + 2 / 8) / 2)


def test_the_larger_store_holds_840_sound_memories_besides_and_the_same_gold() -> None:
    [alone], [among] = (list(SETS[name](DEVELOPMENT)) for name in ("coding", "coding-among"))

    assert len({memory.path for memory in among.memories}) == len({memory.name for memory in among.memories}) == 1_040
    assert among.cases == alone.cases
    assert among.memories[:200] == alone.memories
    for memory in others():
        check(memory.path, memory.text)
        assert (memory.state, memory.known) == ("ok", True)


FLOORS = {  # on development data
    "worlds-ab: worlds a and b: average precision": 0.55,
    "worlds-ab: – precision of what is shown": 0.4,
    "worlds-ab: – recall of what is shown": 0.4,
    "worlds-ab: needs nothing, gets nothing: worlds a and b": 0.7,
    "size-40: – at 40": 0.5,
}


@pytest.mark.parametrize("count", [2, pytest.param(None, marks=pytest.mark.long)], ids=["short", "long"])
def test_what_matters_is_shown_and_nothing_where_nothing_is_needed(tmp_path: Path, count: int | None) -> None:
    measured = {}
    for name in ("worlds-ab", "size-40"):
        some = islice(SETS[name](DEVELOPMENT), count)
        outcomes = recall_quality.measure(some, ["memsheaf"], str(tmp_path))["memsheaf"]
        for row in recall_quality.ROWS:
            if row.name == name:
                wanted = [each for each in outcomes if not row.kinds or each.case.kind in row.kinds]
                measured[f"{name}: {row.title}"] = row.metric(wanted)
        measured[f"{name}: small talk"] = recall_quality.silence(
            [each for each in outcomes if each.case.kind == "small talk"]
        )

    assert {title: measured[title] for title, floor in FLOORS.items() if measured[title] < floor} == {}, measured
    assert measured["size-40: small talk"] >= 0.9, measured


def test_a_literal_term_of_a_script_without_spaces_is_always_found(tmp_path: Path) -> None:
    memories = read_memories("languages")
    with memsheaf(memories, str(tmp_path)) as ask:
        for case in read_lines("languages", "literals.jsonl"):
            answer = ask(case["query"])
            best = {memories[number].path for number, _ in answer.ranked[:5]}
            assert best & set(case["gold"]), case


class Counting:
    """An encoder that counts its texts."""

    identity, dimensions = "counting", 2

    def __init__(self) -> None:
        self.seen: list[str] = []

    def encode(self, texts: Sequence[str]) -> NDArray[float32]:
        self.seen += texts
        return numpy.array([[len(text), 1] for text in texts], float32)


def test_no_text_is_encoded_twice_not_even_by_the_next_run_unless_the_weights_changed(tmp_path: Path) -> None:
    first, second, other = Counting(), Counting(), Counting()
    one = CachedEncoder(first, "weights 1", str(tmp_path)).encode(["a", "bcd", "a"])
    two = CachedEncoder(second, "weights 1", str(tmp_path)).encode(["bcd", "ef"])
    CachedEncoder(other, "weights 2", str(tmp_path)).encode(["a"])

    assert one.tolist() == [[1, 1], [3, 1], [1, 1]]
    assert two.tolist() == [[3, 1], [2, 1]]
    assert (first.seen, second.seen, other.seen) == (["a", "bcd"], ["ef"], ["a"])
