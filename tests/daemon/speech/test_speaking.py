"""OpenAI's `/v1/audio/speech`, with scripted packages in place of the engine's own."""

from __future__ import annotations

import asyncio
import wave
from base64 import b64decode
from collections.abc import AsyncIterator
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx
import msgspec
import numpy as np
import pytest

from ingle.daemon.speech import speaker
from ingle.daemon.speech.voice_protocol import RATE, Speak
from tests.daemon.conftest import DaemonFactory, RunningDaemon

from .test_transcriptions import install_engine, problem

TWO = "One two. Three four five."
SECONDS = 0.5


@pytest.fixture
async def daemon(run_daemon: DaemonFactory) -> AsyncIterator[RunningDaemon]:
    async with run_daemon() as running:
        install_engine(running.services.engines.store)
        yield running


async def speak(daemon: RunningDaemon, text: str = TWO, **fields: Any) -> httpx.Response:
    body = {"input": text, "voice": "heart", "response_format": "pcm", **fields}
    return await daemon.tcp.post("/v1/audio/speech", json=body, timeout=30)


async def test_text_becomes_sound(daemon: RunningDaemon) -> None:
    spoken = await speak(daemon)
    assert spoken.headers["content-type"] == "audio/pcm"
    samples = np.frombuffer(spoken.content, "<i2")
    assert samples.size == RATE * SECONDS
    assert set(samples.tolist()) == {16383}
    faster = await speak(daemon, speed=2)
    assert len(faster.content) == len(spoken.content) // 2
    assert "ingle-ignored" not in faster.headers
    file = await speak(daemon, response_format="wav", voice="alloy", instructions="whisper")
    assert file.headers["content-type"] == "audio/wav"
    assert file.headers["ingle-ignored"] == "instructions, voice"
    with wave.open(BytesIO(file.content)) as sound:
        assert (sound.getframerate(), sound.getnchannels(), sound.getsampwidth()) == (RATE, 1, 2)
        assert sound.readframes(RATE) == spoken.content
    events = (await speak(daemon, stream_format="sse")).text.split("\n\n")
    *deltas, done, rest = (event.removeprefix("data: ") for event in events)
    assert (done, rest) == ('{"type":"speech.audio.done"}', "")
    parts = [b64decode(msgspec.json.decode(delta)["audio"]) for delta in deltas]
    assert len(parts) == 2
    assert b"".join(parts) == spoken.content
    metrics = (await daemon.tcp.get("/metrics")).text
    assert "ingle_spoken_texts_total 4.0" in metrics
    assert "ingle_spoken_seconds_total 1.75" in metrics


async def test_refused_requests_have_their_codes(daemon: RunningDaemon) -> None:
    for field, value in (
        *(("voice", "unknown"), ("voice", {"id": "voice_1"}), ("input", ""), ("input", "a" * 4097)),
        *(("response_format", "midi"), ("speed", 4), ("stream_format", "midi")),
    ):
        fields: dict[str, Any] = {"text": value} if field == "input" else {field: value}
        status, _, param = problem(await speak(daemon, **fields))
        assert (status, param) == (400, field), (field, value)
    assert problem(await speak(daemon, model="echo:1"))[:2] == (404, "model_not_found")
    assert problem(await speak(daemon, "...")) == (400, "invalid_request", "input")
    assert (await speak(daemon)).status_code == 200


async def test_process_that_dies_or_strays_costs_one_request(daemon: RunningDaemon) -> None:
    for text in ("die", "read a file"):
        assert problem(await speak(daemon, text)) == (500, "speech_failed", None), text
    failed = (await speak(daemon, "One.die", stream_format="sse")).text.split("\n\n")
    assert "speech.audio.delta" in failed[0]
    assert '"speech_failed"' in failed[1]
    assert (await speak(daemon)).status_code == 200


async def test_client_that_leaves_ends_the_process(daemon: RunningDaemon) -> None:
    voice = daemon.services.manager.voice
    parts = voice.speak(Speak(TWO, 1.0, "pcm", 1))
    await anext(parts)
    assert voice.is_busy
    await parts.aclose()
    assert not voice.is_busy
    assert (await speak(daemon)).status_code == 200


async def test_texts_beyond_the_places_are_refused(
    daemon: RunningDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(speaker, "MOST_AT_ONCE", 0)
    full = await speak(daemon)
    assert problem(full)[:2] == (429, "queue_full")
    assert full.headers["retry-after"] == "5"


async def test_without_a_voice_the_error_says_what_to_run(
    run_daemon: DaemonFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(speaker, "find_module", lambda name: None)  # pyright: ignore
    async with run_daemon() as daemon:
        missing = await speak(daemon)
        assert problem(missing)[:2] == (404, "engine_missing")
        assert "`ingle engine install speech`" in missing.text
        install_engine(daemon.services.engines.store)
        (before,) = daemon.services.engines.store.import_path(["speech"])
        broken = Path(before, "hibari.py").write_text
        await asyncio.to_thread(broken, "raise ImportError(name=__name__)\n")
        assert problem(await speak(daemon))[:2] == (404, "engine_missing")
