"""Snapshots of gauges: panel, full screen, page map, tables, costs, and the doctor."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from ingle.tui.chats.chat import Chat as ChatTree
from ingle.tui.features.context.gauges_feature import GaugesFeature
from ingle.tui.settings.chat_folders import ChatFolders
from ingle.tui.settings.preferences import Preferences

if TYPE_CHECKING:
    from ..conftest import Chat, FakeDaemon, OpenChat
    from .conftest import AssertSnapshot, Clock

GIB = 2**30


def gauges(written: int, joules: float) -> dict[str, Any]:
    """A `gauges` event of a machine with a GPU, with fixed values."""
    model: dict[str, Any] = {
        "name": "smollm2:135m",
        "state": "ready",
        "device": "RTX 4070, 30 of 30 layers",
        "engine": "llama.cpp",
        "context": 4096,
        "kv_capacity": 8192,
        "kv_used": 818,
        "kv_kept": 300,
        "kv_type": "q8_0",
        "weights_bytes": 5 * GIB,
        "kv_bytes": 2 * GIB,
        "layers": 30,
        "layers_on_gpu": 30,
        "running": 1,
        "waiting": 2,
        "completion_tokens_total": written,
        "drafted_tokens_total": 200,
        "accepted_tokens_total": 150,
        "prompt_rate": 20.0,
        "decode_rate": 62.0,
    }
    gpu = {
        "name": "RTX 4070",
        "kind": "gpu",
        "memory_total": 12 * GIB,
        "memory_used": 8 * GIB,
        "utilization": 0.93,
        "watts": 142.0,
        "joules": joules,
    }
    memory = {"total": 32 * GIB, "available": 18 * GIB, "daemon_rss": 0}
    return {"memory": memory, "models": [model], "devices": [gpu]}


async def wait_for_gauges(
    chat: Chat, daemon: FakeDaemon, tree: ChatTree, clock: Clock
) -> GaugesFeature:
    """Wait for all values: two events a second apart, and exact token counts."""
    await chat.until_shown("smollm2:135m on disk")
    groups = daemon.pages["groups"]
    groups[0]["conversations"] = [tree.id, "other"]
    groups[1]["conversations"] = [tree.id]
    groups[2]["conversations"] = ["other"]
    chat.screen.open_chat(tree)
    await chat.until(lambda: chat.transcript.entries)
    feature = chat.screen.feature(GaugesFeature)
    for written in (0, 62):
        event = gauges(written, written * 2.3)
        daemon.broadcast("gauges", event)
        await chat.until(
            lambda written=written: (
                feature.state.loaded is not None
                and feature.state.loaded.completion_tokens_total == written
            )
        )
        clock.now += 1
    feature.draw()
    await chat.until(lambda: all(part.exact for part in feature.counter.parts))
    feature.draw()
    await chat.until(lambda: feature.state.use.exact)
    return feature


@pytest.mark.slow
async def test_gauges(
    open_chat: OpenChat,
    fake_daemon: FakeDaemon,
    folders: ChatFolders,
    tree: ChatTree,
    assert_snapshot: AssertSnapshot,
    clock: Clock,
) -> None:
    full = Preferences(gauges=True)
    async with open_chat(size=(160, 45), folders=folders, preferences=full) as chat:
        feature = await wait_for_gauges(chat, fake_daemon, tree, clock)
        await chat.until(lambda: feature.state.pages is not None)
        await assert_snapshot(chat, "gauges_beside")
        await chat.pilot.resize_terminal(160, 45)
        for name in ("kv", "context", "stats"):
            chat.screen.run_command(name)
            await chat.until(lambda: len(chat.app.screen_stack) == 2)
            if name == "kv":
                await chat.pilot.press("right", "right")
            await assert_snapshot(chat, name)
            await chat.pilot.press("escape")
            await chat.until(lambda: chat.app.screen is chat.screen)
        chat.screen.run_command("ctx", "16384")
        await chat.until_shown("Reload smollm2:135m")
        await assert_snapshot(chat, "price")
        await chat.pilot.press("escape")
        await chat.until(lambda: chat.app.screen is chat.screen)
        await chat.pilot.resize_terminal(160, 45)
        await chat.pilot.press("f4")
        await chat.until_shown("Gauges")
        await assert_snapshot(chat, "gauges")
        await chat.pilot.press("f4")
        await chat.until(lambda: chat.app.screen is chat.screen)
        await assert_snapshot(chat, "gauges_off")


def fixed_facts(facts: list[tuple[str, str]], *_: object) -> list[tuple[str, str]]:
    return facts


@pytest.mark.slow
async def test_doctor(
    open_chat: OpenChat,
    fake_daemon: FakeDaemon,
    folders: ChatFolders,
    tree: ChatTree,
    assert_snapshot: AssertSnapshot,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("TERM_PROGRAM", "TERM_PROGRAM_VERSION", "LANG", "NO_COLOR", "TMUX", "STY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLORTERM", "truecolor")
    for name, facts in {
        "program_facts": [("versions", "ingle 0.1.0 · textual 6.0 · Python 3.11.9")],
        "clipboard_facts": [("copy", "wl-copy → OSC 52"), ("paste", "works (wl-paste)")],
    }.items():
        monkeypatch.setattr(f"ingle.tui.commands.doctor_report.{name}", partial(fixed_facts, facts))
    monkeypatch.setattr(
        "ingle.tui.commands.doctor_report.interpreter", lambda: "~/.venv/bin/python"
    )
    monkeypatch.setattr("ingle.tui.commands.doctor_report.os.cpu_count", lambda: 8)
    fake_daemon.status = {
        "version": "0.1.0",
        "pid": 4242,
        "uptime": 7260.0,
        "socket": "/run/user/1000/ingle.sock",
        "memory": {"total": 32 * GIB, "available": 18 * GIB},
    }
    async with open_chat(size=(80, 24), folders=folders) as chat:
        await wait_for_gauges(chat, fake_daemon, tree, clock)
        chat.screen.run_command("doctor")
        await chat.until_shown("process 4242")
        await assert_snapshot(chat, "doctor")
