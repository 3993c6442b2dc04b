"""Write a trained table as the package keeps it: four bits a number, two in a byte.

python training/pack.py static.npz src/memsheaf/embed/static.table
"""

from __future__ import annotations

import sys

import numpy

from memsheaf.embed.tensors import Tensors, dump, pack


def main(source: str, target: str) -> None:
    """Quantise as it was trained: by the largest number of each row."""
    with numpy.load(source) as kept:
        table, words = kept["table"].astype(numpy.float32), kept["words"].tolist()
    scales = numpy.maximum(numpy.abs(table).max(axis=1), 1e-8) / 7
    whole = (numpy.rint(table / scales[:, None]) + 8).astype(numpy.uint8)
    arrays = pack(words) | {
        "rows": whole[:, 0::2] | whole[:, 1::2] << 4,
        "scales": scales.astype(numpy.float32),
    }
    data = dump(Tensors(arrays, {"made by": "training/train.py", "teachers": "all-MiniLM-L6-v2, all-mpnet-base-v2"}))
    # then training/translate.py adds the words of other languages
    with open(target, "wb") as file:
        file.write(data)
    print(f"{len(words):,} words, {len(data):,} bytes")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
