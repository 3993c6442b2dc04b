"""The network as an ONNX graph, and onnxruntime to run it: in bulk 1.5 to 1.9 times as fast as numpy.

Matrices stay the whole numbers of the small file. What they are multiplied by is rounded to 7 bits, and what that
loses is rounded to 7 bits again: two products of whole numbers take less time than one of floats, and come to the
same. Not 8 bits, because older processors add two such products in 16 bits, and would cut them off.
"""

from __future__ import annotations

import atexit
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from threading import Event, Lock
from typing import Any

import numpy
from numpy import float32, int64

from memsheaf.embed.network import HEAD, Floats
from memsheaf.embed.tensors import Array

OPSET = 17
"""The version of ONNX's operators that the graph is made of; onnxruntime 1.15 to 1.31 ran it."""

_FORMAT = 8  # the version of the file that came with that of the operators
_KINDS = {numpy.dtype("<f4"): 1, numpy.dtype("u1"): 2, numpy.dtype("i1"): 3, numpy.dtype("<i8"): 7}
_FLOAT, _INT64 = 1, 7
_EPSILON = 1e-12
_STEPS = 63  # on either side of the middle
_MIDDLE = numpy.array(64, numpy.uint8)
_FAR = -1e30  # added to the score of a place where no token is
_QUIET = 4  # nothing but what ends the process: who calls us tells of the rest

_TURN = Lock()
_ENDING = Event()

Message = list[bytes | memoryview]


class Runtime:
    """The network in onnxruntime, on one thread, one caller after the other. Raises whatever onnxruntime likes to."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        with _turn():
            library: Any = import_module("onnxruntime")
            options = library.SessionOptions()
            options.intra_op_num_threads = options.inter_op_num_threads = 1
            options.log_severity_level = _QUIET
            options.enable_cpu_mem_arena = options.enable_mem_pattern = False
            self._session = library.InferenceSession(graph(arrays), options, providers=["CPUExecutionProvider"])

    def forward(self, batch: Sequence[Sequence[int]]) -> Floats:
        """A vector of length 1 for each list of tokens. No list is empty; those of one length go together best."""
        shape = len(batch), max(map(len, batch))
        tokens, mask = numpy.zeros(shape, int64), numpy.zeros(shape, float32)
        for row, found in enumerate(batch):
            tokens[row, : len(found)] = found
            mask[row, : len(found)] = 1
        made: Floats
        with _turn():
            (made,) = self._session.run(["vectors"], {"tokens": tokens, "mask": mask})
        return made


@contextmanager
def _turn() -> Iterator[None]:
    """The right to use onnxruntime. Python ends it for a thread that outlives the main one: that would be a crash."""
    with _TURN:
        if _ENDING.is_set():
            raise RuntimeError("the process ends")
        yield


@atexit.register
def _end() -> None:
    with _TURN:
        _ENDING.set()


def graph(arrays: Mapping[str, Array]) -> bytes:
    """The network of these small arrays as an ONNX file.

    It takes `tokens` and a `mask` that is 1 where a text has one, both [batch, length], and gives `vectors`.
    """
    made = _Graph(arrays)
    length = made.add("Slice", made.add("Shape", "tokens"), _whole(1), _whole(2))
    places = made.add("Slice", arrays["places"], _whole(0), length)
    words = made.add("Cast", made.add("Gather", arrays["words.weight"], "tokens"), to=_FLOAT)
    words = made.add("Mul", words, made.add("Gather", arrays["words.scale"], "tokens"))
    state = made.normed(made.add("Add", words, places), "norm")
    absent = made.add("Mul", made.add("Sub", _real(1), "mask"), _real(_FAR))
    absent = made.add("Unsqueeze", absent, _whole(1, 2))
    for number in range(sum(name.endswith(".attention.weight") for name in arrays)):
        seen = made.linear(made.attention(state, absent, number), f"{number}.out")
        state = made.normed(made.add("Add", state, seen), f"{number}.out_norm")
        wide = made.bent(made.linear(state, f"{number}.up"))
        state = made.normed(made.add("Add", state, made.linear(wide, f"{number}.down")), f"{number}.down_norm")
    state = made.add("Mul", state, made.add("Unsqueeze", "mask", _whole(2)))
    sums = made.add("ReduceSum", state, _whole(1), keepdims=0)
    made.add("Div", sums, made.add("ReduceL2", sums, axes=[1]), output="vectors")
    return made.file(int(arrays["words.weight"].shape[1]))


class _Graph:
    """Operators in the order they came, each with one output, and the arrays they use."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self._arrays = arrays
        self._nodes: list[Message] = []
        self._constants: list[Message] = []

    def add(self, operator: str, *inputs: str | Array, output: str = "", **attributes: float | list[int]) -> str:
        """One more operator. The name of its output, for those that come after."""
        names = [name if isinstance(name, str) else self.constant(name) for name in inputs]
        output = output or f"made-{len(self._nodes)}"
        node = _message((1, *names), (2, output), (3, output), (4, operator))
        for name, value in attributes.items():
            node += _message((5, _attribute(name, value)))
        self._nodes.append(node)
        return output

    def constant(self, array: Array) -> str:
        name = f"known-{len(self._constants)}"
        data = numpy.ascontiguousarray(array).reshape(-1).view(numpy.uint8).data
        self._constants.append(_message((1, *array.shape), (2, _KINDS[array.dtype]), (8, name), (9, [data])))
        return name

    def linear(self, state: str, name: str) -> str:
        scale, weight = self._arrays[f"{name}.scale"], self.constant(self._arrays[f"{name}.weight"])
        largest = self.add("ReduceMax", self.add("Abs", state), keepdims=0)
        step = self.add("Mul", largest, _real(1 / _STEPS))
        coarse = self.add("QuantizeLinear", state, step, _MIDDLE)
        lost = self.add("Sub", state, self.add("DequantizeLinear", coarse, step, _MIDDLE))
        small_step = self.add("Mul", step, _real(1 / (2 * _STEPS)))
        fine = self.add("QuantizeLinear", lost, small_step, _MIDDLE)

        def product(whole: str, step: str) -> str:
            made = self.add("Cast", self.add("MatMulInteger", whole, weight, _MIDDLE), to=_FLOAT)
            return self.add("Mul", made, self.add("Mul", step, scale))

        made = self.add("Add", product(coarse, step), product(fine, small_step))
        return self.add("Add", made, self._arrays[f"{name}.bias"])

    def normed(self, state: str, name: str) -> str:
        weight, bias = self._arrays[f"{name}.weight"], self._arrays[f"{name}.bias"]
        return self.add("LayerNormalization", state, weight, bias, epsilon=_EPSILON)

    def attention(self, state: str, absent: str, number: int) -> str:
        """What each token takes from the others of its text, those that are `absent` aside."""
        parts = self.linear(state, f"{number}.attention")
        parts = self.add("Reshape", parts, _whole(0, 0, 3, -1, HEAD))
        parts = self.add("Transpose", parts, perm=[2, 0, 3, 1, 4])
        query, key, value = (self.add("Gather", parts, numpy.array(part)) for part in range(3))
        query = self.add("Mul", query, _real(HEAD**-0.5))
        scores = self.add("MatMul", query, self.add("Transpose", key, perm=[0, 1, 3, 2]))
        scores = self.add("Softmax", self.add("Add", scores, absent))
        seen = self.add("Transpose", self.add("MatMul", scores, value), perm=[0, 2, 1, 3])
        return self.add("Reshape", seen, _whole(0, 0, -1))

    def bent(self, state: str) -> str:
        """The function gelu, in the words by which onnxruntime knows it."""
        part = self.add("Add", self.add("Erf", self.add("Div", state, _real(2**0.5))), _real(1))
        return self.add("Mul", self.add("Mul", state, part), _real(0.5))

    def file(self, dimensions: int) -> bytes:
        inputs = [_described("tokens", _INT64, "batch", "length"), _described("mask", _FLOAT, "batch", "length")]
        output = _described("vectors", _FLOAT, "batch", dimensions)
        body = _message((1, *self._nodes), (2, "network"), (5, *self._constants), (11, *inputs), (12, output))
        return b"".join(_message((1, _FORMAT), (2, "memsheaf"), (7, body), (8, _message((1, ""), (2, OPSET)))))


