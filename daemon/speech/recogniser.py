"""Turns audio into text with faster-whisper, in the process that is confined for it."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from io import BytesIO
from typing import Any

from ingle.backends.hardware.cpu_inventory import read_inventory
from ingle.backends.hardware.thread_plan import plan_threads

from .speech_protocol import (
    EndOfSpeech,
    NextSegment,
    OpenSpeechModel,
    Recognise,
    Recognised,
    Segment,
    SpeechFailed,
    SpeechMessage,
    SpeechModelOpened,
    SpeechReply,
    TranscribedSegment,
    Word,
)

MOST_SECONDS = 3600
"""Of audio; an hour takes about 3 GB while it is prepared."""
_RATE = 16000
_GROUP = 500_000
"""Samples that are resampled at once, as faster-whisper does."""
_FORMATS = "aac,ac3,aiff,amr,asf,au,caf,flac,matroska,mov,mp3,mpegts,ogg,wav,w64"
"""Names of FFmpeg's demuxers; others, such as playlists, would open further files."""
_TEMPERATURES = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
_NO_MEMORY = SpeechFailed("it takes too much memory")


class Recogniser:
    """One model, and the recognition that it is at."""

    def __init__(self) -> None:
        self._model: Any = None
        self._segments: Iterator[Any] = iter(())

    def answer(self, message: SpeechMessage) -> SpeechReply:
        """Return the answer to one message; never raises."""
        try:
            match message:
                case OpenSpeechModel():
                    return self._open(message)
                case Recognise():
                    return self._begin(message)
                case NextSegment():
                    return self._next()
        except MemoryError:
            return _NO_MEMORY
        except Exception as error:  # native code has its own
            if "alloc" in str(error):
                return _NO_MEMORY
            what = f"{type(error).__name__}: {error}" if self._model is None else "it failed"
            return SpeechFailed(what[:300], param="")

    def _open(self, message: OpenSpeechModel) -> SpeechReply:
        threads = plan_threads(read_inventory(), message.threads).threads
        self._model = _import("faster_whisper").WhisperModel(
            message.folder, device="cpu", compute_type="int8", cpu_threads=threads
        )
        return SpeechModelOpened()

    def _begin(self, message: Recognise) -> SpeechReply:
        self._segments = iter(())
        languages: list[str] = self._model.supported_languages
        if message.language is not None and message.language not in languages:
            known = ", ".join(sorted(languages))
            return SpeechFailed(f"the model knows {known}", param="language")
        audio = decode_audio(message.data)
        if isinstance(audio, SpeechFailed):
            return audio
        if not audio.size:
            return SpeechFailed("it has no sound")
        self._segments, info = self._model.transcribe(
            audio,
            language=message.language,
            task="translate" if message.translate else "transcribe",
            initial_prompt=message.prompt,
            temperature=message.temperature or _TEMPERATURES,
            vad_filter=message.skip_silence,
            word_timestamps=message.words,
        )
        return Recognised(info.language, info.duration)

    def _next(self) -> SpeechReply:
        found = next(self._segments, None)
        if found is None:
            return EndOfSpeech()
        part = TranscribedSegment(
            id=found.id,
            seek=found.seek,
            start=float(found.start),
            end=float(found.end),
            text=found.text,
            tokens=found.tokens,
            temperature=found.temperature,
            avg_logprob=float(found.avg_logprob),
            compression_ratio=float(found.compression_ratio),
            no_speech_prob=float(found.no_speech_prob),
        )
        return Segment(
            part, [Word(w.word, float(w.start), float(w.end)) for w in found.words or ()]
        )


def _import(name: str) -> Any:
    """Import one of the engine's packages, which ingle's own environment lacks."""
    return import_module(name)


def decode_audio(data: bytes) -> Any:
    """Return the samples of a file as faster-whisper decodes it, float32 at 16 kHz, or a failure.

    At most `MOST_SECONDS` are decoded.
    """
    import numpy as np

    av = _import("av")
    resampler = av.AudioResampler(format="s16", layout="mono", rate=_RATE)
    parts: list[Any] = []
    samples = 0
    try:
        options = {"format_whitelist": _FORMATS, "protocol_whitelist": "none"}
        with av.open(
            BytesIO(data), metadata_errors="ignore", container_options=options
        ) as container:
            if not container.streams.audio:
                return SpeechFailed("it has no sound")
            for group in _groups(container):
                for frame in resampler.resample(group):
                    parts.append(frame.to_ndarray().reshape(-1))
                    samples += frame.samples
                if samples > MOST_SECONDS * _RATE:
                    return SpeechFailed(f"it is longer than {MOST_SECONDS // 60} minutes")
    except MemoryError:
        return SpeechFailed("it takes too much memory")
    except av.FFmpegError:
        return SpeechFailed("it is damaged, or no audio file of a known format")
    sound = np.concatenate(parts) if parts else np.zeros(0, np.int16)
    return sound.astype(np.float32) / 32768.0


def _groups(container: Any) -> Iterator[Any]:
    """Yield the decodable frames of the first audio stream in groups, then None."""
    av = _import("av")
    fifo = av.AudioFifo()
    frames = container.decode(audio=0)
    while True:
        try:
            frame = next(frames, None)
        except av.InvalidDataError:
            continue
        if frame is not None:
            frame.pts = None
            fifo.write(frame)
        if fifo.samples >= _GROUP or (frame is None and fifo.samples):
            yield fifo.read()
        if frame is None:
            yield None
            return
