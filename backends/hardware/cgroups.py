"""Where Linux keeps the limits of the control groups that a process is in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


def control_groups(root: Path, controller: str) -> Iterator[tuple[int, Path]]:
    """The version (1 or 2) and folder of each group that may limit this process, and all above."""
    groups = root / "sys/fs/cgroup"
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except (OSError, ValueError):
        return
    for line in lines:
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
    """The group and all above it; a container may see its host's path, and only its own top."""
    parts = [part for part in path.split("/") if part]
    if ".." in parts:
        parts = []
    for mount in mounts:
        for length in range(len(parts) + 1):
            yield mount.joinpath(*parts[:length])
