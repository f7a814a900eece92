"""llama-server's routes that turn texts into tokens, vectors and rankings, and render prompts."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType
from starlette.requests import Request
from starlette.responses import Response

from ingle.backends.base.backend import RequestBackend
from ingle.backends.base.requests import EmbedRequest, TokenizeRequest
from ingle.models.model_task import ModelTask

from ...errors import InvalidBody
from ...http.bodies import LLAMA_CPP, OPENAI, JSONResponse, read_json, run_until_disconnect
from ...http.route_access import INFERENCE
from ...http.route_spec import GENERATION_ERRORS, route
from ...services import Services
from ..answer_values import vector_rows
from ..ingle_options import RequestOrigin
from ..openai.completions.request_types import ChatCompletionRequest
from ..openai.completions.requests import chat_job
from ..openai.embeddings_api import RerankAnswer, embedding_inputs, rank
from ..request_options import check_token_ids
from .completions_api import chosen_model, token_ids
from .types import Content, DetokenizeBody, Piece, RenderedPrompt, TokenizeBody, TokenPiece, Tokens

MAX_CHARACTERS = 2**20
MAX_TEXTS = 1024

T = TypeVar("T")


class TemplateBody(ChatCompletionRequest, kw_only=True):
    """The body of `POST /apply-template`: that of a chat, which need not name a model."""

    model: str = ""


_route = partial(route, "POST", access=INFERENCE, error_format=LLAMA_CPP, errors=GENERATION_ERRORS)


class TokenizeApi:
    """`/tokenize`, `/detokenize` and `/apply-template`."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @_route("/tokenize", request=TokenizeBody, response=Tokens)
    async def tokenize(self, request: Request) -> Response:
        """Turn text into tokens."""
        body = await read_json(request, TokenizeBody)
        content = body.content
        if content is None:
            return JSONResponse(Tokens([]))

        async def ask(backend: RequestBackend) -> Tokens:
            tokens = await token_ids(
                backend,
                content,
                add_special=bool(body.add_special),
                parse_special=body.parse_special is not False,
            )
            if not body.with_pieces:
                return Tokens(tokens)
            pieces = await _pieces(backend, tokens)
            return Tokens(list(map(_piece, tokens, pieces)))

        _check_content([content] if isinstance(content, str) else content)
        return await self._ask(request, body.model, ask)

    @_route("/detokenize", request=DetokenizeBody, response=Content)
    async def detokenize(self, request: Request) -> Response:
        """Turn tokens into text."""
        body = await read_json(request, DetokenizeBody)
        tokens = body.tokens or []
        if not tokens:
            return JSONResponse(Content(""))
        check_token_ids(tokens, "tokens")

        async def ask(backend: RequestBackend) -> Content:
            return Content(b"".join(await _pieces(backend, tokens)).decode(errors="replace"))

        return await self._ask(request, body.model, ask)

    @_route("/apply-template", request=TemplateBody, response=RenderedPrompt)
    async def apply_template(self, request: Request) -> Response:
        """The text of a conversation's prompt."""
        body = await read_json(request, TemplateBody)
        job = chat_job(body, RequestOrigin())

        async def ask(backend: RequestBackend) -> RenderedPrompt:
            asked = TokenizeRequest(id=_new_id(), generate=job.request)
            return RenderedPrompt((await backend.tokenize(asked)).text or "")

        return await self._ask(request, body.model, ask)

    async def _ask(
        self, request: Request, model: str | None, ask: Callable[[RequestBackend], Awaitable[T]]
    ) -> Response:
        """What `ask` gets from a model of any task."""

        async def leased() -> T:
            reference = chosen_model(self._services, model)
            async with self._services.manager.lease(reference, task=None) as lease:
                return await ask(lease.backend)

        return JSONResponse(await run_until_disconnect(request.receive, leased()))


async def _pieces(backend: RequestBackend, tokens: list[int]) -> list[bytes]:
    return (await backend.tokenize(TokenizeRequest(id=_new_id(), token_ids=tokens))).pieces


def _piece(token: int, spelt: bytes) -> TokenPiece:
    try:
        return TokenPiece(token, spelt.decode())
    except UnicodeDecodeError:
        return TokenPiece(token, list(spelt))


def _check_content(pieces: list[Piece]) -> None:
    """Refuse a text beyond any context, which would only delay other requests."""
    check_token_ids((piece for piece in pieces if isinstance(piece, int)), "content")
    texts = [piece for piece in pieces if isinstance(piece, str)]
    length = sum(map(len, texts))
    if length > MAX_CHARACTERS or len(texts) > MAX_TEXTS:
        raise InvalidBody(
            f"'content' has {length} characters in {len(texts)} texts; "
            f"{MAX_CHARACTERS} in {MAX_TEXTS} are the most.",
            hint="Send it in several requests.",
            param="content",
        )


def _new_id() -> str:
    return f"tokens-{secrets.token_hex(12)}"


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
