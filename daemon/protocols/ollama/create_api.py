"""Ollama's routes that create models from uploaded files or from other models."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import msgspec
from msgspec import structs
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from ingle.backends.base.conversation import ChatMessage
from ingle.backends.base.sampling_params import SAMPLING_OPTIONS
from ingle.backends.text.templates.template_errors import TemplateError, TemplateRefused
from ingle.models.errors import HashMismatch
from ingle.models.metadata.stored_model import FirstMessage, StoredModel
from ingle.models.store.blob_folder import BlobWriter
from ingle.models.store.model_copies import ModelOverrides

from ...errors import InvalidBody, NotFound, UnsupportedField
from ...http.bodies import OLLAMA, JSONResponse, read_chunks, run_until_disconnect
from ...http.route_access import MODELS_UNRESTRICTED
from ...http.route_spec import StreamSpec, route
from ...http.sse_writer import EventStream, EventWriter
from ..services_api import ServicesApi
from .answers import LINES, NDJSON_MEDIA
from .messages import chat_messages
from .model_descriptions import INSERT_NOTE, required_name, resolve_model, vacate
from .requests import model_options
from .types import CreateRequest, Progress

_PIECE = 4 * 2**20
_GO = re.compile(r"\{\{-?\s*(?:[.$]|(?:if|range|with|end|else|template|define|block)\b)")
"""An action of Go's templates that Jinja does not have."""

_route = partial(route, access=MODELS_UNRESTRICTED, error_format=OLLAMA)


class OllamaCreateApi(ServicesApi):
    """`POST /api/create` and the uploads for it."""

    @_route(
        "POST",
        "/api/create",
        response=Progress,
        stream=StreamSpec({"": Progress}, only_if="`stream` is not false", media_type=NDJSON_MEDIA),
        errors=(404, 409, 413, 422, 502, 507),
    )
    async def create(self, request: Request, body: CreateRequest) -> Response:
        """Make a model of another one or of an uploaded file."""
        name = required_name(body.model, body.name)
        _refuse(body)
        self._services.copier.free_name(name)
        make = await self._plan(body, name)
        if body.stream is False:
            await run_until_disconnect(request.receive, make(None))
            return JSONResponse(Progress(status="success"))

        async def produce(out: EventWriter) -> None:
            await make(out)

        return EventStream(produce, style=LINES)

    @_route("HEAD", "/api/blobs/{digest}", response=str, errors=(404,))
    async def has_blob(self, digest: str) -> Response:
        """Whether a file with this digest is here."""
        if await asyncio.to_thread(self._services.copier.find, digest) is None:
            raise NotFound(f"blob {digest[:80]!r} not found")
        return PlainTextResponse()

    @_route(
        "POST", "/api/blobs/{digest}", upload=True, response=str, status=201, errors=(408, 413, 507)
    )
    async def receive_blob(self, request: Request, digest: str) -> Response:
        """Upload a file with this digest.

        The file is written to disk as it arrives.
        """
        if await asyncio.to_thread(self._services.copier.find, digest) is not None:
            return PlainTextResponse(status_code=201)
        length = request.headers.get("content-length")
        with self._services.copier.blobs.receive(digest, int(length) if length else None) as writer:
            await self._receive(request, writer)
            try:
                await asyncio.to_thread(writer.finish)
            except HashMismatch as error:
                raise InvalidBody(error.message, hint=error.hint, code=error.code) from None
        return PlainTextResponse(status_code=201)

    async def _receive(self, request: Request, writer: BlobWriter) -> None:
        limit = self._services.config.max_upload_bytes
        waiting: list[bytes] = []
        size = 0
        async for chunk in read_chunks(request, limit, setting="max_upload_bytes"):
            waiting.append(chunk)
            size += len(chunk)
            if size >= _PIECE:
                await asyncio.to_thread(writer.write, b"".join(waiting))
                waiting, size = [], 0
        await asyncio.to_thread(writer.write, b"".join(waiting))

    async def _plan(
        self, body: CreateRequest, name: str
    ) -> Callable[[EventWriter | None], Awaitable[None]]:
        """Validate a request; return a function that creates the model and reports each step."""
        source: StoredModel | None = None
        digest = ""
        template: str | None = body.template or None
        if body.from_:
            source = await resolve_model(self._services, body.from_)
            facts = await asyncio.to_thread(self._services.facts.read, source)
            template = _own_template(template, facts.template)
        elif body.files:
            digest = _only_file(body.files)
            if await asyncio.to_thread(self._services.copier.find, digest) is None:
                raise NotFound(f"blob {digest[:80]!r} not found", hint="Upload it first.")
        else:
            raise InvalidBody("neither 'from' or 'files' was specified", param="from")
        template = _own_template(template, "")
        if template is not None:
            await asyncio.to_thread(_check_template, template)
        changes = _changes(body, template)

        async def make(out: EventWriter | None) -> None:
            await _tell(out, "parsing GGUF" if source is None else "using existing layer")
            await vacate(self._services, name)
            if source is not None:
                await asyncio.to_thread(self._services.copier.copy, source, name, changes)
            else:
                await asyncio.to_thread(self._services.copier.from_blob, digest, name, changes)
            await _tell(out, "writing manifest")
            await _tell(out, "success")

        return make


