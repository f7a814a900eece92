"""Publishes page maps of a model's KV cache while a client watches."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial

import msgspec

from ingle.backends.base.kv_page_map import KVPageMap
from ingle.models.metadata.stored_model import StoredModel
from ingle.models.struct_preparation import prepared

from ..client.daemon_types import PagesEvent
from ..event_hub import EventHub, Subscription
from .model_run import ModelRun, ModelState


class KVMapWatch:
    """Requests page maps from a model's process while a client watches, across restarts."""

    def __init__(self, hub: EventHub, find: Callable[[StoredModel], ModelRun | None]) -> None:
        self._hub = hub
        self._find = find
        self._watchers: Counter[str] = Counter()
        self._last: dict[str, tuple[float, PagesEvent]] = {}

    @contextmanager
    def watching(self, model: StoredModel) -> Generator[Subscription]:
        """Subscribe to the hub and to the model's pages for the duration of the context.

        The first map is sent at once if the model is loaded, else when it is. If other clients
        watch already, a new one gets the last map that was sent, so that the others notice nothing.
        """
        key = str(model.path)
        self._watchers[key] += 1
        try:
            with self._hub.subscribe(pages_of=key) as subscription:
                if key in self._last:
                    event = _aged(*self._last[key])
                    self._hub.tell(subscription, "pages", event, replaces="pages")
                elif self._watchers[key] == 1:
                    self._look(self._find(model))
                yield subscription
        finally:
            self._watchers[key] -= 1
            if not self._watchers[key]:
                del self._watchers[key]
                self._last.pop(key, None)
                self._look(self._find(model))

    def changed(self, run: ModelRun) -> None:
        """Handle a change of state: a run that became ready needs a new subscription."""
        if run.state not in (ModelState.READY, ModelState.DRAINING):
            self._last.pop(str(run.model.path), None)
        if run.state is ModelState.READY and str(run.model.path) in self._watchers:
            self._look(run)

    def _look(self, run: ModelRun | None) -> None:
        """Subscribe to a run's pages, or unsubscribe."""
        if run is None or run.state not in (ModelState.READY, ModelState.DRAINING):
            return
        assert run.backend is not None
        watched = str(run.model.path) in self._watchers
        run.backend.watch_pages(partial(self._publish, run.model) if watched else None)

    def _publish(self, model: StoredModel, pages: KVPageMap) -> None:
        fields = msgspec.structs.asdict(pages) | {"model": model.name}
        event = msgspec.convert(fields, prepared(PagesEvent), from_attributes=True)
        if str(model.path) in self._watchers:
            self._last[str(model.path)] = (time.monotonic(), event)
        self._hub.publish("pages", event, replaces="pages", pages_of=str(model.path))


def _aged(told_at: float, event: PagesEvent) -> PagesEvent:
    """Return the event with its ages advanced to now."""
    age = time.monotonic() - told_at
    replace = msgspec.structs.replace
    groups = [
        group if group.running else replace(group, idle_seconds=group.idle_seconds + age)
        for group in event.groups
    ]
    return replace(event, groups=groups)
