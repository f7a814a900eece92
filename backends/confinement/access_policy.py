"""The files and devices that a worker or a task may access."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from ingle.models.gguf.gguf_names import parse_shard
from ingle.models.safetensors.folder_files import belongs_to_model

_GPU_DEVICES = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg", "/dev/dri")


@dataclass(frozen=True, slots=True)
class AccessPolicy:
    """Files that may be read and written, and folders that may only be listed.

    With `drives_gpu`, a driver's files are open too, and the address space is unrestricted. No file
    may grow beyond `largest_file` bytes, if that is set. A process that `meets_others` connects to
    its children before it opens the model, and calls `filter_calls` itself when it has.
    """

    reads: tuple[Path, ...]
    lists: tuple[Path, ...] = ()
    writes: tuple[Path, ...] = ()
    drives_gpu: bool = False
    largest_file: int | None = None
    meets_others: bool = False

    def with_folder(self, folder: Path) -> AccessPolicy:
        """Return the policy with one more folder to read and write in."""
        return replace(self, reads=(*self.reads, folder), writes=(*self.writes, folder))

    def mapped_bytes(self) -> int:
        """Return the bytes of files that may be mapped into memory, including those in folders."""
        inside = (entry for path in self.reads if path.is_dir() for entry in path.iterdir())
        return sum(_size(path) for path in (*self.reads, *inside))


def task_access_policy(
    *models: str, output: str | None = None, computes: bool = True
) -> AccessPolicy:
    """Return what a task with models needs; `output` goes to an existing folder.

    A task that `computes` may use a GPU.
    """
    reads = [file for model in models for file in model_files(Path(model))]
    gpu = computes and has_gpu_device()
    policy = AccessPolicy(tuple(reads), drives_gpu=gpu)
    return policy if output is None else policy.with_folder(Path(output).resolve().parent)


def model_files(path: Path) -> list[Path]:
    """Return the files of a model: all its shards, and the targets of links in its folder."""
    if path.is_dir():
        links = (entry for entry in path.iterdir() if entry.is_symlink())
        return [path.resolve(), *(link.resolve() for link in links if belongs_to_model(link.name))]
    shard = parse_shard(path.name)
    names = shard.names() if shard is not None else [path.name]
    return [path.with_name(name).resolve() for name in names]


def has_gpu_device() -> bool:
    """Return whether there is a device that a GPU driver would open."""
    return any(Path(name).exists() for name in _GPU_DEVICES)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
