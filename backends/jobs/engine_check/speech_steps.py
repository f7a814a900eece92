"""The steps of checking the engine that recognises speech and speaks."""

from __future__ import annotations

import wave
from collections.abc import Iterator
from importlib import import_module
from io import BytesIO
from typing import Any

from .check_step import Step, StepFailed

_REMEDY = "Install it again: `ingle engine remove speech`, then `ingle engine install speech`."
_SAMPLES = 1600
_LEAST_SPOKEN = 0.2


def speech_steps() -> Iterator[Step]:
    """Yield the steps: the packages are loaded, a sound is decoded, and a word is spoken."""
    yield "library", _load
    yield "decoder", _decode
    yield "voice", _speak


def _load() -> str:
    try:
        whisper: Any = import_module("faster_whisper")
        computing: Any = import_module("ctranslate2")
    except ImportError as error:
        if error.name == "faster_whisper":
            raise StepFailed(
                "faster-whisper is not installed", "Run `ingle engine install speech`."
            ) from error
        raise StepFailed(str(error), _REMEDY) from error
    types = ", ".join(sorted(computing.get_supported_compute_types("cpu")))
    return f"faster-whisper {whisper.__version__}, which computes in {types}"


def _decode() -> str:
    whisper: Any = import_module("faster_whisper")
    av: Any = import_module("av")
    file = BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(16000)
        sound.writeframes(b"\0\0" * _SAMPLES)
    file.seek(0)
    decoded = whisper.decode_audio(file).size
    if decoded != _SAMPLES:
        raise StepFailed(f"{_SAMPLES} samples became {decoded}", _REMEDY)
    return f"PyAV {av.__version__}"


def _speak() -> str:
    try:
        voice: Any = import_module("hibari")
    except ImportError as error:  # an engine from before ingle spoke
        raise StepFailed(str(error), "Run `ingle engine install speech`.") from error
    spoken = voice.Hibari()("One.", seed=0).size / voice.SAMPLE_RATE
    if spoken < _LEAST_SPOKEN:
        raise StepFailed(f"a word became {spoken:.1f} s of speech", _REMEDY)
    return f"hibari {voice.__version__}, {spoken:.1f} s of speech"
