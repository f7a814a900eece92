"""`BlocksFeature`: scroll the chat, walk its blocks, and act on one of them."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping

from textual.app import RenderResult
from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from ...transcript.view.block_navigation import KEYS, Action, BlockStop, actions, is_compaction
from ...transcript.view.transcript import Transcript
from ..feature import Feature, Handler, TranscriptEvent

DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")


class BlockKeys(Widget):
    """The keys of a block in one line; those that do not fit are left out."""

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


class BlocksFeature(Feature):
    """Maps actions on a block to commands about its message."""

    _keys: BlockKeys | None = None

    def handlers(self) -> Mapping[str, Handler]:
        return {
            "block_up": lambda _: self.host.transcript.walk(-1),
            "block_down": lambda _: self.host.transcript.walk(1),
            "fold": self.fold,
            "page_up": lambda _: self._page(-1),
            "page_down": lambda _: self._page(1),
            "end": lambda _: self.host.transcript.follow(),
        }

    def _page(self, direction: int) -> None:
        transcript = self.host.transcript
        step = max(1, transcript.size.height - 2) * direction
        transcript.scroll_relative(y=step, animate=False, immediate=True)

    def on_chat_opened(self) -> None:
        self.host.transcript.leave_blocks()

    def fold(self, name: str) -> None:
        """Fold or unfold the block under the cursor, else all of a message or of the last one."""
        transcript = self.host.transcript
        entry = transcript.find_entry(name)
        at = None if entry is not None else transcript.cursor
        if at is None and entry is None and transcript.entries:
            entry = transcript.entries[-1]
        if at is None and entry is not None:
            at = BlockStop(entry, None, 0, 0)
        if at is None or not transcript.fold_at(at):
            self.host.tell("This block cannot be folded.", "warning")

    def on_transcript(self, event: TranscriptEvent) -> None:
        """See `Feature`."""
        match event:
            case Transcript.BlockAction(action="menu"):
                self._show_menu(event.at)
            case Transcript.BlockAction():
                self._do(event.action, event.at)
            case Transcript.CursorMoved():
                self._show_keys(event.at)
            case Transcript.LinkClicked():
                self._open_link(event.address)

    def _show_keys(self, at: BlockStop | None) -> None:
        """Show the keys for the block under the cursor."""
        if at is None:
            if self._keys is not None:
                self._keys.display = False
            return
        if self._keys is None:
            self._keys = BlockKeys()
            self.host.mount(self._keys, after="#main")
        self._keys.styles.padding = (0, 1, 0, self.host.transcript.margin)
        self._keys.at = at
        self._keys.display = True

    def _open_link(self, address: str) -> None:
        """Open an address in the browser of this machine, saying which first."""
        # A browser that runs in this terminal would cover the chat.
        shown = sys.platform in ("win32", "darwin") or any(map(os.environ.get, DISPLAYS))
        if not shown:
            self.host.copy(address)
            self.host.tell(f"No browser is available here. Copied: {address}")
            return
        self.host.tell(f"Opening {address}")
        self.host.run_worker(self._open(address), group="browser")

    async def _open(self, address: str) -> None:
        import webbrowser

        if not await asyncio.to_thread(webbrowser.open, address):
            self.host.tell(f"No browser could be started. The address: {address}", "warning")

    def _show_menu(self, at: BlockStop) -> None:
        if is_compaction(at):
            self.host.run_command("summary", at.entry.id)
            return
        from ...screens.block_menu import BlockMenu

        def chosen(action: Action | None) -> None:
            if action is not None:
                self._do(action, at)

        self.host.chat_app.push_screen(BlockMenu(at), chosen)

    def _do(self, action: Action, at: BlockStop) -> None:
        if action not in actions(at):
            self.host.tell("This block does not have that action.", "warning")
        elif action == "copy":
            if at.block is None and at.entry.id:
                self.host.run_command("copy", at.entry.id)
            else:
                self.host.copy(at.text)
        elif action == "fold" or (action == "open" and not is_compaction(at)):
            self.host.transcript.fold_at(at)
        elif action == "open":
            self.host.transcript.scroll_to_entry(self.host.chat.path[0].id)
        else:
            if action not in ("pin", "undo"):
                self.host.transcript.leave_blocks()
            self.host.run_command(action, at.entry.id)
