"""Speech through faster-whisper itself, with a random small model; docs/testing.md says how."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import openai
import psutil
import pytest

from ingle.backends.base.child_process import child_environment, find_module
from tests.harness.audio_files import encoded, hostile_files, sound, wav_file

from .random_whisper import write_whisper

if TYPE_CHECKING:
    from ..conftest import RunningDaemon

    DaemonFactory = Callable[..., AbstractAsyncContextManager[RunningDaemon]]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        find_module("faster_whisper") is None,
        reason="faster-whisper is not here: `uv run --group test --extra speech pytest -m slow "
        "tests/daemon/speech` brings it",
    ),
]
TEMPERATURE = 0.0001
"""One pass that finds the most probable tokens; at 0 there would be six, for such texts."""
MOST_MEMORY = 3 * 2**30
READABLE = {"4 GiB that are not there", "a torn FLAC file", "no numbers", "infinite numbers"}
"""What is there of them is heard."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_whisper(tmp_path_factory.mktemp("whisper"))


@pytest.fixture
async def daemon(run_daemon: DaemonFactory, model: Path) -> AsyncIterator[RunningDaemon]:
    async with run_daemon(speech_model=str(model)) as running:
        yield running


@pytest.fixture
async def client(daemon: RunningDaemon) -> AsyncIterator[openai.AsyncOpenAI]:
    url = f"{daemon.base_url}/v1"
    async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
        yield client


def audio_files() -> dict[str, bytes]:
    samples = sound(4, 3.0)
    return {
        "a.wav": wav_file(samples),
        "long.wav": wav_file(sound(7, 35.0)),
        "other.wav": wav_file(sound(9, 2.0)),
        "a.mp3": encoded(samples, "mp3", "libmp3lame", 16000),
        "a.flac": encoded(samples, "flac", "flac", 16000),
        "a.m4a": encoded(samples, "ipod", "aac", 16000),
        "a.ogg": encoded(sound(4, 3.0, 48000), "ogg", "libopus", 48000),
    }


DIRECTLY = """
import io, json, sys
from faster_whisper import WhisperModel
model = WhisperModel(sys.argv[1], device="cpu", compute_type="int8")
segments, _ = model.transcribe(
    io.BytesIO(sys.stdin.buffer.read()), temperature=float(sys.argv[2])
)
print(json.dumps([(each.start, each.end, each.text) for each in segments]))
"""


def heard_directly(model: Path, data: bytes) -> list[list[Any]]:
    # The environment of workers: the number of OpenBLAS's threads decides about rounding.
    done = subprocess.run(
        [sys.executable, "-c", DIRECTLY, str(model), str(TEMPERATURE)],
        input=data,
        env=child_environment(os.environ),
        capture_output=True,
        check=True,
    )
    return json.loads(done.stdout)


async def test_texts_equal_those_of_faster_whisper(client: openai.AsyncOpenAI, model: Path) -> None:
    texts: set[str] = set()
    for name, data in audio_files().items():
        answer: Any = await client.audio.transcriptions.create(
            file=(name, data),
            model="whisper-1",
            temperature=TEMPERATURE,
            response_format="verbose_json",
        )
        found = [[each.start, each.end, each.text] for each in answer.segments]
        assert found == await asyncio.to_thread(heard_directly, model, data), name
        assert answer.text
        texts.add(answer.text)
    assert len(texts) >= 3  # they depend on what is heard


@pytest.mark.parametrize("name", ["a.wav", "a.mp3"])
async def test_openai_client_gets_every_format(client: openai.AsyncOpenAI, name: str) -> None:
    async def ask(form: Any, **options: Any) -> Any:
        create: Any = client.audio.transcriptions.create
        return await create(
            file=(name, data),
            model="whisper-1",
            temperature=TEMPERATURE,
            response_format=form,
            **options,
        )

    data = audio_files()[name]
    text = (await ask("json", language="en")).text
    assert text
    assert await ask("text") == f"{text}\n"
    assert (await ask("srt")).startswith("1\n00:00:0")
    assert (await ask("vtt")).startswith("WEBVTT\n\n00:00:0")
    verbose = await ask("verbose_json", timestamp_granularities=["word", "segment"])
    assert verbose.words
    assert verbose.segments
    events = [event async for event in await ask("json", stream=True)]
    assert events[-1].type == "transcript.text.done"
    assert events[-1].text == text
    assert "".join(event.delta for event in events[:-1]).rstrip() == text
    assert (await ask("json", chunking_strategy="auto")).text == ""  # a tone is no speech


async def test_hostile_files_cost_only_themselves(daemon: RunningDaemon) -> None:
    async def send(data: bytes) -> Any:
        form = {"temperature": str(TEMPERATURE)}
        return await daemon.tcp.post(
            "/v1/audio/transcriptions", files={"file": ("a", data)}, data=form, timeout=120
        )

    files = await asyncio.to_thread(hostile_files)
    assert len(files) >= 20
    readable: set[str] = set()
    most = 0
    for name, data in files.items():
        answer = await send(data)
        if answer.status_code == 200:
            readable.add(name)
        else:
            code = answer.json()["error"]["code"]
            assert (answer.status_code, code) == (400, "invalid_audio"), (name, answer.text)
        pid = daemon.services.manager.speech.pid
        if pid is not None:
            most = max(most, psutil.Process(pid).memory_info().rss)
    assert readable == READABLE
    assert 0 < most < MOST_MEMORY
    assert (await send(wav_file(sound(4, 1.0)))).status_code == 200
