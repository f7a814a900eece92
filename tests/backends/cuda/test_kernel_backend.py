"""The engine on its own kernels, run on the CPU: csrc compiled by g++, Triton interpreted."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Arguments
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from gpu.random_model import (
    DELTA_NET,
    SHORT_CONVOLUTION,
    STATE_SPACE,
    all_bf16,
    all_fp8,
    all_g4,
    all_nf4,
    hybrid_config,
    llama_config,
    q4_k_m,
)
from gpu.synthetic import source
from gpu.weights import random_weight
from kernel_harness.host_library import CPUKernelLibrary
from kernel_harness.interpreted_library import InterpretedTritonLibrary
from torch.utils._python_dispatch import TorchDispatchMode

from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.cuda.compute_backend import ComputeBackend
from ingle.backends.cuda.model_runner import CudaModelRunner
from ingle.backends.cuda.state_model_runner import open_model_runner
from ingle.backends.engine.batch import Batch, ScheduledChunk
from ingle.backends.engine.engine import Engine
from ingle.backends.engine.sequence import Sequence
from ingle.kernels.attention.attention_variant import attention_variants
from ingle.kernels.elementwise.rms_norm import rms_norm_reference
from ingle.kernels.kernel_operations import KernelOperations
from ingle.kernels.launch.cuda_driver import Argument, Grid
from ingle.models.config.model_config import ModelConfig
from ingle.models.config.recurrent_config import RecurrentConfig
from ingle.models.kv_type import KVType
from ingle.models.layers.parameters import RMSNorm

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")

LoadModel = Callable[..., CudaModelRunner]
CPU = torch.device("cpu")
CONFIG = llama_config(layers=2, hidden=256, heads=4, kv_heads=2, intermediate=512, vocabulary=300)
PROMPT = [5, 250, 3, 17, 99, 201, 44, 8, 123, 7, 66, 31, 285, 12, 190, 2]


def mixed(name: str) -> str:
    """All types with blocks of 32 weights in one model, and one with super-blocks."""
    kinds = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q5_K")
    return kinds[sum(name.encode()) % len(kinds)]


def float_tables(name: str) -> str:
    """Embeddings and output in 16 bits, all other matrices quantised."""
    return "BF16" if name in ("token_embd.weight", "output.weight") else "Q4_K"


@pytest.fixture(scope="module")
def backend(pytestconfig: pytest.Config) -> ComputeBackend:
    assert pytestconfig.cache is not None
    library = CPUKernelLibrary(pytestconfig.cache.mkdir("kernels"), seed=3, num_sms=8)
    compiled = InterpretedTritonLibrary(list(attention_variants()), num_sms=8)
    operations = KernelOperations(library, compiled, dtype=torch.bfloat16, device=CPU)
    return ComputeBackend(operations, library=library)


@pytest.fixture(scope="module")
def load(backend: ComputeBackend) -> Iterator[Callable[..., CudaModelRunner]]:
    """Return a factory of random models on kernels or plain torch, each loaded once."""
    made: dict[tuple[object, ...], CudaModelRunner] = {}

    def load(
        kind: Callable[[str], str],
        kv_type: KVType = KVType.BF16,
        *,
        plain: bool = False,
        backend: ComputeBackend = backend,
    ) -> CudaModelRunner:
        if (kind, kv_type, plain) in made:
            return made[kind, kv_type, plain]
        spec = LoadSpec(
            engine="cuda",
            path="random",
            context=128,
            slots=4,
            batch=32,
            device="cpu",
            threads=1,
            kv_type=KVType.F32 if plain else kv_type,
        )
        model = source(CONFIG, CPU, kind)
        runner = CudaModelRunner(spec, backend=None if plain else backend, source=model)
        made[kind, kv_type, plain] = runner
        return runner

    yield load
    for runner in made.values():
        runner.close()


def logits(runner: CudaModelRunner, parts: list[tuple[int, int]]) -> torch.Tensor:
    """Return the logits at the end of each part of the prompt, given as computed and new tokens."""
    found: list[torch.Tensor] = []
    for start, count in parts:
        sequence = Sequence("text", 0, PROMPT[: start + count], SamplingParams())
        sequence.slot, sequence.num_computed, sequence.block_table = 0, start, [1]
        found.append(runner.compute(Batch([ScheduledChunk(sequence, count, True)], count)).clone())
    return torch.cat(found).log_softmax(-1)


@pytest.mark.parametrize(
    "kind",
    [
        q4_k_m,
        *(
            pytest.param(kind, marks=pytest.mark.slow)
            for kind in (all_g4, all_nf4, all_fp8, all_bf16, mixed)
        ),
    ],
)
def test_logits_equal_those_of_plain_torch(
    load: Callable[..., CudaModelRunner], kind: Callable[[str], str]
) -> None:
    """Prefill with rows for each kind of product, then decoding, then verification of drafts."""
    parts = [(0, 10), (10, 1), (11, 5)]
    found, expected = logits(load(kind), parts), logits(load(kind, plain=True), parts)
    divergence = (expected.exp() * (expected - found)).sum(-1)
    assert divergence.max() < 0.01, divergence


@pytest.mark.slow
def test_layers_read_int8_alone_beside_tables_of_floats(
    backend: ComputeBackend, load: Callable[..., CudaModelRunner]
) -> None:
    """As in a model that was put into NF4, whose embeddings and output stay in 16 bits."""
    assert backend.library is not None
    compiled = InterpretedTritonLibrary(list(attention_variants()), num_sms=8)
    operations = KernelOperations(backend.library, compiled, dtype=torch.bfloat16, device=CPU)
    runner = load(float_tables, backend=ComputeBackend(operations, library=backend.library))
    assert operations.activations(torch.zeros(1, 256)).dense is None
    parts = [(0, 10), (10, 1)]
    found, expected = logits(runner, parts), logits(load(float_tables, plain=True), parts)
    divergence = (expected.exp() * (expected - found)).sum(-1)
    assert divergence.max() < 0.01, divergence
    operations.prepare(torch.zeros(256, 256, dtype=torch.bfloat16))
    assert operations.activations(torch.zeros(1, 256)).dense is not None


def test_head_norms_stay_dense_when_layers_read_quantised_inputs(backend: ComputeBackend) -> None:
    assert backend.library is not None
    compiled = InterpretedTritonLibrary([], num_sms=8)
    operations = KernelOperations(backend.library, compiled, dtype=torch.bfloat16, device=CPU)
    operations.prepare(random_weight("Q4_K", 256, 256, CPU, 1))
    norm = RMSNorm(operations, torch.linspace(0.5, 2, 64), 1e-5)
    rows = torch.randn(3, 128, generator=torch.Generator().manual_seed(5)).bfloat16()[:, 64:]
    assert norm(rows).dense is None
    expected = rms_norm_reference(rows, norm.weight, 1e-5, torch.bfloat16)
    assert torch.allclose(norm.as_tensor(rows).float(), expected.float(), rtol=8e-3)


@pytest.mark.slow
@pytest.mark.parametrize("kv_type", [KVType.Q8_0, KVType.Q4_0, KVType.F16])
def test_logits_with_other_kv_cache_types(
    load: Callable[..., CudaModelRunner], kv_type: KVType
) -> None:
    parts = [(0, 12), (12, 1), (13, 3)]
    found, expected = logits(load(q4_k_m, kv_type), parts), logits(load(q4_k_m, plain=True), parts)
    divergence = (expected.exp() * (expected - found)).sum(-1)
    assert divergence.max() < (0.2 if kv_type is KVType.Q4_0 else 0.01), divergence


@pytest.mark.slow
def test_batched_output_equals_each_sequence_alone(load: Callable[..., CudaModelRunner]) -> None:
    runner = load(q4_k_m)

    def texts(count: int) -> list[Sequence]:
        params = [SamplingParams(temperature=0.0), SamplingParams(seed=4)]
        return [
            Sequence("r", i, PROMPT[i:], params[i % 2], max_tokens=4, ignore_eos=True)
            for i in range(count)
        ]

    def run(together: list[Sequence]) -> list[list[int]]:
        engine = Engine(runner)
        for sequence in together:
            engine.add(sequence)
        while engine.has_work:
            engine.step()
        return [sequence.token_ids[sequence.prompt_length :] for sequence in together]

    alone = [run([sequence])[0] for sequence in texts(3)]
    assert run(texts(3)) == alone


class CountingLibrary(CPUKernelLibrary):
    """Records which kernels were started."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, num_sms=8)
        self.started: list[str] = []

    def launch(
        self,
        source: str,
        kernel: str,
        grid: Grid,
        block: Grid,
        arguments: Arguments[Argument],
        *,
        shared_bytes: int = 0,
        overlap: bool = True,
    ) -> None:
        self.started.append(kernel)
        super().launch(
            source, kernel, grid, block, arguments, shared_bytes=shared_bytes, overlap=overlap
        )


