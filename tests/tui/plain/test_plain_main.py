"""The plain chat under signals, closed pipes, bad input, and daemon failures."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ingle.tui.chats.chat import Chat, ChatSettings
from ingle.tui.chats.message import Message
from ingle.tui.history.history_store import open_history
from ingle.tui.plain.line_reader import LONGEST_LINE

from .test_plain_session import needs_terminal

if TYPE_CHECKING:
    from ..conftest import FakeDaemon, OpenTerminal
    from .conftest import Piped


async def start_answering(arguments: list[str], daemon: FakeDaemon) -> asyncio.subprocess.Process:
    """Start the program and return it in the middle of an answer, with another prompt queued."""
    daemon.script("Some words.\n", "never sent", gate_before=1)
    process = await asyncio.create_subprocess_exec(
        *arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"Tell\nAnd more\n")
    while b"Some words." not in await process.stdout.readline():
        pass
    return process


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
async def test_signal_ends_the_program_and_saves_partial_text(
    arguments: list[str],
    fake_daemon: FakeDaemon,
    tmp_path: Path,
    number: signal.Signals,
    status: int,
) -> None:
    process = await start_answering(arguments, fake_daemon)
    process.send_signal(number)
    out, errors = await process.communicate()
    assert process.returncode == status
    assert errors == b""
    assert b"And more" not in out
    assert len(fake_daemon.cancelled) == 1
    store = open_history(tmp_path / "chats", pytest.fail)
    chat = store.load(store.recent()[0].id)
    assert chat is not None
    assert [(m.content, m.ending) for m in chat.path] == [
        ("Tell", None),
        ("Some words.\n", "stopped"),
    ]
    store.close()


async def test_closed_output_pipe_ends_the_program(fake_daemon: FakeDaemon, tmp_path: Path) -> None:
    code = "import sys; from ingle.daemon.main import main; sys.exit(main(['--plain']))"
    env = os.environ | {"INGLE_HOME": str(tmp_path), "INGLE_SOCKET": str(fake_daemon.path)}
    fake_daemon.script("Some words.\n", "More words.\n", "never sent", gate_before=1)
    reader, writer = os.pipe()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-c", code),
        stdin=subprocess.PIPE,
        stdout=writer,
        stderr=subprocess.PIPE,
        env=env,
    )
    os.close(writer)
    assert process.stdin is not None
    process.stdin.write(b"Tell\n")
    received = b""
    while b"Some words." not in received:
        received += await asyncio.to_thread(os.read, reader, 1000)
    os.close(reader)
    fake_daemon.gate.set()
    _, errors = await process.communicate()
    assert process.returncode == 141
    assert b"Traceback" not in errors
    assert len(fake_daemon.cancelled) == 1


async def test_invalid_utf8_is_replaced(piped: Piped, fake_daemon: FakeDaemon) -> None:
    status, _, errors = await piped(b"\xef\xbb\xbfcaf\xe9\r\nna\xc3\xafve\n")
    assert (status, errors) == (0, "")
    assert [prompt[-1]["content"] for prompt in fake_daemon.prompts] == ["caf\ufffd", "naïve"]


async def test_too_long_line_is_skipped(piped: Piped, fake_daemon: FakeDaemon) -> None:
    status, _, errors = await piped("x" * (2 * LONGEST_LINE + 7) + "\nHi\n")
    assert status == 1
    assert errors == "Error: A line of more than 4 000 000 characters is left out.\n"
    assert [prompt[-1]["content"] for prompt in fake_daemon.prompts] == ["Hi"]


async def test_missing_daemon_is_reported(piped: Piped, fake_daemon: FakeDaemon) -> None:
    await fake_daemon.stop()
    status, out, errors = await piped("Hi\nAgain\n")
    assert status == 1
    assert out == ""
    assert errors.count("Error: ") == 2
    assert "Traceback" not in errors


@pytest.mark.slow
async def test_daemon_crash_during_an_answer_is_reported(
    arguments: list[str], fake_daemon: FakeDaemon, tmp_path: Path
) -> None:
    fake_daemon.add_model("qwen:1b")
    fake_daemon.script("Some words.\n", "never sent", gate_before=1)
    process = await asyncio.create_subprocess_exec(
        *arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"/model qwen\nTell\n")
    while b"Some words." not in await process.stdout.readline():
        pass
    await fake_daemon.stop()
    ending = b"Interrupted; /continue resumes it.\n"
    assert ending in await process.stdout.readuntil(ending)
    await fake_daemon.start()
    out, errors = await process.communicate(b"Once more\n")
    assert b"Hello there." in out
    assert errors.count(b"Error: ") == 1
    assert process.returncode == 1
    asked = [r.body["model"] for r in fake_daemon.requests if r.target.endswith("/generations")]
    assert asked == ["qwen:1b", "qwen:1b"]


@needs_terminal
async def test_control_sequences_in_titles_are_removed(
    arguments: list[str], fake_daemon: FakeDaemon, open_terminal: OpenTerminal, tmp_path: Path
) -> None:
    store = open_history(tmp_path / "chats", pytest.fail)
    chat = Chat(ChatSettings(title="Evil\x1b]52;c;aGk=\x07\x1b[2Jtitle"))
    store.add_chat(chat)
    store.add_message(chat.id, Message(role="user", content="Hi \x1b[31m"))
    store.close()

    def drive() -> None:
        with open_terminal(arguments, TERM="dumb", NO_COLOR="1") as terminal:
            terminal.until(lambda screen: screen.rstrip().endswith("You:"))
            terminal.type("/open\n")
            terminal.until(lambda screen: "Number, or enter for none:" in screen)
            terminal.type("1\n/delete\n")
            terminal.until(lambda screen: "Delete “Eviltitle”? Yes or no:" in screen)
            terminal.type("no\n")
            terminal.until(lambda screen: screen.rstrip().endswith("You:"))
            terminal.type("\x04")
            assert terminal.wait() == 0
            assert b"\x1b" not in terminal.raw

    await asyncio.to_thread(drive)


@pytest.mark.slow
@needs_terminal
async def test_answer_of_a_killed_program_is_completed(
    arguments: list[str], fake_daemon: FakeDaemon, open_terminal: OpenTerminal, tmp_path: Path
) -> None:
    process = await start_answering(arguments, fake_daemon)
    await asyncio.sleep(0.7)  # text is saved within half a second
    process.kill()
    await process.wait()
    fake_daemon.gate.set()

    def drive() -> None:
        with open_terminal(arguments) as terminal:
            terminal.until(lambda screen: screen.rstrip().endswith("You:"))
            assert "The last answer in “Tell” is there now" in terminal.text
            terminal.type("/open\n1\n")
            terminal.until(lambda screen: "Model: Some words.\nnever sent\nYou:" in screen)
            terminal.until(lambda screen: screen.rstrip().endswith("You:"))
            terminal.type("\x04")
            assert terminal.wait() == 0

    await asyncio.to_thread(drive)
