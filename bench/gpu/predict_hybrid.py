"""Predicts one decode step of Qwen3.5's 27B and 35B-A3B in Q4_K_M on other GPUs.

python bench/gpu/predict_hybrid.py

Works as `predict.py`. Types are those that llama.cpp's quantiser chooses; of experts a token reads
those that it picks. Launches were counted by running a step of the same layers on a processor.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from gpu.predict import FORMATS, GPU, GPUS, expected_step, reports, seconds
from gpu.tables import markdown

from ingle.kernels.build.cuda_compilers import CubinCache, find_compiler
from ingle.kernels.recurrent.recurrent_shapes import DeltaNetShape

CONTEXT = 4096
# Routers stay in 16 bits, and so do keys and values.
ROUTER, KV_BYTES = "16 bits", 2
# Of four layers, three of them with DeltaNets: our kernels, and those of torch, which begin when
# the one before them has ended. The others are of the whole step.
LAUNCHES, TORCH, OTHERS = {"dense": 31, "experts": 59}, {"dense": 2, "experts": 34}, 7


class Hybrid(NamedTuple):
    """A model whose every fourth layer has attention with gates, and the others a DeltaNet.

    `width` is that of its MLPs, or of an expert, of which `used` are picked, and one is shared.
    """

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_size: int
    net: DeltaNetShape
    width: int
    vocabulary: int
    experts: int = 0
    used: int = 0

    @property
    def nets(self) -> int:
        """How many layers have DeltaNets."""
        return self.layers // 4 * 3

    @property
    def state_bytes(self) -> int:
        """Read and written for a token."""
        elements = self.net.value_heads * 128 * 128 + self.net.channels * 3
        return self.nets * 2 * 4 * elements

    @property
    def kv_bytes(self) -> int:
        """Of all tokens of the context."""
        token = 2 * self.kv_heads * self.head_size * KV_BYTES
        return (self.layers - self.nets) * token * CONTEXT


HYBRIDS = (
    Hybrid(
        *("Qwen3.5-27B", 64, 5120, 24, 4, 256),
        DeltaNetShape(16, 48, 128, 128, 4, takes_turns=True),
        *(17408, 248320),
    ),
    Hybrid(
        *("Qwen3.5-35B-A3B", 40, 2048, 16, 2, 256),
        DeltaNetShape(16, 32, 128, 128, 4, takes_turns=True),
        *(512, 248320, 256, 8),
    ),
)


def finer(layer: int, layers: int) -> str:
    """The type of what matters most in a layer: Q6_K in the first and last eighth, and of three in
    between one.
    """
    eighth = layers // 8
    some = layer < eighth or layer >= 7 * layers // 8 or (layer - eighth) % 3 == 2
    return "Q6_K" if some else "Q4_K"


def matrices(model: Hybrid, experts: int) -> Iterator[tuple[str, int]]:
    """The type of each matrix and its weights, of so many experts of a layer."""
    hidden, net = model.hidden, model.net
    query, key = (count * model.head_size for count in (model.heads, model.kv_heads))
    for layer in range(model.layers):
        fine = finer(layer, model.layers)
        if layer % 4 == 3:
            yield fine, key * hidden
            yield "Q4_K", (2 * query + key + query) * hidden
        else:
            yield fine, net.channels * hidden
            yield "Q4_K", (2 * net.value_width + 2 * net.value_heads) * hidden
        if model.experts:
            yield ROUTER, model.experts * hidden
        mlps = experts + 1 if model.experts else 1
        yield fine, mlps * model.width * hidden
        yield "Q4_K", mlps * 2 * model.width * hidden
    yield "Q6_K", model.vocabulary * hidden


def weights_by_type(model: Hybrid) -> Counter[str]:
    """The weights that a token reads."""
    found = Counter[str]()
    for kind, count in matrices(model, model.used):
        found[kind] += count
    return found


def parameters(model: Hybrid) -> int:
    """All weights of matrices, embeddings included."""
    return sum(count for _, count in matrices(model, model.experts)) + (
        model.vocabulary * model.hidden
    )


def launches(model: Hybrid) -> tuple[int, int]:
    """Kernels of ours and of torch in a step."""
    kind, periods = "experts" if model.experts else "dense", model.layers // 4
    return periods * LAUNCHES[kind] + OTHERS, periods * TORCH[kind]


def tables() -> Iterable[str]:
    """What a token reads of each model, and how long a step takes."""
    cache = CubinCache(Path(tempfile.gettempdir()) / "ingle-predictions", find_compiler())
    sizes = {kind.name: kind.bytes_a_weight for kind in FORMATS}
    facts: list[list[str]] = []
    times: list[list[str]] = []
    for model in HYBRIDS:
        weights = weights_by_type(model)
        read = sum(count * sizes[kind] for kind, count in weights.items())
        parts = [read, model.state_bytes, model.kv_bytes]
        facts.append(
            [
                model.name,
                f"{parameters(model) / 1e9:.1f} · {weights.total() / 1e9:.2f} billion",
                *(f"{part / 1e6:.0f} MB" for part in parts),
                " + ".join(map(str, launches(model))),
            ]
        )
        for gpu in GPUS:
            row = expected_step(gpu, _floor(cache, model, gpu, weights), *launches(model))
            times.append([f"{model.name}, {gpu.name}", *row])
    names = ["", "weights · of a token", "weights", "states", "keys and values", "launches"]
    yield markdown(names, facts)
    names = ["", "floor", "gaps", "expected", "tokens a second", "of the floor"]
    yield markdown(names, times)


def _floor(cache: CubinCache, model: Hybrid, gpu: GPU, weights: Counter[str]) -> float:
    """Seconds at full bandwidth, or of instructions where those take longer."""
    products = 0.0
    for kind in FORMATS:
        if kind.name in weights:
            columns = 8 if kind.name == ROUTER else 1  # kernels for fewer do as much
            report = reports(cache, kind, gpu)[columns]
            products += seconds(kind, gpu, report, columns, weights[kind.name])
    return products + (model.state_bytes + model.kv_bytes) / gpu.bytes_a_second


if __name__ == "__main__":
    print("\n\n".join(tables()))
