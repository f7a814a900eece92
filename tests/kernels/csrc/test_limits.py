"""Every kernel, compiled for every architecture, stays within the limits of limits.toml."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from kernel_harness.cubin_report import KernelReport, cubin_report

from ingle.kernels.build.compiled_kernel import write_atomically
from ingle.kernels.build.cuda_compilers import ARCHITECTURES, CubinCache, NvrtcCompiler
from ingle.kernels.build.kernel_source import kernel_sources

from .limits_record import LIMITS, SOURCES, changed

ALL_SOURCES = [
    pytest.param(name, marks=() if changed(name) else pytest.mark.slow) for name in SOURCES
]
# Products with quantised weights: kernels for one to eight columns.
PRODUCTS = [
    source
    for source in ALL_SOURCES
    if len(LIMITS[str(source.values[0])].get("instructions", ())) == 8
    and source.values[0] != "nf4_exact.cuh"
]
# Opcodes that access global memory, except for copies to shared memory, which read weights.
TOUCHING = ("LDG.", "LD.", "STG.", "ST.", "REDG.", "ATOM")
Reports = dict[str, KernelReport]
Report = Callable[[str, str], Reports]


def make_report(cache: CubinCache, folder: Path, source: str, architecture: str) -> Reports:
    """Compile and disassemble at most once; disassembling takes as long as compiling."""
    cubin = cache.cubin(source, architecture, LIMITS[source].get("defines", {}))
    reader = Path(cubin_report.__code__.co_filename).read_bytes()
    path = folder / f"{hashlib.sha256(cubin + reader).hexdigest()}.json"
    if not path.exists():
        made = {name: vars(report) for name, report in cubin_report(cubin).items()}
        write_atomically(path, json.dumps(made).encode())
    stored = json.loads(path.read_text())
    for facts in stored.values():
        facts |= {key: Counter(facts[key]) for key in ("opcodes", "loop", "early")}
        facts["loops"] = [Counter(loop) for loop in facts["loops"]]
    return {name: KernelReport(**facts) for name, facts in stored.items()}


@pytest.fixture(scope="session")
def report(request: pytest.FixtureRequest) -> Iterator[Report]:
    """Return the report of a source's kernels on an architecture, cached by the source's state.

    All reports that this session needs are made at once, with a thread for each core: neither the
    compiler nor the disassembler holds the GIL.
    """
    assert request.config.cache is not None
    folder = request.config.cache.mkdir("cubins")
    cache = CubinCache(folder, NvrtcCompiler())
    pool = ThreadPoolExecutor(os.cpu_count())
    made: dict[tuple[str, str], Future[Reports]] = {}

    def of(source: str, architecture: str) -> Future[Reports]:
        key = source, architecture
        if key not in made:
            made[key] = pool.submit(make_report, cache, folder, source, architecture)
        return made[key]

    for item in request.session.items:
        wanted: dict[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
        if item.path == Path(__file__) and "architecture" in wanted and "source" in wanted:
            of(wanted["source"], wanted["architecture"])
    yield lambda source, architecture: of(source, architecture).result()
    pool.shutdown(cancel_futures=True)


def columns_of(kernel: str) -> int:
    match = re.search(r"_c(\d+)_s\d$", kernel)
    return int(match[1]) if match else 1


def check_matrix_products(kernel: str, facts: KernelReport, limits: dict[str, Any]) -> None:
    columns = int(kernel.rsplit("_c", 1)[1])
    # A warp has at most 64 columns; the remaining ones belong to other warps.
    count = limits["products"] * min(columns, 64) // 8
    assert any(name.startswith(limits["opcode"]) for name in facts.opcodes), kernel
    found = facts.matrix_instructions(count)
    assert count <= found <= limits[f"c{columns}"], f"{kernel}: {found}, {found / count:.1f} each"


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("source", ALL_SOURCES)
def test_kernels_stay_within_their_limits(report: Report, source: str, architecture: str) -> None:
    limits = LIMITS[source]
    found = report(source, architecture)
    assert len(found) >= 1
    for kernel, facts in found.items():
        place = min(columns_of(kernel), len(limits["registers"])) - 1
        assert facts.stack == 0, f"{kernel} spills {facts.stack} bytes"
        assert facts.registers <= limits["registers"][place], f"{kernel}: {facts.registers}"
        assert facts.shared <= LIMITS["shared_bytes"][architecture]
        if "thread" in limits:
            a_weight = facts.instructions / limits["thread"]["weights"]
            assert a_weight <= limits["thread"]["instructions"], f"{kernel}: {a_weight:.2f}"
            for opcode in limits["thread"]["opcodes"]:
                assert any(name.startswith(opcode) for name in facts.opcodes), f"{kernel}: {opcode}"
        if "matrix" in limits:
            check_matrix_products(kernel, facts, limits["matrix"])
        if "instructions" not in limits:
            continue
        weights = facts.weights(columns_of(kernel), limits["products"])
        a_weight = facts.loop_instructions / weights
        assert a_weight <= limits["instructions"][place], f"{kernel}: {a_weight:.2f}"
        for opcode in limits["loop"]:
            assert any(name.startswith(opcode) for name in facts.loop), f"{kernel}: no {opcode}"


@pytest.mark.parametrize("architecture", ["sm_90", "sm_120"])
@pytest.mark.parametrize("source", ALL_SOURCES)
def test_only_weights_are_read_before_the_previous_kernel_ends(
    report: Report, source: str, architecture: str
) -> None:
    """Read-only loads mark memory that no kernel of a step writes.

    Only the order of instructions keeps a compiled kernel from reading too early.
    """
    for kernel, facts in report(source, architecture).items():
        assert facts.opcodes["ACQBULK"] or source == "conformance.cuh", kernel
        touching = {name for name in facts.early if name.startswith(TOUCHING)}
        wrong = {name for name in touching if not name.endswith(".CONSTANT")}
        assert not wrong, f"{kernel}: {sorted(wrong)} before the wait"


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("source", PRODUCTS)
def test_instructions_per_weight_stay_within_the_budget(
    report: Report, source: str, architecture: str
) -> None:
    """The budget of docs/kernels.md: 4 bits per weight allow four instructions on an H200."""
    budget = 2.0 if architecture == "sm_90" else 2.3
    factor = 1.0 if source == "q4_k.cuh" else 1.5
    for kernel, facts in report(source, architecture).items():
        if columns_of(kernel) == 1:
            assert facts.loop_instructions / facts.weights(1) <= budget * factor, kernel


@pytest.mark.parametrize("source", ALL_SOURCES)
def test_code_for_ada_and_ampere_is_nearly_identical(report: Report, source: str) -> None:
    """So a package needs no cubins for sm_89: those for sm_86 run there."""

    def opcodes(architecture: str) -> Counter[str]:
        counted = Counter[str]()
        for facts in report(source, architecture).values():
            for name, count in facts.opcodes.items():
                counted["F2FP" if name.startswith("F2FP") else name] += count
        return counted

    ampere, ada = opcodes("sm_86"), opcodes("sm_89")
    others = (ampere - ada).total() + (ada - ampere).total()
    assert others <= max(6, 0.03 * ada.total())


def test_every_source_with_kernels_has_limits() -> None:
    assert {*kernel_sources(), "conformance.cuh"} == set(SOURCES)


@pytest.mark.slow
def test_report_detects_stack_use_and_loops() -> None:
    """The check itself: an array that registers cannot hold, and a known loop."""
    source = """
    extern "C" __global__ void indexed(const int* x, int* y, int n) {
      int counts[64] = {};
      for (int i = 0; i < n; ++i) ++counts[x[i] & 63];
      for (int i = 0; i < n; ++i) y[i] = counts[y[i] & 63];
    }
    extern "C" __global__ void dots(const int* x, int* y, int n) {
      int sum = 0;
      #pragma unroll 1
      for (int i = 0; i < n; ++i) sum = __dp4a(x[2 * i], x[2 * i + 1], sum);
      *y = sum;
    }
    """
    found = cubin_report(NvrtcCompiler().compile(source, "sm_90"))
    assert found["indexed"].stack >= 256
    assert found["dots"].stack == 0
    assert found["dots"].weights(columns=1) == 4
    assert 4 < found["dots"].loop_instructions < 16


def test_report_detects_accesses_before_the_wait() -> None:
    source = """
    extern "C" __global__ void hasty(const int* x, int* y) {
      y[threadIdx.x] = x[threadIdx.x];
      asm volatile("griddepcontrol.wait;" ::: "memory");
      y[threadIdx.x] += 1;
    }
    """
    found = cubin_report(NvrtcCompiler().compile(source, "sm_90"))["hasty"]
    assert {name for name in found.early if name.startswith(TOUCHING)} == {"LDG.E", "STG.E"}
