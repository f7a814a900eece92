"""The kernels under AddressSanitizer and UndefinedBehaviorSanitizer, in a child process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from gpu.primitives import PRIMITIVES, random_input
from kernel_harness.host_build import HostModule, build_host_library
from numpy.typing import NDArray

from ingle.kernels.build.kernel_source import NO_DEFINES, kernel_source
from ingle.kernels.elementwise.activations import quantize_q8_reference
from ingle.kernels.formats.codecs import PACKERS
from ingle.kernels.formats.nf4 import quantize_nf4
from ingle.kernels.formats.repack import repack
from ingle.kernels.formats.weight import QuantizedTensor

from .attention_cases import ATTENTION_CASES
from .dense_gemv_cases import dense_gated_cases, dense_gemv_cases
from .dequantize_rows_cases import dequantize_rows_cases
from .fusion_cases import FUSION_CASES
from .gemm_cases import GEMM_CASES, GEMM_VARIANTS
from .replay import Case, run_cases, write_cases
from .sampling_cases import SAMPLING_CASES

LoadHost = Callable[..., HostModule]
MakeQuantized = Callable[..., QuantizedTensor]
FEW = {
    "GEMV_VARIANTS": "VARIANT(2, 3, 1) VARIANT(2, 3, 4)",
    "GATED_VARIANTS": "GATED(3, 1) GATED(3, 4)",
}
COLUMNS, INPUTS, ROWS = 3, 1280, 5
CASES = {
    **ATTENTION_CASES,
    **FUSION_CASES,
    **GEMM_CASES,
    **SAMPLING_CASES,
    "dequantize_rows": dequantize_rows_cases,
    "dense_gemv": dense_gemv_cases,
    "dense_gated": dense_gated_cases,
}
PRODUCTS = [*(kind.lower() for kind in sorted(PACKERS)), "nf4"]


def runtimes() -> str:
    """Return the sanitizers' runtime libraries, which must be loaded first."""
    found = [
        subprocess.run(
            ["g++", f"-print-file-name={name}"], capture_output=True, text=True, check=True
        ).stdout.strip()
        for name in ("libasan.so", "libubsan.so")
    ]
    if not all(Path(path).is_absolute() for path in found):
        pytest.skip("g++ came without the sanitizers")
    return ":".join(found)


def replay(library: Path, cases: Sequence[Case], folder: Path) -> subprocess.CompletedProcess[str]:
    write_cases(folder / "cases.npz", cases)
    script = Path(__file__).with_name("replay.py")
    bench = Path(__file__).parents[3] / "bench"
    # Python itself leaks, and its allocator would hide accesses past an array.
    environment = {
        "LD_PRELOAD": runtimes(),
        "ASAN_OPTIONS": "detect_leaks=0",
        "PYTHONMALLOC": "malloc",
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONPATH": str(bench),
    }
    return subprocess.run(
        [sys.executable, "-P", str(script), library, folder / "cases.npz", folder / "out.npz"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | environment,
    )


def gemv_cases(name: str, make_quantized: MakeQuantized) -> list[Case]:
    """Return cases with arrays that end at their last byte, so that accesses past it are seen."""
    inputs = INPUTS if name[-1] == "k" or name == "nf4" else INPUTS + 32
    x = torch.randn(COLUMNS, inputs, generator=torch.Generator().manual_seed(0))
    tiles = quantize_q8_reference(x).numpy()
    extra: tuple[NDArray[np.generic], ...] = ()
    if name == "nf4":
        packed = repack(quantize_nf4(torch.randn(ROWS, inputs)))
        nested = packed.nested
        assert nested is not None
        extra = nested.values.numpy(), nested.absmax.numpy(), nested.offset.numpy().reshape(1)
        data = packed.data
    else:
        data = repack(make_quantized(name.upper(), ROWS, inputs, tame=True)).data
    out = np.full((COLUMNS, ROWS), np.nan, np.float32)
    bias = np.ones(ROWS, np.float32)
    sizes = ROWS, inputs, data.shape[1]
    arguments = (data.numpy(), tiles, *sizes, out, bias, 1.0, ROWS, 0, *extra)
    return [
        Case(
            f"{name}_gemv_r2_c3_s{split}", (-(-ROWS // (8 // split)), 1, 1), (128, 1, 1), arguments
        )
        for split in (1, 4)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", [*PRODUCTS, "quantize_q8", "conformance", *CASES])
def test_kernels_make_no_invalid_accesses(
    load_host: LoadHost,
    build_folder: Path,
    make_quantized: MakeQuantized,
    tmp_path: Path,
    name: str,
) -> None:
    defines = FEW
    if name == "quantize_q8":
        x, tiles = np.ones((2, 288), np.float16), np.zeros((1, 2, 1536), np.uint8)
        cases = [Case("quantize_q8", (2, 1, 1), (128, 1, 1), (x, tiles, 288, 1))]
    elif name == "conformance":
        cases = [
            Case(
                f"conform_{each.name}",
                (2, 1, 1),
                (32, 1, 1),
                (random_input(each, 2, seed=0), np.zeros((2, each.outputs, 32), np.uint32)),
            )
            for each in PRIMITIVES
        ]
    elif name in CASES:
        cases = CASES[name]()
    else:
        cases = gemv_cases(name, make_quantized)
    if name in GEMM_CASES:
        defines = {"GEMM_VARIANTS": GEMM_VARIANTS}
    elif "GEMV_VARIANTS" not in kernel_source(f"{name}.cuh"):
        defines = NO_DEFINES
    library = build_host_library(f"{name}.cuh", build_folder, sanitize=True, defines=defines)
    done = replay(library, cases, tmp_path)
    assert done.returncode == 0, done.stderr
    with np.load(tmp_path / "out.npz") as stored:
        found = [stored[key] for key in stored.files]
    for ours, expected in zip(
        found, run_cases(load_host(f"{name}.cuh", defines=defines), cases), strict=True
    ):
        assert np.array_equal(ours.view(np.uint8), expected.view(np.uint8))


@pytest.mark.parametrize(("kernel", "words"), [("past_the_end", 124), ("past_shared_memory", 32)])
def test_invalid_accesses_are_detected(
    build_folder: Path, tmp_path: Path, kernel: str, words: int
) -> None:
    misuse = str(Path(__file__).with_name("misuse.cuh"))
    library = build_host_library(misuse, build_folder, sanitize=True)
    arrays = np.zeros(words, np.uint32), np.zeros(32, np.uint32)
    done = replay(library, [Case(kernel, (1, 1, 1), (32, 1, 1), arrays)], tmp_path)
    assert done.returncode != 0
    assert "heap-buffer-overflow" in done.stderr
    assert "misuse.cuh" in done.stderr
