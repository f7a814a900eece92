from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ingle.models.errors import UnsupportedModel
from ingle.models.fit.llama_cpp_fit import (
    LoadParameters,
    MemoryEstimate,
    check_kv_type,
    estimate_memory,
    largest_context,
)
from ingle.models.fit.model_shape import shape_of
from ingle.models.fit.process_overhead import LLAMA_PROCESS, vocabulary_bytes
from ingle.models.gguf.gguf_header import GGUFHeader, read_header
from ingle.models.kv_type import KVType

if TYPE_CHECKING:
    from ..conftest import GGUFBuilder

MIB = 1 << 20
UINT32, ARRAY, INT32 = 4, 9, 5


@pytest.fixture
def header(tmp_path: Path) -> Callable[[GGUFBuilder], GGUFHeader]:
    def write_and_read(tiny: GGUFBuilder) -> GGUFHeader:
        path = tmp_path / "model.gguf"
        path.write_bytes(tiny.build())
        return read_header(path)

    return write_and_read


Header = Callable[["GGUFBuilder"], GGUFHeader]


def _estimate(
    header: GGUFHeader, context: int, slots: int, batch: int, kv_type: KVType = KVType.F16
) -> MemoryEstimate:
    load = LoadParameters(context=context, slots=slots, batch=batch, kv_type=kv_type)
    return estimate_memory(shape_of(header), load)


