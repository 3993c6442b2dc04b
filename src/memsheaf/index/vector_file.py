"""A file of vectors: slots of one size, each with the key of its text, mapped by readers.

A slot is 16 bytes of key, a scale, a checksum, and whole numbers from -127 to 127. One of zeros is empty; so is one
whose checksum does not hold, as a power cut may leave it. Whoever writes holds the lock of `vector_rows.py`; nothing
is ever cut off, since a reader may have it mapped.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator
from zlib import crc32

from memsheaf.values import NamedTuple

# Known to type checkers under this name: a start does not import `typing`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from numpy import float32
    from numpy.typing import NDArray

MAGIC, FORMAT = b"memsheaf vectors", 1
KEY = 16
EMPTY = -2.0  # what stands for the cosine of an empty slot: less than any
LONGEST = 1.1  # what no cosine of two vectors of length 1 comes to, rounded as they are
CHUNK = 512  # rows that are made into floats at a time: they stay in the processor's cache

_HEADER = struct.Struct("<16sII32sQ")
_HEAD = struct.Struct("<16sfI8x")
_LARGEST = 1 << 16


class Header(NamedTuple):
    """Which vectors these are: how long, of which embedder (its digest), and which database gives out the slots."""

    dimensions: int
    digest: bytes
    owner: int

    @property
    def size(self) -> int:
        """How many bytes a slot takes."""
        return _HEAD.size + -(-self.dimensions // 16) * 16


class Small(NamedTuple):
    """A vector as it is kept."""

    scale: float
    row: bytes


class SlotFile:
    """An open file of vectors, to write in. Close it."""

    def __init__(self, path: str) -> None:
        """Open a file that is there.

        Raises:
            ValueError: it is no file of vectors, or a damaged one.
        """
        self._file = open(path, "r+b", buffering=0)  # noqa: SIM115 - closed by `close`
        try:
            self.header = read_header(self._file.read(_HEADER.size))
        except ValueError:
            self.close()
            raise

    @classmethod
    def create(cls, path: str, header: Header) -> SlotFile:
        """Make a new file, in the place of whatever is there; readers of the old one keep it."""
        draft = f"{path}.draft"
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(_HEADER.pack(MAGIC, FORMAT, header.dimensions, header.digest, header.owner))
        os.replace(draft, path)
        return cls(path)

    def close(self) -> None:
        """Let the file go."""
        self._file.close()

    def __enter__(self) -> SlotFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def count(self) -> int:
        """How many whole slots there are."""
        return (os.fstat(self._file.fileno()).st_size - _HEADER.size) // self.header.size

    def own(self, owner: int) -> None:
        """Say which database gives out the slots from now on."""
        self.header = self.header._replace(owner=owner)
        self._file.seek(0)
        self._put(_HEADER.pack(MAGIC, FORMAT, *self.header))

    def scan(self) -> Iterator[tuple[bytes, bool]]:
        """For each slot its key, b"" when it is empty or does not hold, and whether all of it is zeros."""
        size, step = self.header.size, 1_000
        for start in range(0, self.count, step):
            self._file.seek(_HEADER.size + start * size)
            block = memoryview(_read(self._file, min(step, self.count - start) * size))
            for at in range(0, len(block) - size + 1, size):
                yield _key_of(block[at : at + size]), not any(block[at : at + size])

    def key(self, slot: int) -> bytes:
        """The key of one slot, b"" when it is empty or does not hold."""
        self._seek(slot)
        data = _read(self._file, self.header.size)
        return _key_of(memoryview(data)) if len(data) == self.header.size else b""

    def read(self, slot: int) -> Small:
        """The vector in a slot that holds one."""
        self._seek(slot)
        data = _read(self._file, self.header.size)
        _, scale, _ = _HEAD.unpack(data[: _HEAD.size])
        return Small(scale, data[_HEAD.size :][: self.header.dimensions])

    def is_empty(self, slot: int) -> bool:
        """Whether a slot holds nothing but zeros."""
        self._seek(slot)
        return not any(_read(self._file, self.header.size))

    def write(self, slot: int, key: bytes, vector: Small) -> None:
        """Put a vector in a slot, the next behind the last included."""
        row = vector.row.ljust(self.header.size - _HEAD.size, b"\0")
        self._seek(slot)
        self._put(_HEAD.pack(key, vector.scale, _check(key, vector.scale, row)) + row)

    def wipe(self, slots: Iterable[int]) -> None:
        """Leave nothing but zeros."""
        count, zeros = self.count, bytes(self.header.size)
        for slot in slots:
            if slot < count:
                self._seek(slot)
                self._put(zeros)

    def flush(self) -> None:
        """Wait until it is on the medium."""
        os.fsync(self._file.fileno())

    def _seek(self, slot: int) -> None:
        self._file.seek(_HEADER.size + slot * self.header.size)

    def _put(self, data: bytes) -> None:
        written = self._file.write(data) or 0
        while written < len(data):
            written += self._file.write(data[written:]) or 0


class Mapped:
    """A file of vectors as it is now and will be, mapped to be read. Slots that are added later are not in it."""

    def __init__(self, path: str) -> None:
        """Map a file.

        Raises:
            ValueError: it is no file of vectors, or a damaged one.
        """
        from mmap import ACCESS_READ, mmap

        import numpy

        self._path = path
        with open(path, "rb") as file:
            self.header = read_header(file.read(_HEADER.size))
            found = os.fstat(file.fileno())
            self._stamp = found.st_ino, found.st_size
            self._data = data = mmap(file.fileno(), found.st_size, access=ACCESS_READ)
        kind = numpy.dtype(
            {
                "names": ["scale", "row"],
                "formats": ["<f4", ("i1", (self.header.dimensions,))],
                "offsets": [KEY, _HEAD.size],
                "itemsize": self.header.size,
            }
        )
        count = (found.st_size - _HEADER.size) // self.header.size
        self._slots = numpy.frombuffer(data, kind, count, _HEADER.size)
        self._floats = numpy.empty((min(CHUNK, count), self.header.dimensions), numpy.float32)

    def is_current(self) -> bool:
        """Whether the file is the same and has not grown."""
        try:
            found = os.stat(self._path)
        except OSError:
            return False
        return (found.st_ino, found.st_size) == self._stamp

    def owner(self) -> int:
        """Which database gives out the slots now."""
        return read_header(self._data[: _HEADER.size]).owner

    def cosines(self, question: NDArray[float32]) -> NDArray[float32]:
        """The cosine of each slot with a vector of length 1; EMPTY for empty slots, and for those that cannot be."""
        import numpy

        from memsheaf.embed.threads import one_thread

        rows, count = self._slots["row"], len(self._slots)
        made = numpy.empty(count, numpy.float32)
        with one_thread():
            for start in range(0, count, CHUNK):
                part = rows[start : start + CHUNK]
                floats = self._floats[: len(part)]
                numpy.copyto(floats, part)
                numpy.dot(floats, question, out=made[start : start + CHUNK])
        scales = numpy.ascontiguousarray(self._slots["scale"])
        with numpy.errstate(all="ignore"):
            made *= scales
        made[(scales == 0) | ~(numpy.abs(made) <= LONGEST)] = EMPTY
        return made


def read_header(data: bytes) -> Header:
    """What the beginning of a file says. Raises ValueError when it is no file of vectors that we know."""
    if len(data) < _HEADER.size:
        raise ValueError("the file is cut short")
    magic, form, dimensions, digest, owner = _HEADER.unpack(data[: _HEADER.size])
    if (magic, form) != (MAGIC, FORMAT) or not 0 < dimensions <= _LARGEST:
        raise ValueError("the file is not one of vectors that we know")
    return Header(dimensions, digest, owner)


def small(vectors: NDArray[float32]) -> list[Small]:
    """Vectors as they are kept: the largest number of each becomes 127."""
    import numpy

    largest = numpy.abs(vectors).max(axis=1, keepdims=True)
    scales = numpy.maximum(largest, numpy.float32(1e-30)) / numpy.float32(127)
    rows = numpy.rint(vectors / scales).astype(numpy.int8)
    return [Small(float(scale), row.tobytes()) for scale, row in zip(scales[:, 0], rows, strict=True)]


def _key_of(slot: memoryview) -> bytes:
    key, scale, check = _HEAD.unpack(slot[: _HEAD.size])
    return key if check and check == _check(key, scale, slot[_HEAD.size :]) else b""


def _check(key: bytes, scale: float, row: bytes | memoryview) -> int:
    return crc32(row, crc32(key + struct.pack("<f", scale))) or 1


def _read(file: object, size: int) -> bytes:
    data: bytes = file.read(size)  # type: ignore[attr-defined]
    while len(data) < size and (more := file.read(size - len(data))):  # type: ignore[attr-defined]
        data += more
    return data
