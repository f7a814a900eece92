"""Recognises speech, one file at a time, for as many requests as there are places."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from ingle.backends.base.child_process import find_module
from ingle.backends.base.errors import RequestRejected
from ingle.backends.packages.engine_packages import SPEECH, all_engine_packages
from ingle.backends.packages.engine_store import EngineStore
from ingle.models.metadata.stored_model import StoredModel

from ..client.model_types import LoadedModel, MemoryBytes, ModelMemory, ModelState
from ..errors import NotFound, QueueFull
from .speech_child import SpeechChild
from .speech_memory import SpeechMemory
from .speech_protocol import OpenSpeechModel, Recognise, Recognised, Segment

T = TypeVar("T")

log = logging.getLogger("ingle.daemon")

MOST_BYTES = 64 * 2**20
"""Of one audio file."""
MOST_AT_ONCE = 4
"""Files in memory: one is recognised, the others wait."""
_IDLE_SECONDS = 300.0


class Transcriber:
    """Recognises speech in a process that ends after some idle minutes; for the event loop only."""

    def __init__(self, engines: EngineStore, threads: int = 0) -> None:
        """`threads` compute; 0 means one a fast core."""
        self.requests: Counter[str] = Counter()
        """How many files each model has recognised."""
        self.seconds: Counter[str] = Counter()
        """How many seconds of audio."""
        self._engines = engines
        self._threads = threads
        self._process = SpeechChild()
        self._thread = ThreadPoolExecutor(1, "speech")
        self._lock = asyncio.Lock()
        self._held = 0
        self._idle: asyncio.TimerHandle | None = None
        self._model: StoredModel | None = None
        """The model of the process."""
        self._since = 0.0

    @contextmanager
    def place(self) -> Generator[None]:
        """Hold a place for a file, before it is read; raises `QueueFull`."""
        if self._held >= MOST_AT_ONCE:
            raise QueueFull(
                f"{MOST_AT_ONCE} audio files are being recognised, or wait for it.",
                hint="Try again later.",
                headers={"retry-after": "5"},
            )
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1

    async def recognise(
        self, model: StoredModel, task: Recognise
    ) -> AsyncGenerator[Recognised | Segment]:
        """Yield what was recognised: the language and length first, then each segment.

        Raises `NotFound` if the engine is not installed, `LoadFailed`, `RequestRejected` for a file
        that cannot be read, and `BackendError`. To close it early ends the process.
        """
        import_path = await asyncio.to_thread(self._import_path)
        async with self._lock:
            if self._idle is not None:
                self._idle.cancel()
            began, ended = time.monotonic(), False
            try:
                opened = OpenSpeechModel(str(model.path), self._threads)
                if self.loaded() is None or self._model != model:
                    self._model, self._since = model, began
                await self._in_thread(lambda: self._process.open(opened, import_path))
                first = await self._in_thread(lambda: self._process.begin(task))
                yield first
                while segment := await self._in_thread(self._process.next):
                    yield segment
                ended = True
            except RequestRejected:
                ended = True  # the process is as good as new
                raise
            finally:
                if not ended:
                    self.end()
                loop = asyncio.get_running_loop()
                self._idle = loop.call_later(_IDLE_SECONDS, self.end)
            self.requests[model.name] += 1
            self.seconds[model.name] += round(first.seconds)
            took = time.monotonic() - began
            log.info("%s recognised %.1f s of audio in %.1f s", model.name, first.seconds, took)

    @property
    def is_busy(self) -> bool:
        """Whether a file is being recognised."""
        return self._lock.locked()

    @property
    def pid(self) -> int | None:
        """The id of the process, None if there is none."""
        return self._process.pid

    def memory(self) -> SpeechMemory:
        """Return the memory that the process needs and has; safe in any thread."""
        model = self._model
        return SpeechMemory.read(self.pid, model.size if model is not None else 0)

    def loaded(self) -> LoadedModel | None:
        """Return the model that has a process, as the API shows it; None if none has."""
        model, pid = self._model, self.pid
        if model is None or pid is None:
            return None
        memory, busy = self.memory(), self.is_busy
        idle = self._idle
        return LoadedModel(
            name=model.name,
            state=ModelState.READY,
            pid=pid,
            engine=SPEECH,
            device="CPU",
            running=int(busy),
            waiting=max(0, self._held - 1) if busy else 0,
            rss=memory.process.resident,
            memory=ModelMemory(
                MemoryBytes(memory.needs.host),
                MemoryBytes(memory.process.private),
                memory.process.resident - memory.process.private,
            ),
            loaded_for=time.monotonic() - self._since,
            expires_in=None if busy or idle is None else max(0.0, idle.when() - time.monotonic()),
        )

    async def unload(self, path: str | None = None) -> list[str]:
        """End the process of the model at `path`, or of any, once it is idle; return its name."""
        model = self._model
        if model is None or self.pid is None or path not in (None, str(model.path)):
            return []
        async with self._lock:
            self.end()
        return [model.name]

    def end(self) -> None:
        """End the process, which the next file starts again."""
        self._process.close()

    def end_if_idle(self) -> None:
        """End the process unless a file is being recognised."""
        if not self.is_busy:
            self.end()

    def close(self) -> None:
        """End for good."""
        if self._idle is not None:
            self._idle.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)
        self.end()

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _import_path(self) -> list[str]:
        """Return the folders of the engine's packages; raises `NotFound`."""
        folders = self._engines.import_path([SPEECH])
        if not folders and find_module(all_engine_packages()[SPEECH].module) is None:
            raise NotFound(
                "The engine that recognises speech is not installed.",
                hint=f"`ingle engine install {SPEECH}` fetches it (90 MB).",
                code="engine_missing",
            )
        return folders
