"""Answers messages about one folder with its index."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from .document_index import DocumentIndex, Vectors
from .folder_reader import FolderReader
from .index_protocol import (
    FindPassages,
    FoundRanking,
    IndexMessage,
    IndexReply,
    KeepText,
    KeepVectors,
    ListPending,
    PendingPassages,
    ReadMore,
    ScanFolder,
)

STEP_SECONDS = 0.25
"""Of reading, so that a search does not wait long."""


class FolderIndexer:
    """Answers messages about one folder."""

    def __init__(self, folder: Path, index: Path) -> None:
        self._folder, self._path = folder, index
        self._index = DocumentIndex(index)
        self._reader = FolderReader(folder, self._index)

    def reopen(self, *, anew: bool) -> None:
        """Undo what was begun; `anew` replaces a damaged index by an empty one."""
        self._index.close()
        if anew:
            self._path.unlink(missing_ok=True)
        self._index = DocumentIndex(self._path)
        self._reader = FolderReader(self._folder, self._index)

    def answer(self, message: IndexMessage) -> IndexReply:
        """Return the reply; raises `sqlite3.DatabaseError` if the index is damaged."""
        match message:
            case ListPending():
                return PendingPassages(*self._pending(message))
            case FindPassages():
                vector = _vectors(message.vector, 1)[0] if message.vector else None
                found = self._index.find(message.question, message.most, message.model, vector)
                return FoundRanking(*found)
            case ScanFolder():
                self._reader.scan(message.names)
            case ReadMore():
                self._reader.read(STEP_SECONDS)
            case KeepText():
                self._reader.keep_text(message.name, message.text, message.problem)
            case KeepVectors():
                self._index.begin()
                vectors = _vectors(message.vectors, len(message.digests))
                self._index.keep_vectors(message.model, message.digests, vectors)
                self._index.commit()
        return self._reader.state()

    def _pending(self, message: ListPending) -> tuple[list[bytes], list[str]]:
        rows = self._index.pending(message.model, message.most)
        return [digest for digest, _ in rows], [text for _, text in rows]


def _vectors(data: bytes, rows: int) -> Vectors:
    found = np.frombuffer(data, np.float32).reshape(rows, -1)
    return found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-9)
