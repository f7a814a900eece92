"""Predicts the time of matrix products on other GPUs, from bytes and instructions.

python bench/gpu/predict.py

A time is the larger of two: bytes over bandwidth, and instructions over the lanes that issue them.
Only the instructions, which the compiler has chosen, are measured.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from gpu.tables import markdown
from kernel_harness.cubin_report import KernelReport, cubin_report

from ingle.kernels.build.cuda_compilers import CubinCache, find_compiler

COLUMNS = (1, 2, 4, 8)


class GPU(NamedTuple):
    """Bytes a second of memory, as sold but for the H200's, which is a measured copy."""

    name: str
    architecture: str
    bytes_a_second: float
    num_sms: int
    hertz: float

    @property
    def lanes_a_second(self) -> float:
        """Instructions of single lanes: four warps of 32 issue at once."""
        return self.num_sms * 128 * self.hertz


class Format(NamedTuple):
    """A source of kernels, bytes it reads for a weight, and products that it takes for one."""

    name: str
    source: str
    bytes_a_weight: float
    products: int = 1


GPUS = (
    GPU("RTX 3090", "sm_86", 936e9, 82, 1.70e9),
    GPU("RTX 4090", "sm_89", 1008e9, 128, 2.52e9),
    GPU("RTX 5090", "sm_120", 1792e9, 170, 2.41e9),
    GPU("H200", "sm_90", 4300e9, 132, 1.98e9),
)
FORMATS = (
    Format("Q4_K", "q4_k.cuh", 144 / 256),
    Format("Q6_K", "q6_k.cuh", 210 / 256),
    Format("NF4", "nf4.cuh", 33 / 64),
    Format("NF4 exact", "nf4_exact.cuh", 33 / 64, 2),
    Format("Q5_K", "q5_k.cuh", 176 / 256),
    Format("Q8_0", "q8_0.cuh", 34 / 32),
    Format("Q4_0", "q4_0.cuh", 18 / 32),
    Format("Q4_1", "q4_1.cuh", 20 / 32),
    Format("Q5_0", "q5_0.cuh", 22 / 32),
    Format("Q5_1", "q5_1.cuh", 24 / 32),
    # Fragments have sixteen columns, even if a kernel uses at most eight.
    Format("16 bits", "dense_gemv.cuh", 2, 2),
)
# Of Llama-3.1-8B as Q4_K_M: weights that a token reads in each type.
STEP = {"Q4_K": 5.973e9, "Q6_K": 1.532e9}
# Its keys and values in 16 bits, a context as chats have it; six launches a layer, the first norm
# and six more.
KV_BYTES_A_TOKEN, CONTEXT, LAUNCHES = 131_072, 4096, 32 * 6 + 7
# Published measurements: the share of bandwidth that kernels reach, seconds between two of them in
# a graph.
REACHED, GAP = 0.9, 1.3e-6
# Kernels that begin before the one before them ends hide about half of that.
OVERLAPPING, OVERLAPPED = frozenset(("sm_90", "sm_120")), 0.5


def reports(cache: CubinCache, kind: Format, gpu: GPU) -> dict[int, KernelReport]:
    """Return reports by columns, of kernels whose warps share no rows."""
    found: dict[int, KernelReport] = {}
    for name, report in cubin_report(cache.cubin(kind.source, gpu.architecture)).items():
        match = re.search(r"_c(\d)_s1$", name)
        if match:
            found[int(match[1])] = report
    return found


def seconds(kind: Format, gpu: GPU, report: KernelReport, columns: int, weights: float) -> float:
    """Of reading so many weights, or of the instructions for them."""
    each = report.loop_instructions / report.weights(columns, kind.products)
    return weights * max(kind.bytes_a_weight / gpu.bytes_a_second, each / gpu.lanes_a_second)


def expected_step(gpu: GPU, floor: float, launches: int, of_torch: int = 0) -> list[str]:
    """A row of the floor in seconds, what gaps add, and the tokens of a second.

    Launches of torch overlap on no GPU.
    """
    gaps = (launches * (OVERLAPPED if gpu.architecture in OVERLAPPING else 1) + of_torch) * GAP
    expected = floor / REACHED + gaps
    times = [f"{1000 * each:.2f} ms" for each in (floor, gaps, expected)]
    return [*times, f"{1 / expected:.0f}", f"{100 * floor / expected:.0f} %"]


def whole_step(products: dict[str, float], attention: int = CONTEXT) -> str:
    """Milliseconds of decoding one token: reading at a share of the bandwidth, and gaps."""
    rows: list[list[str]] = []
    kv = attention * KV_BYTES_A_TOKEN
    for gpu in GPUS:
        floor = products[gpu.name] + kv / gpu.bytes_a_second
        rows.append([gpu.name, *expected_step(gpu, floor, LAUNCHES)])
    names = ["", "floor", "gaps", "expected", "tokens a second", "of the floor"]
    return markdown(names, rows)


def tables() -> Iterable[str]:
    """Instructions a weight, their share of the time that memory takes, and decode steps."""
    cache = CubinCache(Path(tempfile.gettempdir()) / "ingle-predictions", find_compiler())
    found = {(k, g): reports(cache, k, g) for k in FORMATS for g in GPUS}
    rows: list[list[str]] = []
    for kind in FORMATS:
        for columns in sorted({*COLUMNS} & found[kind, GPUS[0]].keys()):
            row = [f"{kind.name}, {columns}"]
            for gpu in GPUS:
                report = found[kind, gpu][columns]
                each = report.loop_instructions / report.weights(columns, kind.products)
                memory = kind.bytes_a_weight / gpu.bytes_a_second
                share = each / gpu.lanes_a_second / memory
                row.append(f"{each:.2f} · {report.registers} · {100 * share:.0f} %")
            rows.append(row)
    yield markdown(["type, columns", *(gpu.name for gpu in GPUS)], rows)
    rows = []
    alone: dict[str, float] = {}
    for columns in COLUMNS:
        row = [str(columns)]
        for gpu in GPUS:
            total = sum(
                seconds(kind, gpu, found[kind, gpu][columns], columns, STEP[kind.name])
                for kind in FORMATS
                if kind.name in STEP
            )
            row.append(f"{1000 * total:.2f} ms")
            if columns == 1:
                alone[gpu.name] = total
        rows.append(row)
    yield markdown(["columns", *(gpu.name for gpu in GPUS)], rows)
    yield whole_step(alone)


if __name__ == "__main__":
    print("\n\n".join(tables()))
