"""Audio files: sounds in several formats, and hostile ones."""

from __future__ import annotations

import struct
import wave
from importlib import import_module
from io import BytesIO
from typing import Any

import numpy as np

RATE = 16000
HOURS = 3


def sound(seed: int, seconds: float, rate: int = RATE) -> Any:
    """Return a rising tone with noise, int16."""
    times = np.arange(int(rate * seconds)) / rate
    tone = 0.3 * np.sin(2 * np.pi * 100 * seed * times * (1 + times / seconds))
    noise = 0.05 * np.random.default_rng(seed).standard_normal(times.size)
    return ((tone + noise) * 32767).clip(-32768, 32767).astype(np.int16)


def wav_file(samples: Any, rate: int = RATE) -> bytes:
    """Return a WAV file of int16 samples."""
    file = BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(rate)
        writer.writeframes(samples.tobytes())
    return file.getvalue()


def encoded(samples: Any, container: str, codec: str, rate: int, *, repeated: int = 1) -> bytes:
    """Return a file of samples, `repeated`, in another format; needs PyAV."""
    av: Any = import_module("av")
    file = BytesIO()
    with av.open(file, "w", format=container) as writer:
        stream = writer.add_stream(codec, rate=rate)
        stream.layout = "mono"
        size = stream.codec_context.frame_size or 4096
        resampler = av.AudioResampler(stream.format.name, "mono", rate, frame_size=size)
        for _ in range(repeated):
            frame = av.AudioFrame.from_ndarray(samples.reshape(1, -1), format="s16", layout="mono")
            frame.sample_rate = rate
            for part in resampler.resample(frame):
                writer.mux(stream.encode(part))
        for part in resampler.resample(None):
            writer.mux(stream.encode(part))
        writer.mux(stream.encode(None))
    return file.getvalue()


def wav_header(
    *, kind: int = 1, channels: int = 1, rate: int = RATE, bits: int = 16, size: int = 0
) -> bytes:
    """Return the head of a WAV file, which may lie."""
    block = channels * bits // 8
    form = struct.pack("<HHIIHH", kind, channels, rate, rate * block % 2**32, block % 2**16, bits)
    body = b"fmt " + struct.pack("<I", len(form)) + form + b"data" + struct.pack("<I", size)
    return b"RIFF" + struct.pack("<I", (4 + len(body) + size) % 2**32) + b"WAVE" + body


def hostile_files() -> dict[str, bytes]:
    """Return files by what is wrong with them; needs PyAV."""
    second = sound(3, 1.0)
    flac = encoded(second, "flac", "flac", RATE)
    ogg = encoded(sound(3, 1.0, 48000), "ogg", "libopus", 48000)
    mp4 = encoded(second, "ipod", "aac", RATE)
    silence = np.zeros(8000 * 60, np.int16)
    noise = np.random.default_rng(1).bytes(65536)
    nan = np.full(RATE, np.nan, "<f4").tobytes()
    infinite = np.full(RATE, np.inf, "<f4").tobytes()
    return {
        "empty": b"",
        "one byte": b"R",
        "zeros": bytes(65536),
        "noise": noise,
        "text": b"This is a text.\n" * 1000,
        "a picture": b"\x89PNG\r\n\x1a\n" + noise[:2000],
        "a document": b"%PDF-1.7\n" + noise[:2000],
        "an archive": b"PK\x03\x04" + noise[:2000],
        "a playlist": b"#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\n#EXT-X-ENDLIST\n",
        "a list of files": b"ffconcat version 1.0\nfile /etc/passwd\n",
        "a torn WAV head": wav_file(second)[:30],
        "a WAV head alone": wav_header(),
        "no channels": wav_header(channels=0, size=3200) + bytes(3200),
        "65,535 channels": wav_header(channels=65535, size=2**31) + bytes(3200),
        "no rate": wav_header(rate=0, size=3200) + bytes(3200),
        "4 GHz": wav_header(rate=2**32 - 1, size=3200) + bytes(3200),
        "4 GiB that are not there": wav_header(size=2**32 - 1) + second.tobytes(),
        "no numbers": wav_header(kind=3, bits=32, size=len(nan)) + nan,
        "infinite numbers": wav_header(kind=3, bits=32, size=len(infinite)) + infinite,
        "a torn FLAC file": flac[: len(flac) // 2],
        "a FLAC head before noise": flac[:100] + noise,
        "a torn Ogg file": ogg[:200],
        "a huge MP4 atom": mp4[:28] + b"\xff\xff\xff\xf0moov" + noise[:2000],
        "an MP4 file without its index": mp4[: mp4.index(b"moov")],
        "256 MiB of tags": b"ID3\x04\0\0\x7f\x7f\x7f\x7f" + noise[:2000],
        "a huge EBML size": b"\x1a\x45\xdf\xa3\x01\xff\xff\xff\xff\xff\xff\xfe" + noise[:500],
        f"{HOURS} hours of silence": encoded(silence, "flac", "flac", 8000, repeated=HOURS * 60),
    }