def _whole(*numbers: int) -> Array:
    return numpy.array(numbers, int64)


def _real(number: float) -> Array:
    return numpy.array(number, float32)


def _attribute(name: str, value: float | list[int]) -> Message:
    if isinstance(value, list):
        return _message((1, name), (8, *value), (20, 7))
    if isinstance(value, float):
        return _message((1, name), (2, value), (20, 1))
    return _message((1, name), (3, value), (20, 2))


def _described(name: str, kind: int, *shape: str | int) -> Message:
    """An input or output: its name, what its numbers are, and its sizes, those that vary by name."""
    sizes = [_message((1, size) if isinstance(size, int) else (2, size)) for size in shape]
    return _message((1, name), (2, _message((1, _message((1, kind), (2, _message((1, *sizes))))))))


def _message(*fields: tuple[int | float | str | Message, ...]) -> Message:
    """A message of protobuf. Each field is its number, and a value or several: numbers, texts, other messages.

    >>> b"".join(_message((1, 150), (2, "testing"), (3, _message((1, 1))))).hex(" ")
    '08 96 01 12 07 74 65 73 74 69 6e 67 1a 02 08 01'
    """
    made: Message = []
    for number, *values in fields:
        assert isinstance(number, int)
        for value in values:
            if isinstance(value, int):
                made.append(_varint(number << 3) + _varint(value))
            elif isinstance(value, float):
                made.append(_varint(number << 3 | 5) + struct.pack("<f", value))
            else:
                parts: Message = [value.encode()] if isinstance(value, str) else value
                made += [_varint(number << 3 | 2) + _varint(sum(map(len, parts))), *parts]
    return made


def _varint(number: int) -> bytes:
    """A number in groups of 7 bits, the lowest first; one below zero as 64 bits.

    >>> _varint(150).hex(" "), len(_varint(-1))
    ('96 01', 10)
    """
    number &= (1 << 64) - 1
    made = bytearray()
    while number > 127:
        made.append(number & 127 | 128)
        number >>= 7
    return bytes([*made, number])
