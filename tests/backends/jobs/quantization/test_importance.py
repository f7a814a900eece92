"""Quantisation that weighs columns: llama.cpp's own bytes, and transformers' own activations."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import gguf
import llama_cpp
import numpy as np
import pytest
import torch

from ingle.backends.jobs.quantization.importance import TextTooShort, find_importance
from ingle.backends.jobs.quantization.messages import QuantizationTarget, QuantizeSpec
from ingle.backends.jobs.quantization.quantization import quantize
from ingle.backends.jobs.quantization.quantize_failures import QuantizeFailed
from ingle.models.errors import InvalidModel
from ingle.models.gguf.gguf_header import read_header

WriteSmallLlama = Callable[..., Path]
TensorBytes = Callable[[Path], dict[str, tuple[str, bytes]]]
TARGETS = {QuantizationTarget.Q4_0: 2, QuantizationTarget.Q4_K_M: 15, QuantizationTarget.Q6_K: 18}


def write_imatrix(path: Path, source: Path, tokens: int = 100) -> dict[str, Any]:
    """Write random importance of every layer's matrices; return the means."""
    random = np.random.default_rng(1)
    writer = gguf.GGUFWriter(path, "")
    writer.add_string("general.type", "imatrix")
    means: dict[str, Any] = {}
    for tensor in read_header(source).tensors:
        if not tensor.name.startswith("blk.") or len(tensor.shape) < 2:
            continue
        sums = (random.random((1, tensor.shape[0])) ** 4 * tokens).astype(np.float32)
        writer.add_tensor(f"{tensor.name}.in_sum2", sums)
        writer.add_tensor(f"{tensor.name}.counts", np.full((1, 1), tokens, np.float32))
        means[tensor.name] = sums[0] / np.float32(tokens)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return means


def by_llama_cpp(source: Path, target: Path, kind: int, means: dict[str, Any]) -> Path:
    entries = (llama_cpp.llama_model_imatrix_data * (len(means) + 1))()
    for entry, (name, values) in zip(entries, means.items(), strict=False):
        entry.name = name.encode()
        entry.data = values.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
        entry.size = values.size
    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype, params.nthread = kind, 2
    params.imatrix = ctypes.cast(entries, ctypes.POINTER(llama_cpp.llama_model_imatrix_data))
    by_reference = cast("Any", ctypes.byref(params))
    names = str(source).encode(), str(target).encode()
    assert llama_cpp.llama_model_quantize(*names, by_reference) == 0
    return target


@pytest.mark.parametrize(
    "kind",
    [
        QuantizationTarget.Q4_K_M,
        pytest.param(QuantizationTarget.Q4_0, marks=pytest.mark.slow),
        pytest.param(QuantizationTarget.Q6_K, marks=pytest.mark.slow),
    ],
)
@pytest.mark.slow
def test_weighted_files_equal_llama_cpps(
    kind: QuantizationTarget,
    write_small_llama: WriteSmallLlama,
    tensor_bytes: TensorBytes,
    tmp_path: Path,
) -> None:
    source = write_small_llama(tmp_path / "f.gguf", kind="F32", width=256, layers=9)
    matrix, output = tmp_path / "imatrix.gguf", tmp_path / "ours.gguf"
    means = write_imatrix(matrix, source)
    spec = QuantizeSpec(source=str(source), output=str(output), target=kind, importance=str(matrix))
    assert quantize(spec, lambda _: None).weighted == len(means)
    theirs = by_llama_cpp(source, tmp_path / "theirs.gguf", TARGETS[kind], means)
    assert tensor_bytes(output) == tensor_bytes(theirs)
    plain = by_llama_cpp(source, tmp_path / "plain.gguf", TARGETS[kind], {})
    assert tensor_bytes(output) != tensor_bytes(plain)


def test_what_is_measured_are_the_mean_squares_of_inputs(
    make_folder: Callable[..., Path], tmp_path: Path
) -> None:
    folder = make_folder("llama")
    text = tmp_path / "text.txt"
    text.write_text("the thin hen in the inn; then 12 hens, I'm 34 " * 60)
    found = find_importance(text, folder, lambda _done, _total: None)
    transformers: Any = import_module("transformers")
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    tokens = tokenizer(text.read_text()).input_ids
    sums: dict[str, Any] = {}
    names = {"self_attn.q_proj": "attn_q", "self_attn.o_proj": "attn_output"}
    names |= {"mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}

    def hook(name: str) -> Callable[..., None]:
        def add(_module: object, inputs: tuple[torch.Tensor], _output: object) -> None:
            sums[name] = sums.get(name, 0) + inputs[0][0].double().square().sum(0).numpy()

        return add

    for theirs, ours in names.items():
        module = model.get_submodule(f"model.layers.1.{theirs}")
        module.register_forward_hook(hook(f"blk.1.{ours}.weight"))
    with torch.inference_mode():
        for start in range(0, len(tokens), 512):
            model(torch.tensor([tokens[start : start + 512]]))
    assert len(sums) == len(names)
    for name, squares in sums.items():
        np.testing.assert_allclose(
            found[name][0], squares / len(tokens), rtol=5e-3
        )  # keys and values are in F16


def test_what_tells_nothing_is_refused(
    write_small_llama: WriteSmallLlama, make_folder: Callable[..., Path], tmp_path: Path
) -> None:
    source = write_small_llama(tmp_path / "f.gguf", layers=2)
    other = write_small_llama(tmp_path / "other.gguf", width=128, layers=2)
    matrix = tmp_path / "imatrix.gguf"
    write_imatrix(matrix, other)
    spec = QuantizeSpec(
        source=str(source),
        output=str(tmp_path / "out.gguf"),
        target=QuantizationTarget.Q4_0,
        importance=str(matrix),
    )
    with pytest.raises(QuantizeFailed, match="weighs 128 columns"):
        quantize(spec, lambda _: None)
    with pytest.raises(InvalidModel, match="no importance matrix"):
        find_importance(source, source, lambda _done, _total: None)
    text = tmp_path / "short.txt"
    text.write_text("the thin hen")
    with pytest.raises(TextTooShort, match="the least that tell anything"):
        find_importance(text, make_folder("llama"), lambda _done, _total: None)
