"""File system access that a worker's confinement grants."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import msgspec
import pytest

from ingle.backends.base.load_spec import KVStoreSpec, LoadSpec
from ingle.backends.worker.worker_access import worker_access


def test_worker_may_write_only_to_its_stores(tmp_path: Path) -> None:
    model, lease, kernels = (tmp_path / name for name in ("model.gguf", "lease", "kernels"))
    kv_store = KVStoreSpec(
        folder=str(tmp_path / "kv"), model="own", disk_bytes=1 << 20, memory_bytes=0
    )
    spec = LoadSpec(
        engine="scripted",
        path=str(model),
        context=64,
        kv_store=kv_store,
        kernel_cache=str(kernels),
        compute_lease=str(lease),
    )
    access = worker_access(spec)
    shared = {kernels, lease, tmp_path / "lease.next"}
    assert set(access.reads) == {model, tmp_path / "kv" / "own"} | shared
    assert set(access.lists) == {tmp_path / "kv"}
    assert set(access.writes) == {tmp_path / "kv"} | shared
    assert kernels.is_dir()
    assert access.largest_file == 1 << 28, "kernels need room too"
    large = msgspec.structs.replace(kv_store, disk_bytes=1 << 34)
    assert worker_access(msgspec.structs.replace(spec, kv_store=large)).largest_file == 1 << 34


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such modes")
def test_kv_folders_are_private_before_confinement(tmp_path: Path) -> None:
    """A confined worker cannot change modes."""
    own = tmp_path / "kv" / "own"
    own.mkdir(parents=True, mode=0o755)
    kv_store = KVStoreSpec(folder=str(own.parent), model="own", disk_bytes=1, memory_bytes=0)
    worker_access(LoadSpec(engine="scripted", path="m", context=1, kv_store=kv_store))
    assert [stat.S_IMODE(path.stat().st_mode) for path in (own.parent, own)] == [0o700] * 2
