"""Text to tokens and back, and the text of prompts, as llama-server has them."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import Response

from ingle.backends.base.backend import RequestBackend
from ingle.backends.base.requests import TokenizeRequest

from ...errors import InvalidBody
from ...http.bodies import LLAMA_CPP, JSONResponse, read_json, run_until_disconnect
from ...http.route_access import INFERENCE
from ...http.route_spec import GENERATION_ERRORS, route
from ...services import Services
from ..ingle_options import RequestOrigin
from ..openai.completions.request_types import ChatCompletionRequest
from ..openai.completions.requests import chat_job
from ..sampling_options import check_token_ids
from .completions_api import token_ids
from .default_model import chosen_model
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
