"""Families whose layers differ, on our own kernels run on the CPU: the same as in plain torch."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import gguf
import pytest
import torch
from kernel_harness.host_library import CPUKernelLibrary
from kernel_harness.interpreted_library import InterpretedTritonLibrary

from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.cuda.compute_backend import ComputeBackend
from ingle.backends.cuda.graphs.step_graphs import Recording
from ingle.backends.cuda.model_files import ModelFiles, ModelSource
from ingle.backends.cuda.model_runner import CudaModelRunner
from ingle.backends.cuda.state_model_runner import open_model_runner
from ingle.backends.engine.batch import Batch, ScheduledChunk, StateStep
from ingle.backends.engine.engine import Engine
from ingle.backends.engine.sequence import Sequence
from ingle.backends.testing.byte_tokenizer import ByteTokenizer
from ingle.kernels.attention.attention_variant import attention_variants
from ingle.kernels.formats.weight import QuantizedTensor
from ingle.kernels.kernel_operations import KernelOperations
from ingle.models.kv_type import KVType
from ingle.models.weights.weights import Weight, Weights

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed"),
]

CPU = torch.device("cpu")
GEMMA4: dict[str, Any] = {
    "hidden_size": 256,
    "intermediate_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "global_head_dim": 128,
    "sliding_window": 5,
    "layer_types": ["sliding_attention", "full_attention"] * 2,
    "vocab_size": 264,
}
SHARED = {
    "num_kv_shared_layers": 2,
    "use_double_wide_mlp": True,
    "vocab_size_per_layer_input": 264,
    "hidden_size_per_layer_input": 32,
}
EXPERTS = {
    "hidden_size_per_layer_input": 0,
    "attention_k_eq_v": True,
    "num_global_key_value_heads": 1,
    "enable_moe_block": True,
    "num_experts": 4,
    "top_k_experts": 2,
    "moe_intermediate_size": 32,
}
SMALL: dict[str, Any] = {
    "hidden_size": 256,
    "intermediate_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "vocab_size": 264,
}
DELTA: dict[str, Any] = {
    **SMALL,
    "full_attention_interval": 2,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_num_key_heads": 1,
    "linear_num_value_heads": 2,
}
SHARED_EXPERT = {
    "num_experts": 4,
    "num_experts_per_tok": 4,  # all, since bytes may change the picks
    "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 64,
}
LFM2: dict[str, Any] = {**SMALL, "layer_types": ["conv", "full_attention", "conv", "conv"]}
GRANITE: dict[str, Any] = {
    **SMALL,
    "num_hidden_layers": 3,
    "layer_types": ["mamba", "attention", "mamba"],
    "mamba_n_heads": 8,
    "mamba_d_state": 128,
    "num_local_experts": 0,
    "shared_intermediate_size": 128,
}
NEMOTRON: dict[str, Any] = {
    **SMALL,
    "layers_block_type": ["linear_attention", "mlp", "full_attention", "moe"],
    "mamba_num_heads": 4,
    "mamba_head_dim": 80,
    "n_groups": 2,
    "ssm_state_size": 128,
    "n_routed_experts": 4,
    "num_experts_per_tok": 4,
    "moe_intermediate_size": 128,
    "moe_shared_expert_intermediate_size": 64,
}
LATENT: dict[str, Any] = {
    **SMALL,
    "num_hidden_layers": 2,
    "hidden_size": 128,
    "num_key_value_heads": 4,
    "q_lora_rank": 32,
    "kv_lora_rank": 256,
    "qk_nope_head_dim": 32,
    "qk_rope_head_dim": 64,
    "v_head_dim": 32,
    "n_routed_experts": 4,
    "num_experts_per_tok": 4,
    "moe_intermediate_size": 32,
}
PLAIN = ("ffn_gate_inp", "conv1d", "conv.conv")


class EightBits:
    """The tensors of `source`, matrices in Q8_0 unless their names have a part of `plain`."""

    def __init__(self, source: Weights, plain: Iterable[str]) -> None:
        self._source = source
        self._plain = plain
        self.names: Iterable[str] = source.names

    def get(self, name: str) -> Weight:
        weight = self._source.get(name)
        if not isinstance(weight, torch.Tensor) or weight.ndim != 2:
            return weight
        if any(part in name for part in self._plain):
            return weight
        kind = gguf.GGMLQuantizationType.Q8_0
        data = gguf.quants.quantize(weight.float().numpy(), kind)
        return QuantizedTensor("Q8_0", torch.from_numpy(data), weight.shape[1])  # pyright: ignore[reportUnknownMemberType]


def logits(runner: CudaModelRunner, parts: list[tuple[int, int]]) -> torch.Tensor:
    """Return log-probabilities behind each part of a text, of computed and of new tokens."""
    text = [5, 250, 3, 17, 99, 201, 44, 8, 123, 7, 66, 31, 255, 12, 190, 2]
    found: list[torch.Tensor] = []
    for start, count in parts:
        sequence = Sequence("text", 0, text[: start + count], SamplingParams())
        sequence.slot, sequence.num_computed, sequence.block_table = 0, start, [1]
        batch = Batch([ScheduledChunk(sequence, count, True)], count)
        batch.states = [StateStep(0 if start else None, ((count, 0),))]
        found.append(runner.compute(batch).clone())
    return torch.cat(found).log_softmax(-1)


def backend_of(pytestconfig: pytest.Config) -> ComputeBackend:
    """Return kernels that run on the CPU."""
    assert pytestconfig.cache is not None
    library = CPUKernelLibrary(pytestconfig.cache.mkdir("kernels"), seed=3, num_sms=8)
    compiled = InterpretedTritonLibrary(list(attention_variants()), num_sms=8)
    operations = KernelOperations(library, compiled, dtype=torch.bfloat16, device=CPU)
    return ComputeBackend(operations, library=library)


def open_runner(
    model: Any,
    backend: ComputeBackend | None,
    plain: Iterable[str] = PLAIN,
    kv_type: KVType = KVType.BF16,
) -> CudaModelRunner:
    spec = LoadSpec(
        engine="cuda",
        path="random",
        context=64,
        slots=2,
        batch=16,
        device="cpu",
        threads=1,
        kv_type=kv_type if backend else KVType.F32,
    )
    files = ModelFiles(model.config, EightBits(model.canonical(), plain), 1 << 20, 1 << 22)
    source = ModelSource(files, ByteTokenizer())
    return open_model_runner(spec, backend=backend, source=source)


def record(work: Callable[[], torch.Tensor]) -> Recording:
    """Compute a step once, as a capture does before it, and again in each replay."""
    output = work().clone()

    def replay() -> None:
        output.copy_(work())

    return Recording(replay, output)


class EveryToken:
    """Drafts two tokens, which are not likely to be right."""

    def propose(self, decoding: list[Sequence], room: int) -> dict[Sequence, tuple[int, ...]]:
        return {sequence: (7, 9) for sequence in decoding if sequence.num_generated % 2}

    def waits(self, decoding: list[Sequence], room: int) -> bool:
        return True

    def observe(self, batch: Batch, seconds: float) -> None: ...

    def forget(self, sequence: Sequence) -> None: ...


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("qwen3_5_text", {**DELTA, "num_hidden_layers": 2}),
        ("lfm2", LFM2),
        ("granitemoehybrid", GRANITE),
    ],
)
def test_steps_recorded_meanwhile_advance_states_once(
    kind: str, settings: dict[str, Any], make_random_model: Any, pytestconfig: pytest.Config
) -> None:
    """Shapes with drafts come up between two tokens, and are computed twice then."""
    model, texts = make_random_model(kind, **settings), list[list[int]]()
    for recorder in (None, record):
        runner = open_runner(model, replace(backend_of(pytestconfig), record=recorder))
        sequence = Sequence(
            "r", 0, [5, 250, 3, 17, 99], SamplingParams(temperature=0), max_tokens=8
        )
        engine = Engine(runner, speculator=EveryToken())
        engine.add(sequence)
        while engine.has_work:
            engine.step()
        texts.append(sequence.token_ids)
        runner.close()
    assert texts[0] == texts[1]


@pytest.mark.parametrize(
    ("kind", "settings", "some_plain"),
    [
        ("gemma4_text", {**GEMMA4, **SHARED}, False),
        ("gemma4_text", {**GEMMA4, **EXPERTS}, False),
        ("qwen3_5_text", DELTA, False),
        ("qwen3_next", {**DELTA, **SHARED_EXPERT, "num_hidden_layers": 2}, False),
        ("glm4_moe_lite", LATENT, False),
        ("lfm2", LFM2, False),
        ("granitemoehybrid", GRANITE, False),
        ("nemotron_h", NEMOTRON, False),
        ("nemotron_h", NEMOTRON, True),
    ],
    ids=[
        *("shared keys", "experts", "DeltaNets", "DeltaNets with experts", "latents"),
        *("short convolutions", "state spaces", "experts without gates", "some without kernels"),
    ],
)
def test_kernels_compute_what_plain_torch_does(
    kind: str,
    settings: dict[str, Any],
    some_plain: bool,
    make_random_model: Any,
    pytestconfig: pytest.Config,
) -> None:
    """Prefill, decoding, and verification of drafts; loading compares the kernels of each layer."""
    model = make_random_model(kind, **settings)
    found: list[torch.Tensor] = []
    plain = (*PLAIN, "ffn_down_exps") if some_plain else PLAIN
    for backend in (backend_of(pytestconfig), None):
        runner = open_runner(model, backend, plain)
        found.append(logits(runner, [(0, 10), (10, 1), (11, 5)]))
        runner.close()
    divergence = (found[1].exp() * (found[1] - found[0])).sum(-1)
    assert divergence.max() < 0.02, divergence


def test_kernels_read_latents_of_eight_bits(
    make_random_model: Any, pytestconfig: pytest.Config
) -> None:
    model = make_random_model("glm4_moe_lite", **LATENT)
    found: list[torch.Tensor] = []
    for backend in (backend_of(pytestconfig), None):
        runner = open_runner(model, backend, PLAIN, KVType.Q8_0)
        found.append(logits(runner, [(0, 10), (10, 1), (11, 5)]))
        runner.close()
    divergence = (found[1].exp() * (found[1] - found[0])).sum(-1)
    assert divergence.max() < 0.02, divergence
