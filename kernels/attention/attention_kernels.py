"""Attention over pages in Triton: split over the keys for few queries, and for chunks of prompts.

Only what compiles or interprets kernels imports this; `triton_attention` launches them.
"""

# The language has types, constants and rules of its own, which checkers of Python do not know.
# ruff: noqa: N803, N806, PIE808
# pyright: basic, reportArgumentType=false, reportOperatorIssue=false, reportIndexIssue=false
# pyright: reportAttributeAccessIssue=false, reportCallIssue=false, reportGeneralTypeIssues=false
# pyright: reportAssignmentType=false

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from .combine_parts import combine_parts, store_rows
from .key_bias_scores import bias_scores
from .key_division import PAGE, find_part, visible_keys
from .page_heads import load_heads, numbers

PAGE_BITS = tl.constexpr(5)
LOG2E = tl.constexpr(1.4426950408889634)
LN2 = tl.constexpr(0.6931471805599453)


@triton.jit
def attend_split(
    query, bias_query, keys, key_scales, values, value_scales, cosine, sine,
    block_tables, context_lengths, query_starts, sinks, outputs, log_sums, dense,
    combined, facts, counts, query_heads, table_width, tokens, sequences, group, kv_heads,
    window, limit, parts, has_sinks, forms, scale, soft_cap,
    HEAD: tl.constexpr, PADDED: tl.constexpr, BITS: tl.constexpr, BLOCK: tl.constexpr,
    PAIRS: tl.constexpr, ROWS: tl.constexpr, TILE: tl.constexpr, OVERLAP: tl.constexpr,
    COMBINES: tl.constexpr, LEAD: tl.constexpr,
):  # fmt: skip
    """Sequences of at most `limit` queries: blocks of queries, with parts of the keys they see.

    A program has a part (`find_part`) of a block of queries with all heads that share a key. It
    writes `outputs` and `log_sums`; the last one combines them to the `forms`: `dense` (1), bytes
    (2), or both (3). With 0 of these, they stay, and a part alone is written to `dense`.
    """
    if OVERLAP:
        gdc_wait()
    per_block = ROWS // group
    sequence, block, split, splits = find_part(query_starts, context_lengths, sequences, per_block,
                                               window, limit, parts, TILE)  # fmt: skip
    if sequence >= sequences:
        return
    start = tl.load(query_starts + sequence)
    count = tl.load(query_starts + sequence + 1) - start
    if (count > limit) | (block * per_block >= count):
        return
    length = tl.load(context_lengths + sequence)
    owned, position, rows, out = _block_rows(start, count, length, block, per_block, group,
                                             query_heads, kv_heads, ROWS)  # fmt: skip
    origin, last = visible_keys(length, count, block, per_block, window)
    tiles = tl.cdiv(last - origin, TILE)
    share = tl.cdiv(tiles, splits)
    begin = split * share
    end = tl.minimum(begin + share, tiles)
    is_alone = (tl.maximum(parts, tl.num_programs(2)) == 1) & (forms == 0)
    part = tokens.to(tl.int64) * (kv_heads * group)
    nothing = tl.full([ROWS], float("-inf"), tl.float32)
    for other in range(tl.where(split == 0, splits, parts), parts):  # places that have no part
        tl.store(log_sums + other * part + out, nothing, mask=owned)
    if (begin >= end) & (not is_alone) & (forms == 0):
        tl.store(log_sums + split * part + out, nothing, mask=owned)
        return
    low, high, total, most = _attend_part(
        query, rows, bias_query, out, owned, sinks, owned & (has_sinks > 0) & (split == 0),
        keys, key_scales, values, value_scales, cosine, sine, window,
        block_tables + sequence.to(tl.int64) * table_width, begin, end, origin, last, position,
        kv_heads, group, scale, soft_cap, HEAD, PADDED, BITS, BLOCK, PAIRS, ROWS, TILE, LEAD,
    )  # fmt: skip
    if OVERLAP:
        gdc_launch_dependents()
    if is_alone:
        store_rows(dense, out, owned, low, high, total, HEAD, PADDED, BITS)
    else:
        store_rows(outputs, split * part + out, owned, low, high, total, HEAD, PADDED, BITS)
        tl.store(log_sums + split * part + out, (most + tl.log2(total)) * LN2, mask=owned)
    if COMBINES and forms > 0:
        combine_parts(
            outputs, log_sums, dense, combined, facts, counts, forms, start, count, block,
            per_block, splits, tokens, group, kv_heads, HEAD, PADDED, BITS,
        )  # fmt: skip


