"""Copies of the keys and values of a part of a sequence."""

from __future__ import annotations

import ctypes
from typing import Any, cast

import llama_cpp
import numpy as np

_api: Any = llama_cpp  # the binding annotates plain integers as C types
_ALL = 0


class SequenceState:
    """Reads and writes parts of the sequences of one context, through a sequence of its own.

    llama.cpp knows the state of whole sequences only; sharing cells with `scratch` costs nothing.
    """

    def __init__(
        self,
        context: llama_cpp.llama_context_p,
        memory: llama_cpp.llama_memory_t,
        scratch: int,
    ) -> None:
        """`scratch` is a sequence that nobody else uses."""
        self._context = context
        self._memory = memory
        self._scratch = scratch

    def read(self, slot: int, start: int, end: int) -> bytes:
        """The state of the slot's tokens `start` to `end`."""
        llama_cpp.llama_memory_seq_cp(self._memory, slot, self._scratch, start, end)
        size: int = _api.llama_state_seq_get_size_ext(self._context, self._scratch, _ALL)
        data = (ctypes.c_uint8 * size)()
        size = _api.llama_state_seq_get_data_ext(self._context, data, size, self._scratch, _ALL)
        self._clear()
        return bytes(memoryview(data)[:size])

    def append(self, slot: int, start: int, end: int, data: bytes | memoryview) -> bool:
        """Let the slot have the tokens `start` to `end` of a state; False where it has no room."""
        array = np.frombuffer(data, np.uint8)
        source = cast("Any", array.ctypes).data_as(ctypes.POINTER(ctypes.c_uint8))
        read = _api.llama_state_seq_set_data_ext(
            self._context, source, len(array), self._scratch, _ALL
        )
        if read:
            llama_cpp.llama_memory_seq_cp(self._memory, self._scratch, slot, start, end)
        self._clear()
        return bool(read)

    def _clear(self) -> None:
        llama_cpp.llama_memory_seq_rm(self._memory, self._scratch, -1, -1)
