"""Folders of AWQ, GPTQ and FP8: what they hold, what they cost, and how they are resumed."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import (
    load_file,  # pyright: ignore[reportUnknownVariableType]
    save_file,  # pyright: ignore[reportUnknownVariableType]
)

from ingle.backends.jobs.quantization.folder_quantization import quantize_folder
from ingle.backends.jobs.quantization.matrix_encoders import rounded_groups
from ingle.backends.jobs.quantization.messages import (
    QuantizationTarget,
    QuantizeProgress,
    QuantizeSpec,
)
from ingle.backends.jobs.quantization.quantize_failures import QuantizeFailed
from ingle.backends.jobs.verification.engine_scorer import EngineScorer
from ingle.kernels.formats.dequantize import dequantize
from ingle.models.errors import UnsupportedModel
from ingle.models.safetensors.model_folder import read_folder
from ingle.models.safetensors.safetensors_header import read_safetensors_header
from ingle.models.weights.quantized_weights import open_folder_weights

MakeFolder = Callable[..., Path]
AWQ, GPTQ, FP8 = QuantizationTarget.AWQ, QuantizationTarget.GPTQ, QuantizationTarget.FP8
TARGETS = (AWQ, GPTQ, FP8)
SIZES = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2}
GROUP = 64
DOWN = "model.layers.1.mlp.down_proj.weight"


def ignore(progress: QuantizeProgress) -> None:
    """Take no notice."""


def spec_of(
    source: Path,
    target: QuantizationTarget,
    output: Path | None = None,
    *,
    importance: str = "",
    overwrite: bool = False,
) -> QuantizeSpec:
    return QuantizeSpec(
        source=str(source),
        output=str(output or source.with_name(f"{source.name}-{target}")),
        target=target,
        importance=importance,
        overwrite=overwrite,
    )


@pytest.fixture
def source(make_folder: MakeFolder) -> Path:
    """A small Llama whose matrices fit all formats."""
    return make_folder("llama", **SIZES)


def matrix(folder: Path, name: str) -> torch.Tensor:
    weight = open_folder_weights(read_folder(folder)).get(name)
    return weight.float() if isinstance(weight, torch.Tensor) else dequantize(weight)


def logits(folder: Path) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    with closing(EngineScorer(folder, context=64, chunk=32)) as scorer:
        scorer.begin()
        return scorer.read(list(range(40, 72)), 0, 32).copy()


@pytest.mark.parametrize(
    ("target", "limit", "same"), [(AWQ, 0.1, 0.75), (GPTQ, 0.11, 0.75), (FP8, 0.03, 0.97)]
)
def test_folder_holds_the_weights_of_its_source(
    source: Path, target: QuantizationTarget, limit: float, same: float
) -> None:
    report = quantize_folder(spec_of(source, target), ignore)
    output = Path(report.output)
    assert report.types == {target: 14, "as it was": 7}
    for name in (DOWN, DOWN.replace("mlp.down", "self_attn.q")):
        exact, found = matrix(source, name), matrix(output, name)
        error = (found - exact).square().sum().sqrt() / exact.square().sum().sqrt()
        assert 0 < error < limit
    kept = "model.embed_tokens.weight"
    assert torch.equal(matrix(source, kept), matrix(output, kept))
    folder = read_folder(output)
    assert folder.quantization == report.quantization
    assert folder.has_chat_template == read_folder(source).has_chat_template
    exact, found = logits(source), logits(output)
    assert (
        np.corrcoef(exact.ravel(), found.ravel())[0, 1] > same
    )  # random weights: every error counts


@pytest.mark.parametrize("symmetric", [False, True])
def test_ranges_that_cut_off_are_never_worse_and_importance_counts(symmetric: bool) -> None:
    random = torch.Generator().manual_seed(1)
    weights = torch.randn(64, 2 * GROUP, generator=random) ** 3
    importance = torch.rand(2 * GROUP, generator=random) ** 8

    def error(counts: torch.Tensor | None) -> float:
        codes, zeros, scales = rounded_groups(weights, GROUP, counts, symmetric=symmetric)
        steps = codes.float() - zeros.float().repeat_interleave(GROUP, 1)
        found = steps * scales.float().repeat_interleave(GROUP, 1)
        return float(((found - weights).square() * importance).sum())

    whole = weights.view(64, 2, GROUP)
    step = (whole.amax(-1) - whole.amin(-1)) / 15
    if symmetric:
        step = 2 * whole.abs().amax(-1) / 15
    plain = ((whole / step[..., None]).round() * step[..., None] - whole).flatten(1)
    assert error(importance) < error(None)
    assert error(importance) < float((plain.square() * importance).sum())


def test_zeros_and_huge_weights_keep_their_values() -> None:
    weights = torch.zeros(2, GROUP)
    weights[1, 3] = 30000.0
    codes, zeros, scales = rounded_groups(weights, GROUP, None, symmetric=False)
    found = (codes.float() - zeros.float()) * scales.float()
    assert torch.equal(found[0], weights[0])
    assert torch.allclose(found[1], weights[1], rtol=1e-3)


def test_text_weighs_the_matrices(source: Path, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("Some words that matter, and others. " * 40)
    report = quantize_folder(spec_of(source, AWQ, importance=str(text)), ignore)
    assert report.weighted == 14
    unweighed = quantize_folder(spec_of(source, AWQ, tmp_path / "plain"), ignore)
    assert not torch.equal(matrix(Path(report.output), DOWN), matrix(Path(unweighed.output), DOWN))


@pytest.mark.parametrize("target", TARGETS)
def test_interrupted_folder_is_no_model_and_is_resumed(
    source: Path, target: QuantizationTarget, tmp_path: Path
) -> None:
    spec = spec_of(source, target)
    steps: list[QuantizeProgress] = []

    def interrupt(progress: QuantizeProgress) -> None:
        steps.append(progress)
        if len(steps) == 9:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        quantize_folder(spec, interrupt)
    assert not (Path(spec.output) / "config.json").exists()
    assert not list(Path(spec.output).glob("*.safetensors"))
    steps.clear()
    quantize_folder(spec, steps.append)
    assert steps[1].resumed > 0
    whole = quantize_folder(spec_of(source, target, tmp_path / "whole"), ignore)
    files = [Path(folder) / "model.safetensors" for folder in (spec.output, whole.output)]
    assert files[0].read_bytes() == files[1].read_bytes()
    assert sorted(path.name for path in Path(spec.output).iterdir()) == sorted(
        path.name for path in Path(whole.output).iterdir()
    )


def test_layers_that_do_not_fit_are_named_for_other_readers(make_folder: MakeFolder) -> None:
    sizes = {**SIZES, "intermediate_size": 144}  # of which `down_proj` cannot make groups
    source = make_folder("llama", **sizes)
    for target, key in ((AWQ, "modules_to_not_convert"), (GPTQ, "dynamic")):
        report = quantize_folder(spec_of(source, target), ignore)
        settings = json.loads((Path(report.output) / "config.json").read_bytes())
        left = settings["quantization_config"][key]
        assert len(left) == 2
        assert all("mlp" in name and "down_proj" in name for name in left)
        assert report.types[target] == 12


def test_refusals(source: Path, make_folder: MakeFolder) -> None:
    report = quantize_folder(spec_of(source, AWQ), ignore)
    with pytest.raises(QuantizeFailed, match="is there already"):
        quantize_folder(spec_of(source, AWQ), ignore)
    quantize_folder(spec_of(source, AWQ, overwrite=True), ignore)
    with pytest.raises(QuantizeFailed, match="is the model itself"):
        quantize_folder(spec_of(source, AWQ, source, overwrite=True), ignore)
    with pytest.raises(UnsupportedModel, match="quantised to AWQ already"):
        quantize_folder(spec_of(Path(report.output), GPTQ), ignore)
    sizes = {**SIZES, "hidden_size": 80, "intermediate_size": 112}
    narrow = make_folder("llama", **sizes)  # in place of the source
    with pytest.raises(UnsupportedModel, match="No matrix"):
        quantize_folder(spec_of(narrow, AWQ, overwrite=True), ignore)


def test_weights_that_are_not_numbers_leave_no_file(source: Path) -> None:
    (path, tensor) = read_folder(source).tensors[DOWN]
    raw = bytearray(path.read_bytes())
    raw[tensor.offset : tensor.offset + 2] = b"\xc0\x7f"  # NaN in BF16
    path.write_bytes(raw)
    spec = spec_of(source, FP8)
    with pytest.raises(QuantizeFailed, match="not numbers"):
        quantize_folder(spec, ignore)
    assert list(Path(spec.output).iterdir()) == []


def test_other_weights_in_an_overwritten_folder_are_removed(source: Path) -> None:
    spec = spec_of(source, FP8, overwrite=True)
    output = Path(spec.output)
    output.mkdir()
    old = ("model-00001-of-00002.safetensors", "model.safetensors.index.json", "quant_config.json")
    for name in (*old, "notes.txt"):
        (output / name).write_text("{}")
    quantize_folder(spec, ignore)
    assert not any((output / name).exists() for name in old), "vLLM would read the old weights"
    assert (output / "notes.txt").exists()


def test_folder_that_computes_nothing_is_no_model(source: Path) -> None:
    path, tensor = read_folder(source).tensors["model.norm.weight"]
    raw = bytearray(path.read_bytes())
    raw[tensor.offset : tensor.offset + tensor.bytes] = b"\x7f\x7f" * 128  # 3e38 in BF16
    path.write_bytes(raw)
    spec = spec_of(source, FP8)
    with pytest.raises(QuantizeFailed, match="computes no numbers"):
        quantize_folder(spec, ignore)
    assert not (Path(spec.output) / "config.json").exists()


def test_tensors_beside_the_text_model_are_copied_and_named(source: Path) -> None:
    beside = {
        "visual.logit_scale": torch.tensor(2.5),
        "visual.blocks.0.attn.qkv.weight": torch.ones(8, 8),
    }
    path = source / "model.safetensors"
    save_file({**load_file(path), **beside}, path, {"format": "pt"})
    report = quantize_folder(spec_of(source, FP8), ignore)
    found = load_file(Path(report.output) / "model.safetensors")
    assert all(torch.equal(found[name], tensor) for name, tensor in beside.items())
    settings = json.loads((Path(report.output) / "config.json").read_bytes())
    left = ["lm_head", "visual.blocks.0.attn.qkv"]
    assert settings["quantization_config"]["ignore"] == left


def test_header_is_that_of_the_format(source: Path) -> None:
    report = quantize_folder(spec_of(source, GPTQ), ignore)
    tensors = read_safetensors_header(Path(report.output) / "model.safetensors")
    ends = [tensor.offset + tensor.bytes for tensor in tensors]
    assert [tensor.offset for tensor in tensors[1:]] == ends[:-1]
    assert {tensor.name.rpartition(".")[2] for tensor in tensors} == {
        *("qweight", "qzeros", "scales", "g_idx", "weight"),
    }


def test_groups_are_as_large_as_all_layers_allow(make_folder: MakeFolder) -> None:
    source = make_folder("llama", **{**SIZES, "intermediate_size": 192})
    report = quantize_folder(spec_of(source, AWQ), ignore)
    settings = json.loads((Path(report.output) / "config.json").read_bytes())
    assert settings["quantization_config"]["group_size"] == 64
    assert report.types[AWQ] == 14
