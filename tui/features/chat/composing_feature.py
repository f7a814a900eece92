"""`ComposingFeature`: what helps to write a prompt: files, templates, the editor, the clipboard."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from textual.app import SuspendNotSupported

from ingle.daemon.client.client_errors import ClientError

from ...chats.message import Message
from ...commands.chat_commands import template_folder
from ...composing.completer import Completer
from ...composing.completion_item import CompletionItem
from ...composing.draft_token_counter import DraftCounter
from ...composing.file_mentions import resolve
from ...composing.prompt_templates import Template, load_templates
from ...history.database.history_errors import HistoryError
from ...text.fuzzy_match import rank
from ...text.terminal_safe_text import clean
from ..feature import Feature, Handler

if TYPE_CHECKING:
    from ..chat_host import ChatHost

CHATS = 20
"""How many chats are offered."""
MAX_TITLE = 40


class ComposingFeature(Feature):
    """Gives the composer what it completes from, and answers the commands about the draft."""

    def __init__(self, host: ChatHost) -> None:
        super().__init__(host)
        self._completer = Completer(Path.cwd(), host.can_run)
        self._templates = template_folder(host)
        self._counter = DraftCounter(self._count, self._show_count)

    def handlers(self) -> Mapping[str, Handler]:
        return {
            "editor": lambda _: self.edit_draft(),
            "attach": self.attach,
            "paste": lambda _: self.host.composer.action_paste(),
        }

    def on_ready(self) -> None:
        composer = self.host.composer
        composer.folder = self._completer.folder
        composer.completing.completer = self._completer
        if self.host.store is not None:
            composer.earlier_prompts = self._earlier_prompts
            self._completer.find_chats = self._find_chats
        if self._templates is not None:
            self.host.run_task(self._load_templates(self._templates), group="templates")

    async def _load_templates(self, folder: Path) -> None:
        self._completer.templates = await asyncio.to_thread(load_templates, folder)

    async def _earlier_prompts(self) -> Sequence[str]:
        store = self.host.store
        if store is None:
            return ()
        try:
            return await asyncio.to_thread(store.prompts)
        except HistoryError as error:
            self.host.tell(error.message, "warning")
            return ()

    async def _find_chats(self, query: str) -> Sequence[CompletionItem]:
        """The chats whose title fits, to put their last answer into the draft."""
        store = self.host.store
        if store is None:
            return ()
        try:
            chats = await asyncio.to_thread(store.recent)
        except HistoryError:
            return ()  # /open tells what is wrong with the history
        titles = {chat.title: chat for chat in reversed(chats) if chat.id != self.host.chat.id}
        return [
            CompletionItem(
                title,
                f"{titles[title].messages} messages",
                make=partial(self._last_answer, titles[title].id),
            )
            for title in rank(query, titles, CHATS)
        ]

    async def _last_answer(self, chat_id: str) -> str | None:
        """A chip of the chat's last answer."""
        store = self.host.store
        chat = await asyncio.to_thread(store.load, chat_id) if store is not None else None
        answers = (m for m in reversed(chat.path if chat else []) if m.role == "assistant")
        text = next((message.content for message in answers if message.content), "")
        if chat is None or not text:
            self.host.tell("That chat has no answer yet.", "warning")
            return None
        return self.host.composer.chips.add(chat.title[:MAX_TITLE], clean(text)) + " "

    def on_escape(self) -> bool:
        """Escape twice clears the draft; while something else has the keys, it leaves that."""
        composer = self.host.composer
        return composer.has_focus and composer.escape(clears=True)

    def on_draft_changed(self, text: str) -> None:
        """Have the tokens counted soon."""
        if self._counter.change(text):
            self.host.run_task(self._counter.run(), group="count")

    def _show_count(self, text: str, tokens: int) -> None:
        self.host.composer.show_count(text, tokens)

    async def _count(self, text: str) -> int | None:
        """The tokens of the draft as a message; None while the model is not loaded, or for files.

        What a file has is known when it is read, which is when it is sent.
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
            return None  # the guess stands
        return counts.messages[0] if counts.messages else None

    async def attach(self, argument: str) -> None:
        """Mention a file; without a name, offer the files there are."""
        composer = self.host.composer
        composer.focus()
        if not argument:
            composer.type_text("@")
            return
        try:
            words = shlex.split(argument)
        except ValueError:
            words = [argument]
        for word in [argument] if len(words) > 1 and self._is_there(argument) else words:
            path = resolve(word, composer.folder)
            if await asyncio.to_thread(path.exists):
                composer.attach(path)
            elif any(mark in word for mark in "*?["):
                composer.insert(f"@{word} ", maintain_selection_offset=False)
            else:
                self.host.tell(f"There is no file {word}.", "warning")

    def _is_there(self, argument: str) -> bool:
        return resolve(argument, self.host.composer.folder).exists()

    def insert_template(self, template: Template) -> None:
        """Put a template into the draft, with its first place selected."""
        composer = self.host.composer
        composer.insert(template.text, maintain_selection_offset=False)
        composer.move_cursor((0, 0))
        if not composer.select_place():
            composer.move_cursor(composer.document.end)
        composer.focus()
        if self._templates is not None:  # they may have changed since the start
            self.host.run_task(self._load_templates(self._templates), group="templates")

    async def full_draft(self) -> str:
        """The draft as the model would read it, with its files; "" without one."""
        composer = self.host.composer
        text = composer.text.strip()
        if not text:
            return ""
        attachments, _ = await composer.attaching.read(composer.text)
        return Message(role="user", content=text, attachments=attachments).text

    async def edit_draft(self) -> None:
        """Write the draft, or the chip at the cursor, in the user's editor."""
        composer = self.host.composer
        found = composer.chip_at_cursor()
        label = None if found is None else found[1].label
        text = composer.text if label is None else composer.chips.content(label)
        edited = await self._in_editor(text)
        if edited is None or edited == text:
            return
        if label is None:
            composer.replace_text(edited)
        else:
            composer.change_chip(label, edited)

    async def _in_editor(self, text: str) -> str | None:
        from ...terminal.external_editor import EditorFailed, edit_text

        app = self.host.chat_app
        edit = partial(edit_text, text)
        try:
            try:
                with app.suspend():
                    edited = edit()
            except SuspendNotSupported:
                # The editor has a window of its own there, as on Windows.
                edited = await asyncio.to_thread(edit)
        except EditorFailed as error:
            self.host.tell(str(error), "warning")
            return None
        app.refresh()
        return edited
