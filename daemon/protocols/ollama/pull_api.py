"""Ollama's routes that fetch and send models."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from functools import partial

import msgspec
from msgspec import UNSET
from starlette.requests import Request
from starlette.responses import Response

from ingle.models.download.pull_progress import PullProgress
from ingle.models.errors import ModelNotFound

from ...errors import UnsupportedField
from ...http.error_format import OLLAMA
from ...http.json_response import JSONResponse
from ...http.request_body import read_json
from ...http.route_access import MODELS, MODELS_UNRESTRICTED
from ...http.route_spec import StreamSpec, route
from ...http.sse_writer import EventStream, EventWriter, run_until_disconnect
from ...library.pulls import Pull
from ...services import Services
from .library_types import Progress, PullRequest
from .model_names import not_found, required_name
from .ndjson import LINES, NDJSON_MEDIA

_route = partial(route, "POST", error_format=OLLAMA, request=PullRequest, response=Progress)


class OllamaPullApi:
    """`POST /api/pull` and `POST /api/push`."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._encoder = msgspec.json.Encoder()

    @_route(
        "/api/pull",
        access=MODELS,
        stream=StreamSpec({"": Progress}, only_if="`stream` is not false", media_type=NDJSON_MEDIA),
        errors=(404, 409, 413, 422, 502, 503, 507),
    )
    async def pull(self, request: Request) -> Response:
        """Download a model, or join its download, in Ollama's words."""
        body = await read_json(request, PullRequest)
        name = required_name(body.model, body.name)
        wanted = self._services.aliases.target(name) or name
        pull = self._services.pulls.join(wanted)
        entry = self._services.catalog.find(wanted)
        digest = entry.sha256 if entry is not None else None
        if body.stream is False:
            return JSONResponse(await run_until_disconnect(request.receive, _finish(name, pull)))
        return EventStream(partial(self._follow, name, pull, digest), style=LINES)

    @_route("/api/push", access=MODELS_UNRESTRICTED, errors=(413,))
    async def push(self, request: Request) -> Response:
        """Refused: there is no library of Ollama behind this daemon."""
        required = await read_json(request, PullRequest)
        required_name(required.model, required.name)
        raise UnsupportedField(
            "Models cannot be pushed from here.",
            hint="Publish the file on the Hugging Face hub.",
        )

    async def _follow(self, name: str, pull: Pull, digest: str | None, out: EventWriter) -> None:
        try:
            async for line in pull_lines(pull, digest):
                await out.send(self._encoder.encode(line) + b"\n")
        except ModelNotFound as error:
            raise not_found(name, error) from None


async def pull_lines(pull: Pull, digest: str | None) -> AsyncGenerator[Progress, None]:
    """A download as Ollama tells it, to its end; raises why there is no model.

    Nothing comes before the model was found, so that a wrong name gets its proper status.
    """
    begun = verifying = False
    async for progress in pull.follow():
        if pull.done or progress.status == "resolving":
            continue
        if not begun:
            begun = True
            yield Progress(status="pulling manifest")
        if progress.status.startswith("verif"):
            if not verifying:
                yield Progress(status="verifying sha256 digest")
            verifying = True
        elif progress.total:
            yield _layer(progress, digest)
    model = await pull.result()
    if not begun:
        yield Progress(status="pulling manifest")
    yield _layer(
        PullProgress(model=model.name, status="", received=model.size, total=model.size),
        model.sha256 or digest,
    )
    if not verifying:
        yield Progress(status="verifying sha256 digest")
    yield Progress(status="writing manifest")
    yield Progress(status="success")


def _layer(progress: PullProgress, digest: str | None) -> Progress:
    """How much is here; clients cut the digest to its first twelve digits."""
    return Progress(
        status=f"pulling {digest[:12] if digest else progress.model}",
        digest=f"sha256:{digest}" if digest else UNSET,
        total=progress.total or UNSET,
        completed=progress.received or UNSET,
    )


async def _finish(name: str, pull: Pull) -> Progress:
    try:
        await pull.result()
    except ModelNotFound as error:
        raise not_found(name, error) from None
    return Progress(status="success")
