"""llama.cpp's sampler chains, one a sequence."""

from __future__ import annotations

import secrets

import llama_cpp

from ..base import SamplingParams

# The largest 32-bit number is llama.cpp's word for "any seed", so it is none.
_SEEDS = 2**32 - 1


class SamplerChain:
    """Draws tokens for one sequence and remembers what its penalties and random stream need."""

    def __init__(self, params: SamplingParams, *, index: int, vocab_size: int, window: int) -> None:
        """`window` is how many generated tokens the penalties look back on."""
        self._chain = llama_cpp.llama_sampler_chain_init(
            llama_cpp.llama_sampler_chain_default_params()
        )
        if params.logit_bias:
            self._add(_logit_bias(params.logit_bias, vocab_size))
        if params.has_penalties:
            self._add(
                llama_cpp.llama_sampler_init_penalties(
                    vocab_size,
                    window,
                    params.repeat_penalty,
                    params.frequency_penalty,
                    params.presence_penalty,
                )
            )
        if params.temperature <= 0:
            self._add(llama_cpp.llama_sampler_init_greedy())
            return
        self._add(llama_cpp.llama_sampler_init_top_k(params.top_k))
        self._add(llama_cpp.llama_sampler_init_top_p(params.top_p, 1))
        self._add(llama_cpp.llama_sampler_init_min_p(params.min_p, 1))
        self._add(llama_cpp.llama_sampler_init_temp(params.temperature))
        self._add(llama_cpp.llama_sampler_init_dist(_seed(params.seed, index)))

    def sample(self, context: llama_cpp.llama_context_p, row: int) -> int:
        """Draw from the logits that batch position `row` asked for."""
        return llama_cpp.llama_sampler_sample(self._chain, context, row)

    def close(self) -> None:
        """Free the chain and the samplers in it."""
        llama_cpp.llama_sampler_free(self._chain)

    def _add(self, sampler: llama_cpp.llama_sampler_p) -> None:
        if not sampler:
            raise MemoryError("llama.cpp made no sampler")
        llama_cpp.llama_sampler_chain_add(self._chain, sampler)


def _seed(seed: int | None, index: int) -> int:
    if seed is None:
        return secrets.randbelow(_SEEDS)
    return (seed + index) % _SEEDS


def _logit_bias(bias: dict[int, float], vocab_size: int) -> llama_cpp.llama_sampler_p:
    entries = (llama_cpp.llama_logit_bias * len(bias))()
    for entry, (token, value) in zip(entries, bias.items(), strict=True):
        entry.token = token
        entry.bias = value
    return llama_cpp.llama_sampler_init_logit_bias(vocab_size, len(bias), entries)
