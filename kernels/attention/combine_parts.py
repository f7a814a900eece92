"""The parts of `attend_split` combined in its own launch, by whichever program ends last.

Only what compiles or interprets kernels imports this.
"""

# ruff: noqa: N803, N806
# pyright: basic, reportArgumentType=false, reportOperatorIssue=false, reportIndexIssue=false
# pyright: reportAttributeAccessIssue=false, reportCallIssue=false, reportGeneralTypeIssues=false
# pyright: reportAssignmentType=false

import triton
import triton.language as tl

MOST_PARTS = tl.constexpr(64)
ROWS_AT_ONCE = tl.constexpr(2)
GROUP = tl.constexpr(32)
LOG2E = tl.constexpr(1.4426950408889634)
# See csrc/store_q8.cuh.
SMALLEST_INPUT = tl.constexpr(1e-30)
# A product and a sum in one operation would round otherwise. The interpreter goes by the name.
TO_NEAREST = tl.constexpr("""{ // to the nearest
    cvt.rni.s32.f32 $0, $1;
}""")


@triton.jit
def combine_parts(
    outputs, log_sums, dense, tiles, facts, counts, forms,
    start, queries, block, per_block, splits, tokens, group, kv_heads,
    HEAD: tl.constexpr, PADDED: tl.constexpr, BITS: tl.constexpr,
):  # fmt: skip
    """Combine the `splits` parts of a block of queries if this program's was the last one.

    Row i has token i // group of the block's, and head i % group of those that share the key.
    Results are those of csrc/attention_combine.cuh. `counts` has a zero for each token and key
    head, and has it again at the end, so that a graph can replay the launch.
    """
    start += block * per_block
    rows = tl.minimum(per_block, queries - block * per_block) * group
    tl.debug_barrier()  # the whole part is written before it is counted
    count = counts + start * kv_heads + tl.program_id(1)
    if tl.atomic_add(count, 1, sem="acq_rel", scope="gpu") == splits - 1:
        tl.store(count, 0)
        for first in range(0, rows, ROWS_AT_ONCE):
            row = first + tl.arange(0, ROWS_AT_ONCE)
            owned = row < rows
            token = start + row // group
            head = tl.program_id(1) * group + row % group
            heads = kv_heads * group
            place = token.to(tl.int64) * heads + head
            x = _sum(outputs, log_sums, place, owned, splits, tokens.to(tl.int64) * heads,
                     HEAD, PADDED)  # fmt: skip
            # The kernel that combines more tokens reads a part alone as rows of the engine's type.
            x = tl.where(splits == 1, x.to(dense.dtype.element_ty).to(tl.float32), x)
            if BITS < 16:
                x = _rotated(x, PADDED)
            if forms & 1 > 0:
                column = tl.arange(0, PADDED)
                mask = owned[:, None] & (column < HEAD)[None, :]
                where = dense + place[:, None] * HEAD + column[None, :]
                tl.store(where, x.to(dense.dtype.element_ty), mask=mask)
            if forms & 2 > 0:
                _store_tiles(tiles, facts, x, token, head, owned, tokens, HEAD, PADDED)


