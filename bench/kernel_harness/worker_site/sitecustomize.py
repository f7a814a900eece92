"""On a worker's path, has ingle's own engine load on a simulated GPU, with the fault of a test.

`CUDA_SIMULATION` is JSON: `driver` (path), `cache` (folder) and, with a fault, `serving` (whether
the point is counted from the end of loading), `kind` and `number` of the point, and its `fault`.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any


def simulate(wanted: dict[str, Any]) -> None:
    """Replace the engine's way to load a model."""
    from ingle.backends.cuda.descriptor import CudaEngine

    load = CudaEngine.open_runner
    never_undone = ExitStack()

    def open_runner(self: CudaEngine, spec: Any, on_progress: Any) -> Any:
        # Imported here: other engines load without torch.
        from kernel_harness.simulated_engine import Q4_0_SOURCES, simulated_engine
        from kernel_harness.simulated_gpu import Fault, SimulatedGPU

        from ingle.kernels.attention.attention_variant import attention_variants

        cache = Path(wanted["cache"])
        gpu = SimulatedGPU(Path(wanted["driver"]), cache / "kernels", list(attention_variants()))
        never_undone.enter_context(simulated_engine(gpu, cache / "cubins", Q4_0_SOURCES))

        def plan(kind: str, number: int, name: str) -> Fault | None:
            is_here = (kind, number) == (wanted.get("kind"), wanted.get("number"))
            return Fault(**wanted["fault"]) if is_here else None

        if not wanted.get("serving"):
            gpu.plan = plan
        runner = load(self, spec, on_progress)
        if wanted.get("serving"):
            gpu.points.clear()
            gpu.plan = plan
        return runner

    CudaEngine.open_runner = open_runner


if "CUDA_SIMULATION" in os.environ and "ingle.backends.worker" in sys.orig_argv:
    simulate(json.loads(os.environ["CUDA_SIMULATION"]))
