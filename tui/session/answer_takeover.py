"""Resumes answers that are open in the history; only one program at a time records an answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import TYPE_CHECKING

from ..chats.message import MessageFacts
from ..history.database.history_errors import HistoryError

if TYPE_CHECKING:
    from ..chats.chat import Chat
    from ..chats.message import Message
    from ..history.history_store import HistoryStore
    from .turn import Turn

POLL = 0.3
"""Interval in seconds at which the records of another program are read."""
NAME_LOOKS = 6
"""Attempts to read the generation id of an answer that began a moment ago."""


async def open_answers(store: HistoryStore) -> AsyncGenerator[tuple[Chat, Message]]:
    """Yield the answers that an earlier program left open and the daemon may still have.

    Those that never reached the daemon are ended. Raises `HistoryError`.
    """
    for answer in await asyncio.to_thread(store.unfinished):
        if answer.generation is None:
            store.end_message(answer.message, "interrupted", MessageFacts())
            continue
        chat = await asyncio.to_thread(store.load, answer.chat)
        message = chat.messages.get(answer.message) if chat is not None else None
        if chat is not None and message is not None:
            message.generation = answer.generation
            yield chat, message


async def take_over_answer(turn: Turn, store: HistoryStore) -> bool:
    """Follow an open answer with a turn that records nothing yet; whether this program records it.

    Where another program does, `adopt_final_answer` is to be called afterwards.
    """
    message = turn.message
    mine = await _claimed(store, message.id)
    if not mine:
        await _find_name(message, store)
    given = (0, 0)
    with suppress(HistoryError):  # the chat was read a moment ago
        given = await asyncio.to_thread(store.given, message.id)
    if mine:
        turn.keep_in(store)
    if turn.ending is None and message.generation is None:
        turn.give_up()
    elif turn.ending is None:
        await turn.resume(given)
    return mine


async def adopt_final_answer(message: Message, store: HistoryStore) -> bool:
    """Replace an answer by the record of its writer; whether that changed it.

    If the writer has died meanwhile, this program records the rest.
    """
    while True:
        with suppress(HistoryError):
            kept = await asyncio.to_thread(store.answer, message.id)
            if kept is None:
                return False
            if kept.ending is not None:
                before = message.content, message.reasoning, message.ending
                message.content, message.reasoning = kept.content, kept.reasoning
                message.ending, message.facts = kept.ending, kept.facts
                return before != (kept.content, kept.reasoning, kept.ending)
            if await asyncio.to_thread(store.claim, message.id):
                return await _write_rest(message, store)
        await asyncio.sleep(POLL)


async def _write_rest(message: Message, store: HistoryStore) -> bool:
    """Record the text that the former writer did not, or take over text that is missing here."""
    kept = await asyncio.to_thread(store.answer, message.id)
    if kept is None:
        return False
    text, thoughts = message.content[len(kept.content) :], message.reasoning[len(kept.reasoning) :]
    if text or thoughts:
        store.append(message.id, text, thoughts)
    before = message.content, message.reasoning
    message.content, message.reasoning = kept.content + text, kept.reasoning + thoughts
    store.end_message(message.id, message.ending or "interrupted", message.facts)
    return before != (message.content, message.reasoning)


async def _claimed(store: HistoryStore, message: str) -> bool:
    """Whether this program records it; if that fails, `adopt_final_answer` tries again."""
    try:
        return await asyncio.to_thread(store.claim, message)
    except HistoryError:
        return False


async def _find_name(message: Message, store: HistoryStore) -> None:
    """Read an answer's generation id, which is recorded right after the answer."""
    for _ in range(NAME_LOOKS):
        if message.generation is not None:
            return
        with suppress(HistoryError):
            kept = await asyncio.to_thread(store.answer, message.id)
            if kept is None or kept.ending is not None:
                return
            message.generation = kept.generation
        if message.generation is None:
            await asyncio.sleep(POLL)
