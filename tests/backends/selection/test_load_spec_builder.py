"""Choice of the engine, and completion of load specifications."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from ingle.backends.base.errors import LoadFailed
from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.cuda import descriptor
from ingle.backends.cuda.descriptor import TENSOR_TYPES
from ingle.backends.registry.cuda_availability import CudaAvailability
from ingle.backends.registry.engine_descriptor import LoadQuery
from ingle.backends.selection.engine_choice import (
    choose_engine,
    choose_for_types,
    why_not_preferred,
)
from ingle.backends.selection.load_spec_builder import complete_spec, describe
from ingle.kernels.formats.codecs import DEQUANTIZERS
from ingle.models.errors import UnsupportedModel
from ingle.models.gguf import ggml_types
from ingle.models.gguf.gguf_header import GGUFHeader, read_header
from ingle.models.kv_type import KVType
from ingle.models.model_task import Pooling
from ingle.models.safetensors.model_folder import ModelFolder


@pytest.fixture
def header(tmp_path: Path) -> GGUFHeader:
    """A model with heads of 80 elements and a trained context of 4096 tokens."""
    path = tmp_path / "model.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(1)
    writer.add_context_length(4096)
    writer.add_embedding_length(160)
    writer.add_feed_forward_length(320)
    writer.add_head_count(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(8)
    writer.add_tensor("token_embd.weight", np.zeros((8, 160), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return read_header(path)


def build_spec(model: GGUFHeader | ModelFolder, **settings: Any) -> LoadSpec:
    wanted: dict[str, Any] = {"engine": "llama.cpp", "path": str(model.path), **settings}
    return complete_spec(LoadSpec(**wanted), model)


def test_context_is_limited_to_the_trained_one(header: GGUFHeader) -> None:
    for requested, effective in ((1000, 1000), (8192, 4096)):
        assert build_spec(header, context=requested, slots=1).context == effective


def test_kv_type_unsupported_by_the_head_size_is_refused(header: GGUFHeader) -> None:
    build_spec(header, context=512, slots=1, kv_type=KVType.F16)
    with pytest.raises(UnsupportedModel, match="heads of 80 elements"):
        build_spec(header, context=512, slots=1, kv_type=KVType.Q4_0)


def test_own_engine_supports_kv_types_for_more_head_sizes(header: GGUFHeader) -> None:
    assert select_engine(header, own=GPU, kv_type=KVType.Q4_0) == "cuda"
    settings: dict[str, Any] = {"context": 512, "slots": 1, "kv_type": KVType.Q4_0}
    assert build_spec(header, engine="cuda", **settings).kv_type is KVType.Q4_0
    lengths = {"llama.attention.key_length": 20, "llama.attention.value_length": 20}
    unusual = replace(
        header, metadata={**header.metadata, **lengths, "llama.rope.dimension_count": 20}
    )
    assert select_engine(unusual, own=GPU, wanted="cuda") == "cuda"
    with pytest.raises(UnsupportedModel, match="heads of 20 elements"):
        select_engine(unusual, own=GPU, wanted="cuda", kv_type=KVType.Q8_0)


def test_settings_are_copied_to_the_spec(header: GGUFHeader) -> None:
    spec = build_spec(
        header,
        context=512,
        slots=3,
        threads=2,
        gpu_layers=7,
        flash_attention="on",
        mmap=False,
        mlock=True,
    )
    assert (spec.slots, spec.threads, spec.gpu_layers) == (3, 2, 7)
    assert (spec.flash_attention, spec.mmap, spec.mlock) == ("on", False, True)


GPU = CudaAvailability(has_torch=True, gpu_memory=2**30)


def select_engine(
    model: GGUFHeader | ModelFolder,
    own: CudaAvailability,
    wanted: str = "auto",
    **settings: Any,
) -> str:
    return choose_engine(LoadQuery(model, **settings), wanted, own)


def test_own_engine_is_chosen_with_torch_and_a_gpu(header: GGUFHeader) -> None:
    assert select_engine(header, own=GPU) == "cuda"
    assert select_engine(header, own=GPU, wanted="llama.cpp") == "llama.cpp"
    assert select_engine(header, own=CudaAvailability()) == "llama.cpp"
    assert select_engine(header, own=CudaAvailability(has_torch=True)) == "llama.cpp"
    assert select_engine(header, own=CudaAvailability(gpu_memory=2**30)) == "llama.cpp"


def test_quantized_weights_use_llama_cpp_by_default(header: GGUFHeader) -> None:
    blocks = replace(header.tensors[0], type="Q4_K")
    quantised = replace(header, tensors=(*header.tensors, blocks))
    assert select_engine(quantised, own=GPU) == "llama.cpp"
    assert select_engine(quantised, own=GPU, wanted="cuda") == "cuda"


def test_formats_without_kernels_use_llama_cpp_by_default(
    header: GGUFHeader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ours would dequantise them in every step."""
    ampere = CudaAvailability(has_torch=True, gpu_memory=2**33, capability=(8, 6))
    blocks = replace(header.tensors[0], type="Q4_K")
    quantised = replace(header, tensors=(*header.tensors, blocks))
    assert select_engine(quantised, own=ampere) == "cuda"
    monkeypatch.setattr(descriptor, "_KERNEL_TYPES", frozenset({"Q8_0"}))
    assert select_engine(quantised, own=ampere) == "llama.cpp"
    assert select_engine(quantised, own=ampere, wanted="cuda") == "cuda"


