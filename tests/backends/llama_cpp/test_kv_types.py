"""Quantised KV caches and flash attention against the f16 cache of the same model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ingle.backends.base.errors import LoadFailed
from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.llama_cpp.model_runner import LlamaModelRunner
from ingle.models.kv_type import KVType

pytestmark = pytest.mark.model

Logits = NDArray[np.float32]
LoadModel = Callable[..., LlamaModelRunner]
Compute = Callable[..., Logits]

QUANTIZED = [KVType.Q8_0, KVType.Q4_0]
LICENCE = Path(__file__).parents[3] / "LICENSE"
PROMPT, MEASURED = 256, 96


@pytest.fixture(scope="module")
def text(smollm2_path: Path, load_model: LoadModel) -> list[int]:
    """Return tokens of prose."""
    encode = load_model(smollm2_path).tokenizer.encode
    prose = LICENCE.read_text()[2000:]
    return encode(prose, add_special=True, parse_special=False)[: PROMPT + MEASURED]


@pytest.fixture(scope="module")
def follow(text: list[int], compute: Compute) -> Callable[[LlamaModelRunner], Logits]:
    """Return a function that computes logits along the text, one token per step."""

    def follow(runner: LlamaModelRunner) -> Logits:
        compute(runner, 0, text[:PROMPT], 64, 64, 64, 64)
        rows = [compute(runner, 0, text[: n + 1], 1, start=n) for n in range(PROMPT, len(text))]
        runner.release(0)
        return np.array(rows)

    return follow


@pytest.fixture(scope="module")
def plain(smollm2_path: Path, load_model: LoadModel, follow: Callable[..., Logits]) -> Logits:
    """Return the logits with the f16 cache."""
    return follow(load_model(smollm2_path))


def agreement(left: Logits, right: Logits) -> float:
    """Return the share of positions with the same likeliest token."""
    return float((left.argmax(1) == right.argmax(1)).mean())


def perplexity(logits: Logits, tokens: list[int]) -> float:
    shifted: Logits = logits - logits.max(1, keepdims=True)
    chosen: Logits = shifted[range(len(tokens)), tokens]
    sums: Logits = np.sum(np.exp(shifted), axis=1)
    return float(np.exp(np.mean(np.log(sums) - chosen)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kv_type", "largest", "mean", "agreeing", "perplexity_ratio"),
    [(KVType.Q8_0, 4.0, 0.4, 0.9, 1.05), (KVType.Q4_0, 20.0, 1.5, 0.7, 1.2)],
)
def test_quantized_cache_hardly_changes_the_logits(
    smollm2_path: Path,
    load_model: LoadModel,
    follow: Callable[[LlamaModelRunner], Logits],
    plain: Logits,
    text: list[int],
    kv_type: KVType,
    largest: float,
    mean: float,
    agreeing: float,
    perplexity_ratio: float,
) -> None:
    """Another order of summation alone moves these logits by 0.2 on average, 1.6 at most."""
    logits = follow(load_model(smollm2_path, kv_type=kv_type))
    difference = np.abs(logits - plain)
    assert 0.01 < difference.mean() < mean
    assert difference.max() < largest
    assert agreement(logits, plain) >= agreeing
    following = text[PROMPT + 1 :]
    expected = perplexity(plain[:-1], following)
    assert perplexity(logits[:-1], following) == pytest.approx(expected, rel=perplexity_ratio - 1)


@pytest.mark.slow
@pytest.mark.parametrize("kv_type", QUANTIZED)
def test_forked_truncated_and_restored_prefixes_are_exact(
    smollm2_path: Path, load_model: LoadModel, compute: Compute, text: list[int], kv_type: KVType
) -> None:
    """Cached values are quantised once, and not again when copied."""
    runner = load_model(smollm2_path, kv_type=kv_type)
    cold = compute(runner, 1, text, 128, 128, MEASURED)
    runner.release(1)

    compute(runner, 0, text[:PROMPT], 128, 128)
    runner.fork(0, 1, PROMPT)
    assert np.array_equal(compute(runner, 1, text, MEASURED, start=PROMPT), cold)
    runner.release(1)

    compute(runner, 0, text[:PROMPT] + text[:40], 40, start=PROMPT)
    runner.trim(0, PROMPT)
    assert np.array_equal(compute(runner, 0, text, MEASURED, start=PROMPT), cold)

    snapshot = runner.snapshot(0, 0, PROMPT)
    assert len(snapshot) == pytest.approx(PROMPT * runner.info().kv_bytes / 2048, rel=0.01)
    runner.release(0)
    assert runner.restore(2, 0, PROMPT, snapshot)
    assert np.array_equal(compute(runner, 2, text, MEASURED, start=PROMPT), cold)


@pytest.mark.slow
def test_flash_attention_does_not_change_the_logits(
    smollm2_path: Path,
    load_model: LoadModel,
    follow: Callable[[LlamaModelRunner], Logits],
    plain: Logits,
    text: list[int],
) -> None:
    on = load_model(smollm2_path, flash_attention="on")
    off = load_model(smollm2_path, flash_attention="off")
    assert (on.info().flash_attention, off.info().flash_attention) == (True, False)
    assert on.info().warnings == off.info().warnings == []
    assert on.state_key != off.state_key
    assert np.array_equal(follow(on), plain), "auto turns it on where it can"
    logits = follow(off)
    assert np.abs(logits - plain).mean() < 0.4
    assert agreement(logits, plain) >= 0.9
    following = text[PROMPT + 1 :]
    expected = perplexity(plain[:-1], following)
    assert perplexity(logits[:-1], following) == pytest.approx(expected, rel=0.03)


@pytest.mark.parametrize(("kv_type", "share"), [(KVType.Q8_0, 34 / 64), (KVType.Q4_0, 18 / 64)])
def test_quantized_cache_is_smaller_and_reported_in_info(
    smollm2_path: Path, load_model: LoadModel, kv_type: KVType, share: float
) -> None:
    plain, info = (load_model(smollm2_path, kv_type=t).info() for t in (KVType.F16, kv_type))
    assert (plain.kv_type, info.kv_type) == (KVType.F16, kv_type)
    assert info.kv_bytes == pytest.approx(plain.kv_bytes * share, rel=0.002)
    assert info.flash_attention


@pytest.mark.parametrize("kv_type", QUANTIZED)
def test_quantized_cache_requires_flash_attention(kv_type: KVType) -> None:
    fields: dict[str, Any] = {"kv_type": kv_type, "flash_attention": "off"}
    spec = LoadSpec(engine="llama.cpp", path="/nowhere.gguf", context=512, **fields)
    with pytest.raises(LoadFailed, match=f"{kv_type} KV cache needs flash attention") as caught:
        LlamaModelRunner(spec)
    assert caught.value.hint
