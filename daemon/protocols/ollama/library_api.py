"""Ollama's routes for its library of models: list, show, running, copy, delete, pull, push."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from functools import partial

import msgspec
from msgspec import UNSET
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from ingle.models.download.pull_progress import PullProgress

from ...errors import InvalidBody, UnsupportedField
from ...http.bodies import NATIVE, OLLAMA, JSONResponse, read_json, run_until_disconnect
from ...http.route_access import ANY, LISTS, MODELS, MODELS_UNRESTRICTED
from ...http.route_spec import StreamSpec, route
from ...http.sse_writer import EventStream, EventWriter
from ...installed_version import installed_version
from ...library.pulls import Pull
from ...library.remove_model import remove_model
from ...load_planning.usable_context import usable_context
from ...model_process.model_run import ModelState
from ..services_api import ServicesApi
from .answers import LINES, NDJSON_MEDIA
from .model_descriptions import (
    listed,
    named_models,
    ollama_not_found,
    required_name,
    resolve_model,
    running,
    shown,
    vacate,
)
from .types import (
    CopyRequest,
    ListedModel,
    ListedModels,
    NamedModel,
    Progress,
    PullRequest,
    RunningModels,
    ShownModel,
    ShowRequest,
    Version,
)

COMPATIBLE = "0.32.1"
"""The version of Ollama whose API this is: clients refuse to talk to one that is too old."""


_route = partial(route, error_format=OLLAMA)


class OllamaLibraryApi(ServicesApi):
    """The routes that list, describe, copy, delete, pull and push models."""

    @route("GET", "/", access=ANY, error_format=NATIVE, response=str)
    async def root(self) -> Response:
        """The sentence by which Ollama's clients recognise a running server.

        The header names ingle.
        """
        return PlainTextResponse(
            "Ollama is running", headers={"server": f"ingle/{installed_version()} (not Ollama)"}
        )

    @_route("GET", "/api/version", access=ANY)
    async def version(self) -> Version:
        """The version of Ollama that this daemon is compatible with."""
        return Version(COMPATIBLE, installed_version())

    @_route("GET", "/api/tags", access=LISTS)
    async def tags(self) -> ListedModels:
        """The installed models and their aliases, in Ollama's format."""
        return ListedModels(await asyncio.to_thread(self._list))

    @_route("GET", "/api/ps", access=LISTS)
    async def ps(self) -> RunningModels:
        """The loaded models, in Ollama's format."""
        manager = self._services.manager
        runs = [manager.find(model) for model in manager.models()]
        ready = [run for run in runs if run is not None and run.state is ModelState.READY]
        facts = [await asyncio.to_thread(self._services.facts.read, run.model) for run in ready]
        rows = [running(run, found) for run, found in zip(ready, facts, strict=True)]
        return RunningModels(sorted(rows, key=lambda row: row.expires_at, reverse=True))

    @_route("POST", "/api/show", access=LISTS, errors=(404, 413, 422))
    async def show(self, request: Request, body: ShowRequest) -> ShownModel:
        """Everything about one model, in Ollama's format."""
        name = required_name(body.model, body.name)
        model = await resolve_model(self._services, name)
        facts = await asyncio.to_thread(self._services.facts.read, model)
        context = await asyncio.to_thread(usable_context, self._services, model)
        answer = shown(name, model, facts, context, verbose=bool(body.verbose))
        if request.headers.get("user-agent", "").startswith("GitHubCopilotChat/"):
            # It shows this name to users, who know the model by the requested name.
            answer.model_info["general.basename"] = name
        return answer

    @_route(
        "POST",
        "/api/copy",
        access=MODELS_UNRESTRICTED,
        response=str,
        errors=(404, 409, 413, 422, 502, 507),
    )
    async def copy(self, body: CopyRequest) -> Response:
        """Give a model another name."""
        if not body.source or not body.destination:
            raise InvalidBody("'source' and 'destination' must both name a model.", param="source")
        source = await resolve_model(self._services, body.source)
        await vacate(self._services, body.destination)
        await asyncio.to_thread(self._services.copier.copy, source, body.destination)
        return PlainTextResponse()

    @_route("DELETE", "/api/delete", access=MODELS, response=str, errors=(404, 409, 413, 422))
    async def delete(self, body: NamedModel) -> Response:
        """Unload a model and remove its files, in Ollama's format."""
        name = required_name(body.model, body.name)
        with ollama_not_found(name):
            await remove_model(self._services, name)
        return PlainTextResponse()

    @_route(
        "POST",
        "/api/pull",
        access=MODELS,
        response=Progress,
        stream=StreamSpec({"": Progress}, only_if="`stream` is not false", media_type=NDJSON_MEDIA),
        errors=(404, 409, 413, 422, 502, 503, 507),
    )
    async def pull(self, request: Request, body: PullRequest) -> Response:
        """Download a model, or join its download, in Ollama's format."""
        name = required_name(body.model, body.name)
        wanted = self._services.aliases.target(name) or name
        pull = self._services.pulls.join(wanted)
        entry = self._services.catalog.find(wanted)
        digest = entry.sha256 if entry is not None else None
        if body.stream is False:
            return JSONResponse(await run_until_disconnect(request.receive, _finish(name, pull)))
        return EventStream(partial(self._follow, name, pull, digest), style=LINES)

    @_route(
        "POST",
        "/api/push",
        request=PullRequest,
        response=Progress,
        access=MODELS_UNRESTRICTED,
        errors=(413,),
    )
    async def push(self, request: Request) -> Response:
        """Refused: there is no library of Ollama behind this daemon."""
        required = await read_json(request, PullRequest)
        required_name(required.model, required.name)
        raise UnsupportedField(
            "Models cannot be pushed from here.",
            hint="Publish the file on the Hugging Face hub.",
        )

    async def _follow(self, name: str, pull: Pull, digest: str | None, out: EventWriter) -> None:
        with ollama_not_found(name):
            async for line in pull_lines(pull, digest):
                await out.send(msgspec.json.encode(line) + b"\n")

    def _list(self) -> list[ListedModel]:
        rows = [
            listed(
                name,
                model,
                self._services.facts.read(model),
                usable_context(self._services, model),
            )
            for name, model in named_models(self._services)
        ]
        return sorted(rows, key=lambda row: row.modified_at, reverse=True)


async def pull_lines(pull: Pull, digest: str | None) -> AsyncGenerator[Progress, None]:
    """The progress of a download in Ollama's format, to its end; raises the download's error.

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
    """The progress of a file; clients cut the digest to its first twelve digits."""
    return Progress(
        status=f"pulling {digest[:12] if digest else progress.model}",
        digest=f"sha256:{digest}" if digest else UNSET,
        total=progress.total or UNSET,
        completed=progress.received or UNSET,
    )


async def _finish(name: str, pull: Pull) -> Progress:
    with ollama_not_found(name):
        await pull.result()
    return Progress(status="success")
