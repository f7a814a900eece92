"""`RouteChoiceScreen`: what would leave this machine, before it does."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from ingle.daemon.client.routing_types import Explanation

from ..privacy.chat_route import kinds_found, part_name
from ..text.terminal_safe_text import clean

SHOWN = 20_000
"""Characters of what would leave that can be read here."""


class RouteChoiceScreen(ModalScreen[str | None]):
    """Ends with a key of `Explanation.consents`, or "local"; None is the same as "local"."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,enter,h", "choose('local')", "Here", show=False),
        Binding("r", "choose('redact')", "Redacted", show=False),
        Binding("s", "choose('cloud')", "As it is", show=False),
    ]

    def __init__(self, said: Explanation) -> None:
        super().__init__()
        self._said = said

    def compose(self) -> ComposeResult:
        said = self._said
        with Vertical(classes="dialog"):
            yield Static(Content(f"May {said.target} see this?").stylize("bold $primary"))
            yield Static(Content(self._found()).stylize("$warning"), id="found")
            yield Static(Content(said.reason).stylize("$muted"))
            if "redact" in said.consents:
                yield Static(Content("With placeholders it would be:").stylize("$muted"))
                with VerticalScroll(can_focus=True):
                    yield Static(Content(self._preview()), id="preview")
            yield Static(self._keys(), classes="dialog-hint")

    def _found(self) -> str:
        kinds = kinds_found(self._said)
        found = f"Found: {kinds}." if kinds else "Nothing was found in it."
        earlier = " Earlier messages of this chat are private." if self._said.tainted else ""
        return found + earlier

    def _preview(self) -> str:
        parts = (f"{part_name(part)}: {part.text}" for part in reversed(self._said.redacted))
        text = clean("\n\n".join(parts))
        return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"

    def _keys(self) -> Content:
        keys = [("enter", "answer here")]
        if "redact" in self._said.consents:
            keys.append(("r", "send with placeholders"))
        if "cloud" in self._said.consents:
            keys.append(("s", "send as it is"))
        parts: list[tuple[str, str] | str] = []
        for key, words in keys:
            parts += [(key, "bold $primary"), f" {words}   "]
        return Content.assemble(*parts)

    def action_choose(self, choice: str) -> None:
        """End with a choice that there is."""
        if choice == "local" or choice in self._said.consents:
            self.dismiss(choice)
