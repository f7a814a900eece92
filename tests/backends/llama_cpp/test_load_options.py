"""Effect of load options on a real model's process: threads, mmap, mlock, layers, context."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import llama_cpp
import pytest

from ingle.backends.hardware.thread_plan import CpuInventory, LogicalCpu, plan_threads
from ingle.backends.llama_cpp import llama_context
from ingle.backends.llama_cpp.model_runner import LlamaModelRunner

pytestmark = pytest.mark.model

LoadModel = Callable[..., LlamaModelRunner]
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def test_info_reports_the_number_of_threads(smollm2_path: Path, load_model: LoadModel) -> None:
    runner = load_model(smollm2_path, threads=1)
    assert runner.info().device == "CPU, 1 thread"
    context = runner._ctx  # pyright: ignore[reportPrivateUsage]
    assert llama_cpp.llama_n_threads(context) == llama_cpp.llama_n_threads_batch(context) == 1
    automatic = plan_threads(llama_context.read_inventory())
    assert load_model(smollm2_path).info().device == f"CPU, {automatic}"


@linux_only
def test_hybrid_processor_uses_its_fast_cores(
    smollm2_path: Path, load_model: LoadModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One core of this machine stands in for the fast ones."""
    before = os.sched_getaffinity(0)
    if len(before) < 2:
        pytest.skip("there is one CPU only")
    fast = max(before)
    cpus = tuple(LogicalCpu(cpu, cpu, cpu == fast) for cpu in before)
    hybrid = CpuInventory(cpus, can_pin=True)
    monkeypatch.setattr(llama_context, "read_inventory", lambda: hybrid)
    runner = load_model(smollm2_path)
    try:
        assert runner.info().device == "CPU, 1 P-core"
        assert os.sched_getaffinity(0) == {fast}
    finally:
        runner.close()
    assert os.sched_getaffinity(0) == before


@linux_only
@pytest.mark.parametrize("mapped", [True, False])
def test_mmap_option_maps_or_reads_the_weights(
    smollm2_path: Path, load_model: LoadModel, mapped: bool
) -> None:
    def mappings() -> int:
        return Path("/proc/self/maps").read_text().count(smollm2_path.name)

    others = mappings()
    runner = load_model(smollm2_path, mmap=mapped)
    try:
        assert (mappings() > others) is mapped
        assert runner.info().warnings == []
    finally:
        runner.close()


LOAD_LOCKED = """
import ctypes, json, resource, struct, sys
from pathlib import Path
limit = int(sys.argv[2])
if limit:
    # Root may lock what it likes, as long as it has the capability.
    header = struct.pack("Ii", 0x20080522, 0)
    ctypes.CDLL(None).capset(header, bytes(24))
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (limit, limit))
from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.llama_cpp.model_runner import LlamaModelRunner
spec = LoadSpec(engine="llama.cpp", path=sys.argv[1], context=256, mlock=True)
runner = LlamaModelRunner(spec)
status = Path("/proc/self/status").read_text()
locked = int(status.partition("VmLck:")[2].split()[0]) * 1024
print(json.dumps([locked, runner.info().weights_bytes, runner.info().warnings]))
"""


@linux_only
@pytest.mark.parametrize("limit", [2**20, 0])
def test_mlock_locks_the_weights_or_warns(smollm2_path: Path, limit: int) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-c", LOAD_LOCKED, str(smollm2_path), str(limit)],
        capture_output=True,
        check=True,
    )
    locked, weights, warnings = json.loads(done.stdout)
    assert (locked >= weights) is (warnings == [])
    if limit:
        [warning] = warnings
        assert warning.startswith("The weights are not locked in memory (Cannot allocate memory)")


def test_gpu_layers_without_a_gpu_are_a_warning(smollm2_path: Path, load_model: LoadModel) -> None:
    if llama_cpp.llama_supports_gpu_offload():
        pytest.skip("this build of llama.cpp has a GPU")
    info = load_model(smollm2_path, gpu_layers=5).info()
    assert info.device.startswith("CPU")
    assert info.layers_on_gpu == 0
    assert len(info.warnings) == 1
    assert "finds no GPU" in info.warnings[0]


def test_info_reports_the_requested_context(smollm2_path: Path, load_model: LoadModel) -> None:
    """The cache is rounded up to whole blocks, which requests cannot use."""
    info = load_model(smollm2_path, context=1000).info()
    assert (info.context, info.kv_capacity) == (1000, 1024)
