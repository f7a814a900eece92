"""The installed program against a real daemon and SmolLM2, typed into as a person would.

Once in a bare pseudo-terminal, which is there on every machine, and once in tmux, where that is.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest

if sys.platform == "win32":
    pytest.skip("needs pseudo-terminals", allow_module_level=True)

if TYPE_CHECKING:
    from .conftest import OpenTerminal

pytestmark = [pytest.mark.model, pytest.mark.slow]

INGLE = str(Path(sysconfig.get_path("scripts")) / "ingle")
SIZE = (100, 30)
ALT_LEFT, F6, F7 = "\x1b[1;3D", "\x1b[17~", "\x1b[18~"
CLEAR = "\x15"
LONG = "Tell me a very long story about a lighthouse and the sea."
FACTS = "My name is Ada, I live in Turin, and my train leaves on 12 May at 09:40. Thank me."


class Keyboard(Protocol):
    """What both kinds of terminal can do."""

    @property
    def text(self) -> str: ...

    def type(self, text: str) -> None: ...

    def until(self, condition: Callable[[str], bool], seconds: float = 20.0) -> None: ...


class Tmux:
    """A program in the only window of a tmux server of its own."""

    def __init__(self, arguments: list[str], environ: dict[str, str], folder: Path) -> None:
        self._socket = str(folder / "tmux")
        self._environ = environ | {"TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
        columns, lines = map(str, SIZE)
        window = ["new-session", "-d", "-x", columns, "-y", lines, *arguments]
        self._tmux("-f", "/dev/null", *window)

    @property
    def text(self) -> str:
        return self._tmux("capture-pane", "-p")

    def type(self, text: str) -> None:
        """Press keys: the bytes that a terminal would send for them."""
        self._tmux("send-keys", "-H", *(f"{byte:x}" for byte in text.encode()))

    def until(self, condition: Callable[[str], bool], seconds: float = 20.0) -> None:
        """Wait until `condition` holds for the screen."""
        deadline = time.monotonic() + seconds
        while not condition(self.text):
            if time.monotonic() > deadline:
                pytest.fail(f"never came true; the screen:\n{self.text}")
            time.sleep(0.05)

    def close(self) -> None:
        """End the server and what runs in it."""
        subprocess.run(["tmux", "-S", self._socket, "kill-server"], check=False)

    def _tmux(self, *arguments: str) -> str:
        command = ["tmux", "-S", self._socket, *arguments]
        return subprocess.run(
            command, env=self._environ, check=True, capture_output=True, text=True
        ).stdout


class Home:
    """An INGLE_HOME without any model, and the daemon that works there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environ = {**os.environ, "INGLE_HOME": str(folder), "COLORTERM": "truecolor"}

    def ask(self, *arguments: str) -> str:
        """What a command prints."""
        command = [INGLE, *arguments]
        done = subprocess.run(command, env=self.environ, capture_output=True, text=True)
        return done.stdout

    def kill_daemon(self) -> None:
        """End it as a crash would."""
        os.kill(json.loads(self.ask("ps", "--json"))["pid"], signal.SIGKILL)


@pytest.fixture
def home() -> Iterator[Home]:
    # A short path: the address of a unix socket holds about a hundred characters.
    with tempfile.TemporaryDirectory(prefix="ingle-") as folder:
        home = Home(Path(folder))
        yield home
        home.ask("stop")


@pytest.mark.parametrize("kind", [pytest.param("pty", marks=pytest.mark.slow), "tmux"])
@pytest.mark.usefixtures("smollm2_path")  # where it cannot be fetched, this is not the place
def test_a_day_with_the_chat(home: Home, open_terminal: OpenTerminal, kind: str) -> None:
    if kind == "tmux" and shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")
    arguments = [INGLE, "chat", "smollm2"]
    with ExitStack() as stack:
        if kind == "tmux":
            tmux = Tmux(arguments, home.environ, home.folder)
            stack.callback(tmux.close)
            screen: Keyboard = tmux
        else:
            screen = stack.enter_context(open_terminal(arguments, SIZE, **home.environ))
        pull(screen)
        chat(screen)
        stop(screen)
        edit_and_go_back(screen)
        lose_the_daemon(screen, home)
        compact_and_undo(screen)
        search(screen)


def pull(screen: Keyboard) -> None:
    screen.until(lambda text: "enter downloads smollm2:135m" in text)
    screen.type("\r")
    screen.until(lambda text: "smollm2:135m on disk" in text, 120)


def settle(screen: Keyboard, limit: int) -> None:
    # The likeliest tokens, so that every run is like the other; and not too many of them.
    send(screen, f"/sampling temperature=0 max_tokens={limit}")
    screen.until(lambda text: f"max_tokens={limit}" in text and "max_tokens" not in composer(text))


def chat(screen: Keyboard) -> None:
    settle(screen, 150)
    send(screen, "What is the capital of France?")
    screen.until(lambda text: "Paris." in text and "esc stops" not in text, 60)


def stop(screen: Keyboard) -> None:
    send(screen, LONG)
    screen.until(lambda text: "answering" in text)
    screen.type("\x1b")
    screen.until(lambda text: "■ stopped" in text)


def edit_and_go_back(screen: Keyboard) -> None:
    send(screen, "/edit")
    screen.until(lambda text: "editing" in text and LONG in composer(text))
    clear(screen)
    send(screen, "What is the capital of Italy?")
    screen.until(lambda text: "2/2" in text and "Rome" in text, 60)
    screen.until(lambda text: "esc stops" not in text, 60)
    screen.type(ALT_LEFT)
    screen.until(lambda text: "1/2" in text and "■ stopped" in text)
    assert "Rome" not in screen.text


def lose_the_daemon(screen: Keyboard, home: Home) -> None:
    send(screen, LONG)
    screen.until(lambda text: "answering" in text)
    home.kill_daemon()
    screen.until(lambda text: "daemon stopped" in text and "■ broke off" in text)
    assert LONG in screen.text
    send(screen, FACTS)
    screen.until(lambda text: "daemon stopped" not in text and "12 May" in text, 60)
    screen.until(lambda text: "esc stops" in text and "answering" in text, 60)
    screen.until(lambda text: "esc stops" not in text, 60)


def search(screen: Keyboard) -> None:
    screen.type("\x12")
    screen.until(lambda text: "enter opens it there" in text)
    screen.type("Italy")
    screen.until(lambda text: "capital of Italy" in text)
    screen.type("\r")
    screen.until(lambda text: "2/2" in text and "Rome" in text)


def compact_and_undo(screen: Keyboard) -> None:
    send(screen, "/new")
    screen.until(lambda text: FACTS not in text)
    settle(screen, 40)
    for place in ("Turin", "Milan", "Genoa"):
        told = f"{place} has a station, a river and a market on Fridays. " * 12
        screen.type(told)
        screen.until(lambda text: "Fridays" in composer(text))
        screen.type("\r")
        screen.until(lambda text: "esc stops" in text)
        screen.until(lambda text: "esc stops" not in text, 60)
    screen.type(F6)
    screen.until(lambda text: "compacted" in text, 60)
    screen.type(F7)
    screen.until(lambda text: "compacted" not in text)


def send(screen: Keyboard, text: str) -> None:
    """Type a prompt, see it, send it."""
    screen.type(text)
    screen.until(lambda shown: text in composer(shown))
    screen.type("\r")


def clear(screen: Keyboard) -> None:
    """Take back what is in the composer."""
    screen.type(CLEAR)
    screen.until(lambda shown: LONG not in composer(shown))


def composer(shown: str) -> str:
    """The part of the screen that is typed in."""
    return shown[shown.rfind("╭") :]
