"""Predicts the time of products with many columns on other GPUs.

python bench/gpu/predict_many.py

A time is the largest of three: bytes over bandwidth, instructions over the lanes that issue them,
matrix products over the rate of tensor cores. Only the instructions are measured.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from gpu.predict import GPU, GPUS
from gpu.tables import markdown
from kernel_harness.cubin_report import KernelReport, cubin_report

from ingle.kernels.build.cuda_compilers import CubinCache, find_compiler
from ingle.kernels.matmul.quantized_gemm import GEMM_SHAPES, ROWS, SLAB

COLUMNS = (8, 16, 64, 128, 256)
# Blocks of a table, and types whose times it has.
BLOCKS, KINDS = (8, 16, 64), ("Q4_K", "Q6_K", "NF4", "Q8_0")
# The matrix whose times are predicted.
MATRIX_ROWS, MATRIX_INPUTS = 4096, 14336
# Bytes multiplied by a processor's tensor cores per clock, as specified; on an H200 `mma` reaches
# about five eighths of the rate of the instruction for warp groups.
PRODUCTS_A_CLOCK = {"sm_90": 2560}
PRODUCTS_A_CLOCK_ELSEWHERE = 1024
# Of one m16n8k32.
PRODUCTS = 16 * 8 * 32


class Format(NamedTuple):
    """A source of kernels, bytes for a weight, and matrix products for 32 inputs."""

    name: str
    source: str
    bytes_a_weight: float
    matrices: int = 1


FORMATS = (
    Format("Q4_K", "q4_k_gemm.cuh", 144 / 256),
    Format("Q6_K", "q6_k_gemm.cuh", 210 / 256, 2),
    Format("NF4", "nf4_gemm.cuh", 33 / 64),
    Format("Q5_K", "q5_k_gemm.cuh", 176 / 256),
    Format("Q8_0", "q8_0_gemm.cuh", 34 / 32),
    Format("Q4_0", "q4_0_gemm.cuh", 18 / 32),
    Format("Q4_1", "q4_1_gemm.cuh", 20 / 32),
    Format("Q5_0", "q5_0_gemm.cuh", 22 / 32),
    Format("Q5_1", "q5_1_gemm.cuh", 24 / 32),
)


def slab_instructions(kind: Format, report: KernelReport, columns: int) -> int:
    """A warp's, for a slab."""
    tiles = GEMM_SHAPES[columns].column_tiles
    return report.matrix_instructions(8 * tiles * kind.matrices)


def seconds(kind: Format, gpu: GPU, report: KernelReport, wide: int, columns: int) -> float:
    """Of the matrix by so many columns, in blocks of `wide` ones."""
    shape, blocks = GEMM_SHAPES[wide], -(-columns // wide)
    slabs = MATRIX_ROWS // ROWS * blocks * (MATRIX_INPUTS // SLAB)
    lanes = slabs * shape.threads * slab_instructions(kind, report, wide)
    products = MATRIX_ROWS * MATRIX_INPUTS * blocks * wide
    clock = PRODUCTS_A_CLOCK.get(gpu.architecture, PRODUCTS_A_CLOCK_ELSEWHERE)
    return max(
        MATRIX_ROWS * MATRIX_INPUTS * kind.bytes_a_weight / gpu.bytes_a_second,
        lanes / gpu.lanes_a_second,
        products / (clock * gpu.num_sms * gpu.hertz),
    )


def tables() -> Iterable[str]:
    """Instructions for a weight and for a matrix product, and the times."""
    cache = CubinCache(Path(tempfile.gettempdir()) / "ingle-predictions", find_compiler())
    found = {
        (kind, gpu, int(name.rsplit("_c", 1)[1])): report
        for kind in FORMATS
        for gpu in GPUS
        for name, report in cubin_report(cache.cubin(kind.source, gpu.architecture)).items()
        if "_two_" not in name
    }
    rows: list[list[str]] = []
    for kind in FORMATS:
        for wide in BLOCKS:
            shape, row = GEMM_SHAPES[wide], [f"{kind.name}, {wide}"]
            for gpu in GPUS:
                report = found[kind, gpu, wide]
                count = slab_instructions(kind, report, wide)
                each = count / (8 * shape.column_tiles * kind.matrices)
                # A warp has 32 rows, and a lane its share of their weights.
                weight = count * shape.column_warps / SLAB
                row.append(f"{weight:.2f} · {each:.1f} · {report.registers}")
            rows.append(row)
    yield markdown(["type, columns of a block", *(gpu.name for gpu in GPUS)], rows)
    rows = []
    for kind in [kind for kind in FORMATS if kind.name in KINDS]:
        for columns in COLUMNS:
            row = [f"{kind.name}, {columns}"]
            for gpu in GPUS:
                times = {
                    wide: seconds(kind, gpu, found[kind, gpu, wide], wide, columns)
                    for wide in GEMM_SHAPES
                }
                # Of equals the one that fits.
                best = min(times, key=lambda wide: (times[wide], abs(columns - wide)))
                row.append(f"{1e6 * times[best]:.1f} µs ({best})")
            rows.append(row)
    yield markdown(["type, columns", *(gpu.name for gpu in GPUS)], rows)


if __name__ == "__main__":
    print("\n\n".join(tables()))
