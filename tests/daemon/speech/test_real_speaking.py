"""The voice itself, in the confined process; docs/testing.md says how."""

from __future__ import annotations

from collections.abc import AsyncIterator
from importlib import import_module
from io import BytesIO
from typing import Any

import openai
import pytest

from ingle.backends.base.child_process import find_module
from ingle.daemon.speech.voice_protocol import RATE
from tests.daemon.conftest import DaemonFactory, RunningDaemon

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        find_module("hibari") is None,
        reason="hibari is not here: `uv run --group test --extra speech pytest -m slow "
        "tests/daemon/speech` brings it",
    ),
]
TEXT = "The search is on this machine. It cost $4.50 in 2026, and Dr. Smith's GPU didn't mind."
FORMATS = {"mp3": "mp3", "opus": "ogg", "aac": "aac", "flac": "flac", "wav": "wav"}
STRANGE = {
    "digits": "9" * 4096,
    "one word": "a" * 4096,
    "controls": "".join(map(chr, range(1, 160))) * 9,
    "combining": "e\u0301\u0302\u0303" * 900,
    "right to left": "\u202eabc שלום\u202c" * 200,
    "marks": "?!?…—" * 700,
    "phonemes": "[a](/ˈ/)" * 400,
    "emoji": "🎉👩‍👩‍👧 " * 500,
    "Chinese": "你好世界。" * 700,
}


@pytest.fixture
async def daemon(run_daemon: DaemonFactory) -> AsyncIterator[RunningDaemon]:
    async with run_daemon() as running:
        yield running


def seconds(data: bytes, name: str) -> float:
    av: Any = import_module("av")
    with av.open(BytesIO(data)) as container:
        assert name in container.format.name.split(",")
        samples = sum(frame.samples for frame in container.decode(audio=0))
        return samples / container.streams.audio[0].rate


async def test_openai_client_gets_every_format(daemon: RunningDaemon) -> None:
    url = f"{daemon.base_url}/v1"
    async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:

        async def speak(form: Any, **more: Any) -> bytes:
            answer = await client.audio.speech.create(
                input=TEXT, model="tts-1", voice="alloy", response_format=form, **more
            )
            return answer.content

        samples = await speak("pcm")
        length = len(samples) / 2 / RATE
        assert 5 < length < 12
        assert await speak("pcm") == samples
        for name, container in FORMATS.items():
            assert abs(seconds(await speak(name), container) - length) < 0.2, name
        assert len(await speak("pcm", speed=2)) < 0.6 * len(samples)


async def test_strange_texts_cost_only_themselves(daemon: RunningDaemon) -> None:
    for name, text in STRANGE.items():
        body = {"input": text, "response_format": "pcm"}
        answer = await daemon.tcp.post("/v1/audio/speech", json=body, timeout=300)
        assert answer.status_code in (200, 400), (name, answer.text)
    body = {"input": TEXT, "response_format": "pcm"}
    assert (await daemon.tcp.post("/v1/audio/speech", json=body, timeout=60)).status_code == 200
