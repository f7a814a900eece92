"""`ingle quantize`: resuming, rejected sources and weights, full disks, and atomic output."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.typing import NDArray

from ingle.backends.base.errors import BackendError, WorkerDied
from ingle.backends.jobs.quantization.messages import (
    QuantizationTarget,
    QuantizeProgress,
    QuantizeSpec,
)
from ingle.backends.jobs.quantization.quantization import quantize
from ingle.backends.jobs.quantization.quantize_failures import QuantizeFailed
from ingle.backends.jobs.quantization.quantizer import run_quantization
from ingle.models.errors import InvalidModel, UnsupportedModel

WriteSmallLlama = Callable[..., Path]


def spec_for(
    source: Path,
    target: QuantizationTarget = QuantizationTarget.Q8_0,
    *,
    requantize: bool = False,
    overwrite: bool = False,
) -> QuantizeSpec:
    return QuantizeSpec(
        source=str(source),
        output=str(source.with_name("out.gguf")),
        target=target,
        requantize=requantize,
        overwrite=overwrite,
    )


@pytest.fixture
def source(tmp_path: Path, write_small_llama: WriteSmallLlama) -> Path:
    return write_small_llama(tmp_path / "small.gguf", layers=4)


def left_over(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {"small.gguf"}


class Stopped(Exception):
    pass


def interrupt_at(count: int) -> Callable[[QuantizeProgress], None]:
    seen: list[QuantizeProgress] = []

    def on_progress(progress: QuantizeProgress) -> None:
        seen.append(progress)
        if len(seen) == count:
            raise Stopped

    return on_progress


@pytest.mark.parametrize("at", [2, 5, 17, 30])
def test_interrupted_quantisation_is_resumed(source: Path, tmp_path: Path, at: int) -> None:
    whole = tmp_path / "whole.gguf"
    quantize(
        QuantizeSpec(source=str(source), output=str(whole), target=QuantizationTarget.Q8_0),
        lambda _: None,
    )
    with pytest.raises(Stopped):
        quantize(spec_for(source), interrupt_at(at))
    assert "out.gguf" not in left_over(tmp_path)
    reported: list[QuantizeProgress] = []
    report = quantize(spec_for(source), reported.append)
    assert any(progress.resumed for progress in reported) == (at > 2)
    assert Path(report.output).read_bytes() == whole.read_bytes()
    assert left_over(tmp_path) == {"whole.gguf", "out.gguf"}


def test_changed_source_starts_from_scratch(
    source: Path, tmp_path: Path, write_small_llama: WriteSmallLlama
) -> None:
    with pytest.raises(Stopped):
        quantize(spec_for(source), interrupt_at(9))
    write_small_llama(source, layers=4, seed=2)
    os.utime(source, (1, 1))
    reported: list[QuantizeProgress] = []
    quantize(spec_for(source), reported.append)
    assert not any(progress.resumed for progress in reported)


@pytest.mark.parametrize("damage", ["journal", "part"])
def test_damaged_partial_output_starts_from_scratch(
    source: Path, tmp_path: Path, damage: str
) -> None:
    with pytest.raises(Stopped):
        quantize(spec_for(source), interrupt_at(9))
    if damage == "journal":
        (tmp_path / "out.gguf.part.json").write_bytes(b"{\xff")
    else:
        (tmp_path / "out.gguf.part").unlink()
    reported: list[QuantizeProgress] = []
    quantize(spec_for(source), reported.append)
    assert not any(progress.resumed for progress in reported)


@pytest.mark.slow
def test_killed_process_is_reported_and_resumed(smollm2_path: Path, tmp_path: Path) -> None:
    spec = QuantizeSpec(
        source=str(smollm2_path),
        output=str(tmp_path / "out.gguf"),
        target=QuantizationTarget.Q8_0,
        requantize=True,
    )

    def kill(progress: QuantizeProgress) -> None:
        if progress.done:
            subprocess.run(["pkill", "-9", "-P", str(os.getpid()), "-f", "quantization.quantizer"])

    with pytest.raises(WorkerDied, match="quantises the model was killed by SIGKILL"):
        run_quantization(spec, kill)
    reported: list[QuantizeProgress] = []
    report = run_quantization(spec, reported.append)
    assert any(progress.resumed for progress in reported)
    assert report.quantization == "Q8_0"


def test_existing_output_is_replaced_only_with_overwrite(source: Path, tmp_path: Path) -> None:
    quantize(spec_for(source), lambda _: None)
    with pytest.raises(QuantizeFailed, match="is there already"):
        quantize(spec_for(source), lambda _: None)
    before = (tmp_path / "out.gguf").read_bytes()
    quantize(spec_for(source, QuantizationTarget.Q4_0, overwrite=True), lambda _: None)
    assert (tmp_path / "out.gguf").read_bytes() != before


def test_quantised_source_requires_requantize(source: Path) -> None:
    quantize(spec_for(source, QuantizationTarget.Q4_0), lambda _: None)
    coarse = source.with_name("coarse.gguf")
    source.with_name("out.gguf").rename(coarse)
    with pytest.raises(UnsupportedModel, match="is quantised to Q4_0 already"):
        quantize(spec_for(coarse), lambda _: None)
    assert quantize(spec_for(coarse, requantize=True), lambda _: None).quantization == "Q8_0"


@pytest.mark.parametrize(
    ("value", "target", "words"),
    [
        (np.nan, QuantizationTarget.Q8_0, "are not numbers"),
        (np.inf, QuantizationTarget.Q4_K_M, "are not numbers"),
        (1e6, QuantizationTarget.F16, "too large for float16"),
    ],
)
def test_nan_and_too_large_weights_are_rejected(
    value: float,
    target: QuantizationTarget,
    words: str,
    tmp_path: Path,
    write_small_llama: WriteSmallLlama,
) -> None:
    def change(name: str, values: NDArray[np.float32]) -> NDArray[np.float32]:
        if name == "blk.1.ffn_up.weight":
            values[0, 0] = value
        return values

    source = write_small_llama(tmp_path / "small.gguf", change=change)
    with pytest.raises(QuantizeFailed, match=rf"blk\.1\.ffn_up\.weight.*{words}"):
        quantize(spec_for(source, target), lambda _: None)
    assert left_over(tmp_path) == set()


def test_nan_in_an_unquantised_tensor_is_rejected(
    tmp_path: Path, write_small_llama: WriteSmallLlama
) -> None:
    def change(name: str, values: NDArray[np.float32]) -> NDArray[np.float32]:
        if name == "blk.1.ffn_norm.weight":
            values[0] = np.nan
        return values

    source = write_small_llama(tmp_path / "small.gguf", change=change)
    with pytest.raises(QuantizeFailed, match=r"blk\.1\.ffn_norm\.weight.*not numbers"):
        quantize(spec_for(source), lambda _: None)


def test_second_writer_of_the_same_output_is_rejected(source: Path, tmp_path: Path) -> None:
    refused: list[str] = []

    def start_second(progress: QuantizeProgress) -> None:
        if progress.done and not refused:
            with pytest.raises(QuantizeFailed, match="Another process is writing") as caught:
                quantize(spec_for(source, QuantizationTarget.Q4_0), lambda _: None)
            refused.append(caught.value.code)

    assert quantize(spec_for(source), start_second).quantization == "Q8_0"
    assert refused == ["busy"]
    assert left_over(tmp_path) == {"out.gguf"}


def test_source_that_changes_during_quantisation_is_an_error(source: Path, tmp_path: Path) -> None:
    def touch(progress: QuantizeProgress) -> None:
        if progress.done:
            os.utime(source, (1, 1))

    with pytest.raises(QuantizeFailed, match="changed while it was read"):
        quantize(spec_for(source), touch)
    assert left_over(tmp_path) == set()


def test_output_must_not_be_the_source_or_a_folder(source: Path, tmp_path: Path) -> None:
    before = source.read_bytes()
    spec = QuantizeSpec(
        source=str(source), output=str(source), target=QuantizationTarget.Q8_0, overwrite=True
    )
    with pytest.raises(QuantizeFailed, match="is the model itself"):
        quantize(spec, lambda _: None)
    assert source.read_bytes() == before
    (tmp_path / "out.gguf").mkdir()
    with pytest.raises(QuantizeFailed, match="is a folder"):
        quantize(spec_for(source, overwrite=True), lambda _: None)


def test_output_that_fails_the_check_does_not_replace_a_file(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = b"an earlier file"
    (tmp_path / "out.gguf").write_bytes(before)

    def spoiled(values: object) -> NDArray[np.bool_]:
        return np.array([False])

    def spoil_at_the_end(progress: QuantizeProgress) -> None:
        if progress.step == "checking the new file":
            monkeypatch.setattr(np, "isfinite", spoiled)

    with pytest.raises(QuantizeFailed, match="computes no numbers"):
        quantize(spec_for(source, overwrite=True), spoil_at_the_end)
    assert left_over(tmp_path) == {"out.gguf"}
    assert (tmp_path / "out.gguf").read_bytes() == before


def test_truncated_source_is_rejected(source: Path) -> None:
    source.write_bytes(source.read_bytes()[:5000])
    with pytest.raises(InvalidModel):
        quantize(spec_for(source), lambda _: None)


def test_full_disk_is_reported_before_starting(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nearly_full(_: Path) -> SimpleNamespace:
        return SimpleNamespace(free=1000)

    monkeypatch.setattr(shutil, "disk_usage", nearly_full)
    with pytest.raises(QuantizeFailed, match="too little room") as caught:
        quantize(spec_for(source), lambda _: None)
    assert caught.value.code == "disk_full"
    assert left_over(tmp_path) == set()


def test_unwritable_output_folder_is_an_error(source: Path) -> None:
    spec = QuantizeSpec(source=str(source), output="/proc/out.gguf", target=QuantizationTarget.Q8_0)
    with pytest.raises(BackendError, match="cannot be written"):
        quantize(spec, lambda _: None)


def test_no_temporary_files_are_left(source: Path) -> None:
    before = set(Path(tempfile.gettempdir()).glob("*vocabulary*"))
    quantize(spec_for(source), lambda _: None)
    assert set(Path(tempfile.gettempdir()).glob("*vocabulary*")) == before
