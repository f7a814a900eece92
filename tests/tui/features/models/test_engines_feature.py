"""Installations of engines in the chat, and the offer of the one for this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ingle.tui.features.models.engines_feature import EnginesFeature
from ingle.tui.screens.questions import ConfirmScreen

if TYPE_CHECKING:
    from ...conftest import FakeDaemon, OpenChat

QUESTION = "This machine has an RTX 4090 with 24 GB. Fetch the engine for it (2.9 GB)?"
OFFER = {"name": "cuda", "question": QUESTION, "download_bytes": 2_900_000_000}
ENTRY = {"name": "cuda", "engine": "cuda", "title": "ingle's own engine", "state": "installed"}


def _progress(step: str, done: int = 0, total: int = 0, error: str = "") -> dict[str, Any]:
    title = "ingle's own engine"
    return {
        "engine": "cuda", "title": title, "step": step, "done": done, "total": total,
        "detail": "", "error": error,
    }  # fmt: skip


def _asked(daemon: FakeDaemon) -> list[tuple[str, Any]]:
    return [
        (request.target, request.body)
        for request in daemon.requests
        if request.target.startswith("/ingle/v1/engines/")
    ]


async def test_running_installation_is_shown(open_chat: OpenChat, fake_daemon: FakeDaemon) -> None:
    running = _progress("building", 34, 136)
    fake_daemon.engines = [ENTRY | {"state": "installing", "progress": running}]
    fake_daemon.pulls = [{"model": "far:2b", "status": "downloading", "received": 1, "total": 4}]
    async with open_chat(size=(120, 30)) as chat:
        await chat.until_shown("ingle's own engine: building, 34 of 136")
        assert "↓ far:2b" in chat.screen_text
        fake_daemon.broadcast("pull", {"model": "far:2b", "status": "done", "total": 4})
        await chat.until_shown("↓ ingle's own engine")
        fake_daemon.broadcast("engine", _progress("checking"))
        await chat.until_shown("checking")
        fake_daemon.broadcast("engine", _progress("done"))
        await chat.until_notified("ingle's own engine is installed.")
        assert "↓ ingle's own engine" not in chat.screen_text


async def test_offer_is_asked_once_and_installs(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    fake_daemon.engine_offer, fake_daemon.engines = OFFER, [ENTRY]
    fake_daemon.installation = _progress("downloading", 10**9, 29 * 10**8)
    async with open_chat(size=(100, 30)) as chat:
        await chat.until_shown("Fetch the engine for it")
        await chat.pilot.press("enter")
        await chat.until_shown("downloading, 1.0 of 2.9 GB")
        assert _asked(fake_daemon) == [("/ingle/v1/engines/install", {"engine": "cuda"})]


async def test_declined_offer_is_reported_to_the_daemon(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    fake_daemon.engine_offer = OFFER
    async with open_chat(size=(100, 30)) as chat:
        await chat.until_shown("Fetch the engine for it")
        await chat.pilot.press("escape")
        await chat.until_notified("`ingle engine install cuda` installs it later.")
        assert _asked(fake_daemon) == [("/ingle/v1/engines/decline", {"engine": "cuda"})]


async def test_offer_waits_while_the_user_is_writing(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    """Enter is meant for the prompt, not for a question that appeared a moment ago."""
    fake_daemon.engine_offer = OFFER
    fake_daemon.engines_gate.clear()
    async with open_chat(size=(100, 30)) as chat:
        await chat.until(lambda: any(r.target == "/ingle/v1/engines" for r in fake_daemon.requests))
        await chat.pilot.press("H", "i")
        fake_daemon.engines_gate.set()
        engines = next(f for f in chat.screen.features if isinstance(f, EnginesFeature))
        await chat.until(lambda: engines.offer is not None)
        assert not isinstance(chat.app.screen, ConfirmScreen)
        await chat.pilot.press("enter")
        await chat.until_shown("Hello there.")
        await chat.until_shown("Fetch the engine for it")


async def test_failed_installation_says_how_to_go_on(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    fake_daemon.engine_offer, fake_daemon.installation = OFFER, _progress("resolving")
    fake_daemon.pull_error = {"code": "install_failed", "message": "The disk is full.", "hint": ""}
    fake_daemon.pull_gate.set()
    async with open_chat(size=(100, 30)) as chat:
        await chat.until_shown("Fetch the engine for it")
        await chat.pilot.press("enter")
        await chat.until_shown("The disk is full.")
        assert "`ingle engine install cuda` tries again" in chat.screen_text
