"""The chats that are measured: how each is started, told where to ask, and typed into."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from abc import ABC, abstractmethod
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from pseudo_terminal import PseudoTerminal

from ingle.daemon.paths import find_paths

HERE = Path(__file__).parent


class ScriptedDaemon:
    """The process that answers; `sent` is what it told about its answers so far."""

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
        """When it sent each "first" or "last" token."""
        try:
            while data := os.read(self._out, 1 << 16):
                self._told += data
        except BlockingIOError:
            pass
        lines = [json.loads(line) for line in self._told.splitlines()]
        return [line[what] for line in lines if what in line]

    def close(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait()


class ChatProgram(ABC):
    """A chat in the terminal, with a folder for its settings and a daemon to ask."""

    name: ClassVar[str]
    submit: ClassVar[str] = "\r"
    whole_screen: ClassVar[bool] = True
    """Whether it takes the terminal's second screen; before that, the terminal echoes keys."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.port = port
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    @property
    @abstractmethod
    def command(self) -> list[str]:
        """What to run."""

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
        """Get from its first screen to one where a prompt can be typed."""

    @contextmanager
    def running(self) -> Generator[PseudoTerminal]:
        """It in a terminal of its own."""
        with PseudoTerminal(self.command, self.environment, folder=self.folder) as terminal:
            yield terminal


class Ingle(ChatProgram):
    """The installed script; its daemon's socket lies where it looks for one."""

    name = "ingle"

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
