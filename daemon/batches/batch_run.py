"""Runs the requests of one batch."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable

from ingle.backends.base.errors import WorkerDied

from ..error_status import describe
from ..errors import Problem, QueueFull, ShuttingDown
from .batch_input import BatchInput, BatchLine
from .batch_record import BatchRecord
from .batch_results import ResultError, ResultFile, ResultLine, ResultResponse, new_request_id

BatchEndpoint = Callable[[bytes], Awaitable[object]]
"""Answers the body of one request; raises what an endpoint reports as an error."""

PATIENCE = 2.0
"""Seconds between attempts while resources are short."""

# Conditions that pass: a batch waits for them, since it has no client that could retry.
_PASSING = frozenset(
    {"queue_full", "memory_busy", "model_stopped", "model_quarantined", "model_unloading"}
)


class BatchRun:
    """Runs the requests that have no result yet, a limited number at a time.

    A request whose worker died is retried once, alone, after all others: another request may have
    killed it. A second death is its result.
    """

    def __init__(
        self,
        record: BatchRecord,
        lines: list[BatchLine],
        source: BatchInput,
        outputs: ResultFile,
        errors: ResultFile,
        endpoint: BatchEndpoint,
        *,
        at_once: int,
    ) -> None:
        self._record = record
        self._source = source
        self._outputs = outputs
        self._errors = errors
        self._endpoint = endpoint
        self._at_once = at_once
        done = outputs.done | errors.done
        self._left = deque(line for line in lines if line.custom_id not in done)
        self._suspects: deque[BatchLine] = deque()
        self.count()

    def count(self) -> None:
        """Update the record's counts."""
        self._record.completed = len(self._outputs.done)
        self._record.failed = len(self._errors.done)

    async def run(self) -> None:
        """Return when every request has a result, or the batch has expired."""
        workers = min(self._at_once, len(self._left))
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(workers):
                    group.create_task(self._work(self._left))
            # alone: if the process dies now, this request killed it
            await self._work(self._suspects, last_chance=True)
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None
        if self._left or self._suspects:
            self._expire()

    def close(self) -> None:
        """Flush the results to disk."""
        self._outputs.close()
        self._errors.close()

    @property
    def _expired(self) -> bool:
        return time.time() >= self._record.expires_at

    async def _work(self, lines: deque[BatchLine], *, last_chance: bool = False) -> None:
        while lines and not self._expired:
            line = lines.popleft()
            body = await asyncio.to_thread(self._source.read, line)
            result = await self._answer(line, body, last_chance=last_chance)
            if result is None:
                self._suspects.append(line)
                continue
            # no await between the answer and its record: recorded once, or not at all
            (self._outputs if _succeeded(result) else self._errors).add(result)
            self.count()

    async def _answer(
        self, line: BatchLine, body: bytes, *, last_chance: bool
    ) -> ResultLine | None:
        """Return the result; None if the worker died under the request for the first time."""
        request_id = new_request_id()
        while True:
            try:
                answer = await self._endpoint(body)
            except ShuttingDown:
                raise
            except WorkerDied as error:
                if not last_chance:
                    return None
                return _failure(line, request_id, describe(error))
            except Exception as error:
                problem = describe(error)
                if problem.code not in _PASSING or self._expired:
                    return _failure(line, request_id, problem)
                await asyncio.sleep(PATIENCE if isinstance(error, QueueFull) else 2 * PATIENCE)
            else:
                response = ResultResponse(200, request_id, answer)
                return ResultLine(id=request_id, custom_id=line.custom_id, response=response)

    def _expire(self) -> None:
        """Record an expiry error for each request that was not run."""
        error = ResultError("batch_expired", "The batch expired before this request.")
        for line in (*self._left, *self._suspects):
            result = ResultLine(id=new_request_id(), custom_id=line.custom_id, error=error)
            self._errors.add(result)
        self.count()
        self._record.expired_at = int(time.time())


def _succeeded(result: ResultLine) -> bool:
    return result.response is not None and result.response.status_code == 200


def _failure(line: BatchLine, request_id: str, problem: Problem) -> ResultLine:
    response = ResultResponse(problem.status, request_id, problem.openai())
    return ResultLine(id=request_id, custom_id=line.custom_id, response=response)
