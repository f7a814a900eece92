"""Responses that belong to the daemon: they run without a client, which can reconnect."""

from __future__ import annotations

import asyncio
import time

from ingle.backends.base.events import Event

from ...errors import ShuttingDown
from ...generations.generation_log import GenerationLog
from ...generations.run_registry import RunRegistry
from ..job_runner import JobRunner
from .requests import ResponseDraft
from .response_answer import ResponseAnswer


class BackgroundRun:
    """One response: its task, and the log of its events."""

    def __init__(self, draft: ResponseDraft, answer: ResponseAnswer, runner: JobRunner) -> None:
        self.id = draft.job.id
        self.answer = answer
        self.log = GenerationLog()
        self.ended_at: float | None = None
        self._cancelled = False
        answer.create()
        self._publish()
        self.task = asyncio.create_task(self._run(draft, runner))

    @property
    def size(self) -> int:
        """The memory of its log in bytes."""
        return self.log.size

    async def cancel(self) -> None:
        """Stop it between two tokens; does nothing if it has ended."""
        if not self.task.done():
            self._cancelled = True
            self.task.cancel()
            await asyncio.wait({self.task})
            # A task that was cancelled before its first step never saw it.
            self.answer.cancel()
            self._publish()

    async def _run(self, draft: ResponseDraft, runner: JobRunner) -> None:
        try:
            async with runner.lease(draft.job) as (lease, _):
                self.answer.use(lease)
                await runner.run(draft.job, lease, self._take)
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
        for frame in self.answer.frames:
            self.log.append("", frame)
        self.answer.frames.clear()
        if self.answer.is_over and self.ended_at is None:
            self.ended_at = time.monotonic()
            self.log.pack()


BackgroundRuns = RunRegistry[BackgroundRun]
