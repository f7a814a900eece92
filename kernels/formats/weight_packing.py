"""Packing of weights for the kernels: tiles of blocks, and groups of five-bit weights.

csrc/weight_group.cuh describes how the kernels unpack them.
"""

from __future__ import annotations

import torch


def tile_blocks(parts: tuple[torch.Tensor, ...], blocks: int) -> torch.Tensor:
    """Parts (rows, count, bytes) as rows of bytes: tiles of `blocks` blocks, the last one shorter.

    A tile holds the first part of each of its blocks, then the second part of each, and so on.
    """
    rows, count, _ = parts[0].shape
    tiles = count // blocks
    whole = [
        part[:, : tiles * blocks].reshape(rows, tiles, blocks * part.shape[2]) for part in parts
    ]
    rest = [part[:, tiles * blocks :].flatten(1) for part in parts]
    return torch.cat((torch.cat(whole, dim=2).flatten(1), *rest), dim=1)


def from_tiles(
    data: torch.Tensor, blocks: int, count: int, sizes: tuple[int, ...]
) -> list[torch.Tensor]:
    """The parts (rows, count, size) of rows that may be padded: undoes `tile_blocks`."""
    rows = len(data)
    tiles, left = divmod(count, blocks)
    split, end = tiles * blocks * sum(sizes), count * sum(sizes)
    whole = data[:, :split].reshape(rows, tiles, blocks * sum(sizes))
    pairs = zip(
        torch.split(whole, [blocks * size for size in sizes], dim=2),
        torch.split(data[:, split:end], [left * size for size in sizes], dim=1),
        sizes,
        strict=True,
    )
    return [
        torch.cat((part.reshape(rows, tiles * blocks, size), rest.reshape(rows, left, size)), dim=1)
        for part, rest, size in pairs
    ]


def pack_five_bits(weights: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """`weights` (..., 32) uint8 below 32 as nibbles (..., 16) and fifth bits (..., 4)."""
    first, last = weights[..., :16], weights[..., 16:]
    nibbles = first & 15 | last >> 1 << 4
    words = (*weights.shape[:-1], 4, 4)
    f0, f1, f2, f3 = (first >> 4).reshape(words).unbind(-2)
    l0, l1, l2, l3 = (last & 1).reshape(words).unbind(-2)
    low = f3 | l1 << 1 | f1 << 2 | l0 << 3
    return nibbles, low | f0 << 4 | l2 << 5 | f2 << 6 | l3.roll(-1, -1) << 7


def unpack_five_bits(nibbles: torch.Tensor, bits: torch.Tensor) -> torch.Tensor:
    """The weights (..., 32) uint8: undoes `pack_five_bits`."""
    fifth = torch.stack((bits >> 4, bits >> 2, bits >> 6, bits), dim=-2).flatten(-2) & 1
    lowest = torch.stack((bits >> 3, bits >> 1, bits >> 5, (bits >> 7).roll(1, -1)), dim=-2)
    last = nibbles >> 4 << 1 | lowest.flatten(-2) & 1
    return torch.cat((nibbles & 15 | fifth << 4, last), dim=-1)
