"""The daily log as a mode of a scope: what `sheaf.learn`, `distil`, the gates and `erase` make of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from memsheaf import Message, Settings, Sheaf, Turn
from memsheaf.config import Dream
from memsheaf.errors import ReadOnly

NOON = 1_794_744_000.0  # 2026-11-15
FRIDAYS = "Remember that our releases go out on Fridays."
READY = Dream(files=0, hours=0, scan_minutes=0, conversations=0)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    home, cache, state = (str(tmp_path / name) for name in ("home", "cache", "state"))
    return Settings(home, cache, state=state, embedder="none", policy="log", dream=READY)


@pytest.fixture
def sheaf(settings: Settings) -> Iterator[Sheaf]:
    with Sheaf.open("user", settings=settings, clock=lambda: NOON) as sheaf:
        yield sheaf


def turn(text: str) -> Turn:
    return Turn("c1", (Message("user", text), Message("assistant", "Noted.")))


def test_a_turn_goes_to_the_log_and_from_there_to_memory(sheaf: Sheaf) -> None:
    assert sheaf.learn(turn(FRIDAYS))
    assert not sheaf.learn(turn(FRIDAYS))
    assert not sheaf.learn(turn("Ignore memory for this one: our releases go out on Mondays."))

    assert sheaf.learning.inbox.turns() == []
    assert [entry.text for day in sheaf.learning.daily.days() for entry in day.entries] == [FRIDAYS, "Noted."]
    done = sheaf.distil()
    assert [one.outcome for one in done.verdicts] == ["saved"]
    assert done.report is None
    assert sheaf.distil().turns == 0


def test_memories_are_consolidated_only_when_somebody_asks(sheaf: Sheaf, settings: Settings) -> None:
    sheaf.remember("Fridays", "When releases go out", "project", "Releases go out on Fridays.")

    assert [gate.name for gate in sheaf.gates() if not gate.is_open] == ["enabled"]
    assert "daily log" in sheaf.gates()[0].why
    assert sheaf.dream()[1] is None
    assert sheaf.consolidate(apply=True).notes == ()
    with Sheaf.open("user", settings=settings._replace(policy="auto"), clock=lambda: NOON) as other:
        assert all(gate.is_open for gate in other.gates())


def test_a_sheaf_for_reading_logs_nothing(settings: Settings) -> None:
    with Sheaf.open("user", settings=settings, read_only=True) as sheaf, pytest.raises(ReadOnly):
        sheaf.learn(turn(FRIDAYS))


def test_logging_a_turn_loads_nothing_of_what_reads_it(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from memsheaf import Message, Sheaf, Turn\n"
        "with Sheaf.open('user') as sheaf: sheaf.learn(Turn('c', (Message('user', 'Remember that we ship.'),)))\n"
        "print(*sorted(sys.modules))"
    )
    places = {f"MEMSHEAF_{name}": str(tmp_path / name.lower()) for name in ("HOME", "CACHE", "STATE")}
    environment = {**os.environ, **places, "MEMSHEAF_POLICY": "log"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "memsheaf.learn.daily_log" in loaded
    assert not loaded & {f"memsheaf.learn.{name}" for name in ("learner", "extract", "consolidate", "rules")}
    assert not loaded & {"numpy", "pydantic", "asyncio", "http", "ssl", "subprocess", "argparse", "tomllib"}


def test_the_proof_of_an_erasure_looks_at_the_log(sheaf: Sheaf) -> None:
    sheaf.learn(turn("Remember that the vault in Zürich opens at noon."))
    sheaf.learning.daily.note("The vault in Zürich opens at noon.")
    sheaf.learn(turn(FRIDAYS))
    (vault,) = (one.path for one in sheaf.distil().of("saved") if "vault" in one.path)
    history = Path(sheaf.root) / "logs" / ".history"
    shutil.copy(history / "journal-000001.jsonl", history / "copy.jsonl")
    (Path(sheaf.root) / "logs" / "mine.md").write_text("The vault in Zürich opens at noon.\n", encoding="utf-8")

    proof = sheaf.erase(vault)

    left = {name.replace(os.sep, "/").partition(":")[0] for name in proof.left}
    assert left == {"logs/.history/copy.jsonl", "logs/mine.md"}
    assert proof.elsewhere == ()


def test_a_rehearsal_reads_what_was_logged(sheaf: Sheaf) -> None:
    sheaf.learn(turn(FRIDAYS))

    assert [one.outcome for one in sheaf.learning.rehearse(sheaf.learning.waiting())] == ["saved"]
    assert len(sheaf.learning.waiting()) == 1
