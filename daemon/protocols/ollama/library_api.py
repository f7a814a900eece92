"""Ollama's routes for the models that are here: version, list, show, running, copy, delete."""

from __future__ import annotations

import asyncio
from functools import partial
from importlib.metadata import version

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from ingle.models.errors import ModelError, ModelNotFound
from ingle.models.store.model_copies import ModelCopier

from ...access.permission import KeyNotAllowed
from ...errors import InvalidBody
from ...http.error_format import NATIVE, OLLAMA
from ...http.json_response import JSONResponse
from ...http.request_body import read_json
from ...http.route_access import ANY, LISTS, MODELS, MODELS_UNRESTRICTED
from ...http.route_spec import route
from ...library.model_facts import FactsReader
from ...library.remove_model import remove_model
from ...model_process.model_run import ModelState
from ...services import Services
from .library_types import (
    CopyRequest,
    ListedModel,
    ListedModels,
    NamedModel,
    RunningModels,
    ShownModel,
    ShowRequest,
    Version,
)
from .model_descriptions import listed, running, shown
from .model_names import not_found, required_name, resolve_model

COMPATIBLE = "0.32.1"
"""The version of Ollama whose API this is: clients refuse to talk to one that is too old."""


_route = partial(route, error_format=OLLAMA)


class OllamaLibraryApi:
    """The routes that look at models, and the quick ones that change them."""

    def __init__(self, services: Services, facts: FactsReader, maker: ModelCopier) -> None:
        self._services = services
        self._facts = facts
        self._maker = maker
        self._version = version("ingle")

    @route("GET", "/", access=ANY, error_format=NATIVE, response=str)
    async def root(self, request: Request) -> Response:
        """The sentence by which Ollama's clients recognise a running server.

        The header says who speaks.
        """
        return PlainTextResponse(
            "Ollama is running", headers={"server": f"ingle/{self._version} (not Ollama)"}
        )

    @_route("GET", "/api/version", access=ANY, response=Version)
    async def version(self, request: Request) -> Response:
        """The version of Ollama that this daemon is compatible with."""
        return JSONResponse(Version(COMPATIBLE, self._version))

    @_route("GET", "/api/tags", access=LISTS, response=ListedModels)
    async def tags(self, request: Request) -> Response:
        """The installed models and their aliases, in Ollama's words."""
        return JSONResponse(ListedModels(await asyncio.to_thread(self._list)))

    @_route("GET", "/api/ps", access=LISTS, response=RunningModels)
    async def ps(self, request: Request) -> Response:
        """The loaded models, in Ollama's words."""
        manager = self._services.manager
        runs = [manager.find(model) for model in manager.models()]
        ready = [run for run in runs if run is not None and run.state is ModelState.READY]
        facts = [await asyncio.to_thread(self._facts.read, run.model) for run in ready]
        rows = [running(run, found) for run, found in zip(ready, facts, strict=True)]
        return JSONResponse(
            RunningModels(sorted(rows, key=lambda row: row.expires_at, reverse=True))
        )

    @_route(
        "POST",
        "/api/show",
        access=LISTS,
        request=ShowRequest,
        response=ShownModel,
        errors=(404, 413, 422),
    )
    async def show(self, request: Request) -> Response:
        """Everything about one model, in Ollama's words."""
        body = await read_json(request, ShowRequest)
        name = required_name(body.model, body.name)
        model = await resolve_model(self._services, name)
        facts = await asyncio.to_thread(self._facts.read, model)
        answer = shown(name, model, facts, verbose=bool(body.verbose))
        if request.headers.get("user-agent", "").startswith("GitHubCopilotChat/"):
            # It shows this to people, who know the model by the name they asked for.
            answer.model_info["general.basename"] = name
        return JSONResponse(answer)

    @_route(
        "POST",
        "/api/copy",
        access=MODELS_UNRESTRICTED,
        request=CopyRequest,
        response=str,
        errors=(404, 409, 413, 422, 502, 507),
    )
    async def copy(self, request: Request) -> Response:
        """Give a model another name."""
        body = await read_json(request, CopyRequest)
        if not body.source or not body.destination:
            raise InvalidBody("'source' and 'destination' must both name a model.", param="source")
        source = await resolve_model(self._services, body.source)
        await self.vacate(body.destination)
        await asyncio.to_thread(self._maker.copy, source, body.destination)
        return PlainTextResponse()

    @_route(
        "DELETE",
        "/api/delete",
        access=MODELS,
        request=NamedModel,
        response=str,
        errors=(404, 409, 413, 422),
    )
    async def delete(self, request: Request) -> Response:
        """Unload a model and remove its files, in Ollama's words."""
        body = await read_json(request, NamedModel)
        name = required_name(body.model, body.name)
        try:
            await remove_model(self._services, name)
        except ModelNotFound as error:
            raise not_found(name, error) from None
        return PlainTextResponse()

    async def vacate(self, name: str) -> None:
        """Unload the model that is about to be replaced; raises `UnusableName`."""
        full_name = self._maker.free_name(name)
        try:
            await self._services.manager.unload(full_name)
        except ModelError:
            return  # there is none yet

    def _list(self) -> list[ListedModel]:
        services = self._services
        named = [(model.name, model) for model in services.models()]
        for alias, _ in services.aliases.entries():
            try:
                named.append((alias, services.resolve(alias)))
            except (ModelError, KeyNotAllowed):
                continue  # it leads to a model that is not installed, or is not for this key
        rows = [listed(name, model, self._facts.read(model)) for name, model in named]
        return sorted(rows, key=lambda row: row.modified_at, reverse=True)
