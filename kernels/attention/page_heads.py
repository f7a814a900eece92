"""Heads of keys and values in pages, as numbers for the products of attention.

Only what compiles or interprets kernels imports this.
"""

# ruff: noqa: N803, N806, RET505
# pyright: basic, reportArgumentType=false, reportOperatorIssue=false, reportIndexIssue=false
# pyright: reportAttributeAccessIssue=false, reportCallIssue=false, reportGeneralTypeIssues=false
# pyright: reportAssignmentType=false

import triton
import triton.language as tl


def _unpacking(name: str, codes: str, zero: int) -> tl.constexpr:
    """Instructions that turn four bytes into numbers, and these into multiples of scales.

    A byte behind 0x64 is a float16: 1024 and the byte. The interpreter goes by the name.
    """
    return tl.constexpr(f"""{{ // {name}
        .reg .b32 u, zero;
        mov.b32 zero, 0x{0x64006400 + zero * 0x10001:x};
        {codes}
        prmt.b32 $0, u, 0x64646464, 0x4140;
        prmt.b32 $1, u, 0x64646464, 0x4342;
        sub.f16x2 $0, $0, zero;
        sub.f16x2 $1, $1, zero;
        mul.f16x2 $0, $0, $3;
        mul.f16x2 $1, $1, $4;
    }}""")


SIGNED_BYTES = _unpacking("signed bytes", "xor.b32 u, $2, 0x80808080;", 128)
LOW_NIBBLES = _unpacking("low nibbles", "and.b32 u, $2, 0x0f0f0f0f;", 8)
HIGH_NIBBLES = _unpacking("high nibbles", "shr.u32 u, $2, 4; and.b32 u, u, 0x0f0f0f0f;", 8)


@triton.jit
def load_heads(
    codes, scales, slot, stored, FIRST: tl.constexpr, HEAD: tl.constexpr, STRIDE: tl.constexpr,
    PADDED: tl.constexpr, BITS: tl.constexpr, BLOCK: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """Keys or values at `slot` (TILE, PADDED), and scales where they have some; see `_numbers`.

    Of STRIDE elements these are the HEAD from FIRST.
    """
    if BITS == 16:
        column = tl.arange(0, PADDED)
        where = slot[:, None] * STRIDE + FIRST + column[None, :]
        if MASKED:
            mask = stored[:, None] & (column < HEAD)[None, :]
            rows = tl.load(codes + where, mask=mask, other=0.0)
        elif HEAD == PADDED:
            rows = tl.load(codes + where)
        else:
            rows = tl.load(codes + where, mask=(column < HEAD)[None, :], other=0.0)
        return rows, rows, rows
    elif BITS == 8:
        scale = _load_scales(scales, slot, stored, FIRST, HEAD, STRIDE, PADDED, BLOCK)
        return _load_codes(codes, slot, FIRST, HEAD, STRIDE, PADDED), scale, scale
    else:
        HALF: tl.constexpr = HEAD // 2
        low = _load_scales(scales, slot, stored, 0, HALF, HEAD, PADDED // 2, BLOCK)
        high = _load_scales(scales, slot, stored, HALF, HALF, HEAD, PADDED // 2, BLOCK)
        return _load_codes(codes, slot, 0, HALF, HALF, PADDED // 2), low, high


@triton.jit
def numbers(rows, BITS: tl.constexpr):
    """What was loaded in the type of the products, and of codes of 4 bits both halves."""
    codes, low, high = rows
    if BITS == 16:
        return codes, codes
    elif BITS == 8:
        codes = _scaled(SIGNED_BYTES, codes, low)
        return codes, codes
    else:
        return _scaled(LOW_NIBBLES, codes, low), _scaled(HIGH_NIBBLES, codes, high)


@triton.jit
def _load_codes(
    codes, slot, FIRST: tl.constexpr, WIDTH: tl.constexpr, STRIDE: tl.constexpr,
    PADDED: tl.constexpr,
):  # fmt: skip
    """Bytes (TILE, PADDED), also of places that hold nothing: whole numbers, whatever they are."""
    column = tl.arange(0, PADDED)
    where = slot[:, None] * STRIDE + FIRST + column[None, :]
    if WIDTH == PADDED:
        return tl.load(codes + where)
    return tl.load(codes + where, mask=(column < WIDTH)[None, :], other=0)


@triton.jit
def _load_scales(
    scales, slot, stored, FIRST: tl.constexpr, WIDTH: tl.constexpr, HEAD: tl.constexpr,
    PADDED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Of elements FIRST to FIRST + WIDTH of heads, (TILE, PADDED); 0 where there are none."""
    # As many as share a scale for sure: a half of a head may end within a block.
    GRAIN: tl.constexpr = BLOCK if WIDTH % BLOCK == 0 else WIDTH & -WIDTH
    GRAINS: tl.constexpr = PADDED // GRAIN
    grain = tl.arange(0, GRAINS)
    where = slot[:, None] * (HEAD // BLOCK) + ((FIRST + grain * GRAIN) // BLOCK)[None, :]
    mask = stored[:, None] & (grain * GRAIN < WIDTH)[None, :]
    scale = tl.load(scales + where, mask=mask, other=0.0)
    return tl.broadcast_to(scale[:, :, None], [scale.shape[0], GRAINS, GRAIN])


@triton.jit
def _scaled(FORM: tl.constexpr, codes, scale):
    """Codes by scales, exactly as products of float16 are; FORM says where the codes are."""
    codes3 = tl.reshape(codes, scale.shape)
    # Results are written before all operands have been read: no register may be for both.
    out = tl.inline_asm_elementwise(
        FORM, "=&r,=&r,r,r,r", [codes3, scale], dtype=tl.float16, is_pure=True, pack=4
    )
    return tl.reshape(out, codes.shape)
