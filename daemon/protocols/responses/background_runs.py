"""Responses that belong to the daemon: they go on without a client, and one can come back."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator

from ingle.backends.base.events import Event

from ...errors import ShuttingDown, TooManyGenerations
from ..job_runner import JobRunner
from .response_answer import ResponseAnswer
from .response_draft import ResponseDraft

MAX_RUNNING = 64
KEEP_SECONDS = 600.0
KEEP_BYTES = 64 * 2**20
MAX_AT_ONCE = 256
"""Events that go to a follower in one piece."""


class BackgroundRun:
    """One response: its task, and the log of its events, which are numbered from 0."""

    def __init__(self, draft: ResponseDraft, answer: ResponseAnswer, asker: JobRunner) -> None:
        self.id = draft.job.id
        self.answer = answer
        self.size = 0
        self._log: list[bytes] = []
        self._news = asyncio.Event()
        self._cancelled = False
        answer.create()
        self._publish()
        self.task = asyncio.create_task(self._run(draft, asker))

    async def follow(self, after: int) -> AsyncGenerator[bytes, None]:
        """Every event behind number `after`, as many at a time as there are, until the last."""
        position = after + 1
        while True:
            while news := self._log[position : position + MAX_AT_ONCE]:
                position += len(news)
                yield b"".join(news)
            if self.answer.is_over:
                return
            self._news.clear()
            await self._news.wait()

    async def cancel(self) -> None:
        """Stop it between two tokens; nothing happens where it has ended."""
        if not self.task.done():
            self._cancelled = True
            self.task.cancel()
            await asyncio.wait({self.task})
            # A task that was cancelled before its first step never saw it.
            self.answer.cancel()
            self._publish()

    async def _run(self, draft: ResponseDraft, asker: JobRunner) -> None:
        try:
            async with asker.lease(draft.job) as (lease, _):
                self.answer.use(lease)
                await asker.run(draft.job, lease, self._take)
        except asyncio.CancelledError:
            if not self._cancelled:
                self._fail(
                    ShuttingDown(
                        "The daemon was stopped before the response was complete.",
                        hint="Ask again.",
                    )
                )
                raise
        except Exception as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        self.answer.fail(error)
        self._publish()

    def _take(self, prompt: int, events: list[Event]) -> None:
        self.answer.take(prompt, events)
        self._publish()

    def _publish(self) -> None:
        frames = self.answer.frames
        if frames:
            self._log += frames
            self.size += sum(len(frame) + 100 for frame in frames)
            frames.clear()
            self._news.set()


class BackgroundRuns:
    """All that run, and the logs of those that ended less than ten minutes ago."""

    def __init__(
        self,
        asker: JobRunner,
        *,
        max_running: int = MAX_RUNNING,
        keep_seconds: float = KEEP_SECONDS,
        keep_bytes: int = KEEP_BYTES,
    ) -> None:
        self._asker = asker
        self._max_running = max_running
        self._keep_seconds = keep_seconds
        self._keep_bytes = keep_bytes
        self._runs: dict[str, BackgroundRun] = {}
        self._ended: OrderedDict[str, float] = OrderedDict()

    def check_room(self) -> None:
        """Raise `TooManyGenerations` where as many run as may."""
        running = len(self._runs) - len(self._ended)
        if running >= self._max_running:
            raise TooManyGenerations(
                f"{running} responses are being made in the background already.",
                hint="Wait for one to end, or cancel one.",
            )

    def start(self, draft: ResponseDraft, answer: ResponseAnswer) -> BackgroundRun:
        """Begin one."""
        run = BackgroundRun(draft, answer, self._asker)
        self._runs[run.id] = run
        run.task.add_done_callback(lambda _: self._forget_old(run.id))
        return run

    def get(self, response_id: str) -> BackgroundRun | None:
        """The run of this response, if it is known."""
        return self._runs.get(response_id)

    def forget(self, response_id: str) -> None:
        """Drop the log of one that ended."""
        if self._ended.pop(response_id, None) is not None:
            del self._runs[response_id]

    def _forget_old(self, newest: str) -> None:
        """Drop what ended too long ago, or is too much; the newest stays for who waits for it."""
        loop = asyncio.get_running_loop()
        self._ended[newest] = loop.time()
        size = sum(self._runs[ended].size for ended in self._ended)
        for ended, at in list(self._ended.items()):
            too_old = loop.time() - at >= self._keep_seconds
            if too_old or (size > self._keep_bytes and ended != newest):
                size -= self._runs[ended].size
                self.forget(ended)
        loop.call_later(self._keep_seconds, self.forget, newest)
