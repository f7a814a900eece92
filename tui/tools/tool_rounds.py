"""Runs the tool calls of an answer, and adds their results to the chat."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from itertools import takewhile
from typing import Protocol

from ingle.daemon.client.client_errors import ClientError
from ingle.daemon.client.tool_types import CallResult

from ..chats.chat import Chat
from ..chats.history_protocol import ChatRecorder
from ..chats.message import Message, MessageFacts, ToolStep
from ..chats.tool_steps import open_calls
from ..compaction.apply_compaction import apply, trim
from ..compaction.compaction_planner import PromptRoom, last_size
from ..compaction.summary_notes import CompactionRefused
from ..compaction.token_sizes import CHARACTERS_A_TOKEN
from .chat_tools import ChatTools

ROUNDS = 15
"""Answers with calls in a row, after each of which the user is asked whether to go on."""
UNDONE = "\n[The user has undone this edit.]"


class StepView(Protocol):
    """Shows the calls of an answer as they run."""

    def begin_step(self, message: Message) -> None: ...
    def step_output(self, message: Message, text: str) -> None: ...
    def end_step(self, message: Message) -> None: ...


async def run_calls(tools: ChatTools, chat: Chat, history: ChatRecorder, view: StepView) -> Message:
    """Run the open calls of the path one after the other; return the last result.

    If it is cancelled, the calls without a result get one that says so.
    """
    last = chat.path[-1]
    cancelled: asyncio.CancelledError | None = None
    for call in open_calls(chat):
        message = Message(role="tool", parent=last.id, facts=MessageFacts(step=ToolStep(call)))
        view.begin_step(message)
        diff = ""
        try:
            if cancelled is not None:
                result = _unrun(message, "The user stopped this call.")
            else:
                output = partial(view.step_output, message)
                result, diff = await tools.call(message.id, call, output)
        except ClientError as error:
            result = _unrun(message, error.message)
        except asyncio.CancelledError as error:
            cancelled, result = error, _unrun(message, "The user stopped this call.")
        last = _add(chat, history, message, result, diff)
        view.end_step(last)
    if cancelled is not None:
        raise cancelled
    _make_room(chat, history)
    return last


def _make_room(chat: Chat, history: ChatRecorder) -> None:
    """Trim earlier results when the next answer would not fit."""
    last = last_size(chat)
    results = takewhile(lambda message: message.role == "tool", reversed(chat.path))
    new = sum(len(message.content) for message in results) / CHARACTERS_A_TOKEN
    if PromptRoom(last.used, round(new), last.context).lacking > 0:
        with suppress(CompactionRefused):  # nothing is left to trim: the daemon says by how much
            apply(chat, history, trim(chat))


def _fitting(text: str, context: int) -> str:
    """Return a result that takes at most a third of the context, in tokens, without its middle."""
    limit = round(context / 3 * CHARACTERS_A_TOKEN)
    if not context or len(text) <= limit:
        return text
    head, tail = limit * 2 // 3, limit // 3
    left_out = f"[{len(text) - head - tail} characters left out: ask for a smaller part]"
    return f"{text[:head]}\n{left_out}\n{text[-tail:]}"


def _unrun(message: Message, why: str) -> CallResult:
    return CallResult(message.id, why, why, failed=True)


def _add(
    chat: Chat, history: ChatRecorder, message: Message, result: CallResult, diff: str
) -> Message:
    assert message.facts.step is not None
    step = ToolStep(
        message.facts.step.call,
        summary=result.summary,
        diff=diff,
        seconds=result.seconds,
        failed=result.failed,
        declined=result.declined,
        undoable=result.undoable,
    )
    message.content = _fitting(result.text, last_size(chat).context)
    message.facts = MessageFacts(step=step)
    message.ending = "answered"
    chat.add(message)
    history.add_message(chat.id, message)
    return message
