"""Runs the requests of one batch; each result is on disk before it counts, so none is repeated."""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections import deque
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ingle.backends.base.errors import WorkerDied
from ingle.models.durable_folder import make_durable_folder
from ingle.models.failpoints import failpoint
from ingle.models.struct_preparation import prepared

from ..error_status import describe
from ..errors import Problem, QueueFull, ShuttingDown
from ..stores.durable_file import writing_in
from .batch_input import BatchInput, BatchLine
from .batch_record import BatchRecord, BatchUsage


class ResultResponse(msgspec.Struct, frozen=True):
    """The response that the request would have got on its own."""

    status_code: int
    request_id: str
    body: Any


class ResultError(msgspec.Struct, frozen=True):
    """Why a request was not run."""

    code: str
    message: str


class ResultLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of an output or error file."""

    id: str
    custom_id: str
    response: ResultResponse | None = None
    error: ResultError | None = None


class _Known(msgspec.Struct):
    custom_id: str


class _Details(msgspec.Struct):
    cached_tokens: int = 0
    reasoning_tokens: int = 0


class _Usage(msgspec.Struct):
    """The token counts of a chat, a completion or an embedding, or of the Responses API."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    prompt_tokens_details: _Details | None = None
    completion_tokens_details: _Details | None = None
    input_tokens_details: _Details | None = None
    output_tokens_details: _Details | None = None


class _Counted(msgspec.Struct):
    usage: _Usage | None = None


class _CountedResponse(msgspec.Struct):
    body: _Counted


class _CountedLine(msgspec.Struct):
    response: _CountedResponse | None = None


class ResultFile:
    """One growing file of results; blocks for moments only."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.done = self._recover()
        """The requests that have a result here."""
        make_durable_folder(path.parent, mode=0o700)
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def add(self, line: ResultLine) -> None:
        """Append a result, completely or not at all; raises `StorageFull`."""
        data = msgspec.json.encode(line) + b"\n"
        size = os.fstat(self._file).st_size
        with writing_in(self.path.parent):
            try:
                failpoint("batch.result")
                written = os.write(self._file, data)
                while written < len(data):
                    written += os.write(self._file, data[written:])
            except OSError:
                os.ftruncate(self._file, size)
                raise
        self.done.add(line.custom_id)

    def close(self) -> None:
        """Flush everything to disk; raises `storage_error`'s."""
        if self._file < 0:
            return
        file, self._file = self._file, -1
        with writing_in(self.path.parent):
            try:
                os.fsync(file)
            finally:
                os.close(file)

    def usage(self) -> BatchUsage:
        """Return the tokens of all answers in the file."""
        decoder = msgspec.json.Decoder(prepared(_CountedLine))
        total = BatchUsage()
        with self.path.open("rb") as file:
            for text in file:
                response = decoder.decode(text).response
                if response is None or (usage := response.body.usage) is None:
                    continue
                read = usage.prompt_tokens_details or usage.input_tokens_details or _Details()
                made = usage.completion_tokens_details or usage.output_tokens_details or _Details()
                total = BatchUsage(
                    input_tokens=total.input_tokens + (usage.prompt_tokens or usage.input_tokens),
                    cached_tokens=total.cached_tokens + read.cached_tokens,
                    output_tokens=total.output_tokens
                    + (usage.completion_tokens or usage.output_tokens),
                    reasoning_tokens=total.reasoning_tokens + made.reasoning_tokens,
                )
        return total

    def _recover(self) -> set[str]:
        """Read results from before a restart, and cut off an incomplete last line."""
        done: set[str] = set()
        if not self.path.exists():
            return done
        decoder = msgspec.json.Decoder(prepared(_Known))
        whole = 0
        with self.path.open("rb+") as file:
            for text in file:
                try:
                    if not text.endswith(b"\n"):
                        break
                    done.add(decoder.decode(text).custom_id)
                except msgspec.DecodeError:
                    break
                whole += len(text)
            file.truncate(whole)
        return done


def new_request_id() -> str:
    """Return a new id for one request of a batch."""
    return f"batch_req_{secrets.token_hex(12)}"


class BatchEndpoint(NamedTuple):
    """Answers the body of one request, or raises what `error` makes into the body of an answer."""

    answer: Callable[[bytes], Awaitable[object]]
    error: Callable[[Problem], object] = Problem.openai


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
            succeeded = result.response is not None and result.response.status_code == 200
            (self._outputs if succeeded else self._errors).add(result)
            self.count()

    async def _answer(
        self, line: BatchLine, body: bytes, *, last_chance: bool
    ) -> ResultLine | None:
        """Return the result; None if the worker died under the request for the first time."""
        request_id = new_request_id()
        while True:
            try:
                answer = await self._endpoint.answer(body)
            except ShuttingDown:
                raise
            except WorkerDied as error:
                if not last_chance:
                    return None
                return self._failure(line, request_id, describe(error))
            except Exception as error:
                problem = describe(error)
                if problem.code not in _PASSING or self._expired:
                    return self._failure(line, request_id, problem)
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
        self._record.expired += len(self._left) + len(self._suspects)
        self._record.expired_at = int(time.time())

    def _failure(self, line: BatchLine, request_id: str, problem: Problem) -> ResultLine:
        response = ResultResponse(problem.status, request_id, self._endpoint.error(problem))
        return ResultLine(id=request_id, custom_id=line.custom_id, response=response)
