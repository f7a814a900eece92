"""File system access that a worker's confinement grants."""

from __future__ import annotations

from pathlib import Path

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