def _context(header: GGUFHeader, available: int, kv_type: KVType = KVType.F16) -> int:
    """Return the context to load, if KV cache and buffers may take half of the free memory."""

    def cost(context: int) -> int:
        estimate = _estimate(header, context, 8, 512, kv_type)
        return estimate.kv + estimate.compute

    return largest_context(header.context, (available - shape_of(header).weights) // 2, cost)


@pytest.mark.model
def test_estimate_matches_llama_cpp(smollm2_path: Path) -> None:
    estimate = _estimate(read_header(smollm2_path), context=2048, slots=4, batch=512)
    assert estimate.weights == pytest.approx(92.1 * MIB, rel=0.01)
    assert estimate.kv == 45 * MIB
    assert estimate.compute == pytest.approx((15.79 + 3.94) * MIB, rel=0.03)
    assert estimate.runtime == LLAMA_PROCESS + vocabulary_bytes(49152, 48900)
    parts = (estimate.weights, estimate.kv, estimate.compute, estimate.runtime)
    assert estimate.total == estimate.resident == sum(parts)


def test_encoder_needs_no_kv_but_buffers_for_its_longest_text(
    make_bert: Callable[..., Path],
) -> None:
    bert = read_header(make_bert())
    short, long = (_estimate(bert, context, 64, 16) for context in (32, 64))
    assert short.kv == long.kv == 0
    assert long.compute > short.compute
    assert _context(bert, 0) == 64


@pytest.mark.model
def test_estimate_of_an_encoder_matches_llama_cpp(minilm_path: Path) -> None:
    estimate = _estimate(read_header(minilm_path), context=512, slots=64, batch=512)
    handed_over = (512 + 64) * (30522 + 384) * 4
    assert estimate.compute == pytest.approx(5.88 * MIB + handed_over, rel=0.03)


def test_causal_embedding_model_has_a_kv_cache_for_one_batch(
    tiny: GGUFBuilder, header: Header
) -> None:
    written = _estimate(header(tiny), 1024, 64, 512)
    tiny.set("llama.pooling_type", UINT32, 3)
    last = _estimate(header(tiny), 1024, 64, 512)
    tiny.set("llama.pooling_type", UINT32, 1)
    mean = _estimate(header(tiny), 1024, 64, 512)
    assert last.kv == mean.kv == written.kv
    assert mean.compute > last.compute


def test_kv_size_counts_heads_of_each_layer(tiny: GGUFBuilder, header: Header) -> None:
    tiny.set("llama.attention.head_count_kv", ARRAY, [0, 4], INT32)
    assert _estimate(header(tiny), 1024, 1, 512).kv == 1024 * 4 * (16 + 16) * 2


def test_kv_size_counts_the_head_size_of_layers_with_a_window(
    tiny: GGUFBuilder, header: Header
) -> None:
    tiny.set("llama.attention.sliding_window_pattern", ARRAY, [1, 0], INT32)
    tiny.set("llama.attention.key_length_swa", UINT32, 8)
    tiny.set("llama.attention.value_length_swa", UINT32, 8)
    assert _estimate(header(tiny), 1024, 1, 512).kv == 1024 * 2 * (8 + 8 + 16 + 16) * 2


def test_kv_size_is_rounded_up_to_blocks(tiny: GGUFBuilder, header: Header) -> None:
    model = header(tiny)
    odd, even = (_estimate(model, context, 1, 512).kv for context in (1000, 1024))
    assert odd == even


@pytest.mark.parametrize(
    ("kv_type", "bytes_of_32"), [(KVType.F16, 64), (KVType.Q8_0, 34), (KVType.Q4_0, 18)]
)
def test_kv_size_depends_on_the_kv_type(
    tiny: GGUFBuilder, header: Header, kv_type: KVType, bytes_of_32: int
) -> None:
    tiny.set("llama.attention.head_count_kv", UINT32, 2)
    tiny.set("llama.attention.key_length", UINT32, 64)
    tiny.set("llama.attention.value_length", UINT32, 32)
    model = header(tiny)
    check_kv_type(model, kv_type)
    cells = 1024 * model.block_count * 2
    assert _estimate(model, 1024, 1, 512, kv_type=kv_type).kv == cells * 3 * bytes_of_32


@pytest.mark.parametrize(("key", "value"), [(80, 128), (128, 80)])
def test_head_size_must_fill_quantised_blocks(
    tiny: GGUFBuilder, header: Header, key: int, value: int
) -> None:
    tiny.set("llama.attention.key_length", UINT32, key)
    tiny.set("llama.attention.value_length", UINT32, value)
    model = header(tiny)
    check_kv_type(model, KVType.F16)
    with pytest.raises(UnsupportedModel, match="heads of 80 elements") as caught:
        check_kv_type(model, KVType.Q8_0)
    assert caught.value.hint == "Load it with the kv_type f16."


def test_smaller_kv_type_allows_a_longer_context(tiny: GGUFBuilder, header: Header) -> None:
    tiny.set("llama.context_length", UINT32, 16384)
    tiny.set("llama.attention.key_length", UINT32, 1024)
    tiny.set("llama.attention.value_length", UINT32, 1024)
    model = header(tiny)
    f16, q4_0 = (_context(model, 256 * MIB, t) for t in (KVType.F16, KVType.Q4_0))
    assert f16 < q4_0


@pytest.mark.parametrize(
    ("trained", "expected"), [(131072, 131072), (16384, 16384), (2048, 2048), (4000, 3840)]
)
def test_context_with_plenty_of_memory(
    tiny: GGUFBuilder, header: Header, trained: int, expected: int
) -> None:
    tiny.set("llama.context_length", UINT32, trained)
    assert _context(header(tiny), 64 << 30) == expected


def test_context_shrinks_with_available_memory(tiny: GGUFBuilder, header: Header) -> None:
    tiny.set("llama.context_length", UINT32, 32768)
    tiny.set("llama.attention.key_length", UINT32, 1024)
    tiny.set("llama.attention.value_length", UINT32, 1024)
    model = header(tiny)
    contexts = [_context(model, available << 20) for available in (2048, 256, 128, 64, 0)]
    assert contexts == sorted(contexts, reverse=True)
    assert contexts[0] == 32768
    assert contexts[-1] == 512
    assert len(set(contexts)) > 2
    for context, available in zip(contexts[:-1], (2048, 256, 128, 64), strict=True):
        estimate = _estimate(model, context, 8, 512)
        assert estimate.kv + estimate.compute <= ((available << 20) - estimate.weights) / 2


def test_context_never_exceeds_the_trained_context(tiny: GGUFBuilder, header: Header) -> None:
    tiny.set("llama.context_length", UINT32, 256)
    assert _context(header(tiny), 64 << 30) == 256
