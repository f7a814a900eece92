"""`Composer`: the editor at the bottom, always ready to type."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from textual import events, on
from textual.content import Content
from textual.geometry import Size
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import TextArea

from ...chats.message import Attachment
from ...commands.command_table import parse_slash
from ...composing.file_mentions import AttachmentPreview, as_mention, find_mentions, shown_path
from ...composing.input_history import InputHistory
from ...composing.token_estimate import PICTURE, estimate_tokens, tokens_of
from ...text import number_format
from .chip_editor import ChipEditor
from .completion_controller import CompletionController
from .draft_attachments import DraftAttachments

if TYPE_CHECKING:
    from .vim_keys import VimKeys

NEWLINE_KEYS = frozenset({"ctrl+j", "shift+enter", "alt+enter"})
ESCAPE_WINDOW = 0.6
"""Seconds within which a second escape clears the draft."""
MAX_WALKED = 200
"""The most characters of a draft for which the up key searches earlier prompts."""


class Composer(ChipEditor):
    """Enter sends; ctrl+j, shift+enter and alt+enter break the line.

    Up in one line walks the earlier prompts that contain what is typed. `earlier_prompts` returns
    them, the newest first; `recall_queued` loads the last waiting prompt and returns whether there
    was one. `folder` is where `@file` is looked for.
    """

    HELP_TITLE = "Writing"
    HELP_KEYS = (
        ("enter", "Send; while an answer runs, queue the prompt"),
        ("ctrl+j", "New line; also shift+enter and alt+enter where the terminal can"),
        ("up", "Earlier prompts that contain the draft; a queued prompt comes back"),
        ("/  @  #", "A command, a file (also @src/**/*.py), another chat's last answer"),
        ("tab", "Accept a completion; go to a template's next placeholder"),
        ("ctrl+e", "End of the line; on a folded paste: show its text"),
        ("ctrl+x", "Edit the draft, or the paste at the cursor, in your editor"),
        ("ctrl+_", "Undo; alt+r redoes"),
        ("esc esc", "Clear the draft; ctrl+_ or up brings it back"),
        ("ctrl+a  ctrl+e", "Start, end of the line; alt+< and alt+>: of the draft"),
        ("alt+b  alt+f", "One word left, right"),
        ("ctrl+w  alt+d", "Cut the word before, the word after the cursor"),
        ("ctrl+u  ctrl+k", "Cut to the start, to the end of the line"),
        ("alt+y", "Insert what was cut"),
        ("end", "End of the line; there: scroll to the newest text"),
        ("ctrl+d", "Delete the next character; quit if the draft is empty"),
    )

    hints: reactive[str] = reactive("", repaint=False)
    """Key hints in the lower edge."""

    @dataclass(frozen=True)
    class Submitted:
        """The user pressed enter; the text, which may be empty, is still in the composer."""

        text: str
        attachments: tuple[Attachment, ...] = ()

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.folder = Path.cwd()
        self.earlier_prompts: Callable[[], Awaitable[Sequence[str]]] | None = None
        self.enter_sends = True
        self.vim: VimKeys | None = None
        self.recall_queued: Callable[[], bool] = lambda: False
        # Called and not told by a message, so that what is typed next is not added to the text.
        self.take_draft: Callable[[Composer.Submitted], object] = lambda _: None
        self.completing = CompletionController(self)
        self.attaching = DraftAttachments(self)
        self._sent: list[str] = []
        self._walk: InputHistory | None = None
        self._refused = ""
        self._counted: tuple[str, int] | None = None
        self._escaped_at = 0.0

    # Used by other widgets and features

    @property
    def is_recalling(self) -> bool:
        """Whether it shows an earlier prompt as it was sent."""
        return self._walk is not None and not self._walk.is_at_draft

    def set_vim(self, wanted: bool) -> None:
        """Use vim's keys, beginning in insert mode, or not."""
        from .vim_keys import VimKeys

        if wanted != (self.vim is not None):
            self.vim = VimKeys(self, self._step) if wanted else None
            self.show_facts()

    def help_keys(self) -> Sequence[tuple[str, str]]:
        """The keys that apply while the draft is written."""
        return self.HELP_KEYS if self.vim is None else (*self.vim.HELP_KEYS, *self.HELP_KEYS)

    def kept_draft(self, waiting: Iterable[str] = ()) -> str:
        """The waiting prompts and the draft with its chips, which `replace_text` restores."""
        return self.chips.pack("\n\n".join(filter(None, (*waiting, self.text))))

    def remember(self, text: str) -> None:
        """Keep a prompt for recalling."""
        self._sent.append(text)
        self._walk = None

    def replace_text(self, text: str) -> None:
        """Replace the text, with the cursor at its end; undo restores the old one."""
        self.history.checkpoint()
        text = self.chips.unpack(text)
        self.replace(text, (0, 0), self.document.end, maintain_selection_offset=False)
        self.completing.refuse()

    def load(self, text: str, attachments: Sequence[Attachment] = ()) -> None:
        """Set the text of a prompt that came with attachments."""
        missing: list[str] = []
        for attachment in attachments:
            if f"[{attachment.name}]" in text:
                self.chips.put(attachment)
            elif any(mention.path == attachment.name for mention in find_mentions(text)):
                self.attaching.give(attachment)
            elif not find_mentions(text):
                missing.append(self.chips.put(attachment))
        self.replace_text(" ".join([text, *missing]) if missing else text)

    def clear_sent(self) -> None:
        """Remove the sent text."""
        self.load_text("")
        self.attaching.forget()
        self._walk = None
        if self.vim is not None:
            self.vim.insert()
            self.show_facts()

    def attach(self, mention: str) -> None:
        """Insert a file's mention at the cursor."""
        self.type_text(f"{mention} ")
        self.completing.refuse()

    def add_paste(self, text: str) -> None:
        """Insert pasted text at the cursor, as a chip if it is long."""
        from ...composing.paste_content import clean_paste, is_long

        text = clean_paste(text)
        insert = self.chips.add_paste(text) if is_long(text) else text
        self.replace(insert, *self.selection, maintain_selection_offset=False)

    def type_text(self, text: str) -> None:
        """Insert text at the cursor, after a space if needed."""
        row, column = self.cursor_location
        before = self.document.get_line(row)[:column]
        space = "" if not before or before[-1].isspace() else " "
        self.replace(space + text, *self.selection, maintain_selection_offset=False)

    def change_chip(self, label: str, text: str) -> None:
        """Replace the text of a chip."""
        self.chips.replace(label, text)
        self.show_facts()

    def action_paste(self) -> None:
        """Insert the text of the clipboard, or attach its picture."""
        from .clipboard_paste import paste_clipboard

        self.run_worker(paste_clipboard(self), group="paste", exclusive=True)

    def mount_above(self, widget: Widget) -> None:
        """Mount a widget above the composer, and above the route in its border."""
        below: Widget = self
        assert isinstance(self.parent, Widget)
        if self.parent.id == "entry":
            below = self.parent
        assert isinstance(below.parent, Widget)
        below.parent.mount(widget, before=below)

    def escape(self, *, clears: bool) -> bool:
        """Handle escape; whether it was handled. Twice clears the draft if allowed.

        Cleared text can be restored by undoing, and as an earlier prompt.
        """
        if self.completing.close():
            return True
        if self.vim is not None and self.vim.escape():
            self.show_facts()
            return True
        if not self.text or not clears:
            return False
        now = time.monotonic()
        if now - self._escaped_at >= ESCAPE_WINDOW:
            self._escaped_at = now
            return True
        self.remember(self.text)
        self.replace_text("")
        self.notify("Cleared; ctrl+_ or up brings it back.", timeout=3)
        return True

    def watch_hints(self) -> None:
        """Draw the lower edge."""
        self.show_facts()

    def show_count(self, text: str, tokens: int) -> None:
        """Show the exact number of tokens of the draft `text`."""
        self._counted = (text, tokens)
        self.show_facts()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """The height of its text, at most a third of the terminal with the border."""
        # Textual ignores a share of the terminal in the stylesheet if the container is as high as
        # its content.
        most = max(1, viewport.height // 3 - 2)
        return min(super().get_content_height(container, viewport, width), most)

    # Keys

    async def _on_key(self, event: events.Key) -> None:
        key = event.key
        if await self.completing.take(key):
            self._take(event)
        elif self.vim is not None and self.vim.takes(event):
            self._take(event)
            await self.vim.take(event.character or "")
            self.show_facts()
        elif key == "enter" and self.enter_sends:
            self._take(event)
            await self.submit()
        elif key in NEWLINE_KEYS:
            self._take(event)
            if self.enter_sends:
                self.replace("\n", *self.selection, maintain_selection_offset=False)
            else:
                await self.submit()
        elif (key == "tab" and self.select_place()) or (
            key in ("up", "down") and await self._step(key)
        ):
            self._take(event)
        elif key == "end" and self.cursor_location == self.get_cursor_line_end_location():
            self._take(event)
            await self.run_action("screen.command('end')")
        elif key == "ctrl+d" and not self.text:
            self._take(event)
            await self.run_action("screen.command('quit')")
        elif (binding := next(iter(self._bindings.key_to_bindings.get(key, ())), None)) is not None:
            # Left to the app, it would run behind the letters that were typed after it.
            self._take(event)
            await self.run_action(binding.action)
        elif (
            # An unbound letter with alt would be typed as the letter.
            key.startswith("alt+") and event.is_printable and key not in self.screen.active_bindings
        ):
            self._take(event)

    @staticmethod
    def _take(event: events.Key) -> None:
        event.stop()
        event.prevent_default()

    async def submit(self) -> None:
        """Send, with the files that are mentioned; ask where one of them cannot be read.

        Keys that are pressed meanwhile wait, and are typed afterwards.
        """
        text = self.text
        attachments, problems = await self.attaching.read(text)
        if problems and self._refused != text:
            self._refused = text
            sentence = " ".join([*problems, "Enter again sends without."])
            self.notify(sentence, severity="warning", markup=False)
            return
        self.take_draft(self.Submitted(text, attachments))

    # Earlier prompts

    async def _step(self, key: str) -> bool:
        """Step through earlier prompts; False if the key only moves the cursor."""
        if self._walk is not None and self.text != self._walk.text:
            self._walk = None
        if key == "up":
            return await self._older()
        if self._walk is None or not self._walk.newer():
            return False
        self._show_step(self._walk)
        return True

    async def _older(self) -> bool:
        walk = self._walk
        if walk is None:
            text = self.text
            if not text and self.recall_queued():
                return True
            if "\n" in text or len(text) > MAX_WALKED or not self.cursor_at_first_line:
                return False
            prompts = [*reversed(self._sent)]
            if self.earlier_prompts is not None:
                prompts += await self.earlier_prompts()
            walk = InputHistory(text, prompts)
        if not walk.older():
            return self._walk is not None
        self._walk = walk
        self._show_step(walk)
        return True

    def _show_step(self, walk: InputHistory) -> None:
        self.replace_text(walk.text)
        self.show_facts()

    # Pasting

    async def _on_paste(self, event: events.Paste) -> None:
        from ...composing.paste_content import clean_paste, dropped_paths

        event.prevent_default()
        event.stop()
        text = clean_paste(event.text)
        paths = await asyncio.to_thread(dropped_paths, text)
        self.history.checkpoint()
        if not paths:
            self.add_paste(text)
            return
        # The path as text comes first, so that undoing restores it.
        start = min(self.selection)
        self.replace(text, *self.selection, maintain_selection_offset=False)
        self.history.checkpoint()
        self.delete(start, self.cursor_location, maintain_selection_offset=False)
        for path in paths:
            self.attach(as_mention(shown_path(path, self.folder)))
        what = paths[0].name if len(paths) == 1 else f"{len(paths)} files"
        self.notify(f"Attached {what}; ctrl+_ leaves the path as text.", markup=False)

    # Display

    @on(TextArea.Changed)
    def _note_change(self) -> None:
        self.completing.update(typed=True)
        self.attaching.look()
        self.show_facts()
        self._keep_cursor_in_sight()

    def on_resize(self) -> None:
        self.show_facts()
        self._keep_cursor_in_sight()

    def _keep_cursor_in_sight(self) -> None:
        # Only once the new lines are laid out is there a place to scroll to.
        if self.wrapped_document.height > self.size.height:
            self.call_after_refresh(self.scroll_cursor_visible)

    @on(TextArea.SelectionChanged)
    def _note_cursor(self) -> None:
        self.completing.update(typed=False)

    def show_facts(self) -> None:
        """Update the lower edge and the line of attachments."""
        if self.is_mounted:
            facts = self.attaching.show()
            self.border_subtitle = self._edge(self._tokens(self.text, facts))

    def _tokens(self, text: str, facts: Sequence[AttachmentPreview]) -> str:
        if not text or parse_slash(text) is not None:
            return ""
        if self._counted is not None and self._counted[0] == text:
            return f"{number_format.tokens(self._counted[1])} tok"
        more = sum(PICTURE if seen.is_picture else tokens_of(seen.size) for seen in facts)
        return f"≈ {number_format.tokens(estimate_tokens(text) + more)} tok"

    def _edge(self, tokens: str) -> Content:
        walk = self._walk
        place = walk.place if walk is not None else ""
        mode = self.vim.place if self.vim is not None else ""
        parts = [part for part in (mode, place, tokens, self.hints) if part]
        room = self.size.width - 6
        while len(parts) > 1 and len(" · ".join(parts)) > room:
            parts.pop()
        return Content(" · ".join(parts))
