"""`HistoryFeature`: unlocks chats at the start, resumes open answers and restores drafts."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from ..commands.command_results import Done
from ..commands.history_commands import unlock
from ..history.database.history_errors import HistoryError
from ..session.answer_takeover import open_answers
from ..session.turn import Turn
from ..transcript.entries.answer_entry import AnswerEntry
from ..widgets.welcome import LastChat
from .feature import Feature

if TYPE_CHECKING:
    from textual.worker import Worker

    from ..chats.chat import Chat
    from ..chats.message import Message
    from ..history.history_store import HistoryStore
    from .chat_host import ChatHost

ASK_AFTER = 0.3
"""Delay in seconds after the start, so that early keys do not end up in the passphrase."""


class HistoryFeature(Feature):
    """Resumes answers that an earlier program left open, on the screen or in the background."""

    def __init__(self, host: ChatHost) -> None:
        super().__init__(host)
        self._looked = False
        self._unseen: dict[str, tuple[Turn, Worker[None]]] = {}

    # Locked chats

    def on_ready(self) -> None:
        """See `Feature`."""
        if self._is_locked:
            self.host.run_worker(self.host.present(self._unlock_at_start()), group="unlock")

    @property
    def _is_locked(self) -> bool:
        """Whether the history is still locked."""
        return self.host.store is not None and self.host.store.database.is_locked

    async def _unlock_at_start(self) -> Done:
        """Unlock with the keyring, else with the passphrase."""
        store = self.host.store
        assert store is not None
        if await asyncio.to_thread(store.unlock_with_keyring):
            self.host.front.history_unlocked()
            return Done()
        await asyncio.sleep(ASK_AFTER)
        if not self._is_locked:
            return Done()
        if self.host.composer.text or len(self.host.chat_app.screen_stack) > 1:
            asks = "The chats are locked; /encrypt unlocks them."
            return Done(asks, is_warning=True)
        await unlock(self.host)
        return Done()

    # Open answers and drafts

    def on_connected(self) -> None:
        """Resume once the answers that an earlier chat left in the daemon."""
        store = self.host.store
        if store is not None and not self._looked and not store.database.is_locked:
            self._looked = True
            self.host.run_worker(self._take_up(store), group="resume")
            self.host.run_worker(self._find_last(store), group="last-chat")

    def on_chat_opened(self) -> None:
        """Restore this chat's draft, and the answers that were resumed in the background."""
        store, chat = self.host.store, self.host.chat
        self._hand_over(chat)
        if store is not None and chat.messages and not self.host.composer.text:
            self.host.run_worker(self._restore_draft(store, chat), group="draft")
        elif store is not None and not chat.messages:
            self.host.run_worker(self._find_last(store), group="last-chat")

    def _hand_over(self, chat: Chat) -> None:
        """Put the resumed answers into a chat that was read: on disk they may be shorter.

        The one on the screen is followed there alone: two followers would record it twice.
        """
        leaf = chat.leaf
        for name in self._unseen.keys() & chat.messages.keys():
            if not chat.messages[name].is_open:
                continue
            turn, worker = self._unseen[name]
            chat.messages[name] = turn.message
            if leaf is None or leaf.id != name:
                continue
            if turn.ending is None:
                del self._unseen[name]
                worker.cancel()
            else:
                self.host.show_path()

    async def _find_last(self, store: HistoryStore) -> None:
        """Suggest to continue the last chat."""
        with suppress(HistoryError):  # locked, or reported by what needs it
            chats = await asyncio.to_thread(store.recent, 1)
            if chats:
                self.host.welcome.last = LastChat(chats[0].id, chats[0].title)

    async def _restore_draft(self, store: HistoryStore, chat: Chat) -> None:
        with suppress(HistoryError):  # a chat that could be read a moment ago; its draft can wait
            draft = await asyncio.to_thread(store.draft, chat.id)
            if draft and self.host.chat is chat and not self.host.composer.text:
                self.host.composer.replace_text(draft)

    async def _take_up(self, store: HistoryStore) -> None:
        try:
            async for chat, message in open_answers(store):
                await self._resume(store, chat, message)
        except HistoryError as error:
            self._looked = False  # and once more with the next connection
            self.host.tell(error.message, "warning")

    async def _resume(self, store: HistoryStore, chat: Chat, message: Message) -> None:
        """Resume on the screen if nothing was begun there, else in the background."""
        shown = self.host.chat
        # A temporary chat stays: what is typed there must not end up in one that is kept.
        if not shown.messages and not shown.temporary and chat.leaf is message:
            self.host.open_chat(chat)
            return
        given = await asyncio.to_thread(store.given, message.id)
        there = self.host.chat.messages.get(message.id)  # its chat was opened meanwhile
        if there is not None and there is self.host.chat.leaf:
            return
        turn = Turn(self.host.client, store, there or message, AnswerEntry(""), lambda: None)
        worker = self.host.run_worker(turn.resume(given), group=f"resume-{message.id}")
        self._unseen[message.id] = turn, worker
        self.host.tell(f"An answer in “{chat.title}” is still running; ctrl+g lists the chats.")
