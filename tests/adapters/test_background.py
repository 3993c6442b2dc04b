"""Beside somebody else's agent: what fails is told in the log, and what was said is learned in a thread."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

from memsheaf import Settings, Sheaf, Turn
from memsheaf.adapters.background import Distiller, going_on
from memsheaf.recall.turns import Message


def told(sheaf: Sheaf, what: str) -> None:
    assert sheaf.learn(Turn("c", (Message("user", f"Remember that {what}."),)))


def test_what_fails_is_told_and_not_raised(caplog: pytest.LogCaptureFixture) -> None:
    with going_on("nothing is learned"):
        raise RuntimeError("no room")
    assert caplog.messages == ["nothing is learned: no room"]


def test_that_another_process_is_at_it_is_no_warning(sheaf: Sheaf, caplog: pytest.LogCaptureFixture) -> None:
    told(sheaf, "the heron eats fish")
    with sheaf.own.state.lock("distil"):
        distiller = Distiller(sheaf)
        distiller.start()
        distiller.wait()
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
    assert sheaf.learning.inbox.count_waiting() == 1


def test_a_model_that_cannot_be_had_is_a_warning_and_nothing_is_lost(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    with Sheaf.open("user", settings=settings._replace(model="no-such-provider:x")) as sheaf:
        told(sheaf, "the heron eats fish")
        distiller = Distiller(sheaf)
        distiller.start()
        distiller.wait()
        assert "what was said waits, and is learned later: there is no provider" in caplog.text
        assert sheaf.learning.inbox.count_waiting() == 1


def test_it_may_be_started_often_and_waited_for_twice(sheaf: Sheaf) -> None:
    distiller = Distiller(sheaf)
    distiller.wait()
    for number in range(5):
        told(sheaf, f"the heron number {number} eats {number + 2} fish on each day of the year")
        distiller.start()
    distiller.wait()
    distiller.wait()
    assert sheaf.learning.inbox.count_waiting() == 0


MISSING = {
    "anthropic_memory": ("anthropic", "anthropic"),
    "langgraph": ("langgraph", "langgraph"),
    "pydantic_ai": ("pydantic_ai", "pydantic-ai"),
}


def test_without_its_package_an_adapter_says_what_to_install() -> None:
    code = f"""
import importlib, sys
for adapter, (package, extra) in {MISSING!r}.items():
    sys.modules[package] = None
    try:
        importlib.import_module(f"memsheaf.adapters.{{adapter}}")
    except ImportError as error:
        print(str(error).endswith(f"is not installed: pip install 'memsheaf[{{extra}}]'") or error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines() == ["True"] * len(MISSING)
