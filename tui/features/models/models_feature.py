"""The models in memory and their speed, and what it costs to continue with another model."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from ingle.daemon.client.daemon_types import GaugesEvent
from ingle.daemon.client.model_types import LoadedModel

from ...history.database.history_errors import HistoryError
from ..feature import Feature

if TYPE_CHECKING:
    from ..chat_host import ChatHost


class ModelsFeature(Feature):
    """Keeps `loaded` models and `free_bytes` of RAM as the daemon last reported them, and prefills.

    `free_bytes` is None before the first report.
    """

    def __init__(self, host: ChatHost) -> None:
        super().__init__(host)
        self.loaded: list[LoadedModel] = []
        self.free_bytes: int | None = None

    def on_gauges(self, gauges: GaugesEvent) -> None:
        """See `Feature`."""
        self.loaded = gauges.models
        self.free_bytes = gauges.memory.available or None

    async def speeds(self) -> dict[str, float]:
        """Tokens a second by model: of all kept chats, else of this one."""
        store = self.host.store
        speeds = {model.name: model.decode_rate for model in self.loaded if model.decode_rate}
        speeds |= {
            message.model: message.facts.speed
            for message in self.host.chat.path
            if message.facts.speed is not None
        }
        if store is not None:
            # A history that cannot be read is reported elsewhere; the list does without.
            with suppress(HistoryError):
                known = await asyncio.to_thread(store.model_speeds)
                speeds |= {name: speed.tokens_per_second for name, speed in known.items()}
        return speeds

    async def warm_up(self, name: str) -> None:
        """Load the model, and prefill the chat."""
        await self.host.link.warm_up(name)
        chat = self.host.chat
        if chat.leaf is None or self.host.turn is not None or self.host.state.model_name != name:
            return
        from ...compaction.context_prefill import warm_up

        await warm_up(self.host.client, chat, name)
