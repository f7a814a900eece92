"""OpenAI's batches, and the files that they read and produce."""

from __future__ import annotations

import asyncio
from functools import partial
from operator import attrgetter
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType
from starlette.requests import Request
from starlette.responses import FileResponse, Response

from ...batches.batch_record import BatchFacts, BatchProblem, BatchRecord
from ...batches.file_store import BATCH_LIFETIME, PURPOSES, FileStore, FileWriter, UploadedFile
from ...errors import InvalidBody, NotFound
from ...http.bodies import OPENAI, JSONResponse
from ...http.route_access import FILES, FILES_UNRESTRICTED
from ...http.route_spec import Parameter, route
from ...services import Services
from ..anthropic.models import is_anthropic, negotiates_error_format
from .completions.types import PromptTokensDetails
from .list_pages import Metadata, Page, page_of
from .multipart import MultipartForm, read_form


class OutputExpiresAfter(msgspec.Struct):
    """The lifetime of the output files of a batch."""

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
    """The errors of the input file."""

    object: Literal["list"] = "list"
    data: list[BatchProblem]


class RequestCounts(msgspec.Struct, frozen=True):
    """The progress of a batch."""

    total: int
    completed: int
    failed: int


class BatchOutputDetails(msgspec.Struct, frozen=True):
    """Tokens of reasoning."""

    reasoning_tokens: int


