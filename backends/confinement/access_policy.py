"""What a process that reads a stranger's model needs, and nothing else."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

import msgspec

from ingle.models import failpoints
from ingle.models.gguf.gguf_names import parse_shard
from ingle.models.safetensors.folder_files import belongs_to_model

from ..base.load_spec import EngineKind, LoadSpec

_GPU_DEVICES = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg", "/dev/dri")
_GPU_LIBRARIES = ("cuda", "hip", "vulkan", "sycl", "opencl", "musa", "cann")


@dataclass(frozen=True, slots=True)
class AccessPolicy:
    """The files that are read, and written; folders of which only names are seen.

    Where it `drives_gpu`, files outside of people's homes stay as they were, and so does the
    address space.
    """

    reads: tuple[Path, ...]
    lists: tuple[Path, ...] = ()
    writes: tuple[Path, ...] = ()
    drives_gpu: bool = False

    def with_folder(self, folder: Path) -> AccessPolicy:
        """The same with a folder to read and write in."""
        return replace(self, reads=(*self.reads, folder), writes=(*self.writes, folder))

    def mapped_bytes(self) -> int:
        """Bytes of the files that may be mapped into memory, those in folders among them."""
        inside = (entry for path in self.reads if path.is_dir() for entry in path.iterdir())
        return sum(_size(path) for path in (*self.reads, *inside))


def task_workplace(*models: str, output: str | None = None, computes: bool = True) -> AccessPolicy:
    """What a task with models needs; the `output` goes to a folder that is there.

    One that `computes` may use a GPU.
    """
    reads = [file for model in models for file in model_files(Path(model))]
    gpu = computes and has_gpu_device()
    place = AccessPolicy(tuple(reads), drives_gpu=gpu)
    return place if output is None else place.with_folder(Path(output).resolve().parent)


class _ScriptFiles(msgspec.Struct):
    trace: str | None = None


def worker_workplace(spec: LoadSpec) -> AccessPolicy:
    """What a worker needs for this model; makes the folders and files it is to write."""
    reads = [*model_files(Path(spec.path))]
    lists: list[Path] = []
    writes: list[Path] = []
    if spec.draft_path is not None:
        reads += model_files(Path(spec.draft_path))
    if spec.kv_store is not None:
        folder = Path(spec.kv_store.folder)
        _make_folder(folder / spec.kv_store.model)
        # Whoever is short of room removes what others stored, and never reads it.
        reads.append(folder / spec.kv_store.model)
        lists.append(folder)
        writes.append(folder)
    if spec.kernel_cache is not None:
        _make_folder(Path(spec.kernel_cache))
        reads.append(Path(spec.kernel_cache))
        writes.append(Path(spec.kernel_cache))
    for path in _shared_files(spec):
        _make_file(path)
        reads.append(path)
        writes.append(path)
    if failpoints.ACTIVE is not None:
        reads += failpoints.ACTIVE.folders
        writes += failpoints.ACTIVE.folders
    gpu = has_gpu_device() and _drives_gpu(spec)
    return AccessPolicy(tuple(reads), tuple(lists), tuple(writes), gpu)


def with_temporary_files(place: AccessPolicy, spec: LoadSpec) -> AccessPolicy:
    """The same with a folder, used from now on, for what libraries need for a moment.

    Those of ingle's own engine do, if only to find others.
    """
    if spec.kernel_cache is not None:
        folder = Path(spec.kernel_cache) / "tmp"
        _make_folder(folder)
    elif spec.engine is EngineKind.CUDA:
        folder = Path(tempfile.mkdtemp(prefix="ingle-worker-"))
    else:
        return place
    tempfile.tempdir = os.environ["TMPDIR"] = str(folder)
    return place.with_folder(folder)


def model_files(path: Path) -> list[Path]:
    """The files behind a model's path: all its parts, and where links in its folder lead."""
    if path.is_dir():
        links = (entry for entry in path.iterdir() if entry.is_symlink())
        return [path.resolve(), *(link.resolve() for link in links if belongs_to_model(link.name))]
    shard = parse_shard(path.name)
    names = shard.names() if shard is not None else [path.name]
    return [path.with_name(name).resolve() for name in names]


def has_gpu_device() -> bool:
    """Whether there is a device that a driver of a GPU would open."""
    return any(Path(name).exists() for name in _GPU_DEVICES)


def llama_drives_gpus() -> bool:
    """Whether the installed llama.cpp has a part for GPUs."""
    found = find_spec("llama_cpp")
    if found is None or found.origin is None:
        return False
    names = [path.name for path in (Path(found.origin).parent / "lib").glob("*ggml-*")]
    return any(f"ggml-{library}" in name for name in names for library in _GPU_LIBRARIES)


def _drives_gpu(spec: LoadSpec) -> bool:
    match spec.engine:
        case EngineKind.SCRIPTED:
            return False
        case EngineKind.LLAMA_CPP:
            return llama_drives_gpus()
        case EngineKind.CUDA:
            return spec.device != "cpu" or (spec.may_fall_back and llama_drives_gpus())


def _shared_files(spec: LoadSpec) -> Iterable[Path]:
    if spec.compute_lease is not None:
        lease = Path(spec.compute_lease)
        yield lease
        yield lease.with_name(lease.name + ".next")
    if spec.script is not None:
        trace = msgspec.json.decode(spec.script, type=_ScriptFiles).trace
        if trace is not None:
            yield Path(trace)


def _make_folder(path: Path) -> None:
    """No rule can be made for a folder that is not there; who needs it tells what is wrong."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        print(f"{path} cannot be made: {error}.", file=sys.stderr)


def _make_file(path: Path) -> None:
    try:
        path.touch(mode=0o600)
    except OSError as error:
        print(f"{path} cannot be made: {error}.", file=sys.stderr)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
