"""`CompletionController`: offers completions while a word is typed, and inserts one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from ...composing.completion_trigger import CompletionTrigger, find_trigger
from .completer import CompletionItem
from .completion_popup import CompletionPopup

if TYPE_CHECKING:
    from .completer import Completer
    from .composer import Composer

_TAKES = frozenset({"tab", "enter"})


class CompletionController:
    """Fills the composer's popup, and handles its keys."""

    def __init__(self, composer: Composer) -> None:
        self._composer = composer
        self._popup: CompletionPopup | None = None
        self._trigger: CompletionTrigger | None = None
        self._refused: CompletionTrigger | None = None
        self.completer: Completer | None = None

    @property
    def is_open(self) -> bool:
        """Whether completions are shown."""
        return self._popup is not None and self._popup.display

    @property
    def typed_file(self) -> str | None:
        """The path that is being typed, while files are offered for it."""
        trigger = self._trigger
        return trigger.query if self.is_open and trigger and trigger.kind == "file" else None

    def close(self) -> bool:
        """Close the popup for the current word; return whether it was open."""
        was_open = self.is_open
        self._refused = self._trigger
        self._hide()
        return was_open

    def _hide(self) -> None:
        self._trigger = None
        if self._popup is not None:
            self._popup.show((), rows=1, marked=False)

    def refuse(self) -> None:
        """Offer no completions for the word at the cursor, which was not typed."""
        self._hide()
        self._refused = self._find()

    def update(self, *, typed: bool) -> None:
        """Update the completions for the word before the cursor; only typing opens the popup."""
        if not typed and not self.is_open:
            return
        trigger = self._find()
        if trigger is None or self.completer is None:
            self._refused = None
            self._hide()
            return
        if trigger == self._trigger:
            return
        if self._refused is not None and trigger.start == self._refused.start:
            return
        self._refused = None
        self._trigger = trigger
        if trigger.kind == "command":
            self._show(trigger, self.completer.commands(trigger.query))
        else:
            ask = partial(self._ask, trigger)
            self._composer.run_worker(ask, group="complete", exclusive=True)

    def _find(self) -> CompletionTrigger | None:
        composer = self._composer
        if not composer.has_focus or not composer.selection.is_empty or composer.is_recalling:
            return None
        row, column = composer.cursor_location
        line = composer.document.get_line(row)
        if column < len(line) and not line[column].isspace():
            return None
        return find_trigger(line[:column], first=row == 0 and composer.document.line_count == 1)

    async def _ask(self, trigger: CompletionTrigger) -> None:
        assert self.completer is not None
        found = await self.completer.files_or_chats(trigger)
        if trigger == self._trigger:
            self._show(trigger, found)

    def _show(self, trigger: CompletionTrigger, found: Sequence[CompletionItem]) -> None:
        popup = self._popup
        if popup is None:
            if not found:
                return
            popup = self._popup = CompletionPopup(self._clicked)
            self._composer.mount_above(popup)
        # A chat is put in only by choice: `#1` is also how people name an issue.
        popup.show(found, rows=self._composer.region.y, marked=trigger.kind != "chat")

    def _clicked(self, completion: CompletionItem) -> None:
        self._composer.run_worker(partial(self.put, completion), group="complete")
        self._composer.focus()

    async def take(self, key: str) -> bool:
        """Handle a key if the popup uses it; return whether it did."""
        popup = self._popup
        if popup is None or not popup.display:
            return False
        if self._find() != self._trigger:
            # Typed faster than the list was updated.
            self.update(typed=True)
            if not popup.display or self._trigger is None or self._trigger.kind != "command":
                return False
        if key in ("down", "up"):
            popup.move(1 if key == "down" else -1)
            return True
        if key not in _TAKES:
            return False
        if key == "enter" and (popup.chosen is None or popup.only_exact):
            self.close()
            return False
        if popup.chosen is None:
            popup.move(1)
        chosen = popup.chosen
        assert chosen is not None
        await self.put(chosen)
        if key == "enter" and chosen.runs:  # a command that needs nothing more
            await self._composer.submit()
        return True

    async def put(self, completion: CompletionItem) -> None:
        """Replace the word before the cursor by a completion."""
        trigger = self._find()
        if trigger is None:
            self._hide()
            return
        self._hide()
        text: str | None = completion.insert
        if completion.make is not None:
            text = await completion.make()
        if text is None:
            return
        composer = self._composer
        row, column = composer.cursor_location
        composer.replace(text, (row, trigger.start), (row, column), maintain_selection_offset=False)
        composer.select_place()
        if not completion.is_incomplete:
            self.refuse()
