from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.llama_cpp.native_log import NativeLog, load_warnings

LAYERS = 31


@pytest.fixture
def log() -> Iterator[NativeLog]:
    log = NativeLog()
    log.flash_attention = True
    yield log
    log.close()


def spec(**fields: Any) -> LoadSpec:
    return LoadSpec(engine="llama.cpp", path="/model.gguf", context=512, **fields)


@pytest.mark.parametrize("requested", [-1, 0])
def test_no_warning_without_requested_gpu_layers(log: NativeLog, requested: int) -> None:
    assert load_warnings(spec(gpu_layers=requested), log, LAYERS) == []


def test_gpu_layers_without_a_gpu_are_a_warning(log: NativeLog) -> None:
    [warning] = load_warnings(spec(gpu_layers=20), log, LAYERS)
    assert warning == (
        "gpu_layers is 20, but llama.cpp finds no GPU it can use; all layers run on the CPU."
    )


@pytest.mark.parametrize(
    ("requested", "placed", "warned"), [(20, 20, 0), (99, 31, 0), (20, 12, 1), (99, 30, 1)]
)
def test_warning_when_fewer_layers_are_on_the_gpu(
    log: NativeLog, requested: int, placed: int, warned: int
) -> None:
    log.gpus, log.layers_on_gpu = ["CUDA0"], placed
    warnings = load_warnings(spec(gpu_layers=requested), log, LAYERS)
    assert len(warnings) == warned
    assert all(f"{placed} are on a GPU" in warning for warning in warnings)


def test_failed_mlock_is_a_warning_only_when_requested(log: NativeLog) -> None:
    log.lock_failure = "Cannot allocate memory"
    assert load_warnings(spec(), log, LAYERS) == []
    [warning] = load_warnings(spec(mlock=True), log, LAYERS)
    assert "(Cannot allocate memory)" in warning
    assert "ulimit -l" in warning


def test_missing_flash_attention_is_a_warning_only_when_requested(log: NativeLog) -> None:
    log.flash_attention = False
    assert load_warnings(spec(flash_attention="auto"), log, LAYERS) == []
    assert len(load_warnings(spec(flash_attention="on"), log, LAYERS)) == 1
