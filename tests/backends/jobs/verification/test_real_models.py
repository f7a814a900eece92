"""Real models in the engine that serves, against llama.cpp and transformers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ingle.backends.jobs.verification.messages import VerificationReport, VerificationSpec
from ingle.backends.jobs.verification.scored_text import default_text
from ingle.backends.jobs.verification.tolerances import ReferenceEngine
from ingle.backends.jobs.verification.verification import verify

FetchModel = Callable[[str], Path]
WriteAs = Callable[[Path, Path, str], Path]

MODELS = ("smollm2:135m", "qwen2.5-coder:0.5b", "gemma3:270m")
TOKENS = 2100


def compare(path: Path, against: ReferenceEngine, tokens: int | None = None) -> VerificationReport:
    spec = VerificationSpec(path=str(path), text=default_text(), tokens=tokens, against=against)
    report = verify(spec, lambda _: None)
    print(report)
    return report


@pytest.mark.slow
@pytest.mark.model
def test_a_little_of_smollm2(smollm2_path: Path) -> None:
    """Of so few tokens the other limits say nothing: one token more or less is a percent."""
    report = compare(smollm2_path, ReferenceEngine.LLAMA_CPP, 120)
    assert (report.quantization, report.statistics.tokens) == ("Q4_1", 119)
    assert report.statistics.mean_kl < report.limits.mean_kl
    assert report.statistics.worst_gap < 0.5


@pytest.mark.slow
@pytest.mark.model
def test_a_little_of_smollm2_as_transformers_has_it(smollm2_path: Path) -> None:
    pytest.importorskip("accelerate", reason="transformers reads GGUF files with it")
    report = compare(smollm2_path, ReferenceEngine.TRANSFORMERS, 120)
    assert report.failures == []
    assert report.statistics.top1_agreement == 1


@pytest.mark.slow
@pytest.mark.model
def test_a_folder_of_safetensors(smollm2_folder: Path) -> None:
    report = compare(smollm2_folder, ReferenceEngine.TRANSFORMERS, TOKENS)
    assert report.failures == []
    assert report.quantization == "BF16"


@pytest.mark.slow
@pytest.mark.parametrize("against", list(ReferenceEngine))
@pytest.mark.parametrize("name", MODELS)
def test_over_two_thousand_tokens(
    fetch_model: FetchModel, name: str, against: ReferenceEngine
) -> None:
    # llama.cpp's rounding is noise, of which all there is should be averaged.
    tokens = TOKENS if against is ReferenceEngine.TRANSFORMERS else None
    report = compare(fetch_model(name), against, tokens)
    assert report.failures == []
    assert report.statistics.tokens >= 2000
    # Where greedy choices differ at all, the reference finds both nearly as likely.
    assert report.statistics.worst_gap < (1e-2 if against is ReferenceEngine.TRANSFORMERS else 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["F16", "BF16", "F32"])
def test_weights_that_are_not_quantized(
    smollm2_path: Path, tmp_path: Path, write_as: WriteAs, kind: str
) -> None:
    path = write_as(smollm2_path, tmp_path / f"{kind}.gguf", kind)
    report = compare(path, ReferenceEngine.LLAMA_CPP, TOKENS)
    assert report.failures == []
    assert report.limits.mean_kl == 1e-4
    assert report.quantization == kind
