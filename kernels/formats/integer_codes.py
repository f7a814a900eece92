"""From integer codes with scales and zero points, as safetensors hold them, to weights."""

from __future__ import annotations

import torch

from .weight import QuantizedTensor, Weight
from .weight_format import WeightFormat, format_of_codes


def unpack_bits(words: torch.Tensor, bits: int, count: int) -> torch.Tensor:
    """The first `count` codes (rows, count) uint8 of int32 words (rows, n), lowest bits first.

    A code may begin in one word and end in the next. Raises `ValueError` if there are too few.
    """
    if words.shape[1] * 32 < bits * count:
        raise ValueError(f"{words.shape[1]} words hold no {count} codes of {bits} bits.")
    raw = words.contiguous().view(torch.uint8)
    if bits == 8:
        return raw[:, :count]
    if bits == 4:
        return torch.stack((raw & 15, raw >> 4), dim=-1).flatten(1)[:, :count]
    # 32 codes fill as many words as they have bits.
    padded = torch.nn.functional.pad(words, (0, -words.shape[1] % bits))
    groups = padded.view(len(words), -1, bits)
    codes = words.new_empty(*groups.shape[:2], 32, dtype=torch.uint8)
    for place in range(32):
        word, shift = divmod(place * bits, 32)
        code = groups[..., word] >> shift
        if shift + bits > 32:
            code = code & (1 << 32 - shift) - 1 | groups[..., word + 1] << 32 - shift
        codes[..., place] = code & (1 << bits) - 1
    return codes.flatten(1)[:, :count]


def from_codes(
    codes: torch.Tensor,
    scales: torch.Tensor,
    zeros: torch.Tensor,
    bits: int,
    group_of: torch.Tensor | None = None,
) -> Weight:
    """The weights `(code - zero) * scale`, exactly: packed where a format can hold them.

    `codes` (rows, columns) uint8 have so many `bits`; `scales` of any float type and `zeros` uint8
    or int32 are (rows, groups). `group_of` (columns,) int64 is the group of each column, by default
    they are consecutive. Other weights are returned in float32.
    """
    (rows, columns), groups = codes.shape, scales.shape[1]
    exact = scales.float()
    order = None if group_of is None else _order(group_of, groups)
    sorted_groups = group_of is None or order is not None
    form = format_of_codes(bits, columns, groups) if sorted_groups else None
    if form is not None:
        if order is not None:
            codes = codes[:, order]
        pack = _pack_bytes if form.name == "Q8_0" else _pack_nibbles
        data = pack(codes, exact, zeros, form)
        if data is not None:
            identity = order is None or torch.equal(order, torch.arange(columns))
            return QuantizedTensor(form.name, data, columns, None if identity else order)
        if order is not None:
            codes = codes[:, torch.argsort(order)]
    if group_of is None:
        group_of = torch.arange(columns) * groups // columns
    return (codes.float() - zeros.float()[:, group_of]).mul_(exact[:, group_of]).view(rows, columns)


def _order(group_of: torch.Tensor, groups: int) -> torch.Tensor | None:
    """The columns sorted by their groups; None if groups are of different sizes."""
    order = torch.argsort(group_of, stable=True)
    columns = len(order)
    if columns % groups:
        return None
    even = torch.equal(group_of[order], torch.arange(columns) // (columns // groups))
    return order if even else None


def _pack_nibbles(
    codes: torch.Tensor, scales: torch.Tensor, zeros: torch.Tensor, form: WeightFormat
) -> torch.Tensor | None:
    """Blocks of G4; None for scales that need the last byte of a float."""
    rows, columns = codes.shape
    words = scales.contiguous().view(torch.int32)
    if bool((words & 255).any() or (zeros < 0).any() or (zeros > 255).any()):
        return None
    words = words | zeros.int()
    size = form.block_elements
    words = words.repeat_interleave(columns // size // words.shape[1], 1)
    pairs = codes.reshape(rows, columns // size, size // 32, 2, 16)
    nibbles = (pairs[..., 0, :] | pairs[..., 1, :] << 4).flatten(2)
    return torch.cat((nibbles, words.view(torch.uint8).view(rows, -1, 4)), 2).flatten(1)


def _pack_bytes(
    codes: torch.Tensor, scales: torch.Tensor, zeros: torch.Tensor, form: WeightFormat
) -> torch.Tensor | None:
    """Blocks of Q8_0; None for other zero points than 128 and for scales that are no float16."""
    rows, columns = codes.shape
    halves = scales.half()
    if bool((zeros != 128).any()) or not torch.equal(halves.float(), scales):
        return None
    size = form.block_elements
    halves = halves.repeat_interleave(columns // size // halves.shape[1], 1)
    raw = halves.view(torch.uint8).view(rows, -1, 2)
    return torch.cat((raw, (codes ^ 128).view(rows, -1, size)), 2).flatten(1)
