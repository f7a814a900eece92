"""Memory use by device: weights, KV cache, other programs and free memory."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ingle.daemon.client.daemon_types import DeviceGauges, GaugesEvent, MemoryGauges
from ingle.daemon.client.model_types import LoadedModel
from ingle.tui.gauges.memory_usage import MemoryUse, binary_size, memory_uses

GIB = 2**30


def model(name: str = "m", **changes: object) -> LoadedModel:
    facts: dict[str, object] = {
        "state": "ready",
        "weights_bytes": 4 * GIB,
        "kv_bytes": 2 * GIB,
        "layers": 32,
    }
    return LoadedModel(name=name, **(facts | changes))  # pyright: ignore[reportArgumentType]


def gpu(name: str = "RTX 4070", total: int = 12, used: float = 8.0) -> DeviceGauges:
    return DeviceGauges(
        name=name, kind="gpu", memory_total=total * GIB, memory_used=round(used * GIB)
    )


def test_offloaded_layers_are_split_between_gpu_and_ram() -> None:
    gauges = GaugesEvent(
        MemoryGauges(total=32 * GIB, available=20 * GIB), [model(layers_on_gpu=24)], [gpu()]
    )
    assert memory_uses(gauges) == [
        MemoryUse("VRAM", "RTX 4070", 12 * GIB, 3 * GIB, 3 * GIB // 2, 7 * GIB // 2, 4 * GIB),
        MemoryUse("RAM", "", 32 * GIB, GIB, GIB // 2, 21 * GIB // 2, 20 * GIB),
    ]


def test_machine_without_gpu_has_only_ram() -> None:
    processor = DeviceGauges(name="CPU", kind="cpu", watts=12.0)
    gauges = GaugesEvent(
        MemoryGauges(total=32 * GIB, available=18 * GIB), [model(), model("n")], [processor]
    )
    (use,) = memory_uses(gauges)
    assert (use.kind, use.weights, use.kv) == ("RAM", 8 * GIB, 4 * GIB)
    assert (use.other, use.free) == (2 * GIB, 18 * GIB)


def test_each_gpu_has_its_own_models() -> None:
    models = [
        model(layers_on_gpu=32, device="RTX 4070, 32 of 32 layers"),
        model("n", layers_on_gpu=32, weights_bytes=GIB, device="RTX 3060, 32 of 32 layers"),
    ]
    uses = memory_uses(GaugesEvent(MemoryGauges(), models, [gpu(), gpu("RTX 3060")]))
    assert [(use.device, use.weights) for use in uses] == [
        ("RTX 4070", 4 * GIB),
        ("RTX 3060", GIB),
    ]


@given(*[st.integers(0, 64 * GIB)] * 4, st.integers(0, 32))
def test_memory_parts_add_up_for_any_report(
    total: int, available: int, weights: int, kv: int, layers: int
) -> None:
    loaded = model(weights_bytes=weights, kv_bytes=kv, layers_on_gpu=layers)
    device = DeviceGauges(name="g", kind="gpu", memory_total=total, memory_used=available)
    for use in memory_uses(
        GaugesEvent(MemoryGauges(total=total, available=available), [loaded], [device])
    ):
        assert sum(use.parts) == use.total
        assert min(use.parts) >= 0


def test_memory_sizes_use_binary_units() -> None:
    assert binary_size(12 * GIB) == "12.0 GiB"
    assert binary_size(98 << 20) == "98 MiB"
    assert binary_size(5 * GIB, unit=False) == "5.0"
    assert binary_size(0) == "0 GiB"
