"""Blocks and bytes per head in a quantised page."""

from __future__ import annotations

import pytest

from ingle.kernels.kv_cache.kv_page_format import KVPageFormat


@pytest.mark.parametrize(
    ("head_size", "block", "bytes_8", "bytes_4"),
    [
        (64, 32, 64 + 4, 32 + 4),
        (80, 16, 80 + 10, 40 + 10),
        (96, 32, 96 + 6, 48 + 6),
        (128, 32, 128 + 8, 64 + 8),
        (256, 32, 256 + 16, 128 + 16),
        (16, 16, 16 + 2, 8 + 2),
        (24, 8, 24 + 6, 12 + 6),
    ],
)
def test_block_size_follows_the_head_size(
    head_size: int, block: int, bytes_8: int, bytes_4: int
) -> None:
    for bits, nbytes in ((8, bytes_8), (4, bytes_4)):
        form = KVPageFormat(bits, head_size)
        assert (form.block_size, form.blocks) == (block, head_size // block)
        assert form.nbytes == nbytes


@pytest.mark.parametrize(("bits", "head_size"), [(4, 20), (8, 1), (8, 0), (4, -8), (5, 64)])
def test_unsupported_head_sizes_are_rejected(bits: int, head_size: int) -> None:
    with pytest.raises(ValueError, match=f"{bits}-bit pages for heads of {head_size}"):
        KVPageFormat(bits, head_size)
