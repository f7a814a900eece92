"""Samples the tokens of a whole batch from its logits, with one sampler chain per sequence."""

from __future__ import annotations

import ctypes
import secrets
import threading
from collections import OrderedDict
from collections.abc import Iterator
from typing import TypeAlias

import llama_cpp
import numpy as np
from numpy.typing import NDArray

from ..base.errors import UnsupportedSampling
from ..base.events import TokenLogprobs
from ..base.sampling_params import SamplingParams, active_options
from ..engine.batch import Sampled, ScheduledChunk
from ..engine.constraint import Constraint
from ..engine.logprobs import token_logprobs
from ..engine.prescribed_tokens import PrescribedTokens
from ..engine.sequence import Sequence

Logits = NDArray[np.float32]
Prompt = list[int] | tuple[int, ...]


class LlamaBatchSampler:
    """Keeps the sampling state of every sequence; used from the thread that decodes.

    A sequence's tokens depend on its own logits, state and seed alone, not on the rest of the
    batch. (The logits themselves vary slightly with the batch's shape, so near-ties may resolve
    differently.)
    """

    def __init__(
        self, context: llama_cpp.llama_context_p, vocab: llama_cpp.llama_vocab_p, *, window: int
    ) -> None:
        """`window` is the most tokens of a sequence."""
        self._context = context
        self._vocab = vocab
        self._window = window
        self._dry_samplers = DrySamplers(vocab, window=window)
        self._chains: dict[Sequence, SamplerChain] = {}

    def prepare(self, params: SamplingParams) -> None:
        """Prepare slow samplers ahead of sequences with these parameters, from any thread."""
        self._dry_samplers.prepare(params)

    def sample(self, chunk: ScheduledChunk, logits: Logits, position: int | None = None) -> Sampled:
        """Sample along the chunk's draft tokens until one differs from the sampled token.

        `logits` (1 + drafts, vocab_size) begin at batch `position`, or are no longer those of the
        context; they are not modified.
        """
        sequence = chunk.sequence
        wanted = sequence.logprobs
        tokens: list[int] = []
        logprobs: list[TokenLogprobs] | None = None if wanted is None else []
        for offset, row in enumerate(logits):
            place = None if position is None else position + offset
            token = self._sample_row(sequence, row, place)
            tokens.append(token)
            if logprobs is not None:
                logprobs.append(token_logprobs(row, token, wanted or 0))
            constraint = sequence.constraint
            if constraint is not None and (constraint.complete or constraint.error):
                return Sampled(tokens, logprobs, complete=True, error=constraint.error)
            if offset == len(chunk.drafts) or token != chunk.drafts[offset]:
                break
        return Sampled(tokens, logprobs)

    def forget(self, sequence: Sequence) -> None:
        """Free the state of a finished sequence."""
        chain = self._chains.pop(sequence, None)
        if chain is not None:
            chain.close()

    def close(self) -> None:
        """Free everything."""
        for chain in self._chains.values():
            chain.close()
        self._chains.clear()
        self._dry_samplers.close()

    def _sample_row(self, sequence: Sequence, row: Logits, position: int | None) -> int:
        constraint = sequence.constraint
        if isinstance(constraint, PrescribedTokens) and (token := constraint.next) is not None:
            constraint.consume(token)  # without the sampler, whose random numbers are the answer's
            return token
        if constraint is not None:
            return self._sample_constrained(sequence, constraint, row)
        if sequence.sampling.is_plain_greedy:
            return int(row.argmax())
        chain = self._chain(sequence)
        if position is None:
            return chain.sample_among(np.arange(len(row)), row)
        return chain.sample(self._context, position)

    def _sample_constrained(self, sequence: Sequence, constraint: Constraint, row: Logits) -> int:
        """Sample an allowed token; after the constraint fails, the token is meaningless."""
        best = int(row.argmax())
        greedy = sequence.sampling.is_plain_greedy
        if greedy and constraint.allows(best):  # the overall best is also the best of the allowed
            token = best
        else:
            allowed = np.flatnonzero(constraint.mask())
            if not len(allowed):
                return best
            token = (
                int(allowed[row[allowed].argmax()])
                if greedy
                else self._chain(sequence).sample_among(allowed, row)
            )
        constraint.consume(token)
        return token

    def _chain(self, sequence: Sequence) -> SamplerChain:
        chain = self._chains.get(sequence)
        if chain is None:
            chain = self._chains[sequence] = SamplerChain(
                sequence.sampling,
                vocab=self._vocab,
                index=sequence.index,
                prompt=[t for t in sequence.token_ids[: sequence.prompt_length] if t >= 0],
                context=self._window,
                dry_samplers=self._dry_samplers,
            )
        return chain


