"""Embed the everyday messages with the embedders that the package knows, so that nobody has to wait for it.

python training/everyday.py

It replaces the files `everyday-*` in `src/memsheaf/index/`: run it when the messages or an embedder changed.
"""

from __future__ import annotations

import glob
import os
import tempfile

from memsheaf.embed import find
from memsheaf.index import everyday


def main() -> None:
    """Make one file for each."""
    folder = os.path.dirname(everyday.FILE)
    for old in glob.glob(os.path.join(folder, "everyday-*")):
        os.unlink(old)
    with tempfile.TemporaryDirectory() as cache:
        for name in ("semantic", "static"):
            embedder = find(cache, name=name)
            if embedder:
                everyday.load(embedder.identity, embedder.dimensions, embedder.encode, folder)
                print(everyday.file_name(embedder.identity, embedder.dimensions), embedder.identity)


if __name__ == "__main__":
    main()
