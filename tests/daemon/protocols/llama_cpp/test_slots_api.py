"""llama-server's slots: prompts that are saved and restored by name."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ingle.daemon.warming.slot_prompts import KEPT, SavedPrompt, SlotPrompts

if TYPE_CHECKING:
    from ...conftest import RunningDaemon

    DaemonFactory = Callable[..., AbstractAsyncContextManager[RunningDaemon]]

PROMPT = "The quick brown fox jumps over the lazy dog. " * 10
SCRIPT = {"reply": "Hello"}


async def post(daemon: RunningDaemon, path: str, status: int = 200, **body: Any) -> Any:
    answer = await daemon.tcp.post(path, json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


async def test_saved_prompt_is_in_the_cache_after_a_restore(run_daemon: DaemonFactory) -> None:
    async with run_daemon(script=SCRIPT) as daemon:
        first = await post(daemon, "/completion", prompt=PROMPT, id_slot=1, n_predict=2)
        assert first["id_slot"] == 1
        saved = await post(daemon, "/slots/1?action=save", filename="fox.bin")
        assert saved["n_saved"] == first["tokens_evaluated"]
        assert (saved["id_slot"], saved["filename"]) == (1, "fox.bin")
        await post(daemon, "/ingle/v1/unload", model="echo:1")
        restored = await post(daemon, "/slots/0?action=restore", filename="fox.bin")
        assert restored["n_restored"] == saved["n_saved"]
        assert restored["n_read"] == saved["n_written"]
        again = await post(daemon, "/completion", prompt=PROMPT, id_slot=0, n_predict=2)
        assert again["timings"]["prompt_n"] == 1
        # What was restored is the slot's prompt, and can be saved again.
        assert (await post(daemon, "/slots/0?action=save", filename="b"))["n_saved"] > 400


async def test_chat_of_a_slot_is_saved(run_daemon: DaemonFactory) -> None:
    async with run_daemon(script=SCRIPT) as daemon:
        messages = [{"role": "user", "content": PROMPT}]
        chat = await post(daemon, "/v1/chat/completions", messages=messages, id_slot=3)
        saved = await post(daemon, "/slots/3?action=save", filename="chat")
        assert saved["n_saved"] == chat["usage"]["prompt_tokens"]


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("/slots/5?action=save", {"filename": "x"}, 404, "Slot 5 of echo:1 has no prompt"),
        ("/slots/1?action=restore", {"filename": "x"}, 404, "No prompt of echo:1 is saved as 'x'"),
        ("/slots/1?action=erase", {"filename": "x"}, 501, "cannot be erased"),
        ("/slots/1?action=keep", {"filename": "x"}, 400, "neither save nor restore"),
        ("/slots/1?action=save", {"filename": "../x"}, 400, "'filename' has other characters"),
        ("/slots/1?action=save", {"filename": ".x"}, 400, "'filename' has other characters"),
        ("/slots/1?action=save", {}, 400, "filename"),
        ("/slots/one?action=save", {"filename": "x"}, 400, "'one' is not the number of a slot"),
    ],
)
async def test_what_cannot_be_done_is_said(
    daemon: RunningDaemon, path: str, body: dict[str, Any], status: int, words: str
) -> None:
    await post(daemon, "/completion", prompt=PROMPT, id_slot=1, n_predict=1)
    assert words in (await post(daemon, path, status, **body))["error"]["message"]


async def test_private_prompt_is_not_saved(daemon: RunningDaemon) -> None:
    options = {"private": True}
    await post(daemon, "/completion", prompt=PROMPT, id_slot=2, n_predict=1)
    await post(daemon, "/completion", prompt=PROMPT, id_slot=2, n_predict=1, ingle=options)
    await post(daemon, "/slots/2?action=save", 404, filename="x")


async def test_prompts_of_slots_are_forgotten(daemon: RunningDaemon) -> None:
    await post(daemon, "/completion", prompt=PROMPT, id_slot=2, n_predict=1)
    await post(daemon, "/slots/2?action=save", filename="x")
    assert (await daemon.unix.post("/ingle/v1/forget", json={"all": True})).status_code == 200
    await post(daemon, "/slots/2?action=restore", 404, filename="x")
    await post(daemon, "/slots/2?action=save", 404, filename="x")


def test_saved_prompts_are_bounded_and_belong_to_their_key(tmp_path: Path) -> None:
    slots = SlotPrompts(tmp_path / "kv" / "prefixes")
    for number in range(KEPT + 3):
        slots.save("a", "digest", SavedPrompt(f"{number}", [number]))
    slots.save("b", "digest", SavedPrompt("mine", [1]))
    assert len(list((tmp_path / "kv" / "prefixes").glob("*.slot"))) == KEPT + 1
    newest = slots.read("a", "digest", f"{KEPT + 2}")
    assert newest is not None
    assert newest.token_ids == [KEPT + 2]
    assert slots.read("a", "digest", "mine") is None
    assert slots.read("b", "other", "mine") is None
