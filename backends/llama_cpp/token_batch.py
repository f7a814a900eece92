"""A `llama_batch` over numpy arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import llama_cpp
import numpy as np

from ..engine.batch import Batch


class TokenBatch:
    """A `llama_batch` over our own numpy arrays, filled by slices."""

    def __init__(self, capacity: int) -> None:
        self._token = np.zeros(capacity, np.int32)
        self._pos = np.zeros(capacity, np.int32)
        self._n_seq_id = np.ones(capacity, np.int32)
        self._seq_id = np.zeros(capacity, np.int32)
        self._logits = np.zeros(capacity, np.int8)
        # llama.cpp needs a pointer to each token's list of sequences: ours all have length one.
        step = self._seq_id.itemsize
        addresses = self._seq_id.ctypes.data + step * np.arange(capacity, dtype=np.uint64)
        self._seq_id_pointers = addresses.astype(np.uint64)
        self.native = llama_cpp.llama_batch(
            0,
            _pointer(self._token, llama_cpp.llama_token),
            None,
            _pointer(self._pos, llama_cpp.llama_pos),
            _pointer(self._n_seq_id, ctypes.c_int32),
            _pointer(self._seq_id_pointers, ctypes.POINTER(llama_cpp.llama_seq_id)),
            _pointer(self._logits, ctypes.c_int8),
        )

    def fill(self, batch: Batch) -> list[int]:
        """Fill in the batch; return the first sampled position of each sampling chunk."""
        rows: list[int] = []
        end = 0
        for chunk in batch.chunks:
            start, end = end, end + chunk.num_tokens
            sequence = chunk.sequence
            first = sequence.num_computed
            if chunk.num_tokens == 1:  # decode, for which slices take three times as long
                self._token[start] = sequence.token_ids[first]
                self._pos[start] = first
            else:
                known = start + chunk.count
                self._token[start:known] = sequence.token_ids[first : first + chunk.count]
                self._token[known:end] = chunk.drafts
                self._pos[start:end] = np.arange(first, first + chunk.num_tokens)
            self._seq_id[start:end] = sequence.slot
            self._logits[start:end] = 0
            if chunk.samples:
                rows.append(start + chunk.count - 1)
                self._logits[rows[-1] : end] = 1
        self.native.n_tokens = end
        return rows


def _pointer(array: np.ndarray[tuple[int], np.dtype[np.generic]], kind: Any) -> object:
    untyped: Any = ctypes  # the stubs do not cover pointer types chosen at run time
    return untyped.cast(array.ctypes.data, untyped.POINTER(kind))


@dataclass(frozen=True, slots=True)
class TextSpan:
    """Consecutive tokens of one text, the first of them at `position` in it."""

    sequence: int
    position: int
    tokens: list[int]


class TextBatch(TokenBatch):
    """A batch in which every token has an output, or none has."""

    def fill_spans(self, pieces: Iterable[TextSpan], *, outputs: bool) -> None:
        """Fill in the pieces one after another; they must fit."""
        end = 0
        for piece in pieces:
            start, end = end, end + len(piece.tokens)
            self._token[start:end] = piece.tokens
            self._pos[start:end] = np.arange(piece.position, piece.position + end - start)
            self._seq_id[start:end] = piece.sequence
        self._logits[:end] = outputs
        self.native.n_tokens = end
