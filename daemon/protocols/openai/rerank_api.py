"""Ranking documents for a query, in the shape that Jina's and Cohere's clients share."""

from __future__ import annotations

import secrets
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType
from starlette.requests import Request
from starlette.responses import Response

from ingle.backends.base.requests import RerankRequest as BackendRequest
from ingle.models.model_task import ModelTask

from ...errors import InvalidBody
from ...http.error_format import OPENAI
from ...http.json_response import JSONResponse
from ...http.request_body import read_json
from ...http.route_access import INFERENCE
from ...http.route_spec import route
from ...http.sse_writer import run_until_disconnect
from ...services import Services
from .embeddings_api import EMBEDDING_ERRORS
from .embeddings_types import MAX_INPUTS, PromptUsage


class Document(msgspec.Struct, frozen=True):
    """A document as an object."""

    text: str


class RerankRequest(msgspec.Struct, kw_only=True):
    """The body of `POST /v1/rerank`; `truncate` is ingle's extension."""

    model: Annotated[str, Meta(min_length=1)]
    query: Annotated[str, Meta(min_length=1)]
    documents: Annotated[list[str | Document], Meta(min_length=1)]
    top_n: Annotated[int, Meta(ge=1)] | None = None
    return_documents: bool | None = None
    truncate: bool | None = None


class RankedDocument(msgspec.Struct, frozen=True, kw_only=True):
    """`index` is the document's place in the request, `relevance_score` runs from 0 to 1."""

    index: int
    relevance_score: float
    document: Document | UnsetType = UNSET


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
        request=RerankRequest,
        response=RerankAnswer,
        errors=EMBEDDING_ERRORS,
    )
    async def rerank(self, request: Request) -> Response:
        """Rank documents by how well they answer a query."""
        body = await read_json(request, RerankRequest)
        if len(body.documents) > MAX_INPUTS:
            raise InvalidBody(
                f"'documents' must hold at most {MAX_INPUTS}, not {len(body.documents)}.",
                hint="Send them in several requests.",
                param="documents",
            )
        return JSONResponse(await run_until_disconnect(request.receive, self._rank(body)))

    async def _rank(self, body: RerankRequest) -> RerankAnswer:
        texts = [item if isinstance(item, str) else item.text for item in body.documents]
        asked = BackendRequest(
            id=f"rerank-{secrets.token_hex(12)}",
            query=body.query,
            documents=texts,
            truncate=bool(body.truncate),
        )
        async with self._services.manager.lease(body.model, task=ModelTask.RERANK) as lease:
            ranked = await lease.backend.rerank(asked)
        scored = sorted(enumerate(ranked.scores), key=lambda item: -item[1])
        return RerankAnswer(
            id=asked.id,
            model=lease.model.name,
            results=[
                RankedDocument(
                    index=index,
                    relevance_score=score,
                    document=Document(texts[index]) if body.return_documents else UNSET,
                )
                for index, score in scored[: body.top_n]
            ],
            usage=PromptUsage(
                prompt_tokens=ranked.prompt_tokens, total_tokens=ranked.prompt_tokens
            ),
        )
