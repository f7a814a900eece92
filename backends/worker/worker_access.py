"""The files and devices that a worker may use: its model's, its stores', its engine's."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from ingle.models import failpoints

from ..base.load_spec import LoadSpec
from ..base.own_folder import make_own_folder
from ..confinement.access_policy import AccessPolicy, has_gpu_device, model_files
from ..confinement.gpu_files import redirect_caches
from ..registry.engines import get_engine

# Bytes of compiled kernels and of a compiler's temporary files, each of which is far smaller.
_OTHER_FILES = 256 * 2**20


def worker_access(spec: LoadSpec) -> AccessPolicy:
    """Return the access that a worker needs; creates the folders and files it writes."""
    reads = [*model_files(Path(spec.path))]
    lists: list[Path] = []
    writes: list[Path] = []
    if spec.draft_path is not None:
        reads += model_files(Path(spec.draft_path))
    if spec.projector_path is not None:
        reads.append(Path(spec.projector_path).resolve())
    if spec.kv_store is not None:
        folder = Path(spec.kv_store.folder)
        for each in (folder, folder / spec.kv_store.model):
            # Not later: a confined worker cannot change modes.
            _make(partial(make_own_folder, each), each)
        # To free space a worker removes what others stored, but it reads only its own model's.
        reads.append(folder / spec.kv_store.model)
        lists.append(folder)
        writes.append(folder)
    if spec.kernel_cache is not None:
        _make_folder(Path(spec.kernel_cache))
        reads.append(Path(spec.kernel_cache))
        writes.append(Path(spec.kernel_cache))
    if spec.adapters is not None:
        _make_folder(Path(spec.adapters))
        reads.append(Path(spec.adapters))
    for path in _shared_files(spec):
        _make(partial(path.touch, mode=0o600), path)
        reads.append(path)
        writes.append(path)
    if failpoints.ACTIVE is not None:
        reads += failpoints.ACTIVE.folders
        writes += failpoints.ACTIVE.folders
    gpu = has_gpu_device() and get_engine(spec.engine).drives_gpu(spec)
    stored = 0 if spec.kv_store is None else spec.kv_store.disk_bytes
    largest = max(stored, _OTHER_FILES)
    divided = spec.tensor_parallel > 1
    return AccessPolicy(tuple(reads), tuple(lists), tuple(writes), gpu, largest, divided)


def with_temporary_files(place: AccessPolicy, spec: LoadSpec) -> AccessPolicy:
    """Return the policy with a folder for temporary files, if the engine's libraries need one.

    It is the process's default for temporary files from now on.
    """
    if spec.kernel_cache is not None:
        folder = Path(spec.kernel_cache) / "tmp"
        _make_folder(folder)
    elif place.drives_gpu or get_engine(spec.engine).needs_temporary_files:
        folder = Path(tempfile.mkdtemp(prefix="ingle-worker-"))
    else:
        return place
    tempfile.tempdir = os.environ["TMPDIR"] = str(folder)
    if place.drives_gpu:
        redirect_caches(folder if spec.kernel_cache is None else Path(spec.kernel_cache))
    return place.with_folder(folder)


def _shared_files(spec: LoadSpec) -> Iterable[Path]:
    if spec.compute_lease is not None:
        lease = Path(spec.compute_lease)
        yield lease
        yield lease.with_name(lease.name + ".next")
    yield from get_engine(spec.engine).extra_files(spec)


def _make_folder(path: Path) -> None:
    _make(partial(path.mkdir, mode=0o700, parents=True, exist_ok=True), path)


def _make(create: Callable[[], None], path: Path) -> None:
    """Create a path, since access rules need existing ones; a failure is reported on its use."""
    try:
        create()
    except OSError as error:
        print(f"{path} cannot be made: {error}.", file=sys.stderr)
