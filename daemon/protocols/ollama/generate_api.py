"""Ollama's routes that run models: chat, generate and embeddings."""

from __future__ import annotations

import asyncio
import secrets
import time
from dataclasses import replace
from functools import partial
from typing import Any

from msgspec import structs
from starlette.requests import Request
from starlette.responses import Response

from ingle.backends.base.conversation import ChatMessage
from ingle.backends.base.requests import EmbedRequest, GenerateRequest, TokenizeRequest
from ingle.models.metadata.stored_model import StoredModel
from ingle.models.model_task import ModelTask

from ...errors import InvalidBody
from ...http.bodies import (
    OLLAMA,
    JSONResponse,
    read_json,
    run_until_disconnect,
    translate,
)
from ...http.route_access import INFERENCE
from ...http.route_spec import GENERATION_ERRORS, StreamSpec, route
from ...lifecycle.lease import Lease
from ..answer_values import vector_rows
from ..ingle_options import PRIVATE_HEADER, origin_of
from ..job import Job
from ..job_runner import JobApi
from ..services_api import ServicesApi
from .answers import (
    LINES,
    NANOSECONDS,
    NDJSON_MEDIA,
    AnswerLines,
    ChatLines,
    GenerateLines,
    LineMaker,
    Piece,
    whole_answer,
)
from .model_descriptions import required_name, resolve_model
from .requests import chat_job, generate_job, keep_alive_seconds, model_options
from .types import (
    AnswerRequest,
    ChatLine,
    ChatRequest,
    EmbedBody,
    Embeddings,
    GenerateBody,
    GenerateLine,
    Metrics,
    OldEmbedBody,
    OldEmbedding,
)

_MARK = "An answer that stands for the one before."
_STREAMED = "`stream` is not false"


_route = partial(
    route,
    "POST",
    access=INFERENCE,
    error_format=OLLAMA,
    parameters=(PRIVATE_HEADER,),
    errors=GENERATION_ERRORS,
)


class OllamaGenerateApi(JobApi):
    """`POST /api/chat` and `POST /api/generate`."""

    @_route(
        "/api/chat",
        request=ChatRequest,
        response=ChatLine,
        stream=StreamSpec({"": ChatLine}, only_if=_STREAMED, media_type=NDJSON_MEDIA),
    )
    async def chat(self, request: Request) -> Response:
        """Answer a conversation, in Ollama's format."""
        began = time.monotonic()
        body = await read_json(request, ChatRequest)
        model = await self._model(body)
        job = await translate(request, partial(chat_job, body, model, origin_of(request, None)))
        maker = ChatLines(job.model)
        if not body.messages:
            return await self._load_or_unload(request, job, maker)
        return await self._answer(request, body, job, maker, began)

    @_route(
        "/api/generate",
        request=GenerateBody,
        response=GenerateLine,
        stream=StreamSpec({"": GenerateLine}, only_if=_STREAMED, media_type=NDJSON_MEDIA),
    )
    async def generate(self, request: Request) -> Response:
        """Continue a prompt or fill a gap, in Ollama's format."""
        began = time.monotonic()
        body = await read_json(request, GenerateBody)
        model = await self._model(body)
        job = await translate(request, partial(generate_job, body, model, origin_of(request, None)))
        before = body.context if body.context and not body.suffix else []
        context_tokens = ContextTokens(before, wanted=job.request.messages is not None)
        maker = GenerateLines(job.model, lambda: context_tokens.prompt)
        if not body.prompt and not body.suffix:
            return await self._load_or_unload(request, job, maker)
        # Tokens of earlier turns are not text that could be inspected.
        job = replace(job, fit=context_tokens.fit, opaque="context" if before else "")
        return await self._answer(request, body, job, maker, began)

    async def _answer(
        self, request: Request, body: AnswerRequest, job: Job, maker: LineMaker, began: float
    ) -> Response:
        if body.stream is False:
            finish = partial(whole_answer, maker=maker, began=began)
            return await self._runner.whole(request, job, finish)
        return self._runner.stream(job, lambda empty: AnswerLines(empty, maker, began), LINES)

    async def _load_or_unload(self, request: Request, job: Job, maker: LineMaker) -> Response:
        """Load or unload the model for a request without a prompt."""
        if job.keep_alive == 0:
            await self._services.manager.unload(job.model)
            reason = "unload"
        else:
            await run_until_disconnect(request.receive, self._load(job))
            reason = "load"
        return JSONResponse(maker.last(Piece(), Metrics(done_reason=reason), []))

    async def _load(self, job: Job) -> None:
        async with self._runner.lease(job, routed=False):
            pass

    async def _model(self, body: AnswerRequest) -> StoredModel:
        """The model of a request; raises `InvalidBody` if it cannot think as requested."""
        name = required_name(body.model)
        model = await resolve_model(self._services, name)
        if body.think and not await self._reasons(model):
            raise InvalidBody(
                f"{name[:200]!r} does not support thinking.",
                hint="Leave 'think' out.",
                param="think",
            )
        return model

    async def _reasons(self, model: StoredModel) -> bool:
        run = self._services.manager.find(model)
        if run is not None and run.info is not None and run.info.reasons:
            return True
        return (await asyncio.to_thread(self._services.facts.read, model)).capabilities.reasons


