"""Small files are replaced in one step, privately and without leaking descriptors."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from ingle.daemon.errors import StorageFull, StorageUnusable
from ingle.daemon.stores.atomic_file import remove_unfinished, write_atomically
from ingle.daemon.stores.durable_file import private_file, storage_error, write_durably

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="modes and links of Unix"),
    pytest.mark.usefixtures("synced_renames"),
]


def test_new_file_is_private_and_an_existing_one_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er" / "file"
    write_durably(path, b"one")
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"one", 0o600)
    assert path.parent.stat().st_mode & 0o777 == 0o700
    path.chmod(0o640)
    write_durably(path, b"two")
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"two", 0o640)
    assert list(path.parent.iterdir()) == [path]


def test_link_stays_and_its_target_is_replaced(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    write_atomically(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_writing_leaves_no_descriptor_open(tmp_path: Path) -> None:
    write_atomically(tmp_path / "file", b"first")
    before = psutil.Process().num_fds()
    for number in range(20):
        write_atomically(tmp_path / "file", str(number).encode())
    assert psutil.Process().num_fds() < before + 10


def test_only_what_killed_processes_left_is_removed(tmp_path: Path) -> None:
    """One is killed between writing and renaming; another is still writing."""
    killed = (
        "import sys; from pathlib import Path; from ingle.daemon.stores import atomic_file as a"
    )
    rename = (
        "a.Path.replace = lambda *_: a.os._exit(9); a.write_atomically(Path(sys.argv[1]), b'x')"
    )
    for name in ("keys.json", "ledger-head.json", "providers.toml"):
        path = tmp_path / name
        write_atomically(path, b"kept")
        subprocess.run([sys.executable, "-P", "-c", f"{killed}; {rename}", path], check=False)
    unfinished = [path for path in tmp_path.iterdir() if path.name.startswith(".")]
    assert len(unfinished) == 3
    (tmp_path / ".mine.json.bak").touch()
    (tmp_path / ".keys.json.aaaaaaaa").touch()
    for path in tmp_path.iterdir():
        if path.name != ".keys.json.aaaaaaaa":
            os.utime(path, (1e9, 1e9))
    remove_unfinished([tmp_path, tmp_path / "none"])
    assert {path.name for path in tmp_path.iterdir()} == {
        *("keys.json", "ledger-head.json", "providers.toml"),
        *(".mine.json.bak", ".keys.json.aaaaaaaa"),
    }


def test_failed_write_leaves_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def fail(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("ingle.daemon.stores.atomic_file.os.fsync", fail)
    with pytest.raises(StorageFull):
        write_durably(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_private_file_is_new(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with private_file(path) as file:
        file.write(b"x")
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(FileExistsError):
        private_file(path)


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.ENOSPC, StorageFull),
        (errno.EDQUOT, StorageFull),
        (errno.EFBIG, StorageFull),
        (errno.EACCES, StorageUnusable),
    ],
)
def test_error_of_a_disk_says_whether_it_is_full(number: int, kind: type[Exception]) -> None:
    assert type(storage_error(OSError(number, "x"), Path("/data"))) is kind
