"""LM Studio's routes that answer: OpenAI's answers, measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from typing import Any

import msgspec
from msgspec import structs
from starlette.requests import Request
from starlette.responses import Response

from ingle.backends.base.events import FinishReason

from ...error_status import describe
from ...http.error_format import OPENAI
from ...http.json_response import JSONResponse
from ...http.request_body import parse, read_body, read_json
from ...http.route_access import INFERENCE
from ...http.route_spec import GENERATION_ERRORS, StreamSpec, route
from ...http.sse_writer import StreamStyle, encode_event, run_until_disconnect
from ...services import Services
from ..answer_builder import AnswerBuilder
from ..ingle_options import PRIVATE_HEADER
from ..job import Job
from ..job_runner import JobRunner
from ..ollama.keep_alive import keep_alive_seconds
from ..openai.completions.answer_style import AnswerStyle, chat_style, completion_style
from ..openai.completions.chat_answer import ChatAnswer, chat_completion
from ..openai.completions.chunk_frames import ChunkFrames
from ..openai.completions.completion_answer import CompletionAnswer, completion
from ..openai.completions.requests import chat_job, completion_job
from ..openai.completions.types import ChatCompletionChunk, Completion
from ..openai.embeddings_api import EmbeddingsApi
from ..openai.embeddings_types import EmbeddingList
from ..request_origin import origin_of
from .types import (
    ChatBody,
    CompletionBody,
    EmbeddingsBody,
    LoadedInfo,
    MeasuredChat,
    MeasuredCompletion,
    Runtime,
    Stats,
)

_route = partial(route, "POST", access=INFERENCE, error_format=OPENAI, errors=GENERATION_ERRORS)


class LMStudioCompletionsApi:
    """`POST /api/v0/chat/completions`, `/api/v0/completions` and `/api/v0/embeddings`."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._embedder = EmbeddingsApi(services)
        self._asker = JobRunner(services)
        self._style = StreamStyle(on_error=_error_frame)
        self._version = version("ingle")

    @_route(
        "/api/v0/chat/completions",
        request=ChatBody,
        response=MeasuredChat,
        stream=StreamSpec({"": ChatCompletionChunk}, only_if="`stream` is true"),
        parameters=(PRIVATE_HEADER,),
    )
    async def chat(self, request: Request) -> Response:
        """Answer a conversation, with measurements."""
        body = await read_json(request, ChatBody)
        job, style = chat_job(body, origin_of(request, body.ingle, body.user)), chat_style(body)
        job = replace(job, keep_alive=keep_alive_seconds(body.ttl))
        if body.stream:
            return self._stream(job, lambda empty: ChunkFrames(ChatAnswer(empty, style)))
        return await self._asker.whole(request, job, partial(self._measured_chat, style=style))

    @_route(
        "/api/v0/completions",
        request=CompletionBody,
        response=MeasuredCompletion,
        stream=StreamSpec({"": Completion}, only_if="`stream` is true"),
        parameters=(PRIVATE_HEADER,),
    )
    async def complete(self, request: Request) -> Response:
        """Continue a prompt, with measurements."""
        body = await read_json(request, CompletionBody)
        job, style = (
            completion_job(body, origin_of(request, body.ingle, body.user)),
            completion_style(body),
        )
        job = replace(job, keep_alive=keep_alive_seconds(body.ttl))
        if body.stream:
            return self._stream(job, lambda empty: ChunkFrames(CompletionAnswer(empty, style)))
        finish = partial(self._measured_completion, style=style)
        return await self._asker.whole(request, job, finish)

    @_route("/api/v0/embeddings", request=EmbeddingsBody, response=EmbeddingList)
    async def embed(self, request: Request) -> Response:
        """Turn texts into vectors."""
        content = await read_body(request)
        parse(content, EmbeddingsBody)
        vectors = self._embedder.answer_embeddings(content, origin_of(request, None))
        return JSONResponse(await run_until_disconnect(request.receive, vectors))

    def _stream(self, job: Job, translate: Callable[[AnswerBuilder], ChunkFrames]) -> Response:
        return self._asker.stream(job, translate, self._style)

    def _measured_chat(self, collected: AnswerBuilder, style: AnswerStyle) -> MeasuredChat:
        answer = chat_completion(collected, style)
        return MeasuredChat(**_fields(answer), **self._measurements(collected))

    def _measured_completion(
        self, collected: AnswerBuilder, style: AnswerStyle
    ) -> MeasuredCompletion:
        answer = completion(collected, style)
        return MeasuredCompletion(**_fields(answer), **self._measurements(collected))

    def _measurements(self, collected: AnswerBuilder) -> dict[str, Any]:
        ends = collected.ended
        writing = max((end.decode_seconds for end in ends), default=0.0)
        waiting = max((end.queue_seconds + end.prompt_seconds for end in ends), default=0.0)
        tokens = collected.completion_tokens
        return {
            "stats": Stats(
                tokens_per_second=round(tokens / writing, 3) if writing else 0.0,
                time_to_first_token=round(waiting, 4),
                generation_time=round(writing, 4),
                stop_reason=_stop_reason(collected),
            ),
            "model_info": LoadedInfo(
                arch=collected.model.architecture,
                quant=collected.model.quantization,
                format="gguf" if collected.model.source != "folder" else "safetensors",
                context_length=collected.info.context,
            ),
            "runtime": Runtime(
                name=f"ingle-{collected.info.engine}",
                version=self._version,
                supported_formats=["gguf", "safetensors"],
            ),
        }


def _fields(answer: msgspec.Struct) -> dict[str, Any]:
    return structs.asdict(answer)


def _stop_reason(collected: AnswerBuilder) -> str:
    """LM Studio's word for why the first answer ended."""
    answer = collected.answers[0]
    match answer.reason:
        case FinishReason.LENGTH:
            return "maxPredictedTokensReached"
        case FinishReason.TOOL_CALLS:
            return "toolCalls"
        case _:
            stopped = answer.finished is not None and answer.finished.stop
            return "stopStringFound" if stopped else "eosFound"


def _error_frame(error: Exception) -> bytes:
    return encode_event(msgspec.json.encode(describe(error).openai()))
