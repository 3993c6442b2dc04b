from __future__ import annotations

import json

import numpy
import pytest
from numpy import float32

from cases import each_case
from memsheaf.embed.tensors import Tensors, dump, parse

SOME = Tensors(
    {
        "bytes": numpy.array([1, 2, 3], numpy.uint8),
        "floats": numpy.array([[1.5, -2], [3, 4]], float32),
        "none": numpy.empty((0, 4), float32),
        "small": numpy.array([-128, 127], numpy.int8),
        "one": numpy.array(7, numpy.int64),
    },
    {"format": "test"},
)


def written(header: object, data: bytes = b"\0" * 16) -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def test_what_was_written_is_read() -> None:
    found = parse(dump(SOME))
    assert found.about == SOME.about
    assert found.arrays.keys() == SOME.arrays.keys()
    for name, array in SOME.arrays.items():
        assert found.arrays[name].dtype == array.dtype
        assert found.arrays[name].shape == array.shape
        assert numpy.array_equal(found.arrays[name], array)


@each_case(
    "data",
    [
        b"",
        b"\2",
        b"\xff" * 8,
        b"\2\0\0\0\0\0\0\0",
        b"\2\0\0\0\0\0\0\0[]",
        b"\2\0\0\0\0\0\0\0\xff\xff",
        (4096).to_bytes(8, "little") + b"[" * 4096,
        (500_000).to_bytes(8, "little") + b"[" * 500_000,
        written([]),
        written({"__metadata__": []}),
        written({"a": None}),
        written({"a": {}}),
        written({"a": {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]}}),
        written({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}),
        written({"a": {"dtype": "F32", "shape": [-1], "data_offsets": [4, 0]}}),
        written({"a": {"dtype": "F32", "shape": [True], "data_offsets": [0, 4]}}),
        written({"a": {"dtype": "F32", "shape": [1.0], "data_offsets": [0, 4]}}),
        written({"a": {"dtype": "F32", "shape": [1], "data_offsets": [-4, 0]}}),
        written({"a": {"dtype": "F32", "shape": [1], "data_offsets": [16, 20]}}),
        written({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4, 8]}}),
        written({"a": {"dtype": "F32", "shape": [1 << 40, 1 << 40], "data_offsets": [0, 4]}}),
        written({"a": {"dtype": "I8", "shape": [0, 1 << 62, 1 << 62], "data_offsets": [0, 0]}}),
        written({"a": {"dtype": "I8", "shape": [1] * 100, "data_offsets": [0, 1]}}),
    ],
)
def test_what_is_no_such_file_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse(data)
