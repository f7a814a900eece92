"""Anthropic's message batches, which run as OpenAI's do."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from ingle.models.struct_preparation import prepared

from ...batches.batch_input import MAX_LINES, BatchInput, RequestLine
from ...batches.batch_record import BatchRecord, BatchStatus
from ...batches.batch_run import ResultError
from ...batches.file_store import BATCH_LIFETIME, FileWriter
from ...errors import AnthropicError, InvalidBody, NotFound, Problem
from ...http.bodies import ANTHROPIC
from ...http.field_policy import FieldPolicy
from ...http.request_stack import request_stack
from ...http.route_access import FILES, FILES_UNRESTRICTED
from ...http.route_spec import StreamSpec, route
from ...services import Services
from ..field_policies import MESSAGE_BATCH_FIELDS
from ..ingle_options import refuse_private
from .list_pages import PAGING, AnthropicPage, anthropic_page, date_time
from .types import MessageObject

MESSAGES = "/v1/messages"
"""The endpoint that answers each request."""

_PREFIX = "msgbatch_"
_CHUNK = 64 * 1024


class BatchedMessage(msgspec.Struct):
    """One request; `params` are the body of a message, checked when it runs."""

    custom_id: Annotated[str, Meta(pattern="^[a-zA-Z0-9_-]{1,64}$")]
    params: msgspec.Raw


class MessageBatchRequest(msgspec.Struct):
    """The body of `POST /v1/messages/batches`."""

    field_policy: ClassVar[FieldPolicy] = MESSAGE_BATCH_FIELDS

    requests: Annotated[list[BatchedMessage], Meta(min_length=1, max_length=MAX_LINES)]


class MessageBatchCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The requests by their results, of which there are none before the batch has ended."""

    processing: int = 0
    succeeded: int = 0
    errored: int = 0
    canceled: int = 0
    expired: int = 0


class MessageBatchObject(msgspec.Struct, frozen=True, kw_only=True):
    """A batch."""

    id: str
    type: Literal["message_batch"] = "message_batch"
    processing_status: Literal["in_progress", "canceling", "ended"]
    request_counts: MessageBatchCounts
    created_at: str
    expires_at: str
    ended_at: str | None
    cancel_initiated_at: str | None
    archived_at: None = None
    results_url: str | None


class MessageBatchDeleted(msgspec.Struct, frozen=True, kw_only=True):
    """The batch is gone, with its results."""

    id: str
    type: Literal["message_batch_deleted"] = "message_batch_deleted"


class SucceededResult(msgspec.Struct, frozen=True, tag_field="type", tag="succeeded"):
    """The answer."""

    message: MessageObject | msgspec.Raw


class ErroredResult(msgspec.Struct, frozen=True, tag_field="type", tag="errored"):
    """The error that the request would have got on its own."""

    error: AnthropicError | msgspec.Raw


class CanceledResult(msgspec.Struct, frozen=True, tag_field="type", tag="canceled"):
    """The batch was cancelled before the request ran."""


class ExpiredResult(msgspec.Struct, frozen=True, tag_field="type", tag="expired"):
    """The batch expired before the request ran."""


class MessageBatchResult(msgspec.Struct, frozen=True):
    """One line of the results."""

    custom_id: str
    result: SucceededResult | ErroredResult | CanceledResult | ExpiredResult


class _Response(msgspec.Struct):
    status_code: int
    body: msgspec.Raw


class _Line(msgspec.Struct):
    """One line of a result file; see `ResultLine`."""

    custom_id: str
    response: _Response | None = None
    error: ResultError | None = None


_route = partial(route, error_format=ANTHROPIC)


