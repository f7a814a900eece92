"""llama-server's routes for completions and infill."""

from __future__ import annotations

import asyncio
import dataclasses
import secrets
import time
from contextlib import suppress
from functools import partial
from typing import Any

from msgspec import structs
from starlette.requests import Request
from starlette.responses import Response

from ingle.backends.base.backend import RequestBackend
from ingle.backends.base.requests import TokenizeRequest
from ingle.models.model_task import ModelTask

from ...errors import LlamaCppError
from ...http.bodies import LLAMA_CPP, OPENAI, JSONResponse, run_until_disconnect, translate
from ...http.route_access import INFERENCE
from ...http.route_spec import GENERATION_ERRORS, AlternativeResponse, StreamSpec, route
from ...http.sse_writer import StreamStyle
from ...library.model_facts import FactsReader
from ...model_process.model_run import ModelRun
from ...services import Services
from ..ingle_options import PRIVATE_HEADER, origin_of
from ..job import AnswerBuilder, Job
from ..job_runner import JobApi
from ..openai.completions.request_types import ChatCompletionRequest
from ..openai.completions.requests import chat_job
from ..responses.types import InputTokens
from .adapters import adapted_model
from .answers import (
    AnswerComplete,
    CompletionFrames,
    LineGuard,
    LineGuardedAnswers,
    completion,
    only_fields,
)
from .requests import (
    MixedPrompt,
    completion_job,
    indentation,
    infill_job,
    mixed_prompts,
    time_limit,
)
from .sampling import text_biases
from .types import Completion, CompletionRequest, GenerationFields, InfillRequest

_route = partial(
    route,
    "POST",
    access=INFERENCE,
    error_format=LLAMA_CPP,
    response=Completion | list[Completion],
    # With `response_fields` an answer has only some of its fields.
    alternative=AlternativeResponse(dict[str, Any] | list[dict[str, Any]], LlamaCppError),
    # Chunks, then an answer of which `response_fields` may leave no field.
    stream=StreamSpec({"": dict[str, Any]}, only_if="`stream` is true"),
    parameters=(PRIVATE_HEADER,),
    errors=GENERATION_ERRORS,
)
_STYLE = StreamStyle(on_error=LLAMA_CPP.frame)


class LlamaCppCompletionsApi(JobApi):
    """`/infill`, and `/completion` under both of its names."""

    @_route("/infill")
    async def infill(self, request: Request, body: InfillRequest) -> Response:
        """Fill a gap in a text, as llama-server does."""
        model = await asyncio.to_thread(
            infilling_model, self._services, self._services.facts, body.model
        )
        model = await self._adapted(model, body)
        origin = origin_of(request, body.ingle)
        job = await translate(request, partial(infill_job, body, model, origin))
        return await self._answer(request, body, job)

    @_route("/completion")
    @_route("/completions")
    async def completion(self, request: Request, body: CompletionRequest) -> Response:
        """Continue one or several prompts, as llama-server does."""
        model = await self._adapted(chosen_model(self._services, body.model), body)
        prompts, plain = await translate(request, partial(_prompts, body))
        make = partial(completion_job, body, model, origin=origin_of(request, body.ingle))
        if len(plain) < len(prompts):
            # Errors in other fields are reported before the model is loaded.
            job = await translate(request, partial(make, [""]))
            mixed = self._tokenized(Job(model=model, request=job.request), prompts)
            plain = await run_until_disconnect(request.receive, mixed)
        return await self._answer(request, body, await translate(request, partial(make, plain)))

    @route(
        "POST",
        "/v1/chat/completions/input_tokens",
        other_paths=("/chat/completions/input_tokens",),
        access=INFERENCE,
        error_format=OPENAI,
        errors=GENERATION_ERRORS,
    )
    async def count(self, request: Request, body: ChatCompletionRequest) -> InputTokens:
        """Count the tokens of a conversation without answering it."""
        job = await translate(request, partial(chat_job, body, origin_of(request, body.ingle)))
        found = await run_until_disconnect(request.receive, self._runner.count_tokens(job))
        return InputTokens(input_tokens=found)

    async def _adapted(self, model: str, body: GenerationFields) -> str:
        if not body.lora:
            return model
        return await asyncio.to_thread(adapted_model, self._services, model, body.lora)

    async def _answer(self, request: Request, body: GenerationFields, job: Job) -> Response:
        if texts := text_biases(body):
            job = await run_until_disconnect(request.receive, self._biased(job, texts))
        if body.stream:
            frames = partial(CompletionFrames, body=body)
            return self._runner.stream(job, frames, _STYLE)
        collected = await run_until_disconnect(request.receive, self._guarded(body, job))
        return await translate(request, partial(_whole, collected, body))

    async def _guarded(self, body: GenerationFields, job: Job) -> AnswerBuilder:
        indent, seconds = indentation(body), time_limit(body)
        guards = [LineGuard(indent=indent, seconds=seconds) for _ in range(job.answers)]
        looks_on = indent > 0 or seconds is not None  # as the text comes, to end it
        async with self._runner.lease(job, whole=not looks_on) as (lease, _):
            collected = AnswerBuilder(job, lease)
            with suppress(AnswerComplete):  # the lines that fill the gap are there
                await self._runner.run(job, lease, LineGuardedAnswers(collected, guards).take)
        return collected

    async def _biased(self, job: Job, texts: dict[str, float]) -> Job:
        """The job with a bias for every token of these texts."""
        biases = dict(job.options.logit_bias or {})
        async with self._runner.lease(job, routed=False) as (lease, _):
            for text, bias in texts.items():
                tokens = await token_ids(
                    lease.backend, text, add_special=False, parse_special=False
                )
                biases |= dict.fromkeys(tokens, bias)
        options = structs.replace(job.options, logit_bias=biases)
        return dataclasses.replace(job, options=options)

    async def _tokenized(self, job: Job, prompts: list[MixedPrompt]) -> list[str | list[int]]:
        async with self._runner.lease(job, routed=False) as (lease, _):
            return [
                prompt if isinstance(prompt, str) else await token_ids(lease.backend, prompt)
                for prompt in prompts
            ]