async def _tell(out: EventWriter | None, status: str) -> None:
    if out is not None:
        await out.send(msgspec.json.encode(Progress(status=status)) + b"\n")


def _refuse(body: CreateRequest) -> None:
    if body.quantize or body.quantization:
        raise UnsupportedField(
            "'quantize' is not supported yet: weights stay as they are in the file.",
            hint="Leave it out, and start from a file that is quantised.",
            param="quantize",
        )
    if body.adapters:
        raise UnsupportedField(
            "A model is not created with 'adapters'.",
            hint="`ingle adapter add MODEL PATH NAME` adds one, used as the model MODEL+NAME.",
            param="adapters",
        )


def _only_file(files: dict[str, str]) -> str:
    if len(files) != 1:
        raise UnsupportedField(
            f"'files' names {len(files)} files, and a model is made of one GGUF file.",
            hint="Convert or merge them first.",
            param="files",
        )
    (digest,) = files.values()
    return digest


def _own_template(wanted: str | None, present: str) -> str | None:
    """The template to store with a model; raises `UnsupportedField` for one in Go's language.

    None if it is the one that `POST /api/show` returned.
    """
    if wanted is None:
        return None
    template = wanted.removeprefix(INSERT_NOTE)
    if template in ("", present):
        return None
    if _GO.search(template):
        raise UnsupportedField(
            "'template' is written in Go's language, and templates here are Jinja.",
            hint="Leave it out: the model's own is used.",
            param="template",
        )
    return template


def _check_template(source: str) -> None:
    """Raise `InvalidBody` for a template that cannot write a plain message."""
    from ingle.backends.text.templates.chat_template import ChatTemplate

    template = ChatTemplate(source, bos_token="", eos_token="")
    try:
        template.render([ChatMessage("user", "Hi")])
    except TemplateError as error:
        raise InvalidBody(
            f"'template' does not work. {error.message.rstrip('.')}.",
            hint="Correct it, or leave it out: the model's own is used.",
            param="template",
        ) from error
    except TemplateRefused:
        return  # it wants other messages
    finally:
        template.close()


def _changes(body: CreateRequest, template: str | None) -> ModelOverrides:
    options = {k: v for k, v in (body.parameters or {}).items() if v is not None}
    sampling = model_options(options).sampling
    values: dict[str, Any] = structs.asdict(sampling)
    licence = body.license
    messages: list[FirstMessage] | None = None
    if body.messages is not None:
        messages = [FirstMessage(m.role, m.content) for m in chat_messages(body.messages)]
    return ModelOverrides(
        system=body.system,
        messages=messages,
        options=options,
        sampling={field: values[field] for field in SAMPLING_OPTIONS if values[field] is not None},
        licence="\n".join(licence) if isinstance(licence, list) else licence,
        chat_template=template,
    )
