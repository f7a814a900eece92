"""Ollama's API as a whole."""

from __future__ import annotations

from ingle.models.store.model_copies import ModelCopier

from ...http.route_spec import RouteSpec
from ...library.model_facts import FactsReader
from ...services import Services
from .create_api import CreationApi
from .embed_api import EmbedApi
from .generate_api import GenerateApi
from .library_api import LibraryApi
from .pull_api import PullApi


class OllamaApi:
    """Every route of Ollama's, and what they share."""

    def __init__(self, services: Services, facts: FactsReader) -> None:
        maker = ModelCopier(services.store)
        library = LibraryApi(services, facts, maker)
        self._routes = [
            *library.routes(),
            *GenerateApi(services, facts).routes(),
            *EmbedApi(services).routes(),
            *PullApi(services).routes(),
            *CreationApi(services, facts, maker, library.vacate).routes(),
        ]

    def routes(self) -> list[RouteSpec]:
        """All of them."""
        return self._routes
