"""Ollama's routes that turn texts into vectors."""

from __future__ import annotations

import secrets
import time
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from ingle.backends.base.requests import EmbedRequest
from ingle.models.model_task import ModelTask

from ...errors import InvalidBody
from ...http.error_format import OLLAMA
from ...http.json_response import JSONResponse
from ...http.request_body import read_json
from ...http.route_access import INFERENCE
from ...http.route_spec import GENERATION_ERRORS, route
from ...http.sse_writer import run_until_disconnect
from ...services import Services
from ..vector_rows import vector_rows
from .answers import NANOSECONDS
from .keep_alive import keep_alive_seconds
from .model_names import required_name, resolve_model
from .options import model_options
from .types import EmbedBody, Embeddings, KeepAlive, OldEmbedBody, OldEmbedding

MAX_INPUTS = 2048


_route = partial(route, "POST", access=INFERENCE, error_format=OLLAMA, errors=GENERATION_ERRORS)


class OllamaEmbedApi:
    """`POST /api/embed` and `POST /api/embeddings`."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @_route("/api/embed", request=EmbedBody, response=Embeddings)
    async def embed(self, request: Request) -> Response:
        """Turn texts into vectors, in Ollama's words."""
        began = time.monotonic()
        body = await read_json(request, EmbedBody)
        name = required_name(body.model)
        texts = _texts(body.input)
        model_options(body.options)
        vectors = self._vectors(
            name,
            texts,
            truncate=body.truncate is not False,
            dimensions=body.dimensions or None,
            keep_alive=body.keep_alive,
        )
        rows, tokens, load_seconds = await run_until_disconnect(request.receive, vectors)
        return JSONResponse(
            Embeddings(
                model=name,
                embeddings=rows,
                total_duration=round((time.monotonic() - began) * NANOSECONDS),
                load_duration=round(load_seconds * NANOSECONDS),
                prompt_eval_count=tokens,
            )
        )

    @_route("/api/embeddings", request=OldEmbedBody, response=OldEmbedding)
    async def embeddings(self, request: Request) -> Response:
        """Turn one text into a vector, as Ollama's older clients ask."""
        body = await read_json(request, OldEmbedBody)
        name = required_name(body.model)
        model_options(body.options)
        vectors = self._vectors(
            name, _texts(body.prompt), truncate=True, dimensions=None, keep_alive=body.keep_alive
        )
        rows, _, _ = await run_until_disconnect(request.receive, vectors)
        return JSONResponse(OldEmbedding(rows[0] if rows else []))

    async def _vectors(
        self,
        name: str,
        texts: list[str],
        *,
        truncate: bool,
        dimensions: int | None,
        keep_alive: KeepAlive | None,
    ) -> tuple[list[Any], int, float]:
        """The vectors as ready-made JSON, the tokens of all texts, and seconds of loading."""
        seconds = keep_alive_seconds(keep_alive)
        await resolve_model(self._services, name)
        began = time.monotonic()
        async with self._services.manager.lease(
            name, task=ModelTask.EMBED, keep_alive=seconds
        ) as lease:
            load_seconds = time.monotonic() - began
            if not texts:  # to ask for nothing loads the model
                return [], 0, load_seconds
            shorter = dimensions if dimensions and dimensions < lease.info.dimensions else None
            embedded = await lease.backend.embed(
                EmbedRequest(
                    id=f"embd-{secrets.token_hex(12)}",
                    inputs=list(texts),
                    dimensions=shorter,
                    truncate=truncate,
                )
            )
        return await vector_rows(embedded), embedded.prompt_tokens, load_seconds


def _texts(given: str | list[str] | None) -> list[str]:
    """The texts; raises `InvalidBody`."""
    if not given:
        return []
    texts = [given] if isinstance(given, str) else given
    if len(texts) > MAX_INPUTS:
        raise InvalidBody(
            f"'input' holds {len(texts)} texts, and {MAX_INPUTS} are taken at once.",
            hint="Send them in several requests.",
            param="input",
        )
    for number, text in enumerate(texts):
        if not text:
            raise InvalidBody(f"Text {number} of 'input' is empty.", param="input")
    return texts
