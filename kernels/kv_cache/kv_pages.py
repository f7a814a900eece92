"""KV pages: dense tensors, or quantised to 8 or 4 bits."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..elementwise.rope import rope_reference
from .kv_page_format import KVPageFormat


@dataclass(frozen=True, eq=False)
class KeyBias:
    """`bias` (kv_heads, head_size) fp32, and the layer's RoPE tables.

    `cosine` and `sine` are (positions, pairs) fp32, see `rope`.
    """

    bias: torch.Tensor
    cosine: torch.Tensor
    sine: torch.Tensor

    def at(self, positions: torch.Tensor) -> torch.Tensor:
        """The bias, rotated for the keys at `positions` (tokens,) int64.

        (tokens, kv_heads, head_size) fp32.
        """
        part = self.bias.repeat(len(positions), 1, 1)
        rope_reference(part[:, :0], part, self.cosine[positions], self.sine[positions])
        return part


@dataclass(frozen=True, eq=False)
class QuantizedKVPages:
    """One layer's keys or values of rotated heads, as codes with a tensor of scales.

    `codes` are (num_pages, page_size, kv_heads, head_size) int8, or (..., head_size / 2) uint8 of
    two codes each: byte j has element j in its low half, and element j + head_size / 2 in its high
    half, both plus 8. `scales` are (num_pages, page_size, kv_heads, blocks) float16: an element is
    its code times the scale of its block (see `KVPageFormat`). Keys are stored without their
    `bias`: it can be a hundred times larger than the rest of a key, which would leave hardly any
    codes to distinguish keys.
    """

    codes: torch.Tensor
    scales: torch.Tensor
    bias: KeyBias | None = None

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Pages, tokens a page, heads, and elements a head."""
        pages, page_size, kv_heads, _ = self.codes.shape
        return pages, page_size, kv_heads, self.format.head_size

    @property
    def device(self) -> torch.device:
        """Where they are."""
        return self.codes.device

    @property
    def format(self) -> KVPageFormat:
        """The storage format of a head."""
        width = self.codes.shape[-1]
        is_packed = self.codes.dtype is torch.uint8
        return KVPageFormat(4, 2 * width) if is_packed else KVPageFormat(8, width)


KVPages = torch.Tensor | QuantizedKVPages


def page_planes(pages: KVPages) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The tensor of elements or codes, and that of scales."""
    return (pages.codes, pages.scales) if isinstance(pages, QuantizedKVPages) else (pages, None)


def last_elements(pages: KVPages, count: int) -> KVPages:
    """The pages of the last `count` elements of each head: a view, of whole blocks of 8-bit codes.

    Raises `ValueError` if codes of these elements share a byte or a scale with others.
    """
    if not isinstance(pages, QuantizedKVPages):
        return pages[..., -count:]
    form = pages.format
    if not form.ends_with(count):
        raise ValueError(f"no {form.bits}-bit pages end with {count} elements of their own")
    blocks = count // form.block_size
    return QuantizedKVPages(pages.codes[..., -count:], pages.scales[..., -blocks:])
