"""Whether a prompt fits into the context, and what can make room for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ingle.daemon.client.client_errors import ClientError

from ..chats.context_view import ViewEntry, view_entries
from ..compaction.compaction_planner import LEAST_REPLY, Choice, PromptRoom, last_size
from ..compaction.token_sizes import CHARACTERS_A_TOKEN, measure
from ..gauges.context_usage import savings
from ..privacy.chat_route import LOCAL

if TYPE_CHECKING:
    from ..chats.message import Message, QueuedPrompt
    from .chat_session import ChatSession

SURE_SHARE = 0.8
"""The share of the context up to which an estimate is trusted."""
A_MESSAGE = 16
"""Most tokens that a template writes around a message."""
CONTEXT_STEP = 4096
SPARE_REPLY = 1024
"""Tokens for the answer in an extended context."""


def surely_fits(session: ChatSession, prompt: QueuedPrompt) -> bool:
    """Whether a prompt fits without counting: no text has more tokens than bytes.

    True also where the model of another machine may answer, whose context is not known.
    """
    chat, state = session.chat, session.state
    if chat.settings.route not in ("", LOCAL):
        return True
    text, last = prompt.sent_text, last_size(chat)
    if last.context and last.model == state.model_name and not chat.undone:
        loaded = state.loaded.context if state.loaded is not None else 0
        size = last.used + len(text) / CHARACTERS_A_TOKEN
        return size <= SURE_SHARE * (loaded or last.context)
    texts = [text, *(entry.content for entry in view_entries(chat))]
    most = sum(len(each.encode()) + A_MESSAGE for each in texts)
    return most + LEAST_REPLY <= state.context(None)


async def measure_room(session: ChatSession, prompt: QueuedPrompt) -> PromptRoom | None:
    """Have the daemon count a prompt and all that is sent before it; None if it cannot be asked.

    A model that is not loaded is loaded for that, since its context is known only then.
    """
    entries = _entries_before(view_entries(session.chat), prompt.edits)
    entries.append(ViewEntry("user", prompt.sent_text, "tail"))
    try:
        sizes = await measure(session.client, session.state.model_name, entries, load=True)
    except ClientError:
        return None  # the request itself will report it
    context = sizes.context or session.state.context(None)
    return PromptRoom(sizes.total - sizes.entries[-1], sizes.entries[-1], context)


def _entries_before(entries: Sequence[ViewEntry], edited: Message | None) -> list[ViewEntry]:
    for index, entry in enumerate(entries):
        if edited is not None and entry.message is edited:
            return list(entries[:index])
    return list(entries)


async def ways_out(session: ChatSession, room: PromptRoom) -> list[Choice]:
    """Return what can be done about a prompt that does not fit.

    What makes enough room by itself comes first, and what only helps after giving the prompt back,
    unless the prompt alone is too long for the context: then no summary is of use.
    """
    counter, _ = await session.front.count_context()
    saved = savings(session.chat, counter.parts, counter.estimate, room.context)
    model = session.state.model
    trained = model.context if model is not None else 0
    gains: dict[Choice, int] = {
        "compact": saved.compact,
        "extend": room.lacking if extended_context(room) <= trained else 0,
        "trim": saved.trim,
    }
    enough: list[Choice] = [way for way, gain in gains.items() if gain >= room.lacking]
    helping: list[Choice] = [way for way, gain in gains.items() if 0 < gain < room.lacking]
    if PromptRoom(0, room.prompt, room.context).lacking > 0:
        helping = []
    return [*enough, "edit", *helping, "send"]


def extended_context(room: PromptRoom) -> int:
    """Return the tokens of a context that the prompt and an answer fit into."""
    needed = room.used + room.prompt + SPARE_REPLY
    return -(-needed // CONTEXT_STEP) * CONTEXT_STEP