class BatchTokens(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens of all answers of a batch that has ended."""

    input_tokens: int
    input_tokens_details: PromptTokensDetails
    output_tokens: int
    output_tokens_details: BatchOutputDetails
    total_tokens: int


class BatchObject(BatchFacts, kw_only=True):
    """A batch."""

    object: Literal["batch"] = "batch"
    errors: BatchErrors | None
    request_counts: RequestCounts
    usage: BatchTokens | None


_route = partial(route, error_format=OPENAI)


class BatchesApi:
    """The routes under `/v1/batches`."""

    def __init__(self, services: Services) -> None:
        self._batches = services.batches

    @_route("POST", "/v1/batches", access=FILES_UNRESTRICTED, errors=(404, 408, 409, 413, 503, 507))
    async def create(self, body: BatchRequest) -> BatchObject:
        """Create a batch of the requests in a file."""
        lifetime = body.output_expires_after
        record = await self._batches.create(
            endpoint=body.endpoint,
            input_file_id=body.input_file_id,
            completion_window=body.completion_window,
            metadata=body.metadata,
            output_lifetime=None if lifetime is None else lifetime.seconds,
        )
        return _batch(record)

    @_route(
        "GET",
        "/v1/batches",
        access=FILES,
        parameters=(
            Parameter("limit", "query", int, "How many, 1 to 100."),
            Parameter("after", "query", str, "Only batches after the one with this id."),
        ),
    )
    async def list(self, request: Request) -> Page[BatchObject]:
        """The batches, the newest first."""
        records = await self._batches.list()
        batches = [_batch(record) for record in records if record.kind == "batch"]
        return page_of(batches, attrgetter("id"), request.query_params, most=100, usual=20)

    @_route("GET", "/v1/batches/{batch_id}", access=FILES, errors=(404,))
    async def get(self, batch_id: str) -> BatchObject:
        """One batch."""
        return _batch(await self._batches.get(batch_id))

    @_route(
        "POST", "/v1/batches/{batch_id}/cancel", access=FILES_UNRESTRICTED, errors=(404, 409, 507)
    )
    async def cancel(self, batch_id: str) -> BatchObject:
        """Cancel a batch; its answers so far are kept."""
        return _batch(await self._batches.cancel(batch_id))


def _batch(record: BatchRecord) -> BatchObject:
    same = {name: getattr(record, name) for name in BatchFacts.__struct_fields__}
    usage = record.usage
    return BatchObject(
        **same,
        errors=BatchErrors(data=record.problems) if record.problems else None,
        request_counts=RequestCounts(record.total, record.completed, record.failed),
        usage=None
        if usage is None
        else BatchTokens(
            input_tokens=usage.input_tokens,
            input_tokens_details=PromptTokensDetails(usage.cached_tokens),
            output_tokens=usage.output_tokens,
            output_tokens_details=BatchOutputDetails(usage.reasoning_tokens),
            total_tokens=usage.input_tokens + usage.output_tokens,
        ),
    )


LARGEST = 512 * 2**20
_SHORTEST_LIFE, _LONGEST_LIFE = 3600, 2592000


class FileForm(msgspec.Struct, kw_only=True):
    """The form of `POST /v1/files`."""

    file: Annotated[str, Meta(extra_json_schema={"format": "binary"})]
    purpose: str
    lifetime: str | UnsetType = msgspec.field(default=UNSET, name="expires_after[seconds]")


class FileObject(UploadedFile, frozen=True, kw_only=True):
    """A file."""

    object: Literal["file"] = "file"
    status: Literal["processed"] = "processed"
    status_details: None = None


class FileDeleted(msgspec.Struct, frozen=True, kw_only=True):
    """The file is gone."""

    id: str
    object: Literal["file"] = "file"
    deleted: bool = True


_files_route = partial(route, access=FILES, error_format=OPENAI)


class FilesApi:
    """The routes under `/v1/files`."""

    def __init__(self, services: Services) -> None:
        self._files: FileStore = services.batches.files
        self._limit = min(LARGEST, services.config.max_upload_bytes)

    @_files_route(
        "POST",
        "/v1/files",
        upload=True,
        request=FileForm,
        request_media="multipart/form-data",
        response=FileObject,
        errors=(404, 408, 413, 507),
    )
    @negotiates_error_format
    async def create(self, request: Request) -> Response:
        """Upload a file: a form with the fields `file` and `purpose`."""
        _refuse_anthropic(request)
        form = await read_form(request, self._limit, self._files.begin)
        writer = form.file
        try:
            purpose, lifetime = _purpose(form), _lifetime(form)
            if writer is None:
                raise InvalidBody("The form has no file.", param="file")
            stored = await asyncio.to_thread(
                self._keep, writer, form.filename or "file", purpose, lifetime
            )
        except BaseException:
            if writer is not None:
                writer.discard()
            raise
        return JSONResponse(_file_object(stored))

    def _keep(
        self, writer: FileWriter, filename: str, purpose: str, lifetime: int | None
    ) -> UploadedFile:
        content = writer.finish()
        return self._files.commit(content, filename=filename, purpose=purpose, lifetime=lifetime)

    @_files_route(
        "GET",
        "/v1/files",
        response=Page[FileObject],
        errors=(404,),
        parameters=(
            Parameter("purpose", "query", str, "Only those for this purpose."),
            Parameter("limit", "query", int, "How many, 1 to 10000."),
            Parameter("after", "query", str, "Only files after the one with this id."),
            Parameter("order", "query", str, "`desc`, or `asc` for the oldest first."),
        ),
    )
    @negotiates_error_format
    async def list(self, request: Request) -> Response:
        """The files, the newest first."""
        _refuse_anthropic(request)
        purpose = request.query_params.get("purpose")
        files = await asyncio.to_thread(self._files.list)
        wanted = [_file_object(stored) for stored in files if purpose in (None, stored.purpose)]
        return JSONResponse(
            page_of(wanted, attrgetter("id"), request.query_params, most=10_000, usual=10_000)
        )

    @_files_route("GET", "/v1/files/{file_id}", errors=(404,))
    async def get(self, file_id: str) -> FileObject:
        """The description of a file."""
        return _file_object(await asyncio.to_thread(self._files.get, file_id))

    @_files_route("GET", "/v1/files/{file_id}/content", response=bytes, errors=(404,))
    async def content(self, file_id: str) -> Response:
        """The content of a file."""
        path = await asyncio.to_thread(self._files.path, file_id)
        return FileResponse(path, media_type="application/octet-stream")

    @_files_route("DELETE", "/v1/files/{file_id}", errors=(404,))
    async def delete(self, file_id: str) -> FileDeleted:
        """Remove a file."""
        await asyncio.to_thread(self._files.delete, file_id)
        return FileDeleted(id=file_id)


def _refuse_anthropic(request: Request) -> None:
    """Raise `NotFound` for Anthropic's files, of which messages could use none."""
    if is_anthropic(request):
        raise NotFound(
            "Anthropic's file API is not served.", hint="Send the text within the message."
        )


def _file_object(stored: UploadedFile) -> FileObject:
    return FileObject(**msgspec.structs.asdict(stored))


def _purpose(form: MultipartForm[FileWriter]) -> str:
    purpose = form.fields.get("purpose", "")
    if purpose not in PURPOSES:
        raise InvalidBody(
            f"'purpose' must be one of {', '.join(PURPOSES)}, not {purpose[:40]!r}.",
            param="purpose",
        )
    return purpose


def _lifetime(form: MultipartForm[FileWriter]) -> int | None:
    """Seconds that the file is kept; None for ever."""
    text = form.fields.get("expires_after[seconds]")
    if text is None:
        return BATCH_LIFETIME if form.fields.get("purpose") == "batch" else None
    if text.isascii() and text.isdigit() and len(text) < 10:
        seconds = int(text)
        if _SHORTEST_LIFE <= seconds <= _LONGEST_LIFE:
            return seconds
    raise InvalidBody(
        f"'expires_after[seconds]' must be from {_SHORTEST_LIFE} to {_LONGEST_LIFE}.",
        param="expires_after",
    )
