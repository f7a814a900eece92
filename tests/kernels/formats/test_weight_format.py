from __future__ import annotations

import subprocess
import sys

import pytest

from ingle.kernels.build.kernel_source import kernel_sources
from ingle.kernels.formats.codecs import DEQUANTIZERS, PACKERS
from ingle.kernels.formats.weight_format import WEIGHT_FORMATS, WeightFormat


def test_every_format_of_blocks_has_a_codec() -> None:
    assert DEQUANTIZERS.keys() == WEIGHT_FORMATS.keys() - {"NF4"}
    assert PACKERS.keys() == {
        form.name for form in WEIGHT_FORMATS.values() if form.has_kernels and form.name != "NF4"
    }


@pytest.mark.parametrize("form", [form for form in WEIGHT_FORMATS.values() if form.has_kernels])
def test_formats_have_the_kernels_that_they_declare(form: WeightFormat) -> None:
    sources = set(kernel_sources())
    assert {f"{form.kernel}.cuh", f"{form.kernel}_gemm.cuh"} <= sources
    assert (f"gated_{form.kernel}.cuh" in sources) == form.has_gated_kernel
    assert (f"normed_{form.kernel}.cuh" in sources) == form.has_normed_kernel
    assert (f"experts_{form.kernel}.cuh" in sources) == form.has_expert_kernel
    paired = {name for name in sources if name.startswith(f"{form.kernel}_q")}
    assert paired == {f"{form.kernel}_{other.lower()}.cuh" for other in form.paired_with}


def test_every_gemm_kernel_belongs_to_a_format() -> None:
    found = {name.removesuffix("_gemm.cuh") for name in kernel_sources() if "_gemm.cuh" in name}
    assert found == {form.kernel for form in WEIGHT_FORMATS.values() if form.has_kernels}


def test_formats_are_known_without_torch() -> None:
    code = "import sys, ingle.kernels.formats.weight_format; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "False"
