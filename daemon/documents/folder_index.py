"""The daemon's side of the process that indexes one folder."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path
from typing import TypeVar

import msgspec

from ingle.backends.base.errors import RequestRejected
from ingle.backends.base.framed_child import ChildDied, FramedChild, start_child
from ingle.models.struct_preparation import prepared

from ..errors import IndexUnusable
from ..pictures.picture_decoder import DecodingProcess
from .index_protocol import (
    FindPassages,
    FoundRanking,
    IndexFailure,
    IndexMessage,
    IndexReply,
    KeepText,
    KeepVectors,
    ListPending,
    OpenFolder,
    PendingPassages,
    ReadMore,
    ScanFolder,
    ScanState,
)

_MODULE = "ingle.daemon.documents.index_process"
_SECONDS = 60.0
"""Of one message: a scan of many files, or an index that is tidied."""

R = TypeVar("R", ScanState, PendingPassages, FoundRanking)


class FolderIndex(FramedChild):
    """Starts the process with the first message; blocking, for any thread.

    Methods raise `IndexUnusable`.
    """

    def __init__(self, folder: Path, index: Path, converter: DecodingProcess) -> None:
        super().__init__()
        self.folder = folder
        self._index = index
        self._converter = converter
        self._lock = threading.Lock()
        self._decoder = msgspec.msgpack.Decoder(prepared(IndexReply))

    def scan(self, names: list[str]) -> ScanState:
        """Compare the index with the folder's files."""
        return self._state(ScanFolder(names))

    def read_more(self) -> ScanState:
        """Read files that changed, for a moment; PDF and Word files are converted elsewhere."""
        state = self._state(ReadMore())
        if not state.document_name:
            return state
        try:
            found = self._converter.decode(state.document, f"The document {state.document_name}")
            answer = KeepText(state.document_name, found.text)
        except RequestRejected as error:
            answer = KeepText(state.document_name, "", error.message)
        return self._state(answer)

    def pending(self, model: str, most: int) -> PendingPassages:
        """Return passages that the model has no vectors of."""
        return self._send(ListPending(model, most), PendingPassages)

    def keep_vectors(self, model: str, digests: list[bytes], vectors: bytes) -> None:
        """Keep vectors, float32 one after another."""
        self._state(KeepVectors(model, digests, vectors))

    def find(self, question: str, most: int, model: str, vector: bytes) -> FoundRanking:
        """Return the best passages; `vector` may be empty."""
        return self._send(FindPassages(question, most, model, vector), FoundRanking)

    def _state(self, message: IndexMessage) -> ScanState:
        return self._send(message, ScanState)

    def _send(self, message: IndexMessage, kind: type[R]) -> R:
        with self._lock:
            process = self._process
            if process is None or process.poll() is not None:
                self.close()
                process = self._process = start_child(_MODULE)
                self._exchange(process, OpenFolder(str(self.folder), str(self._index)))
            reply = self._exchange(process, message)
        if not isinstance(reply, kind):
            raise self._unusable("it answered something else")
        return reply

    def _exchange(
        self, process: subprocess.Popen[bytes], message: IndexMessage | OpenFolder
    ) -> IndexReply:
        try:
            body = self._ask(process, msgspec.msgpack.encode(message), _SECONDS)
            reply = self._decoder.decode(body)
        except (ChildDied, TimeoutError, msgspec.MsgspecError) as error:
            self.close()
            raise self._unusable("the process that reads it ended") from error
        if isinstance(reply, IndexFailure):
            raise self._unusable(reply.error)
        return reply

    def _unusable(self, why: str) -> IndexUnusable:
        return IndexUnusable(
            f"The index of {self.folder} cannot be used: {why}.",
            hint="Ask again; the index is made anew where it is damaged.",
        )
