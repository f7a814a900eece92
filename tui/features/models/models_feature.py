"""`ModelsFeature`: which model answers, and what going over to another costs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from ...client.api_types import GaugesEvent, LoadedModel, ModelEntry, ModelList
from ...client.client_errors import ClientError
from ...history.database.history_errors import HistoryError
from ...session.model_choice import custom_model, find_model
from ...text import number_format
from ..feature import Feature, Handler
from .model_memory_feature import ModelMemoryFeature
from .pulls_feature import PullsFeature

if TYPE_CHECKING:
    from ...gauges.model_switch_cost import ModelSwitchCost
    from ...screens.model_picker import ModelPick
    from ..chat_host import ChatHost


class ModelsFeature(Feature):
    """The picker, and going over to another model in mid-chat.

    `loaded` and `free_bytes` of RAM are as the daemon told last, None where it has not.
    """

    def __init__(self, host: ChatHost) -> None:
        super().__init__(host)
        self.loaded: list[LoadedModel] = []
        self.free_bytes: int | None = None

    def handlers(self) -> Mapping[str, Handler]:
        """See `Feature`."""
        return {
            "model": self.choose,
        }

    def on_gauges(self, gauges: GaugesEvent) -> None:
        """See `Feature`."""
        self.loaded = gauges.models
        self.free_bytes = gauges.memory.available or None

    # The picker

    async def choose(self, reference: str) -> None:
        """`/model`: go over to a model, or show those there are."""
        if reference:
            self.use(reference)
            return
        try:
            listing = await self.host.link.listing()
        except ClientError as error:
            self.host.tell(error.message, "error")
            return
        self.host.state.models = listing.models
        from ...screens.model_picker import ModelPicker

        picker = ModelPicker(
            listing,
            self.host.state.model_name,
            speeds=await self._speeds(),
            rate=self.host.feature(PullsFeature).rate,
        )
        self.host.show_screen(picker, lambda picked: self._picked(picked, listing))

    async def _speeds(self) -> dict[str, float]:
        """Tokens a second by model: of all chats where they are kept, else of this one."""
        store = self.host.store
        speeds = {model.name: model.decode_rate for model in self.loaded if model.decode_rate}
        speeds |= {
            message.model: message.facts.speed
            for message in self.host.chat.path
            if message.facts.speed is not None
        }
        if store is not None:
            # A history that cannot be read is told of elsewhere; the picker does without.
            with suppress(HistoryError):
                known = await asyncio.to_thread(store.model_speeds)
                speeds |= {name: speed.tokens_per_second for name, speed in known.items()}
        return speeds

    def _picked(self, picked: ModelPick | None, listing: ModelList) -> None:
        if picked is None:
            return
        model = picked.model
        pulls = self.host.feature(PullsFeature)
        match picked.action:
            case "use":
                self._use(model, listing)
            case "pull":
                pulls.fetch(model.name)
            case "cancel":
                self.host.run_task(pulls.cancel(model.name), group="pulls")
            case "unload":
                self.host.run_command("unload", model.name)
            case "delete":
                self.host.feature(ModelMemoryFeature).ask_to_delete(model)
            case "compare":
                self.host.run_command("compare", model.name)

    # Going over to another model

    def use(self, reference: str) -> None:
        """Talk to this model from now on; it is fetched where it is not here."""
        model = find_model(self.host.state.models, reference) or custom_model(reference)
        self._use(model or ModelEntry(name=reference, installed=False, state="available"))

    def go_on_with(self, name: str) -> None:
        """Talk to a model that has read the chat already."""
        model = find_model(self.host.state.models, name)
        if model is not None:
            self._talk_to(model)

    def _use(self, model: ModelEntry, listing: ModelList | None = None) -> None:
        if not model.writes:
            purpose = "embeddings" if model.task == "embed" else "ranking"
            self.host.tell(
                f"{model.name} is there for {purpose} and does not chat; "
                "ctrl+o picks another model.",
                "warning",
            )
        elif not model.installed:
            self._use_missing(model, listing)
        elif model.name != self.host.state.model_name:
            self._use_at_a_price(model)
        else:
            self._switch(model)

    def _use_missing(self, model: ModelEntry, listing: ModelList | None) -> None:
        """Fetch it; ask first where it would not fit."""
        from ...session.model_descriptions import fit_sentence, lacks_room

        doubts: list[str] = []
        if model.fit is not None and model.fit.state == "no":
            doubts.append(f"It {fit_sentence(model.fit)}.")
        if listing is not None and lacks_room(model.size, listing.disk_free):
            free = number_format.size(listing.disk_free)
            doubts.append(
                f"It is {number_format.size(model.size or 0)}, and the disk has {free} free."
            )
        if not doubts:
            self._fetch(model)
            return
        from ...screens.dialogs.confirm_screen import ConfirmScreen

        screen = ConfirmScreen(
            f"Download {model.name} all the same?", "\n".join(doubts), yes="downloads it"
        )
        self.host.show_screen(screen, lambda yes: self._fetch(model) if yes else None)

    def _fetch(self, model: ModelEntry) -> None:
        self._talk_to(model)
        self.host.feature(PullsFeature).fetch(model.name, use=True)

    def price(self, model: ModelEntry) -> ModelSwitchCost:
        """What it costs if this model goes on with the chat."""
        from ...gauges.model_switch_cost import price_of_switch, reading_rate, view_tokens

        state, path = self.host.state, self.host.chat.path
        sizes = {entry.name: entry.parameters or 0 for entry in state.models}
        return price_of_switch(
            model,
            current=state.model_name,
            loaded=self.loaded,
            tokens=view_tokens(path),
            rate=reading_rate(model, path, sizes, self.loaded),
            free_bytes=self.free_bytes,
        )

    def _use_at_a_price(self, model: ModelEntry) -> None:
        price = self.price(model)
        if not price.must_ask:
            if price.tokens:
                self.host.tell(price.sentence())
            self._switch(model)
            return
        from ...screens.dialogs.confirm_screen import ConfirmScreen

        screen = ConfirmScreen(
            f"Go over to {model.name}?", price.sentence(), yes="goes over", no="stays"
        )
        self.host.show_screen(screen, lambda yes: self._switch(model) if yes else None)

    def _switch(self, model: ModelEntry) -> None:
        self._talk_to(model)
        self.host.run_task(self.warm_up(model.name), group="warm")
        self.host.send_next()

    def _talk_to(self, model: ModelEntry) -> None:
        state, chat = self.host.state, self.host.chat
        state.wanted = model.name
        state.choose(model)
        state.loaded = next((m for m in self.loaded if m.name == model.name), None)
        chat.settings.model = model.name
        if chat.messages:
            self.host.history.set_settings(chat.id, chat.settings)
        self.host.show_state()

    async def warm_up(self, name: str) -> None:
        """Load the model, and let it read the chat before somebody waits for it."""
        await self.host.link.warm_up(name)
        chat = self.host.chat
        if chat.leaf is None or self.host.turn is not None or self.host.state.model_name != name:
            return
        from ...compaction.context_prefill import warm_up

        await warm_up(self.host.client, chat, name)
