"""`ComposingFeature`: completion, templates and token counts for the composer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ingle.daemon.client.client_errors import ClientError

from ...chats.message import Attachment, Message
from ...commands.chat_commands import template_folder
from ...commands.chat_session import DraftPart
from ...composing.prompt_templates import Template, load_templates
from ...history.database.history_errors import HistoryError
from ...text import number_format
from ...text.fuzzy_match import rank
from ...text.terminal_safe_text import clean
from ...widgets.composer.completer import Completer, CompletionItem
from ..feature import Feature, Handler

if TYPE_CHECKING:
    from ...history.history_store import HistoryStore
    from ..chat_host import ChatHost

CHATS = 20
"""The most chats that are offered."""
MAX_TITLE = 40
PAUSE = 0.6
"""Seconds without a key before a draft is counted."""


class ComposingFeature(Feature):
    """Provides completions for the composer, and counts the tokens of the draft."""

    def __init__(self, host: ChatHost) -> None:
        super().__init__(host)
        self._completer = Completer(Path.cwd(), host.can_run)
        self._templates = template_folder(host)
        self._is_counting = False

    def handlers(self) -> Mapping[str, Handler]:
        return {"paste": lambda _: self.host.composer.action_paste()}

    def on_ready(self) -> None:
        composer = self.host.composer
        composer.folder = self._completer.folder
        composer.completing.completer = self._completer
        composer.attaching.add_passages = self._add_passages
        store = self.host.store
        if store is not None:
            composer.earlier_prompts = partial(self._earlier_prompts, store)
            self._completer.find_chats = partial(self._find_chats, store)
        if self._templates is not None:
            self.host.run_worker(self._load_templates(self._templates), group="templates")

    async def _add_passages(
        self, text: str, attachments: Sequence[Attachment], folder: Path
    ) -> tuple[tuple[Attachment, ...], list[str]]:
        from ...composing.folder_passages import add_passages

        return await add_passages(self.host.client, text, attachments, folder)

    async def _load_templates(self, folder: Path) -> None:
        self._completer.templates = await asyncio.to_thread(load_templates, folder)

    async def _earlier_prompts(self, store: HistoryStore) -> Sequence[str]:
        try:
            return await asyncio.to_thread(store.prompts)
        except HistoryError as error:
            self.host.tell(error.message, "warning")
            return ()

    async def _find_chats(self, store: HistoryStore, query: str) -> Sequence[CompletionItem]:
        """Completions for chats by title; each inserts the last answer of its chat."""
        try:
            chats = await asyncio.to_thread(store.recent)
        except HistoryError:
            return ()  # /open reports what is wrong with the history
        titles = {chat.title: chat for chat in reversed(chats) if chat.id != self.host.chat.id}
        return [
            CompletionItem(
                title,
                number_format.counted(titles[title].messages, "message"),
                make=partial(self._last_answer, store, titles[title].id),
            )
            for title in rank(query, titles, CHATS)
        ]

    async def _last_answer(self, store: HistoryStore, chat_id: str) -> str | None:
        """A chip of the chat's last answer."""
        chat = await asyncio.to_thread(store.load, chat_id)
        answers = (m for m in reversed(chat.path if chat else []) if m.role == "assistant")
        text = next((message.content for message in answers if message.content), "")
        if chat is None or not text:
            self.host.tell("That chat has no answer yet.", "warning")
            return None
        return self.host.composer.chips.add(chat.title[:MAX_TITLE], clean(text)) + " "

    def on_escape(self) -> bool:
        """Escape twice clears the draft, if the composer has the focus."""
        composer = self.host.composer
        return composer.has_focus and composer.escape(clears=True)

    def on_draft_changed(self, text: str) -> None:
        """Count the tokens soon."""
        if text and not self._is_counting:
            self._is_counting = True
            self.host.run_worker(self._count_draft(), group="count")

    async def _count_draft(self) -> None:
        """Count the draft whenever typing pauses, until the counted one is the current one."""
        composer, counted = self.host.composer, ""
        try:
            while composer.text != counted:
                text = composer.text
                await asyncio.sleep(PAUSE)
                if text != composer.text:
                    continue
                tokens = await self._count(text) if text else None
                if tokens is not None:
                    composer.show_count(text, tokens)
                counted = text
        finally:
            self._is_counting = False

    async def _count(self, text: str) -> int | None:
        """The tokens of the draft as a message; None while the model is not loaded, or for files.

        Files are read, and their tokens known, only when the prompt is sent.
        """
        host = self.host
        loaded = host.state.loaded
        if loaded is None or loaded.state != "ready" or host.composer.mentioned:
            return None
        message = Message(
            role="user", content=text, attachments=host.composer.chips.attachments(text)
        )
        body = {"model": loaded.name, "messages": [{"role": "user", "content": message.text}]}
        try:
            counts = await host.client.count_tokens(body)
        except ClientError:
            return None  # the estimate stands
        return counts.messages[0] if counts.messages else None

    def insert_template(self, template: Template) -> None:
        """Put a template into the draft, with its first place selected."""
        composer = self.host.composer
        composer.insert(template.text, maintain_selection_offset=False)
        composer.move_cursor((0, 0))
        if not composer.select_place():
            composer.move_cursor(composer.document.end)
        composer.focus()
        if self._templates is not None:  # they may have changed since the start
            self.host.run_worker(self._load_templates(self._templates), group="templates")

    async def full_draft(self) -> str:
        """The draft as it would be sent, with its files; "" without one."""
        composer = self.host.composer
        text = composer.text.strip()
        if not text:
            return ""
        attachments, _ = await composer.attaching.read(composer.text)
        return Message(role="user", content=text, attachments=attachments).text

    def draft_part(self) -> DraftPart:
        """The chip at the cursor, else the draft."""
        composer = self.host.composer
        found = composer.chip_at_cursor()
        if found is None:
            return DraftPart(composer.text, composer.replace_text)
        label = found[1].label
        return DraftPart(composer.chips.content(label), partial(composer.change_chip, label))
