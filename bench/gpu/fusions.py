"""Tests and times norms, gates and residual sums on this GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product

import torch
from gpu.session import Session, copies_for
from gpu.weights import random_weight, repacked

from ingle.kernels.elementwise.activations import (
    ActivationForms,
    Activations,
    q8_groups,
    quantize_q8_reference,
)
from ingle.kernels.elementwise.gated_activation import (
    GateActivation,
    gated_activation_reference,
    launch_gated_activation,
)
from ingle.kernels.elementwise.rms_norm import Norm, NormQuantize
from ingle.kernels.formats.weight import RepackedTensor
from ingle.kernels.matmul.gated_gemv import GatedGemv
from ingle.kernels.matmul.linear import GatedLayer, LinearLayer
from ingle.kernels.matmul.normed_gemv import MOST_NORMED_COLUMNS, NormedGemv
from ingle.kernels.matmul.quantized_gemv import GemvVariant, QuantizedGemv, quantized_gemv_reference

# Relative in the Euclidean norm, of float32 sums and of approximate exponentials.
TOLERANCE = 1e-5
# Its sixteen values as bytes differ from exact ones, in both matrices.
NF4_TOLERANCE = 1.5e-2
BOTH = ActivationForms(torch.float32, tiles=True)
AS_USED = ActivationForms(torch.bfloat16, tiles=True)
EPSILON = 1e-5
NORMS = ((3, 480), (2, 4128), (5, 16384), (1, 4096), (512, 4096))
GATES_OF: tuple[GateActivation, ...] = ("silu", "gelu_tanh")
GATES = (
    ("Q4_K", 96, 1280, TOLERANCE),
    ("Q6_K", 1056, 512, TOLERANCE),
    ("NF4", 352, 1088, NF4_TOLERANCE),
    ("Q4_K", 14336, 4096, TOLERANCE),
    ("NF4", 14336, 4096, NF4_TOLERANCE),
)
REPEATS = 4
TOKENS, COLUMNS = (1, 8, 512, 2048), (1, 2, 4, 8)
WIDTH, HIDDEN = 4096, 14336
NORMED = (("output", WIDTH, WIDTH), ("down", WIDTH, HIDDEN))


def wrong_fusions(session: Session) -> Iterator[str]:
    """Where results are beyond their tolerance, or bytes not those of the numbers."""
    yield from _wrong_norms(session)
    yield from _wrong_gates(session)
    yield from _wrong_gated_products(session)
    yield from _wrong_sums(session)
    yield from _wrong_pairs(session)
    yield from _wrong_normed_sums(session)


def fusion_times(session: Session) -> dict[str, float]:
    """Microseconds of norms and gates by tokens, of gate and up by columns."""
    times: dict[str, float] = {}
    for tokens in TOKENS:
        times[f"norm {tokens}x{WIDTH}"] = _time(session, _norms(session, tokens))
        times[f"gate {tokens}x{HIDDEN}"] = _time(session, _gates(session, tokens))
    for columns in COLUMNS:
        times[f"Q4_K gate and up, {columns} columns"] = _time(session, _layers(session, columns))
    for (name, rows, inputs), columns in product(NORMED, range(1, MOST_NORMED_COLUMNS + 1)):
        for ways, launches in _normed_sums(session, rows, inputs, columns).items():
            times[f"{name} added, and the norm, {columns} columns, {ways}"] = _time(
                session, launches
            )
    return times


def _wrong_norms(session: Session) -> Iterator[str]:
    norm = NormQuantize(session.library())
    for tokens, size in NORMS[:2] if session.on_cpu else NORMS:
        residual, addend = (_random(session, tokens, size, seed) for seed in (0, 1))
        weights = torch.rand(2, size, device=session.device) + 0.5
        expected = residual.double() + _norm(addend.bfloat16(), weights[0])
        found = norm.add_rms_norm(
            residual, addend.bfloat16(), weights[0], weights[1], EPSILON, BOTH
        )
        name = f"norm of {tokens}x{size}"
        yield from _wrong(name, found, _norm(expected, weights[1]))
        if not _error(residual, expected) <= TOLERANCE:
            yield f"{name}: the residual stream"


def _wrong_gates(session: Session) -> Iterator[str]:
    gate = partial(launch_gated_activation, session.library())
    for tokens, size in NORMS[:2] if session.on_cpu else NORMS:
        both = _random(session, tokens, 2 * size, 0) * 3
        first, second = both[:, :size], both[:, size:]
        for activation in GATES_OF:
            expected = gated_activation_reference(first, second, activation)
            found = gate(first, second, activation, BOTH)
            yield from _wrong(f"{activation} of {tokens}x{size}", found, expected)


def _wrong_gated_products(session: Session) -> Iterator[str]:
    gated = GatedGemv(session.library(), session.device)
    for kind, rows, inputs, tolerance in GATES[:3] if session.on_cpu else GATES:
        first, second = (random_weight(kind, rows, inputs, session.device, n) for n in (0, 1))
        layer = GatedLayer(repacked(first), repacked(second), "silu")
        for columns in (1, 3, 8):
            x = _random(session, columns, inputs, columns)
            tiles = quantize_q8_reference(x.cpu()).to(session.device)
            gate, up = (quantized_gemv_reference(weight, tiles) for weight in (first, second))
            expected = gated_activation_reference(gate, up, "silu")
            # One after the other, as a graph replays them: each has to leave its counts at zero.
            results = [gated.multiply(layer, tiles, BOTH) for _ in range(REPEATS)]
            for found in results:
                name = f"{kind} {rows}x{inputs} gated, {columns} columns"
                yield from _wrong(name, found, expected, tolerance)


def _wrong_sums(session: Session) -> Iterator[str]:
    gemv = session.gemv()
    weight = random_weight("Q4_K", 515, 1280, session.device)
    tiles = gemv.quantize(_random(session, 3, 1280, 0))
    residual = _random(session, 3, 515, 1)
    expected = residual.double() + 0.5 * quantized_gemv_reference(weight, tiles)
    gemv.multiply(repacked(weight), tiles, residual, add=0.5)
    if not _error(residual, expected) <= TOLERANCE:
        yield "products added to a residual stream"


def _wrong_pairs(session: Session) -> Iterator[str]:
    pairs = QuantizedGemv(session.library())
    first, second = (
        random_weight(kind, rows, 1280, session.device)
        for kind, rows in (("Q4_K", 515), ("Q6_K", 70))
    )
    for columns, variant in (
        (1, GemvVariant(2, 1)),
        (3, GemvVariant(2, 4)),
        (8, GemvVariant(2, 1)),
    ):
        tiles = session.gemv().quantize(_random(session, columns, 1280, columns))
        out = torch.full((columns, 585), torch.nan, device=session.device)
        pairs.multiply_pair(repacked(first), repacked(second), tiles, out, variant=variant)
        both = [quantized_gemv_reference(weight, tiles) for weight in (first, second)]
        if not _error(out, torch.cat(both, dim=1)) <= TOLERANCE:
            yield f"products of two types, {columns} columns"


def _wrong_normed_sums(session: Session) -> Iterator[str]:
    """Where the norm after a sum has other bits in one launch than in two."""
    gemv, library = session.gemv(), session.library()
    for kind, rows, columns, split in (("Q4_K", 96, 2, 1), ("Q6_K", 2080, 1, 4)):
        weight = repacked(random_weight(kind, rows, 1280, session.device))
        layer, norm = LinearLayer(weight), _norm_of(session, rows)
        tiles, variant = gemv.quantize(_random(session, columns, 1280, 0)), GemvVariant(2, split)
        two = _random(session, columns, rows, 1)
        gemv.multiply(weight, tiles, two, add=0.5, variant=variant)
        right = NormQuantize(library).rms_norm(two, *norm, BOTH)
        fused = NormedGemv(library, session.device)
        for _ in range(REPEATS):
            one = _random(session, columns, rows, 1)
            found = fused.multiply_add(one, tiles, layer, 0.5, norm, BOTH, variant=variant)
            assert found.dense is not None
            assert right.dense is not None
            if not (torch.equal(one, two) and torch.equal(found.dense, right.dense)):
                yield f"{kind} {rows} sums and their norm, {columns} columns, split {split}"


def _normed_sums(
    session: Session, rows: int, inputs: int, columns: int
) -> dict[str, list[Callable[[], object]]]:
    """A sum and the norm after it as one launch, and as two."""
    gemv, library = session.gemv(), session.library()
    norms, fused = NormQuantize(library), NormedGemv(library, session.device)
    residual, norm = _random(session, columns, rows, 1), _norm_of(session, rows)
    tiles, wanted = gemv.quantize(_random(session, columns, inputs, 0)), ActivationForms(tiles=True)

    def apart(weight: RepackedTensor) -> object:
        gemv.multiply(weight, tiles, residual, add=1.0)
        return norms.rms_norm(residual, *norm, wanted)

    def together(weight: RepackedTensor) -> object:
        return fused.multiply_add(residual, tiles, LinearLayer(weight), 1.0, norm, wanted)

    count = copies_for(rows * inputs * 9 // 16, most=16)
    weights = [
        repacked(random_weight("Q4_K", rows, inputs, session.device, seed)) for seed in range(count)
    ]
    return {
        "two launches": [partial(apart, weight) for weight in weights],
        "one launch": [partial(together, weight) for weight in weights],
    }


def _norm_of(session: Session, size: int) -> Norm:
    return Norm(torch.rand(size, device=session.device) + 0.5, EPSILON)


def _wrong(
    name: str, found: Activations, expected: torch.Tensor, tolerance: float = TOLERANCE
) -> Iterator[str]:
    assert found.dense is not None
    assert found.tiles is not None
    error = _error(found.dense, expected)
    if not error <= tolerance:
        yield f"{name}: error {error:.1e}"
    # Of torch only the CPU divides as IEEE has it.
    tiles = quantize_q8_reference(found.dense.cpu())
    if not torch.equal(q8_groups(found.tiles.cpu(), found.size), q8_groups(tiles, found.size)):
        yield f"{name}: bytes"


def _norms(session: Session, tokens: int) -> list[Callable[[], object]]:
    norm = NormQuantize(session.library())
    weight = torch.ones(WIDTH, device=session.device)
    rows = [
        _random(session, tokens, WIDTH, seed)
        for seed in range(copies_for(tokens * WIDTH * 4, most=8))
    ]
    return [partial(norm.rms_norm, each, weight, EPSILON, AS_USED) for each in rows]


def _gates(session: Session, tokens: int) -> list[Callable[[], object]]:
    gate = partial(launch_gated_activation, session.library())
    both = _random(session, tokens, 2 * HIDDEN, 0).bfloat16()
    launch = partial(gate, both[:, :HIDDEN], both[:, HIDDEN:], "silu", AS_USED)
    return [launch] * 8


def _layers(session: Session, columns: int) -> list[Callable[[], object]]:
    gated = GatedGemv(session.library(), session.device)
    tiles = session.gemv().quantize(_random(session, columns, WIDTH, 0))
    pairs = range(0, 16, 2)
    weights = [
        [repacked(random_weight("Q4_K", HIDDEN, WIDTH, session.device, pair + i)) for i in (0, 1)]
        for pair in pairs
    ]
    layers = [GatedLayer(gate, up, "silu") for gate, up in weights]
    return [partial(gated.multiply, layer, tiles, ActivationForms(tiles=True)) for layer in layers]


def _time(session: Session, launches: list[Callable[[], object]]) -> float:
    return round(session.time(launches) * 1e6, 2)


def _norm(rows: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    exact = rows.double()
    scale = torch.rsqrt(exact.square().mean(-1, keepdim=True) + EPSILON)
    return exact * scale * weight.double()


def _random(session: Session, rows: int, size: int, seed: int) -> torch.Tensor:
    generator = torch.Generator(session.device).manual_seed(seed)
    return torch.randn(rows, size, device=session.device, generator=generator)


def _error(found: torch.Tensor, expected: torch.Tensor) -> float:
    difference = (found.double() - expected) ** 2
    return float(difference.sum().sqrt() / (expected**2).sum().sqrt())
