"""What the routes work with, made once at start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial

from ingle.models.catalog import Catalog
from ingle.models.metadata.stored_model import StoredModel
from ingle.models.store.model_store import ModelStore

from .access.permission import current_permission
from .batches.batch_manager import BatchManager
from .event_hub import EventHub
from .generations.generation import GenerationRegistry
from .library.aliases import AliasTable
from .library.pulls import PullManager
from .lifecycle.model_manager import ModelManager
from .load_planning.fit_forecast import FitForecaster
from .load_planning.load_planner import ModelLoadPlanner, Preparer
from .machine.device_meters import DeviceMeters
from .machine.memory_reader import MemoryReader
from .routing.egress.provider_egress import ProviderEgress
from .routing.router import Router
from .settings.config import Config
from .stores.response_store import ResponseStore


@dataclass(frozen=True, kw_only=True)
class Services:
    """The parts of one daemon; `address` is host and port of TCP, `started_at` monotonic."""

    config: Config
    store: ModelStore
    catalog: Catalog
    manager: ModelManager
    generations: GenerationRegistry
    pulls: PullManager
    batches: BatchManager
    hub: EventHub
    prepare: Preparer
    memory: MemoryReader
    router: Router
    shutdown: Callable[[], None]
    started_at: float
    aliases: AliasTable = field(default_factory=AliasTable)
    devices: DeviceMeters = field(default_factory=DeviceMeters)
    address: str | None = None

    @cached_property
    def egress(self) -> ProviderEgress:
        """The one way to models elsewhere."""
        exits = self.router.exits
        return exits if isinstance(exits, ProviderEgress) else ProviderEgress(self.config)

    @cached_property
    def fits(self) -> FitForecaster:
        """Tells where models would run."""
        return FitForecaster(self.preparer)

    @cached_property
    def preparer(self) -> ModelLoadPlanner:
        """What decides about files; a test's scripts are loaded by something else."""
        if isinstance(self.prepare, ModelLoadPlanner):
            return self.prepare
        return ModelLoadPlanner(self.config, partial(self.aliases.resolve, store=self.store))

    @cached_property
    def responses(self) -> ResponseStore:
        """The stored answers of `/v1/responses`."""
        config = self.config
        return ResponseStore(config.paths.responses, keep_seconds=config.keep_responses)

    def models(self) -> list[StoredModel]:
        """The installed models, then those that are loaded from elsewhere; reads the store.

        A key that is for some models sees no others.
        """
        installed = self.store.list()
        paths = {model.path for model in installed}
        elsewhere = [model for model in self.manager.models() if model.path not in paths]
        permission = current_permission()
        return [model for model in installed + elsewhere if permission.allows_model(model.name)]

    def resolve(self, reference: str) -> StoredModel:
        """The model that a client's name means, aliases included; see `AliasTable.resolve`.

        Raises `KeyNotAllowed` where the client's key is for other models.
        """
        model = self.aliases.resolve(reference, self.store)
        current_permission().check_model(model.name)
        return model

    def routed_name(self, reference: str) -> str:
        """The route that a client's name means, where it is an alias of one; else the name."""
        target = self.aliases.target(reference)
        return target if target is not None and self.router.concerns(target) else reference

    def canonical(self, reference: str) -> str:
        """See `canonical_name`; of an alias, the model's."""
        return canonical_name(self.catalog, self.aliases.final(reference))


def canonical_name(catalog: Catalog, reference: str) -> str:
    """The full name for any spelling of a catalog model; other references as they are."""
    entry = catalog.find(reference)
    return entry.full_name if entry is not None else reference.strip()
