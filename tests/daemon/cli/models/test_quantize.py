"""`ingle quantize` on a model with random weights."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ingle.daemon.main import main
from ingle.models.gguf.gguf_header import read_header

Capture = pytest.CaptureFixture[str]
WriteSmallLlama = Callable[..., Path]


@pytest.fixture
def model(
    tmp_path: Path, write_small_llama: WriteSmallLlama, monkeypatch: pytest.MonkeyPatch
) -> Path:
    monkeypatch.chdir(tmp_path)
    return write_small_llama(tmp_path / "small-f16.gguf", kind="F16")


@pytest.mark.slow
def test_output_is_written_next_to_the_source_and_verified(model: Path, capsys: Capture) -> None:
    assert main(["quantize", str(model), "q8_0"]) == 0
    output = model.with_name("small-Q8_0.gguf")
    assert read_header(output).quantization == "Q8_0"
    shown = capsys.readouterr().out
    assert f"ingle run {output}" in shown
    assert "they agree" in shown
    assert all(len(line) <= 80 or str(output) in line for line in shown.splitlines())


def test_output_name_of_a_split_model_has_no_part_number(model: Path, capsys: Capture) -> None:
    part = model.rename(model.with_name("small-f16-00001-of-00001.gguf"))
    assert main(["quantize", str(part), "Q8_0", "--no-verify"]) == 0
    assert str(model.with_name("small-Q8_0.gguf")) in capsys.readouterr().out


@pytest.mark.slow
def test_json_output_contains_sizes_and_verification(model: Path, capsys: Capture) -> None:
    wanted = model.with_name("x.gguf")
    assert main(["quantize", str(model), "Q4_0", "-o", str(wanted), "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["output"] == str(wanted)
    assert values["quantization"] == "Q4_0"
    assert values["size"] == wanted.stat().st_size < values["source_size"] * 2
    assert values["verified"]["passed"]
    assert 0 <= values["verified"]["mean_kl"] < 0.01


def test_no_verify_skips_the_verification(model: Path, capsys: Capture) -> None:
    assert main(["quantize", str(model), "Q8_0", "--no-verify", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["verified"] is None


@pytest.mark.slow
def test_embedding_model_is_not_compared_and_gets_no_run_hint(
    make_bert: Callable[..., Path], tmp_path: Path, capsys: Capture
) -> None:
    output = tmp_path / "small.gguf"
    assert main(["quantize", str(make_bert()), "Q8_0", "-o", str(output)]) == 0
    shown = capsys.readouterr().out
    assert "not compared" in shown
    assert "ingle run" not in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["Q9_Z"], "Q9_Z is not a target."),
        (["nf4"], "NF4 is not a file format"),
        (["Q8_0", "-o", "out.bin"], "should end in .gguf"),
        (["Q8_0", "-o", "nowhere/out.gguf"], "There is no folder"),
        (["Q8_0", "-o", "small-f16.gguf"], "is there already"),
        (["Q8_0", "--threads", "many"], "a whole number from 0 to 1024"),
        (["Q8_0", "--threads", "-1"], "a whole number from 0 to"),
    ],
)
def test_invalid_arguments_are_rejected_and_leave_the_source_unchanged(
    arguments: list[str], message: str, model: Path, capsys: Capture
) -> None:
    before = np.fromfile(model, np.uint8)
    assert main(["quantize", str(model), *arguments]) in (1, 2)
    assert message in capsys.readouterr().err
    assert np.array_equal(np.fromfile(model, np.uint8), before)
