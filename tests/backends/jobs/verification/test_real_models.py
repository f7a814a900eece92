"""`ingle verify` on real models: ingle's engine against llama.cpp and transformers."""

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
def test_smollm2_short_text_against_llama_cpp(smollm2_path: Path) -> None:
    """Other limits mean nothing for so few tokens: one token more or less is a percent."""
    report = compare(smollm2_path, ReferenceEngine.LLAMA_CPP, 120)
    assert (report.quantization, report.statistics.tokens) == ("Q4_1", 119)
    assert report.statistics.mean_kl < report.limits.mean_kl
    assert report.statistics.worst_gap < 0.5


@pytest.mark.slow
@pytest.mark.model
def test_smollm2_short_text_against_transformers(smollm2_path: Path) -> None:
    pytest.importorskip("accelerate", reason="transformers reads GGUF files with it")
    report = compare(smollm2_path, ReferenceEngine.TRANSFORMERS, 120)
    assert report.failures == []
    assert report.statistics.top1_agreement == 1


@pytest.mark.slow
@pytest.mark.model
def test_safetensors_folder(smollm2_folder: Path) -> None:
    report = compare(smollm2_folder, ReferenceEngine.TRANSFORMERS, TOKENS)
    assert report.failures == []
    assert report.quantization == "BF16"


@pytest.mark.slow
@pytest.mark.parametrize("against", list(ReferenceEngine))
@pytest.mark.parametrize("name", MODELS)
def test_two_thousand_tokens_are_within_tolerance(
    fetch_model: FetchModel, name: str, against: ReferenceEngine
) -> None:
    # llama.cpp's rounding is noise, which needs many tokens to average out.
    tokens = TOKENS if against is ReferenceEngine.TRANSFORMERS else None
    report = compare(fetch_model(name), against, tokens)
    assert report.failures == []
    assert report.statistics.tokens >= 2000
    # Where greedy choices differ, the reference finds both nearly equally likely.
    assert report.statistics.worst_gap < (1e-2 if against is ReferenceEngine.TRANSFORMERS else 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["F16", "BF16", "F32"])
def test_unquantised_weights(
    smollm2_path: Path, tmp_path: Path, write_as: WriteAs, kind: str
) -> None:
    path = write_as(smollm2_path, tmp_path / f"{kind}.gguf", kind)
    report = compare(path, ReferenceEngine.LLAMA_CPP, TOKENS)
    assert report.failures == []
    assert report.limits.mean_kl == 1e-4
    assert report.quantization == kind
