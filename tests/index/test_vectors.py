"""Memories found by meaning: what is embedded, what is kept of it, and that nothing is lost or left behind.

The embedder is a toy: words hashed into a few dimensions, with a short list of words that mean the same.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from numpy import float32
from numpy.typing import NDArray

from memsheaf.config import Settings
from memsheaf.errors import ModelFailed, NotFound
from memsheaf.index import vectors
from memsheaf.index.database import database_for
from memsheaf.index.vectors import (
    BATCH_MEMORIES,
    FIRST_PASSAGE_CHARS,
    MAX_PASSAGES,
    NEXT_PASSAGE_CHARS,
    PAUSE_SECONDS,
    passages,
)
from memsheaf.memory import parse
from memsheaf.sheaf import Sheaf
from memsheaf.transfer import erase

SAME = {"automobile": "car", "vehicle": "car", "physician": "doctor", "canine": "dog", "feline": "cat"}


class Toy:
    """Words as directions; it counts the texts it was given, and can be made to fail or to wait."""

    def __init__(self, identity: str = "toy 1", dimensions: int = 64) -> None:
        self.identity = identity
        self.dimensions = dimensions
        self.texts: list[str] = []
        self.fails: Exception | None = None
        self.gate: threading.Event | None = None
        self.waits = False
        self.seconds = 0.0

    def encode(self, texts: Sequence[str]) -> NDArray[float32]:
        if self.gate is not None and len(texts) > 1:
            self.waits = True
            assert self.gate.wait(60)
        if self.fails is not None:
            raise self.fails
        threading.Event().wait(self.seconds)
        self.texts += texts
        rows = numpy.zeros((len(texts), self.dimensions), float32)
        for row, text in zip(rows, texts, strict=True):
            for word in text.lower().replace(".", " ").split():
                digest = sha256(SAME.get(word, word).encode()).digest()
                row[digest[0] % self.dimensions] += 1 if digest[1] % 2 else -1
                row[digest[2] % self.dimensions] += 1 if digest[3] % 2 else -1
            row[0] += 0.01
            row /= numpy.linalg.norm(row)
        return rows


Open = Callable[..., Sheaf]


@pytest.fixture
def toy() -> Toy:
    return Toy()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=str(tmp_path / "home"), cache=str(tmp_path / "cache"))


@pytest.fixture
def sheaf(settings: Settings, toy: Toy) -> Iterator[Sheaf]:
    with Sheaf.open("user", settings=settings, embedder=toy) as sheaf:
        yield sheaf


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search leaves all missing vectors to the thread."""
    monkeypatch.setattr(vectors, "SEARCH_SECONDS", 0.0)


def remember(sheaf: Sheaf, name: str, content: str = "nothing else") -> str:
    return sheaf.write(name, "d", "user", content).path


def fill(sheaf: Sheaf, count: int = 3) -> None:
    """Memories, a commit each batch, so that they do not wait one by one."""
    folder = Path(sheaf.root)
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        text = f"---\nname: Note {number}\ndescription: d{number}\ntype: user\n---\nword{number} other{number}\n"
        (folder / f"user_note-{number}.md").write_text(text)
    sheaf.list()


def found(sheaf: Sheaf, query: str) -> list[str]:
    return [row.ref.path for row in sheaf.search(query)]


def rows_of(settings: Settings, columns: str, where: str = "1", *, table: str = "vector") -> list[tuple[Any, ...]]:
    """Something about all vectors in the one database."""
    (path,) = Path(settings.cache).glob("*.sqlite")
    with closing(sqlite3.connect(path)) as db:
        return db.execute(f"SELECT {columns} FROM {table} WHERE {where}").fetchall()


def embedded(settings: Settings) -> list[str]:
    """The paths of the memories that have vectors, for each embedder."""
    rows = rows_of(settings, "path", "vector.entry = entry.id", table="vector, entry")
    return sorted(path for (path,) in rows)


def paths_of(sheaf: Sheaf) -> list[str]:
    return [row.path for row in sheaf.list()]


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        threading.Event().wait(0.01)


# what is embedded


@pytest.mark.parametrize(
    "body", ["a b " * 5_000, "x" * 30_000, "\n\n".join(["One sentence."] * 2_000), "日本語" * 9_000]
)
def test_a_long_memory_is_cut_into_passages_that_say_what_it_is(body: str) -> None:
    made = passages(parse("long.md", f"---\nname: Long one\ndescription: D\n---\n{body}\n".encode()))

    assert len(made) == MAX_PASSAGES
    assert made[0].startswith("Long one\nD\n")
    assert all(text.startswith("Long one\n") for text in made[1:])
    assert all(len(text) <= max(FIRST_PASSAGE_CHARS, NEXT_PASSAGE_CHARS) + 20 for text in made)