class ContextTokens:
    """Makes the prompt of a request that has `context`, and keeps the prompt's tokens.

    The given tokens are not changed, so that their keys and values are found in the KV cache.
    """

    def __init__(self, before: list[int], *, wanted: bool) -> None:
        """`wanted` says whether the answer contains the tokens."""
        self.prompt: list[int] = []
        """The prompt's tokens, once the model is loaded."""
        self._before = before
        self._wanted = wanted

    async def fit(self, job: Job, lease: Lease) -> Job:
        """The job with the prompt for its model."""
        request = job.request
        if request.messages is not None and not lease.info.has_chat_template:
            # Ollama's template for a model without a chat template is the prompt alone.
            text = "\n\n".join(message.content for message in request.messages)
            request = structs.replace(request, messages=None, prompt=text)
        if self._before:
            tokens = [*self._before, *await self._next_turn(lease, request)]
            request = structs.replace(request, messages=None, prompt=tokens)
            self.prompt = tokens
        elif self._wanted:
            self.prompt = await self._tokens(lease, generate=request)
        return replace(job, request=request)

    async def _next_turn(self, lease: Lease, request: GenerateRequest) -> list[int]:
        """The tokens after an answer in this model's template: its end, and the new prompt."""
        if request.messages is None:
            text = request.prompt if isinstance(request.prompt, str) else ""
            return await self._tokens(lease, text=text)
        conversation = [ChatMessage("user", _MARK), ChatMessage("assistant", _MARK)]
        probe = structs.replace(
            request, messages=[*conversation, ChatMessage("user", request.messages[-1].content)]
        )
        rendered = await lease.backend.tokenize(TokenizeRequest(id=_new_id(), generate=probe))
        head, mark, tail = (rendered.text or "").rpartition(_MARK)
        if not mark or not head:
            tail = request.messages[-1].content
        return await self._tokens(lease, text=tail)

    async def _tokens(
        self, lease: Lease, *, generate: GenerateRequest | None = None, text: str | None = None
    ) -> list[int]:
        asked = TokenizeRequest(id=_new_id(), generate=generate, text=text)
        return (await lease.backend.tokenize(asked)).token_ids


def _new_id() -> str:
    return f"tokens-{secrets.token_hex(8)}"


MAX_INPUTS = 2048


_embed_route = partial(
    route, "POST", access=INFERENCE, error_format=OLLAMA, errors=GENERATION_ERRORS
)


class OllamaEmbedApi(ServicesApi):
    """`POST /api/embed` and `POST /api/embeddings`."""

    @_embed_route("/api/embed", request=EmbedBody)
    async def embed(self, request: Request) -> Embeddings:
        """Turn texts into vectors, in Ollama's format."""
        began = time.monotonic()
        body = await read_json(request, EmbedBody)
        vectors = await run_until_disconnect(request.receive, self._vectors(body))
        rows, tokens, load_seconds = vectors
        return Embeddings(
            model=required_name(body.model),
            embeddings=rows,
            total_duration=round((time.monotonic() - began) * NANOSECONDS),
            load_duration=round(load_seconds * NANOSECONDS),
            prompt_eval_count=tokens,
        )

    @_embed_route("/api/embeddings", cancellable=True)
    async def embeddings(self, body: OldEmbedBody) -> OldEmbedding:
        """Turn one text into a vector, as Ollama's older clients ask."""
        texts = EmbedBody(
            model=body.model, input=body.prompt, keep_alive=body.keep_alive, options=body.options
        )
        rows, _, _ = await self._vectors(texts)
        return OldEmbedding(rows[0] if rows else [])

    async def _vectors(self, body: EmbedBody) -> tuple[list[Any], int, float]:
        """The vectors as ready-made JSON, the tokens of all texts, and seconds of loading."""
        name = required_name(body.model)
        texts = _texts(body.input)
        model_options(body.options)
        seconds = keep_alive_seconds(body.keep_alive)
        await resolve_model(self._services, name)
        began = time.monotonic()
        async with self._services.manager.lease(
            name, task=ModelTask.EMBED, keep_alive=seconds
        ) as lease:
            load_seconds = time.monotonic() - began
            if not texts:  # a request without texts only loads the model
                return [], 0, load_seconds
            wanted = body.dimensions
            embedded = await lease.backend.embed(
                EmbedRequest(
                    id=f"embd-{secrets.token_hex(12)}",
                    inputs=list(texts),
                    dimensions=wanted if wanted and wanted < lease.info.dimensions else None,
                    truncate=body.truncate is not False,
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
