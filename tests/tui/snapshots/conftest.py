"""Snapshots of screens as text and styles, at three sizes and in two themes.

    UPDATE_SNAPSHOTS=1 pytest tests/tui/snapshots    after an intended change

A snapshot has the text of the screen, a letter for the style of each cell, and a legend of the
letters for each theme. `git diff` shows what changed.
"""

from __future__ import annotations

import asyncio
import difflib
import os
import time
from collections.abc import Awaitable, Callable
from datetime import datetime, tzinfo
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from rich.style import Style
from textual import events
from textual._context import visible_screen_stack
from textual.drivers.headless_driver import HeadlessDriver
from textual.geometry import Size
from textual.widgets import Input

from ingle.tui.chats.chat import Chat as ChatTree
from ingle.tui.chats.chat import ChatSettings
from ingle.tui.chats.message import Attachment, Message, MessageFacts
from ingle.tui.settings.chat_folders import ChatFolders
from ingle.tui.settings.themes import DAYLIGHT, EMBER

if TYPE_CHECKING:
    from ..conftest import Chat

FOLDER = Path(__file__).parent
SIZES = ((60, 20), (80, 24), (160, 45))
THEMES = (EMBER.name, DAYLIGHT.name)
UPDATES = bool(os.environ.get("UPDATE_SNAPSHOTS"))
HUGE = (300, 90)
MAIN = {
    "answering",
    "chats",
    "compacted",
    "compare",
    "conversation",
    "gauges",
    "gauges_beside",
    "help_screen",
    "models",
    "search",
    "welcome",
}
"""The scenes that are compared on a huge screen as well."""
SHOWN = {
    "block_menu": "BlockMenu",
    "chats": "ChatListScreen",
    "compact_choice": "CompactChoice",
    "compare": "CompareScreen",
    "compare_empty": "CompareScreen",
    "consent": "ConsentScreen",
    "context": "ContextTable",
    "delete": "ConfirmScreen",
    "doctor": "DoctorScreen",
    "encrypt": "LineInputScreen",
    "encrypt_off": "ConfirmScreen",
    "gauges": "GaugesScreen",
    "help_screen": "HelpScreen",
    "import": "LineInputScreen",
    "import_progress": "ProgressScreen",
    "keys": "KeysScreen",
    "kv": "PageMapScreen",
    "models": "ModelPicker",
    "models_delete": "ConfirmScreen",
    "models_doubt": "ConfirmScreen",
    "models_keys": "ModelPicker",
    "no_pins": "PinsScreen",
    "palette": "CommandList",
    "themes": "ThemeList",
    "pins": "PinsScreen",
    "price": "ConfirmScreen",
    "pull_stop": "ConfirmScreen",
    "redaction": "RedactionScreen",
    "rename": "LineInputScreen",
    "rewind": "RewindScreen",
    "route_choice": "RedactionScreen",
    "search": "SearchScreen",
    "search_help": "SearchScreen",
    "settings": "SettingsScreen",
    "stats": "StatisticsScreen",
    "summary": "SummaryScreen",
    "system_prompt": "TextEditor",
    "unlock": "LineInputScreen",
    "watch": "WatchScreen",
    "watch_empty": "WatchScreen",
    "watch_prompt": "WatchScreen",
}
"""The class of each scene's screen; the default is `ChatScreen`."""
CALM = 0.4
"""Seconds without a change after which a screen counts as final."""
STEP, PATIENCE = 0.01, 3.0
"""The polling interval and the timeout for the expected screen, in seconds."""
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


class FrozenDatetime(datetime):
    """A `datetime` whose current time is fixed."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> FrozenDatetime:
        """Two days after every message."""
        return cls.fromtimestamp(MORNING + 2 * 86_400, tz)


class Clock:
    """A clock that only advances manually."""

    strftime = staticmethod(time.strftime)

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        """Seconds."""
        return self.now

    def localtime(self, _: float) -> time.struct_time:
        """A fixed time of day, since answers of the scripted daemon have today's date."""
        return time.gmtime(MORNING)


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The chat's clock; dates and times of day are fixed as well."""
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    if hasattr(time, "tzset"):
        time.tzset()
    for module in ("chat_list_screen", "search_screen"):
        monkeypatch.setattr(f"ingle.tui.screens.{module}.datetime", FrozenDatetime)
    clock = Clock()
    for module in (
        "features.context.gauges_feature",
        "transcript.entries.entry",
        "transcript.entries.reasoning_block",
        "session.turn",
        "widgets.gauges.gauge_panel",
    ):
        monkeypatch.setattr(f"ingle.tui.{module}.time", clock)
    progress = "ingle.tui.compaction.compactor.CompactionProgress.seconds"
    monkeypatch.setattr(progress, property(lambda _: 12.0))
    return clock


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ChatFolders:
    """Relative folders, since screens show the paths."""
    monkeypatch.chdir(tmp_path)
    return ChatFolders(Path("chats"), Path("config"))


@pytest.fixture
def tree() -> ChatTree:
    """A conversation with branches, reasoning, attachments and wide characters."""
    chat = ChatTree(ChatSettings(system="Be brief."), id="1" * 22, created=MORNING)
    facts = MessageFacts(
        prompt_tokens=412,
        cached_tokens=400,
        completion_tokens=120,
        context=8192,
        first_token=0.21,
        decode_seconds=2.0,
    )

    def add_message(
        name: str, role: str, content: str, parent: str | None, **more: object
    ) -> Message:
        fields: dict[str, object] = {"id": name, "role": role, "content": content}
        if role == "assistant":
            fields |= {"model": "qwen3:8b", "ending": "answered", "facts": facts}
        message = Message(**fields, **more, parent=parent, created=MORNING)  # type: ignore[arg-type]
        return chat.add(message)

    notes = Attachment("notes.txt", "step-free only\n" * 20)
    add_message("a", "user", "Plan four days in Kyoto; my mother walks with a cane.", None)
    add_message("b", "assistant", "Here is a first plan.", "a")
    add_message("c", "assistant", ANSWER, "a", reasoning="They need short ways.")
    add_message("d", "user", "And what does it cost? 京都は高い 🙂 שלום", "c", attachments=(notes,))
    add_message("e", "assistant", "About 40 000 yen a d", "d").ending = "stopped"
    return chat


