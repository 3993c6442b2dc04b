"""Fixtures and hypothesis settings for all tests.

No property is judged by its time: the first example compiles patterns, and a busy machine is slow. MEMSHEAF_LONG=1
tries more examples.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings as hypothesis_settings

from memsheaf import Settings, Sheaf

hypothesis_settings.register_profile(
    "untimed", deadline=None, max_examples=200 if os.environ.get("MEMSHEAF_LONG") else 25
)
hypothesis_settings.load_profile("untimed")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A home of its own, and no search by meaning."""
    home, cache, state = (str(tmp_path / name) for name in ("home", "cache", "state"))
    return Settings(home, cache, state=state, embedder="none")


@pytest.fixture
def sheaf(settings: Settings) -> Iterator[Sheaf]:
    with Sheaf.open("user", settings=settings) as sheaf:
        yield sheaf
