"""`RedactionScreen`: texts as they would leave, with masks that can be set and lifted by word."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from ingle.daemon.client.client_errors import ClientError

from ..privacy.chat_route import kinds_found
from ..privacy.text_review import TextPiece, TextReview
from ..widgets.masked_text import MaskedText
from .dialog import Dialog

SHOWN = 20_000
"""Characters of the texts that are shown, newest message first."""
_WORD_KEYS = (("←→", "word"), ("v", "select"), ("space", "mask or show"))
_TEACH_KEYS = (("n", "never let it out"), ("p", "it is public"))


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

    def body(self) -> ComposeResult:
        """The findings, the reason, and the texts."""
        yield Static(id="found")
        yield Static(id="reason")
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
        earlier = " Earlier messages of this chat are private." if said.tainted else ""
        style = "$warning" if kinds or earlier else "$muted"
        self.query_one("#found", Static).update(Content(found + earlier).stylize(style))
        reason = said.reason if self._asks else "This is a preview: nothing is sent now."
        self.query_one("#reason", Static).update(Content(reason).stylize("$muted"))
        self.query_one(MaskedText).show(*self._parts())
        self.query_one(".dialog-hint", Static).update(self._keys())

    def _parts(self) -> tuple[list[tuple[str, list[TextPiece]]], str]:
        parts: list[tuple[str, list[TextPiece]]] = []
        room = SHOWN
        for part in reversed(range(len(self._review.texts))):
            pieces: list[TextPiece] = []
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
        for line in (_WORD_KEYS, _TEACH_KEYS, answers):
            for key, words in line:
                drawn += [(key, "bold $primary"), f" {words}   "]
            drawn.append("\n")
        return Content.assemble(*drawn[:-1])

    @on(MaskedText.Clicked)
    def action_toggle_mask(self) -> None:
        """Mask the selection, or lift its masks."""
        if selected := self.query_one(MaskedText).selection:
            self._change(self._review.toggle(selected))

    def action_teach(self, public: bool) -> None:
        """Write the selection into the policy."""
        if selected := self.query_one(MaskedText).selection:
            text = self._review.original(selected[0], selected[-1])
            self._change(self._review.teach(text, public=public))

    @work(group="review")
    async def _change(self, change: Awaitable[None]) -> None:
        try:
            await change
        except ClientError as error:
            self.notify(" ".join(filter(None, (error.message, error.hint))), severity="warning")
        self._draw()

    def action_choose(self, choice: str) -> None:
        """End with a choice, if it is offered."""
        offered = ("local", *self._review.said.consents) if self._asks else ("copy",)
        if choice in offered:
            self.dismiss(choice)