# The largest 32-bit number is llama.cpp's code for a random seed, so it is excluded.
_SEEDS = 2**32 - 1
# A token this much less likely than the likeliest can never be sampled.
_IMPOSSIBLE = 1e-30
_MIROSTAT_CANDIDATES = 100
CHAIN_OPTIONS = frozenset(
    {
        *("repeat_penalty", "frequency_penalty", "presence_penalty", "repeat_last_n"),
        *("dry_multiplier", "dry_base", "dry_allowed_length", "dry_penalty_last_n"),
        *("top_n_sigma", "top_k", "typical_p", "top_p", "min_p"),
        *("xtc_probability", "xtc_threshold"),
        *("temperature", "dynatemp_range", "dynatemp_exponent"),
        *("mirostat", "mirostat_tau", "mirostat_eta"),
    }
)
"""The sampling options for which a chain has a sampler; any other that is active is an error."""
_CANDIDATE = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])

Sampler: TypeAlias = "llama_cpp.llama_sampler_p"

_KEPT_DRY = 8

_DryKey = tuple[tuple[str, ...], float, float, int, int]


class SamplerChain:
    """Samples tokens for one sequence, with the state of its penalties and random stream.

    The order is `SamplingParams`'; samplers without effect are left out.
    """

    def __init__(
        self,
        params: SamplingParams,
        *,
        vocab: llama_cpp.llama_vocab_p,
        index: int = 0,
        prompt: Prompt = (),
        context: int,
        dry_samplers: DrySamplers,
    ) -> None:
        """`index` distinguishes sequences with the same seed; nothing looks back beyond
        `context`.
        """
        self._dry_samplers = dry_samplers
        self._vocab_size = llama_cpp.llama_vocab_n_tokens(vocab)
        self._seed = _seed(params.seed, index)
        self._context = context
        self._candidates: NDArray[np.void] | None = None
        self._chain = llama_cpp.llama_sampler_chain_init(
            llama_cpp.llama_sampler_chain_default_params()
        )
        for sampler in self._samplers(params, prompt):
            if not sampler:
                raise MemoryError("llama.cpp made no sampler")
            llama_cpp.llama_sampler_chain_add(self._chain, sampler)

    def sample(self, context: llama_cpp.llama_context_p, row: int) -> int:
        """Sample from the logits that batch position `row` asked for."""
        return llama_cpp.llama_sampler_sample(self._chain, context, row)

    def sample_among(self, token_ids: NDArray[np.intp], logits: NDArray[np.float32]) -> int:
        """Sample one of these tokens; `logits` cover the whole vocabulary and are not modified."""
        count = len(token_ids)
        if self._candidates is None:
            self._candidates = np.empty(self._vocab_size, _CANDIDATE)
        candidates = self._candidates[:count]
        candidates["id"] = token_ids
        candidates["logit"] = logits[token_ids]
        data = ctypes.cast(candidates.ctypes.data, llama_cpp.llama_token_data_p)
        array = llama_cpp.llama_token_data_array(data, count, -1, False)
        llama_cpp.llama_sampler_apply(self._chain, ctypes.pointer(array))  # pyright: ignore[reportArgumentType]
        if not 0 <= array.selected < array.size:
            raise RuntimeError(f"llama.cpp sampled none of {count} tokens")
        token_id = array.data[array.selected].id
        llama_cpp.llama_sampler_accept(self._chain, token_id)
        return token_id

    def close(self) -> None:
        """Free the chain and the samplers in it."""
        llama_cpp.llama_sampler_free(self._chain)

    def _samplers(self, params: SamplingParams, prompt: Prompt) -> Iterator[Sampler]:
        if unknown := active_options(params) - CHAIN_OPTIONS:
            raise UnsupportedSampling(unknown)
        if params.logit_bias:
            yield _logit_bias(params.logit_bias, self._vocab_size)
        if params.has_penalties:
            yield llama_cpp.llama_sampler_init_penalties(
                self._vocab_size,
                _look_back(params.repeat_last_n, self._context),
                params.repeat_penalty,
                params.frequency_penalty,
                params.presence_penalty,
            )
        if params.has_dry:
            yield self._dry(params, prompt)
        if params.temperature <= 0:
            yield llama_cpp.llama_sampler_init_greedy()
        elif params.mirostat:
            yield from self._mirostat(params)
        else:
            yield from self._cuts(params)
            yield llama_cpp.llama_sampler_init_temp_ext(
                params.temperature, params.dynatemp_range, params.dynatemp_exponent
            )
            yield llama_cpp.llama_sampler_init_dist(self._seed)

    def _cuts(self, params: SamplingParams) -> Iterator[Sampler]:
        if params.top_n_sigma > 0:
            yield llama_cpp.llama_sampler_init_top_n_sigma(params.top_n_sigma)
        if params.top_k > 0:
            yield llama_cpp.llama_sampler_init_top_k(params.top_k)
        if params.typical_p < 1:
            yield _possible()
            yield llama_cpp.llama_sampler_init_typical(params.typical_p, 1)
        if params.top_p < 1:
            yield llama_cpp.llama_sampler_init_top_p(params.top_p, 1)
        if params.min_p > 0:
            yield llama_cpp.llama_sampler_init_min_p(params.min_p, 1)
        if params.xtc_probability > 0:
            yield llama_cpp.llama_sampler_init_xtc(
                params.xtc_probability, params.xtc_threshold, 1, self._seed
            )

    def _mirostat(self, params: SamplingParams) -> Iterator[Sampler]:
        yield _possible()
        yield llama_cpp.llama_sampler_init_temp(params.temperature)
        tau, eta = params.mirostat_tau, params.mirostat_eta
        if params.mirostat == 1:
            yield llama_cpp.llama_sampler_init_mirostat(
                self._vocab_size, self._seed, tau, eta, _MIROSTAT_CANDIDATES
            )
        else:
            yield llama_cpp.llama_sampler_init_mirostat_v2(self._seed, tau, eta)

    def _dry(self, params: SamplingParams, prompt: Prompt) -> Sampler:
        dry = self._dry_samplers.new(params)
        for token_id in prompt[-_look_back(params.dry_penalty_last_n, self._context) :]:
            llama_cpp.llama_sampler_accept(dry, token_id)
        return dry


