"""End-to-end test of the installed chat with a daemon and SmolLM2, by typed keys.

It runs in a pseudo-terminal and, if it is installed, in tmux.
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
    """The interface of both kinds of terminal."""

    @property
    def text(self) -> str: ...

    def type(self, text: str) -> None: ...

    def until(self, condition: Callable[[str], bool], seconds: float = 300.0) -> None: ...


class Tmux:
    """A program in the only window of a separate tmux server."""

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
        """Press keys, by the bytes that a terminal sends for them."""
        self._tmux("send-keys", "-H", *(f"{byte:x}" for byte in text.encode()))

    def until(self, condition: Callable[[str], bool], seconds: float = 300.0) -> None:
        """Wait until `condition` holds for the screen."""
        deadline = time.monotonic() + seconds
        while not condition(self.text):
            if time.monotonic() > deadline:
                pytest.fail(f"timed out; the screen:\n{self.text}")
            time.sleep(0.05)

    def close(self) -> None:
        """Stop the server and the program in it."""
        subprocess.run(["tmux", "-S", self._socket, "kill-server"], check=False)

    def _tmux(self, *arguments: str) -> str:
        command = ["tmux", "-S", self._socket, *arguments]
        return subprocess.run(
            command, env=self._environ, check=True, capture_output=True, text=True
        ).stdout


class Home:
    """An INGLE_HOME without models, and its daemon."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environ = {**os.environ, "INGLE_HOME": str(folder), "COLORTERM": "truecolor"}

    def run_command(self, *arguments: str) -> str:
        """The output of a command."""
        command = [INGLE, *arguments]
        done = subprocess.run(command, env=self.environ, capture_output=True, text=True)
        return done.stdout

    def kill_daemon(self) -> None:
        """Kill the daemon, like a crash."""
        os.kill(json.loads(self.run_command("ps", "--json"))["pid"], signal.SIGKILL)


@pytest.fixture
def home() -> Iterator[Home]:
    # A short path, since the path of a unix socket is limited to about 100 characters.
    with tempfile.TemporaryDirectory(prefix="ingle-") as folder:
        home = Home(Path(folder))
        yield home
        home.run_command("stop")


@pytest.mark.parametrize("kind", [pytest.param("pty", marks=pytest.mark.slow), "tmux"])
@pytest.mark.usefixtures("smollm2_path")  # skips if it cannot be downloaded
def test_chat_session_end_to_end(home: Home, open_terminal: OpenTerminal, kind: str) -> None:
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


def set_sampling(screen: Keyboard, limit: int) -> None:
    # Greedy sampling for reproducible runs, and a limit for speed.
    send(screen, f"/sampling temperature=0 max_tokens={limit}")
    screen.until(lambda text: f"max_tokens={limit}" in text and "max_tokens" not in composer(text))


def chat(screen: Keyboard) -> None:
    set_sampling(screen, 150)
    send(screen, "What is the capital of France?")
    screen.until(lambda text: "Paris." in text and "esc stops" not in text)


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
    screen.until(lambda text: "2/2" in text and "Rome" in text)
    screen.until(lambda text: "esc stops" not in text)
    screen.type(ALT_LEFT)
    screen.until(lambda text: "1/2" in text and "■ stopped" in text)
    assert "Rome" not in screen.text


def lose_the_daemon(screen: Keyboard, home: Home) -> None:
    send(screen, LONG)
    screen.until(lambda text: "answering" in text)
    home.kill_daemon()
    screen.until(
        lambda text: "daemon stopped" in text and "■ interrupted; /continue resumes it" in text
    )
    assert LONG in screen.text
    send(screen, FACTS)
    screen.until(lambda text: "daemon stopped" not in text and "12 May" in text)
    screen.until(lambda text: "esc stops" in text and "answering" in text)
    screen.until(lambda text: "esc stops" not in text)


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
    set_sampling(screen, 40)
    for place in ("Turin", "Milan", "Genoa"):
        prompt = f"{place} has a station, a river and a market on Fridays. " * 12
        screen.type(prompt)
        screen.until(lambda text: "Fridays" in composer(text))
        screen.type("\r")
        screen.until(lambda text: "esc stops" in text)
        screen.until(lambda text: "esc stops" not in text)
    screen.type(F6)
    screen.until(lambda text: "compacted" in text)
    screen.type(F7)
    screen.until(lambda text: "compacted" not in text)


def send(screen: Keyboard, text: str) -> None:
    """Type a prompt, wait until it is shown, and send it."""
    screen.type(text)
    screen.until(lambda shown: text in composer(shown))
    screen.type("\r")


def clear(screen: Keyboard) -> None:
    """Clear the composer."""
    screen.type(CLEAR)
    screen.until(lambda shown: LONG not in composer(shown))


def composer(shown: str) -> str:
    """The composer's part of the screen."""
    return shown[shown.rfind("╭") : shown.rfind("╰")]
