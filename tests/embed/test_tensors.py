from __future__ import annotations

import json

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
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


def test_the_bytes_are_those_of_the_format() -> None:
    data = dump(Tensors({"a": numpy.array([1, 2], "<f4")}, {}))
    length = int.from_bytes(data[:8], "little")
    entry = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    assert json.loads(data[8 : 8 + length]) == {"__metadata__": {}, "a": entry}
    assert data[8 + length :] == bytes.fromhex("0000803f00000040")


@each_case("offset", [0, 32, 33])
def test_the_numbers_begin_at_an_even_place(offset: int) -> None:
    data = dump(SOME, offset=offset)
    assert (offset + 8 + int.from_bytes(data[:8], "little")) % 64 == 0


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


@given(st.integers(0, 400), st.binary(min_size=1, max_size=8))
def test_damage_is_refused_or_stays_within_the_bytes(place: int, damage: bytes) -> None:
    whole = dump(SOME)
    data = whole[:place] + damage + whole[place + len(damage) :]
    try:
        found = parse(data)
    except ValueError:
        return
    assert all(array.nbytes <= len(data) for array in found.arrays.values())
