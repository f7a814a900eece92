"""OpenAI's embeddings, and rankings in the format that Jina's and Cohere's clients share."""

from __future__ import annotations

import secrets
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, cast

import msgspec
from msgspec import UNSET, Meta, UnsetType
from starlette.requests import Request

from ingle.backends.base.requests import EmbedRequest, Priority, RerankRequest
from ingle.models.model_task import ModelTask

from ...errors import InvalidBody, UnsupportedField
from ...http.bodies import BODY_BYTES, OPENAI, parse_served
from ...http.field_policy import FieldPolicy
from ...http.off_loop import off_loop
from ...http.route_access import INFERENCE
from ...http.route_spec import route
from ...lifecycle.lease import Lease
from ...services import Services
from ..answer_values import vector_rows
from ..field_policies import EMBEDDING_FIELDS
from ..request_options import LARGEST_TOKEN_ID
from ..services_api import ServicesApi

MAX_INPUTS = 2048

Dimensions = Annotated[int, Meta(ge=1, le=2**20)]


class EmbeddingsRequest(msgspec.Struct, kw_only=True):
    """The body of `POST /v1/embeddings`; `truncate` is ingle's extension."""

    field_policy: ClassVar[FieldPolicy] = EMBEDDING_FIELDS

    model: Annotated[str, Meta(min_length=1)] | None = None
    input: str | list[str | int | list[int]]
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: Dimensions | None = None
    user: Any = None
    truncate: bool | None = None


class EmbeddingObject(msgspec.Struct, frozen=True, kw_only=True):
    """One vector: numbers, or base64 of them as little-endian float32."""

    object: Literal["embedding"] = "embedding"
    index: int
    embedding: list[float] | str


class PromptUsage(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens processed, including the special tokens around each text."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingList(msgspec.Struct, frozen=True, kw_only=True):
    """The vectors in the order of the inputs."""

    object: Literal["list"] = "list"
    data: list[EmbeddingObject]
    model: str
    usage: PromptUsage


EMBEDDING_ERRORS = (404, 408, 413, 422, 500, 503, 507)


class EmbeddingsApi(ServicesApi):
    """`POST /v1/embeddings`."""

    @route(
        "POST",
        "/v1/embeddings",
        access=INFERENCE,
        error_format=OPENAI,
        errors=EMBEDDING_ERRORS,
        cancellable=True,
    )
    async def embeddings(self, request: Request, body: EmbeddingsRequest) -> EmbeddingList:
        """Turn texts into vectors."""
        return await self.embed(body, Priority.INTERACTIVE, request.scope[BODY_BYTES])

    async def answer_embeddings(self, content: bytes, *, priority: Priority) -> EmbeddingList:
        """The vectors for the content of a request; raises what `describe` can report."""
        parsing = partial(parse_served, content, EmbeddingsRequest)
        body, _ = await off_loop(len(content), parsing)
        return await self.embed(body, priority, len(content))

    async def embed(
        self, body: EmbeddingsRequest, priority: Priority, body_bytes: int
    ) -> EmbeddingList:
        """Return the vectors of a request, whose body has so many bytes."""
        inputs = await off_loop(body_bytes, partial(embedding_inputs, body.input))
        model = body.model or self._services.config.default_model
        async with self._services.manager.lease(
            model, task=ModelTask.EMBED, priority=priority
        ) as lease:
            embedded = await lease.backend.embed(
                EmbedRequest(
                    id=f"embd-{secrets.token_hex(12)}",
                    inputs=inputs,
                    dimensions=_dimensions(body.dimensions, lease),
                    truncate=bool(body.truncate),
                )
            )
        rows = await vector_rows(embedded, as_base64=body.encoding_format == "base64")
        return EmbeddingList(
            data=[EmbeddingObject(index=i, embedding=row) for i, row in enumerate(rows)],
            model=lease.model.name,
            usage=PromptUsage(
                prompt_tokens=embedded.prompt_tokens, total_tokens=embedded.prompt_tokens
            ),
        )


def embedding_inputs(given: str | list[str | int | list[int]]) -> list[str | list[int]]:
    """The texts, each as text or as token ids; raises `InvalidBody`."""
    if isinstance(given, str):
        inputs: list[str | list[int]] = [given]
    elif given and all(isinstance(item, int) for item in given):
        inputs = [cast("list[int]", given)]
    elif any(isinstance(item, int) for item in given):
        raise InvalidBody(
            "'input' mixes token ids with other things.",
            hint="Send text, token ids, or a list of either.",
            param="input",
        )
    else:
        inputs = cast("list[str | list[int]]", given)
    if not 1 <= len(inputs) <= MAX_INPUTS:
        raise InvalidBody(
            f"'input' must hold between 1 and {MAX_INPUTS} texts, not {len(inputs)}.",
            hint="Send them in several requests." if inputs else None,
            param="input",
        )
    for number, text in enumerate(inputs):
        _check(text, number)
    return inputs


def _check(text: str | list[int], number: int) -> None:
    if not text:
        raise InvalidBody(f"Input {number} is empty.", param="input")
    if isinstance(text, list) and not all(0 <= token <= LARGEST_TOKEN_ID for token in text):
        raise InvalidBody(f"Input {number} holds something that is no token id.", param="input")


def _dimensions(wanted: int | None, lease: Lease) -> int | None:
    """The length to cut vectors to; raises `UnsupportedField` if the model does not support it."""
    whole, allowed = lease.info.dimensions, lease.model.dimensions
    if wanted is None or wanted == whole:
        return None
    if wanted in allowed:
        return wanted
    known = ", ".join(map(str, sorted({whole, *allowed})))
    raise UnsupportedField(
        f"'{lease.model.name}' gives vectors of {known} dimensions, not {wanted}: a model has to "
        "be trained for shorter ones.",
        hint="Leave 'dimensions' out, or name one of these.",
        param="dimensions",
    )


class RerankDocument(msgspec.Struct, frozen=True):
    """A document as an object."""

    text: str


class RerankBody(msgspec.Struct, kw_only=True):
    """The body of `POST /v1/rerank`; `truncate` is ingle's extension."""

    model: Annotated[str, Meta(min_length=1)] | None = None
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
    """The most relevant documents, the best first."""

    id: str
    object: Literal["list"] = "list"
    model: str
    results: list[RankedDocument]
    usage: PromptUsage


class RerankApi(ServicesApi):
    """`POST /v1/rerank`."""

    @route(
        "POST",
        "/v1/rerank",
        access=INFERENCE,
        error_format=OPENAI,
        errors=EMBEDDING_ERRORS,
        cancellable=True,
    )
    async def rerank(self, body: RerankBody) -> RerankAnswer:
        """Rank documents by how well they answer a query."""
        texts = [item if isinstance(item, str) else item.text for item in body.documents]
        model = body.model or self._services.config.default_model
        answer = await rank(
            self._services, model, body.query, texts, body.top_n, truncate=bool(body.truncate)
        )
        if body.return_documents:
            for ranked in answer.results:
                ranked.document = RerankDocument(texts[ranked.index])
        return answer


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
