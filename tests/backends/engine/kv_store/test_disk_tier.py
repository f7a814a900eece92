"""`KVDisk`: chunk files are private, written atomically, and bounded over all models."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from ingle.backends.base.load_spec import KVStoreSpec
from ingle.backends.engine.kv_store.disk_tier import KVDisk
from ingle.backends.engine.kv_store.kv_chunk_file import CHUNK_TOKENS, SUFFIX, ChunkHeader
from ingle.backends.engine.kv_store.kv_store import KVStore

IDENTITY = b"i" * 32
GIB = 2**30


def make_header(value: int, size: int) -> ChunkHeader:
    return ChunkHeader(IDENTITY, IDENTITY, np.full(4, value, np.int32), size)


def make_disk(root: Path, model: str = "a", limit: int = GIB, reserve: int = 0) -> KVDisk:
    disk = KVDisk(root, model, limit, reserve=reserve)
    disk.open(IDENTITY)
    return disk


def write(disk: KVDisk, value: int, data: bytes = b"data", used_at: float | None = None) -> bytes:
    """Write a chunk as `KVStore` does."""
    header = make_header(value, len(data))
    assert disk.make_room(header.file_size)
    assert disk.write(header, data)
    if used_at is not None:
        os.utime(disk.folder / header.file_name, (used_at, used_at))
    return header.key


def keys(disk: KVDisk) -> set[bytes]:
    return {header.key for header in disk.open(IDENTITY)}


def total(root: Path) -> int:
    return sum(path.stat().st_size for path in root.glob("*/*"))


def test_chunk_is_found_by_the_next_process(tmp_path: Path) -> None:
    key = write(make_disk(tmp_path), 1, b"keys and values")
    later = KVDisk(tmp_path, "a", GIB)
    (header,) = later.open(IDENTITY)
    assert (header.key, header.tokens.tolist()) == (key, [1] * 4)
    data = later.read(key)
    assert data is not None
    assert bytes(data) == b"keys and values"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such modes")
def test_folder_and_files_are_private_to_the_user(tmp_path: Path) -> None:
    root = tmp_path / "kv"
    (root / "a").mkdir(parents=True, mode=0o755)
    write(make_disk(root), 1)
    (file,) = (root / "a").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    for folder in (root, root / "a"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
def test_symlinked_folder_is_rejected(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "precious").write_text("x")
    (tmp_path / "kv").mkdir(mode=0o700)
    (tmp_path / "kv/a").symlink_to(elsewhere)
    with pytest.raises(PermissionError):
        make_disk(tmp_path / "kv")
    assert (elsewhere / "precious").exists()


def test_unexpected_files_are_removed(tmp_path: Path) -> None:
    disk = make_disk(tmp_path)
    kept = write(disk, 1)
    torn, foreign = write(disk, 2), write(disk, 3)
    path = disk.folder / f"{torn.hex()}.kv"
    path.write_bytes(path.read_bytes()[:-1])
    (disk.folder / f"{foreign.hex()}.kv").write_bytes(b"GGUF" * 1000)
    (disk.folder / "notes.txt").write_text("x")
    (disk.folder / f".{torn.hex()}.kv.abcd.{os.getpid()}.tmp").write_bytes(b"half")
    assert keys(disk) == {kept}
    assert [file.name for file in disk.folder.iterdir()] == [f"{kept.hex()}.kv"]


def test_identity_depends_on_model_settings(tmp_path: Path) -> None:
    disk = make_disk(tmp_path)
    write(disk, 1)
    assert disk.open(b"o" * 32) == []


@pytest.mark.parametrize("lost", range(3))
def test_chunks_without_their_predecessor_are_removed(tmp_path: Path, lost: int) -> None:
    spec = KVStoreSpec(folder=str(tmp_path), model="a" * 64, disk_bytes=GIB, memory_bytes=GIB)
    tokens = np.arange(3 * CHUNK_TOKENS, dtype=np.int32)
    store = KVStore(spec, "numbers", spare=lambda: GIB)
    for start in range(0, len(tokens), CHUNK_TOKENS):
        assert store.put(tokens, start, start + CHUNK_TOKENS, b"data", to_disk=True)
    store.close(10)
    files = list(tmp_path.rglob(f"*{SUFFIX}"))
    assert len(files) == 3
    files[lost].unlink()
    again = KVStore(spec, "numbers", spare=lambda: GIB)
    matched = again.match(tokens)
    again.close(10)
    kept = len(list(tmp_path.rglob(f"*{SUFFIX}")))
    assert matched == kept * CHUNK_TOKENS < len(tokens)
    assert (again.disk_tokens, again.disk_bytes > 0) == (matched, matched > 0)


def test_corrupt_chunk_is_detected_on_read(tmp_path: Path) -> None:
    disk = make_disk(tmp_path)
    key = write(disk, 1, b"keys and values")
    path = disk.folder / f"{key.hex()}.kv"
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    assert keys(disk) == {key}, "the header alone is right"
    assert disk.read(key) is None
    assert not path.exists()
    assert disk.read(key) is None


def test_least_recently_used_chunk_of_all_models_is_evicted(tmp_path: Path) -> None:
    size = make_header(1, 1000).file_size
    first, second = (make_disk(tmp_path, model, limit=3 * size) for model in "ab")
    now = time.time()
    oldest = write(first, 1, bytes(1000), now - 30)
    middle = write(second, 2, bytes(1000), now - 20)
    newest = write(first, 3, bytes(1000), now - 10)
    first.touch([oldest])
    assert make_disk(tmp_path, "a", limit=3 * size).make_room(size)
    assert keys(second) == set()
    assert keys(first) == {oldest, newest}
    fresh = KVDisk(tmp_path, "a", 3 * size, reserve=0)
    assert fresh.make_room(2 * size)
    assert fresh.take_evicted() == [newest]
    assert fresh.take_evicted() == []
    assert middle not in keys(second)


def test_successor_chunks_are_evicted_before_their_parents(tmp_path: Path) -> None:
    size = make_header(1, 1000).file_size
    disk = make_disk(tmp_path, limit=3 * size)
    path = [write(disk, value, bytes(1000)) for value in (1, 2, 3)]
    disk.touch(path)
    fresh = KVDisk(tmp_path, "a", 3 * size, reserve=0)
    assert fresh.make_room(2 * size)
    assert fresh.take_evicted() == [path[2], path[1]]


def test_size_limit_holds_with_several_writers(tmp_path: Path) -> None:
    size = make_header(1, 1000).file_size
    disks = [make_disk(tmp_path, model, limit=5 * size) for model in "abc"]
    for value in range(30):
        write(disks[value % 3], value, bytes(1000))
    # Files of other writers are counted once a second: each may add what fits into the whole limit.
    assert total(tmp_path) <= 3 * 5 * size
    for disk in disks:
        fresh = KVDisk(tmp_path, disk.folder.name, 5 * size, reserve=0)
        assert fresh.make_room(size)
    assert total(tmp_path) <= 4 * size


def test_chunk_larger_than_the_limit_is_rejected(tmp_path: Path) -> None:
    disk = make_disk(tmp_path, limit=1000)
    kept = write(disk, 1)
    assert not disk.make_room(1001)
    assert keys(disk) == {kept}


def test_disk_reserve_is_kept_free(tmp_path: Path) -> None:
    free = shutil.disk_usage(tmp_path).free
    roomy = make_disk(tmp_path, reserve=free // 2)
    write(roomy, 1)
    assert not make_disk(tmp_path, reserve=2 * free).make_room(1)
    assert keys(roomy) == set(), "all of it is evicted first"


def test_removed_folder_is_no_error(tmp_path: Path) -> None:
    disk = make_disk(tmp_path)
    shutil.rmtree(disk.folder)
    assert disk.make_room(100)
    assert disk.write(make_header(1, 4), b"data") is False
    assert disk.read(make_header(1, 4).key) is None
    disk.touch([make_header(1, 4).key])
    disk.remove(make_header(1, 4).key)
    assert not disk.folder.exists()


WRITER = """
import sys
from pathlib import Path
import numpy as np
from ingle.backends.engine.kv_store.kv_chunk_file import ChunkHeader
from ingle.backends.engine.kv_store.disk_tier import KVDisk

