"""OpenAI's audio routes, with scripted packages in place of the engine's own."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import msgspec
import pytest

from ingle.backends.packages.engine_packages import SPEECH, abi, all_engine_packages
from ingle.backends.packages.engine_store import EngineStore, InstalledPackages
from ingle.daemon.protocols.openai import audio_api
from ingle.daemon.speech import transcriber
from ingle.daemon.speech.speech_memory import PROCESS
from ingle.daemon.speech.speech_protocol import Recognise
from tests.harness.whisper_files import write_whisper_files

if TYPE_CHECKING:
    from ..conftest import RunningDaemon

    DaemonFactory = Callable[..., AbstractAsyncContextManager[RunningDaemon]]

PACKAGES = Path(__file__).parents[2] / "harness/speech_packages"
SECOND = b"SOUND16000"
UNREADABLE = 400, "invalid_audio", "file"
TRANSCRIPTIONS, TRANSLATIONS = "/v1/audio/transcriptions", "/v1/audio/translations"


def install_engine(store: EngineStore) -> None:
    """Install the scripted packages as the engine."""
    packages = all_engine_packages()[SPEECH]
    target = store.target(packages)
    shutil.copytree(PACKAGES, target)
    record = InstalledPackages(
        name=SPEECH, requirements=packages.pinned(), abi=abi(), bytes=1, installed_at=0.0
    )
    (target / "installed.json").write_bytes(msgspec.json.encode(record))


@pytest.fixture
async def daemon(run_daemon: DaemonFactory, tmp_path: Path) -> AsyncIterator[RunningDaemon]:
    folder = write_whisper_files(tmp_path / "whisper")
    async with run_daemon(speech_model=str(folder)) as running:
        install_engine(running.services.engines.store)
        yield running


async def send(
    daemon: RunningDaemon, data: bytes = SECOND, path: str = TRANSCRIPTIONS, **fields: Any
) -> httpx.Response:
    return await daemon.tcp.post(path, files={"file": ("a", data)}, data=fields, timeout=30)


def problem(answer: httpx.Response) -> tuple[int, str, str | None]:
    error = answer.json()["error"]
    return answer.status_code, error["code"], error["param"]


async def test_every_format_of_a_transcript(daemon: RunningDaemon) -> None:
    usage = {"type": "duration", "seconds": 1.0}
    answer = await send(daemon, model="whisper-1")
    assert answer.json() == {"text": "One --> transcribe.", "usage": usage}
    assert (await send(daemon, response_format="text")).text == "One --> transcribe.\n"
    srt = (await send(daemon, response_format="srt")).text
    assert srt.startswith("1\n01:01:01,500 --> 01:01:02,750\nOne ->\n\n2\n02:02:03,000 --> ")
    vtt = (await send(daemon, response_format="vtt")).text
    assert vtt.startswith("WEBVTT\n\n01:01:01.500 --> 01:01:02.750\nOne ->\n\n02:02:03.000 --> ")
    verbose = (await send(daemon, response_format="verbose_json", language="de")).json()
    assert (verbose["language"], verbose["duration"], verbose["task"]) == ("de", 1.0, "transcribe")
    assert [each["text"] for each in verbose["segments"]] == [" One -->", " transcribe."]
    assert "words" not in verbose
    fields: dict[str, Any] = {
        "response_format": "verbose_json",
        "timestamp_granularities[]": ["word"],
    }
    words = (await send(daemon, **fields)).json()
    assert words["words"][0] == {"word": " One -->", "start": 1.0, "end": 2.0}
    assert "segments" not in words
    both: dict[str, Any] = {**fields, "timestamp_granularities[]": ["word", "segment"]}
    assert {"words", "segments"} <= (await send(daemon, **both)).json().keys()
    assert (await send(daemon, path=TRANSLATIONS)).json()["text"] == "One --> translate."
    stream = (await send(daemon, stream="true")).text.split("\n\n")
    assert stream == [
        'data: {"type":"transcript.text.delta","delta":"One -->"}',
        'data: {"type":"transcript.text.delta","delta":" transcribe."}',
        'data: {"type":"transcript.text.done","text":"One --> transcribe."}',
        "",
    ]
    metrics = (await daemon.tcp.get("/metrics")).text
    name = daemon.services.config.speech_model
    assert f'ingle_transcribed_seconds_total{{model="{name}"}} 9.0' in metrics


async def test_process_counts_as_a_loaded_model(run_daemon: DaemonFactory, tmp_path: Path) -> None:
    folder = write_whisper_files(tmp_path / "whisper")
    async with run_daemon(speech_model=str(folder), memory_limit=2**28) as daemon:
        services = daemon.services
        install_engine(services.engines.store)
        assert services.manager.available().host == 2**28
        await send(daemon)
        (loaded,) = (await daemon.tcp.get("/ingle/v1/status")).json()["models"]
        assert (loaded["name"], loaded["engine"], loaded["state"]) == (
            str(folder),
            SPEECH,
            "ready",
        )
        needs = loaded["memory"]["predicted"]["host"]
        assert needs == PROCESS + services.resolve(str(folder)).size
        assert services.manager.available().host == 2**28 - needs
        assert 0 < loaded["memory"]["measured"]["host"] < loaded["rss"]
        assert 0 < loaded["expires_in"] <= 300
        unloaded = await daemon.tcp.post("/ingle/v1/unload", json={"model": str(folder)})
        assert unloaded.json() == {"unloaded": [str(folder)]}
        assert services.manager.loaded() == []
        assert services.manager.available().host == 2**28


async def test_fields_without_effect_are_named(daemon: RunningDaemon) -> None:
    for fields, path, header in (
        ({"include[]": "logprobs", "langage": "de"}, "", "include, langage;nearest=language"),
        ({"stream": "true", "response_format": "srt"}, "", "response_format"),
        ({"stream": "true", "response_format": "text"}, "", None),
        ({"chunking_strategy": "auto", "keywords": "Ada"}, "", "keywords"),
        ({"language": "de", "prompt": "Ada"}, TRANSLATIONS, "language"),
    ):
        form: dict[str, Any] = fields
        answer = await send(daemon, path=path or TRANSCRIPTIONS, **form)
        assert answer.status_code == 200, answer.text
        assert answer.headers.get("ingle-ignored") == header
    counted = (await daemon.tcp.get("/metrics")).text
    assert 'ingle_ignored_fields_total{field="keywords"} 1' in counted


async def test_times_are_refused_where_the_answer_has_none(daemon: RunningDaemon) -> None:
    for name in ("timestamp_granularities[]", "timestamp_granularities"):
        for fields in (
            {},
            {"response_format": "text"},
            {"response_format": "verbose_json", "stream": "true"},
        ):
            form: dict[str, Any] = {name: "word", **fields}
            found = problem(await send(daemon, **form))
            assert found == (400, "invalid_request", "timestamp_granularities"), form
    form = {"timestamp_granularities": "word", "response_format": "verbose_json"}
    answer = await send(daemon, **form)
    assert "words" in answer.json()
    assert "ingle-ignored" not in answer.headers


async def test_refused_requests_have_their_codes(daemon: RunningDaemon) -> None:
    for field, value in (
        *(("language", "xx"), ("temperature", "3"), ("temperature", "nan")),
        *(("response_format", "diarized_json"), ("timestamp_granularities[]", "letter")),
    ):
        form: dict[str, Any] = {field: value}
        status, _, param = problem(await send(daemon, **form))
        assert (status, param) == (400, field.removesuffix("[]")), (field, value)
    for data in (b"", b"SOUND0", b"no sound"):
        assert problem(await send(daemon, data)) == UNREADABLE, data
    missing = await daemon.tcp.post(TRANSCRIPTIONS, files={"other": b""})
    assert problem(missing) == (400, "invalid_request", "file")
    assert problem(await send(daemon, model="echo:1")) == (400, "wrong_task", "model")
    assert problem(await send(daemon, model="hf.co/o/r"))[:2] == (404, "model_not_found")
    assert (await send(daemon)).status_code == 200


@pytest.mark.slow
async def test_process_that_dies_costs_one_request(daemon: RunningDaemon) -> None:
    assert problem(await send(daemon, b"SOUND%d" % (3600 * 16000 + 1))) == UNREADABLE
    assert problem(await send(daemon, prompt="die at once")) == UNREADABLE
    for script in ("die", "too large", "read a file"):
        assert problem(await send(daemon, prompt=script)) == (500, "speech_failed", None), script
    failed = (await send(daemon, prompt="die", stream="true")).text.split("\n\n")
    assert '"delta":"One' in failed[0]
    assert '"speech_failed"' in failed[1]
    assert (await send(daemon)).status_code == 200


async def test_speech_model_answers_no_chat(daemon: RunningDaemon) -> None:
    body = {"model": daemon.services.config.speech_model, "prompt": "Hi"}
    answer = await daemon.tcp.post("/v1/completions", json=body)
    assert problem(answer) == (400, "wrong_task", "model")
    assert "/v1/audio/transcriptions" in answer.text


async def test_without_engine_or_model_the_error_says_what_to_run(
    run_daemon: DaemonFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transcriber, "find_module", lambda name: None)  # pyright: ignore
    async with run_daemon() as daemon:
        none = await send(daemon)
        assert problem(none)[:2] == (404, "model_not_found")
        assert "`ingle pull hf.co/Systran/faster-whisper-base`" in none.text
        write_whisper_files(daemon.services.config.paths.models / "speech")
        model = str(daemon.services.config.paths.models / "speech")
        missing = await send(daemon, model=model)
        assert problem(missing)[:2] == (404, "engine_missing")
        assert "`ingle engine install speech`" in missing.text


async def test_files_beyond_the_places_are_refused(
    daemon: RunningDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    speech = daemon.services.manager.speech
    monkeypatch.setattr(transcriber, "MOST_AT_ONCE", 1)
    with speech.place():
        full = await send(daemon)
    assert problem(full)[:2] == (429, "queue_full")
    assert full.headers["retry-after"] == "5"
    assert (await send(daemon)).status_code == 200


async def test_too_large_files_are_refused(
    daemon: RunningDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audio_api, "MOST_BYTES", len(SECOND))
    assert problem(await send(daemon, SECOND + b"0")) == (413, "body_too_large", "file")
    assert (await send(daemon)).status_code == 200


async def test_client_that_leaves_ends_the_process(daemon: RunningDaemon) -> None:
    await send(daemon)
    speech = daemon.services.manager.speech
    model = await asyncio.to_thread(
        daemon.services.store.resolve, daemon.services.config.speech_model
    )
    parts = speech.recognise(model, Recognise(data=SECOND))
    await anext(parts)
    assert speech.is_busy
    await parts.aclose()
    assert not speech.is_busy
    assert (await send(daemon)).status_code == 200
