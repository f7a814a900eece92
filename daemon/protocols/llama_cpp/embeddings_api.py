"""llama-server's own embeddings, and its ranking of documents under all of its names."""

from __future__ import annotations

import secrets
from functools import partial
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType
from starlette.requests import Request
from starlette.responses import Response

from ingle.backends.base.requests import EmbedRequest
from ingle.models.model_task import ModelTask

from ...errors import InvalidBody
from ...http.bodies import LLAMA_CPP, OPENAI, JSONResponse, read_json, run_until_disconnect
from ...http.route_access import INFERENCE
from ...http.route_spec import GENERATION_ERRORS, route
from ...services import Services
from ..answer_values import vector_rows
from ..openai.embeddings_api import RerankAnswer, embedding_inputs, rank
from .default_model import chosen_model

Inputs = str | list[str | int | list[int]]


class EmbeddingRequest(msgspec.Struct, kw_only=True):
    """The body of `POST /embedding`; `content` and `input` are the same."""

    model: str | None = None
    content: Inputs | None = None
    input: Inputs | None = None
    truncate: bool | None = None


class NativeEmbedding(msgspec.Struct, frozen=True):
    """The vectors of one input, of which there is one."""

    index: int
    embedding: list[list[float]]


class RankRequest(msgspec.Struct, kw_only=True):
    """The body of `POST /rerank`; with `texts` in place of `documents` the answer is TEI's."""

    model: str | None = None
    query: Annotated[str, Meta(min_length=1)]
    documents: list[str] | None = None
    texts: list[str] | None = None
    top_n: Annotated[int, Meta(ge=1)] | None = None
    return_text: bool | None = None
    truncate: bool | None = None


class ScoredText(msgspec.Struct, frozen=True, kw_only=True):
    """TEI's shape of a rank."""

    index: int
    score: float
    text: str | UnsetType = UNSET


_embedding_route = partial(
    route,
    "POST",
    access=INFERENCE,
    error_format=LLAMA_CPP,
    request=EmbeddingRequest,
    response=list[NativeEmbedding],
    errors=GENERATION_ERRORS,
)
_rerank_route = partial(
    route,
    "POST",
    access=INFERENCE,
    request=RankRequest,
    response=RerankAnswer | list[ScoredText],
    errors=GENERATION_ERRORS,
)


class LlamaCppEmbeddingsApi:
    """`/embedding`, `/embeddings`, `/rerank`, `/reranking` and `/v1/reranking`."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @_embedding_route("/embedding")
    @_embedding_route("/embeddings")
    async def embedding(self, request: Request) -> Response:
        """Turn texts into vectors, as llama-server does."""
        body = await read_json(request, EmbeddingRequest)
        given = body.content if body.content is not None else body.input
        if given is None:
            raise InvalidBody("'content' is missing.", param="content")
        return JSONResponse(
            await run_until_disconnect(request.receive, self._embed(body, embedding_inputs(given)))
        )

    @_rerank_route("/rerank", error_format=LLAMA_CPP)
    @_rerank_route("/reranking", error_format=LLAMA_CPP)
    @_rerank_route("/v1/reranking", error_format=OPENAI)
    async def rerank(self, request: Request) -> Response:
        """Rank documents by how well they answer a query."""
        body = await read_json(request, RankRequest)
        return JSONResponse(await run_until_disconnect(request.receive, self._ranked(body)))

    async def _embed(
        self, body: EmbeddingRequest, inputs: list[str | list[int]]
    ) -> list[NativeEmbedding]:
        model = chosen_model(self._services, body.model, task=ModelTask.EMBED)
        async with self._services.manager.lease(model, task=ModelTask.EMBED) as lease:
            embedded = await lease.backend.embed(
                EmbedRequest(
                    id=f"embd-{secrets.token_hex(12)}",
                    inputs=inputs,
                    truncate=bool(body.truncate),
                )
            )
        return [NativeEmbedding(i, [row]) for i, row in enumerate(await vector_rows(embedded))]

    async def _ranked(self, body: RankRequest) -> RerankAnswer | list[ScoredText]:
        model = chosen_model(self._services, body.model, task=ModelTask.RERANK)
        documents = (body.texts if body.documents is None else body.documents) or []
        answer = await rank(
            self._services, model, body.query, documents, body.top_n, truncate=bool(body.truncate)
        )
        if body.documents is not None:
            return answer
        return [
            ScoredText(
                index=ranked.index,
                score=ranked.relevance_score,
                text=documents[ranked.index] if body.return_text else UNSET,
            )
            for ranked in answer.results
        ]
