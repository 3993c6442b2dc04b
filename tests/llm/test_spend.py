"""What models may cost: caps that hold across processes, and a ledger that nobody can talk down."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from memsheaf.errors import CapReached, ModelFailed
from memsheaf.limits import Caps
from memsheaf.llm import Answer, Model, Question
from memsheaf.llm.scripted import Line, Scripted
from memsheaf.llm.spend import Ledger, Metered, Spent
from memsheaf.state import State

QUESTION = Question("s" * 10, "t" * 10, {}, max_tokens=100)  # 22 bytes with the schema, so 6 tokens go in
NOON = time.mktime((2026, 11, 15, 12, 0, 0, 0, 0, -1))
DAY = 86_400.0
WIDE = Caps(10**6, 10**9, 10**6, 10**6, 10**9)


class Clock:
    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ledger(tmp_path: Path, clock: Clock) -> Ledger:
    return Ledger(State(str(tmp_path / "spend")), clock=clock)


def ask(model: Model, times: int = 1, deadline: float = 30.0) -> None:
    for _ in range(times):
        model.ask(QUESTION, deadline=deadline)


def says(line: Line, times: int = 99) -> Scripted:
    return Scripted([line] * times)


def test_an_answer_comes_through_and_is_in_the_ledger(ledger: Ledger) -> None:
    metered = Metered(says(Answer({"ok": 1}, 50, 9)), ledger, WIDE, "extract")

    assert metered.ask(QUESTION, deadline=30).value == {"ok": 1}

    (row,) = ledger.summary()
    assert row._replace(seconds=0.0) == Spent("2026-11-15", "extract", "scripted", 1, 0, 0, 50, 9)
    assert metered.name == "scripted"
    assert (metered.spent.requests, metered.spent.input, metered.spent.output) == (1, 50, 9)


@pytest.mark.parametrize("lie", [0, -1, -(10**9), None, "many", float("nan"), float("inf"), 1.5, True])
def test_a_model_cannot_report_less_than_its_bytes(ledger: Ledger, lie: object) -> None:
    answer = Answer("x" * 398, lie, lie)  # type: ignore[arg-type]

    ask(Metered(says(answer), ledger, WIDE, "extract"))

    assert (ledger.spent().input, ledger.spent().output) == (6, 100)


def test_a_model_that_reports_a_huge_number_stops_itself(ledger: Ledger) -> None:
    metered = Metered(says(Answer(1, 10**30, 10**30)), ledger, Caps(), "extract")
    ask(metered)

    with pytest.raises(CapReached, match="100,000 tokens a run"):
        ask(metered)
    with pytest.raises(CapReached, match=r"1,000,000 tokens a day.*ends at 2026-11-16 00:00"):
        ask(Metered(says(1), ledger, Caps(), "extract"))
    assert ledger.spent().requests == 1


@pytest.mark.parametrize(
    ("caps", "allowed", "said"),
    [
        (WIDE._replace(requests_per_run=3), 3, "the cap of 3 requests a run"),
        (WIDE._replace(requests_per_day=4), 4, "the cap of 4 requests a day"),
        (WIDE._replace(tokens_per_run=106), 1, "the cap of 106 tokens a run"),
        (WIDE._replace(tokens_per_run=105), 0, "with this request it would be 106"),
        (WIDE._replace(tokens_per_day=113), 2, "the cap of 113 tokens a day"),
        (WIDE._replace(requests_per_run=0), 0, "requests a run"),
        (WIDE._replace(seconds_per_run=0.0), 0, "0 seconds a run"),
    ],
)
def test_each_cap_is_checked_before_a_request_is_made(ledger: Ledger, caps: Caps, allowed: int, said: str) -> None:
    model = says("")  # each comes to 6 tokens in and 1 out, and 106 are set aside
    metered = Metered(model, ledger, caps, "extract")
    ask(metered, allowed)

    with pytest.raises(CapReached, match=said):
        ask(metered)

    assert len(model.asked) == allowed
    assert ledger.spent().requests == allowed


def test_failures_count_at_the_most_they_may_have_cost(ledger: Ledger) -> None:
    model = says(ModelFailed("broken"))
    metered = Metered(model, ledger, WIDE._replace(tokens_per_run=300), "extract")

    for _ in range(2):
        with pytest.raises(ModelFailed, match="broken"):
            ask(metered)
    with pytest.raises(CapReached):
        ask(metered)

    assert len(model.asked) == 2
    assert (ledger.spent().failures, ledger.spent().tokens) == (2, 212)


def test_a_model_that_never_returns_is_left_at_the_deadline(ledger: Ledger) -> None:
    over = threading.Event()
    metered = Metered(says(lambda _: over.wait()), ledger, WIDE, "extract")

    with pytest.raises(ModelFailed, match=r"no answer within 0\.05 seconds"):
        ask(metered, deadline=0.05)

    over.set()
    assert ledger.spent().failures == 1


def test_the_seconds_of_a_run_cut_the_deadline_and_end(ledger: Ledger) -> None:
    over = threading.Event()
    given: list[float] = []

    class Slow:
        name = "slow"

        def ask(self, question: Question, *, deadline: float) -> Answer:
            given.append(deadline)
            over.wait()
            return Answer(1)

    metered = Metered(Slow(), ledger, WIDE._replace(seconds_per_run=0.2), "extract")
    with pytest.raises(ModelFailed, match=r"within 0\.2 seconds"):
        ask(metered, deadline=100)
    with pytest.raises(CapReached, match=r"0\.2 seconds a run"):
        ask(metered, deadline=100)

    over.set()
    assert given == [0.2]


def test_a_new_day_has_its_own_allowance_and_an_answer_after_midnight_counts_where_it_began(
    ledger: Ledger, clock: Clock
) -> None:
    def midnight(_: Question) -> Answer:
        clock.now += DAY
        return Answer(1, 1000, 1000)

    caps = WIDE._replace(requests_per_day=1)
    ask(Metered(says(midnight), ledger, caps, "extract"))
    assert ledger.spent().requests == 0
    ask(Metered(says(1), ledger, caps, "extract"))

    newest, older = ledger.summary()
    assert (newest.day, newest.tokens) == ("2026-11-16", 7)
    assert (older.day, older.tokens, older.open) == ("2026-11-15", 2000, 0)


def test_threads_of_one_run_share_its_cap(ledger: Ledger) -> None:
    metered = Metered(says(1), ledger, WIDE._replace(requests_per_run=10), "extract")
    refused: list[CapReached] = []

    def work() -> None:
        for _ in range(5):
            try:
                ask(metered)
            except CapReached as error:
                refused.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert (len(refused), ledger.spent().requests) == (10, 10)


PROCESS = """
import sys
from memsheaf.errors import CapReached
from memsheaf.llm import Question
from memsheaf.llm.scripted import Scripted
from memsheaf.limits import Caps
from memsheaf.llm.spend import Ledger, Metered
from memsheaf.state import State
made = 0
model = Metered(Scripted([""] * 99), Ledger(State(sys.argv[1])), Caps(10**6, 10**9, 10**6, {requests}, {tokens}), "x")
input()
for _ in range(10):
    try:
        model.ask(Question("s" * 10, "t" * 10, {{}}, max_tokens=100), deadline=30)
        made += 1
    except CapReached:
        pass
