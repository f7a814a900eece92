"""Runs batches one after another, and resumes them after a restart of the daemon."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from contextvars import Context
from pathlib import Path

from ..error_status import describe
from ..errors import Conflict, InvalidBody, NotFound, ShuttingDown, StorageFull
from .batch_input import BatchInput, BatchLine
from .batch_record import BatchKind, BatchProblem, BatchRecord, BatchStatus, BatchStore
from .batch_run import BatchEndpoint, BatchRun, ResultFile
from .file_store import BATCH_LIFETIME, FileStore

log = logging.getLogger("ingle.daemon")

WINDOW = 24 * 3600
FULL_DISK_SECONDS = 60.0
"""Seconds that a batch waits for disk space before it retries."""

MAX_WAITING = 100
_ENDING_SECONDS = 30.0


class BatchManager:
    """Runs one batch at a time, in order of creation.

    Input is read and results are written in threads; the state is in the batch's record.
    """

    def __init__(self, folder: Path, *, at_once: int) -> None:
        """`at_once` is the number of requests that run concurrently."""
        self.files = FileStore(folder / "files")
        self._store = BatchStore(folder / "batches")
        self._at_once = at_once
        self._endpoints: Mapping[str, BatchEndpoint] = {}
        self._waiting: list[BatchRecord] = []
        self._task: asyncio.Task[None] | None = None
        self._current: tuple[BatchRecord, asyncio.Task[None]] | None = None
        self._closing = False
        self._turned = asyncio.Event()
        """Set when another batch may start."""

    def serve(self, endpoints: Mapping[str, BatchEndpoint]) -> None:
        """Register the endpoints that answer requests."""
        self._endpoints = endpoints

    async def resume(self) -> None:
        """Resume the batches that were unfinished when the daemon last stopped."""
        records = await asyncio.to_thread(self._store.list)
        unfinished = [record for record in records if not record.status.ended]
        self._waiting[:0] = sorted(unfinished, key=lambda record: record.created_at)
        self._wake()

    async def create(
        self,
        *,
        endpoint: str,
        input_file_id: str,
        completion_window: str,
        metadata: dict[str, str] | None = None,
        output_lifetime: int | None = None,
        kind: BatchKind = "batch",
        total: int = 0,
    ) -> BatchRecord:
        """Return a new batch, of `total` requests if the input was checked.

        Raises `NotFound`, `InvalidBody`, `Conflict`, `StorageFull`.
        """
        if self._closing:
            raise ShuttingDown("The daemon is shutting down.", hint="Start it again.")
        if endpoint not in self._endpoints:
            raise InvalidBody(
                f"Batches are not supported for '{endpoint[:100]}'.",
                hint=f"Supported endpoints: {', '.join(self._endpoints)}.",
                param="endpoint",
            )
        if len(self._waiting) >= MAX_WAITING:
            raise Conflict(
                f"{MAX_WAITING} batches are waiting already.", hint="Wait for one to end."
            )
        stored = await asyncio.to_thread(self.files.get, input_file_id)
        if stored.purpose != "batch":
            raise InvalidBody(
                f"The file '{stored.id}' was uploaded for '{stored.purpose}', not for a batch.",
                hint="Upload it again with the purpose 'batch'.",
                param="input_file_id",
            )
        now = int(time.time())
        record = BatchRecord(
            id=self._store.new_id(kind),
            endpoint=endpoint,
            completion_window=completion_window,
            input_file_id=stored.id,
            created_at=now,
            expires_at=now + WINDOW,
            output_id=self.files.new_id(),
            error_id=self.files.new_id(),
            output_lifetime=output_lifetime or BATCH_LIFETIME,
            metadata=metadata,
            total=total,
        )
        await asyncio.to_thread(self._store.save, record)
        self._waiting.append(record)
        self._wake()
        return record

    async def get(self, batch_id: str) -> BatchRecord:
        """Return one batch; raises `NotFound`."""
        live = next((record for record in self._live() if record.id == batch_id), None)
        return live or await asyncio.to_thread(self._store.get, batch_id)

    async def list(self) -> list[BatchRecord]:
        """Return all batches, the newest first."""
        live = {record.id: record for record in self._live()}
        stored = await asyncio.to_thread(self._store.list)
        return [live.get(record.id, record) for record in stored]

    async def cancel(self, batch_id: str) -> BatchRecord:
        """Cancel a batch; existing results are kept. Raises `NotFound`, and `Conflict` if it has
        ended.
        """
        record = await self.get(batch_id)
        if record.status in (BatchStatus.CANCELLING, BatchStatus.CANCELLED):
            return record
        if record.status.ended or record.status is BatchStatus.FINALIZING:
            raise Conflict(
                f"The batch is {record.status}, and cannot be cancelled any more.",
                code="batch_ended",
            )
        record.status, record.cancelling_at = BatchStatus.CANCELLING, int(time.time())
        await asyncio.to_thread(self._store.save, record)
        if self._current is not None and self._current[0] is record:
            self._current[1].cancel()
        elif record in self._waiting:
            self._waiting.remove(record)
            await asyncio.to_thread(self._finalize, record)
            await asyncio.to_thread(self._store.save, record)
        return record

    async def delete(self, batch_id: str) -> None:
        """Remove a batch, its input and its results.

        Raises `NotFound`, and `Conflict` if it has not ended.
        """
        record = await self.get(batch_id)
        if not record.status.ended:
            raise Conflict(
                f"The batch is {record.status}, and cannot be deleted yet.",
                hint="Cancel it, and wait for its end.",
            )
        await self._until_left([record])  # its end is still being written
        await asyncio.to_thread(self._delete, record)

    def result_paths(self, record: BatchRecord) -> list[Path]:
        """Return the files with the results of a batch that has ended; raises `NotFound`."""
        files = ("output", record.output_file_id), ("errors", record.error_file_id)
        paths = [
            self._store.results(record, kind) if file_id is None else self.files.path(file_id)
            for kind, file_id in files
        ]
        return [path for path in paths if path.exists()]

    async def cancel_all(self, chosen: Callable[[str, float], bool]) -> None:
        """Cancel the unfinished batches that `chosen` selects by id and Unix time, and wait for
        their end.

        Raises `TimeoutError` if one takes longer than half a minute.
        """
        live = [record for record in self._live() if chosen(record.id, record.created_at)]
        for record in live:
            with suppress(Conflict):  # it has just ended
                await self.cancel(record.id)
        await self._until_left(live)

    async def close(self) -> None:
        """Stop; the next start of the daemon resumes."""
        self._closing = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _until_left(self, records: list[BatchRecord]) -> None:
        """Wait until none of them is live; raises `TimeoutError` after half a minute."""
        async with asyncio.timeout(_ENDING_SECONDS):
            while any(record in self._live() for record in records):
                self._turned.clear()
                await self._turned.wait()

    def _live(self) -> list[BatchRecord]:
        return [*([self._current[0]] if self._current is not None else []), *self._waiting]

    def _wake(self) -> None:
        if self._task is None and self._waiting and not self._closing:
            # Without the permission of the request that starts it: batches run as the owner's.
            self._task = asyncio.create_task(self._work(), context=Context())

    async def _work(self) -> None:
        while self._waiting:
            record = self._waiting.pop(0)
            task = asyncio.create_task(self._answer(record))
            self._current = record, task
            try:
                await asyncio.wait({task})
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            await self._end(record, task)
            self._current = None
            self._turned.set()
            if isinstance(_failure(task), StorageFull):
                self._waiting.append(record)
                await asyncio.sleep(FULL_DISK_SECONDS)
        self._task = None

    async def _end(self, record: BatchRecord, task: asyncio.Task[None]) -> None:
        """Store the results, or the reason why there are none."""
        failure = _failure(task)
        if isinstance(failure, ShuttingDown | StorageFull):
            return
        try:
            if failure is not None:
                problem = describe(failure)
                record.problems = [BatchProblem(problem.code, problem.message)]
                record.status = BatchStatus.FAILED
            if record.status is not BatchStatus.FAILED:
                await asyncio.to_thread(self._finalize, record)
            if record.status is BatchStatus.FAILED:
                record.failed_at = int(time.time())
            await asyncio.to_thread(self._store.save, record)
        except Exception as error:
            # The record on disk still says that the batch runs: the next start tries again.
            log.warning(
                "The results of %s cannot be stored: %s", record.id, describe(error).message
            )

    async def _answer(self, record: BatchRecord) -> None:
        if record.status is BatchStatus.CANCELLING or record.finalizing_at is not None:
            return
        source = BatchInput(self.files.path(record.input_file_id), record.endpoint)
        lines, problems = await asyncio.to_thread(source.check)
        if problems:
            record.problems, record.status = problems, BatchStatus.FAILED
            return
        await asyncio.to_thread(self._begin, record, lines)
        outputs, errors = await asyncio.to_thread(self._open_results, record)
        endpoint = self._endpoints[record.endpoint]
        run = BatchRun(record, lines, source, outputs, errors, endpoint, at_once=self._at_once)
        with closing(outputs), closing(errors):
            await run.run()

    def _begin(self, record: BatchRecord, lines: list[BatchLine]) -> None:
        if record.status is not BatchStatus.CANCELLING:  # it may have been cancelled meanwhile
            record.status = BatchStatus.IN_PROGRESS
        record.in_progress_at = record.in_progress_at or int(time.time())
        record.total = len(lines)
        record.model = lines[0].model
        self._store.save(record)

    def _open_results(self, record: BatchRecord) -> tuple[ResultFile, ResultFile]:
        outputs = ResultFile(self._store.results(record, "output"))
        return outputs, ResultFile(self._store.results(record, "errors"))

    def _delete(self, record: BatchRecord) -> None:
        for file_id in record.file_ids:
            with suppress(NotFound):  # deleted or expired before
                self.files.delete(file_id)
        self._store.delete(record.id)  # last, so that a failure can be retried

    def _finalize(self, record: BatchRecord) -> None:
        """Turn the results into files; idempotent."""
        cancelled = record.status is BatchStatus.CANCELLING
        expired = record.expired_at is not None
        record.finalizing_at = record.finalizing_at or int(time.time())
        # On disk before a result file is moved, or the next start would miss it and run the request
        # again.
        self._store.save(record)
        record.output_file_id = self._leave(record, "output", record.output_id)
        record.error_file_id = self._leave(record, "errors", record.error_id)
        now = int(time.time())
        if cancelled:
            record.status, record.cancelled_at = BatchStatus.CANCELLED, now
        elif expired:
            record.status = BatchStatus.EXPIRED  # not before the results have names
        else:
            record.status, record.completed_at = BatchStatus.COMPLETED, now

    def _leave(self, record: BatchRecord, kind: str, file_id: str) -> str | None:
        """Return the id of the file with these results; None if there are none."""
        path = self._store.results(record, kind)
        if path.exists():
            results = ResultFile(path)
            results.close()
            if not results.done:
                path.unlink()
                return None
        elif file_id in {stored.id for stored in self.files.list()}:  # stored before a restart
            results = ResultFile(self.files.path(file_id))
            results.close()
        else:
            return None
        if kind == "output":
            record.usage = results.usage()
        return self.files.commit(
            path,
            filename=f"{record.id}_{kind}.jsonl",
            purpose="batch_output",
            lifetime=record.output_lifetime,
            file_id=file_id,
        ).id


def _failure(task: asyncio.Task[None]) -> BaseException | None:
    return None if task.cancelled() else task.exception()
