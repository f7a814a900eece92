"""Samples the tokens of a whole batch from its logits."""

from __future__ import annotations

import llama_cpp
import numpy as np
from numpy.typing import NDArray

from ..base.events import TokenLogprobs
from ..base.sampling_params import SamplingParams
from ..engine.batch import Sampled, ScheduledChunk
from ..engine.constraint import Constraint
from ..engine.logprobs import token_logprobs
from ..engine.sequence import Sequence
from .sampler_chain import DrySamplers, SamplerChain

Logits = NDArray[np.float32]


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

    def sample(self, chunk: ScheduledChunk, logits: Logits, position: int) -> Sampled:
        """Sample along the chunk's draft tokens until one differs from the sampled token.

        `logits` (1 + drafts, vocab_size) begin at batch `position`; they are not modified.
        """
        sequence = chunk.sequence
        wanted = sequence.logprobs
        tokens: list[int] = []
        logprobs: list[TokenLogprobs] | None = None if wanted is None else []
        for offset, row in enumerate(logits):
            token = self._sample_row(sequence, row, position + offset)
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

    def _sample_row(self, sequence: Sequence, row: Logits, position: int) -> int:
        constraint = sequence.constraint
        if constraint is not None:
            return self._sample_constrained(sequence, constraint, row)
        if sequence.sampling.is_plain_greedy:
            return int(row.argmax())
        return self._chain(sequence).sample(self._context, position)

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
                prompt=sequence.token_ids[: sequence.prompt_length],
                context=self._window,
                dry_samplers=self._dry_samplers,
            )
        return chain
