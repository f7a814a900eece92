"""Model downloads in the chat, which the daemon runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ingle.tui.widgets.composer.composer import Composer
from ingle.tui.widgets.title_bar import TitleBar

if TYPE_CHECKING:
    from ...conftest import FakeDaemon, OpenChat


def _progress(name: str, status: str = "downloading", received: int = 25) -> dict[str, Any]:
    return {"model": name, "status": status, "source": "hub", "received": received, "total": 100}


async def test_running_download_is_shown_after_start(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    fake_daemon.pulls = [_progress("far:2b")]
    async with open_chat() as chat:
        await chat.until_shown("↓ far:2b")
        assert "25 %" in chat.screen_text
        assert chat.app.query_one(TitleBar).pulls == 1
        fake_daemon.broadcast("pull", _progress("far:2b", received=75))
        await chat.until_shown("75 %")
        fake_daemon.broadcast("pull", _progress("far:2b", "verifying", 100))
        await chat.until_shown("verifying the file")
        fake_daemon.broadcast("pull", _progress("far:2b", "done", 100))
        await chat.until_notified("far:2b is downloaded")
        assert chat.app.query_one(TitleBar).pulls == 0
    # The chat only follows the download and does not start it again.
    assert not [r for r in fake_daemon.requests if r.target == "/ingle/v1/pull"]


async def test_failure_of_another_clients_download_is_reported(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    fake_daemon.pulls = [_progress("far:2b")]
    async with open_chat(size=(100, 30)) as chat:
        await chat.until_shown("↓ far:2b")
        fake_daemon.broadcast("pull", _progress("far:2b", "failed"))
        await chat.until_notified("failed; /pull")
        assert "↓ far:2b" not in chat.screen_text


async def test_download_runs_while_chatting(open_chat: OpenChat, fake_daemon: FakeDaemon) -> None:
    fake_daemon.add_model("far:2b", installed=False, state="available")
    async with open_chat(size=(100, 30)) as chat:
        await chat.until_shown("smollm2:135m on disk")
        await chat.send("/pull far:2b")
        await chat.until_shown("41 %")
        await chat.send("hello")
        await chat.until_shown("Hello there.")
        assert chat.screen.state.model_name == "smollm2:135m"
        fake_daemon.pull_gate.set()
        await chat.until_notified("far:2b is downloaded; ctrl+o switches to it.")
        await chat.until(lambda: "41 %" not in chat.screen_text)


@pytest.mark.slow
async def test_pull_confirms_before_it_stops_a_download(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    fake_daemon.add_model("far:2b", installed=False, state="available")
    async with open_chat(size=(100, 30)) as chat:
        await chat.until_shown("smollm2:135m on disk")
        await chat.send("/pull")
        await chat.until_notified("/pull NAME downloads a model")
        await chat.send("/pull far:2b")
        await chat.until_shown("41 %")
        await chat.send("/pull")
        await chat.until_shown("Stop the download of far:2b?")
        await chat.pilot.press("escape")
        await chat.until_shown("41 %")
        await chat.send("/pull")
        await chat.until_shown("Stop the download of far:2b?")
        await chat.pilot.press("enter")
        await chat.until_notified("resumes it")
        await chat.until(lambda: "41 %" not in chat.screen_text)
    assert [r for r in fake_daemon.requests if r.target == "/ingle/v1/pull/cancel"]


@pytest.mark.slow
async def test_failed_download_names_the_retry_command(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    error = {"code": "checksum", "message": "It arrived damaged.", "hint": "Pull it again."}
    fake_daemon.pull_error = error
    fake_daemon.pull_gate.set()
    async with open_chat(size=(100, 30)) as chat:
        await chat.until_shown("smollm2:135m on disk")
        await chat.send("/pull far:2b")
        await chat.until_shown("✗ It arrived damaged.")
        assert "/pull far:2b tries again" in chat.screen_text


async def test_download_resumes_after_a_daemon_restart(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    fake_daemon.add_model("smollm2:135m", installed=False, state="available", path=None)
    async with open_chat(size=(100, 30)) as chat:
        await chat.until_shown("enter downloads")
        await chat.pilot.press("enter")
        await chat.until_shown("41 %")
        await fake_daemon.stop()
        await fake_daemon.start()
        await chat.until_notified("resumes.")
        fake_daemon.pull_gate.set()
        await chat.until_shown("smollm2:135m on disk")
    assert fake_daemon.pull_done == ["smollm2:135m"]


def _offer_models(fake_daemon: FakeDaemon, *, size: int) -> None:
    """Only models to download: the default one, `mid:3b` of `size` bytes, and one too large."""

    def fit(state: str, speed: float) -> dict[str, Any]:
        sizes = {"needs_bytes": 10**9, "free_bytes": 8 * 10**9, "context": 8192}
        return {"device": "cpu", "state": state, "tokens_per_second": speed, **sizes}

    far = {"installed": False, "state": "available", "path": None}
    fake_daemon.add_model("smollm2:135m", fit=fit("fits", 160), **far)
    fake_daemon.add_model("mid:3b", fit=fit("fits", 12), parameters=3 * 10**9, size=size, **far)
    fake_daemon.add_model("huge:70b", fit=fit("no", 1), parameters=70 * 10**9, **far)


async def test_large_download_is_confirmed(open_chat: OpenChat, fake_daemon: FakeDaemon) -> None:
    _offer_models(fake_daemon, size=3 * 10**9)
    async with open_chat(size=(100, 32)) as chat:
        await chat.until_shown("best at a useful speed")
        await chat.send("Hi")
        await chat.until_shown("Download mid:3b?")
        chat.screen.send_next()
        await chat.pilot.pause()
        assert len(chat.app.screen_stack) == 2  # asked once
        await chat.pilot.press("escape")
        await chat.until(lambda: chat.draft == "Hi")
        await chat.pilot.press("enter")
        await chat.until_shown("Download mid:3b?")
        await chat.pilot.press("enter")
        await chat.until_shown("41 %")
    assert [r.body["model"] for r in fake_daemon.requests if r.target == "/ingle/v1/pull"] == [
        "mid:3b"
    ]


async def test_failed_first_download_offers_the_default_model(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    _offer_models(fake_daemon, size=10**9)
    fake_daemon.pull_error = {"code": "hub", "message": "The hub does not answer.", "hint": None}
    fake_daemon.pull_gate.set()
    async with open_chat(size=(100, 32)) as chat:
        await chat.until_shown("enter downloads mid:3b")
        await chat.send("Hi")
        await chat.until_shown("mid:3b was not downloaded. The hub does not answer.")
        assert chat.draft == "Hi"
        assert chat.screen.state.model_name == "smollm2:135m"
        fake_daemon.pull_error = None
        await chat.pilot.press("enter")
        await chat.until_shown("Hello there.")
        assert "was not downloaded" not in chat.screen_text
    assert fake_daemon.pull_done == ["smollm2:135m"]


@pytest.mark.slow
async def test_first_run_offers_models_that_fit(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    _offer_models(fake_daemon, size=10**9)
    async with open_chat(size=(100, 32)) as chat:
        await chat.until_shown("best at a useful speed")
        assert "mid:3b         1.0 GB   12 tok/s  good " in chat.screen_text
        await chat.until_shown("52 GB free on the disk")
        assert "enter downloads mid:3b" in chat.screen_text
        assert "smallest, here soonest" in chat.screen_text
        assert "huge" not in chat.screen_text
        await chat.pilot.press("tab")
        await chat.until_shown("tab ↑↓ choose")
        await chat.until_shown("enter downloads smollm2:135m")
        await chat.pilot.press("tab")
        await chat.until_shown("enter downloads mid:3b")
        await chat.pilot.press("down")
        await chat.until_shown("enter downloads smollm2:135m")
        await chat.pilot.press("escape", "o", "k")
        assert chat.app.query_one(Composer).text == "ok"
        await chat.pilot.press("ctrl+u", "tab", "up")
        await chat.until_shown("enter downloads smollm2:135m")
        await chat.pilot.press("enter")
        await chat.until_shown("41 %")
        fake_daemon.pull_gate.set()
        await chat.send("Hi")
        await chat.until_shown("Hello there.")
    assert fake_daemon.pull_done == ["smollm2:135m"]


async def test_short_model_name_is_resolved(open_chat: OpenChat, fake_daemon: FakeDaemon) -> None:
    fake_daemon.full_names = {"far-2b": "far:2b"}
    fake_daemon.add_model("far:2b", installed=False, state="available")
    async with open_chat(size=(100, 30)) as chat:
        await chat.until_shown("smollm2:135m on disk")
        await chat.send("/model far-2b")
        await chat.until_shown("↓ far:2b")
        assert "far-2b" not in chat.screen_text
        assert chat.app.query_one(TitleBar).pulls == 1
        assert not chat.screen.state.must_pull
        fake_daemon.broadcast("pull", _progress("far:2b", "done", 100))
        fake_daemon.pull_gate.set()
        await chat.until_shown("far:2b on disk")
        assert chat.app.query_one(TitleBar).pulls == 0
