"""Turn a trained encoder or judge into what is shipped: an ONNX graph of 8-bit numbers, and a tokenizer.

    python training/export.py WORK NAME OUT             # writes OUT/encoder.onnx, OUT/tokenizer.json
    python training/export.py WORK NAME OUT --judge     # writes OUT/judge.onnx beside the encoder that is there

The weights are read from WORK/NAME.pt, which needs torch, or else from WORK/NAME-*.npz: the same arrays in any number
of parts, where the word vectors may already be 8-bit rows with a scale each. `tokenizer.json` is that of WORK.
"""

from __future__ import annotations

import argparse
import glob
import hashlib
import os
import shutil
import tempfile
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from graph import LINEAR_SUFFIX, build_graph, quantize_rows
from numpy.typing import NDArray
from onnx import numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic

WORDS = "model.embeddings.word_embeddings"
JUDGE_HEADS = ("types", "scopes", "replaces", "requests")

State = dict[str, NDArray[Any]]


def main() -> None:
    """Write the files, and print their sizes and hashes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work")
    parser.add_argument("name")
    parser.add_argument("out")
    parser.add_argument("--judge", action="store_true")
    options = parser.parse_args()
    os.makedirs(options.out, exist_ok=True)
    state = read_state(options.work, options.name)
    if options.judge:
        write_judge(state, options.out)
    else:
        write_graph(state, os.path.join(options.out, "encoder.onnx"))
        shutil.copyfile(os.path.join(options.work, "tokenizer.json"), os.path.join(options.out, "tokenizer.json"))
    for name in ("encoder.onnx", "tokenizer.json", "judge.onnx"):
        if os.path.exists(path := os.path.join(options.out, name)):
            with open(path, "rb") as file:
                content = file.read()
            print(f"{len(content):>12,} {hashlib.sha256(content).hexdigest()} {name}")


def read_state(work: str, name: str) -> State:
    """Return the weights by name, with the word vectors as `rows` and `scales`.

    Raises:
        FileNotFoundError: there are neither NAME.pt nor NAME-*.npz.
    """
    state: State = {}
    if os.path.exists(os.path.join(work, f"{name}.pt")):
        import torch

        saved = torch.load(os.path.join(work, f"{name}.pt"), map_location="cpu")
        state = {key: value.numpy() for key, value in saved.items()}
    else:
        paths = sorted(glob.glob(os.path.join(work, f"{name}-*.npz")))
        if not paths:
            raise FileNotFoundError(f"no {name}.pt and no {name}-*.npz in {work}: run training/encoder.py first")
        for path in paths:
            with np.load(path) as arrays:
                state |= {key: arrays[key] for key in arrays}
    if f"{WORDS}.weight" in state:
        state[f"{WORDS}.rows"], state[f"{WORDS}.scales"] = quantize_rows(state.pop(f"{WORDS}.weight"))
    return state


def write_graph(state: State, path: str, heads: Sequence[str] = ()) -> None:
    """Build the graph, and store the weights of its products with 8 bits, each output channel with its own scale.

    The products inside the attention have no weights and stay as they are. `reduce_range` leaves one bit unused, so
    that processors without VNNI do not overflow 16 bits when they add up products.
    """
    weights = {key: value.astype(np.float32) for key, value in state.items() if not key.startswith(WORDS)}
    model = build_graph(weights, state[f"{WORDS}.rows"], state[f"{WORDS}.scales"], heads)
    products = [node.name for node in model.graph.node if node.op_type == "MatMul"]
    with tempfile.TemporaryDirectory() as folder:
        plain = os.path.join(folder, "plain.onnx")
        onnx.save(model, plain)
        quantize_dynamic(
            plain,
            path,
            per_channel=True,
            reduce_range=True,
            weight_type=QuantType.QInt8,
            op_types_to_quantize=["MatMul"],
            nodes_to_exclude=[name for name in products if not name.endswith(LINEAR_SUFFIX)],
        )


def write_judge(state: State, folder: str) -> None:
    """Write the graph of the judge, which reads its word vectors out of the file of the encoder beside it."""
    with open(os.path.join(folder, "encoder.onnx"), "rb") as file:
        encoder = file.read()
    constants = {each.name: numpy_helper.to_array(each) for each in onnx.load_from_string(encoder).graph.initializer}
    state[f"{WORDS}.rows"], state[f"{WORDS}.scales"] = constants["rows"], constants["row_scale"]
    path = os.path.join(folder, "judge.onnx")
    write_graph(state, path, JUDGE_HEADS)
    model = onnx.load(path)
    rows = next(each for each in model.graph.initializer if each.name == "rows")
    content = constants["rows"].tobytes()
    place = {"location": "encoder.onnx", "offset": encoder.index(content), "length": len(content)}
    rows.ClearField("raw_data")
    rows.data_location = onnx.TensorProto.EXTERNAL
    for key, value in place.items():
        rows.external_data.add(key=key, value=str(value))
    with open(path, "wb") as file:
        file.write(model.SerializeToString())


if __name__ == "__main__":
    main()
