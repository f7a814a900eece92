"""Split-KV attention: partial outputs, and how they combine."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, eq=False)
class AttentionPartials:
    """Attention of a step's tokens to `splits` parts of their keys, still to be combined.

    `outputs` (splits, tokens, heads, head_size) fp32 are what each part alone would give: weighted
    by a softmax over its keys. `log_sums` (splits, tokens, heads) fp32 are the natural logarithms
    of the sums of exponentials: a split's share is exp(log_sum - log of the sum over all splits).
    Minus infinity marks a split without keys: its output was not written, and may be NaN. Plus
    infinity in split 0 marks a row that was not split: it is in `dense` (tokens, heads, head_size)
    fp16 or bf16, where the other rows go, too. If `log_sums` is None, all rows are in `dense`.
    Heads of quantised values are still rotated. Rows of tokens that belong to no sequence are
    undefined.
    """

    dense: torch.Tensor
    outputs: torch.Tensor | None = None
    log_sums: torch.Tensor | None = None

    @property
    def splits(self) -> int:
        """The number of parts; 0 if no row is split."""
        return 0 if self.log_sums is None else self.log_sums.shape[0]


def combine_partials_reference(partials: AttentionPartials) -> torch.Tensor:
    """The combined output (tokens, heads, head_size) fp32, as rotated as the parts are."""
    if partials.outputs is None or partials.log_sums is None:
        return partials.dense.float()
    whole = partials.log_sums[0] == torch.inf
    log_sums = partials.log_sums.masked_fill(whole, -torch.inf)
    shares = (log_sums - torch.logsumexp(log_sums, 0)).exp().nan_to_num(0.0).unsqueeze(-1)
    outputs = partials.outputs.masked_fill(shares == 0, 0.0)
    return torch.where(whole.unsqueeze(-1), partials.dense.float(), (outputs * shares).sum(0))