@pytest.mark.parametrize(("kind", "chosen"), [("Q4_K", "cuda"), ("Q5_0", "llama.cpp")])
def test_mixtures_use_the_own_engine_where_it_has_kernels_for_their_experts(
    header: GGUFHeader, kind: str, chosen: str
) -> None:
    ampere = CudaAvailability(has_torch=True, gpu_memory=2**33, capability=(8, 6))
    metadata = {"llama.expert_count": 8, "llama.expert_used_count": 2}
    experts = replace(header.tensors[0], name="blk.0.ffn_up_exps.weight", type=kind)
    mixture = replace(
        header, metadata={**header.metadata, **metadata}, tensors=(*header.tensors, experts)
    )
    assert select_engine(mixture, own=ampere) == chosen
    reason = why_not_preferred(LoadQuery(mixture), ampere)
    assert ("no kernels for experts in Q5_0" in reason) is (chosen != "cuda")
    assert select_engine(mixture, own=ampere, wanted="cuda") == "cuda"
    assert choose_for_types("llama", ["F32", kind], "auto", GPU, mixture=True) == chosen
    assert choose_for_types("llama", ["F32", kind], "cuda", GPU, mixture=True) == "cuda"


def of_family(header: GGUFHeader, family: str, keys: Mapping[str, int]) -> GGUFHeader:
    """Return the header of another family, with these keys."""
    before = {key.replace("llama.", f"{family}."): each for key, each in header.metadata.items()}
    own = {f"{family}.{key}": value for key, value in keys.items()}
    return replace(header, metadata={**before, "general.architecture": family, **own})


def test_layers_without_kernels_use_llama_cpp_by_default(header: GGUFHeader) -> None:
    """Ours computes them in PyTorch, and says so."""
    streams = replace(
        of_family(header, "gemma3n", {"block_count": 2}),
        per_layer={"gemma3n.attention.sliding_window_pattern": (1, 0)},
    )
    assert select_engine(streams, own=GPU) == "llama.cpp"
    reason = why_not_preferred(LoadQuery(streams), GPU)
    assert "no kernels for several residual streams" in reason
    assert select_engine(streams, own=GPU, wanted="cuda") == "cuda"
    for wanted, chosen in (("auto", "llama.cpp"), ("cuda", "cuda")):
        assert choose_for_types("gemma3n", ["F32"], wanted, GPU, mixture=False) == chosen


def states(groups: int, size: int, inner: int) -> Mapping[str, int]:
    """Return the keys of recurrent layers with four heads."""
    numbers = {"group_count": groups, "state_size": size, "inner_size": inner, "conv_kernel": 4}
    return {"ssm.time_step_rank": 4, **{f"ssm.{key}": value for key, value in numbers.items()}}


@pytest.mark.parametrize(
    ("family", "keys", "chosen"),
    [
        ("qwen35", states(2, 128, 4 * 128), "cuda"),
        ("qwen35", states(2, 64, 4 * 64), "llama.cpp"),
        ("granitehybrid", {"logit_scale": 8, **states(1, 128, 4 * 64)}, "cuda"),
        ("granitehybrid", {"logit_scale": 8, **states(1, 64, 4 * 64)}, "llama.cpp"),
        ("lfm2", {"embedding_length": 256, "shortconv.l_cache": 3}, "cuda"),
        ("lfm2", {"embedding_length": 256, "shortconv.l_cache": 4}, "llama.cpp"),
    ],
)
def test_recurrent_layers_use_the_own_engine_where_it_has_kernels_for_their_shape(
    header: GGUFHeader, family: str, keys: Mapping[str, int], chosen: str
) -> None:
    hybrid = replace(
        of_family(header, family, {"block_count": 2, **keys}),
        per_layer={f"{family}.attention.head_count_kv": (0, 1)},
    )
    reason = why_not_preferred(LoadQuery(hybrid), GPU)
    assert select_engine(hybrid, own=GPU) == chosen, reason
    assert ("no kernels for recurrent layers" in reason) is (chosen != "cuda")
    assert choose_for_types(family, ["F32"], "auto", GPU, mixture=False) == "cuda"


