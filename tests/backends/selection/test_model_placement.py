"""Placement of models on GPU and CPU by their memory needs and the budget."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingle.backends.registry.cuda_availability import CudaAvailability
from ingle.backends.registry.engine_descriptor import LoadQuery
from ingle.backends.registry.engines import get_engine
from ingle.backends.registry.model_costs import ModelCosts
from ingle.backends.selection.model_placement import (
    MemoryBudget,
    Placement,
    PlacementRequest,
    select,
)
from ingle.models.config.model_config import LayerConfig, ModelConfig
from ingle.models.fit.llama_cpp_fit import GPUSplit, LoadParameters
from ingle.models.fit.memory_needs import MemoryNeeds
from ingle.models.fit.model_shape import LayerShape, ModelShape
from ingle.models.safetensors.model_folder import ModelFolder

GB = 10**9
RTX = MemoryBudget(host=64 * GB, gpu=0, gpu_name="RTX 4090", llama_offloads=True)
LLAMA_8B = ModelConfig(
    architecture="llama",
    vocab_size=128_256,
    hidden_size=4096,
    intermediate_size=14336,
    num_heads=32,
    num_kv_heads=8,
    head_size=128,
    context=8192,
    norm_epsilon=1e-5,
    layers=(LayerConfig(),) * 32,
    attention_scale=128**-0.5,
)


def costs_of(shape: ModelShape, config: ModelConfig | None = None) -> ModelCosts:
    return ModelCosts(
        shape=shape,
        config=config,
        stored=shape.weights,
        parameters=8 * GB,
        context=shape.context,
    )


def on_gpu(shape: ModelShape, gigabytes: float, **wanted: object) -> Placement:
    """A twentieth of the card's memory is used by the desktop."""
    budget = replace(RTX, gpu=int(gigabytes * 0.95 * GB))
    return select(costs_of(shape), budget, replace(PlacementRequest(), **wanted))  # pyright: ignore[reportArgumentType]


# Layers on the GPU, layers with experts on the CPU, and context in thousands of tokens.
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("llama-3-8b", {8: (32, 0, 8), 12: (32, 0, 8), 16: (32, 0, 8), 24: (32, 0, 8)}),
        ("llama-3-70b", {8: (11, 0, 4), 12: (18, 0, 4), 16: (25, 0, 4), 24: (39, 0, 4)}),
        ("qwen3-30b-a3b", {8: (48, 33, 4), 12: (48, 22, 4), 16: (48, 12, 4), 24: (48, 0, 19.5)}),
        ("gemma-3-27b", {8: (20, 0, 4), 12: (33, 0, 4), 24: (62, 0, 5), 32: (62, 0, 12.5)}),
        ("gpt-oss-20b", {8: (24, 12, 4), 12: (24, 3, 4), 16: (24, 0, 28.75), 32: (24, 0, 128)}),
    ],
)
def test_placement_of_large_models_by_gpu_size(
    name: str,
    expected: dict[int, tuple[int, int, float]],
    well_known_shapes: dict[str, ModelShape],
) -> None:
    shape = well_known_shapes[name]
    for gigabytes, (layers, experts, context) in expected.items():
        found = on_gpu(shape, gigabytes)
        all_layers = len(shape.layers)
        assert (all_layers if found.gpu_layers < 0 else found.gpu_layers - 1) == layers, gigabytes
        assert (found.cpu_experts, found.context) == (experts, context * 1024), gigabytes
        assert found.needs.fits_in(MemoryNeeds(RTX.host, int(gigabytes * 0.95 * GB)))


def test_reason_contains_layers_memory_and_context(
    well_known_shapes: dict[str, ModelShape],
) -> None:
    llama, qwen = well_known_shapes["llama-3-8b"], well_known_shapes["qwen3-30b-a3b"]
    assert on_gpu(llama, 24).reason == (
        "All 32 layers on the RTX 4090: takes 6.3 of 22.8 GB free, context 8,192."
    )
    assert on_gpu(well_known_shapes["llama-3-70b"], 24).reason == (
        "39 of 80 layers on the RTX 4090: takes 22.3 of 22.8 GB free, the rest 23.1 GB of the "
        "machine's memory, context 4,096."
    )
    assert on_gpu(qwen, 12).reason.startswith(
        "All 48 layers on the RTX 4090 but for the experts of 22: takes 11.3 of 11.4 GB free, "
    )
    refused = on_gpu(
        llama,
        24,
        why_not_preferred="ingle's own engine cannot compute with the tensor type IQ2_XXS",
    )
    assert refused.reason.startswith(
        "ingle's own engine cannot compute with the tensor type IQ2_XXS, so llama.cpp does: "
        "all 32 layers "
    )


