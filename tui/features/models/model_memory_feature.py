"""`ModelMemoryFeature`: unloading a model, another context for it, deleting it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec

from ...client.api_types import ModelEntry
from ...client.client_errors import ClientError
from ...client.model_requests import load_with, parse_context, unload
from ...session.model_choice import find_model
from ...text import number_format
from ..feature import Feature, Handler

if TYPE_CHECKING:
    from .models_feature import ModelsFeature


class _Removed(msgspec.Struct, frozen=True):
    freed: int = 0


class ModelMemoryFeature(Feature):
    """What a model takes of the machine, given back or asked for anew; the price is told first."""

    def handlers(self) -> Mapping[str, Handler]:
        """See `Feature`."""
        return {"unload": self.unload, "ctx": self.change_context}

    @property
    def _models(self) -> ModelsFeature:
        from .models_feature import ModelsFeature

        return self.host.feature(ModelsFeature)

    async def unload(self, reference: str) -> None:
        """`/unload`: give the model's memory back."""
        name = reference or self.host.state.model_name
        if self.host.turn is not None and not reference:
            self.host.tell("An answer is still running; esc stops it.", "warning")
        elif name is not None:
            await self._unload(name)

    async def _unload(self, name: str) -> None:
        held = next((m for m in self._models.loaded if m.name == name), None)
        if held is None and self.host.state.model_name == name:
            held = self.host.state.loaded  # loaded since the daemon told its figures
        try:
            was_loaded = await unload(self.host.client, name)
        except ClientError as error:
            self.host.tell(error.message, "error")
            return
        if not was_loaded:
            self.host.tell(f"{name} is not loaded.")
            return
        size = held.weights_bytes + held.kv_bytes + held.compute_bytes if held else 0
        freed = f"; about {number_format.size(size)} are free again" if size else ""
        self.host.tell(f"{name} is unloaded{freed}. The next prompt loads it.")

    async def change_context(self, argument: str) -> None:
        """`/ctx`: load the model with another context, after telling what that costs."""
        state = self.host.state
        context = parse_context(argument)
        now = f" now it has {number_format.tokens(state.loaded.context)}." if state.loaded else ""
        if context is None:
            self.host.tell(f"/ctx takes a number of tokens, as in /ctx 16384;{now}", "warning")
            return
        if state.model_name is None or not state.can_ask:
            self.host.tell("There is no model to load; ctrl+o picks one.", "warning")
            return
        if self.host.turn is not None:
            self.host.tell("An answer is still running; esc stops it.", "warning")
            return
        self._ask_for_context(state.model_name, context)

    def _ask_for_context(self, name: str, context: int) -> None:
        from ...screens.dialogs.confirm_screen import ConfirmScreen

        screen = ConfirmScreen(
            f"Load {name} again with {number_format.tokens(context)} tokens of context?",
            self._context_price(name, context),
            yes="loads it again",
        )

        def answered(yes: bool | None) -> None:
            if yes:
                self.host.run_task(self._load_with(name, context), group="models")

        self.host.show_screen(screen, answered)

    def _context_price(self, name: str, context: int) -> str:
        """What is lost, and what it takes."""
        lines: list[str] = []
        model = find_model(self.host.state.models, name)
        price = self._models.price(model) if model is not None else None
        if price is not None and price.tokens:
            time = f", about {number_format.duration(price.seconds)}" if price.seconds else ""
            lines.append(
                f"Its cache is lost: {number_format.tokens(price.tokens)} tokens are read "
                f"again{time}."
            )
        held = next((m for m in self._models.loaded if m.name == name and m.kv_capacity), None)
        if held is not None and held.kv_bytes:
            takes = held.kv_bytes * context // held.kv_capacity
            now = number_format.size(held.kv_bytes)
            lines.append(f"The KV cache will take about {number_format.size(takes)}, now {now}.")
        if model is not None and model.context and context > model.context:
            trained = number_format.tokens(model.context)
            lines.append(f"It was trained for {trained} tokens; beyond that answers get worse.")
        if self._models.free_bytes:
            lines.append(f"{number_format.size(self._models.free_bytes)} of RAM are available.")
        return "\n".join(lines) or "It takes the time of a start."

    async def _load_with(self, name: str, context: int) -> None:
        self.host.tell(f"Loading {name} with {number_format.tokens(context)} tokens of context.")
        try:
            loaded = await load_with(self.host.client, name, context)
        except ClientError as error:
            self.host.add_failure(
                error.message, error.hint, "/ctx with a smaller number tries again"
            )
            return
        if self.host.state.model_name == name:
            self.host.state.loaded = loaded
        got = number_format.tokens(loaded.context)
        asked = (
            ""
            if loaded.context == context
            else f", not the {number_format.tokens(context)} asked for"
        )
        self.host.tell(f"{name} has {got} tokens of context{asked}.")
        self.host.show_state()
        await self._models.warm_up(name)

    # Deleting

    def ask_to_delete(self, model: ModelEntry) -> None:
        """Delete a model's files, if that is what is wanted."""
        from ...screens.dialogs.confirm_screen import ConfirmScreen

        freed = (
            f"{number_format.size(model.size)} of the disk are free then. " if model.size else ""
        )
        again = "It can be downloaded again."
        if model.place:
            freed, again = "", f"Its file stays: {model.place} keeps it."
        screen = ConfirmScreen(
            f"Delete {model.name}?",
            f"{freed}Your chats stay; what the daemon has stored of their cache goes. {again}",
            yes="deletes it",
            no="keeps it",
        )

        def answered(yes: bool | None) -> None:
            if yes:
                self.host.run_task(self._delete(model.name), group="models")

        self.host.show_screen(screen, answered)

    async def _delete(self, name: str) -> None:
        try:
            done = await self.host.client.request(
                _Removed, "DELETE", f"/ingle/v1/models/{quote(name, safe='')}"
            )
            listing = await self.host.link.listing()
        except ClientError as error:
            self.host.tell(error.message, "error")
            return
        self.host.tell(f"{name} is deleted; {number_format.size(done.freed)} are free again.")
        state = self.host.state
        state.models = listing.models
        if state.model_name == name:
            state.choose(find_model(listing.models, name))
        self.host.show_state()
