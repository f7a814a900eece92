"""`InstructionsFeature`: the system prompt and the sampling of this chat."""

from __future__ import annotations

from collections.abc import Mapping

from ...commands.sampling_options import THINKING, changed_sampling
from ..context.gauges_feature import GaugesFeature
from ..feature import Feature, Handler


class InstructionsFeature(Feature):
    """Commands that change what every following prompt of the chat is sent with."""

    def handlers(self) -> Mapping[str, Handler]:
        return {"system": self.system, "sampling": self.sampling, "think": self.think}

    def system(self, text: str) -> None:
        """Set the system prompt, or show it for editing."""
        if text:
            self.set_system("" if text == "off" else text)
            return
        from ...screens.dialogs.text_editor import TextEditor

        current = self.host.chat.settings.system
        title = "System prompt of this chat"
        self.host.show_screen(TextEditor(title, current), self.set_system)

    def set_system(self, text: str | None) -> None:
        """Have the chat begin with other instructions; None changes nothing."""
        if text is None or text == self.host.chat.settings.system:
            return
        gauges = self.host.feature(GaugesFeature)
        price = gauges.price_of_system(text)
        question = "Change the system prompt of this chat?"
        gauges.pay(price, lambda: self._set_system(text, price.sentence), question)

    def _set_system(self, text: str, price: str) -> None:
        self.host.chat.settings.system = text
        self._changed()
        self.host.show_path()
        done = "The system prompt is set" if text else "The system prompt is empty"
        self.host.tell(f"{done}; {price}." if price else f"{done}.")

    def sampling(self, text: str) -> None:
        """Set `name=value` pairs, `name=` for the model's own, `off` for all of them."""
        settings = self.host.chat.settings
        if text == "off":
            settings.sampling = {}
        elif text:
            try:
                settings.sampling = changed_sampling(settings.sampling, text)
            except ValueError as error:
                self.host.tell(str(error), "warning")
                return
        self._changed()
        pairs = "  ".join(f"{name}={value:g}" for name, value in settings.sampling.items())
        self.host.tell(f"Sampling of this chat: {pairs or 'as the model recommends'}.")

    def think(self, wish: str) -> None:
        """Have models that can think do so, or not; without a wish, as they do by themselves."""
        if wish and wish not in THINKING:
            self.host.tell(f"/think takes one of {', '.join(THINKING)}, or nothing.", "warning")
            return
        self.host.chat.settings.thinking = wish
        self._changed()
        self.host.tell(f"Thinking in this chat: {wish or 'as the model does by itself'}.")

    def _changed(self) -> None:
        chat = self.host.chat
        if chat.messages:
            self.host.history.set_settings(chat.id, chat.settings)
