"""Prebuilding kernels for a package, and finding the prebuilt cubins."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ingle.kernels.attention.attention_variant import AttentionVariant, prebuilt_variants
from ingle.kernels.attention.triton_build import CompilableAttention
from ingle.kernels.build.cubin_finder import CubinFinder, prebuilt_path
from ingle.kernels.build.cuda_compilers import Compiler
from ingle.kernels.build.kernel_source import kernel_source, kernel_sources
from ingle.kernels.errors import CompileFailed
from ingle.kernels.prebuild import MANIFEST, PrebuildJob, all_jobs, file_of, main, prebuild

SMALL = AttentionVariant("attend_split", 64, "f16", "f16", 16)


def no_compiler() -> Compiler:
    raise CompileFailed("Nothing may be compiled here.")


@pytest.mark.slow
def test_prebuilt_cubins_are_found_without_a_compiler(tmp_path: Path) -> None:
    folder = tmp_path / "cubins"
    folder.mkdir()
    stale = prebuilt_path(folder, "quantize_q8.cuh", "of another time", "sm_90")
    stale.write_bytes(b"")
    (folder / "notes.txt").write_text("somebody's own")
    jobs = [PrebuildJob("quantize_q8.cuh", "sm_90"), PrebuildJob(SMALL, "sm_90")]
    entries = prebuild(jobs, folder, 1)
    assert [entry["kernel"] for entry in entries] == [SMALL.name, "quantize_q8.cuh"]
    assert json.loads((folder / MANIFEST).read_text())["kernels"] == entries
    (folder / "notes.txt").unlink()
    files = sorted(folder.iterdir())
    assert [path.suffix for path in files] == [".cubin", ".json", ".json", ".cubin"]
    assert {entry["file"]: entry["bytes"] for entry in entries} == {
        path.name: path.stat().st_size for path in files if path.suffix == ".cubin"
    }
    finder = CubinFinder("sm_90", tmp_path / "cache", prebuilt=folder, compiler=no_compiler)
    assert finder.cubin("quantize_q8.cuh") == files[3].read_bytes()
    found = finder.variant(CompilableAttention(SMALL))
    assert (found.cubin, found.name, found.architecture) == (
        files[0].read_bytes(),
        SMALL.name,
        "sm_90",
    )
    assert not (tmp_path / "cache").exists()
    before = [path.stat().st_mtime_ns for path in files if path.name != MANIFEST]
    assert prebuild(jobs, folder, 1) == entries
    assert [path.stat().st_mtime_ns for path in files if path.name != MANIFEST] == before


def test_every_kernel_is_built_for_every_architecture() -> None:
    jobs = list(all_jobs())
    assert len(set(jobs)) == len(jobs)
    assert {job.architecture for job in jobs} == {"sm_86", "sm_90", "sm_120"}
    for_one = {job.kernel for job in jobs if job.architecture == "sm_86"}
    assert for_one == {*kernel_sources(), *prebuilt_variants()}


def test_check_finds_missing_kernels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check = [str(tmp_path), "--check", "--architectures", "sm_90", "--only", "quantize_q8"]
    assert main(check) == 1
    assert "0 of 1 kernels" in capsys.readouterr().out
    file_of(PrebuildJob("quantize_q8.cuh", "sm_90"), tmp_path).write_bytes(b"")
    assert main(check) == 0
    assert "1 of 1 kernels" in capsys.readouterr().out


def test_kernel_sources_exclude_headers() -> None:
    sources = kernel_sources()
    assert {"q4_k.cuh", "nf4_exact.cuh", "quantize_q8.cuh", "dequantize_rows.cuh"} <= set(sources)
    assert not {"portable.cuh", "gemv.cuh", "conformance.cuh", "reduce.cuh"} & set(sources)
    assert all('extern "C"' in kernel_source(name) for name in sources)


def test_every_variant_has_its_own_source() -> None:
    other = AttentionVariant("attend_split", 64, "bf16", "bf16", 16)
    longer = AttentionVariant("attend_split", 64, "f16", "f16", 32)
    sources = {CompilableAttention(each).source("sm_90") for each in (SMALL, other, longer)}
    assert len(sources) == 3


def test_missing_cubin_without_a_compiler_is_an_error(tmp_path: Path) -> None:
    finder = CubinFinder("sm_90", tmp_path, prebuilt=tmp_path, compiler=no_compiler)
    with pytest.raises(CompileFailed, match="Nothing may be compiled"):
        finder.cubin("quantize_q8.cuh")
