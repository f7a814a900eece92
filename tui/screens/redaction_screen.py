"""`RedactionScreen`: texts as they would leave, with masks that can be set and lifted by word."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from ingle.daemon.client.client_errors import ClientError

from ..privacy.chat_route import kinds_found
from ..privacy.text_review import ReviewedPiece, TextReview
from ..widgets.masked_text import MaskedText
from .dialog import Dialog

SHOWN = 20_000
"""Characters of the texts that are shown, newest message first."""
_WORD_KEYS = (
    ("←→ v", "select"),
    ("space", "mask or show"),
    ("n", "never let out"),
    ("p", "is public"),
)


class RedactionScreen(Dialog[str | None]):
    """Ends with a key of the consents, or "local", or "copy" if nothing is asked."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "choose('local')", "Here", show=False),
        Binding("r", "choose('redact')", "As shown", show=False),
        Binding("s", "choose('cloud')", "Unmasked", show=False),
        Binding("y", "choose('copy')", "Copy", show=False),
        Binding("space", "toggle_mask", "Mask or show", show=False),
        Binding("n", "teach(False)", "Never", show=False),
        Binding("p", "teach(True)", "Public", show=False),
    ]

    def __init__(self, review: TextReview, *, asks: bool) -> None:
        heading = "What would leave, and what would not"
        super().__init__(f"May {review.said.target} see this?" if asks else heading, "")
        self._review = review
        self._asks = asks
        self._changing = asyncio.Lock()

    def body(self) -> ComposeResult:
        """The findings, the reason, and the texts."""
        yield Static(id="found")
        with VerticalScroll(id="texts", can_focus=False):
            yield MaskedText()

    def on_mount(self) -> None:
        """Show the texts."""
        self._draw()
        self.query_one(MaskedText).focus()

    def _draw(self) -> None:
        said = self._review.said
        kinds = kinds_found(said)
        found = f"Found: {kinds}." if kinds else "Nothing was found in it."
        words = said.reason if self._asks else f"A preview: nothing is sent now. {found}"
        self.query_one("#found", Static).update(Content(words).stylize("$warning"))
        self.query_one(MaskedText).show(*self._parts())
        self.query_one(".dialog-hint", Static).update(self._keys())

    def _parts(self) -> tuple[list[tuple[str, list[ReviewedPiece]]], str]:
        parts: list[tuple[str, list[ReviewedPiece]]] = []
        room = SHOWN
        for part in reversed(range(len(self._review.texts))):
            pieces: list[ReviewedPiece] = []
            for piece in self._review.pieces(part):
                if room <= 0:
                    break
                pieces.append(piece)
                room -= len(piece.text)
            title = f"message {part + 1}:" if len(self._review.texts) > 1 else ""
            parts.append((title, pieces))
            if room <= 0:
                return parts, "\n… The rest is not shown."
        return parts, ""

    def _keys(self) -> Content:
        consents = self._review.said.consents
        if not self._asks:
            answers = [("y", "copy this text"), ("esc", "close")]
        else:
            answers = [("enter", "answer here")]
            if "redact" in consents:
                answers.append(("r", "send as shown"))
            if "cloud" in consents:
                answers.append(("s", "as it is"))
        drawn: list[tuple[str, str] | str] = []
        for line in (_WORD_KEYS, answers):
            for key, words in line:
                drawn += [(key, "bold $primary"), f" {words}   "]
            drawn.append("\n")
        return Content.assemble(*drawn[:-1])

    @on(MaskedText.Clicked)
    async def action_toggle_mask(self) -> None:
        """Mask the selection, or lift its masks."""
        if selected := self.query_one(MaskedText).selection:
            await self._change(self._review.toggle(selected))

    async def action_teach(self, public: bool) -> None:
        """Write the selection into the policy."""
        if selected := self.query_one(MaskedText).selection:
            text = self._review.original(selected[0], selected[-1])
            await self._change(self._review.teach(text, public=public))

    async def _change(self, change: Awaitable[None]) -> None:
        async with self._changing:
            try:
                await change
            except ClientError as error:
                words = " ".join(filter(None, (error.message, error.hint)))
                self.notify(words, severity="warning")
            if self.is_attached:  # not closed meanwhile
                self._draw()

    async def action_choose(self, choice: str) -> None:
        """End with a choice, if it is offered; a change of masks is waited for."""
        async with self._changing:
            pass
        offered = ("local", *self._review.said.consents) if self._asks else ("copy",)
        if choice in offered:
            self.dismiss(choice)
