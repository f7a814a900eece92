"""All routes of the daemon, from the API classes that declare and handle them."""

from __future__ import annotations

from functools import partial
from typing import Any

from ingle.backends.base.requests import Priority

from ..batches.batch_run import BatchEndpoint
from ..errors import AnthropicError
from ..http.bodies import NATIVE
from ..http.route_access import ANY
from ..http.route_spec import RouteSpec, route, routes_of
from ..installed_version import installed_version
from ..protocols.anthropic.message_batches_api import MESSAGES, MessageBatchesApi
from ..protocols.anthropic.messages_api import MessagesApi
from ..protocols.guard.guard_api import GuardApi
from ..protocols.ingle_options import RequestOrigin
from ..protocols.llama_cpp.completions_api import LlamaCppCompletionsApi
from ..protocols.llama_cpp.props_api import PropsApi
from ..protocols.llama_cpp.router_api import RouterApi
from ..protocols.llama_cpp.slots_api import SlotsApi
from ..protocols.llama_cpp.texts_api import LlamaCppEmbeddingsApi, TokenizeApi
from ..protocols.lm_studio.chat_api import LMStudioChatApi
from ..protocols.lm_studio.downloads_api import LMStudioDownloadsApi
from ..protocols.lm_studio.lm_studio_api import LMStudioCompletionsApi, LMStudioModelsApi
from ..protocols.monitoring_api import HealthApi, MetricsApi
from ..protocols.native.adapters_api import AdaptersApi
from ..protocols.native.daemon_api import DaemonApi
from ..protocols.native.documents_api import DocumentsApi
from ..protocols.native.engines_api import EnginesApi
from ..protocols.native.forget_api import ForgetApi
from ..protocols.native.generations_api import GenerationsApi
from ..protocols.native.models_api import NativeModelsApi
from ..protocols.native.routing_api import RoutingApi
from ..protocols.native.sampling_api import SamplingApi
from ..protocols.native.thumbnail_api import ThumbnailApi
from ..protocols.native.tool_egress_api import ToolEgressApi
from ..protocols.native.watch_api import WatchApi
from ..protocols.ollama.create_api import OllamaCreateApi
from ..protocols.ollama.generate_api import OllamaEmbedApi, OllamaGenerateApi
from ..protocols.ollama.library_api import OllamaLibraryApi
from ..protocols.openai.audio_api import AudioApi
from ..protocols.openai.batches_api import BatchesApi, FilesApi
from ..protocols.openai.completions.completions_api import CompletionsApi
from ..protocols.openai.completions.stored_completions_api import StoredCompletionsApi
from ..protocols.openai.embeddings_api import EmbeddingsApi, RerankApi
from ..protocols.openai.models_api import ModelsApi
from ..protocols.openai.speech_api import SpeechApi
from ..protocols.responses.conversations_api import ConversationsApi
from ..protocols.responses.responses_api import ResponsesApi
from ..services import Services

BATCHED = RequestOrigin(client="batches", priority=Priority.BATCH)
"""The origin of the requests in batches."""

_OLLAMA = (OllamaLibraryApi, OllamaGenerateApi, OllamaEmbedApi, OllamaCreateApi)


def route_table(services: Services) -> list[RouteSpec]:
    """Return every route of the daemon, in the order in which the router tries them."""
    openai, embeddings = CompletionsApi(services), EmbeddingsApi(services)
    responses, messages = ResponsesApi(services), MessagesApi(services)
    services.batches.serve(
        {
            "/v1/chat/completions": BatchEndpoint(partial(openai.answer_chat, origin=BATCHED)),
            "/v1/completions": BatchEndpoint(partial(openai.answer_completion, origin=BATCHED)),
            "/v1/embeddings": BatchEndpoint(
                partial(embeddings.answer_embeddings, priority=Priority.BATCH)
            ),
            "/v1/responses": BatchEndpoint(partial(responses.answer, origin=BATCHED)),
            MESSAGES: BatchEndpoint(partial(messages.answer, origin=BATCHED), AnthropicError.of),
        }
    )
    description = OpenAPIRoute()
    apis = (
        HealthApi(services),
        MetricsApi(services),
        ModelsApi(services),
        RouterApi(services),
        openai,
        LlamaCppCompletionsApi(services),  # `…/input_tokens` is no id of a stored chat
        StoredCompletionsApi(services),
        messages,
        MessageBatchesApi(services),
        embeddings,
        AudioApi(services),
        SpeechApi(services),
        FilesApi(services),
        BatchesApi(services),
        RerankApi(services),
        responses,
        ConversationsApi(responses.state),
        TokenizeApi(services),
        PropsApi(services),
        SlotsApi(services),
        LlamaCppEmbeddingsApi(services),
        DaemonApi(services),
        NativeModelsApi(services),
        AdaptersApi(services),
        EnginesApi(services),
        GenerationsApi(services),
        ForgetApi(services),
        DocumentsApi(services),
        ThumbnailApi(services),
        SamplingApi(),
        RoutingApi(services),
        GuardApi(services),
        ToolEgressApi(services),
        WatchApi(services),
        *(api(services) for api in _OLLAMA),
        LMStudioModelsApi(services),
        LMStudioCompletionsApi(services),
        LMStudioChatApi(services, responses.state),
        LMStudioDownloadsApi(services),
        description,
    )
    description.routes = [spec for api in apis for spec in routes_of(api)]
    return description.routes


class OpenAPIRoute:
    """Serves the OpenAPI document, which is built on the first request for it."""

    def __init__(self) -> None:
        self.routes: list[RouteSpec] = []
        self._document: dict[str, Any] | None = None

    @route("GET", "/openapi.json", access=ANY, error_format=NATIVE)
    async def get(self) -> dict[str, Any]:
        """This document."""
        if self._document is None:
            from ..http.openapi import openapi_document  # few clients ask for it

            self._document = openapi_document(self.routes, installed_version())
        return self._document
