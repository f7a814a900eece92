"""OpenAI's files: what batches read, and what they leave."""

from __future__ import annotations

import asyncio
from functools import partial
from operator import attrgetter
from typing import Annotated, Literal, cast

import msgspec
from msgspec import UNSET, Meta, UnsetType
from starlette.requests import Request
from starlette.responses import FileResponse, Response

from ...batches.file_store import BATCH_LIFETIME, PURPOSES, FileStore, FileWriter, UploadedFile
from ...errors import InvalidBody
from ...http.error_format import OPENAI
from ...http.json_response import JSONResponse
from ...http.multipart import MultipartForm, read_form
from ...http.route_access import FILES
from ...http.route_spec import Parameter, route
from ...services import Services
from .list_pages import Page, page_of

LARGEST = 512 * 2**20
_SHORTEST_LIFE, _LONGEST_LIFE = 3600, 2592000


class FileForm(msgspec.Struct, kw_only=True):
    """The form of `POST /v1/files`."""

    file: Annotated[str, Meta(extra_json_schema={"format": "binary"})]
    purpose: str
    lifetime: str | UnsetType = msgspec.field(default=UNSET, name="expires_after[seconds]")


class FileObject(msgspec.Struct, frozen=True, kw_only=True):
    """A file; times are Unix seconds."""

    id: str
    object: Literal["file"] = "file"
    bytes: int
    created_at: int
    expires_at: int | None
    filename: str
    purpose: str
    status: Literal["processed"] = "processed"
    status_details: None = None


class FileDeleted(msgspec.Struct, frozen=True, kw_only=True):
    """The file is gone."""

    id: str
    object: Literal["file"] = "file"
    deleted: bool = True


_route = partial(route, access=FILES, error_format=OPENAI)


class FilesApi:
    """The routes under `/v1/files`."""

    def __init__(self, services: Services) -> None:
        self._files: FileStore = services.batches.files
        self._limit = min(LARGEST, services.config.max_upload_bytes)

    @_route(
        "POST",
        "/v1/files",
        upload=True,
        request=FileForm,
        request_media="multipart/form-data",
        response=FileObject,
        errors=(408, 413, 507),
    )
    async def create(self, request: Request) -> Response:
        """Leave a file: a form with the fields `file` and `purpose`."""
        form = await read_form(request, self._limit, self._files.begin)
        writer = cast("FileWriter | None", form.file)
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

    @_route(
        "GET",
        "/v1/files",
        response=Page[FileObject],
        parameters=(
            Parameter("purpose", "query", str, "Only those for this purpose."),
            Parameter("limit", "query", int, "How many, 1 to 10000."),
            Parameter("after", "query", str, "Those behind the file with this id."),
            Parameter("order", "query", str, "`desc`, or `asc` for the oldest first."),
        ),
    )
    async def list(self, request: Request) -> Response:
        """The files, the newest first."""
        purpose = request.query_params.get("purpose")
        files = await asyncio.to_thread(self._files.list)
        wanted = [_file_object(stored) for stored in files if purpose in (None, stored.purpose)]
        page = page_of(wanted, attrgetter("id"), request.query_params, most=10_000, usual=10_000)
        return JSONResponse(page)

    @_route("GET", "/v1/files/{file_id}", response=FileObject, errors=(404,))
    async def get(self, request: Request) -> Response:
        """One file's facts."""
        return JSONResponse(
            _file_object(await asyncio.to_thread(self._files.get, request.path_params["file_id"]))
        )

    @_route("GET", "/v1/files/{file_id}/content", response=bytes, errors=(404,))
    async def content(self, request: Request) -> Response:
        """A file's content."""
        path = await asyncio.to_thread(self._files.path, request.path_params["file_id"])
        return FileResponse(path, media_type="application/octet-stream")

    @_route("DELETE", "/v1/files/{file_id}", response=FileDeleted, errors=(404,))
    async def delete(self, request: Request) -> Response:
        """Remove a file."""
        file_id: str = request.path_params["file_id"]
        await asyncio.to_thread(self._files.delete, file_id)
        return JSONResponse(FileDeleted(id=file_id))


def _file_object(stored: UploadedFile) -> FileObject:
    return msgspec.convert(stored, FileObject, from_attributes=True)


def _purpose(form: MultipartForm) -> str:
    purpose = form.fields.get("purpose", "")
    if purpose not in PURPOSES:
        raise InvalidBody(
            f"'purpose' must be one of {', '.join(PURPOSES)}, not {purpose[:40]!r}.",
            param="purpose",
        )
    return purpose


def _lifetime(form: MultipartForm) -> int | None:
    """Seconds the file stays; None for ever."""
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
