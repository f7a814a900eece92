"""Snapshots of the keys and values of a part of a sequence."""

from __future__ import annotations

import ctypes
from typing import Any, cast

import llama_cpp
import numpy as np

_api: Any = llama_cpp  # the binding annotates plain integers as C types
_ALL = 0
_PARTIAL_ONLY = 1
"""Only the state of recurrent layers, which cannot be truncated."""


class SequenceState:
    """Reads and writes parts of the sequences of one context, through a scratch sequence.

    llama.cpp serialises whole sequences only; sharing cells with `scratch` is free.
    """

    def __init__(
        self,
        context: llama_cpp.llama_context_p,
        memory: llama_cpp.llama_memory_t,
        scratch: int,
    ) -> None:
        """`scratch` is a sequence reserved for this object."""
        self._context = context
        self._memory = memory
        self._scratch = scratch

    def read(self, slot: int, start: int, end: int) -> bytes:
        """Return the state of the slot's tokens `start` to `end`."""
        llama_cpp.llama_memory_seq_cp(self._memory, slot, self._scratch, start, end)
        data = self._read(self._scratch, _ALL)
        self._clear()
        return data

    def checkpoint(self, slot: int) -> bytes:
        """Return the state of the slot's recurrent layers, after all its tokens."""
        return self._read(slot, _PARTIAL_ONLY)

    def restore_checkpoint(self, slot: int, checkpoint: bytes) -> None:
        """Restore the state of the slot's recurrent layers."""
        if not self._write(slot, checkpoint, _PARTIAL_ONLY):
            raise RuntimeError("llama.cpp did not restore the state it returned")

    def append(self, slot: int, start: int, end: int, data: bytes | memoryview) -> bool:
        """Append the tokens `start` to `end` of a state to the slot; return False if it is full."""
        read = self._write(self._scratch, data, _ALL)
        if read:
            llama_cpp.llama_memory_seq_cp(self._memory, self._scratch, slot, start, end)
        self._clear()
        return read

    def _read(self, slot: int, flags: int) -> bytes:
        size: int = _api.llama_state_seq_get_size_ext(self._context, slot, flags)
        data = (ctypes.c_uint8 * size)()
        size = _api.llama_state_seq_get_data_ext(self._context, data, size, slot, flags)
        return bytes(memoryview(data)[:size])

    def _write(self, slot: int, data: bytes | memoryview, flags: int) -> bool:
        array = np.frombuffer(data, np.uint8)
        source = cast("Any", array.ctypes).data_as(ctypes.POINTER(ctypes.c_uint8))
        return bool(
            _api.llama_state_seq_set_data_ext(self._context, source, len(array), slot, flags)
        )

    def _clear(self) -> None:
        llama_cpp.llama_memory_seq_rm(self._memory, self._scratch, -1, -1)
