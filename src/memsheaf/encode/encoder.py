"""The built-in encoder: six layers of a transformer, 384 numbers a text, 20 languages.

`training/` made its files: `encoder.onnx` turns tokens into a vector, and `tokenizer.json` a text into tokens; both
are loaded with the first text. `needs.npy` says of the vector of a message whether it needs a memory at all.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import lru_cache
from threading import Lock

import numpy
from numpy import float32
from numpy.typing import NDArray
from onnxruntime import GraphOptimizationLevel, InferenceSession, SessionOptions, set_default_logger_severity
from tokenizers import Encoding, Tokenizer

from memsheaf.encode.calibration import Calibration
from memsheaf.errors import ModelFailed

FOLDER = os.path.dirname(os.path.abspath(__file__))
ENCODER_FILE = "encoder.onnx"
JUDGE_FILE = "judge.onnx"
TOKENIZER_FILE = "tokenizer.json"
VERSION = "1"  # change it with the weights, or with how texts are prepared
MAX_TOKENS = 256
MAX_TEXT_CHARS = 8_000  # to look for tokens in; far more than MAX_TOKENS need
MAX_THREADS = 4
ERRORS_ONLY = 3
COSINE_WEIGHT = 10.88  # set with needs.npy, by training/calibrate.py

Floats = NDArray[float32]

_NEEDS: Floats = numpy.load(os.path.join(FOLDER, "needs.npy"))


class Network:
    """A graph of the package that turns tokens into numbers. Threads may share it; a forked process needs its own."""

    def __init__(self, folder: str, file: str) -> None:
        self._folder = folder
        self._file = file
        self._lock = Lock()
        self._loaded: tuple[InferenceSession, Tokenizer] | None = None

    def tokenize(self, text: str, other: str | None = None) -> Encoding:
        """Return the tokens of a text, or of a pair; without `encode_batch`, whose threads a fork breaks.

        Raises:
            ModelFailed: the files cannot be loaded.
        """
        tokenizer = self._load()[1]
        return tokenizer.encode(_clean(text), None if other is None else _clean(other))

    def run(self, encoding: Encoding) -> Floats:
        """Return the numbers of a tokenized text. Raises ModelFailed.

        One text at a time: a batch is no faster, and its texts would blur each other, since they share the scale of
        their 8-bit numbers.
        """
        session = self._load()[0]
        inputs = {
            "input_ids": encoding.ids,
            "attention_mask": encoding.attention_mask,
            "token_type_ids": encoding.type_ids,
        }
        (rows,) = session.run(None, {name: numpy.array([values], numpy.int64) for name, values in inputs.items()})
        numbers: Floats = rows[0]
        return numbers

    def _load(self) -> tuple[InferenceSession, Tokenizer]:
        with self._lock:
            if self._loaded is None:
                options = SessionOptions()
                options.intra_op_num_threads = min(MAX_THREADS, os.cpu_count() or 1)
                options.add_session_config_entry("session.intra_op.allow_spinning", "0")
                # to look for a faster graph takes a quarter of the time to load this one, and finds none
                options.graph_optimization_level = GraphOptimizationLevel.ORT_DISABLE_ALL
                model = os.path.join(self._folder, self._file)
                try:
                    set_default_logger_severity(ERRORS_ONLY)
                    session = InferenceSession(model, options, providers=["CPUExecutionProvider"])
                    tokenizer = _load_tokenizer(self._folder)
                except Exception as error:  # both libraries raise errors of their own making
                    hint = "`pip install --force-reinstall memsheaf` repairs it; until then, words decide."
                    raise ModelFailed(f"the built-in encoder cannot be loaded: {error}", hint=hint) from error
                self._loaded = session, tokenizer
            return self._loaded


class BuiltInEncoder:
    """The encoder of the package, and beside it the network of `judge.py`, which shares its word vectors."""

    identity = f"memsheaf encoder {VERSION}"
    dimensions = 384

    def __init__(self, folder: str = FOLDER) -> None:
        self._network = Network(folder, ENCODER_FILE)
        self.judge = Network(folder, JUDGE_FILE)

    def encode(self, texts: Sequence[str]) -> Floats:
        """Return one row of length 1 for each text. Raises ModelFailed."""
        rows = numpy.empty((len(texts), self.dimensions), float32)
        for row, text in zip(rows, texts, strict=True):
            row[:] = self._network.run(self._network.tokenize(text))
        result: Floats = rows / numpy.linalg.norm(rows, axis=1, keepdims=True)
        return result

    def calibrate(self, question: Floats) -> Calibration:
        """Return how likely a memory of some cosine matters for a question, given its vector.

        The bias is low for small talk and general questions, which need no memory however near one is.
        """
        return Calibration(COSINE_WEIGHT, float(numpy.append(question, 1) @ _NEEDS))

    def knows(self, text: str) -> bool:
        """Return False for one or two words that are mere strings of syllables to the encoder. Raises ModelFailed.

        What "zzzz" or "flarb blorp" is near to says nothing.
        """
        words = set(re.findall(r"\w+", text.casefold()))
        whole = words.intersection(self._network.tokenize(text).tokens)
        return len(words) > 2 or not text.isascii() or any(len(word) > 2 for word in whole)


@lru_cache(maxsize=1)
def _load_tokenizer(folder: str) -> Tokenizer:
    """Return the tokenizer that both networks share: to load it takes as long as to load a network."""
    tokenizer = Tokenizer.from_file(os.path.join(folder, TOKENIZER_FILE))
    tokenizer.enable_truncation(MAX_TOKENS)
    return tokenizer


def _clean(text: str) -> str:
    """Return the beginning of a text without lone surrogates, which the tokenizer refuses."""
    return text[:MAX_TEXT_CHARS].encode("utf-8", "replace").decode()
