"""OpenAI's embeddings: texts in, vectors out."""

from __future__ import annotations

import asyncio
import secrets
from base64 import b64encode
from typing import Any, cast

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ingle.backends.base.events import Embedded
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
from ..request_origin import RequestOrigin
from .embeddings_types import (
    MAX_INPUTS,
    EmbeddingList,
    EmbeddingObject,
    EmbeddingsRequest,
    PromptUsage,
)

EMBEDDING_ERRORS = (404, 408, 413, 422, 500, 503, 507)
_LARGEST_TOKEN_ID = 2**31 - 1
_ROWS_A_TURN = 64


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
        """The vectors for a body, for whoever asks from within; raises what `describe` can tell."""
        asked = parse(body, EmbeddingsRequest)
        return await self._embed(asked, embedding_inputs(asked.input), origin)

    async def _embed(
        self, body: EmbeddingsRequest, inputs: list[str | list[int]], origin: RequestOrigin
    ) -> EmbeddingList:
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
        return EmbeddingList(
            data=await _objects(embedded, as_base64=body.encoding_format == "base64"),
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
    if isinstance(text, list) and not all(0 <= token <= _LARGEST_TOKEN_ID for token in text):
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


async def _objects(embedded: Embedded, *, as_base64: bool) -> list[EmbeddingObject]:
    """One object a vector; the event loop gets its turn between them."""
    size = embedded.dimensions * 4
    objects: list[EmbeddingObject] = []
    for start in range(0, len(embedded.vectors), size):
        row = embedded.vectors[start : start + size]
        objects.append(EmbeddingObject(index=len(objects), embedding=_encoded(row, as_base64)))
        if len(objects) % _ROWS_A_TURN == 0:
            await asyncio.sleep(0)
    return objects


def _encoded(row: bytes, as_base64: bool) -> list[float] | str:
    if as_base64:
        return b64encode(row).decode()
    numbers: Any = memoryview(row).cast("f").tolist()
    # Ready-made JSON: encoding all of a large answer at once would hold up every other request.
    return cast("list[float]", msgspec.Raw(msgspec.json.encode(numbers)))
