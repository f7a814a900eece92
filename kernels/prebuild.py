"""Compile all kernels for common GPUs, to be shipped with the package.

`python -P -m ingle.kernels.prebuild [FOLDER]`; scripts/build-kernels calls it.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import re
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

from .attention.attention_variant import AttentionVariant, prebuilt_variants
from .attention.triton_build import CompilableAttention
from .build.compiled_kernel import read_compiled_kernel, write_atomically, write_compiled_kernel
from .build.cubin_finder import PREBUILT, prebuilt_path
from .build.cuda_compilers import find_compiler
from .build.kernel_source import kernel_source, kernel_sources

# RTX 30 and 40, H100 and H200, RTX 50: see `CubinFinder`.
PREBUILT_ARCHITECTURES = ("sm_86", "sm_90", "sm_120")
MANIFEST = "manifest.json"
# File names of `prebuilt_path`, for any state of the sources.
_OURS = re.compile(r".+-sm_\d+-[0-9a-f]{32}\.(cubin|json)")


class PrebuildJob(NamedTuple):
    """A file of csrc, or an attention kernel, to compile for an architecture."""

    kernel: str | AttentionVariant
    architecture: str

    @property
    def name(self) -> str:
        """The name that progress shows."""
        return self.kernel if isinstance(self.kernel, str) else self.kernel.name


def all_jobs(architectures: Sequence[str] = PREBUILT_ARCHITECTURES) -> Iterator[PrebuildJob]:
    """Every kernel that a model may need."""
    for architecture in architectures:
        for source in kernel_sources():
            yield PrebuildJob(source, architecture)
        for variant in prebuilt_variants():
            yield PrebuildJob(variant, architecture)


def file_of(job: PrebuildJob, folder: Path) -> Path:
    """Where `folder` has the job's cubin, if it is compiled."""
    kernel, architecture = job
    if isinstance(kernel, str):
        return prebuilt_path(folder, kernel, kernel_source(kernel), architecture)
    source = CompilableAttention(kernel).source(architecture)
    return prebuilt_path(folder, kernel.name, source, architecture)


def build(job: PrebuildJob, folder: Path) -> dict[str, Any]:
    """Compile it, unless `folder` has it; returns its entry in the manifest.

    Raises `CompileFailed`.
    """
    kernel, architecture = job
    path = file_of(job, folder)
    if isinstance(kernel, str):
        compiler = find_compiler()
        if not path.exists():
            write_atomically(path, compiler.compile(kernel_source(kernel), architecture))
        version = compiler.version
    else:
        compiled = read_compiled_kernel(path)
        if compiled is None:
            compiled = CompilableAttention(kernel).compile(architecture)
            write_compiled_kernel(compiled, path)
        version = compiled.compiler
    return {
        "file": path.name,
        "kernel": job.name,
        "architecture": architecture,
        "compiler": version,
        "bytes": path.stat().st_size,
    }


def prebuild(jobs: Sequence[PrebuildJob], folder: Path, processes: int) -> list[dict[str, Any]]:
    """Build all of them in so many processes, and remove cubins of other sources.

    Returns the entries of the manifest.
    """
    context = multiprocessing.get_context("spawn")
    entries: list[dict[str, Any]] = []
    with ProcessPoolExecutor(processes, mp_context=context) as pool:
        for done in as_completed([pool.submit(build, job, folder) for job in jobs]):
            entries.append(done.result())
            print(f"\r{len(entries)}/{len(jobs)} {entries[-1]['kernel']:<60}", end="", flush=True)
    print()
    entries.sort(key=lambda entry: str(entry["file"]))
    document = json.dumps({"kernels": entries}, indent=1) + "\n"
    write_atomically(folder / MANIFEST, document.encode())
    wanted = {MANIFEST}
    for entry in entries:
        wanted |= {entry["file"], Path(entry["file"]).with_suffix(".json").name}
    for path in folder.iterdir():
        if path.name in wanted:
            path.chmod(0o644)
        elif _OURS.fullmatch(path.name):
            path.unlink()
    return entries


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="build-kernels", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=PREBUILT)
    parser.add_argument(
        "--architectures", nargs="+", default=list(PREBUILT_ARCHITECTURES), metavar="SM"
    )
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="kernels with this in their name"
    )
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--check", action="store_true", help="compile nothing; the status is 1 if any is missing"
    )
    arguments = parser.parse_args(argv)
    jobs = [job for job in all_jobs(arguments.architectures) if arguments.only in job.name]
    if arguments.check:
        missing = [job for job in jobs if not file_of(job, arguments.folder).exists()]
        print(f"{len(jobs) - len(missing)} of {len(jobs)} kernels are in {arguments.folder}")
        return int(bool(missing))
    entries = prebuild(jobs, arguments.folder, arguments.processes)
    size = sum(int(entry["bytes"]) for entry in entries)
    print(f"{len(entries)} cubins, {size / 1e6:.1f} MB, in {arguments.folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