@triton.jit
def _sum(outputs, log_sums, place, owned, splits, stride, HEAD: tl.constexpr, PADDED: tl.constexpr):
    """Rows (ROWS_AT_ONCE, PADDED) of all parts, weighted by their shares; past L1."""
    # With more, a thread would need too many registers for what is on its way.
    AT_ONCE: tl.constexpr = min(32, 4096 // PADDED)
    every = tl.arange(0, MOST_PARTS)
    sums = tl.load(
        log_sums + place[:, None] + every[None, :] * stride,
        mask=owned[:, None] & (every < splits)[None, :],
        other=float("-inf"),
        cache_modifier=".cg",
    )
    most = tl.max(sums, 1)
    most = tl.where(most == float("-inf"), 0.0, most)
    total = tl.sum(tl.exp2((sums - most[:, None]) * LOG2E), 1)
    column = tl.arange(0, PADDED)
    x = tl.zeros([ROWS_AT_ONCE, PADDED], tl.float32)
    for first in range(0, splits, AT_ONCE):
        split = first + tl.arange(0, AT_ONCE)
        mask = owned[:, None] & (split < splits)[None, :]
        where = place[:, None] + split[None, :] * stride
        logs = tl.load(log_sums + where, mask=mask, other=float("-inf"), cache_modifier=".cg")
        parts = tl.load(
            outputs + where[:, :, None] * HEAD + column[None, None, :],
            mask=mask[:, :, None] & (column < HEAD)[None, None, :],
            other=0.0,
            cache_modifier=".cg",
        )
        x += tl.sum(parts * tl.exp2((logs - most[:, None]) * LOG2E)[:, :, None], 1)
    return x / tl.where(total == 0.0, 1.0, total)[:, None]


@triton.jit
def _rotated(x, PADDED: tl.constexpr):
    """`hadamard` of blocks of 32, in the order that is part of its contract."""
    for step in tl.static_range(5):
        pairs = tl.reshape(x, [ROWS_AT_ONCE * PADDED // (2 << step), 2, 1 << step])
        a, b = tl.split(tl.permute(pairs, (0, 2, 1)))
        pairs = tl.permute(tl.join(a + b, a - b), (0, 2, 1))
        x = tl.reshape(pairs, [ROWS_AT_ONCE, PADDED])
    return x * 0.17677669529663687


@triton.jit
def _store_tiles(
    tiles, facts, x, token, head, owned, tokens, HEAD: tl.constexpr, PADDED: tl.constexpr
):
    """The bytes and facts of csrc/q8_tile.cuh."""
    values = tl.reshape(x, [ROWS_AT_ONCE, PADDED // GROUP, GROUP])
    largest = tl.max(tl.abs(values), 2)
    # NaN must not get lost: it makes the scale NaN, and with it every product.
    broken = tl.max((values != values).to(tl.int32), 2) > 0
    largest = tl.where(broken, float("nan"), largest)
    nothing = largest < SMALLEST_INPUT
    rounded = tl.div_rn(largest, 127.0).to(tl.int32, bitcast=True) & -4
    scale = tl.where(nothing, 0.0, rounded.to(tl.float32, bitcast=True))
    inverse = tl.where(nothing, 0.0, tl.div_rn(127.0, largest))
    numbers = tl.inline_asm_elementwise(
        TO_NEAREST, "=r,r", [values * inverse[:, :, None]], dtype=tl.int32, is_pure=True, pack=1
    )
    element = tl.arange(0, GROUP)
    first = tl.sum(tl.where((element < 16)[None, None, :], numbers, 0), 2)
    last = tl.sum(numbers, 2) - first
    input_ = head[:, None] * HEAD + (tl.arange(0, PADDED // GROUP) * GROUP)[None, :]
    exists = owned[:, None] & ((tl.arange(0, PADDED // GROUP) * GROUP) < HEAD)[None, :]
    place = (input_ // 1024 * tokens + token[:, None]) * 1536 + input_ // GROUP % 32 * 16
    byte = element // 16 * 512 + element % 16
    where = tiles + place[:, :, None] + byte[None, None, :]
    tl.store(where, numbers.to(tl.uint8), mask=exists[:, :, None])
    fact = facts + (place + 1024) // 4
    scaled = scale * (first + last).to(tl.float32)
    tl.store(fact, scale.to(tl.int32, bitcast=True), mask=exists)
    tl.store(fact + 1, scaled.to(tl.int32, bitcast=True), mask=exists)
    tl.store(fact + 2, -32 * first, mask=exists)
    tl.store(fact + 3, -32 * last, mask=exists)


@triton.jit
def store_rows(
    target, out, owned, low, high, total, HEAD: tl.constexpr, PADDED: tl.constexpr,
    BITS: tl.constexpr,
):  # fmt: skip
    """Rows of heads, divided by `total`, in the type of `target`."""
    # A row may have seen no key of its part.
    inverse = 1.0 / tl.where(total == 0.0, 1.0, total)
    WIDTH: tl.constexpr = HEAD // 2 if BITS == 4 else HEAD
    column = tl.arange(0, PADDED // 2 if BITS == 4 else PADDED)
    mask = owned[:, None] & (column < WIDTH)[None, :]
    where = target + out[:, None] * HEAD + column[None, :]
    tl.store(where, (low * inverse[:, None]).to(target.dtype.element_ty), mask=mask)
    if BITS == 4:
        tl.store(where + WIDTH, (high * inverse[:, None]).to(target.dtype.element_ty), mask=mask)