@triton.jit
def _attend_part(
    query, rows, bias_query, out, owned, sinks, sunk,
    keys, key_scales, values, value_scales, cosine, sine, window,
    table, begin, end, origin, last, position,
    kv_heads, group, scale, soft_cap,
    HEAD: tl.constexpr, PADDED: tl.constexpr, BITS: tl.constexpr, BLOCK: tl.constexpr,
    PAIRS: tl.constexpr, ROWS: tl.constexpr, TILE: tl.constexpr, LEAD: tl.constexpr,
):  # fmt: skip
    """Outputs, sums and maxima of rows over the tiles from `begin` to `end`."""
    low, high, total, most = _start(sinks + out % (kv_heads * group), sunk, ROWS, PADDED, BITS)
    factor = _score_factor(scale, soft_cap)
    q_low, q_high = _load_query(query, rows, owned, keys, HEAD, PADDED, BITS, LEAD)
    for tile in range(begin, end):
        low, high, total, most = _attend_tile(
            low, high, total, most, q_low, q_high, bias_query, out, owned,
            keys, key_scales, values, value_scales, cosine, sine, table,
            origin + tile * TILE, last, position, window, kv_heads, factor, soft_cap,
            HEAD, PADDED, BITS, BLOCK, PAIRS, TILE, LEAD, True,
        )  # fmt: skip
    return low, high, total, most


