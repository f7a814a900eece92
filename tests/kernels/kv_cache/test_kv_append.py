"""Appending keys and values to slots, in the dtype of the pages."""

from __future__ import annotations

import pytest
import torch

from ingle.kernels.kv_cache.kv_append import kv_append_reference

PAGE, HEADS, SIZE = 32, 2, 8


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_tokens_are_written_only_to_their_slots(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(1)
    keys = torch.full((4, PAGE, HEADS, SIZE), torch.nan, dtype=dtype)
    values = keys.clone()
    slots = torch.tensor([0, 31, 32, 3 * PAGE + 7, 2 * PAGE + 31])
    key = torch.randn(len(slots), HEADS, SIZE, generator=generator)
    value = torch.randn(len(slots), HEADS, SIZE, generator=generator)
    kv_append_reference(key, value, keys, values, slots)
    for new, pages in ((key, keys), (value, values)):
        flat = pages.view(-1, HEADS, SIZE)
        assert torch.equal(flat[slots], new.to(dtype))
        others = torch.ones(len(flat), dtype=torch.bool)
        others[slots] = False
        assert flat[others].isnan().all()


def test_pages_of_a_larger_tensor_are_written_in_place() -> None:
    pool = torch.zeros(2, 2, 3, PAGE, HEADS, SIZE)
    new = torch.ones(1, HEADS, SIZE)
    kv_append_reference(new, new, pool[1, 0], pool[1, 1], torch.tensor([PAGE + 1]))
    assert pool.sum() == 2 * HEADS * SIZE
    assert pool[1, :, 1, 1].sum() == 2 * HEADS * SIZE
