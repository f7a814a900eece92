"""Draws the tokens of a whole batch from its logits."""

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
from .dry_samplers import DrySamplers
from .sampler_chain import SamplerChain

Logits = NDArray[np.float32]


class BatchSampler:
    """Keeps the sampling state of every sequence; used from the thread that decodes.

    What a sequence gets depends on its own logits, state and seed alone, not on who else is in the
    batch. (The logits themselves move a little with the batch's shape, so that a near-tie between
    two tokens may still go either way.)
    """

    def __init__(
        self, context: llama_cpp.llama_context_p, vocab: llama_cpp.llama_vocab_p, *, room: int
    ) -> None:
        """`room` is how many tokens a sequence may have."""
        self._context = context
        self._vocab = vocab
        self._room = room
        self._dry_samplers = DrySamplers(vocab, room=room)
        self._chains: dict[Sequence, SamplerChain] = {}

    def prepare(self, params: SamplingParams) -> None:
        """Do ahead, from any thread, what takes long for sequences with these parameters."""
        self._dry_samplers.prepare(params)

    def sample(self, chunk: ScheduledChunk, logits: Logits, position: int) -> Sampled:
        """Draw along the chunk's drafts until one is not what was drawn.

        `logits` (1 + drafts, vocab_size) begin at batch `position`; they stay as they are.
        """
        sequence = chunk.sequence
        wanted = sequence.logprobs
        tokens: list[int] = []
        logprobs: list[TokenLogprobs] | None = None if wanted is None else []
        for offset, row in enumerate(logits):
            token = self._draw(sequence, row, position + offset)
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
        """Free what is kept for a sequence that ended."""
        chain = self._chains.pop(sequence, None)
        if chain is not None:
            chain.close()

    def close(self) -> None:
        """Free everything."""
        for chain in self._chains.values():
            chain.close()
        self._chains.clear()
        self._dry_samplers.close()

    def _draw(self, sequence: Sequence, row: Logits, position: int) -> int:
        constraint = sequence.constraint
        if constraint is not None:
            return self._draw_constrained(sequence, constraint, row)
        if sequence.sampling.is_plain_greedy:
            return int(row.argmax())
        return self._chain(sequence).sample(self._context, position)

    def _draw_constrained(self, sequence: Sequence, constraint: Constraint, row: Logits) -> int:
        """Draw what the constraint allows; once that fails, the token says nothing."""
        best = int(row.argmax())
        greedy = sequence.sampling.is_plain_greedy
        if greedy and constraint.allows(best):  # the best of all is the best of those allowed
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
                context=self._room,
                dry_samplers=self._dry_samplers,
            )
        return chain
