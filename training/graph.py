"""Build the ONNX graph of the encoder from its weights, without torch.

A text comes in as token ids, its mean token vector goes out. The graph is that of BERT: word, position and type
vectors are added up; each layer mixes the tokens by attention, then changes each token by itself. The weights are
called as in the state dict of `encoder.py`, or of `judge.py`, whose mean goes through linear heads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

INPUTS = ("input_ids", "attention_mask", "token_type_ids")
MAX_TOKENS = 256
ATTENTION_HEADS = 12
NORM_EPSILON = 1e-12
MASKED_SCORE = -10_000  # added to the scores of tokens that only fill up a batch
OPSET_VERSION = 18
IR_VERSION = 9
LINEAR_SUFFIX = ".mm"  # ends the names of the products with weights; those inside the attention have other names

Weights = Mapping[str, NDArray[Any]]


def quantize_rows(words: NDArray[Any]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Return word vectors as 8-bit rows, and the scale of each row.

    >>> rows, scales = quantize_rows(np.array([[1.0, -0.5], [0.0, 0.0]]))
    >>> rows.tolist()
    [[127, -64], [0, 0]]
    """
    scales = np.maximum(np.abs(words).max(1, keepdims=True) / 127, 1e-8).astype(np.float32)
    return np.rint(words / scales).astype(np.int8), scales


def build_graph(
    weights: Weights, rows: NDArray[np.int8], row_scales: NDArray[np.float32], heads: Sequence[str] = ()
) -> onnx.ModelProto:
    """Return the graph with 32-bit weights; only the word vectors have 8 bits.

    With `heads`, what comes out are the scores of these linear heads, one behind the other, instead of the vector.
    The same weights give the same bytes, with the same version of onnx.
    """
    graph = _Graph(weights)
    width = rows.shape[1]
    tokens = graph.add_embeddings(rows, row_scales)
    graph.add_mask_bias()
    graph.add_layer_constants(width)
    layer = 0
    while f"model.encoder.layer.{layer}.output.dense.weight" in weights:
        tokens = graph.add_layer(layer, tokens)
        layer += 1
    graph.add_mean(tokens)
    output, size = ("scores", graph.add_heads(heads)) if heads else ("pooled", width)
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"]) for name in INPUTS]
    outputs = [helper.make_tensor_value_info(output, TensorProto.FLOAT, ["batch", size])]
    content = helper.make_graph(graph.nodes, "encoder", inputs, outputs, graph.initializers)
    opsets = [helper.make_opsetid("", OPSET_VERSION)]
    model = helper.make_model(content, opset_imports=opsets, producer_name="memsheaf")
    model.ir_version = IR_VERSION
    onnx.checker.check_model(model)
    return model


