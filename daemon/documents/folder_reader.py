"""Reads the files of a folder into its index, a few at a time."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from ..client.document_types import Unit
from .document_index import DocumentIndex, IndexedFile
from .index_protocol import ScanState
from .page_text import page_text
from .passages import TextPassage, cut_pages, cut_text

LARGEST_TEXT = 4 * 2**20
"""Bytes; larger files are data rather than something to read."""
LARGEST_DOCUMENT = 16 * 2**20
MOST_PASSAGES = 20_000
"""Of one file."""
_SNIFFED = 8192
_LONGEST_NAME = 1024
_DOCUMENTS: dict[str, Unit] = {".pdf": "page", ".docx": "paragraph"}
_PAGES = (".html", ".htm", ".xhtml", ".svg")
_NOT_FOLLOWED = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


class _Document(NamedTuple):
    name: str
    file: IndexedFile
    data: bytes


class FolderReader:
    """Finds what changed by size and time of change, and what really did by a digest."""

    def __init__(self, folder: Path, index: DocumentIndex) -> None:
        self._folder = folder
        self._index = index
        self._known = index.files()
        self._waiting: list[str] = []
        self._document: _Document | None = None
        self._changed = False

    def scan(self, names: Iterable[str]) -> None:
        """Note the files that changed, and erase those that are gone."""
        found: dict[str, os.stat_result] = {}
        for name in names:
            with suppress(OSError, ValueError):
                facts = (self._folder / name).lstat()
                if stat.S_ISREG(facts.st_mode) and len(name) <= _LONGEST_NAME:
                    found[name] = facts
        self._index.begin()
        for name in self._known.keys() - found.keys():
            self._forget(name)
        self._index.commit()
        self._document = None
        self._waiting = [
            name for name, facts in found.items() if not _is_same(self._known.get(name), facts)
        ]
        self._waiting.reverse()  # taken from the end

    def read(self, seconds: float) -> None:
        """Read files for so long, or until one has to be converted."""
        ends = time.monotonic() + seconds
        self._index.begin()
        while self._waiting and self._document is None and time.monotonic() < ends:
            name = self._waiting.pop()
            try:
                self._read(name)
            except (OSError, ValueError):  # gone, or closed to this process
                self._forget(name)
        if not self._waiting and self._document is None and self._changed:
            self._index.tidy()
            self._changed = False
        self._index.commit()

    def keep_text(self, name: str, text: str, problem: str) -> None:
        """Keep the text of the document that was to be converted, unless another scan began."""
        document = self._document
        if document is None or document.name != name:
            return
        self._document = None
        self._index.begin()
        if problem:
            self._keep(document.name, document.file._replace(unit=""), ())
        elif document.file.unit == "page":
            self._keep(document.name, document.file, cut_pages(text))
        else:
            self._keep(document.name, document.file, cut_text("", text))
        self._index.commit()

    def state(self) -> ScanState:
        """Return counts, and the document to convert."""
        document = self._document
        return ScanState(
            files=len(self._known),
            waiting=len(self._waiting) + (document is not None),
            unreadable=sum(not file.unit for file in self._known.values()),
            passages=self._index.count(),
            model=self._index.model(),
            document=b"" if document is None else document.data,
            document_name="" if document is None else document.name,
        )

    def _read(self, name: str) -> None:
        unit = _DOCUMENTS.get(Path(name).suffix.lower())
        facts, data = _bytes_of(self._folder / name, LARGEST_DOCUMENT if unit else LARGEST_TEXT)
        file = IndexedFile(facts.st_size, facts.st_mtime_ns, b"", unit or "line")
        if data is None:
            self._keep(name, file._replace(unit=""), ())
            return
        file = file._replace(digest=blake2b(data, digest_size=16).digest())
        known = self._known.get(name)
        if known is not None and known.digest == file.digest:
            self._known[name] = known._replace(size=file.size, modified=file.modified)
            self._index.touch(name, file)
        elif unit is not None:
            self._document = _Document(name, file, data)
        elif (text := _decoded(data)) is None:
            self._keep(name, file._replace(unit=""), ())
        else:
            if name.lower().endswith(_PAGES):
                text = page_text(text, keeps_lines=True)
            self._keep(name, file, cut_text(name, text))

    def _keep(self, name: str, file: IndexedFile, passages: Iterable[TextPassage]) -> None:
        taken = [passage for passage, _ in zip(passages, range(MOST_PASSAGES), strict=False)]
        self._index.keep(name, file, taken)
        self._known[name] = file
        self._changed = True

    def _forget(self, name: str) -> None:
        self._index.remove(name)
        if self._known.pop(name, None) is not None:
            self._changed = True


def _is_same(known: IndexedFile | None, facts: os.stat_result) -> bool:
    return known is not None and known[:2] == (facts.st_size, facts.st_mtime_ns)


def _bytes_of(path: Path, most: int) -> tuple[os.stat_result, bytes | None]:
    """Return a file's facts and content, None above `most` bytes; raises `OSError` for a link."""
    fd = os.open(path, os.O_RDONLY | _NOT_FOLLOWED | getattr(os, "O_BINARY", 0))
    with os.fdopen(fd, "rb") as file:
        facts = os.fstat(fd)
        if not stat.S_ISREG(facts.st_mode):
            raise OSError("no file")
        data = file.read(most + 1)
    return facts, data if len(data) <= most else None


def _decoded(data: bytes) -> str | None:
    """Return the text of UTF-8 or UTF-16, with marks for some wrong bytes; None for other data."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        text = data.decode("utf-16", "replace")
    elif b"\0" in data[:_SNIFFED]:
        return None
    else:
        text = data.decode("utf-8-sig", "replace")
    # A text in another encoding has some invalid characters, other data many.
    if text.count("\ufffd") > max(16, len(text) // 10):
        return None
    return text.replace("\r\n", "\n").replace("\0", " ")
