"""OpenAI's embeddings: texts in, vectors out."""

from __future__ import annotations

import secrets
from typing import Annotated, Any, Literal, cast

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from ingle.backends.base.requests import EmbedRequest, Priority
from ingle.models.model_task import ModelTask

from ...errors import InvalidBody, UnsupportedField
from ...http.error_format import OPENAI
from ...http.json_response import JSONResponse
from ...http.request_body import parse, read_body
from ...http.route_access import INFERENCE
from ...http.route_spec import route
from ...http.sse_writer import run_until_disconnect
from ...lifecycle.lease import Lease
from ...services import Services
from ..ingle_options import RequestOrigin
from ..request_values import LARGEST_TOKEN_ID
from ..vector_rows import vector_rows

MAX_INPUTS = 2048

Dimensions = Annotated[int, Meta(ge=1, le=2**20)]


class EmbeddingsRequest(msgspec.Struct, kw_only=True):
    """The body of `POST /v1/embeddings`; `truncate` is ingle's extension."""

    model: Annotated[str, Meta(min_length=1)]
    input: str | list[str | int | list[int]]
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: Dimensions | None = None
    user: Any = None
    truncate: bool | None = None


class EmbeddingObject(msgspec.Struct, frozen=True, kw_only=True):
    """One vector: numbers, or base64 of them as float32 with the lowest byte first."""

    object: Literal["embedding"] = "embedding"
    index: int
    embedding: list[float] | str


class PromptUsage(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens really processed, the marks around each text included."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingList(msgspec.Struct, frozen=True, kw_only=True):
    """The vectors in the order of the inputs."""

    object: Literal["list"] = "list"
    data: list[EmbeddingObject]
    model: str
    usage: PromptUsage


EMBEDDING_ERRORS = (404, 408, 413, 422, 500, 503, 507)


class EmbeddingsApi:
    """`POST /v1/embeddings`."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @route(
        "POST",
        "/v1/embeddings",
        access=INFERENCE,
        error_format=OPENAI,
        request=EmbeddingsRequest,
        response=EmbeddingList,
        errors=EMBEDDING_ERRORS,
    )
    async def embeddings(self, request: Request) -> Response:
        """Turn texts into vectors."""
        body = await read_body(request)
        return JSONResponse(
            await run_until_disconnect(
                request.receive, self.answer_embeddings(body, RequestOrigin())
            )
        )

    async def answer_embeddings(self, body: bytes, origin: RequestOrigin) -> EmbeddingList:
        """The vectors for a body, of a request in a batch; raises what `describe` can report."""
        return await self._embed(parse(body, EmbeddingsRequest), origin)

    async def _embed(self, body: EmbeddingsRequest, origin: RequestOrigin) -> EmbeddingList:
        inputs = embedding_inputs(body.input)
        async with self._services.manager.lease(
            body.model,
            task=ModelTask.EMBED,
            priority=origin.priority or Priority.INTERACTIVE,
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
    """The length to cut vectors to; raises `UnsupportedField` where that makes them worthless."""
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
