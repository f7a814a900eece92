"""Conversion of safetensors folders of every family to equivalent GGUF files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from ingle.backends.jobs.quantization.messages import (
    QuantizationTarget,
    QuantizeProgress,
    QuantizeSpec,
)
from ingle.backends.jobs.quantization.quantization import quantize
from ingle.backends.jobs.quantization.quantize_failures import QuantizeFailed
from ingle.backends.jobs.verification.messages import VerificationProgress, VerificationSpec
from ingle.backends.jobs.verification.verification import verify
from ingle.models.errors import UnsupportedModel
from ingle.models.families import family_registry
from ingle.models.families.family_registry import HF_MODEL_TYPES
from ingle.models.families.gguf_config import config_from_gguf
from ingle.models.gguf.gguf_header import read_header
from ingle.models.safetensors.model_folder import read_folder
from ingle.models.weights.gguf_tensor_names import GGUFTensorNames
from ingle.models.weights.gguf_weights import GGUFWeights
from ingle.models.weights.hf_tensor_names import HFTensorNames
from ingle.models.weights.safetensors_weights import SafetensorsWeights
from tests.harness.thinning import thinned

MakeFolder = Callable[..., Path]
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 128,
}
LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 10000.0,
    "short_factor": [1.0 + 0.05 * i for i in range(8)],
    "long_factor": [1.0 + 0.5 * i for i in range(8)],
    "factor": 4.0,
}
GEMMA = {"head_dim": 32, "query_pre_attn_scalar": 32, "num_hidden_layers": 7}
EXPERTS = {"num_experts": 6, "num_experts_per_tok": 3, "moe_intermediate_size": 32}
DELTA = {
    "num_hidden_layers": 4,
    "head_dim": 32,
    "linear_key_head_dim": 32,
    "linear_value_head_dim": 32,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
}
LATENT = {
    "num_key_value_heads": 4,
    "q_lora_rank": 32,
    "kv_lora_rank": 64,
    "qk_nope_head_dim": 32,
    "qk_rope_head_dim": 16,
    "v_head_dim": 32,
}
FAMILIES: list[tuple[str, dict[str, Any]]] = [
    ("llama", {}),
    ("llama", {"tie_word_embeddings": True, "rope_parameters": LLAMA3}),
    ("llama", {"rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 1e4}}),
    ("mistral", {"sliding_window": 64}),
    ("qwen2", {}),
    ("qwen3", {"head_dim": 32}),
    ("gemma2", {**GEMMA, "sliding_window": 64}),
    ("gemma3_text", {**GEMMA, "sliding_window": 64, "rope_local_base_freq": 10000.0}),
    (
        "gemma3n_text",
        {
            "head_dim": 32,
            "sliding_window": 64,
            "num_hidden_layers": 3,
            "num_kv_shared_layers": 0,
            "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
            "activation_sparsity_pattern": [0.95] * 3,
            "hidden_size_per_layer_input": 256,
            "vocab_size_per_layer_input": 256,
        },
    ),
    (
        "gemma4_text",
        {
            "head_dim": 32,
            "global_head_dim": 64,
            "sliding_window": 64,
            "num_hidden_layers": 6,
            "layer_types": ["sliding_attention", "sliding_attention", "full_attention"] * 2,
            "num_kv_shared_layers": 3,
            "use_double_wide_mlp": True,
            "hidden_size_per_layer_input": 32,
            "vocab_size_per_layer_input": 256,
            "final_logit_softcapping": 30.0,
        },
    ),
    (
        "gemma4_text",
        {
            **EXPERTS,
            "head_dim": 32,
            "global_head_dim": 64,
            "sliding_window": 64,
            "num_hidden_layers": 3,
            "layer_types": ["sliding_attention", "sliding_attention", "full_attention"],
            "attention_k_eq_v": True,
            "num_global_key_value_heads": 1,
            "hidden_size_per_layer_input": 0,
            "enable_moe_block": True,
            "top_k_experts": 3,
        },
    ),
    ("granite", {"embedding_multiplier": 12.0, "logits_scaling": 8.0, "residual_multiplier": 0.2}),
    ("smollm3", {}),
    ("olmo2", {}),
    ("phi3", {}),
    ("phi3", {"original_max_position_embeddings": 128, "rope_parameters": LONGROPE}),
    ("glm4", {"head_dim": 32, "attention_bias": True}),
    ("ministral3", {"head_dim": 32}),
    ("ernie4_5", {"head_dim": 32}),
    ("hunyuan_v1_dense", {"head_dim": 32}),
    ("seed_oss", {"head_dim": 32}),
    ("qwen3_5_text", DELTA),
    ("qwen3_5_moe_text", {**DELTA, **EXPERTS, "shared_expert_intermediate_size": 64}),
    ("qwen3_next", {**DELTA, **EXPERTS, "shared_expert_intermediate_size": 64}),
    (
        "granitemoehybrid",
        {
            "layer_types": ["linear_attention", "attention", "linear_attention"],
            "num_hidden_layers": 3,
            "mamba_n_heads": 4,
            "mamba_n_groups": 2,
            "mamba_d_state": 16,
            "num_local_experts": 0,
            "shared_intermediate_size": 64,
            "logits_scaling": 8.0,
        },
    ),
    (
        "nemotron_h",
        {
            "layers_block_type": ["linear_attention", "mlp", "full_attention", "mlp"],
            "head_dim": 32,
            "mamba_num_heads": 4,
            "mamba_head_dim": 32,
            "n_groups": 2,
            "ssm_state_size": 16,
        },
    ),
    (
        "nemotron_h",
        {
            "layers_block_type": ["linear_attention", "moe", "full_attention", "moe"],
            "head_dim": 32,
            "mamba_num_heads": 4,
            "mamba_head_dim": 32,
            "n_groups": 2,
            "ssm_state_size": 16,
            "n_routed_experts": 6,
            "num_experts_per_tok": 3,
            "moe_intermediate_size": 32,
            "moe_shared_expert_intermediate_size": 64,
            "moe_latent_size": 32,
        },
    ),
    ("lfm2_moe", {**EXPERTS, "layer_types": ["conv", "full_attention"] * 2, "num_dense_layers": 1}),
    ("lfm2", {"layer_types": ["conv", "conv", "full_attention"], "num_hidden_layers": 3}),
    (
        "glm4_moe",
        {
            "n_routed_experts": 8,
            "num_experts_per_tok": 3,
            "moe_intermediate_size": 32,
            "n_group": 4,
            "topk_group": 2,
            "routed_scaling_factor": 1.5,
            "head_dim": 32,
        },
    ),
    (
        "gpt_oss",
        {
            "num_local_experts": 6,
            "num_experts_per_tok": 3,
            "head_dim": 32,
            "rope_parameters": {"rope_theta": 150000.0},
        },
    ),
    (
        "glm4_moe_lite",
        {
            **LATENT,
            "n_routed_experts": 8,
            "num_experts_per_tok": 3,
            "moe_intermediate_size": 32,
            "n_group": 4,
            "topk_group": 2,
        },
    ),
    ("youtu", LATENT),
    (
        "mistral4",
        {
            **LATENT,
            "n_routed_experts": 8,
            "num_experts_per_tok": 3,
            "moe_intermediate_size": 32,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e4},
        },
    ),
    ("granitemoe", {"num_local_experts": 6, "num_experts_per_tok": 3, "logits_scaling": 8.0}),
    ("mixtral", {"num_local_experts": 4}),
    ("qwen2_moe", {**EXPERTS, "shared_expert_intermediate_size": 64}),
    ("qwen3_moe", {**EXPERTS, "norm_topk_prob": True}),
    ("olmoe", {"num_experts": 6, "num_experts_per_tok": 3, "num_key_value_heads": 4}),
]


def run(folder: Path, target: QuantizationTarget = QuantizationTarget.F16) -> Path:
    output = folder.with_suffix(".gguf")
    spec = QuantizeSpec(source=str(folder), output=str(output), target=target, overwrite=True)
    quantize(spec, lambda _: None)
    return output


def test_every_family_is_written() -> None:
    names = {family.name for family in family_registry.FAMILIES.values()}
    assert {HF_MODEL_TYPES[kind][0].name for kind, _ in FAMILIES} == names


@pytest.mark.parametrize(("kind", "settings"), thinned(FAMILIES, 3))
def test_converted_family_computes_the_same(
    kind: str, settings: dict[str, Any], make_folder: MakeFolder
) -> None:
    folder = make_folder(kind, **settings)
    file = GGUFWeights(run(folder))
    config = config_from_gguf(file.header)
    read = GGUFTensorNames(file, config)
    kept = HFTensorNames(SafetensorsWeights(folder), read_folder(folder).config)
    assert set(read.names) == set(kept.names)
    for name in kept.names:
        ours, theirs = read.get(name), kept.get(name)
        assert isinstance(ours, torch.Tensor)
        assert isinstance(theirs, torch.Tensor)
        if name == "per_layer_token_embd.weight":
            assert not torch.any(ours[len(theirs) :])
            ours = ours[: len(theirs)]
        torch.testing.assert_close(ours.float(), theirs.float(), rtol=2**-11, atol=2**-24)


@pytest.mark.parametrize(
    ("kind", "settings"),
    thinned((each for each in FAMILIES if HF_MODEL_TYPES[each[0]][0].has_states), 4),
)
def test_converted_hybrid_is_verified_against_llama_cpp(
    kind: str, settings: dict[str, Any], make_folder: MakeFolder
) -> None:
    """In chunks, which go on from the states of the one before."""
    folder = make_folder(kind, **settings, max_position_embeddings=2048)
    path = run(folder, QuantizationTarget.BF16)
    text = "a hen in an inn; 12 = 7 " * 100
    report = verify(VerificationSpec(path=str(path), text=text), ignore)
    # Random weights are far more sensitive to the rounding of activations than trained ones.
    assert report.statistics.mean_kl < 2e-2
    assert report.statistics.max_kl < 1
    assert report.statistics.tokens > 1100


def ignore(_progress: VerificationProgress) -> None:
    return


def test_character_vocabulary_is_converted(make_folder: MakeFolder) -> None:
    folder = make_folder("llama", pattern=None)
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    header = read_header(run(folder))
    assert header.text("tokenizer.ggml.model") == "llama"
    assert header.metadata["tokenizer.ggml.add_space_prefix"] is True
    assert header.metadata["tokenizer.ggml.unknown_token_id"] == 3
    assert header.chat_template == "{{ messages }}"
    assert header.metadata["tokenizer.ggml.bos_token_id"] == 1
    assert header.metadata["tokenizer.ggml.eos_token_id"] == 2


@pytest.mark.parametrize(
    ("pattern", "way"),
    [
        (
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
            r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
            "llama-bpe",
        ),
        (r"\p{N}{1,3}(?=(?:\p{N}{3})*(?:\P{N}|$))| ?\p{L}+|[^\p{L}\p{N}]", None),
    ],
)
def test_pretokenizer_is_recognised(pattern: str, way: str | None, make_folder: MakeFolder) -> None:
    folder = make_folder("llama", pattern=pattern)
    if way is None:
        with pytest.raises(UnsupportedModel, match="the same tokens as"):
            run(folder)
    else:
        assert read_header(run(folder)).text("tokenizer.ggml.pre") == way


def test_interrupted_output_inside_the_folder_is_resumed(make_folder: MakeFolder) -> None:
    folder = make_folder("llama")
    output = folder / "model-Q8_0.gguf"
    spec = QuantizeSpec(source=str(folder), output=str(output), target=QuantizationTarget.Q8_0)

    class Stopped(Exception):
        pass

    def stop(progress: QuantizeProgress) -> None:
        if progress.done:
            raise Stopped

    with pytest.raises(Stopped):
        quantize(spec, stop)
    heard: list[QuantizeProgress] = []
    quantize(spec, heard.append)
    assert any(progress.resumed for progress in heard)


def test_unsupported_tokenizer_is_rejected(make_folder: MakeFolder) -> None:
    folder = make_folder("llama")
    path = folder / "tokenizer.json"
    fields = json.loads(path.read_text())
    words = [["<unk>", 0.0], ["a", -1.0]]
    fields["model"] = {"type": "Unigram", "unk_id": 0, "vocab": words}
    fields["added_tokens"] = []
    path.write_text(json.dumps(fields))
    with pytest.raises(UnsupportedModel, match="'Unigram'"):
        run(folder)


def test_settings_without_a_gguf_equivalent_are_rejected(make_folder: MakeFolder) -> None:
    folder = make_folder("smollm3", no_rope_layer_interval=2, no_rope_layers=[1, 0, 1, 0])
    with pytest.raises(QuantizeFailed, match="cannot say all"):
        run(folder)
    assert {path.name for path in folder.parent.iterdir()} == {folder.name}


def test_yarn_is_rejected(make_folder: MakeFolder) -> None:
    yarn = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0}
    yarn["original_max_position_embeddings"] = 128
    with pytest.raises(UnsupportedModel, match="YaRN"):
        run(make_folder("qwen2", rope_parameters=yarn))
