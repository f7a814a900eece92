"""Completes answers that were being generated when an earlier program ended."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from ..chats.message import MessageFacts
from ..session.turn import Turn
from ..transcript.entries.answer_entry import AnswerEntry

if TYPE_CHECKING:
    from ..history.database.row_reads import UnfinishedAnswer
    from ..history.history_store import HistoryStore
    from .plain_session import PlainSession

PATIENCE = 2.0
"""Seconds to wait for an answer that the daemon has finished."""


async def complete_unfinished(session: PlainSession) -> None:
    """Fetch the ends of answers from the daemon, and report each; raises `HistoryError`."""
    store = session.store
    if store is None:
        return
    for answer in store.unfinished():
        if answer.generation is None:
            store.end_message(answer.message, "interrupted", MessageFacts())
        else:
            await _complete(session, store, answer)


async def _complete(session: PlainSession, store: HistoryStore, answer: UnfinishedAnswer) -> None:
    chat = store.load(answer.chat)
    message = chat.messages.get(answer.message) if chat is not None else None
    if chat is None or message is None:
        return
    message.generation = answer.generation
    turn = Turn(session.client, store, message, AnswerEntry(""), _nobody_looks)
    await _for_a_moment(turn.resume(store.given(message.id)))
    state = "is still being written" if turn.ending is None else "is there now"
    session.output.line(f"The last answer in “{chat.title}” {state}; /open shows the chats.")


async def _for_a_moment(task: Coroutine[Any, Any, None]) -> None:
    try:
        await asyncio.wait_for(task, PATIENCE)
    except TimeoutError:
        return  # what came is kept, and the rest is taken up when the chat is opened


def _nobody_looks() -> None:
    pass
