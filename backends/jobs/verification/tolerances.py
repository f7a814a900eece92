"""Tolerances for the difference between an engine and its reference."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from .logit_comparison import Statistics


class ReferenceEngine(StrEnum):
    """The engines that can be the reference."""

    LLAMA_CPP = "llama.cpp"
    TRANSFORMERS = "transformers"


class Tolerances(msgspec.Struct, frozen=True, kw_only=True):
    """The largest differences allowed for a correct engine.

    llama.cpp multiplies quantised weights with 8-bit activations, which alone costs 2 to 3
    thousandths of a nat and some agreement on small models; 16-bit weights it reads nearly as they
    are. `transformers` computes with dequantised weights in float32, as exactly as the reference
    operations here do.
    """

    mean_kl: float
    top1_agreement: float
    perplexity_difference: float


def limits_for(against: ReferenceEngine, *, quantized: bool) -> Tolerances:
    """Return the tolerances for a file with `quantized` or floating-point weights."""
    if against is ReferenceEngine.TRANSFORMERS:
        return Tolerances(mean_kl=1e-4, top1_agreement=0.995, perplexity_difference=5e-3)
    mean_kl = 5e-3 if quantized else 1e-4
    return Tolerances(mean_kl=mean_kl, top1_agreement=0.95, perplexity_difference=5e-3)


def exceeded(statistics: Statistics, limits: Tolerances) -> list[str]:
    """Return the names of the statistics outside their tolerances."""
    within = {
        "mean_kl": statistics.mean_kl <= limits.mean_kl,
        "top1_agreement": statistics.top1_agreement >= limits.top1_agreement,
        "perplexity_difference": abs(statistics.perplexity_difference)
        <= limits.perplexity_difference,
    }
    return [name for name, is_within in within.items() if not is_within]
