"""The parts of a daemon that its routes use; `server.service_factory` builds them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from .access.permission import current_permission
from .client.routing_types import AnswerCost
from .warming.slot_prompts import SlotPrompts

if TYPE_CHECKING:
    from collections.abc import Callable

    from ingle.models.catalog import Catalog
    from ingle.models.metadata.stored_model import StoredModel
    from ingle.models.store.model_copies import ModelCopier
    from ingle.models.store.model_store import ModelStore

    from .batches.batch_manager import BatchManager
    from .documents.document_library import DocumentLibrary
    from .engines.engine_installs import EngineInstalls
    from .event_hub import EventHub
    from .generations.generation_registry import GenerationRegistry
    from .library.aliases import AliasTable
    from .library.model_facts import FactsReader
    from .library.pulls import PullManager
    from .lifecycle.model_manager import ModelManager
    from .load_planning.fit_forecast import FitForecaster
    from .load_planning.load_planner import ModelLoadPlanner, Preparer
    from .machine.answer_energy import AnswerEnergy
    from .machine.device_meters import DeviceMeters
    from .machine.memory_reader import MemoryReader
    from .routing.egress.provider_egress import ProviderEgress
    from .routing.router import Router
    from .settings.config import Config
    from .stores.response_store import ResponseStore
    from .warming.prefix_warmer import PrefixWarmer


@dataclass(frozen=True, kw_only=True)
class Services:
    """The parts of one daemon; `address` is host and port of TCP, `started_at` monotonic."""

    config: Config
    store: ModelStore
    catalog: Catalog
    copier: ModelCopier
    facts: FactsReader
    manager: ModelManager
    generations: GenerationRegistry
    pulls: PullManager
    engines: EngineInstalls
    batches: BatchManager
    documents: DocumentLibrary
    hub: EventHub
    prepare: Preparer
    planner: ModelLoadPlanner
    fits: FitForecaster
    memory: MemoryReader
    router: Router
    egress: ProviderEgress
    responses: ResponseStore
    shutdown: Callable[[], None]
    started_at: float
    aliases: AliasTable
    warmer: PrefixWarmer
    energy: AnswerEnergy
    ignored_fields: Counter[str] = field(default_factory=Counter[str])
    """How often requests had fields without effect, by their names in `field_policies`."""

    address: str | None = None

    @cached_property
    def slots(self) -> SlotPrompts:
        """The prompts of the slots that llama-server's clients number."""
        return SlotPrompts(self.config.paths.prefixes)

    @property
    def devices(self) -> DeviceMeters:
        """The meters of the devices that the energy of answers is read from."""
        return self.energy.meters

    def costs(self) -> list[AnswerCost]:
        """Return the cost of local models' answers since the start, and of the latest remote
        ones; reads the price list and at first the ledger.
        """
        return self.local_costs() + self.egress.history.costs()

    def local_costs(self) -> list[AnswerCost]:
        """Return the cost of local models' answers since the start; reads the price list."""
        local = self.energy.costs()
        currency = self.egress.store.currency() if local else ""
        return [
            AnswerCost.of(name, currency, tokens, cost, remote=False)
            for name, (tokens, cost) in local.items()
        ]

    def models(self) -> list[StoredModel]:
        """Return the installed models, then loaded ones that are not installed; reads the store.

        Models that the request's key does not allow are left out.
        """
        installed = self.store.list()
        installed += self.store.adapters.of_models(installed)
        paths = {model.path for model in installed}
        elsewhere = [model for model in self.manager.models() if model.path not in paths]
        permission = current_permission()
        return [model for model in installed + elsewhere if permission.allows_model(model.name)]

    def resolve(self, reference: str) -> StoredModel:
        """Return the model for a name or an alias; see `AliasTable.resolve`.

        Raises `KeyNotAllowed` if the request's key does not allow the model.
        """
        model = self.aliases.resolve(reference, self.store)
        current_permission().check_model(model.name)
        return model

    def routed_name(self, reference: str) -> str:
        """Return the route of which `reference` is an alias, else `reference`."""
        target = self.aliases.target(reference)
        return target if target is not None and self.router.concerns(target) else reference

    def canonical(self, reference: str) -> str:
        """Return the full name of the model for a reference or an alias."""
        return self.catalog.canonical_name(self.aliases.final(reference))
