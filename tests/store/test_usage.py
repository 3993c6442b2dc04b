"""What was of use stays in a full catalog, and reading alone changes no prompt."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from memsheaf.config import Settings
from memsheaf.gates import WrittenFile
from memsheaf.index.database import database_for
from memsheaf.memory import parse
from memsheaf.sheaf import Sheaf
from memsheaf.tools import Tools
from memsheaf.transfer import erase

DAY = 86_400.0
MANY = 230
START = time.time() - 240 * DAY  # files cannot be of a day that has not come
Open = Callable[..., Sheaf]


@pytest.fixture
def days() -> list[float]:
    """How many days have passed; the clock of every sheaf."""
    return [0.0]


@pytest.fixture
def opened(settings: Settings, days: list[float]) -> Iterator[Open]:
    with ExitStack() as stack:

        def open_sheaf(**options: object) -> Sheaf:
            chosen = options.pop("settings", settings)
            assert isinstance(chosen, Settings)
            sheaf = Sheaf.open("user", settings=chosen, clock=lambda: START + days[0] * DAY, **options)  # type: ignore[arg-type]
            return stack.enter_context(sheaf)

        yield open_sheaf


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A home with more memories than the catalog shows, one a day."""
    folder = tmp_path_factory.mktemp("filled")
    settings = Settings(str(folder / "home"), str(folder / "cache"), state=str(folder / "state"), embedder="none")
    days = [time.strftime("%Y-%m-%d", time.localtime(START + (number + 1) * DAY)) for number in range(MANY)]
    with Sheaf.open("user", settings=settings) as sheaf:
        texts = [
            f"---\nname: Fact {number:03}\ndescription: d\ntype: user\nupdated: {day}\n---\ntext\n"
            for number, day in enumerate(days)
        ]
        files = {f"user_fact-{number:03}.md": text.encode() for number, text in enumerate(texts)}
        written = [WrittenFile(path, parse(path, data)) for path, data in files.items()]
        sheaf.own.change_many(written, "one a day", by="user")
    return settings.home


@pytest.fixture
def full(filled: str, settings: Settings, opened: Open, days: list[float]) -> Sheaf:
    """A copy of that home, of which the first memories have fallen out of the catalog."""
    shutil.copytree(filled, settings.home)
    days[0] = MANY
    sheaf = opened()
    assert "user_fact-005.md" not in sheaf.catalog().text
    return sheaf


def test_what_an_agent_read_comes_back_with_the_next_save(full: Sheaf) -> None:
    Tools(full).call("memory_read", {"filename": "user_fact-005.md"})
    full.write("Newest", "d", "user", "text")

    assert "user_fact-005.md" in full.catalog().text
    assert "user_newest.md" in full.catalog().text
    assert "user_fact-004.md" not in full.catalog().text


def test_reading_alone_changes_no_byte_of_the_prompt(full: Sheaf, opened: Open) -> None:
    before, written = full.prompt(), full.own.store.stamps(["MEMORY.md"])
    full.own.count_use(["user_fact-005.md", "user_fact-006.md"])

    assert full.prompt() == before
    assert opened().prompt() == before
    assert full.own.store.stamps(["MEMORY.md"]) == written


def test_an_index_that_is_built_anew_comes_to_the_same_catalog(full: Sheaf, opened: Open, settings: Settings) -> None:
    full.own.count_use(["user_fact-005.md"])
    full.write("Newest", "d", "user", "text")
    full.own.count_use(["user_fact-006.md"])  # not yet in the catalog, so not in the next one either
    text = full.catalog().text
    for suffix in ("", "-wal", "-shm"):
        Path(database_for(full.root, settings.cache) + suffix).unlink()

    with opened() as anew:
        assert anew.catalog().text == text
        anew.write("Newer", "d", "user", "text")
        assert "user_fact-006.md" in anew.catalog().text


def test_a_use_outlives_the_process(full: Sheaf, opened: Open, settings: Settings) -> None:
    code = (
        "from memsheaf.sheaf import Sheaf\n"
        "with Sheaf.open('user') as sheaf: sheaf.own.count_use(['user_fact-005.md'])"
    )  # fmt: skip
    environment = {**os.environ, "MEMSHEAF_HOME": settings.home, "MEMSHEAF_CACHE": settings.cache}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)

    assert "user_fact-005.md" in full.own.store.uses_noted()


def test_the_newest_is_never_what_is_lost(full: Sheaf) -> None:
    full.own.count_use([*(f"user_fact-{number:03}.md" for number in range(220))])
    full.write("Newest", "d", "user", "text")

    assert "user_newest.md" in full.catalog().text


def test_a_day_that_has_not_come_moves_nothing_past_today(full: Sheaf, days: list[float]) -> None:
    full.own.store.add_uses("2999-01-01", [f"user_fact-{number:03}.md" for number in range(220)])
    days[0] += 1
    full.write("Newest", "d", "user", "text")

    assert "user_newest.md" in full.catalog().text


def test_who_may_only_read_leaves_no_trace(full: Sheaf, opened: Open) -> None:
    opened(read_only=True).own.count_use(["user_fact-005.md"])

    assert full.own.store.uses_noted() == {}


def test_erasing_a_memory_erases_its_uses(full: Sheaf) -> None:
    full.own.count_use(["user_fact-005.md", "user_fact-006.md"])
    proof = erase(full.own, "user_fact-005.md")

    assert proof.gone
    assert [*full.own.store.uses_noted()] == ["user_fact-006.md"]


def test_a_folder_that_cannot_be_written_is_read_all_the_same(full: Sheaf) -> None:
    os.chmod(Path(full.root, ".history"), 0o500)
    answer = Tools(full).call("memory_read", {"filename": "user_fact-005.md"})

    assert answer.endswith("text\n")
    assert full.write("Newest", "d", "user", "text").path in full.catalog().text
