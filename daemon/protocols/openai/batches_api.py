"""OpenAI's batches: files of requests that run when no interactive request waits."""

from __future__ import annotations

from functools import partial
from operator import attrgetter
from typing import Annotated, Literal

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from ...batches.batch_record import BatchProblem, BatchRecord, BatchStatus
from ...http.error_format import OPENAI
from ...http.json_response import JSONResponse
from ...http.request_body import read_json
from ...http.route_access import FILES, FILES_UNRESTRICTED
from ...http.route_spec import Parameter, route
from ...services import Services
from .list_pages import Metadata, Page, page_of


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


class BatchErrors(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong with the input file."""

    object: Literal["list"] = "list"
    data: list[BatchProblem]


class RequestCounts(msgspec.Struct, frozen=True):
    """How far a batch is."""

    total: int
    completed: int
    failed: int


class BatchInputDetails(msgspec.Struct, frozen=True):
    """Tokens found in the KV cache."""

    cached_tokens: int


class BatchOutputDetails(msgspec.Struct, frozen=True):
    """Tokens of reasoning."""

    reasoning_tokens: int


class BatchTokens(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens of all answers of a batch that has ended."""

    input_tokens: int
    input_tokens_details: BatchInputDetails
    output_tokens: int
    output_tokens_details: BatchOutputDetails
    total_tokens: int


class BatchObject(msgspec.Struct, frozen=True, kw_only=True):
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


_SAME_FIELDS = {*BatchRecord.__struct_fields__} & {*BatchObject.__struct_fields__} - {"usage"}

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
        response=BatchObject,
        errors=(404, 408, 409, 413, 503, 507),
    )
    async def create(self, request: Request) -> Response:
        """Create a batch of the requests in a file."""
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
        response=Page[BatchObject],
        parameters=(
            Parameter("limit", "query", int, "How many, 1 to 100."),
            Parameter("after", "query", str, "Those behind the batch with this id."),
        ),
    )
    async def list(self, request: Request) -> Response:
        """The batches, the newest first."""
        batches = [_batch(record) for record in await self._batches.list()]
        page = page_of(batches, attrgetter("id"), request.query_params, most=100, usual=20)
        return JSONResponse(page)

    @_route("GET", "/v1/batches/{batch_id}", access=FILES, response=BatchObject, errors=(404,))
    async def get(self, request: Request) -> Response:
        """One batch."""
        return JSONResponse(_batch(await self._batches.get(request.path_params["batch_id"])))

    @_route(
        "POST",
        "/v1/batches/{batch_id}/cancel",
        access=FILES_UNRESTRICTED,
        response=BatchObject,
        errors=(404, 409, 507),
    )
    async def cancel(self, request: Request) -> Response:
        """End a batch; what is answered stays."""
        return JSONResponse(_batch(await self._batches.cancel(request.path_params["batch_id"])))


def _batch(record: BatchRecord) -> BatchObject:
    same = {name: getattr(record, name) for name in _SAME_FIELDS}
    usage = record.usage
    return BatchObject(
        **same,
        errors=BatchErrors(data=record.problems) if record.problems else None,
        request_counts=RequestCounts(record.total, record.completed, record.failed),
        usage=None
        if usage is None
        else BatchTokens(
            input_tokens=usage.input_tokens,
            input_tokens_details=BatchInputDetails(usage.cached_tokens),
            output_tokens=usage.output_tokens,
            output_tokens_details=BatchOutputDetails(usage.reasoning_tokens),
            total_tokens=usage.input_tokens + usage.output_tokens,
        ),
    )