@pytest.fixture
def scenes() -> dict[str, str]:
    """The scenes that have snapshots, with the class of their screen."""
    names = {file.name.rpartition("-")[0] for file in FOLDER.glob("*-*x*.txt")}
    return {name: SHOWN.get(name, "ChatScreen") for name in names}


AssertSnapshot = Callable[..., Awaitable[None]]


@pytest.fixture
def assert_snapshot() -> AssertSnapshot:
    """`await assert_snapshot(chat, name)` compares the screen with its snapshots at every size,
    and at those that are given.
    """
    return compare_with_snapshots


Resize = Callable[["Chat", int, int], None]
Draw = Callable[["Chat", str], "Picture"]


@pytest.fixture
def give_size() -> Resize:
    """`give_size(chat, width, height)`, without waiting for anything to happen."""
    return resize


@pytest.fixture
def draw() -> Draw:
    """`draw(chat, theme)` captures the current screen."""
    return capture


async def compare_with_snapshots(chat: Chat, name: str, *more: tuple[int, int]) -> None:
    await chat.pilot.pause()  # a dialog that was just opened is shown then
    assert type(chat.app.screen).__name__ == SHOWN.get(name, "ChatScreen")
    for field in chat.app.screen.query(Input):
        field.cursor_blink = False
    differences: list[str] = []
    for size in (*SIZES, *more, *((HUGE,) if name in MAIN else ())):
        resize(chat, *size)
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


def resize(chat: Chat, width: int, height: int) -> None:
    """Give the terminal another size, without waiting for anything to happen."""
    size = Size(width, height)
    driver = chat.app._driver  # pyright: ignore[reportPrivateUsage]
    assert isinstance(driver, HeadlessDriver)
    driver._size = size  # pyright: ignore[reportPrivateUsage]
    chat.app.post_message(events.Resize(size, size))


async def snapshot(chat: Chat, *, expected: str) -> str:
    """The screen in all themes, once it matches `expected` or is final."""
    # Changing the theme is slow, so the current one comes first.
    themes = sorted(THEMES, key=lambda theme: theme != chat.app.theme)
    pictures = {theme: await picture(chat, theme, expected) for theme in themes}
    return merge_pictures([pictures[theme] for theme in THEMES])


Picture = tuple[str, str, str]
"""The text, the letters, and the legend of the letters."""


async def picture(chat: Chat, theme: str, expected: str) -> Picture:
    """The screen in a theme, once it matches `expected` or is unchanged for `CALM` seconds."""
    if chat.app.theme != theme:
        chat.app.theme = theme
    until = time.monotonic() + PATIENCE
    while expected and time.monotonic() < until:
        await asyncio.sleep(STEP)
        if is_busy(chat):
            continue
        now = capture(chat, theme)
        if all(part in expected for part in now):
            return now
    now = capture(chat, theme)
    while True:
        await asyncio.sleep(CALM)
        before, now = now, capture(chat, theme)
        if now == before:
            return now


def is_busy(chat: Chat) -> bool:
    """Whether the screen is about to change, so that capturing it is useless."""
    screen = chat.app.screen
    return bool(screen._dirty_widgets) or screen._layout_required  # pyright: ignore[reportPrivateUsage]


def capture(chat: Chat, theme: str) -> Picture:
    """Capture the current screen."""
    app = chat.app
    # Textual draws the screen below a dialog only if it is in this context variable.
    visible_screen_stack.set(app._background_screens)  # pyright: ignore[reportPrivateUsage, reportUnknownMemberType, reportUnknownArgumentType]
    strips = app.screen._compositor.render_strips()  # pyright: ignore[reportPrivateUsage]
    letters: dict[str, str] = {}
    text: list[str] = []
    grid: list[str] = []
    for strip in strips:
        text.append(strip.text.rstrip())
        cells = ""
        for segment in strip:
            style = describe_style(segment.style)
            letter = letters.setdefault(style, LETTERS[min(len(letters), len(LETTERS) - 1)])
            cells += letter * segment.cell_length
        grid.append(run_lengths(cells))
    legend = [f"{letter} {style}" for style, letter in letters.items()]
    return "\n".join(text), "\n".join(grid), f"{theme}:\n" + "\n".join(legend)


def merge_pictures(pictures: list[Picture]) -> str:
    """Merge the pictures of all themes; equal text and letters occur once."""
    texts, grids = dict.fromkeys(p[0] for p in pictures), dict.fromkeys(p[1] for p in pictures)
    return "\n\n".join([*texts, *grids, *(p[2] for p in pictures)]) + "\n"


def run_lengths(cells: str) -> str:
    """The run-length encoding of the letters, as in `a12 b3`."""
    return " ".join(f"{letter}{len(list(run))}" for letter, run in groupby(cells))


def describe_style(style: Style | None) -> str:
    """The colours and attributes of a style."""
    if style is None:
        return "plain"
    parts: list[str] = [style.color.name if style.color else "default"]
    if style.bgcolor:
        parts.append(f"on {style.bgcolor.name}")
    names = ("bold", "dim", "italic", "underline", "reverse", "strike")
    parts += [name for name in names if getattr(style, name)]
    return " ".join(parts)
