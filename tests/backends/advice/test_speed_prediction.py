"""Predicted speeds compared with published and measured ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from ingle.backends.advice.device_rates import DeviceRates, cpu_rates, gpu_rates
from ingle.backends.advice.speed_prediction import EXPERT_SHARE, bytes_per_token, predict_speed
from ingle.backends.advice.typical_model import typical_costs
from ingle.backends.hardware.machine import Cpu, Gpu
from ingle.backends.registry.model_costs import ModelCosts
from ingle.backends.selection.load_spec_builder import describe
from ingle.backends.selection.model_placement import MemoryBudget, PlacementRequest, select
from ingle.models.fit.process_overhead import repacked_types
from ingle.models.kv_type import KVType

GB = 1e9


def gpu(name: str, cores: int, bandwidth: float, capability: tuple[int, int]) -> DeviceRates:
    found = gpu_rates(
        Gpu(
            name=name,
            vendor="nvidia",
            cores=cores,
            bandwidth=bandwidth,
            compute_capability=capability,
        )
    )
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("rates", "billions", "gigabytes", "published"),
    [
        (gpu("RTX 3090", 10496, 936e9, (8, 6)), 27, 16.5, 35.7),
        (gpu("RTX 5090", 21760, 1792e9, (12, 0)), 27, 19.5, 52.1),
    ],
)
def test_prediction_matches_published_speeds(
    rates: DeviceRates, billions: float, gigabytes: float, published: float
) -> None:
    """Published llama.cpp measurements, from which the share of the bandwidth was derived."""
    costs = typical_costs(int(billions * 1e9), int(gigabytes * 1e9), 32768)
    budget = MemoryBudget(host=64 * 2**30, gpu=32 * 2**30, gpu_name="GPU", llama_offloads=True)
    found = select(costs, budget, PlacementRequest(context=4096))
    speed = predict_speed(costs, found, None, rates, kv_type=KVType.F16, filled=500)
    assert speed is not None
    assert speed.decode == pytest.approx(published, rel=0.15)


def test_prefill_prediction_on_an_rtx_4090() -> None:
    """llama.cpp processes prompts of Llama 2 7B at 13,000 tokens/s there; the prediction is
    conservative."""
    rates = gpu("RTX 4090", 16384, 1008e9, (8, 9))
    costs = typical_costs(7_000_000_000, 3_800_000_000, 4096)
    budget = MemoryBudget(host=64 * 2**30, gpu=24 * 2**30, gpu_name="GPU", llama_offloads=True)
    found = select(costs, budget, PlacementRequest(context=4096))
    speed = predict_speed(costs, found, None, rates, kv_type=KVType.F16, filled=500)
    assert speed is not None
    assert 5_000 < speed.prefill < 13_000


def test_inactive_experts_do_not_count_as_read() -> None:
    """Qwen3 30B-A3B: 3.3 of 30.5 billion parameters are active per token."""
    dense = typical_costs(8_000_000_000, 5_000_000_000, 4096)
    assert 0.8 * dense.stored < bytes_per_token(dense) < dense.stored
    experts = typical_costs(30_500_000_000, 18_500_000_000, 4096, active=3_300_000_000)
    assert experts.shape is not None
    assert experts.shape.weights == pytest.approx(18_500_000_000, rel=0.01)
    assert bytes_per_token(experts) / experts.stored == pytest.approx(3.3 / 30.5, rel=0.2)
    assert experts.config is None  # ingle's own engine does not support experts


def test_experts_are_read_at_a_share_of_the_bandwidth() -> None:
    """They take as long as the same bytes of a dense model divided by the share."""
    costs = typical_costs(30_500_000_000, 18_500_000_000, 4096, active=3_300_000_000)
    cpu = cpu_rates(Cpu(compute_threads=2, instruction_sets=["AVX-512"], bandwidth=50e9))
    assert cpu is not None
    found = select(costs, MemoryBudget(host=64 * 2**30), PlacementRequest(context=4096))
    speed = predict_speed(
        costs, found, cpu, None, kv_type=KVType.F16, filled=0, repacked=frozenset()
    )
    assert speed is not None
    assert costs.shape is not None
    busy = costs.shape.experts_used / costs.shape.expert_count
    experts = sum(int(layer.experts * busy) for layer in costs.shape.layers)
    assert 0 < experts < bytes_per_token(costs)
    slow = bytes_per_token(costs) - experts + experts / EXPERT_SHARE
    fixed = len(costs.shape.layers) * cpu.layer_seconds
    expected = slow / cpu.weight_rate + fixed
    assert 1 / speed.decode == pytest.approx(expected, rel=0.001)
    assert "experts at 60 % of that rate" in "\n".join(speed.arithmetic)


def test_partial_offload_is_between_cpu_and_gpu_speed() -> None:
    costs = typical_costs(8_200_000_000, 5_000_000_000, 8192, tensor_type="Q4_K")
    cpu = cpu_rates(Cpu(compute_threads=8, instruction_sets=["AVX2"], bandwidth=50e9))
    card = gpu("GPU", 8000, 500e9, (8, 9))
    rates: list[float] = []
    for free in (0, 4, 16):
        budget = MemoryBudget(
            host=64 * 2**30,
            gpu=free * 2**30,
            gpu_name="GPU" if free else "",
            llama_offloads=free > 0,
        )
        found = select(costs, budget, PlacementRequest(context=4096))
        speed = predict_speed(costs, found, cpu, card, kv_type=KVType.F16, filled=1000)
        assert speed is not None
        rates.append(speed.decode)
    assert rates[0] < rates[1] < rates[2]


@pytest.mark.model
@pytest.mark.parametrize(("tokens", "measured"), [(68, 176.8), (925, 129.4)])
def test_prediction_matches_a_measured_speed(
    smollm2_path: Path, tokens: int, measured: float
) -> None:
    """SmolLM2 on 2 otherwise idle cores with AVX-512 and a memory bandwidth of 52.6 GB/s."""
    sets = ["AVX2", "AVX-512", "VNNI"]
    cpu = cpu_rates(Cpu(compute_threads=2, instruction_sets=sets, bandwidth=52.6e9))
    budget = MemoryBudget(host=8 * 2**30, repacked=repacked_types(sets))
    costs = ModelCosts.of(describe(smollm2_path))
    speed = predict_speed(
        costs,
        select(costs, budget, PlacementRequest(context=4096)),
        cpu,
        None,
        kv_type=KVType.F16,
        filled=tokens,
        repacked=budget.repacked,
    )
    assert speed is not None
    assert speed.decode == pytest.approx(measured, rel=0.05)


def test_unknown_devices_have_no_prediction() -> None:
    assert cpu_rates(Cpu()) is None
    assert gpu_rates(Gpu(name="Arc", vendor="intel")) is None
    shared = gpu_rates(Gpu(name="780M", vendor="amd", unified=True), 60e9)
    assert shared is not None
    assert shared.weight_rate == 0.65 * 60e9
    costs = typical_costs(10**9, 600 * 10**6, 4096)
    found = select(costs, MemoryBudget(host=64 * 2**30), PlacementRequest(context=4096))
    assert predict_speed(costs, found, None, None, kv_type=KVType.F16, filled=10) is None


def test_arithmetic_lists_its_inputs() -> None:
    costs = typical_costs(10**9, 600 * 10**6, 4096, tensor_type="Q4_K")
    cpu = cpu_rates(Cpu(compute_threads=2, instruction_sets=["AVX-512"], bandwidth=50e9))
    found = select(costs, MemoryBudget(host=64 * 2**30), PlacementRequest(context=4096))
    speed = predict_speed(costs, found, cpu, None, kv_type=KVType.F16, filled=1000)
    assert speed is not None
    text = "\n".join(speed.arithmetic)
    for part in ("MB / 26 GB/s", "1,000 tokens", "layers × 65 µs", "93 %", "prompt:"):
        assert part in text
    assert f"{speed.decode:,.1f} tokens/s" in text
