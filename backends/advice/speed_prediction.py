"""Predicts prefill and decode speed of a loaded model from bytes and device rates."""

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
"""Bytes per second from host memory to a GPU: PCIe 3.0 with 16 lanes, or 4.0 with 8."""

EXPERT_SHARE = 0.6
"""Assumed share of the memory's bandwidth at which experts are read, which are chosen anew for
each token."""

_PROMPT = 1000
"""Tokens of the prompt for which the prefill speed is predicted."""
_PROMPT_ATTENTION = 2


class PredictedSpeed(msgspec.Struct, frozen=True, kw_only=True):
    """Predicted tokens per second: prefill, decode early in a chat, and decode with a full context.

    `arithmetic` explains the numbers, one line each.
    """

    prefill: float
    decode: float
    decode_full: float
    arithmetic: list[str] = []


@dataclass(frozen=True)
class _Part:
    """The work of one device for each token.

    `weights` is in bytes, of which `plain` have no fast layout, and `experts` are those of the
    experts in use; `kv` bytes and `products` multiplications are per token in the context.
    """

    rates: DeviceRates
    weights: int = 0
    experts: int = 0
    plain: int = 0
    kv: int = 0
    products: int = 0
    layers: int = 0

    @property
    def reading(self) -> float:
        """Return the seconds to read or compute the weights."""
        rates = self.rates
        even = (self.weights - self.plain) / rates.weight_rate + self.plain / rates.plain_rate
        if not self.experts:
            return even
        return even * (1 + self.experts / self.weights * (1 / EXPERT_SHARE - 1))

    def attention_seconds(self, tokens: int) -> float:
        """Return the seconds of attention over `tokens`: the slower of reading and computing."""
        rates = self.rates
        computing = self.products / rates.attention if rates.attention else 0.0
        return tokens * max(self.kv / rates.kv_rate, computing)

    def seconds(self, tokens: int) -> float:
        """Return all seconds of one token after `tokens` others."""
        rates = self.rates
        fixed = self.layers * rates.layer_seconds
        return (self.reading + self.attention_seconds(tokens) + fixed) / rates.factor


def predict_speed(
    costs: ModelCosts,
    selection: Placement,
    cpu: DeviceRates | None,
    gpu: DeviceRates | None,
    *,
    kv_type: KVType,
    filled: int,
    repacked: frozenset[str] = frozenset(),
) -> PredictedSpeed | None:
    """Predict speeds from bytes and rates; `decode` is with `filled` tokens in the context.

    Returns None if the rates of a device in use are unknown.
    """
    on_gpu, on_cpu = _divide(costs, selection, kv_type)
    quick = _repacked_share(costs, repacked, layers_only=False)
    products = _products(costs)
    parts: list[_Part] = []
    for (weights, experts, kv, layers), rates in ((on_gpu, gpu), (on_cpu, cpu)):
        if not weights and not layers:
            continue
        if rates is None:
            return None
        plain = int(weights * (1 - quick)) if rates.attention else 0
        parts.append(_Part(rates, weights, experts, plain, kv, products * layers, layers))
    if not parts:
        return None
    seconds = sum(part.seconds(filled) for part in parts)
    full = sum(part.seconds(selection.context) for part in parts)
    prompt = _prompt_seconds(costs, parts, selection.batch, repacked)
    return PredictedSpeed(
        prefill=1 / prompt,
        decode=1 / seconds,
        decode_full=1 / full,
        arithmetic=_explain(parts, filled, seconds, prompt, costs),
    )


def bytes_per_token(costs: ModelCosts) -> int:
    """Return the bytes of weights that one token needs: all but lookup tables and idle experts."""
    return sum(part[0] for part in _layers_of(costs)) + _output_bytes(costs)


def _divide(
    costs: ModelCosts, selection: Placement, kv_type: KVType
) -> tuple[tuple[int, int, int, int], tuple[int, int, int, int]]:
    """Return weights, those of experts among them, bytes per cached token and layers on the GPU,
    and on the processor.
    """
    layers = _layers_of(costs)
    scale = _kept_share(costs, selection)
    count = len(layers) + 1 if selection.gpu_layers < 0 else selection.gpu_layers
    if selection.device == "cpu":
        count = 0
    first = len(layers) + 1 - count
    sides = [[0, 0, 0, 0], [0, 0, 0, 0]]
    for index, (weights, experts, keys, values) in enumerate(layers):
        above = index >= first
        side = sides[0 if above else 1]
        # Experts of the first blocks may stay in host memory.
        if above and index < selection.cpu_experts:
            sides[1][0] += int(experts * scale)
            sides[1][1] += int(experts * scale)
            weights -= experts
            experts = 0
        side[0] += int(weights * scale)
        side[1] += int(experts * scale)
        # On a processor, computing takes longer than reading, whatever the KV type.
        stored = kv_type if above else KVType.F16
        side[2] += stored.bytes_of(keys) + stored.bytes_of(values)
        side[3] += 1
    sides[0 if count > 0 else 1][0] += _output_bytes(costs)
    gpu, cpu = sides
    return (gpu[0], gpu[1], gpu[2], gpu[3]), (cpu[0], cpu[1], cpu[2], cpu[3])


