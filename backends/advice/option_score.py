"""Scores an option: quality, time and memory on one scale."""

from __future__ import annotations

from math import log2, sqrt

from ingle.models.kv_type import KVType

from ..base.load_spec import Quantize
from .advice_request import Candidate, Need, Task
from .speed_prediction import PredictedSpeed, bytes_per_token

# Everything is counted in doublings of a model's size, which is what people choose between.
_LOSS_AT_FOUR_BITS = 0.12
_FOUR_BITS = 4.85
_BITS_A_DOUBLING = 0.75
"""Each reduction by so many bits per weight doubles the loss from quantisation.

It is small above five bits, and large below three.
"""
_NF4_BITS = 4.6
_KV_LOSS = {KVType.Q8_0: 0.05, KVType.Q4_0: 0.4}
_CODER = 1.0
_CODER_AT_CHAT = 1.0
_PROMPT, _ANSWER = 500, 150
"""Tokens of a typical prompt with its context, and of a typical answer."""
_SOON = 3.0
"""Seconds to a complete answer below which more speed gains nothing."""
_PATIENT = 5.0
"""The same for the need "the best answers"."""
_LITTLE = 0.5e9
"""Bytes below which memory use does not matter."""
_TIME_WEIGHT, _MEMORY_WEIGHT, _BATCH_WEIGHT = 1.5, 1.5, 1.0
_SMALL_BATCH = 0.55
"""Compute rate of a step with few tokens, relative to a long prefill: 231 of 419 tokens/s with
SmolLM2 135M, 54 of 102 with Qwen2.5 Coder 1.5B, on 2 cores.
"""
_TASTE_FOR_TIME, _TASTE_FOR_CONTEXT = 0.5, 0.1


def quality_of(candidate: Candidate, quantize: Quantize, kv_type: KVType, task: Task) -> float:
    """Return doublings of a billion weights, less the quantisation loss, plus a bonus for
    the task.
    """
    costs = candidate.costs
    parameters = max(1, costs.parameters)
    bits = _NF4_BITS if quantize == "nf4" else costs.stored * 8 / parameters
    loss = _LOSS_AT_FOUR_BITS * 2 ** ((_FOUR_BITS - min(bits, 16)) / _BITS_A_DOUBLING)
    # The weights of a dense model of equal quality: for a mixture of experts that is the geometric
    # mean of total and active weights, a rule of thumb.
    dense = float(parameters)
    if costs.shape is not None and costs.shape.expert_count:
        dense *= sqrt(bytes_per_token(costs) / max(1, costs.stored))
    quality = log2(dense / 1e9) - min(loss, 8.0) - _KV_LOSS.get(kv_type, 0.0)
    if candidate.codes:
        quality += _CODER if task == "code" else -_CODER_AT_CHAT
    return quality


def score_option(
    quality: float,
    speed: PredictedSpeed | None,
    batch: float,
    memory: int,
    context: int,
    need: Need,
) -> float:
    """Return the score by which options are compared; more is better."""
    budget = _TASTE_FOR_CONTEXT * log2(max(context, 1) / 4096)
    if need == "memory":
        return quality - _MEMORY_WEIGHT * log2(max(memory, _LITTLE) / 1e9)
    if need == "batch":
        return quality + budget + (_BATCH_WEIGHT * log2(batch) if batch > 0 else 0.0)
    weight, soon = (_TIME_WEIGHT, _SOON) if need == "latency" else (_TASTE_FOR_TIME, _PATIENT)
    return quality + budget - weight * log2(max(soon, seconds_of_answer(speed)) / soon)


def seconds_of_answer(speed: PredictedSpeed | None) -> float:
    """Return the seconds of a typical prompt and answer; 1 if the speed is unknown."""
    return _SOON if speed is None else _PROMPT / speed.prefill + _ANSWER / speed.decode


def batch_rate(speed: PredictedSpeed | None, streams: int) -> float:
    """Return total tokens per second of `streams` concurrent answers, whose steps read the weights
    once.
    """
    if speed is None:
        return 0.0
    return streams / max(1 / speed.decode, streams / (_SMALL_BATCH * speed.prefill))
