"""llama.cpp's own words, and who hears them."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Iterator

import pytest

from ingle.backends.llama_cpp.native_log import NativeLog

INFO, ERROR = 2, 4


@pytest.fixture
def log() -> Iterator[NativeLog]:
    log = NativeLog()
    yield log
    log.close()


def say(log: NativeLog, *lines: str, level: int = ERROR) -> None:
    """Lines as llama.cpp would send them."""
    for line in lines:
        log._callback(level, f"{line}\n".encode(), ctypes.c_void_p(None))  # pyright: ignore[reportPrivateUsage]


def test_the_reason_is_not_that_it_failed(log: NativeLog) -> None:
    assert log.last_error == "llama.cpp gave no reason"
    say(
        log,
        "llama_model_load: error loading model: tensor 'a.weight' is missing",
        "llama_model_load_from_file_impl: failed to load model",
    )
    assert log.last_error == "tensor 'a.weight' is missing"
    assert not log.tells_of_memory


def test_the_reason_may_stand_before_the_summary(log: NativeLog) -> None:
    say(
        log,
        "gguf_init_from_file: failed to read magic",
        "llama_model_load: error loading model: llama_model_loader: failed to load model from /m",
        "llama_model_load_from_file_impl: failed to load model",
    )
    assert log.last_error == "gguf_init_from_file: failed to read magic"


@pytest.mark.parametrize(
    "line",
    [
        "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 9.00 MiB on device 0: "
        "cudaMalloc failed: out of memory",
        "alloc_tensor_range: failed to allocate CPU buffer of size 138242949120",
        "llama_model_load: error loading model: unable to allocate CUDA0 buffer",
        "ggml_vulkan: Device memory allocation failed: vk::OutOfDeviceMemoryError: "
        "out of device memory",
    ],
)
def test_a_lack_of_memory_is_known_as_such(log: NativeLog, line: str) -> None:
    say(log, line, "llama_model_load_from_file_impl: failed to load model")
    assert log.tells_of_memory


def test_sizes_are_read(log: NativeLog) -> None:
    say(
        log,
        "llama_kv_cache:        CPU KV buffer size =    45.00 MiB",
        "load_tensors: offloaded 12/31 layers to GPU",
        level=INFO,
    )
    assert log.buffer_bytes == {"kv": 45 * 2**20}
    assert log.layers_on_gpu == 12


USE_AFTER_CLOSE = """
import gc
import llama_cpp
from ingle.backends.llama_cpp.native_log import NativeLog
log = NativeLog()
log.close()
del log
gc.collect()
ballast = [bytearray(4096) for _ in range(1000)]
params = llama_cpp.llama_model_default_params()
assert llama_cpp.llama_model_load_from_file(b"/nowhere/model.gguf", params) is None
"""


def test_llama_cpp_calls_no_log_that_is_gone() -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-c", USE_AFTER_CLOSE], capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert b"failed to load model" in done.stderr
