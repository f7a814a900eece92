"""Fixtures for the chat: a scripted daemon, the app with its keyboard, and pseudo-terminals."""

from __future__ import annotations

import asyncio
import os
import re
import select
import subprocess
import tempfile
import termios
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
)
from pathlib import Path
from typing import Any

import pyte
import pytest
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet
from textual.pilot import Pilot

from ingle.daemon.client.async_client import AsyncDaemonClient
from ingle.tui.app.chat_app import ChatApp
from ingle.tui.app.chat_screen import ChatScreen
from ingle.tui.session.chat_client import chat_client
from ingle.tui.transcript.view.transcript import Transcript
from ingle.tui.widgets.composer.composer import Composer
from tests.harness.fake_daemon import FakeDaemon


async def _idle(*_: float) -> None:
    """Return once the event loop was idle for several iterations in a row."""
    loop: Any = asyncio.get_running_loop()
    quiet = 0
    while quiet < 4:
        await asyncio.sleep(0)
        quiet = 0 if loop._ready else quiet + 1  # asyncio has no public API for this


@pytest.fixture(autouse=True)
def wait_for_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make Textual's pilot wait for events; its own wait is for CPU time, at least 20 ms."""
    for module in ("textual.app", "textual.pilot"):
        monkeypatch.setattr(f"{module}.wait_for_idle", _idle)


@pytest.fixture(scope="session", autouse=True)
def parse_styles_once() -> Iterator[None]:
    """Parse each style sheet once for all apps; Textual does so twice for each app."""
    parsed: dict[tuple[object, ...], list[RuleSet]] = {}
    parse: Callable[..., list[RuleSet]] = Stylesheet._parse_rules  # pyright: ignore[reportPrivateUsage]

    def parse_rules(self: Any, css: str, **options: Any) -> list[RuleSet]:
        key = (css, *sorted(options.items()), *sorted(self._variables.items()))
        if key not in parsed:
            parsed[key] = parse(self, css, **options)
        return parsed[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Stylesheet, "_parse_rules", parse_rules)
        yield


@pytest.fixture
async def fake_daemon() -> AsyncIterator[FakeDaemon]:
    # A short path, since the path of a unix socket is limited to about 100 characters.
    with tempfile.TemporaryDirectory(prefix="ingle-") as folder:
        daemon = FakeDaemon(Path(folder) / "ingle.sock")
        await daemon.start()
        yield daemon
        daemon.gate.set()
        daemon.pull_gate.set()
        await daemon.stop()