@pytest.mark.parametrize(("rank", "chosen"), [(512, "cuda"), (128, "llama.cpp")])
def test_latents_use_the_own_engine_where_it_has_kernels_for_their_size(
    header: GGUFHeader, rank: int, chosen: str
) -> None:
    sizes = {"kv_lora_rank": rank, "key_length_mla": 192, "value_length_mla": 128}
    keys = {f"attention.{key}": size for key, size in sizes.items()}
    keys |= {"attention.key_length": rank + 64, "attention.value_length": rank}
    latent = of_family(header, "deepseek2", {**keys, "rope.dimension_count": 64})
    assert select_engine(latent, own=GPU) == chosen
    reason = why_not_preferred(LoadQuery(latent), GPU)
    assert ("no kernels for latents of 128 and 64 elements" in reason) is (chosen != "cuda")
    assert select_engine(latent, own=GPU, wanted="cuda") == "cuda"
    assert select_engine(latent, own=GPU, kv_type=KVType.Q4_0) == "llama.cpp"


@pytest.mark.model
def test_quantized_weights_use_the_own_engine_on_supported_gpus(smollm2_path: Path) -> None:
    header = read_header(smollm2_path)
    ampere = CudaAvailability(has_torch=True, gpu_memory=2**33, capability=(8, 6))
    assert select_engine(header, own=ampere) == "cuda"
    assert select_engine(header, own=replace(ampere, capability=(7, 5))) == "llama.cpp"
    assert select_engine(header, own=ampere, kv_type=KVType.F32) == "llama.cpp"


def test_cpu_layers_use_llama_cpp_by_default(header: GGUFHeader) -> None:
    assert select_engine(header, own=GPU, gpu_layers=0) == "llama.cpp"
    assert select_engine(header, own=GPU, gpu_layers=1) == "cuda"
    assert select_engine(header, own=GPU, wanted="cuda", gpu_layers=0) == "cuda"
    spec = build_spec(header, context=512, slots=1, engine="cuda", gpu_layers=0)
    assert (spec.engine, spec.device) == ("cuda", "cpu")


def test_unsupported_types_and_architectures_use_llama_cpp(header: GGUFHeader) -> None:
    names = (kind.name for kind in ggml_types.TENSOR_TYPES.values())
    unread = next(name for name in names if name not in TENSOR_TYPES)
    unusual = replace(header.tensors[0], type=unread)
    types = replace(header, tensors=(*header.tensors, unusual))
    family = replace(header, metadata={**header.metadata, "general.architecture": "mamba"})
    for unknown, reason in ((types, unread), (family, "mamba")):
        assert select_engine(unknown, own=GPU) == "llama.cpp"
        with pytest.raises(UnsupportedModel, match=reason):
            select_engine(unknown, own=GPU, wanted="cuda")
    with pytest.raises(UnsupportedModel, match="only writes text"):
        select_engine(header, own=GPU, wanted="cuda", pooling=Pooling.MEAN)


@pytest.mark.slow
def test_missing_engine_error_explains_the_installation(header: GGUFHeader) -> None:
    with pytest.raises(LoadFailed) as caught:
        select_engine(header, own=CudaAvailability(gpu_memory=2**30), wanted="cuda")
    assert caught.value.hint is not None
    assert "ingle engine install cuda" in caught.value.hint


@pytest.mark.model
def test_model_folders_use_the_own_engine(smollm2_folder: Path) -> None:
    folder = describe(smollm2_folder)
    assert isinstance(folder, ModelFolder)
    nothing = CudaAvailability(has_torch=True)
    assert select_engine(folder, own=nothing) is select_engine(folder, own=GPU) == "cuda"
    with pytest.raises(UnsupportedModel, match="does not read"):
        select_engine(folder, own=GPU, wanted="llama.cpp")
    assert select_engine(folder, own=GPU, kv_type=KVType.Q8_0) == "cuda"
    with pytest.raises(LoadFailed, match="PyTorch"):
        select_engine(folder, own=CudaAvailability())
    spec = build_spec(folder, context=10**9, slots=1, engine="cuda")
    assert spec.context == folder.config.context


def test_supported_tensor_types_match_the_dequantizers() -> None:
    assert DEQUANTIZERS.keys() >= TENSOR_TYPES


def test_pytorch_is_detected_without_importing_it() -> None:
    code = "import sys; from ingle.backends.registry.cuda_availability import CudaAvailability; "
    code += "own = CudaAvailability.find(); "
    code += "print(own.has_torch, own.gpu_memory, 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True)
    assert done.stdout.split() == ["True", str(CudaAvailability.find().gpu_memory), "False"]
