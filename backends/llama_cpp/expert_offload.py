"""Keeps the expert weights of some layers in host memory while the layers are on a GPU."""

from __future__ import annotations

import ctypes
from pathlib import Path

import llama_cpp
from llama_cpp._ctypes_extensions import load_shared_library


class _Override(ctypes.Structure):
    """`llama_model_tensor_buft_override`, which the binding does not declare."""

    _fields_ = (("pattern", ctypes.c_char_p), ("buffer_type", ctypes.c_void_p))


def experts_pattern(blocks: int) -> str:
    """Return a regular expression for the expert tensors of the first `blocks` blocks."""
    numbers = "|".join(str(block) for block in range(blocks))
    return rf"^blk\.({numbers})\.ffn_.*_exps\."


class ExpertPlacement:
    """Keeps the experts of the first `blocks` blocks in host memory.

    It must live until the model is loaded.
    """

    def __init__(self, blocks: int) -> None:
        ggml = load_shared_library("ggml-base", Path(llama_cpp.__file__).parent / "lib")
        ggml.ggml_backend_cpu_buffer_type.restype = ctypes.c_void_p
        entry = _Override(experts_pattern(blocks).encode(), ggml.ggml_backend_cpu_buffer_type())
        self._entries = (_Override * 2)(entry)  # the second ends the list

    @property
    def address(self) -> int:
        """Return the value of `llama_model_params.tensor_buft_overrides`."""
        return ctypes.addressof(self._entries)
