"""`InstructionsFeature`: the system prompt and the sampling of this chat."""

from __future__ import annotations

from collections.abc import Mapping

from .feature import Feature, Handler

SAMPLING = {
    "temperature": (0.0, 2.0),
    "top_p": (0.0, 1.0),
    "top_k": (-1, 10_000),
    "min_p": (0.0, 1.0),
    "repeat_penalty": (0.01, 10.0),
    "frequency_penalty": (-2.0, 2.0),
    "presence_penalty": (-2.0, 2.0),
    "seed": (0, 2**31 - 1),
    "max_tokens": (1, 2**31 - 1),
}
"""What can be set for a chat, and its bounds; the daemon knows more, for programs."""
THINKING = ("off", "on", "low", "medium", "high")
WHOLE = {"top_k", "seed", "max_tokens"}


class InstructionsFeature(Feature):
    """Commands that change what every following prompt of the chat is sent with."""

    def handlers(self) -> Mapping[str, Handler]:
        return {"system": self.system, "sampling": self.sampling, "think": self.think}

    def system(self, text: str) -> None:
        """Set the system prompt, or show it for editing."""
        if text:
            self.set_system("" if text == "off" else text)
            return
        from ..screens.text_editor import TextEditor

        current = self.host.chat.settings.system
        title = "System prompt of this chat"
        self.host.show_screen(TextEditor(title, current), self.set_system)

    def set_system(self, text: str | None) -> None:
        """Have the chat begin with other instructions; None changes nothing."""
        settings = self.host.chat.settings
        if text is None or text == settings.system:
            return
        settings.system = text
        self._changed()
        self.host.show_path()
        self.host.tell("The system prompt is set." if text else "The system prompt is empty.")

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


def changed_sampling(sampling: Mapping[str, float], text: str) -> dict[str, float]:
    """`sampling` with the pairs of `text`; raises `ValueError` with a sentence for people."""
    result = dict(sampling)
    for pair in text.replace(",", " ").split():
        name, equals, value = pair.partition("=")
        if name not in SAMPLING or not equals:
            known = ", ".join(SAMPLING)
            raise ValueError(f"{pair} is no NAME=VALUE with one of these names: {known}.")
        if not value:
            result.pop(name, None)
            continue
        least, most = SAMPLING[name]
        try:
            number = int(value) if name in WHOLE else float(value)
        except ValueError:
            number = float("nan")
        if not least <= number <= most:
            raise ValueError(f"{name} is a number from {least:g} to {most:g}, and not {value}.")
        result[name] = number
    return result
