"""The judge: floors on sentences that it did not learn from, and what hostile text does to it."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from memsheaf.encode.encoder import FOLDER, JUDGE_FILE
from memsheaf.encode.judge import UNRELATED, guess_scope, judge_replacement, judge_sentence
from memsheaf.learn.corrections import KEEP_BELOW_FROM, REPLACE_FROM
from memsheaf.learn.sentences import MIN_WORTH

TRAINING = Path(__file__).parents[2] / "training"
MAX_JUDGE_BYTES = 12_000_000
WORD_VECTORS_HASH = "48f6bf6634b81f231a33c27c7f6820fb19762383bab99c0101883c4d79fee951"
HOSTILE = [
    "",
    " \n\t",
    "a\0b",
    "x" * 10_000,
    "word " * 2_000,
    "\ud800",
    "\u202e\u200b\u2066\ufeff",
    "e" + "\u0301" * 5_000,
    "[CLS] [SEP] [PAD] [MASK]",
    "\x1b[31m\x07\r\x08",
]


def read_labelled(path: Path) -> list[tuple[str, str]]:
    lines = [line.partition(" ") for line in path.read_text(encoding="utf-8").splitlines()]
    return [(label, text) for label, sign, text in lines if sign and label not in ("==", "--", "a:", ">")]


@pytest.mark.parametrize("text", HOSTILE)
def test_any_text_is_judged(text: str) -> None:
    judged = judge_sentence(text, text)
    replacement = judge_replacement(text, "The port is 9443 now.")

    assert 0 <= judged.worth <= 1
    assert 0 <= judged.personal <= 1
    assert 0 <= replacement.whole <= replacement.any <= 1.001
    assert guess_scope(text) in ("user", "project")


def test_what_is_worth_keeping_is_found_and_little_else() -> None:
    labelled = read_labelled(TRAINING / "sentences" / "held-out.txt")[::3]
    kept = [label for label, text in labelled if judge_sentence(text).worth >= MIN_WORTH]
    lasting = [label for label, _ in labelled if label != "-"]

    assert len([label for label in kept if label != "-"]) >= 0.85 * len(lasting)
    assert len([label for label in kept if label != "-"]) >= 0.8 * len(kept)


def test_nine_of_ten_sentences_go_to_the_right_scope() -> None:
    labelled = read_labelled(TRAINING / "scopes" / "held-out.txt")
    wanted = {"u": "user", "p": "project"}
    right = [guess_scope(text) == wanted[label] for label, text in labelled]

    assert sum(right) >= 0.9 * len(right)


def test_replacements_are_told_from_facts_that_stand_beside_each_other() -> None:
    lines = (TRAINING / "pairs" / "held-out.jsonl").read_text(encoding="utf-8").splitlines()
    pairs = [json.loads(line) for line in lines]
    likely = [(pair["same"], judge_replacement(pair["old"], pair["new"]).whole) for pair in pairs]

    for least, found, wrong in ((REPLACE_FROM, 55, 2), (KEEP_BELOW_FROM, 70, 5)):
        assert len([same for same, whole in likely if same == 1 and whole >= least]) >= found
        assert len([same for same, whole in likely if same == 0 and whole >= least]) <= wrong


def test_what_was_said_before_a_sentence_counts() -> None:
    alone = judge_sentence("yes, always").worth
    behind = judge_sentence("yes, always", "Shall I run the linter before every commit from now on?").worth

    assert behind > alone


def test_threads_get_the_answers_that_one_gets() -> None:
    texts = [f"The port of service {number} is {8000 + number}." for number in range(20)]
    alone = [judge_sentence(text) for text in texts]
    judge_sentence.cache_clear()

    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(judge_sentence, texts))

    for one_thread, many in zip(alone, together, strict=True):
        assert one_thread.kind == many.kind
        assert one_thread.worth == pytest.approx(many.worth, abs=1e-4)


def test_it_reads_the_word_vectors_out_of_the_file_of_the_encoder() -> None:
    judge = (Path(FOLDER) / JUDGE_FILE).read_bytes()
    encoder = (Path(FOLDER) / "encoder.onnx").read_bytes()
    offset, length = (re.search(rb"\n\x06" + key + rb"\x12.(\d+)", judge) for key in (b"offset", b"length"))
    assert offset
    assert length
    vectors = encoder[int(offset[1]) :][: int(length[1])]

    assert hashlib.sha256(vectors).hexdigest() == WORD_VECTORS_HASH
    assert len(judge) <= MAX_JUDGE_BYTES


def test_without_its_file_nothing_is_kept_unasked_and_nothing_replaced(tmp_path: Path) -> None:
    package = tmp_path / "memsheaf"
    shutil.copytree(Path(FOLDER).parent, package, ignore=shutil.ignore_patterns(JUDGE_FILE, "__pycache__"))
    program = (
        "from memsheaf.encode.judge import *; "
        "print(judge_sentence('Please never use tabs.').worth < .5, "
        "guess_scope('I drink tea'), guess_scope('tea is out'), "
        "judge_replacement('The port is 1', 'The port is 2 now') == UNRELATED)"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )

    assert done.stdout.split() == ["True", "user", "project", "True"]
    assert UNRELATED.any == 0
