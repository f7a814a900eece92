"""The state space of Mamba-2: inputs that are written to a state a head, which decays."""

from __future__ import annotations

import torch

from .decayed_sum import CHUNK, decays_between, read_and_write


def state_space_reference(
    x: torch.Tensor,
    step: torch.Tensor,
    decay: torch.Tensor,
    write: torch.Tensor,
    read: torch.Tensor,
    state: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Outputs (batch, tokens, heads, head_size) fp32, and the state after the last token.

    All are fp32: `x` (batch, tokens, heads, head_size) the inputs, `step` (batch, tokens, heads)
    how long each token lasts, `decay` (heads,) the logarithm of what is left after a step of one,
    `write` and `read` (batch, tokens, groups, state_size) where a token's input goes and what it
    sees, for consecutive heads of a group alike, and `state` (batch, heads, state_size, head_size).
    """
    share = x.shape[2] // write.shape[2]
    parts: list[torch.Tensor] = []
    for start in range(0, x.shape[1], CHUNK):
        some = slice(start, start + CHUNK)
        steps = step[:, some].transpose(1, 2)
        total = (steps * decay[:, None]).cumsum(-1)
        output, state = read_and_write(
            read[:, some].transpose(1, 2).repeat_interleave(share, 1),
            write[:, some].transpose(1, 2).repeat_interleave(share, 1),
            x[:, some].transpose(1, 2) * steps[..., None],
            total,
            decays_between(total),
            state,
        )
        parts.append(output.transpose(1, 2))
    return torch.cat(parts, 1), state
