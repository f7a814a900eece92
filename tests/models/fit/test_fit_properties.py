"""Properties of memory estimates for any model and any split between GPU and CPU."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from ingle.models.fit.llama_cpp_fit import (
    GPUSplit,
    LoadParameters,
    SplitEstimate,
    estimate_memory,
    estimate_split,
    largest_context,
)
from ingle.models.fit.model_shape import LayerShape, ModelShape
from ingle.models.kv_type import KVType

MIB = 2**20


@st.composite
def layers(draw: st.DrawFn) -> LayerShape:
    weights = draw(st.integers(1, 600)) * MIB
    experts = draw(st.sampled_from((0, weights // 2, weights * 9 // 10)))
    heads = draw(st.sampled_from((0, 1, 4, 8)))
    return LayerShape(
        weights=weights,
        experts=experts,
        largest=weights // 3,
        key_elements=heads * 128,
        value_elements=heads * 128,
        state=0 if heads else draw(st.sampled_from((0, MIB))),
    )


@st.composite
def shapes(draw: st.DrawFn) -> ModelShape:
    vocabulary = draw(st.integers(1000, 300_000))
    width = draw(st.sampled_from((512, 2048, 5120, 8192)))
    tied = draw(st.booleans())
    table = vocabulary * width
    mixture = draw(st.booleans())
    return ModelShape(
        architecture="llama",
        context=draw(st.sampled_from((512, 8192, 131072))),
        vocab_size=vocabulary,
        embedding_length=width,
        feed_forward_length=4 * width,
        head_count=32,
        key_length=128,
        layers=tuple(draw(st.lists(layers(), min_size=1, max_size=24))),
        input_bytes=table,
        output_bytes=0 if tied else table,
        tied_bytes=table if tied else 0,
        expert_feed_forward_length=width if mixture else 0,
        experts_used=8 if mixture else 0,
        windowed=draw(st.booleans()),
    )


@st.composite
def loads(draw: st.DrawFn) -> LoadParameters:
    return LoadParameters(
        context=draw(st.integers(256, 65536)),
        slots=draw(st.integers(1, 32)),
        batch=draw(st.sampled_from((64, 512, 2048))),
        kv_type=draw(st.sampled_from((KVType.F32, KVType.F16, KVType.Q8_0, KVType.Q4_0))),
        flash_attention=draw(st.booleans()),
    )


def sums(found: SplitEstimate) -> tuple[int, int]:
    return found.host.total, found.gpu.total


@settings(deadline=None)
@given(shapes(), loads(), st.integers(1, 65536))
def test_memory_grows_with_the_context(shape: ModelShape, load: LoadParameters, more: int) -> None:
    longer = replace(load, context=load.context + more)
    split = GPUSplit(len(shape.layers) // 2)
    for smaller, larger in zip(
        sums(estimate_split(shape, load, split)),
        sums(estimate_split(shape, longer, split)),
        strict=True,
    ):
        assert smaller <= larger


@settings(deadline=None)
@given(shapes(), loads())
def test_each_gpu_layer_moves_memory_to_the_gpu(shape: ModelShape, load: LoadParameters) -> None:
    count = len(shape.layers) + 1
    splits = [estimate_split(shape, load, GPUSplit(layers)) for layers in range(1, count + 1)]
    for fewer, more in pairwise(splits):
        assert fewer.gpu.weights <= more.gpu.weights
        assert fewer.gpu.kv <= more.gpu.kv
        assert fewer.host.total >= more.host.total
    assert estimate_split(shape, load, GPUSplit(count + 5)) == splits[-1]
    assert splits[-1].host.kv == 0


@settings(deadline=None)
@given(shapes(), loads(), st.integers(0, 30), st.integers(0, 30))
def test_split_conserves_the_total_size(
    shape: ModelShape, load: LoadParameters, gpu_layers: int, cpu_experts: int
) -> None:
    found = estimate_split(shape, load, GPUSplit(gpu_layers, cpu_experts))
    alone = estimate_memory(shape, load)
    assert found.host.kv + found.gpu.kv == alone.kv
    copied = shape.tied_bytes if gpu_layers else 0  # the output layer computes there
    assert found.host.weights + found.gpu.weights == shape.weights + copied
    assert min(*sums(found)) >= 0


@settings(deadline=None)
@given(shapes(), loads(), st.integers(0, 24), st.integers(0, 24))
def test_cpu_experts_reduce_gpu_memory(
    shape: ModelShape, load: LoadParameters, one: int, other: int
) -> None:
    few, many = sorted((one, other))
    layers = len(shape.layers) + 1
    first, second = (estimate_split(shape, load, GPUSplit(layers, n)) for n in (few, many))
    assert first.gpu.weights >= second.gpu.weights
    assert first.host.weights <= second.host.weights
    assert first.gpu.kv == second.gpu.kv


@settings(max_examples=50, deadline=None)
@given(shapes(), st.integers(0, 200), st.integers(0, 50))
def test_context_grows_with_the_memory(shape: ModelShape, gib: int, more: int) -> None:
    def cost(context: int) -> int:
        estimate = estimate_memory(shape, LoadParameters(context=context))
        return estimate.kv + estimate.compute

    rooms = ((size * 2**30 - shape.weights) // 2 for size in (gib, gib + more))
    small, large = (largest_context(shape.context, room, cost) for room in rooms)
    assert small <= large <= shape.context
    spare = (gib + more) * 2**30 - shape.weights
    estimate = estimate_memory(shape, LoadParameters(context=large))
    assert large == 512 or 2 * (estimate.kv + estimate.compute) <= spare
