"""The graph we write, read by others; and an embedder that runs it in bulk, and does as well without."""

from __future__ import annotations

import doctest
import subprocess
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy
import pytest

from memsheaf.embed.minilm import MiniLM
from memsheaf.embed.network import Floats, assemble, forward
from memsheaf.embed.onnx import OPSET, Runtime, graph
from memsheaf.embed.tensors import Array
from memsheaf.embed.weights import FILE, Source, exact, load, quantise
from memsheaf.embed.wordpiece import WordPiece

BATCH = [[2, 3], [2, 40, 3], [2, 41, 3], [2, *range(5, 60), 3], [2, *[44] * 254, 3]]
BULK = ["staging database " * (number % 60) for number in range(100)]

# What stands in for onnxruntime, as far as it gets.
WORKS = """
class SessionOptions: pass
class InferenceSession:
    def __init__(self, data, options, providers): pass
    def run(self, names, inputs): """
BROKEN = {
    "not whole": "raise ImportError('libonnx.so: cannot open shared object file')",
    "without a part": "import flatbuffers_that_are_not_there",
    "of another kind": "def infer(): pass",
    "too old": WORKS.replace("providers): pass", "providers): raise RuntimeError('opset 17 is not supported')"),
    "out of memory": WORKS + "raise MemoryError('no room')",
    "without an answer": WORKS + "return []",
    "of other vectors": WORKS + "import numpy; return [numpy.eye(len(inputs['mask']), 64, dtype='f4')]",
    "not of numbers": WORKS + "import numpy; return [numpy.full((len(inputs['mask']), 64), float('nan'), 'f4')]",
}


@pytest.fixture(scope="module")
def onnx() -> Any:
    pytest.importorskip("onnx", reason="needs onnx, another reader of the format: pip install 'memsheaf[dev]'")
    import_module("onnx.reference")
    return import_module("onnx")


@pytest.fixture(scope="module")
def runtime() -> Callable[[Mapping[str, Array]], Runtime]:
    pytest.importorskip("onnxruntime", reason="needs onnxruntime: pip install 'memsheaf[dev]'")
    return Runtime


@pytest.fixture
def arrays(source: Source) -> dict[str, Array]:
    return quantise(exact(source))


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def small(source: Source, cache: Path) -> MiniLM:
    return MiniLM(source, str(cache))


def by_numpy(source: Source, cache: Path, texts: list[str]) -> Floats:
    found = load(source, str(cache))
    words, network = WordPiece(found["vocabulary"].tobytes().decode().split("\n")), assemble(found)
    return numpy.concatenate([forward(network, [words.encode(text)]) for text in texts])


def least_cosine(some: Array, others: Array) -> float:
    return float((some * others).sum(axis=1).min())


def padded(batch: list[list[int]]) -> dict[str, Array]:
    longest = max(map(len, batch))
    rows = [tokens + [0] * (longest - len(tokens)) for tokens in batch]
    mask = [[1.0] * len(tokens) + [0.0] * (longest - len(tokens)) for tokens in batch]
    return {"tokens": numpy.array(rows), "mask": numpy.array(mask, numpy.float32)}


def readable(onnx: Any, arrays: dict[str, Array]) -> Any:
    """The graph for onnx's own evaluator, which knows the operators from version 19 on."""
    return import_module("onnx.version_converter").convert_version(onnx.load_from_string(graph(arrays)), 19)


def python(code: str, *path: Path) -> str:
    code = f"import sys; sys.path[:0] = {[str(each) for each in path]!r}\n{code}"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    return result.stdout


def test_the_examples_are_true() -> None:
    for module in ("memsheaf.embed.onnx", "memsheaf.embed.minilm"):
        outcome = doctest.testmod(import_module(module))
        assert outcome.attempted
        assert not outcome.failed


def test_the_graph_is_what_onnx_expects(onnx: Any, arrays: dict[str, Array]) -> None:
    model = onnx.load_from_string(graph(arrays))
    onnx.checker.check_model(model, full_check=True)
    assert [(used.domain, used.version) for used in model.opset_import] == [("", OPSET)]
    names = {node.name for node in model.graph.node}  # onnxruntime before 1.22 needs them
    assert len(names - {""}) == len(model.graph.node)
    shapes = {
        each.name: [size.dim_param or size.dim_value for size in each.type.tensor_type.shape.dim]
        for each in [*model.graph.input, *model.graph.output]
    }
    assert shapes == {"tokens": ["batch", "length"], "mask": ["batch", "length"], "vectors": ["batch", 64]}