@pytest.mark.parametrize("name", ["Carla leads QA now (before: Anna leads QA and Bob leads ops)", "QA and ops"])
def test_an_older_text_that_is_kept_below_is_found_as_if_it_stood_alone(name: str) -> None:
    old = "Anna leads QA and Bob leads ops"
    body = f"Carla leads QA now\n\nStill true in part, as of 2026-11-19:\n\n{old}"
    header = f'name: "{name}"\ndescription: "Carla leads QA now (before: {old})"\ntype: project'
    title = "" if "before" in name else f"{name}\n"

    assert passages(parse("qa.md", f"---\n{header}\n---\n{body}\n".encode())) == [
        f"{title}Carla leads QA now",
        f"{title}{old}",
    ]


# finding


def test_a_memory_is_found_that_shares_only_the_meaning(sheaf: Sheaf) -> None:
    path = remember(sheaf, "Automobile", "automobile automobile")
    remember(sheaf, "Physician", "physician physician")

    assert found(sheaf, "car")[0] == path
    match, other = sheaf.own.matches("vehicle")
    assert other.score < match.score
    assert (match.row.path, match.common, match.near > 0.5, match.score > 0) == (path, 0.0, True, True)


def test_without_an_embedder_search_goes_by_words_and_does_not_load_numpy(settings: Settings) -> None:
    code = (
        "import sys; from memsheaf import Settings, Sheaf\n"
        f"settings = Settings({settings.home!r}, {settings.cache!r}, embedder='none')\n"
        "with Sheaf.open('user', settings=settings) as sheaf:\n"
        "    sheaf.write('Tabs', 'd', 'user', 'Use tabs.')\n"
        "    print(len(sheaf.search('tabs')), sheaf.own.index.embedding(), 'numpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "1 Embedding(embedder='', done=0, total=1, running=False, problem='') False\n"
    assert embedded(settings) == []


# keeping


@pytest.mark.parametrize("is_open", [False, True], ids=["closed", "open"])
def test_the_answers_are_the_same_after_the_database_was_deleted(is_open: bool, settings: Settings) -> None:
    sheaf = Sheaf.open("user", settings=settings, embedder=Toy())
    fill(sheaf, 40)
    sheaf.own.index.embed_all()
    before = sheaf.own.matches("word7")
    if not is_open:
        sheaf.close()
    for suffix in ("", "-wal", "-shm"):
        Path(database_for(sheaf.root, settings.cache) + suffix).unlink(missing_ok=True)

    assert not is_open or sheaf.own.matches("word7") == before
    with Sheaf.open("user", settings=settings, embedder=Toy()) as again:
        again.list()
        assert again.own.index.embed_all()[:3] == ("toy 1", 40, 40)
        assert again.own.matches("word7") == before
        assert embedded(settings) == paths_of(again)
    sheaf.close()


@pytest.mark.usefixtures("hurried")
def test_vectors_of_another_embedder_stay_until_all_are_made_anew_and_then_go(settings: Settings) -> None:
    total = 3 * BATCH_MEMORIES
    with Sheaf.open("user", settings=settings, embedder=Toy("an earlier version", 32)) as sheaf:
        fill(sheaf, total)
        sheaf.own.index.embed_all()
    slow = Toy("toy 2")
    slow.gate = threading.Event()
    with Sheaf.open("user", settings=settings, embedder=slow) as sheaf:
        assert found(sheaf, "word7") == ["user_note-7.md"]
        assert sheaf.own.index.embedding()[:4] == ("toy 2", 0, total, True)
        assert len(embedded(settings)) == total
        slow.gate.set()
        wait_until(lambda: not sheaf.own.index.embedding().running)
        assert sheaf.own.index.embedding()[:4] == ("toy 2", total, total, False)
        assert sheaf.own.matches("word7")[0].near > 0.3
        assert embedded(settings) == paths_of(sheaf), "one vector each"


def test_a_memory_that_goes_leaves_no_vector_though_search_goes_by_words(settings: Settings, toy: Toy) -> None:
    with Sheaf.open("user", settings=settings, embedder=toy) as sheaf:
        fill(sheaf)
        sheaf.search("x")

    with Sheaf.open("user", settings=settings._replace(embedder="none")) as sheaf:
        sheaf.forget("user_note-1.md")
        sheaf.search("x")
        assert embedded(settings) == paths_of(sheaf)


# leaving nothing behind


def test_a_removed_or_replaced_memory_leaves_no_vector(sheaf: Sheaf, settings: Settings) -> None:
    fill(sheaf)
    path = remember(sheaf, "Automobile", "automobile")
    before = sheaf.own.matches("x")

    sheaf.forget("user_note-0.md")
    sheaf.revise(path, "automobile", "feline")
    assert found(sheaf, "cat")[0] == path

    assert embedded(settings) == paths_of(sheaf)
    sheaf.undo()
    sheaf.undo()
    assert [match[1:] for match in sheaf.own.matches("x")] == [match[1:] for match in before]


def test_an_erased_memory_leaves_no_vector_and_others_keep_theirs(sheaf: Sheaf, settings: Settings, toy: Toy) -> None:
    fill(sheaf)
    path = remember(sheaf, "Secret", "the automobile secret of a lifetime")
    sheaf.search("x")
    [(vector,)] = rows_of(settings, "data", f"entry = (SELECT id FROM entry WHERE path = '{path}')")
    toy.texts.clear()

    proof = erase(sheaf.own, path)

    assert proof.gone
    assert not any(vector in file.read_bytes() for file in Path(settings.cache).iterdir())
    assert len(embedded(settings)) == 3
    assert found(sheaf, "word2 other2")[0] == "user_note-2.md"
    assert toy.texts == ["word2 other2"], "the others were not embedded again"


def test_a_process_that_reads_a_memory_while_it_is_erased_brings_no_vector_back(settings: Settings, toy: Toy) -> None:
    with Sheaf.open("user", settings=settings, embedder=Toy()) as sheaf:
        fill(sheaf)
        path = remember(sheaf, "Secret", "the automobile secret of a lifetime")
        slow = Toy()
        slow.gate = threading.Event()
        with Sheaf.open("user", settings=settings, embedder=slow) as other:
            thread = threading.Thread(target=lambda: other.search("car"))
            thread.start()
            wait_until(lambda: slow.waits)
            assert erase(sheaf.own, path).gone
            slow.gate.set()
            thread.join(60)

            assert embedded(settings) == paths_of(sheaf)
            assert len(slow.texts) > 3, "it had read the erased text"
            assert path not in found(other, "car") + found(sheaf, "car")
        assert embedded(settings) == paths_of(sheaf)


# beside the search


@pytest.mark.usefixtures("hurried")
def test_many_are_embedded_beside_the_search_which_goes_by_words_meanwhile(sheaf: Sheaf, toy: Toy) -> None:
    toy.gate = threading.Event()
    fill(sheaf, 3 * BATCH_MEMORIES)

    (match,) = sheaf.own.matches("word7")
    assert (match.row.path, match.near) == ("user_note-7.md", 0.0)
    status = sheaf.own.index.embedding()
    assert (status.done, status.total, status.running) == (0, 3 * BATCH_MEMORIES, True)

    toy.gate.set()
    wait_until(lambda: not sheaf.own.index.embedding().running)
    assert sheaf.own.index.embedding() == ("toy 1", 3 * BATCH_MEMORIES, 3 * BATCH_MEMORIES, False, "")
    assert sheaf.own.matches("word7")[0].near > 0.3


@pytest.mark.usefixtures("hurried")
def test_a_thread_that_hangs_does_not_hold_close_for_long(settings: Settings, toy: Toy) -> None:
    toy.gate = threading.Event()
    with Sheaf.open("user", settings=settings, embedder=toy) as sheaf:
        fill(sheaf, 10)
        sheaf.search("word7")
    toy.gate.set()
    wait_until(lambda: "memsheaf-vectors" not in [thread.name for thread in threading.enumerate()])


# failing


@pytest.mark.parametrize(
    ("error", "said"),
    [(ModelFailed("the server is away"), "the server is away"), (KeyError("x"), "KeyError: 'x'")],
    ids=["failed", "anything"],
)
def test_an_embedder_that_fails_is_left_alone_for_a_while(error: Exception, said: str, settings: Settings) -> None:
    now = time.time()
    toy = Toy()
    toy.fails = error
    with Sheaf.open("user", settings=settings, embedder=toy, clock=lambda: now) as sheaf:
        path = remember(sheaf, "Automobile", "automobile")
        assert found(sheaf, "automobile") == [path]
        assert sheaf.own.index.embedding().problem == said
        toy.fails = None
        assert found(sheaf, "car") == []
        now += PAUSE_SECONDS + 1
        assert found(sheaf, "car") == [path]
        assert sheaf.own.index.embedding().problem == ""


@pytest.mark.parametrize("rows", [numpy.zeros((1, 3), float32), numpy.full((1, 64), numpy.nan, float32)])
def test_vectors_that_are_none_are_refused(rows: NDArray[float32], settings: Settings) -> None:
    class Broken(Toy):
        def encode(self, texts: Sequence[str]) -> NDArray[float32]:
            return numpy.repeat(rows, len(texts), axis=0)

    with Sheaf.open("user", settings=settings, embedder=Broken()) as sheaf:
        path = remember(sheaf, "Automobile", "automobile")
        assert found(sheaf, "automobile") == [path]
        assert "another size or length" in sheaf.own.index.embedding().problem


# processes

HERE = str(Path(__file__).parent)

START = """
import sys; sys.path.insert(0, {here!r})
from test_vectors import Toy
from memsheaf import Settings, Sheaf
settings = Settings({home!r}, {cache!r})
"""


def run(settings: Settings, code: str) -> subprocess.Popen[str]:
    start = START.format(here=HERE, home=settings.home, cache=settings.cache)
    return subprocess.Popen([sys.executable, "-c", start + code], stdout=subprocess.PIPE, text=True)


def test_a_killed_process_loses_a_batch_at_most(settings: Settings, toy: Toy) -> None:
    with Sheaf.open("user", settings=settings, embedder=toy) as sheaf:
        fill(sheaf, 4 * BATCH_MEMORIES)
    code = """
import os, signal
with Sheaf.open("user", settings=settings, embedder=Toy()) as sheaf:
    sheaf.list()
    sheaf.own.index.embed_all(lambda done, total: done < total // 2 or os.kill(os.getpid(), signal.SIGKILL))
"""
    with run(settings, code) as process:
        assert process.wait(60) == -signal.SIGKILL

    with Sheaf.open("user", settings=settings, embedder=toy) as sheaf:
        assert sheaf.own.index.embedding().done == 2 * BATCH_MEMORIES
        assert sheaf.own.index.embed_all()[1:3] == (4 * BATCH_MEMORIES, 4 * BATCH_MEMORIES)
        assert len(toy.texts) == 2 * BATCH_MEMORIES
        assert embedded(settings) == paths_of(sheaf)


# whatever happens in whatever order

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("save"), st.integers(0, 3), st.sampled_from(["short", "long words " * 150, "car"])),
        st.tuples(st.sampled_from(["forget", "erase", "touch"]), st.integers(0, 3)),
        st.tuples(st.sampled_from(["search", "lose", "reopen", "other"])),
    ),
    max_size=12,
)


