"""Parts of `attend_split`: the keys of a step's sequences, divided among programs by their number.

Only what compiles or interprets kernels imports this.
"""

# ruff: noqa: N803
# pyright: basic, reportArgumentType=false, reportOperatorIssue=false, reportIndexIssue=false
# pyright: reportAttributeAccessIssue=false, reportCallIssue=false, reportGeneralTypeIssues=false

import triton
import triton.language as tl

PAGE = tl.constexpr(32)
BLOCKS_AT_ONCE = tl.constexpr(128)


@triton.jit
def find_part(
    query_starts, context_lengths, sequences, per_block, window, limit, parts, TILE: tl.constexpr
):
    """This program's sequence, block of queries, part of the block's keys, and number of parts.

    Where `parts` is 0 each block has `num_programs(2)` of them. Else there is a program for each
    block and for each of `parts`, and a part has at most its share of the tiles of all blocks, so
    that one long sequence is divided further than short ones. The sequence is past the last one
    where there are fewer parts than programs.
    """
    blocks = (tl.num_programs(0) - parts) // sequences
    place = tl.program_id(0)
    split = tl.program_id(2)
    splits = tl.num_programs(2)
    if parts > 0:
        place, split, splits = _divided(query_starts, context_lengths, sequences, blocks,
                                        per_block, window, limit, parts, TILE)  # fmt: skip
    return place // blocks, place % blocks, split, splits


@triton.jit
def _divided(
    query_starts, context_lengths, sequences, blocks, per_block, window, limit, parts,
    TILE: tl.constexpr,
):  # fmt: skip
    """The program's block among those of all sequences, its part, and the block's number of parts.

    They follow from the tiles of all blocks, in whose order parts are numbered.
    """
    total = 0
    for first in range(0, sequences * blocks, BLOCKS_AT_ONCE):
        tiles, _ = _tiles_of_blocks(query_starts, context_lengths, first, sequences, blocks,
                                    per_block, window, limit, TILE)  # fmt: skip
        total += tl.sum(tiles)
    most = tl.maximum(tl.cdiv(total, parts), 1)
    wanted = tl.program_id(0)
    place = 0
    ended = 0
    end = 0
    for first in range(0, sequences * blocks, BLOCKS_AT_ONCE):
        tiles, exists = _tiles_of_blocks(query_starts, context_lengths, first, sequences, blocks,
                                         per_block, window, limit, TILE)  # fmt: skip
        counts = tl.where(exists, tl.maximum(tl.cdiv(tiles, most), 1), 0)
        is_before = end + tl.cumsum(counts) <= wanted
        here = tl.arange(0, BLOCKS_AT_ONCE) < sequences * blocks - first
        place += tl.sum((is_before & here).to(tl.int32))
        ended += tl.sum(tl.where(is_before, counts, 0))
        end += tl.sum(counts)
    sequence = tl.minimum(place // blocks, sequences - 1)
    count = tl.load(query_starts + sequence + 1) - tl.load(query_starts + sequence)
    length = tl.load(context_lengths + sequence)
    origin, last = visible_keys(length, count, place % blocks, per_block, window)
    splits = tl.maximum(tl.cdiv(tl.cdiv(last - origin, TILE), most), 1)
    return place, wanted - ended, splits


@triton.jit
def _tiles_of_blocks(
    query_starts, context_lengths, first, sequences, blocks, per_block, window, limit,
    TILE: tl.constexpr,
):  # fmt: skip
    """Of blocks of queries from `first` on: how many tiles they see, and whether they exist."""
    place = first + tl.arange(0, BLOCKS_AT_ONCE)
    sequence = place // blocks
    here = sequence < sequences
    start = tl.load(query_starts + sequence, mask=here, other=0)
    count = tl.load(query_starts + sequence + 1, mask=here, other=0) - start
    length = tl.load(context_lengths + sequence, mask=here, other=0)
    exists = here & (count <= limit) & ((place % blocks) * per_block < count)
    origin, last = visible_keys(length, count, place % blocks, per_block, window)
    return tl.where(exists, tl.cdiv(last - origin, TILE), 0), exists


@triton.jit
def visible_keys(length, count, block, per_block, window):
    """The page's first key from which on the block's queries see some, and their last one's end."""
    first = tl.maximum(length - count + block * per_block - window + 1, 0)
    return first & -PAGE, length - count + tl.minimum((block + 1) * per_block, count)
