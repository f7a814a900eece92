from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ingle.models.file_lock import FileLock

HOLDER = """
import sys, time
from pathlib import Path
from ingle.models.file_lock import FileLock
lock = FileLock(Path(sys.argv[1]))
print(lock.try_acquire(), flush=True)
time.sleep(60)
"""


def test_lock_is_exclusive(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "x.lock"
    with FileLock(path) as first, FileLock(path) as second:
        assert first.try_acquire()
        assert not second.try_acquire()
        first.release()
        assert second.try_acquire()


def test_leaving_the_block_releases_the_lock(tmp_path: Path) -> None:
    with FileLock(tmp_path / "x") as lock:
        assert lock.try_acquire()
    assert FileLock(tmp_path / "x").try_acquire()


def test_lock_ends_with_its_process(tmp_path: Path) -> None:
    script = tmp_path / "holder.py"
    script.write_text(HOLDER)
    path = tmp_path / "x.lock"
    with subprocess.Popen(
        [sys.executable, "-P", str(script), str(path)], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "True\n"
        with FileLock(path) as lock:
            assert not lock.try_acquire()
            holder.send_signal(signal.SIGKILL)
            holder.wait()
            assert lock.try_acquire()


def test_unlockable_path_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    with pytest.raises(OSError, match="directory"):
        FileLock(tmp_path / "x").try_acquire()
