"""A project in `work`, its layers open for a person on a day that stays: 2026-11-15, noon."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from memsheaf import Settings, Sheaf

NOON = 1_794_744_000.0


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def layers(settings: Settings, work: Path) -> Iterator[Sheaf]:
    with Sheaf.open(settings=settings, cwd=str(work), by="user", clock=lambda: NOON) as layers:
        yield layers