class Recordable(TorchDispatchMode):
    """Allows only operations that a graph can capture, and records what torch computes."""

    quiet = frozenset(
        (
            "empty",
            "slice",
            "view",
            "_unsafe_view",
            "as_strided",
            "select",
            "unbind",
            "alias",
            "empty_like",
            "new_empty",
        )
    )
    allowed = frozenset(("index", "detach", "clone"))

    def __init__(self) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        self.computed: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        assert name in self.quiet | self.allowed, f"{name} is nothing that steps do"
        if name not in self.quiet:
            self.computed.append(name)
        return func(*args, **(kwargs or {}))


def skip_self_check(*_: object) -> None:
    """Skip the kernels' self-check, which has its own tests."""


class StepCounts(NamedTuple):
    """The kernels of a step, of attention too, and the operations of torch."""

    kernels: list[str]
    attention: list[str]
    torch: list[str]


def count_step(cache: Path, config: ModelConfig) -> StepCounts:
    """Return what a decoding step of one sequence starts; it may not wait for the device."""
    library = CountingLibrary(cache)
    compiled = InterpretedTritonLibrary(list(attention_variants()), num_sms=8)
    operations = KernelOperations(library, compiled, dtype=torch.bfloat16, device=CPU)
    spec = LoadSpec(engine="cuda", path="random", context=64, slots=1, batch=8, device="cpu")
    backend = ComputeBackend(operations, library=library)
    runner = open_model_runner(spec, backend=backend, source=source(config, CPU, q4_k_m))
    sequence = Sequence("text", 0, PROMPT, SamplingParams())
    sequence.slot, sequence.num_computed, sequence.block_table = 0, 15, [1]
    runner.compute(Batch([ScheduledChunk(sequence, 1, True)], 1))
    library.started.clear()
    compiled.launched.clear()
    with Recordable() as step:
        runner._forward()  # pyright: ignore[reportPrivateUsage]
    counts = StepCounts(library.started[:], compiled.launched[:], step.computed)
    runner.close()
    return counts


