"""Rows of weights cut into tiles, each of which has one part of all its blocks after the other."""

from __future__ import annotations

import torch


def tile_blocks(parts: tuple[torch.Tensor, ...], blocks: int) -> torch.Tensor:
    """Parts (rows, count, bytes) as rows of bytes: tiles of `blocks` blocks, the last one shorter.

    A tile holds the first part of its blocks, then the second of them, and so on.
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
    """The parts (rows, count, size) again, of rows of bytes that may be longer."""
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
