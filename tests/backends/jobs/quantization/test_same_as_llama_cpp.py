"""Quantised files are byte for byte those of llama.cpp's own quantiser."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import llama_cpp
import pytest

from ingle.backends.jobs.quantization.messages import QuantizationTarget, QuantizeSpec
from ingle.backends.jobs.quantization.quantization import quantize
from ingle.models.gguf.gguf_header import read_header

WriteSmallLlama = Callable[..., Path]
TensorBytes = Callable[[Path], dict[str, tuple[str, bytes]]]
FILE_TYPES = {
    QuantizationTarget.F16: 1,
    QuantizationTarget.Q4_0: 2,
    QuantizationTarget.Q8_0: 7,
    QuantizationTarget.Q4_K_M: 15,
    QuantizationTarget.Q5_K_M: 17,
    QuantizationTarget.Q6_K: 18,
    QuantizationTarget.BF16: 32,
}


def by_llama_cpp(
    source: Path, target: Path, kind: QuantizationTarget, *, again: bool = False
) -> Path:
    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype, params.nthread, params.allow_requantize = FILE_TYPES[kind], 2, again
    by_reference = cast("Any", ctypes.byref(params))
    status = llama_cpp.llama_model_quantize(
        str(source).encode(), str(target).encode(), by_reference
    )
    assert status == 0
    return target


def by_ingle(source: Path, target: Path, kind: QuantizationTarget, *, again: bool = False) -> Path:
    spec = QuantizeSpec(source=str(source), output=str(target), target=kind, requantize=again)
    quantize(spec, lambda _: None)
    return target


@pytest.mark.parametrize("kind", FILE_TYPES)
@pytest.mark.parametrize(
    ("width", "layers", "stored"),
    [  # whole blocks, small blocks, and none
        (256, 9, "F32"),
        pytest.param(64, 2, "F32", marks=pytest.mark.slow),
        pytest.param(48, 2, "F16", marks=pytest.mark.slow),
    ],
)
def test_small_models_equal_llama_cpps_output(
    kind: QuantizationTarget,
    width: int,
    layers: int,
    stored: str,
    write_small_llama: WriteSmallLlama,
    tensor_bytes: TensorBytes,
    tmp_path: Path,
) -> None:
    source = write_small_llama(tmp_path / "f.gguf", kind=stored, width=width, layers=layers)
    ours = by_ingle(source, tmp_path / "ours.gguf", kind)
    theirs = by_llama_cpp(source, tmp_path / "theirs.gguf", kind)
    assert tensor_bytes(ours) == tensor_bytes(theirs)
    assert read_header(ours).metadata == read_header(theirs).metadata
    assert read_header(ours).quantization == kind


@pytest.mark.slow  # quantises 135 million weights twice
@pytest.mark.parametrize(
    "kind", [QuantizationTarget.Q4_K_M, QuantizationTarget.Q5_K_M, QuantizationTarget.Q6_K]
)
def test_real_model_equals_llama_cpps_output(
    kind: QuantizationTarget, smollm2_path: Path, tensor_bytes: TensorBytes, tmp_path: Path
) -> None:
    half = by_ingle(smollm2_path, tmp_path / "half.gguf", QuantizationTarget.F16, again=True)
    ours = by_ingle(half, tmp_path / "ours.gguf", kind)
    theirs = by_llama_cpp(half, tmp_path / "theirs.gguf", kind)
    assert tensor_bytes(ours) == tensor_bytes(theirs)


@pytest.mark.slow
def test_requantised_source_equals_llama_cpps_output(
    smollm2_path: Path, tensor_bytes: TensorBytes, tmp_path: Path
) -> None:
    ours = by_ingle(smollm2_path, tmp_path / "ours.gguf", QuantizationTarget.Q8_0, again=True)
    theirs = by_llama_cpp(
        smollm2_path, tmp_path / "theirs.gguf", QuantizationTarget.Q8_0, again=True
    )
    assert tensor_bytes(ours) == tensor_bytes(theirs)
