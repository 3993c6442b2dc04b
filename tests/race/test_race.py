"""However many processes and editors work at once, nothing is lost, torn or told twice.

`crowd.py`, beside this file, stages the crowds with real processes and prints what it counts.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))


def counted(show: str, *options: str) -> str:
    """Stage a show that must go well, and give what it printed."""
    command = [sys.executable, os.path.join(HERE, "crowd.py"), show, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    print(done.stdout)
    return done.stdout


def test_processes_that_update_one_file_lose_nothing() -> None:
    assert "80 acknowledged, 0 lost, 0 doubled" in counted("updates", "--processes", "4", "--count", "20")


def test_editors_that_truncate_or_rename_lose_nothing_beside_writers() -> None:
    said = counted("editors", "--processes", "4", "--count", "8")

    assert "32 updates acknowledged, 0 not in the journal; 16 saves of editors, 0 not in the journal" in said


def test_processes_that_remember_in_one_sheaf_see_no_error_and_all_is_listed() -> None:
    assert "40 remembered, 0 not listed, 0 journalled twice" in counted(
        "memories", "--processes", "4", "--count", "10"
    )


def test_processes_that_save_one_new_name_at_once_make_one_file_and_lose_no_revision() -> None:
    said = counted("twins", "--count", "8")

    assert "8 names, 8 files, 8 saved, with 1 index(es)" in said
    assert "8 names, 8 files, 8 saved, with 4 index(es)" in said


def test_an_outside_edit_that_two_processes_notice_is_journalled_once() -> None:
    said = counted("looks", "--count", "8")

    assert "8 edits, 8 journalled, by 2 processes with 1 index(es)" in said
    assert "8 edits, 8 journalled, by 2 processes with 2 index(es)" in said


@pytest.mark.long
@pytest.mark.parametrize("show", ["updates", "editors", "memories", "twins", "looks"])
def test_crowds_that_work_for_long_lose_nothing(show: str) -> None:
    for _ in range(5):
        counted(show)
    counted(show, "--processes", "16", "--count", "50")
