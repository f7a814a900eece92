"""Detection of out-of-memory failures, and reduced settings for the retry."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ingle.backends.base.errors import BackendError, LoadFailed, OutOfMemory, WorkerDied
from ingle.backends.base.load_spec import LoadSpec
from ingle.daemon.lifecycle.model_starter import lacked_memory, out_of_memory_kills, reduced_spec


@pytest.fixture
def counters(tmp_path: Path) -> Path:
    path = tmp_path / "vmstat"
    path.write_text("nr_free_pages 12\noom_kill 3\npgfault 8\n")
    return path


@pytest.mark.parametrize(
    ("error", "kills_before", "out_of_memory"),
    [
        (OutOfMemory("No."), 3, True),
        (LoadFailed("The file is damaged."), 3, False),
        (WorkerDied("It ended.", stderr_tail="torch.OutOfMemoryError: CUDA"), 3, True),
        (WorkerDied("It ended: CUDA error: out of memory"), 3, True),
        (WorkerDied("It was killed by SIGKILL."), 2, True),
        (WorkerDied("It was killed by SIGKILL."), 3, False),
        (WorkerDied("It was killed by SIGSEGV."), 2, False),
    ],
)
def test_out_of_memory_is_detected_from_the_failure(
    error: BackendError, kills_before: int, *, out_of_memory: bool, counters: Path
) -> None:
    assert lacked_memory(error, kills_before, counters) is out_of_memory


def test_missing_oom_kill_counter_reads_as_zero(counters: Path, tmp_path: Path) -> None:
    assert out_of_memory_kills(counters) == 3
    assert out_of_memory_kills(tmp_path / "none") == 0


def test_reduced_spec_shrinks_context_only_where_allowed(
    small_llama: Path,
) -> None:
    spec = LoadSpec(engine="llama.cpp", path=str(small_llama), context=8192)
    smaller = reduced_spec(spec, shrinks_context=False)
    assert smaller is not None
    assert (smaller.spec.batch, smaller.spec.gpu_layers, smaller.spec.context) == (128, 1, 8192)
    assert smaller.changes == "steps of 128 tokens and 1 layers on the GPU"
    shrunk = reduced_spec(smaller.spec, shrinks_context=True)
    assert shrunk is not None
    assert (shrunk.spec.batch, shrunk.spec.gpu_layers, shrunk.spec.context) == (128, 0, 4096)
    again = reduced_spec(shrunk.spec, shrinks_context=False)
    assert again is None


def test_reduced_spec_of_the_own_engine_shrinks_batch_and_cache() -> None:
    spec = LoadSpec(engine="cuda", path="/x", context=4096, kv_capacity=16384, batch=2048)
    smaller = reduced_spec(spec, shrinks_context=True)
    assert smaller is not None
    assert (smaller.spec.batch, smaller.spec.context, smaller.spec.kv_capacity) == (512, 2048, 8192)
    assert smaller.spec.gpu_layers == spec.gpu_layers


@pytest.fixture
def small_llama(write_small_llama: Callable[..., Path], tmp_path: Path) -> Path:
    return write_small_llama(tmp_path / "small.gguf")
