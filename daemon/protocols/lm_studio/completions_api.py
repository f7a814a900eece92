"""LM Studio's generating routes: OpenAI's answers with measurements."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from msgspec import structs
from starlette.requests import Request
from starlette.responses import Response

from ingle.backends.base.events import FinishReason

from ...http.json_response import OPENAI, JSONResponse
from ...http.request_body import parse, read_body, read_json
from ...http.route_access import INFERENCE
from ...http.route_spec import GENERATION_ERRORS, StreamSpec, route
from ...http.sse_writer import StreamStyle, run_until_disconnect
from ...installed_version import installed_version
from ...services import Services
from ..answer_builder import AnswerBuilder
from ..ingle_options import PRIVATE_HEADER, origin_of
from ..job_runner import JobRunner
from ..ollama.requests import keep_alive_seconds
from ..openai.completions.answers import ChatStream, CompletionStream, chat_completion, completion
from ..openai.completions.requests import chat_job, completion_job
from ..openai.completions.types import ChatCompletionChunk, TextCompletion
from ..openai.embeddings_api import EmbeddingList, EmbeddingsApi
from .types import (
    ChatBody,
    CompletionBody,
    LMStudioEmbeddings,
    LoadedInfo,
    MeasuredChat,
    MeasuredCompletion,
    Runtime,
    Stats,
)

_route = partial(route, "POST", access=INFERENCE, error_format=OPENAI, errors=GENERATION_ERRORS)
_STYLE = StreamStyle(on_error=OPENAI.frame)


class LMStudioCompletionsApi:
    """`POST /api/v0/chat/completions`, `/api/v0/completions` and `/api/v0/embeddings`."""

    def __init__(self, services: Services) -> None:
        self._embedder = EmbeddingsApi(services)
        self._runner = JobRunner(services)

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
        job = chat_job(body, origin_of(request, body.ingle, body.user))
        job = replace(job, keep_alive=keep_alive_seconds(body.ttl))
        if body.stream:
            return self._runner.stream(job, partial(ChatStream, body=body), _STYLE)

        def finish(collected: AnswerBuilder) -> MeasuredChat:
            answer = chat_completion(collected, body)
            return MeasuredChat(**structs.asdict(answer), **_measurements(collected))

        return await self._runner.whole(request, job, finish)

    @_route(
        "/api/v0/completions",
        request=CompletionBody,
        response=MeasuredCompletion,
        stream=StreamSpec({"": TextCompletion}, only_if="`stream` is true"),
        parameters=(PRIVATE_HEADER,),
    )
    async def complete(self, request: Request) -> Response:
        """Continue a prompt, with measurements."""
        body = await read_json(request, CompletionBody)
        job = completion_job(body, origin_of(request, body.ingle, body.user))
        job = replace(job, keep_alive=keep_alive_seconds(body.ttl))
        if body.stream:
            return self._runner.stream(job, partial(CompletionStream, body=body), _STYLE)

        def finish(collected: AnswerBuilder) -> MeasuredCompletion:
            answer = completion(collected, body)
            return MeasuredCompletion(**structs.asdict(answer), **_measurements(collected))

        return await self._runner.whole(request, job, finish)

    @_route("/api/v0/embeddings", request=LMStudioEmbeddings, response=EmbeddingList)
    async def embed(self, request: Request) -> Response:
        """Turn texts into vectors."""
        body = await read_body(request)
        parse(body, LMStudioEmbeddings)
        vectors = self._embedder.answer_embeddings(body, origin_of(request, None))
        return JSONResponse(await run_until_disconnect(request.receive, vectors))


def _measurements(collected: AnswerBuilder) -> dict[str, Any]:
    ends = collected.ended
    decode_seconds = max((end.decode_seconds for end in ends), default=0.0)
    first_token = max((end.queue_seconds + end.prompt_seconds for end in ends), default=0.0)
    tokens = collected.completion_tokens
    return {
        "stats": Stats(
            tokens_per_second=round(tokens / decode_seconds, 3) if decode_seconds else 0.0,
            time_to_first_token=round(first_token, 4),
            generation_time=round(decode_seconds, 4),
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
            version=installed_version(),
            supported_formats=["gguf", "safetensors"],
        ),
    }


def _stop_reason(collected: AnswerBuilder) -> str:
    """LM Studio's word for the reason why the first answer ended."""
    answer = collected.answers[0]
    match answer.reason:
        case FinishReason.LENGTH:
            return "maxPredictedTokensReached"
        case FinishReason.TOOL_CALLS:
            return "toolCalls"
        case _:
            stopped = answer.finished is not None and answer.finished.stop
            return "stopStringFound" if stopped else "eosFound"
