"""Detects that a start failed from out-of-memory, and computes a smaller configuration."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from ingle.backends.base.errors import BackendError, OutOfMemory, WorkerDied
from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.registry.engines import get_engine
from ingle.models.errors import ModelError
from ingle.models.gguf.gguf_header import GGUFHeader

LEAST_BATCH = 128
LEAST_CONTEXT = 2048
_LAYERS_KEPT = 0.75
"""Share of the GPU layers that stay; the others take their part of the KV cache along."""
_COUNTERS = Path("/proc/vmstat")
_LAST_WORDS = (
    *("out of memory", "outofmemory", "bad_alloc", "memoryerror", "cannot allocate memory"),
    *("failed to allocate", "mem_buffer != null"),
)


@dataclass(frozen=True)
class ReducedSpec:
    """A smaller configuration, and a description of what it has less of."""

    spec: LoadSpec
    changes: str


def out_of_memory_kills(counters: Path = _COUNTERS) -> int:
    """Return how many processes Linux has killed for lack of memory since boot; 0 elsewhere."""
    try:
        lines = counters.read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)


def lacked_memory(error: BackendError, kills_before: int, counters: Path = _COUNTERS) -> bool:
    """Whether the failure was out-of-memory; `kills_before` is the count when the start began."""
    if isinstance(error, OutOfMemory):
        return True
    if not isinstance(error, WorkerDied):
        return False
    words = f"{error.message}\n{error.stderr_tail}".lower()
    if any(word in words for word in _LAST_WORDS):
        return True
    return "sigkill" in words and out_of_memory_kills(counters) > kills_before


def reduced_spec(spec: LoadSpec, *, shrinks_context: bool) -> ReducedSpec | None:
    """Return a spec with a smaller batch, fewer GPU layers and, if allowed, a smaller context.

    None if nothing can be reduced. Reads the file's header.
    """
    changed: dict[str, int] = {}
    words: list[str] = []
    if spec.batch > LEAST_BATCH:
        changed["batch"] = max(LEAST_BATCH, spec.batch // 4)
        words.append(f"steps of {changed['batch']} tokens")
    layers = _layers_on_gpu(spec)
    if layers > 0:
        changed["gpu_layers"] = int(layers * _LAYERS_KEPT)
        words.append(f"{changed['gpu_layers']} layers on the GPU")
    if shrinks_context and spec.context > LEAST_CONTEXT:
        changed["context"] = max(LEAST_CONTEXT, spec.context // 2)
        if spec.kv_capacity:
            changed["kv_capacity"] = max(changed["context"], spec.kv_capacity // 2)
        words.append(f"a context of {changed['context']} tokens")
    if not changed:
        return None
    text = " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
    return ReducedSpec(msgspec.structs.replace(spec, **changed), text)


def _layers_on_gpu(spec: LoadSpec) -> int:
    """Return the layers that could leave the GPU one by one."""
    if not get_engine(spec.engine).splits_layers:
        return 0
    if spec.gpu_layers >= 0:
        return spec.gpu_layers
    from ingle.backends.selection.load_spec_builder import describe

    try:
        header = describe(Path(spec.path))
    except ModelError:
        return 0
    return header.block_count if isinstance(header, GGUFHeader) else 0
