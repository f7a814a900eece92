"""`NativeLog`: what is parsed from llama.cpp's log lines."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Iterator

import pytest

from ingle.backends.llama_cpp.native_log import NativeLog

INFO, WARN, ERROR = 2, 3, 4


@pytest.fixture
def log() -> Iterator[NativeLog]:
    log = NativeLog()
    yield log
    log.close()


def emit(log: NativeLog, *lines: str, level: int = ERROR) -> None:
    """Pass lines to the callback as llama.cpp does."""
    for line in lines:
        log._callback(level, f"{line}\n".encode(), ctypes.c_void_p(None))  # pyright: ignore[reportPrivateUsage]


def test_last_error_skips_the_summary_line(log: NativeLog) -> None:
    assert log.last_error == "llama.cpp gave no reason"
    emit(
        log,
        "llama_model_load: error loading model: tensor 'a.weight' is missing",
        "llama_model_load_from_file_impl: failed to load model",
    )
    assert log.last_error == "tensor 'a.weight' is missing"
    assert not log.is_out_of_memory


def test_last_error_may_precede_the_summary_line(log: NativeLog) -> None:
    emit(
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
def test_out_of_memory_is_detected(log: NativeLog, line: str) -> None:
    emit(log, line, "llama_model_load_from_file_impl: failed to load model")
    assert log.is_out_of_memory


def test_buffer_sizes_and_offloaded_layers_are_parsed(log: NativeLog) -> None:
    emit(
        log,
        "llama_kv_cache:        CPU KV buffer size =    45.00 MiB",
        "load_tensors: offloaded 12/31 layers to GPU",
        level=INFO,
    )
    assert log.buffer_bytes == {"kv": 45 * 2**20}
    assert log.layers_on_gpu == 12


@pytest.mark.parametrize(
    ("lines", "on"),
    [
        (["llama_context: flash_attn            = enabled"], True),
        (["llama_context: flash_attn            = disabled"], False),
        (
            [
                "llama_context: flash_attn            = auto",
                "resolve_fused_ops: Flash Attention enabled",
            ],
            True,
        ),
        (
            [
                "llama_context: flash_attn            = auto",
                "resolve_fused_ops: layer 0 is assigned to device Vulkan0 but Flash Attention is "
                "assigned to device CPU (usually due to missing support)",
                "resolve_fused_ops: Flash Attention not supported, set to disabled",
            ],
            False,
        ),
        (
            [
                "llama_init_from_model: enabling flash_attn since it is required for quantized "
                "V cache",
                "llama_context: flash_attn            = enabled",
                "resolve_fused_ops: fused DeepSeek V4 HC pre not supported, set to disabled",
            ],
            True,
        ),
    ],
)
def test_flash_attention_state_is_parsed(log: NativeLog, lines: list[str], on: bool) -> None:
    emit(log, *lines, level=INFO)
    assert log.flash_attention is on


def test_gpu_devices_are_parsed(log: NativeLog) -> None:
    source = "llama_model_load_from_file_impl"
    emit(
        log,
        f"{source}: using device CUDA0 (NVIDIA GeForce RTX 3090) (0000:01:00.0) - 23306 MiB free",
        f"{source}: using device CUDA1 (NVIDIA GeForce RTX 3060) (0000:02:00.0) - 11906 MiB free",
        level=INFO,
    )
    assert log.gpus == ["CUDA0", "CUDA1"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (
            "warning: failed to mlock 31866880-byte buffer (after previously locking 0 bytes): "
            "Cannot allocate memory",
            "Cannot allocate memory",
        ),
        ("warning: mlock not supported on this system", "not supported on this system"),
    ],
)
def test_mlock_failure_reason_is_parsed(log: NativeLog, line: str, reason: str) -> None:
    assert log.lock_failure is None
    emit(log, line, level=WARN)
    assert log.lock_failure == reason


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


def test_closed_log_is_not_called_by_llama_cpp() -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-c", USE_AFTER_CLOSE], capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert b"failed to load model" in done.stderr
