"""Fixtures for the plain chat: the program with a scripted daemon, in pipes and in terminals."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ..conftest import FakeDaemon

PROGRAM = """
import sys
from pathlib import Path
from ingle.tui.settings.chat_folders import ChatFolders
from ingle.tui.plain.plain_main import run_plain

home = Path(sys.argv[2])
status = run_plain(socket_path=sys.argv[1], folders=ChatFolders(home / "chats", home / "config"))
assert "textual" not in sys.modules
sys.exit(status)
"""

Piped = Callable[[str | bytes], Awaitable[tuple[int, str, str]]]


@pytest.fixture
def arguments(tmp_path: Path, fake_daemon: FakeDaemon) -> list[str]:
    """The command line of the program; its data is in `tmp_path`."""
    return [sys.executable, "-P", "-c", PROGRAM, str(fake_daemon.path), str(tmp_path)]


@pytest.fixture
def piped(arguments: list[str], tmp_path: Path) -> Piped:
    """`await piped("prompts, one a line")` gives the exit status, stdout and stderr."""

    async def run(text: str | bytes) -> tuple[int, str, str]:
        process = await asyncio.create_subprocess_exec(
            *arguments,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=tmp_path,
        )
        content = text if isinstance(text, bytes) else text.encode()
        out, errors = await process.communicate(content)
        assert process.returncode is not None
        return process.returncode, out.decode(), errors.decode()

    return run
