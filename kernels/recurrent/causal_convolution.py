"""A convolution over the last few tokens, each channel by itself, with its inputs as the state."""

from __future__ import annotations

import torch


def causal_convolution_reference(
    x: torch.Tensor, state: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Outputs (batch, tokens, channels) fp32, and the state after the last token.

    `x` is (batch, tokens, channels), `weight` (channels, kernel) fp32 with the token itself last,
    `state` (batch, channels, kernel - 1) fp32 the inputs before, the oldest first. The sum over a
    token's inputs has the same order however tokens are divided into calls.
    """
    tokens, kernel = x.shape[1], weight.shape[1]
    inputs = torch.cat((state, x.float().transpose(1, 2)), 2)
    output = inputs[..., :tokens] * weight[:, :1]
    for tap in range(1, kernel):
        output = output + inputs[..., tap : tap + tokens] * weight[:, tap : tap + 1]
    if bias is not None:
        output = output + bias[:, None]
    return output.transpose(1, 2), inputs[..., tokens:]
