"""LM Studio's API as a whole."""

from __future__ import annotations

from ...http.route_spec import RouteSpec
from ...library.model_facts import FactsReader
from ...services import Services
from .completions_api import CompletionsApi
from .models_api import ModelsApi


class LMStudioApi:
    """Every route of LM Studio's that is served."""

    def __init__(self, services: Services, facts: FactsReader) -> None:
        self._services = services
        self._facts = facts

    def routes(self) -> list[RouteSpec]:
        """All of them."""
        return [
            *ModelsApi(self._services, self._facts).routes(),
            *CompletionsApi(self._services).routes(),
        ]