def _whole(collected: AnswerBuilder, body: GenerationFields) -> Response:
    """The response; each answer repeats the settings, with all biases."""
    answers = [
        completion(collected, number, return_tokens=bool(body.return_tokens))
        for number in range(collected.job.answers)
    ]
    chosen = [only_fields(answer, body.response_fields) for answer in answers]
    return JSONResponse(chosen[0] if len(chosen) == 1 else chosen)


async def token_ids(
    backend: RequestBackend,
    prompt: MixedPrompt,
    *,
    add_special: bool = True,
    parse_special: bool = True,
) -> list[int]:
    """The tokens of texts and tokens in turn; only a text at the beginning gets special tokens."""
    pieces = [prompt] if isinstance(prompt, str) else prompt
    tokens: list[int] = []
    for number, piece in enumerate(pieces):
        if isinstance(piece, int):
            tokens.append(piece)
            continue
        asked = TokenizeRequest(
            id=f"tokens-{secrets.token_hex(12)}",
            text=piece,
            add_special=add_special and number == 0,
            parse_special=parse_special,
        )
        tokens += (await backend.tokenize(asked)).token_ids
    return tokens


def _prompts(body: CompletionRequest) -> tuple[list[MixedPrompt], list[str | list[int]]]:
    """All prompts, and those that are not mixed."""
    prompts = mixed_prompts(body)
    return prompts, [prompt for prompt in map(_unmixed, prompts) if prompt is not None]


def _unmixed(prompt: MixedPrompt) -> str | list[int] | None:
    """The prompt, where it is all text or all tokens."""
    if isinstance(prompt, str):
        return prompt
    tokens = [piece for piece in prompt if isinstance(piece, int)]
    return tokens if len(tokens) == len(prompt) else None


def chosen_model(
    services: Services, named: str | None, *, task: ModelTask = ModelTask.GENERATE
) -> str:
    """The one named, else of those loaded for the `task` the one used last, else the default."""
    if named:
        return named
    loaded = _loaded(services, task)
    return max(loaded, key=_used).model.name if loaded else services.config.default_model


def infilling_model(services: Services, facts: FactsReader, named: str | None) -> str:
    """The one named, else of those that fill gaps the one used last, else the smallest installed.

    Where there is none it is the one that would be chosen for anything; reads the store.
    """
    if named:
        return named
    loaded = [run for run in _loaded(services, ModelTask.GENERATE) if run.info and run.info.infills]
    if loaded:
        return max(loaded, key=_used).model.name
    fit = [
        model
        for model in services.store.list()
        if model.task is ModelTask.GENERATE and facts.read(model).capabilities.infills
    ]
    if fit:
        return min(fit, key=lambda model: model.size).name
    return chosen_model(services, None)


def _loaded(services: Services, task: ModelTask) -> list[ModelRun]:
    runs = [services.manager.find(model) for model in services.manager.models()]
    return [run for run in runs if run is not None and run.model.task is task]


def _used(run: ModelRun) -> float:
    return time.monotonic() if run.busy else run.last_used
