"""Candidates for sampling: the tokens that no sampler has filtered out yet."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch.nn import functional

_IMPOSSIBLE = math.log(1e-30)
"""Tokens this much less likely than the likeliest one are never sampled."""


@dataclass
class Candidates:
    """The remaining candidates of each row; every tensor but `size` is (rows, width).

    `ids` are tokens, the likeliest first if the rows were sorted, `logits` float64. Tokens that are
    not `alive` were filtered out. `size` (rows, 1) counts candidates as llama.cpp does, which
    counts a token without any chance until a sampler removes it.

    Parameters of samplers are (rows, 1) float64; a row whose sampler is off stays as it is. Sums
    are in float64, so that what a row gets does not depend on the width its neighbours need.
    """

    ids: torch.Tensor
    logits: torch.Tensor
    alive: torch.Tensor
    size: torch.Tensor

    def probabilities(self) -> torch.Tensor:
        """Probabilities of the remaining candidates."""
        return torch.softmax(self.logits.masked_fill(~self.alive, -torch.inf), -1)

    def typical(self, mass: torch.Tensor) -> None:
        """Locally typical sampling: keep tokens of about the expected surprise, up to this mass."""
        on = mass < 1
        peak = self._peak()
        self._keep(self.logits >= peak + _IMPOSSIBLE, on)
        p = self.probabilities()
        log_p = torch.log(p.clamp_min(torch.finfo(p.dtype).tiny))
        entropy = _entropy(p)
        oddity = (-log_p - entropy).abs().masked_fill(~self.alive, torch.inf)
        order = oddity.argsort(dim=-1, stable=True)
        before = _sum_before(p.gather(-1, order))
        kept = torch.zeros_like(self.alive).scatter(-1, order, before <= mass)
        self._keep(kept, on)

    def top_p(self, mass: torch.Tensor) -> None:
        """Keep the likeliest until they have this mass; rows have to be sorted."""
        self._keep(_sum_before(self.probabilities()) < mass, mass < 1)

    def min_p(self, share: torch.Tensor) -> None:
        """Keep tokens with at least this share of the likeliest token's probability."""
        self._keep(self.logits >= self._peak() + torch.log(share), share > 0)

    def xtc(self, chance: torch.Tensor, threshold: torch.Tensor, draw: torch.Tensor) -> None:
        """With this chance, leave out all above the threshold but the last; in sorted rows."""
        on = (chance > 0) & (threshold <= 0.5) & (self.size >= 2) & (draw <= chance)
        above = self.alive & (self.probabilities() >= threshold)
        rank = above.cumsum(-1)
        self._keep(~above | (rank == rank[:, -1:]), on)

    def dynamic_temperature(
        self, temperature: torch.Tensor, spread: torch.Tensor, power: torch.Tensor
    ) -> torch.Tensor:
        """Each row's temperature, moved within `spread` by how uncertain the row is."""
        entropy = _entropy(self.probabilities())
        share = entropy / torch.log(self.size.double().clamp_min(2))
        low = (temperature - spread).clamp_min(0)
        moved = low + (temperature + spread - low) * share.pow(power)
        return torch.where((spread > 0) & (self.size > 1), moved, temperature)

    def scale(self, temperature: torch.Tensor) -> None:
        """Divide by the temperature; one of zero leaves the likeliest alone."""
        peak = self._peak()
        greedy = temperature <= 0
        self.alive &= ~greedy | (self.logits == peak)
        self.logits = (self.logits - peak) / torch.where(greedy, 1.0, temperature)

    def draw(self, random: torch.Tensor) -> torch.Tensor:
        """One token a row, by a number in (0, 1] for each."""
        sums = self.probabilities().cumsum(-1)
        place = (sums < random * sums[:, -1:]).sum(-1, keepdim=True)
        return self.ids.gather(-1, place).squeeze(-1)

    def _peak(self) -> torch.Tensor:
        return self.logits.masked_fill(~self.alive, -torch.inf).amax(-1, keepdim=True)

    def _keep(self, kept: torch.Tensor, on: torch.Tensor) -> None:
        """Leave out what is not kept, in the rows where the sampler is `on`."""
        kept = self.alive & kept
        self.alive = torch.where(on, kept, self.alive)
        self.size = torch.where(on, kept.sum(-1, keepdim=True), self.size)


def likeliest(logits: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The `count` largest of each row and their places, in order; of equal ones the first first.

    Equal logits are common where they were computed in 16 bits, and no order among them is
    promised by `torch.topk`: it could change with the number of rows.
    """
    width = logits.shape[-1]
    bits = (logits.float() + 0.0).view(torch.int32)  # of the two zeros one
    # Floats in the order of integers: negative ones have their other bits turned round.
    ordered = (bits ^ ((bits >> 31) & 0x7FFFFFFF)).long()
    places = torch.arange(width - 1, -1, -1, device=logits.device)
    keys = (ordered << 32) | places
    keys = keys.topk(count, -1).values if count < width else keys.sort(-1, descending=True).values
    ids = width - 1 - (keys & 0xFFFFFFFF)
    return logits.gather(-1, ids), ids


def leave_out_by_sigma(logits: torch.Tensor, sigmas: torch.Tensor) -> torch.Tensor:
    """Logits within so many standard deviations of the largest; the others cannot come any more."""
    possible = logits != -torch.inf
    count = possible.sum(-1, keepdim=True).clamp_min(1)
    mean = logits.masked_fill(~possible, 0).sum(-1, keepdim=True, dtype=torch.float64) / count
    apart = (logits - mean).masked_fill(~possible, 0)
    deviation = (apart.square().sum(-1, keepdim=True) / count).sqrt()
    least = logits.amax(-1, keepdim=True) - sigmas * deviation
    return logits.masked_fill((logits < least) & (sigmas > 0), -torch.inf)


def _entropy(p: torch.Tensor) -> torch.Tensor:
    """In nats; what has no chance adds nothing."""
    return -(p * torch.log(p.clamp_min(torch.finfo(p.dtype).tiny))).sum(-1, keepdim=True)


def _sum_before(p: torch.Tensor) -> torch.Tensor:
    """The sum of all that comes before each element of a row."""
    return functional.pad(p.cumsum(-1)[:, :-1], (1, 0))
