"""`CompareFeature`: two models side by side, whose answers become branches of the chat."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ingle.daemon.client.model_types import ModelEntry

from ...commands.models_commands import switch_cost, talk_to
from ...session.model_choice import find_model
from ..feature import Feature, Handler

if TYPE_CHECKING:
    from ...chats.message import Message


class CompareFeature(Feature):
    """Opens the comparison, and switches to the branch that was picked."""

    def handlers(self) -> Mapping[str, Handler]:
        """See `Feature`."""
        return {"compare": self.compare}

    def compare(self, reference: str) -> None:
        """`/compare NAME`: ask this model and the chat's own the same from here on."""
        state = self.host.state
        here, other = state.model, find_model(state.models, reference) if reference else None
        if not reference:
            self.host.tell(
                "/compare NAME asks a second model the same prompts; so does ctrl+o, tab, c."
            )
        elif here is None or not state.can_ask:
            self.host.tell("No model is in use to compare with; ctrl+o chooses one.", "warning")
        elif other is None:
            self.host.tell(f"There is no model {reference}; ctrl+o lists all.", "warning")
        elif not other.installed:
            self.host.tell(
                f"{other.name} is not downloaded; /pull {other.name} downloads it.", "warning"
            )
        elif not other.writes or other.name == here.name:
            self.host.tell(f"{other.name} cannot be compared with {here.name}.", "warning")
        elif self.host.turn is not None:
            self.host.tell("An answer is still running; esc stops it.", "warning")
        else:
            self._open(here, other)

    def _open(self, here: ModelEntry, other: ModelEntry) -> None:
        from ...screens.compare_screen import CompareScreen

        together = not switch_cost(self.host, other).evicted
        screen = CompareScreen(self.host, (here.name, other.name), together=together)
        self.host.chat_app.push_screen(screen, self._picked)

    def _picked(self, leaf: Message | None) -> None:
        if leaf is None:
            return
        chat = self.host.chat
        chat.choose(leaf)
        self.host.history.choose(chat.id, leaf.id)
        self.host.show_path()
        if leaf.model and leaf.model != self.host.state.model_name:
            model = find_model(self.host.state.models, leaf.model)
            if model is not None:
                talk_to(self.host, model)
        self.host.tell("Both answers are in the chat; alt+← and alt+→ switch between them.")
