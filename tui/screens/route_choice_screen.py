"""`RouteChoiceScreen`: shows the text that would leave this machine, and asks for consent."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from ingle.daemon.client.routing_types import Explanation

from ..privacy.chat_route import kinds_found, part_name
from ..text.terminal_safe_text import clean
from .dialog import Dialog

SHOWN = 20_000
"""The most characters of the redacted text that are shown."""


class RouteChoiceScreen(Dialog[str | None]):
    """Ends with a key of `Explanation.consents`, or "local"; None is the same as "local"."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,h", "choose('local')", "Here", show=False),
        Binding("r", "choose('redact')", "Redacted", show=False),
        Binding("s", "choose('cloud')", "As it is", show=False),
    ]

    def __init__(self, said: Explanation) -> None:
        super().__init__(f"May {said.target} see this?", _keys(said.consents))
        self._said = said

    def body(self) -> ComposeResult:
        """The findings, the reason, and the text with placeholders."""
        said = self._said
        yield Static(Content(self._found()).stylize("$warning"), id="found")
        yield Static(Content(said.reason).stylize("$muted"))
        if "redact" in said.consents:
            yield Static(Content("With placeholders it would be:").stylize("$muted"))
            with VerticalScroll(can_focus=True):
                yield Static(Content(self._preview()), id="preview")

    def _found(self) -> str:
        kinds = kinds_found(self._said)
        found = f"Found: {kinds}." if kinds else "Nothing was found in it."
        earlier = " Earlier messages of this chat are private." if self._said.tainted else ""
        return found + earlier

    def _preview(self) -> str:
        parts = (f"{part_name(part)}: {part.text}" for part in reversed(self._said.redacted))
        text = clean("\n\n".join(parts))
        return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"

    def action_choose(self, choice: str) -> None:
        """End with a choice, if it is offered."""
        if choice == "local" or choice in self._said.consents:
            self.dismiss(choice)


def _keys(consents: Collection[str]) -> Content:
    keys = [("enter", "answer here")]
    if "redact" in consents:
        keys.append(("r", "send with placeholders"))
    if "cloud" in consents:
        keys.append(("s", "send as it is"))
    parts: list[tuple[str, str] | str] = []
    for key, words in keys:
        parts += [(key, "bold $primary"), f" {words}   "]
    return Content.assemble(*parts)
