"""The one table of all routes."""

from __future__ import annotations

from functools import partial
from importlib.metadata import version
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from ingle.backends.base.requests import Priority

from ..http.json_response import JSONResponse
from ..http.openapi import openapi_document
from ..http.route_spec import RouteSpec
from ..library.model_facts import FactsReader
from ..protocols.anthropic.messages_api import MessagesApi
from ..protocols.health_api import HealthApi
from ..protocols.llama_cpp.completions_api import LlamaCppApi
from ..protocols.llama_cpp.embeddings_api import VectorsApi
from ..protocols.llama_cpp.props_api import PropsApi
from ..protocols.llama_cpp.router_api import RouterApi
from ..protocols.llama_cpp.tokenize_api import TokenizeApi
from ..protocols.lm_studio.api import LMStudioApi
from ..protocols.metrics_api import MetricsApi
from ..protocols.native.doctor_api import DoctorApi
from ..protocols.native.forget_api import ForgetApi
from ..protocols.native.ledger_api import LedgerApi
from ..protocols.native.native_api import NativeApi
from ..protocols.native.routing_api import RoutingApi
from ..protocols.native.tokens_api import CountingApi
from ..protocols.ollama.api import OllamaApi
from ..protocols.openai.batches_api import BatchesApi
from ..protocols.openai.completions.completions_api import CompletionsApi
from ..protocols.openai.embeddings_api import EmbeddingsApi
from ..protocols.openai.files_api import FilesApi
from ..protocols.openai.models_api import ModelsApi
from ..protocols.openai.rerank_api import RerankApi
from ..protocols.request_origin import RequestOrigin
from ..protocols.responses.responses_api import ResponsesApi
from ..services import Services

BATCHED = RequestOrigin(client="batches", priority=Priority.BATCH)
"""Whose requests those of batches are."""


def route_table(services: Services) -> list[RouteSpec]:
    """Every route of the daemon, the description of them all included."""
    openai, embeddings = CompletionsApi(services), EmbeddingsApi(services)
    responses = ResponsesApi(services)
    services.batches.serve(
        {
            "/v1/chat/completions": partial(openai.answer_chat, origin=BATCHED),
            "/v1/completions": partial(openai.answer_completion, origin=BATCHED),
            "/v1/embeddings": partial(embeddings.answer_embeddings, origin=BATCHED),
            "/v1/responses": partial(responses.answer, origin=BATCHED),
        }
    )
    facts = FactsReader()
    models = ModelsApi(services, facts)
    routes = [
        *HealthApi(services).routes(),
        *MetricsApi(services).routes(),
        *models.routes(),
        *RouterApi(services, models).routes(),
        *openai.routes(),
        *MessagesApi(services).routes(),
        *embeddings.routes(),
        *FilesApi(services).routes(),
        *BatchesApi(services).routes(),
        *RerankApi(services).routes(),
        *responses.routes(),
        *LlamaCppApi(services, facts).routes(),
        *TokenizeApi(services).routes(),
        *PropsApi(services).routes(),
        *VectorsApi(services).routes(),
        *NativeApi(services).routes(),
        *CountingApi(services).routes(),
        *DoctorApi(services).routes(),
        *LedgerApi(services).routes(),
        *ForgetApi(services).routes(),
        *RoutingApi(services).routes(),
        *OllamaApi(services, facts).routes(),
        *LMStudioApi(services, facts).routes(),
    ]
    description = OpenAPIRoute()
    routes.append(
        RouteSpec(
            method="GET",
            path="/openapi.json",
            endpoint=description.get,
            summary="This document.",
            response=dict[str, Any],
        )
    )
    description.routes = routes
    return routes


class OpenAPIRoute:
    """Serves the document, which is made when first asked for."""

    def __init__(self) -> None:
        self.routes: list[RouteSpec] = []
        self._document: dict[str, Any] | None = None

    async def get(self, request: Request) -> Response:
        """`GET /openapi.json`."""
        if self._document is None:
            self._document = openapi_document(self.routes, version("ingle"))
        return JSONResponse(self._document)
