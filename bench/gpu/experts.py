"""Mixtures of experts: picks sorted by expert, beside every expert for all tokens, and a GEMV."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import torch
from gpu.session import Session, copies_for
from gpu.weights import random_weight, repacked

from ingle.kernels.elementwise.activations import Activations, quantize_q8_reference
from ingle.kernels.formats.weight import QuantizedTensor
from ingle.kernels.formats.weight_format import WEIGHT_FORMATS
from ingle.kernels.matmul.expert_gemm import ExpertGemm, expert_blocks, expert_gemm_failures
from ingle.kernels.matmul.expert_gemv import ExpertGemv, expert_failures
from ingle.kernels.matmul.expert_layers import ExpertLayer
from ingle.kernels.matmul.expert_picks import (
    ExpertPicks,
    expert_pick_failures,
    sum_picks_reference,
)
from ingle.kernels.matmul.linear import LinearLayer
from ingle.kernels.matmul.matmul_dispatch import MatmulDispatch
from ingle.kernels.matmul.matmul_tuning import MatmulTuning
from ingle.kernels.matmul.quantized_gemm import QuantizedGemm

TOKENS = (1, 8, 64, 512, 2048)
_MOST_BY_GEMV = 512
"""Picks beyond which a matrix for each of them is far slower."""


class Mixture(NamedTuple):
    """A model's experts: the shape of their gates, and how many of them a token picks."""

    name: str
    kind: str
    experts: int
    used: int
    rows: int
    inputs: int


MIXTURES = (
    Mixture("Qwen3-30B-A3B", "Q4_K", 128, 8, 768, 2048),
    Mixture("gpt-oss-20b", "MXFP4", 32, 4, 2880, 2880),
    Mixture("Mixtral 8x7B", "Q4_K", 8, 2, 14336, 4096),
)


def wrong_experts(session: Session) -> Iterator[str]:
    """Where products with picked experts are further from exact ones than rounding is."""
    library = session.library()
    gemm = ExpertGemm(QuantizedGemm(library, session.device))
    for form in WEIGHT_FORMATS.values():
        for rows in (14, 600) if form.has_expert_kernel else ():
            weight = random_weight(form.name, rows, 1280, session.device, seed=rows)
            assert isinstance(weight, QuantizedTensor)
            yield from expert_failures(ExpertGemv(library), [weight], session.device)
            yield from expert_gemm_failures(gemm, [weight], session.device)
    yield from expert_pick_failures(ExpertPicks(library), session.device)


def run(session: Session) -> dict[str, object]:
    """Microseconds of the gates' product, by mixture, tokens and way."""
    rows: list[dict[str, Any]] = []
    for mixture in MIXTURES:
        for tokens in TOKENS:
            if session.seconds_left < 10:
                return {"experts": rows, "skipped": [f"{mixture.name}: no time was left"]}
            rows.append(
                {**mixture._asdict(), "tokens": tokens, "us": _times(session, mixture, tokens)}
            )
        torch.cuda.empty_cache()
    return {"experts": rows, "skipped": []}


def table(result: dict[str, Any]) -> list[str]:
    """Return the times of each way."""
    lines: list[str] = []
    for row in result["experts"]:
        times = ", ".join(f"{name} {time:.1f} us" for name, time in row["us"].items())
        lines.append(f"{row['name']:<14}{row['tokens']:>5} tokens: {times}")
    return [*lines, *(f"skipped: {reason}" for reason in result["skipped"])]


def _times(session: Session, mixture: Mixture, tokens: int) -> dict[str, float]:
    _, kind, count, used, rows, inputs = mixture
    weight = repacked(random_weight(kind, count * rows, inputs, session.device))
    layers = [ExpertLayer(weight, count)] * copies_for(weight.nbytes, least=1)
    generator = torch.Generator(session.device).manual_seed(1)
    x = torch.randn(tokens, inputs, device=session.device, generator=generator)
    picked = (
        torch.rand(tokens, count, device=session.device, generator=generator).topk(used).indices
    )
    tiles = quantize_q8_reference(x)
    library = session.library()
    gemm = QuantizedGemm(library, session.device)
    ways: dict[str, Callable[[ExpertLayer], object]] = {}
    if picked.numel() <= _MOST_BY_GEMV:
        ways["a GEMV a pick"] = partial(ExpertGemv(library).multiply, tiles=tiles, picked=picked)
    for wide in (8, 32):
        ways[f"blocks of {wide}"] = partial(_by_blocks, ExpertGemm(gemm), tiles, picked, wide)
    table = MatmulTuning.usual(library.architecture)
    products = MatmulDispatch(library, torch.bfloat16, session.device, table)
    dense = Activations(inputs, x.bfloat16(), tiles)
    out = torch.empty(tokens, rows, dtype=torch.bfloat16, device=session.device)
    ways["all tokens by each"] = partial(_by_each, products, dense, out)
    times = {name: [partial(way, layer) for layer in layers] for name, way in ways.items()}
    times |= _pick_ways(session, mixture, picked)
    return {
        name: round(session.time(launches, repeats=3) * 1e6, 1) for name, launches in times.items()
    }


def _pick_ways(
    session: Session, mixture: Mixture, picked: torch.Tensor
) -> dict[str, list[Callable[[], object]]]:
    """What sorts picks before the products and sums these after them, each in two ways."""
    picks, count = ExpertPicks(session.library()), mixture.experts
    rows = expert_blocks(picked, count, 8).rows
    products = torch.randn(int(rows.max()) + 1, mixture.inputs, device=session.device)
    weights = torch.rand(picked.shape, device=session.device)
    return {
        "sorted by torch": [partial(expert_blocks, picked, count, 8)],
        "sorted in a launch": [partial(picks.sort, picked, count, 8)],
        "summed by torch": [partial(sum_picks_reference, products, weights, rows)],
        "summed in a launch": [partial(picks.sum, products, weights, rows)],
    }


def _by_blocks(
    gemm: ExpertGemm, tiles: torch.Tensor, picked: torch.Tensor, wide: int, layer: ExpertLayer
) -> torch.Tensor:
    blocks = expert_blocks(picked, layer.count, wide)
    return gemm.multiply(layer, tiles.index_select(1, blocks.tokens), blocks)


def _by_each(
    products: MatmulDispatch, x: Activations, out: torch.Tensor, layer: ExpertLayer
) -> None:
    for expert in range(layer.count):
        one = layer.of(expert)
        products.multiply(x, LinearLayer(one.weight, one.bias), out)
