"""`BlockKeys`: which keys act on the block under the cursor, on one line."""

from __future__ import annotations

from textual.app import RenderResult
from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from ..transcript.view.block_navigation import KEYS, BlockStop, actions


class BlockKeys(Widget):
    """Leaves out keys for which there is no room."""

    DEFAULT_CSS = "BlockKeys { height: 1; padding: 0 2; color: $muted; }"
    at: reactive[BlockStop | None] = reactive(None)

    def render(self) -> RenderResult:
        at = self.at
        if at is None:
            return Content("")
        able = actions(at)
        parts = [f"{key} {action}" for key, action in KEYS.items() if action in able]
        words = Content("")
        for part in [*parts, "alt+↑↓ walk", "esc leaves"]:
            key, _, word = part.partition(" ")
            more = Content.assemble((key, "$primary"), f" {word}")
            longer = more if not words.plain else Content.assemble(words, " · ", more)
            if longer.cell_length > self.size.width:
                break
            words = longer
        return words
