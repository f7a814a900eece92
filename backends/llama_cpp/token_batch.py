"""A `llama_batch` over numpy arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import llama_cpp
import numpy as np

from ..base.picture_span import PictureSpan, first_position
from ..engine.batch import Batch
from ..engine.sequence import Sequence

_AXES = 4


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

    def fill(self, batch: Batch, done: Mapping[Sequence, int]) -> list[int]:
        """Fill in the batch; return the first sampled position of each sampling chunk.

        Of the chunks of some sequences, so many tokens are `done`.
        """
        rows: list[int] = []
        end = 0
        for chunk in batch.chunks:
            sequence = chunk.sequence
            before = done.get(sequence, 0) if done else 0
            start, end = end, end + chunk.num_tokens - before
            first = sequence.num_computed + before
            position = first_position(sequence.pictures, first) if sequence.pictures else first
            if end - start == 1 and not chunk.drafts:  # slices take three times as long
                self._token[start] = sequence.token_ids[first]
                self._pos[start] = position
            else:
                count = chunk.count - before
                known = start + count
                self._token[start:known] = sequence.token_ids[first : first + count]
                self._token[known:end] = chunk.drafts
                self._pos[start:end] = np.arange(position, position + end - start)
            self._seq_id[start:end] = sequence.slot
            self._logits[start:end] = 0
            if chunk.samples:
                rows.append(start + chunk.count - before - 1)
                self._logits[rows[-1] : end] = 1
        self.native.n_tokens = end
        return rows


class PictureBatch(TokenBatch):
    """A batch of consecutive tokens of one sequence, all of text or all of one picture."""

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self._axes = np.zeros(_AXES * capacity, np.int32)
        # What a field of a structure returns follows the field.
        self._text = _pointer(self._token, llama_cpp.llama_token)
        self._text_pos = _pointer(self._pos, llama_cpp.llama_pos)
        self._picture_pos = _pointer(self._axes, llama_cpp.llama_pos)
        self._embeddings: np.ndarray[Any, np.dtype[np.float32]] | None = None

    def fill_run(
        self, sequence: Sequence, begin: int, end: int, picture: PictureSpan | None
    ) -> None:
        """Fill in the tokens `begin` to `end`, which are of the `picture` if there is one."""
        count, position = end - begin, first_position(sequence.pictures, begin)
        self._seq_id[:count] = sequence.slot
        self._logits[:count] = 0
        native: Any = self.native
        native.n_tokens = count
        native.token = self._text if picture is None else None
        native.pos = self._text_pos if picture is None else self._picture_pos
        native.embd = None
        steps = np.arange(position, position + count)
        if picture is None:
            self._token[:count] = sequence.token_ids[begin:end]
            self._pos[:count] = steps
            return
        rows = slice(begin - picture.start, end - picture.start)
        if picture.axes is None:
            self._axes[:count] = steps
        else:
            self._axes[: _AXES * count] = (picture.axes[rows] + position).T.ravel()
        self._embeddings = np.ascontiguousarray(picture.embeddings[rows])
        native.embd = _pointer(self._embeddings, ctypes.c_float)


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

    def embed(self, rows: np.ndarray[Any, np.dtype[np.float32]]) -> None:
        """Have these rows, one a token, take the place of the tokens from now on."""
        self._rows = np.ascontiguousarray(rows)
        native: Any = self.native
        native.token = None
        native.embd = _pointer(self._rows, ctypes.c_float)
