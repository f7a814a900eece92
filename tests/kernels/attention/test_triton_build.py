"""The attention kernels, compiled for every architecture: resource limits and launch data."""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kernel_harness.cubin_report import KernelReport, cubin_report

from ingle.kernels.attention.attention_variant import (
    AttentionVariant,
    LaunchShape,
    attention_variants,
    prebuilt_variants,
)
from ingle.kernels.attention.triton_build import (
    SHARED_BYTES,
    CompilableAttention,
    compile_attention,
    triton_version,
)
from ingle.kernels.build.compiled_kernel import CompiledKernel, write_atomically
from ingle.kernels.build.cuda_compilers import ARCHITECTURES
from ingle.kernels.build.kernel_source import digest
from ingle.kernels.errors import CompileFailed

LIMITS: dict[str, Any] = tomllib.loads(
    Path(__file__).with_name("attention_limits.toml").read_text()
)
VARIANTS = {variant.name: variant for variant in attention_variants()}
Facts = tuple[KernelReport, int]
Report = Callable[[str, str], Facts]


@pytest.fixture
def report(request: pytest.FixtureRequest) -> Report:
    """Return a compiled kernel's report and shared memory, cached until the source changes."""
    assert request.config.cache is not None
    folder = request.config.cache.mkdir("attention")
    reader = Path(cubin_report.__code__.co_filename).read_text()

    def of(name: str, architecture: str) -> Facts:
        source = CompilableAttention(VARIANTS[name]).source(architecture)
        key = digest(source, name, architecture, triton_version(), reader)
        path = folder / f"{key}.json"
        if not path.exists():
            compiled = compile_attention(VARIANTS[name], architecture)
            facts = vars(cubin_report(compiled.cubin)[compiled.kernel])
            write_atomically(path, json.dumps([facts, compiled.shared_bytes]).encode())
        facts, shared = json.loads(path.read_text())
        facts |= {each: Counter(facts[each]) for each in ("opcodes", "loop", "early")}
        return KernelReport(**facts), shared

    return of


# Code for sm_86 is nearly identical to that for sm_89.
@pytest.mark.parametrize(
    "architecture",
    [
        pytest.param(each, marks=[pytest.mark.slow] if each == "sm_86" else [])
        for each in ARCHITECTURES
    ],
)
@pytest.mark.parametrize("name", LIMITS)
def test_kernel_stays_within_its_limits(report: Report, name: str, architecture: str) -> None:
    limits = LIMITS[name]
    facts, shared = report(name, architecture)
    assert facts.stack == 0
    assert facts.registers <= limits["registers"]
    assert shared <= min(limits["shared_bytes"], SHARED_BYTES[architecture])
    assert facts.loop_instructions <= limits["instructions"]
    for opcode in limits["opcodes"]:
        assert any(each.startswith(opcode) for each in facts.opcodes), opcode
    if name.startswith("attend_chunk"):
        wanted = "HGMMA" if architecture == "sm_90" else "HMMA"
        assert any(each.startswith(wanted) for each in facts.loop)


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", [variant.name for variant in prebuilt_variants()])
def test_no_register_spills(report: Report, name: str, architecture: str) -> None:
    facts, shared = report(name, architecture)
    assert facts.stack == 0
    assert shared <= SHARED_BYTES[architecture]


@pytest.fixture(scope="module")
def compiled() -> CompiledKernel:
    return compile_attention(VARIANTS["attend_split-bf16-f16-64-r16"], "sm_90")


def test_compiled_kernel_describes_its_launch(compiled: CompiledKernel) -> None:
    assert compiled.kernel == "attend_split"
    assert compiled.threads == 128
    assert compiled.overlap
    assert compiled.hidden_pointers == 2
    assert compiled.parameters[:3] == ("*bf16", "*fp32", "*fp16")
    assert compiled.parameters[-2:] == ("fp32", "fp32")
    assert len(compiled.parameters) == 31
    assert compiled.cubin.startswith(b"\x7fELF")
    assert compiled.compiler == triton_version()


def test_kernel_waits_for_the_previous_kernel(compiled: CompiledKernel) -> None:
    """It also lets the next one start: both are needed for overlapping launches."""
    report = cubin_report(compiled.cubin)["attend_split"]
    assert report.opcodes["ACQBULK"] == 1
    assert report.opcodes["PREEXIT"] == 1
    assert not any(name.startswith(("LDG", "STG", "REDG", "ATOM")) for name in report.early)


@pytest.mark.slow
def test_no_overlap_before_hopper() -> None:
    compiled = compile_attention(VARIANTS["attend_split-bf16-f16-64-r16"], "sm_89")
    assert not compiled.overlap


def test_too_much_shared_memory_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton alone would compile a cubin that no GPU of the architecture can launch."""

    def huge(self: AttentionVariant, architecture: str) -> LaunchShape:
        return LaunchShape(tile=128, warps=8, stages=6, registers=255)

    monkeypatch.setattr(AttentionVariant, "shape", huge)
    with pytest.raises(CompileFailed, match="shared memory"):
        compile_attention(VARIANTS["attend_split-bf16-f16-128-r64"], "sm_89")
