"""Embeddings of pairs of texts for BERTs that tell the second text by its token type."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ingle.models.gguf.gguf_header import read_header

from .ggml_library import GGMLLibrary

if TYPE_CHECKING:
    from ingle.models.gguf.gguf_header import GGUFHeader, TensorInfo

_TYPES, _TOKENS = "token_types.weight", "token_embd.weight"


class SegmentEmbeddings:
    """Looks up tokens as llama.cpp does, but with the second type behind the first separator.

    llama.cpp adds the first type to every token, with which cross-encoders rank much worse. The
    difference is added here.
    """

    def __init__(self, header: GGUFHeader, separator: int) -> None:
        self._separator = separator
        tensors = {tensor.name: tensor for tensor in header.tensors}
        self._tokens = tensors[_TOKENS]
        self._raw = _mapped(header, self._tokens)
        types = tensors[_TYPES]
        with ThreadPoolExecutor(1) as threads:
            first, second = self._decoded(_mapped(header, types)[:2], types.type, threads)
        self._difference = second - first

    def rows(self, texts: Sequence[list[int]]) -> NDArray[np.float32]:
        """Return a row for each token of the texts, one text after another."""
        tokens = np.concatenate([np.asarray(text, np.int64) for text in texts])
        with ThreadPoolExecutor(1) as threads:
            rows = self._decoded(self._raw[tokens], self._tokens.type, threads)
        end = 0
        for text in texts:
            start, end = end, end + len(text)
            if self._separator in text:
                rows[start + text.index(self._separator) + 1 : end] += self._difference
        return rows

    def _decoded(
        self, raw: NDArray[np.uint8], kind: str, threads: ThreadPoolExecutor
    ) -> NDArray[np.float32]:
        return GGMLLibrary(threads).decode(raw.ravel(), kind).reshape(len(raw), -1)


def segment_embeddings(path: Path, separator: int) -> SegmentEmbeddings | None:
    """Return the embeddings of a file with two token types, None for another."""
    header = read_header(path)
    shapes = {tensor.name: tensor.shape for tensor in header.tensors}
    if separator < 0 or len(shapes.get(_TYPES, ())) < 2 or shapes[_TYPES][1] < 2:
        return None
    return SegmentEmbeddings(header, separator)


def _mapped(header: GGUFHeader, tensor: TensorInfo) -> NDArray[np.uint8]:
    """Return the bytes of a matrix, one row each."""
    rows = tensor.shape[1]
    shape = (rows, tensor.bytes // rows)
    return np.memmap(header.files[tensor.file], np.uint8, "r", tensor.offset, shape)
