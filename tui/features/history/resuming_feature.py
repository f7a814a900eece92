"""`ResumingFeature`: what was going on when the program ended goes on when it is back."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from ...chats.message import MessageFacts
from ...history.database.history_errors import HistoryError
from ...session.turn import Turn
from ...transcript.entries.answer_entry import AnswerEntry
from ..feature import Feature

if TYPE_CHECKING:
    from textual.worker import Worker

    from ...chats.chat import Chat
    from ...history.database.row_reads import UnfinishedAnswer
    from ...history.history_store import HistoryStore
    from ..chat_host import ChatHost


class ResumingFeature(Feature):
    """Takes up answers that nobody follows any more, and gives drafts back."""

    def __init__(self, host: ChatHost) -> None:
        super().__init__(host)
        self._looked = False
        self._unseen: dict[str, tuple[Turn, Worker[None]]] = {}

    def on_connected(self) -> None:
        """Look once for what a chat that died has left in the daemon."""
        store = self.host.store
        if store is not None and not self._looked and not store.database.is_locked:
            self._looked = True
            self.host.run_task(self._take_up(store), group="resume")

    def on_chat_opened(self) -> None:
        """Put back what stood in this chat's composer, and what came in the background."""
        store, chat = self.host.store, self.host.chat
        self._hand_over(chat)
        if store is not None and chat.messages and not self.host.composer.text:
            self.host.run_task(self._give_draft_back(store, chat), group="draft")

    def _hand_over(self, chat: Chat) -> None:
        """Let a chat have the answers as they are here: on the disk they were shorter a moment ago.

        The one on the screen is followed there alone: two that follow it would note it twice.
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

    async def _give_draft_back(self, store: HistoryStore, chat: Chat) -> None:
        with suppress(HistoryError):  # a chat that could be read a moment ago; its draft can wait
            draft = await asyncio.to_thread(store.draft, chat.id)
            if draft and self.host.chat is chat and not self.host.composer.text:
                self.host.composer.replace_text(draft)

    async def _take_up(self, store: HistoryStore) -> None:
        try:
            for answer in await asyncio.to_thread(store.unfinished):
                if answer.generation is None:
                    store.end_message(answer.message, "interrupted", MessageFacts())
                else:
                    await self._resume(store, answer)
        except HistoryError as error:
            self._looked = False  # and once more with the next connection
            self.host.tell(error.message, "warning")

    async def _resume(self, store: HistoryStore, answer: UnfinishedAnswer) -> None:
        """On the screen where nobody has begun anything else, in the background otherwise."""
        chat = await asyncio.to_thread(store.load, answer.chat)
        message = chat.messages.get(answer.message) if chat is not None else None
        if chat is None or message is None:
            return
        message.generation = answer.generation
        shown = self.host.chat
        # A temporary chat stays: what is typed there must not end up in one that is kept.
        if not shown.messages and not shown.temporary and chat.leaf is message:
            self.host.open_chat(chat)
            return
        given = await asyncio.to_thread(store.given, message.id)
        there = self.host.chat.messages.get(message.id)  # its chat was opened meanwhile
        if there is not None and there is self.host.chat.leaf:
            return
        turn = Turn(self.host.client, store, there or message, AnswerEntry(""), _nobody_looks)
        worker = self.host.run_task(turn.resume(given), group=f"resume-{answer.message}")
        self._unseen[message.id] = turn, worker
        self.host.tell(f"An answer in “{chat.title}” goes on; ctrl+g shows the chats.")


def _nobody_looks() -> None:
    pass
