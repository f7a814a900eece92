"""Scores of a key bias in Triton: what a bias that keys are stored without adds to scores."""

# The language has types, constants and rules of its own, which checkers of Python do not know.
# ruff: noqa: N803, N806
# pyright: basic, reportArgumentType=false, reportOperatorIssue=false, reportIndexIssue=false
# pyright: reportAttributeAccessIssue=false, reportCallIssue=false, reportGeneralTypeIssues=false
# pyright: reportAssignmentType=false

import triton
import triton.language as tl


@triton.jit
def bias_scores(
    bias_query, out, owned, cosine, sine, begin, last, factor, PAIRS: tl.constexpr,
    TILE: tl.constexpr,
):  # fmt: skip
    """The scores (rows, TILE) that the bias of the keys from `begin` adds."""
    SOME: tl.constexpr = 32
    # Tables may have a factor, which is in all of their numbers.
    factor = factor / tl.load(cosine)
    scores = tl.zeros([owned.shape[0], TILE], tl.float32)
    if owned.shape[0] == 16:
        for chunk in tl.static_range(PAIRS // SOME):
            scores = _bias_part(scores, bias_query, out, owned, cosine, sine, begin, last, factor,
                                chunk * SOME, SOME, PAIRS, TILE)  # fmt: skip
    else:
        # There are no registers for more than one part at a time.
        for chunk in range(PAIRS // SOME):
            scores = _bias_part(scores, bias_query, out, owned, cosine, sine, begin, last, factor,
                                chunk * SOME, SOME, PAIRS, TILE)  # fmt: skip
    return scores


@triton.jit
def _bias_part(
    scores, bias_query, out, owned, cosine, sine, begin, last, factor, first,
    SOME: tl.constexpr, PAIRS: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Of the pairs from `first`.

    Queries are rotated to the first key, which leaves rotations by less than a tile: those that all
    tiles and layers read, so that they come from the cache.
    """
    # Keys are never negative, so this adds nothing, but no compiler knows it: what is the same for
    # all tiles would be kept in registers that are not there.
    pair = first + tl.arange(0, SOME) + (begin >> 31) * SOME
    rows = bias_query + out[:, None] * (2 * PAIRS) + pair[None, :]
    first = tl.load(rows, mask=owned[:, None], other=0.0) * factor
    second = tl.load(rows + PAIRS, mask=owned[:, None], other=0.0) * factor
    place = begin.to(tl.int64) * PAIRS + pair
    to_cosine = tl.load(cosine + place)[None, :]
    to_sine = tl.load(sine + place)[None, :]
    key = tl.arange(0, TILE)
    turned = key[:, None] * PAIRS + pair[None, :]
    mask = (key < last)[:, None]
    near_cosine = tl.load(cosine + turned, mask=mask, other=0.0)
    near_sine = tl.load(sine + turned, mask=mask, other=0.0)
    scores = _precise_dot(first * to_cosine + second * to_sine, near_cosine, scores)
    return _precise_dot(second * to_cosine - first * to_sine, near_sine, scores)


@triton.jit
def _precise_dot(rows, columns, sums):
    """Products of rows with rows as those of float32: off by 2^-22 of them.

    Biases are hundreds of times what the rest of a key is, so that sixteen bits of a number are not
    enough: every number is two of them.
    """
    rows_high, rows_low = _halves(rows)
    columns_high, columns_low = _halves(columns)
    sums = tl.dot(rows_low, tl.trans(columns_high), sums)
    sums = tl.dot(rows_high, tl.trans(columns_low), sums)
    return tl.dot(rows_high, tl.trans(columns_high), sums)


@triton.jit
def _halves(numbers):
    """Numbers in float32 as sums of two in float16."""
    high = numbers.to(tl.float16)
    return high, (numbers - high.to(tl.float32)).to(tl.float16)
