"""Machine probe: llama.cpp build and memory bandwidth, measured in a child process and cached."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ingle.backends.hardware import probe
from ingle.backends.hardware.machine import Cpu, LlamaBuild
from ingle.backends.hardware.probe import Probe, is_busy, probe_machine
from ingle.backends.hardware.probe_child import measure_bandwidth
from ingle.backends.hardware.read_machine import read_machine, with_bandwidth

CPU = Cpu(model="this one", compute_threads=1)
BROKEN = ("python", "-P", "-c", "import sys; sys.exit('libcudart.so.13 is missing')")


@pytest.mark.slow
def test_machine_is_probed_and_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "is_busy", lambda: True)  # then a result is kept in any case
    cache_file = tmp_path / "state/probe.json"
    machine = read_machine(tmp_path, cache_file)
    build = machine.software.llama_cpp
    assert build is not None
    assert not build.error
    assert "CPU" in build.backends
    assert build.gpu_offload == (len(set(build.backends) - {"CPU", "BLAS", "RPC"}) > 0)
    assert machine.cpu.bandwidth
    assert machine.cpu.bandwidth > 1e8
    assert read_machine(tmp_path, cache_file).cpu == machine.cpu


@pytest.mark.slow
def test_probe_is_repeated_when_the_cpu_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache_file = tmp_path / "probe.json"
    first = probe_machine(CPU, cache_file)
    assert first.bandwidth
    monkeypatch.setattr(probe, "_CHILD", BROKEN)
    monkeypatch.setattr(probe, "is_busy", lambda: True)  # then a result is kept in any case
    assert probe_machine(CPU, cache_file) == first
    assert probe_machine(Cpu(model="another"), cache_file).bandwidth == 0.0


@pytest.mark.slow
def test_result_of_a_busy_machine_is_replaced_once_it_is_not_busy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache_file = tmp_path / "probe.json"
    probe_machine(CPU, cache_file)
    kept = json.loads(cache_file.read_text())
    kept["probe"] |= {"bandwidth": 2.0, "busy": True}
    cache_file.write_text(json.dumps(kept))
    monkeypatch.setattr(probe, "is_busy", lambda: True)
    assert probe_machine(CPU, cache_file).bandwidth == 2.0
    monkeypatch.setattr(probe, "is_busy", lambda: False)
    assert probe_machine(CPU, cache_file).bandwidth > 1e8
    kept["probe"]["busy"] = False
    cache_file.write_text(json.dumps(kept))
    assert probe_machine(CPU, cache_file).bandwidth == 2.0


def test_load_of_other_programs_is_recognised() -> None:
    burn = [sys.executable, "-c", "while True: pass"]
    programs = [subprocess.Popen(burn) for _ in range(os.cpu_count() or 1)]
    try:
        end = time.monotonic() + 120
        while not is_busy():
            assert time.monotonic() < end
    finally:
        for program in programs:
            program.kill()
            program.wait()


def test_broken_llama_cpp_build_is_reported_and_not_cached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The failure is not cached, so a repaired build is seen immediately."""
    cache_file = tmp_path / "probe.json"
    monkeypatch.setattr(probe, "_CHILD", BROKEN)
    found = probe_machine(CPU, cache_file).llama_cpp
    assert found is not None
    assert "libcudart.so.13 is missing" in found.error
    assert not cache_file.exists()


@pytest.mark.slow
def test_invalid_cache_file_is_ignored(tmp_path: Path) -> None:
    cache_file = tmp_path / "probe.json"
    cache_file.write_text('{"stamp": 1}')
    assert probe_machine(CPU, cache_file).bandwidth


@pytest.mark.slow
def test_unwritable_cache_folder_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert probe_machine(CPU, tmp_path / "file/probe.json").bandwidth


def test_measured_bandwidth_is_plausible() -> None:
    assert 1e8 < measure_bandwidth(1) < 1e12


def test_known_bandwidth_is_not_replaced_by_the_measured_one() -> None:
    measured = Probe(llama_cpp=LlamaBuild(version="0.3.36"), bandwidth=5e10)
    assert with_bandwidth(CPU, measured).bandwidth_source == "measured"
    known = Cpu(model="Raspberry Pi 5", bandwidth=17e9, bandwidth_source="known")
    assert with_bandwidth(known, measured) == known
