"""Messages between `FolderIndex` and the process that indexes its folder."""

from __future__ import annotations

import msgspec

from ..client.document_types import FoundPassage


class OpenFolder(msgspec.Struct, frozen=True):
    """The first message: the folder, and the file of its index."""

    folder: str
    index: str


class ScanFolder(msgspec.Struct, frozen=True, tag=True):
    """Compare the index with these files, relative to the folder; answered by a `ScanState`."""

    names: list[str]


class ReadMore(msgspec.Struct, frozen=True, tag=True):
    """Read files that changed, for a moment; answered by a `ScanState`."""


class KeepText(msgspec.Struct, frozen=True, tag=True):
    """The text of the document in a `ScanState`, or why it has none; answered likewise."""

    name: str
    text: str
    problem: str = ""


class ListPending(msgspec.Struct, frozen=True, tag=True):
    """Answered by `PendingPassages`, passages that a model has no vectors of."""

    model: str
    most: int


class KeepVectors(msgspec.Struct, frozen=True, tag=True):
    """Vectors of passages, as rows of float32; answered by a `ScanState`."""

    model: str
    digests: list[bytes]
    vectors: bytes


class FindPassages(msgspec.Struct, frozen=True, tag=True):
    """Rank passages for a question; `vector` is float32, or empty. Answered by `FoundRanking`."""

    question: str
    most: int
    model: str = ""
    vector: bytes = b""


IndexMessage = ScanFolder | ReadMore | KeepText | ListPending | KeepVectors | FindPassages


class ScanState(msgspec.Struct, frozen=True, tag=True):
    """Counts of files, and what the daemon has to have read: the bytes of one document."""

    files: int
    waiting: int
    unreadable: int
    passages: int
    model: str = ""
    """The model that most vectors are from."""
    document: bytes = b""
    document_name: str = ""


class PendingPassages(msgspec.Struct, frozen=True, tag=True):
    """Texts to embed, each with the digest that its vector is kept under."""

    digests: list[bytes]
    texts: list[str]


class FoundRanking(msgspec.Struct, frozen=True, tag=True):
    """The best passages first; `meaning` says whether vectors took part."""

    passages: list[FoundPassage]
    meaning: bool


class IndexFailure(msgspec.Struct, frozen=True, tag=True):
    """What went wrong, in a few words."""

    error: str


IndexReply = ScanState | PendingPassages | FoundRanking | IndexFailure
