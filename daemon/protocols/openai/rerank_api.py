"""Ranking documents for a query, in the shape that Jina's and Cohere's clients share."""

from __future__ import annotations

import secrets
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType
from starlette.requests import Request
from starlette.responses import Response

from ingle.backends.base.requests import RerankRequest
from ingle.models.model_task import ModelTask

from ...errors import InvalidBody
from ...http.error_format import OPENAI
from ...http.json_response import JSONResponse
from ...http.request_body import read_json
from ...http.route_access import INFERENCE
from ...http.route_spec import route
from ...http.sse_writer import run_until_disconnect
from ...services import Services
from .embeddings_api import EMBEDDING_ERRORS, MAX_INPUTS, PromptUsage


class RerankDocument(msgspec.Struct, frozen=True):
    """A document as an object."""

    text: str


class RerankBody(msgspec.Struct, kw_only=True):
    """The body of `POST /v1/rerank`; `truncate` is ingle's extension."""

    model: Annotated[str, Meta(min_length=1)]
    query: Annotated[str, Meta(min_length=1)]
    documents: Annotated[list[str | RerankDocument], Meta(min_length=1)]
    top_n: Annotated[int, Meta(ge=1)] | None = None
    return_documents: bool | None = None
    truncate: bool | None = None


class RankedDocument(msgspec.Struct, kw_only=True):
    """`index` is the document's place in the request, `relevance_score` runs from 0 to 1."""

    index: int
    relevance_score: float
    document: RerankDocument | UnsetType = UNSET


class RerankAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The documents that fit best, the best first."""

    id: str
    object: Literal["list"] = "list"
    model: str
    results: list[RankedDocument]
    usage: PromptUsage


class RerankApi:
    """`POST /v1/rerank`."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @route(
        "POST",
        "/v1/rerank",
        access=INFERENCE,
        error_format=OPENAI,
        request=RerankBody,
        response=RerankAnswer,
        errors=EMBEDDING_ERRORS,
    )
    async def rerank(self, request: Request) -> Response:
        """Rank documents by how well they answer a query."""
        body = await read_json(request, RerankBody)
        texts = [item if isinstance(item, str) else item.text for item in body.documents]
        ranking = rank(
            self._services, body.model, body.query, texts, body.top_n, truncate=bool(body.truncate)
        )
        answer = await run_until_disconnect(request.receive, ranking)
        if body.return_documents:
            for ranked in answer.results:
                ranked.document = RerankDocument(texts[ranked.index])
        return JSONResponse(answer)


async def rank(
    services: Services,
    model: str,
    query: str,
    documents: list[str],
    top_n: int | None,
    *,
    truncate: bool,
) -> RerankAnswer:
    """The `top_n` best documents without their texts; raises `InvalidBody` for too many."""
    if not 1 <= len(documents) <= MAX_INPUTS:
        raise InvalidBody(
            f"'documents' must hold between 1 and {MAX_INPUTS} texts, not {len(documents)}.",
            hint="Send them in several requests." if documents else None,
            param="documents",
        )
    request = RerankRequest(
        id=f"rerank-{secrets.token_hex(12)}", query=query, documents=documents, truncate=truncate
    )
    async with services.manager.lease(model, task=ModelTask.RERANK) as lease:
        scored = await lease.backend.rerank(request)
    best = sorted(enumerate(scored.scores), key=lambda item: -item[1])[:top_n]
    return RerankAnswer(
        id=request.id,
        model=lease.model.name,
        results=[RankedDocument(index=index, relevance_score=score) for index, score in best],
        usage=PromptUsage(prompt_tokens=scored.prompt_tokens, total_tokens=scored.prompt_tokens),
    )
