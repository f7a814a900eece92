"""Captures llama.cpp's log for error messages and memory figures."""

from __future__ import annotations

import ctypes
import re
import sys
from collections import deque

import llama_cpp

from ..base.load_spec import LoadSpec

# ggml's log levels; a continuation extends the previous line.
_WARN, _ERROR, _CONTINUATION = 3, 4, 5

_BUFFER = re.compile(rb"(model|KV|compute|output|RS) buffer size *= *([\d.]+) MiB")
_REASON = re.compile(r"(?:error loading model|failed to initialize the context): (.+)")
# Lines that follow the one with the reason.
_NO_REASON = "failed to load model"
_NO_MEMORY = re.compile(
    r"(?:failed|unable) to allocate|malloc failed|insufficient memory|out of (?:device )?memory",
    re.IGNORECASE,
)
_OFFLOADED = re.compile(rb"offloaded (\d+)/\d+ layers to GPU")
_DEVICE = re.compile(rb": using device (\S+) \(")
# The requested setting comes first; for "auto", a later line has the outcome.
_FLASH_ATTENTION = re.compile(rb"flash_attn += (\w+)|: Flash Attention (enabled|not supported)")
_NOT_LOCKED = re.compile(rb"failed to mlock .*: (.+)|mlock (not supported on this system)")


class NativeLog:
    """Receives llama.cpp's log until `close`; of several in a process, the latest `listen`s."""

    def __init__(self) -> None:
        self.buffer_bytes: dict[str, int] = {}
        self.layers_on_gpu = 0
        self.gpus: list[str] = []
        """Devices that hold layers, by ggml's names."""
        self.flash_attention = False
        """Whether the latest context uses flash attention."""
        self.lock_failure: str | None = None
        """Why the weights are not locked in memory although requested."""
        self._errors: deque[str] = deque(maxlen=5)
        self._level = 0
        # ctypes keeps no reference to a callback, so this object must.
        self._callback = llama_cpp.llama_log_callback(self._receive)
        self.listen()

    def listen(self) -> None:
        """Take over the log callback."""
        llama_cpp.llama_log_set(self._callback, ctypes.c_void_p(None))

    def close(self) -> None:
        """Restore logging to stderr: llama.cpp must not call a freed callback."""
        llama_cpp.llama_log_set(llama_cpp.llama_log_callback(0), ctypes.c_void_p(None))

    @property
    def last_error(self) -> str:
        """Return the latest error line that contains a reason."""
        lines = [line for line in self._errors if _NO_REASON not in line]
        if not lines:
            return "llama.cpp gave no reason"
        reason = _REASON.search(lines[-1])
        return (reason[1] if reason else lines[-1]).rstrip(".")

    @property
    def is_out_of_memory(self) -> bool:
        """Return whether one of the latest errors is a failed allocation."""
        return any(_NO_MEMORY.search(line) for line in self._errors)

    def _receive(self, level: int, text: bytes | None, _user_data: object) -> None:
        if text is None:
            return
        if level != _CONTINUATION:
            self._level = level
        if self._level >= _WARN:
            sys.stderr.write(text.decode("utf-8", "replace"))
        if self._level >= _ERROR and (line := text.decode("utf-8", "replace").strip()):
            self._errors.append(line)
        if (match := _BUFFER.search(text)) is not None:
            kind = match[1].decode().lower()
            size = int(float(match[2]) * 2**20)
            self.buffer_bytes[kind] = self.buffer_bytes.get(kind, 0) + size
        if (match := _OFFLOADED.search(text)) is not None:
            self.layers_on_gpu = int(match[1])
        if (match := _DEVICE.search(text)) is not None:
            self.gpus.append(match[1].decode("utf-8", "replace"))
        if (match := _FLASH_ATTENTION.search(text)) is not None:
            self.flash_attention = b"enabled" in match.groups()
        if (match := _NOT_LOCKED.search(text)) is not None:
            reason: bytes = match[1] or match[2]
            self.lock_failure = reason.decode("utf-8", "replace").strip()


def load_warnings(spec: LoadSpec, log: NativeLog, layers: int) -> list[str]:
    """Return a sentence for each setting of `spec` that llama.cpp did not apply.

    llama.cpp continues without a GPU, without locked memory and without flash attention. `layers`
    is the most that a GPU could take.
    """
    warnings: list[str] = []
    if log.layers_on_gpu < min(spec.gpu_layers, layers):
        found = (
            f"{log.layers_on_gpu} are on a GPU; the others run on the CPU"
            if log.gpus
            else "llama.cpp finds no GPU it can use; all layers run on the CPU"
        )
        warnings.append(f"gpu_layers is {spec.gpu_layers}, but {found}.")
    if spec.mlock and log.lock_failure:
        warnings.append(
            f"The weights are not locked in memory ({log.lock_failure}) and may be swapped out; "
            "raise the limit of locked memory (ulimit -l) and load the model again."
        )
    if spec.flash_attention == "on" and not log.flash_attention:
        warnings.append("llama.cpp has no flash attention for this model; it computes without.")
    return warnings
