"""LM Studio's routes: OpenAI's answers with measurements, and its models."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from msgspec import UNSET, structs
from starlette.requests import Request
from starlette.responses import Response

from ingle.backends.base.events import FinishReason
from ingle.backends.base.requests import Priority
from ingle.models.errors import ModelNotFound
from ingle.models.metadata.stored_model import StoredModel
from ingle.models.model_task import ModelTask

from ...client.model_types import LoadedModel
from ...http.bodies import BODY_BYTES, OPENAI, translate
from ...http.route_access import INFERENCE, LISTS, MODELS
from ...http.route_spec import GENERATION_ERRORS, StreamSpec, route
from ...http.sse_writer import StreamStyle
from ...installed_version import installed_version
from ...library.model_facts import ModelFacts
from ...load_planning.load_options import LoadOptions
from ...load_planning.usable_context import usable_context
from ...model_process.loaded_model import loaded_model
from ...model_process.model_run import ModelRun, ModelState
from ..ingle_options import PRIVATE_HEADER, origin_of
from ..job import AnswerBuilder
from ..job_runner import JobApi
from ..ollama.model_descriptions import human_number, named_models
from ..ollama.requests import keep_alive_seconds
from ..openai.completions.answers import ChatStream, CompletionStream, chat_completion, completion
from ..openai.completions.requests import chat_job, completion_job
from ..openai.completions.types import ChatCompletionChunk, TextCompletion
from ..openai.embeddings_api import EmbeddingList, EmbeddingsApi
from ..services_api import ServicesApi
from .types import (
    ChatBody,
    CompletionBody,
    FileFormat,
    Instance,
    InstanceConfig,
    KnownModel,
    KnownModels,
    LMStudioEmbeddings,
    LMStudioModel,
    LMStudioModels,
    LoadBody,
    LoadedAnswer,
    LoadedInfo,
    MeasuredChat,
    MeasuredCompletion,
    ModelAbilities,
    QuantizationInfo,
    ReasoningAbility,
    Runtime,
    Stats,
    UnloadBody,
    UnloadedAnswer,
)

_route = partial(route, "POST", access=INFERENCE, error_format=OPENAI, errors=GENERATION_ERRORS)
_STYLE = StreamStyle(on_error=OPENAI.frame)


class LMStudioCompletionsApi(JobApi):
    """`POST /api/v0/chat/completions`, `/api/v0/completions` and `/api/v0/embeddings`."""

    @_route(
        "/api/v0/chat/completions",
        response=MeasuredChat,
        stream=StreamSpec({"": ChatCompletionChunk}, only_if="`stream` is true"),
        parameters=(PRIVATE_HEADER,),
    )
    async def chat(self, request: Request, body: ChatBody) -> Response:
        """Answer a conversation, with measurements."""
        origin = origin_of(request, body.ingle, body.user)
        job = await translate(request, partial(chat_job, body, origin))
        job = replace(job, keep_alive=keep_alive_seconds(body.ttl))
        if body.stream:
            return self._runner.stream(job, partial(ChatStream, body=body), _STYLE)

        def finish(collected: AnswerBuilder) -> MeasuredChat:
            answer = chat_completion(collected, body)
            return MeasuredChat(**structs.asdict(answer), **_measurements(collected))

        return await self._runner.whole(request, job, finish)

    @_route(
        "/api/v0/completions",
        response=MeasuredCompletion,
        stream=StreamSpec({"": TextCompletion}, only_if="`stream` is true"),
        parameters=(PRIVATE_HEADER,),
    )
    async def complete(self, request: Request, body: CompletionBody) -> Response:
        """Continue a prompt, with measurements."""
        origin = origin_of(request, body.ingle, body.user)
        job = await translate(request, partial(completion_job, body, origin))
        job = replace(job, keep_alive=keep_alive_seconds(body.ttl))
        if body.stream:
            return self._runner.stream(job, partial(CompletionStream, body=body), _STYLE)

        def finish(collected: AnswerBuilder) -> MeasuredCompletion:
            answer = completion(collected, body)
            return MeasuredCompletion(**structs.asdict(answer), **_measurements(collected))

        return await self._runner.whole(request, job, finish)

    @_route("/api/v0/embeddings", cancellable=True)
    async def embed(self, request: Request, body: LMStudioEmbeddings) -> EmbeddingList:
        """Turn texts into vectors."""
        return await EmbeddingsApi(self._services).embed(
            body, Priority.INTERACTIVE, request.scope[BODY_BYTES]
        )


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


LOAD_ERRORS = (404, 409, 413, 422, 500, 503, 507)


_models_route = partial(route, error_format=OPENAI)


class LMStudioModelsApi(ServicesApi):
    """LM Studio's lists of models, and loading and unloading them."""

    @_models_route("GET", "/api/v0/models", access=LISTS)
    async def list_models(self) -> LMStudioModels:
        """The installed models and their aliases, in LM Studio's format."""
        named = await asyncio.to_thread(self._named)
        rows = [await self._listed(*each) for each in named]
        return LMStudioModels(data=rows)

    @_models_route("GET", "/api/v0/models/{id:path}", access=LISTS, errors=(404, 422))
    async def get_model(self, request: Request) -> LMStudioModel:
        """One installed model, in LM Studio's format."""
        name: str = request.path_params["id"]
        model = await asyncio.to_thread(self._services.resolve, name)
        facts = await asyncio.to_thread(self._services.facts.read, model)
        return await self._listed(name, model, facts)

    @_models_route("GET", "/api/v1/models", access=LISTS)
    async def known_models(self) -> KnownModels:
        """The installed models and their aliases, in LM Studio's newer format."""
        named = await asyncio.to_thread(self._named)
        rows = [
            _known(name, model, facts, self._run(model), await self._context(model))
            for name, model, facts in named
        ]
        return KnownModels(rows)

    @_models_route(
        "POST", "/api/v1/models/load", access=MODELS, errors=LOAD_ERRORS, cancellable=True
    )
    async def load(self, body: LoadBody) -> LoadedAnswer:
        """Load a model, and answer once it is ready, in LM Studio's format."""
        began = time.monotonic()
        loaded = await self._services.manager.load(
            body.model,
            LoadOptions(context=body.context_length),
            keep_alive=keep_alive_seconds(body.ttl),
        )
        model = await asyncio.to_thread(self._services.resolve, body.model)
        return LoadedAnswer(
            type=_kind(model),
            instance_id=body.model,
            load_time_seconds=round(time.monotonic() - began, 3),
            load_config=_config(loaded) if body.echo_load_config else UNSET,
        )

    @_models_route("POST", "/api/v1/models/unload", access=MODELS, errors=(404, 413, 422))
    async def unload(self, body: UnloadBody) -> UnloadedAnswer:
        """Let running answers finish, then unload a model, in LM Studio's format."""
        if not await self._services.manager.unload(body.instance_id):
            raise ModelNotFound(
                f"The model {body.instance_id[:200]!r} is not loaded.",
                hint="`GET /api/v1/models` shows what is.",
            )
        return UnloadedAnswer(body.instance_id)

    def _named(self) -> list[tuple[str, StoredModel, ModelFacts]]:
        return [
            (name, model, self._services.facts.read(model))
            for name, model in named_models(self._services)
            if model.task not in (ModelTask.RERANK, ModelTask.TRANSCRIBE)
        ]

    async def _context(self, model: StoredModel) -> int:
        return await asyncio.to_thread(usable_context, self._services, model)

    async def _listed(self, name: str, model: StoredModel, facts: ModelFacts) -> LMStudioModel:
        return _listed(name, model, facts, self._run(model), await self._context(model))

    def _run(self, model: StoredModel) -> ModelRun | None:
        run = self._services.manager.find(model)
        return run if run is not None and run.state is ModelState.READY else None