def test_llama_cpp_runs_on_the_cpu_without_a_usable_gpu(
    well_known_shapes: dict[str, ModelShape],
) -> None:
    costs = costs_of(well_known_shapes["llama-3-8b"])
    on_cpu_only = select(costs, MemoryBudget(host=16 * GB), PlacementRequest())
    assert (on_cpu_only.engine, on_cpu_only.device, on_cpu_only.gpu_layers) == (
        "llama.cpp",
        "cpu",
        0,
    )
    assert on_cpu_only.reason == (
        "llama.cpp on the CPU, since no GPU was found: takes 6.4 of 16.0 GB free, context 8,192."
    )
    unused = select(costs, replace(RTX, gpu=24 * GB, llama_offloads=False), PlacementRequest())
    assert "since this llama.cpp was built without support for the GPU" in unused.reason
    requested = select(costs, replace(RTX, gpu=24 * GB), PlacementRequest(gpu_layers=0))
    assert "since gpu_layers is 0" in requested.reason
    tiny = select(costs, replace(RTX, gpu=GB), PlacementRequest())
    assert (tiny.device, tiny.needs.gpu) == ("cpu", 0)
    assert "since too little of the GPU's memory is free" in tiny.reason


def test_own_engine_requires_the_whole_model_on_the_gpu(
    well_known_shapes: dict[str, ModelShape],
) -> None:
    costs = costs_of(well_known_shapes["llama-3-8b"], LLAMA_8B)
    own_engine = PlacementRequest(engine="cuda")
    all_layers = select(costs, replace(RTX, gpu=12 * GB), own_engine)
    assert (all_layers.engine, all_layers.device, all_layers.gpu_layers) == ("cuda", "gpu", -1)
    part = select(costs, replace(RTX, gpu=5 * GB), own_engine)
    assert part.engine == "llama.cpp"
    assert 0 < part.gpu_layers < 33
    without = select(costs, replace(RTX, gpu=5 * GB, llama_offloads=False), own_engine)
    assert (without.engine, without.device) == ("llama.cpp", "cpu")
    assert "the GPU has too little memory for all of it, and this llama.cpp" in without.reason
    forced = select(costs, replace(RTX, gpu=5 * GB), replace(own_engine, must=True))
    assert forced.engine == "cuda"
    assert not forced.needs.fits_in(MemoryNeeds(RTX.host, 5 * GB))
    on_cpu = select(costs, replace(RTX, gpu=0, gpu_name=""), replace(own_engine, must=True))
    assert (on_cpu.engine, on_cpu.device) == ("cuda", "cpu")
    assert on_cpu.reason.startswith("ingle's own engine on the CPU, since no GPU was found: ")


def test_weights_in_fp8_take_half_where_a_gpu_multiplies_them() -> None:
    costs = ModelCosts(
        shape=None,
        config=LLAMA_8B,
        context=8192,
        parameters=8 * GB,
        stored=16 * GB,
        stored_in_fp8=8 * GB,
    )
    wanted = PlacementRequest(engine="cuda", must=True, context=4096)
    newer = replace(RTX, gpu=12 * GB, has_fp8=True)
    assert select(costs, newer, wanted).estimate.gpu.weights == 8 * GB
    older = select(costs, replace(newer, has_fp8=False), wanted)
    assert not older.needs.fits_in(MemoryNeeds(RTX.host, newer.gpu or 0))


def test_requested_gpu_layers_are_kept(
    well_known_shapes: dict[str, ModelShape],
) -> None:
    found = on_gpu(well_known_shapes["llama-3-8b"], 8, gpu_layers=11, context=8192)
    assert (found.gpu_layers, found.context) == (11, 8192)
    assert found.reason.startswith("10 of 32 layers on the RTX 4090: ")


def test_context_without_a_request_in_host_memory_is_bounded(
    well_known_shapes: dict[str, ModelShape],
) -> None:
    costs = costs_of(well_known_shapes["gpt-oss-20b"])
    found = select(costs, MemoryBudget(host=64 * GB), PlacementRequest())
    assert (found.device, found.context) == ("cpu", 16384)
    longer = select(costs, MemoryBudget(host=64 * GB), PlacementRequest(least_context=50000))
    assert longer.context == 50000


def test_unified_memory_is_counted_once(
    well_known_shapes: dict[str, ModelShape],
) -> None:
    budget = MemoryBudget(
        host=24 * GB, gpu=24 * GB, gpu_name="Apple M3 Pro", llama_offloads=True, unified=True
    )
    found = select(costs_of(well_known_shapes["llama-3-8b"]), budget, PlacementRequest())
    assert (found.device, found.gpu_layers, found.needs.gpu) == ("gpu", -1, 0)
    assert found.needs.host == found.estimate.host.total + found.estimate.gpu.total


def test_unknown_free_gpu_memory_offloads_all_layers(
    well_known_shapes: dict[str, ModelShape],
) -> None:
    budget = replace(RTX, gpu=None, gpu_name="Radeon RX 7800 XT")
    found = select(costs_of(well_known_shapes["llama-3-8b"]), budget, PlacementRequest())
    assert (found.device, found.gpu_layers, found.needs.gpu) == ("gpu", -1, 0)
    assert "the Radeon RX 7800 XT does not report how much of its memory is free" in found.reason


