from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ingle.models.fit import default_context, estimate_memory
from ingle.models.gguf import GGUFHeader, read_header

if TYPE_CHECKING:
    from .conftest import GGUFBuilder

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


@pytest.mark.model
def test_agrees_with_what_llama_cpp_reports(smollm2_path: Path) -> None:
    estimate = estimate_memory(read_header(smollm2_path), context=2048, slots=4, batch=512)
    assert estimate.weights == pytest.approx(92.1 * MIB, rel=0.01)
    assert estimate.kv == 45 * MIB
    assert estimate.compute == pytest.approx((15.51 + 3.75) * MIB, rel=0.03)
    assert estimate.total == estimate.weights + estimate.kv + estimate.compute


def test_kv_counts_heads_layer_by_layer(tiny: GGUFBuilder, header: Header) -> None:
    tiny.set("llama.attention.head_count_kv", ARRAY, [0, 4], INT32)
    assert estimate_memory(header(tiny), 1000, 1, 512).kv == 1000 * 4 * (16 + 16) * 2


def test_kv_follows_the_bytes_of_an_element(tiny: GGUFBuilder, header: Header) -> None:
    model = header(tiny)
    full, quarter = (estimate_memory(model, 1024, 1, 512, size).kv for size in (2, 0.5))
    assert full == 4 * quarter


def test_a_sliding_window_is_noted(tiny: GGUFBuilder, header: Header) -> None:
    tiny.set("llama.attention.sliding_window", UINT32, 512)
    assert estimate_memory(header(tiny), 1024, 1, 512).sliding_window == 512


@pytest.mark.parametrize(
    ("trained", "expected"), [(131072, 16384), (16384, 16384), (2048, 2048), (4000, 3840)]
)
def test_context_with_plenty_of_memory(
    tiny: GGUFBuilder, header: Header, trained: int, expected: int
) -> None:
    tiny.set("llama.context_length", UINT32, trained)
    assert default_context(header(tiny), 64 << 30) == expected


def test_context_shrinks_with_the_memory(tiny: GGUFBuilder, header: Header) -> None:
    tiny.set("llama.context_length", UINT32, 32768)
    tiny.set("llama.attention.key_length", UINT32, 1024)
    tiny.set("llama.attention.value_length", UINT32, 1024)
    model = header(tiny)
    contexts = [default_context(model, available << 20) for available in (1024, 256, 128, 64, 0)]
    assert contexts == sorted(contexts, reverse=True)
    assert contexts[0] == 16384
    assert contexts[-1] == 512
    assert len(set(contexts)) > 2
    for context, available in zip(contexts[:-1], (1024, 256, 128, 64), strict=True):
        estimate = estimate_memory(model, context, 8, 512)
        assert estimate.kv + estimate.compute <= ((available << 20) - estimate.weights) / 2


def test_context_never_exceeds_the_trained_one(tiny: GGUFBuilder, header: Header) -> None:
    tiny.set("llama.context_length", UINT32, 256)
    assert default_context(header(tiny), 64 << 30) == 256
