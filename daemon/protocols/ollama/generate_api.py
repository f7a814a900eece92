"""Ollama's routes that answer: chat and generate."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from functools import partial

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ingle.backends.base.conversation import ChatMessage
from ingle.models.metadata.stored_model import StoredModel

from ...access.client_identity import identify_client
from ...errors import InvalidBody
from ...http.error_format import OLLAMA
from ...http.json_response import JSONResponse
from ...http.request_body import read_json, translate
from ...http.route_access import INFERENCE
from ...http.route_spec import GENERATION_ERRORS, StreamSpec, route
from ...http.sse_writer import run_until_disconnect
from ...library.model_facts import FactsReader
from ...services import Services
from ..ingle_options import PRIVATE_HEADER, RequestOrigin, is_private
from ..job import Job
from ..job_runner import JobRunner
from .answers import AnswerLines, ChatLines, GenerateLines, LineMaker, whole_answer
from .context_tokens import Memory
from .model_names import required_name, resolve_model
from .ndjson import LINES, NDJSON_MEDIA
from .requests import OllamaRequest, chat_job, generate_job
from .types import AnswerRequest, ChatLine, ChatRequest, GenerateBody, GenerateLine, Metrics

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
        self._asker = JobRunner(services)

    @_route(
        "/api/chat",
        request=ChatRequest,
        response=ChatLine,
        stream=StreamSpec({"": ChatLine}, only_if=_STREAMED, media_type=NDJSON_MEDIA),
    )
    async def chat(self, request: Request) -> Response:
        """Answer a conversation, in Ollama's words."""
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
        """Go on with a prompt or fill a gap, in Ollama's words."""
        began = time.monotonic()
        body = await read_json(request, GenerateBody)
        asked, _ = await self._asked(request, body)
        job = await translate(request, partial(generate_job, body, asked))
        before = body.context if body.context and not body.suffix else []
        memory = Memory(before, wanted=job.request.messages is not None)
        maker = GenerateLines(asked.name, lambda: memory.prompt)
        if not body.prompt and not body.suffix:
            return await self._load_or_unload(request, job, maker)
        # The tokens of what was said before are no text that could be looked through.
        job = replace(job, fit=memory.fit, opaque="context" if before else "")
        return await self._answer(request, body, job, maker, began)

    async def _answer(
        self, request: Request, body: AnswerRequest, job: Job, maker: LineMaker, began: float
    ) -> Response:
        if body.stream is False:
            finish = partial(whole_answer, maker=maker, began=began)
            return await self._asker.whole(request, job, finish)
        return self._asker.stream(job, lambda empty: AnswerLines(empty, maker, began), LINES)

    async def _load_or_unload(self, request: Request, job: Job, maker: LineMaker) -> Response:
        """Nothing is asked: what is left is whether the model shall be there."""
        if job.keep_alive == 0:
            await self._services.manager.unload(job.model)
            return JSONResponse(_done(maker, "unload"))
        await run_until_disconnect(request.receive, self._load(job))
        return JSONResponse(_done(maker, "load"))

    async def _load(self, job: Job) -> None:
        async with self._asker.lease(job, routed=False):
            pass

    async def _asked(
        self, request: Request, body: AnswerRequest
    ) -> tuple[OllamaRequest, StoredModel]:
        """What stands around the conversation, and the model; raises what cannot be answered."""
        name = required_name(body.model)
        model = await resolve_model(self._services, name)
        if body.think and not await self._reasons(model):
            raise InvalidBody(
                f"{name[:200]!r} does not support thinking.",
                hint="Leave 'think' out.",
                param="think",
            )
        origin = RequestOrigin(
            client=identify_client(request), private=is_private(None, request.headers)
        )
        return OllamaRequest(name=name, origin=origin, defaults=model.options), model

    async def _reasons(self, model: StoredModel) -> bool:
        run = self._services.manager.find(model)
        if run is not None and run.info is not None and run.info.reasons:
            return True
        return (await asyncio.to_thread(self._facts.read, model)).capabilities.reasons


def _done(maker: LineMaker, reason: str) -> msgspec.Struct:
    return maker.last(maker.line(""), Metrics(done_reason=reason), [])
