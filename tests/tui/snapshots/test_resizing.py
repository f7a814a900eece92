"""Rapid resizing while an answer streams: the final frame, the draft and the scroll position."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from ingle.tui.chats.chat import Chat as ChatTree
from ingle.tui.chats.message import Message
from ingle.tui.settings.chat_folders import ChatFolders
from ingle.tui.settings.preferences import Preferences
from ingle.tui.settings.themes import EMBER
from ingle.tui.widgets.status_line import StatusLine

if TYPE_CHECKING:
    from ..conftest import Chat, FakeDaemon, OpenChat
    from .conftest import Draw, Resize

FULL = Preferences(gauges=True)
DRAFT = "A draft of\ntwo lines: 京都 🙂"
BIGGEST, SMALLEST, STEPS = (300, 90), (20, 5), 12
PIECES = [f"Sentence {number} with `code`, **bold** and 京都.\n\n" for number in range(60)]


def resize_steps() -> list[tuple[int, int]]:
    """Sizes from the biggest to the smallest and back, and some extreme ones."""
    (wide, high), (thin, low) = BIGGEST, SMALLEST
    down = [
        (wide - (wide - thin) * step // STEPS, high - (high - low) * step // STEPS)
        for step in range(STEPS + 1)
    ]
    return [*down, *reversed(down), (61, 90), (300, 6), (20, 90)]


def long_chat() -> ChatTree:
    chat = ChatTree(id="1" * 22, created=1_790_000_000.0)
    parent: str | None = None
    for turn in range(12):
        prompt = Message(
            role="user", content=f"Question {turn}?", parent=parent, id=f"q{turn}", created=1.79e9
        )
        chat.add(prompt)
        text = "\n\n".join([f"Answer {turn}", *("A line that is long enough to wrap. " * 4,) * 3])
        answer = Message(
            role="assistant",
            content=text,
            parent=prompt.id,
            id=f"a{turn}",
            created=1.79e9,
            model="qwen3:8b",
            ending="answered",
        )
        parent = chat.add(answer).id
    return chat


async def start_answering(chat: Chat, daemon: FakeDaemon, tree: ChatTree) -> None:
    """Start a long answer and type a draft."""
    await chat.until_shown("smollm2:135m on disk")
    chat.screen.open_chat(tree)
    daemon.script(*PIECES, gate_before=len(PIECES) // 2)
    store = chat.screen.store
    assert store is not None
    store.add_chat(tree)
    for message in tree.messages.values():
        store.add_message(tree.id, message)
    await chat.send("Tell me.")
    await chat.until(lambda: tree.leaf is not None and "Sentence 1 " in tree.leaf.content)
    chat.screen.composer.replace_text(DRAFT)


async def resize_rapidly(
    chat: Chat, daemon: FakeDaemon, give_size: Resize, size: tuple[int, int]
) -> None:
    """Resize while the second half of the answer streams, and end at `size`."""
    for number, step in enumerate([*resize_steps(), size]):
        give_size(chat, *step)
        if number == STEPS:
            daemon.gate.set()
        await asyncio.sleep(0 if number % 3 else 0.01)
    await chat.until(lambda: chat.screen.turn is None)
    await chat.until(lambda: chat.app.size == size)
    await chat.until(lambda: not chat.transcript.is_measuring)


@pytest.mark.slow
@pytest.mark.parametrize("size", [(80, 24), (160, 45)])
async def test_final_frame_equals_a_fresh_start_at_this_size(
    open_chat: OpenChat,
    fake_daemon: FakeDaemon,
    folders: ChatFolders,
    give_size: Resize,
    draw: Draw,
    size: tuple[int, int],
) -> None:
    tree = long_chat()
    async with open_chat(size=BIGGEST, folders=folders, preferences=FULL) as chat:
        await start_answering(chat, fake_daemon, tree)
        await resize_rapidly(chat, fake_daemon, give_size, size)
        assert chat.draft == DRAFT
        assert chat.transcript.following
        status = chat.app.query_one(StatusLine).status
        if size[0] >= 140:  # the gauge panel, which is drawn later
            await chat.until_shown("now idle · first token")
        await chat.pilot.pause()
        resized = draw(chat, EMBER.name)
    async with open_chat(size=size, folders=folders, preferences=FULL) as fresh:
        await fresh.until_shown("smollm2:135m on disk")
        fresh.screen.open_chat(tree)
        fresh.screen.composer.replace_text(DRAFT)
        # Only the program that received the answer knows its speed.
        fresh.app.query_one(StatusLine).status = status
        await fresh.until(lambda: draw(fresh, EMBER.name) == resized)


@pytest.mark.slow
async def test_resizing_keeps_a_scrolled_up_position(
    open_chat: OpenChat, fake_daemon: FakeDaemon, folders: ChatFolders, give_size: Resize
) -> None:
    tree = long_chat()
    async with open_chat(size=(80, 24), folders=folders) as chat:
        await start_answering(chat, fake_daemon, tree)
        chat.transcript.scroll_to_entry("a4")
        await chat.until_shown("Answer 4")
        before = chat.transcript.first_in_view
        await resize_rapidly(chat, fake_daemon, give_size, (80, 24))
        assert chat.transcript.first_in_view is before
        assert "Answer 4" in chat.screen_text
        assert chat.draft == DRAFT
