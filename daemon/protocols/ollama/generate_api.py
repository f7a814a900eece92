"""Ollama's routes that answer: chat and generate."""

from __future__ import annotations

import asyncio
import secrets
import time
from dataclasses import replace
from functools import partial

import msgspec
from msgspec import structs
from starlette.requests import Request
from starlette.responses import Response

from ingle.backends.base.conversation import ChatMessage
from ingle.backends.base.requests import GenerateRequest, TokenizeRequest
from ingle.models.metadata.stored_model import StoredModel

from ...errors import InvalidBody
from ...http.error_format import OLLAMA
from ...http.json_response import JSONResponse
from ...http.request_body import read_json, translate
from ...http.route_access import INFERENCE
from ...http.route_spec import GENERATION_ERRORS, StreamSpec, route
from ...http.sse_writer import run_until_disconnect
from ...library.model_facts import FactsReader
from ...lifecycle.lease import Lease
from ...services import Services
from ..ingle_options import PRIVATE_HEADER, origin_of
from ..job import Job
from ..job_runner import JobRunner
from .answers import AnswerLines, ChatLines, GenerateLines, LineMaker, Piece, whole_answer
from .model_names import required_name, resolve_model
from .ndjson import LINES, NDJSON_MEDIA
from .requests import OllamaRequest, chat_job, generate_job
from .types import AnswerRequest, ChatLine, ChatRequest, GenerateBody, GenerateLine, Metrics

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


class OllamaGenerateApi:
    """`POST /api/chat` and `POST /api/generate`."""

    def __init__(self, services: Services, facts: FactsReader) -> None:
        self._services = services
        self._facts = facts
        self._runner = JobRunner(services)

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
        asked, model = await self._asked(request, body)
        first = [ChatMessage(message.role, message.content) for message in model.messages]
        job = await translate(request, partial(chat_job, body, asked, first))
        maker = ChatLines(asked.name)
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
        asked, _ = await self._asked(request, body)
        job = await translate(request, partial(generate_job, body, asked))
        before = body.context if body.context and not body.suffix else []
        context_tokens = ContextTokens(before, wanted=job.request.messages is not None)
        maker = GenerateLines(asked.name, lambda: context_tokens.prompt)
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
            return JSONResponse(_done(maker, "unload"))
        await run_until_disconnect(request.receive, self._load(job))
        return JSONResponse(_done(maker, "load"))

    async def _load(self, job: Job) -> None:
        async with self._runner.lease(job, routed=False):
            pass

    async def _asked(
        self, request: Request, body: AnswerRequest
    ) -> tuple[OllamaRequest, StoredModel]:
        """The request without its conversation, and the model; raises what cannot be answered."""
        name = required_name(body.model)
        model = await resolve_model(self._services, name)
        if body.think and not await self._reasons(model):
            raise InvalidBody(
                f"{name[:200]!r} does not support thinking.",
                hint="Leave 'think' out.",
                param="think",
            )
        origin = origin_of(request, None)
        return OllamaRequest(name=name, origin=origin, defaults=model.options), model

    async def _reasons(self, model: StoredModel) -> bool:
        run = self._services.manager.find(model)
        if run is not None and run.info is not None and run.info.reasons:
            return True
        return (await asyncio.to_thread(self._facts.read, model)).capabilities.reasons


def _done(maker: LineMaker, reason: str) -> msgspec.Struct:
    return maker.last(maker.line(Piece()), Metrics(done_reason=reason), [])


class ContextTokens:
    """Makes the prompt of a request that has `context`, and keeps the prompt's tokens.

    The given tokens are not changed, so that their keys and values are found in the KV cache.
    """

    def __init__(self, before: list[int], *, wanted: bool) -> None:
        """`wanted` says whether the answer has its tokens."""
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
        """What follows an answer in this model's template: its end, and the new prompt."""
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