def added_kernels(first: StepCounts, second: StepCounts) -> dict[str, int]:
    """Return what a layer more adds, by kernel."""
    added = Counter(name.split("_gemv")[0] for name in second.kernels)
    added.subtract(name.split("_gemv")[0] for name in first.kernels)
    return {name: count for name, count in added.items() if count}


def test_decoding_step_launches_few_kernels_without_synchronising(
    pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert pytestconfig.cache is not None
    monkeypatch.setattr(KernelOperations, "check", skip_self_check)
    cache = pytestconfig.cache.mkdir("kernels")
    first, second = (
        count_step(cache, replace(CONFIG, layers=CONFIG.layers[:layers])) for layers in (1, 2)
    )
    assert len(second.attention) - len(first.attention) == 1, "attention is one launch"
    assert sorted(second.torch) == sorted(first.torch), "torch computes nothing in a layer"
    added = added_kernels(first, second)
    assert sum(added.values()) == 5, "beside attention"
    assert added == {
        "q4_k": -1,  # the last one of a layer, which has a norm after it now
        "q4_k_gated_c1_s1": 1,
        "q4_k_normed_c1_s1": 2,
        "q4_k_q6_k": 1,
        "q6_k": 1,
        "rope_append_128": 1,
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layer", "own", "launches"),
    [
        (DELTA_NET, {"convolve_silu", "gated_delta", "gate_heads"}, 8),
        (STATE_SPACE, {"convolve_silu", "state_space_128", "norm_groups_v1"}, 7),
        (SHORT_CONVOLUTION, {"convolve_gated"}, 5),
    ],
    ids=["DeltaNet", "state space", "short convolution"],
)
def test_recurrent_layer_adds_few_launches_to_its_products(
    pytestconfig: pytest.Config,
    monkeypatch: pytest.MonkeyPatch,
    layer: RecurrentConfig,
    own: set[str],
    launches: int,
) -> None:
    assert pytestconfig.cache is not None
    monkeypatch.setattr(KernelOperations, "check", skip_self_check)
    config = hybrid_config(replace(CONFIG, layers=CONFIG.layers * 2), layer)
    first, second = (
        count_step(
            pytestconfig.cache.mkdir("kernels"), replace(config, layers=config.layers[4 - count :])
        )
        for count in (2, 3)
    )
    assert sorted(second.torch) == sorted(first.torch), "torch computes nothing in a layer"
    added = added_kernels(first, second)
    assert sum(added.values()) == launches
    assert {name: added[name] for name in own} == dict.fromkeys(own, 1)


@pytest.mark.slow
@pytest.mark.model
def test_logits_of_a_real_model(
    load_model: LoadModel, backend: ComputeBackend, smollm2_path: Path
) -> None:
    size = {"context": 128, "slots": 2, "batch": 16}
    ours = load_model(smollm2_path, backend, kv_type=KVType.BF16, **size)
    exact = load_model(smollm2_path, kv_type=KVType.F32, **size)
    parts = [(0, 3), (3, 1), (4, 2)]
    found, expected = logits(ours, parts), logits(exact, parts)
    divergence = (expected.exp() * (expected - found)).sum(-1)
    assert divergence.max() < 0.02, divergence


def test_partial_prefill_computes_no_logits(load: Callable[..., CudaModelRunner]) -> None:
    runner = load(q4_k_m)
    sequence = Sequence("text", 0, PROMPT, SamplingParams())
    sequence.slot, sequence.block_table = 0, [1]
    found = runner.compute(Batch([ScheduledChunk(sequence, 10, False)], 10))
    assert found.shape[0] == 0
