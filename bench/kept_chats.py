"""Chats of many messages, written into a real history."""

from __future__ import annotations

from pathlib import Path

from answer_text import answer_text

from ingle.tui.chats.chat import Chat, ChatSettings
from ingle.tui.chats.message import Message, MessageFacts
from ingle.tui.history.store import open_history

END = "Ѭ"
"""The last word of every kept chat; the letter is nowhere else."""


def keep_chat(folder: Path, title: str, messages: int) -> None:
    """Write a chat of prompts and of answers of 60 to 200 tokens under the folder of chats."""
    store = open_history(folder, _fail)
    chat = Chat(ChatSettings(title=title))
    store.add_chat(chat)
    facts = MessageFacts(completion_tokens=120, decode_seconds=2.0)
    parent: str | None = None
    for number in range(messages // 2):
        prompt = Message(role="user", content=f"Turn {number}", parent=parent)
        text = answer_text(60 + number * 37 % 140)
        answer = Message(
            role="assistant",
            content=f"{text}\n\n{END}" if number == messages // 2 - 1 else text,
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
