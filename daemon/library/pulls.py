"""Model downloads, owned by the daemon: one per model, shared by all clients that want it."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ingle.models.download.pull_progress import OnPullProgress, PullProgress
from ingle.models.metadata.stored_model import StoredModel
from ingle.models.model_task import ModelTask

from ..access.permission import current_permission
from ..background_job import BackgroundJob, JobTable
from ..error_status import describe
from ..event_hub import EventHub

Puller = Callable[[str, OnPullProgress, Callable[[], bool]], StoredModel]
"""Fetches a model by its reference: blocks, and calls both callbacks in its thread."""
Pull = BackgroundJob[PullProgress, StoredModel]


class PullManager:
    """The running downloads; `canonical` maps all names of a model to one."""

    def __init__(
        self,
        pull: Puller,
        canonical: Callable[[str], str],
        hub: EventHub,
        on_start: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_start` is called when a language model is found: there is time to build an engine."""
        self._on_start = on_start
        self._pull = pull
        self._canonical = canonical
        self._hub = hub
        self._jobs: JobTable[PullProgress, StoredModel] = JobTable()
        self.close = self._jobs.close

    def join(self, reference: str, pull: Puller | None = None) -> Pull:
        """Return the running download of this model, or start one: `pull` or the usual one."""
        name = self._canonical(reference)
        current_permission().check_model(name)
        return self._jobs.join(name, lambda: self._start(name, reference, pull or self._pull))

    async def cancel(self, reference: str) -> bool:
        """Cancel a download and wait for its end; False if there is none.

        Partial files are kept for the next attempt.
        """
        name = self._canonical(reference)
        current_permission().check_model(name)
        pull = self._jobs.find(name)
        if pull is None:
            return False
        pull.cancelled = True
        try:
            await pull.result()
        except Exception as error:
            return describe(error).code == "pull_cancelled"
        return False

    def running(self) -> set[str]:
        """Return the names of the models that are being downloaded."""
        return set(self._jobs.running())

    def progress(self) -> list[PullProgress]:
        """Return the progress of each running download."""
        return [pull.progress for pull in self._jobs.running().values()]

    def _start(self, name: str, reference: str, pull: Puller) -> Pull:
        began = False

        def work(on_progress: OnPullProgress, cancelled: Callable[[], bool]) -> StoredModel:
            # The store learns the full name during the download; listeners need a constant one.
            return pull(
                reference,
                lambda progress: on_progress(msgspec.structs.replace(progress, model=name)),
                cancelled,
            )

        def publish(progress: PullProgress, ended: bool) -> None:
            nonlocal began
            found = not ended and progress.status != "resolving"
            if found and not began and progress.task != ModelTask.TRANSCRIBE:
                began = True
                self._on_start()
            self._hub.publish("pull", progress, replaces=None if ended else name)

        return BackgroundJob(
            f"pull {name}",
            PullProgress(model=name, status="resolving"),
            work,
            at_once=_is_news,
            ended=_last_progress,
            on_progress=publish,
        )


def _is_news(last: PullProgress, progress: PullProgress) -> bool:
    """Whether a report must be passed on at once: a new phase, or the last byte."""
    return progress.status != last.status or progress.received == progress.total


def _last_progress(progress: PullProgress, error: Exception | None) -> PullProgress:
    status = "done" if error is None else "failed"
    return msgspec.structs.replace(progress, status=status, bytes_per_second=0.0, eta=None)
