"""Arrays that are mapped from a file: the weights of the embedders, and the vocabularies.

What an installed package holds is checked by its SHA-256 and rewritten once into a file in the cache folder that can
be mapped as it is. It starts with the SHA-256 of the rest and the time of its last check, which is also set as its
modification time: a file that somebody wrote to since is checked again, and made anew when it is damaged.

Arrays are stored in the safetensors format, as far as we need it: eight bytes with the length of a header, the header
as JSON, then the numbers of one array after the other.

    {"__metadata__": {"key": "text"}, "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}}
"""

from __future__ import annotations

import json
import mmap
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from importlib.util import find_spec
from math import prod
from typing import Any, NamedTuple
from zlib import crc32

import numpy
from numpy.typing import NDArray

from memsheaf.errors import EmbedderFailed

Array = NDArray[Any]

_DTYPES: dict[str, numpy.dtype[Any]] = {
    name: numpy.dtype(code)
    for name, code in (("F32", "<f4"), ("I8", "i1"), ("U8", "u1"), ("U32", "<u4"), ("I64", "<i8"))
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_LARGEST = 1 << 28  # bytes of a file that is read
_DIGEST, _TIME = 32, 8  # bytes before the arrays
_HEADER = 1 << 20
_EPSILON = numpy.float32(1e-12)
_ALIGNED = 64
_LOOKUPS = 100_000  # that are kept of a vocabulary, found or not


def layer_norm(state: NDArray[numpy.float32], weight: Array, bias: Array) -> NDArray[numpy.float32]:
    """Each row with mean 0 and variance 1, by a weight and a bias."""
    state = state - state.mean(axis=1, keepdims=True)
    spread = numpy.einsum("ij,ij->i", state, state)[:, None] / numpy.float32(state.shape[1])
    state /= numpy.sqrt(spread + _EPSILON)
    state *= weight
    state += bias
    return state


def package_folder(module: str, package: str) -> str:
    """Where an installed package lies, which is not imported. Raises EmbedderFailed when it is not installed."""
    found = find_spec(module)
    if found is None or not found.submodule_search_locations:
        raise EmbedderFailed(f"the package {package} is not installed")
    return found.submodule_search_locations[0]


def known_file(path: str, expected: str) -> bytes:
    """A file, if it is the one with this SHA-256. Raises EmbedderFailed otherwise."""
    try:
        with open(path, "rb") as file:
            return check(file.read(_LARGEST), expected, path)
    except OSError as error:
        raise EmbedderFailed(f"{path} cannot be read: {error}") from None


def check(data: bytes, expected: str, name: str) -> bytes:
    """The data, if they have this SHA-256. Raises EmbedderFailed otherwise."""
    if sha256(data).hexdigest() != expected:
        raise EmbedderFailed(f"{name} does not have the expected SHA-256")
    return data


def load(path: str, about: Mapping[str, str], make: Callable[[], Mapping[str, Array]]) -> Mapping[str, Array]:
    """The arrays in a file of the cache, mapped; where there is none that is sound and says this, it is made.

    Raises:
        EmbedderFailed: `make` does.
    """
    with suppress(OSError, ValueError):
        return _kept(path, about)
    made = make()
    with suppress(
        OSError, ValueError
    ):  # no room, or not ours to write: then the next start takes as long as this one
        _keep(path, Tensors(made, about))
        return _kept(path, about)
    return made


def _kept(path: str, about: Mapping[str, str]) -> Mapping[str, Array]:
    """The arrays in the cache. Raises ValueError when they are damaged or made from something else."""
    with open(path, "rb") as file:
        data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        checked = int.from_bytes(data[_DIGEST : _DIGEST + _TIME], "little")
        if os.fstat(file.fileno()).st_mtime_ns != checked:
            if sha256(data[_DIGEST:]).digest() != data[:_DIGEST]:
                raise ValueError("the file is damaged")
            with suppress(OSError):
                os.utime(path, ns=(checked, checked))
    tensors = parse(data[_DIGEST + _TIME :])
    if tensors.about != about:
        raise ValueError("the file was made by another version, or from other weights")
    return tensors.arrays


def _keep(path: str, tensors: Tensors) -> None:
    """Write the arrays beside their place, then move them there. Raises OSError when another process is faster.

    Each process has a draft of its own and removes those of others, which died or write the same: a file that a
    process has mapped is never cut short, and no lock is needed.
    """
    folder, base = os.path.split(path)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    for name in os.listdir(folder):
        if name.startswith(base) and name.endswith(".draft"):
            with suppress(OSError):
                os.unlink(os.path.join(folder, name))
    now = time.time_ns()
    data = now.to_bytes(_TIME, "little") + dump(tensors, offset=_DIGEST + _TIME)
    draft = f"{path}.{os.getpid()}.draft"
    with open(draft, "xb") as file:
        file.writelines((sha256(data).digest(), data))
    os.utime(draft, ns=(now, now))
    os.replace(draft, path)


def pack(pieces: Sequence[str]) -> dict[str, Array]:
    """A vocabulary, in the order of its numbers, as arrays. A piece that is "" has a number, and is never found."""
    texts = [piece.encode() for piece in pieces]
    size = 1 << (2 * len(texts)).bit_length()
    slots = numpy.zeros(size, numpy.uint32)
    for number, text in enumerate(texts, 1):
        place = crc32(text) % size
        while slots[place]:
            place = (place + 1) % size
        slots[place] = number
    starts = numpy.cumsum([0, *map(len, texts)], dtype=numpy.uint32)
    longest = numpy.array([max(map(len, pieces), default=0)], numpy.uint32)
    joined = numpy.frombuffer(b"".join(texts), numpy.uint8)
    return {"pieces": joined, "starts": starts, "slots": slots, "longest": longest}


class Vocabulary(dict[str, int]):
    """The numbers of word pieces, -1 for one that is not there: a hash table in a file, so that nothing is built.

    >>> words = Vocabulary(pack(["a", "", "bc"]))
    >>> words["a"], words["bc"], words["b"], words[""]
    (0, 2, -1, -1)
    """

    def __init__(self, arrays: Mapping[str, Array], prefix: str = "") -> None:
        self._pieces, self._starts, self._slots = (
            arrays[prefix + name].data for name in ("pieces", "starts", "slots")
        )
        self.longest = int(arrays[f"{prefix}longest"][0])

    def __missing__(self, piece: str) -> int:
        if len(self) >= _LOOKUPS:
            self.clear()
        text = piece.encode("utf-8", "replace")
        size = len(self._slots)
        place = crc32(text) % size
        number = 0
        while text and (number := self._slots[place]):
            if self._pieces[self._starts[number - 1] : self._starts[number]] == text:
                break
            place = (place + 1) % size
        self[piece] = number - 1
        return number - 1


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
            raise ValueError(f"the array {name!r} has an invalid description")
    if not all(type(size) is int and 0 <= size <= len(data) for size in shape):
        raise ValueError(f"the array {name!r} has an invalid shape")
    count = prod(shape)
    if begin < 0 or end > len(data) - base or end - begin != count * dtype.itemsize:
        raise ValueError(f"the array {name!r} lies outside of the file")
    if not count:
        return numpy.empty(shape, dtype)
    return numpy.frombuffer(data, dtype, count, base + begin).reshape(shape)
