"""The latest state of everything the gauges show."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ingle.daemon.client.daemon_types import GaugesEvent, PagesEvent
from ingle.daemon.client.model_types import DownloadProgress, LoadedModel, ModelEntry

from ..chats.message import Message, MessageFacts
from ..text import number_format
from .context_usage import ContextUse
from .memory_usage import MemoryUse, binary_size, memory_uses
from .page_map_cells import evicted_pages
from .speed_meter import SpeedMeter

IDLE_MODELS = 3
"""The most unloaded models that are listed."""


class ModelStateRow(msgspec.Struct, frozen=True):
    """A model in the list: `ready`, `disk`, or downloading with a fraction."""

    mark: str
    name: str
    words: str
    fraction: float | None = None


class GaugeState(msgspec.Struct):
    """State from the daemon and the current chat; `now` is the monotonic time of the drawing."""

    model: str = ""
    label: str = ""
    now: float = 0.0
    gauges: GaugesEvent | None = None
    pages: PagesEvent | None = None
    flashing: frozenset[int] = frozenset()
    evicted: int = 0
    use: ContextUse = msgspec.field(default_factory=ContextUse)
    last: MessageFacts | None = None
    answers: tuple[Message, ...] = ()
    """The last answers, the newest first."""
    cloud: int = 0
    models: list[ModelEntry] = msgspec.field(default_factory=list[ModelEntry])
    pulls: dict[str, DownloadProgress] = msgspec.field(default_factory=dict[str, DownloadProgress])
    title_of: Callable[[str], str | None] = lambda _chat: None
    meter: SpeedMeter = msgspec.field(default_factory=SpeedMeter)

    @property
    def loaded(self) -> LoadedModel | None:
        """Return the loaded process of the chat's model."""
        models = self.gauges.models if self.gauges is not None else []
        return next((model for model in models if model.name == self.model), None)

    def update_gauges(self, gauges: GaugesEvent, now: float) -> None:
        """Update the figures; `now` is of a monotonic clock."""
        self.gauges = gauges
        self.meter.take(gauges, now)

    def update_pages(self, pages: PagesEvent) -> None:
        """Update the page map; pages evicted since the last one flash until the next tick."""
        evicted = evicted_pages(self.pages, pages)
        self.flashing |= evicted
        if self.pages is not None and self.pages.model == pages.model:
            grown = pages.evicted_pages_total - self.pages.evicted_pages_total
            self.evicted += max(0, grown)
        else:
            self.evicted = 0
            self.flashing = frozenset()
        self.pages = pages

    def memory(self) -> tuple[MemoryUse, ...]:
        """Return the memory bars."""
        return () if self.gauges is None else tuple(memory_uses(self.gauges))

    def promised_context(self) -> int | None:
        """Return the context the model could have, if it got less."""
        loaded = self.loaded
        entry = next((m for m in self.models if m.name == self.model), None)
        if loaded is None or entry is None or not entry.context or not loaded.context:
            return None
        return entry.context if entry.context > loaded.context else None

    def model_rows(self) -> tuple[ModelStateRow, ...]:
        """Return loaded models, then downloads, then a few on the disk."""
        running = self.gauges.models if self.gauges is not None else []
        rows = [_process_row(model, binary_size(model.weights_bytes)) for model in running]
        names = {model.name for model in running}
        for name, pull in self.pulls.items():
            part = pull.received / pull.total if pull.total else 0.0
            rows.append(ModelStateRow("↓", name, number_format.percent(part), part))
        names |= self.pulls.keys()
        idle = [m for m in self.models if m.installed and m.writes and m.name not in names]
        for entry in idle[:IDLE_MODELS]:
            rows.append(
                ModelStateRow("○", entry.name, binary_size(entry.size) if entry.size else "")
            )
        return tuple(rows)


def _process_row(model: LoadedModel, size: str) -> ModelStateRow:
    if model.state == "starting":
        return ModelStateRow("◐", model.name, number_format.percent(model.fraction), model.fraction)
    if model.state == "ready":
        return ModelStateRow("●", model.name, size)
    return ModelStateRow("○", model.name, model.state)
