"""Tools in lines: in the plain chat, and for one prompt with `-p --tools`."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.harness.scripted_tool_host import COMMAND

if TYPE_CHECKING:
    from ..conftest import FakeDaemon, OpenTerminal

READ = ("read", json.dumps({"path": "notes.txt"}))
EDIT = ("edit", "{}")

PROGRAM = """
import sys
from pathlib import Path
import ingle.daemon.client.tool_host as tool_host

tool_host.HOST_COMMAND = sys.argv[4:]
from ingle.daemon.client.client_errors import ClientError
from ingle.tui.settings.chat_folders import ChatFolders

home = Path(sys.argv[2])
folders = ChatFolders(home / "chats", home / "config")
if sys.argv[3] == "chat":
    from ingle.tui.plain.plain_main import run_plain

    sys.exit(run_plain(socket_path=sys.argv[1], folders=folders))
from ingle.tui.plain.tool_prompt import answer_with_tools

try:
    answer_with_tools(sys.argv[1], folders, "smollm2:135m", "Mend it", sys.argv[3])
except ClientError as error:
    sys.exit(error.message)
"""


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    path = tmp_path / "notes.txt"
    path.write_text("old\n")
    return path


def content(path: Path) -> str:
    return path.read_text()


def command_line(fake_daemon: FakeDaemon, folder: Path, mode: str) -> list[str]:
    home = str(folder / "home")
    return [sys.executable, "-P", "-c", PROGRAM, str(fake_daemon.path), home, mode, *COMMAND]


async def run(
    fake_daemon: FakeDaemon, folder: Path, mode: str, typed: str = ""
) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        *command_line(fake_daemon, folder, mode),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=folder,
    )
    out, errors = await process.communicate(typed.encode())
    assert process.returncode is not None
    return process.returncode, out.decode(), errors.decode()


async def test_what_the_level_covers_is_done_without_a_question(
    fake_daemon: FakeDaemon, notes: Path
) -> None:
    fake_daemon.script("I look first.", calls=[READ, EDIT])
    fake_daemon.script()
    fake_daemon.script("It is ", "mended.")
    status, out, errors = await run(fake_daemon, notes.parent, "edit")
    assert (status, out) == (0, "It is mended.\n")
    assert errors.splitlines() == [
        "I look first.",
        "Tool read: read notes.txt.",
        "Tool edit: edited notes.txt.",
    ]
    assert content(notes) == "new\n"
    request = next(r for r in fake_daemon.requests if r.target == "/ingle/v1/generations")
    offered = [tool["function"]["name"] for tool in request.body["tools"]]
    assert offered == ["read", "edit", "die"]
    assert request.body["attached"]
    reminder = fake_daemon.prompts[-1][-1]
    assert (reminder["role"], reminder["content"].partition(" ")[0]) == ("user", "Go")


async def test_what_it_does_not_cover_is_declined_without_a_terminal(
    fake_daemon: FakeDaemon, notes: Path
) -> None:
    fake_daemon.script(calls=[EDIT])
    fake_daemon.script("I may not.")
    status, out, errors = await run(fake_daemon, notes.parent, "read")
    assert (status, out) == (0, "I may not.\n")
    assert "Declined: Edit notes.txt. --tools edit would allow it." in errors
    assert content(notes) == "old\n"
    assert "declined" in fake_daemon.prompts[-1][-1]["content"]


async def test_an_error_of_the_daemon_is_the_status(fake_daemon: FakeDaemon, notes: Path) -> None:
    fake_daemon.script("?", error={"code": "load_failed", "message": "No memory.", "hint": None})
    status, out, errors = await run(fake_daemon, notes.parent, "all")
    assert (status, out, errors.strip()) == (1, "", "No memory.")


async def test_a_piped_chat_declines_what_needs_consent(
    fake_daemon: FakeDaemon, notes: Path
) -> None:
    fake_daemon.script(calls=[READ, EDIT])
    fake_daemon.script("Done.")
    typed = "/tools on\nMend it\n"
    status, out, errors = await run(fake_daemon, notes.parent, "chat", typed)
    assert (status, errors) == (0, "")
    assert "Tools are on in" in out
    assert "Tool read: read notes.txt." in out
    assert "Declined, since no user can be asked: Edit notes.txt." in out
    assert out.endswith("\nDone.\n")
    assert content(notes) == "old\n"


async def test_the_user_consents_and_undoes_at_a_terminal(
    fake_daemon: FakeDaemon, notes: Path, open_terminal: OpenTerminal, tmp_path: Path
) -> None:
    fake_daemon.script(calls=[EDIT])
    fake_daemon.script("Done.")
    arguments = ["sh", "-c", 'cd "$0" && exec "$@"', str(notes.parent)]
    arguments += command_line(fake_daemon, tmp_path, "chat")

    def talk() -> None:
        with open_terminal(arguments, (100, 40)) as terminal:
            terminal.until(lambda text: "Ctrl+D leaves" in text)
            terminal.type("/tools on\r")
            terminal.until(lambda text: "Tools are on" in text)
            terminal.type("Mend it\r")
            terminal.until(lambda text: "+new" in text and "Number, or enter" in text)
            terminal.type("1\r")
            terminal.until(lambda text: "Model: Done." in text)
            assert content(notes) == "new\n"
            terminal.type("/undo\r")
            terminal.until(lambda text: "notes.txt is as it was" in text)
            assert content(notes) == "old\n"
            terminal.type("!make\r")
            terminal.until(lambda text: "two" in text)
            terminal.type("/quit\r")
            assert terminal.wait() == 0

    await asyncio.to_thread(talk)
