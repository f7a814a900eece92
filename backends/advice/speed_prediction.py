"""`predict_speed`: tokens a second of a model that is loaded in a given way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from ingle.models.kv_type import KVType

from ..registry.engines import get_engine
from ..registry.model_costs import ModelCosts
from ..selection.model_placement import Placement
from .device_rates import DeviceRates

_TRANSFER_RATE = 12e9
"""Bytes a second from the machine's memory to a GPU: PCIe 3.0 with 16 lanes, or 4.0 with 8."""

_PROMPT = 1000
"""Tokens of the prompt whose speed is told."""
_PROMPT_ATTENTION = 2


class Speed(msgspec.Struct, frozen=True, kw_only=True):
    """Predicted tokens a second: of a prompt, of an answer early in a chat and with a full context.

    `arithmetic` is how the numbers come about, a line each.
    """

    prefill: float
    decode: float
    decode_full: float
    arithmetic: list[str] = []


@dataclass(frozen=True)
class _Part:
    """What one device does for a token.

    Bytes of `weights`, of which `plain` have no quick form, and for each token in the context bytes
    of keys and values, and multiplications.
    """

    rates: DeviceRates
    weights: int = 0
    plain: int = 0
    kv: int = 0
    products: int = 0
    layers: int = 0

    @property
    def reading(self) -> float:
        """Seconds for the weights."""
        rates = self.rates
        return (self.weights - self.plain) / rates.weight_rate + self.plain / rates.plain_rate

    def attending(self, tokens: int) -> float:
        """Seconds for the context, which are those of the slower of reading and computing."""
        rates = self.rates
        computing = self.products / rates.attention if rates.attention else 0.0
        return tokens * max(self.kv / rates.kv_rate, computing)

    def seconds(self, tokens: int) -> float:
        """All of a token behind so many others."""
        rates = self.rates
        fixed = self.layers * rates.layer_seconds
        return (self.reading + self.attending(tokens) + fixed) / rates.factor


def predict_speed(
    costs: ModelCosts,
    selection: Placement,
    cpu: DeviceRates | None,
    gpu: DeviceRates | None,
    *,
    kv_type: KVType,
    filled: int,
    repacked: frozenset[str] = frozenset(),
) -> Speed | None:
    """From bytes and rates; `decode` is with `filled` tokens in the context.

    None where a device that takes part is not known.
    """
    on_gpu, on_cpu = _divide(costs, selection, kv_type)
    quick = _quick_share(costs, repacked)
    products = _products(costs)
    parts: list[_Part] = []
    for (weights, kv, layers), rates in ((on_gpu, gpu), (on_cpu, cpu)):
        if not weights and not layers:
            continue
        if rates is None:
            return None
        plain = int(weights * (1 - quick)) if rates.attention else 0
        parts.append(_Part(rates, weights, plain, kv, products * layers, layers))
    if not parts:
        return None
    seconds = sum(part.seconds(filled) for part in parts)
    full = sum(part.seconds(selection.context) for part in parts)
    prompt = _prompt_seconds(costs, parts, selection.batch, repacked)
    return Speed(
        prefill=1 / prompt,
        decode=1 / seconds,
        decode_full=1 / full,
        arithmetic=_explain(parts, filled, seconds, prompt, costs),
    )


def bytes_a_token(costs: ModelCosts) -> int:
    """Bytes of weights that one token needs: all but looked-up tables and idle experts."""
    return sum(part[0] for part in _layers_of(costs)) + _output_bytes(costs)


def _divide(
    costs: ModelCosts, selection: Placement, kv_type: KVType
) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """Weights, bytes a cached token and layers on the GPU, and on the processor."""
    layers = _layers_of(costs)
    scale = _kept_share(costs, selection)
    count = len(layers) + 1 if selection.gpu_layers < 0 else selection.gpu_layers
    if selection.device == "cpu":
        count = 0
    first = len(layers) + 1 - count
    sides = [[0, 0, 0], [0, 0, 0]]
    for index, (weights, experts, keys, values) in enumerate(layers):
        above = index >= first
        side = sides[0 if above else 1]
        # Experts of the first blocks may stay in the machine's memory all the same.
        if above and index < selection.cpu_experts:
            sides[1][0] += int(experts * scale)
            weights -= experts
        side[0] += int(weights * scale)
        # A processor computes on them longer than it reads, in whatever type they are.
        stored = kv_type if above else KVType.F16
        side[1] += stored.bytes_of(keys) + stored.bytes_of(values)
        side[2] += 1
    sides[0 if count > 0 else 1][0] += _output_bytes(costs)
    gpu, cpu = sides
    return (gpu[0], gpu[1], gpu[2]), (cpu[0], cpu[1], cpu[2])