disk = KVDisk(Path(sys.argv[1]), "a", 2**30, reserve=0)
disk.open(b"i" * 32)
print("ready", flush=True)
number = int(sys.argv[2])
while True:
    number += 1
    tokens = np.array([number % int(sys.argv[3])], np.int32)
    data = bytes([number % 251]) * int(sys.argv[4])
    header = ChunkHeader(b"i" * 32, b"i" * 32, tokens, len(data))
    disk.make_room(header.file_size)
    disk.write(header, data, durable=False)
"""


def start_writer(
    root: Path, first: int = 0, distinct: int = 40, size: int = 3_000_000
) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", WRITER, str(root), str(first), str(distinct), str(size)],
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


def end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def test_killed_writer_leaves_only_complete_files(tmp_path: Path) -> None:
    torn = 0
    for attempt in range(100):
        writer = start_writer(tmp_path, distinct=3, size=20_000_000)
        time.sleep(0.03 + 0.007 * (attempt % 10))
        os.kill(writer.pid, signal.SIGKILL)
        end(writer)
        torn += len(list(tmp_path.glob("a/.*.tmp")))
        disk = KVDisk(tmp_path, "a", GIB)
        for header in disk.open(IDENTITY):
            assert disk.read(header.key) is not None
        assert not list(tmp_path.glob("a/.*.tmp"))
        if torn:
            return
    assert torn, "no writer was killed in the middle of a file"


def test_two_writers_share_a_folder(tmp_path: Path) -> None:
    """Both write the same chunks, while a third process reads and cleans up."""
    writers = [start_writer(tmp_path, first) for first in (0, 7)]
    try:
        seen = 0
        deadline = time.monotonic() + 120
        while seen < 30 and time.monotonic() < deadline:
            disk = KVDisk(tmp_path, "a", GIB, reserve=0)
            for header in disk.open(IDENTITY):
                data = disk.read(header.key)
                assert data is not None
                assert len(set(data[::100_000])) == 1
                seen += 1
        assert seen >= 30
        assert all(writer.poll() is None for writer in writers)
    finally:
        for writer in writers:
            end(writer)


LIMITED = """
import resource, signal, sys
from pathlib import Path
import numpy as np
from ingle.backends.engine.kv_store.kv_chunk_file import ChunkHeader
from ingle.backends.engine.kv_store.disk_tier import KVDisk

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
disk = KVDisk(Path(sys.argv[1]), "a", 2**30, reserve=0)
disk.open(b"i" * 32)
try:
    header = ChunkHeader(b"i" * 32, b"i" * 32, np.array([1], np.int32), 300_000)
    disk.write(header, bytes(300_000))
except OSError as error:
    print(error.errno)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limits")
def test_failed_write_leaves_no_file(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-c", LIMITED, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "27"  # EFBIG
    assert list((tmp_path / "a").iterdir()) == []
