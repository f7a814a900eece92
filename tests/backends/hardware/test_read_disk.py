"""Mount points and disk kinds from `mountinfo` and sysfs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from ingle.backends.hardware.read_disk import disk_kind, mount_of, read_disk

WriteFiles = Callable[[Mapping[str, object]], Path]

MOUNTS = """\
22 1 259:2 / / rw,relatime shared:1 - btrfs /dev/nvme0n1p2 rw,subvol=/@
30 22 0:45 / /mnt/nas\\040disk rw - nfs4 nas:/export rw
31 22 8:17 / /srv rw - ext4 /dev/sdb1 rw
32 22 0:60 / /srv rw - tmpfs tmpfs rw
33 22 0:61 / /mnt/c rw,noatime - 9p C:\\134 rw,aname=drvfs
short line - x"""


@pytest.mark.parametrize(
    ("folder", "expected"),
    [
        ("/home/me/models", ("/dev/nvme0n1p2", "btrfs")),
        ("/mnt/nas disk/models", ("nas:/export", "nfs4")),
        ("/srv/models", ("tmpfs", "tmpfs")),
        ("/srvother", ("/dev/nvme0n1p2", "btrfs")),
        ("/mnt/c/Users", ("C:\\134", "9p")),
    ],
)
def test_mount_of_a_folder(write_files: WriteFiles, folder: str, expected: tuple[str, str]) -> None:
    mounts = write_files({"mountinfo": MOUNTS}) / "mountinfo"
    assert mount_of(Path(folder), mounts) == expected


def test_disk_kind(write_files: WriteFiles) -> None:
    root = write_files(
        {
            "devices/nvme0n1/queue/rotational": 0,
            "devices/nvme0n1/nvme0n1p2/partition": 2,
            "devices/sdb/queue/rotational": 1,
            "devices/sdb/sdb1/partition": 1,
        }
    )
    blocks = root / "class/block"
    blocks.mkdir(parents=True)
    (blocks / "nvme0n1p2").symlink_to("../../devices/nvme0n1/nvme0n1p2")
    (blocks / "sdb1").symlink_to("../../devices/sdb/sdb1")
    assert disk_kind("/dev/nvme0n1p2", "btrfs", root) == "ssd"
    assert disk_kind("/dev/sdb1", "ext4", root) == "hdd"
    assert disk_kind("nas:/export", "nfs4", root) == "network"
    assert disk_kind("C:\\134", "9p", root) == "network"
    assert disk_kind("tmpfs", "tmpfs", root) == "memory"
    assert disk_kind("/dev/vda1", "ext4", root) == "unknown"
    assert disk_kind("overlay", "overlay", root) == "unknown"


def test_disk_of_a_missing_folder(tmp_path: Path) -> None:
    disk = read_disk(tmp_path / "models/of/mine")
    assert disk.folder == str(tmp_path / "models/of/mine")
    assert disk.total >= disk.free > 0