class Chat:
    """A chat app that runs in the test's event loop, and its keyboard."""

    def __init__(self, app: ChatApp, pilot: Pilot[None]) -> None:
        self.app = app
        self.pilot = pilot

    @property
    def screen_text(self) -> str:
        """The current lines of the screen."""
        lines = self.app.screen._compositor.render_strips()  # pyright: ignore[reportPrivateUsage]
        return "\n".join(strip.text.rstrip() for strip in lines)

    @property
    def screen(self) -> ChatScreen:
        return next(s for s in self.app.screen_stack if isinstance(s, ChatScreen))

    @property
    def draft(self) -> str:
        return self.app.query_one(Composer).text

    @property
    def transcript(self) -> Transcript:
        return self.app.query_one(Transcript)

    async def until(self, condition: Callable[[], object], seconds: float = 60.0) -> None:
        """Let the chat run until `condition` holds; fails with the screen after a timeout."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while not condition():
            if loop.time() > deadline:
                pytest.fail(f"timed out; the screen:\n{self.screen_text}")
            await self.pilot.pause(0.005)
        await self.pilot.pause()

    @property
    def notification_text(self) -> str:
        """The notifications that are shown now, unwrapped."""
        notifications = self.app._notifications  # pyright: ignore[reportPrivateUsage]
        return "\n".join(notification.message for notification in notifications)

    async def until_notified(self, text: str) -> None:
        """Let the chat run until a notification contains `text`."""
        await self.until(lambda: text in self.notification_text)

    async def until_shown(self, text: str) -> None:
        """Let the chat run until `text` is on the screen."""
        await self.until(lambda: text in self.screen_text)

    async def send(self, text: str) -> None:
        """Paste a prompt and press enter, once no dialog covers the chat."""
        await self.until(lambda: self.app.screen is self.screen)
        self.app.query_one(Composer).replace_text(text)
        await self.pilot.press("enter")


OpenChat = Callable[..., AbstractAsyncContextManager[Chat]]


@pytest.fixture
def open_chat(client: AsyncDaemonClient) -> OpenChat:
    """`async with open_chat(size=(80, 24)) as chat`; other arguments go to `ChatScreen`."""

    @asynccontextmanager
    async def opened(size: tuple[int, int] = (80, 24), **options: Any) -> AsyncGenerator[Chat]:
        app = ChatApp(ChatScreen(client, **options))
        async with app.run_test(size=size, notifications=True) as pilot:
            chat = Chat(app, pilot)
            try:
                await chat.until(lambda: chat.screen.is_complete)
                yield chat
            finally:
                # As on a real exit; `run_test` removes the widgets while workers still use them.
                app.workers.cancel_all()

    return opened


@pytest.fixture
def client(fake_daemon: FakeDaemon) -> AsyncDaemonClient:
    return chat_client(str(fake_daemon.path))


class Terminal:
    """A program in a pseudo-terminal, with an emulated screen."""

    # Private modes and queries that the emulator would print as text.
    UNKNOWN = re.compile(rb"\x1b\[[<>=?][0-9;]*\$?[a-zA-Z]|\x1bP.*?\x1b\\", re.DOTALL)

    def __init__(self, arguments: list[str], size: tuple[int, int], env: dict[str, str]) -> None:
        self.fd, slave = os.openpty()
        termios.tcsetwinsize(self.fd, (size[1], size[0]))
        self._slave = slave
        self._before = termios.tcgetattr(slave)
        self._screen = pyte.Screen(*size)
        self._stream = pyte.ByteStream(self._screen)
        self._alternate = False
        self.raw = b""
        self._process = subprocess.Popen(
            arguments, stdin=slave, stdout=slave, stderr=slave, env=env, start_new_session=True
        )
        self.pid = self._process.pid

    @property
    def text(self) -> str:
        """The lines of the screen."""
        return "\n".join(line.rstrip() for line in self._screen.display)

    @property
    def is_restored(self) -> bool:
        """Whether the terminal has its initial mode, main screen and cursor again."""
        shown = self.raw.rfind(b"\x1b[?1049l") >= self.raw.rfind(b"\x1b[?1049h")
        cursor = self.raw.rfind(b"\x1b[?25h") >= self.raw.rfind(b"\x1b[?25l")
        return termios.tcgetattr(self._slave) == self._before and shown and cursor

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self.fd, text.encode())

    def until(self, condition: Callable[[str], bool], seconds: float = 300.0) -> None:
        """Read the program's output until `condition` holds for the screen."""
        deadline = time.monotonic() + seconds
        while not condition(self.text):
            if time.monotonic() > deadline:
                pytest.fail(f"timed out; the screen:\n{self.text}")
            self._read(0.02)

    def wait(self, seconds: float = 120.0) -> int:
        """The exit status."""
        deadline = time.monotonic() + seconds
        while self._process.poll() is None and time.monotonic() < deadline:
            self._read(0.02)
        while self._read(0.02):
            pass
        return self._process.wait(0)

    def close(self) -> None:
        """End the program and the terminal."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        os.close(self._slave)
        os.close(self.fd)

    def _read(self, seconds: float) -> bool:
        if not select.select([self.fd], [], [], seconds)[0]:
            return False
        data = os.read(self.fd, 1 << 16)
        self.raw += data
        self._stream.feed(self.UNKNOWN.sub(b"", data))
        return True


OpenTerminal = Callable[..., AbstractContextManager[Terminal]]


@pytest.fixture
def open_terminal() -> OpenTerminal:
    """`with open_terminal(arguments, size=(80, 24), NAME=value) as terminal`."""

    @contextmanager
    def opened(
        arguments: list[str], size: tuple[int, int] = (80, 24), **env: str
    ) -> Generator[Terminal]:
        plain = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "PATH": os.environ["PATH"]}
        terminal = Terminal(arguments, size, plain | env)
        try:
            yield terminal
        finally:
            terminal.close()

    return opened
