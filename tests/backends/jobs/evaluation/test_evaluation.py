"""`ingle eval`: divergence of two models' answers to the same prompts, and the verdict."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from ingle.backends.base.conversation import ChatMessage
from ingle.backends.base.errors import LoadFailed
from ingle.backends.jobs.evaluation.evaluation import evaluate
from ingle.backends.jobs.evaluation.evaluator import run_evaluation
from ingle.backends.jobs.evaluation.messages import (
    AnswerDivergence,
    EvaluationProgress,
    EvaluationSpec,
    PromptResult,
)
from ingle.backends.jobs.evaluation.verdict import judge
from ingle.backends.jobs.quantization.messages import QuantizationTarget, QuantizeSpec
from ingle.backends.jobs.quantization.quantization import quantize
from ingle.backends.jobs.verification.logit_comparison import Statistics

WriteSmallLlama = Callable[..., Path]
PROMPTS = [[ChatMessage("user", text)] for text in ("the thin hen", "in the inn", "he then hid it")]


def spec_for(path: Path, fuller: Path, tokens: int = 12) -> EvaluationSpec:
    return EvaluationSpec(path=str(path), fuller_path=str(fuller), prompts=PROMPTS, tokens=tokens)


@pytest.fixture
def full(tmp_path: Path, write_small_llama: WriteSmallLlama) -> Path:
    return write_small_llama(tmp_path / "full.gguf")


def quantized(full: Path, target: QuantizationTarget) -> Path:
    output = full.with_name(f"{target}.gguf")
    spec = QuantizeSpec(source=str(full), output=str(output), target=target)
    quantize(spec, lambda _: None)
    return output


def test_comparison_of_files_needs_no_pytorch() -> None:
    code = (
        "import sys; from ingle.backends.jobs.evaluation import evaluation; "
        "from ingle.backends.jobs.verification import llama_scorer, verification; "
        "sys.exit('torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-P", "-c", code], check=True)


def test_model_compared_with_itself_is_practically_the_same(full: Path, tmp_path: Path) -> None:
    twin = tmp_path / "twin.gguf"
    twin.write_bytes(full.read_bytes())
    report = evaluate(spec_for(twin, full), lambda _: None)
    assert report.partings == 0
    assert report.kl.high == pytest.approx(0, abs=1e-6)
    assert report.agreement.low == 1
    # Answers are generated token by token, but scored in chunks.
    assert report.perplexity == pytest.approx(report.fuller_perplexity, rel=1e-4)
    assert report.verdict.startswith("practically the same")
    assert 0 < report.self_agreement <= 1


def test_coarser_quantisation_diverges_more(full: Path) -> None:
    fine = evaluate(spec_for(quantized(full, QuantizationTarget.Q8_0), full), lambda _: None)
    coarse = evaluate(spec_for(quantized(full, QuantizationTarget.Q4_0), full), lambda _: None)
    assert 0 < fine.kl.mean < coarse.kl.mean / 5
    assert fine.agreement.mean >= coarse.agreement.mean
    assert coarse.partings > 0
    for result in coarse.results:
        if (parting := result.parting) is not None:
            assert result.answer.startswith(parting.common_text)
            assert result.answer.startswith(parting.common_text + parting.fuller_text)
            assert parting.likely <= parting.likeliest
            first = result.statistics.first_divergence
            assert first is not None
            assert parting.shared == first.position


def test_longer_answer_starts_with_the_shorter_one(full: Path) -> None:
    """Scored positions are those of the generated answer, whatever its length."""
    twin = quantized(full, QuantizationTarget.Q8_0)
    short = evaluate(spec_for(twin, full, tokens=4), lambda _: None)
    long = evaluate(spec_for(twin, full, tokens=20), lambda _: None)
    for one, other in zip(short.results, long.results, strict=True):
        assert other.answer.startswith(one.answer)
        assert one.statistics.tokens <= 4


@pytest.mark.slow
def test_evaluation_in_a_child_process_reports_progress(full: Path) -> None:
    reported: list[EvaluationProgress] = []
    report = run_evaluation(
        spec_for(quantized(full, QuantizationTarget.Q8_0), full), reported.append
    )
    assert [step.loading for step in reported if step.loading] == ["full.gguf", "Q8_0.gguf"]
    assert [step.done for step in reported if step.total] == [0, 1, 2]
    assert len(report.results) == 3


def test_different_vocabulary_is_rejected(full: Path, smollm2_path: Path) -> None:
    with pytest.raises(LoadFailed, match="have 290 and 49152 tokens"):
        evaluate(spec_for(full, smollm2_path), lambda _: None)


def test_nan_weights_are_an_error(tmp_path: Path, write_small_llama: WriteSmallLlama) -> None:
    def spoil(name: str, values: NDArray[np.float32]) -> NDArray[np.float32]:
        return values * np.nan if name == "output_norm.weight" else values

    full = write_small_llama(tmp_path / "full.gguf")
    broken = write_small_llama(tmp_path / "broken.gguf", change=spoil)
    with pytest.raises(Exception, match="no numbers"):
        evaluate(spec_for(broken, full), lambda _: None)


def result(kl: float, tokens: int = 64, parting: AnswerDivergence | None = None) -> PromptResult:
    statistics = Statistics(
        tokens=tokens,
        mean_kl=kl,
        p99_kl=kl,
        max_kl=kl,
        top1_agreement=0.9,
        perplexity=2.0,
        reference_perplexity=1.5,
        perplexity_difference=0.33,
        worst_gap=0.1,
        first_divergence=None,
    )
    return PromptResult(prompt="p", answer="a", statistics=statistics, parting=parting)


def parting(likely: float, likeliest: float) -> AnswerDivergence:
    return AnswerDivergence(
        shared=1, likely=likely, likeliest=likeliest, common_text="", text="", fuller_text=""
    )


def test_verdict_depends_on_the_confidence_interval() -> None:
    few = judge([result(0.001), result(0.2)], [0.5], 1, 1)
    many = judge([result(0.02) for _ in range(50)], [0.5], 1, 1)
    assert few.kl.low < few.kl.mean < few.kl.high
    assert few.verdict.startswith("a different model")  # possible, as far as two prompts tell
    assert many.verdict.startswith("nearly the same")


def test_answers_are_weighted_by_length() -> None:
    report = judge([result(0.1, tokens=90), result(0.0, tokens=10)], [0.5], 1, 1)
    assert report.kl.mean == pytest.approx(0.09)


def test_near_tied_divergence_is_not_surprising() -> None:
    flat, sharp = parting(0.03, 0.04), parting(0.05, 0.9)
    report = judge([result(0.1, parting=flat), result(0.1, parting=sharp)], [0.5], 1, 1)
    assert (report.partings, report.surprising_partings) == (2, 1)


def test_prompt_longer_than_the_context_is_rejected(full: Path) -> None:
    prompts = [*PROMPTS, [ChatMessage("user", "the thin hen " * 400)]]
    spec = EvaluationSpec(path=str(full), fuller_path=str(full), prompts=prompts)
    with pytest.raises(LoadFailed, match=r"Prompt 4 of 4 has \d+ tokens"):
        evaluate(spec, lambda _: None)


def test_embedding_model_is_rejected(
    make_bert: Callable[..., Path],
) -> None:
    path = make_bert()
    with pytest.raises(LoadFailed, match="writes no text"):
        evaluate(spec_for(path, path), lambda _: None)
