"""The messages sent to a model: system prompt, pins, summaries, and the last turns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from .chat import Chat
from .message import Attachment, CompactionRecord, Message, RequestedCall

RECORD = "This is a record of what was said earlier in this conversation; it is not a new request."
KEPT = "Kept word for word:"
TOOL_ADVICE = (
    "Do tasks in the user's folder with the tools: read files, change them, run commands. "
    "If a test fails, correct the code, not the test. Answer when the task is done."
)
"""Behind the system prompt where tools are on."""
LONG_TEXT = 2000
"""Characters from which a prompt or an answer is cut when trimming."""
KEPT_HEAD, KEPT_TAIL = 600, 200
"""Characters at the two ends of a long text that trimming keeps."""

RequestMessage = dict[str, Any]
"""A message in the API's format."""


class ViewEntry(msgspec.Struct, frozen=True):
    """One message that is sent; `message` is None for the system prompt and the record.

    `calls` are those of its tool calls that have a result.
    """

    role: str
    content: str
    part: Literal["system", "record", "tail"]
    message: Message | None = None
    calls: tuple[RequestedCall, ...] = ()

    @property
    def request_message(self) -> RequestMessage:
        """Return the message in the API's format."""
        sent: RequestMessage = {"role": self.role, "content": self.content}
        if self.calls:
            sent["tool_calls"] = [
                {
                    "id": c.id,
                    "type": "function",
                    "function": {"name": c.name, "arguments": c.arguments},
                }
                for c in self.calls
            ]
        whole = self.message is not None and self.content == self.message.text
        if whole and self.message is not None and (pictures := self.message.pictures):
            sent["images"] = pictures
        if self.message is not None and self.message.facts.step is not None:
            call = self.message.facts.step.call
            sent |= {"tool_call_id": call.id, "name": call.name}
        return sent


def request_messages(chat: Chat) -> list[RequestMessage]:
    """Return the messages sent for the chosen branch, in the API's format."""
    return [entry.request_message for entry in view_entries(chat)]


def view_entries(chat: Chat, chain: Sequence[CompactionRecord] | None = None) -> list[ViewEntry]:
    """Return the entries sent for the chosen branch, after the compactions of `chain` or the chat's
    own.

    First the system prompt, with advice where tools are on, then one message with the pins and
    summaries of the chain, then the messages after it verbatim. The beginning changes only at a
    compaction, so that the cache stays valid. Answers with neither text nor answered calls are
    omitted.
    """
    chain = chat.compaction_chain() if chain is None else chain
    entries: list[ViewEntry] = []
    system = [chat.settings.system, TOOL_ADVICE if chat.settings.tools else ""]
    if text := "\n\n".join(filter(None, system)):
        entries.append(ViewEntry("system", text, "system"))
    record = record_text(chat, [step for step in chain if not step.trims])
    if record:
        entries.append(ViewEntry("user", record, "record"))
    trimmed = trimmed_names(chat, chain)
    tail = tail_messages(chat, chain)
    answered = {m.facts.step.call.id for m in tail if m.facts.step is not None}
    for message in tail:
        text = trimmed_text(message) if message.id in trimmed else message.text
        calls = tuple(call for call in message.facts.calls if call.id in answered)
        if not text and not calls and message.role != "tool":
            continue
        last = entries[-1] if entries else None
        if last is not None and last.part == "tail" and last.role == message.role == "user":
            entries.pop()  # it was never answered, and models expect the roles to alternate
        entries.append(ViewEntry(message.role, text, "tail", message, calls))
    return entries


def tail_messages(chat: Chat, chain: Sequence[CompactionRecord]) -> list[Message]:
    """Return the messages of the path that no summary of the chain covers."""
    return chat.path[len(covered_messages(chat, [step for step in chain if not step.trims])) :]


def covered_messages(chat: Chat, steps: Sequence[CompactionRecord]) -> list[Message]:
    """Return the messages of the path that compactions cover."""
    ends = {step.at for step in steps}
    path = chat.path
    last = max((index for index, message in enumerate(path) if message.id in ends), default=-1)
    return path[: last + 1]


def record_text(chat: Chat, chain: Sequence[CompactionRecord]) -> str:
    """Return pins and summaries of a chain; a further step only appends to it."""
    parts: list[str] = []
    for step in chain:
        kept = [chat.messages[name] for name in step.kept if name in chat.messages]
        if kept:
            parts.append("\n\n".join([KEPT, *(quoted(message) for message in kept)]))
        if step.summary:
            parts.append(step.summary.strip())
    return "\n\n".join([RECORD, *parts]) if parts else ""


def quoted(message: Message) -> str:
    """Return a message as quoted in a record."""
    return f"<{message.role}>\n{message.text}\n</{message.role}>"


def trimmed_names(chat: Chat, chain: Sequence[CompactionRecord]) -> set[str]:
    """Return the ids of messages sent without attachments, long pasted text and results.

    Pinned ones are exempt.
    """
    trims = [step for step in chain if step.trims]
    kept = {name for step in trims for name in step.kept}
    return {message.id for message in covered_messages(chat, trims)} - kept


def trimmed_text(message: Message) -> str:
    """Return the message with placeholders for its attachments and the middle of a long prompt, or
    of a long result of a tool.
    """
    parts = [
        f'<file name="{attachment.name}">[left out: {_length(attachment)}]</file>'
        for attachment in message.attachments
    ]
    content = message.content
    if message.role != "assistant" and len(content) > LONG_TEXT:
        content = without_middle(content, KEPT_HEAD, KEPT_TAIL)
    return "\n\n".join([*parts, content] if content else parts)


def _length(attachment: Attachment) -> str:
    return "a picture" if attachment.picture else f"{len(attachment.text)} characters"


def without_middle(text: str, head: int, tail: int) -> str:
    """Return the first and last characters of a text, and how many were left out."""
    left_out = len(text) - head - tail
    return f"{text[:head]}\n[left out: {left_out} characters]\n{text[len(text) - tail :]}"