def test_the_arrays_are_in_the_graph_once_and_whole(onnx: Any, arrays: dict[str, Array]) -> None:
    model = onnx.load_from_string(graph(arrays))
    held = [onnx.numpy_helper.to_array(each) for each in model.graph.initializer]
    for name, array in arrays.items():
        if name.endswith("weight") and array.ndim == 2:
            same = [each for each in held if each.shape == array.shape and (each == array).all()]
            assert len(same) == 1, name
            assert same[0].dtype == numpy.int8


def test_another_reader_computes_the_same(onnx: Any, arrays: dict[str, Array]) -> None:
    (found,) = onnx.reference.ReferenceEvaluator(readable(onnx, arrays)).run(None, padded(BATCH))
    assert least_cosine(found, forward(assemble(arrays), BATCH)) > 0.9995


def test_whole_numbers_stay_within_seven_bits(onnx: Any, arrays: dict[str, Array]) -> None:
    model = readable(onnx, arrays)
    names = [node.output[0] for node in model.graph.node if node.op_type == "QuantizeLinear"]
    del model.graph.output[:]
    model.graph.output.extend(onnx.helper.make_tensor_value_info(name, 2, None) for name in names)
    found = onnx.reference.ReferenceEvaluator(model).run(names, padded(BATCH))
    assert len(found) == 2 * 2 * 4
    for array in found:
        assert array.dtype == numpy.uint8
        assert 55 < numpy.abs(array.astype(int) - 64).max() <= 63


def test_onnxruntime_computes_the_same_with_neighbours_and_without(
    runtime: Callable[[Mapping[str, Array]], Runtime], arrays: dict[str, Array]
) -> None:
    expected = forward(assemble(arrays), BATCH)
    ran = runtime(arrays)
    together = ran.forward(BATCH)
    assert together.dtype == numpy.float32
    assert numpy.abs(numpy.linalg.norm(together, axis=1) - 1).max() < 1e-5
    assert least_cosine(together, expected) > 0.9995
    for tokens, row in zip(BATCH, expected, strict=True):
        assert least_cosine(ran.forward([tokens]), row) > 0.9995


def test_a_state_of_zeros_is_no_trouble(
    runtime: Callable[[Mapping[str, Array]], Runtime], arrays: dict[str, Array]
) -> None:
    for name in ("0.up.weight", "0.up.bias"):
        arrays[name] = arrays[name] * 0
    assert least_cosine(runtime(arrays).forward(BATCH), forward(assemble(arrays), BATCH)) > 0.9995


def test_real_vectors_are_those_of_numpy(
    runtime: Callable[[Mapping[str, Array]], Runtime],
    real: Source,
    real_cache: str,
    vector_rows: dict[str, Any],
    token_rows: dict[str, Any],
) -> None:
    texts = [row[0] for row in [*vector_rows["rows"], *token_rows["rows"]]]
    found = load(real, real_cache)
    words, network, ran = (
        WordPiece(found["vocabulary"].tobytes().decode().split("\n")),
        assemble(found),
        runtime(found),
    )
    tokens = [words.encode(text) for text in texts]
    expected = numpy.concatenate([forward(network, [each]) for each in tokens])
    parts = [ran.forward(tokens[start : start + 5]) for start in range(0, len(tokens), 5)]
    assert least_cosine(numpy.concatenate(parts), expected) > 0.9999


@pytest.mark.usefixtures("runtime")
def test_in_bulk_onnxruntime_takes_over_and_the_vectors_stay(small: MiniLM, source: Source, cache: Path) -> None:
    identity = small.identity
    found = small.encode(BULK)
    assert small.engine == "onnxruntime"
    assert small.identity == identity
    assert least_cosine(found, by_numpy(source, cache, BULK)) > 0.9995
    assert least_cosine(small.encode(["a question"]), by_numpy(source, cache, ["a question"])) > 0.9995
    assert small.encode([]).shape == (0, 64)


@pytest.mark.usefixtures("runtime")
def test_many_small_pieces_are_bulk_in_the_end(small: MiniLM) -> None:
    engines = []
    for _ in range(12):
        small.encode(["staging database " * 12] * 16)
        engines.append(small.engine)
    assert engines[0] == "numpy"
    assert engines[-1] == "onnxruntime"
    assert engines == sorted(engines)


@pytest.mark.usefixtures("runtime")
def test_threads_share_the_runtime(small: MiniLM, source: Source, cache: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(small.encode, [BULK] * 8))
    assert small.engine == "onnxruntime"
    expected = by_numpy(source, cache, BULK)
    assert all(least_cosine(rows, expected) > 0.9995 for rows in found)


