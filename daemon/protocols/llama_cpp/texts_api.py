"""llama-server's routes that turn texts into tokens, vectors and rankings, and render prompts."""

from __future__ import annotations

import secrets
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType
from starlette.requests import Request

from ingle.backends.base.backend import RequestBackend
from ingle.backends.base.requests import EmbedRequest, TokenizeRequest
from ingle.models.model_task import ModelTask

from ...errors import InvalidBody
from ...http.bodies import LLAMA_CPP, OPENAI, translate
from ...http.off_loop import off_loop
from ...http.route_access import INFERENCE
from ...http.route_spec import GENERATION_ERRORS, route
from ...lifecycle.lease import Lease
from ..answer_values import vector_rows
from ..ingle_options import RequestOrigin
from ..openai.completions.request_types import ChatCompletionRequest
from ..openai.completions.requests import chat_job
from ..openai.embeddings_api import RerankAnswer, embedding_inputs, rank
from ..request_options import check_token_ids
from ..services_api import ServicesApi
from .completions_api import chosen_model, token_ids
from .types import Content, DetokenizeBody, Piece, RenderedPrompt, TokenizeBody, TokenPiece, Tokens

MAX_CHARACTERS = 2**20
MAX_TEXTS = 1024


_route = partial(
    route,
    "POST",
    access=INFERENCE,
    error_format=LLAMA_CPP,
    errors=GENERATION_ERRORS,
    cancellable=True,
)


class TokenizeApi(ServicesApi):
    """`/tokenize`, `/detokenize` and `/apply-template`."""

    @_route("/tokenize")
    async def tokenize(self, request: Request, body: TokenizeBody) -> Tokens:
        """Turn text into tokens."""
        content = body.content
        if content is None:
            return Tokens([])
        await translate(
            request, partial(_check_content, [content] if isinstance(content, str) else content)
        )
        async with self._lease(body.model) as lease:
            tokens = await token_ids(
                lease.backend,
                content,
                add_special=bool(body.add_special),
                parse_special=body.parse_special is not False,
            )
            if not body.with_pieces:
                return Tokens(tokens)
            pieces = await _pieces(lease.backend, tokens)
        return Tokens(await off_loop(len(tokens), lambda: list(map(_piece, tokens, pieces))))

    @_route("/detokenize")
    async def detokenize(self, request: Request, body: DetokenizeBody) -> Content:
        """Turn tokens into text."""
        tokens = body.tokens or []
        if not tokens:
            return Content("")
        await translate(request, partial(check_token_ids, tokens, "tokens"))
        async with self._lease(body.model) as lease:
            pieces = await _pieces(lease.backend, tokens)
        return Content(await off_loop(len(tokens), partial(_text, pieces)))

    @_route("/apply-template")
    async def apply_template(self, request: Request, body: ChatCompletionRequest) -> RenderedPrompt:
        """The text of a conversation's prompt."""
        job = await translate(request, partial(chat_job, body, RequestOrigin()))
        asked = TokenizeRequest(id=_new_id(), generate=job.request)
        async with self._lease(body.model) as lease:
            return RenderedPrompt((await lease.backend.tokenize(asked)).text or "")

    def _lease(self, model: str | None) -> AbstractAsyncContextManager[Lease]:
        """Return the lease of a model of any task."""
        return self._services.manager.lease(chosen_model(self._services, model), task=None)


async def _pieces(backend: RequestBackend, tokens: list[int]) -> list[bytes]:
    return (await backend.tokenize(TokenizeRequest(id=_new_id(), token_ids=tokens))).pieces


def _text(pieces: list[bytes]) -> str:
    return b"".join(pieces).decode(errors="replace")


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
    """A rank in the format of TEI."""

    index: int
    score: float
    text: str | UnsetType = UNSET


class LlamaCppEmbeddingsApi(ServicesApi):
    """`/embedding`, `/embeddings`, `/rerank`, `/reranking` and `/v1/reranking`."""

    @_route("/embedding")
    @_route("/embeddings")
    async def embedding(self, request: Request, body: EmbeddingRequest) -> list[NativeEmbedding]:
        """Turn texts into vectors, as llama-server does."""
        given = body.content if body.content is not None else body.input
        if given is None:
            raise InvalidBody("'content' is missing.", param="content")
        inputs = await translate(request, partial(embedding_inputs, given))
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

    @_route("/rerank")
    @_route("/reranking")
    @_route("/v1/reranking", error_format=OPENAI)
    async def rerank(self, body: RankRequest) -> RerankAnswer | list[ScoredText]:
        """Rank documents by how well they answer a query."""
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
