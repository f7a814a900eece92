"""The vectors of tokens while a network learns, and the weights of one that was exported."""

# Neither onnx, which only this group has, nor what torch returns is known to their types.
# pyright: reportMissingImports=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import helper, numpy_helper
from passage_architecture import LAYERS, VECTOR
from torch import Tensor, nn

_LARGE = 4096
"""Bytes."""


class Projection(nn.Module):
    """Token vectors as a learnt projection of a language model's, (tokens, width)."""

    def __init__(self, embeddings: Tensor) -> None:
        super().__init__()
        self._embeddings = embeddings
        self._project = nn.Linear(embeddings.shape[1], VECTOR, bias=False)
        nn.init.normal_(self._project.weight, std=embeddings.shape[1] ** -0.5)

    def forward(self, ids: Tensor) -> Tensor:
        return self._project(self._embeddings[ids].float())

    def all(self) -> Tensor:
        """Return the vectors of all tokens."""
        parts = self._embeddings.split(20_000)
        return torch.cat([self._project(part.float()) for part in parts])


class FixedVectors(nn.Module):
    """The token vectors of a trained network, (tokens, VECTOR) of 8 bits, which stay."""

    def __init__(self, table: Tensor, scale: Tensor) -> None:
        super().__init__()
        self._table, self._scale = table, scale

    def forward(self, ids: Tensor) -> Tensor:
        return self._table[ids].float() * self._scale

    def all(self) -> Tensor:
        """Return the vectors of all tokens."""
        return self._table.float() * self._scale


def halve(path: Path) -> None:
    """Keep the larger weights of a network in 16 bits; they are made 32 again as it is loaded."""
    network = onnx.load(path)
    graph = network.graph
    for one in graph.initializer:
        if one.data_type == onnx.TensorProto.FLOAT and len(one.raw_data) > _LARGE:
            weights, name = numpy_helper.to_array(one), one.name
            one.CopyFrom(numpy_helper.from_array(weights.astype(np.float16), f"{name}.half"))
            graph.node.insert(
                0, helper.make_node("Cast", [one.name], [name], to=onnx.TensorProto.FLOAT)
            )
    onnx.save(network, path)


def trained_weights(path: Path) -> dict[str, Tensor]:
    """Return the weights of a network that `export` wrote, by the names of `ShippedPassages`."""
    read: dict[str, Tensor] = {}
    unnamed: list[tuple[int, Tensor]] = []  # matrices of linear layers are transposed, in order
    for one in onnx.load(path).graph.initializer:
        weights = torch.from_numpy(numpy_helper.to_array(one).copy())
        if one.name.startswith("onnx::MatMul_"):
            unnamed.append((int(one.name.rpartition("_")[2]), weights.T))
        else:
            read[one.name] = weights
    layers = [
        f"network.layers.{number}.{name}"
        for number in range(LAYERS)
        for name in ("qkv", "out", "linear1", "linear2")
    ]
    names = ["network.inp", *layers, "network.att", "network.tag"]
    unnamed.sort(key=lambda one: one[0])
    for name, (_, weights) in zip(names, unnamed, strict=True):
        read[f"{name}.weight"] = weights
    return read
