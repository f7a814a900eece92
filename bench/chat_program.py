"""The measured chats: how each is started, pointed at the daemon, and operated."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import sysconfig
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import ClassVar

from kept_chats import END, keep_chat
from pseudo_terminal import PseudoTerminal

from ingle.daemon.settings.paths import find_paths

HERE = Path(__file__).parent


class ScriptedDaemon:
    """The scripted daemon's process; `sent` are the times it has reported."""

    def __init__(self, socket: Path, port: int) -> None:
        self.port = port
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "chat_daemon.py"), str(socket), str(port)],
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        self._out = self._process.stdout.fileno()
        self._told = b""
        os.set_blocking(self._out, True)
        while b"ready" not in self._told:
            self._told += os.read(self._out, 4096)
        os.set_blocking(self._out, False)

    def sent(self, what: str) -> list[float]:
        """Return when it sent each "first" or "last" token."""
        with suppress(BlockingIOError):  # nothing more was reported yet
            while data := os.read(self._out, 1 << 16):
                self._told += data
        lines = [json.loads(line) for line in self._told.splitlines()]
        return [line[what] for line in lines if what in line]

    def close(self) -> None:
        """End the process."""
        self._process.terminate()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


class ChatProgram(ABC):
    """A chat in the terminal, with a folder for its settings and a daemon to ask."""

    name: ClassVar[str]
    submit: ClassVar[str] = "\r"
    whole_screen: ClassVar[bool] = True
    """Whether it takes the terminal's second screen; before that, the terminal echoes keys."""
    takes_keys_while_answering: ClassVar[bool] = True

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.port = port
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    @property
    @abstractmethod
    def command(self) -> list[str]:
        """Return the command line."""

    @property
    def environment(self) -> dict[str, str]:
        """Variables for it; it sees nothing of ours but PATH."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "LANG": "C.UTF-8",
            "NO_PROXY": "127.0.0.1,localhost",
        }

    def prepare(self) -> None:  # noqa: B027 - most need nothing
        """Write the settings that let it ask the scripted daemon."""

    @abstractmethod
    def can_be_typed_in(self, screen: str) -> bool:
        """Whether the screen has its composer."""

    def open_chat(self, terminal: PseudoTerminal) -> None:  # noqa: B027 - most begin there
        """Get from the first screen to one where a prompt can be typed."""

    def keep_turns(self, turns: Iterable[tuple[str, str]]) -> list[str] | None:
        """Write a chat to its history; return the command that opens it, None if not possible."""
        return None

    def open_kept(self, terminal: PseudoTerminal) -> None:  # noqa: B027 - most commands opened it
        """Get to the chat that was kept."""

    @contextmanager
    def running(
        self, command: Sequence[str] = (), *, rate: int = 0, replies: bool = True
    ) -> Generator[PseudoTerminal]:
        """It in a terminal of its own; for `rate` and `replies` see `PseudoTerminal`."""
        started = command or self.command
        environment = self.environment | ({"SSH_CONNECTION": "bench"} if rate else {})
        with PseudoTerminal(
            started, environment, folder=self.folder, rate=rate, replies=replies
        ) as terminal:
            yield terminal


def open_chat_of(program: ChatProgram, terminal: PseudoTerminal, title: str) -> float:
    """Seconds from enter in the list of chats to the end of a kept chat on the screen."""
    terminal.type("\x07")
    terminal.wait_for_screen(lambda screen: "Filter by title" in screen or title in screen)
    terminal.type(title)
    terminal.settle(0.3, 5)
    at = terminal.type(program.submit)
    shown = terminal.wait_for_bytes(END.encode(), 30)
    if shown is None:
        raise RuntimeError(f"{title} was not opened; the screen:\n{terminal.text}")
    return shown - at


class Ingle(ChatProgram):
    """The installed script; its daemon's socket is at the default place."""

    name = "ingle"
    _kept: str = ""

    def prepare(self) -> None:
        find_paths(self.environment).make_private()

    @property
    def command(self) -> list[str]:
        return [str(Path(sysconfig.get_path("scripts")) / "ingle")]

    @property
    def environment(self) -> dict[str, str]:
        return {**super().environment, "INGLE_HOME": str(self.folder)}

    @property
    def socket(self) -> Path:
        """Where the chat looks for the daemon."""
        return find_paths(self.environment).socket

    def can_be_typed_in(self, screen: str) -> bool:
        return "╰" in screen and "scripted:1" in screen

    def keep_turns(self, turns: Iterable[tuple[str, str]]) -> list[str]:
        """A chat in its history, of which no other has the title."""
        self._kept = f"Kept for round {secrets.token_hex(4)}"
        keep_chat(find_paths(self.environment).chats, self._kept, turns)
        return self.command

    def open_kept(self, terminal: PseudoTerminal) -> None:
        """Choose the chat in the list of all."""
        open_chat_of(self, terminal, self._kept)
