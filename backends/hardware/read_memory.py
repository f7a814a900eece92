"""Reads host memory and control group limits."""

from __future__ import annotations

from pathlib import Path

from .cgroups import control_groups
from .machine import HostMemory
from .text_files import read_number, read_text

_NO_LIMIT = 2**60
"""Version 1 writes the largest multiple of a page for no limit."""


def read_memory(root: Path = Path("/")) -> HostMemory:
    """Read memory from the system and the control groups below `root`."""
    import psutil  # takes milliseconds of the daemon's start

    memory, (swap_total, swap_used) = psutil.virtual_memory(), _swap()
    limit, used = memory_limit(root)
    return HostMemory(
        total=memory.total,
        available=memory.available,
        swap_total=swap_total,
        swap_used=swap_used,
        limit=limit if limit is not None and limit < memory.total else None,
        limit_used=used,
    )


def _swap() -> tuple[int, int]:
    """Return total and used swap; zeros if the system does not report it, as in some sandboxes."""
    import psutil

    try:
        swap = psutil.swap_memory()
    except (psutil.Error, OSError, RuntimeError):
        return 0, 0
    return swap.total, swap.used


def memory_limit(root: Path) -> tuple[int | None, int]:
    """Return the tightest limit among this process's groups in bytes, and the bytes in use.

    Reclaimable file cache does not count as used.
    """
    found: list[tuple[int, int]] = []
    for version, folder in control_groups(root, "memory"):
        names = ("memory.max", "memory.current", "inactive_file")
        if version == 1:
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        limit, used = read_number(folder / names[0]), read_number(folder / names[1])
        if limit is not None and limit < _NO_LIMIT:
            found.append((limit, max(0, (used or 0) - _forgettable(folder, names[2]))))
    # The group with the least left, which need not have the smallest limit.
    return min(found, key=lambda group: group[0] - group[1], default=(None, 0))


def _forgettable(folder: Path, name: str) -> int:
    lines = (line.split() for line in read_text(folder / "memory.stat").splitlines())
    values = (fields[1] for fields in lines if len(fields) == 2 and fields[0] == name)
    return next((int(value) for value in values if value.isdecimal()), 0)
