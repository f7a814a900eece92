"""Views of a chat: whole, compacted, truncated, or with a plain summary."""

from __future__ import annotations

from collections.abc import Sequence

from compaction_cases.chat_maker import Turn
from compaction_cases.probing import Messages, Prober
from ingle.tui.chats.chat import Chat
from ingle.tui.chats.message import Message

PLAIN = (
    "Summarise this conversation so far in at most {words} words. Your summary will replace it, so "
    "include everything that matters."
)
PLAIN_HEAD = "Summary of the conversation so far:\n"


def add_turns(chat: Chat, turns: Sequence[Turn]) -> None:
    """Append turns to the chat."""
    for turn in turns:
        leaf = chat.leaf
        prompt = Message(role="user", content=turn.prompt, parent=leaf.id if leaf else None)
        chat.add(prompt)
        answer = Message(role="assistant", content=turn.answer, parent=prompt.id, ending="answered")
        chat.add(answer)


def as_messages(turns: Sequence[Turn]) -> Messages:
    """Turns in the shape the API takes."""
    return [
        {"role": role, "content": text}
        for turn in turns
        for role, text in (("user", turn.prompt), ("assistant", turn.answer))
    ]


def cut_off(full: Messages, share: float) -> Messages:
    """The last turns that have at most this share of the text."""
    most = share * sum(len(message["content"]) for message in full)
    start = len(full)
    size = 0
    while start >= 2:
        size += len(full[start - 1]["content"]) + len(full[start - 2]["content"])
        if size > most:
            break
        start -= 2
    return full[start:]


class PlainSummary:
    """A simple program's approach: a summary before the last turns."""

    def __init__(self, prober: Prober) -> None:
        self._prober = prober
        self._text = ""

    async def compact(self, before: Messages, tail: Messages, tokens: int) -> Messages:
        """The view of about so many tokens after a summary of `before`."""
        instruction = {"role": "user", "content": PLAIN.format(words=round(0.7 * tokens))}
        said = [*self.head(), *before]
        answer = await self._prober.ask([*said, instruction], tokens=tokens)
        self._text = answer.text.strip()
        return [*self.head(), *tail]

    def head(self) -> Messages:
        """The summary as a message."""
        return [{"role": "user", "content": PLAIN_HEAD + self._text}] if self._text else []
