"""The block types of 32 weights that share one scale: Q4_0, Q4_1, Q5_0, Q5_1 and Q8_0.

Each function takes whole blocks (blocks, bytes) uint8 and gives (blocks, 32) float32, with the
roundings of gguf-py. Layouts: the block structs of ggml-common.h.
"""

from __future__ import annotations

import torch


def half_precision(raw: torch.Tensor) -> torch.Tensor:
    """Little-endian 16-bit floats (n, 2 k) uint8 as (n, k) float32."""
    # A copy, because a view would ask for an even storage offset.
    return raw.clone(memory_format=torch.contiguous_format).view(torch.float16).float()


def dequantize_q8_0(blocks: torch.Tensor) -> torch.Tensor:
    """A scale, then 32 signed bytes."""
    return blocks[:, 2:].view(torch.int8).float().mul_(half_precision(blocks[:, :2]))


def dequantize_q4_0(blocks: torch.Tensor) -> torch.Tensor:
    """A scale, then nibbles: the low ones are the first 16 weights; 8 means zero."""
    return _nibbles(blocks[:, 2:]).float().sub_(8).mul_(half_precision(blocks[:, :2]))


def dequantize_q4_1(blocks: torch.Tensor) -> torch.Tensor:
    """A scale and a minimum, then nibbles."""
    scale, minimum = half_precision(blocks[:, :2]), half_precision(blocks[:, 2:4])
    return _nibbles(blocks[:, 4:]).float().mul_(scale).add_(minimum)


def dequantize_q5_0(blocks: torch.Tensor) -> torch.Tensor:
    """A scale, the 32 highest bits, then nibbles; 16 means zero."""
    values = _nibbles(blocks[:, 6:]) | _fifth_bits(blocks[:, 2:6])
    return values.float().sub_(16).mul_(half_precision(blocks[:, :2]))


def dequantize_q5_1(blocks: torch.Tensor) -> torch.Tensor:
    """A scale and a minimum, the 32 highest bits, then nibbles."""
    scale, minimum = half_precision(blocks[:, :2]), half_precision(blocks[:, 2:4])
    values = _nibbles(blocks[:, 8:]) | _fifth_bits(blocks[:, 4:8])
    return values.float().mul_(scale).add_(minimum)


def _nibbles(packed: torch.Tensor) -> torch.Tensor:
    return torch.cat((packed & 15, packed >> 4), dim=1)


def _fifth_bits(packed: torch.Tensor) -> torch.Tensor:
    """Bit i of four bytes, in the place where it belongs, for weight i."""
    shifts = torch.arange(8, dtype=torch.uint8, device=packed.device)
    bits = (packed[:, :, None] >> shifts) & 1
    return bits.flatten(1) << 4
