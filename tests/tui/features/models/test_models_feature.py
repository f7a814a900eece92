"""The model picker, switching models, eviction, unloading, and context size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.harness.fake_daemon import FakeDaemon, Request

    from ...conftest import Chat, OpenChat

GB = 10**9


def _fit(state: str = "fits", needs: int = GB, free: int = 8 * GB) -> dict[str, Any]:
    return {
        "device": "cpu",
        "state": state,
        "needs_bytes": needs,
        "free_bytes": free,
        "context": 4096,
    }


def _requests(daemon: FakeDaemon, method: str, target: str) -> list[Request]:
    return [r for r in daemon.requests if (r.method, r.target) == (method, target)]


async def _pick(chat: Chat, *keys: str) -> None:
    await chat.pilot.press("ctrl+o")
    await chat.until_shown("filter, or hf.co")
    await chat.pilot.press(*keys)


def _gauges(daemon: FakeDaemon, *models: dict[str, Any], available: int = 8 * GB) -> None:
    memory = {"total": 16 * GB, "available": available, "daemon_rss": 0}
    daemon.broadcast("gauges", {"memory": memory, "models": list(models)})


@pytest.mark.slow
@pytest.mark.parametrize("size", [(60, 20), (80, 24), (160, 45)])
async def test_picker_groups_and_describes_models(
    open_chat: OpenChat, fake_daemon: FakeDaemon, size: tuple[int, int]
) -> None:
    fake_daemon.add_model("smollm2:135m", state="ready", fit=_fit())
    fake_daemon.add_model("disk:1b", fit=_fit("no"))
    fake_daemon.add_model("far:2b", installed=False, state="available", fit=_fit("spills"))
    async with open_chat(size=size) as chat:
        await chat.until_shown("smollm2:135m")
        await _pick(chat)
        for text in ("warm", "on disk", "to download", "in use", "98 MB · Apache-2.0"):
            assert text in chat.screen_text
        for text in ("fits in RAM", "does not fit", "partly in VRAM", "esc closes"):
            assert text in chat.screen_text
        assert "enter uses this model" in chat.screen_text
        await chat.pilot.press("down", "down")
        await chat.until_shown("enter downloads 98 MB")
        await chat.pilot.press("escape")
        await chat.until(lambda: chat.app.screen is chat.screen)


@pytest.mark.slow
async def test_picker_filters_while_typing(open_chat: OpenChat, fake_daemon: FakeDaemon) -> None:
    fake_daemon.add_model("duck:1b")
    fake_daemon.add_model("puma:1b")
    async with open_chat() as chat:
        await chat.until_shown("smollm2:135m")
        await _pick(chat, *"duc")
        await chat.until(lambda: "puma" not in chat.screen_text)
        assert (
            fake_daemon.models
        )  # letters typed into the filter are not commands: nothing was deleted
        await chat.pilot.press(*"xyz")
        await chat.until_shown("no model of that name")
        await chat.pilot.press("enter", *(["backspace"] * 3), "enter")
        await chat.until_shown("duck:1b on disk")


@pytest.mark.slow
async def test_picker_accepts_a_repository_name(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    async with open_chat() as chat:
        await chat.until_shown("smollm2:135m")
        await _pick(chat, *("hf.co/owner/repo".replace("/", "|").replace(".", "!")))
        # Some key names differ from their characters, so the text is set directly.
        from textual.widgets import Input

        chat.app.screen.query_one(Input).value = "hf.co/owner/repo"
        await chat.until_shown("as typed")
        await chat.pilot.press("enter")
        fake_daemon.pull_gate.set()
        await chat.until(lambda: fake_daemon.pull_done == ["hf.co/owner/repo"])


@pytest.mark.slow
async def test_letters_are_commands_in_the_picker_list(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    fake_daemon.add_model("duck:1b", state="ready")
    async with open_chat(size=(100, 40), model="smollm2:135m") as chat:
        await chat.until_shown("smollm2:135m")
        await _pick(chat, *"duck", "tab")
        await chat.until_shown("u unload · d delete")
        await chat.pilot.press("u")
        await chat.until_notified("duck:1b is unloaded")
        await _pick(chat, *"duck", "tab", "d")
        await chat.until_shown("Delete duck:1b?")
        assert "98 MB of disk space is freed" in chat.screen_text
        await chat.pilot.press("escape")
        await _pick(chat, *"duck", "tab", "d")
        await chat.until_shown("Delete duck:1b?")
        await chat.pilot.press("enter")
        await chat.until_notified("duck:1b is deleted; 98 MB of disk space are free.")
    assert len(_requests(fake_daemon, "POST", "/ingle/v1/unload")) == 1
    assert len(_requests(fake_daemon, "DELETE", "/ingle/v1/models/duck%3A1b")) == 1


@pytest.mark.slow
async def test_download_of_a_model_that_does_not_fit_is_confirmed(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    fake_daemon.add_model("big:70b", installed=False, state="available", fit=_fit("no", 45 * GB))
    async with open_chat() as chat:
        await chat.until_shown("smollm2:135m")
        await _pick(chat, *"big", "enter")
        await chat.until_shown("Download big:70b anyway?")
        await chat.pilot.press("escape")
        assert not _requests(fake_daemon, "POST", "/ingle/v1/pull")
        await _pick(chat, *"big", "enter")
        await chat.until_shown("Download big:70b anyway?")
        await chat.pilot.press("enter")
        await chat.until_shown("↓ big:70b")


@pytest.mark.slow
async def test_switching_models_prefills_the_chat(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    fake_daemon.add_model("other:1b", fit=_fit())
    async with open_chat(size=(100, 40)) as chat:
        await chat.until_shown("smollm2:135m")
        await chat.send("hello")
        await chat.until_shown("Hello there.")
        await chat.send("/model other")
        await chat.until_notified("other:1b will prefill 22 tokens")
        await chat.until(lambda: len(_requests(fake_daemon, "POST", "/ingle/v1/generations")) == 2)
        assert chat.screen.chat.settings.model == "other:1b"
    ahead = _requests(fake_daemon, "POST", "/ingle/v1/generations")[1].body
    assert (ahead["model"], ahead["max_tokens"], ahead["priority"]) == ("other:1b", 0, "batch")
    assert [message["role"] for message in ahead["messages"]] == ["user", "assistant"]


@pytest.mark.slow
async def test_switch_that_evicts_a_model_is_confirmed(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    fake_daemon.add_model("other:1b", fit=_fit(needs=3 * GB))
    held = {"name": "smollm2:135m", "state": "ready", "weights_bytes": 2 * GB}
    async with open_chat(size=(100, 40)) as chat:
        await chat.until_shown("smollm2:135m")
        _gauges(fake_daemon, held, available=2 * GB)
        await chat.until_shown("smollm2:135m ready")
        await chat.send("/model other")
        await chat.until_shown("Switch to other:1b?")
        assert "other:1b needs 3.0 GB; smollm2:135m is unloaded." in chat.screen_text
        await chat.pilot.press("escape")
        assert chat.screen.state.model_name == "smollm2:135m"
        await chat.send("/model other")
        await chat.until_shown("Switch to other:1b?")
        await chat.pilot.press("enter")
        await chat.until(lambda: chat.screen.state.model_name == "other:1b")


async def test_unload_reports_the_freed_memory(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    held = {"name": "smollm2:135m", "state": "ready", "weights_bytes": 2 * GB}
    async with open_chat(size=(100, 40)) as chat:
        await chat.until_shown("smollm2:135m")
        _gauges(fake_daemon, held)
        await chat.until_shown("smollm2:135m ready")
        await chat.send("/unload")
        await chat.until_notified("smollm2:135m is unloaded; about 2.0 GB")


@pytest.mark.slow
async def test_context_change_is_confirmed_and_actual_size_reported(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    held = {
        "name": "smollm2:135m",
        "state": "ready",
        "context": 8192,
        "kv_capacity": 8192,
        "kv_bytes": 200_000_000,
    }
    fake_daemon.loaded_context = 12288
    async with open_chat(size=(100, 40)) as chat:
        await chat.until_shown("smollm2:135m")
        _gauges(fake_daemon, held)
        await chat.until_shown("smollm2:135m ready")
        await chat.send("hello")
        await chat.until_shown("Hello there.")
        await chat.send("/ctx 16384")
        await chat.until_shown("with 16 384 tokens of context?")
        for text in (
            "Its cache is lost: 22 tokens must be prefilled again",
            "The KV cache will take about 400 MB, now 200 MB.",
            "It was trained for 8 192 tokens",
        ):
            assert text in chat.screen_text
        await chat.pilot.press("enter")
        await chat.until_notified("has 12 288 tokens of context, not the")
    body = [r.body for r in _requests(fake_daemon, "POST", "/ingle/v1/load") if "context" in r.body]
    assert body == [{"model": "smollm2:135m", "context": 16384}]


@pytest.mark.parametrize("argument", ["", "lots", "12", "-4"])
async def test_invalid_context_size_is_reported(open_chat: OpenChat, argument: str) -> None:
    async with open_chat(size=(100, 40)) as chat:
        await chat.until_shown("smollm2:135m")
        await chat.send(f"/ctx {argument}")
        await chat.until_notified("/ctx takes a number of tokens")


async def test_opening_a_chat_restores_its_model(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    fake_daemon.add_model("other:1b")
    async with open_chat() as chat:
        await chat.until_shown("smollm2:135m")
        await chat.send("/model other")
        await chat.until_shown("other:1b on disk")
        first = chat.screen.chat
        await chat.send("/new")
        await chat.until(lambda: chat.screen.chat is not first)
        await chat.send("/model smollm2")
        await chat.until_shown("smollm2:135m on disk")
        chat.screen.open_chat(first)
        await chat.until_shown("other:1b on disk")
