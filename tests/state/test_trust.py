"""Which checkouts a person accepted: recorded by any number of processes, and never overwritten unread."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from memsheaf.errors import StoreFailed
from memsheaf.scope import REPOSITORIES_FILE, is_accepted
from memsheaf.state.trust import accept, withdraw

PROGRAM = """
import sys
from memsheaf.state.trust import accept, withdraw
home, mine = sys.argv[1:]
sys.stdin.readline()
for number in range(20):
    accept(home, f"{mine}-{number}")
    withdraw(home, f"{mine}-{number}") if number % 2 else None
"""


def test_processes_that_accept_at_once_lose_none(tmp_path: Path) -> None:
    home = str(tmp_path / "home")
    mine = [str(tmp_path / f"checkout-{one}") for one in range(4)]
    with ExitStack() as held:
        running = [
            held.enter_context(subprocess.Popen([sys.executable, "-c", PROGRAM, home, one], stdin=subprocess.PIPE))
            for one in mine
        ]
        for process in running:
            assert process.stdin is not None
            process.stdin.close()  # all of them begin

    assert [process.returncode for process in running] == [0] * 4
    for one in mine:
        assert [number for number in range(20) if is_accepted(home, f"{one}-{number}")] == list(range(0, 20, 2))


@pytest.mark.parametrize("text", ["{", "[]", "\0", '"x"'])
def test_a_file_that_cannot_be_understood_is_left_as_it_is(tmp_path: Path, text: str) -> None:
    (tmp_path / REPOSITORIES_FILE).write_text(text)

    for change in (accept, withdraw):
        with pytest.raises(StoreFailed, match="is not valid JSON"):
            change(str(tmp_path), str(tmp_path / "checkout"))

    assert (tmp_path / REPOSITORIES_FILE).read_text() == text
    assert not is_accepted(str(tmp_path), str(tmp_path / "checkout"))