def _layers_of(costs: ModelCosts) -> list[tuple[int, int, int, int]]:
    """Return bytes read per token, those of experts among them, and elements of keys and of
    values.
    """
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
    tables = config.vocab_size * config.num_layers * config.layer_input_width
    rest = costs.stored - _table_bytes(costs) * (1 if config.tied_embeddings else 2)
    rest = max(0, rest - costs.stored * tables // max(1, costs.parameters))
    elements = [
        (heads.count * heads.size, 0 if heads.inner_values else heads.count * heads.size)
        if layer.has_attention
        else (0, 0)
        for layer, heads in zip(
            config.layers, map(config.kv_heads_of, range(config.num_layers)), strict=True
        )
    ]
    return [(rest // config.num_layers, 0, keys, values) for keys, values in elements]


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
    """Return the bytes of the loaded weights over those in the file."""
    if not get_engine(selection.engine).converts_weights:
        return 1.0
    on_gpus = [gpu.weights for gpu in selection.estimate.gpus]
    # Stages read their weights one after the other, parts of matrices at once.
    kept = sum(on_gpus) if selection.stages else max(on_gpus)
    kept = kept or selection.estimate.host.weights
    return kept / costs.stored if costs.stored else 1.0


def _prompt_seconds(
    costs: ModelCosts, parts: list[_Part], batch: int, repacked: frozenset[str]
) -> float:
    """Seconds a token of a prompt: two operations a weight, logits for the last token only.

    Weights that are not on the GPU are sent there for every step.
    """
    read = max(1, bytes_per_token(costs))
    operations = 2 * costs.parameters * (read - _output_bytes(costs)) / max(1, costs.stored)
    rates = parts[0].rates
    # A token of a prompt sees half of it on average; batching makes attention cheaper.
    attention_seconds = parts[0].attention_seconds(_PROMPT // 2) / _PROMPT_ATTENTION
    if len(parts) > 1:
        sent = parts[1].weights / _TRANSFER_RATE / batch
        return (operations / rates.flops + attention_seconds) / rates.factor + sent
    slow = 0.0
    if rates.flops != rates.plain_flops:
        slow = 1 - _repacked_share(costs, repacked, layers_only=True)
    time = (1 - slow) / rates.flops + slow / rates.plain_flops
    return max((operations * time + attention_seconds) / rates.factor, 1e-9)


def _repacked_share(costs: ModelCosts, repacked: frozenset[str], *, layers_only: bool) -> float:
    """Return the share of the weights, by bytes, that llama.cpp repacks for a processor.

    With `layers_only` that of the layers: a prefill needs only one row of the output matrix.
    """
    shape = costs.shape
    if shape is None:
        return 1.0
    output = -shape.output_bytes if layers_only else shape.tied_bytes
    total = sum(shape.matrices.values()) + output
    quick = sum(shape.matrices[kind] for kind in shape.matrices.keys() & repacked)
    return min(1.0, quick / max(1, total)) if total or layers_only else 1.0


def _products(costs: ModelCosts) -> int:
    """Return the multiplications of one layer for each token in the context."""
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
    slower = f", experts at {EXPERT_SHARE * 100:.0f} % of that rate" if part.experts else ""
    reading = part.reading * 1e3
    yield f"{rates.name}: weights a token {' + '.join(sums)}{slower} = {reading:.2f} ms"
    cached, attention_seconds = filled * part.kv, part.attention_seconds(filled)
    if rates.attention and part.products / rates.attention > part.kv / rates.kv_rate:
        amount = f"{filled * part.products / 1e6:,.0f} million products / "
        amount += f"{rates.attention / 1e9:,.0f} billion a second"
    else:
        amount = f"{cached / 1e6:,.1f} MB / {rates.kv_rate / 1e9:,.0f} GB/s"
    yield f"  + keys and values of {filled:,} tokens {amount} = {attention_seconds * 1e3:.2f} ms"
    fixed = part.layers * rates.layer_seconds
    each = rates.layer_seconds * 1e6
    yield f"  + {part.layers} layers × {each:,.0f} µs = {fixed * 1e3:.2f} ms"
    if rates.factor != 1.0:
        yield f"  × 1/{rates.factor:.2f}, measured on this machine"
