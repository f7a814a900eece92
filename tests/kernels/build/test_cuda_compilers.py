from __future__ import annotations

from pathlib import Path

import pytest

from ingle.kernels.build.cuda_compilers import ARCHITECTURES, CubinCache, NvrtcCompiler
from ingle.kernels.errors import CompileFailed


class CountingCompiler:
    """A compiler that returns its arguments and counts its calls."""

    def __init__(self, version: str = "counting-1") -> None:
        self.version = version
        self.calls = 0

    def compile(self, source: str, architecture: str) -> bytes:
        self.calls += 1
        return f"{architecture} {len(source)}".encode()


def test_cached_cubin_is_not_compiled_again(tmp_path: Path) -> None:
    compiler = CountingCompiler()
    first = CubinCache(tmp_path / "new", compiler).cubin("quantize_q8.cuh", "sm_90")
    again = CubinCache(tmp_path / "new", compiler).cubin("quantize_q8.cuh", "sm_90")
    assert first == again
    assert compiler.calls == 1


def test_cache_key_includes_all_inputs_of_a_compilation(tmp_path: Path) -> None:
    compiler = CountingCompiler()
    cache = CubinCache(tmp_path, compiler)
    cache.cubin("quantize_q8.cuh", "sm_90")
    cache.cubin("quantize_q8.cuh", "sm_120")
    cache.cubin("quantize_q8.cuh", "sm_90", {"A": "1"})
    cache.cubin("conformance.cuh", "sm_90")
    CubinCache(tmp_path, CountingCompiler("counting-2")).cubin("quantize_q8.cuh", "sm_90")
    assert compiler.calls == 4
    assert len(list(tmp_path.glob("*.cubin"))) == 5
    assert list(tmp_path.glob("*.part")) == []


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_nvrtc_needs_no_gpu(architecture: str) -> None:
    source = 'extern "C" __global__ void k(int* a) { *a = 1; }'
    assert NvrtcCompiler().compile(source, architecture).startswith(b"\x7fELF")


def test_nvrtc_errors_are_reported() -> None:
    with pytest.raises(CompileFailed, match=r"(?s)refused a kernel for sm_90.*undeclared"):
        NvrtcCompiler().compile("__global__ void k() { undeclared(); }", "sm_90")
