"""Named arrays in a file: the safetensors format, as far as we need it.

Eight bytes with the length of a header, the header as JSON, then the numbers of one array after the other:

    {"__metadata__": {"key": "text"}, "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import prod
from typing import Any

import numpy
from numpy.typing import NDArray

from memsheaf.values import NamedTuple

Array = NDArray[Any]

_DTYPES: dict[str, numpy.dtype[Any]] = {
    name: numpy.dtype(code) for name, code in (("F32", "<f4"), ("I8", "i1"), ("U8", "u1"), ("I64", "<i8"))
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_HEADER = 1 << 20
_ALIGNED = 64


class Tensors(NamedTuple):
    """Arrays by name, and what is said about them."""

    arrays: Mapping[str, Array]
    about: Mapping[str, str]


def parse(data: bytes | memoryview) -> Tensors:
    """Read arrays, as views into `data`. Whatever the bytes are, an array lies within them.

    Raises:
        ValueError: these bytes are something else, or damaged.
    """
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or not 2 <= length <= min(_HEADER, len(data) - 8):
        raise ValueError("there is no header")
    try:
        header = json.loads(bytes(data[8 : 8 + length]))
    except RecursionError:
        raise ValueError("the header is no table") from None
    if not isinstance(header, dict):
        raise ValueError("the header is no table")
    about = header.pop("__metadata__", {})
    if not isinstance(about, dict):
        raise ValueError("the metadata are no table")
    return Tensors(
        {name: _array(name, entry, data, 8 + length) for name, entry in header.items()},
        {key: str(value) for key, value in about.items()},
    )


def dump(tensors: Tensors, *, offset: int = 0) -> bytes:
    """Write arrays so that `parse` reads them; the numbers are aligned if this comes `offset` bytes into a file."""
    header: dict[str, object] = {"__metadata__": dict(tensors.about)}
    place = 0
    arrays = sorted(tensors.arrays.items(), key=lambda item: -item[1].itemsize)
    for name, array in arrays:
        span = [place, place + array.nbytes]
        header[name] = {"dtype": _NAMES[array.dtype], "shape": list(array.shape), "data_offsets": span}
        place += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(offset + 8 + len(text)) % _ALIGNED)
    return b"".join([len(text).to_bytes(8, "little"), text, *(array.tobytes() for _, array in arrays)])


def _array(name: str, entry: object, data: bytes | memoryview, base: int) -> Array:
    match entry:
        case {"dtype": str(kind), "shape": [*shape], "data_offsets": [int(begin), int(end)]} if kind in _DTYPES:
            dtype = _DTYPES[kind]
        case _:
            raise ValueError(f"the array {name!r} is not described as it should be")
    if not all(type(size) is int and 0 <= size <= len(data) for size in shape):
        raise ValueError(f"the array {name!r} has no sound shape")
    count = prod(shape)
    if begin < 0 or end > len(data) - base or end - begin != count * dtype.itemsize:
        raise ValueError(f"the array {name!r} does not lie where it is said to")
    if not count:
        return numpy.empty(shape, dtype)
    return numpy.frombuffer(data, dtype, count, base + begin).reshape(shape)
