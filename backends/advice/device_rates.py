"""Memory bandwidth and compute rates of CPUs and GPUs, each with its source."""

from __future__ import annotations

from dataclasses import dataclass

from ..hardware.machine import Cpu, Gpu

_GPU_SHARE = 0.65
_GPU_SOURCE = (
    "65 % of a GPU's bandwidth: llama.cpp's published 63 % (RTX 3090, 27B Q4_K_M) and 57 % "
    "(RTX 5090, 27B Q5_K); not measured by ingle yet"
)
_GPU_LAYER = 15e-6
_GPU_KV_SHARE = 0.8


@dataclass(frozen=True)
class _Level:
    """Rates of one thread per second: bytes of weights and operations, for weights that llama.cpp
    repacks for the processor and for others, and multiplications of attention.
    """

    bytes: float
    plain_bytes: float
    flops: float
    plain_flops: float
    attention: float


_LEVELS = {
    "AVX-512": _Level(24e9, 13.2e9, 340e9, 80e9, 8e9),
    "AVX2": _Level(14e9, 8e9, 120e9, 40e9, 5e9),
    "I8MM": _Level(14e9, 8e9, 120e9, 30e9, 4e9),
    "DOTPROD": _Level(6e9, 4e9, 40e9, 12e9, 2e9),
}
"""AVX-512 is measured with four models on 2 cores, see docs/machine.md; the others are assumed."""
_OLD = _Level(3e9, 2e9, 12e9, 6e9, 1e9)
_CPU_SHARE = 0.93
_CPU_LAYER = 65e-6
_CPU_SOURCE = (
    "93 % of what the processor reads, less where unpacking takes longer, and 65 µs a layer: "
    "solved from SmolLM2 135M, Gemma 3 270M and Qwen2.5 Coder 0.5B and 1.5B on 2 cores with AVX-512"
)
_CPU_ASSUMED = "for other instructions than those of AVX-512 assumed"
_FLOPS_A_CORE = {
    (7, 5): 13.1e9,
    (8, 0): 45.1e9,
    (8, 6): 6.8e9,
    (8, 9): 10.1e9,
    (9, 0): 58.6e9,
    (10, 0): 110e9,
    (12, 0): 9.7e9,
}
"""Dense 16-bit tensor operations per second of each CUDA core, from NVIDIA's tables: 71 TFLOPS of
an RTX 3090's 10,496 cores, 165 of an RTX 4090's 16,384, and so on.
"""
_GPU_FLOPS_SHARE = 0.6
_APPLE_FLOPS_A_CORE = 0.25e12
"""From llama.cpp's published prefill of Llama 2 7B: 10 TFLOPS on 40 cores of an M3 Max."""
_PASCAL_FLOPS_A_CORE = 3.5e9
_UNKNOWN_FLOPS = 2e12


@dataclass(frozen=True, kw_only=True)
class DeviceRates:
    """Rates of one device in bytes and operations per second, and fixed seconds per layer.

    `plain` rates are for weight types without a fast layout on the device. `attention` counts
    multiplications with keys and values, 0 if only reading them takes time. `source` says where the
    numbers come from; `factor` is measured speed over predicted speed.
    """

    name: str
    weight_rate: float
    plain_rate: float
    kv_rate: float
    attention: float
    flops: float
    plain_flops: float
    layer_seconds: float
    source: str
    factor: float = 1.0


def cpu_rates(cpu: Cpu) -> DeviceRates | None:
    """Return the rates of the processor, None if its memory bandwidth is unknown."""
    if not cpu.bandwidth:
        return None
    threads = cpu.compute_threads
    name = next((name for name in _LEVELS if name in cpu.instruction_sets), None)
    level = _LEVELS[name] if name else _OLD
    most = _CPU_SHARE * cpu.bandwidth
    return DeviceRates(
        name="processor",
        weight_rate=min(most, threads * level.bytes),
        plain_rate=min(most, threads * level.plain_bytes),
        kv_rate=most,
        attention=threads * level.attention,
        flops=threads * level.flops,
        plain_flops=threads * level.plain_flops,
        layer_seconds=_CPU_LAYER,
        source=_CPU_SOURCE if name == "AVX-512" else f"{_CPU_SOURCE}; {_CPU_ASSUMED}",
    )


def gpu_rates(gpu: Gpu, memory_bandwidth: float | None = None) -> DeviceRates | None:
    """Return the rates of a GPU, None if its bandwidth is unknown.

    A GPU with unified memory reads at `memory_bandwidth` unless its own is known.
    """
    bandwidth = gpu.bandwidth or (memory_bandwidth if gpu.unified else None)
    if not bandwidth:
        return None
    flops = _gpu_flops(gpu)
    return DeviceRates(
        name=gpu.name,
        weight_rate=_GPU_SHARE * bandwidth,
        plain_rate=_GPU_SHARE * bandwidth,
        kv_rate=_GPU_KV_SHARE * _GPU_SHARE * bandwidth,
        attention=0.0,
        flops=flops,
        plain_flops=flops,
        layer_seconds=_GPU_LAYER,
        source=_GPU_SOURCE,
    )


def _gpu_flops(gpu: Gpu) -> float:
    if gpu.vendor == "apple" and gpu.cores:
        return gpu.cores * _APPLE_FLOPS_A_CORE
    if gpu.compute_capability is None or not gpu.cores:
        return _UNKNOWN_FLOPS
    older = [known for known in _FLOPS_A_CORE if known <= gpu.compute_capability]
    if not older:
        return gpu.cores * _PASCAL_FLOPS_A_CORE
    # 8.7 and 12.1 are variants of 8.6 and 12.0 with the same rate per core.
    return gpu.cores * _FLOPS_A_CORE[max(older)] * _GPU_FLOPS_SHARE