def _look_back(tokens: int, most: int) -> int:
    """Return how many tokens to look back, since llama.cpp allocates all; negative means `most`."""
    return most if tokens < 0 else min(tokens, most)


def _possible() -> Sampler:
    """Return a sampler that drops tokens of probability zero, since later ones take the
    logarithm.
    """
    return llama_cpp.llama_sampler_init_min_p(_IMPOSSIBLE, 1)


def _seed(seed: int | None, index: int) -> int:
    if seed is None:
        return secrets.randbelow(_SEEDS)
    return (seed + index) % _SEEDS


def _logit_bias(bias: dict[int, float], vocab_size: int) -> Sampler:
    entries = (llama_cpp.llama_logit_bias * len(bias))()
    for entry, (token, value) in zip(entries, bias.items(), strict=True):
        entry.token = token
        entry.bias = value
    return llama_cpp.llama_sampler_init_logit_bias(vocab_size, len(bias), entries)


class DrySamplers:
    """Keeps the most recent DRY samplers, from which new ones are cloned; thread-safe.

    Creating one searches the vocabulary for 10 to 60 ms per sequence breaker; a clone takes
    microseconds.
    """

    def __init__(self, vocab: llama_cpp.llama_vocab_p, *, window: int) -> None:
        """No sampler looks back further than `window` tokens."""
        self._vocab = vocab
        self._max_window = window
        self._made: OrderedDict[_DryKey, Sampler] = OrderedDict()
        self._lock = threading.Lock()

    def prepare(self, params: SamplingParams) -> None:
        """Create the sampler for these parameters, if they need one, before it is used."""
        if params.has_dry:
            with self._lock:
                self._prototype(params)

    def new(self, params: SamplingParams) -> Sampler:
        """Return a sampler without history; the caller frees it."""
        with self._lock:
            return llama_cpp.llama_sampler_clone(self._prototype(params))

    def close(self) -> None:
        """Free the cached samplers."""
        while self._made:
            llama_cpp.llama_sampler_free(self._made.popitem()[1])

    def _prototype(self, params: SamplingParams) -> Sampler:
        breakers = tuple(dict.fromkeys(params.dry_sequence_breakers))
        window = _look_back(params.dry_penalty_last_n, self._max_window)
        numbers = (params.dry_multiplier, params.dry_base, params.dry_allowed_length, window)
        key = (breakers, *numbers)
        sampler = self._made.get(key)
        if sampler is None:
            texts = [text.encode("utf-8", "replace") for text in breakers]
            array = (ctypes.c_char_p * len(texts))(*texts)
            sampler = llama_cpp.llama_sampler_init_dry(  # pyright: ignore[reportUnknownMemberType]
                self._vocab, *numbers, array, len(texts)
            )
            if not sampler:
                raise MemoryError("llama.cpp made no sampler")
            self._made[key] = sampler
            if len(self._made) > _KEPT_DRY:
                llama_cpp.llama_sampler_free(self._made.popitem(last=False)[1])
        self._made.move_to_end(key)
        return sampler
