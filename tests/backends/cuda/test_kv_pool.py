"""`KVPool`: pages of every KV type are sized, copied, read and written byte for byte."""

from __future__ import annotations

import random

import pytest
import torch

from ingle.backends.cuda.kv_pool import KVPool
from ingle.kernels.kv_cache.kv_pages import QuantizedKVPages, page_planes
from ingle.models.config.model_config import KVHeads
from ingle.models.fit.paged_fit import PAGE_SIZE
from ingle.models.kv_type import KVType

LAYERS, KV_HEADS, PAGES = 3, 2, 7


def make_pool(kv_type: KVType, head_size: int = 64, seed: int | None = None) -> KVPool:
    """Make a pool with random bytes in all its pages, or zeros."""
    pool = KVPool(
        heads=dict.fromkeys(range(LAYERS), KVHeads(count=KV_HEADS, size=head_size)),
        num_blocks=PAGES,
        kv_type=kv_type,
        device=torch.device("cpu"),
    )
    count = PAGES * PAGE_SIZE
    random_bytes = random.Random(seed).randbytes if seed is not None else bytes
    assert pool.write(list(range(PAGES)), count, random_bytes(count * pool.token_bytes))
    return pool


@pytest.mark.parametrize("head_size", [64, 80, 96, 128, 256])
@pytest.mark.parametrize("kv_type", KVType)
def test_pool_size_equals_the_estimate(kv_type: KVType, head_size: int) -> None:
    pool = make_pool(kv_type, head_size)
    assert pool.token_bytes == 2 * LAYERS * KV_HEADS * kv_type.paged_bytes(head_size)
    assert pool.nbytes == pool.token_bytes * PAGE_SIZE * (PAGES + 1)
    for pages in pool.layer(1):
        assert pages.shape == (PAGES + 1, PAGE_SIZE, KV_HEADS, head_size)
        assert isinstance(pages, QuantizedKVPages) is kv_type.startswith("q")


@pytest.mark.parametrize("head_size", [64, 80])
@pytest.mark.parametrize("kv_type", KVType)
def test_copied_page_shares_its_first_tokens(kv_type: KVType, head_size: int) -> None:
    pool = make_pool(kv_type, head_size, seed=1)
    before = [pool.read([page], PAGE_SIZE) for page in range(PAGES)]
    pool.copy_page(2, 5, 13)
    after = [pool.read([page], PAGE_SIZE) for page in range(PAGES)]
    copied = 13 * pool.token_bytes
    assert after[5] == before[2][:copied] + before[5][copied:]
    assert after[:5] + after[6:] == before[:5] + before[6:]


@pytest.mark.parametrize("kv_type", KVType)
@pytest.mark.parametrize("count", [1, 31, 32, 33, 70, 96])
def test_read_pages_can_be_written_to_other_pages(kv_type: KVType, count: int) -> None:
    pool, other = make_pool(kv_type, seed=2), make_pool(kv_type)
    data = pool.read([4, 1, 6], count)
    assert len(data) == count * pool.token_bytes
    assert other.write([0, 5, 3], count, data)
    assert other.read([0, 5, 3], count) == data
    rest = 3 * PAGE_SIZE * pool.token_bytes - len(data)
    assert other.read([0, 5, 3], 3 * PAGE_SIZE) == data + bytes(rest)
    for layer in range(LAYERS):
        for mine, theirs in zip(pool.layer(layer), other.layer(layer), strict=True):
            if isinstance(mine, QuantizedKVPages):
                assert isinstance(theirs, QuantizedKVPages)
                assert torch.equal(mine.codes[4, :count], theirs.codes[0, :count])


@pytest.mark.parametrize("kv_type", [KVType.F16, KVType.Q4_0])
def test_layers_whose_heads_differ_are_read_and_written(kv_type: KVType) -> None:
    wide, narrow = KVHeads(count=1, size=512), KVHeads(count=4, size=256)
    each = {0: narrow, 2: wide, 5: narrow}
    pool, other = (
        KVPool(heads=each, num_blocks=PAGES, kv_type=kv_type, device=torch.device("cpu"))
        for _ in range(2)
    )
    assert pool.token_bytes == 2 * (kv_type.paged_bytes(512) + 2 * 4 * kv_type.paged_bytes(256))
    data = random.Random(4).randbytes(70 * pool.token_bytes)
    assert pool.write([4, 1, 6], 70, data)
    pool.copy_page(4, 2, PAGE_SIZE)
    assert pool.read([2, 1, 6], 70) == data
    assert other.write([0, 5, 3], 70, data)
    for layer, heads in each.items():
        for mine, theirs in zip(pool.layer(layer), other.layer(layer), strict=True):
            assert mine.shape == (PAGES + 1, PAGE_SIZE, heads.count, heads.size)
            if isinstance(mine, torch.Tensor) and isinstance(theirs, torch.Tensor):
                assert torch.equal(mine[1].view(torch.int16), theirs[5].view(torch.int16))


@pytest.mark.parametrize("kv_type", [KVType.F16, KVType.Q8_0])
def test_values_within_keys_are_read_written_and_copied(kv_type: KVType) -> None:
    latent = KVHeads(count=1, size=576, inner_values=512)
    pool, other = (
        KVPool(
            heads=dict.fromkeys(range(LAYERS), latent),
            num_blocks=PAGES,
            kv_type=kv_type,
            device=torch.device("cpu"),
        )
        for _ in range(2)
    )
    assert pool.token_bytes == LAYERS * kv_type.paged_bytes(576)
    data = random.Random(4).randbytes(70 * pool.token_bytes)
    assert pool.write([4, 1, 6], 70, data)
    pool.copy_page(4, 2, PAGE_SIZE)
    assert pool.read([2, 1, 6], 70) == data
    assert other.write([0, 5, 3], 70, data)
    assert other.read([0, 5, 3], 70) == data
    keys, values = pool.layer(1)
    assert values.shape == (PAGES + 1, PAGE_SIZE, 1, 512)
    for whole, end in zip(page_planes(keys), page_planes(values), strict=True):
        if whole is not None and end is not None:
            assert torch.equal(
                whole[..., -end.shape[-1] :].clone().view(torch.uint8),
                end.clone().view(torch.uint8),
            )


@pytest.mark.parametrize("kv_type", KVType)
def test_prefix_of_read_data_can_be_written(kv_type: KVType) -> None:
    pool, other = make_pool(kv_type, seed=3), make_pool(kv_type)
    data = memoryview(pool.read([4, 1, 6], 70))
    assert other.write([2, 3], 40, data)
    assert other.read([2, 3], 40) == data[: 40 * pool.token_bytes]


@pytest.mark.parametrize("kv_type", KVType)
def test_data_of_the_wrong_size_is_rejected(kv_type: KVType) -> None:
    pool = make_pool(kv_type)
    for wrong in (b"", bytes(pool.token_bytes * 3 - 1), bytes(pool.token_bytes * 3 + 1)):
        assert not pool.write([1], 3, wrong)
    assert not any(pool.read([1], PAGE_SIZE))
