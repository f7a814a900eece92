"""Sample the tokens of a whole batch on the device that computed its logits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray

from ingle.kernels.launch.kernel_library import KernelLibrary
from ingle.kernels.token_sampling import MAX_VOCAB

from ...base.events import TokenLogprobs
from ...base.sampling_params import SamplingParams
from ...engine.batch import Sampled, ScheduledChunk, sampling_rows
from ...engine.sequence import Sequence
from ...text.tokenization.tokenizer import Tokenizer
from .dry_penalties import DryPenalties
from .fused_sampler import FusedDraw, FusedRows
from .logit_adjustments import Adjustments
from .logprob_rows import LogprobRows, read_logprobs
from .mirostat import first_mu, mirostat_draw
from .row_sampler import RowSampler, SamplingPath
from .sampling_state import SamplingPlan, SamplingState
from .token_masks import TokenMasks
from .upload import upload

Mus = dict[Sequence, list[torch.Tensor]]


@dataclass
class PendingSamples:
    """What was drawn on the device for some chunks, and has not arrived yet.

    `tokens` (rows,) int64 stay on the device. `rows` (rows, 1 or more) has each row's token, and
    then what `LogprobRows` appended; `mus` are mirostat's after each row of a sequence.
    """

    chunks: list[ScheduledChunk]
    tokens: torch.Tensor
    rows: torch.Tensor
    masks: TokenMasks
    mus: Mus
    arrived: torch.cuda.Event | None = None


class BatchSampler:
    """Keeps the sampling state of every sequence, and samples for all of them at once.

    A sequence's tokens depend on its own logits, state and seed alone: its random numbers are those
    of its seed and of a token's place in its answer, whatever else is in the batch, and whether or
    not the token was drafted. Only `finish` waits for the device.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        device: torch.device,
        *,
        room: int,
        kernels: KernelLibrary | None = None,
    ) -> None:
        """`room` is the most tokens of a sequence; torch does what `kernels` cannot."""
        self._vocab_size = tokenizer.vocab_size
        self._device = device
        self._dry = DryPenalties(tokenizer, room=room)
        self._states: dict[Sequence, SamplingState] = {}
        fits = kernels is not None and tokenizer.vocab_size <= MAX_VOCAB
        self._fused = FusedDraw(kernels, device) if kernels and fits else None

    def prepare(self, params: SamplingParams) -> None:
        """Do ahead, from any thread, what takes long for sequences with these parameters."""
        self._dry.prepare(params)

    @staticmethod
    def can_follow(params: SamplingParams) -> bool:
        """See `ModelRunner.can_follow`: only penalties are counted on the device where needed."""
        biased = params.has_penalties and params.logit_bias
        return not (biased or params.has_dry or params.mirostat)

    def launch(
        self, chunks: list[ScheduledChunk], logits: torch.Tensor, drawn: torch.Tensor | None = None
    ) -> PendingSamples:
        """Start drawing for chunks that sample, each position as if its drafts were right.

        `logits` (rows, vocabulary or more) float32 has 1 + drafts rows of each chunk in turn, and
        may be overwritten. Grammars compute their masks here, on the host. Awaited tokens are in
        `drawn`, the tokens of the launch before.
        """
        logits = logits[:, : self._vocab_size]
        logprobs = LogprobRows(chunks)
        masks = TokenMasks(chunks)
        keep = logprobs.wanted
        mus: Mus = {}
        if self._fused is None and all(c.sequence.sampling.is_plain_greedy for c in chunks):
            tokens = masks.apply(logits, keep=keep).argmax(-1)
        else:
            tokens, mus = self._draw(chunks, logits, masks, drawn, keep=keep)
        rows = tokens[:, None]
        if logprobs.wanted:
            rows = logprobs.append(logits, tokens)
        return self._send(PendingSamples(chunks, tokens, rows, masks, mus))

    def is_plain(self, chunks: list[ScheduledChunk]) -> bool:
        """Whether each of these draws one token, from its logits and by `plain_rows` alone."""
        return self._fused is not None and all(map(self._is_plain, chunks))

    def plain_rows(self, chunks: list[ScheduledChunk]) -> NDArray[np.void]:
        """The `SAMPLE_ROW` of each of the plain chunks."""
        rows = FusedRows.find(chunks, [self._state(chunk.sequence) for chunk in chunks], None)
        assert rows is not None
        return rows.rows

    def send(self, chunks: list[ScheduledChunk], tokens: torch.Tensor) -> PendingSamples:
        """Start to copy the tokens (rows,) of plain chunks, which may be overwritten afterwards."""
        rows = tokens[:, None] if self._device.type == "cuda" else tokens[:, None].clone()
        return self._send(PendingSamples(chunks, tokens, rows, TokenMasks(chunks), {}))

    def finish(self, pending: PendingSamples) -> list[Sampled]:
        """Wait for what was launched; what each chunk got, up to its first wrong draft."""
        if pending.arrived is not None:
            pending.arrived.synchronize()
        rows = cast("list[list[float]]", pending.rows.tolist())  # pyright: ignore[reportUnknownMemberType]
        results: list[Sampled] = []
        for places, chunk in sampling_rows(pending.chunks):
            sampled = _accept(chunk, rows, places, pending.masks)
            if chunk.sequence in pending.mus:
                mus = pending.mus[chunk.sequence]
                self._state(chunk.sequence).mu = mus[len(sampled.token_ids) - 1]
            results.append(sampled)
        return results

    def forget(self, sequence: Sequence) -> None:
        """Free what is kept for a sequence that ended."""
        self._states.pop(sequence, None)

    def _is_plain(self, chunk: ScheduledChunk) -> bool:
        sequence = chunk.sequence
        if not chunk.samples or chunk.drafts or sequence.logprobs is not None:
            return False
        state = self._state(sequence)
        return sequence.constraint is None and state.fused is not None and not state.adjusts

    def _send(self, pending: PendingSamples) -> PendingSamples:
        """Start the one copy to the host."""
        if self._device.type == "cuda":
            host = torch.empty(pending.rows.shape, dtype=pending.rows.dtype, pin_memory=True)
            pending.rows = host.copy_(pending.rows, non_blocking=True)
            pending.arrived = torch.cuda.Event()
            pending.arrived.record()
        return pending

    def _draw(
        self,
        chunks: list[ScheduledChunk],
        logits: torch.Tensor,
        masks: TokenMasks,
        drawn: torch.Tensor | None,
        *,
        keep: bool,
    ) -> tuple[torch.Tensor, Mus]:
        """Tokens of all rows; `logits` stay as they are if they are to `keep`."""
        states = [self._state(chunk.sequence) for chunk in chunks]
        adjustments = Adjustments(chunks, states, self._dry)
        tokens = torch.empty(len(logits), dtype=torch.int64, device=self._device)
        others = [state.fused is None or self._fused is None for state in states]
        allowed = masks.apply(logits, keep=keep) if any(others) else logits
        changes = None if adjustments.are_none else adjustments
        if keep and allowed is logits and changes is not None:
            allowed = logits.clone()
        if self._fused is None:
            adjustments.apply(allowed, drawn)
        else:
            fused = FusedRows.find(chunks, states, None if any(others) else masks)
            self._fused.draw(allowed, fused, changes, tokens, drawn)
        return tokens, self._draw_others(chunks, states, others, allowed, tokens)

    def _draw_others(
        self,
        chunks: list[ScheduledChunk],
        states: list[SamplingState],
        wanted: list[bool],
        logits: torch.Tensor,
        tokens: torch.Tensor,
    ) -> Mus:
        """Write the tokens of those `wanted` that no kernel draws."""
        mus: Mus = {}
        if not any(wanted):
            return mus
        plan = SamplingPlan(chunks, states, wanted)
        random = upload(plan.randoms(), self._device)
        for route, places in plan.places.items():
            rows = upload(places, self._device)
            if route is SamplingPath.GREEDY:
                tokens[rows] = logits[rows].argmax(-1)
            elif route is not SamplingPath.MIROSTAT:
                sampler = RowSampler(route, plan.numbers(places), self._device)
                tokens[rows] = sampler.draw(logits[rows], random[rows])
        for first, chunk, state in plan.mirostat:
            mus[chunk.sequence] = self._draw_mirostat(first, chunk, state, logits, random, tokens)
        return mus

    def _draw_mirostat(
        self,
        first: int,
        chunk: ScheduledChunk,
        state: SamplingState,
        logits: torch.Tensor,
        random: torch.Tensor,
        tokens: torch.Tensor,
    ) -> list[torch.Tensor]:
        """One row after the other, each as if all drafts before it had been drawn."""
        mu = state.mu if state.mu is not None else first_mu(state.params, self._device)
        mus: list[torch.Tensor] = []
        for offset, draft in enumerate((*chunk.drafts, -1)):
            row = first + offset
            drawn = mirostat_draw(logits[row], state.params, mu, random[row, 0], draft)
            tokens[row] = drawn.token
            mus.append(drawn.mu)
            mu = drawn.mu_if_draft
        return mus

    def _state(self, sequence: Sequence) -> SamplingState:
        state = self._states.get(sequence)
        if state is None:
            state = self._states[sequence] = SamplingState(sequence)
        return state


def _accept(
    chunk: ScheduledChunk, rows: list[list[float]], places: range, masks: TokenMasks
) -> Sampled:
    """The sampled tokens of a chunk, up to the first that differs from its draft."""
    wanted, constraint = chunk.sequence.logprobs, chunk.sequence.constraint
    tokens: list[int] = []
    logprobs: list[TokenLogprobs] | None = None if wanted is None else []
    for place, draft in zip(places, (*chunk.drafts, None), strict=True):
        row = rows[place]
        token = int(row[0])
        tokens.append(token)
        if logprobs is not None:
            logprobs.append(read_logprobs(row, wanted or 0))
        if constraint is not None:
            if not masks.forbids_all(place):
                constraint.consume(token)
            if constraint.complete or constraint.error:
                return Sampled(tokens, logprobs, complete=True, error=constraint.error)
        if token != draft:
            break
    return Sampled(tokens, logprobs)
