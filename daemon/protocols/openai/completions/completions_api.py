"""OpenAI's routes for chats and plain completions."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ....error_status import describe
from ....http.error_format import OPENAI
from ....http.request_body import parse, read_json, translate
from ....http.route_access import INFERENCE
from ....http.route_spec import GENERATION_ERRORS, StreamSpec, route
from ....http.sse_writer import StreamStyle, encode_event, loading_comment
from ....services import Services
from ...answer_builder import AnswerBuilder
from ...ingle_options import PRIVATE_HEADER
from ...job import Job
from ...job_runner import JobRunner
from ...request_origin import RequestOrigin, origin_of
from .answer_style import chat_style, completion_style
from .chat_answer import ChatAnswer, chat_completion
from .chunk_frames import ChunkFrames
from .common_request import CommonRequest
from .completion_answer import CompletionAnswer, completion
from .request_types import ChatCompletionRequest, CompletionRequest
from .requests import chat_job, completion_job
from .types import ChatCompletion, ChatCompletionChunk, Completion

_route = partial(
    route,
    "POST",
    access=INFERENCE,
    error_format=OPENAI,
    parameters=(PRIVATE_HEADER,),
    errors=GENERATION_ERRORS,
)


class CompletionsApi:
    """`POST /v1/chat/completions` and `POST /v1/completions`."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._encoder = msgspec.json.Encoder()
        self._asker = JobRunner(services)
        self._style = StreamStyle(on_error=self._error_frame, loading=loading_comment)

    @_route(
        "/v1/chat/completions",
        request=ChatCompletionRequest,
        response=ChatCompletion,
        stream=StreamSpec({"": ChatCompletionChunk}, only_if="`stream` is true"),
    )
    async def chat_completions(self, request: Request) -> Response:
        """Answer a conversation."""
        body = await read_json(request, ChatCompletionRequest)
        job = await translate(request, partial(chat_job, body, _origin(request, body)))
        style = chat_style(body)
        if not body.stream:
            return await self._whole(request, job, partial(chat_completion, style=style))
        return self._stream(job, lambda empty: ChunkFrames(ChatAnswer(empty, style)))

    @_route(
        "/v1/completions",
        request=CompletionRequest,
        response=Completion,
        stream=StreamSpec({"": Completion}, only_if="`stream` is true"),
    )
    async def completions(self, request: Request) -> Response:
        """Continue one or several prompts."""
        body = await read_json(request, CompletionRequest)
        job = await translate(request, partial(completion_job, body, _origin(request, body)))
        style = completion_style(body)
        if not body.stream:
            return await self._whole(request, job, partial(completion, style=style))
        return self._stream(job, lambda empty: ChunkFrames(CompletionAnswer(empty, style)))

    async def answer_chat(self, body: bytes, origin: RequestOrigin) -> ChatCompletion:
        """The whole answer to the body of a chat, for whoever asks from within.

        Whether the body asks for a stream does not matter. Raises what `describe` can tell.
        """
        asked = parse(body, ChatCompletionRequest)
        return chat_completion(
            await self._asker.collect(chat_job(asked, origin)), chat_style(asked)
        )

    async def answer_completion(self, body: bytes, origin: RequestOrigin) -> Completion:
        """The whole answer to the body of a plain completion; see `answer_chat`."""
        asked = parse(body, CompletionRequest)
        return completion(
            await self._asker.collect(completion_job(asked, origin)), completion_style(asked)
        )

    async def _whole(
        self, request: Request, job: Job, finish: Callable[[AnswerBuilder], object]
    ) -> Response:
        began = time.monotonic()
        response = await self._asker.whole(request, job, finish)
        response.headers.update(_request_id(job))
        response.headers["openai-processing-ms"] = str(round(1000 * (time.monotonic() - began)))
        return response

    def _stream(self, job: Job, translate: Callable[[AnswerBuilder], ChunkFrames]) -> Response:
        return self._asker.stream(job, translate, replace(self._style, headers=_request_id(job)))

    def _error_frame(self, error: Exception) -> bytes:
        return encode_event(self._encoder.encode(describe(error).openai()))


def _origin(request: Request, body: CommonRequest) -> RequestOrigin:
    names = (body.user, body.safety_identifier, body.prompt_cache_key)
    return origin_of(request, body.ingle, *names)


def _request_id(job: Job) -> dict[str, str]:
    """The header that OpenAI's clients show with what went wrong."""
    return {"x-request-id": "req_" + job.id.rpartition("-")[2]}
