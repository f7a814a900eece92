"""Facts about this machine that the choice of an engine depends on."""

from __future__ import annotations

from pathlib import Path

from ingle.backends.hardware.read_cpu import read_cpu
from ingle.backends.registry.cuda_availability import CudaAvailability
from ingle.backends.selection.engine_facts import EngineFacts
from ingle.models.fit.process_overhead import repacked_types


def test_engine_facts_of_this_machine(tmp_path: Path) -> None:
    facts = EngineFacts.find(tmp_path / "machine.json")
    assert facts.own == CudaAvailability.find()
    assert facts.repacked == repacked_types(read_cpu().instruction_sets)
    assert bool(facts.gpu_name) or not facts.llama_offloads
    # Without a GPU, the build of llama.cpp is not inspected, which would start a process.
    assert (tmp_path / "machine.json").exists() is bool(facts.gpu_name)


def test_repacked_types_depend_on_the_instruction_sets() -> None:
    assert repacked_types(["AVX"]) == frozenset()
    assert repacked_types(["AVX2"]) == {"Q4_0", "Q4_K", "IQ4_NL", "MXFP4"}
    assert "Q2_K" in repacked_types(["AVX2", "AVX-512"])
    assert {"Q8_0", "Q6_K"} <= repacked_types(["NEON", "DOTPROD"])
