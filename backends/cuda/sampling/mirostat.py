"""Mirostat: truncation by the surprise of the tokens so far."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from ...base.sampling_params import SamplingParams
from .candidates import likeliest

_IMPOSSIBLE = math.log(1e-30)
_SLOPE_TOKENS = 100
"""How many of the likeliest tokens version 1 estimates the slope of the distribution from."""


@dataclass(frozen=True)
class MirostatDraw:
    """A token, and `mu` after it; `mu_if_draft` is what it is where the draft was right.

    All are tensors without dimensions on the logits' device, so that nothing waits for them.
    """

    token: torch.Tensor
    mu: torch.Tensor
    mu_if_draft: torch.Tensor


def first_mu(params: SamplingParams, device: torch.device) -> torch.Tensor:
    """Where `mu` begins."""
    return torch.full((), 2.0 * params.mirostat_tau, dtype=torch.float64, device=device)


def mirostat_draw(
    logits: torch.Tensor, params: SamplingParams, mu: torch.Tensor, random: torch.Tensor, draft: int
) -> MirostatDraw:
    """Draw from `logits` (vocab,) by a number in (0, 1]; `draft` is its draft token, or -1."""
    values, ids = likeliest(logits, logits.shape[-1])
    values = values.double()
    alive = values >= values[0] + _IMPOSSIBLE
    scaled = (values / params.temperature).masked_fill(~alive, -torch.inf)
    p = torch.softmax(scaled, -1)
    if params.mirostat == 1:
        kept = torch.arange(len(p), device=p.device) < _version_1_count(p, alive, mu)
    else:
        kept = (-torch.log2(p) <= mu) | (torch.arange(len(p), device=p.device) == 0)
    p = torch.softmax(scaled.masked_fill(~kept, -torch.inf), -1)
    sums = p.cumsum(-1)
    # An index of no dimensions would be read by the host.
    place = (sums < random * sums[-1]).sum(-1, keepdim=True)
    token, chance = ids.gather(-1, place)[0], p.gather(-1, place)[0]
    chance_of_draft = torch.where(ids == draft, p, 0.0).sum()
    return MirostatDraw(token, _next_mu(mu, chance, params), _next_mu(mu, chance_of_draft, params))


def _version_1_count(p: torch.Tensor, alive: torch.Tensor, mu: torch.Tensor) -> torch.Tensor:
    """How many tokens give the surprise `mu`, if the distribution is Zipf's."""
    pairs = min(_SLOPE_TOKENS, len(p)) - 1
    ranks = torch.arange(1, pairs + 1, dtype=p.dtype, device=p.device)
    steps = torch.log((ranks + 1) / ranks)
    falls = torch.log(p[:pairs] / p[1 : pairs + 1])
    real = alive[1 : pairs + 1]
    slope = torch.where(real, steps * falls, 0.0).sum() / (
        torch.where(real, steps * steps, 0.0).sum()
    )
    excess = slope - 1
    whole = excess * torch.exp2(mu) / (1 - torch.pow(float(len(p)), -excess))
    return torch.nan_to_num(whole.pow(1 / slope), nan=1.0).floor().clamp_min(1)


def _next_mu(mu: torch.Tensor, chance: torch.Tensor, params: SamplingParams) -> torch.Tensor:
    surprise = -torch.log2(chance.clamp_min(torch.finfo(chance.dtype).tiny))
    return mu - params.mirostat_eta * (surprise - params.mirostat_tau)
