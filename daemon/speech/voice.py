"""Turns text into sound with hibari's English voice, in the process that is confined for it."""

from __future__ import annotations

import wave
from collections.abc import Iterator
from importlib import import_module
from io import BytesIO
from typing import Any

import numpy as np

from ingle.backends.hardware.cpu_inventory import read_inventory
from ingle.backends.hardware.thread_plan import plan_threads

from .voice_protocol import (
    RATE,
    EndOfSound,
    Sound,
    SoundFormat,
    Speak,
    VoiceFailed,
    VoiceMessage,
    VoiceReply,
)

_ENCODERS: dict[str, tuple[str, str, dict[str, str]]] = {
    "mp3": ("mp3", "libmp3lame", {"write_xing": "0"}),  # the table of which needs seeking
    "opus": ("ogg", "libopus", {}),
    "aac": ("adts", "aac", {}),
}
"""FFmpeg's muxer and encoder of each format that can be sent as it grows, and options."""


class Voice:
    """The voice, and the text that it is at."""

    def __init__(self) -> None:
        self._voice: Any = None
        self._parts: Iterator[Sound] = iter(())

    def answer(self, message: VoiceMessage) -> VoiceReply:
        """Return the answer to one message; never raises."""
        try:
            if isinstance(message, Speak):
                self._parts = self._speak(message)
            return next(self._parts, EndOfSound())
        except ImportError as error:
            return VoiceFailed(f"{error.name or 'a package'} is missing", "packages")
        except MemoryError:
            return VoiceFailed("it takes too much memory")
        except OSError as error:
            return VoiceFailed(f"a file cannot be read ({type(error).__name__})")
        except _EncoderMissing as error:
            return VoiceFailed(f"FFmpeg has no encoder for this format ({error})")
        except Exception as error:  # the library has not foreseen it: a number of 99 digits
            return VoiceFailed(type(error).__name__, "text")

    def _speak(self, task: Speak) -> Iterator[Sound]:
        if self._voice is None:
            threads = plan_threads(read_inventory(), task.threads).threads
            self._voice = import_module("hibari").Hibari(threads=threads)
        # With a seed the same text is the same sound.
        sentences = self._voice.stream(task.text, speed=task.speed, seed=0)
        yield from _encoded(map(_samples, sentences), task.format)


def _samples(sound: Any) -> Any:
    return (np.clip(sound, -1.0, 1.0) * 32767).astype("<i2")


def _encoded(sentences: Iterator[Any], format: SoundFormat) -> Iterator[Sound]:  # noqa: A002 - the API's word
    if format == "pcm":
        yield from (Sound(part.tobytes(), part.size / RATE) for part in sentences)
    elif format == "wav":
        yield from _as_wave(sentences)
    elif format == "flac":  # its head has the length, so it is sent at the end
        file = BytesIO()
        for part in _compressed(sentences, file, "flac", "flac", {}):
            yield Sound(b"", part)
        yield Sound(file.getvalue(), 0.0)
    else:
        sink = _Sink()
        for seconds in _compressed(sentences, sink, *_ENCODERS[format]):
            yield Sound(sink.take(), seconds)
        yield Sound(sink.take(), 0.0)


def _as_wave(sentences: Iterator[Any]) -> Iterator[Sound]:
    file = BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(RATE)
        for part in sentences:
            sound.writeframes(part.tobytes())
            yield Sound(b"", part.size / RATE)
    yield Sound(file.getvalue(), 0.0)


def _compressed(
    sentences: Iterator[Any], file: Any, muxer: str, encoder: str, options: dict[str, str]
) -> Iterator[float]:
    """Write sentences to a file, and yield the seconds of each."""
    av: Any = import_module("av")
    with av.open(file, "w", format=muxer, options=options) as container:
        try:
            stream = container.add_stream(encoder, rate=RATE, layout="mono")
        except ValueError as error:  # UnknownCodecError
            raise _EncoderMissing(encoder) from error
        position = 0
        for part in sentences:
            frame = av.AudioFrame.from_ndarray(part[None], format="s16", layout="mono")
            frame.sample_rate, frame.pts = RATE, position
            position += part.size
            container.mux(stream.encode(frame))
            yield part.size / RATE
        container.mux(stream.encode(None))


class _EncoderMissing(Exception):
    """FFmpeg was built without an encoder."""


class _Sink:
    """A file that cannot seek, whose bytes are taken as they come."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def write(self, data: bytes) -> int:
        """Append."""
        self._bytes += data
        return len(data)

    def take(self) -> bytes:
        """Return what was written since."""
        taken, self._bytes = bytes(self._bytes), bytearray()
        return taken
