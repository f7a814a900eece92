"""File system access that a worker's confinement grants."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from pathlib import Path

import msgspec
import pytest

from ingle.backends.base.load_spec import KVStoreSpec, LoadSpec
from ingle.backends.confinement.access_policy import AccessPolicy
from ingle.backends.worker.worker_access import with_temporary_files, worker_access


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


def test_drivers_keep_their_caches_with_the_kernels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The home folder is closed to them."""
    monkeypatch.setattr(tempfile, "tempdir", None)
    for name in ("TMPDIR", "CUDA_CACHE_PATH", "MESA_SHADER_CACHE_DIR"):
        monkeypatch.setenv(name, "unset")
    monkeypatch.setenv("__GL_SHADER_DISK_CACHE_PATH", "unset")
    spec = LoadSpec(engine="scripted", path="m", context=1, kernel_cache=str(tmp_path))
    with_temporary_files(AccessPolicy((), drives_gpu=True), spec)
    assert os.environ["CUDA_CACHE_PATH"] == str(tmp_path / "cuda")
    assert os.environ["MESA_SHADER_CACHE_DIR"] == str(tmp_path / "mesa")
    assert os.environ["TMPDIR"] == str(tmp_path / "tmp")
