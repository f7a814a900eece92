"""Where a model's KV cache is stored on disk, and its size limit."""

from __future__ import annotations

import hashlib
import re
import shutil
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ingle.models.metadata.stored_model import StoredModel

from ..machine.memory_reader import MemorySnapshot
from ..settings.config import Config
from ..settings.paths import Paths

if TYPE_CHECKING:
    from ingle.backends.base.load_spec import KVStoreSpec

_DIGEST = re.compile("[0-9a-f]{64}")
_SHARE_OF_MEMORY = 8


def weights_digest(model: StoredModel) -> str:
    """Return 64 hexadecimal digits that identify the weights.

    Hashing a file that the store did not fetch would take as long as reading it, so its path, size
    and modification time stand for its content.
    """
    if model.sha256 is not None and _DIGEST.fullmatch(model.sha256):
        return model.sha256
    found = Path(model.path).stat()
    text = f"{model.path}\n{found.st_size}\n{found.st_mtime_ns}"
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()


def kv_store_spec(config: Config, model: StoredModel) -> KVStoreSpec | None:
    """Return where the model's worker stores KV, and how much.

    None if the model's file is missing, which loading it will report.
    """
    from ingle.backends.base.load_spec import KVStoreSpec

    try:
        digest = weights_digest(model)
    except OSError:
        return None
    return KVStoreSpec(
        folder=str(config.paths.kv),
        model=digest,
        disk_bytes=config.kv_disk,
        memory_bytes=min(config.kv_memory, MemorySnapshot.read().total // _SHARE_OF_MEMORY),
    )


def remove_stored_kv(paths: Paths, digest: str) -> int:
    """Remove the KV stored for these weights; returns the bytes freed."""
    folder = paths.kv / digest
    prefixes = list(paths.prefixes.glob(f"{digest}.*"))
    freed = 0
    for path in (*folder.glob("*"), *prefixes):
        with suppress(OSError):  # it was evicted concurrently
            freed += path.lstat().st_size
    for path in prefixes:
        path.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    return freed