@triton.jit
def attend_chunk(
    query, bias_query, keys, key_scales, values, value_scales, cosine, sine,
    block_tables, context_lengths, query_starts, sinks, outputs, log_sums, dense,
    query_heads, table_width, tokens, sequences, group, kv_heads, window, limit, has_sinks, scale,
    soft_cap, HEAD: tl.constexpr, PADDED: tl.constexpr, BITS: tl.constexpr, BLOCK: tl.constexpr,
    PAIRS: tl.constexpr, ROWS: tl.constexpr, TILE: tl.constexpr, OVERLAP: tl.constexpr,
    LEAD: tl.constexpr,
):  # fmt: skip
    """Sequences of more than `limit` queries, to all their keys; rows go to `dense`.

    Unless `limit` is 0, `log_sums` marks them as whole. Blocks with the most keys begin first.
    """
    if OVERLAP:
        gdc_wait()
    per_block = ROWS // group
    wanted = tl.num_programs(0) - 1 - tl.program_id(0)
    sequence = _find_sequence(query_starts, sequences, wanted, per_block)
    start = tl.load(query_starts + sequence)
    count = tl.load(query_starts + sequence + 1) - start
    block = wanted - (start // per_block + sequence)
    if (count <= limit) | (block * per_block >= count):
        return
    length = tl.load(context_lengths + sequence)
    owned, position, rows, out = _block_rows(start, count, length, block, per_block, group,
                                             query_heads, kv_heads, ROWS)  # fmt: skip
    earliest = length - count + block * per_block
    last = length - count + tl.minimum((block + 1) * per_block, count)
    origin = tl.maximum(earliest - window + 1, 0) & -PAGE
    tiles = tl.cdiv(last - origin, TILE)
    # All rows see all keys of the tiles between `inner` and `outer`, and need no mask.
    outer = tl.maximum(earliest + 1 - origin, 0) // TILE
    inner = tl.minimum(tl.cdiv(tl.maximum(last - window - origin, 0), TILE), outer)
    HAS_BOTH: tl.constexpr = PAIRS == 0 and (LEAD == 0 or BITS == 16)
    outer = outer if HAS_BOTH else inner  # there are not always registers for two loops
    place, sunk = sinks + out % (kv_heads * group), owned & (has_sinks > 0)
    low, high, total, most = _start(place, sunk, ROWS, PADDED, BITS)
    factor = _score_factor(scale, soft_cap)
    q_low, q_high = _load_query(query, rows, owned, keys, HEAD, PADDED, BITS, LEAD)
    table = block_tables + sequence.to(tl.int64) * table_width
    if HAS_BOTH:
        for tile in range(inner, outer):
            low, high, total, most = _attend_tile(
                low, high, total, most, q_low, q_high, bias_query, out, owned,
                keys, key_scales, values, value_scales, cosine, sine, table,
                origin + tile * TILE, last, position, window, kv_heads, factor, soft_cap,
                HEAD, PADDED, BITS, BLOCK, PAIRS, TILE, LEAD, False,
            )  # fmt: skip
    for step in range(0, inner + tiles - outer):
        tile = tl.where(step < inner, step, step - inner + outer)
        low, high, total, most = _attend_tile(
            low, high, total, most, q_low, q_high, bias_query, out, owned,
            keys, key_scales, values, value_scales, cosine, sine, table,
            origin + tile * TILE, last, position, window, kv_heads, factor, soft_cap,
            HEAD, PADDED, BITS, BLOCK, PAIRS, TILE, LEAD, True,
        )  # fmt: skip
    if OVERLAP:
        gdc_launch_dependents()
    store_rows(dense, out, owned, low, high, total, HEAD, PADDED, BITS)
    if limit > 0:
        tl.store(log_sums + out, tl.full([ROWS], float("inf"), tl.float32), mask=owned)


@triton.jit
def _find_sequence(query_starts, sequences, wanted, per_block):
    """The last sequence whose first block is at most `wanted`.

    Blocks of sequence s are counted from `query_starts[s] // per_block + s`: at least as many as it
    has, so that a place in the grid can be found without any table.
    """
    low = 0
    high = sequences
    while high - low > 1:
        middle = (low + high) // 2
        if tl.load(query_starts + middle) // per_block + middle <= wanted:
            low = middle
        else:
            high = middle
    return low


@triton.jit
def _block_rows(
    start, count, length, block, per_block, group, query_heads, kv_heads, ROWS: tl.constexpr
):
    """Of each row: has it a query, its position, and its places in `query` and in the outputs."""
    row = tl.arange(0, ROWS)
    token = tl.minimum(block * per_block + row // group, count - 1)
    owned = (row < per_block * group) & (block * per_block + row // group < count)
    place = (start + token).to(tl.int64)
    head = tl.program_id(1) * group + row % group
    position = length - count + token
    return owned, position, place * query_heads + head, place * (kv_heads * group) + head


@triton.jit
def _score_factor(scale, soft_cap):
    """The factor of products of queries and keys, in powers of two or before the soft cap."""
    factor = scale * LOG2E
    if soft_cap > 0:
        factor = scale / soft_cap
    return factor


@triton.jit
def _start(sinks, sunk, ROWS: tl.constexpr, PADDED: tl.constexpr, BITS: tl.constexpr):
    """Outputs (of codes of 4 bits in two halves), sums and maxima before any key.

    A row that is `sunk` begins with the score at its place in `sinks`, whose value is zero.
    """
    WIDTH: tl.constexpr = PADDED // 2 if BITS == 4 else PADDED
    low = tl.zeros([ROWS, WIDTH], tl.float32)
    most = tl.load(sinks, mask=sunk, other=float("-inf")) * LOG2E
    return low, low, tl.where(sunk, 1.0, 0.0), most


@triton.jit
def _load_query(
    query, heads, owned, keys, HEAD: tl.constexpr, PADDED: tl.constexpr, BITS: tl.constexpr,
    LEAD: tl.constexpr,
):  # fmt: skip
    """Rows in the type of products with `keys`, and beside them other elements of their heads.

    These are the second halves, for codes of 4 bits, or with LEAD the elements before all.
    """
    WIDTH: tl.constexpr = HEAD // 2 if BITS == 4 else HEAD
    column = tl.arange(0, PADDED // 2 if BITS == 4 else PADDED)
    mask = owned[:, None] & (column < WIDTH)[None, :]
    where = heads[:, None] * (LEAD + HEAD) + LEAD + column[None, :]
    low = tl.load(query + where, mask=mask, other=0.0)
    low = low.to(keys.dtype.element_ty if BITS == 16 else tl.float16)
    if LEAD > 0:
        where = heads[:, None] * (LEAD + HEAD) + tl.arange(0, LEAD)[None, :]
        other = tl.load(query + where, mask=owned[:, None], other=0.0).to(low.dtype)
    elif BITS == 4:
        other = tl.load(query + where + WIDTH, mask=mask, other=0.0).to(tl.float16)
    else:
        other = low
    return low, other


@triton.jit
def _places(table, key, stored, kv_heads, LEAD: tl.constexpr):
    """The places of keys among those of all heads and pages."""
    page = tl.load(table + (key >> PAGE_BITS), mask=stored, other=0)
    # Heads of all tokens in the pool can be counted in 32 bits; their elements cannot.
    slot = (page << PAGE_BITS) + (key & (PAGE - 1))
    if LEAD == 0:
        slot = slot * kv_heads + tl.program_id(1)
    return slot.to(tl.int64)


@triton.jit
def _attend_tile(
    low, high, total, most, q_low, q_high, bias_query, out, owned,
    keys, key_scales, values, value_scales, cosine, sine, table,
    begin, last, position, window, kv_heads, factor, soft_cap,
    HEAD: tl.constexpr, PADDED: tl.constexpr, BITS: tl.constexpr, BLOCK: tl.constexpr,
    PAIRS: tl.constexpr, TILE: tl.constexpr, LEAD: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """One step of softmax over the keys from `begin`, in powers of two.

    With LEAD there is one key for all heads, whose elements behind these are its value.
    """
    key = begin + tl.arange(0, TILE)
    stored = key < last
    slot = _places(table, key, stored, kv_heads, LEAD)
    key_rows = load_heads(
        keys, key_scales, slot, stored, LEAD, HEAD, LEAD + HEAD, PADDED, BITS, BLOCK, MASKED
    )
    # Values are on their way while there is something to do with keys.
    if LEAD > 0:
        other_rows = load_heads(
            keys, key_scales, slot, stored, 0, LEAD, LEAD + HEAD, LEAD, BITS, BLOCK, MASKED
        )
    else:
        other_rows = load_heads(
            values, value_scales, slot, stored, 0, HEAD, HEAD, PADDED, BITS, BLOCK, MASKED
        )
    k_low, k_high = numbers(key_rows, BITS)
    scores = tl.dot(q_low, tl.trans(k_low))
    if BITS == 4:
        scores = tl.dot(q_high, tl.trans(k_high), scores)
    elif LEAD > 0:
        lead, _ = numbers(other_rows, BITS)
        scores = tl.dot(q_high, tl.trans(lead), scores)
    scores *= factor
    if PAIRS > 0:
        scores += bias_scores(
            bias_query, out, owned, cosine, sine, begin, last, factor, PAIRS, TILE
        )
    elif soft_cap > 0:
        scores = soft_cap * LOG2E * (1.0 - 2.0 / (tl.exp2(scores * (2.0 * LOG2E)) + 1.0))
    if MASKED:
        behind = position[:, None] - key[None, :]
        scores = tl.where((behind >= 0) & (behind < window), scores, float("-inf"))
    highest = tl.maximum(most, tl.max(scores, 1))
    # A row that has not seen any key yet has a maximum of minus infinity, as have its scores.
    base = tl.where(highest == float("-inf"), 0.0, highest) if MASKED else highest
    weights = tl.exp2(scores - base[:, None])
    kept = tl.exp2(most - base)
    total = total * kept + tl.sum(weights, 1)
    if LEAD > 0:
        v_low, v_high = k_low, k_high
    else:
        v_low, v_high = numbers(other_rows, BITS)
    weights = weights.to(v_low.dtype)
    low = tl.dot(weights, v_low, low * kept[:, None])
    if BITS == 4:
        high = tl.dot(weights, v_high, high * kept[:, None])
    return low, high, total, highest
