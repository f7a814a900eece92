"""The plain chat (`--plain`), in pipes and in terminals."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ingle.tui.history.history_store import open_history

if TYPE_CHECKING:
    from ..conftest import FakeDaemon, OpenTerminal
    from .conftest import Piped

needs_terminal = pytest.mark.skipif(sys.platform == "win32", reason="needs pseudo-terminals")


async def test_piped_prompts_give_answers_alone(piped: Piped, fake_daemon: FakeDaemon) -> None:
    fake_daemon.script("One. ", "Two.")
    fake_daemon.script("Three.")
    status, out, errors = await piped("First\nSecond \\\nline\n")
    assert out == "One. Two.\n\nThree.\n"
    assert (status, errors) == (0, "")
    assert [m["content"] for m in fake_daemon.prompts[1]] == ["First", "One. Two.", "Second \nline"]


async def test_failed_answer_is_reported(piped: Piped, fake_daemon: FakeDaemon) -> None:
    error = {"code": "context_full", "message": "The context is full.", "hint": "Begin anew."}
    fake_daemon.script("It ", "never ends", error=error, error_after=1)
    status, out, errors = await piped("First\n")
    assert out == "It \nInterrupted; /continue resumes it.\n"
    assert errors == "Error: The context is full. Begin anew.\n"
    assert status == 1


async def test_settings_and_statistics_commands(piped: Piped, fake_daemon: FakeDaemon) -> None:
    fake_daemon.add_model("qwen:1b", size=10**9)
    commands = ["/system Be brief.", "/sampling temperature=0.5", "/model qwen", "Hi", "/again"]
    status, out, errors = await piped("\n".join([*commands, "/stats", "/bogus", "/help"]))
    assert "Now using qwen:1b." in out
    assert "Sampling of this chat: temperature=0.5." in out
    assert "answer: 2 tokens\n" in out
    assert "/open: List the chats, newest first." in out
    assert errors == "Error: There is no command /bogus here. /help lists them.\n"
    assert status == 1
    assert fake_daemon.prompts[0] == fake_daemon.prompts[1]
    assert fake_daemon.prompts[0][0] == {"role": "system", "content": "Be brief."}
    asked = [r.body for r in fake_daemon.requests if r.target == "/ingle/v1/generations"]
    assert [(body["model"], body["sampling"]) for body in asked] == [
        ("qwen:1b", {"temperature": 0.5})
    ] * 2


async def test_chats_are_saved_and_opened(
    piped: Piped, fake_daemon: FakeDaemon, tmp_path: Path
) -> None:
    await piped("Keep this\n/rename About keeping\n/temp\nForget this\n")
    fake_daemon.prompts.clear()
    _, out, _ = await piped("/open\n1\nGo on\n")
    assert "1. About keeping, 2 messages" in out
    assert "You: Keep this\nModel: Hello there.\n" in out
    assert "Forget" not in out
    assert [m["content"] for m in fake_daemon.prompts[0]] == ["Keep this", "Hello there.", "Go on"]
    store = open_history(tmp_path / "chats", pytest.fail)
    assert [chat.messages for chat in store.recent()] == [4]
    store.close()


async def test_missing_model_is_not_downloaded_without_asking(
    piped: Piped, fake_daemon: FakeDaemon
) -> None:
    fake_daemon.add_model("smollm2:135m", installed=False)
    status, _, errors = await piped("Hi\n")
    assert status == 1
    assert "`ingle pull smollm2:135m` gets it." in errors
    assert fake_daemon.pull_done == []


@needs_terminal
async def test_interrupt_and_history_in_a_terminal(
    arguments: list[str], fake_daemon: FakeDaemon, open_terminal: OpenTerminal
) -> None:
    fake_daemon.script("Some words. ", "never sent", gate_before=1)

    def drive() -> None:
        with open_terminal(arguments) as terminal:
            terminal.until(lambda screen: screen.rstrip().endswith("You:"))
            assert "Chat with smollm2:135m, on this machine." in terminal.text
            terminal.type("Tell\n")
            terminal.until(lambda screen: "Model: Some words." in screen)
            os.kill(terminal.pid, signal.SIGINT)
            terminal.until(lambda screen: "Stopped.\nYou:" in screen)
            terminal.type("\x1b[A")  # up arrow
            terminal.until(lambda screen: screen.rstrip().endswith("You: Tell"))
            terminal.type("\n")
            terminal.until(lambda screen: "Model: Hello there." in screen)
            terminal.type("/quit\n")
            assert terminal.wait() == 0
            assert b"\a" in terminal.raw

    await asyncio.to_thread(drive)
    assert len(fake_daemon.cancelled) == 1


@needs_terminal
async def test_dumb_terminal_gets_only_text(
    arguments: list[str], fake_daemon: FakeDaemon, open_terminal: OpenTerminal
) -> None:
    fake_daemon.add_model("qwen:1b", installed=False)
    fake_daemon.pull_gate.set()

    def drive() -> None:
        with open_terminal(arguments, TERM="dumb") as terminal:
            terminal.until(lambda screen: screen.rstrip().endswith("You:"))
            terminal.type("/model\n")
            terminal.until(lambda screen: "Number, or enter for none:" in screen)
            assert "2. qwen:1b, 98 MB, can be downloaded" in terminal.text
            terminal.type("2\n")
            terminal.until(lambda screen: "Download it? Yes or no:" in screen)
            terminal.type("yes\n")
            terminal.until(lambda screen: "qwen:1b is here." in screen)
            terminal.until(lambda screen: screen.rstrip().endswith("You:"))
            terminal.type("\x04")
            assert terminal.wait() == 0
            assert b"\x1b" not in terminal.raw

    await asyncio.to_thread(drive)
    assert fake_daemon.pull_done == ["qwen:1b"]