class MessageBatchesApi:
    """The routes under `/v1/messages/batches`."""

    def __init__(self, services: Services) -> None:
        self._batches = services.batches

    @_route(
        "POST",
        "/v1/messages/batches",
        access=FILES_UNRESTRICTED,
        errors=(404, 408, 409, 413, 503, 507),
    )
    async def create(self, request: Request, body: MessageBatchRequest) -> MessageBatchObject:
        """Create a batch of requests, each of which is answered as a message."""
        refuse_private(request)
        input_id = await asyncio.to_thread(self._keep, body.requests)
        try:
            record = await self._batches.create(
                endpoint=MESSAGES,
                input_file_id=input_id,
                completion_window="24h",
                kind="msgbatch",
                total=len(body.requests),
            )
        except BaseException:
            await asyncio.to_thread(self._batches.files.delete, input_id)
            raise
        return _described(record, request)

    @_route("GET", "/v1/messages/batches", access=FILES, parameters=PAGING)
    async def list(self, request: Request) -> AnthropicPage[MessageBatchObject]:
        """The batches, the newest first."""
        records = await self._batches.list()
        own = [_described(each, request) for each in records if each.kind == "msgbatch"]
        return anthropic_page(own, request)

    @_route("GET", "/v1/messages/batches/{batch_id}", access=FILES, errors=(404,))
    async def get(self, request: Request, batch_id: str) -> MessageBatchObject:
        """One batch."""
        return _described(await self._find(batch_id), request)

    @_route(
        "GET",
        "/v1/messages/batches/{batch_id}/results",
        access=FILES,
        stream=StreamSpec({"": MessageBatchResult}, media_type="application/x-jsonl"),
        errors=(404,),
    )
    async def results(self, request: Request, batch_id: str) -> Response:
        """The results of a batch that has ended, in any order."""
        record = await self._find(batch_id)
        if not record.status.ended:
            raise InvalidBody(
                "The batch has no results before it has ended.", hint="Cancel it, or ask later."
            )
        paths, unanswered = await asyncio.to_thread(self._found, record)
        lines = _encoded(_results(record, paths, unanswered))
        request_stack(request).callback(lines.close)  # of a client that leaves, with their files
        return StreamingResponse(lines, media_type="application/x-jsonl")

    @_route(
        "POST",
        "/v1/messages/batches/{batch_id}/cancel",
        access=FILES_UNRESTRICTED,
        errors=(404, 409, 507),
    )
    async def cancel(self, request: Request, batch_id: str) -> MessageBatchObject:
        """Cancel a batch; its answers so far are kept."""
        record = await self._find(batch_id)
        return _described(await self._batches.cancel(record.id), request)

    @_route("DELETE", "/v1/messages/batches/{batch_id}", access=FILES, errors=(404, 409))
    async def delete(self, batch_id: str) -> MessageBatchDeleted:
        """Delete a batch that has ended, with its requests and results."""
        await self._batches.delete((await self._find(batch_id)).id)
        return MessageBatchDeleted(id=batch_id)

    async def _find(self, batch_id: str) -> BatchRecord:
        if not batch_id.startswith(_PREFIX):
            raise NotFound(
                f"There is no message batch '{batch_id[:100]}'.",
                hint="`GET /v1/messages/batches` lists all.",
            )
        return await self._batches.get(batch_id)

    def _keep(self, requests: list[BatchedMessage]) -> str:
        """Write the requests as an input file, and return its id."""
        writer = self._batches.files.begin()
        try:
            for request in requests:
                line = RequestLine(request.custom_id, "POST", MESSAGES, request.params)
                writer.write(b" ".join(msgspec.json.encode(line).splitlines()) + b"\n")
            return self._checked(writer)
        except BaseException:
            writer.discard()
            raise

    def _checked(self, writer: FileWriter) -> str:
        content = writer.finish()
        _, problems = BatchInput(content, MESSAGES).check()
        for problem in problems:
            number = (problem.line or 1) - 1
            raise InvalidBody(f"'requests[{number}]': {problem.message}", param="requests")
        return self._batches.files.commit(
            content, filename="requests.jsonl", purpose="batch", lifetime=BATCH_LIFETIME
        ).id

    def _found(self, record: BatchRecord) -> tuple[list[Path], list[str]]:
        """The files with results, and the requests without one; raises `NotFound`."""
        paths = self._batches.result_paths(record)
        if record.completed + record.failed >= record.total:
            return paths, []
        lines, _ = BatchInput(self._batches.files.path(record.input_file_id), MESSAGES).check()
        done = {line.custom_id for line in _lines(paths)}
        return paths, [line.custom_id for line in lines if line.custom_id not in done]


def _described(record: BatchRecord, request: Request) -> MessageBatchObject:
    ended = record.status.ended
    results = f"{request.url.scheme}://{request.url.netloc}{MESSAGES}/batches/{record.id}/results"
    is_canceling = record.status is BatchStatus.CANCELLING
    return MessageBatchObject(
        id=record.id,
        processing_status="ended" if ended else "canceling" if is_canceling else "in_progress",
        request_counts=_counts(record),
        created_at=date_time(record.created_at),
        expires_at=date_time(record.expires_at),
        ended_at=None if record.ended_at is None else date_time(record.ended_at),
        cancel_initiated_at=date_time(record.cancelling_at) if record.cancelling_at else None,
        results_url=results if ended else None,
    )


def _counts(record: BatchRecord) -> MessageBatchCounts:
    if not record.status.ended:
        return MessageBatchCounts(processing=record.total)
    left = record.total - record.completed - record.failed
    is_cancelled = record.status is BatchStatus.CANCELLED
    return MessageBatchCounts(
        succeeded=record.completed,
        errored=record.failed - record.expired + (0 if is_cancelled else left),
        canceled=left if is_cancelled else 0,
        expired=record.expired,
    )


def _lines(paths: Iterable[Path]) -> Iterator[_Line]:
    decoder = msgspec.json.Decoder(prepared(_Line))
    for path in paths:
        with path.open("rb") as file:
            yield from map(decoder.decode, file)


def _results(
    record: BatchRecord, paths: list[Path], unanswered: list[str]
) -> Iterator[MessageBatchResult]:
    for line in _lines(paths):
        if line.response is None:
            result = ExpiredResult()
        elif line.response.status_code == 200:
            result = SucceededResult(line.response.body)
        else:
            result = ErroredResult(line.response.body)
        yield MessageBatchResult(line.custom_id, result)
    result = CanceledResult()
    if record.status is not BatchStatus.CANCELLED:
        message = record.problems[0].message if record.problems else "The request has not run."
        problem = Problem(status=500, code="batch_failed", message=message)
        result = ErroredResult(AnthropicError.of(problem))
    yield from (MessageBatchResult(custom_id, result) for custom_id in unanswered)


def _encoded(results: Iterator[MessageBatchResult]) -> Generator[bytes]:
    """Lines of JSON, several at once."""
    encoder = msgspec.json.Encoder()
    chunk = bytearray()
    for result in results:
        chunk += encoder.encode(result) + b"\n"
        if len(chunk) >= _CHUNK:
            yield bytes(chunk)
            chunk.clear()
    yield bytes(chunk)