def _listed(
    name: str, model: StoredModel, facts: ModelFacts, run: ModelRun | None, context: int
) -> LMStudioModel:
    return LMStudioModel(
        id=name,
        type=_type(model, facts),
        publisher=_publisher(model),
        arch=model.architecture,
        compatibility_type=_format(facts),
        quantization=model.quantization,
        state="loaded" if run is not None else "not-loaded",
        max_context_length=context,
        loaded_context_length=context if run is not None and run.info else UNSET,
        capabilities=["tool_use"] if facts.capabilities.calls_tools else [],
    )


def _known(
    name: str, model: StoredModel, facts: ModelFacts, run: ModelRun | None, context: int
) -> KnownModel:
    bits = round(8 * model.size / model.parameters, 2) if model.parameters else None
    instances: list[Instance] = []
    if run is not None:
        instances.append(Instance(id=name, config=_config(loaded_model(run))))
    writes = model.task is ModelTask.GENERATE
    able = facts.capabilities
    abilities = ModelAbilities(
        vision=able.sees,
        trained_for_tool_use=able.calls_tools,
        reasoning=ReasoningAbility(allowed_options=["off", "on"]) if able.reasons else UNSET,
    )
    return KnownModel(
        type=_kind(model),
        publisher=_publisher(model),
        key=name,
        display_name=str(facts.metadata.get("general.name", name)),
        architecture=model.architecture,
        quantization=QuantizationInfo(model.quantization, bits),
        size_bytes=model.size,
        params_string=human_number(model.parameters),
        loaded_instances=instances,
        max_context_length=context,
        format=_format(facts),
        capabilities=abilities if writes else UNSET,
        description=model.description,
    )


def _config(loaded: LoadedModel) -> InstanceConfig:
    return InstanceConfig(
        context_length=loaded.context,
        flash_attention=loaded.flash_attention,
        offload_kv_cache_to_gpu=loaded.layers_on_gpu > 0,
        parallel=loaded.slots,
    )


def _type(model: StoredModel, facts: ModelFacts) -> Literal["llm", "vlm", "embeddings"]:
    if model.task is ModelTask.EMBED:
        return "embeddings"
    return "vlm" if facts.capabilities.sees else "llm"


def _kind(model: StoredModel) -> Literal["llm", "embedding"]:
    return "embedding" if model.task is ModelTask.EMBED else "llm"


def _format(facts: ModelFacts) -> FileFormat:
    return "gguf" if facts.format == "gguf" else "mlx"


def _publisher(model: StoredModel) -> str:
    """The owner of the repository on the hub that the model came from, if it did."""
    host, _, rest = model.name.partition("/")
    return rest.partition("/")[0] if host == "hf.co" and rest else "ingle"
