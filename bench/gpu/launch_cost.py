"""Measures the CPU time of a kernel launch, which a step without a graph waits for.

On a CPU the driver does nothing, so that only the launcher's own share remains.
"""

from __future__ import annotations

import ctypes
import statistics
import tempfile
import time
from collections.abc import Callable
from ctypes import c_int
from pathlib import Path
from typing import Any

import torch
from gpu.fake_driver import build_fake_driver, fake_gpu_library
from gpu.session import Session

from ingle.kernels.launch.cuda_driver import Argument
from ingle.kernels.launch.gpu_library import GPULibrary
from ingle.kernels.launch.kernel_arguments import pointer

SOURCE, KERNEL = "quantize_q8.cuh", "quantize_q8"
# Few enough for a stream's queue: beyond it a launch waits for the GPU.
LAUNCHES, ROUNDS = 500, 20


def run(session: Session) -> dict[str, object]:
    """Microseconds of a launch with four arguments, and of making these, on this thread.

    A launch releases the GIL unless a graph is recorded, where it holds it.
    """
    x = torch.zeros(1, 1024, device=session.device)
    tiles = torch.zeros(1, 1, 1536, dtype=torch.uint8, device=session.device)

    def arguments() -> list[Argument]:
        return [pointer(x), pointer(tiles), c_int(1024), c_int(0)]

    with tempfile.TemporaryDirectory() as folder:
        library = _library(session, Path(folder))
        library.prepare([SOURCE])
        made = arguments()

        def start() -> None:
            library.launch(SOURCE, KERNEL, (2, 1, 1), (128, 1, 1), made)

        launch = _median(session, start)
        with library.recording():
            recorded = _median(session, start)
    return {
        "driver": "none" if session.on_cpu else "real",
        "launch_us": launch,
        "launch_holding_gil_us": recorded,
        "arguments_us": _median(session, arguments),
    }


def table(result: dict[str, Any]) -> list[str]:
    """Return one line."""
    driver = "a driver that does nothing" if result["driver"] == "none" else "the driver"
    launch, arguments = result["launch_us"], result["arguments_us"]
    return [
        f"a launch {launch} us with {driver}, {result['launch_holding_gil_us']} us if it holds "
        f"the GIL, its arguments {arguments} us"
    ]


def _library(session: Session, folder: Path) -> GPULibrary:
    if not session.on_cpu:
        return GPULibrary.open(session.folder)
    fake = build_fake_driver(folder)
    ctypes.CDLL(str(fake)).fake_nothing_runs(c_int(1))
    return fake_gpu_library(folder, driver=fake)


def _median(session: Session, call: Callable[[], object]) -> float:
    rounds: list[float] = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for _ in range(LAUNCHES):
            call()
        rounds.append((time.perf_counter() - began) / LAUNCHES)
        session.synchronize()
    return round(statistics.median(rounds) * 1e6, 2)