@pytest.mark.usefixtures("runtime")
def test_a_small_file_that_was_damaged_meanwhile_is_made_anew(small: MiniLM, source: Source, cache: Path) -> None:
    small.encode(["first"])
    whole = (cache / FILE).read_bytes()
    (cache / FILE).write_bytes(whole[:3000] + bytes([whole[3000] ^ 1]) + whole[3001:])
    found = small.encode(BULK)
    assert small.engine == "onnxruntime"
    assert (cache / FILE).read_bytes() == whole
    assert least_cosine(found, by_numpy(source, cache, BULK)) > 0.9995


def test_weights_that_went_meanwhile_leave_numpy(small: MiniLM, source: Source, cache: Path) -> None:
    expected = by_numpy(source, cache, BULK)
    small.encode(["first"])
    (cache / FILE).unlink()
    Path(source.archive).unlink()
    assert numpy.abs(small.encode(BULK) - expected).max() < 1e-5
    assert small.engine.startswith("numpy, because onnxruntime failed: EmbedderFailed: ")


def test_questions_and_few_texts_load_no_onnxruntime(source: Source, cache: Path) -> None:
    code = f"""
from memsheaf.embed.minilm import MiniLM
from memsheaf.embed.weights import Source
small = MiniLM(Source(*{tuple(source)!r}), {str(cache)!r})
for _ in range(600):
    small.encode(["where is the staging database"])
small.encode(["staging database " * 200] * 7)
small.encode(["staging database"] * 100)
print(small.engine, "onnxruntime" in sys.modules, "memsheaf.embed.onnx" in sys.modules)
"""
    assert python(code) == "numpy False False\n"


@pytest.mark.parametrize("how", BROKEN)
def test_with_an_onnxruntime_that_is_broken_numpy_does_it_and_says_why(
    source: Source, cache: Path, tmp_path: Path, how: str
) -> None:
    (tmp_path / "fake" / "onnxruntime").mkdir(parents=True)
    (tmp_path / "fake" / "onnxruntime" / "__init__.py").write_text(BROKEN[how])
    assert_numpy_does_it(source, cache, "numpy, because onnxruntime failed: ", "", tmp_path / "fake")


def test_without_onnxruntime_numpy_does_it(source: Source, cache: Path) -> None:
    assert_numpy_does_it(source, cache, "numpy\n", "sys.modules['onnxruntime'] = None")


@pytest.mark.usefixtures("runtime")
def test_an_onnxruntime_that_fails_later_is_not_asked_again(source: Source, cache: Path) -> None:
    breaking = """
import onnxruntime
class InferenceSession(onnxruntime.InferenceSession):
    left = 4
    def run(self, *arguments):
        InferenceSession.left -= 1
        assert InferenceSession.left > -1, "asked again"
        if not InferenceSession.left:
            raise RuntimeError("no room")
        return super().run(*arguments)
onnxruntime.InferenceSession = InferenceSession
"""
    assert_numpy_does_it(source, cache, "numpy, because onnxruntime failed: RuntimeError: no room\n", breaking)


def assert_numpy_does_it(source: Source, cache: Path, engine: str, before: str, *path: Path) -> None:
    expected = by_numpy(source, cache, BULK)
    numpy.save(cache / "expected.npy", expected)
    code = f"""
{before}
import numpy
from memsheaf.embed.minilm import MiniLM
from memsheaf.embed.weights import Source
small = MiniLM(Source(*{tuple(source)!r}), {str(cache)!r})
for _ in range(2):
    assert numpy.abs(small.encode({BULK!r}) - numpy.load({str(cache / "expected.npy")!r})).max() < 1e-5
print(small.engine)
"""
    assert python(code, *path).startswith(engine)


@pytest.mark.usefixtures("runtime")
def test_a_process_may_end_while_a_thread_is_at_it(source: Source, cache: Path) -> None:
    code = f"""
import threading
from memsheaf.embed.minilm import MiniLM
from memsheaf.embed.weights import Source
small = MiniLM(Source(*{tuple(source)!r}), {str(cache)!r})
small.encode({BULK!r})
runs = threading.Event()
def go():
    while True:
        small.encode(["staging database " * 120] * 8)
        runs.set()
threading.Thread(target=go, daemon=True).start()
runs.wait()
print(small.engine)
"""
    for _ in range(3):
        assert python(code) == "onnxruntime\n"
