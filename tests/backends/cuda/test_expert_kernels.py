"""A mixture of experts on ingle's kernels, run on the CPU, beside plain torch."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest
import torch
from gpu.random_model import llama_config
from gpu.synthetic import NumberedTokens
from gpu.weights import random_weight
from kernel_harness.host_library import CPUKernelLibrary
from kernel_harness.interpreted_library import InterpretedTritonLibrary

from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.cuda.compute_backend import ComputeBackend
from ingle.backends.cuda.model_files import ModelFiles, ModelSource
from ingle.backends.cuda.model_runner import CudaModelRunner
from ingle.backends.engine.batch import Batch, ScheduledChunk
from ingle.backends.engine.sequence import Sequence
from ingle.kernels.attention.attention_variant import attention_variants
from ingle.kernels.formats.weight import Weight
from ingle.kernels.kernel_operations import KernelOperations
from ingle.models.config.model_config import Activation, ExpertConfig, LayerConfig, ModelConfig
from ingle.models.kv_type import KVType

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")

CPU = torch.device("cpu")
HIDDEN, WIDTH, SHARED, EXPERTS = 256, 256, 512, 6
PROMPT = list(range(3, 46))


def config(architecture: str) -> ModelConfig:
    """Qwen 2 with experts, whose shared MLP has a gate of its own, or gpt-oss."""
    dense = llama_config(
        layers=2, hidden=HIDDEN, heads=4, kv_heads=2, intermediate=512, vocabulary=300
    )
    experts = ExpertConfig(count=EXPERTS, used=2, width=WIDTH)
    if architecture == "qwen2moe":
        experts = replace(experts, shared_width=SHARED, shared_gate=True)
    else:
        dense = replace(dense, activation=Activation.CLAMPED_SILU, attention_sinks=True)
    layers = tuple(
        LayerConfig(rope=layer.rope, experts=experts, window=20 * (index % 2) or None)
        for index, layer in enumerate(dense.layers)
    )
    return replace(dense, architecture=architecture, layers=layers)


class ExpertWeights:
    """Random weights, matrices of experts in the type that `kind` names, others in Q4_K."""

    def __init__(self, kind: str, architecture: str) -> None:
        self._kind = kind
        self._shapes: dict[str, tuple[int, ...]] = {
            "token_embd": (300, HIDDEN),
            "output": (300, HIDDEN),
            "output_norm": (HIDDEN,),
        }
        for layer in range(2):
            start = f"blk.{layer}."
            self._shapes |= {
                **{f"{start}{name}": (HIDDEN,) for name in ("attn_norm", "ffn_norm")},
                **{f"{start}attn_{name}": (HIDDEN, HIDDEN) for name in ("q", "output")},
                **{f"{start}attn_{name}": (HIDDEN // 2, HIDDEN) for name in ("k", "v")},
                **{f"{start}ffn_{name}_exps": (EXPERTS * WIDTH, HIDDEN) for name in ("gate", "up")},
                f"{start}ffn_down_exps": (EXPERTS * HIDDEN, WIDTH),
                f"{start}ffn_gate_inp": (EXPERTS, HIDDEN),
            }
            if architecture == "qwen2moe":
                self._shapes |= {
                    **{f"{start}ffn_{name}_shexp": (SHARED, HIDDEN) for name in ("gate", "up")},
                    f"{start}ffn_down_shexp": (HIDDEN, SHARED),
                    f"{start}ffn_gate_inp_shexp": (HIDDEN,),
                }
                continue
            self._shapes |= {
                f"{start}attn_sinks": (4,),
                **{f"{start}ffn_{name}_exps.bias": (EXPERTS, WIDTH) for name in ("gate", "up")},
                f"{start}ffn_down_exps.bias": (EXPERTS, HIDDEN),
            }

    @property
    def names(self) -> Iterable[str]:
        return [name if name.endswith(".bias") else f"{name}.weight" for name in self._shapes]

    def get(self, name: str) -> Weight:
        shape = self._shapes[name.removesuffix(".weight")]
        seed = sum(name.encode())
        if len(shape) == 1 or "ffn_gate_inp" in name or name.endswith(".bias"):
            offset = 1.0 if "norm" in name else 0.0
            return offset + torch.randn(shape, generator=torch.Generator().manual_seed(seed)) / 8
        kind = self._kind if "_exps" in name else "Q4_K"
        return random_weight(kind, shape[0], shape[1], CPU, seed)


@pytest.fixture(scope="module")
def backend(pytestconfig: pytest.Config) -> ComputeBackend:
    assert pytestconfig.cache is not None
    library = CPUKernelLibrary(pytestconfig.cache.mkdir("kernels"), seed=3, num_sms=8)
    compiled = InterpretedTritonLibrary(list(attention_variants()), num_sms=8)
    operations = KernelOperations(library, compiled, dtype=torch.bfloat16, device=CPU)
    return ComputeBackend(operations, library=library)


def logits(runner: CudaModelRunner, parts: list[tuple[int, int]]) -> torch.Tensor:
    """Return the logits at the end of each part of the prompt, given as computed and new tokens."""
    found: list[torch.Tensor] = []
    for start, count in parts:
        sequence = Sequence("text", 0, PROMPT[: start + count], SamplingParams())
        sequence.slot, sequence.num_computed, sequence.block_table = 0, start, [1, 2]
        found.append(runner.compute(Batch([ScheduledChunk(sequence, count, True)], count)).clone())
    return torch.cat(found).log_softmax(-1)


@pytest.mark.parametrize(
    ("architecture", "kind"),
    [
        pytest.param("gpt-oss", "MXFP4", marks=pytest.mark.slow),
        *(
            pytest.param("qwen2moe", kind, marks=pytest.mark.slow)
            for kind in ("Q6_K", "Q5_0", "NF4")
        ),
    ],
)
def test_logits_equal_those_of_plain_torch(
    backend: ComputeBackend, architecture: str, kind: str
) -> None:
    """A prompt whose picks are sorted, decoding, and verification of drafts."""
    weights = ExpertWeights(kind, architecture)
    files = ModelFiles(config(architecture), weights, parameters=1 << 20, stored_bytes=1 << 20)
    source = ModelSource(files, NumberedTokens(300))

    def load(kv_type: KVType, backend: ComputeBackend | None = None) -> CudaModelRunner:
        spec = LoadSpec(
            engine="cuda",
            path="random",
            context=128,
            slots=4,
            batch=64,
            device="cpu",
            threads=1,
            kv_type=kv_type,
        )
        return CudaModelRunner(spec, backend=backend, source=source)

    parts = [(0, 36), (36, 1), (37, 5)]
    results: list[torch.Tensor] = []
    make: Callable[[], CudaModelRunner]
    for make in (lambda: load(KVType.F32), lambda: load(KVType.BF16, backend)):
        runner = make()
        results.append(logits(runner, parts))
        runner.close()
    expected, found = results
    divergence = (expected.exp() * (expected - found)).sum(-1)
    assert divergence.max() < 0.02, divergence
