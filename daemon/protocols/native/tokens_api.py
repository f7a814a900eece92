"""`POST /ingle/v1/tokens`: how many tokens a conversation takes, message by message."""

from __future__ import annotations

import asyncio
import secrets

from starlette.requests import Request
from starlette.responses import Response

from ingle.backends.base.errors import WrongTask
from ingle.backends.base.requests import TokenizeRequest
from ingle.models.model_task import ModelTask

from ...client.generation_types import TokenCounts
from ...errors import Conflict
from ...http.error_format import NATIVE
from ...http.json_response import JSONResponse
from ...http.request_body import read_json
from ...http.route_access import INFERENCE
from ...http.route_spec import route
from ...http.sse_writer import run_until_disconnect
from ...services import Services
from .requests import conversation_request
from .types import TokensRequest


class TokensApi:
    """The one route that counts."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @route(
        "POST",
        "/ingle/v1/tokens",
        access=INFERENCE,
        error_format=NATIVE,
        request=TokensRequest,
        response=TokenCounts,
        errors=(404, 409, 413, 422, 429, 500, 503, 507),
    )
    async def count(self, request: Request) -> Response:
        """How many tokens a conversation takes, message by message."""
        body = await read_json(request, TokensRequest)
        return JSONResponse(await run_until_disconnect(request.receive, self._count(body)))

    async def _count(self, body: TokensRequest) -> TokenCounts:
        services = self._services
        reference = body.model or services.config.default_model
        asked = TokenizeRequest(
            id=f"tokens-{secrets.token_hex(12)}",
            generate=conversation_request(body),
            divided=True,
        )
        model = await asyncio.to_thread(services.resolve, reference)
        if model.task is not ModelTask.GENERATE:
            raise WrongTask(model.task, ModelTask.GENERATE, name=model.name)
        run = services.manager.find(model)
        if not body.load and (run is None or not run.accepts):
            raise Conflict(
                f"The model '{model.name}' is not loaded.",
                hint='Load it first, or ask with "load": true.',
                code="model_not_loaded",
            )
        async with services.manager.lease(reference) as lease:
            told = await lease.backend.tokenize(asked)
            counts, rest = told.message_tokens, told.rest_tokens
            return TokenCounts(sum(counts) + rest, counts, rest, lease.info.context)
