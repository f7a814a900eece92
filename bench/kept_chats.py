"""Chats of many messages, written into a real history."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from pathlib import Path

from answer_text import answer_text

from ingle.tui.chats.chat import Chat, ChatSettings
from ingle.tui.chats.message import Message, MessageFacts
from ingle.tui.history.history_store import open_history

END = "Ѭ"
"""The last word of every kept chat; the letter is nowhere else."""


def kept_turns(messages: int) -> Generator[tuple[str, str], None, None]:
    """Prompts, and answers of 60 to 200 tokens, which are so many messages together."""
    for number in range(messages // 2):
        text = answer_text(60 + number * 37 % 140)
        last = number == messages // 2 - 1
        yield f"Turn {number}", f"{text}\n\n{END}" if last else text


def keep_chat(folder: Path, title: str, turns: Iterable[tuple[str, str]]) -> None:
    """Write a chat under the folder of chats."""
    store = open_history(folder, _fail)
    chat = Chat(ChatSettings(title=title))
    store.add_chat(chat)
    facts = MessageFacts(completion_tokens=120, decode_seconds=2.0)
    parent: str | None = None
    for asked, text in turns:
        prompt = Message(role="user", content=asked, parent=parent)
        answer = Message(
            role="assistant",
            content=text,
            parent=prompt.id,
            model="scripted:1",
            ending="answered",
            facts=facts,
        )
        store.add_message(chat.id, chat.add(prompt))
        store.add_message(chat.id, chat.add(answer))
        parent = answer.id
    store.flush(60)
    store.close()


def _fail(text: str) -> None:
    raise RuntimeError(text)
