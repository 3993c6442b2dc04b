"""The table in the package, and two embedders as one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

import numpy
import pytest
from numpy import float32

from cases import each_case
from memsheaf.embed import Usual
from memsheaf.embed.concatenated import Concatenated, WeightedEmbedder
from memsheaf.embed.static import FILE, Static
from memsheaf.embed.tensors import Tensors, Vocabulary, dump, pack, parse
from memsheaf.errors import EmbedderFailed

static = Static()


def near(one: str, other: str) -> float:
    rows = static.encode([one, other])
    return float(rows[0] @ rows[1])


@pytest.fixture
def tiny(tmp_path: Path) -> Static:
    """A table of three words, of which one is written in the numbers that a person can check."""
    halves = numpy.full((6, 128), 0x88, numpy.uint8)  # 8 is 0
    halves[3, 0] = 0x8F  # cat: 7 in the first place
    halves[4, 0] = 0xF8  # dog: 7 in the second
    halves[5, 0] = 0x81  # stone: -7 in the first
    words = pack(["[UNK]", "[CLS]", "[SEP]", "cat", "dog", "stone"])
    words |= {f"others.{name}": array for name, array in pack(["katze", "кот", "犬", "石头", "чёрный"]).items()}
    words["english"] = numpy.array([3, 3, 4, 5, 5], numpy.uint32)
    scales = numpy.array([1, 1, 1, 0.5, 0.5, 1], float32)
    path = tmp_path / "tiny.table"
    path.write_bytes(dump(Tensors(words | {"rows": halves, "scales": scales}, {})))
    return Static(str(path))


def test_a_text_is_the_sum_of_its_words_each_once(tiny: Static) -> None:
    cat, both, twice, against = tiny.encode(["cat", "dog CAT", "cat cat dog", "cat stone"])
    assert cat[:3].tolist() == [1, 0, 0]
    assert both[:3] == pytest.approx([0.5**0.5, 0.5**0.5, 0])
    assert (twice == both).all()
    assert against[:3].tolist() == [-1, 0, 0]


@each_case(
    "text, english",
    [
        ("Katze", "cat"),
        ("кота", "cat"),  # a known beginning of a word
        ("白犬石头", "dog stone"),  # known parts of what has no blanks, whatever else there is
        ("кот KATZE", "cat"),
        ("my Katze", "cat"),
    ],
)
def test_a_word_of_another_language_stands_for_the_english_one(tiny: Static, text: str, english: str) -> None:
    one, other = tiny.encode([text, english])
    assert (one == other).all()


def test_a_text_is_near_to_the_same_in_another_language() -> None:
    for one, other, unrelated in (
        ("the database server is down", "数据库服务器坏了", "我喜欢绿茶"),
        ("which colors do you use?", "quelles couleurs utilises-tu ?", "le train arrive à minuit"),
        ("the test fails", "テストが失敗する", "猫が好きです"),
    ):
        assert near(one, other) > near(one, unrelated) + 0.2


def test_the_same_meaning_in_other_words_is_nearer_than_another() -> None:
    for question, answer, other in (
        ("database performance", "PostgreSQL index tuning. Making slow queries fast", "Prefers tabs for indentation"),
        ("deployment process", "CI/CD. How releases are built. The pipeline runs on every push", "Prefers tabs"),
        ("which whitespace should I use?", "Prefers tabs. Indentation for all code", "The server room is cold"),
    ):
        assert near(question, answer) > near(question, other) + 0.1


def test_the_table_is_small_sound_and_the_one_that_is_described() -> None:
    with open(FILE, "rb") as file:
        data = file.read()
    assert len(data) <= 12_000_000
    made = Path(__file__).parents[2] / "training" / "README.md"
    assert sha256(data).hexdigest() in made.read_text()
    kept = parse(data)
    count = len(kept.arrays["starts"]) - 1
    assert count == len(kept.arrays["rows"]) == len(kept.arrays["scales"])
    text, starts, numbers = bytes(kept.arrays["pieces"]), kept.arrays["starts"].tolist(), Vocabulary(kept.arrays)
    for number, (start, end) in enumerate(pairwise(starts)):
        assert numbers[text[start:end].decode()] == number
    assert (kept.arrays["rows"] & 15).min() >= 1
    assert (kept.arrays["rows"] >> 4).min() >= 1
    said = re.findall(r"([\d,]+) words", sys.modules[Static.__module__].__doc__ or "")
    assert said == [f"{count:,}", f"{len(kept.arrays['english']):,}"]
    assert kept.arrays["english"].max() < count


@pytest.mark.parametrize("data", [b"", b"nonsense", b"\xff" * 100, dump(Tensors({}, {}))])
def test_a_damaged_table_is_said_to_be(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "bad").write_bytes(data)
    for path in (tmp_path / "bad", tmp_path / "none", tmp_path):
        with pytest.raises(EmbedderFailed, match="cannot be read"):
            Static(str(path)).encode(["a"])


def test_the_table_is_mapped_not_read() -> None:
    """Of eight megabytes, a question takes a few words and rows into the process's own memory."""
    code = """
import numpy
from memsheaf.embed.static import Static
def private():
    with open("/proc/self/smaps_rollup") as file:
        return sum(int(line.split()[1]) for line in file if line.startswith("Private_Dirty"))
before = private()
Static().encode(["how do we deploy?"])
print(private() - before)
"""
    if not os.path.exists("/proc/self/smaps_rollup"):
        pytest.skip("only Linux tells which memory is a process's own")
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert int(result.stdout) < 2_000  # KiB


class Fixed:
    """Says what it is told."""

    def __init__(self, identity: str, row: list[float]) -> None:
        self.identity = identity
        self.dimensions = len(row)
        self._row = numpy.array(row, float32)

    def encode(self, texts: object) -> numpy.typing.NDArray[float32]:
        return numpy.array([self._row for _ in texts])  # type: ignore[attr-defined]


def test_several_embedders_are_one_whose_cosine_is_their_mean_by_weight() -> None:
    parts = [
        WeightedEmbedder(static, 1, is_english=True),
        WeightedEmbedder(Fixed("fixed", [1.0, 0.0]), 3, is_english=False),
    ]
    one = Concatenated(parts, lambda text: float(text.isascii()), Usual(0.1, 0.1))
    assert (one.dimensions, one.identity, one.usual) == (258, "1 memsheaf-static 2 and 3 fixed", (0.1, 0.1))
    rows = one.encode(["database performance", "PostgreSQL index tuning", "東京 database", "größe"])
    assert numpy.linalg.norm(rows, axis=1) == pytest.approx(1)
    expected = (near("database performance", "PostgreSQL index tuning") + 3) / 4
    assert float(rows[0] @ rows[1]) == pytest.approx(expected)
    assert float(rows[2] @ rows[3]) == pytest.approx(1)  # the English one says nothing about them
    assert float(rows[0] @ rows[2]) == pytest.approx(0.75**0.5)
    assert one.encode([]).shape == (0, 258)
