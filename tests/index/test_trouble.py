"""What goes wrong around the vectors costs vectors, and never an answer, an error or a trace."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import numpy
import pytest
from numpy import float32
from numpy.typing import NDArray

from databases import history
from memsheaf.config import Settings
from memsheaf.errors import ModelFailed, StoreFailed
from memsheaf.index import database, search
from memsheaf.index.database import base_of, connect, database_for, delete, locked
from memsheaf.sheaf import Sheaf
from memsheaf.transfer import erase

DIMENSIONS = 64


class Toy:
    """Words as directions."""

    def __init__(self) -> None:
        self.texts = 0
        self.length = 1.0
        self.refused = ""
        self.meanwhile = [lambda: None]

    @property
    def identity(self) -> str:
        return "toy 1"

    @property
    def dimensions(self) -> int:
        return DIMENSIONS

    def encode(self, texts: Sequence[str]) -> NDArray[float32]:
        self.meanwhile.pop()() if self.meanwhile else None
        if self.refused and any(self.refused in text.split() for text in texts):
            raise ModelFailed("it is refused")
        self.texts += len(texts)
        rows = numpy.zeros((len(texts), DIMENSIONS), float32)
        for row, text in zip(rows, texts, strict=True):
            for word in text.lower().split():
                row[sha256(word.encode()).digest()[0] % DIMENSIONS] += 1
            row[0] += 0.01
            row *= self.length / numpy.linalg.norm(row)
        return rows


class Nameless(Toy):
    """One that fails as soon as it is asked who it is."""

    @property
    def identity(self) -> str:
        raise RuntimeError("nobody")


class Shapeless(Toy):
    """One that does not know how long its vectors are."""

    @property
    def dimensions(self) -> int:
        return None  # type: ignore[return-value]


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


def fill(sheaf: Sheaf, count: int = 5) -> None:
    folder = Path(sheaf.root)
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        text = f"---\nname: Note {number}\ndescription: d{number}\ntype: user\n---\nword{number} other{number}\n"
        (folder / f"user_note-{number}.md").write_text(text)
    sheaf.list()


def found(sheaf: Sheaf, query: str) -> list[str]:
    """The best answer, if there is one: so coarse an embedder finds more."""
    return [row.ref.path for row in sheaf.search(query, limit=1)]


# a database that is not what it should be


def test_an_answer_is_whole_though_the_database_breaks_after_the_look(sheaf: Sheaf, settings: Settings) -> None:
    fill(sheaf)
    assert found(sheaf, "word1") == ["user_note-1.md"]
    sheaf.own.index.look()
    with sqlite3.connect(database_for(sheaf.root, settings.cache)) as db:
        db.execute("DROP TABLE words")
    db.close()

    assert [match.row.path for match in sheaf.own.index.search("word1", 1)] == ["user_note-1.md"]


def test_while_another_program_holds_the_index_the_files_are_asked(
    sheaf: Sheaf, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "LOCK_SECONDS", 0.05)
    monkeypatch.setattr(search, "IN_MEMORY_SECONDS", 0.0)
    fill(sheaf)
    place = database_for(sheaf.root, settings.cache)
    sheaf.own.index.close()
    with closing(sqlite3.connect(place, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        (Path(sheaf.root) / "user_note-1.md").unlink()
        assert found(sheaf, "word1") != ["user_note-1.md"]
        assert found(sheaf, "word2") == ["user_note-2.md"]
        other.execute("ROLLBACK")

    assert found(sheaf, "word2") == ["user_note-2.md"]
    assert sheaf.own.index.embedding()[1:] == (4, 4, False, "")


def test_while_another_program_holds_the_history_a_question_is_answered_from_the_files(sheaf: Sheaf) -> None:
    fill(sheaf)
    edited = Path(sheaf.root) / "user_note-1.md"
    edited.write_text(edited.read_text() + "zebra\n")
    began = time.monotonic()
    with (
        closing(sqlite3.connect(history(sheaf.root), isolation_level=None)) as other,
        sheaf.own.store.locked("lock"),
    ):
        other.execute("BEGIN IMMEDIATE")
        assert found(sheaf, "zebra") == ["user_note-1.md"]
        assert time.monotonic() - began < 2.5

    assert [(commit.by, commit.revisions[0].path) for commit in sheaf.log(limit=1)] == [("outside", "user_note-1.md")]


def test_a_database_is_not_deleted_while_somebody_opens_it(settings: Settings) -> None:
    os.makedirs(settings.cache)
    database = os.path.join(settings.cache, "some.sqlite")
    connect(database).close()
    deleting = threading.Thread(target=delete, args=(database,))
    with locked(base_of(database), "opening"):
        deleting.start()
        deleting.join(0.2)
        assert deleting.is_alive()
        assert os.path.exists(database)
    deleting.join()
    assert os.listdir(settings.cache) == ["some.opening.lock"]


def test_the_proof_of_an_erasure_does_not_end_the_locks_of_sqlite(sheaf: Sheaf, settings: Settings) -> None:
    fill(sheaf)
    assert erase(sheaf.own, "user_note-1.md").gone
    assert sheaf.own.index._db is None  # reading the files of a connection that is open would
    assert found(sheaf, "word2") == ["user_note-2.md"]


# an embedder that is none


@pytest.mark.parametrize("embedder", [Nameless(), Shapeless()])
def test_an_embedder_that_breaks_its_word_costs_only_vectors(embedder: Toy, settings: Settings) -> None:
    with Sheaf.open("user", settings=settings, embedder=embedder) as sheaf:
        fill(sheaf)
        assert found(sheaf, "word1") == ["user_note-1.md"]
        assert sheaf.own.index.embedding().problem


# a process that forks


def test_a_child_that_was_forked_has_a_connection_of_its_own(sheaf: Sheaf) -> None:
    fill(sheaf)
    found(sheaf, "word1")

    child = os.fork()
    if not child:
        signal.alarm(20)
        mine = sheaf.own.index._db
        good = found(sheaf, "word2") == ["user_note-2.md"] and sheaf.own.index._db is not mine
        os._exit(0 if good else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert found(sheaf, "word3") == ["user_note-3.md"]


# what cannot be removed


def test_an_index_that_cannot_be_removed_is_named_by_the_proof(sheaf: Sheaf, settings: Settings) -> None:
    fill(sheaf)
    found(sheaf, "word1")
    sheaf.own.index.close()
    database = Path(database_for(sheaf.root, settings.cache))
    text = database.read_bytes()
    database.unlink()
    database.mkdir()
    (database / "inside").write_bytes(text)

    proof = erase(sheaf.own, "user_note-1.md")

    assert [os.path.basename(place) for place in proof.left] == [f"{database.name} (cannot be read)", "inside"]
    with pytest.raises(StoreFailed, match="cannot be removed"):
        sheaf.own.index.delete()
    assert found(sheaf, "word2") == ["user_note-2.md"]
    shutil.rmtree(sheaf.root)
    assert found(sheaf, "word2") == []
