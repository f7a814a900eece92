"""What the routes work with, made once at start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ingle.models.catalog import Catalog
from ingle.models.store import ModelStore
from ingle.models.stored_model import StoredModel

from .aliases import AliasTable
from .batches.batch_manager import BatchManager
from .config import Config
from .events import EventHub
from .generations import GenerationRegistry
from .lifecycle import ModelManager
from .memory import MemoryReader
from .model_fit import FitForecaster
from .preparation import Preparer
from .pulls import PullManager


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
    shutdown: Callable[[], None]
    started_at: float
    aliases: AliasTable = field(default_factory=AliasTable)
    fits: FitForecaster = field(default_factory=FitForecaster)
    address: str | None = None

    def models(self) -> list[StoredModel]:
        """The installed models, then those that are loaded from elsewhere; reads the store."""
        installed = self.store.list()
        paths = {model.path for model in installed}
        return installed + [model for model in self.manager.models() if model.path not in paths]

    def resolve(self, reference: str) -> StoredModel:
        """The model that a client's name means, aliases included; see `AliasTable.resolve`."""
        return self.aliases.resolve(reference, self.store)

    def canonical(self, reference: str) -> str:
        """See `canonical_name`; of an alias, the model's."""
        return canonical_name(self.catalog, self.aliases.final(reference))


def canonical_name(catalog: Catalog, reference: str) -> str:
    """The full name for any spelling of a catalog model; other references as they are."""
    entry = catalog.find(reference)
    return entry.full_name if entry is not None else reference.strip()