print(made)
"""


@pytest.mark.parametrize(
    ("caps", "least", "most"),
    [
        ({"requests": 514, "tokens": 10**9}, 14, 14),
        # 7 tokens each, and 106 while it runs: with three at once, one may find the allowance taken by the others
        ({"requests": 10**6, "tokens": 300}, 2, 28),
    ],
)
def test_processes_at_once_share_the_caps_of_a_day(
    tmp_path: Path, caps: dict[str, int], least: int, most: int
) -> None:
    folder = str(tmp_path / "spend")
    busy = "".join(f'{{"id": "{number}", "at": 1}}\n' for number in range(500))  # a long day, slow to count
    (tmp_path / "spend").mkdir()
    (tmp_path / "spend" / f"{Ledger(State(folder)).today()}.jsonl").write_text(busy)
    program = PROCESS.format(**caps)
    running = [
        subprocess.Popen([sys.executable, "-c", program, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in range(3)
    ]
    for one in running:
        assert one.stdin is not None
        one.stdin.write(b"\n")
        one.stdin.flush()
    made = sum(int(one.communicate()[0]) for one in running)

    assert least <= made <= most
    spent = Ledger(State(folder)).spent()
    assert spent.requests == 500 + made
    assert spent.requests <= caps["requests"]
    assert spent.tokens <= caps["tokens"]
    assert spent.open == 500


def test_who_is_killed_before_the_answer_has_paid_in_full(tmp_path: Path) -> None:
    folder = str(tmp_path / "spend")
    program = (
        "import os, sys\n"
        "from memsheaf.llm import Question\n"
        "from memsheaf.llm.scripted import Scripted\n"
        "from memsheaf.limits import Caps\nfrom memsheaf.llm.spend import Ledger, Metered\n"
        "from memsheaf.state import State\n"
        "model = Scripted([lambda _: os.kill(os.getpid(), 9)])\n"
        "ask = Metered(model, Ledger(State(sys.argv[1])), Caps(), 'x').ask\n"
        "ask(Question('s' * 10, 't' * 10, {}, max_tokens=100), deadline=30)\n"
    )

    assert subprocess.run([sys.executable, "-c", program, folder], check=False).returncode == -9

    spent = Ledger(State(folder)).spent()
    assert (spent.requests, spent.open, spent.tokens) == (1, 1, 106)


@pytest.mark.parametrize(
    "make",
    [Path.mkdir, lambda path: path.symlink_to("/dev/zero"), lambda path: path.symlink_to("elsewhere")],
    ids=["folder", "device", "link"],
)
def test_a_ledger_that_is_no_file_stops_the_request(
    tmp_path: Path, ledger: Ledger, make: Callable[[Path], None]
) -> None:
    make(tmp_path / "state.db")
    model = says(1)

    with pytest.raises(ModelFailed, match="was not asked"):
        ask(Metered(model, ledger, Caps(), "x"))

    assert model.asked == []
    assert not (tmp_path / "elsewhere").exists()


def test_lines_of_an_earlier_version_that_are_damaged_or_made_up_give_nothing_back(
    tmp_path: Path, ledger: Ledger
) -> None:
    (tmp_path / "spend").mkdir()
    file = tmp_path / "spend" / "2026-11-15.jsonl"
    known = {"id": "known", "at": 1, "purpose": "extract", "model": "m"}
    lines = [
        json.dumps({**known, "input": 6, "output": 100}),
        json.dumps({"id": "known", "seconds": 0.1, "failed": False, "input": 6, "output": 1}),
        "{torn",
        "[]",
        "7",
        "null",
        '{"id": 5, "at": 1}',
        '{"id": "unknown", "seconds": 1, "input": -100000}',
        json.dumps({"id": "known", "seconds": -9, "input": -(10**9), "output": "free", "failed": "no"}),
        json.dumps({"id": "made up", "at": "x", "input": -5, "output": None, "purpose": None, "model": [1]}),
    ]
    file.write_text("\n".join(lines) + "\n{torn")
    for _ in range(2):
        spent = ledger.spent()
        assert (spent.requests, spent.tokens, spent.open) == (2, 0, 1)
        assert spent.seconds >= 0
    ask(Metered(says(1), ledger, WIDE, "extract"))
    assert ledger.spent().requests == 3

    with file.open("a") as out:  # the earlier version goes on meanwhile: it ends a torn line first
        out.write("\n" + json.dumps({**known, "id": "later", "input": 1_000, "output": 0}) + "\n")
    assert (ledger.spent().requests, ledger.spent().input) == (4, 1_006)
    ask(Metered(says(1), ledger, WIDE, "extract"))
    assert (ledger.spent().requests, ledger.spent().input) == (5, 1_012)
    assert file.exists()


def test_a_ledger_that_somebody_holds_is_not_waited_for_longer_than_the_deadline(
    tmp_path: Path, ledger: Ledger
) -> None:
    model = says(1)
    ask(Metered(says(1), ledger, WIDE, "extract"))

    with closing(sqlite3.connect(tmp_path / "state.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(ModelFailed, match=r"0\.05 seconds"):
            ask(Metered(model, ledger, WIDE, "extract"), deadline=0.05)

    assert model.asked == []
