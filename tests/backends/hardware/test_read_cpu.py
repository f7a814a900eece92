"""CPU model, instruction sets and bandwidth from `/proc/cpuinfo`, device tree and sysctl."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from ingle.backends.hardware.cpu_inventory import counted_inventory, linux_inventory
from ingle.backends.hardware.read_cpu import (
    apple_instruction_sets,
    describe_cpu,
    linux_processor,
    read_cpu,
)

WriteFiles = Callable[[Mapping[str, object]], Path]

RYZEN = """\
processor\t: 0
model name\t: AMD Ryzen 9 7950X 16-Core Processor
flags\t\t: fpu sse sse2 avx f16c fma avx2 avx512f avx512_bf16 avx512_vnni

processor\t: 1
model name\t: AMD Ryzen 9 7950X 16-Core Processor
flags\t\t: fpu sse"""
PI_5 = """\
processor\t: 0
BogoMIPS\t: 108.00
Features\t: fp asimd evtstrm aes crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop asimddp
CPU part\t: 0xd0b"""


def test_x86_cpu(write_files: WriteFiles) -> None:
    model, sets = linux_processor(write_files({"proc/cpuinfo": RYZEN}))
    assert model == "AMD Ryzen 9 7950X 16-Core Processor"
    assert sets == ["AVX", "AVX2", "FMA", "F16C", "AVX-512", "VNNI", "BF16"]


def test_raspberry_pi(write_files: WriteFiles) -> None:
    """The CPU has no model name; the board's name determines the memory bandwidth."""
    board = "Raspberry Pi 5 Model B Rev 1.0\0"
    root = write_files({"proc/cpuinfo": PI_5, "proc/device-tree/model": board})
    model, sets = linux_processor(root)
    assert (model, sets) == ("Raspberry Pi 5 Model B Rev 1.0", ["NEON", "DOTPROD"])
    inventory = linux_inventory(root, range(4), "aarch64")
    cpu = describe_cpu(inventory, model, "aarch64", sets)
    assert (cpu.bandwidth, cpu.bandwidth_source) == (17.068e9, "known")
    assert (cpu.cores, cpu.threads, cpu.compute_threads) == (4, 4, 4)


def test_apple_instruction_sets() -> None:
    answers = {"hw.optional.neon": 1, "hw.optional.arm.FEAT_I8MM": 1, "hw.optional.avx2_0": 0}
    assert apple_instruction_sets(answers.get) == ["NEON", "I8MM"]


def test_unknown_cpu(write_files: WriteFiles) -> None:
    assert linux_processor(write_files({})) == ("", [])
    cpu = describe_cpu(counted_inventory(8, 16), "", "x86_64", [])
    assert (cpu.cores, cpu.bandwidth, cpu.bandwidth_source) == (8, None, "")


def test_read_cpu_of_this_machine() -> None:
    cpu = read_cpu()
    assert cpu.threads >= cpu.cores >= 1
    assert cpu.architecture
