"""OpenAI's batches: files of requests, answered when nobody else waits."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from ...batches.batch_record import BatchRecord, BatchStatus, BatchUsage
from ...http.error_format import OPENAI
from ...http.json_response import JSONResponse
from ...http.request_body import read_json
from ...http.route_access import FILES, FILES_UNRESTRICTED
from ...http.route_spec import Parameter, route
from ...services import Services
from .list_pages import page_of
from .metadata import Metadata


class OutputExpiresAfter(msgspec.Struct):
    """How long the files stay that a batch leaves."""

    anchor: Literal["created_at"]
    seconds: Annotated[int, Meta(ge=3600, le=2592000)]


class BatchRequest(msgspec.Struct, kw_only=True):
    """The body of `POST /v1/batches`."""

    input_file_id: str
    endpoint: str
    completion_window: Literal["24h"] = "24h"
    metadata: Metadata | None = None
    output_expires_after: OutputExpiresAfter | None = None


class BatchErrorData(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong with one line of the input file."""

    code: str
    message: str
    param: str | None
    line: int | None


class BatchErrors(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong with the input file."""

    object: Literal["list"] = "list"
    data: list[BatchErrorData]


class RequestCounts(msgspec.Struct, frozen=True):
    """How far a batch is."""

    total: int
    completed: int
    failed: int


class InputTokensDetails(msgspec.Struct, frozen=True):
    """Tokens found in the KV cache."""

    cached_tokens: int


class OutputTokensDetails(msgspec.Struct, frozen=True):
    """Tokens of thought."""

    reasoning_tokens: int


class BatchTokens(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens of all answers of a batch that has ended."""

    input_tokens: int
    input_tokens_details: InputTokensDetails
    output_tokens: int
    output_tokens_details: OutputTokensDetails
    total_tokens: int


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """A batch; times are Unix seconds."""

    id: str
    object: Literal["batch"] = "batch"
    endpoint: str
    model: str | None
    errors: BatchErrors | None
    input_file_id: str
    completion_window: str
    status: BatchStatus
    output_file_id: str | None
    error_file_id: str | None
    created_at: int
    in_progress_at: int | None
    expires_at: int
    finalizing_at: int | None
    completed_at: int | None
    failed_at: int | None
    expired_at: int | None
    cancelling_at: int | None
    cancelled_at: int | None
    request_counts: RequestCounts
    usage: BatchTokens | None
    metadata: dict[str, str] | None


class BatchList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of batches."""

    object: Literal["list"] = "list"
    data: list[Batch]
    first_id: str | None
    last_id: str | None
    has_more: bool


_route = partial(route, error_format=OPENAI)


class BatchesApi:
    """The routes under `/v1/batches`."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._batches = services.batches

    @_route(
        "POST",
        "/v1/batches",
        access=FILES_UNRESTRICTED,
        request=BatchRequest,
        response=Batch,
        errors=(404, 408, 409, 413, 503, 507),
    )
    async def create(self, request: Request) -> Response:
        """Have the requests in a file answered."""
        body = await read_json(request, BatchRequest)
        lifetime = body.output_expires_after
        record = await self._batches.create(
            endpoint=body.endpoint,
            input_file_id=body.input_file_id,
            completion_window=body.completion_window,
            metadata=body.metadata,
            output_lifetime=None if lifetime is None else lifetime.seconds,
        )
        return JSONResponse(_batch(record))

    @_route(
        "GET",
        "/v1/batches",
        access=FILES,
        response=BatchList,
        parameters=(
            Parameter("limit", "query", int, "How many, 1 to 100."),
            Parameter("after", "query", str, "Those behind the batch with this id."),
        ),
    )
    async def list(self, request: Request) -> Response:
        """The batches, the newest first."""
        batches = [_batch(record) for record in await self._batches.list()]
        page, has_more = page_of(batches, request.query_params, most=100, usual=20)
        return JSONResponse(
            BatchList(
                data=page,
                first_id=page[0].id if page else None,
                last_id=page[-1].id if page else None,
                has_more=has_more,
            )
        )

    @_route("GET", "/v1/batches/{batch_id}", access=FILES, response=Batch, errors=(404,))
    async def get(self, request: Request) -> Response:
        """One batch."""
        return JSONResponse(_batch(await self._batches.get(request.path_params["batch_id"])))

    @_route(
        "POST",
        "/v1/batches/{batch_id}/cancel",
        access=FILES_UNRESTRICTED,
        response=Batch,
        errors=(404, 409, 507),
    )
    async def cancel(self, request: Request) -> Response:
        """End a batch; what is answered stays."""
        return JSONResponse(_batch(await self._batches.cancel(request.path_params["batch_id"])))


def _batch(record: BatchRecord) -> Batch:
    problems = [
        BatchErrorData(code=p.code, message=p.message, param=p.param, line=p.line)
        for p in record.problems
    ]
    return Batch(
        id=record.id,
        endpoint=record.endpoint,
        model=record.model,
        errors=BatchErrors(data=problems) if problems else None,
        input_file_id=record.input_file_id,
        completion_window=record.completion_window,
        status=record.status,
        output_file_id=record.output_file_id,
        error_file_id=record.error_file_id,
        created_at=record.created_at,
        in_progress_at=record.in_progress_at,
        expires_at=record.expires_at,
        finalizing_at=record.finalizing_at,
        completed_at=record.completed_at,
        failed_at=record.failed_at,
        expired_at=record.expired_at,
        cancelling_at=record.cancelling_at,
        cancelled_at=record.cancelled_at,
        request_counts=RequestCounts(record.total, record.completed, record.failed),
        usage=None if record.usage is None else _tokens(record.usage),
        metadata=record.metadata,
    )


def _tokens(usage: BatchUsage) -> BatchTokens:
    return BatchTokens(
        input_tokens=usage.input_tokens,
        input_tokens_details=InputTokensDetails(usage.cached_tokens),
        output_tokens=usage.output_tokens,
        output_tokens_details=OutputTokensDetails(usage.reasoning_tokens),
        total_tokens=usage.input_tokens + usage.output_tokens,
    )
