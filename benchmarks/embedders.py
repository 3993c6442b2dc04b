"""The embedders that are measured, by name; what is slow to embed is kept from run to run."""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from time import monotonic

import numpy
from numpy import float32
from numpy.typing import NDArray

from memsheaf.embed import Embedder, Usual, find
from memsheaf.embed.concatenated import Concatenated
from memsheaf.index.scoring import USUAL

CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "memsheaf-benchmarks")
PIECE = 64  # texts that are kept at once
TELL = 10.0  # seconds between two lines of progress


@cache
def embedder(name: str, folder: str) -> Embedder:
    """What `find` gives for a name, with the vectors of slow ones kept in a folder.

    Raises:
        EmbedderFailed: it is not installed.
    """
    found = find(folder, name=name)
    if isinstance(found, Concatenated):
        kept = [part._replace(embedder=Kept(part.embedder, folder)) for part in found.parts]
        return Concatenated(kept, found.english, found.usual)
    assert found is not None
    return found


def usual_of(one: Embedder) -> Usual:
    """What an embedder says is usual, or what goes for all that do not say."""
    found: Usual | None = getattr(one, "usual", None)
    return found or USUAL


class Kept:
    """An embedder that embeds no text twice: vectors by text, in a file that may be deleted at any time."""

    def __init__(self, one: Embedder, folder: str) -> None:
        self.identity = one.identity
        self.dimensions = one.dimensions
        self._one = one
        os.makedirs(folder, exist_ok=True)
        self._db = sqlite3.connect(os.path.join(folder, "vectors.sqlite"), timeout=60)
        self._db.execute("CREATE TABLE IF NOT EXISTS vector (of TEXT, key BLOB, row BLOB, PRIMARY KEY (of, key))")

    def encode(self, texts: Sequence[str]) -> NDArray[float32]:
        """One row a text, as the embedder would give it; what takes long tells how far it is, on stderr."""
        missing = {_key_of(text): text for text in texts if self._row(text) is None}
        keys, told = list(missing), monotonic()
        for start in range(0, len(keys), PIECE):
            piece = keys[start : start + PIECE]
            rows = self._one.encode([missing[key] for key in piece])
            with self._db:
                found = [
                    (self.identity, key, row.astype("<f4").tobytes()) for key, row in zip(piece, rows, strict=True)
                ]
                self._db.executemany("INSERT OR REPLACE INTO vector VALUES (?, ?, ?)", found)
            if monotonic() - told > TELL:
                told = monotonic()
                print(f"embedding: {start + len(piece):,} of {len(keys):,} texts", file=sys.stderr, flush=True)
        made = [self._row(text) or b"" for text in texts]
        return numpy.frombuffer(b"".join(made), "<f4").reshape(len(texts), self.dimensions).astype(float32)

    def _row(self, text: str) -> bytes | None:
        sql = "SELECT row FROM vector WHERE of = ? AND key = ?"
        found = self._db.execute(sql, (self.identity, _key_of(text))).fetchone()
        return found[0] if found else None


def _key_of(text: str) -> bytes:
    return sha256(text.encode("utf-8", "surrogatepass")).digest()[:16]
