"""Launches against the facts of NVIDIA's compiler about the same kernels."""

from __future__ import annotations

from ctypes import c_float, c_int, c_longlong, c_void_p
from pathlib import Path

import pytest
from kernel_harness.launch_check import KernelFacts, check_launch, kernel_facts

from ingle.kernels.build.cuda_compilers import ARCHITECTURES, CubinCache, NvrtcCompiler
from ingle.kernels.errors import LaunchFailed
from ingle.kernels.launch.cuda_driver import Argument

from .kernel_cases import NAMES, MakeQuantized, kernel_cases

POINTER = c_void_p()
RIGHT = POINTER, POINTER, c_int(), c_int()
QUICK = ("quantize_q8", "adjust_logits")


@pytest.fixture(scope="session")
def cache(pytestconfig: pytest.Config) -> CubinCache:
    assert pytestconfig.cache is not None
    return CubinCache(pytestconfig.cache.mkdir("cubins"), NvrtcCompiler())


@pytest.fixture
def facts(cache: CubinCache) -> KernelFacts:
    return kernel_facts(cache.cubin("quantize_q8.cuh", "sm_90", {}))["quantize_q8"]


def as_argument(value: object) -> Argument:
    if isinstance(value, int):
        return c_int()
    return c_float() if isinstance(value, float) else POINTER


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize(
    "name",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in NAMES],
)
def test_launches_fit_their_cubins(
    cache: CubinCache, make_quantized: MakeQuantized, name: str, architecture: str
) -> None:
    cases, defines = kernel_cases(name, make_quantized)
    found = kernel_facts(cache.cubin(f"{name}.cuh", architecture, defines))
    for case in cases:
        arguments = [as_argument(each) for each in case.arguments]
        check_launch(found[case.kernel], architecture, case.block, arguments, case.shared_bytes)


def test_right_launch_is_accepted(facts: KernelFacts) -> None:
    check_launch(facts, "sm_90", (128, 1, 1), RIGHT, 232448)


@pytest.mark.parametrize(
    ("arguments", "threads", "shared_bytes", "report"),
    [
        (RIGHT[:3], 128, 0, r"Arguments of \[8, 8, 4\] bytes are given, \[8, 8, 4, 4\]"),
        ((*RIGHT, c_int()), 128, 0, "Arguments of"),
        ((POINTER, POINTER, c_longlong(), c_int()), 128, 0, "Arguments of"),
        (RIGHT, 160, 0, "160 threads are more than 128"),
        (RIGHT, 128, 232449, "232449 bytes of shared memory are more than 232448"),
    ],
)
def test_wrong_launch_is_refused(
    facts: KernelFacts, arguments: list[Argument], threads: int, shared_bytes: int, report: str
) -> None:
    with pytest.raises(LaunchFailed, match=report):
        check_launch(facts, "sm_90", (threads, 1, 1), arguments, shared_bytes)


def test_registers_and_static_shared_memory_are_counted(cache: CubinCache) -> None:
    misuse = str(Path(__file__).with_name("misuse.cuh"))
    found = kernel_facts(cache.cubin(misuse, "sm_90", {}))["reverse"]
    arguments = POINTER, POINTER
    check_launch(found, "sm_90", (1024, 1, 1), arguments, 232448 - 512)
    with pytest.raises(LaunchFailed, match="232449 bytes of shared memory"):
        check_launch(found, "sm_90", (1024, 1, 1), arguments, 232449 - 512)
    found.registers = 65
    with pytest.raises(LaunchFailed, match="1024 threads of 65 registers do not fit"):
        check_launch(found, "sm_90", (1024, 1, 1), arguments, 0)