@given(STEPS)
@hypothesis_settings(max_examples=12)
def test_after_a_search_each_text_has_its_vector_and_no_other_is_left(steps: list[tuple[object, ...]]) -> None:
    with TemporaryDirectory() as folder:
        settings = Settings(home=f"{folder}/home", cache=f"{folder}/cache")
        identity = "toy 1"
        sheaf = Sheaf.open("user", settings=settings, embedder=Toy(identity))
        for step in [*steps, ("search",)]:
            match step:
                case ("save", int(number), str(text)):
                    sheaf.write(f"N{number}", "d", "user", text, replace=True)
                case ("forget" | "erase" as what, number):
                    with suppress(NotFound):
                        sheaf.forget(f"user_n{number}.md") if what == "forget" else erase(
                            sheaf.own, f"user_n{number}.md"
                        )
                case ("touch", number):
                    with suppress(FileNotFoundError):
                        os.utime(f"{sheaf.root}/user_n{number}.md", (10**9, 10**9))
                case ("search",):
                    sheaf.search("car")
                    assert set(embedded(settings)) == set(paths_of(sheaf))
                case _:
                    sheaf.close()
                    if step == ("lose",):
                        Path(database_for(sheaf.root, settings.cache)).unlink(missing_ok=True)
                    if step == ("other",):
                        identity = {"toy 1": "toy 2", "toy 2": "toy 1"}[identity]
                    sheaf = Sheaf.open("user", settings=settings, embedder=Toy(identity))
        sheaf.close()