def _layers_of(costs: ModelCosts) -> list[tuple[int, int, int, int]]:
    """Bytes read for a token, those of experts among them, and elements of keys and of values."""
    shape, config = costs.shape, costs.config
    if shape is not None:
        busy = shape.experts_used / shape.expert_count if shape.expert_count else 1.0
        return [
            (
                int(layer.weights - layer.experts * (1 - busy)),
                int(layer.experts * busy),
                layer.key_elements,
                layer.value_elements,
            )
            for layer in shape.layers
        ]
    assert config is not None
    elements = config.num_kv_heads * config.head_size
    rest = max(0, costs.stored - _table_bytes(costs) * (1 if config.tied_embeddings else 2))
    return [(rest // config.num_layers, 0, elements, elements)] * config.num_layers


def _output_bytes(costs: ModelCosts) -> int:
    shape = costs.shape
    if shape is not None:
        return (shape.output_bytes or 0) + shape.tied_bytes
    return _table_bytes(costs)


def _table_bytes(costs: ModelCosts) -> int:
    assert costs.config is not None
    rows = costs.config.vocab_size * costs.config.hidden_size
    return costs.stored * rows // max(1, costs.parameters)


def _kept_share(costs: ModelCosts, selection: Placement) -> float:
    """What the weights become on load, of what they are in the file."""
    if not get_engine(selection.engine).converts_weights:
        return 1.0
    kept = selection.estimate.gpu.weights or selection.estimate.host.weights
    return kept / costs.stored if costs.stored else 1.0


def _prompt_seconds(
    costs: ModelCosts, parts: list[_Part], batch: int, repacked: frozenset[str]
) -> float:
    """Seconds a token of a prompt: two operations a weight, logits for the last token only.

    What of the weights does not lie on the GPU is sent there for every step.
    """
    read = max(1, bytes_a_token(costs))
    operations = 2 * costs.parameters * (read - _output_bytes(costs)) / max(1, costs.stored)
    rates = parts[0].rates
    # A token of a prompt sees half of it on average; many at once take less than one by one.
    attending = parts[0].attending(_PROMPT // 2) / _PROMPT_ATTENTION
    if len(parts) > 1:
        sent = parts[1].weights / _TRANSFER_RATE / batch
        return (operations / rates.flops + attending) / rates.factor + sent
    slow = 0.0 if rates.flops == rates.plain_flops else 1 - _quick_in_layers(costs, repacked)
    time = (1 - slow) / rates.flops + slow / rates.plain_flops
    return max((operations * time + attending) / rates.factor, 1e-9)


def _quick_share(costs: ModelCosts, repacked: frozenset[str]) -> float:
    """The part of the weights, by bytes, that llama.cpp lays out anew for a processor."""
    if costs.shape is None:
        return 1.0
    matrices = costs.shape.matrices
    total = sum(matrices.values()) + costs.shape.tied_bytes
    return sum(matrices[kind] for kind in matrices.keys() & repacked) / total if total else 1.0


def _quick_in_layers(costs: ModelCosts, repacked: frozenset[str]) -> float:
    """As much of the layers: of the output, which seldom has the form, a prompt needs a row."""
    if costs.shape is None:
        return 1.0
    matrices = costs.shape.matrices
    total = max(1, sum(matrices.values()) - costs.shape.output_bytes)
    return min(1.0, sum(matrices[kind] for kind in matrices.keys() & repacked) / total)


def _products(costs: ModelCosts) -> int:
    """Multiplications of one layer for each token in the context."""
    shape, config = costs.shape, costs.config
    if shape is not None:
        return 2 * shape.head_count * shape.key_length
    return 0 if config is None else 2 * config.num_heads * config.head_size


def _explain(
    parts: list[_Part], filled: int, seconds: float, prompt: float, costs: ModelCosts
) -> list[str]:
    lines: list[str] = []
    for part in parts:
        lines += _explain_part(part, filled)
    lines.append(f"answer: 1 / {seconds * 1e3:.2f} ms = {1 / seconds:,.1f} tokens/s")
    operations = 2 * costs.parameters / 1e9
    lines.append(
        f"prompt: at most {operations:,.1f} billion operations a token, "
        f"{prompt * 1e3:.3f} ms = {1 / prompt:,.0f} tokens/s"
    )
    lines += [f"source: {part.rates.source}" for part in parts]
    return lines


def _explain_part(part: _Part, filled: int) -> Iterator[str]:
    rates = part.rates
    quick = part.weights - part.plain
    read = [(quick, rates.weight_rate), (part.plain, rates.plain_rate)]
    sums = [f"{size / 1e6:,.0f} MB / {rate / 1e9:,.0f} GB/s" for size, rate in read if size]
    yield f"{rates.name}: weights a token {' + '.join(sums)} = {part.reading * 1e3:.2f} ms"
    cached, attending = filled * part.kv, part.attending(filled)
    if rates.attention and part.products / rates.attention > part.kv / rates.kv_rate:
        amount = f"{filled * part.products / 1e6:,.0f} million products / "
        amount += f"{rates.attention / 1e9:,.0f} billion a second"
    else:
        amount = f"{cached / 1e6:,.1f} MB / {rates.kv_rate / 1e9:,.0f} GB/s"
    yield f"  + keys and values of {filled:,} tokens {amount} = {attending * 1e3:.2f} ms"
    fixed = part.layers * rates.layer_seconds
    each = rates.layer_seconds * 1e6
    yield f"  + {part.layers} layers × {each:,.0f} µs = {fixed * 1e3:.2f} ms"
    if rates.factor != 1.0:
        yield f"  × 1/{rates.factor:.2f}, measured on this machine"
