"""Memory usage of GPUs and RAM: weights, KV cache and other uses."""

from __future__ import annotations

import msgspec

from ingle.daemon.client.daemon_types import DeviceGauges, GaugesEvent
from ingle.daemon.client.model_types import LoadedModel

PARTS = ("weights", "KV", "other", "free")
PROCESSOR_KINDS = ("cpu", "processor")


class MemoryUse(msgspec.Struct, frozen=True):
    """Usage of one memory in bytes; the four parts add up to `total`."""

    kind: str
    device: str
    total: int
    weights: int
    kv: int
    other: int
    free: int

    @property
    def parts(self) -> tuple[int, int, int, int]:
        """Return the parts in the order of `PARTS`."""
        return self.weights, self.kv, self.other, self.free


def memory_uses(gauges: GaugesEvent) -> list[MemoryUse]:
    """Return every GPU that reports its memory, then RAM if known."""
    gpus = [d for d in gauges.devices if d.kind not in PROCESSOR_KINDS and d.memory_total]
    uses = [_gpu_use(gpu, _models_on(gauges.models, gpu, gpus)) for gpu in gpus]
    if gauges.memory.total:
        uses.append(_ram_use(gauges, bool(gpus)))
    return uses


def gpu_fraction(model: LoadedModel) -> float:
    """Return the share of a model's layers on a GPU."""
    return min(1.0, model.layers_on_gpu / model.layers) if model.layers else 0.0


def _models_on(
    models: list[LoadedModel], gpu: DeviceGauges, gpus: list[DeviceGauges]
) -> list[LoadedModel]:
    """Return the models on this GPU; those without a device count for the first one."""
    return [
        model
        for model in models
        if next((g for g in gpus if g.name in model.device), gpus[0]) is gpu
    ]


def _gpu_use(gpu: DeviceGauges, models: list[LoadedModel]) -> MemoryUse:
    total = gpu.memory_total or 0
    weights = round(sum(m.weights_bytes * gpu_fraction(m) for m in models))
    kv = round(sum(m.kv_bytes * gpu_fraction(m) for m in models))
    work = sum(m.compute_bytes for m in models if m.layers_on_gpu)
    used = gpu.memory_used if gpu.memory_used is not None else weights + kv + work
    return _divide("VRAM", gpu.name, total, weights, kv, used)


def _ram_use(gauges: GaugesEvent, has_gpu: bool) -> MemoryUse:
    memory = gauges.memory
    weights = kv = 0.0
    for model in gauges.models:
        here = 1.0 - gpu_fraction(model) if has_gpu or model.layers_on_gpu else 1.0
        weights += model.weights_bytes * here
        kv += model.kv_bytes * here + model.kv_memory_bytes
    used = memory.total - memory.available
    return _divide("RAM", "", memory.total, round(weights), round(kv), used)


def _divide(kind: str, device: str, total: int, weights: int, kv: int, used: int) -> MemoryUse:
    """Divide used memory into weights, KV cache and other uses.

    A system may count mapped weights, or a cache before its first use, as free; the free part is
    then reduced, so that the parts still add up.
    """
    weights = min(weights, total)
    kv = min(kv, total - weights)
    other = min(max(0, used - weights - kv), total - weights - kv)
    return MemoryUse(kind, device, total, weights, kv, other, total - weights - kv - other)


def binary_size(count: float, *, unit: bool = True) -> str:
    """Return bytes in GiB, or MiB below one."""
    gib = count / 2**30
    if gib >= 1:
        return f"{gib:.1f}{' GiB' if unit else ''}"
    return f"{count / 2**20:.0f} MiB" if count else f"0{' GiB' if unit else ''}"
