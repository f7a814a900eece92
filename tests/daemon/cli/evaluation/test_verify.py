"""`ingle verify`: report, exit status, JSON output and model resolution (comparison faked)."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ingle.backends.jobs.verification import verifier
from ingle.backends.jobs.verification.logit_comparison import LogitDivergence, Statistics
from ingle.backends.jobs.verification.messages import (
    VerificationProgress,
    VerificationReport,
    VerificationSpec,
)
from ingle.backends.jobs.verification.tolerances import ReferenceEngine, limits_for
from ingle.daemon.main import main

Capture = pytest.CaptureFixture[str]


def report(
    *, failures: tuple[str, ...] = (), first: LogitDivergence | None = None
) -> VerificationReport:
    return VerificationReport(
        architecture="llama",
        quantization="Q4_1",
        device="CPU, 2 threads",
        against="llama.cpp",
        context=2048,
        statistics=Statistics(
            tokens=2000,
            mean_kl=0.00213,
            p99_kl=0.0111,
            max_kl=0.0342,
            top1_agreement=0.976,
            perplexity=12.3456,
            reference_perplexity=12.3302,
            perplexity_difference=0.00125,
            worst_gap=0.21,
            first_divergence=first,
        ),
        first_choices=(" the\x1b[2J", " a rather long one") if first else None,
        seconds=31.2,
        reference_seconds=4.2,
        limits=limits_for(ReferenceEngine.LLAMA_CPP, quantized=True),
        failures=list(failures),
    )


@pytest.fixture
def verified(
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[VerificationReport], list[VerificationSpec]]:
    """Replace the verification by one that returns this report; return the specs it was called
    with."""

    def answer(result: VerificationReport) -> list[VerificationSpec]:
        specs: list[VerificationSpec] = []

        def run(
            spec: VerificationSpec,
            on_progress: Callable[[VerificationProgress], None],
            import_path: list[str],
        ) -> VerificationReport:
            assert import_path == []  # both engines are in ingle's own environment
            specs.append(spec)
            on_progress(VerificationProgress(compared=1, total=2))
            return result

        monkeypatch.setattr(verifier, "run_verification", run)
        return specs

    return answer


def test_report_fits_80_columns(
    daemon: Any, verified: Callable[[VerificationReport], list[VerificationSpec]], capsys: Capture
) -> None:
    first = LogitDivergence(position=16, token=1, reference_token=2, gap=0.021)
    specs = verified(report(first=first))
    assert main(["verify", "smollm2"]) == 0
    assert specs[0].path == daemon.models[0]["path"]
    assert len(specs[0].text) > 10_000
    out = capsys.readouterr().out
    assert out == (
        "smollm2:135m: llama Q4_1 on CPU, 2 threads\n"
        "compared with llama.cpp over 2000 tokens\n"
        "\n"
        "                      MEASURED      LIMIT\n"
        "mean KL divergence  0.0021 nat  0.005 nat  ok\n"
        "same first choice       97.60%      95.0%  ok\n"
        "perplexity             +0.125%       0.5%  ok\n"
        "\n"
        "divergence        99 % below 0.011 nat, 0.034 at most\n"
        "perplexity        12.3456, llama.cpp 12.3302\n"
        "first difference  token 17, ' the\\x1b[2J' for ' a rather l…' (0.021 nat behind)\n"
        "time              31 s (64 tokens/s), llama.cpp 4.2 s (476 tokens/s)\n"
        "\n"
        "passed\n"
    )
    assert max(map(len, out.splitlines())) <= 80


def test_failed_verification_exits_with_1(
    daemon: Any, verified: Callable[[VerificationReport], list[VerificationSpec]], capsys: Capture
) -> None:
    verified(report(failures=("mean_kl",)))
    assert main(["verify", "smollm2"]) == 1
    out = capsys.readouterr().out
    assert "mean KL divergence  0.0021 nat  0.005 nat  too far\n" in out
    assert "first difference  none, every first choice is the same\n" in out
    assert out.endswith("\nFAILED\n")


def test_few_tokens_beyond_a_limit_are_not_called_a_failure(
    daemon: Any, verified: Callable[[VerificationReport], list[VerificationSpec]], capsys: Capture
) -> None:
    whole = report(failures=("top1_agreement",))
    short = msgspec.structs.replace(whole.statistics, tokens=120)
    verified(msgspec.structs.replace(whole, statistics=short))
    assert main(["verify", "smollm2"]) == 2
    out = capsys.readouterr().out
    assert out.endswith("\ntoo few tokens to judge: compare 2000 or more\n")
    assert "FAILED" not in out
    assert main(["verify", "smollm2", "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["passed"] is None
    wrong = msgspec.structs.replace(short, mean_kl=0.06)
    verified(msgspec.structs.replace(whole, statistics=wrong))
    assert main(["verify", "smollm2"]) == 1
    assert capsys.readouterr().out.endswith("\nFAILED\n")


def test_json_output_contains_statistics(
    daemon: Any, verified: Callable[[VerificationReport], list[VerificationSpec]], capsys: Capture
) -> None:
    first = LogitDivergence(position=16, token=1, reference_token=2, gap=0.021)
    verified(report(first=first))
    assert main(["verify", "smollm2", "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert (value["mean_kl"], value["top1_agreement"], value["tokens"]) == (0.00213, 0.976, 2000)
    assert (value["model"], value["path"]) == ("smollm2:135m", daemon.models[0]["path"])
    assert value["passed"] is True
    assert value["failures"] == []
    assert value["first_divergence"] == {
        "position": 16,
        "token": 1,
        "reference_token": 2,
        "gap": 0.021,
        "text": " the\x1b[2J",
        "reference_text": " a rather long one",
    }
    assert not {"type", "statistics", "first_choices"} & value.keys()


def test_custom_text_and_reference_engine(
    daemon: Any, verified: Callable[[VerificationReport], list[VerificationSpec]], tmp_path: Path
) -> None:
    specs = verified(report())
    text = tmp_path / "text"
    text.write_text("Ein Satz über etwas.", encoding="utf-8")
    arguments = ["--text", str(text), "--tokens", "5", "--against", "transformers"]
    assert main(["verify", str(tmp_path / "some.gguf"), *arguments]) == 0
    assert specs == [
        VerificationSpec(
            path=str(tmp_path / "some.gguf"),
            text="Ein Satz über etwas.",
            tokens=5,
            against=ReferenceEngine.TRANSFORMERS,
        )
    ]
    assert daemon.requests == []  # a path does not need the daemon


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--tokens", "1"], "must be a whole number, 2 or more, not '1'"),
        (["--against", "vllm"], "--against must be one of llama.cpp, transformers, not 'vllm'"),
        (["--text", "/nowhere"], "The text /nowhere cannot be read: No such file"),
        (["--text", "/bin/sh"], "/bin/sh is not UTF-8 text."),
        ([], "MODEL is missing."),
    ],
)
def test_invalid_arguments_exit_with_2(
    daemon: Any, capsys: Capture, arguments: list[str], message: str
) -> None:
    model = ["smollm2"] if arguments else []
    assert main(["verify", *model, *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith("Error: ")
    assert message in error


def test_embedding_and_unknown_models_are_rejected(daemon: Any, capsys: Capture) -> None:
    daemon.models[0] |= {"task": "embed", "chat": False}
    assert main(["verify", "smollm2"]) == 1
    assert "does not generate text: it is for embeddings" in capsys.readouterr().err
    assert main(["verify", "smolm2"]) == 1
    assert "There is no model 'smolm2' here." in capsys.readouterr().err


def test_catalog_model_is_pulled_before_verification(
    daemon: Any,
    verified: Callable[[VerificationReport], list[VerificationSpec]],
    model_entry: Callable[..., dict[str, Any]],
) -> None:
    specs = verified(report())
    daemon.models = [model_entry(installed=False, state="available", path=None)]
    daemon.pull = [("done", model_entry(path="/models/pulled.gguf"))]
    assert main(["verify", "smollm2"]) == 0
    assert daemon.requests_to("POST", "/ingle/v1/pull") == [{"model": "smollm2:135m"}]
    assert specs[0].path == "/models/pulled.gguf"


def test_hub_reference_is_pulled_before_verification(
    daemon: Any,
    verified: Callable[[VerificationReport], list[VerificationSpec]],
    model_entry: Callable[..., dict[str, Any]],
) -> None:
    specs = verified(report())
    daemon.pull = [("done", model_entry(path="/models/hub.gguf"))]
    assert main(["verify", "hf.co/owner/repo:Q4_K_M"]) == 0
    assert daemon.requests_to("POST", "/ingle/v1/pull") == [{"model": "hf.co/owner/repo:Q4_K_M"}]
    assert specs[0].path == "/models/hub.gguf"


@pytest.mark.slow
def test_missing_file_is_reported_without_traceback(
    paths: Any, ingle: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    done = ingle("verify", "./missing.gguf")
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("Error: There is no file /")
    assert len(done.stderr.splitlines()) <= 2
