"""What a process that reads a stranger's model needs, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from ingle.models.gguf.gguf_names import parse_shard
from ingle.models.safetensors.folder_files import belongs_to_model

_GPU_DEVICES = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg", "/dev/dri")


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


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
