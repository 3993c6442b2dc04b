"""Fixtures and hypothesis settings for all tests.

No property is judged by its time: the first example compiles patterns, and a busy machine is slow. MEMSHEAF_LONG=1
tries more examples.
"""

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings as hypothesis_settings

from cases import Clock
from memsheaf import Settings, Sheaf
from memsheaf.worktree import WorkingTree
from trees import APP, Open, Write

hypothesis_settings.register_profile(
    "untimed", deadline=None, max_examples=200 if os.environ.get("MEMSHEAF_LONG") else 25
)
hypothesis_settings.load_profile("untimed")
os.environ.setdefault("MEMSHEAF_EMBEDDER", "none")  # a process that loads the encoder takes three times as long
# A shell starts a job in the background with SIGINT ignored, and every process of a test would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
gc.disable()  # until all is imported, which stays and need not be looked through


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A home of its own, and no search by meaning."""
    home, cache, state = (str(tmp_path / name) for name in ("home", "cache", "state"))
    return Settings(home, cache, state=state, embedder="none")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def sheaf(settings: Settings) -> Iterator[Sheaf]:
    with Sheaf.open("user", settings=settings) as sheaf:
        yield sheaf


# a working tree on disk


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "here"
    folder.mkdir()
    return folder


@pytest.fixture
def write(root: Path) -> Write:
    """Put a file into the tree."""

    def write(path: str, text: str | bytes = APP) -> None:
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(text.encode() if isinstance(text, str) else text)

    return write


@pytest.fixture
def open_tree(root: Path) -> Iterator[Open]:
    """Look at the tree anew; all are closed in the end."""
    opened: list[WorkingTree] = []

    def open_tree(folder: Path = root, **options: object) -> WorkingTree:
        opened.append(WorkingTree(str(folder), **options))  # type: ignore[arg-type]
        return opened[-1]

    yield open_tree
    for tree in opened:
        tree.close()
