"""Each primitive of the kernels on this GPU, beside its C++ twin on random bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gpu.primitives import PRIMITIVES, Primitive, Words, arguments, differences, random_input
from gpu.session import Session

from ingle.kernels.launch.kernel_library import KernelLibrary

SOURCE = "conformance.cuh"
WARPS, SEEDS = 512, (0, 1)


def run(session: Session) -> dict[str, object]:
    """How many words differ, by primitive."""
    library, twin = session.library(), session.twin(SOURCE)
    wrong: dict[str, int] = {}
    warps = 16 if session.on_cpu else WARPS
    for primitive in PRIMITIVES:
        wrong[primitive.name] = 0
        for seed in SEEDS:
            given = random_input(primitive, warps, seed)
            expected = np.zeros((warps, primitive.outputs, 32), np.uint32)
            words = arguments(given.ctypes.data, expected.ctypes.data)
            twin.launch(_kernel(primitive), (warps, 1, 1), (32, 1, 1), words)
            found = _results(session, library, primitive, given)
            wrong[primitive.name] += differences(primitive, found, expected, given)
    return {"words": warps * 32 * len(SEEDS), "wrong": wrong, "ok": not any(wrong.values())}


def table(result: dict[str, Any]) -> list[str]:
    """Return lines for people."""
    wrong: dict[str, int] = result["wrong"]
    bad = [f"{name}: {count} words differ" for name, count in wrong.items() if count]
    return bad or [f"all {len(wrong)} primitives agree with their twins"]


def _results(session: Session, library: KernelLibrary, primitive: Primitive, given: Words) -> Words:
    words = torch.as_tensor(given.view(np.int32)).to(session.device)
    shape = len(given), primitive.outputs, 32
    results = torch.full(shape, -1, dtype=torch.int32, device=session.device)
    both = arguments(words.data_ptr(), results.data_ptr())
    library.launch(SOURCE, _kernel(primitive), (len(given), 1, 1), (32, 1, 1), both, overlap=False)
    return results.cpu().numpy().view(np.uint32)


def _kernel(primitive: Primitive) -> str:
    return f"conform_{primitive.name}"
