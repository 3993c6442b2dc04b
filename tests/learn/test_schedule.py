"""Gates tell why they are closed, remember across restarts, and never get in anybody's way."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from memsheaf.config import Dream
from memsheaf.errors import Busy
from memsheaf.learn import schedule
from memsheaf.learn.schedule import Past, at_work, gates
from memsheaf.store.state import State

NOW = 1_800_000_000.0
HOUR = 3600.0
NAMES = ["enabled", "files", "not planning", "last time", "last look", "conversations", "lock"]


@pytest.fixture
def state(tmp_path: Path) -> State:
    return State(str(tmp_path / "state"))


def closed(
    state: State,
    settings: Dream | None = None,
    *,
    files: int = 10,
    learned: int = 5,
    now: float = NOW,
    planning: bool = False,
) -> list[str]:
    found = gates(state, settings or Dream(), files=files, learned=learned, now=now, planning=planning)
    assert [gate.name for gate in found] == NAMES
    assert all(gate.why for gate in found)
    return [gate.name for gate in found if not gate.is_open]


def why(state: State, name: str, *, now: float = NOW, learned: int = 5) -> str:
    found = gates(state, Dream(), files=10, learned=learned, now=now)
    return next(gate.why for gate in found if gate.name == name)


def test_all_are_open_the_first_time_and_nothing_is_created(state: State) -> None:
    assert closed(state) == []
    assert not os.path.exists(state.folder)


def test_each_gate_closes_for_its_own_reason(state: State) -> None:
    assert closed(state, Dream(enabled=False)) == ["enabled"]
    assert closed(state, files=9) == ["files"]
    assert closed(state, planning=True) == ["not planning"]
    assert closed(state, learned=4) == ["conversations"]

    schedule.save(state, Past(NOW, 0))
    assert closed(state, now=NOW + 24 * HOUR - 1) == ["last time"]
    assert why(state, "last time", now=NOW + 23 * HOUR) == "the last consolidation was 23 h ago, 24 h needed"
    assert closed(state, now=NOW + 24 * HOUR) == []

    schedule.look(state, NOW + 25 * HOUR)
    assert closed(state, now=NOW + 25 * HOUR + 599) == ["last look"]
    assert closed(state, now=NOW + 25 * HOUR + 600) == []
    eager = Dream(files=1, hours=0, scan_minutes=0, conversations=0)
    assert closed(state, eager, files=1, learned=0, now=NOW + 25 * HOUR) == []


def test_conversations_are_counted_from_the_last_consolidation_on(state: State) -> None:
    schedule.save(state, Past(NOW - 48 * HOUR, learned=100))

    assert closed(state, learned=104) == ["conversations"]
    assert why(state, "conversations", learned=104) == "4 conversations learned from since, 5 needed"
    assert closed(state, learned=105) == []
    assert closed(state, learned=5) == [], "they were counted anew"
    assert closed(state, learned=3) == ["conversations"]


def test_a_clock_that_was_wrong_does_not_lock_it_out(state: State) -> None:
    for ahead in (1.0, 365 * 24 * HOUR):
        schedule.save(state, Past(NOW + ahead))
        schedule.look(state, NOW + ahead)

        assert closed(state) == []
        assert "the clock was wrong" in why(state, "last time")


def test_the_memory_is_read_back_and_a_damaged_one_is_begun_again(state: State) -> None:
    past = Past(NOW, 7, ("0123456789abcdef",))
    schedule.save(state, past)
    assert schedule.load(State(state.folder)) == past
    for data in (
        b"",
        b"\0" * 50,
        b"[]",
        b"{",
        b'{"at": "soon", "learned": -3, "cursor": "a.md", "settled": {"a": 1}}',
        b'{"at": 1e999, "learned": true, "settled": [1, null]}',
        b'{"at": -1}',
        b'{"at": NaN}',
    ):
        for name in (schedule.MEMORY, schedule.LOOKED):
            state.write(name, data)

        assert closed(state) == [], data
        assert schedule.load(state) == Past(), data


def test_who_is_at_work_shuts_others_out(state: State) -> None:
    with at_work(state):
        assert closed(state) == ["lock"]
        assert why(state, "lock") == "another process is consolidating"
        with pytest.raises(Busy, match="is consolidating already"), at_work(state):
            pass

    assert closed(state) == []
    with pytest.raises(Busy, match="the store is locked"), at_work(state):
        raise Busy("the store is locked")


def test_looking_never_keeps_anybody_from_beginning(state: State) -> None:
    """Lookers look all the time, and nobody who wants to work is turned away."""
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            gates(state, Dream(), files=10, learned=5, now=NOW)

    lookers = [threading.Thread(target=look) for _ in range(4)]
    for thread in lookers:
        thread.start()
    try:
        for _ in range(20):
            with at_work(state):
                pass
    finally:
        stop.set()
        for thread in lookers:
            thread.join()
