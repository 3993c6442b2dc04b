"""What an earlier version left in the platform's folder for a home that MEMSHEAF_HOME names.

The files in `earlier_state` were written by that version: a turn in the inbox, two proposals, a request of a model.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from memsheaf import config
from memsheaf.scope import Scope, resolve

Run = Callable[..., tuple[int, str, str]]
LEFT = Path(__file__).parent / "earlier_state"
WAITING = ["10923b0f", "b6980dd8"]


@pytest.fixture
def platform_state(environment: dict[str, str]) -> Path:
    return Path(environment["HOME"], ".local", "state", "memsheaf")


def leave_state(environment: dict[str, str], scope: str) -> Path:
    """Put the files where the earlier version had them for a scope; gives the folder."""
    settings = config.load(environment)
    root = resolve(Scope.parse(scope), settings.places(str(Path.cwd())))
    platform_state = Path(environment["HOME"], ".local", "state", "memsheaf")
    folder = platform_state / sha256(str(Path(root).resolve()).encode()).hexdigest()[:24]
    shutil.copytree(LEFT / "scope", folder)
    spend = platform_state / "spend"
    spend.mkdir(exist_ok=True)
    shutil.copy(LEFT / "spend" / "today.jsonl", spend / time.strftime("%Y-%m-%d.jsonl"))
    return folder


def proposals(run: Run, scope: str) -> list[str]:
    return [one["id"] for one in json.loads(run("review", "--json", "--scope", scope)[1])["proposals"]]


@pytest.mark.parametrize("scope", ["project", "user", "agent/reviewer"])
def test_inbox_review_queue_and_spend_of_an_earlier_version_are_found(
    run: Run, environment: dict[str, str], scope: str
) -> None:
    if scope.startswith("agent"):  # a folder with memories of the earlier version
        Path(environment["MEMSHEAF_HOME"], "agents", "reviewer").mkdir(parents=True)
    folder = leave_state(environment, scope)
    for _ in range(2):
        assert proposals(run, scope) == WAITING
        assert "Remember that I live in Bergen." in run("learn", "--waiting", "--scope", scope)[1]
        (spent,) = json.loads(run("doctor", "--cost", "30", "--json")[1])["spent"]
        assert (spent["requests"], spent["input"], spent["output"]) == (1, 812, 97)
    assert len([*folder.glob("proposal-*.json")]) == 2


def test_each_thing_waits_once_and_the_files_of_the_earlier_version_stay(
    run: Run, environment: dict[str, str]
) -> None:
    folder = leave_state(environment, "project")
    assert run("review", "--approve", WAITING[0])[0] == 0
    assert proposals(run, "project") == WAITING[1:]
    assert run("learn", "--model", "none")[0] == 0
    assert "nothing is waiting" in run("learn", "--waiting")[1]
    assert run("learn", "--model", "none")[0] == 0
    listed = run("list", "--scope", "project")[1] + run("list", "--scope", "user")[1]
    assert listed.count("kestrel") >= 1
    assert listed.count("Bergen") <= 2  # name and description of one memory
    assert len([line for line in listed.splitlines() if "Bergen" in line or "bergen" in line]) == 1
    assert sorted(one.name for one in folder.glob("proposal-*.json")) == [f"proposal-{id}.json" for id in WAITING]
    assert [*folder.glob("inbox-*.json")]
    assert not Path(environment["MEMSHEAF_HOME"], "state").exists()


def test_the_state_of_another_home_is_left_alone(
    run: Run, environment: dict[str, str], platform_state: Path, tmp_path: Path
) -> None:
    leave_state(environment, "user")
    before = {path: path.read_bytes() for path in platform_state.rglob("*") if path.is_file()}
    elsewhere = {"MEMSHEAF_HOME": str(tmp_path / "throw-away")}
    assert run("learn", "-", "--later", "--scope", "user", stdin="User: I live in Bergen.\n", more=elsewhere)[0] == 0
    assert json.loads(run("review", "--json", "--scope", "user", more=elsewhere)[1])["proposals"] == []
    assert json.loads(run("doctor", "--cost", "30", "--json", more=elsewhere)[1])["spent"] == []
    assert (tmp_path / "throw-away" / "state").is_dir()
    assert {path: path.read_bytes() for path in platform_state.rglob("*") if path.is_file()} == before


def test_a_home_that_has_its_own_state_keeps_to_it(run: Run, environment: dict[str, str]) -> None:
    assert run("learn", "-", "--later", "--scope", "user", stdin="User: I live in Oslo.\n")[0] == 0
    leave_state(environment, "user")
    assert "Oslo" in run("learn", "--waiting", "--scope", "user")[1]
    assert Path(config.load(environment).state) == Path(environment["MEMSHEAF_HOME"], "state")
