"""OpenAI's routes for chats and plain completions."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from ....http.bodies import (
    OPENAI,
    JSONResponse,
    parse_served,
    run_until_disconnect,
    translate,
)
from ....http.off_loop import off_loop
from ....http.route_access import INFERENCE
from ....http.route_spec import GENERATION_ERRORS, StreamSpec, route
from ....http.sse_writer import StreamStyle
from ....services import Services
from ...ingle_options import PRIVATE_HEADER, RequestOrigin, origin_of
from ...job import AnswerBuilder, Job
from ...job_runner import AnswerEncoder, JobApi
from .answers import ChatStream, CompletionStream, chat_completion, completion
from .completion_store import CompletionStore, RecordedStream
from .request_types import ChatCompletionRequest, CommonRequest, PlainCompletionRequest
from .requests import chat_job, completion_job
from .types import ChatCompletion, ChatCompletionChunk, TextCompletion

_route = partial(
    route,
    "POST",
    access=INFERENCE,
    error_format=OPENAI,
    parameters=(PRIVATE_HEADER,),
    errors=GENERATION_ERRORS,
)


class CompletionsApi(JobApi):
    """`POST /v1/chat/completions` and `POST /v1/completions`."""

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        self._stored = CompletionStore(services.responses)

    @_route(
        "/v1/chat/completions",
        other_paths=("/chat/completions",),
        response=ChatCompletion,
        stream=StreamSpec({"": ChatCompletionChunk}, only_if="`stream` is true"),
    )
    async def chat_completions(self, request: Request, body: ChatCompletionRequest) -> Response:
        """Answer a conversation."""
        job = await translate(request, partial(chat_job, body, _origin(request, body)))
        keep = partial(self._stored.keep, body) if await self._stored.wants(body, job) else None
        return await self._answer(request, body, job, ChatStream, chat_completion, keep)

    @_route(
        "/v1/completions",
        response=TextCompletion,
        stream=StreamSpec({"": TextCompletion}, only_if="`stream` is true"),
    )
    async def completions(self, request: Request, body: PlainCompletionRequest) -> Response:
        """Continue one or several prompts."""
        job = await translate(request, partial(completion_job, body, _origin(request, body)))
        return await self._answer(request, body, job, CompletionStream, completion)

    @_route(
        "/v1/fim/completions",
        response=ChatCompletion,
        stream=StreamSpec({"": ChatCompletionChunk}, only_if="`stream` is true"),
    )
    async def fill_in(self, request: Request, body: PlainCompletionRequest) -> Response:
        """Fill in text between `prompt` and `suffix`; answered as a chat, like Mistral's API."""
        job = await translate(request, partial(completion_job, body, _origin(request, body)))
        chat = ChatCompletionRequest(messages=[], stream_options=body.stream_options)
        return await self._answer(
            request,
            body,
            job,
            lambda empty, _: ChatStream(empty, chat),
            lambda collected, _: chat_completion(collected, chat),
        )

    async def answer_chat(self, body: bytes, origin: RequestOrigin) -> ChatCompletion:
        """The whole answer to the body of a chat in a batch.

        Whether the body asks for a stream does not matter. Raises what `describe` can report.
        """
        chat, job = await off_loop(len(body), partial(_read_chat, body, origin))
        is_kept = await self._stored.wants(chat, job)
        collected = await self._runner.collect(job)
        if is_kept:
            await self._stored.keep(chat, collected)
        return chat_completion(collected, chat)

    async def answer_completion(self, body: bytes, origin: RequestOrigin) -> TextCompletion:
        """The whole answer to the body of a plain completion in a batch; see `answer_chat`."""
        plain, job = await off_loop(len(body), partial(_read_completion, body, origin))
        return completion(await self._runner.collect(job), plain)

    async def _answer(
        self,
        request: Request,
        body: CommonRequest,
        job: Job,
        encode: Callable[[AnswerBuilder, Any], AnswerEncoder],
        finish: Callable[[AnswerBuilder, Any], object],
        keep: Callable[[AnswerBuilder], Awaitable[None]] | None = None,
    ) -> Response:
        """Run a job, and answer as `encode` or `finish` makes it from the events and the body.

        `keep` stores the answer before its end is sent.
        """
        # OpenAI's clients show this header with an error.
        headers = {"x-request-id": "req_" + job.id.rpartition("-")[2]}
        if body.stream:
            style = StreamStyle(on_error=OPENAI.frame, headers=headers)
            if keep is None:
                return self._runner.stream(job, lambda empty: encode(empty, body), style)
            kept = RecordedStream(lambda empty: encode(empty, body))
            return self._runner.stream(job, kept.begin, style, lambda: keep(kept.collected))
        began = time.monotonic()
        collected = await run_until_disconnect(request.receive, self._runner.collect(job))
        if keep is not None:
            await keep(collected)
        response = JSONResponse(finish(collected, body))
        response.headers.update(headers)
        response.headers["openai-processing-ms"] = str(round(1000 * (time.monotonic() - began)))
        return response


def _read_chat(body: bytes, origin: RequestOrigin) -> tuple[ChatCompletionRequest, Job]:
    chat, _ = parse_served(body, ChatCompletionRequest)
    return chat, chat_job(chat, origin)


def _read_completion(body: bytes, origin: RequestOrigin) -> tuple[PlainCompletionRequest, Job]:
    plain, _ = parse_served(body, PlainCompletionRequest)
    return plain, completion_job(plain, origin)


def _origin(request: Request, body: CommonRequest) -> RequestOrigin:
    names = (body.user, body.safety_identifier, body.prompt_cache_key)
    return origin_of(request, body.ingle, *names)