def test_requested_context_shrinks_only_if_allowed(
    well_known_shapes: dict[str, ModelShape],
) -> None:
    costs, budget = costs_of(well_known_shapes["gemma-3-27b"]), MemoryBudget(host=20 * GB)
    strict = select(costs, budget, PlacementRequest(context=65536))
    assert strict.context == 65536
    assert not strict.needs.fits_in(MemoryNeeds(budget.host))
    lenient = select(costs, budget, PlacementRequest(context=65536, may_shrink=True))
    assert lenient.context == 4096
    assert lenient.needs.fits_in(MemoryNeeds(budget.host))
    assert lenient.reason.endswith("context 4,096 instead of 65,536, which would not fit.")
    hopeless = select(
        costs, MemoryBudget(host=GB), PlacementRequest(context=65536, may_shrink=True)
    )
    assert hopeless.context == 65536


def uniform(layers: int, weights: int, experts: int, context: int) -> ModelShape:
    layer = LayerShape(
        weights=weights,
        experts=experts,
        largest=weights // 4,
        key_elements=1024,
        value_elements=1024,
    )
    return ModelShape(
        architecture="llama",
        context=context,
        vocab_size=128_000,
        embedding_length=4096,
        feed_forward_length=14336,
        head_count=32,
        key_length=128,
        layers=(layer,) * layers,
        input_bytes=400 * 2**20,
        output_bytes=400 * 2**20,
    )


@settings(deadline=None)
@given(
    st.builds(
        uniform,
        st.integers(1, 48),
        st.integers(2**20, 2**30),
        st.integers(0, 2**19),
        st.sampled_from((256, 8192, 131072)),
    ),
    st.integers(0, 64),
    st.integers(0, 48),
    st.sampled_from((None, 1024, 30000)),
    st.booleans(),
)
def test_placement_stays_within_gpu_memory_and_requested_context(
    shape: ModelShape, host: int, gpu: int, context: int | None, may_shrink: bool
) -> None:
    budget = replace(RTX, host=host * GB, gpu=gpu * GB)
    found = select(
        costs_of(shape), budget, PlacementRequest(context=context, may_shrink=may_shrink)
    )
    assert found.needs.gpu <= gpu * GB
    assert 0 < found.context <= shape.context
    if context is not None and not may_shrink:
        assert found.context == min(context, shape.context)
    assert f"context {found.context:,}" in found.reason
    assert found.reason.endswith(".")
    assert (found.device == "gpu") is (found.needs.gpu > 0)


@settings(deadline=None)
@given(st.integers(1, 47), st.integers(0, 8))
def test_larger_gpu_never_gets_fewer_layers(gpu: int, more: int) -> None:
    shape = uniform(40, 500 * 2**20, 0, 8192)

    def layers(gigabytes: int) -> int:
        budget = replace(RTX, gpu=gigabytes * GB)
        found = select(costs_of(shape), budget, PlacementRequest(context=4096))
        return found.gpu_layers if found.gpu_layers >= 0 else 41

    assert layers(gpu) <= layers(gpu + more)


def test_a_divided_model_takes_its_first_part_of_a_gpu(
    well_known_shapes: dict[str, ModelShape],
) -> None:
    costs = costs_of(well_known_shapes["llama-3-8b"], LLAMA_8B)
    load = LoadParameters(context=8192, slots=8)
    whole = get_engine("cuda").estimate(costs, load, GPUSplit(99)).gpu
    half = get_engine("cuda").estimate(costs, replace(load, ranks=2), GPUSplit(99)).gpu
    assert half.weights == pytest.approx(whole.weights / 2, rel=1e-3)
    assert half.kv == whole.kv // 2
    assert half.runtime == whole.runtime
    alone = get_engine("cuda").estimate(costs, load).host
    both = get_engine("cuda").estimate(costs, replace(load, ranks=2)).host
    assert both.weights == pytest.approx(alone.weights, rel=1e-3)
    assert both.runtime == 2 * alone.runtime


def test_a_gpu_with_most_layers_takes_most_of_a_model(
    well_known_shapes: dict[str, ModelShape],
) -> None:
    costs = costs_of(well_known_shapes["llama-3-8b"], LLAMA_8B)
    load = LoadParameters(context=8192, slots=8)
    whole = get_engine("cuda").estimate(costs, load, GPUSplit(99)).gpu
    staged = replace(load, ranks=2, stages=(24, 8))
    first = get_engine("cuda").estimate(costs, staged, GPUSplit(99)).gpu
    assert first.weights == pytest.approx(whole.weights * 3 / 4, rel=0.05)
    assert first.kv == whole.kv * 3 // 4


def test_model_whose_heads_are_normalised_together_is_divided_by_layers() -> None:
    folder = ModelFolder(Path("olmo"), replace(LLAMA_8B, architecture="olmo2"), {}, False)
    query, engine = LoadQuery(folder, ranks=2), get_engine("cuda")
    assert engine.refusal(query) is None
    assert engine.stages(query, (), CudaAvailability()) == (16, 16)
    single = replace(folder, config=replace(folder.config, layers=folder.config.layers[:1]))
    assert "normalises all heads" in str(engine.refusal(replace(query, model=single)))