class _Graph:
    """Nodes and constants, in the order in which they were added. A node is called like its output."""

    def __init__(self, weights: Weights) -> None:
        self.weights = weights
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []

    def constant(self, name: str, array: NDArray[Any]) -> None:
        self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(array), name))

    def node(self, operator: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(operator, inputs, [output], name=output, domain="", **attributes))
        return output

    def linear(self, tokens: str, weight: NDArray[Any], bias: NDArray[Any], output: str) -> str:
        self.constant(f"{output}.w", weight.T)
        self.constant(f"{output}.bias", bias)
        self.node("MatMul", [tokens, f"{output}.w"], output + LINEAR_SUFFIX)
        return self.node("Add", [output + LINEAR_SUFFIX, f"{output}.bias"], output)

    def dense(self, tokens: str, key: str, output: str) -> str:
        return self.linear(tokens, self.weights[f"{key}.weight"], self.weights[f"{key}.bias"], output)

    def norm(self, tokens: str, key: str, output: str) -> str:
        self.constant(f"{output}.g", self.weights[f"{key}.weight"])
        self.constant(f"{output}.b", self.weights[f"{key}.bias"])
        inputs = [tokens, f"{output}.g", f"{output}.b"]
        return self.node("LayerNormalization", inputs, output, epsilon=NORM_EPSILON, axis=-1)

    def add_embeddings(self, rows: NDArray[np.int8], row_scales: NDArray[np.float32]) -> str:
        """Add up the vectors of words, positions and types of token."""
        self.constant("rows", rows)
        self.constant("row_scale", row_scales)
        self.constant("pos", self.weights["model.embeddings.position_embeddings.weight"][:MAX_TOKENS])
        self.constant("types", self.weights["model.embeddings.token_type_embeddings.weight"])
        self.node("Gather", ["rows", "input_ids"], "word8")
        self.node("Cast", ["word8"], "wordf", to=TensorProto.FLOAT)
        self.node("Gather", ["row_scale", "input_ids"], "wscale")
        self.node("Mul", ["wordf", "wscale"], "words")
        self.constant("one", np.array([1], np.int64))
        self.constant("zero", np.array([0], np.int64))
        self.node("Shape", ["input_ids"], "shape")
        self.node("Gather", ["shape", "one"], "length")
        self.node("Slice", ["pos", "zero", "length", "zero"], "posv")
        self.node("Gather", ["types", "token_type_ids"], "typev")
        self.node("Add", ["words", "typev"], "e1")
        self.node("Add", ["e1", "posv"], "e2")
        return self.norm("e2", "model.embeddings.LayerNorm", "h0")

    def add_mask_bias(self) -> None:
        """Turn the mask into what is added to the scores of attention: 0 for a token, much less for padding."""
        self.constant("axes12", np.array([1, 2], np.int64))
        self.constant("onef", np.array(1, np.float32))
        self.constant("big", np.array(MASKED_SCORE, np.float32))
        self.node("Cast", ["attention_mask"], "maskf", to=TensorProto.FLOAT)
        self.node("Unsqueeze", ["maskf", "axes12"], "mask4")
        self.node("Sub", ["onef", "mask4"], "inv")
        self.node("Mul", ["inv", "big"], "bias4")

    def add_layer_constants(self, width: int) -> None:
        """Add the numbers that all layers share."""
        head_width = width // ATTENTION_HEADS
        self.constant("split", np.array([0, 0, ATTENTION_HEADS, head_width], np.int64))
        self.constant("merge", np.array([0, 0, width], np.int64))
        self.constant("root", np.array(head_width**-0.5, np.float32))
        self.constant("half", np.array(0.5, np.float32))
        self.constant("sqrt2", np.array(2**0.5, np.float32))

    def add_layer(self, number: int, tokens: str) -> str:
        """Add one layer of the transformer, and return the name of its output."""
        key, name = f"model.encoder.layer.{number}.", f"l{number}."
        mixed = self.add_attention(key, name, tokens)
        self.dense(mixed, f"{key}attention.output.dense", f"{name}ao")
        self.node("Add", [f"{name}ao", tokens], f"{name}r1")
        middle = self.norm(f"{name}r1", f"{key}attention.output.LayerNorm", f"{name}h1")
        wide = self.dense(middle, f"{key}intermediate.dense", f"{name}up")
        # gelu(x) = x * (1 + erf(x / sqrt(2))) / 2
        self.node("Div", [wide, "sqrt2"], f"{name}g1")
        self.node("Erf", [f"{name}g1"], f"{name}g2")
        self.node("Add", [f"{name}g2", "onef"], f"{name}g3")
        self.node("Mul", [wide, f"{name}g3"], f"{name}g4")
        self.node("Mul", [f"{name}g4", "half"], f"{name}g")
        self.dense(f"{name}g", f"{key}output.dense", f"{name}down")
        self.node("Add", [f"{name}down", middle], f"{name}r2")
        return self.norm(f"{name}r2", f"{key}output.LayerNorm", f"{name}h2")

    def add_attention(self, key: str, name: str, tokens: str) -> str:
        """Add softmax(Q K^T / sqrt(width of a head)) V, with one product for queries, keys and values."""
        parts = [f"{key}attention.self.{part}" for part in ("query", "key", "value")]
        weight = np.concatenate([self.weights[f"{part}.weight"] for part in parts])
        bias = np.concatenate([self.weights[f"{part}.bias"] for part in parts])
        self.linear(tokens, weight, bias, f"{name}qkv")
        outputs = [f"{name}q", f"{name}k", f"{name}v"]
        self.nodes.append(
            helper.make_node("Split", [f"{name}qkv"], outputs, axis=-1, num_outputs=3, name=f"{name}split")
        )
        for part, order in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
            self.node("Reshape", [f"{name}{part}", "split"], f"{name}{part}4")
            self.node("Transpose", [f"{name}{part}4"], f"{name}{part}t", perm=order)
        self.node("MatMul", [f"{name}qt", f"{name}kt"], f"{name}s0")
        self.node("Mul", [f"{name}s0", "root"], f"{name}s1")
        self.node("Add", [f"{name}s1", "bias4"], f"{name}s2")
        self.node("Softmax", [f"{name}s2"], f"{name}a", axis=-1)
        self.node("MatMul", [f"{name}a", f"{name}vt"], f"{name}c0")
        self.node("Transpose", [f"{name}c0"], f"{name}c1", perm=[0, 2, 1, 3])
        return self.node("Reshape", [f"{name}c1", "merge"], f"{name}c")

    def add_heads(self, heads: Sequence[str]) -> int:
        """Add linear heads on the mean, as one product that keeps its 32 bits; return how many scores come out."""
        weight = np.concatenate([self.weights[f"heads.{head}.weight"] for head in heads])
        self.constant("heads.w", weight.T)
        self.constant("heads.bias", np.concatenate([self.weights[f"heads.{head}.bias"] for head in heads]))
        self.node("MatMul", ["pooled", "heads.w"], "heads.product")
        self.node("Add", ["heads.product", "heads.bias"], "scores")
        return len(weight)

    def add_mean(self, tokens: str) -> None:
        """Add the mean of the token vectors that are no padding."""
        self.constant("axis2", np.array([2], np.int64))
        self.constant("axis1", np.array([1], np.int64))
        self.node("Unsqueeze", ["maskf", "axis2"], "mask3")
        self.node("Mul", [tokens, "mask3"], "masked")
        self.node("ReduceSum", ["masked", "axis1"], "sum", keepdims=0)
        self.node("ReduceSum", ["mask3", "axis1"], "count", keepdims=0)
        self.node("Div", ["sum", "count"], "pooled")
