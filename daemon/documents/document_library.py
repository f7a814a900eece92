"""Searches folders of documents, whose indexes are filled in the background."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path

from ingle.backends.base.errors import BackendError
from ingle.models.errors import ModelError

from ..client.document_types import FoundPassages
from ..errors import IndexUnusable, InvalidBody, NotFound, RequestError
from ..pictures.picture_decoder import DecodingProcess
from .folder_files import list_files
from .folder_index import FolderIndex
from .index_protocol import ScanState
from .passage_embedder import PassageEmbedder

log = logging.getLogger("ingle.daemon")

MOST_FILES = 20_000
"""Of one folder."""
MOST_OPEN = 4
"""Folders whose processes are kept for a minute after their last search."""
IDLE_SECONDS = 60.0
_PENDING = 512


class _OpenFolder:
    """A folder that was searched lately, and the tasks that fill its index."""

    def __init__(self, index: FolderIndex) -> None:
        self.index = index
        self.reading: asyncio.Task[None] | None = None
        self.embedding: asyncio.Task[None] | None = None
        self.idle: asyncio.TimerHandle | None = None

    @property
    def is_filled(self) -> bool:
        """Return whether no task is at work."""
        return all(task is None or task.done() for task in (self.reading, self.embedding))

    async def close(self) -> None:
        """End the tasks and the process."""
        if self.idle is not None:
            self.idle.cancel()
        tasks = [task for task in (self.reading, self.embedding) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.to_thread(self.index.close)
        await asyncio.gather(*tasks, return_exceptions=True)


class DocumentLibrary:
    """For the event loop only; each folder has an index file below `root` and a process."""

    def __init__(self, root: Path, embedder: PassageEmbedder) -> None:
        self._root = root
        self._embedder = embedder
        self._open: OrderedDict[Path, _OpenFolder] = OrderedDict()
        self._converter = DecodingProcess()

    async def search(self, folder: str, question: str, most: int, wait: float) -> FoundPassages:
        """Return the passages of a folder that fit a question best.

        Files that changed are read first, for `wait` seconds at most, the others afterwards.
        Raises `NotFound`, `InvalidBody` and `IndexUnusable`.
        """
        path = await asyncio.to_thread(_existing, folder)
        # Other names could be neither sent nor cited.
        names = [name for name in await list_files(path) if name.isprintable()]
        if len(names) > MOST_FILES:
            raise InvalidBody(
                f"{path} has more than {MOST_FILES:,} files.",
                hint="Name a folder below it.",
                param="folder",
            )
        opened = await self._opened(path)
        try:
            state = await self._read(opened, names, wait)
            model, vector = await self._embedder.embed_question(state.model, question)
            found = await asyncio.to_thread(opened.index.find, question, most, model, vector)
            if opened.embedding is None or opened.embedding.done():
                opened.embedding = asyncio.create_task(self._embed(opened, state.model))
        finally:
            self._end_later(path, opened)
        return FoundPassages(
            passages=found.passages,
            files=state.files,
            waiting=state.waiting,
            unreadable=state.unreadable,
            model=model if found.meaning else "",
        )

    async def close(self) -> None:
        """End all processes; what was not read yet is read after the next search."""
        opened, self._open = list(self._open.values()), OrderedDict()
        await asyncio.gather(*(folder.close() for folder in opened))
        await asyncio.to_thread(self._converter.close)

    async def _opened(self, path: Path) -> _OpenFolder:
        opened = self._open.pop(path, None)
        if opened is None:
            opened = _OpenFolder(FolderIndex(path, self._file(path), self._converter))
        self._open[path] = opened  # before anything is awaited: a file has one process
        if opened.idle is not None:
            opened.idle.cancel()
        await asyncio.to_thread(_prepare, self._file(path))
        for other in list(self._open)[:-MOST_OPEN]:
            await self._open.pop(other).close()
        return opened

    def _file(self, path: Path) -> Path:
        return self._root / f"{hashlib.sha256(os.fsencode(path)).hexdigest()[:32]}.db"

    async def _read(self, opened: _OpenFolder, names: list[str], wait: float) -> ScanState:
        state = await asyncio.to_thread(opened.index.scan, names)
        if not state.waiting:
            return state
        if opened.reading is None or opened.reading.done():
            opened.reading = asyncio.create_task(_read_all(opened.index))
        await asyncio.wait({opened.reading}, timeout=wait)
        return await asyncio.to_thread(opened.index.read_more)

    async def _embed(self, opened: _OpenFolder, earlier: str) -> None:
        """Give vectors to all passages that are read, while nothing else is asked for."""
        if opened.reading is not None:
            await asyncio.wait({opened.reading})
        try:
            model = await self._embedder.choose(earlier)
            while model:
                pending = await asyncio.to_thread(opened.index.pending, model, _PENDING)
                if not pending.digests:
                    return
                async for digests, vectors in self._embedder.embed(model, pending):
                    await asyncio.to_thread(opened.index.keep_vectors, model, digests, vectors)
        except (RequestError, BackendError, ModelError) as error:
            log.warning("Passages of documents cannot be embedded now: %s", error.message)

    def _end_later(self, path: Path, opened: _OpenFolder) -> None:
        loop = asyncio.get_running_loop()

        def end() -> None:
            if not opened.is_filled:
                self._end_later(path, opened)
                return
            if self._open.get(path) is opened:
                del self._open[path]
            loop.run_in_executor(None, opened.index.close)

        if opened.idle is not None:
            opened.idle.cancel()
        opened.idle = loop.call_later(IDLE_SECONDS, end)


async def _read_all(index: FolderIndex) -> None:
    try:
        while (await asyncio.to_thread(index.read_more)).waiting:
            pass
    except IndexUnusable as error:  # the next search reports it, if it lasts
        log.warning("A folder is not read to its end: %s", error.message)


def _existing(folder: str) -> Path:
    path = Path(folder)
    if not path.is_absolute():
        raise InvalidBody("'folder' must be an absolute path.", param="folder")
    with suppress(OSError, ValueError, RuntimeError):
        path = path.resolve(strict=True)
        if path.is_dir():
            return path
        if path.is_file():
            raise NotFound(
                f"{folder} is a file, not a folder.", hint="Name its folder.", param="folder"
            )
    raise NotFound(f"There is no folder {folder}.", param="folder")


def _prepare(file: Path) -> None:
    """Make the file, for its owner only, in its folder."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(file, os.O_CREAT | os.O_WRONLY, 0o600))
    os.utime(file)
