"""Facts about this machine that the choice of an engine depends on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ingle.backends.hardware.machine import Gpu
from ingle.backends.hardware.probe import Probe
from ingle.backends.hardware.read_cpu import read_cpu
from ingle.backends.packages.engine_packages import all_engine_packages
from ingle.backends.registry.cuda_availability import CudaAvailability
from ingle.backends.selection import engine_facts
from ingle.backends.selection.engine_facts import EngineFacts
from ingle.models.fit.process_overhead import repacked_types


def test_engine_facts_of_this_machine(tmp_path: Path) -> None:
    facts = EngineFacts.find(tmp_path / "machine.json")
    assert facts.own == CudaAvailability.find()
    assert facts.repacked == repacked_types(read_cpu().instruction_sets)
    assert bool(facts.gpu_name) or not facts.llama_offloads
    # Without a GPU, the build of llama.cpp is not inspected, which would start a process.
    assert (tmp_path / "machine.json").exists() is bool(facts.gpu_name)


@pytest.mark.parametrize(("vendor", "offloads"), [("apple", True), ("nvidia", False)])
def test_llama_cpp_that_installs_itself_uses_a_macs_gpu(
    vendor: Any, offloads: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = Gpu(name="GPU", vendor=vendor, unified=True, memory_total=16 << 30)

    def gpus(_cpu: object) -> list[Gpu]:
        return [gpu]

    def nothing_installed(*_: object, **__: object) -> Probe:
        return Probe()

    monkeypatch.setattr(engine_facts, "read_gpus", gpus)
    monkeypatch.setattr(engine_facts, "probe_machine", nothing_installed)
    assert EngineFacts.find(tmp_path / "machine.json").llama_offloads is offloads


def test_facts_after_an_installation() -> None:
    own = CudaAvailability(gpu_memory=24 << 30, capability=(8, 9))
    facts = EngineFacts(own=own, gpu_name="RTX 4090")
    assert not facts.uses_gpu
    with_torch = facts.after_installing(all_engine_packages()["cuda"])
    assert with_torch.own.has_torch
    assert not with_torch.llama_offloads
    assert with_torch.uses_gpu
    with_llama = facts.after_installing(all_engine_packages()["llama.cpp-vulkan"])
    assert not with_llama.own.has_torch
    assert with_llama.llama_offloads
    assert with_llama.uses_gpu


def test_repacked_types_depend_on_the_instruction_sets() -> None:
    assert repacked_types(["AVX"]) == frozenset()
    assert repacked_types(["AVX2"]) == {"Q4_0", "Q4_K", "IQ4_NL", "MXFP4"}
    assert "Q2_K" in repacked_types(["AVX2", "AVX-512"])
    assert {"Q8_0", "Q6_K"} <= repacked_types(["NEON", "DOTPROD"])
