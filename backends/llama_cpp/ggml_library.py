"""ctypes bindings to ggml's conversions between floats and quantised blocks."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ingle.models.gguf.gguf_writer import ggml_type_number, tensor_type

from .llama_model import load_ggml_base

Floats = NDArray[np.float32]
Raw = NDArray[np.uint8]

_PIECE = 1 << 18
"""Elements that a thread takes at a time: enough to amortise the hand-over."""


class _TypeTraits(ctypes.Structure):
    """The beginning of `struct ggml_type_traits`."""

    _fields_ = (
        ("type_name", ctypes.c_char_p),
        ("block_elements", ctypes.c_int64),
        ("block_interleave", ctypes.c_int64),
        ("block_bytes", ctypes.c_size_t),
        ("is_quantized", ctypes.c_bool),
        ("to_float", ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)),
    )


class GGMLLibrary:
    """Converts matrices on several threads."""

    def __init__(self, threads: ThreadPoolExecutor) -> None:
        self._threads = threads
        library: Any = load_ggml_base()
        pointer, number = ctypes.c_void_p, ctypes.c_int64
        self._quantize = library.ggml_quantize_chunk
        self._quantize.argtypes = (ctypes.c_int, pointer, pointer, *(number,) * 3, pointer)
        self._quantize.restype = ctypes.c_size_t
        self._traits = library.ggml_get_type_traits
        self._traits.argtypes = (ctypes.c_int,)
        self._traits.restype = ctypes.POINTER(_TypeTraits)

    def encode(self, rows: Floats, kind: str, importance: Floats | None = None) -> Raw:
        """Quantise (rows, columns) to this type; columns must be a multiple of its block size.

        `importance` (matrices, columns) weighs the errors of each matrix's columns.
        """
        if importance is not None and len(importance) > 1:
            matrices = np.split(rows, len(importance))
            parts = (
                self.encode(matrix, kind, weights[None])
                for matrix, weights in zip(matrices, importance, strict=True)
            )
            return np.concatenate(list(parts))
        rows = np.ascontiguousarray(rows)
        weights = None if importance is None else np.ascontiguousarray(importance)
        pointer = None if weights is None else weights.ctypes.data
        count, columns = rows.shape
        layout = tensor_type(kind)
        out = np.empty(rows.size // layout.block_elements * layout.block_bytes, np.uint8)
        number = ggml_type_number(kind)

        def convert(start: int, end: int) -> None:
            source, target = rows.ctypes.data, out.ctypes.data
            first, height = start * columns, end - start
            self._quantize(number, source, target, first, height, columns, pointer)

        self._in_pieces(convert, count, max(1, _PIECE // columns))
        return out

    def decode(self, raw: Raw, kind: str) -> Floats:
        """Dequantise blocks of this type to floats, in one row."""
        raw = np.ascontiguousarray(raw)
        layout = tensor_type(kind)
        blocks = raw.size // layout.block_bytes
        out = np.empty(blocks * layout.block_elements, np.float32)
        if kind == "F32":
            return raw.view(np.float32).astype(np.float32)
        to_float = self._traits(ggml_type_number(kind)).contents.to_float

        def convert(start: int, end: int) -> None:
            to_float(
                raw.ctypes.data + start * layout.block_bytes,
                out.ctypes.data + start * layout.block_elements * out.itemsize,
                (end - start) * layout.block_elements,
            )

        self._in_pieces(convert, blocks, max(1, _PIECE // layout.block_elements))
        return out

    def _in_pieces(self, convert: Callable[[int, int], None], count: int, step: int) -> None:
        starts = list(range(0, count, step))
        ends = [*starts[1:], count]
        list(self._threads.map(convert, starts, ends))
