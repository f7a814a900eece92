"""What a process of its own finds out, on this machine, and how long that is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from ingle.backends.hardware import probe
from ingle.backends.hardware.machine import Cpu, LlamaBuild
from ingle.backends.hardware.probe import Probe, probe_machine
from ingle.backends.hardware.probe_child import measure_bandwidth
from ingle.backends.hardware.read_machine import read_machine, with_bandwidth

CPU = Cpu(model="this one", compute_threads=1)
BROKEN = ("python", "-P", "-c", "import sys; sys.exit('libcudart.so.13 is missing')")


@pytest.mark.slow
def test_this_machine_is_read_and_kept(tmp_path: Path) -> None:
    keep = tmp_path / "state/probe.json"
    machine = read_machine(tmp_path, keep)
    build = machine.software.llama_cpp
    assert build is not None
    assert not build.error
    assert "CPU" in build.backends
    assert build.gpu_offload == (len(set(build.backends) - {"CPU", "BLAS", "RPC"}) > 0)
    assert machine.cpu.bandwidth
    assert machine.cpu.bandwidth > 1e8
    assert read_machine(tmp_path, keep).cpu == machine.cpu


def test_it_is_asked_again_when_the_machine_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep = tmp_path / "probe.json"
    first = probe_machine(CPU, keep)
    assert first.bandwidth
    monkeypatch.setattr(probe, "_CHILD", BROKEN)
    assert probe_machine(CPU, keep) == first
    assert probe_machine(Cpu(model="another"), keep).bandwidth == 0.0


def test_a_build_that_cannot_be_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not kept: whoever mends it shall see so at once."""
    keep = tmp_path / "probe.json"
    monkeypatch.setattr(probe, "_CHILD", BROKEN)
    found = probe_machine(CPU, keep).llama_cpp
    assert found is not None
    assert "libcudart.so.13 is missing" in found.error
    assert not keep.exists()


def test_a_file_that_is_broken_is_as_none(tmp_path: Path) -> None:
    keep = tmp_path / "probe.json"
    keep.write_text('{"stamp": 1}')
    assert probe_machine(CPU, keep).bandwidth


@pytest.mark.slow
def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert probe_machine(CPU, tmp_path / "file/probe.json").bandwidth


def test_what_one_thread_reads_is_of_the_right_magnitude() -> None:
    assert 1e8 < measure_bandwidth(1) < 1e12


def test_what_is_known_is_not_measured() -> None:
    measured = Probe(llama_cpp=LlamaBuild(version="0.3.36"), bandwidth=5e10)
    assert with_bandwidth(CPU, measured).bandwidth_source == "measured"
    known = Cpu(model="Raspberry Pi 5", bandwidth=17e9, bandwidth_source="known")
    assert with_bandwidth(known, measured) == known
