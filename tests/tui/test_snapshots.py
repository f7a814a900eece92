"""Every screen as text and styles, at three sizes and in two themes.

    UPDATE_SNAPSHOTS=1 pytest tests/tui/test_snapshots.py    after a change that is meant

A snapshot is what the screen shows, then a letter for the style of each cell, then what the letters
mean in each theme. `git diff` shows what changed.
"""

from __future__ import annotations

import asyncio
import difflib
import os
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from rich.style import Style
from textual.widgets import Input

from ingle.tui.chats.chat import Chat as ChatTree
from ingle.tui.chats.chat import ChatSettings
from ingle.tui.chats.compaction import Compaction
from ingle.tui.chats.message import Attachment, Message, MessageFacts
from ingle.tui.folders import Folders
from ingle.tui.theme import DAYLIGHT, EMBER

if TYPE_CHECKING:
    from .conftest import Chat, FakeDaemon, OpenChat

FOLDER = Path(__file__).parent / "snapshots"
SIZES = ((60, 20), (80, 24), (160, 45))
THEMES = (EMBER.name, DAYLIGHT.name)
UPDATES = bool(os.environ.get("UPDATE_SNAPSHOTS"))
CALM, LONG_CALM = 0.02, 0.4
"""Seconds without a change after which a screen is taken for what it will be, and surely is."""
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
MORNING = 1_790_000_000.0
"""Every message's time: a frozen clock."""
ANSWER = """\
## Day 1

Arrive and **rest**; then walk to *Gion*. A guide of `600 m`:

- 15:00 check in near the station, with a step-free exit
- 17:30 taxi to Gion

```python
def cost(taxi: int, food: int) -> int:
    return taxi + food  # in yen
```

| day | what |
|-----|------|
| 1   | Gion |
"""

Scene = Callable[["Chat", "FakeDaemon"], Awaitable[None]]


@pytest.fixture(autouse=True)
def frozen_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    if hasattr(time, "tzset"):
        time.tzset()


# Scenes: each brings the chat to what is to be seen


def a_chat() -> ChatTree:
    """A conversation with most of what can be in one."""
    chat = ChatTree(ChatSettings(system="Be brief."), id="1" * 22, created=MORNING)
    facts = MessageFacts(
        prompt_tokens=412,
        cached_tokens=400,
        completion_tokens=120,
        context=8192,
        first_token=0.21,
        decode_seconds=2.0,
    )

    def say(name: str, role: str, content: str, parent: str | None, **more: object) -> Message:
        fields: dict[str, object] = {"id": name, "role": role, "content": content}
        if role == "assistant":
            fields |= {"model": "qwen3:8b", "ending": "answered", "facts": facts}
        message = Message(**fields, **more, parent=parent, created=MORNING)  # type: ignore[arg-type]
        return chat.add(message)

    notes = Attachment("notes.txt", "step-free only\n" * 20)
    say("a", "user", "Plan four days in Kyoto; my mother walks with a cane.", None)
    say("b", "assistant", "Here is a first plan.", "a")
    say("c", "assistant", ANSWER, "a", reasoning="They need short ways.")
    say("d", "user", "And what does it cost? 京都は高い 🙂 שלום", "c", attachments=(notes,))
    say("e", "assistant", "About 40 000 yen a d", "d").ending = "stopped"
    return chat


async def welcome(chat: Chat, daemon: FakeDaemon) -> None:
    await chat.until_shown("smollm2:135m on disk")


async def welcome_pull(chat: Chat, daemon: FakeDaemon) -> None:
    daemon.models = []
    daemon.add_model("smollm2:135m", installed=False)
    chat.screen.link.wake()
    await daemon.stop()
    await daemon.start()
    chat.screen.wake_daemon()
    await chat.until(lambda: chat.screen.state.must_pull)


async def daemon_lost(chat: Chat, daemon: FakeDaemon) -> None:
    await chat.until_shown("smollm2:135m on disk")
    chat.screen.open_chat(a_chat())
    await daemon.stop()
    await chat.until_shown("enter starts it again")


async def conversation(chat: Chat, daemon: FakeDaemon) -> None:
    await chat.until_shown("smollm2:135m on disk")
    chat.screen.open_chat(a_chat())
    await chat.until(lambda: chat.transcript.entries)


async def compacted(chat: Chat, daemon: FakeDaemon) -> None:
    await chat.until_shown("smollm2:135m on disk")
    tree = a_chat()
    tree.add_compaction(
        Compaction(
            at="c",
            summary="## Wishes\n- Kyoto, four days",
            id="2" * 22,
            created=MORNING,
            turns=1,
            tokens_before=6912,
            tokens_after=611,
            kv_pages=394,
            seconds=3.1,
        )
    )
    chat.screen.open_chat(tree)
    await chat.until(lambda: chat.transcript.entries)


async def scrolled_up(chat: Chat, daemon: FakeDaemon) -> None:
    await conversation(chat, daemon)
    await chat.pilot.press("pageup")


async def draft(chat: Chat, daemon: FakeDaemon) -> None:
    await conversation(chat, daemon)
    chat.screen.composer.replace_text("A draft of\ntwo lines: 京都 🙂 שלום")


async def help_screen(chat: Chat, daemon: FakeDaemon) -> None:
    await conversation(chat, daemon)
    await chat.pilot.press("f1")


async def palette(chat: Chat, daemon: FakeDaemon) -> None:
    await conversation(chat, daemon)
    await chat.pilot.press("ctrl+p")
    await chat.until(lambda: len(chat.app.screen_stack) == 2)
    await chat.pilot.press("t", "h", "e", "m", "e")


