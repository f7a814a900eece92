"""What an option is worth to somebody: quality, time and memory on one scale."""

from __future__ import annotations

from math import log2, sqrt

from ingle.models.kv_type import KVType

from ..base.load_spec import Quantize
from ..registry.model_costs import ModelCosts
from .advice_request import AdviceRequest, Candidate, Need
from .speed_prediction import Speed, bytes_a_token

# Everything counts in doublings of a model's size, which is what people choose between.
_LOSS_AT_FOUR_BITS = 0.12
_FOUR_BITS = 4.85
_BITS_A_DOUBLING = 0.75
"""Bits a weight less that double what quantisation costs: little above five, much below three."""
_NF4_BITS = 4.6
_KV_LOSS = {KVType.Q8_0: 0.05, KVType.Q4_0: 0.4}
_CODER = 1.0
_CODER_AT_CHAT = 1.0
_PROMPT, _ANSWER = 500, 150
"""Tokens of a usual question with what goes before it, and of a usual answer."""
_SOON = 3.0
"""Seconds below which the end of an answer comes before it is read."""
_PATIENT = 5.0
"""As much, of those who want the best answer."""
_LITTLE = 0.5e9
"""Bytes below which memory does not matter."""
_TIME_WEIGHT, _MEMORY_WEIGHT, _BATCH_WEIGHT = 1.5, 1.5, 1.0
_SMALL_BATCH = 0.55
"""What a step of a few tokens computes a second, of what a long prompt does: 231 of 419 tokens with
SmolLM2 135M, 54 of 102 with Qwen2.5 Coder 1.5B, on 2 cores."""
_TASTE_FOR_TIME, _TASTE_FOR_CONTEXT = 0.5, 0.1


def quality_of(
    costs: ModelCosts,
    quantize: Quantize,
    kv_type: KVType,
    candidate: Candidate,
    request: AdviceRequest,
) -> float:
    """Doublings of a billion weights, less what is lost in bits, more where it is made for this."""
    parameters = max(1, costs.parameters)
    bits = _NF4_BITS if quantize == "nf4" else costs.stored * 8 / parameters
    loss = _LOSS_AT_FOUR_BITS * 2 ** ((_FOUR_BITS - min(bits, 16)) / _BITS_A_DOUBLING)
    quality = log2(_dense_size(costs) / 1e9) - min(loss, 8.0) - _KV_LOSS.get(kv_type, 0.0)
    if candidate.codes:
        quality += _CODER if request.task == "code" else -_CODER_AT_CHAT
    return quality


def _dense_size(costs: ModelCosts) -> float:
    """Weights of a dense model as good: of experts, halfway between all and those that take part.

    That is their geometric mean, a rule of thumb.
    """
    parameters = max(1, costs.parameters)
    if costs.shape is None or not costs.shape.expert_count:
        return parameters
    return parameters * sqrt(bytes_a_token(costs) / max(1, costs.stored))


def score_option(
    quality: float,
    speed: Speed | None,
    batch: float,
    memory: int,
    context: int,
    need: Need,
) -> float:
    """More is better; options are compared by nothing else."""
    room = _TASTE_FOR_CONTEXT * log2(max(context, 1) / 4096)
    if need == "memory":
        return quality - _MEMORY_WEIGHT * log2(max(memory, _LITTLE) / 1e9)
    if need == "batch":
        return quality + room + (_BATCH_WEIGHT * log2(batch) if batch > 0 else 0.0)
    weight, soon = (_TIME_WEIGHT, _SOON) if need == "latency" else (_TASTE_FOR_TIME, _PATIENT)
    return quality + room - weight * log2(max(soon, seconds_of_answer(speed)) / soon)


def seconds_of_answer(speed: Speed | None) -> float:
    """A usual question and its answer; a second where nothing is known."""
    return _SOON if speed is None else _PROMPT / speed.prefill + _ANSWER / speed.decode


def batch_rate(speed: Speed | None, streams: int) -> float:
    """Tokens a second of so many answers together, whose steps read the weights once."""
    if speed is None:
        return 0.0
    return streams / max(1 / speed.decode, streams / (_SMALL_BATCH * speed.prefill))
