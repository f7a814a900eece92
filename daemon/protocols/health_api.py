"""Whether the daemon lives, and whether a model really answers."""

from __future__ import annotations

import time
from contextlib import aclosing
from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from ingle.backends.base.backend import RequestBackend
from ingle.backends.base.errors import BackendError
from ingle.backends.base.events import Finished
from ingle.backends.base.requests import EmbedRequest, GenerateRequest, RerankRequest
from ingle.backends.base.sampling_params import SamplingParams
from ingle.models.model_task import ModelTask

from ..generations.generation_registry import new_generation_id
from ..http.error_format import NATIVE
from ..http.json_response import JSONResponse
from ..http.route_access import ANY, INFERENCE
from ..http.route_spec import Parameter, route
from ..http.sse_writer import run_until_disconnect
from ..services import Services
from .native.types import Health, Readiness

_route = partial(route, "GET", error_format=NATIVE)


class HealthApi:
    """`/health` and `/health/ready`."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @_route("/health", access=ANY, response=Health)
    async def health(self, request: Request) -> Response:
        """The daemon answers."""
        return JSONResponse(Health())

    @_route(
        "/health/ready",
        access=INFERENCE,
        response=Readiness,
        parameters=(Parameter("model", "query", str, "The model; left out, the default one."),),
        errors=(404, 422, 429, 500, 503, 507),
    )
    async def ready(self, request: Request) -> Response:
        """Load a model, and answer once it has produced something."""
        model = request.query_params.get("model") or self._services.config.default_model
        return JSONResponse(await run_until_disconnect(request.receive, self._probe(model)))

    async def _probe(self, reference: str) -> Readiness:
        start = time.monotonic()
        async with self._services.manager.lease(reference, task=None) as lease:
            name = lease.model.name
            if not await _answers(lease.backend, lease.model.task):
                raise BackendError(f"The model '{name}' is loaded, but produces nothing.")
        return Readiness("ready", name, time.monotonic() - start)


async def _answers(backend: RequestBackend, task: ModelTask) -> bool:
    """Whether the model does the least of what it is for."""
    probe_id = new_generation_id()
    if task is ModelTask.EMBED:
        return bool((await backend.embed(EmbedRequest(id=probe_id, inputs=["Hello"]))).vectors)
    if task is ModelTask.RERANK:
        asked = RerankRequest(id=probe_id, query="Hello", documents=["Hello"])
        return bool((await backend.rerank(asked)).scores)
    # The end-of-sequence token is ignored, so that a token comes out in any case.
    probe = GenerateRequest(
        id=probe_id,
        prompt="Hello",
        sampling=SamplingParams(temperature=0.0),
        max_tokens=1,
        ignore_eos=True,
    )
    async with aclosing(backend.generate(probe)) as events:
        return any([e.completion_tokens async for e in events if isinstance(e, Finished)])
