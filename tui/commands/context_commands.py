"""Commands of a long chat: compact, undo, summary, trim, pins, token counts, statistics."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from ingle.daemon.client.client_errors import ClientError

from ..chats.message import CompactionRecord
from ..gauges.context_usage import ContextReport, savings
from ..text import number_format
from .chat_session import ChatSession, SummaryRequest, refuse_while_answering
from .command_results import CommandRefused, Done, Facts

if TYPE_CHECKING:
    from ..compaction.compactor import CompactionProgress

NOTHING_CHANGED = "Nothing changed."


async def compact(session: ChatSession, focus: str) -> Done:
    """Summarise earlier messages, with special care for `focus`."""
    return await session.front.summarise(SummaryRequest(focus))


async def summarise(
    session: ChatSession,
    request: SummaryRequest,
    changed: Callable[[CompactionProgress], object],
    page_tokens: int = 0,
) -> Done:
    """Make a summary that replaces messages of the context; raises `CommandRefused`."""
    from ..compaction.apply_compaction import apply
    from ..compaction.compactor import Compactor

    chat = session.chat
    compactor = Compactor(
        session.client,
        chat,
        session.state.model_name,
        focus=request.focus,
        batch=request.batch,
        chain=request.chain,
        changed=changed,
    )
    try:
        record = await compactor.run()
    except ClientError as error:
        raise CommandRefused(error.message, NOTHING_CHANGED) from error
    except asyncio.CancelledError:
        await compactor.cancel()
        raise
    if session.chat is not chat:
        return Done()
    saved = max(0, record.tokens_before - record.tokens_after)
    record = msgspec.structs.replace(record, kv_pages=saved // page_tokens if page_tokens else 0)
    apply(chat, session.history, record, replaces=request.replaces)
    session.front.prefill()
    return Done(compaction_sentence(record), "path", is_visible=True)


def compaction_sentence(made: CompactionRecord) -> str:
    """The effect of a compaction or a trim in words."""
    before, after = map(number_format.tokens, (made.tokens_before, made.tokens_after))
    turns = number_format.counted(made.turns, "turn")
    what = "trimmed" if made.trims else "summarised"
    read = "" if made.trims else " /compact summary shows it."
    return f"{turns} {what}: {before} tokens became {after}.{read} /undo reverts it."


async def compact_ask(session: ChatSession, question: str) -> Done:
    """Summarise, then send the question."""
    if not question:
        raise CommandRefused("Type the question: /compact then QUESTION.")
    try:
        done = await compact(session, "")
    except CommandRefused as refused:
        hint = f"{refused.hint or ''} The question is not sent.".strip()
        raise CommandRefused(refused.message, hint) from refused
    session.send(question)
    return done


async def undo(session: ChatSession, name: str) -> Done:
    """Undo the edit or the compaction `name`, or the later of the last ones."""
    from ..chats.tool_steps import undoable_edit
    from .tools_commands import undo_edit

    refuse_while_answering(session)
    edit, active = undoable_edit(session.chat, name), session.chat.active_compaction()
    if edit is not None and (name or active is None or edit.created > active.created):
        return await undo_edit(session, edit)
    return undo_compaction(session, name)


def undo_compaction(session: ChatSession, name: str) -> Done:
    """Undo the compaction `name`, or the last one: its original messages are sent again."""
    from ..compaction.apply_compaction import undo as take_back
    from ..compaction.compaction_planner import last_size

    refuse_while_answering(session)
    used, context, _ = last_size(session.chat)
    undone = take_back(session.chat, session.history, name)
    used += sum(step.tokens_before - step.tokens_after for step in undone)
    sentence = "The original messages are sent again."
    if context and used > context:
        sentence += " They no longer fit into the context: /compact summarises them."
    return Done(sentence, "path")


async def trim(session: ChatSession, _argument: str) -> Done:
    """Leave out old attachments and long texts, without a model."""
    from ..compaction.apply_compaction import apply, measured_trim

    chat = session.chat
    try:
        record = await measured_trim(session.client, chat, session.state.model_name)
    except ClientError as error:
        raise CommandRefused(error.message, NOTHING_CHANGED) from error
    if session.chat is not chat or session.is_answering:
        return Done()
    apply(chat, session.history, record)
    return Done(compaction_sentence(record), "path", is_visible=True)


# The summary


async def summary(session: ChatSession, name: str) -> Done:
    """Read a summary, the last one without a name, and edit, redo or undo it."""
    chat = session.chat
    chain = [step for step in chat.compaction_chain() if not step.trims]
    shown = next((step for step in chain if step.id == name), chain[-1] if chain else None)
    if shown is None:
        raise CommandRefused("There is no summary in this chat yet.", "/compact makes one.")
    is_last = shown is chat.compaction_chain()[-1]
    action = await session.front.summary_action(shown, is_last=is_last)
    if action is None or session.chat is not chat:
        return Done()
    if action.act == "undo":
        return undo_compaction(session, shown.id)
    chain = chat.compaction_chain()
    if shown is not chain[-1]:
        raise CommandRefused("Only the last summary can be changed.", "/undo reverts it.")
    if action.act == "redo":
        request = SummaryRequest(action.text, chain[:-1], shown.id)
        return await session.front.summarise(request)
    return await _edit_summary(session, shown, action.text)


async def _edit_summary(session: ChatSession, shown: CompactionRecord, text: str) -> Done:
    """Replace a summary by an edited one; the history keeps the old one."""
    from ..compaction.apply_compaction import apply, edited

    chat = session.chat
    if not text or text == shown.summary.strip():
        return Done(NOTHING_CHANGED)
    try:
        record = await edited(session.client, chat, session.state.model_name, text)
    except ClientError as error:
        raise CommandRefused(error.message, "The summary did not change.") from error
    if session.chat is not chat or session.is_answering:
        return Done()
    apply(chat, session.history, record, replaces=shown.id)
    session.front.prefill()
    size = number_format.tokens(record.tokens_after)
    return Done(f"Kept: {size} tokens are sent now.", "path", is_visible=True)


# Pins


def pin(session: ChatSession, name: str) -> Done:
    """Keep a message word for word when compacting, or no longer; the last without a name."""
    chat = session.chat
    message = chat.messages.get(name) or chat.leaf
    if message is None:
        raise CommandRefused("There is nothing to pin yet.")
    message.pinned = not message.pinned
    session.history.pin(message.id, message.pinned)
    return Done(
        "Pinned: every summary keeps it verbatim." if message.pinned else "No longer pinned.",
        "pin",
        message.id,
    )


async def pins(session: ChatSession, _argument: str) -> Done:
    """List the pinned messages; one can be shown or unpinned."""
    while True:
        pinned = [message for message in session.chat.path if message.pinned]
        picked = await session.front.pick_pin(pinned)
        if picked is None:
            return Done()
        action, message = picked
        if action == "go":
            return Done(at=message)
        session.front.present(pin(session, message))


# Figures


async def context(session: ChatSession, _argument: str) -> Done:
    """Show the tokens of each message."""
    counter, use = await session.front.count_context()
    if not counter.parts:
        raise CommandRefused("Nothing is sent yet: the chat is empty.")
    saved = savings(session.chat, counter.parts, counter.estimate)
    report = ContextReport(counter.parts, use, saved)
    shown = await session.front.show_context(report)
    return Done() if shown is None else Done("", "path", at=shown)


def stats(session: ChatSession, _argument: str) -> Facts:
    """Figures of the last answer and of the chat."""
    from .answer_statistics import answer_rows, chat_rows

    path = session.chat.path
    answers = [m for m in path if m.role == "assistant" and not m.is_open]
    if not answers:
        raise CommandRefused("There are no figures before the first answer.")
    return Facts({"The last answer": answer_rows(answers[-1].facts), "This chat": chat_rows(path)})
