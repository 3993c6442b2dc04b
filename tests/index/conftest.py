"""A sheaf whose embedder is the `toy` of the module that asks for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from memsheaf.config import Settings
from memsheaf.embed import Embedder
from memsheaf.sheaf import Sheaf


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=str(tmp_path / "home"), cache=str(tmp_path / "cache"))


@pytest.fixture
def sheaf(settings: Settings, toy: Embedder) -> Iterator[Sheaf]:
    with Sheaf.open("user", settings=settings, embedder=toy) as sheaf:
        yield sheaf
