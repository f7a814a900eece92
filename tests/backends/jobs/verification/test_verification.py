"""`verify` on a small file in two engines: equal results, and a deliberately wrong engine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from ingle.backends.base.errors import BackendError
from ingle.backends.jobs.verification.engine_scorer import EngineScorer
from ingle.backends.jobs.verification.llama_scorer import LlamaScorer
from ingle.backends.jobs.verification.messages import (
    VerificationProgress,
    VerificationSpec,
)
from ingle.backends.jobs.verification.tolerances import ReferenceEngine
from ingle.backends.jobs.verification.verification import PairedReading, open_verified_model, verify
from ingle.models.errors import ModelError

WriteSmallLlama = Callable[..., Path]
Values = NDArray[np.float32]
TEXT = "the thin hen in the inn; then 12 + 30 = 42. Ünïcödé 春天! " * 8


def spec(path: Path, **fields: object) -> VerificationSpec:
    values = {"path": str(path), "text": TEXT, **fields}
    return VerificationSpec(**values)  # pyright: ignore[reportArgumentType]


@pytest.fixture(scope="module")
def small_llama(
    tmp_path_factory: pytest.TempPathFactory, write_small_llama: WriteSmallLlama
) -> Path:
    return write_small_llama(tmp_path_factory.mktemp("llama") / "small.gguf")


@pytest.mark.parametrize("kind", ["F32", "F16", "BF16", "Q8_0", "Q4_0"])
def test_both_engines_agree_on_the_same_file(
    kind: str, tmp_path: Path, write_small_llama: WriteSmallLlama
) -> None:
    path = write_small_llama(tmp_path / "small.gguf", kind=kind)
    sent: list[VerificationProgress] = []
    report = verify(spec(path), sent.append)
    assert report.failures == []
    assert (report.architecture, report.against) == ("llama", "llama.cpp")
    assert report.statistics.tokens > 300
    assert report.limits.mean_kl == (5e-3 if kind.startswith("Q") else 1e-4)
    assert report.statistics.perplexity > 10  # random weights know nothing of the text
    loading = [progress.loading for progress in sent if progress.loading]
    assert loading == ["ingle", "llama.cpp"]
    last = sent[-1]
    assert last.compared == last.total == report.statistics.tokens


def test_short_context_is_verified_in_windows(
    tmp_path: Path, write_small_llama: WriteSmallLlama
) -> None:
    path = write_small_llama(tmp_path / "small.gguf", context=50)
    report = verify(spec(path, tokens=333), lambda _: None)
    assert report.failures == []
    assert report.context == 50
    # 333 tokens; the first window predicts 49, every other one all but its first token.
    assert report.statistics.tokens == 332


@pytest.mark.slow
def test_transformers_agrees_more_closely(small_llama: Path) -> None:
    pytest.importorskip("accelerate", reason="transformers reads GGUF files with it")
    report = verify(spec(small_llama, against=ReferenceEngine.TRANSFORMERS), lambda _: None)
    assert report.failures == []
    assert report.statistics.mean_kl < 1e-6
    assert report.statistics.top1_agreement == 1


def test_safetensors_folder_is_compared_with_transformers(make_folder: Callable[..., Path]) -> None:
    folder = make_folder()
    report = verify(spec(folder), lambda _: None)
    assert report.failures == []
    assert (report.against, report.quantization) == ("transformers", "BF16")
    assert report.statistics.mean_kl < 1e-6
    with pytest.raises(BackendError, match=r"llama\.cpp cannot read llama: it is a folder"):
        verify(spec(folder, against=ReferenceEngine.LLAMA_CPP), lambda _: None)


def spoil_norm(name: str, values: Values) -> Values:
    return values * np.float32(1.2) if name == "blk.1.attn_norm.weight" else values


def swap_heads(name: str, values: Values) -> Values:
    return np.roll(values, 16, axis=0) if name == "blk.0.attn_k.weight" else values


@pytest.mark.parametrize("change", [spoil_norm, swap_heads])
def test_wrong_computation_fails_verification(
    change: Callable[[str, Values], Values],
    small_llama: Path,
    tmp_path: Path,
    write_small_llama: WriteSmallLlama,
) -> None:
    wrong = write_small_llama(tmp_path / "wrong.gguf", change=change)
    window = open_verified_model(small_llama).encode(TEXT)
    reference = LlamaScorer(small_llama, context=len(window), chunk=61)
    for path, is_right in ((small_llama, True), (wrong, False)):
        engine = EngineScorer(path, context=len(window), chunk=61)
        result = PairedReading(engine, reference, chunk=61).compare([window], lambda _: None)
        assert (result.mean_kl < 1e-4) is is_right
        assert (result.mean_kl < 5e-3) is is_right
        engine.close()
    reference.close()


def test_chunk_size_does_not_change_the_result(small_llama: Path) -> None:
    window = open_verified_model(small_llama).encode(TEXT)[:200]
    engine = EngineScorer(small_llama, context=200, chunk=200)
    engine.begin()
    whole = engine.read(window, 0, 199).copy()
    for sizes in ([1] * 40 + [159], [31, 33, 64, 71], [198, 1]):
        engine.begin()
        start = 0
        for size in sizes:
            rows = engine.read(window, start, start + size)
            np.testing.assert_allclose(rows, whole[start : start + size], rtol=0, atol=2e-3)
            start += size
    engine.close()


def test_nan_weights_are_a_one_line_error(
    tmp_path: Path, write_small_llama: WriteSmallLlama
) -> None:
    def poison(name: str, values: Values) -> Values:
        return values * np.float32("nan") if name == "output_norm.weight" else values

    path = write_small_llama(tmp_path / "nan.gguf", change=poison)
    with pytest.raises(BackendError, match=r"The logits of .+ at position 0 are not numbers\."):
        verify(spec(path), lambda _: None)


def test_too_short_text_is_rejected(small_llama: Path) -> None:
    with pytest.raises(BackendError, match="has 5 tokens in this model's vocabulary, not 50"):
        verify(spec(small_llama, text="xyz", tokens=50), lambda _: None)
    with pytest.raises(BackendError, match="has nothing to predict"):
        verify(spec(small_llama, text=""), lambda _: None)


def test_unsupported_architecture_is_rejected(
    tmp_path: Path, make_bert: Callable[..., Path]
) -> None:
    with pytest.raises(ModelError, match="ingle's own engine does not know"):
        verify(spec(make_bert()), lambda _: None)
    with pytest.raises(ModelError, match="There is no file"):
        verify(spec(tmp_path / "none.gguf"), lambda _: None)
