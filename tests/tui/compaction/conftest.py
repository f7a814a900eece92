"""Fixtures for compaction: chats with long answers, and summary notes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ingle.tui.chats.chat import Chat
from ingle.tui.chats.message import Message
from ingle.tui.compaction.summary_notes import HEADINGS

MakeChat = Callable[..., Chat]

FILLER = "That is worth a thought, and there are several good ways to go about it from here. " * 6


def notes_text(**bullets: str) -> str:
    """Summary notes with all headings; bullets are given by the first word of a heading."""
    bullet_by_word = {name.casefold(): bullet for name, bullet in bullets.items()}
    return "\n".join(
        f"{heading}:\n- {bullet_by_word.get(heading.split()[0].casefold(), 'none')}"
        for heading in HEADINGS
    )


@pytest.fixture
def make_chat() -> MakeChat:
    """`make_chat("first prompt", "second prompt", …)`, each with a long answer."""

    def made(*prompts: str, answer: str = FILLER) -> Chat:
        chat = Chat()
        add_turns(chat, *prompts, answer=answer)
        return chat

    return made


def add_turns(chat: Chat, *prompts: str, answer: str = FILLER) -> None:
    """Append prompts with answers to the chat."""
    for prompt in prompts:
        leaf = chat.leaf
        message = chat.add(
            Message(role="user", content=prompt, parent=leaf.id if leaf is not None else None)
        )
        chat.add(Message(role="assistant", content=answer, parent=message.id, ending="answered"))


@pytest.fixture
def more_turns() -> Callable[..., None]:
    """`more_turns(chat, "prompt", …)`."""
    return add_turns


@pytest.fixture
def notes() -> Callable[..., str]:
    """`notes(facts="…", decisions="…")`: a model's notes; other headings have “none”."""
    return notes_text
