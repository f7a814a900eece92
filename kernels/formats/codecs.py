"""What the GGUF weight formats compute in torch: dequantise blocks, repack them and undo that."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import torch

from . import block_quants as blocks
from . import k_quants as k


class Repacking(NamedTuple):
    """To the layout that the kernels read, and back.

    `pack` takes whole rows of blocks (rows, blocks, bytes) uint8 and returns rows of bytes;
    `unpack` takes such rows and the number of blocks in each, and returns the blocks.
    """

    pack: Callable[[torch.Tensor], torch.Tensor]
    unpack: Callable[[torch.Tensor, int], torch.Tensor]


class Codec(NamedTuple):
    """`dequantize` turns blocks (blocks, bytes) uint8 into weights (blocks, elements) float32."""

    dequantize: Callable[[torch.Tensor], torch.Tensor]
    repacking: Repacking | None = None


def _float32(raw: torch.Tensor) -> torch.Tensor:
    return raw.clone(memory_format=torch.contiguous_format).view(torch.float32)


def _bfloat16(raw: torch.Tensor) -> torch.Tensor:
    return raw.clone(memory_format=torch.contiguous_format).view(torch.bfloat16).float()


CODECS: Mapping[str, Codec] = MappingProxyType(
    {
        "F32": Codec(_float32),
        "F16": Codec(blocks.half_precision),
        "BF16": Codec(_bfloat16),
        "Q4_0": Codec(
            blocks.dequantize_q4_0,
            Repacking(blocks.pack_four_bits, blocks.unpack_q4_0),
        ),
        "Q4_1": Codec(
            blocks.dequantize_q4_1,
            Repacking(blocks.pack_four_bits, blocks.unpack_q4_1),
        ),
        "Q5_0": Codec(
            blocks.dequantize_q5_0,
            Repacking(blocks.pack_block_of_five_bits, blocks.unpack_q5_0),
        ),
        "Q5_1": Codec(
            blocks.dequantize_q5_1,
            Repacking(blocks.pack_block_of_five_bits, blocks.unpack_q5_1),
        ),
        "Q8_0": Codec(
            blocks.dequantize_q8_0,
            Repacking(blocks.pack_q8_0, blocks.unpack_q8_0),
        ),
        "Q4_K": Codec(k.dequantize_q4_k, Repacking(k.pack_q4_k, k.unpack_q4_k)),
        "Q5_K": Codec(k.dequantize_q5_k, Repacking(k.pack_q5_k, k.unpack_q5_k)),
        "Q6_K": Codec(k.dequantize_q6_k, Repacking(k.pack_q6_k, k.unpack_q6_k)),
    }
)
"""The codec of each format in `GGML_FORMATS`."""
