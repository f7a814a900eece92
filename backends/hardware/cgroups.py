"""Control group folders that limit this process on Linux."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .text_files import read_text


def control_groups(root: Path, controller: str) -> Iterator[tuple[int, Path]]:
    """Yield version (1 or 2) and folder of each group of this process and its ancestors."""
    groups = root / "sys/fs/cgroup"
    for line in read_text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            version, mounts = 2, (groups, groups / "unified")
        elif controller in controllers.split(","):
            version, mounts = 1, (groups / controller, groups / controllers)
        else:
            continue
        for folder in _ancestors(mounts, path):
            yield version, folder


def _ancestors(mounts: tuple[Path, ...], path: str) -> Iterator[Path]:
    """Yield the group and its ancestors; in a container the path may be the host's."""
    parts = [part for part in path.split("/") if part]
    if ".." in parts:
        parts = []
    for mount in mounts:
        for length in range(len(parts) + 1):
            yield mount.joinpath(*parts[:length])