async def rewind(chat: Chat, daemon: FakeDaemon) -> None:
    await conversation(chat, daemon)
    chat.screen.run_command("rewind")


async def system_prompt(chat: Chat, daemon: FakeDaemon) -> None:
    await conversation(chat, daemon)
    chat.screen.run_command("system")


async def redaction(chat: Chat, daemon: FakeDaemon) -> None:
    await conversation(chat, daemon)
    chat.screen.composer.replace_text("My card is 4111 1111 1111 1111, mail ann@example.org")
    chat.screen.run_command("redact")


async def completion(chat: Chat, daemon: FakeDaemon) -> None:
    await conversation(chat, daemon)
    await chat.pilot.press("slash", "m", "o")


async def blocks(chat: Chat, daemon: FakeDaemon) -> None:
    await conversation(chat, daemon)
    await chat.pilot.press("alt+up", "alt+up")


def shows(name: str) -> Scene:
    """What one command brings up over the conversation."""

    async def scene(chat: Chat, daemon: FakeDaemon) -> None:
        await conversation(chat, daemon)
        chat.screen.run_command(name)
        await chat.until(lambda: len(chat.app.screen_stack) == 2)

    return scene


async def summary(chat: Chat, daemon: FakeDaemon) -> None:
    await compacted(chat, daemon)
    chat.screen.run_command("summary")


SCENES: dict[str, Scene] = {name: shows(name) for name in ("settings", "keys", "kv", "pins")} | {
    scene.__name__: scene
    for scene in (
        welcome,
        welcome_pull,
        daemon_lost,
        conversation,
        compacted,
        scrolled_up,
        draft,
        help_screen,
        palette,
        rewind,
        system_prompt,
        redaction,
        completion,
        blocks,
        summary,
    )
}


@pytest.mark.parametrize("name", SCENES)
async def test_screen(
    open_chat: OpenChat,
    fake_daemon: FakeDaemon,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    # Settings and keys tell where they are kept: a place that is the same everywhere.
    monkeypatch.chdir(tmp_path)
    folders = Folders(Path("chats"), Path("config"))
    differences: list[str] = []
    async with AsyncExitStack() as stack:
        chat = await stack.enter_async_context(open_chat(size=SIZES[1], folders=folders))
        await SCENES[name](chat, fake_daemon)
        for field in chat.app.screen.query(Input):
            field.cursor_blink = False
        for size in SIZES:
            await chat.pilot.resize_terminal(*size)
            file = FOLDER / f"{name}-{size[0]}x{size[1]}.txt"
            before = file.read_text(encoding="utf-8") if file.exists() else ""
            now = await snapshot(chat, expected="" if UPDATES else before)
            if UPDATES:
                file.write_text(now, encoding="utf-8")
            elif now != before:
                lines = before.splitlines(), now.splitlines()
                differences += difflib.unified_diff(*lines, f"expected {file.name}", "now")
    if differences:
        pytest.fail("\n".join(differences))


async def snapshot(chat: Chat, *, expected: str) -> str:
    """The screen in all themes; where it is not as expected, it is given more and more time."""
    calm = CALM if expected else LONG_CALM
    while True:
        now = merged([await picture(chat, theme, calm) for theme in THEMES])
        if now == expected or calm >= LONG_CALM:
            return now
        calm *= 3


Picture = tuple[str, str, str]
"""The text, the letters, and what the letters mean."""


async def picture(chat: Chat, theme: str, calm: float) -> Picture:
    """What the screen shows in a theme, once it stays so for `calm` seconds."""
    chat.app.theme = theme
    await asyncio.sleep(calm)
    now = drawn(chat, theme)
    while True:
        await asyncio.sleep(calm)
        before, now = now, drawn(chat, theme)
        if now == before:
            return now


def drawn(chat: Chat, theme: str) -> Picture:
    """What the screen shows at this moment."""
    strips = chat.app.screen._compositor.render_strips()  # pyright: ignore[reportPrivateUsage]
    letters: dict[str, str] = {}
    text: list[str] = []
    grid: list[str] = []
    for strip in strips:
        text.append(strip.text.rstrip())
        cells = ""
        for segment in strip:
            look = described(segment.style)
            letter = letters.setdefault(look, LETTERS[min(len(letters), len(LETTERS) - 1)])
            cells += letter * segment.cell_length
        grid.append(shortened(cells))
    legend = [f"{letter} {look}" for look, letter in letters.items()]
    return "\n".join(text), "\n".join(grid), f"{theme}:\n" + "\n".join(legend)


def merged(pictures: list[Picture]) -> str:
    """Text and letters once, where the themes agree on them."""
    texts, grids = dict.fromkeys(p[0] for p in pictures), dict.fromkeys(p[1] for p in pictures)
    return "\n\n".join([*texts, *grids, *(p[2] for p in pictures)]) + "\n"


def shortened(cells: str) -> str:
    """Runs of letters with their lengths, as in `a12 b3`."""
    return " ".join(f"{letter}{len(list(run))}" for letter, run in groupby(cells))


def described(style: Style | None) -> str:
    """Colours and attributes in words."""
    if style is None:
        return "plain"
    parts: list[str] = [style.color.name if style.color else "default"]
    if style.bgcolor:
        parts.append(f"on {style.bgcolor.name}")
    names = ("bold", "dim", "italic", "underline", "reverse", "strike")
    parts += [name for name in names if getattr(style, name)]
    return " ".join(parts)
