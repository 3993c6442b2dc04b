"""The built-in encoder: its vectors, what hostile text does to it, and what happens where it cannot run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from command_process import CommandProcess
from memsheaf import Settings, Sheaf
from memsheaf.encode import built_in, find_encoder
from memsheaf.encode.encoder import ENCODER_FILE, FOLDER, TOKENIZER_FILE, BuiltInEncoder
from memsheaf.errors import ModelFailed

SOURCE = Path(FOLDER).parents[1]
MAX_ENCODER_BYTES = 45_000_000
FILES = (ENCODER_FILE, TOKENIZER_FILE)
TEXTS = [
    "The staging database is wiped every Sunday.",
    "I drink tea.",
    "Wo liegt die Datenbank für Tests?",
    "测试数据库在哪里？",
    "def main() -> None: ...",
    "word " * 600,
]
HOSTILE = [
    "",
    " \n\t",
    "\0",
    "a\0b",
    "x" * 10_000,
    "word " * 2_000,
    "\ud800",
    "tea \udfff and \ud83d",
    "\u202e\u200b\u2066\ufeff",
    "e" + "\u0301" * 5_000,
    "\U0010ffff\ufffe\ue000",
    "👩‍👩‍👧‍👦" * 500,
    "[CLS] [SEP] [PAD] [MASK] <s> </s>",
    "\x1b[31m\x07\r\x08",
]


@pytest.fixture(scope="module")
def encoder() -> BuiltInEncoder:
    encoder = built_in()
    assert encoder
    return encoder


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A copy of the package, for a test to damage."""
    shutil.copytree(SOURCE / "memsheaf", tmp_path / "memsheaf", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def assert_that_words_do(home: Path, path: Path, reason: str) -> None:
    """Remember, search, recall and learn by words, with the modules in this folder; doctor and why say the reason."""
    rest = {name: value for name, value in os.environ.items() if not name.startswith(("MEMSHEAF_", "PYTHON"))}
    (home / "work").mkdir(parents=True)
    environment = {**rest, "HOME": str(home), "MEMSHEAF_HOME": str(home / "memories"), "PYTHONPATH": str(path)}
    with CommandProcess(environment, home / "work") as commands:

        def run(*words: str, data: str = "") -> str:
            code, printed = commands.run(*words, data=data)
            assert "Traceback" not in printed
            assert code == 0, f"{words}: {printed}"
            return printed

        assert "Saved user:" in run("remember", "I drink tea in the morning")
        assert "Saved" in run("remember", "The staging database is wiped every Sunday")
        assert "tea" in run("search", "tea")
        assert "staging database" in run("recall", "when is the staging database wiped every week?")
        run("learn", "-", data="User: Remember that my badge number is 4711.\nAssistant: Noted.\n")
        assert "4711" in run("search", "badge number")
        assert f"found by words, because the encoder failed: {reason}" in run("why", "what do I drink? tea?")
        assert "warning: encoder: the built-in encoder " in run("doctor")


def test_the_files_are_small_enough_for_the_wheel() -> None:
    sizes = {name: os.path.getsize(os.path.join(FOLDER, name)) for name in FILES}
    assert sum(sizes.values()) <= MAX_ENCODER_BYTES, sizes


def test_a_text_has_the_same_vector_alone_and_beside_others(encoder: BuiltInEncoder) -> None:
    together = encoder.encode(TEXTS)
    alone = numpy.concatenate([encoder.encode([text]) for text in TEXTS])

    assert together.shape == (len(TEXTS), encoder.dimensions)
    assert together.dtype == numpy.float32
    assert numpy.abs(numpy.linalg.norm(together, axis=1) - 1).max() < 1e-5
    assert (together * alone).sum(axis=1).min() > 1 - 1e-2
    assert (encoder.encode(TEXTS) == together).all()
    assert encoder.encode([]).shape == (0, encoder.dimensions)


def test_the_same_in_other_words_or_another_language_is_nearer_than_something_else(encoder: BuiltInEncoder) -> None:
    question, *others = encoder.encode(
        [
            "Where is the test database?",
            "The database for the tests runs on host db7.",
            "Die Datenbank für Tests liegt auf db7.",
            "Ana is off on Mondays.",
        ]
    )
    english, german, unrelated = (float(question @ row) for row in others)
    assert min(english, german) > unrelated + 0.1


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_has_a_vector_like_any_other(encoder: BuiltInEncoder, text: str) -> None:
    (row,) = encoder.encode([text])
    assert numpy.linalg.norm(row) == pytest.approx(1, abs=1e-5)


@given(st.text(st.characters(), max_size=300))
def test_any_text_has_a_vector_of_length_1(text: str) -> None:
    encoder = built_in()
    assert encoder
    assert numpy.linalg.norm(encoder.encode([text])) == pytest.approx(1, abs=1e-5)


def test_a_memory_and_a_question_with_a_lone_surrogate_are_no_trouble(tmp_path: Path) -> None:
    with Sheaf.open("user", settings=Settings(str(tmp_path / "home"), str(tmp_path / "cache"))) as sheaf:
        sheaf.write("Tea", "What they drink", "user", "I drink tea.")
        assert [row.ref.path for row in sheaf.search("tea \ud800")] == ["user_tea.md"]
        assert sheaf.own.index.embedding().problem == ""


def test_small_talk_and_general_questions_need_a_nearer_memory_than_a_task(encoder: BuiltInEncoder) -> None:
    tasks = ["Write the release notes for our app, please.", "Mach mir eine Packliste für die Reise nach Bergen."]
    others = [
        "thanks, that was quick!",
        "How does a hash table work?",
        "Was ist der Unterschied zwischen TCP und UDP?",
    ]

    biases = [encoder.calibrate(vector).bias for vector in encoder.encode(tasks + others)]

    assert min(biases[:2]) > max(biases[2:])


def test_threads_share_it() -> None:
    encoder = BuiltInEncoder()
    with ThreadPoolExecutor(8) as threads:
        rows = list(threads.map(lambda text: encoder.encode([text])[0], TEXTS * 4))
    for row, text in zip(rows, TEXTS * 4, strict=True):
        assert (row == encoder.encode([text])[0]).all()


def test_all_sheaves_of_a_process_share_one(encoder: BuiltInEncoder) -> None:
    assert all(find_encoder(name) is encoder for name in ("", "auto", "static", "semantic", "minilm"))


def test_a_forked_process_uses_its_own_while_the_parents_encodes() -> None:
    code = """
import os, threading
from memsheaf.encode import built_in, encoder  # imported first: a fork within an import waits for Python's own locks
expected = built_in().encode(["tea", "a longer text about coffee"]).tolist()
parents = built_in()
over = threading.Event()
def work():
    while not over.is_set():
        parents.encode(["one text", "another"])
thread = threading.Thread(target=work)
thread.start()
for _ in range(1):
    child = os.fork()
    if not child:
        mine = built_in()
        same = mine.encode(["tea", "a longer text about coffee"]).tolist() == expected
        os._exit(0 if mine is not parents and same else 1)
    assert os.waitpid(child, 0)[1] == 0
over.set()
thread.join()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("name", "damage"), [*((name, "missing") for name in FILES), (FILES[0], "cut"), (FILES[1], "other")]
)
def test_a_missing_or_damaged_file_costs_only_vectors(tmp_path: Path, name: str, damage: str) -> None:
    folder = tmp_path / "encoder"
    folder.mkdir()
    for file in FILES:
        os.symlink(os.path.join(FOLDER, file), folder / file)
    contents: Mapping[str, bytes] = {
        "cut": Path(FOLDER, name).read_bytes()[:-1000],
        "other": b"version https://git-lfs.github.com/spec/v1\n",
    }
    (folder / name).unlink()
    if damage in contents:
        (folder / name).write_bytes(contents[damage])
    encoder = BuiltInEncoder(str(folder))

    with pytest.raises(ModelFailed, match="cannot be loaded"):
        encoder.encode(["a"])
    settings = Settings(str(tmp_path / "home"), str(tmp_path / "cache"))
    with Sheaf.open("user", settings=settings, embedder=encoder) as sheaf:
        sheaf.write("Tea", "What they drink", "user", "I drink tea.")
        assert [row.ref.path for row in sheaf.search("tea")] == ["user_tea.md"]
        assert "the built-in encoder cannot be loaded" in sheaf.own.index.embedding().problem


def test_with_a_damaged_file_everything_works_by_words_and_the_program_says_so(tmp_path: Path, damaged: Path) -> None:
    (damaged / "memsheaf" / "encode" / "tokenizer.json").write_bytes(b"no words")
    assert_that_words_do(tmp_path / "home", damaged, "the built-in encoder cannot be loaded: ")


@pytest.mark.parametrize("missing", ["tokenizers", "numpy"])
def test_without_a_library_everything_works_by_words_and_the_program_says_so(tmp_path: Path, missing: str) -> None:
    (tmp_path / "sitecustomize.py").write_text(f"import sys; sys.modules[{missing!r}] = None\n")
    reasons = {"numpy": "search by meaning needs numpy"}
    needs_more = "the built-in encoder needs numpy, onnxruntime"
    assert_that_words_do(tmp_path / "home", tmp_path, reasons.get(missing, needs_more))
