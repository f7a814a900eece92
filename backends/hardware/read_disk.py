"""Reads size, file system and kind of the disk below a folder."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import psutil

from .machine import Disk, DiskKind
from .text_files import read_text

_NETWORK = (
    *("nfs", "cifs", "smb", "afpfs", "9p", "fuse.sshfs", "fuse.rclone", "ceph", "glusterfs"),
    *("webdav", "davfs", "virtiofs", "drvfs"),
)
"""Prefixes of network file systems, including Windows drives under WSL."""
_IN_MEMORY = ("tmpfs", "ramfs")
_VIRTUAL = ("vd", "xvd")
"""Virtual disks report being rotational whatever they are."""
_REMOTE_DRIVE = 4


def read_disk(folder: Path) -> Disk:
    """Return the disk of the folder, or of its nearest existing ancestor."""
    existing = folder
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    usage = shutil.disk_usage(existing)
    if sys.platform == "linux":
        source, filesystem = mount_of(existing, Path("/proc/self/mountinfo"))
        kind = disk_kind(source, filesystem, Path("/sys"))
    else:
        parts = sorted(psutil.disk_partitions(all=True), key=lambda part: -len(part.mountpoint))
        inside = (part for part in parts if existing.is_relative_to(part.mountpoint))
        filesystem = next((part.fstype for part in inside), "")
        kind = "network" if _is_remote(existing, filesystem) else "unknown"
    return Disk(
        folder=str(folder), total=usage.total, free=usage.free, filesystem=filesystem, kind=kind
    )


def mount_of(folder: Path, mounts: Path) -> tuple[str, str]:
    """Return source ("/dev/sda1") and file system mounted over a folder."""
    best, found = -1, ("", "")
    resolved = os.path.realpath(folder)
    for line in read_text(mounts).splitlines():
        fields, _, rest = line.partition(" - ")
        parts, kinds = fields.split(" "), rest.split(" ")
        if len(parts) < 5 or len(kinds) < 2:
            continue
        point = parts[4].encode().decode("unicode_escape")
        inside = resolved == point or resolved.startswith(point.rstrip("/") + "/")
        # Of two mounts at one place, the later hides the earlier.
        if inside and len(point) >= best:
            best, found = len(point), (kinds[1], kinds[0])
    return found


def disk_kind(source: str, filesystem: str, sys_folder: Path) -> DiskKind:
    """Return the kind of disk of a source; a partition has the kind of its disk."""
    if filesystem.startswith(_NETWORK):
        return "network"
    if filesystem in _IN_MEMORY:
        return "memory"
    if Path(source).name.startswith(_VIRTUAL):
        return "unknown"
    # Encrypted disks and volumes are links to kernel names.
    block = (sys_folder / "class/block" / Path(source).resolve().name).resolve()
    for folder in (block, block.parent):
        if rotational := read_text(folder / "queue/rotational"):
            return "hdd" if rotational == "1" else "ssd"
    return "unknown"


def _is_remote(folder: Path, filesystem: str) -> bool:
    if sys.platform == "win32":
        import ctypes

        return ctypes.windll.kernel32.GetDriveTypeW(folder.anchor) == _REMOTE_DRIVE
    return filesystem.startswith(_NETWORK)
