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


def test_eight_processes_with_fifty_updates_of_one_file_lose_nothing() -> None:
    assert "400 acknowledged, 0 lost, 0 doubled" in counted("updates")


def test_editors_that_truncate_or_rename_lose_nothing_beside_eight_writers() -> None:
    said = counted("editors", "--count", "15")

    assert "120 updates acknowledged, 0 not in the journal; 30 saves of editors, 0 not in the journal" in said


def test_eight_processes_remember_in_one_sheaf_without_error_and_all_is_listed() -> None:
    assert "200 remembered, 0 not listed, 0 journalled twice" in counted("memories")


def test_processes_that_save_one_new_name_at_once_make_one_file_and_lose_no_revision() -> None:
    said = counted("twins")

    assert "20 names, 20 files, 20 saved, with 1 index(es)" in said
    assert "20 names, 20 files, 20 saved, with 4 index(es)" in said


def test_an_outside_edit_that_two_processes_notice_is_journalled_once() -> None:
    said = counted("looks", "--count", "20")

    assert "20 edits, 20 journalled, by 2 processes with 1 index(es)" in said
    assert "20 edits, 20 journalled, by 2 processes with 2 index(es)" in said


@pytest.mark.long
@pytest.mark.parametrize("show", ["updates", "editors", "memories", "twins", "looks"])
def test_crowds_that_work_for_long_lose_nothing(show: str) -> None:
    for _ in range(5):
        counted(show)
    counted(show, "--processes", "16", "--count", "50")
